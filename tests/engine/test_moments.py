"""A path that goes on from a moment of an earlier one, or is known to be another, is the one that is played whole."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from interlock.engine import exploration
from interlock.engine.exploration import Played, Rehearsal
from interlock.engine.keys import sha256
from interlock.engine.options import Options
from interlock.playbooks import NAMES


def seen(played: Played) -> tuple[Any, str]:
    """How a path ended, and a digest of all else that anybody could ask of it: whole, all paths would fill a memory."""
    simulation = played.simulation
    world = simulation.world
    known = (
        [(line.ts, line.event, line.key, line.hash) for line in simulation.lines],
        bytes(simulation.medium.content),
        sorted(world.tree.files.items()),
        sorted(world.people.items(), key=repr),
        [(call.dispatch, call.attempt, call.brief) for call in world.calls],
        [call.argv for call in world.commands],
        vars(world.repository)["commits"],
        simulation.said,
        simulation.processes,
        simulation.clock,
    )
    return replace(played.finished, lines=()), sha256(repr(known).encode("utf-8", "surrogatepass"))


def paths(rehearsal: Rehearsal, most: int) -> dict[tuple[tuple[int, str], ...], tuple[Any, str]]:
    def drawn(schedule: Any) -> bool:
        return sum(number + len(name) for number, name in schedule.items()) % 17 == 0

    found = rehearsal.paths(Options(), most=most, sample_of=drawn if most > 1 else None)
    return {tuple(played.schedule.items()): seen(played) for played in found}


def rehearsal_of(name: str) -> Rehearsal:
    made: Rehearsal = import_module(f"interlock.playbooks.{name}").rehearsal()
    return made


QUICK = ("router",)
EACH = [
    pytest.param(name, most, marks=() if most == 1 and name in QUICK else pytest.mark.long, id=f"{name}-{most}")
    for name in NAMES
    for most in (1, 2)
]


@pytest.mark.parametrize(("name", "most"), EACH)
def test_a_shared_beginning_changes_nothing(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = paths(rehearsal_of(name), most)
    went_on = 0
    begin = exploration.Moment.goes_on

    def counted(moment: Any, simulation: Any) -> None:
        nonlocal went_on
        went_on += 1
        begin(moment, simulation)

    monkeypatch.setattr(exploration.Moment, "goes_on", counted)
    assert paths(rehearsal_of(name), most).keys() == shared.keys()
    assert went_on or name == "router", "no path went on from a moment"  # it calls one agent, and that is it
    monkeypatch.setattr(exploration, "is_quiet", lambda _line, _recording: False)
    monkeypatch.setattr(exploration.Junction, "way", lambda _junction, _name: None)
    went_on = 0
    afresh = paths(rehearsal_of(name), most)
    assert went_on == 0
    assert list(shared) == list(afresh)
    for schedule, path in afresh.items():
        assert shared[schedule] == path, schedule
