"""Programs for the tests of processes: started with what a test does not care about, and none of them left behind."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from interlock.agents import process
from interlock.agents.client import Client, call
from interlock.agents.environment import Environment
from interlock.agents.process import ProcessEnd
from interlock.agents.process_tree import MARKER
from interlock.agents.redaction import Redaction
from interlock.agents.values import Ask, Exit, News, Role
from tests.real import NoLayer, Plain

Execute = Callable[..., Awaitable[ProcessEnd]]
Program = Callable[[str], list[str]]


def marked(marker: str) -> list[int]:
    """Every living process whose environment has the marker, whatever its group or session."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get(MARKER) == marker and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one.pid)
        except (psutil.Error, OSError):
            continue
    return found


def alive(pid: int) -> bool:
    return pid > 0 and psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pid_in(path: Path) -> int:
    """The number that a program wrote there; 0 as long as it has not."""
    return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else 0


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - files and processes set no event
            await asyncio.sleep(0.01)


def too_long_when(condition: Callable[[], object]) -> asyncio.Task[None]:
    """As soon as that holds, whatever this event loop waits for has taken too long."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    clock = loop.time
    loop.time = lambda: clock() + ahead  # type: ignore[method-assign]

    async def watch() -> None:
        nonlocal ahead
        await eventually(condition)
        ahead += 1e6

    return asyncio.create_task(watch())


def says(path: Path, text: bytes) -> Callable[[], bool]:
    return lambda: path.exists() and text in path.read_bytes()


@pytest.fixture
def marker() -> Iterator[str]:
    """A marker that no other test has; a test that leaves a process with it has failed."""
    value = f"test-{uuid4().hex[:8]}:3b/agent#1:1"
    yield value
    left = marked(value)
    for pid in left:
        os.kill(pid, 9)
    assert left == []


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Turns Python source into an argv."""

    def write(source: str) -> list[str]:
        path = tmp_path / f"program-{uuid4().hex[:6]}.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return [sys.executable, "-S", "-E", str(path)]

    return write


@pytest.fixture
def execute(tmp_path: Path, marker: str, monkeypatch: pytest.MonkeyPatch) -> Execute:
    async def go(argv: list[str], *, cwd: Path = tmp_path, grace_s: float = 0.3, **options: Any) -> ProcessEnd:
        how = {name: options.pop(name) for name in ("pass_fds", "exit_file") if name in options}
        given = {"deadline_s": 600.0, "marker": marker, "redact": Redaction(), "transcript": tmp_path / "out"}
        monkeypatch.setattr(process, "GRACE_S", grace_s)
        return await process.run(Plain(argv, dict(os.environ), str(cwd), **how), **{**given, **options})

    return go


class Calls:
    """Asks for tests, and calls of a client in a folder that is no layer."""

    def __init__(self, layer: NoLayer, marker: str) -> None:
        self.layer = layer
        self.news: list[News] = []
        self.given: dict[str, Any] = {"brief": "# Do it ü\n", "marker": marker, "timeout_s": 600}
        self.environment = Environment({"PATH": os.environ["PATH"]})
        self.redaction = Redaction()

    def ask(self, *, model: str = "", program: str = "", **fields: Any) -> Ask:
        role = Role(name="builder", runner="mine", type="mine", model=model, program=program)
        return Ask(role=role, transcript=self.layer.exchange / "transcript", **{**self.given, **fields})

    async def __call__(self, client: Client, *, layer: NoLayer | None = None, place: str = ".", **asked: Any) -> Exit:
        how = {"env": self.environment, "place": place}
        return await call(client, self.ask(**asked), layer or self.layer, self.news.append, self.redaction, **how)


@pytest.fixture
def calls(no_layer: NoLayer, marker: str) -> Calls:
    return Calls(no_layer, marker)
