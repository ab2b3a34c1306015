"""A workspace of the harness in memory: runs in it, people beside it, and what its documents say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock import testing
from interlock.engine import CommandResult, Options, Playbook
from interlock.engine.world import CommandCall
from interlock.errors import InterlockError
from interlock.playbooks.harness import HarnessInputs, example_files, harness, harness_of, run_report, run_state
from interlock.playbooks.harness.rehearsing import Governed
from interlock.playbooks.harness.run_report import RunReport, report_path
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import LIFECYCLE, Lifecycle
from interlock.testing import Act, Finished, SimulatedWorld, best

if TYPE_CHECKING:
    from tests.playbooks.harness.place import Place


TASK = "TASK-001"
TASK_FILE = f"harness/tasks/{TASK}.md"
ARTIFACTS = f"harness/artifacts/{TASK}"
QA_REPORT = f"{ARTIFACTS}/qa-report.md"
RUN_STATE = run_state.PATH
REPORT = report_path(TASK)

CODE = "src/built.py"
"""What Build changes, where a test does not say otherwise."""

Agent = Callable[[Any], Act]
Change = Callable[[Any, Act], Act]
"""From the request and the best act to another one."""


ALL_MET = "- [x] AC1\n- [x] AC2\n- [x] AC3"
"""The boxes of the example task's criteria."""
RAN = "- `make test`: exit 0"


def qa(
    result: str = "Passed",
    readiness: str = "Ready",
    issues: str = "- None",
    criteria: str = ALL_MET,
    evidence: str = RAN,
) -> str:
    return (
        f"# QA\n\nValidation Result: {result}\nApproval Readiness: {readiness}\n\n"
        f"## Blocking Issues\n\n{issues}\n\n## Acceptance Criteria\n\n{criteria}\n\n## Evidence\n\n{evidence}\n"
    )


GOOD = {
    "po-spec": "# Spec\n\n## Requirements\n\n- R1\n\n## Acceptance Criteria\n\n- AC1\n",
    "feature-design": "# Design\n\n## Overview\n\nOne part.\n\n## Decisions\n\n- D1\n",
    "tech-lead": "# Plan\n\n## Steps\n\n1. Do it.\n",
    "build": "# Report\n\n## Changes\n\n- x\n\n## Verification\n\n- y\n",
    "qa": qa(),
}
"""What each agent writes when it does well."""
NEGATIVE = qa("Issues Found", "Back to Build", "- It crashes", "- [x] A\n- [ ] B")


def agents(**changes: Callable[[Any, Act], Act]) -> Agent:
    """Agents that do their best, but for those named here (``-`` is written ``_``)."""

    def agent(request: Any) -> Act:
        change = changes.get(request.agent.replace("-", "_"))
        return change(request, best(request)) if change else best(request)

    return agent


def writing(*texts: str) -> Callable[[Any, Act], Act]:
    """Writes these texts as its artifact, one per call; the last one stays."""
    calls = 0

    def change(request: Any, act: Act) -> Act:
        nonlocal calls
        text = texts[min(calls, len(texts) - 1)]
        calls += 1
        return replace(act, files={request.contract.artifacts[0].path: text})

    return change


def working(agent: Agent) -> Agent:
    """The agent, whose Build changes code beside its report, if it says that it is done and changes nothing else."""

    def act(request: Any) -> Act:
        done = agent(request)
        owed = {artifact.path for artifact in request.contract.artifacts}
        if not request.contract.must_change or set(done.files) != owed:
            return done
        return replace(done, files={**done.files, CODE: f"# {request.dispatch}\n"})

    return act


def instead(**fields: Any) -> Callable[[Any, Act], Act]:
    return lambda _request, act: replace(act, **fields)


def also(path: str, text: str | None = "mine\n") -> Callable[[Any, Act], Act]:
    return lambda _request, act: replace(act, files={**act.files, path: text})


