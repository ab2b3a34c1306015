"""Qwen Code itself, behind its runner: role, brief, rules and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.contracts import Reason
from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("qwen")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "qwen"), tmp_path / "a bench", model_server).furnish()


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """300 KB of brief, no file pasted in and no space changed; the model is asked for nothing else."""
    task = "# Task\n\n" + "A line with “quotes”, $HOME, a@keep.org,\n@code.py\n@code.py.\n" * 5000 + "\n@say OK: read"
    exit_ = await bench.call(task, model="other")
    (turn,) = bench.model.log()
    assert text(exit_) == "OK: read"
    assert turn.human.replace("\\@", "@").endswith(task)
    assert len(turn.human) < len(task.replace("@", "\\@")) + 200
    assert ROLE in turn.system
    assert turn.model == "other"


async def test_an_error_after_good_work_is_no_success(bench: Bench) -> None:
    """Qwen ends with 0 and gives the error as its answer."""
    exit_ = await bench.call("@write docs/new.md :: in\n@http 401 the key is wrong\n@say OK")
    assert exit_.code == 0
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert bench.files()["docs/new.md"] == "in"


@pytest.mark.req("LY-15")
async def test_a_session_that_goes_on_counts_this_call_alone(bench: Bench) -> None:
    """Its own account is that of the whole session."""
    first = await bench.call("@usage 1000 50\n@say OK")
    again = await bench.call("@usage 1000 50\n@say OK", resume=first.session)
    assert first.usage is not None
    assert again.usage == first.usage
