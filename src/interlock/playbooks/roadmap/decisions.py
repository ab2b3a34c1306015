"""What the roadmap decides: which item, which pipeline, whether an attempt passed, and what follows.

All of it is pure and total.  Pass and fail come from the verdicts of the judges, as far as their own evidence bears
them out (the engine weighs that), and from the engine's own proofs where it makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interlock.contracts import Outcome, Reason
from interlock.engine import Proof, Table
from interlock.playbooks.roadmap.answers import JUDGEMENTS, StepAnswer, Verdict
from interlock.playbooks.roadmap.documents import SCOPE, Item
from interlock.playbooks.roadmap.schema import MOST_RETRIES, Complexity, ItemStatus

# -- which item


class Pick(StrEnum):
    SELECTED = "selected"
    RESUMED = "resumed"
    """Left in progress by a run whose journal is gone (RM-98, EN-27)."""
    COMPLETE = "complete"
    NOTHING = "nothing"


@dataclass(frozen=True)
class PassedOver:
    """A candidate that was passed over, and the unfinished items that it waits on."""

    item: Item
    on: tuple[Item, ...]


@dataclass(frozen=True)
class Selection:
    """What there is to do in a roadmap."""

    choice: Pick
    item: Item | None = None
    passed_over: tuple[PassedOver, ...] = ()
    """Candidates that come before the selected one, in order."""


def select(items: Sequence[Item]) -> Selection:
    """The one item to work on next; the same for the same file, whatever the order of the array."""
    for item in items:
        if item.status is ItemStatus.IN_PROGRESS:
            return Selection(Pick.RESUMED, item)
    if all(item.passes for item in items):
        return Selection(Pick.COMPLETE)
    known = {item.id: item for item in items}
    passed_over: list[PassedOver] = []
    for item in sorted((item for item in items if is_candidate(item)), key=lambda item: item.order):
        unmet = waits_on(item, known)
        if not unmet:
            return Selection(Pick.SELECTED, item, tuple(passed_over))
        passed_over.append(PassedOver(item, unmet))
    return Selection(Pick.NOTHING, None, tuple(passed_over))


def is_candidate(item: Item) -> bool:
    return not item.passes and item.status is ItemStatus.READY


def waits_on(item: Item, known: Mapping[str, Item]) -> tuple[Item, ...]:
    """The dependencies that are not done."""
    return tuple(known[one] for one in item.dependencies if known[one].status is not ItemStatus.DONE)


# -- which pipeline


class Step(StrEnum):
    RESEARCH = "research"
    DESIGN = "design"
    IMPLEMENT = "implement"
    VALIDATION = "validation"
    TESTING = "testing"
    REVIEW = "review"


AGENT_OF: Final[Mapping[Step, str]] = {
    Step.RESEARCH: "Research",
    Step.DESIGN: "Architect",
    Step.IMPLEMENT: "Implement",
    Step.VALIDATION: "Architect",
    Step.TESTING: "Testing",
    Step.REVIEW: "Review",
}
AGENTS: Final = tuple(dict.fromkeys(AGENT_OF.values()))

PIPELINES: Final[Mapping[Complexity, tuple[Step, ...]]] = {
    Complexity.SIMPLE: (Step.IMPLEMENT, Step.TESTING, Step.REVIEW),
    Complexity.MEDIUM: (Step.RESEARCH, Step.DESIGN, Step.IMPLEMENT, Step.TESTING, Step.REVIEW),
    Complexity.COMPLEX: (
        Step.RESEARCH,
        Step.DESIGN,
        Step.IMPLEMENT,
        Step.VALIDATION,
        Step.TESTING,
        Step.REVIEW,
    ),
}
"""The steps of a first attempt. Whether a medium item needs its research is asked of `RESEARCH`."""

RETRY_PIPELINES: Final[Mapping[Complexity, tuple[Step, ...]]] = {
    Complexity.SIMPLE: (Step.IMPLEMENT, Step.TESTING, Step.REVIEW),
    Complexity.MEDIUM: (Step.IMPLEMENT, Step.TESTING, Step.REVIEW),
    Complexity.COMPLEX: (Step.IMPLEMENT, Step.VALIDATION, Step.TESTING, Step.REVIEW),
}
"""The steps of a retry: the design stands, only the implementation is mended."""


class Knowledge(StrEnum):
    """What planningResearch is worth."""

    NONE = "none"
    CURRENT = "current"
    OUTDATED = "outdated"
    """The item's scope was edited after planning."""