def person(bench: Bench, path: str, old: str, new: str) -> Change:
    """While the agent works, a person changes one passage of a file; it must be there."""

    def change(_request: Any, act: Act) -> Act:
        assert old in bench.text(path), (path, old)
        return replace(act, people={**act.people, path: bench.text(path).replace(old, new, 1)})

    return change


@dataclass
class Bench(testing.Bench):
    """The example workspace; `play` runs the task in it against simulated agents."""

    playbook: Playbook = harness
    files: dict[str, str | bytes] = field(default_factory=lambda: dict(example_files()))
    lifecycle: Lifecycle = LIFECYCLE

    def set(self, path: str, old: str, new: str) -> None:
        """Change one passage of a file; it must be there."""
        text = self.files[path]
        text = text.decode() if isinstance(text, bytes) else text
        assert old in text, (path, old)
        self.files[path] = text.replace(old, new, 1)

    def autonomous(self) -> Bench:
        self.set(TASK_FILE, "Workflow Mode: standard", "Workflow Mode: autonomous")
        return self

    def simulate(
        self,
        agent: Agent = best,
        *,
        attended: bool = True,
        inputs: HarnessInputs | None = None,
        flags: Mapping[str, Any] | None = None,
        idle: bool = False,
        command: Callable[[CommandCall], CommandResult] | None = None,
        **settings: Any,
    ) -> Any:
        """A run. `idle`: agents do what they are told to and no more, Build too; `command`: how commands end."""
        options = Options(settings=HarnessSettings(**settings), flags=flags or {})
        world = SimulatedWorld(
            self.files, agent if idle else working(agent), **({"command": command} if command else {})
        )
        process = harness if self.lifecycle is LIFECYCLE else harness_of(self.lifecycle.stages)
        given = inputs or HarnessInputs(TASK)
        self._simulation = Governed(process, given, world, options=options, approves=attended)
        return self._simulation

    def play(self, agent: Agent = best, **how: Any) -> Finished:
        return self.simulate(agent, **how).go()

    def again(self, agent: Agent = best, **how: Any) -> Finished:
        """Another run in the workspace as the last one left it: no journal, only documents."""
        self.files = dict(self.tree)
        return self.play(agent, **how)

    def resume(self, agent: Agent = best, *, flags: Mapping[str, Any] | None = None, **how: Any) -> Finished:
        """The successor of a stopped run, as `interlock resume` starts it."""
        asked = self.simulation.playbook.successor(self.simulation.inputs, flags or {})
        return self.again(agent, inputs=asked, **how)

    def refuse(self, **how: Any) -> InterlockError:
        """The error of a start that is refused before anything came into being."""
        simulation = self.simulate(**how)
        before = dict(simulation.world.tree.files)
        with pytest.raises(InterlockError) as caught:
            simulation.go()
        assert simulation.world.calls == []
        assert simulation.world.records.identity is None
        assert simulation.world.tree.files == before
        return caught.value

    @property
    def tree(self) -> dict[str, bytes]:
        return dict(self.simulation.world.tree.files)

    @property
    def state(self) -> RunState:
        return run_state.parse_text(self.text(RUN_STATE), self.lifecycle)

    @property
    def report(self) -> RunReport:
        return run_report.parse_text(self.text(REPORT), REPORT)

    def rows(self, log: run_report.Log) -> tuple[tuple[str, ...], ...]:
        return self.report.rows[log]

    @property
    def history(self) -> list[tuple[str, str]]:
        """Stage and outcome of each execution."""
        return [(row[1], row[3]) for row in self.rows(run_report.Log.HISTORY)]

    def blocked(self) -> str:
        """The stop reason, which both documents and the last stop give alike."""
        assert self.state.status == "Blocked"
        assert self.report.fields["Stop Reason"] == self.state.stop_reason
        assert self.rows(run_report.Log.STOPS)[-1][2] == self.state.stop_reason
        assert self.state.notes.endswith(f"Current position: {self.state.stage} (Blocked).")
        return self.state.stop_reason


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    from tests.playbooks.harness.place import furnished  # it needs what stands here

    return furnished(tmp_path / "work")
