"""Dispatches that work side by side in one tree (EN-37).

Each may change only its own scope, and the scopes of those that run at the same time are disjoint, so that a change
belongs to whose scope it is in.  What is in nobody's scope is undone when all have ended, and fails none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from interlock.engine.model import Report
from interlock.engine.plan import Plan
from interlock.errors import ConfigInvalid
from interlock.workspace import Scope, overlap


@dataclass
class Area:
    """The dispatches of a cluster, and what they may change together."""

    scopes: dict[str, Scope] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)
    """Artifacts of the dispatches: theirs to write, even where they begin a state document."""
    before: Any = None
    """The tree's snapshot before the first of them started."""
    commands: bool = False
    """A command ran in the tree meanwhile: what it changed cannot be told from what an agent did."""
    strays: dict[str, tuple[str | None, Any]] = field(default_factory=dict)
    """What dispatches of an earlier process left in nobody's scope: path to digest, and the snapshot before them."""
    busy: int = 0
    """How many of them work in the tree at this moment."""
    waiting: int = 0
    """How many wait to be called again."""
    idle: Any = None
    """The tree's snapshot when none of them worked any more although one waits: what follows is somebody else's."""
    spared: dict[str, str | None] = field(default_factory=dict)
    """Path to digest of what somebody else changed in such a time."""

    @property
    def rests(self) -> bool:
        """Nobody works in the tree, and the cluster has not ended."""
        return self.busy == 0 and self.waiting > 0 and self.idle is None

    def remember(self, report: Report, before: Any) -> None:
        """Take over what a recorded dispatch left behind: its cluster never came to its end."""
        for path, digest in report.left.items():
            self.strays.setdefault(path, (digest, before))

    def covers(self, path: str) -> bool:
        return any(scope.covers(path) for scope in self.scopes.values())


_area: ContextVar[Area | None] = ContextVar("area", default=None)


@contextmanager
def at_work() -> Iterator[None]:
    """A call works in the tree meanwhile."""
    if (area := _area.get()) is None:
        yield
        return
    area.busy += 1
    try:
        yield
    finally:
        area.busy -= 1


@contextmanager
def between_calls() -> Iterator[None]:
    """A dispatch waits to call its agent again."""
    if (area := _area.get()) is None:
        yield
        return
    area.waiting += 1
    try:
        yield
    finally:
        area.waiting -= 1


def shared_area() -> Area | None:
    """The area in which the running task works; None where nothing runs beside it."""
    return _area.get()


@contextmanager
def side_by_side(members: int) -> Iterator[Area | None]:
    """Dispatches inside share one area; None where an outer cluster has it already, or nothing is concurrent."""
    if _area.get() is not None or members < 2:
        yield None
        return
    area = Area()
    token = _area.set(area)
    try:
        yield area
    finally:
        _area.reset(token)


@contextmanager
def holding_scope(plan: Plan) -> Iterator[None]:
    """Keep the plan's scope to its dispatch; one that overlaps with a live one is refused."""
    area = _area.get()
    if area is None or plan.spec.isolate:
        yield
        return
    key = plan.slot.key
    for other in area.live:
        if why := overlap(area.scopes[other], plan.scope):
            raise ConfigInvalid(
                f"{plan.spec.name} and {other} would work side by side and may both write {why}",
                where=key,
                expected="disjoint write scopes of agents that run at the same time in one tree",
            )
    area.scopes[key] = plan.scope
    area.owed |= plan.spec.owed
    area.live.add(key)
    try:
        yield
    finally:
        area.live.discard(key)
