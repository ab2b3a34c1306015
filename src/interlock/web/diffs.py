"""Changes as people read them: every file is named with its lines, and what is not shown of it is counted.

Which files there are, and how many lines, is git's own list (`between`); the patch, which has them in the same order,
adds the lines.  No name, link, mode or NUL that keeps a file's lines from being shown keeps it from being named.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from interlock.cli.text import harmless
from interlock.workspace.values import Change

MOST_ROWS, ROOM = 1500, 5000
"""Lines of one file and of all on a page that are shown; the patch has the rest."""
LONGEST_ROW, LAST_OF_ROW = 2000, 400
"""Characters of a line that are shown; of a longer one so many at its end."""
COMPARED = 1000
"""Lines of two texts that are matched with each other: the time that this can take grows with their square."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)", re.DOTALL)
SIGNS = {"+": "added", "-": "removed", " ": "same"}


class Row(NamedTuple):
    tone: str
    """`added`, `removed`, `same`; `place` says where the next lines are."""
    old: int | None
    new: int | None
    text: str


class File(NamedTuple):
    """One path that changed."""

    path: str
    added: int | None
    removed: int | None
    what: str = ""
    """added, deleted, mode, link, binary; empty where its lines say all."""
    rows: tuple[Row, ...] = ()
    left_out: int = 0
    """Lines that are not shown, or not to their ends."""
    unseen: bool = False
    """There is something in it that no line shows."""


class Files(NamedTuple):
    """What changed, together."""

    files: tuple[File, ...] = ()
    problem: str = ""
    """Why not all of it may be here."""

    @property
    def lines(self) -> dict[str, int]:
        """That came and went."""
        return {name: sum(getattr(one, name) or 0 for one in self.files) for name in ("added", "removed")}

    @property
    def unseen(self) -> str:
        """What is not shown of it, in words; whoever decides is told."""
        lines, hidden = sum(one.left_out for one in self.files), sum(one.unseen for one in self.files)
        said = [f"{lines} of the changed lines"] if lines else []
        said += [f"what is in {hidden} of the files"] if hidden else []
        return ", ".join([*said, *(["perhaps more than that"] if self.problem else [])])


def changed(changes: Sequence[Change], patch: bytes) -> Files:
    """Every one of the changes, with the lines that the patch has of it."""
    room, files, parts = ROOM, list[File](), list(_parts(patch))
    is_whole = len(parts) == len(changes)
    for change, rows in zip(changes, parts if is_whole else [[]] * len(changes), strict=True):
        is_binary = change.added is None or "GIT binary patch" in rows
        what = ", ".join(filter(None, (change.kind.removeprefix("changed"), "binary" if is_binary else "")))
        if is_binary or not is_whole:
            files.append(File(change.path, change.added, change.removed, what, unseen=True))
        else:
            files.append(_with_rows(change.path, change.added, change.removed, what, rows, room))
            room -= len(files[-1].rows)
    return Files(tuple(files))


def _parts(patch: bytes) -> Iterator[list[str]]:
    """The lines of each file of a patch; no line of a content begins as a file's head does."""
    parts = re.split(rb"^diff --git (?=[a\"])", patch, flags=re.MULTILINE)[1:]
    for _, group in groupby(parts, lambda part: part.partition(b"\n")[0]):  # a file that became a link has two
        found = list[str]()
        for part in group:
            rows = [row.decode("utf-8", "replace") for row in part.removesuffix(b"\n").split(b"\n")[1:]]
            first = next((at for at, row in enumerate(rows) if row.startswith(("@@", "GIT binary"))), len(rows))
            found += [f" {row}" for row in rows[:first] if row.startswith(("old mode", "new mode"))]
            found += rows[first:]
        yield found


def compared(path: str, old: str, new: str) -> File:
    """The difference of two texts."""
    before, now = old.splitlines(), new.splitlines()
    if max(len(before), len(now)) <= COMPARED:
        rows = list(difflib.unified_diff(before, now, lineterm=""))[2:]
    else:
        rows = ["@@ -1 +1 @@", *(f"-{row}" for row in before), *(f"+{row}" for row in now)]
    added, removed = (sum(row.startswith(sign) for row in rows) for sign in "+-")
    return _with_rows(path, added, removed, "", rows)


def _with_rows(
    path: str, added: int | None, removed: int | None, what: str, texts: Sequence[str], room: int = MOST_ROWS
) -> File:
    shown, rows, old, new = texts[: max(0, min(room, MOST_ROWS))], list[Row](), 0, 0
    for text in map(_cut, shown):
        sign, said = text[:1], text[1:]
        if sign == "@" and (place := _HUNK.match(text)):
            old, new = int(place[1]), int(place[2])
            if old > 1 or new > 1:
                rows.append(Row("place", None, None, place[3].strip() or "…"))
        elif sign in SIGNS and (old or new):
            rows.append(Row(SIGNS[sign], None if sign == "+" else old, None if sign == "-" else new, said))
            old, new = old + (sign != "+"), new + (sign != "-")
        else:
            rows.append(Row("place", None, None, text.strip("\\ ")))
    left_out = len(texts) - len(shown) + sum(len(text) > LONGEST_ROW for text in shown)
    return File(path, added, removed, what, tuple(rows), left_out)


def _cut(text: str) -> str:
    """A line that can be shown; of a longer one how it begins and ends, and it says so."""
    if (more := len(text) - LONGEST_ROW) > 0:
        text = f"{text[: LONGEST_ROW - LAST_OF_ROW]} … ({more} characters more) … {text[-LAST_OF_ROW:]}"
    return harmless(text)  # what a terminal would obey is spelled out, not left out: it may be part of a program
