"""An agent whose model service takes no more requests: waiting is not failing (EN-45)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import AgentRequest, Usage
from interlock.agents.runner import Fault, Limited
from interlock.contracts import Artifact, Contract, Reason
from interlock.engine import Dispatch, Ending, Options, Retries, Run, playbook
from interlock.engine.retry import LONGEST_WAIT_S, SHORTEST_WAIT_S, wait_s
from interlock.engine.simulation import Crash
from interlock.telemetry import totals
from interlock.testing import Act, SimulatedWorld, Simulation, best
from tests.conformance.harness import Real
from tests.crash.process import Inputs

PATIENT = Options(rate_limit_wait_s=3600)


@playbook("limited", inputs=Inputs, key=lambda inputs: inputs.name, needs_roles=False)
async def limited(run: Run, inputs: Inputs) -> Ending:
    """One dispatch without any repeat of its own."""
    plan = Dispatch("planner", "Plan it.", Contract((Artifact("plan.md"),)), retries=Retries(contract=0))
    report = await run.dispatch(plan)
    return Ending.complete(f"{report.outcome} attempt {report.attempt} tries {report.tries}")


def turned_away(times: int, reset_s: float | None = 30.0) -> Callable[[AgentRequest], Act]:
    """An agent whose service refuses it so many times, each time with half of its work done."""
    answers: Iterator[Act] = iter(
        Act(
            files={"plan.md": "# half"},
            message="OK: as asked",
            fault=Fault(Reason.CRASHED, "429 too many requests"),
            limited=Limited("429 too many requests", reset_s),
            usage=Usage(10, 1, 0.25),
        )
        for _ in range(times)
    )
    return lambda request: next(answers, None) or replace(best(request), usage=Usage(100, 10, 1.0))


def moves(lines: Any) -> list[tuple[str, float]]:
    return [(line.data["move"], line.data["delay_s"]) for line in lines if line.event == "dispatch.try"]


@pytest.mark.req("EN-45")
def test_the_dispatch_waits_for_the_reset_and_uses_up_no_repeat() -> None:
    """Two refusals, two waits as long as the service said; then the first attempt of the playbook counts."""
    simulation = Simulation(limited, Inputs(), SimulatedWorld({}, turned_away(2)))
    close = simulation.go(options=PATIENT)
    assert (close.exit_code, close.output) == (0, "OK attempt 1 tries 1")
    assert moves(simulation.lines) == [("wait", 30.0), ("wait", 30.0)]


def test_what_the_refused_calls_cost_is_counted() -> None:
    """Tokens and money of every call, waited for or not."""
    simulation = Simulation(limited, Inputs(), SimulatedWorld({}, turned_away(2)))
    simulation.go(options=PATIENT)
    found = totals(simulation.lines)
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (120, 12, 1.5)


@pytest.mark.req("EN-45")
def test_the_wait_lies_outside_of_the_deadline() -> None:
    """Each call gets the whole time: its deadline is counted from its own start."""
    simulation = Simulation(limited, Inputs(), SimulatedWorld({}, turned_away(1, reset_s=3000.0)))
    assert simulation.go(options=PATIENT).exit_code == 0
    starts = [line for line in simulation.lines if line.event == "dispatch.start"]
    assert starts[0].data["deadline"] < starts[1].ts < starts[1].data["deadline"]
    assert [line.data["timeout_s"] for line in starts] == [1800.0, 1800.0]


def test_a_reset_beyond_what_may_be_waited_pauses_the_run_and_resume_goes_on() -> None:
    """Nothing is recorded as failed: the run is open, says why, and the same dispatch happens when it is resumed."""
    simulation = Simulation(limited, Inputs(), SimulatedWorld({}, turned_away(1, reset_s=18_000.0)))
    close = simulation.go(options=PATIENT)
    assert close.exit_code == 4
    assert "429 too many requests" in close.reason
    assert simulation.lines[-1].event == "run.paused"
    assert simulation.go(options=PATIENT).output == "OK attempt 1 tries 1"


def test_a_crash_while_it_waits_pays_for_nothing_twice() -> None:
    """The refused call is on record before the wait begins; the next process calls again at once."""
    world = SimulatedWorld({}, turned_away(1))
    simulation = Simulation(limited, Inputs(), world)
    sleep = world.sleep

    async def dies(seconds: float) -> None:
        raise Crash

    world.sleep = dies  # type: ignore[method-assign]
    with pytest.raises(Crash):
        simulation.go(options=PATIENT)
    assert moves(simulation.lines) == [("wait", 30.0)]
    world.sleep = sleep  # type: ignore[method-assign]
    assert simulation.go(options=PATIENT).exit_code == 0
    assert len(world.calls) == 2


def test_the_records_of_a_refused_call_are_kept(real: Callable[..., Real]) -> None:
    """On disk too: the brief of each call is there, and each has a mark of its own."""
    bench = real(limited, Inputs(), {}, turned_away(1, reset_s=0.0), rate_limit_wait_s=60.0)
    assert bench.go().output == "OK attempt 1 tries 1"
    starts = [line for line in bench.lines if line.event == "dispatch.start"]
    assert len({line.data["marker"] for line in starts}) == 2
    assert len(list((bench.run.folder.path / "dispatches").rglob("brief.md"))) == 2


def test_an_answer_that_counts_is_not_waited_for() -> None:
    """The service refused once on the way, the agent got through all the same."""
    world = SimulatedWorld({}, lambda request: replace(best(request), limited=Limited("slow down")))
    simulation = Simulation(limited, Inputs(), world)
    assert simulation.go(options=PATIENT).output == "OK attempt 1 tries 1"
    assert moves(simulation.lines) == []


@pytest.mark.req("EN-45")
def test_the_budget_is_checked_between_the_calls_of_one_dispatch() -> None:
    """Calls that are refused cost too: the run waits for a person, not for the service."""
    simulation = Simulation(limited, Inputs(), SimulatedWorld({}, turned_away(50)))
    close = simulation.go(options=replace(PATIENT, budget_usd=1.0))
    assert close.exit_code == 4
    assert "budget reached" in close.reason
    assert len(moves(simulation.lines)) == 4


# -- side by side


@playbook("pair", inputs=Inputs, key=lambda inputs: inputs.name, needs_roles=False, max_parallel=1)
async def pair(run: Run, inputs: Inputs) -> Ending:
    """Two agents in one tree, on one place."""

    def work(name: str) -> Dispatch:
        return Dispatch(name, "Work.", Contract((Artifact(f"out/{name}.md"),)), retries=Retries(contract=0))

    found = await run.cluster("both", {name: partial(run.dispatch, work(name)) for name in ("a", "b")})
    return Ending.complete(" ".join(f"{name}:{report.outcome}" for name, report in found.items()))


def test_one_that_waits_gives_its_place_to_another() -> None:
    """With one place for both: b works while a waits for its service."""
    acts = {"a": turned_away(1, 3000.0), "b": best}
    world = SimulatedWorld({}, lambda request: replace(acts[request.agent](request), usage=None))
    simulation = Simulation(pair, Inputs(), world)
    assert simulation.go(options=PATIENT).output == "a:OK b:OK"
    judged = [line.agent for line in simulation.lines if line.event == "dispatch.importing"]
    assert judged == ["b", "a"]
    starts = {
        line.agent: line.ts for line in simulation.lines if line.event == "dispatch.start" and line.data["try"] == 1
    }
    waits = next(line for line in simulation.lines if line.event == "dispatch.try")
    assert starts["b"] < ended_at(simulation, "a")
    assert waits.ts <= starts["b"]


def ended_at(simulation: Simulation, agent: str) -> str:
    return next(line.ts for line in simulation.lines if line.event == "dispatch.end" and line.agent == agent)


@pytest.mark.parametrize("reason", [Reason.AGENT_ERROR, Reason.CRASHED, Reason.NO_VERDICT])
def test_a_fault_that_the_runner_knows_counts_more_than_a_good_answer(reason: Reason) -> None:
    """Exit 0, the artifact and the best verdict: all three are there, and it still did not happen."""
    world = SimulatedWorld({}, lambda request: replace(best(request), fault=Fault(reason, "API error as text")))
    simulation = Simulation(limited, Inputs(), world)
    assert str(simulation.go(options=PATIENT).output).startswith("FAIL")
    (end,) = [line for line in simulation.lines if line.event == "dispatch.end"]
    assert (end.data["reason"], end.data["detail"]) == (reason.value, "API error as text")


resets = st.none() | st.floats(0, 1e6)


@given(resets, st.integers(0, 60), st.floats(0, 1e5), st.floats(0, 1e5))
def test_a_wait_is_never_longer_than_allowed_and_never_shorter_than_the_reset(
    reset_s: float | None, waits: int, waited: float, allowed: float
) -> None:
    """What is waited in all stays within the limit; before the reset nobody asks again."""
    found = wait_s(reset_s, waits, waited, allowed)
    if found is None:
        return
    assert waited + found <= allowed + 1e-6
    assert found >= (reset_s or 0.0)


@given(st.integers(0, 40))
def test_without_a_reset_the_waits_grow_up_to_a_bound(waits: int) -> None:
    """Doubled each time, so that a service that recovers is found soon and one that does not is left in peace."""
    this, following = (wait_s(None, number, 0.0, 1e9) for number in (waits, waits + 1))
    assert this is not None
    assert following is not None
    assert SHORTEST_WAIT_S <= this <= following <= LONGEST_WAIT_S
    assert following == min(2 * this, LONGEST_WAIT_S)
