"""What each client prints and what it means: one suite over streams of the real programs, and a table for each."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.client import Client, Seat
from interlock.agents.process import Ended
from interlock.agents.reading import Json, Reading, parsed
from interlock.agents.values import Ask, NewsKind, Role, TroubleKind, Usage

Line = dict[str, Any]
STREAMS = Path(__file__).parent / "streams"
CLIENTS = ("claude", "codex", "copilot", "gemini", "opencode", "qwen")
LIMIT, LOGIN, MODEL, REFUSED_BY, BUSY, OTHER = (
    *(TroubleKind.LIMIT, TroubleKind.LOGIN, TroubleKind.MODEL),
    *(TroubleKind.REFUSED, TroubleKind.BUSY, TroubleKind.OTHER),
)
NOTHING = Usage()
BOTH = ("began", "done")


def module(name: str) -> Client:
    found: Client = importlib.import_module(f"interlock.agents.{name}")
    return found


def ask(**more: Any) -> Ask:
    role = Role(name="tester", runner="r", type="r")
    return Ask(**{"role": role, "brief": "b", "transcript": Path("/t"), **more})


def recorded(case: str) -> tuple[Line, ...]:
    """A sample of what the real program printed."""
    return tuple(json.loads(line) for line in (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines())


@dataclass
class Heard:
    """A stream that was read to its end."""

    reader: Reading
    news: list[tuple[NewsKind, Mapping[str, Any]]] = field(default_factory=list)

    @property
    def tools(self) -> set[tuple[str, str, str]]:
        found = [facts for kind, facts in self.news if kind is NewsKind.TOOL]
        return {(facts["name"], facts["subject"], facts["state"]) for facts in found}

    def facts(self) -> dict[str, Any]:
        """By name, with the trouble's `kind`, `said` and hours `left`, all tools and all news."""
        trouble = self.reader.wrong
        left = (trouble.until - datetime.now(UTC)).total_seconds() if trouble and trouble.until else None
        found = {
            "kind": trouble and trouble.kind,
            "said": trouble and trouble.text,
            "left": left and round(left / 3600),
        }
        return {**vars(self.reader), **found, "tools": self.tools, "news": self.news}


def heard(name: str, *lines: Line, stderr: str = "", files: Mapping[str, str] | None = None, **asked: Any) -> Heard:
    """What a client's reader makes of these lines."""
    found = Heard(module(name).reader(ask(**asked), Seat(name, new_session="NEW")))
    found.reader.hear = lambda news: found.news.append((news.kind, news.facts))
    for line in lines:
        found.reader.read(Json(line))
    found.reader.end(Ended(stderr=stderr), files or {})
    return found


def used(tool: str, subject: str, *states: str) -> set[tuple[str, str, str]]:
    return {(tool, subject, state) for state in states}


NOTE, SHELL, SECRET = "/workspace/docs/note.md", "echo shell-was-here > shell.txt", "/workspace/secret.md"
OK_TOOLS = {
    "claude": used("Write", NOTE, *BOTH) | used("Bash", SHELL, *BOTH),
    "codex": used("file_change", NOTE, *BOTH) | used("command_execution", f"/bin/bash -lc '{SHELL}'", *BOTH),
    "copilot": used("create", NOTE, *BOTH) | used("bash", SHELL, *BOTH),
    "gemini": used("write_file", NOTE, *BOTH) | used("run_shell_command", SHELL, *BOTH),
    "opencode": used("write", NOTE, "done") | used("bash", SHELL, "done"),
    "qwen": used("write_file", NOTE, *BOTH) | used("run_shell_command", SHELL, *BOTH),
}
REFUSED_TOOLS = {
    "claude": used("Write", SECRET, "began", "refused"),
    "codex": set[tuple[str, str, str]](),  # an edit that its sandbox does not allow, the model is not offered
    "copilot": used("create", SECRET, "began", "refused"),
    "gemini": used("write_file", SECRET, "began", "refused"),
    "opencode": used("write", SECRET, "refused"),
}


