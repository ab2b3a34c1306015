"""What a scripted model can be told to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.model_server.conversation import Usage


@dataclass(frozen=True)
class Write:
    """Write a file, with whatever tool the client has for it."""

    path: str
    content: str


@dataclass(frozen=True)
class Edit:
    """Replace whole lines of a file: some clients know no smaller change."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Shell:
    """Run a command line."""

    command: str


@dataclass(frozen=True)
class Use:
    """Call a tool by its name, literally."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


Action = Write | Edit | Shell | Use
"""Steps that are tool calls: the model goes on when the client brings the result."""


@dataclass(frozen=True)
class Say:
    """Words: together with the next call, or as the final message."""

    text: str


@dataclass(frozen=True)
class Sleep:
    """Let the client wait for the next answer."""

    seconds: float


@dataclass(frozen=True)
class Meanwhile:
    """Let something happen in the world before the next answer; whoever serves the model knows what the name means."""

    name: str


@dataclass(frozen=True)
class Refuse:
    """Answer with an HTTP error."""

    status: int
    message: str = "scripted refusal"
    once: bool = False
    """Only the first time that the client asks at this place; otherwise every time."""
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Spend:
    """The usage that each turn of this program reports."""

    usage: Usage


Step = Action | Say | Sleep | Meanwhile | Refuse | Spend
Program = tuple[Step, ...]


def filled(program: Iterable[Step], names: Mapping[str, str]) -> Program:
    """The program with `{name}` replaced in its texts; braces around anything else stay."""
    return tuple(_filled(step, names) for step in program)


def _filled(step: Step, names: Mapping[str, str]) -> Step:
    def fill(text: str) -> str:
        for name, value in names.items():
            text = text.replace("{" + name + "}", value)
        return text

    match step:
        case Write(path, content):
            return Write(fill(path), fill(content))
        case Edit(path, old, new):
            return Edit(fill(path), fill(old), fill(new))
        case Shell(command):
            return Shell(fill(command))
        case Use(tool, str(text)):
            return Use(tool, fill(text))
        case Use(tool, arguments) if not isinstance(arguments, str):
            return Use(
                tool, {key: fill(value) if isinstance(value, str) else value for key, value in arguments.items()}
            )
        case Say(text):
            return Say(fill(text))
        case _:
            return step
