"""Real agents by the Agent Client Protocol: what each of them needs beyond it, and what is enforced.

What holds for every runner, deadlines and leftovers among it, is in `test_every_runner`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interlock.agents import process_table
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import make_runner
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Allowance, Runner
from interlock.contracts import Reason
from tools.clients import MODELS, Client, client
from tools.model_server import Serving

ClientEnv = Callable[[str], dict[str, str]]
Speak = Callable[..., "Spoken"]
ROLE = "# Implement\n\nYou are the implementer. ROLE-BEGINS\n\n- be exact, ü\n\nROLE-ENDS"
PACKAGES = {name: name for name in ("opencode", "gemini", "qwen", "copilot")}
PACKAGES |= {"claude": "claude-acp", "codex": "codex-acp"}


def agents(*names: str) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=pytest.mark.agents(PACKAGES[name])) for name in names]
    return pytest.mark.parametrize("name", marked)


class Spoken:
    """A runner for one agent, with a workspace and a scripted model of its own."""

    def __init__(self, name: str, program: Client, env: dict[str, str], model: Serving, place: Path) -> None:
        self.name, self.model = name, model
        self.workspace = place / "workspace"
        self.workspace.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=self.workspace, check=True)
        self.news: list[AgentNews] = []
        self.marker = f"acp-agents:{uuid4().hex[:8]}"
        self.runner: Runner = make_runner(name, Configured(name, str(program.path())), env, "acp")
        self._folder = place / "records"

    async def __call__(self, *lines: str, **changes: Any) -> AgentExit:
        task = "# Task\n\nTASK-BEGINS\n" + "\n".join(lines).replace("@here", str(self.workspace))
        given: dict[str, Any] = {
            "run_id": "run",
            "playbook": "suite",
            "step": "Implement",
            "agent": "Implement",
            "member": "Implement",
            "attempt": 1,
            "dispatch": "Implement#1",
            "session": "sess_1",
            "workspace": self.workspace,
            "folder": self._folder,
            "brief": f"{ROLE}\n\n{task}",
            "instructions": ROLE,
            "timeout_s": 120.0,
            "marker": self.marker,
        }
        request = AgentRequest(**{**given, **changes})
        return await self.runner.call(request, self.news.append)

    def files(self) -> list[str]:
        inside = (path.relative_to(self.workspace) for path in self.workspace.rglob("*") if path.is_file())
        return sorted(str(path) for path in inside if path.parts[0] != ".git")

    def tools(self, state: str) -> list[str]:
        told = [one.data for one in self.news if one.kind == "tool" and one.data["state"] == state]
        return [Path(str(one["subject"])).name for one in told]

    def left(self) -> list[int]:
        found = process_table.processes()
        return [one.pid for one in found if not one.dead and process_table.marker(one.pid) == self.marker]


@pytest.fixture
def speak(client_env: ClientEnv, model_server: Serving, tmp_path: Path) -> Speak:
    def make(name: str) -> Spoken:
        return Spoken(name, client(PACKAGES[name]), client_env(PACKAGES[name]), model_server, tmp_path)

    return make


@agents("claude", "codex", "opencode", "gemini", "qwen", "copilot")
async def test_role_task_and_model_arrive_and_the_work_is_done(name: str, speak: Speak) -> None:
    """The role as instructions where the agent takes it so, the task as the task, both whole; files and answer back."""
    agent = speak(name)
    (agent.workspace / "docs").mkdir()
    ended = await agent(
        "@usage 1000 50",
        "@write @here/docs/a.md :: hello",
        "@shell echo built > @here/built.txt",
        "@say all done",
        model=MODELS[name],
    )
    assert (ended.code, ended.fault, ended.timed_out, ended.output.read()) == (0, None, False, b"all done")
    assert agent.files() == ["built.txt", "docs/a.md"]
    turn = agent.model.turns()[0]
    assert ROLE in (turn.human if name == "gemini" else turn.system)
    assert ("ROLE-BEGINS" in turn.human) == (name == "gemini")
    assert "TASK-BEGINS" in turn.human
    assert turn.model == MODELS[name].rpartition("/")[2]
    assert ended.session
    assert ended.usage is not None
    # opencode counts the last request alone.
    counted = (1000, 50) if name == "opencode" else (3000, 150)
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == counted
    assert agent.left() == []


@agents("claude", "codex", "opencode", "gemini", "qwen", "copilot")
async def test_without_a_layer_an_edit_outside_of_the_folder_is_not_made(
    name: str, speak: Speak, elsewhere: Path
) -> None:
    """By its own rules, or by our answer to its question; edits inside and commands are."""
    agent = speak(name)
    await agent(
        "@write @here/docs/a.md :: yes",
        "@shell echo x > @here/by-shell.txt",
        f"@write {elsewhere}/outside.md :: no",
        "@say tried",
    )
    assert agent.files() == ["by-shell.txt", "docs/a.md"]
    assert list(elsewhere.iterdir()) == []
    assert agent.left() == []


@agents("claude", "codex")
async def test_a_limit_in_the_middle_of_the_work_is_a_limit(name: str, speak: Speak) -> None:
    """Though codex answers it with an ordinary end and the error as its message."""
    agent = speak(name)
    ended = await agent("@write @here/docs/a.md :: yes", "@http 429 Too many requests, slow down")
    assert ended.fault is not None
    assert ended.limited is not None
    assert "429" in ended.limited.text


@agents("copilot", "opencode")
async def test_a_wrong_key_is_said(name: str, speak: Speak) -> None:
    """Though copilot answers it with an ordinary end and the error as its message."""
    ended = await speak(name)("@http 401 Unauthorized: the key is wrong")
    assert ended.fault is not None
    assert ended.fault.reason is Reason.AGENT_ERROR


@pytest.mark.req("LY-16")
@agents("claude", "codex")
async def test_it_stops_by_itself_at_its_limit_of_cost(name: str, speak: Speak) -> None:
    """In what it counts itself: dollars or tokens."""
    agent = speak(name)
    steps = [f"@write @here/docs/{number}.md :: x" for number in range(9)]
    ended = await agent("@usage 1000 50", *steps, "@say late", allowance=Allowance(usd=0.005, tokens=1500))
    assert ended.exhausted
    assert len(agent.model.turns()) == 2


@agents("claude", "codex", "gemini")
async def test_health_is_told_without_a_model(name: str, speak: Speak) -> None:
    """By a greeting; adapters say their version in no other way."""
    agent = speak(name)
    health = await agent.runner.health()
    assert health.ok
    assert health.text.startswith("version ")
    assert agent.model.log() == ()
