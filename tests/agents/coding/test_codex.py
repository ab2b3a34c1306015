"""Codex: its command line, its sandbox and its stream, as recorded from the real program."""

from __future__ import annotations

import json
import tomllib
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.agents.coding.codex import Codex, CodexStream, service_trouble
from interlock.agents.coding.dialect import Ask, RoleText
from interlock.agents.coding.events import (
    Planned,
    Said,
    SessionBegan,
    Spent,
    Thought,
    ToolState,
    ToolUsed,
    Waits,
    Warned,
)
from interlock.agents.coding.settling import settle
from interlock.agents.coding.toml_text import inline_table, toml_string
from interlock.agents.coding.trouble import Kind
from interlock.agents.runner import Usage

STREAMS = Path(__file__).parents[1] / "streams"
CASES = sorted(path.stem for path in STREAMS.glob("codex-*.jsonl"))
ENDS = ("turn.completed", "turn.failed")
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=timezone(timedelta(hours=2)))


def recorded(case: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines() if line[:1] == "{"]


def read(lines: list[dict[str, Any]]) -> tuple[CodexStream, list[Any]]:
    stream = CodexStream()
    return stream, [event for line in lines for event in stream.take(line)]


def ask(workspace: Path = Path("ws"), **more: Any) -> Ask:
    return Ask(prompt="# task\n", workspace=workspace, folder=Path("/records"), **more)


def settings_in(argv: tuple[str, ...]) -> dict[str, Any]:
    """The overrides of a command line, read as codex reads them: one TOML value each, put at a dotted path."""
    found: dict[str, Any] = {}
    for flag, setting in pairwise(argv):
        if flag == "-c":
            _merge(found, tomllib.loads(setting))
    return found


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def test_the_brief_goes_in_whole_on_standard_input() -> None:
    """However long it is: the command line holds nothing of it, and says that it is to be read there."""
    prompt = "x" * 500_000
    call = Codex().invocation("codex", Ask(prompt, Path("ws"), Path("records")))
    assert call.stdin == prompt
    assert call.argv[-1] == "-"
    assert sum(map(len, call.argv)) < 5_000


def test_role_model_and_further_arguments_are_handed_over() -> None:
    """The role as the developer's instructions; what settings add comes after what we say, so that it wins."""
    role = RoleText("interlock-x", "does x", "You do x.\n\nWith \"quotes\", '''more''' and \\ signs. \x7f\té\U0001f600")
    call = Codex().invocation("/bin/codex", ask(role=role, model="gpt-5.5", args=("-c", "web_search=true")))
    assert call.argv[:2] == ("/bin/codex", "exec")
    assert "--json" in call.argv
    assert settings_in(call.argv)["developer_instructions"] == role.text
    assert call.argv[call.argv.index("-m") + 1] == "gpt-5.5"
    assert call.argv[-3:] == ("-c", "web_search=true", "-")
    assert not call.files
    assert not call.env


def test_without_a_role_or_a_model_those_of_the_user_stay() -> None:
    """No instructions and no model are forced upon codex."""
    call = Codex().invocation("codex", ask())
    assert "developer_instructions" not in settings_in(call.argv)
    assert "-m" not in call.argv


def test_nobody_is_asked_and_nothing_is_sent_home() -> None:
    """No approvals, no update, no analytics, no feedback."""
    settings = settings_in(Codex().invocation("codex", ask()).argv)
    assert settings["approval_policy"] == "never"
    assert settings["check_for_update_on_startup"] is False
    assert settings["analytics"] == settings["feedback"] == {"enabled": False}


def test_without_a_layer_its_sandbox_ends_at_the_workspace() -> None:
    """Whatever the user's own files say; the folder of brief and answer is its own too, and commands have a network."""
    settings = settings_in(Codex().invocation("codex", ask()).argv)
    assert settings["default_permissions"] == "interlock"
    assert settings["permissions"]["interlock"] == {
        "extends": ":workspace",
        "network": {"enabled": True},
        "filesystem": {"/records": "write"},
    }


