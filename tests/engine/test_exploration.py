"""What is explored of a run, and what invariants are shown of it."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from typing import Any

import pytest

from interlock.engine import Choice, Dispatch, Ending, Options, Run, Status, playbook
from interlock.playbooks.router import rehearsal
from interlock.testing import (
    ANSWERS,
    COMMANDS,
    VERDICTS,
    Agent,
    Finished,
    Invariant,
    Played,
    SimulatedWorld,
    Simulation,
    explore,
)

MANY = {f"src/{number:0>100}.txt": "x\n" for number in range(100)}


@pytest.mark.req("LY-21")
def test_an_outcome_that_is_too_long_for_its_line_can_be_read() -> None:
    """Which the journal keeps elsewhere: an invariant over it would see nothing, or break."""

    def changes(played: Played) -> str:
        ends = [line.data["out"] for line in played.simulation.lines if line.event == "dispatch.end"]
        return " ".join(ends[-1]["changes"])

    setup = replace(rehearsal(), invariants=(Invariant("shown", changes),))
    simulation = setup.make(lambda request: replace(setup.base(request), files=MANY), Options())
    played = Played({}, simulation.go(), simulation)
    assert setup.broken(played) == [f"shown: {' '.join(MANY)} (deviations: none)"]


# -- occasions


@dataclass(frozen=True)
class Nothing:
    pass


@playbook("occasional", inputs=Nothing, key=lambda _inputs: "once", caps={"tries": 3}, needs_roles=False)
async def OCCASIONAL(run: Run, _inputs: Nothing) -> Ending:
    """An agent and a command in a loop, then a gate."""
    async for _turn in run.loop("tries"):
        await run.dispatch(Dispatch("worker", "Work."))
        if (await run.command(("make",), name="check")).ok:
            break
    else:
        return Ending.failed("no turn passed")
    choices = (Choice("keep", "it stays"), Choice("drop", "it goes"), Choice("wait", "nothing"))
    decision = await run.gate("ship", "What now?", choices=choices)
    return Ending.complete(decision.choice) if decision.choice == "keep" else Ending.stopped(decision.choice)


def simulated(agent: Agent) -> Simulation:
    return Simulation(OCCASIONAL, Nothing(), SimulatedWorld({}, agent))


def schedules(deviations: tuple[Any, ...], *, answers: bool, most: int = 1) -> dict[tuple[Any, ...], Finished]:
    paths = explore(simulated, deviations, most=most, crashes=False, answers=answers)
    return {tuple(played.schedule.items()): played.finished for played in paths}


@pytest.mark.req("OW-24")
def test_commands_and_gates_are_occasions_where_something_can_happen_there() -> None:
    """Otherwise a schedule counts calls of agents alone, and a path ends at its first gate."""
    agents = schedules(VERDICTS[:1], answers=False)
    assert list(agents) == [(), ((0, "wants a revision"),)]
    assert {finished.status for finished in agents.values()} == {Status.WAITING}
    everything = schedules((*COMMANDS, *ANSWERS), answers=True)
    assert everything[()].status is Status.COMPLETE
    assert everything[((1, "fails"),)].status is Status.COMPLETE  # the next turn passes
    assert everything[((1, "does not end"),)].status is Status.COMPLETE
    assert everything[((2, "answers with choice 2"),)].reason == "drop"
    assert everything[((2, "answers with choice 3"),)].reason == "wait"
    assert ((2, "answers with choice 4"),) not in everything


@pytest.mark.req("OW-24")
def test_a_lasting_deviation_uses_up_a_loop_by_itself() -> None:
    """It happens at every later occasion that asks the same, and nowhere else."""
    finished = schedules((*COMMANDS, *VERDICTS), answers=True)[((1, "fails each time"),)]
    assert (finished.status, finished.reason) == (Status.FAILED, "no turn passed")


@pytest.mark.req("OW-24")
def test_what_lasts_can_say_something_else_each_time() -> None:
    """So that a playbook which notices that nothing moves is seen to move."""
    path = next(
        played
        for played in explore(simulated, COMMANDS, most=1, crashes=False)
        if played.schedule == {1: "fails elsewhere each time"}
    )
    printed = [line.data["out"]["stdout"] for line in path.simulation.lines if line.event == "command"]
    assert len(printed) == len(set(printed)) == 3


@pytest.mark.req("OW-24")
def test_each_combination_is_played_once() -> None:
    """Over occasions of all kinds, later ones after earlier ones."""
    found = [
        tuple(played.schedule.items())
        for played in explore(
            simulated, (*VERDICTS[:1], *COMMANDS[:1], *ANSWERS[:1]), most=2, crashes=False, answers=True
        )
    ]
    assert len(found) == len(set(found))
    assert ((0, "wants a revision"), (1, "fails")) in found and ((1, "fails"), (3, "fails")) in found


def test_memory_is_looked_through_as_usual_after_an_exploration() -> None:
    """Also behind one that nobody goes on with, and where two are under way at once."""
    usual = gc.get_threshold()
    paths = [explore(simulated, COMMANDS, most=1) for _ in range(2)]
    assert [next(iter(each)).schedule for each in paths] == [{}, {}]
    assert gc.get_threshold() > usual
    paths.pop(0)
    paths.pop()
    assert gc.get_threshold() == usual
