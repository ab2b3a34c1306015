"""Claude Code: its command line and its stream, as recorded from the real program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.claude import Claude, ClaudeStream
from interlock.agents.coding.dialect import Ask, RoleText
from interlock.agents.coding.events import Planned, SessionBegan, Spent, ToolState, ToolUsed, Waits
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Kind
from interlock.agents.runner import Usage

STREAMS = Path(__file__).parents[1] / "streams"
CASES = sorted(path.stem for path in STREAMS.glob("claude-*.jsonl"))


def recorded(case: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines() if line[:1] == "{"]


def read(lines: list[dict[str, Any]], role: str | None = None) -> tuple[ClaudeStream, list[Any]]:
    stream = ClaudeStream(role)
    return stream, [event for line in lines for event in stream.take(line)]


def ask(workspace: Path = Path("ws"), **more: Any) -> Ask:
    return Ask(prompt="# task\n", workspace=workspace, folder=Path("/records"), **more)


def settings_in(asked: Ask) -> Any:
    call = Claude().invocation("claude", asked)
    path = Path(call.argv[call.argv.index("--settings") + 1])
    return json.loads(call.files[path])


def test_without_a_layer_it_works_in_its_folder_and_asks_nobody() -> None:
    """Edits there and all that edits nothing are allowed; the folder of brief and answer is its own too."""
    argv = Claude().invocation("claude", ask()).argv
    assert argv[argv.index("--permission-mode") + 1] == "acceptEdits"
    assert argv[argv.index("--add-dir") + 1] == "/records"
    allowed = settings_in(ask())["permissions"]["allow"]
    assert {"Bash", "Read", "WebFetch"} <= set(allowed)
    assert not {"Edit", "Write"} & set(allowed)


def test_the_brief_goes_in_whole_on_standard_input() -> None:
    """However long it is: the command line holds nothing of it."""
    prompt = "x" * 500_000
    call = Claude().invocation("claude", Ask(prompt, Path("ws"), Path("records")))
    assert call.stdin == prompt
    assert sum(map(len, call.argv)) < 5_000


def test_role_model_and_further_arguments_are_handed_over() -> None:
    """The role as an agent of the session, chosen by name; what settings add comes last."""
    role = RoleText("interlock-x", "does x", "You do x.")
    call = Claude().invocation("/bin/claude", ask(role=role, model="opus", args=("--add-dir", "..")))
    assert call.argv[0] == "/bin/claude"
    assert json.loads(call.argv[call.argv.index("--agents") + 1]) == {
        "interlock-x": {"description": "does x", "prompt": "You do x."}
    }
    assert call.argv[call.argv.index("--agent") + 1] == "interlock-x"
    assert call.argv[call.argv.index("--model") + 1] == "opus"
    assert call.argv[-2:] == ("--add-dir", "..")


def test_tools_of_servers_are_free_by_a_hook() -> None:
    """Rules name servers one by one, and the user's are not known."""
    (hook,) = settings_in(ask())["hooks"]["PreToolUse"]
    assert hook["matcher"] == "mcp__.*"
    said = subprocess.run(["sh", "-c", hook["hooks"][0]["command"]], check=True, capture_output=True).stdout
    assert json.loads(said)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_a_call_that_went_well_is_read_completely() -> None:
    """Session, tools, text, tokens and cost, as the real program reports them."""
    stream, events = read(recorded("claude-ok"))
    said = stream.conclude()
    assert said.finished
    assert said.acted
    assert said.text
    assert said.session
    assert said.trouble is None
    assert said.usage is not None
    assert said.usage.input_tokens
    assert said.usage.output_tokens
    assert said.usage.cost_usd
    assert isinstance(events[0], SessionBegan)
    tools = [event for event in events if isinstance(event, ToolUsed)]
    assert [tool.state for tool in tools][:2] == [ToolState.BEGAN, ToolState.DONE]
    assert [event for event in events if isinstance(event, Spent)]
    assert settle(said, code=0, timed_out=False).fault is None


