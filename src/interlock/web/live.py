"""Live pages: server-sent events with the part of a page that changed.

Files are looked at from time to time, off the loop, for as long as somebody watches; all who watch the same page share
one look and one rendering.  Whoever is slow misses what was overtaken: there is no queue that grows.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from interlock.errors import InterlockError

LOOK_S = 0.5
STILL_THERE_S = 15.0
"""After so long without news, a comment keeps what is between us and the browser from closing the connection."""


def version(stamp: Sequence[Any]) -> str:
    """Another one for anything else."""
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


@dataclass(eq=False)
class Watched:
    """One page, for all who watch it."""

    stamp: Callable[[], tuple[Any, ...]]
    """What its files look like; cheap."""
    part: Callable[[], str]
    version: str = ""
    html: str = ""
    failures: int = 0
    """In a row: what it shows is gone, or damaged; once alone may be a file that is just written."""
    watchers: int = 0
    next: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look(self) -> None:
        """As it is now; whoever asks while another one has just looked gets what that saw."""
        async with self.turn:
            if (began := time.monotonic()) < self.next:
                return
            try:
                now = version(await asyncio.to_thread(self.stamp))
                if now != self.version:
                    self.html, self.version = await asyncio.to_thread(self.part), now
                self.failures = 0
            except (InterlockError, OSError, LookupError):
                self.failures += 1
            ended = time.monotonic()
            self.next = ended + max(LOOK_S, 3 * (ended - began))  # a page that is dear is rarer


class Live:
    """All pages that are watched."""

    def __init__(self) -> None:
        self._pages: dict[Hashable, Watched] = {}
        self._ends = asyncio.Event()

    async def events(
        self, key: Hashable, stamp: Callable[[], tuple[Any, ...]], part: Callable[[], str], seen: str
    ) -> AsyncIterator[bytes]:
        """Server-sent events for one browser; cancelled when it leaves.

        Args:
            key: equal for whom the page is the same.
            seen: the version that the browser has.
        """
        page = self._pages.setdefault(key, Watched(stamp, part))
        page.watchers += 1
        said = time.monotonic()
        try:
            yield b"retry: 1000\n\n"
            while not self._ends.is_set():
                await page.look()
                if page.failures > 1:  # what is wrong is said by the page when it is loaded anew
                    return
                if page.version not in ("", seen):
                    seen, said = page.version, time.monotonic()
                    yield f"id: {seen}\nevent: part\ndata: {json.dumps(page.html)}\n\n".encode()
                elif time.monotonic() - said >= STILL_THERE_S:
                    said = time.monotonic()
                    yield b": still there\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ends.wait(), LOOK_S)
        finally:
            page.watchers -= 1
            if not page.watchers:
                self._pages.pop(key, None)

    def close(self) -> None:
        """The server ends: so does every stream, and browsers come again by themselves."""
        self._ends.set()
