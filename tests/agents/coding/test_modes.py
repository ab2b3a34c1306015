"""Each agent's command line by where it works and how it begins: held by the kernel or not, anew or going on."""

from __future__ import annotations

import json
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.coding.catalogue import KNOWN, dialect_of
from interlock.agents.coding.dialect import Ask, Invocation, RoleText
from interlock.agents.runner import Allowance

NAMES = [agent.name for agent in KNOWN]
FREE = {
    "claude": "--dangerously-skip-permissions",
    "codex": "--dangerously-bypass-approvals-and-sandbox",
}
"""What frees an agent of its own permissions, for those that have a mode of their own otherwise."""


def called(name: str, prompt: str = "the task", **more: Any) -> Invocation:
    return dialect_of(name).invocation(name, Ask(prompt, Path("/ws"), Path("/shared"), **more))


def settings_in(call: Invocation) -> dict[str, Any]:
    return json.loads(call.env["OPENCODE_CONFIG_CONTENT"]) if "OPENCODE_CONFIG_CONTENT" in call.env else {}


@pytest.mark.req("LY-13")
@pytest.mark.parametrize("name", NAMES)
def test_an_agent_that_the_kernel_holds_asks_nobody_and_has_no_sandbox(name: str) -> None:
    """Without a layer it keeps the mode that ends at its folder, where it has one."""
    free, held = called(name, confined=True), called(name)
    if name in FREE:
        assert FREE[name] in free.argv
        assert FREE[name] not in held.argv
    elif name == "opencode":
        assert settings_in(free)["permission"] == {"*": "allow"}
        assert settings_in(held)["permission"] == {"external_directory": {"*": "deny", "/shared/*": "allow"}}
    else:
        assert {"--allow-all", "--approval-mode=yolo", "yolo"} & set(free.argv)
    assert not any("sandbox_mode" in word or word.startswith("permissions.") for word in free.argv)


@pytest.mark.req("LY-13")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("confined", [True, False])
def test_no_rule_names_a_path_of_the_workspace(name: str, confined: bool) -> None:
    """What may be written is decided by what the layer holds, not by each agent's own reading of a scope."""
    call = called(name, confined=confined, role=RoleText("r", "d", "t"))
    texts = [*call.argv, *call.env.values(), *call.files.values()]
    assert not any("/ws" in text for text in texts)


@pytest.mark.req("LY-13")
@pytest.mark.parametrize("name", NAMES)
def test_files_of_a_call_lie_where_the_agent_sees_them(name: str) -> None:
    """In a layer the folder of records does not exist."""
    call = called(name, role=RoleText("r", "d", "t"))
    assert all(path.is_relative_to("/shared") for path in (*call.files, *call.leaves))


@pytest.mark.req("LY-13")
def test_claude_is_told_that_it_is_held() -> None:
    """As root it would refuse to be freed."""
    assert called("claude", confined=True).env["IS_SANDBOX"] == "1"
    assert "IS_SANDBOX" not in called("claude").env


@pytest.mark.req("LY-13")
def test_opencode_is_free_in_its_role_as_well() -> None:
    """A role is an agent of its own, with permissions of its own."""
    role = RoleText("interlock-x", "d", "t")
    assert settings_in(called("opencode", confined=True, role=role))["agent"]["interlock-x"]["permission"] == {
        "*": "allow"
    }


@pytest.mark.req("LY-15")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude", ("--resume", "S-1")),
        ("codex", ("S-1", "-")),
        ("opencode", ("--session", "S-1")),
        ("gemini", ("--resume", "S-1")),
        ("qwen", ("--resume=S-1",)),
        ("copilot", ("--resume=S-1",)),
    ],
)
def test_a_session_is_named_to_go_on_with(name: str, words: tuple[str, ...]) -> None:
    """In each agent's own way; without one it is not mentioned."""
    argv, plain = called(name, resume="S-1").argv, called(name).argv
    assert words in pairwise(argv) or words[0] in argv
    assert not any("S-1" in word or "--resume" in word for word in plain)
    if name == "codex":
        assert argv[argv.index("exec") : argv.index("--json")][-1] == "resume"


@pytest.mark.req("LY-15")
@pytest.mark.parametrize("name", NAMES)
def test_a_session_that_goes_on_is_not_told_a_long_role_again(name: str) -> None:
    """Where it had to stand in the prompt, it stands in the session's first one."""
    call = called(name, "go on", resume="S-1", role=RoleText("r", "d", "x" * 300_000))
    assert call.stdin == "go on"


@pytest.mark.req("LY-15")
def test_copilot_is_told_the_name_of_its_session_since_it_says_it_too_late() -> None:
    """Known as soon as it has taken the prompt, so that it can go on after a crash."""
    ask = Ask("x", Path("/ws"), Path("/shared"), new_session="U-1")
    dialect = dialect_of("copilot")
    assert "--session-id=U-1" in dialect.invocation("copilot", ask).argv
    reader = dialect.reader(ask)
    assert reader.conclude().session is None
    (event,) = reader.take({"type": "user.message", "data": {}})
    assert event.news().data["session"] == "U-1"
    assert reader.conclude().session == "U-1"


@pytest.mark.req("LY-16")
def test_claude_is_given_its_limit_in_dollars() -> None:
    """Never nothing: it takes no limit of zero."""
    for usd, limit in ((0.25, "0.250000"), (0.0, "0.000001")):
        argv = called("claude", allowance=Allowance(usd=usd, tokens=5)).argv
        assert argv[argv.index("--max-budget-usd") + 1] == limit
    assert "--max-budget-usd" not in called("claude", allowance=Allowance(tokens=5)).argv


@pytest.mark.req("LY-16")
def test_codex_is_given_its_limit_in_tokens() -> None:
    """It counts after each answer of its model, which its stream does not tell."""
    argv = called("codex", allowance=Allowance(usd=1.0, tokens=5000)).argv
    budgets = [tomllib.loads(word) for word in argv if word.startswith("features.rollout_budget")]
    assert [one["features"]["rollout_budget"]["limit_tokens"] for one in budgets] == [5000]
    assert not [word for word in called("codex", allowance=Allowance(usd=1.0)).argv if "rollout_budget" in word]


@pytest.mark.req("LY-16")
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("claude", {"type": "result", "subtype": "error_max_budget_usd", "is_error": True}),
        ("codex", {"type": "turn.failed", "error": {"message": "shared rollout token budget exhausted"}}),
    ],
)
def test_an_agent_that_ended_itself_at_its_limit_is_known(name: str, line: dict[str, Any]) -> None:
    """Told apart from every other end that is none."""
    reader = dialect_of(name).reader(Ask("x", Path("/ws"), Path("/shared")))
    list(reader.take(line))
    assert reader.conclude().exhausted
    other = dialect_of(name).reader(Ask("x", Path("/ws"), Path("/shared")))
    list(other.take({"type": "result", "subtype": "error_max_turns", "is_error": True}))
    list(other.take({"type": "turn.failed", "error": {"message": "stream disconnected"}}))
    assert not other.conclude().exhausted
