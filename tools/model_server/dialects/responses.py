"""OpenAI Responses: Codex."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.model_server.conversation import (
    Call,
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


class Responses:
    name = "responses"

    def read(self, body: JsonObject) -> Conversation:
        offered = [*(body.get("tools") or ()), *_found(body)]
        return conversation(body["model"], _messages(body), _tools(offered), _schema(body))

    def whole(self, turn: Turn, model: str, ids: Ids) -> JsonObject:
        return _response(turn, model, ids, status="completed", output=list(_items(turn, ids)), usage=_usage(turn))

    def stream(self, turn: Turn, model: str, ids: Ids) -> Iterator[Event]:
        for number, data in enumerate(self._events(turn, model, ids)):
            yield Event({**data, "sequence_number": number}, data["type"])

    def _events(self, turn: Turn, model: str, ids: Ids) -> Iterator[JsonObject]:
        begun = _response(turn, model, ids, status="in_progress", output=[], usage=None)
        yield {"type": "response.created", "response": begun}
        for index, item in enumerate(_items(turn, ids)):
            yield from _item_events(index, item)
        yield {"type": "response.completed", "response": self.whole(turn, model, ids)}

    def refused(self, refusal: Refusal, ids: Ids) -> Refused:
        return openai_errors.refused(refusal, ids)


def _messages(body: JsonObject) -> Iterator[Message]:
    if body.get("instructions"):
        yield System(body["instructions"])
    given = body.get("input") or ()
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind.endswith("_call_output"):
            yield Result(text_of(item.get("output")))
        elif kind == FOUND:
            yield Result(json.dumps([tool.name for tool in _tools(item["tools"])]))
        elif kind == "message" and item["role"] in ("system", "developer"):
            yield System(text_of(item["content"]))
        elif kind == "message" and item["role"] == "user":
            yield from map(Human, texts_of(item["content"]))


FOUND = "tool_search_output"


def _found(body: JsonObject) -> Iterator[JsonObject]:
    """The tools that the model searched for and was given."""
    given = body.get("input") or ()
    for item in () if isinstance(given, str) else given:
        if item.get("type") == FOUND:
            yield from item["tools"]


def _tools(offered: Any, group: str = "") -> Iterator[Tool]:
    for tool in offered:
        match tool["type"]:
            case "function":
                yield Tool(_known_as(tool, group), tool.get("parameters") or {}, group=group)
            case "custom":
                yield Tool(_known_as(tool, group), freeform=True, group=group)
            case "namespace":
                yield from _tools(tool.get("tools") or (), tool["name"])
            case "tool_search":
                yield Tool("tool_search", tool.get("parameters") or {}, finds=True)


def _known_as(tool: JsonObject, group: str) -> str:
    """How a script calls a tool: those of an MCP server by the names that other clients give them too."""
    return f"{group}__{tool['name']}" if group.startswith("mcp__") else str(tool["name"])


def _schema(body: JsonObject) -> JsonObject | None:
    wanted: JsonObject = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") != "json_schema":
        return None
    schema: JsonObject = wanted.get("schema") or {}
    return schema


def _items(turn: Turn, ids: Ids) -> Iterator[dict[str, Any]]:
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        yield {"type": "message", "id": ids("msg_"), "status": "completed", "role": "assistant", "content": [part]}
    if turn.call:
        yield _call_item(turn.call, ids)


def _call_item(call: Call, ids: Ids) -> dict[str, Any]:
    head: dict[str, Any] = {"status": "completed", "call_id": ids("call_")}
    if call.tool.finds:
        return {
            "type": "tool_search_call",
            "id": ids("tsc_"),
            **head,
            "execution": "client",
            "arguments": call.arguments,
        }
    head["name"] = call.tool.name.removeprefix(f"{call.tool.group}__")
    if call.tool.group:
        head["namespace"] = call.tool.group
    if call.tool.freeform:
        return {"type": "custom_tool_call", "id": ids("ctc_"), **head, "input": call.arguments}
    return {"type": "function_call", "id": ids("fc_"), **head, "arguments": json.dumps(call.arguments)}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[JsonObject]:
    at = {"item_id": item["id"], "output_index": index}
    begun = {**item, "status": "in_progress"}
    match item["type"]:
        case "message":
            part = item["content"][0]
            place = {**at, "content_index": 0}
            yield _added(index, {**begun, "content": []})
            yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
            for piece in pieces(part["text"]):
                yield {"type": "response.output_text.delta", **place, "delta": piece}
            yield {"type": "response.output_text.done", **place, "text": part["text"]}
            yield {"type": "response.content_part.done", **place, "part": part}
        case "custom_tool_call":
            yield _added(index, {**begun, "input": ""})
            for piece in pieces(item["input"]):
                yield {"type": "response.custom_tool_call_input.delta", **at, "delta": piece}
            yield {"type": "response.custom_tool_call_input.done", **at, "input": item["input"]}
        case "tool_search_call":
            yield _added(index, begun)
        case _:
            yield _added(index, {**begun, "arguments": ""})
            for piece in pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _added(index: int, item: JsonObject) -> JsonObject:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _response(turn: Turn, model: str, ids: Ids, **state: Any) -> JsonObject:
    return {
        "id": ids("resp_"),
        "object": "response",
        "created_at": 0,
        "model": model,
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        **state,
    }


def _usage(turn: Turn) -> dict[str, Any]:
    return {
        "input_tokens": turn.usage.input,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": turn.usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.usage.total,
    }