class Research(StrEnum):
    SKIPPED = "skipped"
    NOT_NEEDED = "not needed"
    """The planner's findings are passed on instead."""
    FULL = "full"
    NARROWED = "narrowed"
    """Only gaps and changes."""


RESEARCH: Final[Table[Research]] = Table(
    "research",
    {
        (Complexity.SIMPLE, Knowledge.NONE): Research.SKIPPED,
        (Complexity.SIMPLE, Knowledge.CURRENT): Research.SKIPPED,
        (Complexity.SIMPLE, Knowledge.OUTDATED): Research.SKIPPED,
        (Complexity.MEDIUM, Knowledge.NONE): Research.FULL,
        (Complexity.MEDIUM, Knowledge.CURRENT): Research.NOT_NEEDED,
        (Complexity.MEDIUM, Knowledge.OUTDATED): Research.NARROWED,
        (Complexity.COMPLEX, Knowledge.NONE): Research.FULL,
        (Complexity.COMPLEX, Knowledge.CURRENT): Research.NARROWED,  # always researched, but never twice
        (Complexity.COMPLEX, Knowledge.OUTDATED): Research.NARROWED,
    },
)


def knowledge(item: Item) -> Knowledge:
    if is_empty(item.planning):
        return Knowledge.NONE
    return Knowledge.OUTDATED if changed_scope(item) else Knowledge.CURRENT


def is_empty(planning: object) -> bool:
    """Null, white space, an empty list or object, or an object whose only content is the snapshot of the scope."""
    if isinstance(planning, dict):
        return all(is_empty(value) for name, value in planning.items() if name != "scope")
    if isinstance(planning, list):
        return all(is_empty(value) for value in planning)
    return planning is None or (isinstance(planning, str) and not planning.strip())


def changed_scope(item: Item) -> tuple[str, ...]:
    """The fields that differ from the planner's snapshot; without a snapshot there is no proof of a change."""
    planning = item.planning
    scope = planning.get("scope") if isinstance(planning, dict) else None
    if not isinstance(scope, dict):
        return ()
    return tuple(name for name in SCOPE if name in scope and scope[name] != item.raw[name])


# -- whether an attempt passed


class QualityGate(StrEnum):
    TESTS = "tests"
    LINT = "lint"
    TYPECHECK = "typecheck"
    BUILD = "build"
    QUALITY = "quality"
    VALIDATION = "validation"
    VERIFICATION = "verification"
    """The item's commands, run by the engine."""


REVIEWED: Final = (QualityGate.LINT, QualityGate.TYPECHECK, QualityGate.BUILD, QualityGate.QUALITY)


class Source(StrEnum):
    """Where a failure was found."""

    RESEARCH = "Research"
    DESIGN = "Architect"
    IMPLEMENT = "Implement"
    VALIDATION = "Architect validation"
    TESTING = "Testing"
    REVIEW = "Review"
    ENGINE = "Engine"


SOURCE_OF: Final[Mapping[Step, Source]] = {step: Source[step.name] for step in Step}


@dataclass(frozen=True)
class Failure:
    """One thing that was wrong, and who found it."""

    source: str
    """A `Source`; of what an earlier run left behind, whatever stands in the file."""
    reason: str


@dataclass(frozen=True)
class Ruling:
    """What a judge's verdict comes to."""

    gates: Mapping[QualityGate, bool] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures and all(self.gates.values())


