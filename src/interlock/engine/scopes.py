"""Where a playbook is right now: the open steps, loop turns and cluster members."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scope:
    path: str
    parent: Scope | None
    task: asyncio.Task[Any] | None
    step: str = ""
    iteration: int | None = None
    member: str = ""
    """The path of the innermost cluster member around it."""

    def child(self, name: str, *, step: str | None = None, iteration: int | None = None, member: bool = False) -> Scope:
        path = f"{self.path}/{name}" if self.path else name
        task = asyncio.current_task()
        lane = path if member else self.member
        return Scope(path, self, task, self.step if step is None else step, iteration or self.iteration, lane)

    def inside(self, other: Scope) -> bool:
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other


current: ContextVar[Scope] = ContextVar("scope")
"""Of the running task; members of a cluster are tasks, so that each sees its own."""
