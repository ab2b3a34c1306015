"""Months."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from purse.entries import Entry


def of_month(entries: Iterable[Entry], month: str) -> list[Entry]:
    """The entries of a month such as `2026-03`, in their order; ValueError says what is wrong with another text."""
    try:
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        raise ValueError(f"{month!r} is not a month; write it as 2026-03") from None
    return [entry for entry in entries if entry.day.replace(day=1) == first]
