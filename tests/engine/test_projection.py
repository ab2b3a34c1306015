"""Logs that are projections of the journal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import Ending, Run, playbook, project
from interlock.engine.facts import completed, last_number
from interlock.engine.journal import Line
from interlock.engine.simulation import Crash
from interlock.testing import SimulatedWorld, Simulation
from tests.crash.process import Inputs


def line(seq: int, run: str = "r-1", event: str = "kept") -> Line:
    return Line(seq, "2026-01-01T00:00:00", run, event, None, None, None, None, None, {}, "", "")


def shown(found: Line) -> dict[str, Any] | None:
    return {"event": found.event} if found.event != "hidden" else None


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 30))
def test_a_log_is_the_same_however_often_it_was_completed(kept: list[bool], cut: int) -> None:
    """Completing in two goes gives what completing at once gives."""
    lines = [line(number, event="kept" if flag else "hidden") for number, flag in enumerate(kept, 1)]
    at_once = completed("", lines, shown)
    assert completed(completed("", lines[:cut], shown), lines, shown) == at_once
    assert [json.loads(text)["seq"] for text in at_once.splitlines()] == [n for n, flag in enumerate(kept, 1) if flag]


def test_foreign_lines_stay_and_do_not_count() -> None:
    """What is not a line of this run is kept as it is."""
    log = 'a person wrote this\n{"run": "r-0", "seq": 99}\n{"seq": "x"}\n[1]'
    after = completed(log, [line(1)], shown)
    assert after.startswith(log + "\n")
    assert last_number(after) == {"r-0": 99, "r-1": 1}


@playbook("logged", inputs=Inputs, key=lambda inputs: inputs.name)
async def logged(run: Run, inputs: Inputs) -> Ending:
    """Notes, each brought into the log at once."""
    for number in range(5):
        run.note("kept", number=number)
        await project(
            run, "log.jsonl", lambda found: {"number": found.data["number"]} if found.event == "kept" else None
        )
    return Ending.complete()


@pytest.mark.req("EN-12")
@pytest.mark.parametrize("cut", range(25))
def test_a_crash_neither_loses_nor_doubles_a_line(cut: int) -> None:
    """Cut at every point, between the write and its record too: the log has each event once, in order."""
    simulation = Simulation(logged, Inputs(), SimulatedWorld({}))
    count = 0

    def tripwire(_point: str) -> None:
        nonlocal count
        count += 1
        if count == cut:
            raise Crash

    try:
        simulation.go(tripwire=tripwire)
    except Crash:
        simulation.go()
    log = simulation.world.tree.files["log.jsonl"].decode()
    assert [json.loads(text)["number"] for text in log.splitlines()] == [0, 1, 2, 3, 4]
