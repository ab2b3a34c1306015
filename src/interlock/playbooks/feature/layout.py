"""Where things are and who makes them: the folder of a feature, and the nineteen agents that work in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

FEATURES = "docs/feature"
FOCUSES = ("architecture", "impact", "dependencies", "patterns")
CRITICS = ("ct-security", "ct-scalability", "ct-maintainability", "ct-strategy")
V_BUILD = "v-build"
VERIFIERS = (V_BUILD, "v-tests", "v-tasks", "v-feature")
R_SECURITY = "r-security"
R_KNOWLEDGE = "r-knowledge"
REVIEWERS = ("r-quality", R_SECURITY, "r-testing", R_KNOWLEDGE)
RESEARCHERS = tuple(f"researcher-{focus}" for focus in FOCUSES)
POST_MORTEM = "post-mortem"


class TaskAgent(StrEnum):
    """Who can be given a task of the plan."""

    IMPLEMENTER = "implementer"
    DOCUMENTATION_WRITER = "documentation-writer"


AGENTS = (
    "researcher",
    "spec",
    "designer",
    *CRITICS,
    "planner",
    *TaskAgent,
    *VERIFIERS,
    *REVIEWERS,
    POST_MORTEM,
)
"""Every agent that a run can need. There is none that decides for a cluster: the engine does."""

OUTPUT: Mapping[str, str] = {
    **{f"researcher-{focus}": f"research/{focus}.md" for focus in FOCUSES},
    "spec": "feature.md",
    "designer": "design.md",
    **{name: f"ct-review/{name}.md" for name in CRITICS},
    "planner": "plan.md",
    **{name: f"verification/{name}.md" for name in VERIFIERS},
    **{name: f"review/{name}.md" for name in REVIEWERS},
}
"""The document that each agent makes, below the feature's folder; task agents change the source instead."""


def phase(member: str) -> str:
    """The step to whose entries in the shared memory this agent's belong: `1`, `3b`, `5` ..."""
    if member in CRITICS:
        return "3b"
    if member in VERIFIERS:
        return "6"
    if member in REVIEWERS:
        return "7"
    if member in RESEARCHERS:
        return "1"
    return {"spec": "2", "designer": "3", "planner": "4", POST_MORTEM: "8"}.get(member, "5")


@dataclass(frozen=True)
class Layout:
    """The paths of one feature, relative to the workspace."""

    slug: str

    @property
    def folder(self) -> str:
        return f"{FEATURES}/{self.slug}"

    def at(self, path: str) -> str:
        return f"{self.folder}/{path}"

    @property
    def memory(self) -> str:
        return self.at("memory.md")

    @property
    def request(self) -> str:
        return self.at("initial-request.md")

    @property
    def feature(self) -> str:
        return self.at("feature.md")

    @property
    def design(self) -> str:
        return self.at("design.md")

    @property
    def plan(self) -> str:
        return self.at("plan.md")

    @property
    def tasks(self) -> str:
        return self.at("tasks")

    @property
    def decisions(self) -> str:
        return self.at("decisions.md")

    @property
    def suggestions(self) -> str:
        return self.at("review/knowledge-suggestions.md")

    @property
    def evaluations(self) -> str:
        return self.at("artifact-evaluations")

    @property
    def memories(self) -> str:
        return self.at("memory")

    def output(self, member: str) -> str:
        return self.at(OUTPUT[member])

    def mem(self, member: str) -> str:
        return f"{self.memories}/{member}.mem.md"

    def evaluation(self, member: str) -> str:
        return f"{self.evaluations}/{member}.md"

    def task(self, task_id: str) -> str:
        return f"{self.tasks}/{task_id}.md"

    def post_mortem(self, run_date: str) -> str:
        return self.at(f"post-mortems/{run_date}-post-mortem.md")

    def run_log(self, run_date: str) -> str:
        return self.at(f"agent-metrics/{run_date}-run-log.md")

    def short(self, path: str) -> str:
        """The path below the feature's folder, as messages and the shared memory name it."""
        return path.removeprefix(f"{self.folder}/")
