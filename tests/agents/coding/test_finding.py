"""Which agents are installed and signed in, by programs that stand in for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.coding.finding import SIGN_INS, choice_of, installed_agents

SCRIPT = """#!/bin/sh
case "$1" in
  --version) echo "the agent, version 1.2.3-beta.4" ;;
  auth|login) exit "${STATUS:-1}" ;;
  *) exit 9 ;;
esac
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in SIGN_INS:
        (programs / name).write_text(SCRIPT)
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)}


async def signed(env: dict[str, str]) -> dict[str, bool | None]:
    return {one.agent.name: one.signed_in for one in await installed_agents(env)}


async def test_all_are_found_in_their_order_with_their_versions(env: dict[str, str]) -> None:
    """The order of preference, whatever the order on PATH; the number alone."""
    found = await installed_agents(env)
    assert [one.agent.name for one in found] == ["claude", "codex", "copilot", "opencode", "gemini", "qwen"]
    assert {one.version for one in found} == {"1.2.3-beta.4"}
    assert await installed_agents({"PATH": "/usr/bin:/bin", "HOME": env["HOME"]}) == []


async def test_a_sign_in_is_known_by_its_mark(env: dict[str, str], tmp_path: Path) -> None:
    """A variable, a file, or the program's own word; where none of them can say no, it stays unknown."""
    assert await signed(env) == {
        "claude": False,
        "codex": None,
        "copilot": None,
        "opencode": None,
        "gemini": None,
        "qwen": None,
    }
    assert (await signed({**env, "STATUS": "0"}))["claude"] is True
    assert (await signed({**env, "STATUS": "0"}))["codex"] is True
    assert (await signed({**env, "GH_TOKEN": "x"}))["copilot"] is True
    for name in (".gemini/oauth_creds.json", ".qwen/oauth_creds.json", ".local/share/opencode/auth.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    found = await signed(env)
    assert (found["gemini"], found["qwen"], found["opencode"]) == (True, True, True)
    assert (await signed({**env, "XDG_DATA_HOME": str(tmp_path / "elsewhere")}))["opencode"] is None


async def test_one_that_is_signed_in_is_chosen_before_others(env: dict[str, str]) -> None:
    """Then those of which it is unknown, then those that are not; equals in the order of preference."""
    assert choice_of([]) is None
    first = choice_of(await installed_agents(env))
    assert first is not None
    assert first.agent.name == "codex"
    other = choice_of(await installed_agents({**env, "GEMINI_API_KEY": "k"}))
    assert other is not None
    assert other.agent.name == "gemini"


async def test_a_program_that_hangs_or_fails_is_found_without_a_version(env: dict[str, str], tmp_path: Path) -> None:
    """It is on PATH: that much is known."""
    (tmp_path / "bin" / "qwen").write_text("#!/bin/sh\nexit 3\n")
    found = {one.agent.name: one for one in await installed_agents(env)}
    assert found["qwen"].version is None
    assert "version unknown" in found["qwen"].text
