"""What is particular about one coding agent, and nothing else: how it is asked, and what its stream means.

Everything they have in common (process, deadline, records, false success, limits) is in `headless` and `settling`.
A dialect is pure: it makes a command line out of an `Ask` and events out of lines, and touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from interlock.agents.coding.events import Event, Planned, ToolState, ToolUsed
from interlock.agents.coding.trouble import CallTrouble
from interlock.agents.runner import Allowance, Usage


@dataclass(frozen=True)
class RoleText:
    """A role as an agent gets it: instructions that hold for the whole call."""

    name: str
    """Fit for a file name and for a command line."""
    description: str
    text: str


@dataclass(frozen=True)
class Ask:
    """One call of a coding agent, before it has any command line."""

    prompt: str
    """The brief, without the role's text where `role` carries it; to a session that goes on, that it should."""
    workspace: Path
    folder: Path
    """Where files that the call needs can be put: the agent sees it at this path."""
    role: RoleText | None = None
    model: str | None = None
    args: tuple[str, ...] = ()
    """What the settings add to the command line."""
    confined: bool = False
    """The kernel holds it: permissions and a sandbox of its own would only be in the way."""
    resume: str | None = None
    """A session of its own that was cut off, to go on with."""
    new_session: str = ""
    """A name for a new session, for agents that would tell theirs too late; a UUID."""
    allowance: Allowance | None = None

    @property
    def undivided(self) -> Ask:
        """The same with the role at the head of the prompt, where a session that goes on has it already."""
        if self.role is None:
            return self
        prompt = self.prompt if self.resume is not None else f"{self.role.text}\n\n{self.prompt}"
        return replace(self, prompt=prompt, role=None)


ARGUMENT_LIMIT: Final = 128 * 1024 - 1
"""Bytes of one argument, or of one variable with its name, that Linux hands over to a program."""


def fits(argument: str) -> bool:
    """Whether a program can be started with it."""
    return len(argument.encode(errors="surrogateescape")) <= ARGUMENT_LIMIT


def with_fitting_role(ask: Ask, argument: Callable[[RoleText], str]) -> Ask:
    """The ask itself, or undivided where its role is too long for the finished `argument` that would carry it."""
    return ask if ask.role is None or fits(argument(ask.role)) else ask.undivided


@dataclass(frozen=True)
class Invocation:
    """How an agent is started for one call."""

    argv: tuple[str, ...]
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    """Written before the start, in the folder of the ask."""
    leaves: tuple[Path, ...] = ()
    """Files in which the agent says what its stream does not; for a reader that looks back."""


@dataclass(frozen=True)
class Conclusion:
    """What the whole stream of a call comes to."""

    text: str = ""
    """The final message."""
    finished: bool = False
    """The agent itself reported the end of its turn; without that nothing is believed."""
    acted: bool = False
    """It used at least one tool."""
    session: str | None = None
    usage: Usage | None = None
    trouble: CallTrouble | None = None
    waiting: str = ""
    """Why it waits for its model service, where that is the last that is known of it."""
    exhausted: bool = False
    """It stopped by itself, because its allowance was used up."""


class StreamReader(Protocol):
    """Reads the stream of one call, line by line."""

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        """What this JSON object of the stream says; nothing for objects that are not known."""
        ...

    def conclude(self) -> Conclusion:
        """What was said in all; callable at any moment, also after half a stream."""
        ...


@dataclass
class Reading:
    """What the stream of one call has said so far; the readers of the agents add to it."""

    session: str | None = None
    text: str = ""
    finished: bool = False
    acted: bool = False
    usage: Usage | None = None
    waiting: str = ""
    exhausted: bool = False
    tools: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Those that are at work, by call: name and subject."""

    def trouble(self) -> CallTrouble | None:
        """What went wrong, as far as the stream says it."""
        return None

    def conclude(self) -> Conclusion:
        found, waiting, exhausted = self.trouble(), self.waiting, self.exhausted
        return Conclusion(
            self.text, self.finished, self.acted, self.session, self.usage, found, waiting=waiting, exhausted=exhausted
        )

    def tool(self, call: str, name: str, subject: str) -> Event:
        """It begins to use a tool."""
        self.acted = True
        self.tools[call] = name, subject
        return ToolUsed(call, name, subject)

    def tool_ended(self, call: str, state: ToolState, why: str = "") -> Iterator[Event]:
        if (known := self.tools.pop(call, None)) is not None:
            yield ToolUsed(call, *known, state=state, why=why)


@runtime_checkable
class LooksBack(Protocol):
    """A reader that wants to know, when the process has ended, what it left besides its stream."""

    def look_back(self, last_words: str, left: Mapping[Path, str]) -> None:
        """Called before `conclude`.

        Args:
            last_words: the end of what it wrote to its standard error.
            left: those of `Invocation.leaves` that are there.
        """
        ...


class Dialect(Protocol):
    """One coding agent that is started once per call."""

    @property
    def name(self) -> str: ...

    @property
    def program(self) -> str:
        """The program's usual name on PATH."""
        ...

    def invocation(self, program: str, ask: Ask) -> Invocation: ...

    def reader(self, ask: Ask) -> StreamReader: ...


def text_of(value: object) -> str:
    """A JSON value as text; empty for anything else."""
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def tokens_of(read: int | None, written: int | None) -> Usage | None:
    """What the model read and wrote; zeros are what agents count when every request failed."""
    return Usage(read, written) if read or written else None


def plan_of(entries: object, text: str = "content") -> Planned:
    """A list of tasks, as it is given whole to the tools that are made for one."""
    given = map(mapping_of, list_of(entries))
    return Planned(tuple((text_of(entry.get(text)), text_of(entry.get("status"))) for entry in given))


def subject_of(arguments: Mapping[str, Any]) -> str:
    """What a tool call is about, for a person: the path, command or query among its arguments."""
    for name in (
        "file_path",
        "filePath",
        "path",
        "absolute_path",
        "command",
        "cmd",
        "pattern",
        "query",
        "url",
        "description",
    ):
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            return " ".join(str(part) for part in value)
    return ""
