"""What is decided from what agents say: closed words, fixed rules, no I/O.

Words stand in their order from good to bad, so that "the worse of two" is one function.  A cluster's decision is made
of verdicts alone: what each member said, and how grave that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from interlock.documents.files import sha256
from interlock.workspace.scope import within
from interlock.workspace.values import Change


class Said(StrEnum):
    """How an agent or a cluster ended; also: `ERROR` of one who gave nothing usable."""

    DONE = "DONE"
    NEEDS_REVISION = "NEEDS_REVISION"
    ERROR = "ERROR"


class Kind(StrEnum):
    """What is asked of an agent."""

    PRODUCER = "producer"
    WORKER = "worker"
    ASIDE = "aside"
    """Its result changes nothing: r-knowledge, post-mortem."""
    CRITIC = "critic"
    VERIFIER = "verifier"
    REVIEWER = "reviewer"

    @property
    def judges(self) -> bool:
        return self in WORDS

    @property
    def words(self) -> tuple[str, ...]:
        """Its taxonomy of severities, the best first."""
        return WORDS.get(self, ("N/A",))

    def against(self, severity: str) -> bool:
        """Whether that speaks against the work."""
        return self.judges and self.words.index(self.worse(severity)) >= self.words.index(FLOOR[self])

    def known(self, word: str) -> str:
        """The word of the taxonomy that is meant; empty: none. `Critical` of a reviewer is a `Blocker` (FT-94)."""
        if self is Kind.REVIEWER and word.casefold() == "critical":
            return "Blocker"
        return next((one for one in self.words if one.casefold() == word.casefold()), "")

    def worse(self, *severities: str) -> str:
        """The gravest; what is no word of the taxonomy is the worst there is (FT-56)."""
        return max((self.known(one) or self.words[-1] for one in severities), key=self.words.index)


WORDS = {
    Kind.CRITIC: ("Low", "Medium", "High", "Critical"),
    Kind.VERIFIER: ("PASS", "FAIL"),
    Kind.REVIEWER: ("None", "Minor", "Major", "Blocker"),
}
FLOOR = {Kind.CRITIC: "Medium", Kind.VERIFIER: "FAIL", Kind.REVIEWER: "Major"}
"""The least severity that is against the work."""
AT_ONCE = 4
"""Agents at the same time (FT-12)."""
ENOUGH = 2
"""Usable results that a cluster needs (FT-47)."""


@dataclass(frozen=True)
class Verdict:
    """What of one member's answer decides."""

    said: Said
    severity: str = ""
    """Of its taxonomy; empty: it gave nothing usable."""
    conflict: bool = False
    """It could not be shown the work, since the person changed the same lines meanwhile."""

    @property
    def usable(self) -> bool:
        return self.said is not Said.ERROR

    def __str__(self) -> str:
        return f"{self.said}/{self.severity or '-'}"


LOST = Verdict(Said.ERROR)


def ct_cluster(severities: Mapping[str, str]) -> Said:
    """Of the critics that are usable: the severity of each (FT-60, FT-62)."""
    if len(severities) < ENOUGH:
        return Said.ERROR
    return Said.NEEDS_REVISION if any(map(Kind.CRITIC.against, severities.values())) else Said.DONE


def v_cluster(build: Verdict, others: Sequence[Verdict], against: bool) -> Said:
    """4.8, the first row that applies; `against`: a red command, or a task that is not done (FT-158)."""
    if build.said is not Said.DONE or sum(not one.usable for one in others) >= 2:
        return Said.ERROR
    wanting = against or any(one.said is Said.NEEDS_REVISION for one in others)
    return Said.NEEDS_REVISION if wanting else Said.DONE  # of one who is lost: "proceed with available"


class Reviewed(StrEnum):
    """What the R cluster comes to; the log has `ERROR` for the last two."""

    DONE = "DONE"
    NEEDS_REVISION = "NEEDS_REVISION"
    BLOCKED = "BLOCKED"
    """r-security names a Blocker."""
    LOST = "LOST"
    """r-security gave nothing, or fewer than two of the three did: a replan cures no reviewer."""

    @property
    def logged(self) -> Said:
        return Said.__members__.get(self.name, Said.ERROR)


