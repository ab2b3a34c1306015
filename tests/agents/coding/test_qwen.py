"""Qwen Code: its command line, its settings and its stream, as recorded from the real program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.dialect import Ask, RoleText
from interlock.agents.coding.events import Planned, Said, SessionBegan, Spent, ToolState, ToolUsed
from interlock.agents.coding.qwen import Qwen, QwenStream, taken_literally
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Kind
from interlock.agents.runner import Usage

STREAMS = Path(__file__).parents[1] / "streams"
CASES = sorted(path.stem for path in STREAMS.glob("qwen-*.jsonl"))


def recorded(case: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines() if line[:1] == "{"]


def read(lines: list[dict[str, Any]]) -> tuple[QwenStream, list[Any]]:
    stream = QwenStream()
    return stream, [event for line in lines for event in stream.take(line)]


def ask(prompt: str = "# task\n", workspace: Path = Path("/ws"), **more: Any) -> Ask:
    return Ask(prompt=prompt, workspace=workspace, folder=Path("/records"), **more)


def options(asked: Ask, name: str) -> list[str]:
    argv = Qwen().invocation("qwen", asked).argv
    return [one.removeprefix(f"--{name}=") for one in argv if one.startswith(f"--{name}=")]


def test_the_brief_goes_in_whole_on_standard_input() -> None:
    """However long it is: the command line holds nothing of it."""
    prompt = "x" * 500_000
    call = Qwen().invocation("qwen", ask(prompt))
    assert call.stdin == prompt
    assert sum(map(len, call.argv)) < 1_000


def test_role_model_and_further_arguments_are_handed_over() -> None:
    """The role follows Qwen's own instructions; what settings add comes last."""
    asked = ask(role=RoleText("r", "d", "--You do x."), model="m", args=("--auth-type", "openai"))
    call = Qwen().invocation("/bin/qwen", asked)
    assert call.argv[0] == "/bin/qwen"
    assert "--append-system-prompt=--You do x." in call.argv
    assert "--model=m" in call.argv
    assert call.argv[-2:] == ("--auth-type", "openai")


def test_without_a_role_or_a_model_those_of_the_user_stay() -> None:
    """Neither instructions nor a model are forced upon Qwen."""
    assert options(ask(), "append-system-prompt") == []
    assert options(ask(), "model") == []


def test_what_has_no_option_is_set_below_the_settings_of_the_user() -> None:
    """No update, no statistics, no long waits, no requests for its memory: unless the user says otherwise."""
    call = Qwen().invocation("qwen", ask())
    (path,) = call.files
    assert call.env == {"QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(path)}
    found = json.loads(call.files[path])
    assert found["general"]["enableAutoUpdate"] is False
    assert found["privacy"]["usageStatisticsEnabled"] is False
    assert found["memory"]["enableManagedAutoMemory"] is False
    assert found["model"]["generationConfig"]["maxRetries"] == 0


def test_an_at_sign_is_not_the_name_of_a_file() -> None:
    """Qwen's own way of saying so, which the agent is told of once."""
    assert taken_literally("a@b.c\n@x \\@y") == "(Below, `\\@` stands for a plain at sign.)\n\na\\@b.c\n\\@x \\@y"
    assert taken_literally("nothing \\@special") == "nothing \\@special"


@given(st.text(alphabet="@\\/ a\n", max_size=20))
def test_qwen_finds_no_file_and_no_command_in_a_brief(prompt: str) -> None:
    """And nothing but backslashes is added to it."""
    literal = taken_literally(prompt)
    assert not re.search(r"(?<!\\)@", literal)
    assert not literal.strip().startswith("/")
    assert literal.replace("\\@", "@").endswith(prompt.replace("\\@", "@"))


def test_a_call_that_went_well_is_read_completely() -> None:
    """Session, tools, text and tokens, as the real program reports them; it knows no cost."""
    stream, events = read(recorded("qwen-ok"))
    said = stream.conclude()
    assert said.finished
    assert said.acted
    assert said.text == "All done: docs/note.md written."
    assert said.session
    assert said.trouble is None
    assert said.usage == Usage(3 * 1234, 3 * 56, None)
    assert events[0] == SessionBegan(said.session, "scripted")
    assert [(event.name, event.state) for event in events if isinstance(event, ToolUsed)] == [
        ("write_file", ToolState.BEGAN),
        ("write_file", ToolState.DONE),
        ("run_shell_command", ToolState.BEGAN),
        ("run_shell_command", ToolState.DONE),
    ]
    assert [event.text for event in events if isinstance(event, Said)] == [said.text]
    assert [event.usage for event in events if isinstance(event, Spent)] == [
        Usage(1234, 56),
        Usage(2 * 1234, 2 * 56),
        Usage(3 * 1234, 3 * 56),
        said.usage,
    ]
    assert settle(said, code=0, timed_out=False).fault is None


def test_what_came_from_a_cache_is_not_counted_twice() -> None:
    """Qwen's input includes it."""
    usage = {"input_tokens": 100, "output_tokens": 5, "cache_read_input_tokens": 80}
    assert read([{"type": "result", "result": "x", "usage": usage}])[0].conclude().usage == Usage(100, 5, None)


def result_of(content: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": content}
    return {"type": "user", "message": {"content": [block]}}


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ('Qwen Code requires permission to use "write_file", but that permission was declined', ToolState.REFUSED),
        ('Tool "edit" is denied by permission rules.', ToolState.REFUSED),
        ("File not found: /ws/a", ToolState.FAILED),
    ],
)
def test_a_refused_edit_is_told_as_refused(content: str, state: ToolState) -> None:
    """Not as a tool that failed."""
    block = {"type": "tool_use", "id": "1", "name": "edit", "input": {"file_path": "/ws/a"}}
    _, events = read([{"type": "assistant", "message": {"content": [block]}}, result_of(content)])
    assert events == [ToolUsed("1", "edit", "/ws/a"), ToolUsed("1", "edit", "/ws/a", state)]


