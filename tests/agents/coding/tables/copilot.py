"""GitHub Copilot CLI."""

from __future__ import annotations

import json
from typing import Any

from interlock.agents.coding.copilot import Copilot
from interlock.agents.coding.events import SessionBegan, Thought, ToolState, ToolUsed, Waits, Warned
from interlock.agents.coding.trouble import Cause
from interlock.agents.runner import Usage
from tests.agents.coding.tables import FOLDER, Line, Table, ask, called, recorded, row

BEGAN, DONE, FAILED, REFUSED = ToolState.BEGAN, ToolState.DONE, ToolState.FAILED, ToolState.REFUSED
OK = recorded("copilot-ok")
RESULT: Line = {"type": "result", "sessionId": "s1", "exitCode": 0}
ACCOUNT = FOLDER / "copilot-usage.json"
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n"
OWN = ask(new_session="N-1")


def event(kind: str, **data: Any) -> Line:
    return {"type": kind, "data": data}


def failed(kind: str, message: str = "m") -> Line:
    return event("session.error", errorType=kind, message=message)


def account(*models: tuple[object, object]) -> str:
    metrics = {str(at): {"usage": {"inputTokens": into, "outputTokens": out}} for at, (into, out) in enumerate(models)}
    return json.dumps({"totalPremiumRequestCost": 1, "modelMetrics": metrics})


UNCOUNTED = ("", "{", "[]", "[" * 100_000, "{}", account((0, 0)), account((None, "x")))

COPILOT = Table(
    "copilot",
    lambda asked: Copilot().reader(asked),
    ends=lambda line: line.get("type") == "result",
    tools=called("create", "/workspace/docs/note.md", BEGAN, DONE)
    | called("bash", "echo shell-was-here > shell.txt", BEGAN, DONE),
    refused=called("create", "/workspace/secret.md", BEGAN, REFUSED),
    usage=None,  # its stream does not say it
    waits={401, 429, 500},
    rows=(
        row("tokens of all models", *OK, left={ACCOUNT: account((1000, 50), (10, 5))}, usage=Usage(1010, 55)),
        *(row(f"an account that says nothing: {text:.9}", *OK, left={ACCOUNT: text}, usage=None) for text in UNCOUNTED),
        row(
            "a patch is shown by what it changes",
            event("tool.execution_start", toolCallId="1", toolName="apply_patch", arguments=PATCH),
            event("tool.execution_complete", toolCallId="1", success=False, error={"code": "failure"}),
            events=[
                ToolUsed("1", "apply_patch", "*** Add File: a.txt"),
                ToolUsed("1", "apply_patch", "*** Add File: a.txt", FAILED),
            ],
        ),
        row("a thought", event("assistant.reasoning", content="hm"), events=[Thought("hm")]),
        row("a warning", event("session.warning", message="careful"), events=[Warned("careful")]),
        row(
            "a wait",
            event("assistant.turn_retry", reason="rate_limit"),
            events=[Waits("model service: rate_limit")],
        ),
        row(
            "words of a sub-agent are not the answer",
            event("assistant.message", content="mine"),
            event("assistant.message", content="its", parentToolCallId="1"),
            RESULT,
            text="mine",
        ),
        row("its session, as soon as it works", event("user.message"), asked=OWN, events=[SessionBegan("N-1")]),
        row("its session, as it says it", RESULT, asked=OWN, session="s1"),
        row("no session before there is one", asked=OWN, session=None),
        row("a used-up quota", failed("quota", "you have none left"), RESULT, cause=Cause.LIMITED),
        row(
            "how long it waited is not when its service is back",
            failed("rate_limit", "total retry wait time: 59 seconds) Last error: 429 retry in 7s"),
            RESULT,
            cause=Cause.LIMITED,
            reset_s=7.0,
        ),
        row("no access", failed("authorization"), RESULT, cause=Cause.ACCESS),
        row("too long", failed("context_limit"), RESULT, cause=Cause.REQUEST),
        row("unknown", failed("query"), RESULT, cause=Cause.SERVICE),
        row("without a word", {"type": "session.error"}, RESULT, cause=Cause.SERVICE),
        row("an error after which it went on", failed("query"), event("assistant.turn_start"), RESULT, cause=None),
        row("an unknown role", last_words="No such agent: interlock:interlock-x, available: a, b\n", cause=Cause.ROLE),
        row(
            "no sign-in",
            last_words="Error: No authentication information found.\n\nCopilot can ...\n",
            cause=Cause.ACCESS,
        ),
        row("words of something that it ran", *OK, last_words="gh: not logged in\nNo such agent: x\n", cause=None),
    ),
)
