"""Programs and requests for the tests of runners and processes."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interlock.agents import process_table
from interlock.agents.process import ProcessExit, run_process
from interlock.agents.runner import AgentRequest
from tests.deadlines import deadline

__all__ = ["deadline"]

LAUNCHER = """\
import os, signal, subprocess, sys
folder, *argv = sys.argv[1:]
def told(number, frame):
    open(os.path.join(folder, "launcher-was-told"), "w").close()
    os._exit(99)
signal.signal(signal.SIGTERM, told)
code = subprocess.Popen(argv, cwd=folder).wait()
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@dataclass(frozen=True)
class Wrapped:
    """A stand-in for a layer: a launcher that starts the program in its folder, and ends as the program does."""

    root: Path
    confined: bool = True
    sealed: bool = False

    def command_line(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> list[str]:
        assert env["INTERLOCK_MARKER"]
        return [sys.executable, "-S", "-E", "-c", LAUNCHER, str(cwd), *argv]

    def fork(self, command_line: Sequence[str], *, env: Mapping[str, str], stdin: int) -> None:
        return None


@pytest.fixture
def marker() -> Iterator[str]:
    """A marker that no other test has; a test that leaves a process with it has failed."""
    value = f"test-{uuid4().hex[:8]}:3b/agent#1:1"
    yield value
    left = [p.pid for p in process_table.processes() if not p.dead and process_table.marker(p.pid) == value]
    for pid in left:
        os.kill(pid, 9)
    assert left == []


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], list[str]]:
    """Turns Python source into an argv."""

    def write(source: str) -> list[str]:
        path = tmp_path / f"program-{uuid4().hex[:6]}.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return [sys.executable, "-S", "-E", str(path)]

    return write


@pytest.fixture
def execute(tmp_path: Path, marker: str) -> Callable[..., Any]:
    """`run_process` with everything given that a test does not care about."""

    async def go(argv: list[str], **options: Any) -> ProcessExit:
        given: dict[str, Any] = {
            "cwd": tmp_path,
            "env": dict(os.environ),
            "stdin": None,
            "stdout": tmp_path / "out",
            "stderr": tmp_path / "err",
            "timeout_s": 600.0,
            "grace_s": 0.3,
            "marker": marker,
        }
        return await run_process(argv, **{**given, **options})

    return go


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    """Where a request of `request_for` can work, as if it were confined."""
    return Wrapped(tmp_path / "workspace")


@pytest.fixture
def request_for(tmp_path: Path, marker: str) -> Callable[..., AgentRequest]:
    """A request of a dispatch in `tmp_path`, with the brief in its place."""

    def make(**changes: Any) -> AgentRequest:
        workspace, folder = tmp_path / "workspace", tmp_path / "dispatch"
        workspace.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        request = AgentRequest(
            run_id="roadmap-20260104-120000-abcd",
            playbook="roadmap",
            step="Implement",
            agent="Implement",
            member="Implement",
            attempt=1,
            dispatch="item-1/Implement#1",
            session="sess_20260104_a7f3d9",
            workspace=workspace,
            folder=folder,
            brief="# Implement\n\n- Attempt: 1\n\n## Task\n\nAdd the login page.\n\n## Rules\n\nNone.\n",
            timeout_s=600.0,
            marker=marker,
            token="t0ken",
        )
        request = replace(request, **changes)
        request.folder.mkdir(exist_ok=True)
        (request.folder / "brief.md").write_text(request.brief, encoding="utf-8")
        return request

    return make
