"""Real clients as clients of `interlock mcp`: what `init --editor` registered, they find, start a run by, and read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from interlock.finding import Library
from tests.mcp.conftest import Place
from tools.clients import environment, headless
from tools.model_server import Serving

DEADLINE_S = 300
FIRST = {
    "claude": "@tool WaitForMcpServers {}",
    "codex": '@tool tool_search {"query": "interlock runs playbooks start attend show", "limit": 20}',
}
"""Both clients connect to servers while the model already talks; a model waits, or searches for the tools."""
PATIENCE = {
    "MCP_CONNECTION_NONBLOCKING": "0",
    "MCP_CONNECT_TIMEOUT_MS": str(DEADLINE_S * 1000),
    "MCP_TIMEOUT": str(DEADLINE_S * 1000),
}
"""Claude Code waits for a server as long as that takes on a busy machine."""
APPROVED = {
    "claude": ((), ("--allowedTools", "mcp__interlock")),
    "codex": (
        (
            "-c",
            "mcp_servers.interlock.required=true",
            "-c",
            f"mcp_servers.interlock.startup_timeout_sec={DEADLINE_S}",
            "-c",
            'mcp_servers.interlock.default_tools_approval_mode="approve"',
        ),
        (),
    ),
}
"""What a person says who lets the client use the server: before and behind the other arguments."""


@pytest.mark.req("WB-20", "WB-21")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.agents(n), *([] if n == "claude" else [pytest.mark.long])]) for n in FIRST],
)
def test_a_real_client_starts_a_run_and_reads_its_result(
    name: str, model_server: Serving, elsewhere: Path, tmp_path: Path, door: str
) -> None:
    """Its model, a scripted one, gets the run's output; where one waits, a client without a person decides nothing."""
    root = tmp_path / "work"
    root.mkdir()
    place = Place(root, tmp_path / "home", door)
    place.settings('[mcp]\ngates = "elicit"\n')
    assert place.command("init", "--editor", name).returncode == 0
    env = {**environment(name, model_server.url, elsewhere / "home"), **PATIENCE, "PATH": place.env["PATH"]}
    Library(root, env, consent=lambda _request: True).load("wish")
    if name == "codex":  # a project's own file counts where its person trusts the project
        config = elsewhere / "home" / ".codex" / "config.toml"
        config.write_text(f'{config.read_text()}\n[projects.{json.dumps(str(root))}]\ntrust_level = "trusted"\n')
    tools = (
        ("start_run", {"playbook": "wish", "inputs": {"word": "a boat", "quick": True}}),
        ("attend_run", {"run": "latest"}),
        ("show_run", {"run": "latest"}),
        ("start_run", {"playbook": "wish", "inputs": {"word": "a car"}}),
        ("attend_run", {"run": "latest"}),
    )
    calls = [f"@tool mcp__interlock__{tool} {json.dumps(given)}" for tool, given in tools]
    invocation = headless(name, "\n".join((FIRST[name], *calls, "@say told")), root)
    before, behind = APPROVED[name]
    argv = (invocation.argv[0], *before, *invocation.argv[1:], *behind)
    done = subprocess.run(
        argv, input=invocation.stdin, cwd=root, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    results = model_server.turns()[-1].results[1:]
    assert len(results) == len(tools), (results, done.stderr)
    started, ended, shown, _another, asked = results
    assert '"status":"running"' in plain(started)
    assert '"status":"complete"' in plain(ended)
    assert '"output":"planned a boat"' in plain(shown)
    assert '"asked":true' in plain(asked)
    assert "Nobody decided at this client" in asked
    assert [line.event for line in place.journal()].count("gate.decided") == 0


def plain(text: str) -> str:
    """JSON as any client passes it on, without its blanks."""
    return text.replace('": ', '":').replace('\\"', '"')
