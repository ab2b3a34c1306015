"""Virtual time: an event loop in which sleeping takes none, and what its clock shows."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar, TypeVarTuple, Unpack

from interlock.errors import EngineFault

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
EPOCH = datetime(2026, 1, 4, 12, 0, 0, tzinfo=UTC)


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop in which sleeping takes no time: where another one would sleep, virtual time jumps.

    It has neither files nor threads to wait for, so it is the scheduling and no more: most of what a simulated run
    does in a loop is to come back to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.virtual = 0.0
        self._soon: deque[asyncio.Handle] = deque()
        self._later: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.virtual

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """How Python asks for the end of an asynchronous generator that somebody left."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.virtual + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._later, handle)
        return handle

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _run_once(self) -> None:
        soon, later = self._soon, self._later
        while later and later[0].cancelled():
            heapq.heappop(later)
        if not soon:
            if not later:
                raise EngineFault("the simulated run waits for something that can never happen")
            self.virtual += max(0.0, later[0].when() - self.virtual)
        while later and later[0].when() < self.virtual + TICK:
            soon.append(heapq.heappop(later))
        for _ in range(len(soon)):
            handle = soon.popleft()
            if not handle.cancelled():
                handle._run()


TICK = 1e-9
"""Seconds between which virtual time does not distinguish."""
_here = threading.local()
"""One loop for each thread serves thousands of simulated runs; making one costs more than a run."""


def instantly(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time; must not be called inside a running loop."""
    return virtual_loop().run_until_complete(work)


def virtual_loop() -> VirtualTimeLoop:
    loop: VirtualTimeLoop | None = getattr(_here, "loop", None)
    if loop is None or loop.is_closed():
        loop = _here.loop = VirtualTimeLoop()
    return loop


def aside(work: Callable[[], T]) -> T:
    """What simulations come to, for somebody inside a running loop; it waits meanwhile."""

    def worked() -> T:
        try:
            return work()
        finally:
            virtual_loop().close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(worked).result()


def virtual_stamp() -> str:
    return _stamp(asyncio.get_running_loop().time())


# Much happens at one virtual moment, and the moments of one run are those of the next.
@lru_cache(maxsize=1024)
def virtual_moment(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


@lru_cache(maxsize=1024)
def _stamp(seconds: float) -> str:
    return virtual_moment(seconds).isoformat(timespec="milliseconds")
