"""What an agent reports by the protocol, as events and as an end that counts or does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.acp_profiles import PLAIN, Profile, profile_of
from interlock.agents.coding.acp_stream import AcpStream
from interlock.agents.coding.dialect import Conclusion
from interlock.agents.coding.events import Event, Planned, Spent, Spoke, Thought, ToolState, ToolUsed, Warned
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Cause
from interlock.agents.runner import Usage
from interlock.contracts import Reason


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **fields}


def thought(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}


def tool(call: str, status: str = "pending", **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, **fields}


def play(*updates: Any, profile: Profile = PLAIN, end: Any = None) -> tuple[list[Event], Conclusion]:
    """The updates, and the end of the turn (`end_turn` where none is given)."""
    stream = AcpStream(profile)
    events = list(stream.opened("s-1", None))
    for update in updates:
        events += stream.take(update)
    events += stream.answered({"stopReason": "end_turn"} if end is None else end)
    return events[1:], stream.conclude()


def test_pieces_of_a_message_are_one_text() -> None:
    """Word by word in, whole messages out; a tool call or another message's number ends one."""
    events, end = play(
        thought("let "),
        thought("me see"),
        said("I "),
        said("will."),
        tool("1", rawInput={"command": "ls"}),
        said("First.", messageId="a"),
        said("All ", messageId="b"),
        said("done.", messageId="b"),
    )
    assert [event for event in events if not isinstance(event, ToolUsed)] == [
        Thought("let me see"),
        Spoke("I will."),
        Spoke("First."),
        Spoke("All done."),
    ]
    assert (end.text, end.finished, end.acted, end.session) == ("All done.", True, True, "s-1")


def test_a_long_message_is_reported_while_it_comes() -> None:
    """At the ends of lines, and nothing is lost."""
    pieces = [said(f"line {number} {'x' * 80}\n") for number in range(40)]
    events, end = play(*pieces)
    texts = [event.text for event in events if isinstance(event, Spoke)]
    assert len(texts) > 2
    assert "".join(texts) == end.text


def test_the_last_words_are_the_answer_even_before_a_last_tool() -> None:
    """Some agents say that they are done and then tidy up."""
    _, end = play(said("All done."), tool("1", "completed", kind="execute"))
    assert end.text == "All done."


def test_a_tool_call_is_told_once_it_is_known_what_it_is_about() -> None:
    """First reports are often empty; repeated ones say nothing new."""
    events, _ = play(
        tool("1", title="Write", kind="edit", rawInput={}, locations=[]),
        tool("1", rawInput={"file_path": "docs/a.md"}),
        tool("1", "in_progress"),
        tool("1", "completed"),
        tool("1", "completed"),
        tool("2", "failed", title="make", kind="execute"),
    )
    assert events == [
        ToolUsed("1", "edit", "docs/a.md", ToolState.BEGAN),
        ToolUsed("1", "edit", "docs/a.md", ToolState.DONE),
        ToolUsed("2", "execute", "make", ToolState.FAILED),
    ]


def test_plans_are_told() -> None:
    """Each entry with how far it is."""
    entries = [{"content": "write", "status": "completed"}, {"content": "test", "status": "pending"}]
    events, _ = play({"sessionUpdate": "plan", "entries": entries})
    assert events == [Planned((("write", "completed"), ("test", "pending")))]


@pytest.mark.parametrize(
    ("updates", "end", "usage"),
    [
        ([], {"usage": {"inputTokens": 7, "outputTokens": 5}}, Usage(7, 5)),
        (
            [],
            {"usage": {"inputTokens": 7, "cachedReadTokens": 90, "cachedWriteTokens": 3, "outputTokens": 5}},
            Usage(100, 5),
        ),
        (
            [],
            {"usage": {"inputTokens": 97, "cachedReadTokens": 90, "outputTokens": 5, "totalTokens": 102}},
            Usage(97, 5),
        ),
        (
            [],
            {"usage": None, "_meta": {"quota": {"token_count": {"input_tokens": 3, "output_tokens": 4}}}},
            Usage(3, 4),
        ),
        ([said("", _meta={"usage": {"inputTokens": 2, "outputTokens": 1}})] * 3, {}, Usage(6, 3)),
        (
            [{"sessionUpdate": "usage_update", "cost": {"amount": 0.5, "currency": "USD"}}],
            {"usage": {"inputTokens": 7, "outputTokens": 5}},
            Usage(7, 5, 0.5),
        ),
        ([{"sessionUpdate": "usage_update", "cost": {"amount": 0.5, "currency": "EUR"}}], {}, None),
        ([{"sessionUpdate": "usage_update", "cost": {"amount": 0.0, "currency": "USD"}}], {}, None),
        ([], {"usage": {"inputTokens": 0, "outputTokens": 0}}, None),
        ([], {"usage": {"inputTokens": "many"}}, None),
        ([], {}, None),
    ],
    ids=str,
)
def test_usage_is_taken_from_wherever_the_agent_says_it(updates: list[Any], end: Any, usage: Usage | None) -> None:
    """Unknown is unknown; nothing at all is what a call that failed reports."""
    events, conclusion = play(*updates, said("done"), end={"stopReason": "end_turn", **end})
    assert conclusion.usage == usage
    assert [event.usage for event in events if isinstance(event, Spent)][-1:] == ([usage] if usage else [])


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        ("refusal", Cause.REQUEST, "the model refused"),
        ("max_tokens", Cause.REQUEST, "limit of tokens"),
        ("max_turn_requests", Cause.REQUEST, "limit of requests"),
        ("cancelled", Cause.SERVICE, "without bringing it to its end"),
        ("a reason to come", Cause.SERVICE, "a reason to come"),
        (None, Cause.SERVICE, "unknown"),
    ],
)
def test_only_one_reason_is_an_end(reason: str | None, kind: Cause, text: str) -> None:
    """Whatever was said before it."""
    _, end = play(said("All done."), end={"stopReason": reason})
    assert end.trouble is not None
    assert end.trouble.cause is kind
    assert text in end.trouble.text


