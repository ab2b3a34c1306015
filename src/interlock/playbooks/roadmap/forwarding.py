"""Compression: what of one agent's words reaches the next. Pure: the same words always give the same bytes (RM-57).

Kept are paths, findings, signatures, verdicts and the first lines of errors.  Whole fields that are never passed on
(raw output, diffs, details of passing tests, rejected alternatives, praise) are dropped earlier: `Answer` has no place
for them.  Here goes what hides inside a text: code blocks, stack frames, and everything after the third line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

ERROR_LINES: Final = 3
LONGEST_LINE: Final = 2000
"""Characters of a line that are passed on; a cut never falls inside a word, so that no path is torn."""

_FENCE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_FRAME: Final = re.compile(
    r"\s+at \S.*|"  # JavaScript, Java
    r"\s*at .+:\d+(:\d+)?\)?\s*|"
    r"Traceback \(most recent call last\):\s*|"
    r"\s*\.\.\. \d+ more\s*|"
    r"\s*\d+: +0x[0-9a-f]+ - .*|"  # Rust
    r"goroutine \d+ .*"
)
_PYTHON_FRAME: Final = re.compile(r'\s*File ".+", line \d+.*')


def essence(text: str) -> str:
    """A finding, issue or error message, cut to what is passed on: its first lines that say something."""
    lines = [_bounded(line) for line in _telling(_FENCE.sub("", text).splitlines())]
    return "\n".join(lines[:ERROR_LINES])


def short_line(text: str) -> str:
    """A description in one line."""
    return _bounded(" ".join(text.split()))


def indented(text: str) -> str:
    """Further lines of an entry, so that a list stays a list."""
    return text.replace("\n", "\n  ")


def _telling(lines: list[str]) -> Iterator[str]:
    """Lines without stack frames; the line of source below a Python frame goes with it."""
    below_frame = False
    for line in lines:
        if _PYTHON_FRAME.fullmatch(line):
            below_frame = True
        elif below_frame and line[:4] == "    ":
            below_frame = False
        else:
            below_frame = False
            if line.strip() and not _FRAME.fullmatch(line):
                yield line.rstrip()


def _bounded(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    cut = line[:LONGEST_LINE].rpartition(" ")[0]
    return f"{cut} …" if cut else line
