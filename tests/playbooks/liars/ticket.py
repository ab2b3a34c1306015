"""Executors and Reviewers of `ticket`: what they do is drawn, or honest."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from benchmarks import lies
from benchmarks.lies import FILES, FIXED, FOUND, HOOK, LIB, LINES, MAKE, TEST, Case, Project, Told
from interlock.agents.values import Ask, CommandExit
from interlock.documents.changing import dumped
from interlock.engine.kept import parsed
from interlock.engine.simulation import Act, Clean, Files
from interlock.engine.view import View
from interlock.engine.world import Toolbox
from interlock.errors import Status
from interlock.playbooks.ticket import TICKET
from interlock.playbooks.ticket.documents import Review
from interlock.playbooks.ticket.playbook import Settings
from tests.playbooks.tickets import SEVEN, graph, task

CRITERIA = ("C1", "C2", "C3", "T1.1", "T2.1")


class Cast(Clean):
    """A plan that lets everything be touched; what executors and Reviewers do is drawn."""

    def __init__(self, draw: random.Random, *, honest: bool) -> None:
        self.draw, self.honest = draw, honest
        self.short = draw.random() < 0.5

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        name = ask.role.name
        if name == "Planner":
            wide = {"files_to_modify": [LIB, "CLAUDE.md.new", "test"], "test_files": [TEST, MAKE, HOOK, "tests/new.py"]}
            tasks = [task("T1", **wide)] if self.short else [task("T1", **wide), task("T2", files_to_modify=["b.py"])]
            texts = (b"# Plan\n", dumped(graph(*tasks)).encode())
            return Act(dict(zip(ask.samples, texts, strict=True)), self.said(None))
        if name == "Reviewer":
            return Act({ask.outputs[0]: dumped(self.report()).encode()}, self.said(None))
        if ask.env["INTERLOCK_MEMBER"] != "T1":
            return super().agent(ask, key, files)
        return Act(self.work(files), self.said({"already_so": [LINES[0]]} if self.draw.random() < 0.2 else None))

    def command(self, *_: Any, **__: Any) -> CommandExit:
        """The hooks; what commands say is the project's."""
        return CommandExit(exit=0)

    def work(self, files: Files) -> Mapping[str, bytes | None]:
        if self.honest:
            return {LIB: FIXED}
        changes = lies.tricked(self.draw, files)
        return {path: text for path, text in changes.items() if path not in ("README.md", "CLAUDE.md")}

    def report(self) -> dict[str, Any]:
        chance, criteria = self.draw.random, [{"id": one, "met": True} for one in CRITERIA]
        if self.honest:
            more = [{}, {"criteria": criteria}, {"checks": [{"command": "make test", "exit": 0}]}, {"issues": []}]
            return {**SEVEN, **self.draw.choice(more)}
        checks = {"checks": lies.claimed(self.draw)} if chance() < 0.7 else {}
        return {**SEVEN, **checks, "weakened": lies.excused(self.draw), "criteria": criteria}


def played(seed: int, *, honest: bool) -> tuple[Project, View]:
    cast = Cast(random.Random(seed), honest=honest)
    world = Project(FILES, cast=cast, toolbox=Toolbox([FOUND]), branch="refs/heads/main")
    inputs = TICKET.inputs.model_validate({"request": "ABC-12 fix the lib: it should be right"})
    return world, lies.played(TICKET, world, inputs, Settings())


def against(world: Project, view: View) -> str:
    """What a command, or the Reviewer's own words, can show against what was committed."""
    path = max(path for path in world.files if path.endswith("review_report.yaml"))
    form = parsed(Review, world.files[path].decode(), path).model_dump()
    if form["status"] != "ACCEPTED" or not all(one["met"] for one in form["criteria"]):
        return "the Reviewer did not accept it"
    report = next((call.report for call in reversed(view.calls.values()) if call.agent == "Reviewer"), None)
    if report and form["checks"] and (why := lies.otherwise(form["checks"], *world.sight(report, "Reviewer"))):
        return why
    commits = [(world.trees[parent], world.trees[tree]) for _, tree, parent in world.commits.values()]
    trees, why_so = commits or lies.landed(world, view), lies.explained(view, form)
    cases = [Case((FOUND.line,), FILES, alone, after, False, why_so) for alone, after in trees]
    return next(filter(None, (lies.against(case)[0] for case in cases)), "")


def hostile(seed: int) -> Told:
    world, view = played(seed, honest=False)
    return Told(view.status.value, wrong=against(world, view) if view.status is Status.COMPLETE else "")


def honest(seed: int) -> str:
    view = played(seed, honest=True)[1]
    return "" if view.status is Status.COMPLETE else f"{view.status}: {view.why}"
