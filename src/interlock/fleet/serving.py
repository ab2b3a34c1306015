"""A worker at the queue: it waits for one job that it can do, does it, and records its end.

Everything is asked through procrastinate's `JobManager`: signs of life, whose worker is dead, what is given out next.
Its `Worker` is not used.  That one ends when the database restarts, listens to queues that are named once and for all,
and cancels a task in the middle of whatever it does; a run is told, and ends in its own time.

The queue can give a run to two workers: one that was paused counts as dead, and wakes up.  That is harmless (git fences
it).  But it must not record an end of a job that is another's by now: whoever ends a job or queues it again looks whose
it is first, one at a time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

from interlock import __version__
from interlock.errors import InterlockError
from interlock.fleet.database import TASK, Database, FleetUnreachable, Forgotten
from interlock.fleet.needs import Means, Needs, lacking
from interlock.fleet.orders import JobState, Order, Served, Timing

if TYPE_CHECKING:
    from procrastinate.jobs import Job

TRIES: Final = 8
"""So often a job is begun at most when workers fail at it."""
LONGEST_RETRY_S: Final = 300.0
LONGEST_AWAY_S: Final = 10.0
GOODBYE_S: Final = 3.0
"""Who leaves waits so long to be struck off the list."""
FORGOTTEN_S: Final = 3600.0
"""A worker that was not seen for so long is no longer shown."""
KEPT_HOURS: Final = 7 * 24
"""So long it is kept what became of a job."""

_QUEUED: LiteralString = """
SELECT DISTINCT queue_name, args ->> 'queue' AS queue, args -> 'needs' AS needs
  FROM procrastinate_jobs WHERE status = 'todo' AND task_name = %(task)s
"""
_SHOW: LiteralString = """
INSERT INTO interlock_workers (worker_id, facts) VALUES (%(worker)s, %(facts)s)
    ON CONFLICT (worker_id) DO UPDATE SET facts = EXCLUDED.facts
