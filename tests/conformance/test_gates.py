"""A gate is left only by a recorded decision, bound to what it showed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.engine import Status
from interlock.engine.keys import sha256
from interlock.errors import Refused
from tests.conformance.harness import Engine
from tests.engine.toys import GATED, QUESTIONED, Work

Start = Callable[..., Engine]


@pytest.mark.req("CM-19")
def test_a_gate_parks_the_run_until_there_is_a_decision(engine: Start) -> None:
    """Resuming without a decision waits again; with one, the run goes on, and the event says who and why."""
    played = engine(GATED, Work(), {})
    for _ in range(2):
        close = played.go()
        assert (close.status, close.exit_code) == (Status.WAITING, 4)
        assert close.gate is not None
        assert close.gate["question"] == "Build this?"
    assert len(played.events("gate.opened")) == 1
    assert played.agents == ["planner"]
    played.decide("approve", note="looks fine", who="ann")
    assert played.go().status is Status.COMPLETE
    (decided,) = played.events("gate.decided")
    assert (decided.data["who"], decided.data["note"], decided.data["choice"]) == ("ann", "looks fine", "approve")
    assert played.agents == ["planner", "builder"]


@pytest.mark.req("CM-19", "EN-25")
def test_a_rejection_stops_the_run(engine: Start) -> None:
    """The note is the playbook's reason; exit 3."""
    played = engine(GATED, Work(), {})
    played.go()
    played.decide("reject", note="too big")
    close = played.go() if played.kind == "simulated" else None
    if close is not None:
        assert (close.status, close.reason, close.exit_code) == (Status.STOPPED, "rejected: too big", 3)
    assert played.events("run.end")[-1].data["reason"] == "rejected: too big"
    assert played.files["state.json"] == '{"stage": "rejected"}'


@pytest.mark.req("CM-20")
def test_a_decision_where_nothing_waits_is_refused(engine: Start) -> None:
    """Neither an unknown choice nor a second decision counts; both are exit 2 and change nothing."""
    played = engine(GATED, Work(), {})
    played.go()
    with pytest.raises(Refused, match="no choice of gate") as caught:
        played.decide("maybe")
    assert caught.value.exit_code == 2
    assert caught.value.expected == "approve | reject"
    played.decide("approve")
    before = played.raw()
    with pytest.raises(Refused, match="nothing waits") as caught:
        played.decide("reject")
    assert caught.value.exit_code == 2
    assert played.raw() == before


@pytest.mark.req("EN-29")
def test_an_approval_of_what_has_changed_is_refused_with_both_digests(engine: Start) -> None:
    """The plan was edited since the gate showed it: the older opening cannot be approved, the new one can."""
    played = engine(GATED, Work(), {})
    played.go()
    old = sha256(played.files["plan.md"].encode())
    played.edit("plan.md", "# A better plan\n")
    with pytest.raises(Refused) as caught:
        played.decide("approve")
    assert old in str(caught.value.expected)
    assert sha256(b"# A better plan\n") in str(caught.value.found)
    assert played.events("gate.decided") == []
    assert played.go().status is Status.WAITING  # opens it anew
    openings = played.events("gate.opened")
    assert [line.data["opening"] for line in openings] == [1, 2]
    assert openings[-1].data["digests"] == {"plan.md": sha256(b"# A better plan\n")}
    played.decide("approve")
    (decided,) = played.events("gate.decided")
    assert decided.data["opening"] == 2
    assert decided.data["out"]["digests"] == {"plan.md": sha256(b"# A better plan\n")}


@pytest.mark.req("EN-30")
def test_the_plan_a_person_improved_at_the_gate_is_the_one_that_is_built(engine: Start) -> None:
    """What the gate showed is read again behind it."""
    played = engine(GATED, Work(), {})
    played.go()
    played.edit("plan.md", "# A better plan\n")
    played.go()
    played.decide("approve")
    played.go()
    assert "A better plan" in played.calls[-1].brief
    assert played.files["plan.md"] == "# A better plan\n"


@pytest.mark.req("EN-32")
def test_questions_are_one_gate_that_is_answered_in_words(engine: Start) -> None:
    """A gate without choices takes any text, once."""
    played = engine(QUESTIONED, Work(), {})
    close = played.go()
    assert close.gate is not None
    assert close.gate["question"] == "Which database? Which port?"
    played.decide("SQLite, and port 8080")
    assert played.go().output == "SQLite, and port 8080"
    assert "SQLite, and port 8080" in played.calls[0].brief
    assert len(played.events("gate.opened")) == 1
