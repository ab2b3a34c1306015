"""GitHub Copilot CLI itself, behind its runner: role, brief, rules and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.contracts import Reason
from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.clients import client, environment
from tools.model_server import Serving

pytestmark = pytest.mark.agents("copilot")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "copilot"), tmp_path / "a bench", model_server).furnish()


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """300 KB of brief to the letter, after the date that Copilot adds; the model is the one that was chosen."""
    task = "/help\n\n" + "A line with “quotes”, $HOME, a@keep.org and @code.py in it.\n" * 5000 + "\n@say OK: read"
    exit_ = await bench.call(task, model="gpt-5.4")
    turn = bench.model.turns()[0]
    assert text(exit_) == "OK: read"
    assert turn.human.endswith(task)
    assert len(turn.human) < len(task) + 200
    assert ROLE in turn.system
    assert ROLE not in turn.human
    assert turn.model == "gpt-5.4"
    assert exit_.usage is not None


async def test_without_a_sign_in_nothing_is_tried_again(bench: Bench) -> None:
    """Copilot says so before there is any stream."""
    inherit = environment("copilot", bench.model.url, bench.home)
    bare = {name: value for name, value in inherit.items() if not name.startswith("COPILOT_")}
    runner = bench.coding_runner(str(client("copilot").path()), bare)
    exit_ = await runner.call(bench.request("@say OK"), bench.news.append)
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert "No authentication information" in exit_.fault.text


async def test_an_error_of_the_service_tells_what_it_is(bench: Bench) -> None:
    """Of a wrong key: no limit, and nothing that another try would help."""
    exit_ = await bench.call("@http 401 the key is wrong")
    assert exit_.limited is None
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert exit_.usage is None
