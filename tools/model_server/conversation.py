"""One conversation, whatever dialect it came in, and what a model may answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = Mapping[str, Any]

_CONTEXT = re.compile(r"\s*<(?P<tag>[\w-]+)(?: [^>]*)?>.*?</(?P=tag)>", re.DOTALL)
"""Clients tell the model about the session in elements (`<system-reminder>`, `<environment_context>` ...)."""

_WORKING_FOLDER = re.compile(
    r"(?:working directory:|working in the directory:|<cwd>|\*\*Workspace Directories:\*\*\s+-)\s*(/[^\n<]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Tool:
    """A tool that the client offers."""

    name: str
    schema: JsonObject = field(default_factory=dict)
    """JSON Schema of its arguments."""
    freeform: bool = False
    """It takes one text instead of arguments."""
    group: str = ""
    """What codex keeps the tools of one server under."""
    finds: bool = False
    """It brings tools that were not offered at first."""


@dataclass(frozen=True)
class System:
    """Instructions, of the client or of a role."""

    text: str


@dataclass(frozen=True)
class Human:
    """One text sent in the name of the person, the client's own context included."""

    text: str


@dataclass(frozen=True)
class Result:
    """What a tool answered."""

    text: str


Message = System | Human | Result


@dataclass(frozen=True)
class Conversation:
    """A request to the model."""

    model: str
    system: str
    """All instructions, and the context that clients put around the human's words."""
    human: str
    """The last text of the human, without that context."""
    results: tuple[str, ...]
    """What the tools answered since then: the program counter of a script."""
    tools: tuple[Tool, ...] = ()
    folder: str | None = None
    """The client's working folder, as far as it told the model."""
    answer_schema: JsonObject | None = None
    """The answer must be JSON of this schema: the client asks for its own bookkeeping."""
    earlier: tuple[str, ...] = ()
    """What the human said before, oldest first."""


def conversation(
    model: str, messages: Iterable[Message], tools: Iterable[Tool], answer_schema: JsonObject | None = None
) -> Conversation:
    """The conversation that these messages make, oldest first."""
    system: list[str] = []
    told: list[str] = []
    human = ""
    results: list[str] = []
    for message in messages:
        match message:
            case System(text):
                system.append(text)
            case Result(text):
                results.append(text)
            case Human(text):
                context, words = _apart(text)
                if context:
                    system.append(context)
                if words:
                    told.append(human)
                    human, results = words, []
    instructions = "\n\n".join(system)
    return Conversation(
        model,
        instructions,
        human,
        tuple(results),
        tuple(tools),
        _folder([instructions, *told]),
        answer_schema,
        tuple(filter(None, told)),
    )


def _folder(texts: Iterable[str]) -> str | None:
    """The first working folder named in the instructions, or in what a client says as if it were the person."""
    for text in texts:
        if found := _WORKING_FOLDER.search(text):
            return found[1].strip().rstrip("/")
    return None


def _apart(text: str) -> tuple[str, str]:
    """Leading elements of context, and the words after them."""
    end = 0
    while found := _CONTEXT.match(text, end):
        end = found.end()
    return text[:end].strip(), text[end:].strip()


@dataclass(frozen=True)
class Call:
    """A tool that the model wants called."""

    tool: Tool
    arguments: JsonObject | str
    """A text where the tool is free-form."""


@dataclass(frozen=True)
class Usage:
    """Tokens that a turn is said to have cost."""

    input: int = 1000
    output: int = 50

    @property
    def total(self) -> int:
        return self.input + self.output


@dataclass(frozen=True)
class Turn:
    """A turn of the model: words, a call, or both."""

    text: str = ""
    call: Call | None = None
    delay_s: float = 0.0
    usage: Usage = Usage()
    meanwhile: tuple[str, ...] = ()
    """What happens in the world before it is sent, by name."""


@dataclass(frozen=True)
class Refusal:
    """An answer of the service in place of the model."""

    status: int
    message: str
    retry_after_s: float | None = None
    delay_s: float = 0.0
    meanwhile: tuple[str, ...] = ()


Answer = Turn | Refusal
