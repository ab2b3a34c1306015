"""The journal of a run on its way, read once: each look reads and checks what came since the look before.

A journal only grows, and each line carries the hash of the one before it. So a line that was read needs no second
look: what comes after it proves it, and what a checkpoint has of it stays as it is, however long the journal is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from interlock.documents.files import open_plain
from interlock.engine import journal_file
from interlock.engine.folder import RunFolder
from interlock.engine.head import Mark
from interlock.engine.journal import Line, check_line, split_torn

TELLING = ("run.", "gate.")
"""How events begin that say how a run stands."""


class GrowingJournal:
    """The whole lines of a journal, as far as it was looked at."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / journal_file.NAME
        self._genesis = folder.genesis()
        self._forget()

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None
        self._hashes = [self._genesis]
        self._ends = [0]
        """Where each line ends in the file, the one before the first line at 0."""
        self._telling: list[Line] = []

    @property
    def count(self) -> int:
        """How many lines were read."""
        return len(self._hashes) - 1

    def look(self) -> list[Line]:
        """The lines that came since the last look; a file that was exchanged, or is shorter now, came as a whole."""
        with os.fdopen(open_plain(self._path), "rb") as file:
            facts = os.fstat(file.fileno())
            shorter = facts.st_size < self._ends[-1] - 1  # the end of the last line may be missing
            if self._file != (facts.st_dev, facts.st_ino) or shorter:
                self._forget()
                self._file = facts.st_dev, facts.st_ino
            file.seek(self._ends[-1])
            whole, _ = split_torn(file.read())
        return [self._add(text) for text in whole.removesuffix(b"\n").split(b"\n")] if whole else []

    def _add(self, text: bytes) -> Line:
        line = check_line(text, self.count + 1, self._hashes[-1], str(self._path))
        self._hashes.append(line.hash)
        self._ends.append(self._ends[-1] + len(text) + 1)
        if line.event.startswith(TELLING):
            self._telling.append(line)
        return line

    def mark(self, count: int) -> Mark:
        """The last of so many lines."""
        return Mark(count, self._hashes[count])

    def begins_with(self, mark: Mark) -> bool:
        """Whether its first lines are those that end with this one."""
        return 0 <= mark.seq <= self.count and self._hashes[mark.seq] == mark.hash

    def telling(self, count: int) -> Sequence[Line]:
        """Those of so many lines that say how the run stands."""
        return [line for line in self._telling if line.seq <= count]

    def between(self, first: int, last: int) -> bytes:
        """The bytes of the lines after the first so many, up to the last."""
        with os.fdopen(open_plain(self._path), "rb") as file:
            file.seek(self._ends[first])
            content = file.read(self._ends[last] - self._ends[first])
        return content if content.endswith(b"\n") or not content else content + b"\n"
