"""Places for agents that work at the same time; one that only waits gives its place to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar


class _Place:
    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = False

    async def take(self) -> None:
        await self._places.acquire()
        self._held = True

    def leave(self) -> None:
        """May be called again: a place that was given up is not given up twice."""
        if self._held:
            self._held = False
            self._places.release()


_taken: ContextVar[tuple[_Place, ...]] = ContextVar("places", default=())


def start_without() -> None:
    """In a new member of a cluster: the place of the member around it is not this one's to give up."""
    _taken.set(())


@asynccontextmanager
async def taking(places: asyncio.Semaphore) -> AsyncIterator[None]:
    """Work on one of the places, as soon as one is free."""
    place = _Place(places)
    await place.take()
    token = _taken.set((*_taken.get(), place))
    try:
        yield
    finally:
        _taken.reset(token)
        place.leave()


@asynccontextmanager
async def given_up() -> AsyncIterator[None]:
    """The running task's places are free meanwhile; it goes on when it has them again."""
    mine = _taken.get()
    for place in reversed(mine):
        place.leave()
    yield
    for place in mine:
        await place.take()
