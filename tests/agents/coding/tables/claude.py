"""Claude Code."""

from __future__ import annotations

import math
from typing import Any

from interlock.agents.coding.claude import Claude
from interlock.agents.coding.dialect import RoleText
from interlock.agents.coding.events import Planned, Spent, ToolState, Waits
from interlock.agents.coding.trouble import Cause
from interlock.agents.runner import Usage
from tests.agents.coding.tables import Line, Table, ask, called, recorded, row

BEGAN, DONE, REFUSED = ToolState.BEGAN, ToolState.DONE, ToolState.REFUSED
NOTHING: Line = {"type": "result", "usage": {"input_tokens": 0, "output_tokens": 0}, "total_cost_usd": 0}
IN_ROLE = ask(role=RoleText("interlock-x", "d", "t"))
OK = recorded("claude-ok")


def used(name: str, given: Line) -> Line:
    return {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "1", "name": name, "input": given}]},
    }


def message(number: str, read: int, cached: int = 0) -> Line:
    usage = {"input_tokens": read, "cache_read_input_tokens": cached, "output_tokens": 1}
    return {"type": "assistant", "message": {"id": number, "usage": usage}}


def retry(delay: Any) -> Line:
    return {"type": "system", "subtype": "api_retry", "error": "busy", "retry_delay_ms": delay}


def rejected(moment: Any) -> Line:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": moment}}


def stopped(subtype: str, *errors: str, is_error: bool = True) -> Line:
    return {"type": "result", "subtype": subtype, "is_error": is_error, "errors": list(errors)}


FIRST, SECOND, WHOLE = "Read the code", ("Write the note", "pending"), "Read all of the code"
TASKS = [
    Planned(((FIRST, "pending"),)),
    Planned(((FIRST, "pending"), SECOND)),
    Planned(((FIRST, "in_progress"), SECOND)),
    Planned(((WHOLE, "completed"), SECOND)),
    Planned(((WHOLE, "completed"),)),
]
ODD = (10**400, math.inf, math.nan, True, "7", None)
RAN = "error_during_execution"

CLAUDE = Table(
    "claude",
    Claude().reader,
    ends=lambda line: line.get("type") == "result",
    tools=called("Write", "/workspace/docs/note.md", BEGAN, DONE)
    | called("Bash", "echo shell-was-here > shell.txt", BEGAN, DONE),
    refused=called("Write", "/workspace/secret.md", BEGAN, REFUSED),
    usage=Usage(3702, 168, OK[-1]["total_cost_usd"]),
    waits={401, 429, 500},
    rows=(
        row("a role that it does not know", *OK, asked=IN_ROLE, cause=Cause.ROLE),
        row("a role that it knows", {**OK[0], "agents": ["interlock-x"]}, *OK[1:], asked=IN_ROLE, cause=None),
        row(
            "its own limit of turns",
            stopped("error_max_turns", "too many"),
            cause=Cause.REQUEST,
            said="the agent stopped by itself (error_max_turns): too many",
            exhausted=False,
        ),
        row("its own limit of cost", stopped("error_max_budget_usd"), cause=Cause.REQUEST, exhausted=True),
        row("an error in its work, busy", stopped(RAN, "API Error: 529 overloaded_error"), cause=Cause.LIMITED),
        row("an error in its work, access", stopped(RAN, "API Error: 401 bad key", is_error=False), cause=Cause.ACCESS),
        row("an error in its work, unknown", stopped(RAN), cause=Cause.SERVICE),
        row(
            "its list of tasks, whole",
            used("TodoWrite", {"todos": [{"content": "a", "status": "b"}]}),
            events=[Planned((("a", "b"),))],
            acted=True,
        ),
        row("its list of tasks, one by one", *recorded("claude-tasks"), acted=True, tools=set(), plans=TASKS),
        row("tokens while it works", *OK[:-1], usage=Usage(3 * 1234), finished=False),
        row(
            "a message in several lines is counted once, and one that was corrected anew",
            *(message("a", 10), message("a", 10), message("b", 5, 20), message("b", 6, 20), message("c", 0)),
            events=[Spent(Usage(10)), Spent(Usage(35)), Spent(Usage(36))],
        ),
        row("zeros are unknown", NOTHING, usage=None),
        row("zeros do not hide what messages took", message("a", 7), NOTHING, usage=Usage(7)),
        row("a price without tokens", {**NOTHING, "total_cost_usd": 0.5}, usage=Usage(cost_usd=0.5)),
        *(
            row(f"a delay that is none: {odd!r:.9}", retry(odd), events=[Waits("model service: busy", None)])
            for odd in ODD
        ),
        *(row(f"a reset that is none: {odd!r:.9}", rejected(odd), events=[]) for odd in ODD),
    ),
)
