"""Members of a cluster: side by side under a cap, their work brought into the tree in declared order (LY-06).

They work side by side and end in any order.  The first work of a member waits for the first work of those declared
before it, its second for their second, and so on; a member that has ended keeps nobody waiting.  So of two that changed
the same file the same one always gets the conflict, and members that consist of several steps go on side by side.

Who works has a seat, and there are only so many; one that only waits gives its seat to another.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from interlock.engine import scopes
from interlock.engine.options import Halted
from interlock.engine.recording import Recording
from interlock.errors import EngineFault

T = TypeVar("T")


async def side_by_side(
    recording: Recording, members: Mapping[str, Callable[[], Awaitable[T]]], *, cap: int
) -> dict[str, T]:
    """What each member came to, in declared order; each has a task, and a scope of its own."""
    base, open_members = scopes.here(), recording.open_members
    paths = {member: f"{base.path}/{member}" if base.path else member for member in members}
    if taken := open_members & set(paths.values()):
        raise EngineFault(f"two members would have the same keys: {sorted(taken)[0]}", where=base.path)
    open_members.update(paths.values())
    seats = asyncio.Semaphore(cap)
    lanes = {member: Lane() for member in members}

    async def work(member: str, body: Callable[[], Awaitable[T]]) -> T:
        scopes.current.set(base.child(member, member=True))
        _taken.set(())  # the seat of the member around it is not this one's to give up
        before = [lanes[other] for other in itertools.takewhile(member.__ne__, lanes)]
        _standing.set((*_standing.get(), _Place(lanes[member], before, min(cap, len(lanes)))))
        try:
            async with Seated(seats):
                try:
                    return await body()
                finally:
                    open_members.discard(paths[member])
        finally:
            lanes[member].end()

    tasks = {member: asyncio.create_task(work(member, body)) for member, body in members.items()}
    try:
        await settle_all(tasks.values())
    finally:
        open_members.difference_update(paths.values())
    return {member: task.result() for member, task in tasks.items()}


async def settle_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait for all members. One that halts lets the others finish (their work is paid for); an error ends them.

    None is at work any more when this returns or raises, however often it is cancelled: an error of a member may be
    followed by one of a cluster around it.
    """
    members = list(tasks)
    pending = set(members)
    failure: BaseException | None = None
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError as again:
            cancelled = again
            for task in pending:
                task.cancel()
            continue
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, Halted) and failure is None:
                failure = error
                for other in pending:
                    other.cancel()
    if cancelled is not None:
        raise cancelled
    if failure is not None:
        raise failure
    for task in members:  # of several that halt, the first in declared order
        if not task.cancelled() and isinstance(halt := task.exception(), Halted):
            raise halt


# -- whose turn it is


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


_standing: ContextVar[tuple[_Place, ...]] = ContextVar("turns", default=())
"""Where the running task stands, in each cluster around it."""


def at_once() -> int:
    """How many might work at the same time as the running task, it included."""
    return math.prod(place.members for place in _standing.get())


def through() -> None:
    """The running task has a dispatch through, with work in the tree or without."""
    for place in _standing.get():
        place.lane.advance()


@asynccontextmanager
async def in_turn() -> AsyncIterator[None]:
    """When those declared before have come as far; the seat is free for others meanwhile."""
    ahead = [
        (lane, place.lane.next)
        for place in _standing.get()
        for lane in place.before
        if not lane.is_past(place.lane.next)
    ]
    if ahead:
        async with given_up():
            for lane, number in ahead:
                await lane.passes(number)
    yield


# -- seats


class _Seat:
    def __init__(self, seats: asyncio.Semaphore) -> None:
        self._seats = seats
        self._held = False

    async def take(self) -> None:
        await self._seats.acquire()
        self._held = True

    def leave(self) -> None:
        """May be called again: a seat that was given up is not given up twice."""
        if self._held:
            self._held = False
            self._seats.release()


_taken: ContextVar[tuple[_Seat, ...]] = ContextVar("seats", default=())


class Seated:
    """Work on a seat of each row, as soon as one is free there."""

    def __init__(self, *rows: asyncio.Semaphore) -> None:
        self._rows = rows
        self._mine: list[_Seat] = []
        self._outer: tuple[_Seat, ...] = ()

    async def __aenter__(self) -> None:
        self._outer = _taken.get()
        try:
            for row in self._rows:
                seat = _Seat(row)
                await seat.take()
                self._mine.append(seat)
                _taken.set((*self._outer, *self._mine))
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._leave()

    def _leave(self) -> None:
        _taken.set(self._outer)
        for seat in reversed(self._mine):
            seat.leave()


@asynccontextmanager
async def given_up() -> AsyncIterator[None]:
    """The running task's seats are free meanwhile; it goes on when it has them again."""
    mine = _taken.get()
    for seat in reversed(mine):
        seat.leave()
    yield
    for seat in mine:
        await seat.take()
