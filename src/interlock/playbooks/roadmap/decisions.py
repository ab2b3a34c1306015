"""What the roadmap decides: which item, which pipeline, whether an attempt passed, and what follows.

All of it is pure and total.  Pass and fail come from the verdicts of the judges alone; a verdict that is missing, or
that nothing stands behind, is not a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interlock.contracts import UNUSABLE, Outcome, Reason
from interlock.engine import Table
from interlock.playbooks.roadmap.answers import Answer, Verdict
from interlock.playbooks.roadmap.documents import SCOPE, Item
from interlock.playbooks.roadmap.schema import MOST_RETRIES, Complexity, ItemStatus

# -- which item


class Choice(StrEnum):
    SELECTED = "selected"
    RESUMED = "resumed"
    """Left in progress by a run whose journal is gone (RM-98, EN-27)."""
    COMPLETE = "complete"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Waiting:
    """A candidate that was passed over, and the unfinished items that it waits on."""

    item: Item
    on: tuple[Item, ...]


@dataclass(frozen=True)
class Selection:
    """What there is to do in a roadmap."""

    choice: Choice
    item: Item | None = None
    passed_over: tuple[Waiting, ...] = ()
    """Candidates that come before the selected one, in order."""


def select(items: Sequence[Item]) -> Selection:
    """The one item to work on next; the same for the same file, whatever the order of the array."""
    for item in items:
        if item.status is ItemStatus.IN_PROGRESS:
            return Selection(Choice.RESUMED, item)
    if all(item.passes for item in items):
        return Selection(Choice.COMPLETE)
    known = {item.id: item for item in items}
    passed_over: list[Waiting] = []
    for item in sorted((item for item in items if is_candidate(item)), key=lambda item: item.order):
        unmet = waits_on(item, known)
        if not unmet:
            return Selection(Choice.SELECTED, item, tuple(passed_over))
        passed_over.append(Waiting(item, unmet))
    return Selection(Choice.NOTHING, None, tuple(passed_over))


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


class Gate(StrEnum):
    TESTS = "tests"
    LINT = "lint"
    TYPECHECK = "typecheck"
    BUILD = "build"
    QUALITY = "quality"
    VALIDATION = "validation"


REVIEWED: Final = (Gate.LINT, Gate.TYPECHECK, Gate.BUILD, Gate.QUALITY)


class Source(StrEnum):
    """Where a failure was found."""

    RESEARCH = "Research"
    DESIGN = "Architect"
    IMPLEMENT = "Implement"
    VALIDATION = "Architect validation"
    TESTING = "Testing"
    REVIEW = "Review"


SOURCE_OF: Final[Mapping[Step, Source]] = {step: Source[step.name] for step in Step}


@dataclass(frozen=True)
class Failure:
    """One thing that was wrong, and who found it."""

    source: Source
    reason: str


@dataclass(frozen=True)
class Ruling:
    """What a judge's verdict comes to."""

    gates: Mapping[Gate, bool] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures and all(self.gates.values())


NO_EVIDENCE: Final = "no verification evidence"
WITHOUT_EVIDENCE: Final = "verdict pass without evidence; treated as fail"
NO_VALIDATION: Final = "validation gave no usable verdict"


def judge_tests(answer: Answer, outcome: Outcome) -> Ruling:
    """The verdict of Testing on the tests."""
    said: list[str] = []
    if answer.verdict is Verdict.FAIL:
        said.append("tests: verdict fail")
    elif outcome is Outcome.REVISE:
        said.append("tests: needs revision")
    elif answer.verdict is not Verdict.PASS:
        said.append("tests: verdict missing")
    elif not answer.has_evidence:
        said.append(f"tests: {WITHOUT_EVIDENCE}: {NO_EVIDENCE}")
    elif answer.failed:
        said.append(f"tests: verdict pass, but {answer.failed} failed")
    failures = (*said, *answer.errors) if said else ()
    return Ruling({Gate.TESTS: not said}, tuple(Failure(Source.TESTING, text) for text in failures))


def judge_review(answer: Answer, outcome: Outcome, absent: Sequence[str]) -> Ruling:
    """The verdicts of Review. `absent`: checks that the project declares not to have, so that `skipped` is a pass."""
    said: dict[Gate, str] = {}
    for gate in REVIEWED:
        match answer.checks.get(gate, answer.overall if gate is Gate.QUALITY else None):
            case Verdict.PASS if not answer.has_evidence:
                said[gate] = f"{gate}: {WITHOUT_EVIDENCE}: {NO_EVIDENCE}"
            case Verdict.PASS:
                continue
            case Verdict.FAIL:
                said[gate] = f"{gate}: verdict fail"
            case Verdict.SKIPPED if gate in absent:
                continue
            case Verdict.SKIPPED:
                said[gate] = f"{gate}: skipped, but the project does not declare that it has no such check"
            case _:
                said[gate] = f"{gate}: verdict missing"
    if not said and answer.verdict is Verdict.FAIL:
        said[Gate.QUALITY] = "quality: verdict fail"
    if not said and outcome is Outcome.REVISE:
        said[Gate.QUALITY] = "quality: needs revision"
    failures = (*said.values(), *answer.errors) if said else ()
    gates = {gate: gate not in said for gate in REVIEWED}
    return Ruling(gates, tuple(Failure(Source.REVIEW, text) for text in failures))


def judge_design(answer: Answer, outcome: Outcome, reason: Reason | None) -> Ruling:
    """The verdict of the validation; one that cannot be used counts as drift."""
    if outcome is Outcome.FAIL and reason in UNUSABLE:
        said: tuple[str, ...] = (NO_VALIDATION,)
    elif answer.verdict is Verdict.ALIGNED and outcome is Outcome.OK:
        said = ()
    else:
        said = answer.errors or ("drift_detected: needs revision",)
    return Ruling({Gate.VALIDATION: not said}, tuple(Failure(Source.VALIDATION, text) for text in said))


# -- what follows


class Result(StrEnum):
    """How one attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    STOPPED = "stopped"
    """An agent is blocked or did not do its part: repeating cannot help."""


class Budget(StrEnum):
    LEFT = "retries left"
    USED = "retries used up"


class Move(StrEnum):
    FINISH = "done"
    RETRY = "retry"
    BLOCK = "blocked"


AFTER_ATTEMPT: Final[Table[Move]] = Table(
    "after_attempt",
    {
        (Result.PASSED, Budget.LEFT): Move.FINISH,
        (Result.PASSED, Budget.USED): Move.FINISH,
        (Result.FAILED, Budget.LEFT): Move.RETRY,
        (Result.FAILED, Budget.USED): Move.BLOCK,
        (Result.STOPPED, Budget.LEFT): Move.BLOCK,
        (Result.STOPPED, Budget.USED): Move.BLOCK,
    },
)


def budget(retries: int) -> Budget:
    return Budget.LEFT if retries < MOST_RETRIES else Budget.USED


class AfterCall(StrEnum):
    """What follows a call of an agent, before its verdict is looked at."""

    GO_ON = "go on"
    ASK_AGAIN = "ask again"
    """Not finished, written where it may not, or at odds with what somebody else did: once more, with the remark."""
    BLOCK = "block"
    FAIL = "fail"
    """The item is blocked because an agent did not do its part."""


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
            if (in_conflict or reason is Reason.SCOPE_VIOLATION) and not asked_before:
                return AfterCall.ASK_AGAIN
            return AfterCall.GO_ON if step is Step.VALIDATION and reason in UNUSABLE else AfterCall.FAIL
