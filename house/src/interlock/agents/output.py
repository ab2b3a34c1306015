"""What a program prints: heard line by line, redacted before anybody sees it, kept within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from interlock.agents.redaction import Redaction
from interlock.errors import WorkspaceFailed

TRANSCRIPT_LIMIT = 50 * 1000 * 1000
LINE_LIMIT = 32 * 1000 * 1000
"""Bytes of a line that are held until it is whole; a longer one is heard by nobody."""
_CHUNK = 64 * 1024
_LARGEST_PIPE = 1024 * 1024


class Output:
    """Takes one output of a program, a piece at a time, and passes on whole lines, redacted."""

    def __init__(
        self,
        pipe: IO[bytes] | None,
        redact: Redaction,
        sinks: Sequence[Kept | Transcript | None],
        on_line: Callable[[bytes], None] | None,
    ) -> None:
        assert pipe is not None
        self.fault: BaseException | None = None
        """Of `on_line`."""
        self.deaf = False
        self._redact = redact
        self._sinks = [sink for sink in sinks if sink is not None]
        self._on_line = on_line
        self._line: list[bytes] = []
        """The beginning of a line that is not whole yet."""
        self._held = 0
        self._torn = False
        """It is too long, and some of it is gone already."""
        self._handle = pipe.fileno()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.broken: asyncio.Future[None] = self._loop.create_future()
        """Done when `on_line` has failed: there is nobody any more for whom the program would work."""
        os.set_blocking(self._handle, False)
        with contextlib.suppress(AttributeError, OSError):  # some agents exit without waiting to be read
            fcntl.fcntl(self._handle, fcntl.F_SETPIPE_SZ, _LARGEST_PIPE)
        self._loop.add_reader(self._handle, self._move)

    def _move(self) -> bool:
        """Takes what is there, at most one piece; false when nothing is there or nothing will come."""
        try:
            chunk = os.read(self._handle, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if chunk:
            self._take(chunk)
        else:
            self.stop()
        return bool(chunk)

    def _take(self, chunk: bytes) -> None:
        end = chunk.rfind(b"\n") + 1
        if end:
            self._tell(b"".join([*self._line, chunk[:end]]))
            self._line, self._held, self._torn = [], 0, False
        self._line.append(chunk[end:])
        self._held += len(chunk) - end
        if self._held > LINE_LIMIT:
            self.deaf = self._torn = True
            whole, rest = self._redact.part(b"".join(self._line))
            self._pass_on(whole)
            self._line, self._held = [rest], len(rest)

    def _tell(self, lines: bytes) -> None:
        """Args:
        lines: whole ones.
        """
        clean = self._redact.raw(lines)
        self._pass_on(clean)
        if self._on_line is None or self.fault is not None:
            return
        try:
            for line in clean.removesuffix(b"\n").split(b"\n")[self._torn :]:
                self._on_line(line)
        except BaseException as fault:  # noqa: BLE001 - it is raised by whoever waits for the program
            self.fault = fault
            if not self.broken.done():
                self.broken.set_result(None)

    def _pass_on(self, clean: bytes) -> None:
        for sink in self._sinks:
            sink.write(clean)

    def drain(self) -> None:
        """Takes the rest that is already there; bounded, since a writer may be left that is not ours to end yet."""
        for _ in range(_LARGEST_PIPE // _CHUNK):
            if self.ended.done() or not self._move():
                break
        self.stop()

    def stop(self) -> None:
        if not self.ended.done():
            self._loop.remove_reader(self._handle)
            self.ended.set_result(None)
            if last := b"".join(self._line):
                self._line = []
                self._tell(last)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


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
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0xC0:
            return raw[:-back] if back < (2 + (byte >= 0xE0) + (byte >= 0xF0)) else raw
        if byte < 0x80:
            break
    return raw


class Transcript:
    """A new file that takes any amount of output, and keeps what fits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._room = TRANSCRIPT_LIMIT
        self._error: OSError | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._handle = os.open(path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(self._handle).st_mode):
                os.close(self._handle)
                raise OSError(0, "no plain file", str(path))
        except OSError as error:
            raise WorkspaceFailed.of(error, "a transcript cannot be kept", where=str(path)) from error

    def write(self, chunk: bytes) -> None:
        if self._room <= 0 or self._error is not None:
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
            self._error = error

    def check(self, argv: Sequence[str]) -> None:
        if self._error is not None:
            what = f"the output of {argv[0]!r} could not be kept"
            raise WorkspaceFailed.of(self._error, what, where=str(self._path)) from self._error

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
