"""A workspace with a playbook that asks people, and real clients of the real server on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, Implementation, TextContent

from interlock.engine.journal import Line
from interlock.finding import Library
from mcp import Client, StdioServerParameters, stdio_client
from tests.cli.conftest import Process, door

__all__ = ["door"]

PLAYBOOK = '''\
"""A playbook that asks a person."""
from dataclasses import dataclass
from typing import Annotated

from interlock.contracts import Artifact, Contract
from interlock.engine import APPROVE, REJECT, Choice, Dispatch, Ending, Option, Run, playbook


@dataclass(frozen=True)
class Wish:
    word: Annotated[str, Option("What is wanted.", metavar="WORD", argument=True)]
    asks: Annotated[bool, Option("Ask for words, not for a decision.")] = False
    quick: Annotated[bool, Option("End after the plan.")] = False
    times: Annotated[int, Option("How often.", at_least=0)] = 1


@playbook("wish", inputs=Wish, key=lambda wish: wish.word, agents=("planner", "builder"), needs_roles=False)
async def wish(run: Run, inputs: Wish) -> Ending:
    """Plan, ask a person, build."""
    contract = Contract(artifacts=(Artifact("plan.md"),))
    planned = await run.dispatch(Dispatch(agent="planner", task="Write plan.md.", contract=contract))
    if not planned.ok:
        return Ending.failed(f"planner: {planned.reason}")
    if inputs.quick:
        return Ending.complete(f"planned {inputs.word}")
    if inputs.asks:
        said = await run.gate("colour", "Which colour?", choices=())
        return Ending.complete(f"the colour is {said.choice}")
    choices = (APPROVE, REJECT, Choice("later", "the run stops"))
    said = await run.gate("ship", "Ship this plan?", choices=choices, shows=("plan.md",))
    if said.choice != "approve":
        return Ending.stopped(f"{said.choice}: {said.note}")
    contract = Contract(artifacts=(Artifact("built.md"),))
    await run.dispatch(Dispatch(agent="builder", task="Write built.md.", contract=contract))
    return Ending.complete(f"shipped {inputs.word}")
'''

Answers = Callable[[Any, ElicitRequestParams], Awaitable[ElicitResult]]


class Place:
    """A workspace with scripted agents, and its person."""

    def __init__(self, root: Path, home: Path, door: str) -> None:
        self.root, self.home, self._door = root, home, door
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "GIT_"))}
        folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("STATE", "CACHE", "CONFIG")}
        self.env = {**kept, "HOME": str(home), **folders, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}
        subprocess.run(["git", "init", "--quiet", str(root)], check=True)
        self.settings()
        self.scenario()
        self.write(".interlock/playbooks/wish.py", PLAYBOOK)
        self.trust("wish")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def settings(self, more: str = "") -> None:
        runner = '[runners.played]\ntype = "scripted"\nscenario = "scenario.yaml"\n'
        self.write("interlock.toml", f'runner = "played"\n{runner}{more}')

    def scenario(self, *reactions: dict[str, Any]) -> None:
        self.write("scenario.yaml", json.dumps({"reactions": list(reactions)}))

    def trust(self, playbook: str) -> None:
        """Its person has read it."""
        Library(self.root, self.env, consent=lambda _request: True).load(playbook)

    def command(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The command line, as its person calls it."""
        told = Process(self._door, words, self.root, {**self.env, **env}).wait()
        return subprocess.CompletedProcess(words, told.code, told.stdout.decode(), told.stderr)

    def journal(self) -> list[Line]:
        """What the latest run recorded."""
        from interlock.engine.folder import find_run

        return find_run(self.root, "latest").folder.lines()

    @asynccontextmanager
    async def client(
        self, answers: Answers | None = None, *, mode: str = "legacy", name: str = "an editor"
    ) -> AsyncIterator[Session]:
        """A client of the server, as the SDK has it; it can ask its person where somebody answers for them."""
        words = ["-P", "-m", "interlock", "mcp"]
        server = StdioServerParameters(command=sys.executable, args=words, cwd=self.root, env=self.env)
        async with Client(
            stdio_client(server),
            mode=mode,
            elicitation_callback=answers,
            client_info=Implementation(name=name, version="1.2"),
            read_timeout_seconds=300,
        ) as client:
            yield Session(client)


class Session:
    """A client that is connected."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def raw(self, tool: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers that does what it is asked for."""
        result = await self.raw(tool, **arguments)
        assert not result.is_error, result.content
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a tool says that does not do what it is asked for."""
        result = await self.raw(tool, **arguments)
        assert result.is_error, result.structured_content
        (said,) = result.content
        assert isinstance(said, TextContent)
        return said.text

    async def until(self, run: str, *statuses: str) -> dict[str, Any]:
        """Attend a run until it stands so."""
        while True:
            attended = await self("attend_run", run=run)
            if attended["run"]["status"] in statuses:
                return attended


@pytest.fixture
def place(tmp_path: Path, door: str) -> Place:
    root = tmp_path / "work"
    root.mkdir()
    return Place(root, tmp_path / "home", door)
