"""Live pages: server-sent events with the part of a page that changed.

Files are looked at from time to time, off the loop, for as long as somebody watches; all who watch the same page share
one look and one rendering.  Whoever is slow misses what was overtaken: there is no queue that grows.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field

from interlock.errors import InterlockError
from interlock.web.shelf import Stamp

LOOK_S = 0.5
STILL_THERE_S = 15.0
"""After so long without news, a comment keeps what is between us and the browser from closing the connection."""


def version(stamp: Stamp) -> str:
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


@dataclass(eq=False)
class Channel:
    """One page, for all who watch it."""

    stamp: Callable[[], Stamp]
    """What its files look like; cheap."""
    part: Callable[[], str]
    version: str = ""
    html: str = ""
    failures: int = 0
    closed: bool = False
    watchers: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Replaced with each piece of news."""
    looking: asyncio.Task[None] | None = None

    @property
    def lost(self) -> bool:
        """What it shows is gone, or damaged; once alone may be a file that is just written."""
        return self.failures > 1

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    async def look(self) -> None:
        while True:
            began, known = time.monotonic(), (self.version, self.lost)
            try:
                now = version(await asyncio.to_thread(self.stamp))
                if now != self.version:
                    self.html, self.version = await asyncio.to_thread(self.part), now
                self.failures = 0
            except (InterlockError, OSError, LookupError):  # what is wrong is said by the page when it is loaded anew
                self.failures += 1
            if (self.version, self.lost) != known:
                self.tell()
            await asyncio.sleep(max(LOOK_S, 3 * (time.monotonic() - began)))  # a page that is dear is rarer

    def close(self) -> None:
        self.closed = True
        self.tell()


class Live:
    """All pages that are watched."""

    def __init__(self) -> None:
        self._channels: dict[Hashable, Channel] = {}

    async def events(
        self, key: Hashable, stamp: Callable[[], Stamp], part: Callable[[], str], seen: str
    ) -> AsyncIterator[bytes]:
        """Server-sent events for one browser; cancelled when it leaves.

        Args:
            key: equal for whom the page is the same.
            seen: the version that the browser has.
        """
        channel = self._channels.setdefault(key, Channel(stamp, part))
        if channel.looking is None:
            channel.looking = asyncio.ensure_future(channel.look())
            channel.looking.add_done_callback(lambda _: self._end(key, channel))
        channel.watchers += 1
        lost = False
        try:
            yield b"retry: 1000\n\n"
            while not channel.closed:
                news = channel.news
                if channel.lost != lost:
                    lost = channel.lost
                    yield b"event: gone\ndata:\n\n" if lost else b"event: back\ndata:\n\n"
                if channel.version not in ("", seen):
                    seen = channel.version
                    yield f"id: {seen}\nevent: part\ndata: {json.dumps(channel.html)}\n\n".encode()
                    continue
                try:
                    await asyncio.wait_for(news.wait(), STILL_THERE_S)
                except TimeoutError:
                    yield b": still there\n\n"
        finally:
            channel.watchers -= 1
            if not channel.watchers:
                channel.looking.cancel()
                self._end(key, channel)

    def _end(self, key: Hashable, channel: Channel) -> None:
        channel.close()
        if self._channels.get(key) is channel:
            del self._channels[key]

    def close(self) -> None:
        """The server ends: so does every stream, and browsers come again by themselves."""
        for channel in self._channels.values():
            channel.close()
