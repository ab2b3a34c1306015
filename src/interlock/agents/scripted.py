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

Where a scenario is silent, the answer is the best that the form takes (`answers`).  What happens is decided here; a
shell, started like any agent, does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from interlock.agents.answers import PROSE, best, said
from interlock.agents.client import ClientRow, Start
from interlock.agents.command import Answer
from interlock.agents.output import TRANSCRIPT_LIMIT
from interlock.agents.values import Ask, Room
from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import Text, read_yaml

OUTSIDE = ("interlock-outside.txt", "outside/interlock-outside.txt")
"""What `write_outside` writes beside its work."""
_BROKEN = '```json\n{"status": "comple\n```\n'
_HUGE = 60_000_000


def _inside(path: str) -> str:
    place = PurePosixPath(path)
    if not place.parts or place.is_absolute() or ".." in place.parts:
        raise ValueError("a relative path of a file inside the workspace is expected")
    return path


Globs = Annotated[
    tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
]


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

    ROW = ClientRow("scripted", "scripted agent", "/bin/sh", tells_tokens=False)

    def __init__(self, scenario: Scenario | None = None) -> None:
        self._scenario = scenario or Scenario()

    def start(self, ask: Ask, room: Room) -> Start:
        reaction = next((one for one in self._scenario.reactions if one.fits(ask.env)), Reaction())
        return Start((room.program, "-s"), "\n".join(_script(reaction, ask, room.root)), keep=TRANSCRIPT_LIMIT)

    def reader(self, ask: Ask, room: Room) -> Answer:
        return Answer(ask, room)


def _script(reaction: Reaction, ask: Ask, root: Path) -> Iterator[str]:
    """What the shell is told to do."""
    files, text = _work(reaction, ask), _words(reaction, ask)
    if reaction.misbehave == "crash":  # in the middle: half of the files, the last one torn, and half of the answer
        files = files[: (len(files) + 1) // 2]
        files[-1:] = [(path, content[: len(content) // 2]) for path, content in files[-1:]]
        text = text[: len(text) // 2]
    yield f"set -e; sleep {reaction.delay}"
    for path, content in files:
        place = root / path
        yield f"mkdir -p {quote(str(place.parent))}; printf %s {quote(content)} > {quote(str(place))}"
    if reaction.misbehave == "hang":
        yield "while :; do sleep 3600; done"
    if reaction.misbehave == "huge_output":
        yield f"yes 'The scripted agent talks and talks and talks.' | head -c {_HUGE}; echo"
    yield f"printf %s {quote(text)}"
    yield "kill -9 $$" if reaction.misbehave == "crash" else f"exit {reaction.exit}"


def _work(reaction: Reaction, ask: Ask) -> list[tuple[str, str]]:
    """The files that it writes."""
    if reaction.misbehave == "lie":
        return []
    who = f"{ask.env.get('INTERLOCK_MEMBER', '')}, attempt {ask.env.get('INTERLOCK_ATTEMPT', '')}"
    files = reaction.files
    if files is None:
        files = {path: sample or f"Written by the scripted agent {who}.\n" for path, sample in ask.samples.items()}
    outside = OUTSIDE if reaction.misbehave == "write_outside" else ()
    return [*files.items(), *((path, "This is outside of every write scope.\n") for path in outside)]


def _words(reaction: Reaction, ask: Ask) -> str:
    """Its final message."""
    if reaction.misbehave == "bad_json":
        return _BROKEN
    if ask.form is None or reaction.misbehave == "no_verdict":
        return f"{PROSE}\n"
    return said({**best(ask.form, ask.known), **reaction.form})
