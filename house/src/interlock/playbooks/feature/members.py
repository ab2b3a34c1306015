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
        *(f"researcher-{focus}", "1.1", "A", Kind.PRODUCER, "research"), artifact=f"research/{focus}.md", timeout_s=3600
    )
    for focus in ("architecture", "impact", "dependencies", "patterns")
)
SPEC = Agent("spec", "2", "sequential", Kind.PRODUCER, "spec", reads=_RESEARCHED, artifact="feature.md")
DESIGNER = Agent(
    *("designer", "3", "sequential", Kind.PRODUCER, "design"),
    reads=("memory/spec.mem.md", _RESEARCHED[0], "feature.md", _RESEARCHED[1]),
    artifact="design.md",
)
CRITICS = tuple(
    Agent(
        *(f"ct-{side}", "3b.1", "A", Kind.CRITIC, "critique"),
        reads=("design.md", "feature.md"),
        artifact=f"ct-review/ct-{side}.md",
        timeout_s=3600,
    )
    for side in ("security", "scalability", "maintainability", "strategy")
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
        *(f"v-{part}", "6.1" if part == "build" else "6.2", "B", Kind.VERIFIER, "verify"),
        reads=reads,
        artifact=f"verification/v-{part}.md",
        revises=part != "build",
        timeout_s=3600,
    )
    for part, reads in {
        "build": ("feature.md", "design.md", "plan.md", "tasks/*.md"),
        "tests": (_BUILT,),
        "tasks": (_BUILT, "plan.md", "tasks/*.md"),
        "feature": (_BUILT, "feature.md"),
    }.items()
)
WEIGHED = tuple(
    Agent(
        *(f"r-{side}", "7.2", "A", Kind.REVIEWER, "review"),
        artifact=f"review/r-{side}.md",
        revises=True,
        timeout_s=3600,
    )
    for side in ("security", "quality", "testing")
)
"""Of the reviewers those whose word counts; r-security is judged first."""
R_KNOWLEDGE = Agent(
    *("r-knowledge", "7.2", "A", Kind.ASIDE, "knowledge"), artifact="review/r-knowledge.md", final=True, timeout_s=3600
)
POST_MORTEM = Agent("post-mortem", "8", "sequential", Kind.ASIDE, "post-mortem", final=True)
EVERYBODY = (
    *(RESEARCHERS[0], SPEC, DESIGNER, *CRITICS, PLANNER, *WORKERS.values()),
    *(*VERIFIERS, *WEIGHED, R_KNOWLEDGE, POST_MORTEM),
)


def resolved(patterns: Sequence[str], there: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths that are there, in the order of the patterns, and those that are named and are not (FT-04)."""
    found = [path for one in patterns for path in there if within(path, (one,))]
    return list(dict.fromkeys(found)), [one for one in patterns if "*" not in one and one not in there]