def r_cluster(security: Verdict, others: Sequence[Verdict], against: bool) -> Reviewed:
    """r-security first (FT-90, FT-93), then how many are usable (FT-96), then what they say (FT-97)."""
    usable = [one for one in (security, *others) if one.usable]
    if any(one.conflict for one in (security, *others)):
        return Reviewed.NEEDS_REVISION
    if security.severity == "Blocker":
        return Reviewed.BLOCKED
    if not security.usable or len(usable) < ENOUGH:
        return Reviewed.LOST
    wants = any(one.said is Said.NEEDS_REVISION or Kind.REVIEWER.against(one.severity) for one in usable)
    return Reviewed.NEEDS_REVISION if wants or against else Reviewed.DONE


class Move(StrEnum):
    END = "end"
    FIX = "fix"
    REPLAN = "replan"


def after_review(reviewed: Reviewed, fixed: bool, replanned: bool) -> Move:
    """One fix pass and one full replan a run (FT-103, FT-105)."""
    if reviewed is Reviewed.NEEDS_REVISION and not fixed:
        return Move.FIX
    wanting = reviewed in (Reviewed.NEEDS_REVISION, Reviewed.BLOCKED)
    return Move.REPLAN if wanting and not replanned else Move.END


_SENSITIVE = re.compile(
    r"auth|crypt|secret|payment|credential"
    r"|(^|/)(\.github/workflows/|\.gitlab-ci|\.circleci/|\.ci/|jenkinsfile|azure-pipelines)"
    r"|(^|/)(pyproject\.toml|setup\.(py|cfg)|requirements[^/]*\.txt|pipfile[^/]*|(poetry|uv|yarn|cargo)\.lock"
    r"|package(-lock)?\.json|pnpm-lock\.yaml|go\.(mod|sum)|cargo\.toml|pom\.xml|build\.gradle[^/]*|gemfile[^/]*"
    r"|composer\.(json|lock)|[^/]+\.csproj)$",
    re.IGNORECASE,
)


def review_tier(changes: Sequence[Change]) -> str:
    """How deep the final review goes (FT-87)."""
    lines = sum((change.added or 0) + (change.removed or 0) for change in changes)
    if len(changes) > 15 or lines > 600 or any(_SENSITIVE.search(change.path) for change in changes):
        return "Full"
    return "Lightweight" if len(changes) <= 3 and lines <= 100 else "Standard"


def affected(named: Sequence[str], files: Sequence[str], scopes: Mapping[str, Sequence[str]]) -> list[str]:
    """The tasks that a reviewer's word concerns (FT-102): those that it names, else those whose globs match the files
    of its findings, else all."""
    known = [one for one in scopes if one in named]
    matching = [one for one, globs in scopes.items() if any(within(path, globs) for path in files)]
    return known or matching or list(scopes)


def groups(tasks: Sequence[str]) -> list[Sequence[str]]:
    """Sub-waves (FT-13)."""
    return [tasks[start : start + AT_ONCE] for start in range(0, len(tasks), AT_ONCE)]


SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST = 40


def slug_of(request: str) -> str:
    """The request's first words; without a letter that fits, a digest."""
    slug = "-".join(re.findall("[a-z0-9]+", request.lower()))
    if len(slug) > LONGEST:
        slug = slug[: LONGEST + 1].rpartition("-")[0] or slug[:LONGEST]
    return slug or f"feature-{sha256(request.encode('utf-8', 'surrogatepass'))[:8]}"


def free_date(day: str, taken: Sequence[str]) -> str:
    """The day, with `-2`, `-3` behind it where an earlier run has its name."""
    names = (day if n == 1 else f"{day}-{n}" for n in count(1))
    return next(name for name in names if not {f"{name}-run-log.md", f"{name}-post-mortem.md"} & {*taken})