def test_its_list_of_tasks_is_a_plan() -> None:
    """It names the tool in its own way."""
    given_ = {"todos": [{"id": "1", "content": "a", "status": "pending"}]}
    block = {"type": "tool_use", "id": "1", "name": "todo_write", "input": given_}
    stream, events = read([{"type": "assistant", "message": {"content": [block]}}])
    assert events == [Planned((("a", "pending"),))]
    assert stream.acted


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("qwen-http-401", Kind.ACCESS, None),
        ("qwen-http-500", Kind.SERVICE, None),
        ("qwen-http-429", Kind.LIMITED, "429 rate limit reached"),
    ],
)
def test_an_error_that_is_told_as_a_success_is_none(case: str, kind: Kind, text: str | None) -> None:
    """Exit status 0, no error in the result, the error as the answer; tokens of failed requests are unknown."""
    lines = recorded(case)
    assert lines[-1]["is_error"] is False
    said = read(lines)[0].conclude()
    assert said.trouble is not None
    assert said.trouble.kind is kind
    assert text in (None, said.trouble.text)
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None


def answer(text: str, tokens: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": tokens, "output_tokens": tokens}
    message = {"id": "1", "content": [{"type": "text", "text": text}], "usage": usage}
    return [{"type": "assistant", "message": message}, {"type": "result", "result": text}]


@pytest.mark.parametrize(
    "text",
    [
        "[API Error: terminated]",
        "I will now look.\n[API Error: terminated]\n",
        "[API Error: 429 slow]\nPossible quota limitations in place or slow response times detected.",
        "[API Error: 429 slow]\nPlease wait and try again later.",
        "[API Error: [a] and b]",
    ],
)
@pytest.mark.parametrize("tokens", [0, 7])
def test_an_error_on_a_line_of_its_own_is_no_answer(text: str, tokens: int) -> None:
    """The whole of it, or the last line."""
    assert read(answer(text, tokens))[0].conclude().trouble is not None


@pytest.mark.parametrize("text", ["It ends with [API Error: 401 bad key]", "Seen:[API Error: x]\nPlease wait."])
def test_an_error_behind_other_words_is_one_only_if_the_message_was_cut_off(text: str) -> None:
    """Then its tokens are not known; otherwise the agent ends by quoting it."""
    assert read(answer(text, 0))[0].conclude().trouble is not None
    assert read(answer(text, 7))[0].conclude().trouble is None


@pytest.mark.parametrize(
    "text",
    [
        "It said [API Error: x]\n\nThat is fixed now.\nDone.",
        "[API Error: 401 bad key] is what the log says.",
        "[API Error: x]\nDone.",
        "`[API Error: 401 bad key]`",
    ],
)
@pytest.mark.parametrize("tokens", [0, 7])
def test_an_answer_that_speaks_of_errors_is_an_answer(text: str, tokens: int) -> None:
    """It goes on after them."""
    assert read(answer(text, tokens))[0].conclude().trouble is None


def test_newer_versions_tell_an_error_as_one() -> None:
    """With the words beside the result."""
    line = {"type": "result", "subtype": "error_during_execution", "is_error": True, "error": {"message": "no model"}}
    found = read([line])[0].conclude().trouble
    assert found is not None
    assert "no model" in found.text


@pytest.mark.parametrize("case", CASES)
def test_a_stream_that_was_cut_off_is_not_finished(case: str) -> None:
    """At every line of every recording: the last one is what counts."""
    lines = recorded(case)
    for length in range(len(lines)):
        assert not read(lines[:length])[0].conclude().finished


KEYS = ["content", "type", "text", "name", "input", "todos", "id", "message", "usage", "input_tokens", "is_error"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=10,
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result"])},
    optional={"name": st.just("todo_write") | json_values, "input": json_values, "content": json_values},
)
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(["system", "assistant", "user"]) | json_values},
    optional={"message": st.fixed_dictionaries({"content": st.lists(blocks, max_size=3)}) | json_values},
)
ends = st.fixed_dictionaries(
    {"type": st.just("result")}, optional={"result": json_values, "usage": json_values, "error": json_values}
)


@given(st.lists(lines, max_size=6))
def test_no_stream_is_an_error_and_none_is_finished_without_its_end(stream: list[dict[str, Any]]) -> None:
    """Whatever objects come."""
    assert not read(stream)[0].conclude().finished


@given(ends)
def test_no_end_is_an_error(end: dict[str, Any]) -> None:
    """Whatever stands in it: it is the end."""
    assert read([end])[0].conclude().finished
