"""What the harness decides: how a dispatch counts, what a verdict leads to; every row."""

from __future__ import annotations

import itertools

import pytest

from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.engine import Status
from interlock.playbooks.harness.decisions import (
    AFTER_FAILURE,
    AfterVerdict,
    Position,
    StageFailure,
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
        wanted = (
            AfterVerdict.ADVANCE
            if (passes, red) == (True, False)
            else AfterVerdict.RETURN
            if left
            else AfterVerdict.BLOCK
        )
        assert after_verdict(passes, red, left) is wanted


@pytest.mark.req("HN-15", "HN-22")
def test_how_a_dispatch_counts_is_total() -> None:
    """Every combination of outcome, reason and artifact has one meaning; success needs a verified artifact."""
    for outcome, reason, cls, *trespassed in itertools.product(
        Outcome, (None, *Reason), ArtifactClass, *[(False, True)] * 3
    ):
        failure = failure_of(outcome, reason, cls, *trespassed)
        if failure is StageFailure.NONE:
            assert cls is ArtifactClass.OK
            assert outcome in (Outcome.OK, Outcome.REVISE)
            assert not any(trespassed)
        else:
            assert failure in AFTER_FAILURE


@pytest.mark.req("HN-15")
def test_what_was_trespassed_counts_before_what_was_said() -> None:
    """Workflow state first, then the scope, then a conflict with somebody else's work."""
    facts = (Outcome.BLOCKED, None, ArtifactClass.OK)
    assert failure_of(*facts, scope=True, governance=True, conflict=True) is StageFailure.GOVERNANCE
    assert failure_of(*facts, scope=True, governance=False, conflict=True) is StageFailure.SCOPE
    assert failure_of(*facts, scope=False, governance=False, conflict=True) is StageFailure.CONFLICT
    assert failure_of(*facts, scope=False, governance=False, conflict=False) is StageFailure.BLOCKED


@pytest.mark.req("HN-15")
def test_why_a_call_failed_decides_how_it_counts() -> None:
    """Each reason by itself, whatever lies in the tree; without one it did not finish."""
    counts = {
        reason: failure_of(Outcome.FAIL, reason, ArtifactClass.OK, scope=False, governance=False, conflict=False)
        for reason in (None, *Reason)
    }
    assert counts == {
        None: StageFailure.NO_ANSWER,
        Reason.AGENT_ERROR: StageFailure.ERROR,
        Reason.SPAWN_FAILED: StageFailure.NOT_STARTED,
        Reason.TIMEOUT: StageFailure.NO_ANSWER,
        Reason.CRASHED: StageFailure.NO_ANSWER,
        Reason.CANCELLED: StageFailure.NO_ANSWER,
        Reason.NO_VERDICT: StageFailure.ARTIFACT,
        Reason.CONTRACT_VIOLATION: StageFailure.ARTIFACT,
        Reason.BAD_FORMAT: StageFailure.NO_ANSWER,
        Reason.SESSION_MISMATCH: StageFailure.NO_ANSWER,
        Reason.SCOPE_VIOLATION: StageFailure.SCOPE,
        Reason.NO_CHANGE: StageFailure.NO_CHANGE,
        Reason.CONTRADICTED: StageFailure.ARTIFACT,
    }
    for outcome in (Outcome.OK, Outcome.REVISE):
        for artifact in ArtifactClass:
            found = failure_of(outcome, None, artifact, scope=False, governance=False, conflict=False)
            assert found is (StageFailure.NONE if artifact is ArtifactClass.OK else StageFailure.ARTIFACT)


@pytest.mark.req("HN-22")
def test_what_a_failure_means_for_the_run_and_for_the_history() -> None:
    """A person has to look where an agent trespassed, was blocked or says that it failed; else the run has failed."""
    strayed = "Scope violation by {agent}: {strayed}"
    rows = {failure: (row.status, row.outcome, row.reason) for failure, row in AFTER_FAILURE.items()}
    assert rows == {
        StageFailure.GOVERNANCE: (Status.STOPPED, StageOutcome.BLOCKED, strayed),
        StageFailure.SCOPE: (Status.STOPPED, StageOutcome.BLOCKED, strayed),
        StageFailure.NOT_STARTED: (Status.FAILED, StageOutcome.FAILED, "{who} cannot be dispatched: {detail}"),
        StageFailure.CONFLICT: (
            Status.STOPPED,
            StageOutcome.BLOCKED,
            "{conflicts}: edited while {agent} worked; its own version is kept in {patch}",
        ),
        StageFailure.ERROR: (Status.STOPPED, StageOutcome.FAILED, "{who} failed: {words}"),
        StageFailure.BLOCKED: (Status.STOPPED, StageOutcome.BLOCKED, "{who} is blocked: {words}"),
        StageFailure.ARTIFACT: (Status.FAILED, StageOutcome.FAILED, "{flaw}"),
        StageFailure.NO_CHANGE: (Status.FAILED, StageOutcome.FAILED, "{who} changed no file and does not say why"),
        StageFailure.NO_ANSWER: (Status.FAILED, StageOutcome.FAILED, "{who} did not finish: {detail}"),
    }
