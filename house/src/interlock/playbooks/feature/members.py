"""Who takes part (4.1): each agent with its step, what it reads and leaves, and what becomes of its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from interlock.engine.run import Row
from interlock.playbooks.feature.decisions import Kind
from interlock.playbooks.feature.forms import FORMS, Answer, Appended, Closing, spelled
from interlock.workspace.scope import within

REQUEST, MEMORY = "initial-request.md", "memory.md"
GROWING = ("review/knowledge-suggestions.md", "decisions.md")
"""Of r-knowledge alone; they live on across runs."""


@dataclass(frozen=True)
class Agent:
    """An agent; paths are below the feature's folder, those with `*` are resolved to what is there."""

    name: str
    """As in `memory/<name>.mem.md`; of task agents what comes before the task's id."""
    step: str
    pattern: str
    kind: Kind
    prompt: str
    reads: tuple[str, ...] = ()
    """Memories first."""
    artifact: str = ""
    about: str = ""
    """What it looks at."""
    revises: bool = False
    """`NEEDS_REVISION:` is its to say."""
    final: bool = False
    """Its `ERROR:` is not retried."""
    timeout_s: float = 1800

    @property
    def form(self) -> type[Answer]:
        return Appended if self.name == "r-knowledge" else FORMS[self.kind]

    @cached_property
    def row(self) -> Row:
        return Row(
            "researcher" if self.step == "1.1" else self.name,
            self.prompt,
            self.form,
            judges=self.kind.judges,
            writes=("**", "!docs/feature/**") if self.kind is Kind.WORKER else (),
            spell=spelled,
            says=Closing,
            timeout_s=self.timeout_s,
            lost=True,
        )


_RESEARCHED = ("memory/researcher-*.mem.md", "research/*.md")
RESEARCHERS = tuple(
    Agent(
        *(f"researcher-{one}", "1.1", "A", Kind.PRODUCER, "research"),
        artifact=f"research/{one}.md",
        about=about,
        timeout_s=3600,
    )
    for one, about in {
        "architecture": "how the code is built where the feature touches it: modules, boundaries, data, entry points",
        "impact": "what the feature changes for callers, data, users, operation and other parts; what could break",
        "dependencies": "libraries, services, versions, internal interfaces that it needs or that need it",
        "patterns": "how this project solves the like: conventions, helpers, tests, errors, naming to be followed",
    }.items()
)
SPEC = Agent("spec", "2", "sequential", Kind.PRODUCER, "spec", reads=_RESEARCHED, artifact="feature.md")
DESIGNER = Agent(
    *("designer", "3", "sequential", Kind.PRODUCER, "design"),
    reads=("memory/spec.mem.md", _RESEARCHED[0], "feature.md", _RESEARCHED[1]),
    artifact="design.md",
)
CRITICS = tuple(
    Agent(
        *(f"ct-{one}", "3b.1", "A", Kind.CRITIC, "critique"),
        reads=("design.md", "feature.md"),
        artifact=f"ct-review/ct-{one}.md",
        about=about,
        timeout_s=3600,
    )
    for one, about in {
        "security": "how it could be misused: data, rights, secrets, input from outside, downtime",
        "scalability": "what happens with much more of everything: load, data, time, contention, cost",
        "maintainability": "whether it can be understood, changed and tested by others in two years",
        "strategy": "whether it is the right thing: the request, scope, simpler ways, risks, order of steps",
    }.items()
)
CT_FOUND = ("memory/ct-*.mem.md", "ct-review/ct-*.md")
PLANNER = Agent(
    *("planner", "4", "sequential", Kind.PRODUCER, "plan"),
    reads=("memory/designer.mem.md", "memory/spec.mem.md", "design.md", "feature.md", "research/*.md"),
    artifact="plan.md",
)
WORKERS = {
    role: Agent(
        *(role, "5.2", "wave", Kind.WORKER, "task"),
        reads=("memory/planner.mem.md", "memory/designer.mem.md", "feature.md", "design.md"),
        final=True,
        timeout_s=7200,
    )
    for role in ("implementer", "documentation-writer")
}
_BUILT = "verification/v-build.md"
VERIFIERS = V_BUILD, *V_OTHERS = tuple(
    Agent(
        *(f"v-{one}", "6.1" if one == "build" else "6.2", "B", Kind.VERIFIER, "verify"),
        reads=reads,
        artifact=f"verification/v-{one}.md",
        about=about,
        revises=one != "build",
        timeout_s=3600,
    )
    for one, reads, about in (
        (
            *("build", ("feature.md", "design.md", "plan.md", "tasks/*.md")),
            "whether all of it builds, loads and starts, from a clean state",
        ),
        ("tests", (_BUILT,), "whether all tests pass together, and whether they test what was built"),
        (
            *("tasks", (_BUILT, "plan.md", "tasks/*.md")),
            "whether each task does what its acceptance asks for, and the tasks fit together",
        ),
        ("feature", (_BUILT, "feature.md"), "whether the feature as a whole does what its specification says"),
    )
)
WEIGHED = R_SECURITY, *R_OTHERS = tuple(
    Agent(
        *(f"r-{one}", "7.2", "A", Kind.REVIEWER, "review"),
        artifact=f"review/r-{one}.md",
        about=about,
        revises=True,
        timeout_s=3600,
    )
    for one, about in {
        "security": "what the change makes possible for somebody who means harm",
        "quality": "whether the change is right, clear, and fits what is around it",
        "testing": "whether the tests would catch it if the change were wrong",
    }.items()
)
R_KNOWLEDGE = Agent(
    *("r-knowledge", "7.2", "A", Kind.ASIDE, "knowledge"), artifact="review/r-knowledge.md", final=True, timeout_s=3600
)
POST_MORTEM = Agent("post-mortem", "8", "sequential", Kind.ASIDE, "post-mortem", final=True)
EVERYBODY = (
    *(RESEARCHERS[0], SPEC, DESIGNER, *CRITICS, PLANNER, *WORKERS.values()),
    *(*VERIFIERS, *WEIGHED, R_KNOWLEDGE, POST_MORTEM),
)


def names(agents: Sequence[Agent]) -> list[str]:
    return [one.name for one in agents]


def resolved(patterns: Sequence[str], there: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths that are there, in the order of the patterns, and those that are named and are not (FT-04)."""
    found = [path for one in patterns for path in there if within(path, (one,))]
    return list(dict.fromkeys(found)), [one for one in patterns if "*" not in one and one not in there]
