"""OpenCode: its command line, its settings and its stream, as recorded from the real program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.dialect import Ask, LooksBack, RoleText
from interlock.agents.coding.events import Planned, Said, SessionBegan, Spent, Thought, ToolState, ToolUsed
from interlock.agents.coding.opencode import Opencode, OpencodeStream
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Kind
from interlock.agents.runner import Usage
from interlock.contracts import Reason

STREAMS = Path(__file__).parents[1] / "streams"
CASES = sorted(path.stem for path in STREAMS.glob("opencode-*.jsonl"))
ROLE = RoleText("interlock-x", "does x", "You do x.")
STOP = {"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": 5, "output": 2}}}


def recorded(case: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines() if line[:1] == "{"]


def read(lines: list[dict[str, Any]]) -> tuple[OpencodeStream, list[Any]]:
    stream = OpencodeStream()
    return stream, [event for line in lines for event in stream.take(line)]


def ask(prompt: str = "# task\n", workspace: Path = Path("/ws"), **more: Any) -> Ask:
    return Ask(prompt=prompt, workspace=workspace, folder=Path("/records"), **more)


def settings(asked: Ask) -> dict[str, Any]:
    """What OpenCode gets to read, after it has filled in its placeholders."""
    text = Opencode().invocation("opencode", asked).env["OPENCODE_CONFIG_CONTENT"]
    found: dict[str, Any] = json.loads(re.sub(r"\{(env|file):[^}]*\}", "FILLED IN", text))
    return found


def test_the_brief_goes_in_whole_on_standard_input() -> None:
    """However long it is: neither the command line nor the environment holds anything of it."""
    prompt = "x" * 500_000
    call = Opencode().invocation("opencode", ask(prompt))
    assert call.stdin == prompt
    assert sum(map(len, (*call.argv, *call.env.values()))) < 1_000


def test_role_model_and_further_arguments_are_handed_over() -> None:
    """The role is an agent of this call; what settings add comes last."""
    call = Opencode().invocation("/bin/opencode", ask(role=ROLE, model="p/m", args=("--variant", "high")))
    assert call.argv[:2] == ("/bin/opencode", "run")
    assert call.argv[call.argv.index("--agent") + 1] == "interlock-x"
    assert call.argv[call.argv.index("--model") + 1] == "p/m"
    assert call.argv[-2:] == ("--variant", "high")
    agent = settings(ask(role=ROLE))["agent"]["interlock-x"]
    assert agent["prompt"] == "You do x."
    assert agent["description"] == "does x"
    assert (agent["mode"], agent["disable"], agent["hidden"]) == ("primary", False, False)


def test_an_unknown_role_cannot_be_replaced_in_silence() -> None:
    """The agent that OpenCode would fall back to is the role itself."""
    assert settings(ask(role=ROLE))["default_agent"] == ROLE.name


def test_without_a_role_or_a_model_those_of_the_user_stay() -> None:
    """Neither an agent nor a model is forced upon OpenCode."""
    call = Opencode().invocation("opencode", ask())
    assert "--agent" not in call.argv
    assert "--model" not in call.argv
    assert not {"agent", "default_agent"} & set(settings(ask()))


def test_nothing_is_written_or_asked_or_published() -> None:
    """No file beside the workspace, no question to a person, no update, no shared session."""
    call = Opencode().invocation("opencode", ask(role=ROLE))
    assert not call.files
    assert "--auto" in call.argv
    assert settings(ask())["share"] == "disabled"
    assert settings(ask())["autoupdate"] is False


@given(st.text(alphabet='{}evnfil:/"\\a\n', max_size=40))
def test_a_role_arrives_to_the_letter_whatever_placeholders_it_seems_to_have(text: str) -> None:
    """OpenCode fills in variables and files wherever its settings seem to name one."""
    for role in (text, f"{{env:HOME}}{text}{{file:/etc/passwd}}"):
        assert settings(ask(role=RoleText("r", "d", role)))["agent"]["r"]["prompt"] == role


def test_a_call_that_went_well_is_read_completely() -> None:
    """Session, tools, text and tokens, as the real program reports them; a price of 0 is an unknown one."""
    stream, events = read(recorded("opencode-ok"))
    said = stream.conclude()
    assert said.finished
    assert said.acted
    assert said.text == "All done: docs/note.md written."
    assert said.session == "ses_00000000000000000000000001"
    assert said.trouble is None
    assert said.usage == Usage(3 * 1234, 3 * 56, None)
    assert events[0] == SessionBegan("ses_00000000000000000000000001")
    assert [(event.name, event.subject, event.state) for event in events if isinstance(event, ToolUsed)] == [
        ("write", "/workspace/docs/note.md", ToolState.DONE),
        ("bash", "echo shell-was-here > shell.txt", ToolState.DONE),
    ]
    assert [event.text for event in events if isinstance(event, Said)] == [said.text]
    assert events[-1] == Spent(said.usage)
    assert settle(said, code=0, timed_out=False).fault is None


def test_tokens_of_cache_and_reasoning_count_and_prices_add_up() -> None:
    """Each step says its own."""
    tokens = {"input": 5, "output": 2, "reasoning": 3, "cache": {"read": 100, "write": 10}}
    step = {"type": "step_finish", "part": {"reason": "stop", "tokens": tokens, "cost": 0.25}}
    assert read([step, step])[0].conclude().usage == Usage(230, 10, 0.5)


def test_a_refused_edit_is_told_as_refused() -> None:
    """Not as a tool that failed."""
    _, events = read(recorded("opencode-refused"))
    assert [event.state for event in events if isinstance(event, ToolUsed)] == [ToolState.REFUSED]


def test_a_tool_that_failed_is_told_as_failed() -> None:
    """Its own error, not the rules."""
    state = {"status": "error", "input": {"filePath": "x"}, "error": "File not found"}
    _, events = read([{"type": "tool_use", "part": {"tool": "read", "callID": "1", "state": state}}])
    assert events == [ToolUsed("1", "read", "x", ToolState.FAILED)]


def test_plans_and_thoughts_can_be_watched() -> None:
    """The list of what it means to do, and what it thinks."""
    todos = {"todos": [{"content": "a", "status": "pending"}]}
    part = {"tool": "todowrite", "callID": "1", "state": {"status": "completed", "input": todos}}
    _, events = read([{"type": "tool_use", "part": part}, {"type": "reasoning", "part": {"text": "hm"}}])
    assert events == [Planned((("a", "pending"),)), Thought("hm")]


def test_the_last_step_that_speaks_has_the_last_word() -> None:
    """All of its texts, and none of an earlier step."""
    spoken: list[dict[str, Any]] = [
        {"type": "step_start"},
        {"type": "text", "part": {"text": "first"}},
        {"type": "step_start"},
        {"type": "text", "part": {"text": "second"}},
        {"type": "text", "part": {"text": "third"}},
        {"type": "step_start"},
        STOP,
    ]
    assert read(spoken)[0].conclude().text == "second\n\nthird"


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("opencode-http-401", Kind.ACCESS),
        ("opencode-http-500", Kind.SERVICE),
        ("opencode-http-429", Kind.LIMITED),
    ],
)
def test_an_error_of_the_service_is_no_answer(case: str, kind: Kind) -> None:
    """By its status; tokens of failed requests are unknown."""
    said = read(recorded(case))[0].conclude()
    assert said.trouble is not None
    assert said.trouble.kind is kind
    assert not said.finished
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None


def failure(name: str = "APIError", **data: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"name": name, "data": data}}


@pytest.mark.parametrize(
    ("error", "kind", "reset_s"),
    [
        (failure(message="m", statusCode=429, responseHeaders={"retry-after": "120"}), Kind.LIMITED, 120.0),
        (failure(message="m", statusCode=429, responseHeaders={"retry-after-ms": "1500"}), Kind.LIMITED, 1.5),
        (failure(message="m", statusCode=429, responseHeaders={"retry-after": "Wed, 21 Oct"}), Kind.LIMITED, None),
        (failure("ProviderAuthError", message="m"), Kind.ACCESS, None),
        (failure("ContextOverflowError", message="m"), Kind.REQUEST, None),
        (failure("UnknownError"), Kind.SERVICE, None),
        ({"type": "error"}, Kind.SERVICE, None),
    ],
)
def test_what_opencode_says_of_the_service_is_understood(
    error: dict[str, Any], kind: Kind, reset_s: float | None
) -> None:
    """By status, by the error's name, with the moment at which the service is back."""
    found = read([error])[0].conclude().trouble
    assert found is not None
    assert (found.kind, found.reset_s) == (kind, reset_s)
    assert found.text


