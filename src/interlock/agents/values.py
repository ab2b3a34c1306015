"""What passes between the engine and a coding agent: values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from interlock.documents.model import Model


class Usage(Model):
    """What a call cost, as far as the client tells. None: unknown, never 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """The sum of what is known; what nobody told adds nothing."""
        known: dict[str, Any] = self.model_dump(exclude_none=True)
        for name, value in other.model_dump(exclude_none=True).items():
            known[name] = known.get(name, 0) + value
        return Usage(**known)

    @property
    def tokens(self) -> int | None:
        known = [count for count in (self.input_tokens, self.output_tokens) if count is not None]
        return sum(known) if known else None


class TroubleKind(StrEnum):
    """Why a call did not come to an end of its own, as far as the client's words or status say."""

    LIMIT = "limit"
    """The service takes no more for now: waited for (RUN-15)."""
    LOGIN = "login"
    MODEL = "model"
    """Unknown or not allowed."""
    REFUSED = "refused"
    """The service refuses this request as such."""
    SESSION = "session"
    """The session to go on with is unknown: start anew."""
    BUSY = "busy"
    """Overloaded, unreachable, an error of the service: weather."""
    OTHER = "other"


class Trouble(Model):
    kind: TroubleKind
    text: str
    """The client's own words, cut to a few lines."""
    until: datetime | None = None
    """When a limit passes, where the service tells."""


class NewsKind(StrEnum):
    SESSION = "session"
    """facts: session, model"""
    TEXT = "text"
    """facts: text"""
    TOOL = "tool"
    """facts: call, name, subject (one line), state = began | done | failed | refused, why"""
    USAGE = "usage"
    """facts: input_tokens, output_tokens, cost_usd; so far, of this call"""
    WAITING = "waiting"
    """facts: why, and `seconds` where the client itself waits for its service, `until` where the engine does"""


class News(Model):
    """What an agent is heard to do while it works: for people who watch, for the budget, for the transcript."""

    kind: NewsKind
    facts: dict[str, Any] = {}


class Role(Model):
    """Who plays a role: resolved before anything is paid for."""

    name: str
    """The role's name in the playbook (`INTERLOCK_AGENT`)."""
    text: str = ""
    """What its file tells it, without front matter; rendered into the brief."""
    source: str = ""
    """The file that it came from, where that is not one of ours."""
    runner: str
    """The name under which settings know it: `claude`, or a name of `[runners]`."""
    type: str
    """claude | codex | copilot | opencode | gemini | qwen | acp | command | scripted"""
    program: str = ""
    """What settings start in place of the client's own."""
    model: str = ""
    timeout_s: float | None = None
    writes: tuple[str, ...] | None = None
    """A scope that settings narrow it to."""


class Ask(Model):
    """One start of a client: all that it is told."""

    role: Role
    brief: str
    form: dict[str, Any] | None = None
    """The JSON Schema of the form that is asked for."""
    samples: dict[str, str] = {}
    """The outputs that the contract names, each at its best; empty: any text. For who plays by script."""
    outputs: tuple[str, ...] = ()
    """The documents that it has to leave."""
    known: dict[str, Any] = {}
    """Fields of the form that follow from the dispatch (the criteria it was given): for who plays by script."""
    session: str = ""
    """The client's own session to go on with."""
    spent: Usage = Usage()
    """What that session has cost before, as recorded: some clients count it again."""
    marker: str = ""
    """Stands in the environment of everything that this call starts, so that leftovers are found."""
    env: dict[str, str] = {}
    """What settings give to this runner, and the plain protocol's variables; they win over all others."""
    timeout_s: float = 3600
    grace_s: float = 0
    """At the deadline partial results are asked for, and this long waited for."""
    hands: dict[str, Any] = {}
    """What a run that is started within its layer finds there."""
    budget_usd: float | None = None
    budget_tokens: int | None = None
    transcript: Path
    """Where the client's stream is kept, redacted, cut at 50 MB."""


@dataclass(frozen=True)
class Room:
    """Where a client is started, as far as its command line depends on it."""

    program: str
    confined: bool = True
    """The kernel holds it: permissions and a sandbox of its own would only be in the way."""
    root: Path = Path("/")
    """The workspace's top, as it sees it."""
    exchange: str = ""
    """The folder, as it sees it, where the files of its start lie."""
    new_session: str = ""
    """A name for a new session, for clients that would tell theirs too late; a UUID."""
    place: str = "."
    """Where it works, from the top."""


class Exit(Model):
    """How a call ended. It counts only if `finished`."""

    finished: bool
    """The client's stream says that the turn ended, and something was said or done."""
    text: str = ""
    form: Any = None
    """What the client itself gave as structured answer, unchecked; the engine looks for a fenced block else."""
    exit: int | None = None
    """None where it was ended by us, or never started."""
    started: bool = True
    timed_out: bool = False
    late: bool = False
    """It ended after its deadline, when partial results had been asked for."""
    over: str = ""
    """Which bound of the layer it broke; nothing of it counts."""
    exhausted: bool = False
    """Ended because its share of the budget was used up."""
    trouble: Trouble | None = None
    session: str = ""
    model: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    refused: tuple[str, ...] = ()
    """Tool calls that the client or its rules did not allow, in a line each."""
    stderr: str = ""
    """The last lines, redacted."""


class CommandExit(Model):
    """How a command of the engine ended."""

    exit: int | None = None
    """None: ended by us, or never started."""
    error: str = ""
    """Why it could not be run at all: no such program, not executable."""
    timed_out: bool = False
    seconds: float = 0.0
    out: str = ""
    """What it printed, both streams together in order, redacted, cut in the middle at 1 MB."""
