"""Expenses: one line each, `2026-03-02  12.50  Train to Bern`; a refund has a negative amount."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class Entry:
    day: date
    amount: Decimal
    text: str


def read(lines: Iterable[str]) -> list[Entry]:
    """The entries of a file, in its order; empty lines are left out."""
    entries = []
    for line in lines:
        if line.strip():
            day, amount, text = line.split(maxsplit=2)
            entries.append(Entry(date.fromisoformat(day), Decimal(amount), text.strip()))
    return entries


def total(entries: Iterable[Entry]) -> Decimal:
    """What was spent, refunds taken off."""
    return sum((entry.amount for entry in entries), Decimal())
