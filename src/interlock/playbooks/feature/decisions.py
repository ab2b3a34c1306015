"""What the feature playbook decides, pure and total: clusters, tier, affected tasks, waves, names, the end.

A judge's private memory is reduced to a closed value first (`critic`, `verifier`, `reviewer`): a missing file is an
error of that judge, a severity that is absent or unknown is the worst there is.  The cluster decisions see nothing
else, so that every combination has exactly one result, worst case first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.engine import Scope
from interlock.playbooks.feature.layout import V_BUILD
from interlock.playbooks.feature.memory_file import MemoryFile

ENOUGH = 2
"""Usable members that a parallel cluster needs for a decision."""


class Said(StrEnum):
    """What one agent comes to."""

    DONE = "DONE"
    NEEDS_REVISION = "NEEDS_REVISION"
    ERROR = "ERROR"
    MISSING = "MISSING"
    """It left no private memory, or was not called."""

    @property
    def usable(self) -> bool:
        return self in (Said.DONE, Said.NEEDS_REVISION)


class Result(StrEnum):
    """What a cluster comes to."""

    DONE = "DONE"
    NEEDS_REVISION = "NEEDS_REVISION"
    ERROR = "ERROR"


def standing(answer: Said, memory: MemoryFile | None) -> Said:
    """An agent's answer and the status in its memory, the worse of the two."""
    if answer is Said.ERROR:
        return Said.ERROR
    if memory is None:
        return Said.MISSING
    stated = Said(memory.status) if memory.status in (Said.DONE, Said.NEEDS_REVISION, Said.ERROR) else answer
    order = (Said.DONE, Said.NEEDS_REVISION, Said.ERROR)
    return max(answer, stated, key=order.index)


# -- CT: the critics of the design


class Severity(StrEnum):
    """The critics' words, worst first."""

    CRITICAL = "Critical"
    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


def worse(*severities: Severity) -> Severity:
    return min(severities, key=list(Severity).index)


@dataclass(frozen=True)
class Critic:
    """What one critic comes to; `malformed` says that the worst was assumed."""

    usable: bool
    severity: Severity
    malformed: bool = False

    @property
    def shown(self) -> str:
        return self.severity.value if self.usable else "ERROR"


def critic(answer: Said, memory: MemoryFile | None) -> Critic:
    said = standing(answer, memory)
    if memory is None or not said.usable:
        return Critic(usable=False, severity=Severity.CRITICAL, malformed=memory is None)
    named = word(memory.severity, Severity)
    severity = Severity(named) if named else Severity.CRITICAL
    if memory.medium or said is Said.NEEDS_REVISION:
        severity = worse(severity, Severity.MEDIUM)
    return Critic(usable=True, severity=severity, malformed=named is None)


def ct_cluster(critics: Sequence[Critic]) -> Result:
    """Fewer than two usable: ERROR; anything above Low: NEEDS_REVISION; all Low: DONE."""
    usable = [one for one in critics if one.usable]
    if len(usable) < ENOUGH:
        return Result.ERROR
    return Result.DONE if all(one.severity is Severity.LOW for one in usable) else Result.NEEDS_REVISION


# -- V: build gate and verifiers


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Verifier:
    said: Said
    malformed: bool = False


def verifier(name: str, answer: Said, memory: MemoryFile | None) -> Verifier:
    """FAIL beats DONE; whatever is not DONE is an error where the build is concerned."""
    said = standing(answer, memory)
    if memory is None or not said.usable:
        return Verifier(said, malformed=memory is None)
    proof = word(memory.severity, Verdict)
    if proof != Verdict.PASS:
        said = Said.NEEDS_REVISION
    if name == V_BUILD and said is not Said.DONE:
        said = Said.ERROR
    return Verifier(said, malformed=proof is None)


class Verified(StrEnum):
    """What the V cluster comes to; a pass without one of the verifiers is a pass with a flaw."""

    DONE = "DONE"
    DEGRADED = "DONE without one of the verifiers"
    NEEDS_REVISION = "NEEDS_REVISION"
    ERROR = "ERROR"

    @property
    def result(self) -> Result:
        return Result.DONE if self.passed else Result(self.value)

    @property
    def passed(self) -> bool:
        return self in (Verified.DONE, Verified.DEGRADED)


