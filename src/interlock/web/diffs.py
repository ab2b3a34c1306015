"""Changes as people read them: every file is named with its lines, and what is not shown of it is counted.

Which files there are, and how many lines, is git's own list (`between`); the patch adds the lines.  A name, a link, a
mode or a NUL that keeps a file's lines from being shown never keeps the file from being named.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from interlock.cli.text import harmless
from interlock.workspace.values import Change

MOST_ROWS = 1500
"""Lines of one file that are shown; the patch has the rest."""
LONGEST_ROW, LAST_OF_ROW = 2000, 400
"""Characters of a line that are shown; of a longer one so many at its end."""
ROOM = 2_000_000
"""Characters that the lines of all files on a page may take; the files that follow are listed without theirs."""
COMPARED = 1000
"""Lines of two texts that are matched with each other: the time that this can take grows with their square."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)", re.DOTALL)
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))
SIGNS = {"+": "added", "-": "removed", " ": "same"}


@dataclass(frozen=True)
class Row:
    tone: str
    """`added`, `removed`, `same`; `place` says where the next lines are."""
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True)
class File:
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


@dataclass(frozen=True)
class Files:
    """What changed, together."""

    files: tuple[File, ...] = ()
    problem: str = ""
    """Why not all of it may be here."""

    @property
    def added(self) -> int:
        return sum(one.added or 0 for one in self.files)

    @property
    def removed(self) -> int:
        return sum(one.removed or 0 for one in self.files)

    @property
    def unseen(self) -> str:
        """What is not shown of it, in words; whoever decides is told."""
        lines, hidden = sum(one.left_out for one in self.files), sum(one.unseen for one in self.files)
        said = [f"{lines} of the changed lines"] if lines else []
        said += [f"what is in {hidden} of the files"] if hidden else []
        return ", ".join([*said, *(["perhaps more than that"] if self.problem else [])])


def changed(changes: Sequence[Change], patch: bytes) -> Files:
    """Every one of the changes, with the lines that the patch has of it."""
    parts = dict[str, list[str]]()
    for path, rows in _parts(patch):  # a file that became a link has two
        parts.setdefault(path, []).extend(rows)
    room, files = ROOM, list[File]()
    for change in changes:
        rows = parts.get(change.path, [])
        is_binary = change.added is None or "GIT binary patch\n" in rows
        what = ", ".join(filter(None, (change.kind.removeprefix("changed"), "binary" if is_binary else "")))
        if is_binary or change.path not in parts:
            files.append(File(change.path, change.added, change.removed, what, unseen=True))
        elif room <= 0:
            files.append(File(change.path, change.added, change.removed, what, left_out=len(rows)))
        else:
            files.append(_with_rows(change.path, change.added, change.removed, what, rows))
            room -= sum(len(row.text) + 100 for row in files[-1].rows)
    return Files(tuple(files))


def _parts(patch: bytes) -> Iterator[tuple[str, list[str]]]:
    """Each file of a patch with its lines; no line of a content begins as a file's head does."""
    for part in re.split(rb"^diff --git (?=[a\"])", patch, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition(b"\n")
        rows = [row.decode("utf-8", "replace") for row in re.findall(rb"[^\n]*\n|[^\n]+", body)]
        first = next((at for at, row in enumerate(rows) if row.startswith(("@@", "GIT binary"))), len(rows))
        modes = [f" {row}" for row in rows[:first] if row.startswith(("old mode", "new mode"))]
        yield _path(head), [*modes, *rows[first:]]


def _path(head: bytes) -> str:
    """Of `a/X b/X`, where either may be quoted."""
    if head.endswith(b'"') and (found := re.search(rb'"b/((?:[^"\\]|\\.)*)"$', head, re.DOTALL)):
        raw = _ESCAPED.sub(lambda one: _unescaped(one[1]), found[1])
    else:
        raw = head[len(head) // 2 + 3 :]
    return raw.decode("utf-8", "surrogateescape")


def _unescaped(said: bytes) -> bytes:
    return bytes([int(said, 8) & 255]) if said[:1].isdigit() else bytes([_LETTERS.get(said[0], said[0])])


def compared(path: str, old: str, new: str) -> File:
    """The difference of two texts."""
    before, now = old.splitlines(), new.splitlines()
    if max(len(before), len(now)) <= COMPARED:
        rows = list(difflib.unified_diff(before, now, lineterm=""))[2:]
    else:
        same = next((at for at, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), len(before))
        signed = (*(f"-{row}" for row in before[same:]), *(f"+{row}" for row in now[same:]))
        rows = [f"@@ -{same + 1} +{same + 1} @@", *signed]
    added, removed = (sum(row.startswith(sign) for row in rows) for sign in "+-")
    return _with_rows(path, added, removed, "", rows)


def _with_rows(path: str, added: int | None, removed: int | None, what: str, texts: Sequence[str]) -> File:
    left_out = max(0, len(texts) - MOST_ROWS) + sum(len(text) > LONGEST_ROW for text in texts[:MOST_ROWS])
    return File(path, added, removed, what, tuple(_rows(map(_cut, texts[:MOST_ROWS]))), left_out)


def _cut(text: str) -> str:
    """A line that can be shown; of a longer one how it begins and ends, and it says so."""
    text = text.removesuffix("\n")
    if (more := len(text) - LONGEST_ROW) > 0:
        text = f"{text[: LONGEST_ROW - LAST_OF_ROW]} … ({more} characters more) … {text[-LAST_OF_ROW:]}"
    return harmless(text)  # what a terminal would obey is spelled out, not left out: it may be part of a program


def _rows(texts: Iterable[str]) -> Iterator[Row]:
    old = new = 0
    for text in texts:
        sign, said = text[:1], text[1:]
        if sign == "@" and (place := _HUNK.match(text)):
            old, new = int(place[1]), int(place[2])
            if old > 1 or new > 1:
                yield Row("place", None, None, place[3].strip() or "…")
        elif sign in SIGNS and (old or new):
            yield Row(SIGNS[sign], None if sign == "+" else old, None if sign == "-" else new, said)
            old, new = old + (sign != "+"), new + (sign != "-")
        else:
            yield Row("place", None, None, text.strip("\\ "))