def test_an_error_after_which_the_agent_went_on_is_no_fault() -> None:
    """It made room and tried again."""
    went_on = [failure(message="too long"), {"type": "step_start"}, {"type": "text", "part": {"text": "done"}}, STOP]
    said = read(went_on)[0].conclude()
    assert said.trouble is None
    assert said.finished


@pytest.mark.parametrize("reason", ["tool-calls", "unknown", "error"])
def test_a_step_that_is_not_the_last_is_no_end(reason: str) -> None:
    """The agent means to go on."""
    assert not read([{"type": "step_finish", "part": {"reason": reason}}])[0].conclude().finished


def test_a_role_that_was_replaced_is_no_success() -> None:
    """OpenCode says it on standard error alone, and ends with 0."""
    stream, _ = read(recorded("opencode-ok"))
    assert isinstance(stream, LooksBack)
    stream.look_back('\x1b[93m! \x1b[0m agent "interlock-x" not found. Falling back to default agent\n', {})
    said = stream.conclude()
    assert said.trouble is not None
    assert said.trouble.kind is Kind.ROLE
    fault = settle(said, code=0, timed_out=False).fault
    assert fault is not None
    assert fault.reason is Reason.AGENT_ERROR


def test_an_error_that_the_stream_only_numbers_is_looked_up_in_the_log() -> None:
    """A model that does not exist: nothing that another try would help."""
    stream, _ = read([failure("UnknownError", message="Unexpected server error. Check server logs.", ref="err_1")])
    stream.look_back('level=ERROR ref=err_1 error="ModelNotFoundError: Model not found: p/\\"m\\"." cause="x"\n', {})
    found = stream.conclude().trouble
    assert found is not None
    assert found.kind is Kind.REQUEST
    assert "Model not found" in found.text


