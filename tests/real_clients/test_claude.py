"""Claude Code itself, behind its runner: role, rules, the tools of servers, and its list of tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("claude")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "claude"), tmp_path / "a bench", model_server).furnish()


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """300 KB of brief to the letter, 100 KB of role that escapes would make too long, the model that was chosen."""
    task = "# Task\n\n" + "A line with “quotes”, $HOME, a@keep.org and @code.py in it.\n" * 5000 + "\n@say OK: read"
    role = f"{ROLE}\n" + "ü" * 50_000
    exit_ = await bench.call(task, model="claude-opus-4-5", instructions=role, brief=f"{role}\n\n{task}")
    turn = bench.model.turns()[0]
    assert text(exit_) == "OK: read"
    assert task in turn.human
    assert role in turn.system
    assert ROLE not in turn.human
    assert turn.model == "claude-opus-4-5"


async def test_a_role_too_long_for_the_command_line_stands_in_the_prompt(bench: Bench) -> None:
    """Its finished form is what counts: every line break takes two letters."""
    role = f"{ROLE}\n" + "a\n" * 60_000 + "END"
    exit_ = await bench.call("@say OK", instructions=role, brief=f"{role}\n\n@say OK")
    turn = bench.model.turns()[0]
    assert (text(exit_), exit_.fault) == ("OK", None)
    assert role in turn.human
    assert ROLE not in turn.system


async def test_edits_outside_of_the_scope_are_refused_and_commands_run(bench: Bench) -> None:
    """New files and edits, each told with its path; the shell is held by the comparison afterwards alone."""
    task = f"""\
@write docs/new.md :: in
@write docs/keep.md :: changed
@write {bench.workspace}/code.py :: changed
@write sub/docs/new.md :: out
@shell echo built > artifact.txt
@say OK: tried"""
    exit_ = await bench.call(task, writes=("docs/**", "!docs/keep.md"))
    assert text(exit_) == "OK: tried"
    assert bench.files() == {"docs/new.md": "in", "docs/keep.md": "kept", "code.py": "old", "artifact.txt": "built"}
    refused = [one.data for one in bench.news if one.kind == "tool" and one.data["state"] == "refused"]
    assert [(one["name"], Path(str(one["subject"])).name) for one in refused] == [
        ("Write", "keep.md"),
        ("Write", "code.py"),
        ("Write", "new.md"),
    ]


@pytest.mark.parametrize(
    ("writes", "written"),
    [
        (("**", "!roadmap.json"), {"sub/roadmap.json", "other.md"}),
        (("roadmap.json",), {"roadmap.json"}),
    ],
    ids=["exclusion", "allowance"],
)
async def test_a_name_without_a_slash_means_the_one_at_the_top(
    bench: Bench, writes: tuple[str, ...], written: set[str]
) -> None:
    """Claude itself would take it for that name in every folder; also after a command has changed the folder."""
    await bench.call(
        f"""\
@write roadmap.json :: x
@shell mkdir sub && cd sub
@write {bench.workspace}/sub/roadmap.json :: x
@write {bench.workspace}/other.md :: x
@say OK""",
        writes=writes,
    )
    assert set(bench.files()) == written | {"docs/keep.md", "code.py"}


async def test_a_workspace_behind_a_link_is_the_same_by_both_names(bench: Bench) -> None:
    """What the agent calls it does not matter."""
    link = bench.place / "link"
    link.symlink_to(bench.workspace)
    task = f"@write docs/a.md :: x\n@write {link}/docs/b.md :: x\n@write {bench.workspace}/docs/c.md :: x\n@say OK"
    await bench.call(task, workspace=link)
    assert {"docs/a.md", "docs/b.md", "docs/c.md"} <= set(bench.files())


async def test_a_scope_of_hundreds_of_paths_is_held(bench: Bench) -> None:
    """Far more than one argument holds."""
    writes = tuple(f"src/a_rather_long_name_of_a_package_{number}/module.py" for number in range(1500))
    task = "@write src/a_rather_long_name_of_a_package_1499/module.py :: in\n@write code.py :: out\n@say OK"
    assert text(await bench.call(task, writes=writes)) == "OK"
    assert bench.files()["src/a_rather_long_name_of_a_package_1499/module.py"] == "in"
    assert bench.files()["code.py"] == "old"


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


async def test_a_deadline_keeps_the_tokens_so_far(bench: Bench) -> None:
    """What its answers took until then; what it wrote and what it cost, nobody knows."""
    exit_ = await bench.call("@usage 700 50\n@write docs/a.md :: x\n@sleep 300\n@say late", timeout_s=8.0)
    assert exit_.timed_out
    assert exit_.usage is not None
    assert (exit_.usage.input_tokens, exit_.usage.output_tokens, exit_.usage.cost_usd) == (700, None, None)
