"""Cells for spreadsheets."""

from __future__ import annotations

SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet runs as a formula."""


def guarded(value: str) -> str:
    """The value as a cell that is shown and never run: what would begin a formula gets an apostrophe in front."""
    return f"'{value}" if value.startswith(SIGNS) else value
