"""Inside a dispatch the door does not open: a real agent in a real layer tries."""

from __future__ import annotations

import json
import sys

import pytest

from tests import own_python
from tests.mcp.conftest import Place

AGENT = '''\
"""An agent that would rather decide itself."""
import json, os, subprocess, sys

def call(*argv, said="", **environ):
    env = {**os.environ, **environ}
    done = subprocess.run([sys.executable, "-P", *argv], input=said, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr

hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
         "capabilities": {"elicitation": {}}, "clientInfo": {"name": "mischief", "version": "1"}}}
start = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "start_run",
         "arguments": {"playbook": "wish", "inputs": {"word": "mischief"}}}}
said = "".join(json.dumps(one) + "\\n" for one in (hello, start))
clean = {name: "" for name in os.environ if name.startswith("INTERLOCK_")}
desk = """
import asyncio, os
from pathlib import Path
from interlock.commanding import CommandLine
line = CommandLine(os.environ)
print(asyncio.run(line(Path.cwd(), "run", "task", "--detach", "--json", "--runner=scripted", "--", "mischief")).trouble)
print(asyncio.run(line(Path.cwd(), "approve", "--json", "--detach", "--", os.environ["WAITS"])).trouble)
"""
tries = {
    "server": call("-m", "interlock", "mcp", said=said),
    "server, with a clean environment": call("-m", "interlock", "mcp", said=said, **clean),
    "the command line behind it": call("-c", desk, WAITS=sys.argv[1], **clean),
}
with open("plan.md", "w") as file:
    json.dump(tries, file)
print("DONE: tried")
'''


@pytest.mark.req("WB-20")
def test_an_agent_that_starts_the_server_can_neither_decide_nor_start(place: Place) -> None:
    """Not by the server, not without the variables, not by what the server itself calls."""
    place.settings('[mcp]\ngates = "elicit"\n')
    assert place.command("run", "wish", "a boat").returncode == 4
    waits = place.journal()[-1].run
    place.write("agent.py", AGENT)
    argv = json.dumps([sys.executable, "agent.py", waits])
    place.write("interlock.toml", f'[runners.mine]\ntype = "command"\nargv = {argv}\n[mcp]\ngates = "elicit"\n')
    (place.root / "plan.md").unlink()
    done = place.command("run", "wish", "a car", "--quick", **own_python.SHOWN)
    assert done.returncode == 0, done.stderr
    tries = json.loads((place.root / "plan.md").read_text("utf-8"))
    for name, (code, said) in tries.items():
        assert "inside a dispatch" in said, (name, said)
        assert '"jsonrpc"' not in said
        assert code == (0 if name.startswith("the command line") else 2), (name, said)
    assert "this workspace has no runs" in tries["the command line behind it"][1]  # what waits is not even seen
    keys = [json.loads(file.read_bytes())["key"] for file in (place.root / ".interlock" / "runs").glob("*/run.json")]
    assert sorted(keys) == ["a boat", "a car"]
    shown = json.loads(place.command("show", waits, "--json").stdout)
    assert (shown["status"], shown["gate"]["name"]) == ("waiting", "ship")


@pytest.mark.req("WB-20")
def test_a_process_that_an_agent_started_is_known_by_its_environment(place: Place) -> None:
    """Also where there is no wall of a layer."""
    done = place.command("mcp", INTERLOCK_DISPATCH="plan/planner#1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "only a person may open this door" in done.stderr
