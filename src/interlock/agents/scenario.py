"""Scenarios: what scripted agents do, told in YAML; the pure part of the `scripted` runner.

    strict: false            # true: whatever the scenario leaves open is an error instead of being filled in
    reactions:               # the first that fits is played
      - agent: Implement     # fits by agent, member, step, attempt, playbook: globs, or a list of them; all optional
        attempt: 1
        times: 1             # is used at most this often by one process, then the next that fits
        files:               # path: content. An object or list is written as JSON; null: not even the sample is
          src/login.py: "print('login')"
        append: {notes.md: "Attempt {attempt} of {member}\\n"}
        delete: [old.txt]
        delay_s: 0.5         # thinks this long before anything else
        run: [python3, -m, pytest, -q]   # really executed in the workspace, after the files are written
        status: success      # the verdict, in the format of the contract
        otherwise: needs_revision        # the verdict if `run` fails (without it, its exit status is the agent's)
        message: All done.   # the answer; with a status, what stands before the verdict
        result: {status: success}        # the JSON of the result file
        usage: {input_tokens: 900, output_tokens: 100, cost_usd: 0.01}
        exit: 0
      - agent: ct-*
        misbehave: hang      # hang | crash | write_outside | no_verdict | bad_json | huge_output | lie

``{playbook} {step} {agent} {member} {attempt} {session} {task}`` in contents, paths and messages are replaced
(the task is the first line below ``## Task`` in the brief); ``{run}`` in a message is the end of what `run` printed.
All other braces stay as they are.

Where a scenario is silent the contract is satisfied with the best verdict: each required artifact gets a sample of
its structure, and the answer a sample of its format; who is called to change files says why none are changed.  A
`message` without a `status` is the whole answer, as it is.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from interlock.agents.records import usage_from
from interlock.agents.runner import AgentRequest, Usage
from interlock.documents import YamlDocument
from interlock.documents.paths import plain_parts
from interlock.errors import DocumentInvalid, PathRefused

if TYPE_CHECKING:
    from interlock.contracts import Contract

OUTSIDE: Final = ("interlock-outside.txt", "outside/interlock-outside.txt")
"""What `write_outside` writes beside its work."""
RUN: Final = "{run}"


class Misbehaviour(StrEnum):
    HANG = "hang"
    """Does its work and never ends."""
    CRASH = "crash"
    """Dies by a signal when half of its work is written."""
    WRITE_OUTSIDE = "write_outside"
    """Does its work and writes where it may not."""
    NO_VERDICT = "no_verdict"
    """Does its work and answers without a verdict."""
    BAD_JSON = "bad_json"
    """Does its work and answers in broken JSON."""
    HUGE_OUTPUT = "huge_output"
    """Does its work and answers with 60 MB."""
    LIE = "lie"
    """Claims the best verdict and does nothing."""


@dataclass(frozen=True)
class Facts:
    """What a scenario can match and mention."""

    playbook: str
    step: str
    agent: str
    member: str
    attempt: int
    session: str = ""
    task: str = ""

    @classmethod
    def of(cls, request: AgentRequest) -> Facts:
        task = _TASK.search(request.brief)
        return cls(
            request.playbook,
            request.step,
            request.agent,
            request.member,
            request.attempt,
            request.session,
            task["line"].strip() if task else "",
        )

    def fill(self, text: str) -> str:
        """The text with the known placeholders replaced, once."""
        return _PLACEHOLDER.sub(lambda found: str(getattr(self, found[1])), text)


_TASK: Final = re.compile(r"^## Task[ \t]*\n\s*(?P<line>[^\n]+)", re.MULTILINE)
_PLACEHOLDER: Final = re.compile("{(" + "|".join(entry.name for entry in fields(Facts)) + ")}")


@dataclass(frozen=True)
class Rule:
    """One entry of `reactions`, as it is written."""

    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    times: int | None = None
    files: Mapping[str, str | None] = field(default_factory=dict)
    append: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    delay_s: float = 0.0
    run: tuple[str, ...] = ()
    status: str | None = None
    otherwise: str | None = None
    message: str | None = None
    result: str | None = None
    usage: Usage | None = None
    exit: int = 0
    misbehave: Misbehaviour | None = None

    def fits(self, facts: Facts) -> bool:
        return all(
            any(fnmatchcase(str(getattr(facts, name)), glob) for glob in globs) for name, globs in self.match.items()
        )


@dataclass(frozen=True)
class Scenario:
    """The rules in their order."""

    rules: tuple[Rule, ...] = ()
    strict: bool = False

    @classmethod
    def parse(cls, text: str, path: str) -> Scenario:
        """The scenario in a YAML text; DocumentInvalid names the line of whatever is wrong."""
        return _Reader(YamlDocument.parse(text, path)).scenario()


@dataclass(frozen=True)
class Reaction:
    """All that one call does, decided before anything happens."""

    rule: int | None = None
    """Index of the rule that fired, for counting its uses; ``None``: the scenario says nothing of this call."""
    files: tuple[tuple[str, bytes], ...] = ()
    append: tuple[tuple[str, bytes], ...] = ()
    delete: tuple[str, ...] = ()
    delay_s: float = 0.0
    run: tuple[str, ...] = ()
    message: str = ""
    """The answer; may hold `RUN`."""
    failed_message: str | None = None
    """The answer if `run` fails; ``None``: then the exit status of `run` is the agent's."""
    result: bytes | None = None
    usage: Usage | None = None
    exit: int = 0
    misbehave: Misbehaviour | None = None
    refused: str | None = None
    """Why a strict scenario does not play this call; nothing else is set then."""