@pytest.mark.req("AGENT-01", "AGENT-05")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_call_that_went_well_is_read_completely(name: str) -> None:
    """Session, tools, text and tokens, as the real program reports them, and told while it works."""
    account = {"copilot-usage.json": json.dumps({"modelMetrics": {"m": {"usage": COUNTED}}})}
    found = heard(name, *recorded(f"{name}-ok"), files=account)
    said = found.reader
    assert (said.finished, said.acted, said.wrong, said.waiting) == (True, True, None, "")
    assert said.text == "All done: docs/note.md written."
    assert "".join(facts["text"] for kind, facts in found.news if kind is NewsKind.TEXT) == said.text
    assert [facts["session"] for kind, facts in found.news if kind is NewsKind.SESSION][-1] == said.session
    assert found.tools == OK_TOOLS[name]
    assert (said.usage.input_tokens, said.usage.output_tokens) == (3702, 168)
    assert (said.usage.cost_usd is not None) == (name == "claude")


COUNTED = {"inputTokens": 3702, "outputTokens": 168}


@pytest.mark.parametrize("name", REFUSED_TOOLS)
def test_a_refused_edit_is_told_as_refused(name: str) -> None:
    """Not as a tool that failed."""
    assert heard(name, *recorded(f"{name}-refused")).tools == REFUSED_TOOLS[name]


@pytest.mark.req("EVID-10", "AGENT-04")
@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(("status", "kind"), [(401, LOGIN), (429, LIMIT), (500, BUSY)])
def test_an_error_of_the_service_is_no_answer(name: str, status: int, kind: TroubleKind) -> None:
    """Whatever the stream calls it; tokens of failed requests are unknown."""
    found = heard(name, *recorded(f"{name}-http-{status}")).facts()
    assert (found["kind"], found["usage"]) == (kind, NOTHING)


@pytest.mark.req("EVID-01")
@pytest.mark.parametrize(("name", "beside"), [("claude", "Some words beside it."), ("codex", '{"verdict": "ok"}')])
def test_a_form_that_the_client_held_its_model_to_is_found(name: str, beside: str) -> None:
    """It comes apart from the words beside it, where the client has any."""
    schema = {"type": "object", "properties": {"verdict": {"enum": ["ok"]}}}
    said = heard(name, *recorded(f"{name}-form"), form=schema).reader
    assert (said.form, said.text, said.finished) == ({"verdict": "ok"}, beside, True)


# The rows of each client: why, lines, what they come to; with what was printed or left beside the stream.

Row = tuple[str, list[Line], dict[str, Any]]


def result(subtype: str = "success", *errors: str, **more: Any) -> Line:
    return {"type": "result", "subtype": subtype, "errors": list(errors), **more}


def message(number: str, read: int, cached: int = 0) -> Line:
    return {
        "type": "assistant",
        "message": {"id": number, "usage": {"input_tokens": read, "cache_read_input_tokens": cached}},
    }


def limited(moment: Any) -> Line:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": moment}}


NO_COUNT: Line = {"usage": {"input_tokens": 0, "output_tokens": 0}, "total_cost_usd": 0}
CLAUDE: list[Row] = [
    (
        "its own limit of turns",
        [result("error_max_turns", "too many", is_error=True)],
        {"kind": OTHER, "exhausted": False},
    ),
    ("its own limit of cost", [result("error_max_budget_usd", is_error=True)], {"exhausted": True}),
    ("busy", [result("error_during_execution", "API Error: 529 overloaded_error")], {"kind": BUSY}),
    ("no access", [result("error_during_execution", "API Error: 401 bad key")], {"kind": LOGIN}),
    ("unknown", [result("error_during_execution")], {"kind": BUSY, "said": "error_during_execution"}),
    ("tokens while it works", list(recorded("claude-ok"))[:-1], {"usage": Usage(input_tokens=3702), "finished": False}),
    (
        "a message in several lines is counted once, and one that was corrected anew",
        [message("a", 10), message("a", 10), message("b", 5, 20), message("b", 6, 20), message("c", 0)],
        {"usage": Usage(input_tokens=36)},
    ),
    ("zeros are unknown", [result(**NO_COUNT)], {"usage": NOTHING}),
    ("zeros do not hide what messages took", [message("a", 7), result(**NO_COUNT)], {"usage": Usage(input_tokens=7)}),
    ("a price without tokens", [result(total_cost_usd=0.5)], {"usage": Usage(cost_usd=0.5)}),
    (
        "a used-up subscription says when it is open again",
        [
            limited(datetime.now(UTC).timestamp() + 18_000),
            result(is_error=True, result="You've hit your session limit"),
        ],
        {"kind": LIMIT, "left": 5},
    ),
    *((f"a reset that is none: {odd!r:.9}", [limited(odd)], {"news": []}) for odd in (10**400, math.nan, True, "7")),
    ("words, then the form", [result(result="{}", structured_output={"a": 1})], {"form": {"a": 1}, "text": ""}),
]


