"""What follows from work, checks and review: every row."""

from __future__ import annotations

import itertools

import pytest

from interlock.contracts import Outcome, Reason
from interlock.engine import Proof, Report
from interlock.playbooks.task.briefs import claim, complaint
from interlock.playbooks.task.decisions import (
    AFTER_ROUND,
    Checked,
    Next,
    Reviewed,
    Worked,
    after_work,
    checked,
    reviewed,
)

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
    if outcome is Outcome.REVISE:
        assert worked is Worked.FELL_SHORT


def proof(*, exit: int) -> Proof:
    return Proof("tests", "make test", exit, 1.0, "", "tree", problem="it failed" if exit else "")


@pytest.mark.parametrize(
    ("exits", "expected"),
    [
        ((), Checked.NONE),
        ((0,), Checked.GREEN),
        ((0, 0), Checked.GREEN),
        ((0, 1), Checked.RED),
        ((1, 0), Checked.RED),
        ((2,), Checked.RED),
    ],
)
def test_checks_are_green_when_each_of_them_is(exits: tuple[int, ...], expected: Checked) -> None:
    """One that is red is enough, wherever it stands; without any there is nothing to go by."""
    assert checked([proof(exit=code) for code in exits]) is expected


def review(outcome: Outcome, passed: bool | None) -> Report:
    return Report("review#1", "task/reviewer", "reviewer", 1, "", outcome, passed=passed)


@pytest.mark.req("OW-30")
@pytest.mark.parametrize(
    ("given", "noticed", "expected"),
    [
        (None, (), Reviewed.NOBODY),
        (None, ("a test was deleted",), Reviewed.MISSED),
        (review(Outcome.OK, True), (), Reviewed.ACCEPTS),
        (review(Outcome.OK, True), ("a test was deleted",), Reviewed.ACCEPTS),
        (review(Outcome.OK, False), (), Reviewed.UNUSABLE),
        (review(Outcome.OK, None), (), Reviewed.UNUSABLE),
        (review(Outcome.REVISE, True), (), Reviewed.OBJECTS),
        (review(Outcome.REVISE, False), (), Reviewed.OBJECTS),
        (review(Outcome.FAIL, None), (), Reviewed.UNUSABLE),
        (review(Outcome.FAIL, True), (), Reviewed.UNUSABLE),
        (review(Outcome.BLOCKED, None), (), Reviewed.UNUSABLE),
    ],
)
def test_a_review_counts_as_what_it_says_and_bears_out(
    given: Report | None, noticed: tuple[str, ...], expected: Reviewed
) -> None:
    """It accepts only by an answer that passed with its evidence; without a reviewer, what was noticed misses one."""
    assert reviewed(given, noticed) is expected


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
