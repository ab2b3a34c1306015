"""Real Claude Code and Codex as clients of `interlock mcp`, as `--register` entered it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import real
from tests.mcp.test_mcp import Place, place
from tools import scripted_llm as llm

__all__ = ["place"]
DEADLINE_S = 300
FIRST = {
    "claude": llm.use("WaitForMcpServers", {}),
    "codex": llm.use("tool_search", {"query": "interlock runs playbooks list plan start look read", "limit": 20}),
}
"""Both connect to servers while the model already talks: a model waits, or searches for the tools."""
WORDS = {
    "claude": ("-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "mcp__interlock"),
    "codex": (
        *("-c", "mcp_servers.interlock.required=true"),
        *("-c", f"mcp_servers.interlock.startup_timeout_sec={DEADLINE_S}"),
        *("-c", 'mcp_servers.interlock.default_tools_approval_mode="approve"'),
        *("exec", "--json", "-s", "danger-full-access"),
    ),
}
"""What a person says who lets the client use the server."""
PATIENCE = {
    "MCP_CONNECTION_NONBLOCKING": "0",
    "MCP_CONNECT_TIMEOUT_MS": str(DEADLINE_S * 1000),
    "MCP_TIMEOUT": str(DEADLINE_S * 1000),
    "IS_SANDBOX": "1",
}


@pytest.mark.req("PAGE-05", "AGENT-06")
@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.agents(one)) for one in FIRST])
def test_a_real_client_starts_a_run_and_reads_it(name: str, place: Place, model: llm.Model, tmp_path: Path) -> None:
    """Where the run waits, a client without a person decides nothing."""
    env = {**real.home(name, model.url, tmp_path / "home"), **PATIENCE}
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for state in ("STATE", "DATA"):
        env[f"XDG_{state}_HOME"] = str(tmp_path / state.lower())
    subprocess.run(["interlock", "mcp", "--register", name], cwd=place.top, env=env, check=True)
    if name == "codex":  # a project's own file counts where its person trusts the project
        config = tmp_path / "home/.codex/config.toml"
        config.write_text(f'{config.read_text()}\n[projects.{json.dumps(str(place.top))}]\ntrust_level = "trusted"\n')
    tools = (
        ("start", {"playbook": "boat", "inputs": {"what": "a boat"}}),
        ("look", {"run": "latest", "wait_s": 50}),
        ("read", {"run": "latest", "what": "plan.md"}),
        ("cancel", {"run": "latest"}),
    )
    steps = (FIRST[name], *(llm.use(f"mcp__interlock__{tool}", given) for tool, given in tools), llm.say("told"))
    model.rules.append(llm.Rule("the boat", steps))
    done = subprocess.run(
        [real.program(name), *WORDS[name], *(["the boat"] if name == "codex" else [])],
        cwd=place.top,
        env=env,
        input="the boat",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    said = done.stdout.replace('\\"', '"').replace('": ', '":')
    assert "# Plan" in said
    assert "Ship this plan?" in said
    assert '"status":"cancelled"' in said
    (run,) = place.place().runs.all()
    assert (run.view().status.value, [gate.decision for gate in run.view().gates.values()]) == ("cancelled", [None])
