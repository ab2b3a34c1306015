"""Commands that only look, choices given beforehand, and state documents that an agent begins: in both worlds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.contracts import Artifact, Contract
from interlock.engine import Choice, Dispatch, Ending, Run, Status
from interlock.errors import ConfigInvalid
from tests.conformance.harness import Engine, also, reacting
from tests.engine.toys import Work, toy

Start = Callable[..., Engine]


@pytest.mark.req("EN-24")
def test_looking_is_no_effect(engine: Start) -> None:
    """A run that only looked and then refused its input never came into being."""

    async def body(run: Run, _work: Work) -> Ending:
        result = await run.command(("sh", "-c", "echo seen"), looks=True)
        raise ConfigInvalid(f"refused: {result.exit is not None}")

    played = engine(toy(body), Work(), {})
    with pytest.raises(ConfigInvalid, match="refused: True"):
        played.go()
    assert played.lines == [] if played.kind == "real" else played.raw() == b""


def test_what_was_seen_is_replayed(engine: Start) -> None:
    """A look is recorded with the run and not made again when it is replayed."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.command(("sh", "-c", "true"), looks=True)
        await run.gate("go", "Go on?", choices=(Choice("yes", "goes on"),))
        return Ending.complete()

    played = engine(toy(body), Work(), {})
    assert played.go().status is Status.WAITING
    assert played.go().status is Status.WAITING
    assert len(played.events("inspect")) == 1
    played.decide("yes")
    played.go()
    assert played.events("run.end")[-1].data["status"] == "complete"


@pytest.mark.req("CM-19")
@pytest.mark.parametrize(("answer", "status"), [("yes", Status.COMPLETE), ("perhaps", Status.WAITING)])
def test_a_choice_given_beforehand_is_recorded(engine: Start, answer: str, status: Status) -> None:
    """It decides the gate like any other decision; what is no choice of the gate leaves it waiting."""

    async def body(run: Run, _work: Work) -> Ending:
        decision = await run.gate("go", "Go on?", choices=(Choice("yes", "goes on"),), answered=answer)
        return Ending.complete(decision.choice)

    played = engine(toy(body), Work(), {})
    close = played.go()
    assert close.status is status
    assert len(played.events("gate.opened")) == 1
    decided = [(line.data["choice"], line.data["who"]) for line in played.events("gate.decided")]
    assert decided == ([("yes", "given beforehand")] if status is Status.COMPLETE else [])


@pytest.mark.req("CM-04", "EN-35")
def test_a_state_document_is_begun_by_whom_the_contract_names(engine: Start) -> None:
    """The agent that owes it may write it; another agent's change of it is undone and reported."""
    first = Dispatch("planner", "Plan it.", Contract((Artifact("state.json"),)))
    second = Dispatch("builder", "Build it.", Contract((Artifact("built.md"),)))

    async def body(run: Run, _work: Work) -> Ending:
        reports = [await run.dispatch(first), await run.dispatch(second)]
        return Ending.complete(" ".join(report.outcome for report in reports))

    agent = reacting(planner=also({"state.json": "{}\n"}), builder=also({"state.json": "mine\n"}))
    played = engine(toy(body, state=lambda _work: ("state.json",)), Work(), {}, agent)
    close = played.go()
    assert close.output == "OK OK"
    assert played.files["state.json"] == "{}\n"
    (event,) = played.events("foreign_write")
    assert event.data["paths"] == ["state.json"]
