"""Claude Code itself, behind its runner: role, permissions, the tools of servers, its tasks and its limit of cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from interlock.agents import Allowance
from tests.deadlines import Deadline
from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("claude")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "claude"), tmp_path / "a bench", model_server).furnish()


async def test_a_role_too_long_for_the_command_line_stands_in_the_prompt(bench: Bench) -> None:
    """Its finished form is what counts: every line break takes two letters."""
    role = f"{ROLE}\n" + "a\n" * 60_000 + "END"
    exit_ = await bench.call("@say OK", instructions=role, brief=f"{role}\n\n@say OK")
    turn = bench.model.turns()[0]
    assert (text(exit_), exit_.fault) == ("OK", None)
    assert role in turn.human
    assert ROLE not in turn.system


async def test_without_a_layer_it_works_in_its_folder_and_beside_its_brief(bench: Bench) -> None:
    """Edits there are made, commands run, others are refused by itself, each told with its path."""
    task = f"""\
@write docs/new.md :: in
@write docs/keep.md :: changed
@write {bench.workspace}/code.py :: changed
@write {bench.home}/out.md :: out
@write {bench.place}/records/answer.json :: {{}}
@shell echo built > artifact.txt
@say OK: tried"""
    exit_ = await bench.call(task)
    assert (text(exit_), exit_.result) == ("OK: tried", b"{}\n")
    assert bench.files() == {
        "docs/new.md": "in",
        "docs/keep.md": "changed",
        "code.py": "changed",
        "artifact.txt": "built",
    }
    refused = [one.data for one in bench.news if one.kind == "tool" and one.data["state"] == "refused"]
    assert [(one["name"], Path(str(one["subject"])).name) for one in refused] == [("Write", "out.md")]


SERVER = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    tool = {"name": "ping", "description": "pings", "inputSchema": {"type": "object", "properties": {}}}
    answers = {
        "initialize": {
            "protocolVersion": asked.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "mine", "version": "1"},
        },
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "PONG"}]},
    }
    if asked.get("method") in answers:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}), flush=True)
"""


@pytest.mark.parametrize(("forbidden", "state"), [(False, "done"), (True, "failed")])
async def test_tools_of_the_users_servers_are_free_unless_he_forbids_them(
    bench: Bench, forbidden: bool, state: str
) -> None:
    """Nobody is there to be asked for them."""
    server = bench.home / "server.py"
    server.write_text(SERVER)
    runner = bench.runner("")
    mine = {"type": "stdio", "command": sys.executable, "args": [str(server)]}
    (bench.home / ".claude.json").write_text(json.dumps({"mcpServers": {"mine": mine}}))
    if forbidden:
        (bench.home / ".claude").mkdir(exist_ok=True)
        rules = {"permissions": {"deny": ["mcp__mine__ping"]}}
        (bench.home / ".claude" / "settings.json").write_text(json.dumps(rules))
    await runner.call(bench.request("@tool mcp__mine__ping {}\n@say OK"), bench.news.append)
    states = [one.data["state"] for one in bench.news if one.kind == "tool"]
    assert states == ["began", state]


async def test_its_list_of_tasks_can_be_watched(bench: Bench) -> None:
    """Every change of it."""
    task = """\
@tool TaskCreate {"subject": "Write it", "description": "all"}
@tool TaskUpdate {"taskId": "1", "status": "in_progress"}
@tool TaskUpdate {"taskId": "1", "status": "completed"}
@say OK"""
    await bench.call(task)
    plans = [one.data["entries"] for one in bench.news if one.kind == "plan"]
    assert plans == [[["Write it", state]] for state in ("pending", "in_progress", "completed")]


async def test_a_deadline_keeps_the_tokens_so_far(bench: Bench, deadline: Deadline) -> None:
    """What its answers took until then; what it wrote and what it cost, nobody knows."""
    deadline((bench.workspace / "docs/a.md").exists)
    exit_ = await bench.call("@usage 700 50\n@write docs/a.md :: x\n@sleep 300\n@say late")
    assert exit_.timed_out
    assert exit_.usage is not None
    assert (exit_.usage.input_tokens, exit_.usage.output_tokens, exit_.usage.cost_usd) == (700, None, None)


@pytest.mark.req("LY-16")
async def test_it_stops_by_itself_at_its_limit_of_cost(bench: Bench) -> None:
    """After the answer that used it up; what it cost is known then."""
    steps = "".join(f"@write docs/{number}.md :: x\n" for number in range(9))
    exit_ = await bench.call(f"@usage 1000 50\n{steps}@say late", allowance=Allowance(usd=0.005))
    assert exit_.exhausted
    assert exit_.usage is not None
    assert exit_.usage.cost_usd is not None
    # One answer costs 0.00375: the second one crosses the limit, and is the last.
    assert 0.005 <= exit_.usage.cost_usd <= 0.0075
    assert exit_.fault is not None
    assert "used up" in exit_.fault.text
