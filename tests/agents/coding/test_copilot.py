"""GitHub Copilot CLI: its command line, its plugin and its stream, as recorded from the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.copilot import Copilot, CopilotStream, usage_in
from interlock.agents.coding.dialect import Ask, LooksBack, RoleText
from interlock.agents.coding.events import Said, SessionBegan, Thought, ToolState, ToolUsed, Waits, Warned
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Kind
from interlock.agents.runner import Usage
from interlock.contracts import Reason

STREAMS = Path(__file__).parents[1] / "streams"
CASES = sorted(path.stem for path in STREAMS.glob("copilot-*.jsonl"))
ROLE = RoleText("interlock-x", 'does "x": y', "You do x.\n---\nname: z")
PLUGIN = Path("/records/copilot-plugin")
USAGE = Path("/records/copilot-usage.json")
DONE = {"type": "result", "sessionId": "s1", "exitCode": 0}


def recorded(case: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines() if line[:1] == "{"]


def read(lines: list[dict[str, Any]]) -> tuple[CopilotStream, list[Any]]:
    stream = CopilotStream(USAGE)
    return stream, [event for line in lines for event in stream.take(line)]


def ask(prompt: str = "# task\n", workspace: Path = Path("/ws"), **more: Any) -> Ask:
    return Ask(prompt=prompt, workspace=workspace, folder=Path("/records"), **more)


def test_the_brief_goes_in_whole_on_standard_input() -> None:
    """However long it is: the command line holds nothing of it."""
    prompt = "x" * 500_000
    call = Copilot().invocation("copilot", ask(prompt))
    assert call.stdin == prompt
    assert sum(map(len, call.argv)) < 1_000


def test_role_model_and_further_arguments_are_handed_over() -> None:
    """The role is a custom agent in a plugin of this call; what settings add comes last."""
    call = Copilot().invocation("/bin/copilot", ask(role=ROLE, model="gpt-5.4", args=("--context", "default")))
    assert call.argv[0] == "/bin/copilot"
    assert f"--plugin-dir={PLUGIN}" in call.argv
    assert "--agent=interlock:interlock-x" in call.argv
    assert "--model=gpt-5.4" in call.argv
    assert call.argv[-2:] == ("--context", "default")
    assert json.loads(call.files[PLUGIN / "plugin.json"])["name"] == "interlock"
    _, head, text = call.files[PLUGIN / "agents" / "interlock-x.agent.md"].split("---\n", 2)
    assert head == 'name: interlock-x\ndescription: "does \\"x\\": y"\n'
    assert text == "You do x.\n---\nname: z\n"


def test_without_a_role_or_a_model_those_of_the_user_stay() -> None:
    """No plugin, no agent, no model."""
    call = Copilot().invocation("copilot", ask())
    assert not call.files
    assert not any(one.startswith(("--plugin-dir", "--agent", "--model")) for one in call.argv)


def test_nobody_is_asked_and_nothing_is_sent_or_updated() -> None:
    """Neither questions nor updates nor telemetry."""
    call = Copilot().invocation("copilot", ask())
    assert {"--no-ask-user", "--disable-client-telemetry"} <= set(call.argv)
    assert call.env["COPILOT_AUTO_UPDATE"] == "false"


def test_a_call_that_went_well_is_read_completely() -> None:
    """Session, tools and text as the real program reports them; tokens are in a file of their own."""
    stream, events = read(recorded("copilot-ok"))
    said = stream.conclude()
    assert said.finished
    assert said.acted
    assert said.text == "All done: docs/note.md written."
    assert said.session
    assert said.trouble is None
    assert said.usage is None
    used = [(event.name, event.subject, event.state) for event in events if isinstance(event, ToolUsed)]
    assert ("create", "/workspace/docs/note.md", ToolState.BEGAN) in used
    assert ("create", "/workspace/docs/note.md", ToolState.DONE) in used
    assert used[-1] == ("bash", "echo shell-was-here > shell.txt", ToolState.DONE)
    assert [event.text for event in events if isinstance(event, Said)] == [said.text]
    assert events[-1] == SessionBegan(said.session)
    assert settle(said, code=0, timed_out=False).fault is None


def account(*models: tuple[object, object]) -> str:
    metrics = {str(at): {"usage": {"inputTokens": into, "outputTokens": out}} for at, (into, out) in enumerate(models)}
    return json.dumps({"totalPremiumRequestCost": 1, "modelMetrics": metrics})


def test_tokens_come_from_its_own_account() -> None:
    """Of all models together; what it charges is in credits, not in dollars."""
    stream, _ = read(recorded("copilot-ok"))
    assert isinstance(stream, LooksBack)
    stream.look_back("", {USAGE: account((1000, 50), (10, 5))})
    assert stream.conclude().usage == Usage(1010, 55, None)
    assert Copilot().invocation("copilot", ask()).leaves == (USAGE,)
    assert f"--usage-output-file={USAGE}" in Copilot().invocation("copilot", ask()).argv


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "{}", account((0, 0)), account((None, "x"))])
def test_an_account_that_says_nothing_is_unknown(text: str) -> None:
    """Never a made-up zero."""
    assert usage_in(text) is None


def test_a_refused_edit_is_told_as_refused() -> None:
    """Not as a tool that failed."""
    _, events = read(recorded("copilot-refused"))
    assert [event.state for event in events if isinstance(event, ToolUsed)] == [ToolState.BEGAN, ToolState.REFUSED]


def test_a_patch_is_shown_by_what_it_changes() -> None:
    """It is text, not an object with a path; a failed one is told as failed."""
    start = {"toolCallId": "1", "toolName": "apply_patch", "arguments": "*** Begin Patch\n*** Add File: a.txt\n+x\n"}
    end = {"toolCallId": "1", "success": False, "error": {"code": "failure"}}
    _, events = read(
        [{"type": "tool.execution_start", "data": start}, {"type": "tool.execution_complete", "data": end}]
    )
    assert events[0] == ToolUsed("1", "apply_patch", "*** Add File: a.txt")
    assert events[1] == ToolUsed("1", "apply_patch", "*** Add File: a.txt", ToolState.FAILED)


def test_what_happens_besides_can_be_watched() -> None:
    """Thoughts, warnings, and that it waits for its service."""
    lines = [
        {"type": "assistant.reasoning", "data": {"content": "hm"}},
        {"type": "session.warning", "data": {"message": "careful"}},
        {"type": "assistant.turn_retry", "data": {"reason": "rate_limit"}},
    ]
    assert read(lines)[1] == [Thought("hm"), Warned("careful"), Waits("model service: rate_limit")]


def test_words_of_a_sub_agent_are_not_the_answer() -> None:
    """They belong to the tool that called it."""
    own = {"type": "assistant.message", "data": {"content": "mine"}}
    other = {"type": "assistant.message", "data": {"content": "its", "parentToolCallId": "1"}}
    assert read([own, other, DONE])[0].conclude().text == "mine"


@pytest.mark.parametrize(
    ("case", "kind"),
    [("copilot-http-401", Kind.ACCESS), ("copilot-http-500", Kind.SERVICE), ("copilot-http-429", Kind.LIMITED)],
)
def test_an_error_of_the_service_is_no_answer(case: str, kind: Kind) -> None:
    """By its status; tokens of failed requests are unknown, and its own waiting is no date of the service."""
    stream = read(recorded(case))[0]
    stream.look_back("", {USAGE: account((0, 0))})
    said = stream.conclude()
    assert said.trouble is not None
    assert said.trouble.kind is kind
    assert said.trouble.reset_s is None
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None


def failure(kind: str, message: str = "m") -> dict[str, Any]:
    return {"type": "session.error", "data": {"errorType": kind, "message": message}}


@pytest.mark.parametrize(
    ("error", "kind", "reset_s"),
    [
        (failure("quota", "you have none left"), Kind.LIMITED, None),
        (failure("rate_limit", "total retry wait time: 59 seconds) Last error: 429 retry in 7s"), Kind.LIMITED, 7.0),
        (failure("authorization"), Kind.ACCESS, None),
        (failure("context_limit"), Kind.REQUEST, None),
        (failure("query"), Kind.SERVICE, None),
        ({"type": "session.error"}, Kind.SERVICE, None),
    ],
)
def test_what_copilot_says_of_the_service_is_understood(
    error: dict[str, Any], kind: Kind, reset_s: float | None
) -> None:
    """By the name of the error where it has no status."""
    found = read([error, DONE])[0].conclude().trouble
    assert found is not None
    assert (found.kind, found.reset_s) == (kind, reset_s)
    assert found.text


def test_an_error_after_which_the_agent_went_on_is_no_fault() -> None:
    """A new turn began."""
    assert read([failure("query"), {"type": "assistant.turn_start"}, DONE])[0].conclude().trouble is None


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("No such agent: interlock:interlock-x, available: a, b\n", Kind.ROLE),
        ("Error: No authentication information found.\n\nCopilot can be authenticated...\n", Kind.ACCESS),
    ],
)
def test_what_it_says_before_any_stream_is_not_tried_again(words: str, kind: Kind) -> None:
    """An unknown role and a missing sign-in: only a person can help."""
    stream = CopilotStream()
    stream.look_back(words, {})
    found = stream.conclude().trouble
    assert found is not None
    assert found.kind is kind
    assert found.fault.reason is Reason.AGENT_ERROR


def test_words_on_standard_error_do_not_undo_a_finished_call() -> None:
    """Something that the agent ran may have said them."""
    stream, _ = read(recorded("copilot-ok"))
    stream.look_back("gh: not logged in to any host\nNo such agent: x\n", {})
    assert stream.conclude().trouble is None


@pytest.mark.parametrize("case", CASES)
def test_a_stream_that_was_cut_off_is_not_finished(case: str) -> None:
    """At every line of every recording: the last one is what counts."""
    lines = recorded(case)
    for length in range(len(lines)):
        assert not read(lines[:length])[0].conclude().finished


KEYS = ["content", "toolCallId", "toolName", "arguments", "success", "error", "code", "message", "statusCode", "reason"]
TYPES = [
    "assistant.turn_start",
    "assistant.message",
    "assistant.reasoning",
    "assistant.turn_retry",
    "tool.execution_start",
    "tool.execution_complete",
    "session.error",
    "session.warning",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=10,
)
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES) | json_values}, optional={"data": json_values, "sessionId": json_values}
)


@given(st.lists(lines, max_size=6), st.text(max_size=40))
def test_no_stream_is_an_error_and_none_is_finished_without_its_end(stream: list[dict[str, Any]], words: str) -> None:
    """Whatever objects come, and whatever stands in the account."""
    reader, _ = read(stream)
    reader.look_back(words, {USAGE: words})
    assert not reader.conclude().finished


@given(json_values)
def test_no_account_is_an_error(account: Any) -> None:
    """Whatever objects stand in it."""
    for metrics in (account, {"a": account}, {"a": {"usage": account}}):
        usage_in(json.dumps({"modelMetrics": metrics}))