def test_a_refused_edit_is_told_as_refused() -> None:
    """Not as a tool that failed."""
    _, events = read(recorded("claude-refused"))
    (refused,) = [event for event in events if isinstance(event, ToolUsed) and event.state is ToolState.REFUSED]
    assert (refused.name, refused.subject) == ("Write", "/workspace/secret.md")


@pytest.mark.parametrize(("status", "kind"), [(429, Kind.LIMITED), (500, Kind.SERVICE), (401, Kind.ACCESS)])
def test_an_error_of_the_service_is_no_answer(status: int, kind: Kind) -> None:
    """The stream says success and has a text; the fault is found all the same."""
    stream, events = read(recorded(f"claude-http-{status}"))
    said = stream.conclude()
    assert said.trouble is not None
    assert said.trouble.kind is kind
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None
    if status != 401:
        assert [event for event in events if isinstance(event, Waits)]


def test_a_used_up_subscription_says_when_it_is_open_again() -> None:
    """The event before the refusal carries the moment."""
    from datetime import UTC, datetime

    resets = datetime.now(UTC).timestamp() + 1000
    limit = {"status": "rejected", "resetsAt": resets, "rateLimitType": "five_hour"}
    refused = {"type": "result", "subtype": "success", "is_error": True, "result": "You've hit your session limit"}
    stream, events = read([{"type": "rate_limit_event", "rate_limit_info": limit}, refused])
    found = stream.conclude().trouble
    assert found is not None
    assert found.kind is Kind.LIMITED
    assert found.reset_s is not None
    assert 900 < found.reset_s <= 1000
    assert isinstance(events[0], Waits)


def test_a_role_that_the_agent_does_not_know_is_a_fault() -> None:
    """The list of agents in its first event must have ours."""
    lines = recorded("claude-ok")
    assert read(lines, role="interlock-x")[0].conclude().trouble is not None
    known = [{**lines[0], "agents": ["interlock-x"]}, *lines[1:]]
    assert read(known, role="interlock-x")[0].conclude().trouble is None


def test_a_turn_limit_or_other_stop_of_its_own_is_no_success() -> None:
    """Errors without a status of the service: told with the agent's own word."""
    stream, _ = read([{"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["too many"]}])
    found = stream.conclude().trouble
    assert found is not None
    assert found.text == "the agent stopped by itself (error_max_turns): too many"


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"subtype": "error_during_execution", "errors": ["API Error: 529 overloaded_error"]}, Kind.LIMITED),
        ({"subtype": "error_during_execution", "errors": ["API Error: 401 bad key"]}, Kind.ACCESS),
        ({"subtype": "error_during_execution"}, Kind.SERVICE),
        ({"subtype": "error_max_budget_usd"}, Kind.REQUEST),
    ],
)
def test_an_error_in_its_work_means_what_its_words_say(more: dict[str, Any], kind: Kind, is_error: bool) -> None:
    """Only a limit of its own is the same at every try; some versions call none of them an error."""
    found = read([{"type": "result", "is_error": is_error, **more}])[0].conclude().trouble
    assert found is not None
    assert found.kind is kind


def used(name: str, given_: dict[str, Any], call: str = "1") -> dict[str, Any]:
    block = {"type": "tool_use", "id": call, "name": name, "input": given_}
    return {"type": "assistant", "message": {"content": [block]}}


def test_its_list_of_tasks_is_its_plan() -> None:
    """Built up one by one, as the tools report; what was not done to the list is not shown."""
    stream, events = read(recorded("claude-tasks"))
    first, second = "Read the code", ("Write the note", "pending")
    assert [event.entries for event in events if isinstance(event, Planned)] == [
        ((first, "pending"),),
        ((first, "pending"), second),
        ((first, "in_progress"), second),
        (("Read all of the code", "completed"), second),
        (("Read all of the code", "completed"),),
    ]
    assert not [event for event in events if isinstance(event, ToolUsed)]
    assert stream.conclude().acted


