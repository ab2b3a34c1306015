"""Text for people in as many columns as there are: it goes on below at a word, never inside one.

What is copied stays whole: a word that is longer than the line, such as a path, and a command of interlock with its
arguments.  The terminal breaks these, and knows that it did.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

COMMANDS = (
    *("run", "resume", "watch", "playbooks", "plan", "runs", "logs", "report", "show", "diff", "why", "web", "approve"),
    *("reject", "answer", "cancel", "recover", "init", "new", "adopt", "validate", "doctor", "rehearse"),
    *("submit", "worker", "fleet", "send", "take", "fetch", "mcp"),
)
"""What interlock can be told."""
_ARGUMENT = r"""(?!(?:or|and|to|for|which|where|with)\s)(?:"[^"]*"|'[^']*'|\S*[^\s.,;:)])"""
_WORD = re.compile(rf"\binterlock (?:-C {_ARGUMENT} )?(?:{'|'.join(COMMANDS)})\b(?: {_ARGUMENT})*\S*|\S+")
_LEAD = re.compile(r"(?:\d\d:\d\d:\d\d {2}| *(?:[-*+] |\d+[.)] )?)")
"""What a row begins with; its words go on below one another behind it."""
LEAST = 20
"""Columns that words get, however narrow a terminal is."""


def fitted(text: str, width: int, deeper: str = "  ") -> str:
    """The text with every row that is wider than `width` columns going on below, `deeper` than it begins."""
    return "\n".join(row for line in text.split("\n") for row in _rows(line, width, deeper))


def _rows(line: str, width: int, deeper: str) -> Iterator[str]:
    if columns(line) <= width:
        yield line
        return
    lead = _LEAD.match(line)
    begins = lead[0] if lead else ""
    below = " " * len(begins) if begins.strip() else begins + deeper
    row, used, at = begins, columns(begins), len(begins)
    for word in _WORD.finditer(line, len(begins)):
        gap, at = line[at : word.start()], word.end()
        wide = columns(word[0])
        if used + columns(gap) + wide > max(width, len(below) + LEAST) and row.strip() and row != below:
            yield row
            row, used, gap = below, len(below), ""
        row, used = row + gap + word[0], used + columns(gap) + wide
    yield row


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in ("W", "F") for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
