"""Scenarios: what scripted agents do, told in YAML; the pure part of the `scripted` runner.

    strict: false            # true: a call that no reaction fits is an error instead of being played at its best
    reactions:               # the first that fits is played
      - agent: Implement     # fits by agent, member, step, attempt, playbook: globs, or a list of them; all optional
        attempt: 1
        times: 1             # at most this often by one process, then the next that fits
        delay: 0.5           # thinks so many seconds before anything else
        files:               # path: content. An object or list is written as JSON; null: not even the sample is
          src/login.py: "print('login')"
        append: {notes.md: "Attempt {attempt} of {member}\\n"}
        delete: [old.txt]
        run: [pytest -q]     # shell commands, really run in the layer after the files are written
        form: {status: done} # fields of the answer; the others are the best that there is
        otherwise: {status: blocked}     # the same if `run` fails (without it, its exit status is the agent's)
        message: All done.   # what stands before the form; without `form` it is the whole answer
        usage: {input_tokens: 900, output_tokens: 100, cost_usd: 0.01}
        exit: 0
      - agent: ct-*
        misbehave: hang      # hang | crash | write_outside | no_verdict | bad_json | huge_output | lie

`{playbook} {step} {agent} {member} {attempt}` in paths, contents, commands and messages are replaced; `{run}` in a
message is the end of what `run` printed.  All other braces stay.  Where a scenario is silent, each output that the
contract names gets its sample, and the answer is the best that the form takes (`answers`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from interlock.agents.answers import PROSE, best, said
from interlock.agents.values import Ask, Usage
from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import Text, read_yaml
from interlock.errors import ConfigInvalid

OUTSIDE = ("interlock-outside.txt", "outside/interlock-outside.txt")
"""What `write_outside` writes beside its work."""
_FACTS = ("playbook", "step", "agent", "member", "attempt")
_PLACEHOLDER = re.compile("{(" + "|".join(_FACTS) + ")}")
_BROKEN = '```json\n{"status": "comple\n```\n'
_SAMPLE_OF_NOTHING = "Written by the scripted agent {member}, attempt {attempt}.\n"


class Misbehaviour(StrEnum):
    HANG = "hang"
    """Does its work and never ends."""
    CRASH = "crash"
    """Dies by a signal when half of its work is written."""
    WRITE_OUTSIDE = "write_outside"
    """Does its work and writes where it may not."""
    NO_VERDICT = "no_verdict"
    """Does its work and answers without a form."""
    BAD_JSON = "bad_json"
    HUGE_OUTPUT = "huge_output"
    """Does its work and answers with 60 MB."""
    LIE = "lie"
    """Claims the best and does nothing."""


def _listed(value: Any) -> Any:
    return [str(one) if isinstance(one, int) else one for one in (value if isinstance(value, list) else [value])]


def _inside(path: str) -> str:
    place = PurePosixPath(path)
    if not place.parts or place.is_absolute() or ".." in place.parts:
        raise ValueError("a relative path of a file inside the workspace is expected")
    return path


Listed = Annotated[tuple[str, ...], BeforeValidator(_listed)]
RelativePath = Annotated[str, AfterValidator(_inside)]


class Reaction(Model):
    """What is done when a call fits."""

    agent: Listed = ("*",)
    member: Listed = ("*",)
    step: Listed = ("*",)
    attempt: Listed = ("*",)
    playbook: Listed = ("*",)
    times: int | None = Field(default=None, ge=1)
    delay: float = Field(default=0.0, ge=0)
    files: dict[RelativePath, str | dict[str, Any] | list[Any] | None] = {}
    append: dict[RelativePath, str] = {}
    delete: tuple[RelativePath, ...] = ()
    run: Listed = ()
    form: dict[str, Any] | None = None
    otherwise: dict[str, Any] | None = None
    message: str | None = None
    usage: Usage = Usage()
    exit: int = Field(default=0, ge=0, le=255)
    misbehave: Misbehaviour | None = None

    def fits(self, facts: Mapping[str, str]) -> bool:
        return all(any(fnmatchcase(facts[name], glob) for glob in getattr(self, name)) for name in _FACTS)


class Scenario(Model):
    strict: bool = False
    reactions: tuple[Reaction, ...] = ()

    @classmethod
    def parse(cls, raw: bytes, path: str) -> Scenario:
        """The scenario in a YAML file; DocumentInvalid names the line of whatever is wrong."""
        source = read_yaml(Text.of(raw, path).text, path)
        return load(cls, source if source.data is not None else replace(source, data={}))


class Played(NamedTuple):
    order: dict[str, Any]
    """What the player is told to do."""
    usage: Usage
    rule: int | None
    """Index of the reaction that fired, for counting its uses."""


def react(scenario: Scenario, ask: Ask, uses: Mapping[int, int], root: str) -> Played:
    """What the scenario makes an agent do; ConfigInvalid where a strict one says nothing of this call.

    Args:
        uses: how often each reaction was used so far, by its index.
        root: the workspace, as it is seen from inside the layer.
    """
    facts = {name: ask.env.get(f"INTERLOCK_{name.upper()}", "") for name in _FACTS}
    for index, reaction in enumerate(scenario.reactions):
        if reaction.fits(facts) and (reaction.times is None or uses.get(index, 0) < reaction.times):
            return Played(_order(reaction, ask, facts, root), reaction.usage, index)
    if scenario.strict:
        told = ", ".join(f"{name} {value!r}" for name, value in facts.items())
        raise ConfigInvalid(f"the strict scenario has no reaction for this call: {told}")
    return Played(_order(Reaction(), ask, facts, root), Usage(), None)


def _order(reaction: Reaction, ask: Ask, facts: Mapping[str, str], root: str) -> dict[str, Any]:
    def fill(text: str) -> str:
        """Known placeholders replaced, once."""
        return _PLACEHOLDER.sub(lambda found: facts[found[1]], text)

    does = reaction.misbehave is not Misbehaviour.LIE
    told = {fill(path): content for path, content in reaction.files.items()}
    touched = {*told, *map(fill, reaction.append), *map(fill, reaction.delete)}
    samples = {path: sample for path, sample in ask.samples.items() if path not in touched}
    if ask.example and not (touched or reaction.run):
        samples[ask.example] = ""
    files = {path: sample or fill(_SAMPLE_OF_NOTHING) for path, sample in samples.items()}
    files |= {path: _content(content, fill) for path, content in told.items() if content is not None}
    if reaction.misbehave is Misbehaviour.WRITE_OUTSIDE:
        files |= dict.fromkeys(OUTSIDE, "This is outside of every write scope.\n")
    changed = not does or bool(files or reaction.append or reaction.delete or reaction.run)

    def message(form: dict[str, Any] | None) -> str:
        text = "" if reaction.message is None else fill(reaction.message)
        if reaction.misbehave is Misbehaviour.NO_VERDICT:
            return text or f"{PROSE}\n"
        if reaction.misbehave is Misbehaviour.BAD_JSON:
            return _BROKEN
        if ask.form is None or (form is None and reaction.message is not None):
            return text or f"{PROSE}\n"
        return said({**best(ask.form, ask.known, changed=changed), **(form or {})}, text)

    return {
        "root": root,
        "delay": reaction.delay,
        "files": list(files.items()) if does else [],
        "append": [(fill(path), fill(text)) for path, text in reaction.append.items()] if does else [],
        "delete": [fill(path) for path in reaction.delete] if does else [],
        "run": [fill(command) for command in reaction.run] if does else [],
        "say": message(reaction.form),
        "otherwise": None if reaction.otherwise is None else message(reaction.otherwise),
        "exit": reaction.exit,
        "then": _THEN.get(reaction.misbehave, "") if reaction.misbehave else "",
    }


_THEN = {Misbehaviour.HANG: "hang", Misbehaviour.CRASH: "crash", Misbehaviour.HUGE_OUTPUT: "huge"}


def _content(content: Any, fill: Any) -> str:
    return str(fill(content)) if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2) + "\n"
