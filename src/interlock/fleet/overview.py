"""How a fleet stands: who works, what waits, and why.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interlock.fleet.needs import Means, lacking
from interlock.fleet.orders import JobState, QueuedJob, Timing, WorkerSeen

if TYPE_CHECKING:
    from interlock.fleet.freight import Possession

SILENT_S = Timing().stalled_s


@dataclass(frozen=True)
class Overview:
    """A fleet at one moment."""

    workers: Sequence[WorkerSeen]
    jobs: Sequence[QueuedJob]
    """What is worked on and what waits."""
    given_up: Sequence[QueuedJob]
    now: datetime
    unqueued: Sequence[Possession] | None = None
    """Runs of the remote that nobody is asked to work on; None: the remote was not asked."""

    @property
    def alive(self) -> list[WorkerSeen]:
        return [worker for worker in self.workers if worker.silent_s < SILENT_S]

    def why(self, job: QueuedJob) -> str:
        """Why a job is where it is, in words."""
        match job.state:
            case JobState.FAILED:
                return f"begun {job.attempts} times, and workers failed at it: their logs say why"
            case JobState.DOING:
                return self._why_worked_on(job)
            case JobState.TODO:
                return self._why_waiting(job)

    def _why_worked_on(self, job: QueuedJob) -> str:
        if job.worker not in {worker.name for worker in self.alive}:
            return "its worker gives no sign of life: others will take it"
        return "told to end" if job.told_to_end else ""

    def _why_waiting(self, job: QueuedJob) -> str:
        if job.at is not None and job.at > self.now:
            when = f"{job.at.astimezone():%Y-%m-%d %H:%M:%S}"
            return f"a worker failed at it: tried again at {when}" if job.attempts else f"scheduled for {when}"
        if before := next((other for other in self.jobs if self._is_before(other, job)), None):
            what = "is worked on" if before.state is JobState.DOING else "comes first"
            return f"{before.order.run} {what}" + ("" if before.order.run == job.order.run else ", with the same key")
        if not self.alive:
            return "no worker is there: start one with interlock worker"
        lacks = {worker.name: self._lacks(worker, job) for worker in self.alive}
        able = [worker for worker in self.alive if not lacks[worker.name]]
        if not able:
            return self._missing(job, lacks)
        if all(worker.run for worker in able):
            return "the only worker that could do it is busy" if len(able) == 1 else "all who could do it are busy"
        return "about to be taken"

    @staticmethod
    def _is_before(other: QueuedJob, job: QueuedJob) -> bool:
        """Whether the queue gives out a job only after the other one."""
        if other.id == job.id or other.order.lock != job.order.lock:
            return False
        rank = (-other.order.priority, other.id) < (-job.order.priority, job.id)
        return other.state is JobState.DOING or rank

    @staticmethod
    def _lacks(worker: WorkerSeen, job: QueuedJob) -> tuple[str, ...]:
        """What keeps a worker from a job: as it said itself, else as far as it can be seen from here."""
        if (said := worker.refuses.get(job.order.name)) is not None:
            return said
        means = Means(
            name=worker.name,
            repositories=dict.fromkeys(worker.repositories, ""),
            labels=frozenset(worker.labels),
            queues=frozenset(worker.queues),
            has_program=lambda _program: True,
            trusts=lambda _files: True,
        )
        return lacking(job.order.queue, job.order.needs, means)

    @staticmethod
    def _missing(job: QueuedJob, lacks: dict[str, tuple[str, ...]]) -> str:
        queue = f"queue {job.order.queue}"
        listening = {name: found for name, found in lacks.items() if queue not in found}
        if not listening:
            return f"nobody listens to {queue}"
        first, *others = listening.values()
        if common := [one for one in first if all(one in other for other in others)]:
            return f"no worker has {' and '.join(common)}"
        return "no worker has all it needs: " + "; ".join(
            f"{name} lacks {' and '.join(found)}" for name, found in listening.items()
        )

    @property
    def nobody_can(self) -> list[QueuedJob]:
        """What waits although nobody who is there could ever take it."""
        waiting = [job for job in self.jobs if job.state is JobState.TODO]
        return [job for job in waiting if all(self._lacks(worker, job) for worker in self.alive)]

    def to_json(self) -> dict[str, Any]:
        return {
            "workers": [{**asdict(worker), "alive": worker in self.alive} for worker in self.workers],
            "jobs": [self._job(job) for job in self.jobs],
            "given_up": [self._job(job) for job in self.given_up],
            "unqueued": None if self.unqueued is None else [_run(who) for who in self.unqueued],
        }

    def _job(self, job: QueuedJob) -> dict[str, Any]:
        times = {"since": job.since.isoformat(), "at": job.at.isoformat() if job.at else None}
        return {**asdict(job), **times, "order": job.order.to_json(), "state": str(job.state), "why": self.why(job)}

    def metrics(self) -> Iterator[str]:
        """The fleet in the text form of Prometheus."""
        states = Counter("busy" if worker.run else "idle" for worker in self.alive)
        states["silent"] = len(self.workers) - len(self.alive)
        yield from _gauge(
            "workers",
            "Workers by what they do.",
            {(("state", one),): states[one] for one in ("idle", "busy", "silent")},
        )
        everything = [*self.jobs, *self.given_up]
        queues = sorted({job.order.queue for job in everything})
        counted = Counter((job.order.queue, job.state) for job in everything)
        yield from _gauge(
            "jobs",
            "Jobs by queue and state.",
            {(("queue", q), ("state", str(state))): counted[q, state] for q in queues for state in JobState},
        )
        waiting = {q: [job for job in self.jobs if job.order.queue == q and job.state is JobState.TODO] for q in queues}
        yield from _gauge(
            "longest_wait_seconds",
            "Age of the job that waits longest and is due.",
            {(("queue", q),): max((self._waited(job) for job in jobs), default=0.0) for q, jobs in waiting.items()},
        )
        yield from _gauge("jobs_nobody_can_take", "Jobs that no worker there can take.", {(): len(self.nobody_can)})
        if self.unqueued is not None:
            yield from _gauge("runs_unqueued", "Open runs that nobody is asked to work on.", {(): len(self.unqueued)})

    def _waited(self, job: QueuedJob) -> float:
        return max(0.0, (self.now - max(job.since, job.at or job.since)).total_seconds())


def _run(who: Possession) -> dict[str, Any]:
    facts = {"run": who.run, "playbook": who.playbook, "key": who.key, "about": who.about}
    return {**facts, "by": who.holder, "since": who.since}


def _gauge(name: str, meaning: str, values: dict[tuple[tuple[str, str], ...], float]) -> Iterator[str]:
    yield f"# HELP interlock_fleet_{name} {meaning}"
    yield f"# TYPE interlock_fleet_{name} gauge"
    for labels, value in values.items():
        inside = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels)
        yield f"interlock_fleet_{name}{f'{{{inside}}}' if inside else ''} {value:g}"


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
