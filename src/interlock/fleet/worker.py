"""A worker: one process that takes one run after the other, each in a fresh process of itself.

It ends by itself in three cases.  Fenced: somebody else has its run.  Stalled: neither database nor remote answered for
so long that its agents only cost.  Asked to: a first signal lets the dispatches under way come to their ends and hands
the run over, a second one hands it over at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from interlock.agents import kill_everything
from interlock.engine.runs import View
from interlock.errors import WorkspaceFailed
from interlock.fleet.clones import Clones
from interlock.fleet.needs import Means
from interlock.fleet.orders import Order, Served, Timing
from interlock.fleet.queue import Queue
from interlock.fleet.working import WorkerTold, Working, WorkPlace

FENCED: Final = 75
"""The exit code of a worker whose run somebody else has: try again later, as sysexits.h calls it."""
STALLED: Final = 69
"""The exit code of a worker that reached nobody: a service is not available."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MOST_WORKERS: Final = 256
"""Of one folder."""


@dataclass
class Reach:
    """When somebody last answered: the database, or a remote."""

    stall_s: float
    last: float = field(default_factory=time.monotonic)

    def touch(self) -> None:
        self.last = time.monotonic()

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self.last


@dataclass
class Worker:
    """What a worker has and knows; `one` does one job."""

    queue: Queue
    means: Means
    clones: Clones
    place: WorkPlace
    view: View
    environ: Mapping[str, str]
    told: WorkerTold
    """What the signals said that it got; see `hear`."""
    stall_s: float = 60.0
    timing: Timing = field(default_factory=Timing)

    async def one(self) -> Order | None:
        """Wait for a run, and work on it; None: this worker was asked to leave, and had none."""
        self.clones.clear_all()
        reach = Reach(self.stall_s)
        working = Working(
            self.place,
            self.clones,
            self.view,
            told=self.told,
            put=self.queue.put,
            reached=reach.touch,
            fenced=lambda why: self._end_at_once(FENCED, why),
            unreachable=lambda why: self._end_at_once(STALLED, why),
            sure_s=self.timing.stalled_s,
        )

        async def work(order: Order, cancelled: asyncio.Event) -> Served:
            reach.touch()
            address = self.means.repositories[order.needs.repository]
            watch = asyncio.ensure_future(self._watch(reach, address))
            try:
                self.view.remark(f"{order.run}: {order.about or order.key}")
                served = await working.work(order, address, cancelled)
            finally:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch
            if served is Served.LOST:
                self._end_at_once(FENCED, f"{order.run}: somebody else has it")
            return served

        with self._listening():
            return await self.queue.serve_one(
                self.means,
                work,
                timing=self.timing,
                stop=self.told.leave,
                reached=reach.touch,
                tell=self.view.remark,
            )

    async def _watch(self, reach: Reach, address: str) -> None:
        """End this process when neither database nor remote has answered for too long."""
        while True:
            await asyncio.sleep(self.stall_s / 10)
            if reach.silent_s > self.stall_s:
                self._end_at_once(
                    STALLED, f"neither the database nor the remote answered for {self.stall_s:g} s: agents are ended"
                )
            if reach.silent_s > self.stall_s / 3 and await self._answers(address, self.stall_s / 3):
                reach.touch()

    async def _answers(self, address: str, patience_s: float) -> bool:
        with suppress(TimeoutError):
            return await asyncio.wait_for(self.clones.answer(address), patience_s)
        return False

    def _end_at_once(self, code: int, why: str) -> NoReturn:
        """Nothing more is written: not the journal, not the queue."""
        kill_everything()
        with suppress(OSError, ValueError):
            self.view.remark(why)
        os._exit(code)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """The first signal asks the worker to leave, the second to do so at once; the third ends it as it is.

        Afterwards signals are held until this process has ended, or has become a fresh one that listens.
        """
        loop = asyncio.get_running_loop()

        def leave() -> None:
            if self.told.now.is_set():
                self._end_at_once(STALLED, "ended: what was not saved is lost, others go on from what was")
            if self.told.leave.is_set():
                self.view.remark("leaving at once: agents are ended, and begun anew elsewhere")
                self.told.now.set()
            else:
                self.view.remark("leaving when the agents at work have ended; told again, at once")
                self.told.leave.set()

        for number in SIGNALS:
            loop.add_signal_handler(number, leave)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            _note(self.told)  # another thread may be hit until the loop has ended them; then handlers go too


def hear(told: WorkerTold) -> None:
    """A signal asks to leave, also one that was held while this process was made.

    Threads begin with what is held where they are started, and so does all that they start, such as git and its hooks:
    this comes before any of them.
    """
    _note(told)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _note(told: WorkerTold) -> None:
    for number in SIGNALS:
        signal.signal(number, lambda _number, _frame: told.leave.set())


@contextmanager
def own_folder(above: Path) -> Iterator[Path]:
    """A folder that no other worker uses, of those below; the first one that is free."""
    above.mkdir(parents=True, exist_ok=True)
    for number in range(1, MOST_WORKERS + 1):
        folder = above / str(number)
        folder.mkdir(exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        try:
            yield folder
        finally:
            os.close(handle)
        return
    raise WorkspaceFailed(f"{MOST_WORKERS} workers use this folder already", where=str(above))
