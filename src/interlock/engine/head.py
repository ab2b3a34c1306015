"""How far a journal went, noted beside it: what a chain of hashes alone cannot show.

A chain shows a changed line, not a missing end.  So the process that holds a journal notes in the file ``head`` which
line it is about to write, writes and syncs that line, and then notes that it is settled.  At any moment the journal
ends with the settled line or with the coming one; anything else was not done by a process of the run.

The note is written in place and not synced with each line (a line would cost two syncs).  The kernel loses nothing of
that when a process is killed; a power loss may leave an older note.  So a note of an earlier start of the machine
still proves that lines are missing, and no longer that there are too many, unless it was closed in order.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from interlock.documents.files import read_plain, replace_file
from interlock.engine.keys import sha256
from interlock.engine.processes import boot_id

NAME = "head"
SIZE = 384
"""Bytes of the note, always the same: it is overwritten in place."""
_READS = 100
_NOTE = re.compile(r"interlock 2 (\d+) (\S+) (?:(\d+) (\S+)|-) (\S+) (open|closed) ([0-9a-f]{64}) *\n")
_FIRST_FORM = re.compile(r"(\d+) ([0-9a-f]{64})\n")


class Mark(NamedTuple):
    """A line of a journal: its number and its hash. Number 0 is the first link of the chain, before any line."""

    seq: int
    hash: str


class Numbered(Protocol):
    @property
    def hash(self) -> str: ...


@dataclass(frozen=True)
class Head:
    """What the note says."""

    settled: Mark
    """The last line that is safe."""
    coming: Mark | None = None
    """The last line of what was being written."""
    boot: str = ""
    """The start of the machine in which it was noted; empty where nobody said."""
    closed: bool = False
    """Nothing was being written, and the note is on the disk."""

    def to_bytes(self) -> bytes:
        coming = "-" if self.coming is None else f"{self.coming.seq} {self.coming.hash}"
        state = "closed" if self.closed else "open"
        said = f"interlock 2 {self.settled.seq} {self.settled.hash} {coming} {self.boot or '-'} {state}"
        return f"{said} {sha256(said.encode())}".ljust(SIZE - 1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, raw: bytes) -> Head | None:
        """The note; None when it is not whole. The first form of it had one line's number and hash."""
        text = raw.decode("ascii", "replace")
        if (found := _FIRST_FORM.fullmatch(text)) is not None:
            return cls(Mark(int(found[1]), found[2]))
        if (found := _NOTE.fullmatch(text)) is None:
            return None
        seal = found[7]
        if sha256(text.rstrip(" \n").removesuffix(f" {seal}").encode()) != seal:
            return None
        coming = None if found[3] is None else Mark(int(found[3]), found[4])
        return cls(Mark(int(found[1]), found[2]), coming, found[5].strip("-"), found[6] == "closed")

    @property
    def exact(self) -> bool:
        """Whether it also proves that there is nothing beyond it."""
        return self.closed or self.boot == boot_id()

    @property
    def furthest(self) -> int:
        """The number of the last line that there can be."""
        return self.settled.seq if self.coming is None else self.coming.seq


class HeadFile:
    """The note of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file: int | None = None

    def read(self) -> Head | None:
        """What it says now; None when there is none that can be read."""
        for _ in range(_READS):  # it is being overwritten: the next look sees it whole
            try:
                raw = read_plain(self.path, limit=2 * SIZE)
            except OSError:
                return None
            if (head := Head.from_bytes(raw)) is not None:
                return head
        return None

    def create(self, head: Head) -> None:
        """Write it anew, synced."""
        self.close()
        replace_file(self.path, replace(head, boot=boot_id()).to_bytes())

    def note(self, settled: Mark, coming: Mark | None = None, *, closed: bool = False) -> None:
        """Overwrite it in place; synced only when it is closed."""
        raw = Head(settled, coming, boot_id(), closed).to_bytes()
        if self._file is None:
            if not self._fits():
                replace_file(self.path, raw)
            self._file = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if os.pwrite(self._file, raw, 0) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        if closed:
            os.fsync(self._file)

    def _fits(self) -> bool:
        """Whether there is a note that can be overwritten in place."""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == SIZE

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def disagreements(
    lines: Sequence[Numbered], torn: bytes, before: Head | None, after: Head | None, *, needed: bool
) -> list[str]:
    """What the lines of a journal have that its note does not fit, as sentences.

    Args:
        torn: what stands behind the last whole line.
        before: the note as it was before the journal was read, and `after` it: its process may be at work meanwhile.
        needed: the run has had a note since it came into being.
    """
    if before is None or after is None:
        if needed:
            return [f"the file {NAME}, which says how far the journal went, is missing or not readable"]
        return [] if lines else ["the journal has no line, and nothing shows that it never had one"]
    findings, count = [], len(lines)
    if before.settled.seq > count:
        findings.append(f"lines {count + 1} to {before.settled.seq} are missing at the end")
    for mark in {before.settled, after.settled, *([after.coming] if after.coming and after.exact else [])}:
        if 0 < mark.seq <= count and lines[mark.seq - 1].hash != mark.hash:
            findings.append(f"journal line {mark.seq} is not the one that was written")
    if after.exact and count > after.furthest:
        findings.append(f"lines {after.furthest + 1} to {count} were not written by a process of this run")
    elif after.exact and torn and after.coming is None and count == after.settled.seq:
        findings.append(f"{len(torn)} bytes behind its last line were not written by a process of this run")
    return findings
