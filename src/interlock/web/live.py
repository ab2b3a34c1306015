"""Live pages: server-sent events with the parts of a page that changed, and nothing else.

Files are looked at from time to time, off the loop, for as long as somebody watches; all who watch the same page share
one look and one rendering.  Whoever is slow misses what was overtaken: there is no queue that grows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final

from interlock.errors import InterlockError
from interlock.web.index import Stamp, version

LOOK_S: Final = 0.5
STILL_THERE_S: Final = 15.0
"""After so long without news, a comment keeps what is between us and the browser from closing the connection."""


@dataclass(frozen=True)
class LivePage:
    """A page that somebody watches."""

    stamp: Callable[[], Stamp]
    """What its files look like; cheap."""
    parts: Callable[[], Mapping[str, str]]
    """Its live parts."""


@dataclass(eq=False)
class Watcher:
    """One browser."""

    fresh: asyncio.Event = field(default_factory=asyncio.Event)
    due: dict[str, None] = field(default_factory=dict)
    """The parts that it has not got yet."""

    def owe(self, names: Mapping[str, str]) -> None:
        self.due |= dict.fromkeys(names)
        self.fresh.set()


class Channel:
    """One page, for all who watch it."""

    def __init__(self, page: LivePage, executor: Executor) -> None:
        self._page, self._executor = page, executor
        self._watchers: set[Watcher] = set()
        self._parts: dict[str, str] = {}
        self.version = ""
        self.closed = False
        self._failures = 0
        self._looking: asyncio.Task[None] | None = None
        self._first = asyncio.Event()

    async def join(self, seen: str) -> Watcher:
        """Somebody who has seen this version of the page watches it from now on."""
        watcher = Watcher()
        self._watchers.add(watcher)
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look(seen))
        await self._first.wait()
        if seen != self.version:
            watcher.owe(self._parts)
        return watcher

    def leave(self, watcher: Watcher) -> bool:
        """Whether nobody is left."""
        self._watchers.discard(watcher)
        if not self._watchers and self._looking is not None:
            self._looking.cancel()
        return not self._watchers

    def close(self) -> None:
        self.closed = True
        self._first.set()
        for watcher in self._watchers:
            watcher.fresh.set()

    def taken(self, watcher: Watcher) -> list[tuple[str, str]]:
        """The parts that a browser has not got yet, as they are now."""
        watcher.fresh.clear()
        names, watcher.due = watcher.due, {}
        return [(name, self._parts[name]) for name in names if name in self._parts]

    @property
    def lost(self) -> bool:
        """What it shows is gone, or damaged; once alone may be a file that is just written."""
        return self._failures > 1

    async def _look(self, _seen: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self.closed:
                was_lost = self.lost
                try:
                    now = version(await loop.run_in_executor(self._executor, self._page.stamp))
                    if now != self.version:
                        self._tell(now, await loop.run_in_executor(self._executor, self._page.parts))
                    self._failures = 0
                except (InterlockError, OSError):  # what is wrong is said by the page when it is loaded anew
                    self._failures += 1
                if self.lost != was_lost:
                    for watcher in self._watchers:
                        watcher.fresh.set()
                self._first.set()
                await asyncio.sleep(LOOK_S)
        finally:
            self.close()

    def _tell(self, now: str, parts: Mapping[str, str]) -> None:
        changed = {name: html for name, html in parts.items() if self._parts.get(name) != html}
        self._parts, self.version = dict(parts), now
        if self._first.is_set():
            for watcher in self._watchers:
                watcher.owe(changed)


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
        yield b"retry: 1000\n\n"
        watcher = await channel.join(seen)
        lost = False
        try:
            while not channel.closed:
                try:
                    await asyncio.wait_for(watcher.fresh.wait(), STILL_THERE_S)
                except TimeoutError:
                    if await gone():
                        return
                    yield b": still there\n\n"
                if channel.lost != lost:
                    lost = channel.lost
                    yield b"event: gone\ndata:\n\n" if lost else b"event: back\ndata:\n\n"
                for name, html in channel.taken(watcher):
                    yield _event(name, html, channel.version)
        finally:
            if channel.leave(watcher) and self._channels.get(key) is channel:
                del self._channels[key]

    def close(self) -> None:
        """The server ends: so does every stream, and browsers come again by themselves."""
        for channel in self._channels.values():
            channel.close()


def _event(name: str, html: str, now: str) -> bytes:
    data = json.dumps({"id": name, "html": html})
    return f"id: {now}\nevent: part\ndata: {data}\n\n".encode("utf-8", "replace")
