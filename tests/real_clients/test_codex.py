"""Codex itself, behind its runner: its sandbox, and what its service refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.contracts import Reason
from tests.deadlines import Deadline
from tests.real_clients.subjects import Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("codex")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "codex"), tmp_path / "bench", model_server).furnish()


async def test_without_a_layer_its_sandbox_ends_at_its_folder(bench: Bench, elsewhere: Path) -> None:
    """For commands as for edits, even where the user's settings switch it off; its answer may lie beside the brief."""
    task = f"""\
@write docs/keep.md :: changed
@shell echo built > by-shell.md
@shell echo out > {elsewhere}/out.md
@shell echo {{}} > {bench.place}/records/answer.json
@say OK: tried"""
    runner = bench.runner(task)
    config = bench.home / ".codex" / "config.toml"
    config.write_text('sandbox_mode = "danger-full-access"\n' + config.read_text())
    exit_ = await runner.call(bench.request(task), bench.news.append)
    assert (text(exit_), exit_.result) == ("OK: tried", b"{}\n")
    assert bench.files() == {"docs/keep.md": "changed", "by-shell.md": "built", "code.py": "old"}
    assert list(elsewhere.iterdir()) == []


async def test_its_commands_have_the_network_of_this_machine(bench: Bench) -> None:
    """Tests start servers."""
    url = bench.model.url.removeprefix("http://").replace(":", "/")
    task = f"@shell exec 3<>/dev/tcp/{url} && mkdir build && echo reached > build/net.txt\n@say OK"
    await bench.call(task)
    assert bench.files()["build/net.txt"] == "reached"


async def test_a_request_that_the_service_refuses_is_told_in_its_words(bench: Bench) -> None:
    """Trying again would not help."""
    exit_ = await bench.call("@http 400 the model is unknown")
    assert exit_.limited is None
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert "the model is unknown" in exit_.fault.text


async def test_a_deadline_leaves_no_process_and_no_trace_of_the_sandbox(bench: Bench, deadline: Deadline) -> None:
    """In the middle of a command: codex puts placeholders into the folders that it guards while one runs."""
    deadline(lambda: any("sleep" in one for one in bench.processes()))
    exit_ = await bench.call("@shell sleep 300\n@say late")
    assert exit_.timed_out
    assert bench.processes() == []
    assert bench.files() == {"docs/keep.md": "kept", "code.py": "old"}