def test_a_turn_without_words_and_tools_does_not_count() -> None:
    """However properly it ended."""
    _, end = play(said(" \n"))
    fault = settle(end, code=0, timed_out=False).fault
    assert fault is not None
    assert fault.reason is Reason.NO_VERDICT


def refusing(*after: Any, end: str = "end_turn") -> Conclusion:
    stream = AcpStream()
    list(stream.take(said("I will write it.")))
    list(stream.tool(tool("1", kind="edit", locations=[{"path": "src/a.py"}]), asked=True))
    list(stream.refused("1", "outside of the role's scope"))
    for update in (tool("1", "failed"), *after):
        list(stream.take(update))
    list(stream.answered({"stopReason": end}))
    return stream.conclude()


@pytest.mark.parametrize("end", ["end_turn", "cancelled"])
def test_an_agent_that_gives_up_at_a_refusal_has_not_done_its_part(end: str) -> None:
    """Nothing came after the refusal: some end their turn there, codex cancels it."""
    found = refusing(end=end).trouble
    assert found is not None
    assert found.text == "the agent gave up when it was refused src/a.py: outside of the role's scope"


@pytest.mark.parametrize("after", [said("Then I leave it."), tool("2", "completed", kind="execute")])
def test_an_agent_that_goes_on_after_a_refusal_has_taken_it(after: Any) -> None:
    """What it did is judged by what it left behind."""
    assert refusing(after).trouble is None


@pytest.mark.parametrize(
    ("code", "message", "data", "kind", "text"),
    [
        (
            -32603,
            "Internal error: API Error: 429 slow",
            {"errorKind": "rate_limit"},
            Cause.LIMITED,
            "API Error: 429 slow",
        ),
        (-32000, "Authentication required", None, Cause.ACCESS, "Authentication required"),
        (-32603, "Internal error", {"details": "401 bad key"}, Cause.ACCESS, "401 bad key"),
        (401, '{"error":{"code":401,"message":"bad key","status":"UNAUTHENTICATED"}}', None, Cause.ACCESS, "bad key"),
        (429, "slow", None, Cause.LIMITED, "slow"),
        (500, "oops", 7, Cause.SERVICE, "oops"),
        (-32602, "unknown model", None, Cause.REQUEST, "unknown model"),
        (7, "", None, Cause.SERVICE, "the model service failed"),
    ],
)
def test_an_error_says_what_is_wrong(code: int, message: str, data: Any, kind: Cause, text: str) -> None:
    """By the HTTP status where an agent hands it on, else by its words."""
    stream = AcpStream()
    stream.failed(code, message, data)
    found = stream.conclude().trouble
    assert found is not None
    assert (found.cause, text in found.text) == (kind, True)


# -- what adapters mix in


def test_codex_tells_its_remarks_from_messages_by_their_number() -> None:
    """A warning is one; an error after which nothing came is why the turn does not count."""
    codex = profile_of("codex")
    warning, error = said("Warning: slow disk\n\n"), said("exceeded retry limit, last status: 429 Too Many Requests\n")
    counted = {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}}
    events, good = play(warning, said("Done.", messageId="m"), warning, profile=codex, end=counted)
    assert (good.text, good.trouble) == ("Done.", None)
    assert [event for event in events if isinstance(event, Warned)] == [Warned("Warning: slow disk")] * 2
    for end in (counted, {"stopReason": "end_turn", "usage": None}):
        _, bad = play(said("I begin.", messageId="m"), error, profile=codex, end=end)
        assert bad.trouble is not None
        assert bad.trouble.cause is Cause.LIMITED
    _, recovered = play(error, said("Done.", messageId="m"), profile=codex, end=counted)
    assert recovered.trouble is None


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_an_answer_without_tokens_is_an_error_message(name: str) -> None:
    """Of agents that count them whenever a model has answered."""
    _, end = play(said("503 Service Unavailable", messageId="m"), profile=profile_of(name))
    assert end.trouble is not None
    _, end = play(said("503 Service Unavailable", messageId="m"), profile=PLAIN)
    assert end.trouble is None


# -- anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "usage_update", "other"]
)
FIELDS = ("content", "toolCallId", "status", "rawInput", "locations", "entries", "cost", "_meta", "messageId", "kind")
UPDATES = st.builds(
    lambda kind, fields: {"sessionUpdate": kind, **fields}, KNOWN, st.dictionaries(st.sampled_from(FIELDS), JSON)
)


@given(st.lists(UPDATES, max_size=8), st.sampled_from(["claude", "codex", "qwen", "acp"]), JSON)
def test_nothing_that_is_said_is_an_error_and_nothing_but_the_end_is_the_end(
    updates: list[dict[str, Any]], name: str, data: Any
) -> None:
    """Whatever the types; without an answer to the prompt a turn is never finished."""
    stream = AcpStream(profile_of(name))
    for update in updates:
        for event in stream.take(update):
            event.news()
    for event in stream.rest():
        event.news()
    assert not stream.conclude().finished
    list(stream.answered(data if isinstance(data, dict) else {"stopReason": "end_turn", "usage": data}))
    assert stream.conclude().finished
    stream.failed(1, "x", data)
    assert stream.conclude().trouble is not None
