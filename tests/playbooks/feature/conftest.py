"""A feature in memory: agents that do their best unless a test says otherwise, call by call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine import Act, CommandResult, Options, Playbook, SimulatedWorld, Simulation, best
from interlock.engine.journal import Journal, Line
from interlock.engine.keys import sha256
from interlock.engine.playing import Finished
from interlock.engine.world import CommandCall
from interlock.errors import InterlockError
from interlock.playbooks.feature import FeatureInputs, feature
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import CT, MEMBERS, RESEARCH, R, V
from interlock.playbooks.feature.memory_file import sample_memory
from interlock.playbooks.feature.plan import parse_task
from interlock.playbooks.feature.rehearsing import steps_of

Change = Callable[[AgentRequest, Act], Act]
AT = Layout("login")
RESEARCHERS, CRITICS, VERIFIERS, REVIEWERS = map(MEMBERS.names, (RESEARCH, CT, V, R))
AGENTS = MEMBERS.agents


def says(message: str) -> Change:
    """Does its work, and answers this."""
    return lambda _request, act: replace(act, message=message)


ERROR = says("ERROR: it broke")
SILENT = says("I am finished.")


def remembers(severity: str = "", *, status: str = "DONE", more: str = "", finding: str = "Seen.") -> Change:
    """Does its work, with another private memory."""

    def change(request: AgentRequest, act: Act) -> Act:
        path = AT.mem(request.member)
        text = sample_memory(request.member, severity, status=status, finding=finding)
        return replace(act, files={**act.files, path: text + more})

    return change


def writes(files: Mapping[str, str | None]) -> Change:
    return lambda _request, act: replace(act, files={**act.files, **files})


def lasting(seconds: float) -> Change:
    return lambda _request, act: replace(act, seconds=seconds)


def leaves_out(path: str) -> Change:
    return lambda _request, act: replace(act, files={name: text for name, text in act.files.items() if name != path})


def both(*changes: Change) -> Change:
    def change(request: AgentRequest, act: Act) -> Act:
        for one in changes:
            act = one(request, act)
        return act

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
class Bench:
    """`on` says what an agent does at its first, second ... call; `play` runs the request."""

    files: dict[str, str | bytes] = field(default_factory=lambda: {"src/a.py": "a = 1\n"})
    script: dict[str, list[Change | None]] = field(default_factory=dict)
    always: dict[str, Change] = field(default_factory=dict)
    simulation: Simulation = field(init=False)
    flags: dict[str, Any] = field(default_factory=dict)
    playbook: Playbook = feature
    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def on(self, member: str, *changes: Change | None) -> Bench:
        self.script[member] = list(changes)
        return self

    def ever(self, member: str, change: Change) -> Bench:
        self.always[member] = change
        return self

    def agent(self, request: AgentRequest) -> Act:
        number = self.seen[request.member]
        self.seen[request.member] += 1
        act = best(request)
        if change := self.always.get(request.member):
            return change(request, act)
        changes = self.script.get(request.member, [])
        change = changes[number] if number < len(changes) else None
        if change is None and request.contract is not None and request.contract.must_change:
            return self.works(request, act)
        return change(request, act) if change else act

    def works(self, request: AgentRequest, act: Act) -> Act:
        """A task agent to whom nothing else was said changes a file that its task lets it write."""
        _, _, task_id = request.member.rpartition("-")
        allowed = parse_task(task_id, self.text(f"tasks/{task_id}.md")).files
        path = allowed[0].replace("*", "made") if allowed else f"src/{request.member}.py"
        memory = sample_memory(request.member, "N/A")
        code = self.simulation.world.tree.files.get(path, b"").decode() + f"{request.dispatch}\n"
        return replace(act, files={**act.files, path: code, AT.mem(request.member): memory})

    def simulate(self, **inputs: Any) -> Simulation:
        self.seen.clear()
        given = FeatureInputs(**{"request": "Add a login page", "slug": "login", **inputs})
        world = SimulatedWorld(self.files, self.agent, command=self.command)
        self.simulation = Simulation(self.playbook, given, world, options=Options(flags=self.flags))
        return self.simulation

    def command(self, call: CommandCall) -> CommandResult:
        """A command named `tests` fails as long as some file says so, with what that file says."""
        files = self.simulation.world.tree.files
        red = [text.decode() for path, text in files.items() if path.startswith("src/") and text.startswith(b"RED")]
        return CommandResult(1, stdout="\n".join(red)) if red and "tests" in call.argv[-1] else CommandResult(0)

    def play(self, **inputs: Any) -> Finished:
        return self.simulate(**inputs).go()

    def refuse(self, **inputs: Any) -> InterlockError:
        """The error of a start that is refused before anything came into being."""
        simulation = self.simulate(**inputs)
        before = dict(simulation.world.tree.files)
        with pytest.raises(InterlockError) as caught:
            simulation.go()
        assert simulation.world.calls == []
        assert simulation.world.records.identity is None
        assert simulation.world.tree.files == before
        return caught.value

    # -- what happened

    @property
    def lines(self) -> list[Line]:
        return self.simulation.lines

    def events(self, name: str) -> list[dict[str, Any]]:
        return [
            {k: v for k, v in line.data.items() if k not in ("in", "out")} for line in self.lines if line.event == name
        ]

    @property
    def warnings(self) -> list[str]:
        return [one["text"] for one in self.events("warning")]

    @property
    def called(self) -> list[str]:
        return [request.member for request in self.simulation.world.calls]

    def requests(self, member: str) -> list[AgentRequest]:
        return [request for request in self.simulation.world.calls if request.member == member]

    def brief(self, member: str, number: int = 0) -> str:
        return self.requests(member)[number].brief

    def inputs_of(self, member: str, number: int = 0) -> list[str]:
        text = self.brief(member, number).partition("## Inputs\n")[2].partition("\n## ")[0]
        return [line[3:-1] for line in text.splitlines() if line.startswith("- `")]

    def text(self, path: str) -> str:
        return self.simulation.world.tree.files[AT.at(path)].decode()

    @property
    def paths(self) -> set[str]:
        return set(self.simulation.world.tree.files)

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