@given(st.text(), st.text())
@example("\udcff", "a\udc80\x7f")
def test_every_text_is_written_as_toml_reads_it(key: str, value: str) -> None:
    """On one line; bytes of a file that are no text are replaced, not refused."""

    def sound(text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    assert "\n" not in toml_string(value)
    assert tomllib.loads(f"x = {toml_string(value)}")["x"] == sound(value)
    assert tomllib.loads(f"x = {inline_table({key: value})}")["x"] == {sound(key): sound(value)}


def test_a_call_that_went_well_is_read_completely() -> None:
    """Session, tools, text and tokens, as the real program reports them; it knows no cost."""
    stream, events = read(recorded("codex-ok"))
    said = stream.conclude()
    assert said.finished
    assert said.acted
    assert said.text == "All done: docs/note.md written."
    assert said.session == "00000000-0000-4000-8000-000000000001"
    assert said.trouble is None
    assert said.usage is not None
    assert said.usage.input_tokens
    assert said.usage.output_tokens
    assert said.usage.cost_usd is None
    assert events[0] == SessionBegan("00000000-0000-4000-8000-000000000001")
    assert [(event.name, event.state) for event in events if isinstance(event, ToolUsed)] == [
        ("file_change", ToolState.BEGAN),
        ("file_change", ToolState.DONE),
        ("command_execution", ToolState.BEGAN),
        ("command_execution", ToolState.DONE),
    ]
    assert next(event.subject for event in events if isinstance(event, ToolUsed)) == "/workspace/docs/note.md"
    assert events[-2:] == [Said(said.text), Spent(said.usage)]
    assert settle(said, code=0, timed_out=False).fault is None


def test_a_command_that_the_sandbox_stopped_is_told_as_failed() -> None:
    """It looks like any other command that failed: the system refused it, not codex."""
    _, events = read(recorded("codex-sandboxed"))
    assert [event.state for event in events if isinstance(event, ToolUsed)] == [
        ToolState.BEGAN,
        ToolState.FAILED,
        ToolState.BEGAN,
        ToolState.DONE,
    ]


def test_a_sandbox_that_does_not_work_is_worth_a_warning() -> None:
    """Every command fails then, and codex still ends with 0."""
    item = {
        "id": "item_0",
        "type": "command_execution",
        "command": "make",
        "status": "failed",
        "aggregated_output": "bwrap: No permissions to create a new namespace\n",
    }
    _, events = read([{"type": "item.completed", "item": item}])
    assert events[-1] == Warned(
        "the sandbox of codex does not work here: bwrap: No permissions to create a new namespace"
    )


@pytest.mark.parametrize(("status", "kind"), [(429, Kind.LIMITED), (500, Kind.SERVICE), (401, Kind.ACCESS)])
def test_an_error_of_the_service_is_no_answer(status: int, kind: Kind) -> None:
    """The turn failed; a reconnection on the way is a wait."""
    stream, events = read(recorded(f"codex-http-{status}"))
    said = stream.conclude()
    assert said.trouble is not None
    assert said.trouble.kind is kind
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None
    assert bool([event for event in events if isinstance(event, Waits)]) == (status != 429)


def test_a_reconnection_is_the_last_that_is_known_while_it_lasts() -> None:
    """At the deadline it is a limit of the service."""
    _, events = read(recorded("codex-http-500")[:3])
    assert isinstance(events[-1], Waits)


def test_an_error_that_the_turn_survives_is_no_fault() -> None:
    """What counts is how the turn ended."""
    error = {"type": "error", "message": "stream disconnected"}
    stream, events = read([*recorded("codex-ok")[:2], error, *recorded("codex-ok")[2:]])
    assert Warned("stream disconnected") in events
    assert stream.conclude().trouble is None


def test_an_error_without_the_end_of_the_turn_says_why() -> None:
    """Cut off after it: the reason is better than its absence."""
    said = read([{"type": "turn.started"}, {"type": "error", "message": "unexpected status 403 Forbidden"}])[
        0
    ].conclude()
    assert not said.finished
    assert said.trouble is not None
    assert said.trouble.kind is Kind.ACCESS


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (
            '{"error": {"message": "The model x does not exist", "type": "invalid_request_error", "code": null}}',
            Kind.REQUEST,
            "The model x does not exist, invalid_request_error",
        ),
        ('{"error": {"message": "too big", "code": "400"}}', Kind.REQUEST, "too big, 400"),
        ('{"detail": "Unauthorized"}', Kind.ACCESS, '{"detail": "Unauthorized"}'),
        ("{broken: error 401", Kind.ACCESS, "{broken: error 401"),
    ],
)
def test_an_error_in_json_is_told_in_words(message: str, kind: Kind, text: str) -> None:
    """The words of the service, not its braces."""
    found = service_trouble(message, NOON)
    assert (found.kind, found.text) == (kind, text)


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("1:30 PM", 5400),
        ("11:00 AM", 23 * 3600),
        ("Nov 16th, 2026 12:01 PM", 24 * 3600 + 60),
        ("Nov 1st, 2026 12:00 PM", 0),
        ("Nov 31st, 2026 12:00 PM", None),
        ("later", None),
    ],
)
def test_a_used_up_plan_says_when_it_is_open_again(moment: str, seconds: float | None) -> None:
    """Codex names the time of day, with the date when it is not today."""
    found = service_trouble(f"You've hit your usage limit. Upgrade to Pro or try again at {moment}.", NOON)
    assert found.kind is Kind.LIMITED
    assert found.reset_s == seconds


