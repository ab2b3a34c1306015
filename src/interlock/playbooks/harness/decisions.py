"""What the harness decides: how a dispatch counts, what a verdict leads to.

All of it is pure and total.  What agents wrote is reduced to closed sets first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.engine import Status
from interlock.playbooks.harness.run_report import StageOutcome
from interlock.playbooks.harness.stages import TaskStatus

# -- a start


class Position(StrEnum):
    """Where a task stands, seen from a run that is about to go on with it."""

    STAGE = "a stage is to be carried out"
    GATE = "a person has to decide"
    NOT_REQUIRED = "nobody has to approve"
    BLOCKED = "a person has to look at it first"
    COMPLETE = "nothing is left to do"


def position(status: TaskStatus, works: bool) -> Position:
    """What comes next in a state that is consistent.

    Args:
        works: an agent carries out the current stage.
    """
    match status:
        case TaskStatus.COMPLETE:
            return Position.COMPLETE
        case TaskStatus.BLOCKED:
            return Position.BLOCKED
        case TaskStatus.AWAITING_APPROVAL:
            return Position.GATE
        case TaskStatus.ACTIVE:
            return Position.STAGE if works else Position.NOT_REQUIRED


# -- a dispatch


class StageFailure(StrEnum):
    """Why a stage did not finish, worst first: the first that applies counts."""

    GOVERNANCE = "changed workflow state or governance"
    SCOPE = "changed what is not its to change"
    NOT_STARTED = "could not be dispatched"
    CONFLICT = "changed what somebody else changed meanwhile"
    ERROR = "said that it failed"
    BLOCKED = "said that it is blocked"
    ARTIFACT = "left no artifact that counts"
    NO_CHANGE = "changed nothing, and does not say why"
    NO_ANSWER = "did not finish"
    NONE = "finished"


@dataclass(frozen=True)
class Consequence:
    """What a failure means for the run and for the stage history, and the stop reason in the words of the workflow."""

    status: Status
    outcome: StageOutcome
    reason: str


STRAYED = "Scope violation by {agent}: {strayed}"
AFTER_FAILURE: Mapping[StageFailure, Consequence] = {
    StageFailure.GOVERNANCE: Consequence(Status.STOPPED, StageOutcome.BLOCKED, STRAYED),
    StageFailure.SCOPE: Consequence(Status.STOPPED, StageOutcome.BLOCKED, STRAYED),
    StageFailure.NOT_STARTED: Consequence(Status.FAILED, StageOutcome.FAILED, "{who} cannot be dispatched: {detail}"),
    StageFailure.CONFLICT: Consequence(
        Status.STOPPED,
        StageOutcome.BLOCKED,
        "{conflicts}: edited while {agent} worked; its own version is kept in {patch}",
    ),
    StageFailure.ERROR: Consequence(Status.STOPPED, StageOutcome.FAILED, "{who} failed: {words}"),
    StageFailure.BLOCKED: Consequence(Status.STOPPED, StageOutcome.BLOCKED, "{who} is blocked: {words}"),
    StageFailure.ARTIFACT: Consequence(Status.FAILED, StageOutcome.FAILED, "{flaw}"),
    StageFailure.NO_CHANGE: Consequence(
        Status.FAILED, StageOutcome.FAILED, "{who} changed no file and does not say why"
    ),
    StageFailure.NO_ANSWER: Consequence(Status.FAILED, StageOutcome.FAILED, "{who} did not finish: {detail}"),
}

_BY_REASON: Mapping[Reason, StageFailure] = {
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


def failure_of(
    outcome: Outcome, reason: Reason | None, artifact: ArtifactClass, scope: bool, governance: bool, conflict: bool
) -> StageFailure:
    """How a dispatch counts. Its word is enough for a failure, and never for success."""
    if governance:
        return StageFailure.GOVERNANCE
    if scope:
        return StageFailure.SCOPE
    if conflict:
        return StageFailure.CONFLICT
    if outcome is Outcome.BLOCKED:
        return StageFailure.BLOCKED
    if outcome is Outcome.FAIL:
        return _BY_REASON[reason] if reason is not None else StageFailure.NO_ANSWER
    return StageFailure.NONE if artifact is ArtifactClass.OK else StageFailure.ARTIFACT


# -- a verdict


class AfterVerdict(StrEnum):
    """Where a judge's verdict leads."""

    ADVANCE = "go on"
    RETURN = "back, to be mended"
    BLOCK = "halt for a person"


def after_verdict(passes: bool, red: bool, remediations_left: bool) -> AfterVerdict:
    """A report passes by one rule for all playbooks (`interlock.contracts.judge`): any negative mark of its own, a
    failed command in its text or an open criterion is enough against it. What the engine ran itself counts beside it.

    Args:
        red: a command that people named does not pass.
    """
    if passes and not red:
        return AfterVerdict.ADVANCE
    return AfterVerdict.RETURN if remediations_left else AfterVerdict.BLOCK
