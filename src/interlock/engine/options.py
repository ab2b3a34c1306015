"""What one process was asked to do with a run, and how a process can end before the run does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from interlock.engine.model import Delegation, Status
from interlock.workspace import Scope, protected_names

if TYPE_CHECKING:
    from interlock.engine.definition import Playbook

OF_EVERY_PLAYBOOK = ("accept_baseline", "no_preflight")
"""Flags that concern whatever playbook this process comes to."""


@dataclass(frozen=True)
class Options:
    """What one process was asked to do; not part of the run (EN-07, EN-21)."""

    accept_recorded: bool = False
    stop_before_work: bool = False
    """Stop before the first dispatch, command or new gate."""
    budget_usd: float | None = None
    budget_tokens: int | None = None
    max_parallel: int | None = None
    rate_limit_wait_s: float = 0.0
    """How long one dispatch may wait in all for its agent's model service to take requests again."""
    parent: Delegation | None = None
    bounds: tuple[tuple[str, ...], ...] = ()
    """What no dispatch may write beyond, each a scope: that of an outer dispatch, those of calls."""
    protected: frozenset[str] = field(default_factory=protected_names)
    """Names of files and folders that are in no scope that does not name them (LY-33)."""
    settings: Any = None
    tables: Callable[[Playbook], Any] = lambda _called: None
    """The settings of a playbook that this one calls."""
    flags: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, path: str) -> bool:
        """Whether a path lies within all bounds."""
        return all(Scope(patterns).covers(path) for patterns in self.bounds)

    def for_called(self, other: Playbook, *, at_once: int, writes: tuple[str, ...] | None) -> Options:
        """The same for a playbook that is called: its own table, its own flags unset, and bounds no wider."""
        return replace(
            self,
            max_parallel=at_once,
            bounds=self.bounds if writes is None else (*self.bounds, writes),
            settings=self.tables(other),
            flags={name: value for name, value in self.flags.items() if name in OF_EVERY_PLAYBOOK},
        )


@dataclass(frozen=True)
class Before:
    """The verb before which a process was to stop (dry run; bringing a document up to date after an approval)."""

    key: str
    verb: str
    detail: Any


class Halted(BaseException):
    """The run's process ends here although the run is still open. Not an error: `except Exception` lets it pass."""

    def __init__(
        self,
        reason: str,
        *,
        gate: Mapping[str, Any] | None = None,
        status: Status = Status.WAITING,
        before: Before | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.gate = gate
        self.status = status
        self.before = before
