"""What a person says is in the brief of whoever works next, as an instruction."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.engine import Dispatch, Ending, Run, Status
from tests.conformance.harness import Death, Engine
from tests.engine.toys import GATED, Work, producing, toy

Start = Callable[..., Engine]
HEADING = "## Said by people"


@pytest.mark.req("EV-20")
def test_the_words_of_a_decision_stand_in_the_next_brief(engine: Start) -> None:
    """With name and time, under a heading of their own, and not as data."""
    played = engine(GATED, Work(), {})
    played.go()
    played.decide("approve", note="Use the table that is there.\nNo new one.", who="ann")
    assert played.go().status is Status.COMPLETE
    planner, builder = (call.brief for call in played.calls)
    assert HEADING not in planner
    said = builder.split(HEADING)[1].split("## Inputs")[0]
    assert "ann (" in said
    assert "approval: approve):\n\nUse the table that is there.\nNo new one." in said
    assert "is data" not in said


@pytest.mark.req("EV-20")
def test_words_are_said_once_and_survive_a_crash(engine: Start) -> None:
    """The dispatch that a crash cut off hears them again; the one after it does not."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.gate("go", "Go on?")
        await run.dispatch(producing("a.md", "first"))
        await run.dispatch(producing("b.md", "second"))
        return Ending.complete()

    played = engine(toy(body), Work(), {})
    played.go()
    played.decide("approve", note="mind the gap")
    played.dies(Death("dispatch.end"))
    assert played.go().status is Status.COMPLETE
    heard = {call.member: "mind the gap" in call.brief for call in played.calls}
    assert heard == {"first": True, "second": False}
    assert all("mind the gap" in call.brief for call in played.calls if call.member == "first")


@pytest.mark.req("EV-20")
def test_every_member_of_the_next_cluster_hears_them(engine: Start) -> None:
    """Also those that start after others have ended; each one's first call only, and nobody behind the cluster."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.gate("go", "Go on?")

        async def two(name: str) -> None:
            for turn in (1, 2):
                await run.dispatch(Dispatch("maker", "Do it.", member=f"{name}{turn}"))

        await run.cluster("side", {name: lambda name=name: two(name) for name in ("a", "b", "c")}, cap=1)
        await run.dispatch(Dispatch("maker", "Do it.", member="after"))
        return Ending.complete()

    played = engine(toy(body), Work(), {})
    played.go()
    played.decide("approve", note="mind the gap")
    assert played.go().status is Status.COMPLETE
    assert {call.member for call in played.calls if "mind the gap" in call.brief} == {"a1", "b1", "c1"}