def item(kind: str, **facts: Any) -> Line:
    return {"type": "item.completed", "item": {"id": "1", "type": kind, **facts}}


def error(said: str) -> Line:
    return {"type": "error", "message": said}


def failed(said: str) -> Line:
    return {"type": "turn.failed", "error": {"message": said}}


SANDBOX = "bwrap: No permissions to create a new namespace"
ENDED = {"type": "turn.completed", "usage": {"input_tokens": 3802, "output_tokens": 175}}
CODEX: list[Row] = [
    ("a command that its sandbox stopped is one that failed", list(recorded("codex-sandboxed")), {"kind": None}),
    (
        "a sandbox that does not work",
        [item("command_execution", command="make", status="failed", aggregated_output=f"{SANDBOX}\n")],
        {"tools": used("command_execution", "make", "refused")},
    ),
    ("an error that the turn survives", [error("stream disconnected"), ENDED], {"kind": None, "finished": True}),
    ("an error and no end", [error("unexpected status 403 Forbidden")], {"finished": False, "kind": LOGIN}),
    ("its own limit of tokens", [failed("shared rollout token budget exhausted")], {"exhausted": True}),
    ("a turn that failed otherwise", [failed("stream disconnected")], {"exhausted": False, "kind": BUSY}),
    (
        "an error in JSON",
        [failed('{"error": {"message": "No model x", "type": "invalid_request_error", "code": null}}')],
        {"kind": REFUSED_BY, "said": "No model x, invalid_request_error"},
    ),
    ("an error in half of JSON", [failed("{broken: error 401")], {"kind": LOGIN, "said": "{broken: error 401"}),
    ("a search", [item("web_search", query="toml")], {"tools": used("web_search", "toml", "done"), "acted": True}),
    (
        "a tool of a server",
        [item("mcp_tool_call", server="github", tool="search", status="failed")],
        {"tools": used("github.search", "", "failed")},
    ),
    (
        "declined",
        [item("command_execution", command="rm", status="declined")],
        {"tools": used("command_execution", "rm", "refused")},
    ),
    ("a reconnection", [error("Reconnecting... 1/5")], {"waiting": "model service: Reconnecting... 1/5", "kind": None}),
    ("the last message", [item("agent_message", text="first"), item("agent_message", text="last")], {"text": "last"}),
    ("a second turn that is not over", [ENDED, {"type": "turn.started"}], {"finished": False}),
    (
        "the whole thread is counted, what was paid before is not",
        [ENDED],
        {"spent": Usage(input_tokens=3702, output_tokens=168), "usage": Usage(input_tokens=100, output_tokens=7)},
    ),
]


def event(kind: str, **data: Any) -> Line:
    return {"type": kind, "data": data}


def broke(kind: str, said: str = "m") -> Line:
    return event("session.error", errorType=kind, message=said)


def account(*models: tuple[object, object]) -> dict[str, str]:
    metrics = {str(at): {"usage": {"inputTokens": into, "outputTokens": out}} for at, (into, out) in enumerate(models)}
    return {"copilot-usage.json": json.dumps({"modelMetrics": metrics})}