def react(scenario: Scenario, facts: Facts, contract: Contract | None, uses: Mapping[int, int]) -> Reaction:
    """What the scenario makes an agent do.

    Args:
        contract: what will be checked, and is satisfied where the scenario is silent.
        uses: how often each rule was used so far, by its index.
    """
    for index, rule in enumerate(scenario.rules):
        if rule.fits(facts) and (rule.times is None or uses.get(index, 0) < rule.times):
            break
    else:
        index, rule = None, Rule()
        if scenario.strict:
            return Reaction(refused=_silent(facts, "has no reaction for it"))
    if scenario.strict and (gap := _gap(rule, facts, contract)):
        return Reaction(rule=index, refused=_silent(facts, gap))
    lie = rule.misbehave is Misbehaviour.LIE
    files = {} if lie else _files(rule, facts, contract)
    if rule.misbehave is Misbehaviour.WRITE_OUTSIDE:
        files |= dict.fromkeys(OUTSIDE, b"This is outside of every write scope.\n")
    message = _message(rule, rule.status, facts, contract)
    result = None if rule.result is None else facts.fill(rule.result).encode()
    if rule.misbehave is Misbehaviour.NO_VERDICT:
        message, result = facts.fill(rule.message or "I have done what was asked.\n"), None
    elif rule.misbehave is Misbehaviour.BAD_JSON:
        message, result = _BROKEN, _BROKEN.encode()
    return Reaction(
        rule=index,
        files=tuple(files.items()),
        append=()
        if lie
        else tuple((_path(path, facts), facts.fill(text).encode()) for path, text in rule.append.items()),
        delete=() if lie else tuple(_path(path, facts) for path in rule.delete),
        delay_s=rule.delay_s,
        run=tuple(facts.fill(argument) for argument in rule.run),
        message=message,
        failed_message=None if rule.otherwise is None else _message(rule, rule.otherwise, facts, contract),
        result=result,
        usage=rule.usage,
        exit=rule.exit,
        misbehave=rule.misbehave,
    )


_BROKEN: Final = '```json\n{"status": "comple\n```\n'
_ONLY_PLAYED: Final = "this part is only played, and the scenario names no files for it."
_PLAIN: Final = "Written by the scripted agent {member}, attempt {attempt}.\n"


def _silent(facts: Facts, what: str) -> str:
    call = f"agent {facts.agent!r} ({facts.member}), step {facts.step!r}, attempt {facts.attempt}"
    return f"the strict scenario {what}: {call}"


def _gap(rule: Rule, facts: Facts, contract: Contract | None) -> str | None:
    """What a strict scenario should have said; failures and misbehaviour need no more words."""
    if contract is None or rule.misbehave is not None or rule.exit != 0:
        return None
    answer_needed = not (contract.answer.artifact_is_verdict or contract.answer.exit_is_verdict)
    if answer_needed and rule.status is None and rule.message is None and rule.result is None:
        return "gives no answer"
    told = {_path(path, facts) for path in (*rule.files, *rule.append, *rule.delete)}
    for artifact in contract.artifacts:
        if artifact.required and artifact.path not in told and not rule.run:
            return f"does not say what is in {artifact.path}"
    return None


def _files(rule: Rule, facts: Facts, contract: Contract | None) -> dict[str, bytes]:
    told = {_path(path, facts): content for path, content in rule.files.items()}
    silent_about = told.keys() | {_path(path, facts) for path in (*rule.append, *rule.delete)}
    files = {
        artifact.path: (artifact.structure.sample() if artifact.structure else facts.fill(_PLAIN)).encode()
        for artifact in (contract.artifacts if contract else ())
        if artifact.played(silent_about)
    }
    return files | {path: facts.fill(content).encode() for path, content in told.items() if content is not None}


def _message(rule: Rule, status: str | None, facts: Facts, contract: Contract | None) -> str:
    said = None if rule.message is None else facts.fill(rule.message)
    if status is None and said is not None:
        return said
    if contract is None:
        verdict = "Done." if status is None else f"Status: {status}"
    else:
        from interlock.contracts import NO_CHANGE, sample

        verdict = sample(contract.answer, status)
        if said is None and contract.must_change and not (rule.files or rule.append or rule.delete or rule.run):
            said = f"{NO_CHANGE}: {_ONLY_PLAYED}"
        if said is not None and contract.answer.completion == "json":
            verdict = f"```json\n{verdict}\n```"
    return f"{verdict}\n" if said is None else f"{said.rstrip()}\n\n{verdict}\n"


