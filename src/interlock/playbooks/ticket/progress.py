"""Where a ticket stands: phases, statuses, the only moves between them, and the arithmetic of progress. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from interlock.errors import EngineFault

ITERATIONS = 5
ATTEMPTS = 5


class Phase(StrEnum):
    INITIALIZED = "INITIALIZED"
    PLANNING = "PLANNING"
    SPLITTING = "SPLITTING"
    GIT_GATE = "GIT_GATE"
    TASK_EXECUTION = "TASK_EXECUTION"
    REVIEW = "REVIEW"
    DOC_REFRESH = "DOC_REFRESH"


STEPS: Mapping[Phase, tuple[str, ...]] = {
    Phase.INITIALIZED: ("I2",),
    Phase.PLANNING: ("O1", "O3"),
    Phase.SPLITTING: ("O4",),
    Phase.GIT_GATE: ("O4.5",),
    Phase.TASK_EXECUTION: ("O5",),
    Phase.REVIEW: ("O6",),
    Phase.DOC_REFRESH: ("O7",),
}


class RunStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    ACCEPTED = "ACCEPTED"
    PAUSED = "PAUSED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


MOVES: Mapping[tuple[Phase, Phase], str] = {
    (Phase.INITIALIZED, Phase.PLANNING): "O1, the Initializer alongside if the docs are not trusted",
    (Phase.PLANNING, Phase.PLANNING): "O3, or planned again after a stop",
    (Phase.PLANNING, Phase.SPLITTING): "plan.md valid",
    (Phase.SPLITTING, Phase.GIT_GATE): "tasks.yaml valid",
    (Phase.GIT_GATE, Phase.TASK_EXECUTION): "git_gate_completed true",
    (Phase.TASK_EXECUTION, Phase.TASK_EXECUTION): "next group, or retry while attempts are left",
    (Phase.TASK_EXECUTION, Phase.REVIEW): "last group accepted",
    (Phase.TASK_EXECUTION, Phase.DOC_REFRESH): "trivial auto-accept, committed",
    (Phase.REVIEW, Phase.DOC_REFRESH): "ACCEPTED, committed",
    (Phase.REVIEW, Phase.PLANNING): "REJECTED, iterations left",
}
STOPS: Mapping[Phase, str] = {
    Phase.PLANNING: "no plan, or deferred research",
    Phase.SPLITTING: "the Splitter's graph invalid too",
    Phase.GIT_GATE: "aborted, or the branch cannot be had",
    Phase.TASK_EXECUTION: "attempt 5 failed, PAUSED; or the commit failed",
    Phase.REVIEW: "REJECTED, 5 iterations used; or the commit failed",
}

STATUS_MOVES: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset({RunStatus.IN_PROGRESS, RunStatus.FAILED}),
    RunStatus.IN_PROGRESS: frozenset(
        {RunStatus.IN_PROGRESS, RunStatus.ACCEPTED, RunStatus.PAUSED, RunStatus.FAILED, RunStatus.REJECTED}
    ),
    RunStatus.PAUSED: frozenset({RunStatus.IN_PROGRESS}),
    RunStatus.FAILED: frozenset({RunStatus.IN_PROGRESS, RunStatus.FAILED}),
    RunStatus.REJECTED: frozenset(),
    # Accepted work that a hook refuses to commit is not done: a person mends it and goes on.  Nor is it done when the
    # machine is lost before the commit.
    RunStatus.ACCEPTED: frozenset({RunStatus.ACCEPTED, RunStatus.FAILED, RunStatus.IN_PROGRESS}),
}


def check_move(before: Phase, after: Phase) -> None:
    """Nothing, or an `EngineFault`: no phase is entered but along the table."""
    if before is not after and (before, after) not in MOVES:  # a phase that was interrupted is entered again
        raise EngineFault(f"the ticket cannot go from {before} to {after}", where=before)


def check_status(before: RunStatus, after: RunStatus) -> None:
    if after is not before and after not in STATUS_MOVES[before]:
        raise EngineFault(f"a ticket that is {before} cannot become {after}", where=before)


def diagram() -> str:
    """`MOVES` and `STOPS` as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> I0_Resume", "    I0_Resume --> I1_Startup: no progress.yaml"]
    lines += [
        "    I0_Resume --> EXIT: status ACCEPTED",
        "    I0_Resume --> STOP: mixed artifacts, PAUSED without --retry",
    ]
    lines += [f"    I0_Resume --> {phase}: resume point" for phase in Phase if phase is not Phase.INITIALIZED]
    lines += ["    I1_Startup --> INITIALIZED: I2 writes progress.yaml"]
    lines += [f"    {before} --> {after}: {why}" for (before, after), why in MOVES.items()]
    lines += [f"    {phase} --> STOP: {why}" for phase, why in STOPS.items()]
    return "\n".join([*lines, "    DOC_REFRESH --> EXIT", "    EXIT --> [*]", "    STOP --> [*]"])


# -- time


def stamp(moment: datetime) -> str:
    """UTC, `YYYY-MM-DDTHH:MM:SSZ`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: object) -> datetime | None:
    """The moment of a stamp; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def minutes_between(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else round(max(0.0, (end - start).total_seconds() / 60), 2)


# -- arithmetic


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

    @property
    def percent(self) -> int:
        return percent(self.tasks_completed, self.tasks_total, accepted=self.accepted)

    @property
    def remaining(self) -> int | None:
        return remaining_minutes(self.elapsed, self.tasks_completed, self.tasks_total)

    def fields(self) -> dict[str, object]:
        return {
            "tasks_total": self.tasks_total,
            "tasks_completed": self.tasks_completed,
            "groups_total": self.groups_total,
            "groups_completed": self.groups_completed,
            "percent_complete": self.percent,
            "elapsed_minutes_estimate": self.elapsed,
            "remaining_minutes_estimate": self.remaining,
            "eta_confidence": confidence(self.tasks_completed, self.tasks_total).value,
        }

    def line(self) -> str:
        """What the user is told at each update."""
        left = "?" if self.remaining is None else self.remaining
        return (
            f"Progress: {self.percent}% | Completed: {self.tasks_completed}/{self.tasks_total} tasks | "
            f"ETA: ~{left} min remaining"
        )
