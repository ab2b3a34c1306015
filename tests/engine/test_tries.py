"""What the tries of one dispatch cost together, and a merge that a crash interrupts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.agents import AgentRequest, Usage
from interlock.contracts import Artifact, Contract
from interlock.engine import Dispatch, Ending, Options, Retries, Run, playbook
from interlock.engine.budget import spent
from interlock.engine.simulation import Crash
from interlock.telemetry import totals
from interlock.testing import Act, SimulatedWorld, Simulation, best
from tests.crash.process import Inputs

PLAN = Dispatch(
    "planner", "Plan it.", Contract((Artifact("plan.md"),)), writes=("src/**",), retries=Retries(contract=1)
)


@playbook("single", inputs=Inputs, key=lambda inputs: inputs.name)
async def single(run: Run, inputs: Inputs) -> Ending:
    """One dispatch that may need a repair."""
    report = await run.dispatch(PLAN)
    return Ending.complete(f"{report.outcome} {report.usage}")


def costly(request: AgentRequest) -> Act:
    """Says nothing the first time; each call costs."""
    act = replace(best(request), usage=Usage(100, None, 0.5))
    return replace(act, message="") if request.attempt == 1 else act


def test_the_cost_of_a_dispatch_is_that_of_all_its_tries() -> None:
    """What was paid for a try that did not count was paid all the same; what nobody said stays unknown."""
    simulation = Simulation(single, Inputs(), SimulatedWorld({}, costly))
    assert simulation.go().exit_code == 0
    found = totals(simulation.lines)
    assert (found.cost_usd, found.input_tokens, found.output_tokens) == (1.0, 200, None)
    assert spent(simulation.lines).cost_usd == 1.0


@pytest.mark.req("EN-45")
def test_a_crash_does_not_hide_what_a_try_cost() -> None:
    """Killed in the second try: the first one still counts, for the total and for the budget."""
    world = SimulatedWorld({}, lambda request: replace(costly(request), crash=request.attempt == 2))
    simulation = Simulation(single, Inputs(), world)
    with pytest.raises(Crash):
        simulation.go()
    assert spent(simulation.lines).cost_usd == 0.5
    waiting = simulation.go(options=Options(budget_usd=0.5))
    assert waiting.exit_code == 4
    world.agent = costly
    assert simulation.go(options=Options(budget_usd=5.0)).exit_code == 0
    assert totals(simulation.lines).cost_usd == 1.0


@pytest.mark.req("LY-03", "CM-22")
@pytest.mark.parametrize("point", range(1, 12))
def test_an_import_that_a_crash_interrupts_is_finished_not_paid_again(point: int) -> None:
    """Once the work of the agent is recorded, no crash makes it be called again."""
    world = SimulatedWorld(
        {"src/a.py": "old"}, lambda request: replace(best(request), files={"src/a.py": "new", "plan.md": "# p"})
    )
    simulation = Simulation(single, Inputs(), world)
    count = 0

    def tripwire(_point: str) -> None:
        nonlocal count
        count += 1
        if count == point:
            raise Crash

    try:
        simulation.go(tripwire=tripwire)
    except Crash:
        recorded = any(line.event == "dispatch.importing" for line in simulation.lines)
        calls = len(world.calls)
        assert simulation.go().exit_code == 0
        if recorded:
            assert len(world.calls) == calls
    assert world.tree.files["src/a.py"] == b"new"
    assert len(world.calls) <= 2
