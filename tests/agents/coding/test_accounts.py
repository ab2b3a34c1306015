"""Which files, programs and hosts each coding agent needs in a place where nothing else of a home is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.agents.coding.accounts import ACCOUNTS, coding_needs
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import KNOWN, AgentMode, make_runner

NAMES = [agent.name for agent in KNOWN]
USUAL = {
    "claude": (".claude.json", ".claude/.credentials.json", ".claude/settings.json"),
    "codex": (".codex/auth.json", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/.env"),
    "qwen": (".qwen/settings.json", ".qwen/oauth_creds.json"),
    "opencode": (".local/share/opencode/auth.json",),
    "copilot": (".copilot/config.json", ".copilot/mcp-config.json"),
}


def place(home: Path, *names: str, text: str = "{}") -> tuple[Path, ...]:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return tuple(home / name for name in names)


def env_of(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), **more}


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("name", NAMES)
def test_an_agent_needs_its_login_files_and_no_others(name: str, tmp_path: Path) -> None:
    """Those that are there, in the usual places; neither its history nor another agent's login."""
    for names in USUAL.values():
        place(tmp_path, *names)
    place(tmp_path, ".claude/history.jsonl", ".codex/history.jsonl", ".ssh/id_rsa", ".netrc")
    needs = coding_needs(name, name, env_of(tmp_path), {})
    assert set(needs.login) == {tmp_path / file for file in USUAL[name]}
    assert (needs.home, needs.can_resume) == (tmp_path, True)


@pytest.mark.parametrize("name", NAMES)
def test_files_that_are_not_there_are_not_named(name: str, tmp_path: Path) -> None:
    """Nor is anything in a home that is no path."""
    assert coding_needs(name, name, env_of(tmp_path), {}).login == ()
    assert coding_needs(name, name, {"HOME": "relative"}, {}).login == ()


@pytest.mark.req("LY-11")
@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".credentials.json"),
        ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "auth.json"),
        ("codex", "CODEX_HOME", "work.config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/oauth_creds.json"),
        ("qwen", "QWEN_HOME", "settings.json"),
        ("opencode", "XDG_DATA_HOME", "opencode/auth.json"),
        ("copilot", "COPILOT_HOME", "config.json"),
    ],
)
def test_variables_move_the_folder(name: str, variable: str, file: str, tmp_path: Path) -> None:
    """As the agent itself reads them."""
    (moved,) = place(tmp_path / "moved", file)
    env = env_of(tmp_path / "home", **{variable: str(tmp_path / "moved")})
    assert coding_needs(name, name, env, {}).login == (moved,)


@pytest.mark.req("LY-11")
def test_settings_that_a_variable_names_are_shown(tmp_path: Path) -> None:
    """And the folder of OpenCode's own."""
    (named,) = place(tmp_path, "elsewhere/opencode.json")
    place(tmp_path, ".config/opencode/opencode.jsonc")
    shown = coding_needs("opencode", "opencode", env_of(tmp_path, OPENCODE_CONFIG=str(named)), {}).shown
    assert {named, tmp_path / ".config" / "opencode"} <= set(shown)


def test_cloud_logins_are_needed_only_where_the_model_is_reached_through_them(tmp_path: Path) -> None:
    """They open more doors than the model's."""
    (aws,) = place(tmp_path, ".aws/credentials")
    assert coding_needs("claude", "claude", env_of(tmp_path), {}).login == ()
    assert coding_needs("claude", "claude", env_of(tmp_path, CLAUDE_CODE_USE_BEDROCK="1"), {}).login == (aws,)


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("name", NAMES)
def test_an_agent_reaches_its_own_model_service(name: str, tmp_path: Path) -> None:
    """By default, and the one that a variable names instead."""
    assert ACCOUNTS[name].hosts
    for variable in ACCOUNTS[name].urls:
        hosts = coding_needs(name, name, env_of(tmp_path, **{variable: "http://127.0.0.1:8080/v1"}), {}).hosts
        assert set(hosts) == {*ACCOUNTS[name].hosts, "127.0.0.1:8080"}


@pytest.mark.req("LY-11")
def test_a_service_in_the_settings_is_reached_too(tmp_path: Path) -> None:
    """Some agents have no variable for it."""
    place(tmp_path, ".codex/config.toml", text='[model_providers.x]\nbase_url = "https://models.example.org:99/v1"\n')
    assert "models.example.org:99" in coding_needs("codex", "codex", env_of(tmp_path), {}).hosts
    told = json.dumps({"model_providers": {"x": {"base_url": "http://127.0.0.1:7/v1"}}})
    assert "127.0.0.1:7" in coding_needs("codex", "codex", env_of(tmp_path, CODEX_CONFIG=told), {}).hosts
    config = json.dumps({"provider": {"x": {"options": {"baseURL": "https://other.example.org"}}}})
    (named,) = place(tmp_path, "opencode.json", text=config)
    env = env_of(tmp_path, OPENCODE_CONFIG=str(named))
    assert "other.example.org" in coding_needs("opencode", "opencode", env, {}).hosts


@pytest.mark.req("LY-39")
def test_secrets_of_logins_and_of_the_runner_are_known(tmp_path: Path) -> None:
    """For every record that is made of the call; they are not shown with the needs themselves."""
    place(tmp_path, ".codex/auth.json", text=json.dumps({"OPENAI_API_KEY": "sk-0123456789abcdef"}))
    needs = coding_needs("codex", "codex", env_of(tmp_path), {"OWN_KEY": "own-value", "NAME": "harmless"})
    assert needs.secrets == {"auth.json:OPENAI_API_KEY": "sk-0123456789abcdef", "OWN_KEY": "own-value"}
    assert "sk-0123456789abcdef" not in repr(needs)


@pytest.mark.parametrize(("name", "mode"), [*((name, None) for name in NAMES), ("claude", "acp"), ("codex", "acp")])
def test_every_runner_says_what_it_needs(name: str, mode: AgentMode | None, tmp_path: Path) -> None:
    """By the environment that its program will get, its own variables included; the same both ways."""
    files = place(tmp_path / "other", *USUAL[name])
    program = tmp_path / "bin" / "agent"
    place(tmp_path, "bin/agent", text="#!/bin/sh\n")
    program.chmod(0o755)
    configured = Configured("mine", str(program), env={"HOME": str(tmp_path / "other")})
    runner = make_runner(name, configured, env_of(tmp_path), mode)
    needs = runner.needs()
    assert set(needs.login) == set(files)
    assert program in needs.shown
    assert needs.home == tmp_path / "other"


def test_an_agent_that_is_not_known_has_what_its_variables_name(tmp_path: Path) -> None:
    """Any program that speaks the protocol."""
    env = env_of(tmp_path, SOME_BASE_URL="http://127.0.0.1:5/")
    needs = make_runner("acp", Configured("mine", "sh"), env).needs()
    assert (needs.login, needs.hosts, needs.can_resume) == ((), ("127.0.0.1:5",), True)
