"""Messages of the protocol over the pipes of a program that somebody else owns."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import IO, Any, Final

from interlock.agents.coding.stream import JsonLines

_CHUNK: Final = 64 * 1024


class PipeTransport:
    """What `acp.Connection` sends goes into a pipe, what the program prints comes in by `feed`.

    Nothing here raises or blocks: that a program does not read, prints what is no message or is gone, is noticed by
    its silence and by its end.
    """

    def __init__(self) -> None:
        self._lines = JsonLines(self._take)
        self._inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._unsent = bytearray()
        self._pipe: IO[bytes] | None = None
        self._waiting = False

    @property
    def cut(self) -> bool:
        """Whether a message was too long to be read."""
        return self._lines.cut

    def open(self, pipe: IO[bytes]) -> None:
        """From now on messages go to the program."""
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._move()

    def feed(self, chunk: bytes) -> None:
        """A piece of what the program prints; an empty one is the end."""
        if chunk:
            self._lines.feed(chunk)
        else:
            self.end()

    def end(self) -> None:
        """The program prints no more; may be called again."""
        self._lines.close()
        self._inbox.put_nowait(None)

    def hang_up(self) -> None:
        """Closes the program's input; may be called again."""
        if self._pipe is not None:
            self._wait(False)
            self._pipe.close()
            self._pipe = None
        self._unsent.clear()

    async def send(self, message: dict[str, Any]) -> None:
        self._unsent += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._move()

    async def receive(self) -> dict[str, Any] | None:
        return await self._inbox.get()

    async def close(self) -> None:
        self.hang_up()

    def _take(self, message: Mapping[str, Any]) -> None:
        number, method = message.get("id"), message.get("method", "")
        # The connection looks these up as they are.
        if (number is None or isinstance(number, int | str)) and isinstance(method, str):
            self._inbox.put_nowait(dict(message))

    def _move(self) -> None:
        while self._pipe is not None and self._unsent:
            try:
                written = os.write(self._pipe.fileno(), self._unsent[:_CHUNK])
            except BlockingIOError:
                break
            except OSError:  # the program does not want to hear more
                self.hang_up()
                return
            del self._unsent[:written]
        self._wait(bool(self._unsent))

    def _wait(self, wanted: bool) -> None:
        """Goes on writing when the program has read."""
        if self._pipe is not None and wanted != self._waiting:
            self._waiting = wanted
            loop = asyncio.get_running_loop()
            if wanted:
                loop.add_writer(self._pipe.fileno(), self._move)
            else:
                loop.remove_writer(self._pipe.fileno())
