"""Gemini CLI: its command line, its policy and its stream, as recorded from the real program."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.dialect import Ask, LooksBack, RoleText
from interlock.agents.coding.events import Planned, Said, SessionBegan, Spent, ToolState, ToolUsed, Warned
from interlock.agents.coding.gemini import Gemini, GeminiStream, service_trouble, taken_literally
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Kind
from interlock.agents.runner import Usage

STREAMS = Path(__file__).parents[1] / "streams"
CASES = sorted(path.stem for path in STREAMS.glob("gemini-*.jsonl"))


def recorded(case: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines() if line[:1] == "{"]


def read(lines: list[dict[str, Any]]) -> tuple[GeminiStream, list[Any]]:
    stream = GeminiStream()
    return stream, [event for line in lines for event in stream.take(line)]


def ask(prompt: str = "# task\n", workspace: Path = Path("/ws"), **more: Any) -> Ask:
    return Ask(prompt=prompt, workspace=workspace, folder=Path("/records"), **more)


def policy_of(asked: Ask) -> list[dict[str, Any]]:
    """The rules that gemini gets, read from the file that its command line names."""
    call = Gemini().invocation("gemini", asked)
    if "--admin-policy" not in call.argv:
        assert not call.files
        return []
    path = Path(call.argv[call.argv.index("--admin-policy") + 1])
    rules: list[dict[str, Any]] = tomllib.loads(call.files[path])["rule"]
    return rules


def test_the_brief_goes_in_whole_on_standard_input() -> None:
    """However long it is: the command line holds nothing of it."""
    prompt = "x" * 500_000
    call = Gemini().invocation("gemini", ask(prompt))
    assert call.stdin == prompt
    assert sum(map(len, call.argv)) < 1_000


def test_role_model_and_further_arguments_are_handed_over() -> None:
    """The role in a file of the call that replaces gemini's own instructions; what settings add comes last."""
    role = RoleText("interlock-x", "does x", "You do x.")
    call = Gemini().invocation("/bin/gemini", ask(role=role, model="gemini-2.5-pro", args=("-e", "none")))
    assert call.argv[0] == "/bin/gemini"
    path = Path(call.env["GEMINI_SYSTEM_MD"])
    assert path.parent == Path("/records")
    assert call.files[path].startswith("You do x.\n")
    assert {"${AgentSkills}", "${SubAgents}"} <= set(call.files[path].split())
    assert call.argv[call.argv.index("-m") + 1] == "gemini-2.5-pro"
    assert call.argv[-2:] == ("-e", "none")


def test_without_a_role_or_a_model_those_of_the_user_stay() -> None:
    """Neither instructions nor a model are forced upon gemini."""
    call = Gemini().invocation("gemini", ask())
    assert "GEMINI_SYSTEM_MD" not in call.env
    assert "-m" not in call.argv
    assert not call.files


def test_nobody_is_asked() -> None:
    """Everything that no rule forbids is allowed, and the folder is trusted for this call."""
    call = Gemini().invocation("gemini", ask())
    assert call.argv[call.argv.index("--approval-mode") + 1] == "yolo"
    assert "--skip-trust" in call.argv
    assert call.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


def test_a_file_named_after_an_at_sign_is_not_pasted_into_the_brief(tmp_path: Path) -> None:
    """Its name gets a backslash, which is how gemini is told to leave it; everything else stays as it is."""
    (tmp_path / "src").mkdir()
    (tmp_path / "a b.md").write_text("")
    prompt = 'See @src/, @src. @"a b.md" @a\\ b.md \\@src\n@pytest.fixture a@src.org @@ -1 @@ @' + "x" * 5000
    expected = 'See \\@src/, \\@src. \\@"a b.md" \\@a\\ b.md \\@src\n@pytest.fixture a@src.org @@ -1 @@ @' + "x" * 5000
    assert taken_literally(prompt, tmp_path) == expected


def test_a_brief_that_begins_like_a_command_is_none() -> None:
    """A line break before the slash."""
    assert taken_literally("/quit now", Path("/ws")) == "\n/quit now"


@given(st.text(alphabet='@ab./\\" \n,', max_size=30))
def test_nothing_but_backslashes_is_added_to_a_brief(prompt: str) -> None:
    """Without them it is the brief, letter by letter."""
    written = taken_literally(prompt, Path("/nowhere"))
    assert written.removeprefix("\n").replace("\\@", "@") == prompt.removeprefix("\n").replace("\\@", "@")


