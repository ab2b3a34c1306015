"""Gemini CLI."""

from __future__ import annotations

import json
from typing import Any

from interlock.agents.coding.events import Planned, ToolState, ToolUsed
from interlock.agents.coding.gemini import Gemini
from interlock.agents.coding.trouble import Cause
from tests.agents.coding.tables import Line, Table, called, row

BEGAN, DONE, FAILED, REFUSED = ToolState.BEGAN, ToolState.DONE, ToolState.FAILED, ToolState.REFUSED
SUCCESS: Line = {"type": "result", "status": "success", "stats": {"input_tokens": 10, "output_tokens": 1}}
LOOP: Line = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
EMPTY: Line = {"type": "error", "severity": "error", "message": "The model returned an empty response"}
AGAIN = "Attempt 1 failed: slow\nSuggested retry after 40s.. Retrying after 43529ms...\n"
DELAYS = [7, {"retryDelay": "34.5s"}, {"retryDelay": "x"}]
SLOW = "slow Suggested retry after 40s"


def said(text: str) -> Line:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def uses(name: str = "x", **given: Any) -> Line:
    return {"type": "tool_use", "tool_id": "1", "tool_name": name, "parameters": given}


def used(status: str = "success", **more: Any) -> Line:
    return {"type": "tool_result", "tool_id": "1", "status": status, **more}


def broken(message: str) -> Line:
    return {**SUCCESS, "status": "error", "error": {"message": message}}


def api(**error: Any) -> str:
    return f"[API Error: {json.dumps({'error': {'code': 429, **error}})}]"


GEMINI = Table(
    "gemini",
    lambda asked: Gemini().reader(asked),
    ends=lambda line: line.get("type") == "result",
    tools=called("write_file", "/workspace/docs/note.md", BEGAN, DONE)
    | called("run_shell_command", "echo shell-was-here > shell.txt", BEGAN, DONE),
    refused=called("write_file", "/workspace/secret.md", BEGAN, REFUSED),
    rows=(
        row(
            "a tool that failed",
            *(uses("read_file", file_path="x"), used("error", error={"type": "file_not_found"})),
            events=[ToolUsed("1", "read_file", "x"), ToolUsed("1", "read_file", "x", FAILED)],
        ),
        row(
            "its list of tasks",
            *(uses("write_todos", todos=[{"description": "one", "status": "pending"}]), used()),
            events=[Planned((("one", "pending"),))],
        ),
        row(
            "an agent that stopped itself",
            *(said("hm"), LOOP, SUCCESS),
            cause=Cause.REQUEST,
            said="the agent stopped by itself: Loop detected, stopping execution",
        ),
        row("an error after which it spoke", LOOP, said("hm"), SUCCESS, cause=None),
        row("an error after which it worked", LOOP, uses(), SUCCESS, cause=None),
        row(
            "a result that is told by the error before it", EMPTY, {**SUCCESS, "status": "error"}, said=EMPTY["message"]
        ),
        row(
            "the last message, in pieces",
            said("I "),
            said("begin."),
            uses(),
            said("All "),
            said("done."),
            text="All done.",
        ),
        row("the last message, before a tool", said("All done."), uses(), text="All done."),
        row("a request that it makes again, first of all", last_words=AGAIN, waiting=SLOW),
        row("a request that it makes again, after a tool", uses(), used(), last_words=AGAIN, waiting=SLOW),
        row("a request that was made again before a tool", uses("make"), last_words=AGAIN, waiting=""),
        row("a request that was made again before it spoke", said("Well"), last_words=AGAIN, waiting=""),
        row(
            "the last of several requests",
            last_words="Attempt 1 failed: slow. Retrying after 9ms...\nAttempt 2 failed. Retrying with backoff...\n",
            waiting="a request failed",
        ),
        row(
            "a request with a status",
            last_words="Attempt 2 failed with status 503. Retrying with backoff... _ApiError: {}\n",
            waiting="with status 503",
        ),
        row("a request that it gave up", last_words="Attempt 2 failed: slow. Max attempts reached\n", waiting=""),
        row("words of somebody else", last_words="My Attempt 1 failed: x. Retrying with y\n", waiting=""),
        row("its service, in JSON", broken(api(message="Please retry in 12.5s.")), cause=Cause.LIMITED, reset_s=12.5),
        row("its service, with a delay", broken(api(details=DELAYS)), cause=Cause.LIMITED, reset_s=34.5),
        row("its service, in words", broken("[API Error: [odd] words]\nYour quota is used up"), cause=Cause.LIMITED),
        row("its service, flat", broken('[API Error: {"error":"flat"}]'), cause=Cause.SERVICE),
        row("its service, otherwise", broken("Operation cancelled."), cause=Cause.SERVICE),
        row("its service, without a word", broken(""), cause=Cause.SERVICE),
    ),
)
