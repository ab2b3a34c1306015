"""A file that takes any amount of output and keeps what fits."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final

from interlock.agents.plain_files import open_plain

OUTPUT_LIMIT: Final = 50 * 1000 * 1000
"""Bytes of one stream of an agent that are kept (CM-10)."""


def cut_mark(limit: int) -> bytes:
    """The line that ends an output of which the rest was not kept."""
    return f"\n[interlock: output cut here; only the first {limit} bytes are kept]\n".encode()


class CappedFile:
    """Writes up to `limit` bytes, the mark included; more is dropped, and the file ends with the mark."""

    def __init__(self, path: Path, limit: int = OUTPUT_LIMIT) -> None:
        self.cut = False
        self._limit = limit
        self._size = 0
        self._handle = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def write(self, chunk: bytes) -> None:
        if self.cut:
            return
        room = self._limit - self._size
        self._append(chunk[:room])
        if len(chunk) > room:
            self._mark()

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> CappedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            written = os.write(self._handle, view)
            self._size += written
            view = view[written:]

    def _mark(self) -> None:
        self.cut = True
        mark = cut_mark(self._limit)
        keep = max(0, self._limit - len(mark))
        # Not in the middle of a character: what is kept stays readable as UTF-8.
        while keep and os.pread(self._handle, 1, keep)[0] & 0xC0 == 0x80:
            keep -= 1
        os.ftruncate(self._handle, keep)
        os.lseek(self._handle, keep, os.SEEK_SET)
        self._append(mark)
