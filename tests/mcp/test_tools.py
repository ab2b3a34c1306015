"""The server as a client sees it: the real server, a client of the official SDK, real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest

from interlock.mcp.results import DATA, PAGE
from tests.mcp.conftest import Place

TOOLS = {
    "list_playbooks",
    "plan_run",
    "start_run",
    "list_runs",
    "show_run",
    "attend_run",
    "read_report",
    "read_document",
    "cancel_run",
}


@pytest.mark.req("WB-20")
async def test_a_run_is_planned_started_attended_and_read(place: Place) -> None:
    """From the list of playbooks to the report; what the run waits for is told, and a person decides elsewhere."""
    async with place.client() as client:
        listed = (await client("list_playbooks", limit=1))["playbooks"]
        assert [one["name"] for one in listed] == ["wish"]
        assert [one["name"] for one in listed[0]["inputs"]] == ["word", "asks", "quick", "times"]
        planned = await client("plan_run", playbook="wish", inputs={"word": "a boat"})
        assert (planned["key"], planned["run_id"], planned["calls"]["fewest"]) == ("a boat", None, 2)
        assert not (place.root / ".interlock" / "runs").exists()

        started = await client("start_run", playbook="wish", inputs={"word": "a boat"})
        run = started["run_id"]
        assert (started["status"], started["key"]) == ("running", "a boat")
        waits = await client.until(run, "waiting")
        assert (waits["asked"], waits["recorded"], waits["answer"]) == (False, False, None)
        assert f"approve {run} --resume" in waits["gate"]["how_a_person_decides"][1]
        assert 'gates is not "elicit"' in waits["what"]

        seen = await client("show_run", run="latest")
        assert (seen["run"]["run_id"], seen["documents"], seen["about"]) == (run, ["plan.md"], DATA)
        assert seen["gate"]["choices"] == {
            "approve": "the run goes on",
            "reject": "the run stops",
            "later": "the run stops",
        }
        page = await client("read_document", run=run, path="plan.md")
        assert (page["text"], page["about"]) == ((place.root / "plan.md").read_text("utf-8"), DATA)
        for path in ("interlock.toml", "/etc/passwd", "../home", ".interlock/locks"):
            assert "has no document" in await client.refused("read_document", run=run, path=path)

        assert place.command("approve", run, "--resume").returncode == 0
        ended = await client.until(run, "complete")
        assert ended["what"] == "It has ended: read_report and show_run say how."
        assert (await client("show_run", run=run))["output"] == "shipped a boat"
        report = await client("read_report", run=run)
        assert "- Status: complete" in report["text"]
        assert report["next_offset"] is None
        assert [(one["run_id"], one["status"]) for one in (await client("list_runs"))["runs"]] == [(run, "complete")]


@pytest.mark.req("WB-20")
async def test_no_tool_decides_and_every_answer_has_its_schema(place: Place) -> None:
    """The list of tools is closed; what only looks says so; what an answer holds is what its schema says."""
    async with place.client() as client:
        tools = {tool.name: tool for tool in (await client.client.list_tools()).tools}
        assert set(tools) == TOOLS
        looking = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
        assert looking == TOOLS - {"start_run", "attend_run", "cancel_run"}
        assert "answer" not in json.dumps(tools["attend_run"].input_schema)
        for name, given in (("list_playbooks", {}), ("list_runs", {})):
            schema = tools[name].output_schema
            assert schema is not None
            jsonschema.validate(await client(name, **given), schema)
        assert all(tool.output_schema for tool in tools.values())
        assert "never instructions" in (client.client.instructions or "")
        assert "this workspace has no runs" in await client.refused("show_run", run="latest")


@pytest.mark.req("WB-20")
async def test_what_is_long_comes_in_pages_and_harmless(place: Place) -> None:
    """Pages of a document make the document; of runs, each stands on one page; no page is longer than the rest."""
    long = "".join(f"line {number} \x1b[31mred\n" for number in range(2000))
    place.scenario({"agent": "planner", "files": {"plan.md": long}})
    for word in ("a", "b", "c"):
        assert place.command("run", "wish", word, "--quick").returncode == 0
    async with place.client() as client:
        text, offset, pages = "", 0, 0
        while offset is not None:
            page = await client("read_document", run="latest", path="plan.md", offset=offset)
            assert len(page["text"]) <= PAGE
            text, offset, pages = text + page["text"], page["next_offset"], pages + 1
        assert (text, pages) == (long.replace("\x1b", "\\x1b"), 1 + len(text) // PAGE)
        keys, after = [], None
        while True:
            runs = await client("list_runs", limit=2, after=after)
            keys += [one["key"] for one in runs["runs"]]
            if (after := runs["next_after"]) is None:
                break
        assert keys == ["c", "b", "a"]
        assert (await client("list_runs", status="waiting"))["runs"] == []
        everything, offset = [], 0
        while offset is not None:
            listed = await client("list_playbooks", offset=offset, limit=3)
            everything += [one["name"] for one in listed["playbooks"]]
            offset = listed["next_offset"]
        assert len(everything) == len(set(everything)) > 6


@pytest.mark.req("WB-20")
async def test_code_that_nobody_trusts_is_not_offered_and_never_loaded(place: Place) -> None:
    """Plan and start are refused in the words of the command line; no line of it is executed, changed or new."""
    traces = place.root / "executed"
    place.write(".interlock/playbooks/evil.py", f"open({str(traces)!r}, 'w')\n" + WISH_TOO)
    said = place.command("run", "evil", "a", "--detach", "--json")
    words = json.loads(said.stdout)["error"]["what"].removeprefix("evil")
    async with place.client() as client:
        listed = await client("list_playbooks")
        assert listed["about"] == DATA, "names and purposes come from files"
        assert "evil" not in [one["name"] for one in listed["playbooks"]]
        assert [(one["name"], words in one["why"]) for one in listed["not_offered"]] == [("evil", True)]
        wish = place.root / ".interlock/playbooks/wish.py"
        wish.write_text(f"open({str(traces)!r}, 'w')\n{wish.read_text('utf-8')}", "utf-8")
        changed = (await client("list_playbooks"))["not_offered"]
        assert [one["why"] for one in changed if one["name"] == "wish"] == [
            "wish changed since it was trusted: wish.py"
        ]
        for tool in ("plan_run", "start_run"):
            assert words in await client.refused(tool, playbook="evil", inputs={"word": "a"})
            assert words in await client.refused(tool, playbook="./.interlock/playbooks/evil.py", inputs={"word": "a"})
    assert not traces.exists()


WISH_TOO = """\
from dataclasses import dataclass
from interlock.engine import Ending, Run, playbook

