"""Where the documents of a feature are."""

from __future__ import annotations

from interlock.playbooks.feature.members import DECISIONS, DESIGN, FEATURE, PLAN, SUGGESTIONS, document_of

FEATURES = "docs/feature"


class Layout:
    """The paths of one feature, relative to the workspace."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self.folder = f"{FEATURES}/{slug}"
        self.memory, self.request = self.at("memory.md"), self.at("initial-request.md")
        self.feature, self.design, self.plan = self.at(FEATURE), self.at(DESIGN), self.at(PLAN)
        self.decisions, self.suggestions = self.at(DECISIONS), self.at(SUGGESTIONS)
        self.memories, self.tasks = self.at("memory"), self.at("tasks")
        self.evaluations = self.at("artifact-evaluations")

    def at(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def short(self, path: str) -> str:
        """The path below the feature's folder, as messages and the shared memory name it."""
        return path.removeprefix(f"{self.folder}/")

    def output(self, member: str) -> str:
        """The document that this agent makes; task agents change the source instead."""
        return self.at(document_of(member))

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
