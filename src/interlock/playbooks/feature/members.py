"""Who works on a feature: one row for each member of a cluster, from which everything else follows.

Briefs, contracts, decisions, retries, the shared memory, the log, the rehearsal and the list of agents ask the rows.
Another critic, verifier or reviewer is one row in `MEMBERS` and one role file; what a name begins with says to which
cluster it belongs, so that documents of members that are no longer there are understood too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from interlock.contracts import PLAIN, AnswerFormat, Outcome
from interlock.errors import ConfigInvalid

FEATURE, DESIGN, PLAN = "feature.md", "design.md", "plan.md"
DECISIONS, SUGGESTIONS = "decisions.md", "review/knowledge-suggestions.md"
TASKS = "tasks/*.md"
"""In `reads`: every task file, and how each task stands."""
CHANGES = "the changes"
"""In `reads`: what the tasks changed, as a list of files and as a patch."""
ENOUGH = 2
"""Usable members that a parallel cluster needs for a decision."""

REVISION = "NEEDS_REVISION"
DONE_OR_ERROR = AnswerFormat(
    {"DONE": Outcome.OK, REVISION: Outcome.FAIL, "ERROR": Outcome.FAIL}, "DONE", unsaid=(REVISION,), completion="line"
)
"""Agents that judge nothing: a wish for revision is an error of theirs."""
BY_SEVERITY = replace(PLAIN, unsaid=(REVISION,))
"""Judges whose severity is the verdict; a wish for revision is understood all the same."""


class TaskAgent(StrEnum):
    """Who can be given a task of the plan."""

    IMPLEMENTER = "implementer"
    DOCUMENTATION_WRITER = "documentation-writer"


class Blocks(StrEnum):
    """What a judge that is not content leads to."""

    ALONE = "alone"
    """Its gravest word is an error of the whole review: looked at once more, then replanned once, never passed. What
    is less grave counts as with the others."""
    WITH_OTHERS = "with others"
    """Nothing passes before it is content: the work is revised, fixed or replanned, as often as there are turns."""
    NEVER = "never"
    """Whatever it says, and whether it says anything, the decision is the same."""


@dataclass(frozen=True)
class SeverityWords:
    """What may stand below `## Highest Severity`, worst first."""

    all: tuple[str, ...]
    content: tuple[str, ...]
    """Those with which a judge is content."""
    revision: str = ""
    """What a wish for revision, or a finding below `## Medium Severity`, counts as at least."""
    foreign: str = ""
    """A word of other judges, which counts as the worst."""

    @property
    def worst(self) -> str:
        return self.all[0]

    @property
    def grave(self) -> tuple[str, ...]:
        return tuple(one for one in self.all if one not in self.content)

    def known(self, text: str) -> str | None:
        """The word that the text is, whatever its case."""
        return next((one for one in self.all if one.casefold() == text.casefold()), None)

    def understood(self, text: str) -> str | None:
        """The word that is meant, also by the foreign one."""
        return self.worst if self.foreign and text.casefold() == self.foreign.casefold() else self.known(text)

    def worse(self, *some: str) -> str:
        return min(some, key=self.all.index)


ALONE, WITH_OTHERS, NEVER = Blocks
NO_WORDS = SeverityWords(("N/A",), ("N/A",))
SEVERITY = SeverityWords(("Critical", "High", "Medium", "Low"), ("Low",), revision="Medium")
PROOF = SeverityWords(("FAIL", "PASS"), ("PASS",))
GRADE = SeverityWords(("Blocker", "Major", "Minor", "None"), ("Minor", "None"), foreign="Critical")


@dataclass(frozen=True)
class Cluster:
    """Members that are asked about the same, and decided about together."""

    name: str
    prefix: str
    """What the names of its members begin with."""
    folder: str
    step: str
    """The step to whose entries in the shared memory theirs belong."""
    called: str
    """The step as a call shows it."""


RESEARCH = Cluster("research", "researcher-", "research", "1", "1.1")
CT = Cluster("ct", "ct-", "ct-review", "3b", "3b.1")
V = Cluster("v", "v-", "verification", "6", "6.2")
R = Cluster("r", "r-", "review", "7", "7.2")
CLUSTERS = (RESEARCH, CT, V, R)
NO_CLUSTER = Cluster("", "", "", "", "")
PRODUCERS: Mapping[str, tuple[str, str]] = {"spec": ("2", FEATURE), "designer": ("3", DESIGN), "planner": ("4", PLAN)}
"""Agents that work alone: step and document."""
POST_MORTEM = "post-mortem"


def cluster_of(name: str) -> Cluster:
    return next((cluster for cluster in CLUSTERS if name.startswith(cluster.prefix)), NO_CLUSTER)


def document_of(name: str) -> str:
    """The document that an agent makes, below the feature's folder; empty for those that make none of their own."""
    if (cluster := cluster_of(name)) is not NO_CLUSTER:
        return f"{cluster.folder}/{name.removeprefix(RESEARCH.prefix)}.md"
    return PRODUCERS[name][1] if name in PRODUCERS else ""


