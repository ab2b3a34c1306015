"""What the feature playbook decides, pure and total: clusters, tier, affected tasks, waves, names, the end.

A judge's private memory is reduced to a closed value first (`judged`): a missing file is an error of that judge, a
severity that is absent or unknown is the worst there is.  The cluster decisions see nothing but votes: how each member
stands, whether it blocks and whether it is optional, which its row says.  So every combination, of however many
members, has exactly one result, worst case first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.engine import Scope
from interlock.playbooks.feature.members import ENOUGH, Blocks, Member
from interlock.playbooks.feature.memory_file import MemoryFile


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


class ClusterResult(StrEnum):
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
    order = (Said.DONE, Said.NEEDS_REVISION, Said.ERROR)
    stated = Said(memory.status) if memory.status in order else answer
    return max(answer, stated, key=order.index)


# -- judges


class Stand(StrEnum):
    """How a judge stands to the work, whatever its words."""

    CONTENT = "content"
    WANTS_CHANGE = "wants a change"
    WORST = "gravest word"
    UNKNOWN = "no verdict"


@dataclass(frozen=True)
class Vote:
    """All that a cluster's decision sees of a member."""

    stand: Stand
    blocks: Blocks
    optional: bool

    @property
    def against(self) -> bool:
        return self.stand in (Stand.WANTS_CHANGE, Stand.WORST)


@dataclass(frozen=True)
class Judged:
    """What one judge comes to."""

    said: Said
    severity: str
    vote: Vote
    malformed: bool = False
    """The worst was assumed."""
    foreign: bool = False
    """The severity is not one of its own words, but it is clear what is meant."""

    @property
    def usable(self) -> bool:
        return self.vote.stand is not Stand.UNKNOWN

    @property
    def status(self) -> Said:
        """Its word in one: a negative verdict asks for revision, one that cannot be used is an error."""
        match self.vote.stand:
            case Stand.UNKNOWN:
                return self.said if not self.said.usable else Said.ERROR
            case Stand.CONTENT:
                return Said.DONE
            case _:
                return Said.NEEDS_REVISION

    @property
    def shown(self) -> str:
        return f"{self.said}/{self.severity}"


def judged(row: Member, answer: Said, memory: MemoryFile | None) -> Judged:
    """What a judge comes to by its answer and its private memory, the worst that either says."""
    words, said = row.words, standing(answer, memory)
    if memory is None:
        return Judged(said, words.worst, Vote(Stand.UNKNOWN, row.blocks, row.optional), malformed=True)
    known = words.understood(memory.severity)
    severity = known or words.worst
    foreign = known is not None and words.known(memory.severity) is None
    if words.revision and (memory.medium or said is Said.NEEDS_REVISION):
        severity = words.worse(severity, words.revision)
    content = said is Said.DONE and severity in words.content
    if not said.usable or (row.gate and not content):
        stand = Stand.UNKNOWN
    elif content:
        stand = Stand.CONTENT
    else:
        stand = Stand.WORST if severity == words.worst else Stand.WANTS_CHANGE
    return Judged(said, severity, Vote(stand, row.blocks, row.optional), malformed=known is None, foreign=foreign)


# -- clusters


class Decided(StrEnum):
    """What a cluster comes to, errors by their cause."""

    DONE = "DONE"
    DEGRADED = "DONE without one of the verdicts"
    NEEDS_REVISION = "NEEDS_REVISION"
    LACKING = "a verdict that is needed is not usable"
    BLOCKED = "blocker"
    TOO_FEW = "too few usable verdicts"

    @property
    def passed(self) -> bool:
        return self in (Decided.DONE, Decided.DEGRADED)

    @property
    def result(self) -> ClusterResult:
        if self.passed:
            return ClusterResult.DONE
        return ClusterResult.NEEDS_REVISION if self is Decided.NEEDS_REVISION else ClusterResult.ERROR


def side_by_side(votes: Sequence[Vote], most_lost: int | None = None, against: Sequence[str] = ()) -> Decided:
    """Worst first: a verdict that is needed is missing; who blocks alone does; too few verdicts; anybody, or anything
    that the engine knows, against; all content. Who never blocks can never change the result.

    Args:
        most_lost: verdicts that may be missing; unset: all but those that are enough.
    """
    counted = [one for one in votes if one.blocks is not Blocks.NEVER]
    lost = [one for one in counted if one.stand is Stand.UNKNOWN]
    if not all(one.optional for one in lost):
        return Decided.LACKING
    if any(one.blocks is Blocks.ALONE and one.stand is Stand.WORST for one in counted):
        return Decided.BLOCKED
    if len(lost) > (len(counted) - ENOUGH if most_lost is None else most_lost):
        return Decided.TOO_FEW
    if against or any(one.against for one in counted):
        return Decided.NEEDS_REVISION
    return Decided.DEGRADED if lost and most_lost is not None else Decided.DONE


def ct_cluster(votes: Sequence[Vote]) -> Decided:
    """Fewer than two usable: an error; anything above Low: NEEDS_REVISION; all Low: DONE."""
    return side_by_side(votes)


def r_cluster(votes: Sequence[Vote]) -> Decided:
    """Who blocks alone before anything else; then the quorum; then whoever wants a change."""
    return side_by_side(votes)


def v_cluster(votes: Sequence[Vote], strict: bool = False, against: Sequence[str] = ()) -> Decided:
    """No build, two or more without a verdict: an error; a negative verdict; one without; all DONE.

    Args:
        strict: one without a verdict is a reason to replan, not a flaw.
        against: what the engine knows itself that speaks against the work: tasks that are not done, commands that a
            person named and that fail. As long as there is any, nothing passes.
    """
    found = side_by_side(votes, 1, against)
    return Decided.NEEDS_REVISION if strict and found is Decided.DEGRADED else found


class AfterReview(StrEnum):
    """Where a review leads."""

    FINISH = "finish"
    CONFIRM = "ask whoever blocks once more"
    FIX = "fix pass"
    ESCALATE = "full replan"
    GIVE_UP = "end with ERROR"


def after_review(reviewed: Decided, confirms_left: int, fixes_left: int, escalations_left: int) -> AfterReview:
    """A blocker is confirmed once, then replanned once; findings are fixed once, then replanned once. A reviewer that
    did not do its part is not cured by replanning."""
    match reviewed:
        case Decided.DONE | Decided.DEGRADED:
            return AfterReview.FINISH
        case Decided.BLOCKED if confirms_left:
            return AfterReview.CONFIRM
        case Decided.NEEDS_REVISION if fixes_left:
            return AfterReview.FIX
        case Decided.BLOCKED | Decided.NEEDS_REVISION if escalations_left:
            return AfterReview.ESCALATE
        case _:
            return AfterReview.GIVE_UP


class Concluded(StrEnum):
    """What the whole run comes to."""

    DONE = "DONE"
    DEGRADED = "DONE with open points"
    ERROR = "ERROR"


def conclusion(reviewed: Decided, against: Sequence[str], flaws: Sequence[str]) -> Concluded:
    """DONE only when the reviewers are and nothing that the engine knows itself speaks against it."""
    if not reviewed.passed or against:
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
