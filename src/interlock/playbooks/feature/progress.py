"""How the tasks of the plan stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interlock.playbooks.feature.plan import Plan, Task


class Progress(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class TaskState:
    """How a task of the plan stands."""

    progress: Progress = Progress.PENDING
    why: str = ""
    """Why it failed, in one line."""
    conflict: str = ""
    """The conflict text, where what it changed could not be merged."""

    @property
    def done(self) -> bool:
        return self.progress is Progress.DONE

    @property
    def failed(self) -> bool:
        return self.progress is Progress.FAILED

    @property
    def shown(self) -> str:
        return f"{self.progress}: {self.why}" if self.why else self.progress.value


@dataclass(frozen=True)
class Standing:
    """A plan with its tasks, as they stood at some time."""

    plan: Plan
    tasks: Mapping[str, Task]
    states: Mapping[str, TaskState]
