"""A process for the crash sweep: clusters nested in loops in clusters, every kind of verb, small real agents."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interlock.agents import (
    AgentExit,
    AgentNews,
    AgentRequest,
    BoundAgent,
    ClientNeeds,
    CommandRunner,
    Health,
    MemoryOutput,
    Observer,
    Runner,
)
from interlock.contracts import Artifact, Contract
from interlock.documents import Document
from interlock.engine import Choice, Dispatch, Ending, Kind, Playbook, Retries, Run, dispatch_facts, playbook
from interlock.engine.folder import HOME, RunFolder, known_runs
from interlock.engine.options import Options
from interlock.engine.real_world import RealWorld
from interlock.engine.runs import Setup
from interlock.workspace import Confinement, Workspace
from tests.acting import write_within


@dataclass(frozen=True)
class Inputs:
    name: str = "sweep"


def with_line(line: str, document: Document) -> str:
    return document.text + line


def how_many(text: str) -> int:
    return len(text.split())


@playbook(
    "sweep", inputs=Inputs, key=lambda inputs: inputs.name, caps={"rounds": 2}, state=lambda _inputs: ("state.txt",)
)
async def sweep(run: Run, inputs: Inputs) -> Ending:
    """Plan, then two rounds of members that each have judges of their own."""
    wanted = await run.read("wanted.txt")
    run.note("wanted.read", words=run.decide(how_many, wanted.text))
    run.say(f"run of {inputs.name}")
    started, token = run.now(), run.new_id("x-")
    with run.step("plan"):
        plan = await run.dispatch(Dispatch("planner", "Plan it.", Contract((Artifact("plan.md"),))))
        await run.command(["sh", "-c", "echo built > builds.txt"], writes=True)
    async for turn in run.loop("rounds"):
        await run.write("state.txt", f"round {turn}\n")
        reports = await run.cluster("work", {name: partial(member, run, name, turn) for name in ("a", "b")})
        await run.update("log.txt", partial(with_line, f"round {turn}: {len(reports)}\n"))
    await run.set_aside("scrap.txt")
    listed = await run.list("out", "*.md")
    run.say(f"{len(dispatch_facts(run))} dispatches")
    assert started and token and plan.ok
    return Ending.complete("\n".join(listed))


async def member(run: Run, name: str, turn: int) -> None:
    work = Dispatch(
        "worker", f"Work {turn} on {name}.", Contract((Artifact(f"out/{name}.md"),)), member=f"worker-{name}"
    )
    await run.dispatch(work)
    async for _ in run.loop("checks", cap=1):
        await run.cluster("", {name: partial(run.dispatch, judge(name)) for name in ("judge-1", "judge-2")})


def judge(name: str) -> Dispatch:
    return Dispatch("judge", "Judge it.", member=name, kind=Kind.JUDGE)


@playbook("gated", inputs=Inputs, key=lambda inputs: inputs.name, retries=Retries())
async def gated(run: Run, inputs: Inputs) -> Ending:
    """One dispatch, a gate that shows its artifact, one document."""
    await run.dispatch(Dispatch("planner", "Plan it.", Contract((Artifact("plan.md"),))))
    decision = await run.gate("plan", "Is the plan good?", shows=("plan.md",), choices=(Choice("approve", "goes on"),))
    await run.write("state.txt", f"{decision.choice}\n")
    return Ending.complete("approved")


PLAYBOOKS: Mapping[str, Playbook] = {"sweep": sweep, "gated": gated}


def lay_out(root: Path) -> None:
    """The workspace in which the process starts."""
    root.mkdir(parents=True)
    (root / "wanted.txt").write_text("three small words\n")
    (root / "scrap.txt").write_text("old\n")
    (root / "log.txt").write_text("# kept by a person\n")


def documents(root: Path) -> dict[str, str]:
    """All that the process made, its own records excepted."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and HOME not in path.relative_to(root).parts
    }


class InProcess:
    """A runner that does at once what the contract asks for, and counts its calls per dispatch."""

    name = "in-process"

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        self.calls.append(request.dispatch)
        observe(AgentNews("started", {"pid": 1, "pgid": 1}))
        assert request.contract is not None
        await write_within(request, {one.path: f"# {request.dispatch}\n" for one in request.contract.artifacts})
        return AgentExit(0, MemoryOutput(b"DONE: as asked"))

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        return None

    def needs(self) -> ClientNeeds:
        return ClientNeeds()

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        return Health(True, "in process")


@dataclass(frozen=True)
class OneRunner:
    """An agent roster in which one runner does everything."""

    one: Runner

    def bind(self, agent: str) -> BoundAgent:
        return BoundAgent(agent, self.one.name)

    def runner(self, bound: BoundAgent) -> Runner:
        return self.one


@dataclass(frozen=True)
class TestSetup(Setup):
    """Worlds for the sweep: real files, real git, real commands."""

    __test__ = False
    root: Path
    runner: Runner
    environ: Mapping[str, str]

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> RealWorld:
        workspace = Workspace(self.root, self.root / HOME, documents=playbook.state(inputs))
        seen = Confinement(shown=(Path(sys.base_prefix),))
        return RealWorld(folder, workspace, OneRunner(self.runner), environ=self.environ, confine=lambda _runner: seen)

    def options(self, playbook: Playbook) -> Options:
        return Options(max_parallel=4)


AGENT = """
grep '^- `' "$INTERLOCK_BRIEF" | sed -n '/^- `out\\|^- `plan/s/^- `\\(.*\\)`$/\\1/p' | while read -r path; do
  mkdir -p "$(dirname "$path")"
  echo "# $INTERLOCK_DISPATCH" > "$path"
done
echo "DONE: as asked"
"""


class Counted(CommandRunner):
    """Notes each call in the file of the sweep, which no agent reaches from its layer."""

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        self._note(request.dispatch)
        return await super().call(request, observe)

    def _note(self, dispatch: str) -> None:
        with Path(self._inherit["SWEEP_CALLS"]).open("a", encoding="utf-8") as file:
            file.write(f"{dispatch}\n")


def shell_agent(environ: Mapping[str, str]) -> CommandRunner:
    return Counted("shell", ["sh", "-c", AGENT], {}, environ)


def last_event(root: Path) -> str:
    """How far the first run came, by its journal."""
    runs = known_runs(root)
    lines = runs[0].folder.lines() if runs else []
    return lines[-1].event if lines else "(nothing)"
