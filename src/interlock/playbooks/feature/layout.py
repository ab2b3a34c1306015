"""Where the documents of a feature are."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.playbooks.feature import members

FEATURES = "docs/feature"


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
        return self.at(members.FEATURE)

    @property
    def design(self) -> str:
        return self.at(members.DESIGN)

    @property
    def plan(self) -> str:
        return self.at(members.PLAN)

    @property
    def tasks(self) -> str:
        return self.at("tasks")

    @property
    def decisions(self) -> str:
        return self.at(members.DECISIONS)

    @property
    def suggestions(self) -> str:
        return self.at(members.SUGGESTIONS)

    @property
    def evaluations(self) -> str:
        return self.at("artifact-evaluations")

    @property
    def memories(self) -> str:
        return self.at("memory")

    def output(self, member: str) -> str:
        """The document that this agent makes; task agents change the source instead."""
        return self.at(members.document_of(member))

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
