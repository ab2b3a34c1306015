"""What is particular about the other coding agents themselves, behind their runners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import make_runner
from interlock.contracts import Reason
from tests.real_clients.subjects import Bench, Subject
from tools.clients import client, environment
from tools.model_server import Serving

BenchOf = Callable[[str], Bench]


@pytest.fixture
def bench_of(tmp_path: Path, model_server: Serving) -> BenchOf:
    return lambda name: Bench(Subject("headless", name), tmp_path / "bench", model_server).furnish()


@pytest.mark.agents("gemini")
async def test_a_file_that_the_brief_names_after_an_at_sign_is_not_pasted_in(bench_of: BenchOf) -> None:
    """The name alone arrives, marked as gemini wants it; line breaks and all the rest stay."""
    bench = bench_of("gemini")
    await bench.call("Look at @docs/keep.md\nand at @docs,\n  please.\n@say OK")
    assert bench.model.turns()[0].human == "Look at \\@docs/keep.md\nand at \\@docs,\n  please.\n@say OK"


@pytest.mark.agents("gemini")
async def test_what_the_user_has_forbidden_to_gemini_stays_forbidden(bench_of: BenchOf) -> None:
    """Our policy lifts nothing."""
    bench = bench_of("gemini")
    own = bench.home / ".gemini" / "policies" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[rule]]\ntoolName = "web_fetch"\ndecision = "deny"\npriority = 100\n')
    await bench.call("@say OK\n")
    assert "web_fetch" not in bench.model.turns()[0].tools


@pytest.mark.agents("opencode")
async def test_a_role_that_opencode_does_not_know_is_no_success(bench_of: BenchOf) -> None:
    """It would go on under another; here somebody's settings replaced ours."""
    bench = bench_of("opencode")
    inherit = environment("opencode", bench.model.url, bench.home)
    configured = Configured("mine", str(client("opencode").path()), env={"OPENCODE_CONFIG_CONTENT": "{}"})
    exit_ = await make_runner("opencode", configured, inherit).call(bench.request("@say OK\n"), bench.news.append)
    assert exit_.code == 0
    assert exit_.fault is not None
    assert (exit_.fault.reason, "Falling back" in exit_.fault.text) == (Reason.AGENT_ERROR, True)


@pytest.mark.agents("opencode")
async def test_a_model_that_does_not_exist_is_named(bench_of: BenchOf) -> None:
    """The stream of opencode only has a number for it."""
    exit_ = await bench_of("opencode").call("@say OK", model="scripted/none")
    assert exit_.fault is not None
    assert (exit_.fault.reason, "scripted/none" in exit_.fault.text) == (Reason.AGENT_ERROR, True)


@pytest.mark.agents("copilot")
async def test_without_a_sign_in_nothing_is_tried_again(bench_of: BenchOf) -> None:
    """Copilot says so before there is any stream."""
    bench = bench_of("copilot")
    inherit = environment("copilot", bench.model.url, bench.home)
    bare = {name: value for name, value in inherit.items() if not name.startswith("COPILOT_")}
    runner = bench.coding_runner(str(client("copilot").path()), bare)
    exit_ = await runner.call(bench.request("@say OK"), bench.news.append)
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert "No authentication information" in exit_.fault.text


@pytest.mark.agents("qwen")
async def test_a_brief_that_begins_like_a_command_of_qwen_is_none(tmp_path: Path, model_server: Serving) -> None:
    """It would be answered with an error, and by other agents that speak the protocol with nothing at all."""
    bench = Bench(Subject("acp", "qwen"), tmp_path / "bench", model_server)
    exit_ = await bench.call("", brief="/help me\n@say OK", instructions="")
    assert (exit_.fault, exit_.output.read()) == (None, b"OK")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.agents(one)) for one in ("claude-acp", "codex-acp", "qwen")]
)
async def test_health_is_told_without_a_model(name: str, tmp_path: Path, model_server: Serving) -> None:
    """By a greeting; adapters say their version in no other way."""
    env = environment(name, model_server.url, tmp_path)
    configured = Configured("mine", str(client(name).path()))
    health = await make_runner(name.removesuffix("-acp"), configured, env, "acp").health()
    assert health.ok
    assert health.text.startswith("version ")
    assert model_server.log() == ()
