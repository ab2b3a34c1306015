"""A journal on disk: the file itself, the note of how far it went, and a second copy of every settled line."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from interlock.documents.files import open_plain, read_plain, replace_file, sync_folder
from interlock.engine.head import HeadFile, Mark, disagreements
from interlock.engine.journal import Line
from interlock.errors import JournalDamaged, WorkspaceFailed

NAME = "journal.jsonl"
COPY = "journal.copy"
_TAIL = 4096
_NOT_A_FILE = frozenset({errno.EISDIR, errno.ELOOP, errno.ENXIO})
_Stamp = tuple[int, int, int, int, int]

sync_data = getattr(os, "fdatasync", os.fsync)


class FileMedium:
    """A journal on disk; opened at the first write, so that reading leaves no trace.

    Args:
        needs_head: whether the run has had its note since it came into being; None: it has not come into being.
    """

    def __init__(self, path: Path, *, needs_head: bool | None = None) -> None:
        self.path = path
        self.name = str(path)
        self.head = HeadFile(path.parent)
        self._needs_head = needs_head
        self._file: int | None = None
        self._copy: int | None = None
        self._compared = False
        self._seen: _Stamp | None = None
        """The file as this process last read or wrote it."""
        self._tail = b""
        self._content = b""
        """What was loaded, until the copy has been compared with it."""

    # -- reading

    def load(self) -> bytes:
        self._close_files()
        try:
            raw, self._seen = _read(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raw, self._seen = b"", None
        except OSError as error:
            if self._needs_head is None:  # what stands in the way is said when the run would come into being
                return b""
            if error.errno in _NOT_A_FILE:
                raise JournalDamaged("the journal is no plain file any more", path=self.name) from None
            raise WorkspaceFailed.of(error, "the journal cannot be read", where=self.name) from error
        self._tail, self._content, self._compared = raw[-_TAIL:], raw, False
        return raw

    def confirm(self, lines: Sequence[Line], torn: bytes) -> None:
        if self._needs_head is None:
            return
        head = self.head.read()
        findings = disagreements(lines, torn, head, head, needed=self._needs_head)
        if head is None:
            findings += self.only_in_copy(len(lines))
        if findings:
            raise JournalDamaged(findings[0], path=self.name)

    def only_in_copy(self, count: int) -> list[str]:
        """What the copy proves to be missing where there is no note: lines behind those that were loaded."""
        copy = self.copied()
        begins_alike = copy.startswith(self._content.rpartition(b"\n")[0])
        known = copy.count(b"\n") if begins_alike else 0
        return [f"lines {count + 1} to {known} are missing at the end"] if known > count else []

    def copied(self) -> bytes:
        """The second copy; empty when there is none."""
        try:
            return read_plain(self.path.with_name(COPY))
        except OSError:
            return b""

    def untouched(self) -> bool:
        try:
            found: _Stamp | None = _stamp(self.path.lstat())
        except OSError:
            found = None
        if found != self._seen:
            return False
        if self._file is None or not self._tail:
            return True
        return os.pread(self._file, len(self._tail), found[2] - len(self._tail)) == self._tail if found else True

    # -- writing

    def announce(self, settled: Mark, coming: Mark, chunk: bytes) -> None:
        self.head.note(settled, coming)
        self._append_to_copy(chunk)

    def write(self, chunk: bytes) -> None:
        file = self._opened()
        _write_all(file, chunk)
        self._tail = (self._tail + chunk)[-_TAIL:]
        self._seen = _stamp(os.fstat(file))

    def _opened(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o644)
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise JournalDamaged("the journal is no plain file any more", path=self.name)
            if self._seen is None:
                sync_folder(self.path.parent)
        return self._file

    def sync(self) -> None:
        if self._file is not None:
            sync_data(self._file)

    def settle(self, settled: Mark) -> None:
        if self._file is not None:
            self._seen = _stamp(os.fstat(self._file))
        self.head.note(settled)

    def _append_to_copy(self, chunk: bytes) -> None:
        """Keep the line a second time, first of all: from then on it is written, wherever the process dies."""
        place = self.path.with_name(COPY)
        if not self._compared:
            before = self._content + (b"" if self._content.endswith(b"\n") or not self._content else b"\n")
            if self.copied() != before:
                replace_file(place, before, sync=False)
            self._content, self._compared = b"", True
        if self._copy is None:
            self._copy = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        _write_all(self._copy, chunk)

    def keep(self, content: bytes) -> None:
        if self.copied() != content:
            replace_file(self.path.with_name(COPY), content)

    def truncate(self, size: int) -> None:
        file = self._opened()
        os.ftruncate(file, size)
        os.fsync(file)
        self._content = self._content[:size]
        self._tail = self._content[-_TAIL:]
        self._seen = _stamp(os.fstat(file))

    def close(self, settled: Mark) -> None:
        self.head.note(settled, closed=True)
        self._close_files()

    def _close_files(self) -> None:
        for file in (self._file, self._copy):
            if file is not None:
                os.close(file)
        self._file = self._copy = None
        self.head.close()


def _write_all(file: int, chunk: bytes) -> None:
    """Append the chunk, or nothing of it: half a line would be cut off at the next start, too."""
    size, written = os.fstat(file).st_size, 0
    try:
        while written < len(chunk):
            written += os.write(file, chunk[written:])
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def _read(path: Path) -> tuple[bytes, _Stamp]:
    """The file and its stamp, which is the older of the two: a change meanwhile shows at the next look."""
    with os.fdopen(open_plain(path), "rb") as file:
        stamp = _stamp(os.fstat(file.fileno()))
        return file.read(), stamp


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
