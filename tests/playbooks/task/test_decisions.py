"""What follows from work, checks and review: every row."""

from __future__ import annotations

import itertools

import pytest

from interlock.contracts import Outcome, Reason
from interlock.playbooks.task.briefs import claim, complaint
from interlock.playbooks.task.decisions import AFTER_ROUND, Checked, Next, Reviewed, Worked, after_work

ACCEPTED = {
    (Checked.GREEN, Reviewed.ACCEPTS),
    (Checked.GREEN, Reviewed.NOBODY),
    (Checked.NONE, Reviewed.ACCEPTS),
}


@pytest.mark.req("OW-30")
@pytest.mark.parametrize(("checked", "reviewed"), [*itertools.product(Checked, Reviewed)])
def test_only_what_something_bears_out_is_accepted(checked: Checked, reviewed: Reviewed) -> None:
    """Green checks or a reviewer, and neither against it; red checks go back, whoever says what."""
    move = AFTER_ROUND(checked, reviewed)
    assert (move is Next.ACCEPT) == ((checked, reviewed) in ACCEPTED)
    if checked is Checked.RED or reviewed is Reviewed.OBJECTS:
        assert move is Next.AGAIN
    if reviewed is Reviewed.UNUSABLE and checked is not Checked.RED:
        assert move is Next.STOP


def test_the_table_is_total() -> None:
    """No combination is left out."""
    assert not list(AFTER_ROUND.missing())


@pytest.mark.parametrize(("outcome", "reason"), [*itertools.product(Outcome, (None, *Reason))])
def test_every_way_to_end_the_work_is_one_of_four(outcome: Outcome, reason: Reason | None) -> None:
    """Only OK is done; what the builder can be told goes back; the rest is a failure of the agent."""
    worked = after_work(outcome, reason)
    assert (worked is Worked.DONE) == (outcome is Outcome.OK)
    if outcome is Outcome.FAIL:
        told = reason in (Reason.SCOPE_VIOLATION, Reason.CONTRACT_VIOLATION, Reason.NO_CHANGE)
        assert worked is (Worked.FELL_SHORT if told else Worked.FAILED)
    assert (worked is Worked.BLOCKED) == (outcome is Outcome.BLOCKED)


RUN = {"verification": [{"command": "make", "exit": 0}]}


@pytest.mark.req("EV-01", "EV-02")
@pytest.mark.parametrize(
    ("data", "against", "lacks"),
    [
        ({"verdict": "accept", "evidence": RUN}, False, False),
        ({"verdict": "accept", "evidence": {"nothingToRun": "only prose"}}, False, False),
        ({"verdict": "accept", "evidence": RUN, "findings": ["a.py:1: wrong"]}, True, False),
        ({"verdict": "accept", "evidence": {"verification": [{"command": "make", "exit": 2}]}}, True, False),
        ({"verdict": "accept"}, False, True),
        ({"verdict": "accept", "evidence": "trust me"}, False, True),
        ({"verdict": "accept", "evidence": {"nothingToRun": " "}, "findings": "none"}, False, True),
    ],
)
def test_an_acceptance_needs_evidence_and_none_against_it(data: dict, against: bool, lacks: bool) -> None:
    """A finding or a red command speaks against it; without a command or a reason it is none."""
    claimed = claim(data, {})
    assert claimed.passes
    assert bool(claimed.evidence.contradictions) is against
    assert bool(claimed.evidence.lack) is lacks


def test_a_revision_needs_a_finding() -> None:
    """There would be nothing to tell the next round."""
    assert "at least one" in (complaint({"verdict": "revise", "findings": [" "]}) or "")
    assert complaint({"verdict": "revise", "findings": ["a.py:1: wrong"]}) is None
    assert complaint({"verdict": "accept"}) is None
