"""Codex itself, behind its runner: role, brief, sandbox and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.contracts import Reason
from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("codex")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "codex"), tmp_path / "bench", model_server).furnish()


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """Both to the letter, 300 KB of brief included, and for the model that was chosen."""
    task = "# Task\n\n" + "A line with “quotes”, $HOME and @code.py in it.\n" * 6000 + "\n@say OK: read"
    exit_ = await bench.call(task, model="gpt-5.5")
    turn = bench.model.turns()[0]
    assert text(exit_) == "OK: read"
    assert turn.human == task
    assert ROLE in turn.system
    assert ROLE not in turn.human
    assert turn.model == "gpt-5.5"


STEPS = """\
@write docs/new.md :: in
@write docs/keep.md :: changed
@write code.py :: changed
@shell echo in > docs/by-shell.md
@shell echo out > by-shell.md
@shell echo changed > docs/keep.md
@say OK: tried"""


async def test_an_agent_that_only_writes_its_outputs_writes_nothing_else(bench: Bench) -> None:
    """Neither by its own tool nor by a command, even where the user's settings switch the sandbox off."""
    runner = bench.runner(STEPS)
    config = bench.home / ".codex" / "config.toml"
    config.write_text('sandbox_mode = "danger-full-access"\n' + config.read_text())
    request = bench.request(STEPS, writes=("docs/**", "!docs/keep.md"), shell_writes=False)
    exit_ = await runner.call(request, bench.news.append)
    assert text(exit_) == "OK: tried"
    assert bench.files() == {"docs/new.md": "in", "docs/by-shell.md": "in", "docs/keep.md": "kept", "code.py": "old"}


async def test_an_output_in_a_folder_that_is_not_there_yet_can_be_written(bench: Bench) -> None:
    """The scope is one file: its folder is made, and commands still run."""
    task = "@write docs/deep/plan.md :: made\n@shell echo more >> docs/deep/plan.md\n@say OK"
    await bench.call(task, writes=("docs/deep/plan.md",), shell_writes=False)
    assert bench.files() == {"docs/deep/plan.md": "made\nmore", "docs/keep.md": "kept", "code.py": "old"}


async def test_an_agent_that_builds_may_leave_files_anywhere_in_the_workspace(bench: Bench) -> None:
    """Its commands have the network of this machine too: tests start servers."""
    url = bench.model.url.removeprefix("http://").replace(":", "/")
    task = f"@shell exec 3<>/dev/tcp/{url} && mkdir build && echo reached > build/net.txt\n@say OK"
    await bench.call(task, writes=("docs/**",), shell_writes=True)
    assert bench.files()["build/net.txt"] == "reached"


async def test_a_limit_of_the_service_is_told_as_one(bench: Bench) -> None:
    """The engine waits then, and does not count it as a failure."""
    exit_ = await bench.call("@retry_after 0.1\n@http 429 too many requests")
    assert exit_.limited is not None
    assert exit_.fault is not None
    assert exit_.usage is None


async def test_a_request_that_the_service_refuses_is_told_in_its_words(bench: Bench) -> None:
    """Trying again would not help."""
    exit_ = await bench.call("@http 400 the model is unknown")
    assert exit_.limited is None
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert "the model is unknown" in exit_.fault.text


async def test_a_deadline_leaves_no_process_and_no_trace_of_the_sandbox(bench: Bench) -> None:
    """In the middle of a command: codex puts placeholders into the folders that it guards while one runs."""
    exit_ = await bench.call(
        "@shell sleep 300\n@say late", writes=("docs/**", "!docs/none.md"), shell_writes=False, timeout_s=5.0
    )
    assert exit_.timed_out
    assert bench.processes() == []
    assert bench.files() == {"docs/keep.md": "kept", "code.py": "old"}