def test_thoughts_plans_searches_and_tools_of_servers_are_told() -> None:
    """Everything that a person would want to watch."""
    items = [
        {"id": "1", "type": "reasoning", "text": "hm"},
        {
            "id": "2",
            "type": "todo_list",
            "items": [{"text": "a", "completed": True}, {"text": "b", "completed": False}],
        },
        {"id": "3", "type": "web_search", "query": "toml"},
        {"id": "4", "type": "mcp_tool_call", "server": "github", "tool": "search", "status": "failed"},
        {"id": "5", "type": "command_execution", "command": "rm", "status": "declined"},
        {"id": "6", "type": "error", "message": "no metadata"},
    ]
    stream, events = read([{"type": "item.completed", "item": item} for item in items])
    assert events == [
        Thought("hm"),
        Planned((("a", "completed"), ("b", "pending"))),
        ToolUsed("3", "web_search", "toml", ToolState.DONE),
        ToolUsed("4", "github.search", "", ToolState.FAILED),
        ToolUsed("5", "command_execution", "rm", ToolState.REFUSED),
        Warned("no metadata"),
    ]
    assert stream.conclude().acted


def test_the_last_of_several_messages_is_the_answer() -> None:
    """What it said on the way is told while it happens."""
    said = [{"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in ("first", "last")]
    stream, events = read(said)
    assert stream.conclude().text == "last"
    assert events == [Said("first"), Said("last")]


def test_tokens_that_were_not_counted_are_unknown() -> None:
    """Zero is what codex says when its service reported none."""
    stream, _ = read([{"type": "turn.completed", "usage": {"input_tokens": 0, "output_tokens": 0}}])
    assert stream.conclude().usage is None


def test_a_second_turn_that_is_not_over_does_not_count() -> None:
    """The end of the first is not the end."""
    stream, _ = read([*recorded("codex-ok"), {"type": "turn.started"}])
    assert not stream.conclude().finished


@pytest.mark.parametrize("case", CASES)
def test_no_part_of_a_stream_without_its_end_counts(case: str) -> None:
    """Cut after any line before the end of the turn: not finished, so a fault."""
    lines = recorded(case)
    ends = next(number for number, line in enumerate(lines) if line["type"] in ENDS)
    for length in range(ends + 1):
        said = read(lines[:length])[0].conclude()
        assert not said.finished
        assert settle(said, code=0, timed_out=False).fault is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
kinds = st.sampled_from(["command_execution", "file_change", "agent_message", "todo_list", "error", "reasoning", "x"])
fields = st.sampled_from(["id", "text", "items", "changes", "status", "message", "usage", "aggregated_output", "tool"])
items = st.builds(lambda kind, more: {**more, "type": kind}, kinds, st.dictionaries(fields, json_values))
types = st.sampled_from(
    ["thread.started", "turn.started", "item.started", "item.completed", "error", *ENDS, "another.kind"]
)
objects = st.builds(
    lambda kind, item, more: {**more, "type": kind, "item": item},
    types,
    items | json_values,
    st.dictionaries(st.sampled_from(["message", "error", "usage", "thread_id"]), json_values),
)


@given(st.lists(objects, max_size=6))
def test_whatever_the_stream_holds_it_is_read(lines: list[dict[str, Any]]) -> None:
    """Other versions say other things: never an error, and finished only with the end of a turn."""
    said = read(lines)[0].conclude()
    last = next((line["type"] for line in reversed(lines) if line["type"] in (*ENDS, "turn.started")), None)
    assert said.finished == (last in ENDS)
    assert isinstance(said.text, str)
    assert (said.trouble is not None) or last != "turn.failed"
    assert said.usage is None or isinstance(said.usage, Usage)


@given(st.dictionaries(st.text(max_size=10), json_values))
def test_any_object_at_all_is_read(line: dict[str, Any]) -> None:
    """Also those without a type, or with one that is no word."""
    assert not read([line])[0].conclude().finished or line.get("type") in ENDS
