"""The queue of a fleet: procrastinate's, in PostgreSQL.

procrastinate keeps jobs, locks, priorities, delays and signs of life, and says who is given what.  Here is what a door
and a worker ask of it.  It places runs; whose a run is, git decides (ADR 0023).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Final, LiteralString, Self

from interlock.fleet.database import AT_ONCE, TASK, Database, FleetUnreachable
from interlock.fleet.needs import Means
from interlock.fleet.orders import (
    CancelOutcome,
    JobState,
    Order,
    Queued,
    QueuedJob,
    Served,
    Timing,
    WorkerSeen,
)
from interlock.fleet.serving import Serving

__all__ = [
    "CancelOutcome",
    "FleetUnreachable",
    "JobState",
    "Order",
    "Queue",
    "Queued",
    "QueuedJob",
    "Served",
    "Timing",
    "WorkerSeen",
]

_JOBS: Final[LiteralString] = """
SELECT job.id, job.args, job.status, job.scheduled_at, job.attempts, job.abort_requested,
       worker.facts ->> 'name' AS worker,
       (SELECT max(at) FROM procrastinate_events AS event
         WHERE event.job_id = job.id AND event.type NOT IN ('scheduled', 'abort_requested')) AS since
  FROM procrastinate_jobs AS job
  LEFT JOIN interlock_workers AS worker ON worker.worker_id = job.worker_id
 WHERE job.task_name = %(task)s AND job.status = ANY(%(states)s::procrastinate_job_status[])
   AND (%(run)s::text IS NULL OR job.args ->> 'run' = %(run)s)
   AND (job.status <> 'failed' OR NOT EXISTS (SELECT 1 FROM procrastinate_jobs AS later
         WHERE later.id > job.id AND later.args ->> 'run' = job.args ->> 'run'))
 ORDER BY job.status = 'todo', job.priority DESC, job.id
"""
_WORKERS: Final[LiteralString] = """
SELECT own.facts, extract(epoch FROM now() - worker.last_heartbeat)::float AS silent,
       (SELECT min(job.args ->> 'run') FROM procrastinate_jobs AS job
         WHERE job.worker_id = worker.id AND job.status = 'doing' AND job.task_name = %(task)s) AS run
  FROM procrastinate_workers AS worker
  JOIN interlock_workers AS own ON own.worker_id = worker.id
 ORDER BY own.facts ->> 'name', worker.last_heartbeat DESC
"""


class Queue:
    """The queue, while it is open: ``async with Queue.of(database) as queue``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def of(cls, database: str | None, *, patient: bool = False) -> Self:
        """The queue in the database of this address; opening it says whether that can be reached.

        Args:
            patient: opening it asks nothing: for a worker that begins anew while the database may be away.
        """
        return cls(Database(database or "", patient=patient))

    async def __aenter__(self) -> Self:
        await self._database.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._database.__aexit__(kind, error, trace)

    async def setup(self) -> list[str]:
        """Prepares the database; what was done, nothing when all was there."""
        return await self._database.setup()

    async def put(self, order: Order, *, at: datetime | None = None) -> Queued:
        """Queues an order.

        Args:
            at: not before.
        """
        return await self._database.put(order, at=at)

    async def jobs(self, run: str | None = None) -> list[QueuedJob]:
        """What is worked on, then what is queued, in the order in which it is given out."""
        return await self._jobs(run, JobState.TODO, JobState.DOING)

    async def given_up(self, run: str | None = None) -> list[QueuedJob]:
        """What workers failed at so often that nobody tries again, until a person resumes it."""
        return await self._jobs(run, JobState.FAILED)

    async def _jobs(self, run: str | None, *states: JobState) -> list[QueuedJob]:
        found = await self._database.rows(_JOBS, task=TASK, run=run, states=[str(state) for state in states])
        return [_job(row) for row in found]

    async def cancel(self, run: str) -> CancelOutcome:
        """Takes a run out of the queue, and tells whoever works on it."""
        outcome = CancelOutcome.NOTHING
        database = self._database
        for job in await self.jobs(run):
            if await database.asked(database.manager.cancel_job_by_id_async, job.id, abort=True):
                state = await database.asked(database.manager.get_job_status_async, job.id)
                told = state.value == JobState.DOING
                outcome = CancelOutcome.TOLD if told or outcome is CancelOutcome.TOLD else CancelOutcome.DROPPED
        return outcome

    async def workers(self) -> list[WorkerSeen]:
        """The workers that were seen lately; of those with one name, the one that was seen last."""
        seen: dict[str, WorkerSeen] = {}
        for row in await self._database.rows(_WORKERS, task=TASK):
            worker = _worker(row)
            seen.setdefault(worker.name, worker)
        return list(seen.values())

    async def now(self) -> datetime:
        """The time by the clock of the database, which all the others are of."""
        found: datetime = (await self._database.rows("SELECT now() AS now"))[0]["now"]
        return found

    async def serve_one(
        self,
        means: Means,
        work: Callable[[Order, asyncio.Event], Awaitable[Served]],
        *,
        timing: Timing,
        stop: asyncio.Event,
        reached: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> Order | None:
        """Waits for one job that this worker can do, does it, and records its end.

        A database that is away ends nothing: whoever is idle asks again, and the end of a job waits until it can be
        recorded.

        Args:
            work: does it; its event is set when somebody cancels the run.  An exception is a failure of this worker:
                the job is tried again later, a few times.  One that is no `Exception` goes through, and the queue is
                told nothing.
            stop: set, it ends the waiting; work is not touched.
            reached: called whenever the database answered.
            tell: hears what a person should know.

        Returns:
            What was done; None: it was stopped before there was anything.
        """
        return await Serving(self._database, means, work, timing, stop, reached, tell).one()


def _job(row: dict[str, Any]) -> QueuedJob:
    return QueuedJob(
        id=row["id"],
        order=Order.from_json(row["args"]),
        state=JobState(row["status"]),
        since=row["since"],
        at=row["scheduled_at"] if row["scheduled_at"] != AT_ONCE else None,
        worker=row["worker"] or "",
        attempts=row["attempts"],
        told_to_end=row["abort_requested"],
    )


def _worker(row: dict[str, Any]) -> WorkerSeen:
    facts = row["facts"]
    return WorkerSeen(
        name=facts["name"],
        host=facts.get("host", ""),
        version=facts.get("version", ""),
        labels=tuple(facts.get("labels", ())),
        queues=tuple(facts.get("queues", ())),
        repositories=tuple(facts.get("repositories", ())),
        run=row["run"] or "",
        silent_s=max(0.0, row["silent"]),
        refuses={name: tuple(lacks) for name, lacks in facts.get("refuses", {}).items()},
    )