OVER: Line = {"type": "result", "sessionId": "s1", "exitCode": 0}
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n"
COPILOT: list[Row] = [
    (
        "all models",
        [OVER],
        {"files": account((1000, 50), (10, 5)), "usage": Usage(input_tokens=1010, output_tokens=55)},
    ),
    *(
        (f"an account that says nothing: {text:.9}", [OVER], {"files": {"copilot-usage.json": text}, "usage": NOTHING})
        for text in ("", "{", "[]", "[" * 100_000, "{}", '{"modelMetrics": {"m": {"usage": {"inputTokens": "x"}}}}')
    ),
    (
        "a patch is shown by what it changes",
        [event("tool.execution_start", toolCallId="1", toolName="apply_patch", arguments=PATCH)],
        {"tools": used("apply_patch", "*** Add File: a.txt", "began")},
    ),
    ("a wait", [event("assistant.turn_retry", reason="rate_limit")], {"waiting": "model service: rate_limit"}),
    (
        "words of a sub-agent are not the answer",
        [event("assistant.message", content="mine"), event("assistant.message", content="its", parentToolCallId="1")],
        {"text": "mine"},
    ),
    ("its session, as soon as it works", [event("user.message")], {"session": "NEW"}),
    ("its session, as it says it", [event("user.message"), OVER], {"session": "s1"}),
    ("no session before there is one", [], {"session": ""}),
    ("a used-up quota", [broke("quota", "you have none left"), OVER], {"kind": LIMIT}),
    (
        "how long it waited is not when its service is back",
        [broke("rate_limit", "total retry wait time: 59 seconds) Last error: 429 retry in 7200s"), OVER],
        {"kind": LIMIT, "left": 2},
    ),
    ("no access", [broke("authorization"), OVER], {"kind": LOGIN}),
    ("too long", [broke("context_limit"), OVER], {"kind": REFUSED_BY}),
    ("unknown", [broke("query"), OVER], {"kind": BUSY}),
    ("without a word", [{"type": "session.error"}, OVER], {"kind": BUSY}),
    ("it went on after an error", [broke("query"), event("assistant.turn_start"), OVER], {"kind": None}),
    ("no sign-in", [], {"stderr": "Error: No authentication information found.\n\nCopilot can ...\n", "kind": LOGIN}),
    ("words of something that it ran", [OVER], {"stderr": "gh: not logged in\n", "kind": None}),
]


def told(text: str) -> Line:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def uses(name: str = "x", **given: Any) -> Line:
    return {"type": "tool_use", "tool_id": "1", "tool_name": name, "parameters": given}


DONE: Line = {"type": "result", "status": "success", "stats": {"input_tokens": 10, "output_tokens": 1}}
LOOP: Line = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
TRIED: Line = {"type": "tool_result", "tool_id": "1", "status": "success"}
AGAIN = "Attempt 1 failed: slow\nSuggested retry after 40s.. Retrying after 43529ms...\n"


def service(said: str) -> Line:
    return {**DONE, "status": "error", "error": {"message": said}}


def api(**facts: Any) -> str:
    return f"[API Error: {json.dumps({'error': {'code': 429, 'message': 'm', **facts}})}]"


