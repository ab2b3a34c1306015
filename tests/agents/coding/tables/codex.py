"""Codex."""

from __future__ import annotations

from typing import Any

from interlock.agents.coding.codex import Codex
from interlock.agents.coding.events import Planned, Spoke, Thought, ToolState, ToolUsed, Waits, Warned
from interlock.agents.coding.trouble import Cause
from tests.agents.coding.tables import Line, Table, called, recorded, row

BEGAN, DONE, FAILED, REFUSED = ToolState.BEGAN, ToolState.DONE, ToolState.FAILED, ToolState.REFUSED
OK = recorded("codex-ok")
ENDS = ("turn.completed", "turn.failed")
SANDBOX = "bwrap: No permissions to create a new namespace"


def item(kind: str, **facts: Any) -> Line:
    return {"type": "item.completed", "item": {"id": "1", "type": kind, **facts}}


def error(message: str) -> Line:
    return {"type": "error", "message": message}


def failed(message: str) -> Line:
    return {"type": "turn.failed", "error": {"message": message}}


CODEX = Table(
    "codex",
    lambda asked: Codex().reader(asked),
    ends=lambda line: line.get("type") in ENDS,
    tools=called("file_change", "/workspace/docs/note.md", BEGAN, DONE)
    | called("command_execution", "/bin/bash -lc 'echo shell-was-here > shell.txt'", BEGAN, DONE),
    refused=set(),  # an edit that its sandbox does not allow, the model is not offered
    waits={401, 500},
    rows=(
        row("a command that its sandbox stopped is one that failed", *recorded("codex-sandboxed"), cause=None),
        row(
            "a sandbox that does not work",
            item("command_execution", command="make", status="failed", aggregated_output=f"{SANDBOX}\n"),
            events=[
                ToolUsed("1", "command_execution", "make", REFUSED),
                Warned(f"the sandbox of codex does not work here: {SANDBOX}"),
            ],
        ),
        row("an error that the turn survives", *OK[:2], error("stream disconnected"), *OK[2:], cause=None),
        row(
            "an error without the end of the turn",
            *({"type": "turn.started"}, error("unexpected status 403 Forbidden")),
            finished=False,
            cause=Cause.ACCESS,
        ),
        row("its own limit of tokens", failed("shared rollout token budget exhausted"), exhausted=True, finished=True),
        row("a turn that failed otherwise", failed("stream disconnected"), exhausted=False, cause=Cause.SERVICE),
        *(
            row(f"an error in JSON, {said}", failed(message), cause=cause, said=said)
            for message, cause, said in (
                (
                    '{"error": {"message": "No model x", "type": "invalid_request_error", "code": null}}',
                    Cause.REQUEST,
                    "No model x, invalid_request_error",
                ),
                ('{"error": {"message": "too big", "code": "400"}}', Cause.REQUEST, "too big, 400"),
                ('{"detail": "Unauthorized"}', Cause.ACCESS, '{"detail": "Unauthorized"}'),
                ("{broken: error 401", Cause.ACCESS, "{broken: error 401"),
            )
        ),
        row("a thought", item("reasoning", text="hm"), events=[Thought("hm")], acted=False),
        row(
            "its list of tasks",
            item("todo_list", items=[{"text": "a", "completed": True}, {"text": "b", "completed": False}]),
            events=[Planned((("a", "completed"), ("b", "pending")))],
        ),
        row(
            "a search", item("web_search", query="toml"), events=[ToolUsed("1", "web_search", "toml", DONE)], acted=True
        ),
        row(
            "a tool of a server",
            item("mcp_tool_call", server="github", tool="search", status="failed"),
            events=[ToolUsed("1", "github.search", "", FAILED)],
        ),
        row(
            "a command that was declined",
            item("command_execution", command="rm", status="declined"),
            events=[ToolUsed("1", "command_execution", "rm", REFUSED)],
        ),
        row("a remark", item("error", message="no metadata"), events=[Warned("no metadata")], cause=None),
        row("a reconnection", error("Reconnecting... 1/5"), events=[Waits("model service: Reconnecting... 1/5")]),
        row(
            "the last message is the answer",
            *(item("agent_message", text="first"), item("agent_message", text="last")),
            events=[Spoke("first"), Spoke("last")],
            text="last",
        ),
        row("tokens that were not counted", {"type": "turn.completed", "usage": {"input_tokens": 0}}, usage=None),
        row("a second turn that is not over", *OK, {"type": "turn.started"}, finished=False),
    ),
)