def _path(path: str, facts: Facts) -> str:
    return "/".join(plain_parts(facts.fill(path)))


_MATCH: Final = ("agent", "member", "step", "attempt", "playbook")
_At = tuple[str | int, ...]
"""The keys that lead to a value of the document."""


class _Reader:
    """Turns the data of a scenario into rules, and what is wrong into an error with its line."""

    def __init__(self, document: YamlDocument) -> None:
        self._document = document

    def scenario(self) -> Scenario:
        data = {} if self._document.data is None else self._mapping((), self._document.data)
        self._known((), data, ("strict", "reactions"))
        reactions = data.get("reactions") or []
        if not isinstance(reactions, list):
            raise self._wrong(("reactions",), "a list of reactions")
        strict = data.get("strict", False)
        if not isinstance(strict, bool):
            raise self._wrong(("strict",), "true or false")
        return Scenario(tuple(self._rule(index) for index in range(len(reactions))), strict)

    def _rule(self, index: int) -> Rule:
        at: _At = ("reactions", index)
        data = self._mapping(at, self._document.get(at))
        readers: Mapping[str, Callable[[_At, Any], Any]] = {
            "times": lambda at, value: self._whole(at, value, range(1, 1_000_000), "a number from 1"),
            "files": self._contents,
            "append": self._appended,
            "delete": lambda at, value: tuple(self._path(at, path) for path in self._texts(at, value)),
            "delay_s": self._seconds,
            "run": self._texts,
            "status": self._text,
            "otherwise": self._text,
            "message": self._text,
            "result": lambda _, value: _json(value),
            "usage": self._usage,
            "exit": lambda at, value: self._whole(at, value, range(256), "an exit status from 0 to 255"),
            "misbehave": self._misbehaviour,
        }
        self._known(at, data, (*_MATCH, *readers))
        values = {name: read((*at, name), data[name]) for name, read in readers.items() if name in data}
        return Rule(match={name: self._globs((*at, name), data[name]) for name in _MATCH if name in data}, **values)

    def _globs(self, at: _At, value: Any) -> tuple[str, ...]:
        globs = value if isinstance(value, list) else [value]
        if not globs or not all(isinstance(glob, str | int) and not isinstance(glob, bool) for glob in globs):
            raise self._wrong(at, "a name, a number or a glob, or a list of them")
        return tuple(str(glob) for glob in globs)

    def _contents(self, at: _At, value: Any) -> dict[str, str | None]:
        def content(path: str, value: Any) -> str | None:
            if value is None:
                return None
            return _json(value) if isinstance(value, dict | list) else self._text((*at, path), value)

        return {self._path(at, path): content(path, value) for path, value in self._mapping(at, value).items()}

    def _appended(self, at: _At, value: Any) -> dict[str, str]:
        return {
            self._path(at, path): self._text((*at, path), value) for path, value in self._mapping(at, value).items()
        }

    def _usage(self, at: _At, value: Any) -> Usage:
        if (usage := usage_from(self._mapping(at, value))) is None:
            raise self._wrong(at, "input_tokens, output_tokens, cost_usd with numbers from 0")
        return usage

    def _misbehaviour(self, at: _At, value: Any) -> Misbehaviour:
        known = [str(one) for one in Misbehaviour]
        if value not in known:
            raise self._wrong(at, "one of " + ", ".join(known), _nearest(str(value), known))
        return Misbehaviour(value)

    def _text(self, at: _At, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(at, "a text (in quotes, if it looks like something else)")
        return value

    def _texts(self, at: _At, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise self._wrong(at, "a list of texts")
        return tuple(self._text((*at, index), item) for index, item in enumerate(value))

    def _path(self, at: _At, path: str) -> str:
        try:
            if not plain_parts(path):
                raise PathRefused(path, "it names no file")
        except PathRefused as error:
            raise self._wrong(at, "relative paths of files inside the workspace", f": {error.what}") from error
        return path

    def _mapping(self, at: _At, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(at, "keys with values")
        return value

    def _seconds(self, at: _At, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise self._wrong(at, "a number of seconds from 0")
        return float(value)

    def _whole(self, at: _At, value: Any, allowed: range, expected: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
            raise self._wrong(at, expected)
        return value

    def _known(self, at: _At, data: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in data:
            if key not in known:
                raise DocumentInvalid(
                    f"unknown key {key!r} in the scenario{_nearest(key, known)}",
                    path=self._document.path,
                    line=self._document.line((*at, key)),
                    expected="one of " + ", ".join(known),
                    found=key,
                )

    def _wrong(self, at: _At, expected: str, hint: str = "") -> DocumentInvalid:
        return DocumentInvalid(
            f"{'.'.join(map(str, at)) or 'the scenario'} is not usable{hint}",
            path=self._document.path,
            line=self._document.line(at),
            expected=expected,
            found=repr(self._document.get(at)),
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
