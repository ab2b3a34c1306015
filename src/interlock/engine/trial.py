"""A rehearsal as evidence: what it found, and how much of it was played, also from inside a run.

It is bounded by the calls of agents that it makes, not by time, so that it comes to the same wherever it is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.engine.exploration import Rehearsal
from interlock.engine.options import Options
from interlock.engine.simulation import aside
from interlock.engine.tracing import Trace
from interlock.errors import InterlockError

FAULTS = 1
"""Deviations in one path."""
MOST_CALLS = 10_000
"""Calls of agents in all paths together, after which no other path is begun."""
SHOWN = 5


@dataclass(frozen=True)
class Trial:
    """What a rehearsal came to."""

    paths: int
    whole: bool
    """Every path was played; else the bound was reached before."""
    fewest: int
    most: int
    """Calls of agents on one path."""
    broken: tuple[str, ...]
    """Rules that did not hold, with the path; the first few."""
    diagram: str
    """What the playbook went through, in Mermaid."""


def tried(rehearsal: Rehearsal, options: Options | None = None, *, faults: int = FAULTS) -> Trial:
    """Play a rehearsal, within its bound."""
    return aside(lambda: _tried(rehearsal, options or Options(), faults))


def _tried(rehearsal: Rehearsal, options: Options, faults: int) -> Trial:
    paths, calls, counts = 0, 0, list[int]()
    broken: list[str] = []
    trace: Trace | None = None
    whole = True
    try:
        for played in rehearsal.paths(options, most=faults):
            trace = trace or Trace(played.simulation.playbook)
            trace.take(played.simulation.lines)
            paths += 1
            counts.append(len(played.simulation.world.calls))
            calls += counts[-1] + 1
            broken += rehearsal.broken(played)
            if calls > MOST_CALLS or len(broken) >= SHOWN:
                whole = False
                break
    except InterlockError as error:
        broken.append(f"a path could not be played to its end: {error.what}")
    return Trial(
        paths,
        whole,
        min(counts, default=0),
        max(counts, default=0),
        tuple(broken[:SHOWN]),
        trace.mermaid() if trace else "",
    )
