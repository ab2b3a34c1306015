"""Patches as a code host shows them: a list of files, each with its lines, numbered and coloured."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from markupsafe import Markup, escape

from interlock.pages.prose import decoded, highlighted_lines, plain

MOST_ROWS = 1500
"""Lines of one file that are shown; the records have the rest."""
LONGEST_ROW = 2000
KEPT = 32_000
"""Bytes of the patch of a file whose lines are kept, coloured."""
OPEN_ROWS = 120
"""A file with more lines is folded at first."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")


class RowTone(StrEnum):
    """What a line of a difference is."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    PLACE = "place"
    """Says where the next lines are."""


@dataclass(frozen=True)
class DiffRow:
    tone: RowTone
    old: int | None
    new: int | None
    code: Markup


@dataclass(frozen=True)
class DiffFile:
    """One file of a patch."""

    path: str
    what: str
    """new, deleted, renamed, binary, or nothing special."""
    added: int
    removed: int
    rows: tuple[DiffRow, ...]
    left_out: int = 0
    """Lines that are not shown."""

    @property
    def is_long(self) -> bool:
        return len(self.rows) > OPEN_ROWS


@dataclass(frozen=True)
class DiffSummary:
    """Files of a patch together."""

    files: tuple[DiffFile, ...]

    @property
    def added(self) -> int:
        return sum(one.added for one in self.files)

    @property
    def removed(self) -> int:
        return sum(one.removed for one in self.files)


def read_patch(patch: bytes, besides: Collection[str] = ()) -> tuple[DiffFile, ...]:
    """The files of a patch as git writes it, without those that are named."""
    parts = re.split(rb"(?m)^(?=diff --git )", patch)
    found = [part for part in parts if part.startswith(b"diff --git ")]
    return tuple(_kept(part) if len(part) <= KEPT else _file(part) for part in found if _name(part) not in besides)


def between(path: str, old: str, new: str) -> DiffFile:
    """The difference of two texts."""
    rows = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm=""))[2:]
    return _with_rows(path, "", rows)


@lru_cache(maxsize=48)
def _kept(part: bytes) -> DiffFile:
    """The same file stands on a page again and again while somebody watches a run."""
    return _file(part)


def _file(part: bytes) -> DiffFile:
    head, mark, body = part.partition(b"\n@@")
    said = decoded(head)
    what = next((word for word, sign in _SIGNS if re.search(sign, said, re.MULTILINE)), "")
    rows = decoded(mark[1:] + body).split("\n") if mark else []
    return _with_rows(_name(head), what, rows[:-1] if rows and not rows[-1] else rows)


_SIGNS = (
    ("binary", r"^(GIT binary patch|Binary files )"),
    ("new", r"^new file mode"),
    ("deleted", r"^deleted file mode"),
    ("renamed", r"^rename from"),
)


def _name(part: bytes) -> str:
    """The path that a patch is about: as the new side calls it, else the old one."""
    rows = part.partition(b"\n@@")[0].split(b"\n")
    for mark in (b"+++ b/", b'+++ "b/', b"--- a/", b'--- "a/'):
        for row in rows:
            if row.startswith(mark):
                return _spelled(row[len(mark) :].rstrip(b"\t\r"), quoted=b'"' in mark)
    both = rows[0][len(b"diff --git ") :]
    quoted = both.startswith(b'"')
    half = both[: len(both) // 2]
    return _spelled(half[3 if quoted else 2 :], quoted=quoted)


def _spelled(name: bytes, *, quoted: bool) -> str:
    """A name as git writes it: in quotes with escapes, where it is an odd one."""
    if quoted:
        name = name[:-1] if name.endswith(b'"') else name
        name = re.sub(rb'\\([0-7]{3}|[abtnvfr"\\])', _unescaped, name)
    return name.decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    told = match[1]
    return bytes([int(told, 8) & 255]) if len(told) == 3 else _ESCAPES[told]


_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
}


def _with_rows(path: str, what: str, texts: Sequence[str]) -> DiffFile:
    added = sum(text.startswith("+") for text in texts)
    removed = sum(text.startswith("-") for text in texts)
    shown = [plain(_cut(text)) for text in texts[:MOST_ROWS]]
    return DiffFile(path, what, added, removed, tuple(_rows(path, shown)), max(0, len(texts) - MOST_ROWS))


def _cut(text: str) -> str:
    """A line that can be shown; of a longer one the beginning, and it says so."""
    more = len(text) - LONGEST_ROW
    return text if more <= 0 else f"{text[:LONGEST_ROW]} … ({more} characters more: the file has them)"


def _rows(path: str, texts: Sequence[str]) -> Iterator[DiffRow]:
    """The lines, each side coloured as one text so that what spans lines is seen."""
    sides = {
        sign: iter(highlighted_lines([text[1:] for text in texts if text[:1] in (" ", sign)], path=path))
        for sign in "+-"
    }
    old = new = 0
    for text in texts:
        match text[:1]:
            case "+":
                yield DiffRow(RowTone.ADDED, None, new, next(sides["+"]))
                new += 1
            case "-":
                yield DiffRow(RowTone.REMOVED, old, None, next(sides["-"]))
                old += 1
            case " ":
                next(sides["-"])
                yield DiffRow(RowTone.SAME, old, new, next(sides["+"]))
                old, new = old + 1, new + 1
            case "@" if place := _HUNK.match(text):
                old, new = int(place[1]), int(place[2])
                if new <= 1 and old <= 1:
                    continue  # nothing is left out before it
                yield DiffRow(RowTone.PLACE, None, None, escape(place[3].strip() or "…"))
            case "\\":
                yield DiffRow(RowTone.PLACE, None, None, escape(text[2:]))
            case _:
                yield DiffRow(RowTone.PLACE, None, None, escape(text))
