"""A rehearsal as evidence: what it came to, how much of it was played, also from inside a run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from interlock.engine import Dispatch, Ending, Options, Run, playbook, trial
from interlock.engine.virtual_time import aside, instantly
from interlock.testing import (
    ALWAYS,
    Agent,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    Trial,
    tried,
)


@dataclass(frozen=True)
class Nothing:
    """No inputs."""


@playbook("steps", inputs=Nothing, key=lambda _inputs: "steps", steps={"work": "work"})
async def steps(run: Run, _inputs: Nothing) -> Ending:
    """Two calls; without the first one there is no second."""
    with run.step("work"):
        if not (await run.dispatch(Dispatch("first", "Begin."))).ok:
            return Ending.stopped("not begun")
        await run.dispatch(Dispatch("second", "Go on."))
    return Ending.complete()


FAILS = Deviation("fails", lambda _request, act: replace(act, message="ERROR: no"))


def setup(*invariants: Invariant) -> Rehearsal:
    def make(agent: Agent, options: Options) -> Simulation:
        return Simulation(steps, Nothing(), SimulatedWorld({}, agent), options=options)

    return Rehearsal(make, deviations=(FAILS,), invariants=(*ALWAYS, *invariants))


@pytest.mark.req("OW-52", "OW-54")
def test_a_trial_says_what_was_played_and_how_it_went() -> None:
    """Two calls to complete, three paths with a fault or a crash of each, and what it went through."""
    found = tried(setup())
    assert (found.paths, found.whole, found.fewest, found.most, found.broken) == (5, True, 2, 2, ())
    assert 'state "work" as s0' in found.diagram


def never_stopped(played: Played) -> str | None:
    return "stopped" if played.finished.status == "stopped" else None


@pytest.mark.req("OW-52")
def test_a_rule_that_does_not_hold_is_told_with_its_path() -> None:
    found = tried(setup(Invariant("it is never stopped", never_stopped)))
    assert found.broken == ("it is never stopped: stopped (deviations: {0: 'fails'})",)


def test_a_trial_is_bounded_by_calls_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many calls no other path is begun; the same ones each time."""
    monkeypatch.setattr(trial, "MOST_CALLS", 4)
    assert [(one.paths, one.whole) for one in (tried(setup()), tried(setup()))] == [(2, False)] * 2


def test_a_trial_can_be_made_inside_a_running_loop() -> None:
    """A playbook that examines another one is itself played, for real or simulated; neither loop disturbs the other."""

    async def outside() -> Trial:
        await asyncio.sleep(0)
        found = tried(setup())
        await asyncio.sleep(0)
        return found

    assert asyncio.run(outside()) == instantly(outside()) == tried(setup())


def test_what_goes_wrong_aside_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 / 0)
