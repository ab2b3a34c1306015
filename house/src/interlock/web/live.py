"""Live pages: server-sent events with the part of a page that changed.

Files are looked at from time to time, off the loop, for as long as somebody watches; all who watch the same page share
one look and one rendering.  Whoever is slow misses what was overtaken: there is no queue that grows.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from interlock.errors import InterlockError
from interlock.web.shelf import Stamp

LOOK_S = 0.5
STILL_THERE_S = 15.0
"""After so long without news, a comment keeps what is between us and the browser from closing the connection."""


def version(stamp: Stamp) -> str:
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class LivePage:
    """A page that somebody watches."""

    stamp: Callable[[], Stamp]
    """What its files look like; cheap."""
    part: Callable[[], str]


@dataclass(eq=False)
class Channel:
    """One page, for all who watch it."""

    page: LivePage
    executor: Executor
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
        loop = asyncio.get_running_loop()
        try:
            while True:
                began, was_lost = time.monotonic(), self.lost
                try:
                    now = version(await loop.run_in_executor(self.executor, self.page.stamp))
                    if now != self.version:
                        self.html = await loop.run_in_executor(self.executor, self.page.part)
                        self.version = now
                        self.tell()
                    self.failures = 0
                except (InterlockError, OSError):  # what is wrong is said by the page when it is loaded anew
                    self.failures += 1
                if self.lost != was_lost:
                    self.tell()
                await asyncio.sleep(max(LOOK_S, 3 * (time.monotonic() - began)))  # a page that is dear is rarer
        finally:
            self.close()

    def close(self) -> None:
        self.closed = True
        self.tell()


class Live:
    """All pages that are watched."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._channels: dict[Hashable, Channel] = {}

    async def events(
        self, key: Hashable, page: LivePage, seen: str, gone: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """Server-sent events for one browser.

        Args:
            key: equal for whom the page is the same.
            seen: the version that the browser has.
            gone: whether the browser has left.
        """
        channel = self._channels.get(key)
        if channel is None or channel.closed:
            channel = self._channels[key] = Channel(page, self._executor)
            channel.looking = asyncio.ensure_future(channel.look())
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
                    if await gone():
                        return
                    yield b": still there\n\n"
        finally:
            channel.watchers -= 1
            if not channel.watchers and channel.looking is not None:
                channel.looking.cancel()
                if self._channels.get(key) is channel:
                    del self._channels[key]

    def close(self) -> None:
        """The server ends: so does every stream, and browsers come again by themselves."""
        for channel in self._channels.values():
            channel.close()
