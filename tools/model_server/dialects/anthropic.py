"""Anthropic Messages: Claude Code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tools.model_server.conversation import (
    Conversation,
    Human,
    JsonObject,
    Message,
    Refusal,
    Result,
    System,
    Tool,
    Turn,
    conversation,
)
from tools.model_server.dialects.dialect import Event, Ids, Refused, pieces, seconds, text_of

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Anthropic:
    name = "anthropic"

    def read(self, body: JsonObject) -> Conversation:
        tools = (Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or ())
        return conversation(body["model"], _messages(body), tools)

    def whole(self, turn: Turn, model: str, ids: Ids) -> JsonObject:
        return {
            "id": ids("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": _blocks(turn, ids),
            "stop_reason": "tool_use" if turn.call else "end_turn",
            "stop_sequence": None,
            "usage": _usage(turn),
        }

    def stream(self, turn: Turn, model: str, ids: Ids) -> Iterator[Event]:
        message = self.whole(turn, model, ids)
        begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
        yield _event("message_start", message=begun)
        for index, block in enumerate(message["content"]):
            yield from _block_events(index, block)
        stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage=message["usage"])
        yield _event("message_stop")

    def refused(self, refusal: Refusal, ids: Ids) -> Refused:
        kind = ERRORS.get(refusal.status, "api_error")
        body = {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": ids("req_")}
        headers = {"request-id": ids("req_")}
        if after := seconds(refusal):
            headers["retry-after"] = after
        if refusal.status == 429:
            reset = datetime.now(UTC) + timedelta(seconds=refusal.retry_after_s or 60)
            headers |= {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": reset.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        return Refused(body, headers)


def _messages(body: JsonObject) -> Iterator[Message]:
    if body.get("system"):
        yield System(text_of(body["system"]))
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            match message["role"], block.get("type"):
                case "user", "tool_result":
                    yield Result(text_of(block.get("content")))
                case "user", "text":
                    yield Human(block["text"])
                case "system", "text":
                    yield System(block["text"])


def _blocks(turn: Turn, ids: Ids) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    if turn.call:
        blocks.append(
            {"type": "tool_use", "id": ids("toolu_"), "name": turn.call.tool.name, "input": turn.call.arguments}
        )
    return blocks


def _block_events(index: int, block: JsonObject) -> Iterator[Event]:
    if block["type"] == "text":
        begun, parts = {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    else:
        begun = {**block, "input": {}}
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(json.dumps(block["input"]))]
    yield _event("content_block_start", index=index, content_block=begun)
    for part in parts:
        yield _event("content_block_delta", index=index, delta=part)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **data: Any) -> Event:
    return Event({"type": kind, **data}, kind)


def _usage(turn: Turn) -> dict[str, int]:
    return {
        "input_tokens": turn.usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": turn.usage.output,
    }
