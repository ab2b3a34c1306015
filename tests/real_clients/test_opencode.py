"""OpenCode itself, behind its runner: role, brief, rules and the errors of its service."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import make_runner
from interlock.contracts import Reason
from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.clients import client, environment
from tools.model_server import Serving

pytestmark = pytest.mark.agents("opencode")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "opencode"), tmp_path / "bench", model_server).furnish()


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """300 KB of brief to the letter, nothing of the role filled in, and no request besides."""
    task = (
        "# Task\n\n" + "A line with “quotes”, $HOME, a@keep.org, @code.py and {env:HOME}.\n" * 5000 + "\n@say OK: read"
    )
    role = f"{ROLE}\n{{env:HOME}} {{file:code.py}} “äöü”"
    exit_ = await bench.call(task, model="scripted/scripted", instructions=role, brief=f"{role}\n\n{task}")
    (turn,) = bench.model.log()
    assert text(exit_) == "OK: read"
    assert turn.human == task
    assert turn.system.startswith(role)
    assert exit_.fault is None


async def test_a_role_that_opencode_does_not_know_is_no_success(bench: Bench) -> None:
    """It would go on under another; here somebody's settings replaced ours."""
    inherit = environment("opencode", bench.model.url, bench.home)
    configured = Configured("mine", str(client("opencode").path()), env={"OPENCODE_CONFIG_CONTENT": "{}"})
    runner = make_runner("opencode", configured, inherit, "headless")
    exit_ = await runner.call(bench.request("@say OK\n"), bench.news.append)
    assert exit_.code == 0
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert "Falling back" in exit_.fault.text


async def test_a_limit_of_the_service_is_told_as_one(bench: Bench) -> None:
    """The engine waits then, and does not count it as a failure."""
    exit_ = await bench.call("@retry_after 0.01\n@http 429 too many requests")
    assert exit_.limited is not None
    assert exit_.limited.reset_s == 0.01
    assert exit_.usage is None


async def test_a_model_that_does_not_exist_is_named(bench: Bench) -> None:
    """The stream only has a number for it."""
    exit_ = await bench.call("@say OK", model="scripted/none")
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert "scripted/none" in exit_.fault.text
