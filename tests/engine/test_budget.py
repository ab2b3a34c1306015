"""The budget is a bound: over members side by side, over resumes, for money and for tokens."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import AgentRequest, Usage
from interlock.engine import Dispatch, Ending, Options, Run, Status
from interlock.engine.budget import Budget
from interlock.testing import Act, SimulatedWorld, Simulation
from tests.engine.toys import Work, toy


def working(*names: str):
    async def body(run: Run, _work: Work) -> Ending:
        if len(names) == 1:
            await run.dispatch(Dispatch(names[0], "Work."))
        else:
            await run.cluster("side", {name: partial(run.dispatch, Dispatch(name, "Work.")) for name in names})
        return Ending.complete()

    return toy(body)


def costing(usd: float | None = None, tokens: int | None = None):
    """An agent that would cost so much, and tells its session."""

    def agent(request: AgentRequest) -> Act:
        return Act(message="DONE: fine", usage=Usage(tokens, None, usd), session=f"s-{request.member}")

    return agent


@pytest.mark.req("LY-16", "EN-45")
def test_a_call_gets_what_is_left_of_the_budget_and_members_share_it() -> None:
    """One alone may use all; four side by side a quarter each."""
    world = SimulatedWorld({}, costing(0.1))
    Simulation(working("a"), Work(), world).go(options=Options(budget_usd=8.0))
    assert [request.allowance.usd for request in world.calls if request.allowance] == [8.0]
    world = SimulatedWorld({}, costing(0.1))
    Simulation(working(*"abcd"), Work(), world).go(options=Options(budget_usd=8.0))
    shares = [request.allowance.usd for request in world.calls if request.allowance]
    assert len(shares) == 4
    assert sum(shares) <= 8.0 + 1e-9
    assert shares[0] == 2.0


@pytest.mark.req("LY-16")
def test_a_used_up_share_parks_the_run_and_a_larger_budget_goes_on_with_the_session() -> None:
    """Exit 4, what was spent and by how much it is too much is recorded; resume goes on in the same session."""
    world = SimulatedWorld({}, costing(3.0))
    simulation = Simulation(working("a"), Work(), world)
    close = simulation.go(options=Options(budget_usd=2.0))
    assert (close.status, close.exit_code) == (Status.WAITING, 4)
    assert "budget reached: 3.00 of 2.00 USD" in close.reason
    (paused,) = [line for line in simulation.lines if line.event == "run.paused"]
    assert paused.data["overshoot_usd"] == 1.0
    assert simulation.go(options=Options(budget_usd=20.0)).status is Status.COMPLETE
    assert [request.resume for request in world.calls] == [None, "s-a"]
    assert world.calls[1].allowance is not None
    assert world.calls[1].allowance.usd == 17.0


@pytest.mark.req("LY-16")
def test_tokens_are_counted_where_no_price_is_known() -> None:
    """The same for agents that tell only how many tokens they took."""
    world = SimulatedWorld({}, costing(None, 5000))
    simulation = Simulation(working("a"), Work(), world)
    close = simulation.go(options=Options(budget_tokens=4000))
    assert close.status is Status.WAITING
    assert "5000 of 4000 tokens" in close.reason


@pytest.mark.req("LY-16")
def test_a_member_that_used_up_its_share_goes_on_while_the_others_left_something() -> None:
    """The budget is not reached: it gets a new share of what is left, in the same session."""

    def agent(request: AgentRequest) -> Act:
        dear = request.member == "a" and request.resume is None
        return Act(message="DONE: fine", usage=Usage(cost_usd=5.0 if dear else 0.5), session=f"s-{request.member}")

    world = SimulatedWorld({}, agent)
    simulation = Simulation(working("a", "b"), Work(), world)
    assert simulation.go(options=Options(budget_usd=8.0)).status is Status.COMPLETE
    assert [(request.member, request.resume) for request in world.calls if request.member == "a"] == [
        ("a", None),
        ("a", "s-a"),
    ]


@given(st.floats(0.01, 100), st.integers(1, 8), st.lists(st.floats(0, 30), max_size=12))
def test_shares_never_add_up_to_more_than_is_left(budget: float, at_once: int, costs: list[float]) -> None:
    """However calls come and go, what is reserved and what is spent stay within the budget."""
    book = Budget([], usd=budget, tokens=None)
    for number, cost in enumerate(costs):
        share = book.reserve(f"k{number}", at_once)
        assert share is not None
        assert share.usd is not None
        spent = book.spent.cost_usd or 0.0
        held = sum(one.usd or 0.0 for one in book._shares.values())
        assert held <= max(0.0, budget - spent) + 1e-6 or held <= budget + 1e-6
        if number % 2:
            book.settle(f"k{number}", Usage(cost_usd=min(cost, share.usd)))


@pytest.mark.req("LY-16")
def test_an_agent_that_stops_at_its_limit_and_says_no_cost_took_its_share() -> None:
    """What it does not say is not taken for nothing."""
    book = Budget([], usd=None, tokens=9000)
    book.reserve("a", 3)
    assert book.settle("a", None, exhausted=True) == Usage(3000, None, None)
    assert book.spent.input_tokens == 3000
