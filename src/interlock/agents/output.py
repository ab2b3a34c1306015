"""What a program prints: heard line by line, redacted before anybody sees it, kept within bounds."""

from __future__ import annotations

import asyncio
import codecs
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
"""Bytes of a line that are held until it is whole; of a longer one the rest is dropped, and nobody hears it."""
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
            # Of a line that is too long nothing is kept of its end, where a secret may be torn.
            clean, self._line, self._skips = self._redact.raw(bytes(self._line)), bytearray(), True
            mark = f"\n[interlock: a line is cut here after {LINE_LIMIT} bytes]\n".encode()
            self._pass_on(whole_characters(clean[: max(0, len(clean) - self._redact.longest)]) + mark)

    def _tell(self, lines: bytes) -> None:
        """Args:
        lines: whole ones.
        """
        clean = self._redact.raw(lines)
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
        self._dropped = 0

    def write(self, chunk: bytes) -> None:
        room = self._half - len(self._head) if not self._tail else 0
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half + _CHUNK:
            self._trim()

    def _trim(self) -> None:
        if (beyond := len(self._tail) - self._half) > 0:
            del self._tail[:beyond]
            self._dropped += beyond

    @property
    def content(self) -> bytes:
        self._trim()
        if not self._dropped:
            return bytes(self._head + self._tail)
        mark = f"\n[interlock: {self._dropped} bytes are left out here]\n".encode()
        return whole_characters(bytes(self._head)) + mark + bytes(self._tail).lstrip(_CONTINUATION)

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


_CONTINUATION = bytes(range(0x80, 0xC0))


def whole_characters(raw: bytes) -> bytes:
    """Without the beginning of a character at the end, where a text was cut."""
    return raw[: codecs.utf_8_decode(raw, "replace", False)[1]]


class Transcript:
    """A new file that takes any amount of output, and keeps what fits; WorkspaceFailed if it cannot."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._room = TRANSCRIPT_LIMIT
        try:
            path.unlink(missing_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorkspaceFailed.of(error, "a transcript cannot be kept", where=str(path)) from error

    def write(self, chunk: bytes) -> None:
        if self._room <= 0:
            return
        if len(chunk) > self._room:
            mark = f"\n[interlock: only the first {TRANSCRIPT_LIMIT} bytes are kept]\n".encode()
            chunk = whole_characters(chunk[: self._room]) + mark
            self._room = 0
        self._room -= len(chunk)
        try:
            view = memoryview(chunk)
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            raise WorkspaceFailed.of(error, "a transcript cannot be kept", where=str(self._path)) from error

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
