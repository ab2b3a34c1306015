"""What the harness decides: how a dispatch counts, what a verdict leads to; every row."""

from __future__ import annotations

import itertools

import pytest

from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.engine import Status
from interlock.playbooks.harness.decisions import (
    AFTER_FAILURE,
    Failure,
    Move,
    Position,
    after_verdict,
    failure_of,
    position,
)
from interlock.playbooks.harness.run_report import StageOutcome
from interlock.playbooks.harness.stages import TaskStatus


@pytest.mark.parametrize(
    ("status", "works", "expected"),
    [
        (TaskStatus.ACTIVE, True, Position.STAGE),
        (TaskStatus.ACTIVE, False, Position.NOT_REQUIRED),
        *((TaskStatus.AWAITING_APPROVAL, works, Position.GATE) for works in (True, False)),
        *((TaskStatus.BLOCKED, works, Position.BLOCKED) for works in (True, False)),
        *((TaskStatus.COMPLETE, works, Position.COMPLETE) for works in (True, False)),
    ],
)
def test_where_a_task_stands(status: TaskStatus, works: bool, expected: Position) -> None:
    """By its status; an active one by whether an agent carries out its stage."""
    assert position(status, works) is expected


@pytest.mark.req("HN-73")
def test_where_a_verdict_leads() -> None:
    """Only a pass beside which nothing is red goes on; anything else goes back while that is allowed, then blocks."""
    for passes, red, left in itertools.product((True, False), repeat=3):
        wanted = Move.ADVANCE if (passes, red) == (True, False) else Move.RETURN if left else Move.BLOCK
        assert after_verdict(passes, red, left) is wanted


@pytest.mark.req("HN-15", "HN-22")
def test_how_a_dispatch_counts_is_total() -> None:
    """Every combination of outcome, reason and artifact has one meaning; success needs a verified artifact."""
    for outcome, reason, cls, *trespassed in itertools.product(
        Outcome, (None, *Reason), ArtifactClass, *[(False, True)] * 3
    ):
        failure = failure_of(outcome, reason, cls, *trespassed)
        if failure is Failure.NONE:
            assert cls is ArtifactClass.OK
            assert outcome in (Outcome.OK, Outcome.REVISE)
            assert not any(trespassed)
        else:
            assert failure in AFTER_FAILURE


@pytest.mark.req("HN-15")
def test_what_was_trespassed_counts_before_what_was_said() -> None:
    """Workflow state first, then the scope, then a conflict with somebody else's work."""
    facts = (Outcome.BLOCKED, None, ArtifactClass.OK)
    assert failure_of(*facts, scope=True, governance=True, conflict=True) is Failure.GOVERNANCE
    assert failure_of(*facts, scope=True, governance=False, conflict=True) is Failure.SCOPE
    assert failure_of(*facts, scope=False, governance=False, conflict=True) is Failure.CONFLICT
    assert failure_of(*facts, scope=False, governance=False, conflict=False) is Failure.BLOCKED


@pytest.mark.req("HN-15")
def test_why_a_call_failed_decides_how_it_counts() -> None:
    """Each reason by itself, whatever lies in the tree; without one it did not finish."""
    counts = {
        reason: failure_of(Outcome.FAIL, reason, ArtifactClass.OK, scope=False, governance=False, conflict=False)
        for reason in (None, *Reason)
    }
    assert counts == {
        None: Failure.NO_ANSWER,
        Reason.AGENT_ERROR: Failure.ERROR,
        Reason.SPAWN_FAILED: Failure.NOT_STARTED,
        Reason.TIMEOUT: Failure.NO_ANSWER,
        Reason.CRASHED: Failure.NO_ANSWER,
        Reason.CANCELLED: Failure.NO_ANSWER,
        Reason.NO_VERDICT: Failure.ARTIFACT,
        Reason.CONTRACT_VIOLATION: Failure.ARTIFACT,
        Reason.BAD_FORMAT: Failure.NO_ANSWER,
        Reason.SESSION_MISMATCH: Failure.NO_ANSWER,
        Reason.SCOPE_VIOLATION: Failure.SCOPE,
        Reason.NO_CHANGE: Failure.NO_CHANGE,
        Reason.CONTRADICTED: Failure.ARTIFACT,
    }
    for outcome in (Outcome.OK, Outcome.REVISE):
        for artifact in ArtifactClass:
            found = failure_of(outcome, None, artifact, scope=False, governance=False, conflict=False)
            assert found is (Failure.NONE if artifact is ArtifactClass.OK else Failure.ARTIFACT)


@pytest.mark.req("HN-22")
def test_what_a_failure_means_for_the_run_and_for_the_history() -> None:
    """A person has to look where an agent trespassed, was blocked or says that it failed; else the run has failed."""
    strayed = "Scope violation by {agent}: {strayed}"
    rows = {failure: (row.status, row.outcome, row.reason) for failure, row in AFTER_FAILURE.items()}
    assert rows == {
        Failure.GOVERNANCE: (Status.STOPPED, StageOutcome.BLOCKED, strayed),
        Failure.SCOPE: (Status.STOPPED, StageOutcome.BLOCKED, strayed),
        Failure.NOT_STARTED: (Status.FAILED, StageOutcome.FAILED, "{who} cannot be dispatched: {detail}"),
        Failure.CONFLICT: (
            Status.STOPPED,
            StageOutcome.BLOCKED,
            "{conflicts}: edited while {agent} worked; its own version is kept in {patch}",
        ),
        Failure.ERROR: (Status.STOPPED, StageOutcome.FAILED, "{who} failed: {words}"),
        Failure.BLOCKED: (Status.STOPPED, StageOutcome.BLOCKED, "{who} is blocked: {words}"),
        Failure.ARTIFACT: (Status.FAILED, StageOutcome.FAILED, "{flaw}"),
        Failure.NO_CHANGE: (Status.FAILED, StageOutcome.FAILED, "{who} changed no file and does not say why"),
        Failure.NO_ANSWER: (Status.FAILED, StageOutcome.FAILED, "{who} did not finish: {detail}"),
    }
