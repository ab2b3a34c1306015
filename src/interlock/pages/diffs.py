"""Patches as a code host shows them: a list of files, each with its lines, numbered and coloured."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from markupsafe import Markup, escape

from interlock.documents.patches import PatchPart, patch_parts
from interlock.engine.changes import FileChange
from interlock.pages.prose import decoded, highlighted_lines
from interlock.telemetry import harmless

MOST_ROWS = 1500
"""Lines of one file that are shown; the patch has the rest."""
LONGEST_ROW = 2000
LAST_OF_ROW = 400
"""Characters of a longer line that are shown: so many at its end."""
ROOM = 4_000_000
"""Characters that the lines of all files on a page may take; the files that follow are listed without theirs."""
ROW_TAKES = 150
COMPARED = 1000
"""Lines of two texts that are matched with each other: the time that this can take grows with their square."""
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
    """new, deleted, a link, binary, can be executed now: empty where nothing is special."""
    added: int
    removed: int
    rows: tuple[DiffRow, ...]
    left_out: int = 0
    """Lines that are not shown, or not to their ends."""

    @property
    def is_unseen(self) -> bool:
        """Whether there is something in it that no line shows."""
        return "binary" in self.what or self.what == TOO_LARGE

    @property
    def takes(self) -> int:
        """Characters that it takes on a page."""
        return sum(len(row.code) + ROW_TAKES for row in self.rows)

    @property
    def is_long(self) -> bool:
        return len(self.rows) > OPEN_ROWS


@dataclass(frozen=True)
class DiffSummary:
    """Files of a patch together."""

    files: tuple[DiffFile, ...] = ()
    problem: str = ""
    """Why not all of what changed may be here."""

    @property
    def added(self) -> int:
        return sum(one.added for one in self.files)

    @property
    def removed(self) -> int:
        return sum(one.removed for one in self.files)

    @property
    def left_out(self) -> int:
        return sum(one.left_out for one in self.files)

    @property
    def unseen(self) -> int:
        """Files in which there is something that no line shows."""
        return sum(one.is_unseen for one in self.files)


def read_patch(patch: bytes) -> tuple[DiffFile, ...]:
    """The files of a patch as git writes it; what is no file of it is shown as it stands."""
    return tuple(_in_room(patch_parts(patch)))


def changed_files(changes: Iterable[FileChange]) -> tuple[DiffFile, ...]:
    """Files that changed: every one of them, also one of which there is nothing to show."""
    parts = (part for one in changes for part in (list(patch_parts(one.patch)) or (_unsaid(one.path),)))
    return tuple(_in_room(parts))


def _unsaid(path: str) -> PatchPart:
    return PatchPart(path, b"", b"")


TOO_LARGE = "too large to be shown"


def _in_room(parts: Iterable[PatchPart]) -> Iterator[DiffFile]:
    room = ROOM
    for part in parts:
        if room > 0:
            file = _kept(part) if len(part.body) <= KEPT else _file(part)
        else:
            what = _what(part) if part.head else TOO_LARGE
            file = DiffFile(part.path or "", what, part.added, part.removed, (), part.length)
        room -= file.takes
        yield file


def between(path: str, old: str, new: str) -> DiffFile:
    """The difference of two texts."""
    before, now = old.splitlines(), new.splitlines()
    if max(len(before), len(now)) <= COMPARED:
        rows = list(difflib.unified_diff(before, now, lineterm=""))[2:]
    else:
        same = next(
            (at for at, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]),
            min(len(before), len(now)),
        )
        signed = (*(f"-{row}" for row in before[same:]), *(f"+{row}" for row in now[same:]))
        rows = [f"@@ -{same + 1} +{same + 1} @@", *signed]
    added, removed = (sum(row.startswith(sign) for row in rows) for sign in "+-")
    return _with_rows(path, "", rows, added, removed, len(rows))


@lru_cache(maxsize=48)
def _kept(part: PatchPart) -> DiffFile:
    """The same file stands on a page again and again while somebody watches a run."""
    return _file(part)


def _file(part: PatchPart) -> DiffFile:
    if not part.head:
        return DiffFile(part.path or "", TOO_LARGE, 0, 0, ())
    if part.path is None:
        texts = [f" {row}" for row in decoded(part.whole).split("\n")]
        return _with_rows("", "cannot be read", texts, 0, 0, len(texts))
    rows = [decoded(row) for row in part.rows(MOST_ROWS)]
    return _with_rows(part.path, _what(part), rows, part.added, part.removed, part.length)


def _what(part: PatchPart) -> str:
    """What is special about a file, in words."""
    come, gone = part.said("new file mode"), part.said("deleted file mode")
    before, now = part.said("old mode") or gone, part.said("new mode") or come
    words = ["new"] * bool(come) + ["deleted"] * bool(gone) + ["renamed"] * bool(part.said("rename from"))
    kind = _KINDS.get((now or before)[:3], "")
    if come or gone:
        words += [kind or "executable" * (come == EXECUTABLE)]
    elif now:
        words += ["can be executed now" if now == EXECUTABLE else "can no longer be executed", kind]
    return ", ".join(filter(None, [*words, "binary" * part.is_binary]))


EXECUTABLE = "100755"
_KINDS = {"120": "a link", "160": "a repository"}


def _with_rows(path: str, what: str, texts: Sequence[str], added: int, removed: int, length: int) -> DiffFile:
    # What a terminal would obey is spelled out here, not left out: it may be part of a program.
    shown = [harmless(_cut(text)) for text in texts[:MOST_ROWS]]
    left_out = length - len(shown) + sum(len(text) > LONGEST_ROW for text in texts[:MOST_ROWS])
    return DiffFile(path, what, added, removed, tuple(_rows(path, shown)), left_out)


def _cut(text: str) -> str:
    """A line that can be shown; of a longer one how it begins and ends, and it says so."""
    more = len(text) - LONGEST_ROW
    if more <= 0:
        return text
    return f"{text[: LONGEST_ROW - LAST_OF_ROW]} … ({more} characters more) … {text[-LAST_OF_ROW:]}"


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
