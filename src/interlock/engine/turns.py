"""Whose turn it is to bring work into the tree: members of a cluster do so in declared order (LY-06).

They work side by side and end in any order.  The first work of a member waits for the first work of those declared
before it, its second for their second, and so on; a member that has ended keeps nobody waiting.  So of two that changed
the same file the same one always gets the conflict, and members that consist of several steps go on side by side.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from interlock.engine.places import given_up


class Lane:
    """How far one member of a cluster has come: the dispatches that it has through."""

    def __init__(self) -> None:
        self._through = 0
        self._ended = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def next(self) -> int:
        return self._through + 1

    def is_past(self, number: int) -> bool:
        return self._ended or self._through >= number

    async def passes(self, number: int) -> None:
        """Wait until this member has so many dispatches through, or has ended."""
        if not self.is_past(number):
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((number, future))
            await future

    def advance(self) -> None:
        self._through += 1
        self._release()

    def end(self) -> None:
        self._ended = True
        self._release()

    def _release(self) -> None:
        for number, future in self._waiting:
            if self.is_past(number) and not future.done():
                future.set_result(None)
        self._waiting = [(number, future) for number, future in self._waiting if not future.done()]


@dataclass(frozen=True)
class _Place:
    lane: Lane
    before: Sequence[Lane]
    members: int


_places: ContextVar[tuple[_Place, ...]] = ContextVar("turns", default=())
"""Where the running task stands, in each cluster around it."""


def take_place(lane: Lane, before: Sequence[Lane], members: int) -> None:
    """In a new member of a cluster of so many: this is its lane, and these were declared before it."""
    _places.set((*_places.get(), _Place(lane, before, members)))


def at_once() -> int:
    """How many might work at the same time as the running task, it included."""
    return math.prod(place.members for place in _places.get())


def through() -> None:
    """The running task has a dispatch through, with work in the tree or without."""
    for place in _places.get():
        place.lane.advance()


@asynccontextmanager
async def in_turn() -> AsyncIterator[None]:
    """When those declared before have come as far; the place for an agent is free for others meanwhile."""
    ahead = [
        (lane, place.lane.next) for place in _places.get() for lane in place.before if not lane.is_past(place.lane.next)
    ]
    if ahead:
        async with given_up():
            for lane, number in ahead:
                await lane.passes(number)
    yield
