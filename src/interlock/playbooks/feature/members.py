"""Who takes part (4.1): each agent with its step, what it reads and leaves, and what becomes of its errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from interlock.engine.run import Row
from interlock.playbooks.feature.answers import FORMS, Answer, Closing, spelled
from interlock.playbooks.feature.decisions import Kind
from interlock.workspace.scope import within

REQUEST, MEMORY = "initial-request.md", "memory.md"
GROWING = ("review/knowledge-suggestions.md", "decisions.md")
"""Of r-knowledge alone; they live on across runs."""

PATTERNS = {"1.1": "A", "3b.1": "A", "5.2": "wave", "6.1": "B", "6.2": "B", "7.2": "A", "7.4": "wave"}
"""Of the steps; all others are sequential."""
TIMES = {"A": 3600, "B": 3600, "wave": 7200, "sequential": 1800}


@dataclass(frozen=True)
class Agent:
    """An agent; paths are below the feature's folder, those with `*` are resolved to what is there."""

    name: str
    """As in `memory/<name>.mem.md`; of task agents what comes before the task's id."""
    step: str
    kind: Kind
    prompt: str
    reads: tuple[str, ...] = ()
    """Memories first."""
    artifact: str = ""

    @property
    def pattern(self) -> str:
        return PATTERNS.get(self.step, "sequential")

    @property
    def revises(self) -> bool:
        """`NEEDS_REVISION:` is its to say."""
        return self.kind.judges and self.step in ("6.2", "7.2")

    @property
    def remembers(self) -> bool:
        """Without its private memory it counts as ERROR (FT-55)."""
        return self.kind.judges or self.step == "7.2"

    @property
    def final(self) -> bool:
        """Its `ERROR:` is not retried."""
        return self.kind in (Kind.WORKER, Kind.ASIDE)

    @property
    def form(self) -> type[Answer]:
        return FORMS[self.kind]

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
            timeout_s=TIMES[self.pattern],
            lost=True,
        )


_RESEARCHED = ("memory/researcher-*.mem.md", "research/*.md")
RESEARCHERS = tuple(
    Agent(f"researcher-{focus}", "1.1", Kind.PRODUCER, "research", artifact=f"research/{focus}.md")
    for focus in ("architecture", "impact", "dependencies", "patterns")
)
SPEC = Agent("spec", "2", Kind.PRODUCER, "spec", _RESEARCHED, "feature.md")
_SPECIFIED = ("memory/spec.mem.md", _RESEARCHED[0], "feature.md", _RESEARCHED[1])
DESIGNER = Agent("designer", "3", Kind.PRODUCER, "design", _SPECIFIED, "design.md")
CRITICS = tuple(
    Agent(f"ct-{side}", "3b.1", Kind.CRITIC, "critique", ("design.md", "feature.md"), f"ct-review/ct-{side}.md")
    for side in ("security", "scalability", "maintainability", "strategy")
)
CT_FOUND = ("memory/ct-*.mem.md", "ct-review/ct-*.md")
_DESIGNED = ("memory/designer.mem.md", "memory/spec.mem.md", "design.md", "feature.md", "research/*.md")
PLANNER = Agent("planner", "4", Kind.PRODUCER, "plan", _DESIGNED, "plan.md")
_PLANNED = ("memory/planner.mem.md", "memory/designer.mem.md", "feature.md", "design.md")
WORKERS = {name: Agent(name, "5.2", Kind.WORKER, "task", _PLANNED) for name in ("implementer", "documentation-writer")}
_BUILT = "verification/v-build.md"
_VERIFIED = {
    "build": ("feature.md", "design.md", "plan.md", "tasks/*.md"),
    "tests": (_BUILT,),
    "tasks": (_BUILT, "plan.md", "tasks/*.md"),
    "feature": (_BUILT, "feature.md"),
}
VERIFIERS = V_BUILD, *V_OTHERS = tuple(
    Agent(f"v-{part}", f"6.{min(n, 2)}", Kind.VERIFIER, "verify", reads, f"verification/v-{part}.md")
    for n, (part, reads) in enumerate(_VERIFIED.items(), 1)
)
WEIGHED = tuple(
    Agent(f"r-{side}", "7.2", Kind.REVIEWER, "review", artifact=f"review/r-{side}.md")
    for side in ("security", "quality", "testing")
)
"""Of the reviewers those whose word counts; r-security is judged first."""
R_KNOWLEDGE = Agent("r-knowledge", "7.2", Kind.ASIDE, "knowledge", artifact="review/r-knowledge.md")
POST_MORTEM = Agent("post-mortem", "8", Kind.ASIDE, "post-mortem", ("memory/*.mem.md", "artifact-evaluations/*.md"))
EVERYBODY = (
    *(RESEARCHERS[0], SPEC, DESIGNER, *CRITICS, PLANNER, *WORKERS.values()),
    *(*VERIFIERS, *WEIGHED, R_KNOWLEDGE, POST_MORTEM),
)


def resolved(patterns: Sequence[str], there: Collection[str]) -> tuple[list[str], list[str]]:
    """The paths that are there, in the order of the patterns, and those that are named and are not (FT-04)."""
    found = [path for one in patterns for path in sorted(there) if within(path, (one,))]
    return list(dict.fromkeys(found)), [one for one in patterns if "*" not in one and one not in there]
