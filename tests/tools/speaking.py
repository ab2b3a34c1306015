"""How a client would word a conversation in each dialect, and what it would understand of the answer."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

WRITE = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}
SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = {"write_file": WRITE, "run_shell_command": SHELL}


@dataclass(frozen=True)
class Asked:
    """A request, before it is worded."""

    human: str
    system: str = "You are a careful developer."
    results: Sequence[str] = ()
    tools: Mapping[str, Any] = field(default_factory=lambda: TOOLS)


@dataclass(frozen=True)
class Heard:
    """What a client understands: words, a call with its arguments, tokens."""

    text: str
    call: tuple[str, Any] | None
    tokens: tuple[int, int]


class Speaker(Protocol):
    def path(self, streaming: bool) -> str: ...
    def body(self, asked: Asked, streaming: bool) -> dict[str, Any]: ...
    def hear(self, whole: dict[str, Any]) -> Heard: ...
    def gather(self, events: list[dict[str, Any]]) -> Heard: ...


def post(url: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], str]:
    """Status, headers and text of the answer, whatever the status."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


def events(text: str) -> list[dict[str, Any]]:
    """The data of server-sent events."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


class Anthropic:
    def path(self, streaming: bool) -> str:
        return "/v1/messages?beta=true"

    def body(self, asked: Asked, streaming: bool) -> dict[str, Any]:
        human = [{"type": "text", "text": "<system-reminder>\nbe brief\n</system-reminder>"}]
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "an earlier turn"},
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            {"role": "user", "content": [*human, {"type": "text", "text": asked.human}]},
        ]
        for number, result in enumerate(asked.results):
            call = {"type": "tool_use", "id": f"t{number}", "name": "write_file", "input": {}}
            answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": [{"type": "text", "text": result}]}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
        tools = [{"name": name, "input_schema": schema} for name, schema in asked.tools.items()]
        system = [{"type": "text", "text": asked.system}]
        return {"model": "m-1", "system": system, "messages": messages, "tools": tools, "stream": streaming}

    def hear(self, whole: dict[str, Any]) -> Heard:
        text = "".join(block["text"] for block in whole["content"] if block["type"] == "text")
        calls = [(block["name"], block["input"]) for block in whole["content"] if block["type"] == "tool_use"]
        assert whole["stop_reason"] == ("tool_use" if calls else "end_turn")
        usage = whole["usage"]
        return Heard(text, calls[0] if calls else None, (usage["input_tokens"], usage["output_tokens"]))

    def gather(self, events: list[dict[str, Any]]) -> Heard:
        assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
        message: dict[str, Any] = events[0]["message"]
        partial = ""
        for event in events:
            match event:
                case {"type": "content_block_start", "content_block": block}:
                    message["content"].append(dict(block))
                    partial = ""
                case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}:
                    message["content"][-1]["text"] += text
                case {"type": "content_block_delta", "delta": {"partial_json": piece}}:
                    partial += piece
                case {"type": "content_block_stop"} if partial:
                    message["content"][-1]["input"] = json.loads(partial)
                case {"type": "message_delta", "delta": delta, "usage": usage}:
                    message |= {**delta, "usage": usage}
        return self.hear(message)


class Chat:
    def path(self, streaming: bool) -> str:
        return "/v1/chat/completions"

    def body(self, asked: Asked, streaming: bool) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": asked.system},
            {"role": "user", "content": "an earlier turn"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": f"<current_datetime>today</current_datetime>\n\n{asked.human}"},
        ]
        for number, result in enumerate(asked.results):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "write_file", "arguments": "{}"}}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": result},
            ]
        tools = [{"type": "function", "function": {"name": n, "parameters": s}} for n, s in asked.tools.items()]
        return {"model": "m-1", "messages": messages, "tools": tools, "stream": streaming}

    def hear(self, whole: dict[str, Any]) -> Heard:
        choice, usage = whole["choices"][0], whole["usage"]
        calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
        assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
        call = (calls[0]["name"], json.loads(calls[0]["arguments"])) if calls else None
        return Heard(choice["message"]["content"] or "", call, (usage["prompt_tokens"], usage["completion_tokens"]))

    def gather(self, events: list[dict[str, Any]]) -> Heard:
        choices = [event["choices"][0] for event in events if event["choices"]]
        deltas = [choice["delta"] for choice in choices]
        calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        message = {"content": "".join(delta.get("content") or "" for delta in deltas), "tool_calls": calls}
        choice = {"message": message, "finish_reason": choices[-1]["finish_reason"]}
        return self.hear({"choices": [choice], "usage": events[-1]["usage"]})


class Responses:
    def path(self, streaming: bool) -> str:
        return "/v1/responses"

    def body(self, asked: Asked, streaming: bool) -> dict[str, Any]:
        given: list[dict[str, Any]] = [
            _said("developer", "sandboxed"),
            _said("user", "<environment_context>\n  <cwd>/somewhere</cwd>\n</environment_context>"),
            _said("user", asked.human),
        ]
        for number, result in enumerate(asked.results):
            call = {"type": "function_call", "call_id": f"c{number}", "name": "write_file", "arguments": "{}"}
            given += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": result}]
        tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in asked.tools.items()]
        return {"model": "m-1", "instructions": asked.system, "input": given, "tools": tools, "stream": streaming}

    def hear(self, whole: dict[str, Any]) -> Heard:
        assert whole["status"] == "completed"
        text = "".join(item["content"][0]["text"] for item in whole["output"] if item["type"] == "message")
        calls = [(i["name"], json.loads(i["arguments"])) for i in whole["output"] if i["type"] == "function_call"]
        usage = whole["usage"]
        return Heard(text, calls[0] if calls else None, (usage["input_tokens"], usage["output_tokens"]))

    def gather(self, events: list[dict[str, Any]]) -> Heard:
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        heard = self.hear({**events[-1]["response"], "output": done})
        assert heard.text == text
        return heard


def _said(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


class Gemini:
    def path(self, streaming: bool) -> str:
        return f"/v1beta/models/m-1:{'streamGenerateContent?alt=sse' if streaming else 'generateContent'}"

    def body(self, asked: Asked, streaming: bool) -> dict[str, Any]:
        contents: list[dict[str, Any]] = [
            {"role": "user", "parts": [{"text": "<session_context>\nlinux\n</session_context>"}]},
            {"role": "user", "parts": [{"text": asked.human}]},
        ]
        for result in asked.results:
            answer = {"functionResponse": {"name": "write_file", "response": {"output": result}}}
            call = {"functionCall": {"name": "write_file", "args": {}}}
            contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
        tools = [{"name": name, "parametersJsonSchema": schema} for name, schema in asked.tools.items()]
        system = {"role": "user", "parts": [{"text": asked.system}]}
        return {"systemInstruction": system, "contents": contents, "tools": [{"functionDeclarations": tools}]}

    def hear(self, whole: dict[str, Any]) -> Heard:
        candidate, usage = whole["candidates"][0], whole["usageMetadata"]
        assert candidate["finishReason"] == "STOP"
        parts = candidate["content"]["parts"]
        calls = [
            (part["functionCall"]["name"], part["functionCall"]["args"]) for part in parts if "functionCall" in part
        ]
        text = "".join(part.get("text", "") for part in parts)
        return Heard(text, calls[0] if calls else None, (usage["promptTokenCount"], usage["candidatesTokenCount"]))

    def gather(self, events: list[dict[str, Any]]) -> Heard:
        parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
        last = {**events[-1]["candidates"][0], "content": {"parts": parts}}
        return self.hear({**events[-1], "candidates": [last]})


SPEAKERS: Mapping[str, Speaker] = {
    "anthropic": Anthropic(),
    "chat": Chat(),
    "responses": Responses(),
    "gemini": Gemini(),
}
