"""OpenAI Chat Completions: OpenCode, Copilot, Qwen Code."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from tools.model_server.dialects import openai_errors
from tools.model_server.dialects.dialect import Event, Ids, Refused, pieces, text_of, texts_of


class ChatCompletions:
    name = "chat"

    def read(self, body: JsonObject) -> Conversation:
        return conversation(body["model"], _messages(body), map(_tool, body.get("tools") or ()), _schema(body))

    def whole(self, turn: Turn, model: str, ids: Ids) -> JsonObject:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if turn.call:
            message["tool_calls"] = [_call(turn, ids)]
        choice = {"index": 0, "message": message, "finish_reason": _reason(turn), "logprobs": None}
        return {**_head("chat.completion", model, ids), "choices": [choice], "usage": _usage(turn)}

    def stream(self, turn: Turn, model: str, ids: Ids) -> Iterator[Event]:
        head = _head("chat.completion.chunk", model, ids)

        def chunk(delta: JsonObject, reason: str | None = None) -> Event:
            return Event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(turn.text):
            yield chunk({"content": piece})
        if turn.call:
            yield chunk({"tool_calls": [{"index": 0, **_call(turn, ids)}]})
        yield chunk({}, _reason(turn))
        yield Event({**head, "choices": [], "usage": _usage(turn)})
        yield Event("[DONE]")

    def refused(self, refusal: Refusal, ids: Ids) -> Refused:
        return openai_errors.refused(refusal, ids)


def _messages(body: JsonObject) -> Iterator[Message]:
    for message in body["messages"]:
        match message["role"]:
            case "system" | "developer":
                yield System(text_of(message["content"]))
            case "tool":
                yield Result(text_of(message["content"]))
            case "user":
                yield from map(Human, texts_of(message["content"]))


def _tool(offered: JsonObject) -> Tool:
    if offered.get("type") == "custom":
        return Tool(offered["custom"]["name"], freeform=True)
    return Tool(offered["function"]["name"], offered["function"].get("parameters") or {})


def _schema(body: JsonObject) -> JsonObject | None:
    wanted: JsonObject = body.get("response_format") or {}
    match wanted.get("type"):
        case "json_schema":
            schema: JsonObject = wanted["json_schema"].get("schema") or {}
            return schema
        case "json_object":
            return {}
    return None


def _call(turn: Turn, ids: Ids) -> dict[str, Any]:
    assert turn.call is not None
    name, arguments = turn.call.tool.name, turn.call.arguments
    if turn.call.tool.freeform:
        return {"id": ids("call_"), "type": "custom", "custom": {"name": name, "input": arguments}}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": ids("call_"), "type": "function", "function": {"name": name, "arguments": text}}


def _reason(turn: Turn) -> str:
    return "tool_calls" if turn.call else "stop"


def _head(kind: str, model: str, ids: Ids) -> dict[str, Any]:
    return {"id": ids("chatcmpl-"), "object": kind, "created": 0, "model": model}


def _usage(turn: Turn) -> dict[str, int]:
    return {
        "prompt_tokens": turn.usage.input,
        "completion_tokens": turn.usage.output,
        "total_tokens": turn.usage.total,
    }
