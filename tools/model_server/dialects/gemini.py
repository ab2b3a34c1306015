"""Gemini generateContent: Gemini CLI."""

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
from tools.model_server.dialects.dialect import Event, Ids, Refused, pieces, seconds, text_of

STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}

SIGNATURE = "c2NyaXB0ZWQ="
"""Newer models sign their calls, and the client must send the signature back."""


class Gemini:
    name = "gemini"

    def read(self, body: JsonObject) -> Conversation:
        """The conversation; the server puts the model of the URL into the body."""
        return conversation(body["model"], _messages(body), _tools(body), _schema(body))

    def whole(self, turn: Turn, model: str, ids: Ids) -> JsonObject:
        return _response(list(_parts(turn, ids, [turn.text])), turn, model, ids, reason="STOP")

    def stream(self, turn: Turn, model: str, ids: Ids) -> Iterator[Event]:
        parts = list(_parts(turn, ids, pieces(turn.text)))
        for number, part in enumerate(parts, start=1):
            reason = "STOP" if number == len(parts) else None
            yield Event(_response([part], turn, model, ids, reason))

    def refused(self, refusal: Refusal, ids: Ids) -> Refused:
        error: dict[str, Any] = {
            "code": refusal.status,
            "message": refusal.message,
            "status": STATES.get(refusal.status, "UNKNOWN"),
        }
        after = seconds(refusal)
        if after is not None:
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{after}s"}]
        return Refused({"error": error}, {} if after is None else {"retry-after": after})


def _messages(body: JsonObject) -> Iterator[Message]:
    if instruction := body.get("systemInstruction"):
        yield System(instruction if isinstance(instruction, str) else text_of(instruction.get("parts")))
    for content in body.get("contents") or ():
        if content.get("role", "user") == "model":
            continue
        for part in content.get("parts") or ():
            if "functionResponse" in part:
                yield Result(json.dumps(part["functionResponse"].get("response"), ensure_ascii=False))
            elif part.get("text"):
                yield Human(part["text"])


def _tools(body: JsonObject) -> Iterator[Tool]:
    for group in body.get("tools") or ():
        for tool in group.get("functionDeclarations") or ():
            yield Tool(tool["name"], tool.get("parametersJsonSchema") or tool.get("parameters") or {})


def _schema(body: JsonObject) -> JsonObject | None:
    wanted: JsonObject = body.get("generationConfig") or {}
    if wanted.get("responseMimeType") != "application/json":
        return None
    schema: JsonObject = wanted.get("responseJsonSchema") or wanted.get("responseSchema") or {}
    return schema


def _parts(turn: Turn, ids: Ids, texts: Any) -> Iterator[JsonObject]:
    yield from ({"text": text} for text in texts if text)
    if turn.call:
        call = {"id": ids("fc_"), "name": turn.call.tool.name, "args": turn.call.arguments}
        yield {"functionCall": call, "thoughtSignature": SIGNATURE}


def _response(parts: list[JsonObject], turn: Turn, model: str, ids: Ids, reason: str | None) -> JsonObject:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = {
        "promptTokenCount": turn.usage.input,
        "candidatesTokenCount": turn.usage.output,
        "totalTokenCount": turn.usage.total,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": ids("r_")}