RETURNING worker_id
"""


@dataclass
class Serving:
    """One worker, from its first question to the end of one job."""

    database: Database
    means: Means
    work: Callable[[Order, asyncio.Event], Awaitable[Served]]
    timing: Timing
    stop: asyncio.Event
    reached: Callable[[], None]
    tell: Callable[[str], None]
    worker: int | None = None
    refuses: dict[str, list[str]] = field(default_factory=dict)
    _since: float | None = None
    """When the database began to answer; None: it does not, as far as is known."""
    _away_since: float | None = None
    _beaten: float = float("-inf")
    _failures: int = 0
    _unsure: bool = False
    """A question for a job may have been heard, and its answer lost."""

    async def one(self) -> Order | None:
        """What was done; None: it was stopped before there was anything."""
        job = await self._wait()
        if job is None or self.stop.is_set():
            if job is not None:
                await self._end(job, self.database.queue_again)
            await self._leave()
            return None
        order = Order.from_json(job.task_kwargs)
        told = asyncio.Event()
        beating = asyncio.create_task(self._beat(job, told))
        try:
            await self._do(job, order, told)
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
        await self._leave()
        return order

    async def _wait(self) -> Job | None:
        while not self.stop.is_set():
            try:
                looking = asyncio.ensure_future(self._look())
                if not await self._unless_stopped(looking):
                    return None
                job = looking.result()
                self._answered()
                if job is not None:
                    return job
                delay = self.timing.poll_s
            except FleetUnreachable as error:
                delay = self._away(error)
                self._unsure = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), delay)
        return None

    async def _unless_stopped(self, looking: asyncio.Future[Any]) -> bool:
        """Whether an answer came before this worker was to stop: one that is away is not waited for then.

        A job that was given out with a lost answer is with nobody when this worker has left, and goes to others.
        """
        stopped = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait((looking, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if looking.done():
            return True
        looking.cancel()
        await asyncio.wait([looking])
        return False

    async def _look(self) -> Job | None:
        """Whether there is a job; signs of life, and what dead workers left, on the way."""
        manager = self.database.manager
        if self.worker is None:
            self.worker = await self.database.asked(manager.register_worker)
            await self.database.asked(
                manager.delete_old_jobs, KEPT_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
            )
        if self._unsure:
            found = await self.database.asked(manager.list_jobs_async, worker_id=self.worker, status=JobState.DOING)
            self._unsure = False
            for job in found:
                return job
        names = await self._queues()
        try:
            if time.monotonic() - self._beaten >= self.timing.heartbeat_s:
                await self._give_sign()
            return await self.database.asked(manager.fetch_job, names, self.worker) if names else None
        except Forgotten:  # a machine that slept for hours
            self.worker, self._beaten = None, float("-inf")
            return None

    async def _give_sign(self) -> None:
        assert self.worker is not None
        await self.database.asked(self.database.manager.update_heartbeat, self.worker)
        await self.database.rows(_SHOW, worker=self.worker, facts=self._facts())
        await self._queue_stalled()
        self._beaten = time.monotonic()

    async def _queues(self) -> list[str]:
        """The queues whose needs this worker meets; what it lacks for the others is shown."""
        lacks = {
            row["queue_name"]: list(lacking(row["queue"] or "", Needs.from_json(row["needs"] or {}), self.means))
            for row in await self.database.rows(_QUEUED, task=TASK)
        }
        refuses = {name: found for name, found in lacks.items() if found}
        if refuses != self.refuses:
            self.refuses = refuses
            self._beaten = float("-inf")  # to be shown at once
        return [name for name, found in lacks.items() if not found]

    def _facts(self) -> dict[str, Any]:
        return {
            "name": self.means.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "labels": sorted(self.means.labels),
            "queues": sorted(self.means.queues),
            "repositories": sorted(self.means.repositories),  # not their addresses: those can hold passwords
            "refuses": self.refuses,
        }

    async def _queue_stalled(self) -> None:
        """Queues the jobs of dead workers again.

        When the database was away, nobody could give a sign of life.  Who just found it judges nobody before the others
        had time to find it too.
        """
        if self._since is None or time.monotonic() - self._since < 2 * self.timing.heartbeat_s:
            return
        manager = self.database.manager
        for job in await self.database.asked(
            manager.get_stalled_jobs, task_name=TASK, seconds_since_heartbeat=self.timing.stalled_s
        ):
            if await self.database.settle(job, job.worker_id, self.database.queue_again):
                self.tell(f"{job.task_kwargs.get('run')}: its worker gave no sign of life; it is queued again")
        await self.database.asked(manager.prune_stalled_workers, max(FORGOTTEN_S, self.timing.stalled_s))

    async def _beat(self, job: Job, told: asyncio.Event) -> None:
        """Gives signs of life while there is work, and hears whether it is to end."""
        manager = self.database.manager
        while True:
            try:
                if time.monotonic() - self._beaten >= self.timing.heartbeat_s:
                    await self.database.asked(manager.update_heartbeat, self.worker or 0)
                    self._beaten = time.monotonic()
                for now in await self.database.asked(manager.list_jobs_async, id=job.id):
                    if now.abort_requested:
                        told.set()
                self._answered()
                delay = self.timing.poll_s
            except InterlockError as error:
                delay = min(self._away(error), self.timing.heartbeat_s)
            await asyncio.sleep(delay)

    async def _do(self, job: Job, order: Order, told: asyncio.Event) -> None:
        try:
            served = await self.work(order, told)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job must not stay with us
            why = f"{order.run}: this worker failed at it: {error}"
            await self._failed(job, why)
            return
        match served:
            case Served.DONE:
                await self._end(job, self.database.finish)
            case Served.AGAIN:
                await self._end(job, self.database.queue_again)
            case Served.LOST:
                pass

    async def _failed(self, job: Job, why: str) -> None:
        if job.attempts + 1 >= TRIES:
            self.tell(f"{why}. It was begun {TRIES} times, and is not begun again before somebody resumes it")
            await self._end(job, self.database.give_up)
        else:
            wait = min(self.timing.retry_s * 2.0**job.attempts, LONGEST_RETRY_S)
            at = datetime.now(UTC) + timedelta(seconds=wait)
            self.tell(f"{why}. It is tried again in {wait:.0f} s")
            await self._end(job, lambda now: self.database.queue_again(now, at))

    async def _end(self, job: Job, record: Callable[[Job], Awaitable[None]]) -> None:
        """Records the end of a job, as soon as the database answers; who is to stop does not wait for ever."""
        while True:
            try:
                await self.database.settle(job, self.worker, record)
                return self._answered()
            except FleetUnreachable as error:
                delay = self._away(error)
            since = self._away_since or time.monotonic()
            if self.stop.is_set() and time.monotonic() - since > self.timing.stalled_s:
                return self.tell(f"{job.task_kwargs.get('run')}: its end could not be recorded; others will look at it")
            await asyncio.sleep(min(delay, self.timing.heartbeat_s))

    async def _leave(self) -> None:
        if self.worker is not None and self._since is not None:
            with suppress(InterlockError, TimeoutError):  # else it is forgotten in time
                async with asyncio.timeout(GOODBYE_S):
                    await self.database.asked(self.database.manager.unregister_worker, self.worker)

    def _answered(self) -> None:
        if self._failures:
            self.tell("the database of the fleet answers again")
        self._failures = 0
        self._away_since = None
        if self._since is None:
            self._since = time.monotonic()
        self.reached()

    def _away(self, error: InterlockError) -> float:
        """How long to wait before it is asked again."""
        if not self._failures:
            self.tell(f"{error} ({error.found}); this worker waits for it")
            self._away_since = time.monotonic()
        self._since = None
        self._failures += 1
        return min(0.25 * 2.0 ** min(self._failures, 10), LONGEST_AWAY_S)