def test_gemini_does_not_search_for_files_that_the_brief_seems_to_name() -> None:
    """Its search for names that only contain the word needs a tool; without an ``@`` the agent keeps it."""
    assert policy_of(ask("@fixture\n")) == [{"toolName": ["glob"], "decision": "deny", "priority": 999}]
    assert policy_of(ask("no such sign\n")) == []


def test_a_call_that_went_well_is_read_completely() -> None:
    """Session, tools, text and tokens, as the real program reports them; it knows no cost."""
    stream, events = read(recorded("gemini-ok"))
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
    assert events[0] == SessionBegan("00000000-0000-4000-8000-000000000001", "gemini-2.5-pro")
    assert [(event.name, event.subject, event.state) for event in events if isinstance(event, ToolUsed)] == [
        ("write_file", "/workspace/docs/note.md", ToolState.BEGAN),
        ("write_file", "/workspace/docs/note.md", ToolState.DONE),
        ("run_shell_command", "echo shell-was-here > shell.txt", ToolState.BEGAN),
        ("run_shell_command", "echo shell-was-here > shell.txt", ToolState.DONE),
    ]
    assert "".join(event.text for event in events if isinstance(event, Said)) == said.text
    assert events[-1] == Spent(said.usage)
    assert settle(said, code=0, timed_out=False).fault is None


def test_a_refused_edit_is_told_as_refused() -> None:
    """Not as a tool that failed."""
    _, events = read(recorded("gemini-refused"))
    assert [event.state for event in events if isinstance(event, ToolUsed)] == [ToolState.BEGAN, ToolState.REFUSED]


def test_a_tool_that_failed_is_told_as_failed() -> None:
    """Its own error, not the policy."""
    used = {"type": "tool_use", "tool_id": "1", "tool_name": "read_file", "parameters": {"file_path": "x"}}
    failed = {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"type": "file_not_found"}}
    _, events = read([used, failed])
    assert events[-1] == ToolUsed("1", "read_file", "x", ToolState.FAILED)


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("gemini-http-401", Kind.ACCESS, "invalid key, UNAUTHENTICATED"),
        ("gemini-http-500", Kind.SERVICE, "the model is down, INTERNAL"),
        ("gemini-http-429", Kind.LIMITED, None),
    ],
)
def test_an_error_of_the_service_is_no_answer(case: str, kind: Kind, text: str | None) -> None:
    """With its status where gemini tells it, else by its words; tokens of failed requests are unknown."""
    said = read(recorded(case))[0].conclude()
    assert said.trouble is not None
    assert said.trouble.kind is kind
    assert text is None or said.trouble.text == text
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None


@pytest.mark.parametrize(
    ("message", "kind", "reset_s"),
    [
        (
            '[API Error: {"error":{"code":429,"message":"Quota exceeded. Please retry in 12.5s.","status":"X"}}]',
            Kind.LIMITED,
            12.5,
        ),
        (
            '[API Error: {"error":{"code":429,"message":"m","details":[7,{"retryDelay":"34.5s"},{"retryDelay":"x"}]}}]',
            Kind.LIMITED,
            34.5,
        ),
        ("[API Error: [odd] words]\nPlease wait, your quota is used up", Kind.LIMITED, None),
        ('[API Error: {"error":"flat"}]', Kind.SERVICE, None),
        ("Operation cancelled.", Kind.SERVICE, None),
        ("", Kind.SERVICE, None),
    ],
)
def test_what_gemini_says_of_the_service_is_understood(message: str, kind: Kind, reset_s: float | None) -> None:
    """JSON in words, words alone, or nothing."""
    found = service_trouble(message)
    assert (found.kind, found.reset_s) == (kind, reset_s)
    assert found.text