GEMINI: list[Row] = [
    (
        "an agent that stopped itself",
        [told("hm"), LOOP, DONE],
        {"kind": OTHER, "said": "it stopped by itself: Loop detected, stopping execution"},
    ),
    ("an error after which it spoke", [LOOP, told("hm"), DONE], {"kind": None}),
    ("an error after which it worked", [LOOP, uses(), DONE], {"kind": None}),
    ("told by the error before it", [error("No reply"), {**DONE, "status": "error"}], {"said": "No reply"}),
    (
        "the last message, in pieces",
        [told("I "), told("begin."), uses(), told("All "), told("done.")],
        {"text": "All done."},
    ),
    ("a request made again", [], {"stderr": AGAIN, "waiting": "slow Suggested retry after 40s"}),
    (
        "a request made again, after a tool",
        [uses(), TRIED],
        {"stderr": AGAIN, "waiting": "slow Suggested retry after 40s"},
    ),
    ("a request made again before a tool", [uses()], {"stderr": AGAIN, "waiting": ""}),
    ("a request made again before it spoke", [told("Well")], {"stderr": AGAIN, "waiting": ""}),
    ("words of somebody else", [], {"stderr": "My Attempt 1 failed: x. Retrying with y\n", "waiting": ""}),
    ("its service, in JSON", [service(api(message="Please retry in 10800.5s."))], {"kind": LIMIT, "left": 3}),
    ("its service, with a delay", [service(api(details=[7, {"retryDelay": "14400s"}]))], {"kind": LIMIT, "left": 4}),
    ("its service, in words", [service("[API Error: [odd] words]\nYour quota is used up")], {"kind": LIMIT}),
    ("its service, flat", [service('[API Error: {"error":"flat"}]')], {"kind": BUSY}),
    ("its service, without a word", [service("")], {"kind": BUSY}),
]


def finish(reason: str = "stop", cost: float = 0.0, **tokens: Any) -> Line:
    return {"type": "step_finish", "part": {"reason": reason, "tokens": tokens, "cost": cost}}


def words(text: str) -> Line:
    return {"type": "text", "part": {"text": text}}


def fault(name: str = "APIError", **data: Any) -> Line:
    return {"type": "error", "error": {"name": name, "data": data}}


def full(**headers: str) -> Line:
    return fault(message="m", statusCode=429, responseHeaders=headers)


def logged(*moments: str) -> str:
    head = 'level=ERROR run=1 message="stream error" providerID=p small=false error.error="too many requests"'
    return "".join(f"timestamp={moment} {head}\n" for moment in moments)


START: Line = {"type": "step_start", "timestamp": 1767225600000, "part": {}}
EARLIER, LATER = "2025-12-31T23:59:59.000Z", "2026-01-01T00:00:01.000Z"
OPENCODE: list[Row] = [
    (
        "tokens of cache and reasoning, and prices",
        [finish(input=5, output=2, reasoning=3, cache={"read": 100, "write": 10}, cost=0.25)] * 2,
        {"usage": Usage(input_tokens=230, output_tokens=10, cost_usd=0.5)},
    ),
    ("an absurd price", [finish(input=5, cost=1e12)], {"usage": Usage(input_tokens=5, output_tokens=0)}),
    (
        "the last step that speaks has the last word",
        [START, words("first"), START, words("second"), words("third"), START, finish()],
        {"text": "second\n\nthird", "finished": True},
    ),
    ("full, in seconds", [full(**{"retry-after": "7200"})], {"kind": LIMIT, "left": 2}),
    ("full, until a day", [full(**{"retry-after": "Wed, 21 Oct"})], {"kind": LIMIT, "left": None}),
    ("no access", [fault("ProviderAuthError", message="m")], {"kind": LOGIN}),
    ("too long", [fault("ContextOverflowError", message="m")], {"kind": REFUSED_BY}),
    ("without a word", [{"type": "error"}], {"kind": BUSY}),
    ("it went on after an error", [fault(message="m"), START, words("x"), finish()], {"kind": None, "finished": True}),
    *((f"not the last: {why}", [finish(why)], {"finished": False}) for why in ("tool-calls", "unknown", "error")),
    (
        "an error that the stream only numbers",
        [fault("UnknownError", message="Unexpected server error.", ref="err_1")],
        {"stderr": 'level=ERROR ref=err_1 error="Model not found: p/\\"m\\"." cause="x"\n', "kind": MODEL},
    ),
    (
        "settings that it cannot read",
        [],
        {
            "stderr": "Error: Configuration is invalid at x\n↳ Expected y\n\n",
            "said": "Configuration is invalid at x ↳ Expected y",
        },
    ),
    ("a failed request after its last word", [START], {"stderr": logged(LATER), "waiting": "too many requests"}),
    ("a failed request before its last word", [START], {"stderr": logged(EARLIER), "waiting": ""}),
    ("a failed request at no moment", [START], {"stderr": logged("soon"), "waiting": ""}),
    ("a failed request before any stream", [], {"stderr": logged(LATER), "waiting": "too many requests"}),
]
QWEN: list[Row] = [
    (
        "an error as text",
        [result(result="[API Error: 401 invalid key]", **NO_COUNT)],
        {"kind": LOGIN, "said": "401 invalid key"},
    ),
    (
        "the whole session is counted in the end",
        [message("a", 100), result(usage={"input_tokens": 3802, "output_tokens": 175})],
        {"spent": Usage(input_tokens=3702, output_tokens=168), "usage": Usage(input_tokens=100, output_tokens=7)},
    ),
    (
        "no sign-in",
        [result("error_during_execution", is_error=True, error={"message": "No auth type is selected."})],
        {"kind": LOGIN, "said": "No auth type is selected."},
    ),
]
ROWS = {"claude": CLAUDE, "codex": CODEX, "copilot": COPILOT, "gemini": GEMINI, "opencode": OPENCODE, "qwen": QWEN}
BESIDE = ("stderr", "files", "spent")