LOGGED = (
    'timestamp={moment} level=ERROR run=1 message="stream error" providerID=p modelID=m small=false'
    ' error.error="AI_APICallError: too many requests"\n'
)


@pytest.mark.parametrize(
    ("logged", "waiting"),
    [
        ((), ""),
        (("2026-01-01T00:00:01.000Z",), "AI_APICallError: too many requests"),
        (("2025-12-31T23:59:59.000Z",), ""),
        (("2025-12-31T23:59:59.000Z", "2026-01-01T00:00:01.000Z"), "AI_APICallError: too many requests"),
        (("soon",), ""),
    ],
    ids=["none", "after its last word", "before its last word", "both", "at no moment"],
)
def test_a_failed_request_after_its_last_word_is_what_it_waits_for(logged: tuple[str, ...], waiting: str) -> None:
    """Its stream says nothing of it; the moment tells whether it went on afterwards."""
    stream, _ = read([{"type": "step_start", "timestamp": 1767225600000, "part": {}}])
    stream.look_back("".join(LOGGED.format(moment=moment) for moment in logged), {})
    assert stream.conclude().waiting == waiting


def test_a_request_that_failed_before_there_was_any_stream_is_waited_for() -> None:
    """The first one."""
    stream = OpencodeStream()
    stream.look_back(LOGGED.format(moment="2026-01-01T00:00:01.000Z"), {})
    assert stream.conclude().waiting == "AI_APICallError: too many requests"


def test_settings_that_opencode_cannot_read_are_not_tried_again() -> None:
    """Only a person can help; the message says where."""
    stream = OpencodeStream()
    stream.look_back("\x1b[91mError: \x1b[0mConfiguration is invalid at opencode.json\n↳ Expected x\n\n", {})
    found = stream.conclude().trouble
    assert found is not None
    assert found.fault.reason is Reason.AGENT_ERROR
    assert found.text == "Configuration is invalid at opencode.json ↳ Expected x"


@pytest.mark.parametrize("case", CASES)
def test_a_stream_that_was_cut_off_is_not_finished(case: str) -> None:
    """At every line of every recording: the last one is what counts."""
    lines = recorded(case)
    for length in range(len(lines)):
        assert not read(lines[:length])[0].conclude().finished


KEYS = ["part", "error", "data", "state", "input", "todos", "tokens", "cache", "cost", "text", "reason", "message"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=10,
)
TYPES = ["step_start", "text", "reasoning", "tool_use", "error", "other"]
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES) | json_values},
    optional={"part": json_values, "error": json_values, "sessionID": json_values},
)


@given(st.lists(lines, max_size=6), st.text(max_size=40))
def test_no_stream_is_an_error_and_none_is_finished_without_its_end(stream: list[dict[str, Any]], words: str) -> None:
    """Whatever objects come."""
    reader, _ = read(stream)
    reader.look_back(words, {})
    assert not reader.conclude().finished


@given(st.lists(lines | st.just(STOP) | st.fixed_dictionaries({"type": st.just("step_finish"), "part": json_values})))
def test_no_account_of_tokens_is_an_error(stream: list[dict[str, Any]]) -> None:
    """Also not with ends among them."""
    usage = read(stream)[0].conclude().usage
    assert usage is None or usage.input_tokens or usage.output_tokens
