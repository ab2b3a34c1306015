"""A model service that takes no request for longer than the call may last is a limit, never the agent's slowness."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deadlines import Deadline
from tests.real_clients.subjects import Bench, Subject
from tools.model_server import Serving


def busy(client: str, seconds: int, deadline_s: float = 600.0) -> object:
    return pytest.param(client, seconds, deadline_s, id=f"{client}-{seconds}s", marks=pytest.mark.agents(client))


@pytest.mark.long
@pytest.mark.parametrize(
    ("client", "seconds", "deadline_s"),
    [
        busy("claude", 40),
        busy("claude", 600),
        busy("codex", 600),
        busy("opencode", 600, 20.0),
        busy("gemini", 40, 15.0),
        busy("gemini", 600, 60.0),
        busy("copilot", 40, 15.0),
        busy("copilot", 600, 60.0),
    ],
)
async def test_a_long_limit_is_told_as_one(
    client: str, seconds: int, deadline_s: float, tmp_path: Path, model_server: Serving, deadline: Deadline
) -> None:
    """Whether the agent gives up at once, says that it waits when its deadline passes, or sleeps until then."""
    bench = Bench(Subject("headless", client), tmp_path / "bench", model_server)
    deadline(lambda: any(one.kind == "waiting" for one in bench.news))
    exit_ = await bench.call(f"@retry_after {seconds}\n@http 429 too many requests", timeout_s=deadline_s)
    assert exit_.limited is not None
    assert exit_.usage is None
    assert bench.processes() == []


@pytest.mark.parametrize("client", [pytest.param(one, marks=pytest.mark.agents(one)) for one in ("opencode", "gemini")])
async def test_work_after_a_short_limit_that_takes_too_long_is_slow(
    client: str, tmp_path: Path, model_server: Serving
) -> None:
    """The service was busy once; at the deadline a command was running."""
    bench = Bench(Subject("headless", client), tmp_path / "bench", model_server)
    task = "@retry_after 0.1\n@http_once 429 too many requests\n@shell echo x > began; sleep 300\n@say late"
    exit_ = await bench.call(task, timeout_s=30.0)
    assert (bench.workspace / "began").exists()
    assert exit_.timed_out
    assert exit_.limited is None


@pytest.mark.agents("qwen")
async def test_qwen_gives_up_after_its_own_tries(tmp_path: Path, model_server: Serving) -> None:
    """It says nothing while it waits, but it does not wait for long: a good minute, which no setting shortens."""
    bench = Bench(Subject("acp", "qwen"), tmp_path / "bench", model_server)
    task = "@retry_after 600\n@http 429 too many requests"
    runner = bench.runner(task)
    (bench.home / ".qwen" / "settings.json").unlink()  # it has what our own settings of the call are to say
    exit_ = await runner.call(bench.request(task, timeout_s=180.0), bench.news.append)
    assert not exit_.timed_out
    assert exit_.limited is not None
