"""OpenCode."""

from __future__ import annotations

from typing import Any

from interlock.agents.coding.events import Planned, Thought, ToolState, ToolUsed
from interlock.agents.coding.opencode import Opencode
from interlock.agents.coding.trouble import Cause
from interlock.agents.runner import Usage
from tests.agents.coding.tables import Line, Table, called, recorded, row

DONE, FAILED, REFUSED = ToolState.DONE, ToolState.FAILED, ToolState.REFUSED
START: Line = {"type": "step_start", "timestamp": 1767225600000, "part": {}}
GOES_ON = ("tool-calls", "unknown", "error")
BEFORE, AFTER = "2025-12-31T23:59:59.000Z", "2026-01-01T00:00:01.000Z"
BUSY = "AI_APICallError: too many requests"


def finish(reason: str = "stop", cost: float = 0.0, **tokens: Any) -> Line:
    return {"type": "step_finish", "part": {"reason": reason, "tokens": tokens, "cost": cost}}


def said(text: str, kind: str = "text") -> Line:
    return {"type": kind, "part": {"text": text}}


def used(tool: str, **state: Any) -> Line:
    return {"type": "tool_use", "part": {"tool": tool, "callID": "1", "state": state}}


def failed(name: str = "APIError", **data: Any) -> Line:
    return {"type": "error", "error": {"name": name, "data": data}}


def busy(**headers: str) -> Line:
    return failed(message="m", statusCode=429, responseHeaders=headers)


def logged(*moments: str) -> str:
    head, tail = 'level=ERROR run=1 message="stream error" providerID=p', f'small=false error.error="{BUSY}"'
    return "".join(f"timestamp={moment} {head} {tail}\n" for moment in moments)


OPENCODE = Table(
    "opencode",
    lambda asked: Opencode().reader(asked),
    ends=lambda line: line.get("type") == "step_finish",
    tools=called("write", "/workspace/docs/note.md", DONE) | called("bash", "echo shell-was-here > shell.txt", DONE),
    refused=called("write", "/workspace/secret.md", REFUSED),
    rows=(
        row(
            "tokens of cache and reasoning, and prices",
            *[finish(input=5, output=2, reasoning=3, cache={"read": 100, "write": 10}, cost=0.25)] * 2,
            usage=Usage(230, 10, 0.5),
        ),
        row(
            "a tool that failed",
            used("read", status="error", input={"filePath": "x"}, error="File not found"),
            events=[ToolUsed("1", "read", "x", FAILED)],
        ),
        row(
            "its list of tasks",
            used("todowrite", status="completed", input={"todos": [{"content": "a", "status": "pending"}]}),
            events=[Planned((("a", "pending"),))],
        ),
        row("a thought", said("hm", "reasoning"), events=[Thought("hm")]),
        row(
            "the last step that speaks has the last word",
            *(START, said("first"), START, said("second"), said("third"), START, finish()),
            text="second\n\nthird",
            finished=True,
        ),
        row("busy, in seconds", busy(**{"retry-after": "120"}), cause=Cause.LIMITED, reset_s=120.0),
        row("busy, in milliseconds", busy(**{"retry-after-ms": "1500"}), cause=Cause.LIMITED, reset_s=1.5),
        row("busy, until a day", busy(**{"retry-after": "Wed, 21 Oct"}), cause=Cause.LIMITED, reset_s=None),
        row("no access", failed("ProviderAuthError", message="m"), cause=Cause.ACCESS),
        row("too long", failed("ContextOverflowError", message="m"), cause=Cause.REQUEST),
        row("unknown", failed("UnknownError"), cause=Cause.SERVICE),
        row("without a word", {"type": "error"}, cause=Cause.SERVICE),
        row(
            "an error after which it went on",
            failed(message="m"),
            START,
            said("x"),
            finish(),
            cause=None,
            finished=True,
        ),
        *(row(f"a step that is not the last: {reason}", finish(reason), finished=False) for reason in GOES_ON),
        row(
            "a role that was replaced",
            *recorded("opencode-ok"),
            last_words='\x1b[93m! \x1b[0m agent "interlock-x" not found. Falling back to default agent\n',
            cause=Cause.ROLE,
        ),
        row(
            "an error that the stream only numbers",
            failed("UnknownError", message="Unexpected server error. Check server logs.", ref="err_1"),
            last_words='level=ERROR ref=err_1 error="ModelNotFoundError: Model not found: p/\\"m\\"." cause="x"\n',
            cause=Cause.REQUEST,
            said='ModelNotFoundError: Model not found: p/\\"m\\".',
        ),
        row(
            "settings that it cannot read",
            last_words="\x1b[91mError: \x1b[0mConfiguration is invalid at opencode.json\n↳ Expected x\n\n",
            cause=Cause.REQUEST,
            said="Configuration is invalid at opencode.json ↳ Expected x",
        ),
        row("no failed request", START, waiting=""),
        row("a failed request after its last word", START, last_words=logged(AFTER), waiting=BUSY),
        row("a failed request before its last word", START, last_words=logged(BEFORE), waiting=""),
        row("failed requests before and after", START, last_words=logged(BEFORE, AFTER), waiting=BUSY),
        row("a failed request at no moment", START, last_words=logged("soon"), waiting=""),
        row("a failed request before there was any stream", last_words=logged(AFTER), waiting=BUSY),
    ),
)
