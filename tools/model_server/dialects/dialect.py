"""What every dialect can do, and what they share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.model_server.conversation import Conversation, JsonObject, Refusal, Turn


@dataclass(frozen=True)
class Ids:
    """Ids of one answer: the same server gives the same ids to the same sequence of requests."""

    number: int

    def __call__(self, prefix: str) -> str:
        return f"{prefix}{self.number:024d}"


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    data: JsonObject | str
    name: str | None = None

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {data}\n\n".encode()


@dataclass(frozen=True)
class Refused:
    """An HTTP error as the service of this dialect words it."""

    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict)


class Dialect(Protocol):
    """Reads requests and words answers; it knows nothing of scripts and of HTTP."""

    @property
    def name(self) -> str: ...

    def read(self, body: JsonObject) -> Conversation:
        """The conversation in a request body."""

    def whole(self, turn: Turn, model: str, ids: Ids) -> JsonObject:
        """The turn as one document."""

    def stream(self, turn: Turn, model: str, ids: Ids) -> Iterator[Event]:
        """The turn as events."""

    def refused(self, refusal: Refusal, ids: Ids) -> Refused:
        """The refusal in this service's words."""


def pieces(text: str) -> Iterator[str]:
    """The text in up to eight parts, as a model would stream it."""
    size = max(16, -(-len(text) // 8))
    for start in range(0, len(text), size):
        yield text[start : start + size]


def seconds(refusal: Refusal) -> str | None:
    """The value of `retry-after`."""
    return None if refusal.retry_after_s is None else f"{refusal.retry_after_s:g}"


def text_of(content: Any) -> str:
    """The text in a message's content: a string, or a list of parts of which some have one."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if isinstance(part, dict) and "text" in part)


def texts_of(content: Any) -> Iterator[str]:
    """The texts in a message's content, one by one."""
    if isinstance(content, str):
        yield content
    else:
        yield from (part["text"] for part in content or () if isinstance(part, dict) and "text" in part)