def phase(name: str) -> str:
    """The step to whose entries in the shared memory this agent's belong: `1`, `3b`, `5` ..."""
    alone = PRODUCERS[name][0] if name in PRODUCERS else "8" if name == POST_MORTEM else "5"
    return cluster_of(name).step or alone


@dataclass(frozen=True, kw_only=True)
class Member:
    """One member of a cluster."""

    name: str
    cluster: Cluster
    prompt: str
    about: str
    """What it looks at, for its brief."""
    role: str = ""
    """The file in `agents/` that says how it works; unset: the one of its name."""
    reads: tuple[str, ...]
    """Documents below the feature's folder, `TASKS`, `CHANGES`."""
    grows: tuple[str, ...] = ()
    """Documents beside its own that it only adds to; people write in them too, and they live on across runs."""
    answers: AnswerFormat
    words: SeverityWords
    """Of its verdict; `NO_WORDS` for those who judge nothing."""
    asks: tuple[str, ...] = ()
    """Sections that its private memory has beside those of everybody's."""
    proves: bool = False
    """It runs things: its pass shows commands and how these ended."""
    blocks: Blocks
    optional: bool
    """Its cluster can be decided without it, as long as enough others are there."""
    gate: bool = False
    """It is asked before the others, who are asked only if it is content; whatever else it says is an error."""
    alarms: bool = False
    """Its gravest word is a security problem, which people are shown at once."""

    def __post_init__(self) -> None:
        problems = {
            f"its name does not begin with {self.cluster.prefix}": cluster_of(self.name) is not self.cluster,
            "its brief would not say what to look at": not self.about.strip(),
            "it blocks and has no words for a verdict": self.weighed and not self.judges,
            "it never blocks and is not optional": not self.weighed and not self.optional,
            "only a reviewer blocks alone, and is not optional": self.blocks is ALONE
            and (self.cluster is not R or self.optional),
            "only a verifier is a gate, and is not optional": self.gate and (self.cluster is not V or self.optional),
        }
        if wrong := [problem for problem, there in problems.items() if there]:
            raise ConfigInvalid(f"{self.name!r} cannot be a member: {'; '.join(wrong)}")

    @property
    def aspect(self) -> str:
        """Its name without that of the cluster: `security`."""
        return self.name.removeprefix(self.cluster.prefix)

    @property
    def label(self) -> str:
        """As the log of decisions calls it: `R-Security`."""
        return f"{self.cluster.name.upper()}-{self.aspect.capitalize()}"

    @property
    def document(self) -> str:
        return document_of(self.name)

    @property
    def judges(self) -> bool:
        return self.words is not NO_WORDS

    @property
    def weighed(self) -> bool:
        """Its verdict decides something: it can be read, and its evidence bears it out."""
        return self.blocks is not NEVER


@dataclass(frozen=True)
class Members:
    """The rows of a playbook, in the order in which they are called."""

    rows: tuple[Member, ...]

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        made = {FEATURE, DESIGN, PLAN, TASKS, CHANGES, *(row.document for row in self.rows)}
        problems = [f"{name} is there twice" for name in dict.fromkeys(names) if names.count(name) > 1]
        problems += [
            f"nobody writes {path}, which {row.name} reads"
            for row in self.rows
            for path in row.reads
            if path not in made
        ]
        for cluster in CLUSTERS:
            if len([row for row in self.of(cluster) if row.weighed or not row.judges]) < ENOUGH:
                problems.append(f"cluster {cluster.name} needs {ENOUGH} members that count")
        if [row.gate for row in self.of(V)] != [True, *[False] * (len(self.of(V)) - 1)]:
            problems.append("the first verifier is the gate, and no other")
        if problems:
            raise ConfigInvalid(f"these cannot be the members of a feature: {'; '.join(problems)}")

    def of(self, *clusters: Cluster) -> tuple[Member, ...]:
        return tuple(row for row in self.rows if row.cluster in clusters)

    def names(self, *clusters: Cluster) -> tuple[str, ...]:
        return tuple(row.name for row in self.of(*clusters))

    def row(self, name: str) -> Member | None:
        return next((row for row in self.rows if row.name == name), None)

    @property
    def weighed_reviewers(self) -> tuple[str, ...]:
        return tuple(row.name for row in self.of(R) if row.weighed)

    @property
    def agents(self) -> tuple[str, ...]:
        """Every agent that a run can need. There is none that decides for a cluster: the engine does."""
        roles = (row.role or row.name for row in self.rows)
        return tuple(dict.fromkeys((*roles, *PRODUCERS, *TaskAgent, POST_MORTEM)))


