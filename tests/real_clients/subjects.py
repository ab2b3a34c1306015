"""The runners that one suite holds to the same promises, each told what to do in its own way."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from interlock.agents import AgentExit, AgentNews, AgentRequest, CommandRunner, Runner, Scenario, ScriptedRunner
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import AgentMode, make_runner
from interlock.workspace import Confinement, DiskLayer, Network, Workspace, open_layers
from tools.clients import client, environment
from tools.model_server import Serving, directives
from tools.model_server.steps import Refuse, Say, Shell, Sleep, Write

ROOT = Path(__file__).parents[2]
ROLE = "# The role\n\nYou are the agent of this test. ROLE-BEGINS\n\n- be exact\n\nROLE-ENDS"

Kind = Literal["command", "scripted", "headless", "acp"]


@dataclass(frozen=True)
class Subject:
    """One runner under test, and what can be expected of it beyond the promises that hold for all."""

    kind: Kind
    client: str = ""
    cost: bool = False
    """It says what a call cost."""
    tokens: bool = True
    longest: int = 2_000_000
    """Bytes of a final message that surely come back."""
    role: Literal["system", "prompt"] = "system"
    """Where the model finds the role."""
    held: bool = True
    """Without a layer it edits in its folder alone."""
    counts: Literal["usd", "tokens", ""] = ""
    """What it tells, or bounds itself, while it works; the others say at the end alone what they took."""

    @property
    def label(self) -> str:
        return f"{self.client}-{self.kind}" if self.client else self.kind

    @property
    def packages(self) -> tuple[str, ...]:
        """The clients that must be installed."""
        if self.kind == "acp" and self.client in ("claude", "codex"):
            return (f"{self.client}-acp",)
        return (self.client,) if self.client else ()

    @property
    def real(self) -> bool:
        return bool(self.client)


SUBJECTS = (
    Subject("command", tokens=False, role="prompt"),
    Subject("scripted", tokens=False, role="prompt"),
    # It exits without waiting until its output is read: what does not fit into the pipe is lost (and is no success).
    Subject("headless", "claude", cost=True, longest=400_000, counts="usd"),
    Subject("headless", "codex", counts="tokens"),
    Subject("headless", "copilot", held=False),
    Subject("headless", "opencode", counts="tokens"),
    Subject("headless", "gemini"),
    Subject("acp", "qwen", counts="tokens"),
    Subject("acp", "claude", cost=True, counts="usd"),
    Subject("acp", "codex", counts="tokens"),
)


@dataclass
class Bench:
    """A subject in a workspace of its own, with a scripted model behind it."""

    subject: Subject
    place: Path
    model: Serving
    news: list[AgentNews] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workspace = self.place / "workspace"
        self.home = self.place / "home"
        self.workspace.mkdir(parents=True)
        self.home.mkdir()
        self.marker = f"every-runner:{secrets.token_hex(8)}"

    def furnish(self) -> Bench:
        """Something is in the workspace that can be kept or changed."""
        (self.workspace / "docs").mkdir()
        (self.workspace / "docs" / "keep.md").write_text("kept\n")
        (self.workspace / "code.py").write_text("old\n")
        return self

    def files(self) -> dict[str, str]:
        """What is in the workspace, but git's own and the engine's."""
        found = {path.relative_to(self.workspace): path for path in self.workspace.rglob("*") if path.is_file()}
        ours = {inside: path for inside, path in found.items() if inside.parts[0] not in (".git", ".interlock")}
        return {str(inside): path.read_text().strip() for inside, path in ours.items()}

    def request(self, task: str, **more: Any) -> AgentRequest:
        facts: dict[str, Any] = {
            "run_id": "run",
            "playbook": "suite",
            "step": "step",
            "agent": "tester",
            "member": "tester",
            "attempt": 1,
            "dispatch": "step/tester#1",
            "session": "sess_1",
            "workspace": self.workspace,
            "folder": self.place / "records",
            "brief": f"{ROLE}\n\n{task}",
            "instructions": ROLE,
            "timeout_s": 600.0,
            "marker": self.marker,
        }
        return AgentRequest(**{**facts, **more})

    async def call(self, task: str, **more: Any) -> AgentExit:
        request = self.request(task, **more)
        return await self.runner(task).call(request, self.news.append)

    async def layer(self, task: str, *, maker: str = "namespaces", network: Network = Network.OPEN) -> DiskLayer:
        """A layer over the workspace with what the subject needs; skips the test where there can be none."""
        needs = self.runner(task).needs()
        confinement = Confinement(
            network=network, home=needs.home, login=needs.login, shown=needs.shown, hosts=needs.hosts
        )
        workspace = Workspace(self.workspace, self.workspace / ".interlock")
        layers = open_layers(workspace, environ=os.environ, maker=maker)
        if layers.probe().maker != maker:
            pytest.skip(layers.probe().why)
        return await layers.make(f"run-{secrets.token_hex(4)}", confinement)

    def inside(self, layer: DiskLayer) -> dict[str, Any]:
        """The fields of a request that works in a layer."""
        return {"within": layer, "workspace": layer.root, "exchange": layer.exchange}

    def begin(self, task: str, **more: Any) -> asyncio.Task[AgentExit]:
        return asyncio.ensure_future(self.call(task, **more))

    def runner(self, task: str) -> Runner:
        subject = self.subject
        if subject.kind == "command":
            env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(ROOT)}
            return CommandRunner("mine", [sys.executable, "-m", "tests.real_clients.obedient"], {}, env)
        if subject.kind == "scripted":
            env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
            return ScriptedRunner(Scenario.parse(scenario(task), "scenario.yaml"), inherit=env)
        inherit = environment(subject.packages[0], self.model.url, self.home)
        return self.coding_runner(str(client(subject.packages[0]).path()), inherit)

    def coding_runner(self, program: str, inherit: Mapping[str, str]) -> Runner:
        mode: AgentMode = "acp" if self.subject.kind == "acp" else "headless"
        return make_runner(self.subject.client, Configured(self.subject.label, program), inherit, mode)

    def received(self) -> tuple[str, str]:
        """What reached the model as instructions, and what as the task."""
        if self.subject.kind == "command":
            text = (self.home / "received").read_text("utf-8")
            return "", text
        turn = self.model.turns()[0]
        return turn.system, turn.human

    def processes(self) -> list[str]:
        """What is alive and carries the mark of this call."""
        return [f"{pid} {name}" for pid, name in marked(self.marker)]


def text(exit_: AgentExit) -> str:
    """The final message."""
    return exit_.output.read().decode()


def marked(marker: str) -> list[tuple[int, str]]:
    """Every process whose environment has the mark, whatever its group or session."""
    found = []
    for process in psutil.process_iter(["pid", "name"]):
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
            dead = process.status() == psutil.STATUS_ZOMBIE
        except (OSError, psutil.Error):
            continue
        if f"INTERLOCK_MARKER={marker}".encode() in environ.split(b"\0") and not dead:
            found.append((process.pid, process.info["name"]))
    return found


def scenario(task: str) -> str:
    """The directives of a task, as the scripted runner takes them."""
    import json

    reaction: dict[str, Any] = {"files": {}, "message": ""}
    for step in directives.program(task):
        match step:
            case Write(path, content):
                reaction["files"][path] = content
            case Shell(command):
                reaction["run"] = ["bash", "-c", command]
            case Say(text):
                reaction["message"] = text
            case Sleep():
                reaction["misbehave"] = "hang"
            case Refuse(status, message):
                reaction |= {"message": f"API Error: {status} {message}", "exit": 1}
    return json.dumps({"reactions": [{"agent": "tester", **reaction}]})


async def until(seen: Callable[[], bool], seconds: float = 300.0) -> None:
    """Waits for something to become true; an error when it does not."""
    async with asyncio.timeout(seconds):
        while not seen():  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.05)
