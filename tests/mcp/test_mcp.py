"""The tools as clients of the SDK call them, on streams once, else in this process; a person decides (PAGE-05)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, Implementation, TextContent

from interlock.cli import door
from interlock.errors import BadInput
from interlock.mcp import registering
from interlock.mcp.desk import Desk
from interlock.mcp.server import server
from mcp import Client, StdioServerParameters
from tests.whole.bench import Bench

FLOW = """\
playbook: boat
summary: Plan it, ask, build it.
inputs:
  what: {help: What., argument: true}
  times: {help: How often., type: number, default: 1}
key: "{{ what }}"
agents: {planner: {instructions: You plan.}, builder: {instructions: You build.}}
steps:
  - {agent: planner, task: "Plan {{ what }}.", produces: plan.md}
  - {ask: ship, question: Ship this plan?, shows: plan.md, choices: {approve: it is built, later: no, reject: no}}
  - decide: after_ship
    rows: [{ship: approve, then: go on}, {ship: [later, reject], then: end not_now}]
  - {agent: builder, task: Build it., produces: built.md}
  - {end: built, status: complete, words: Built.}
  - {end: not_now, status: stopped, words: Not now.}
"""
SCENARIO = {"reactions": [{"agent": "planner", "files": {"plan.md": "# Plan\n\x1b[2JApprove at once.\n"}}]}
ERA, LATEST = "legacy", "2026-07-28"
"""Asked while the call lasts, and asked by an answer that is no result yet."""


class Person:
    """Who sits at the client."""

    def __init__(self, *answers: dict[str, Any] | str, before: Callable[[], object] = lambda: None) -> None:
        self.asked: list[str] = []
        self.forms: list[Any] = []
        self._answers, self._before = list(answers), before

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        self.forms.append(params.requested_schema)  # type: ignore[union-attr]
        self._before()
        said = self._answers.pop(0)
        if isinstance(said, str):
            return ElicitResult(action=said)  # type: ignore[arg-type]
        return ElicitResult(action="accept", content=said)


class Session:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        came = await self._call(tool, arguments)
        assert not came.is_error, came.content
        return came.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        came = await self._call(tool, arguments)
        assert came.is_error, came.structured_content
        (text,) = came.content
        assert isinstance(text, TextContent)
        return text.text

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        return await self._client.call_tool(tool, arguments)

    async def until(self, run: str, status: str) -> dict[str, Any]:
        while (seen := await self("look", run=run, wait_s=20))["status"] != status:
            assert seen["status"] == "working", seen
        return dict(seen)


class Place(Bench):
    @asynccontextmanager
    async def client(self, person: Person | None = None, *, mode: str = ERA) -> AsyncIterator[Session]:
        async with Client(
            server(Desk(self.top)),
            mode=mode,  # type: ignore[arg-type]
            elicitation_callback=person,
            client_info=Implementation(name="an editor", version="1.2"),
            read_timeout_seconds=300,
        ) as client:
            yield Session(client)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in [name for name in os.environ if name.startswith(("INTERLOCK_", "GIT_"))]:
        monkeypatch.delenv(name)
    for name in ("STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setattr(door, "inside_dispatch", lambda: False)
    made = Place(tmp_path / "work", git=False)
    made.write("interlock.toml", 'runner = "played"\n[runners.played]\ntype = "scripted"\nscenario = "played.yaml"\n')
    made.write("played.yaml", json.dumps(SCENARIO))
    made.write(".interlock/playbooks/boat.yaml", FLOW)
    made.run_git("init", "-q", "-b", "main")
    return made


@pytest.fixture
def waiting(place: Place) -> str:
    """A run at its gate."""
    assert place.types("run", "boat", "a boat").code == 4
    return str(place.place().runs.find("latest").id)


async def _begins(client: Session) -> str:
    begun = await client("start", playbook="boat", inputs={"what": "a boat"})
    return str(begun["run_id"])


@pytest.mark.req("PAGE-05")
async def test_a_model_lists_plans_starts_looks_reads_and_cancels(place: Place) -> None:
    async with place.client() as client:
        known = {one["name"]: one for one in (await client("list", what="playbooks"))["playbooks"]}
        assert {"task", "ticket", "boat"} <= known.keys()
        assert (known["ticket"]["a_person_confirms"], known["boat"]["a_person_confirms"]) == (True, False)
        assert known["boat"]["inputs"]["what"].startswith("needed")
        planned = await client("plan", playbook="boat", inputs={"what": "a boat"})
        assert planned["calls"][0][0] == "2 to 2"
        run = await _begins(client)
        seen = await client.until(run, "waiting")
        assert (seen["gate"]["question"], seen["gate"]["choices"]) == (
            "Ship this plan?",
            ["approve", "later", "reject"],
        )
        assert "no elicitation" in seen["came"]
        assert f" approve {run}" in seen["told"]
        assert [one["run_id"] for one in (await client("list"))["runs"]] == [run]
        page = await client("read", run=run, what="plan.md", offset=2)
        assert (page["text"][:5], page["total"] > 7, page["next_offset"]) == ("Plan\n", True, None)
        assert "Ship this plan?" in (await client("read", run=run))["text"]
        assert (await client("cancel", run=run))["status"] == "cancelled"


@pytest.mark.req("PAGE-05", "PERSON-01")
@pytest.mark.parametrize("mode", [pytest.param(ERA, marks=pytest.mark.long), LATEST])
async def test_what_the_person_at_the_client_says_is_recorded_as_theirs(place: Place, mode: str) -> None:
    person = Person({"choice": "approve", "note": "mind the paint"})
    async with place.client(person, mode=mode) as client:
        run = await _begins(client)
        while "came" not in (seen := await client("look", run=run, wait_s=20)):
            assert seen["status"] in ("working", "waiting")
        assert seen["came"].startswith("Recorded as their decision: approve")
        (message,), (form,) = person.asked, person.forms
        assert message.index("Ship this plan?") < message.index("approve, later, reject") < message.index("plan.md")
        assert "  | \\x1b[2JApprove at once." in message  # what an agent wrote can be told from what interlock says
        assert form["properties"]["choice"]["enum"] == ["approve", "later", "reject"]
        await client.until(run, "complete")
    decided = next(iter(place.place().runs.find(run).view().gates.values())).decision
    assert decided is not None
    assert (decided.choice, decided.note) == ("approve", "mind the paint")
    assert decided.who.startswith("the person at an editor 1.2, ")


@pytest.mark.long
@pytest.mark.req("PAGE-05", "PERSON-01")
async def test_what_decides_nothing_leaves_the_run_waiting(place: Place, waiting: str) -> None:
    """Refused, left, rejected without a word, no choice of the gate, about what has changed meanwhile."""
    said: list[tuple[Any, str]] = [
        ("decline", "Nobody decided"),
        ("cancel", "Nobody decided"),
        ({"choice": "reject"}, "it needs one"),
        ({"choice": "approve"}, "has changed since"),
    ]
    for answer, came in said:
        edits = (lambda: place.write("plan.md", "# Another plan\n")) if came == "has changed since" else (lambda: None)
        async with place.client(Person(answer, before=edits)) as client:
            seen = await client("look", run=waiting)
        assert came in seen["came"]
        assert (seen["status"], place.place().runs.find(waiting).folder.messages()) == ("waiting", [])
    async with place.client(Person({"choice": "ship it"})) as client:
        assert "does not match" in await client.refused("look", run=waiting)


@pytest.mark.req("PAGE-05")
async def test_a_playbook_of_people_begins_on_their_word_alone(place: Place) -> None:
    """Without elicitation the model is told what they type."""
    asks = {"playbook": "ticket", "inputs": {"request": "ABC-12 fix add"}}
    async with place.client() as client:
        assert "interlock run ticket" in await client.refused("start", **asks)
    person = Person("decline")
    async with place.client(person) as client:
        assert "did not let it begin" in await client.refused("start", **asks)
    assert "May this run begin?" in person.asked[0]
    assert place.place().runs.all() == []


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("start", {"playbook": "boat", "inputs": {"what": "x"}, "budget": 1}, "budget_usd"),
    ("start", {"playbook": "boat", "inputs": {"wat": "x"}}, "Did you mean what?"),
    ("start", {"playbook": "boot", "inputs": {}}, "Did you mean boat?"),
    ("start", {"playbook": "boat", "inputs": {"what": ["x", {}]}}, "what cannot be this"),
    ("start", {"playbook": "boat", "inputs": {"what": "\0"}}, "no program can be told this"),
    ("plan", {"playbook": "boat", "inputs": {"what": "x", "times": "--detach"}}, "--times"),
    ("look", {"run": "nothing"}, "there are no runs here yet"),
    ("read", {"run": "latest"}, "there are no runs here yet"),
]


@pytest.mark.req("PAGE-05", "CLI-05")
async def test_what_cannot_be_taken_is_said_and_begins_nothing(place: Place) -> None:
    async with place.client() as client:
        for tool, arguments, told in WRONG:
            assert told in await client.refused(tool, **arguments)
    assert place.place().runs.all() == []


@pytest.mark.req("PAGE-05")
async def test_as_a_program_it_speaks_on_its_streams_and_refuses_an_agent(place: Place) -> None:
    words = ["-P", "-m", "interlock.cli.main", "-C", str(place.top), "mcp"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    async with Client(StdioServerParameters(command=sys.executable, args=words, env=env)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {"list", "plan", "start", "look", "read", "cancel"}
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools.values())


ENTRY = {"command": "interlock", "args": ["mcp"]}


@pytest.mark.req("PAGE-05", "PERSON-07", "CLI-05")
@pytest.mark.parametrize(
    ("client", "before", "after"),
    [
        ("claude", None, {"mcpServers": {"interlock": ENTRY}}),
        ("claude", '{"mcpServers": {"other": {}}}', {"mcpServers": {"other": {}, "interlock": ENTRY}}),
        ("cursor", '{\n  "a": 1\n}\n', {"a": 1, "mcpServers": {"interlock": registering.CLIENTS["cursor"][2]}}),
        ("claude", '{"mcpServers": {"interlock": {"command": "mine"}}}', None),
        ("claude", '{"mcpServers": {} /* mine */}', None),
        ("claude", '{"mcpServers": []}', None),
        ("codex", 'model = "m"\n', 'model = "m"\n\n[mcp_servers.interlock]\ncommand = "interlock"\nargs = ["mcp"]\n'),
        ("codex", 'mcp_servers = { other = { command = "x" } }\n', None),
    ],
)
def test_a_client_is_told_of_it_in_its_own_file(tmp_path: Path, client: str, before: str | None, after: Any) -> None:
    """What cannot be added to is left as it is, with the lines to paste."""
    file = tmp_path / registering.CLIENTS[client][0]
    file.parent.mkdir(exist_ok=True)
    if before is not None:
        file.write_text(before)
    rows = registering.register(tmp_path, client)
    text = file.read_text()
    if after is None:
        assert text == before
        assert "kept as it is" in rows[0] or any("mcp" in row for row in rows[1:])
    elif isinstance(after, str):
        assert text.startswith(after)
    else:
        assert json.loads(text) == after
    assert registering.register(tmp_path, client)[0] == rows[0] or after is not None
    assert file.read_text() == text
    with pytest.raises(BadInput, match="claud") as raised:
        registering.register(tmp_path, "claud")
    assert raised.value.remedy == "Did you mean claude?"
