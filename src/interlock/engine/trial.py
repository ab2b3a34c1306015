"""A rehearsal as evidence: what it found, and how much of it was played, also from inside a run.

It is bounded by the calls of agents that it makes, not by time, so that it comes to the same wherever it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.engine.exploration import Played, Rehearsal
from interlock.engine.model import Status
from interlock.engine.options import Options
from interlock.engine.tracing import Trace
from interlock.engine.virtual_time import aside
from interlock.errors import InterlockError

FAULTS = 1
"""Deviations in one path."""
MOST_CALLS = 20_000
"""Calls of agents in all paths together, after which no other path is begun."""
SHOWN = 5


@dataclass
class CallCount:
    """How many calls of agents the paths of a rehearsal made."""

    fewest: int | None = None
    """On the shortest path that completes; where none does, on the one without deviations."""
    most: int = 0
    """On the longest path; those that crashes of interlock cost are left out."""
    _completed: list[int] = field(default_factory=list)

    def take(self, played: Played) -> None:
        calls = len(played.simulation.world.calls)
        if not played.schedule and not self._completed:
            self.fewest = calls
        if not played.crashed:
            self.most = max(self.most, calls)
            if played.finished.status is Status.COMPLETE:
                self._completed.append(calls)
                self.fewest = min(self._completed)


@dataclass(frozen=True)
class Trial:
    """What a rehearsal came to."""

    paths: int
    whole: bool
    """Every path was played; else the bound was reached before."""
    fewest: int
    most: int
    """Calls of agents in one run, as `CallCount` counts them."""
    broken: tuple[str, ...]
    """Rules that did not hold, with the path; the first few."""
    diagram: str
    """What the playbook went through, in Mermaid."""


def tried(rehearsal: Rehearsal, options: Options | None = None, *, faults: int = FAULTS) -> Trial:
    """Play a rehearsal, within its bound."""
    return aside(lambda: _tried(rehearsal, options or Options(), faults))


def _tried(rehearsal: Rehearsal, options: Options, faults: int) -> Trial:
    paths, played_calls, calls = 0, 0, CallCount()
    broken: list[str] = []
    trace: Trace | None = None
    whole = True
    try:
        for played in rehearsal.paths(options, most=faults):
            trace = trace or Trace(played.simulation.playbook)
            trace.take(played.simulation.lines)
            paths += 1
            calls.take(played)
            played_calls += 1 + len(played.simulation.world.calls)
            broken += rehearsal.broken(played)
            if played_calls > MOST_CALLS or len(broken) >= SHOWN:
                whole = False
                break
    except InterlockError as error:
        broken.append(f"a path could not be played to its end: {error.what}")
    diagram = trace.mermaid() if trace else ""
    return Trial(paths, whole, calls.fewest or 0, calls.most, tuple(broken[:SHOWN]), diagram)
