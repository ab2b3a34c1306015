"""How far a ticket is, and how long it will take: the arithmetic of `metrics` in progress.yaml. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


def moment_of(text: object) -> datetime | None:
    """The moment of a stamp; None for anything else."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and not found.tzinfo else found


def minutes_between(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else round(max(0.0, (end - start).total_seconds() / 60), 2)


class Confidence(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


MOST_BEFORE_ACCEPTANCE = 95


def percent(completed: int, total: int, *, accepted: bool) -> int:
    """How much is done: at most 95 until the review accepts, 100 only then."""
    if accepted:
        return 100
    return 0 if total <= 0 else min(MOST_BEFORE_ACCEPTANCE, MOST_BEFORE_ACCEPTANCE * completed // total)


def remaining_minutes(elapsed: float, completed: int, total: int) -> int | None:
    """The estimate from what the completed tasks took; None while nothing is completed."""
    return None if completed <= 0 else math.ceil(round(elapsed / completed * max(0, total - completed), 6))


def confidence(completed: int, total: int) -> Confidence:
    share = completed / total if total else 0.0
    return Confidence.LOW if share < 0.25 else Confidence.MEDIUM if share < 0.6 else Confidence.HIGH


@dataclass(frozen=True)
class Metrics:
    """The part of `metrics` that is counted anew after each group and each retry round."""

    tasks_total: int
    tasks_completed: int
    groups_total: int
    groups_completed: int
    elapsed: float = 0.0
    accepted: bool = False

    def fields(self) -> dict[str, object]:
        done, total = self.tasks_completed, self.tasks_total
        return {
            "tasks_total": total,
            "tasks_completed": done,
            "groups_total": self.groups_total,
            "groups_completed": self.groups_completed,
            "percent_complete": percent(done, total, accepted=self.accepted),
            "elapsed_minutes_estimate": self.elapsed,
            "remaining_minutes_estimate": remaining_minutes(self.elapsed, done, total),
            "eta_confidence": confidence(done, total).value,
        }

    def line(self) -> str:
        """What the user is told at each update."""
        said = self.fields()
        left = said["remaining_minutes_estimate"]
        return (
            f"Progress: {said['percent_complete']}% | Completed: {self.tasks_completed}/{self.tasks_total} tasks | "
            f"ETA: ~{'?' if left is None else left} min remaining"
        )