def v_cluster(
    build: Said, tests: Said, tasks: Said, feature: Said, strict: bool = False, against: Sequence[str] = ()
) -> Verified:
    """Worst first: no build; two or more without a verdict; a negative verdict; one without; all DONE.

    Args:
        against: what the engine knows itself that speaks against the work: tasks that are not done, commands that a
            person named and that fail. As long as there is any, nothing passes.
    """
    if build is not Said.DONE:
        return Verified.ERROR
    others = (tests, tasks, feature)
    unusable = sum(not one.usable for one in others)
    if unusable >= ENOUGH:
        return Verified.ERROR
    if against or Said.NEEDS_REVISION in others:
        return Verified.NEEDS_REVISION
    if unusable:
        return Verified.NEEDS_REVISION if strict else Verified.DEGRADED
    return Verified.DONE


# -- R: the reviewers


class Grade(StrEnum):
    """The reviewers' words, worst first."""

    BLOCKER = "Blocker"
    MAJOR = "Major"
    MINOR = "Minor"
    NONE = "None"


FOREIGN_BLOCKER = "Critical"
"""A word of the critics that reviewers may not use; it counts as a Blocker."""


@dataclass(frozen=True)
class Review:
    said: Said
    grade: Grade
    malformed: bool = False
    foreign_word: bool = False
    """The severity is not one of the reviewers' own words, but it is clear what is meant."""

    @property
    def shown(self) -> str:
        return f"{self.said}/{self.grade}"

    @property
    def wants_change(self) -> bool:
        """A usable review that is not content; one that is not usable wants nothing."""
        asks = self.said is Said.NEEDS_REVISION or self.grade in (Grade.BLOCKER, Grade.MAJOR)
        return self.said.usable and asks


def reviewer(answer: Said, memory: MemoryFile | None) -> Review:
    said = standing(answer, memory)
    if memory is None:
        return Review(said, Grade.BLOCKER, malformed=True)
    foreign = memory.severity.casefold() == FOREIGN_BLOCKER.casefold()
    named = Grade.BLOCKER if foreign else word(memory.severity, Grade)
    grade = Grade(named) if named else Grade.BLOCKER
    return Review(said, grade, malformed=named is None, foreign_word=foreign)


class Reviewed(StrEnum):
    """What the R cluster comes to, errors by their cause."""

    DONE = "DONE"
    NEEDS_REVISION = "NEEDS_REVISION"
    SECURITY_UNKNOWN = "no usable security review"
    SECURITY_BLOCKER = "security blocker"
    TOO_FEW = "too few usable reviews"

    @property
    def result(self) -> Result:
        return Result(self.value) if self in (Reviewed.DONE, Reviewed.NEEDS_REVISION) else Result.ERROR


def r_cluster(security: Review, quality: Review, testing: Review) -> Reviewed:
    """Security before anything else. What r-knowledge says is no input at all: it can never change the result."""
    if not security.said.usable:
        return Reviewed.SECURITY_UNKNOWN
    if security.grade is Grade.BLOCKER:
        return Reviewed.SECURITY_BLOCKER
    usable = [one for one in (security, quality, testing) if one.said.usable]
    if len(usable) < ENOUGH:
        return Reviewed.TOO_FEW
    return Reviewed.NEEDS_REVISION if any(one.wants_change for one in usable) else Reviewed.DONE


class AfterReview(StrEnum):
    """Where a review leads."""

    FINISH = "finish"
    CONFIRM = "ask the security reviewer once more"
    FIX = "fix pass"
    ESCALATE = "full replan"
    GIVE_UP = "end with ERROR"


def after_review(reviewed: Reviewed, confirms_left: int, fixes_left: int, escalations_left: int) -> AfterReview:
    """A blocker is confirmed once, then replanned once; findings are fixed once, then replanned once. A reviewer that
    did not do its part is not cured by replanning."""
    match reviewed:
        case Reviewed.DONE:
            return AfterReview.FINISH
        case Reviewed.SECURITY_BLOCKER if confirms_left:
            return AfterReview.CONFIRM
        case Reviewed.NEEDS_REVISION if fixes_left:
            return AfterReview.FIX
        case Reviewed.SECURITY_BLOCKER | Reviewed.NEEDS_REVISION if escalations_left:
            return AfterReview.ESCALATE
        case _:
            return AfterReview.GIVE_UP


