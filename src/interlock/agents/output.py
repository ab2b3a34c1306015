"""What a program prints: heard line by line, redacted before anybody sees it, kept within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from interlock.agents.redaction import Redaction
from interlock.errors import WorkspaceFailed

TRANSCRIPT_LIMIT = 50 * 1000 * 1000
LINE_LIMIT = TRANSCRIPT_LIMIT
"""Bytes of a line that are held until it is whole; a longer one, where a secret could be torn, is dropped."""
_CHUNK = 64 * 1024
_LARGEST_PIPE = 1024 * 1024


class Output:
    """One output of a program, passed on in whole lines, redacted."""

    def __init__(
        self, redact: Redaction, sinks: Sequence[Kept | Transcript], on_line: Callable[[bytes], None] | None = None
    ) -> None:
        self._redact, self._sinks, self._on_line = redact, sinks, on_line
        self._line = bytearray()
        """The beginning of a line that is not whole yet."""
        self._skips = False
        """What comes is the rest of a line that was too long."""

    async def listen(self, pipe: IO[bytes]) -> None:
        """To its end, or until it is cancelled; an error of a sink or of `on_line` is raised."""
        with contextlib.suppress(AttributeError, OSError):  # some agents exit without waiting to be read
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _LARGEST_PIPE)
        reader = asyncio.StreamReader(_LARGEST_PIPE)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while chunk := await reader.read(_LARGEST_PIPE):
                self._take(chunk)
        finally:
            transport.close()

    def finish(self) -> None:
        """Tells the last line, which needs no end; nothing is told after it."""
        if self._line:
            self._tell(bytes(self._line))
        self._sinks, self._on_line = (), None

    def _take(self, chunk: bytes) -> None:
        if self._skips:
            _, newline, chunk = chunk.partition(b"\n")
            self._skips = not newline
        lines, newline, rest = chunk.rpartition(b"\n")
        if newline:
            whole, self._line = bytes(self._line + lines + newline), bytearray()
            self._tell(whole)
        self._line += rest
        if len(self._line) > LINE_LIMIT:
            self._line, self._skips = bytearray(), True
            self._pass_on(f"[interlock: a line of more than {LINE_LIMIT} bytes is left out here]\n".encode())

    def _tell(self, whole_lines: bytes) -> None:
        clean = self._redact.raw(whole_lines)
        self._pass_on(clean)
        if self._on_line is not None:
            for line in clean.removesuffix(b"\n").split(b"\n"):
                self._on_line(line)

    def _pass_on(self, clean: bytes) -> None:
        for sink in self._sinks:
            sink.write(clean)


class Kept:
    """The beginning and the end of any amount of output."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._beyond = 0
        """Bytes behind the head."""

    def write(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        self._beyond += len(chunk[room:])
        if len(self._tail) > 2 * self._half + _CHUNK:
            del self._tail[: -self._half]

    @property
    def content(self) -> bytes:
        tail = self._tail[-self._half :]
        left_out = self._beyond - len(tail)
        mark = f"\n[interlock: {left_out} bytes are left out here]\n" if left_out else ""
        return bytes(self._head) + mark.encode() + bytes(tail)

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


class Transcript:
    """A new file that takes any amount of output, and keeps what fits; WorkspaceFailed if it cannot."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._room = TRANSCRIPT_LIMIT
        try:
            path.unlink(missing_ok=True)
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
        except OSError as error:
            raise WorkspaceFailed.of(error, "a transcript cannot be kept", where=str(path)) from error

    def write(self, chunk: bytes) -> None:
        if self._room <= 0:
            return
        if len(chunk) > self._room:
            mark = f"\n[interlock: only the first {TRANSCRIPT_LIMIT} bytes are kept]\n".encode()
            chunk = chunk[: self._room] + mark
            self._room = 0
        self._room -= len(chunk)
        try:
            self._file.write(chunk)
            self._file.flush()
        except OSError as error:
            raise WorkspaceFailed.of(error, "a transcript cannot be kept", where=str(self._path)) from error

    def close(self) -> None:
        with contextlib.suppress(OSError):  # of what could not be written it has been told
            self._file.close()