def judge(step: Step, answer: StepAnswer, outcome: Outcome, against: Sequence[str] = ()) -> Ruling:
    """The verdict of a judge. `against`: what in its own evidence contradicts it."""
    passed = outcome is Outcome.OK and answer.verdict is JUDGEMENTS[step][0]
    gates = _gates(step, answer, passed)
    asks = outcome is Outcome.REVISE and not against
    words = "needs revision" if asks else f"verdict {answer.verdict}" if answer.verdict else "verdict missing"
    said = against or [f"{gate}: {words}" for gate, good in gates.items() if not good]
    if step is Step.VALIDATION and answer.errors:
        said = ()  # each issue says that it is drift
    unsaid = [error for error in answer.errors if not any(error in one for one in against)]
    reasons = dict.fromkeys((*said, *unsaid))
    return Ruling(gates, tuple(Failure(SOURCE_OF[step], text) for text in reasons))


def _gates(step: Step, answer: StepAnswer, passed: bool) -> Mapping[QualityGate, bool]:
    if step is not Step.REVIEW:
        return {QualityGate.TESTS if step is Step.TESTING else QualityGate.VALIDATION: passed}
    marks = answer.evidence.marks
    gates = {gate: marks[gate] != Verdict.FAIL for gate in REVIEWED if gate in marks}
    return gates if passed or not all(gates.values()) else {**gates, QualityGate.QUALITY: False}


PROOF_LINES: Final = 12
"""Lines at the end of a command's output that are handed on."""


def judge_proofs(proofs: Sequence[Proof]) -> Ruling:
    """What the item's commands say, run by the engine on the tree as it is."""
    red = [proof for proof in proofs if not proof.ok]
    reasons = ("\n".join([proof.shown, *proof.tail.splitlines()[-PROOF_LINES:]]) for proof in red)
    return Ruling({QualityGate.VERIFICATION: not red}, tuple(Failure(Source.ENGINE, text) for text in reasons))


# -- what follows


class AttemptResult(StrEnum):
    """How one attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    STOPPED = "stopped"
    """An agent is blocked, or not finished when asked again: repeating cannot help."""


class RetryBudget(StrEnum):
    LEFT = "retries left"
    USED = "retries used up"


class AfterAttempt(StrEnum):
    FINISH = "done"
    RETRY = "retry"
    BLOCK = "blocked"


AFTER_ATTEMPT: Final[Table[AfterAttempt]] = Table(
    "after_attempt",
    {
        (AttemptResult.PASSED, RetryBudget.LEFT): AfterAttempt.FINISH,
        (AttemptResult.PASSED, RetryBudget.USED): AfterAttempt.FINISH,
        (AttemptResult.FAILED, RetryBudget.LEFT): AfterAttempt.RETRY,
        (AttemptResult.FAILED, RetryBudget.USED): AfterAttempt.BLOCK,
        (AttemptResult.STOPPED, RetryBudget.LEFT): AfterAttempt.BLOCK,
        (AttemptResult.STOPPED, RetryBudget.USED): AfterAttempt.BLOCK,
    },
)


def budget(retries: int) -> RetryBudget:
    return RetryBudget.LEFT if retries < MOST_RETRIES else RetryBudget.USED


class AfterCall(StrEnum):
    """What follows a call of an agent, before its verdict is looked at."""

    GO_ON = "go on"
    ASK_AGAIN = "ask again"
    """Not finished, written where it may not, or at odds with what somebody else did: once more, with the remark."""
    BLOCK = "block"
    LEAVE_OPEN = "leave open"
    """The agent did not do its part: nothing is decided about the item, and a resume makes the same call (EV-25)."""


JUDGES: Final = frozenset({Step.VALIDATION, Step.TESTING, Step.REVIEW})


def after_call(
    step: Step, outcome: Outcome, reason: Reason | None, asked_before: bool, in_conflict: bool = False
) -> AfterCall:
    """What follows a call: total over all outcomes. `in_conflict`: its work could not be merged with the tree."""
    match outcome:
        case Outcome.OK:
            return AfterCall.GO_ON
        case Outcome.BLOCKED:
            return AfterCall.BLOCK
        case Outcome.REVISE if step in JUDGES:
            return AfterCall.GO_ON
        case Outcome.REVISE:
            return AfterCall.BLOCK if asked_before else AfterCall.ASK_AGAIN
        case Outcome.FAIL:
            again = (in_conflict or reason is Reason.SCOPE_VIOLATION) and not asked_before
            return AfterCall.ASK_AGAIN if again else AfterCall.LEAVE_OPEN