@pytest.mark.req("RUN-15", "AGENT-04", "AGENT-05")
@pytest.mark.parametrize(
    ("name", "row"), [pytest.param(name, row, id=f"{name}: {row[0]}") for name, rows in ROWS.items() for row in rows]
)
def test_what_a_client_says_is_understood(name: str, row: Row) -> None:
    """Each row of its table."""
    _, lines, facts = row
    given = {key: value for key, value in facts.items() if key in BESIDE}
    expected = {key: value for key, value in facts.items() if key not in given}
    found = heard(name, *lines, **given).facts()
    assert {key: found[key] for key in expected} == expected


@cache
def vocabulary(name: str) -> tuple[list[str], list[str]]:
    """Words and keys that the client uses."""
    lines = [line for path in sorted(STREAMS.glob(f"{name}-*.jsonl")) for line in recorded(path.stem)]
    lines += [line for row in ROWS[name] for line in row[1]]
    return sorted({str(line.get("type")) for line in lines} | {"success", "error"}), sorted(set(_keys(lines)))


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


@st.composite
def streams(draw: st.DrawFn, name: str) -> list[Line]:
    known, keys = vocabulary(name)
    plain = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5)
    values = st.recursive(
        plain | st.sampled_from(known),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4),
        max_leaves=6,
    )
    line = st.builds(
        lambda kind, subtype, more: {**more, "type": kind, "subtype": subtype},
        st.sampled_from(known),
        st.sampled_from(["init", "api_retry", "success", ""]),
        st.dictionaries(st.sampled_from(keys), values, max_size=4),
    )
    return draw(st.lists(line, max_size=4))


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize("name", CLIENTS)
@given(data=st.data())
def test_whatever_a_stream_holds_it_is_read(name: str, data: st.DataObject) -> None:
    """Never an error, and never finished without an end."""
    lines, text = data.draw(streams(name)), data.draw(st.text(max_size=40))
    said = heard(name, *lines, stderr=text, files={"copilot-usage.json": text}).reader
    ends = {"codex": ("turn.completed", "turn.failed"), "opencode": ("step_finish",)}.get(name, ("result",))
    assert not said.finished or any(line["type"] in ends for line in lines)
    assert isinstance(said.text, str)


@pytest.mark.req("RUN-19")
@given(st.text(max_size=200))
def test_half_a_character_is_replaced_and_noise_is_nothing(noise: str) -> None:
    """A cut emoji, as JavaScript writes it: the rest is there, every text can be stored; deep nesting is no JSON."""
    assert parsed('{"text": "cut \\ud83d here", "whole": "\\ud83d\\ude00"}') == {
        "text": "cut ? here",
        "whole": "\N{GRINNING FACE}",
    }
    assert parsed("[" * 100_000) is None
    found = Json(parsed(noise))
    assert (found.text("a"), found.count("a"), found.each("a"), found.at("a", "b").value) == ("", None, [], None)