class Concluded(StrEnum):
    """What the whole run comes to."""

    DONE = "DONE"
    DEGRADED = "DONE with open points"
    ERROR = "ERROR"


def conclusion(reviewed: Reviewed, against: Sequence[str], flaws: Sequence[str]) -> Concluded:
    """DONE only when the reviewers are and nothing that the engine knows itself speaks against it."""
    if reviewed is not Reviewed.DONE or against:
        return Concluded.ERROR
    return Concluded.DEGRADED if flaws else Concluded.DONE


class Tier(StrEnum):
    """How deep the final review goes."""

    FULL = "Full"
    STANDARD = "Standard"
    LIGHTWEIGHT = "Lightweight"


_SENSITIVE_WORD = re.compile(r"auth|crypt|secret|payment|credential", re.IGNORECASE)
_CI = re.compile(r"(^|/)(\.github/workflows/|\.gitlab-ci|\.circleci/|\.ci/|jenkinsfile|azure-pipelines)", re.IGNORECASE)
_MANIFEST = re.compile(
    r"(^|/)(pyproject\.toml|setup\.(py|cfg)|requirements[^/]*\.txt|pipfile[^/]*|poetry\.lock|uv\.lock|package\.json"
    r"|package-lock\.json|yarn\.lock|pnpm-lock\.yaml|go\.(mod|sum)|cargo\.(toml|lock)|pom\.xml|build\.gradle[^/]*"
    r"|gemfile[^/]*|composer\.(json|lock)|[^/]+\.csproj)$",
    re.IGNORECASE,
)


def sensitive(path: str) -> bool:
    """Whether a change to this path always gets the full review."""
    return any(pattern.search(path) for pattern in (_SENSITIVE_WORD, _CI, _MANIFEST))


def review_tier(paths: Sequence[str], changed_lines: int) -> Tier:
    if len(paths) > 15 or changed_lines > 600 or any(map(sensitive, paths)):
        return Tier.FULL
    return Tier.LIGHTWEIGHT if len(paths) <= 3 and changed_lines <= 100 else Tier.STANDARD


@dataclass(frozen=True)
class Concern:
    """What one reviewer wants changed: the tasks it names that exist, and the files of its findings."""

    tasks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def affected_tasks(concerns: Sequence[Concern], writes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The tasks to fix, in the order of `writes` (task to its globs). Per reviewer: the tasks it names, else those
    whose globs cover the files of its findings, else all."""
    hit: set[str] = set()
    for concern in concerns:
        named = set(concern.tasks) & set(writes)
        matching = {task for task, globs in writes.items() if globs and any(map(Scope(globs).covers, concern.files))}
        hit |= named or matching or set(writes)
    return tuple(task for task in writes if task in hit)


# -- waves


def groups(tasks: Sequence[str], size: int) -> tuple[tuple[str, ...], ...]:
    """Sub-waves of at most `size`, in order."""
    return tuple(tuple(tasks[start : start + size]) for start in range(0, len(tasks), size))


class Onward(StrEnum):
    NEXT = "next"
    VERIFY = "no further wave; on to verification"


def after_group(implementer_failed: bool, failed: Iterable[str], still_to_do: Mapping[str, tuple[str, ...]]) -> Onward:
    """A failed implementer stops the waves; failed documentation only if a task still to do depends on it.

    Args:
        still_to_do: each task that has not been started, with what it depends on.
    """
    lost = set(failed)
    depended_on = any(lost & set(needs) for needs in still_to_do.values())
    return Onward.VERIFY if implementer_failed or depended_on else Onward.NEXT


# -- names and modes

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_SLUG = 40


def slug_of(request: str) -> str:
    """A slug made from the request's first words; a request without a usable letter gets one from its digest."""
    words = re.findall("[a-z0-9]+", request.lower())
    slug = ""
    for one in words:
        longer = f"{slug}-{one}" if slug else one[:LONGEST_SLUG]
        if len(longer) > LONGEST_SLUG:
            break
        slug = longer
    return slug or f"feature-{hashlib.sha256(request.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def valid_slug(slug: str) -> bool:
    return len(slug) <= LONGEST_SLUG and SLUG.fullmatch(slug) is not None


def word(text: str, words: type[StrEnum]) -> str | None:
    """The member whose value the text is, whatever its case."""
    return next((one.value for one in words if one.value.casefold() == text.casefold()), None)
