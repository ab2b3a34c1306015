"""A governed task in the simulated world, with agents and people who do as told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.agents.values import Ask
from interlock.engine import events as ev
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.simulation import Act, Files
from interlock.engine.view import View
from interlock.engine.world import Command
from interlock.playbooks.harness import HARNESS
from interlock.playbooks.harness.run_state import State, history, read_state, report_of
from interlock.playbooks.harness.stages import RUN_STATE, Stage
from interlock.workspace.values import Pending
from tests.engine.bench import Bench, said

ID = "TASK-001"
TASK = """\
# Greet by name

- Task ID: TASK-001

## Objective

Greet the person whose name is given.

## Acceptance Criteria

- A name is greeted.
- Nobody is greeted as the world.
"""
SPEC, DESIGN, PLAN, BUILD, QA = (
    f"harness/artifacts/{ID}/{name}.md"
    for name in ("specification", "design", "implementation-planning", "build", "qa")
)
ARTIFACTS = dict(
    zip(("po-spec", "feature-design", "tech-lead", "build", "qa"), (SPEC, DESIGN, PLAN, BUILD, QA), strict=True)
)
REPORT = report_of(ID)
APPROVE, LATER = {"choice": "approve"}, None
GOOD = """\
# QA {n}

Validation Result: {result}
Approval Readiness: {ready}

## Blocking Issues

{issues}

## Acceptance Criteria

- [{box}] AC1: `greet Ada` says so
- [x] AC2: seen

## Checks

- `make test`: exit 0
"""


def reject(note: str = "otherwise, please") -> dict[str, Any]:
    return {"choice": "reject", "note": note}


def qa(n: int = 1, *, result: str = "Passed", ready: str = "Ready", issues: str = "- None", box: str = "x") -> Act:
    """QA's artifact in the layout of the seed."""
    text = GOOD.format(n=n, result=result, ready=ready, issues=issues, box=box)
    return said("I have judged.", {QA: text.encode()})


def bad(n: int = 1) -> Act:
    return qa(n, result="Issues Found", ready="Back to Build", issues="- it greets nobody", box=" ")


class Task(Bench):
    """One task, through as many processes and runs as it takes."""

    def __init__(
        self, text: str = TASK, files: Mapping[str, str] | None = None, commands: tuple[str, ...] = ("make test",)
    ) -> None:
        known = {**HARNESS.brings, f"harness/tasks/{ID}.md": text, "lib.py": "x = 1\n", **(files or {})}
        there = {path: content.encode() for path, content in known.items() if content}
        super().__init__(
            HARNESS, there, commands=[Command(f"test-{n}", one, "found") for n, one in enumerate(commands)]
        )
        self.cast.decisions = [APPROVE] * 20
        self.usual, self.cast.agent = self.cast.agent, self._agent  # type: ignore[method-assign]
        self.flags: dict[str, Any] = {}
        self.stood: list[tuple[str, str, str]] = []
        """At each call: who is called, run-state and report as they stand on disk."""

    def _agent(self, ask: Ask, key: str, files: Files) -> Act:
        self.stood.append((ask.role.name, self.text(RUN_STATE), self.text(REPORT)))
        return self.usual(ask, key, files)

    def player(self) -> Player:
        player = super().player()
        return Player(
            HARNESS,
            self.world,
            Prompts(HARNESS.prompts),
            limits=self.limits,
            flags=self.flags,
            told=player.recorder._told,
        )

    def run(self, task: str = ID, **given: Any) -> View:
        """A new run, with what the last one left of its work."""
        units: dict[str, Pending] = {}
        if self.world.folder.medium.content:
            left = self.last.view.pending
            units = {"": left} if left and left.base != left.work else {}
            self.forgets()
        return self._begin(task, units, **given)

    def cloned(self, **given: Any) -> View:
        """A new run in another clone: the files are there, `.interlock/` is not."""
        self.forgets()
        return self._begin(ID, {}, **given)

    def _begin(self, task: str, units: Mapping[str, Pending], **given: Any) -> View:
        assert HARNESS.flags is not None
        own = {name: given.pop(name) for name in [*given] if name in HARNESS.flags.model_fields}
        self.flags = HARNESS.flags.model_validate(own).model_dump()
        inputs = HARNESS.inputs.model_validate({"task": task, **given})
        words = [ev.Words(text=own["note"], who="ann", at=self.world.now())] if "note" in own else []
        return self.begins(inputs, units=units, said=words[0] if words else None)

    def go_on(self, note: str = "", **flags: Any) -> View:
        """`resume`."""
        assert HARNESS.flags is not None
        self.flags = HARNESS.flags.model_validate(flags).model_dump()
        words = ev.Words(text=note, who="ann", at=self.world.now()) if note else None
        return self.resume(said=words)

    # what came of it

    @property
    def state(self) -> State:
        return read_state(self.text(RUN_STATE))

    @property
    def stands(self) -> tuple[str, str, str]:
        return self.state.status.value, self.state.stage.value, self.state.stop

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Stage and outcome of each entry of the history."""
        return [(one["stage"], one["outcome"]) for one in history(self.text(REPORT))]

    @property
    def called(self) -> list[str]:
        return [ask.role.name for ask in self.cast.asks]

    def edit(self, path: str, old: str, new: str) -> None:
        """A person changes a document."""
        assert old in self.text(path), (path, old)
        self.world.files[path] = self.text(path).replace(old, new).encode()

    def writes(self, path: str, text: str) -> None:
        self.world.files[path] = text.encode()

    def code(self, view: View) -> int:
        return int(view.ended.exit if view.ended else view.status.exit)


ORDER = [*ARTIFACTS]
STAGES = [stage.value for stage in Stage]