def test_older_versions_give_the_list_whole() -> None:
    """Entries with how far they are."""
    todo = {"todos": [{"content": "one", "status": "completed"}, {"content": "two", "status": "pending"}]}
    assert read([used("TodoWrite", todo)])[1] == [Planned((("one", "completed"), ("two", "pending")))]


def test_tokens_are_known_while_it_works() -> None:
    """So that a call that is cut off keeps them; how much the model wrote, the result alone says."""
    lines = recorded("claude-ok")
    stream, events = read(lines[:-1])
    spent = [event.usage for event in events if isinstance(event, Spent)]
    assert spent == [Usage(1234), Usage(2 * 1234), Usage(3 * 1234)]
    assert stream.conclude().usage == spent[-1]
    whole = read(lines)[0].conclude().usage
    assert whole is not None
    assert (whole.input_tokens, whole.output_tokens) == (3 * 1234, 168)


def test_a_message_in_several_lines_is_counted_once() -> None:
    """Each line carries the same account; one that was corrected replaces it."""

    def line(message: str, read_: int, cached: int = 0) -> dict[str, Any]:
        usage = {"input_tokens": read_, "cache_read_input_tokens": cached, "output_tokens": 1}
        return {"type": "assistant", "message": {"id": message, "usage": usage}}

    _, events = read([line("a", 10), line("a", 10), line("b", 5, 20), line("b", 6, 20), line("c", 0)])
    assert events == [Spent(Usage(10)), Spent(Usage(35)), Spent(Usage(36))]


def test_zeros_are_unknown() -> None:
    """No token and no price is what it says when no request succeeded; then what its messages took is kept."""
    nothing = {"type": "result", "usage": {"input_tokens": 0, "output_tokens": 0}, "total_cost_usd": 0}
    assert read([nothing])[0].conclude().usage is None
    message = {"type": "assistant", "message": {"id": "a", "usage": {"input_tokens": 7}}}
    assert read([message, nothing])[0].conclude().usage == Usage(7)
    priced = {**nothing, "total_cost_usd": 0.5}
    assert read([priced])[0].conclude().usage == Usage(cost_usd=0.5)


@pytest.mark.parametrize("number", [10**400, float("inf"), float("nan"), True, "7", None])
def test_a_delay_beyond_all_measure_is_unknown(number: Any) -> None:
    """Nor is it the moment of a reset."""
    retry = {"type": "system", "subtype": "api_retry", "error": "busy", "retry_delay_ms": number}
    assert read([retry])[1] == [Waits("model service: busy", None)]
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": number}}
    assert read([limit])[1] == []


@pytest.mark.parametrize("case", CASES)
def test_no_part_of_a_stream_without_its_end_counts(case: str) -> None:
    """Cut after any line before the result: not finished, so a fault."""
    lines = recorded(case)
    ends = next(number for number, line in enumerate(lines) if line.get("type") == "result")
    for length in range(ends + 1):
        said = read(lines[:length])[0].conclude()
        assert not said.finished
        assert settle(said, code=0, timed_out=False).fault is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
words = st.sampled_from(["system", "assistant", "user", "result", "rate_limit_event"])
fields = st.sampled_from(
    ["message", "content", "usage", "session_id", "is_error", "result", "rate_limit_info", "agents", "retry_delay_ms"]
)
objects = st.builds(
    lambda kind, sub, more: {"type": kind, "subtype": sub, **more},
    words,
    st.sampled_from(["init", "success", "api_retry", "error_x"]),
    st.dictionaries(fields, json_values),
)


@given(st.lists(objects, max_size=6))
def test_whatever_the_stream_holds_it_is_read(lines: list[dict[str, Any]]) -> None:
    """Other versions say other things: never an error, and finished only with a result."""
    stream, _ = read(lines, role="interlock-x")
    said = stream.conclude()
    assert said.finished == any(line["type"] == "result" for line in lines)
    assert isinstance(said.text, str)
    assert said.usage is None or isinstance(said.usage, Usage)