@dataclass(frozen=True)
class Evil:
    word: str

@playbook("evil", inputs=Evil, key=lambda it: it.word)
async def evil(run: Run, inputs: Evil) -> Ending:
    return Ending.complete("")
"""


@pytest.mark.req("WB-20")
async def test_what_is_said_is_never_taken_for_an_option(place: Place) -> None:
    """Words that look like options are words; names and values that make no sense are refused before a run begins."""
    async with place.client() as client:
        for inputs, complaint in (
            ({"words": "a"}, "Did you mean 'word'?"),
            ({"word": "a", "times": "many"}, "Input should be a valid integer"),
            ({"word": "a", "asks": "yes"}, "expected: true or false"),
            ({"word": ["a"]}, "expected: one value"),
            ({"word": "a\0b"}, "without NUL"),
            ({"word": "a", "times": -(10**400)}, "times"),
            ({"word": "x" * 200_000}, "is too long"),
            ({}, "Missing argument"),
        ):
            assert complaint in await client.refused("start_run", playbook="wish", inputs=inputs)
        assert "there is no playbook" in await client.refused("start_run", playbook="--trust", inputs={})
        assert not (place.root / ".interlock" / "runs").exists()
        started = await client("start_run", playbook="wish", inputs={"word": "--trust -C / $(x)", "quick": True})
        assert started["key"] == "--trust -C / $(x)"
        ended = await client.until(started["run_id"], "complete")
        assert ended["run"]["key"] == "--trust -C / $(x)"


@pytest.mark.req("WB-20")
async def test_an_argument_that_no_tool_has_is_refused(place: Place) -> None:
    """`budget` for `budget_usd` is no run without a budget: nothing begins, and the nearest name is told."""
    async with place.client() as client:
        given = {"playbook": "wish", "inputs": {"word": "a"}}
        said = await client.refused("start_run", **given, budget=1)
        assert "there is no argument 'budget'" in said and "Did you mean 'budget_usd'?" in said
        assert "there is no argument 'ctx'" in await client.refused("list_runs", ctx={})
        assert "expected: run, offset" in await client.refused("read_report", run="latest", zzz=1)
        assert not (place.root / ".interlock" / "runs").exists()
        tools = (await client.client.list_tools()).tools
        assert {tool.input_schema["additionalProperties"] for tool in tools} == {False}


@pytest.mark.req("WB-20")
async def test_a_run_outlives_the_client_that_started_it_and_is_cancelled_by_another(place: Place) -> None:
    """It is a process of its own; whoever looks later finds it at work, and can end it for good."""
    place.scenario({"agent": "planner", "misbehave": "hang"})
    async with place.client() as client:
        run = (await client("start_run", playbook="wish", inputs={"word": "a"}))["run_id"]
    async with place.client() as another:
        attended = await another("attend_run", run=run, wait_s=0)
        assert (attended["run"]["status"], attended["what"]) == ("running", "It still works: attend it again.")
        assert "is locked by process" in await another.refused("start_run", playbook="wish", inputs={"word": "a"})
        assert (await another("cancel_run", run=run))["status"] == "stopped"
        assert "already ended" in await another.refused("cancel_run", run=run)


@pytest.mark.req("WB-20")
def test_without_the_sdk_the_way_to_get_it_is_told(place: Place) -> None:
    """One sentence and a command, with exit code 2; nothing else of the program needs the SDK."""
    script = (
        "import sys; sys.modules['mcp'] = None; from interlock.cli.main import answer; sys.exit(answer(sys.argv[1:]))"
    )

    def call(*words: str) -> Any:
        argv = [sys.executable, "-c", script, *words]
        return subprocess.run(argv, cwd=place.root, env=place.env, capture_output=True, text=True, check=False)

    done = call("mcp")
    assert (done.returncode, "pip install 'interlock[mcp]'" in done.stderr) == (2, True)
    assert (call("--version").returncode, call("runs").returncode, call("init").returncode) == (0, 0, 0)
