"""The `scripted` client: plays a scenario in place of agents, on real files in a real layer, without any model.

    reactions:               # the first that fits is played
      - agent: implement*    # fits by agent (or its member), step, attempt: globs, or a list of them; all optional
        attempt: 1
        delay: 0.5           # thinks so many seconds before anything else
        files:               # exactly these are written; left out: a sample of each output that the contract names
          src/login.py: "print('login')"
        form: {status: done} # fields of the answer; the others are the best that there is
        exit: 0
      - agent: ct-*
        misbehave: hang      # hang | crash | write_outside | no_verdict | bad_json | huge_output | lie

Where a scenario is silent, the answer is the best that the form takes (`answers`).  What happens is decided here;
`player`, a program that is started like any agent, does it.
"""

from __future__ import annotations

import json
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from interlock.agents import player
from interlock.agents.answers import PROSE, best, said
from interlock.agents.client import Row, Seat, Start
from interlock.agents.command import Answer
from interlock.agents.output import TRANSCRIPT_LIMIT
from interlock.agents.values import Ask
from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import Text, read_yaml

OUTSIDE = ("interlock-outside.txt", "outside/interlock-outside.txt")
"""What `write_outside` writes beside its work."""
_BROKEN = '```json\n{"status": "comple\n```\n'
_PLAYER = Path(player.__file__)


def _listed(value: Any) -> Any:
    return [str(one) if isinstance(one, int) else one for one in (value if isinstance(value, list) else [value])]


def _inside(path: str) -> str:
    place = PurePosixPath(path)
    if not place.parts or place.is_absolute() or ".." in place.parts:
        raise ValueError("a relative path of a file inside the workspace is expected")
    return path


Globs = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Reaction(Model):
    """What is done when a call fits."""

    agent: Globs = ("*",)
    step: Globs = ("*",)
    attempt: Globs = ("*",)
    delay: float = Field(default=0.0, ge=0)
    files: dict[Annotated[str, AfterValidator(_inside)], str] | None = None
    form: dict[str, Any] = {}
    exit: int = Field(default=0, ge=0, le=255)
    misbehave: Literal["hang", "crash", "write_outside", "no_verdict", "bad_json", "huge_output", "lie"] | None = None

    def fits(self, env: dict[str, str]) -> bool:
        facts = {"agent": ("AGENT", "MEMBER"), "step": ("STEP",), "attempt": ("ATTEMPT",)}
        return all(
            any(fnmatchcase(env.get(f"INTERLOCK_{fact}", ""), glob) for fact in names for glob in getattr(self, field))
            for field, names in facts.items()
        )


class Scenario(Model):
    reactions: tuple[Reaction, ...] = ()

    @classmethod
    def parse(cls, raw: bytes, path: str) -> Scenario:
        """The scenario in a YAML file; DocumentInvalid names the line of whatever is wrong."""
        source = read_yaml(Text.of(raw, path).text, path)
        return cls() if source.data is None else load(cls, source)


class Scripted:
    """An agent for every name: does what the scenario says, and else what form and contract ask for."""

    def __init__(self, scenario: Scenario | None = None) -> None:
        program = os.path.realpath(sys.executable)
        shows = (sys.base_prefix, str(_PLAYER.parent))
        self.ROW = Row(
            "scripted",
            "scripted agent",
            program,
            shows=shows,
        )
        self._scenario = scenario or Scenario()

    def start(self, ask: Ask, seat: Seat) -> Start:
        reaction = next((one for one in self._scenario.reactions if one.fits(ask.env)), Reaction())
        order = {"root": str(seat.root), **_order(reaction, ask)}
        return Start((seat.program, "-I", "-S", str(_PLAYER)), json.dumps(order), keep=TRANSCRIPT_LIMIT)

    def reader(self, ask: Ask, seat: Seat) -> Answer:
        return Answer()


def _order(reaction: Reaction, ask: Ask) -> dict[str, Any]:
    """What the player is told to do."""
    who = f"{ask.env.get('INTERLOCK_MEMBER', '')}, attempt {ask.env.get('INTERLOCK_ATTEMPT', '')}"
    files = reaction.files
    if files is None:
        files = {path: sample or f"Written by the scripted agent {who}.\n" for path, sample in ask.samples.items()}
    if reaction.misbehave == "write_outside":
        files = {**files, **dict.fromkeys(OUTSIDE, "This is outside of every write scope.\n")}
    if reaction.misbehave == "bad_json":
        text = _BROKEN
    elif ask.form is None or reaction.misbehave == "no_verdict":
        text = f"{PROSE}\n"
    else:
        text = said({**best(ask.form, ask.known), **reaction.form})
    does = {} if reaction.misbehave == "lie" else files
    return {
        "delay": reaction.delay,
        "files": list(does.items()),
        "say": text,
        "exit": reaction.exit,
        "then": reaction.misbehave,
    }
