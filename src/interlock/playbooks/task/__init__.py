"""The light one: a request, one agent that does it, checks and a reviewer that must bear it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.playbooks.task.playbook import TaskInputs, task
    from interlock.playbooks.task.rehearsing import narrowed, rehearsal

__getattr__ = lazily(
    __name__,
    {
        "playbook": "TaskInputs task",
        "rehearsing": "narrowed rehearsal",
    },
)

__all__ = ["TaskInputs", "narrowed", "rehearsal", "task"]
