"""What a run would take, before it is begun: who is called and how often, for how long and at what cost, which commands
run, which documents are written (OW-40).

Nothing is called and nothing is written for it.  How often agents are called is what the playbook's rehearsal found;
time and cost are what the same roles took in earlier runs of this workspace.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from interlock.agents.roster import BoundAgent
from interlock.engine.definition import Playbook
from interlock.engine.folder import known_runs
from interlock.engine.journal import Line
from interlock.errors import InterlockError
from interlock.telemetry import dispatch_rows

FIGURES = "figures.json"
"""Beside a playbook that ships: what its rehearsal counted."""


@dataclass(frozen=True)
class Figures:
    """How many calls of agents the paths of a rehearsal made."""

    faults: int
    """On one path, at most."""
    paths: int
    fewest: int | None
    """On the shortest path that completes."""
    most: int
    whole: bool = True
    """All paths with so many faults were played."""

    @classmethod
    def of(cls, playbook: Playbook) -> Self | None:
        """Those that were written down beside a playbook; None where there are none."""
        file = playbook.folder / FIGURES
        return cls(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


@dataclass(frozen=True)
class Spread:
    """Earlier figures of one kind."""

    number: int
    median: float
    least: float
    most: float

    @classmethod
    def over(cls, found: Sequence[float]) -> Self | None:
        """None where nothing is known."""
        return cls(len(found), statistics.median(found), min(found), max(found)) if found else None


@dataclass(frozen=True)
class Seat:
    """One agent of a playbook: who would be called, and what that took before."""

    agent: str
    runner: str
    model: str | None
    """None: what the runner takes by itself."""
    seconds: Spread | None = None
    cost_usd: Spread | None = None


@dataclass(frozen=True)
class Earlier:
    """What the calls of one agent took in the runs of a workspace."""

    seconds: tuple[float, ...] = ()
    cost_usd: tuple[float, ...] = ()


def earlier_calls(root: Path, playbook: str) -> Mapping[str, Earlier]:
    """What each agent of a playbook took so far, by its name; runs that cannot be read tell nothing."""
    rows: list[Mapping[str, Any]] = []
    for known in known_runs(root):
        if known.identity.playbook == playbook:
            with suppress(InterlockError, OSError):
                rows += dispatch_rows(known.folder.lines())
    return {agent: _earlier([row for row in rows if row["agent"] == agent]) for agent in {row["agent"] for row in rows}}


def _earlier(rows: Iterable[Mapping[str, Any]]) -> Earlier:
    known = list(rows)
    costs = (row["cost_usd"] for row in known)
    return Earlier(tuple(row["seconds"] for row in known), tuple(cost for cost in costs if cost is not None))


def seats(bound: Sequence[tuple[BoundAgent, str | None]], earlier: Mapping[str, Earlier]) -> tuple[Seat, ...]:
    """The agents of a playbook, each with the model that its settings name and what it took before."""
    found = []
    for one, model in bound:
        took = earlier.get(one.agent, Earlier())
        spreads = Spread.over(took.seconds), Spread.over(took.cost_usd)
        found.append(Seat(one.agent, one.runner, one.model or model, *spreads))
    return tuple(found)


def commands_in(lines: Iterable[Line]) -> tuple[str, ...]:
    """The commands that a playbook looked at before its first work, with what each is for and where it was found."""
    looked = [line.data["commands"] for line in lines if line.event == "preflight"]
    return tuple(looked[-1]) if looked else ()


def stages_of(playbook: Playbook, lines: Iterable[Line]) -> tuple[str, ...]:
    """The steps of a playbook by their titles; of one that names none, the parts that its keys begin with."""
    if playbook.steps:
        return tuple(dict.fromkeys(playbook.steps.values()))
    parts = (line.key.split("/")[0] for line in lines if line.key and "/" in line.key)
    return tuple(dict.fromkeys(part.rstrip("0123456789").rstrip("-") or part for part in parts))