researcher = partial(
    Member,
    cluster=RESEARCH,
    role="researcher",
    prompt="researcher",
    reads=(),
    answers=DONE_OR_ERROR,
    words=NO_WORDS,
    blocks=NEVER,
    optional=True,
)
ANYBODY = replace(researcher(name="researcher-any", about="any"), name="anybody", cluster=NO_CLUSTER)
"""Stands for agents that have no row: producers, task agents, the post-mortem."""
critic = partial(
    Member,
    cluster=CT,
    prompt="critic",
    reads=(DESIGN, FEATURE),
    answers=BY_SEVERITY,
    words=SEVERITY,
    asks=("## Medium Severity",),
    blocks=WITH_OTHERS,
    optional=True,
)
verifier = partial(
    Member,
    cluster=V,
    prompt="verifier",
    answers=PLAIN,
    words=PROOF,
    asks=("## Affected Tasks",),
    proves=True,
    blocks=WITH_OTHERS,
    optional=True,
)
reviewer = partial(
    Member, cluster=R, prompt="reviewer", reads=(CHANGES,), answers=PLAIN, words=GRADE, asks=("## Affected Tasks",)
)
BUILT = f"{V.folder}/v-build.md"
MEMBERS = Members(
    (
        researcher(
            name="researcher-architecture",
            about="How the code is built where the feature touches it: parts, boundaries, data flow, entry points.",
        ),
        researcher(
            name="researcher-impact",
            about="What the feature will change or break: callers, data, interfaces, users, operations, tests.",
        ),
        researcher(
            name="researcher-dependencies",
            about="What the feature can build on: libraries at hand and their versions, services, internal modules.",
        ),
        researcher(
            name="researcher-patterns",
            about="How things of this kind are done here: conventions, comparable features, tests, error handling.",
        ),
        critic(
            name="ct-security",
            about="security. Trust boundaries, input, secrets, permissions, what an attacker would try.",
            alarms=True,
        ),
        critic(
            name="ct-scalability",
            about="scalability. Load, data growth, concurrency, latency, cost, what gives way first.",
        ),
        critic(
            name="ct-maintainability",
            about="maintainability. Clear parts, coupling, testability, what the next change will cost.",
        ),
        critic(
            name="ct-strategy",
            about="strategy. Whether this solves the request, simpler ways, what is missing, what is too much.",
        ),
        verifier(
            name="v-build",
            about="Build the project as it is now, with the whole change. Write down which commands you ran with their "
            "exit status, what they printed at the end, and what does not build. Nothing is repaired here.",
            reads=(FEATURE, DESIGN, PLAN, TASKS),
            answers=DONE_OR_ERROR,
            optional=False,
            gate=True,
        ),
        verifier(
            name="v-tests",
            about="Run the tests of the whole project. Write down the commands with their exit status, numbers, and "
            "every failure with its cause as far as you see it.",
            reads=(BUILT,),
        ),
        verifier(
            name="v-tasks",
            about="Check each task of the plan against its acceptance criteria, in the code and by running it. Write "
            "down, per acceptance point, `holds` or `FAIL`, with the evidence, in the table `## Tasks`.",
            reads=(BUILT, PLAN, TASKS),
        ),
        verifier(
            name="v-feature",
            about="Check the change as a whole against the acceptance criteria of the specification, as a user would. "
            "Write down, per criterion, `holds` or `FAIL`, with the evidence, in the table `## Criteria`.",
            reads=(BUILT, FEATURE),
        ),
        reviewer(
            name="r-quality",
            about="quality. Correctness, clarity, error handling, consistency with the project, dead code.",
            blocks=WITH_OTHERS,
            optional=True,
        ),
        reviewer(
            name="r-security",
            about="security. Whatever could be misused, leak or be bypassed. A Blocker stops the run.",
            blocks=ALONE,
            optional=False,
            alarms=True,
        ),
        reviewer(
            name="r-testing",
            about="tests. Whether they would fail if the behaviour broke, what is untested, what is flaky.",
            blocks=WITH_OTHERS,
            optional=True,
        ),
        reviewer(
            name="r-knowledge",
            about="What this feature taught.",
            prompt="r-knowledge",
            reads=(),
            grows=(SUGGESTIONS, DECISIONS),
            answers=BY_SEVERITY,
            words=SeverityWords(GRADE.all[1:], GRADE.content),
            asks=(),
            blocks=NEVER,
            optional=True,
        ),
    )
)
