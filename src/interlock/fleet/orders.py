"""What is queued, and what is seen of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from interlock.fleet.needs import Needs, queue_name

if TYPE_CHECKING:
    from interlock.fleet.freight import Possession

LOCK_DIGEST: Final = 32


@dataclass(frozen=True)
class Order:
    """A run that is to be worked on, and what somebody says to it."""

    run: str
    playbook: str
    key: str
    about: str
    """What it is about, in its user's words: one line."""
    needs: Needs
    queue: str = "default"
    priority: int = 0
    by: str = ""
    message: Mapping[str, Any] | None = None
    """``{"kind": "decision", "gate": ..., "shown": ..., ...}``, ``{"kind": "resume", ...}``, ``{"kind": "cancel"}``."""

    @property
    def name(self) -> str:
        """The queue's name for procrastinate."""
        return queue_name(self.queue, self.needs)

    @property
    def lock(self) -> str:
        """Two jobs with the same lock are never worked on at once."""
        said = "\0".join((self.needs.repository, self.key)).encode("utf-8", "surrogatepass")
        return f"{self.playbook}:{hashlib.sha256(said).hexdigest()[:LOCK_DIGEST]}"

    @property
    def once(self) -> str:
        """Two jobs with the same are never queued at once: they mean the same."""
        if self.message is None:
            return self.run
        said = (self.run, *(str(self.message.get(name, "")) for name in ("kind", "gate", "shown")))
        return ":".join(said)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "playbook": self.playbook,
            "key": self.key,
            "about": self.about,
            "needs": self.needs.to_json(),
            "queue": self.queue,
            "priority": self.priority,
            "by": self.by,
            "message": dict(self.message) if self.message is not None else None,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Order:
        return cls(
            run=str(said.get("run", "")),
            playbook=str(said.get("playbook", "")),
            key=str(said.get("key", "")),
            about=str(said.get("about", "")),
            needs=Needs.from_json(said.get("needs") or {}),
            queue=str(said.get("queue", "default")),
            priority=int(said.get("priority", 0)),
            by=str(said.get("by", "")),
            message=said.get("message"),
        )


def order_of(possession: Possession, *, by: str, message: Mapping[str, Any] | None = None) -> Order:
    """What is said to a run that was submitted: for those who can work on it, as it was ordered then."""
    orders = possession.orders
    return Order(
        run=possession.run,
        playbook=possession.playbook,
        key=possession.key,
        about=possession.about,
        needs=Needs.from_json(orders.get("needs") or {}),
        queue=str(orders.get("queue", "default")),
        priority=int(orders.get("priority", 0)),
        by=by,
        message=message,
    )


class Queued(StrEnum):
    """What became of an order."""

    NEW = "new"
    ALREADY = "already"
    """The same is queued, and nobody works on it yet."""


class CancelOutcome(StrEnum):
    """What became of the wish that a run ends."""

    DROPPED = "dropped"
    """Nobody worked on it; it is no longer queued."""
    TOLD = "told"
    """Its worker was told."""
    NOTHING = "nothing"
    """It is neither queued nor worked on."""


class Served(StrEnum):
    """What a worker did with a job."""

    DONE = "done"
    AGAIN = "again"
    """It goes back to the queue, for whoever comes next."""
    LOST = "lost"
    """Somebody else has the run: the queue is told nothing."""


class JobState(StrEnum):
    """Where a job stands."""

    TODO = "todo"
    DOING = "doing"
    FAILED = "failed"
    """It was tried as often as it is tried; a person has to look."""


@dataclass(frozen=True)
class QueuedJob:
    """A job that is queued, worked on, or given up."""

    id: int
    order: Order
    state: JobState
    since: datetime
    """When it came to this state."""
    at: datetime | None
    """Not before; None: at once."""
    worker: str
    """Who works on it; empty: nobody, or somebody who is gone."""
    attempts: int
    """How often it was begun before and came back."""
    told_to_end: bool = False


@dataclass(frozen=True)
class WorkerSeen:
    """A worker, as it shows itself."""

    name: str
    host: str
    version: str
    labels: tuple[str, ...]
    queues: tuple[str, ...]
    """Those that it listens to; empty: all."""
    repositories: tuple[str, ...]
    run: str
    """The run it works on; empty: it is idle."""
    silent_s: float
    """Seconds since its last sign of life."""
    refuses: Mapping[str, tuple[str, ...]]
    """What it lacks, by the name of the queue that it does not name for it."""


@dataclass(frozen=True)
class Timing:
    """How often a worker gives a sign of life and looks."""

    heartbeat_s: float = 5.0
    stalled_s: float = 25.0
    """A worker without a sign of life for so long counts as dead, and others take its job."""
    poll_s: float = 2.0
    retry_s: float = 5.0
    """So long a job waits that a worker failed at; each time twice as long."""

    @classmethod
    def of(cls, heartbeat_s: float, poll_s: float) -> Timing:
        """As the settings say it: what is said of signs of life holds for what follows from them."""
        usual = cls()
        times = heartbeat_s / usual.heartbeat_s
        return cls(heartbeat_s, usual.stalled_s * times, poll_s, usual.retry_s * times)