DONE = {"type": "result", "status": "success", "stats": {"input_tokens": 10, "output_tokens": 1}}
SPOKEN = {"type": "message", "role": "assistant", "content": "hm", "delta": True}
LOOP = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", ""),
        (
            "Attempt 1 failed: slow\nSuggested retry after 40s.. Retrying after 43529ms...\n",
            "slow Suggested retry after 40s",
        ),
        (
            "Attempt 1 failed: slow. Retrying after 9ms...\nAttempt 2 failed. Retrying with backoff...\n",
            "a request failed",
        ),
        ("Attempt 2 failed with status 503. Retrying with backoff... _ApiError: {}\n", "with status 503"),
        ("Attempt 2 failed: slow. Max attempts reached\n", ""),
        ("My Attempt 1 failed: x. Retrying with y\n", ""),
    ],
)
def test_a_request_that_is_made_again_is_what_it_waits_for(words: str, why: str) -> None:
    """While an answer is due: not when it speaks, and not when a tool of its is at work."""
    work: dict[str, Any] = {
        "type": "tool_use",
        "tool_id": "1",
        "tool_name": "run_shell_command",
        "parameters": {"command": "make"},
    }
    speech = {"type": "message", "role": "assistant", "content": "Well", "delta": True}
    done = {"type": "tool_result", "tool_id": "1", "status": "success"}
    cases: list[tuple[list[dict[str, Any]], bool]] = [
        ([], True),
        ([work], False),
        ([work, done], True),
        ([speech], False),
    ]
    for lines, waits in cases:
        stream, _ = read(lines)
        assert isinstance(stream, LooksBack)
        stream.look_back(words, {})
        assert stream.conclude().waiting == (why if waits else "")


def test_an_agent_that_stopped_itself_is_no_success() -> None:
    """A loop that it found, or its limit of turns: the stream says success all the same."""
    stream, events = read([SPOKEN, LOOP, DONE])
    found = stream.conclude().trouble
    assert found is not None
    assert found.text == "the agent stopped by itself: Loop detected, stopping execution"
    assert Warned("Loop detected, stopping execution") in events


@pytest.mark.parametrize("more", [SPOKEN, {"type": "tool_use", "tool_id": "1", "tool_name": "x", "parameters": {}}])
def test_an_error_after_which_the_agent_went_on_is_no_fault(more: dict[str, Any]) -> None:
    """It found its way out of the loop."""
    assert read([LOOP, more, DONE])[0].conclude().trouble is None


def test_a_result_that_is_no_success_is_told_with_the_error_before_it() -> None:
    """An answer that gemini could not use: the reason is in the event, the result has none."""
    error = {"type": "error", "severity": "error", "message": "The model returned an empty response"}
    found = read([error, {**DONE, "status": "error"}])[0].conclude().trouble
    assert found is not None
    assert found.text == "The model returned an empty response"


def test_the_last_message_is_the_answer_put_together_from_its_pieces() -> None:
    """What it said before it used a tool is another message."""

    def piece(text: str) -> dict[str, Any]:
        return {**SPOKEN, "content": text}

    tool = {"type": "tool_use", "tool_id": "1", "tool_name": "x", "parameters": {}}
    assert read([piece("I "), piece("begin."), tool, piece("All "), piece("done.")])[0].conclude().text == "All done."
    assert read([piece("All done."), tool])[0].conclude().text == "All done."


def test_its_list_of_tasks_is_its_plan() -> None:
    """Entries with how far they are."""
    todos = [{"description": "one", "status": "completed"}, {"description": "two", "status": "pending"}]
    used = {"type": "tool_use", "tool_id": "1", "tool_name": "write_todos", "parameters": {"todos": todos}}
    _, events = read([used, {"type": "tool_result", "tool_id": "1", "status": "success"}])
    assert events == [Planned((("one", "completed"), ("two", "pending")))]


@pytest.mark.parametrize("case", CASES)
def test_no_part_of_a_stream_without_its_end_counts(case: str) -> None:
    """Cut after any line before the result: not finished, so a fault."""
    lines = [line for line in recorded(case) if line["type"] != "result"]
    for length in range(len(lines) + 1):
        said = read(lines[:length])[0].conclude()
        assert not said.finished
        assert settle(said, code=0, timed_out=False).fault is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(
    ["role", "content", "tool_id", "tool_name", "parameters", "status", "error", "stats", "message", "session_id"]
)
objects = st.builds(
    lambda kind, more: {**more, "type": kind},
    st.sampled_from(["init", "message", "tool_use", "tool_result", "error", "result", "another"]),
    st.dictionaries(fields, json_values),
)


@given(st.lists(objects, max_size=6))
def test_whatever_the_stream_holds_it_is_read(lines: list[dict[str, Any]]) -> None:
    """Other versions say other things: never an error, and finished only with a result."""
    said = read(lines)[0].conclude()
    assert said.finished == any(line["type"] == "result" for line in lines)
    assert isinstance(said.text, str)
    assert said.usage is None or isinstance(said.usage, Usage)


@given(st.dictionaries(st.text(max_size=10), json_values))
def test_any_object_at_all_is_read(line: dict[str, Any]) -> None:
    """Also those without a type, or with one that is no word."""
    assert not read([line])[0].conclude().finished or line.get("type") == "result"
