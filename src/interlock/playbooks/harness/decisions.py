"""What the harness decides: how a dispatch counts, what QA means, what follows it, where a bounded run stops.

All of it is pure and total.  What agents wrote is reduced to closed enums first; tables over them do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import ArtifactCheck, ArtifactClass, Outcome, Reason
from interlock.engine import Status, Table
from interlock.playbooks.harness.artifacts import Inspection
from interlock.playbooks.harness.escalation import one_line
from interlock.playbooks.harness.lifecycle import REMEDIATIONS, Finding, Stage, TaskStatus
from interlock.playbooks.harness.run_report import Result
from interlock.playbooks.harness.run_state import RunState

# -- a start


class Position(StrEnum):
    """Where a task stands, seen from a run that is about to go on with it."""

    STAGE = "a stage is to be carried out"
    GATE = "a person has to decide"
    NOT_REQUIRED = "nobody has to approve"
    BLOCKED = "a person has to look at it first"
    COMPLETE = "nothing is left to do"


def position(state: RunState) -> Position:
    """What comes next in a state that is consistent."""
    match state.status:
        case TaskStatus.COMPLETE:
            return Position.COMPLETE
        case TaskStatus.BLOCKED:
            return Position.BLOCKED
        case TaskStatus.AWAITING_APPROVAL:
            return Position.GATE
        case TaskStatus.ACTIVE:
            return Position.STAGE if state.stage.works else Position.NOT_REQUIRED


# -- a dispatch


class Failure(StrEnum):
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
    """What a failure means for the run and for the stage history."""

    status: Status
    result: Result


AFTER_FAILURE: Mapping[Failure, Consequence] = {
    Failure.GOVERNANCE: Consequence(Status.STOPPED, Result.BLOCKED),
    Failure.SCOPE: Consequence(Status.STOPPED, Result.BLOCKED),
    Failure.NOT_STARTED: Consequence(Status.FAILED, Result.FAILED),
    Failure.CONFLICT: Consequence(Status.STOPPED, Result.BLOCKED),
    Failure.ERROR: Consequence(Status.STOPPED, Result.FAILED),
    Failure.BLOCKED: Consequence(Status.STOPPED, Result.BLOCKED),
    Failure.ARTIFACT: Consequence(Status.FAILED, Result.FAILED),
    Failure.NO_CHANGE: Consequence(Status.FAILED, Result.FAILED),
    Failure.NO_ANSWER: Consequence(Status.FAILED, Result.FAILED),
}

_BY_REASON: Mapping[Reason, Failure] = {
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


def failure_of(
    outcome: Outcome, reason: Reason | None, artifact: ArtifactClass, scope: bool, governance: bool, conflict: bool
) -> Failure:
    """How a dispatch counts. Its word is enough for a failure, and never for success."""
    if governance:
        return Failure.GOVERNANCE
    if scope:
        return Failure.SCOPE
    if conflict:
        return Failure.CONFLICT
    if outcome is Outcome.BLOCKED:
        return Failure.BLOCKED
    if outcome is Outcome.FAIL:
        return _BY_REASON[reason] if reason is not None else Failure.NO_ANSWER
    return Failure.NONE if artifact is ArtifactClass.OK else Failure.ARTIFACT


# -- QA


class Verdict(StrEnum):
    POSITIVE = "positive"
    NEGATIVE = "negative"


class Word(StrEnum):
    """What a judge's report comes to, weighed against its own evidence."""

    PASS = "passes, and its evidence bears it out"
    NOT_PASS = "does not pass"


class Proven(StrEnum):
    """What the engine found when it ran the commands that people named."""

    GREEN = "nothing is red"
    RED = "a named command is red"


QA_VERDICT: Table[Verdict] = Table(
    "qa_verdict",
    {
        (Word.PASS, Proven.GREEN): Verdict.POSITIVE,
        (Word.PASS, Proven.RED): Verdict.NEGATIVE,
        (Word.NOT_PASS, Proven.GREEN): Verdict.NEGATIVE,
        (Word.NOT_PASS, Proven.RED): Verdict.NEGATIVE,
    },
)
"""A report passes by one rule for all playbooks (`interlock.contracts.judge`): any negative mark of its own, a failed
command in its text or an open criterion is enough against it. What the engine ran itself counts beside it."""


def word(passed: bool | None) -> Word:
    return Word.PASS if passed else Word.NOT_PASS


def proven(red: bool) -> Proven:
    return Proven.RED if red else Proven.GREEN


class Budget(StrEnum):
    LEFT = "remediations left"
    USED_UP = "remediations used up"


def budget(remediations: int, cap: int = REMEDIATIONS) -> Budget:
    return Budget.LEFT if remediations < cap else Budget.USED_UP


class AfterQa(StrEnum):
    ADVANCE = "go on"
    RETURN = "back to Build"
    BLOCK = "halt for a person"


AFTER_QA: Table[AfterQa] = Table(
    "after_qa",
    {
        (Verdict.POSITIVE, Budget.LEFT): AfterQa.ADVANCE,
        (Verdict.POSITIVE, Budget.USED_UP): AfterQa.ADVANCE,
        (Verdict.NEGATIVE, Budget.LEFT): AfterQa.RETURN,
        (Verdict.NEGATIVE, Budget.USED_UP): AfterQa.BLOCK,
    },
)

FINDING_OF: Mapping[AfterQa, Finding] = {
    AfterQa.ADVANCE: Finding.QA_POSITIVE,
    AfterQa.RETURN: Finding.QA_NEGATIVE,
}


# -- bounded runs


@dataclass(frozen=True)
class Bounds:
    """How far this process is to go; an option of the process, never part of the run."""

    until: Stage | None = None
    most: int | None = None

    def reached(self, state: RunState, executed: int, last: Stage | None) -> Stage | None:
        """The stage after which a bounded run stops here; None when it goes on."""
        if self.until is not None and (last is self.until or self.until.before(state.stage)):
            return self.until
        if self.most is not None and executed >= self.most:
            return last or (state.completed[-1] if state.completed else None)
        return None


def as_left(inspection: Inspection, flaws: Sequence[ArtifactCheck]) -> Inspection:
    """The inspection of what a dispatch left: an artifact that does not count stays out of the tree, and its place says
    nothing of it."""
    flaw = next((one for one in flaws if one.path == inspection.path), None)
    if flaw is None:
        return inspection
    digest = inspection.digest if flaw.cls is ArtifactClass.STALE else ""
    return Inspection(flaw.path, flaw.cls, one_line(flaw.detail), digest)
