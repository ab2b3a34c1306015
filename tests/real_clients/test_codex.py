"""Codex itself, behind its runner: role, brief, sandbox and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents import Allowance
from interlock.contracts import Reason
from tests.deadlines import Deadline
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


async def test_a_deadline_leaves_no_process_and_no_trace_of_the_sandbox(bench: Bench, deadline: Deadline) -> None:
    """In the middle of a command: codex puts placeholders into the folders that it guards while one runs."""
    deadline(lambda: any("sleep" in one for one in bench.processes()))
    exit_ = await bench.call("@shell sleep 300\n@say late")
    assert exit_.timed_out
    assert bench.processes() == []
    assert bench.files() == {"docs/keep.md": "kept", "code.py": "old"}


@pytest.mark.req("LY-16")
async def test_it_stops_by_itself_at_its_limit_of_tokens(bench: Bench) -> None:
    """After the answer that used it up: its stream would tell too late."""
    steps = "".join(f"@write docs/{number}.md :: x\n" for number in range(9))
    exit_ = await bench.call(f"@usage 1000 50\n{steps}@say late", allowance=Allowance(tokens=1500))
    assert exit_.exhausted
    assert len(bench.model.turns()) == 2
