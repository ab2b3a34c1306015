"""A feature in memory: agents that do their best unless a test says otherwise, call by call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from interlock import testing
from interlock.agents.runner import AgentRequest
from interlock.engine import CommandCall, CommandResult, Playbook
from interlock.engine.journal import Journal
from interlock.engine.keys import sha256
from interlock.errors import InterlockError
from interlock.playbooks.feature import FeatureInputs, feature
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import CT, MEMBERS, RESEARCH, R, V
from interlock.playbooks.feature.memory_file import sample_memory
from interlock.playbooks.feature.plan import parse_task
from interlock.playbooks.feature.rehearsing import steps_of
from interlock.testing import Act, Change, Finished, Simulation, says

AT = Layout("login")
RESEARCHERS, CRITICS, VERIFIERS, REVIEWERS = map(MEMBERS.names, (RESEARCH, CT, V, R))
AGENTS = MEMBERS.agents


ERROR = says("ERROR: it broke")
SILENT = says("I am finished.")


def remembers(severity: str = "", *, status: str = "DONE", more: str = "", finding: str = "Seen.") -> Change:
    """Does its work, with another private memory."""

    def change(request: AgentRequest, act: Act) -> Act:
        path = AT.mem(request.member)
        text = sample_memory(request.member, severity, status=status, finding=finding)
        return replace(act, files={**act.files, path: text + more})

    return change


def task(task_id: str, **fields: Any) -> str:
    lines = "".join(f"{name}: {value}\n" for name, value in {"id": task_id, "title": "t", **fields}.items())
    return f"---\n{lines}---\nDo it.\n"


def plans(*waves: str, first: int = 1, keep_sample: bool = False, **tasks: Mapping[str, Any]) -> Change:
    """Plans these waves (ids separated by spaces); keywords are fields of task files."""
    text = "# Plan\n\n## Execution Waves\n\n" + "\n".join(
        f"### Wave {number}\n\n" + "".join(f"- {one}: do {one}\n" for one in wave.split())
        for number, wave in enumerate(waves, first)
    )
    files = {AT.task(one): task(one, **tasks.get(one, {})) for wave in waves for one in wave.split()}

    def change(_request: AgentRequest, act: Act) -> Act:
        kept = {path: content for path, content in act.files.items() if keep_sample or "/tasks/" not in path}
        return replace(act, files={**kept, AT.plan: text, **files})

    return change


@dataclass
class Bench(testing.Bench):
    """A workspace with a feature under way; `play` runs the request."""

    playbook: Playbook = feature
    files: dict[str, str | bytes] = field(default_factory=lambda: {"src/a.py": "a = 1\n"})

    def __post_init__(self) -> None:
        self.command = self.tests

    def told(self, request: AgentRequest, number: int) -> Change | None:
        must_change = request.contract is not None and request.contract.must_change
        return super().told(request, number) or (self.works if must_change else None)

    def works(self, request: AgentRequest, act: Act) -> Act:
        """A task agent to whom nothing else was said changes a file that its task lets it write."""
        _, _, task_id = request.member.rpartition("-")
        allowed = parse_task(task_id, self.text(f"tasks/{task_id}.md")).files
        path = allowed[0].replace("*", "made") if allowed else f"src/{request.member}.py"
        memory = sample_memory(request.member, "N/A")
        code = self.simulation.world.tree.files.get(path, b"").decode() + f"{request.dispatch}\n"
        return replace(act, files={**act.files, path: code, AT.mem(request.member): memory})

    def tests(self, call: CommandCall) -> CommandResult:
        """A command named `tests` fails as long as some file says so, with what that file says."""
        files = self.simulation.world.tree.files
        red = [text.decode() for path, text in files.items() if path.startswith("src/") and text.startswith(b"RED")]
        return CommandResult(1, stdout="\n".join(red)) if red and "tests" in call.argv[-1] else CommandResult(0)

    def simulate(self, **inputs: Any) -> Simulation:
        return super().simulate(FeatureInputs(**{"request": "Add a login page", "slug": "login", **inputs}))

    def play(self, **inputs: Any) -> Finished:
        return self.simulate(**inputs).go()

    def refuse(self, **inputs: Any) -> InterlockError:
        self.simulate(**inputs)
        return self.refused()

    # -- what happened

    def calls_of(self, member: str) -> list[AgentRequest]:
        return [request for request in self.requests if request.member == member]

    def inputs_of(self, member: str, number: int = 0) -> list[str]:
        text = self.brief(member, number).partition("## Inputs\n")[2].partition("\n## ")[0]
        return [line[3:-1] for line in text.splitlines() if line.startswith("- `")]

    def text(self, path: str) -> str:
        return self.simulation.world.tree.files[AT.at(path)].decode()

    @property
    def memory(self) -> str:
        return self.text("memory.md")

    @property
    def steps(self) -> list[str]:
        return steps_of(self.lines)

    def position(self, event: str, **facts: Any) -> int:
        """Where the first such line is in the journal."""
        for number, line in enumerate(self.lines):
            if line.event == event and all(line.data.get(name) == value for name, value in facts.items()):
                return number
        raise AssertionError(f"no {event} with {facts}")


def journal_of(bench: Bench) -> Journal:
    """The journal of the run, to write into it as another process would."""
    identity = bench.simulation.world.records.identity
    assert identity is not None
    return Journal(
        bench.simulation.medium,
        run_id="feature-20260104-120000-0000",
        genesis=sha256(identity),
        clock=lambda: "2026-01-04T12:00:00.000Z",
    )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def members(requests: Sequence[AgentRequest]) -> list[str]:
    return [request.member for request in requests]
