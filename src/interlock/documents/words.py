"""Text of any origin, and moments, as documents have them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache


def one_line(text: str) -> str:
    """Text as one printable line, for fields and table cells."""
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in words)


def few(texts: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(texts[:most]) + more


@lru_cache(maxsize=256)  # much happens at one moment
def stamp(moment: datetime) -> str:
    """A moment in UTC, ISO 8601, whole seconds: ``2026-01-04T12:00:00Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
