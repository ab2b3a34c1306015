"""What coding agents say to a model and hear of it, in the four dialects that they speak; for the scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    name: str
    schema: Json = field(default_factory=dict)
    freeform: bool = False
    """It takes one text instead of arguments."""
    group: str = ""


@dataclass
class Talk:
    """A conversation, whatever dialect it came in."""

    model: str
    system: str = ""
    human: str = ""
    """The last words of the human, without the context that clients put around them."""
    results: list[str] = field(default_factory=list)
    """What tools answered since then."""
    tools: list[Tool] = field(default_factory=list)
    schema: Json | None = None
    """The answer must be JSON of this schema."""

    def hears(self, text: str) -> None:
        """Something in the name of the human; context (`<system-reminder>...`) is not theirs."""
        words = re.sub(r"\A(\s*<(?P<tag>[\w-]+)(?: [^>]*)?>.*?</(?P=tag)>)+", "", text, flags=re.DOTALL).strip()
        self.system += f"\n{text}" if words != text.strip() else ""
        if words:
            self.system += f"\n{self.human}"
            self.human, self.results = words, []

    def tool(self, names: Sequence[str]) -> Tool | None:
        return next((tool for name in names for tool in self.tools if tool.name == name), None)

    @property
    def folder(self) -> str:
        found = _FOLDER.search(self.system)
        return found[1].strip().rstrip("/") if found else ""


_FOLDER = re.compile(
    r"(?:working directory:|working in the directory:|working in the following directories:\s+-|<cwd>"
    r"|\*\*Workspace Directories:\*\*\s+-)\s*(/[^\n<]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Turn:
    """What the model answers."""

    text: str = ""
    tool: Tool | None = None
    arguments: Json | str = ""
    tokens: tuple[int, int] = (1000, 50)
    status: int = 200
    retry_after: float = 0


class Dialect(Protocol):
    """How a request is read, and an answer worded."""

    path: str
    """A pattern for the end of the address."""

    def read(self, body: Json, talk: Talk) -> None: ...
    def whole(self, turn: Turn, model: str, mark: str) -> Json: ...
    def stream(self, turn: Turn, model: str, mark: str) -> Iterator[Json | str]: ...
    def refused(self, turn: Turn) -> Json: ...


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if isinstance(part, dict) and "text" in part)


class Anthropic:
    """Messages: Claude Code."""

    path = r"/messages"

    def read(self, body: Json, talk: Talk) -> None:
        talk.system = _text(body.get("system"))
        talk.tools = [Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or ()]
        for message in body["messages"]:
            content = message["content"]
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if block["type"] == "tool_result":
                    talk.results.append(_text(block.get("content")))
                elif block["type"] == "text" and message["role"] == "user":
                    talk.hears(block["text"])
                elif block["type"] == "text" and message["role"] == "system":
                    talk.system += f"\n{block['text']}"

    def whole(self, turn: Turn, model: str, mark: str) -> Json:
        blocks: list[Json] = [{"type": "text", "text": turn.text}] if turn.text or not turn.tool else []
        if turn.tool:
            call = {"id": f"toolu_{mark}", "name": turn.tool.name, "input": turn.arguments}
            blocks.append({"type": "tool_use", **call})
        tokens = {"input_tokens": turn.tokens[0], "output_tokens": turn.tokens[1]}
        stop = {"stop_reason": "tool_use" if turn.tool else "end_turn", "stop_sequence": None}
        head = {"id": f"msg_{mark}", "type": "message", "role": "assistant", "model": model}
        return {**head, "content": blocks, **stop, "usage": {**tokens, "cache_read_input_tokens": 0}}

    def stream(self, turn: Turn, model: str, mark: str) -> Iterator[Json | str]:
        whole = self.whole(turn, model, mark)
        yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        for index, block in enumerate(whole["content"]):
            at, is_text = {"index": index}, block["type"] == "text"
            begun = {**block, "text": ""} if is_text else {**block, "input": {}}
            rest = {"type": "text_delta", "text": block["text"]} if is_text else _json_delta(block["input"])
            yield {"type": "content_block_start", **at, "content_block": begun}
            yield {"type": "content_block_delta", **at, "delta": rest}
            yield {"type": "content_block_stop", **at}
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
        yield {"type": "message_stop"}

    def refused(self, turn: Turn) -> Json:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
        kinds |= {404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(turn.status, "api_error"), "message": turn.text}}


def _json_delta(arguments: Any) -> Json:
    return {"type": "input_json_delta", "partial_json": json.dumps(arguments)}


class _OpenAI:
    def refused(self, turn: Turn) -> Json:
        codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
        kind = "invalid_request_error" if turn.status < 429 else "requests" if turn.status == 429 else "server_error"
        error = {"message": turn.text, "type": kind, "param": None, "code": codes.get(turn.status)}
        return {"error": error}


_SEARCH, _FOUND = "tool_search", "tool_search_output"
"""By which Codex finds the tools of servers."""


class Responses(_OpenAI):
    """Codex."""

    path = r"/responses"

    def read(self, body: Json, talk: Talk) -> None:
        talk.system = body.get("instructions") or ""
        found = [tool for item in body["input"] if item.get("type") == _FOUND for tool in item["tools"]]
        talk.tools = list(self._tools([*(body.get("tools") or ()), *found]))
        wanted = (body.get("text") or {}).get("format") or {}
        talk.schema = wanted.get("schema") if wanted.get("type") == "json_schema" else None
        for item in body["input"]:
            kind, content = item.get("type", "message"), item.get("content")
            if kind.endswith("_call_output"):
                talk.results.append(_text(item.get("output")))
            elif kind == _FOUND:
                talk.results.append(json.dumps([tool.name for tool in self._tools(item["tools"])]))
            elif kind == "message" and item["role"] == "user":
                for part in [content] if isinstance(content, str) else [part.get("text", "") for part in content]:
                    talk.hears(part)
            elif kind == "message" and item["role"] in ("system", "developer"):
                talk.system += f"\n{_text(content)}"

    def _tools(self, offered: Sequence[Json], group: str = "") -> Iterator[Tool]:
        for tool in offered:
            if tool["type"] == "namespace":
                yield from self._tools(tool.get("tools") or (), tool["name"])
            elif tool["type"] in ("function", "custom"):
                name = f"{group}__{tool['name']}" if group.startswith("mcp__") else tool["name"]  # as others name it
                yield Tool(name, tool.get("parameters") or {}, tool["type"] == "custom", group)
            elif tool["type"] == _SEARCH:
                yield Tool(_SEARCH, tool.get("parameters") or {})

    def whole(self, turn: Turn, model: str, mark: str) -> Json:
        output: list[Json] = []
        if turn.text or not turn.tool:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            head = {"type": "message", "id": f"msg_{mark}", "status": "completed", "role": "assistant"}
            output.append({**head, "content": [part]})
        if turn.tool:
            free = turn.tool.freeform
            name = turn.tool.name.removeprefix(f"{turn.tool.group}__")
            call = {"id": f"fc_{mark}", "call_id": f"call_{mark}", "status": "completed", "name": name}
            given = {"input": turn.arguments} if free else {"arguments": json.dumps(turn.arguments)}
            space = {"namespace": turn.tool.group} if turn.tool.group else {}
            if name == _SEARCH:
                given = {"execution": "client", "arguments": turn.arguments}
            kind = "tool_search_call" if name == _SEARCH else "custom_tool_call" if free else "function_call"
            output.append({"type": kind, **call, **space, **given})
        tokens = {"input_tokens": turn.tokens[0], "output_tokens": turn.tokens[1], "total_tokens": sum(turn.tokens)}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response: Json = {
            "id": f"resp_{mark}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": model,
        }
        more = {"error": None, "incomplete_details": None, "parallel_tool_calls": False, "tool_choice": "auto"}
        return {**response, **more, "tools": [], "output": output, "usage": {**tokens, **details}}

    def stream(self, turn: Turn, model: str, mark: str) -> Iterator[Json | str]:
        whole = self.whole(turn, model, mark)
        yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
        for index, item in enumerate(whole["output"]):
            at = {"item_id": item["id"], "output_index": index}
            blank = {
                name: [] if name == "content" else "" for name in ("content", "input", "arguments") if name in item
            }
            begun = {**item, "status": "in_progress", **blank}
            yield {"type": "response.output_item.added", "output_index": index, "item": begun}
            if item["type"] == "message":
                yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": turn.text}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": whole}


class Chat(_OpenAI):
    """Chat Completions: OpenCode, Copilot, Qwen Code."""

    path = r"/chat/completions"

    def read(self, body: Json, talk: Talk) -> None:
        functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
        talk.tools = [Tool(tool["name"], tool.get("parameters") or {}) for tool in functions]
        wanted = body.get("response_format") or {}
        if wanted.get("type", "text") != "text":
            talk.schema = wanted.get("json_schema", {}).get("schema") or {"type": "object"}
        for message in body["messages"]:
            content = message.get("content")
            if message["role"] == "tool":
                talk.results.append(_text(content))
            elif message["role"] == "user":
                for part in [content] if isinstance(content, str) else [part.get("text", "") for part in content]:
                    talk.hears(part)
            elif message["role"] in ("system", "developer"):
                talk.system += f"\n{_text(content)}"

    def _parts(self, turn: Turn, mark: str) -> tuple[Json, str, Json]:
        message: Json = {"role": "assistant", "content": turn.text or None}
        if turn.tool:
            function = {"name": turn.tool.name, "arguments": json.dumps(turn.arguments)}
            message["tool_calls"] = [{"index": 0, "id": f"call_{mark}", "type": "function", "function": function}]
        tokens = {
            "prompt_tokens": turn.tokens[0],
            "completion_tokens": turn.tokens[1],
            "total_tokens": sum(turn.tokens),
        }
        return message, "tool_calls" if turn.tool else "stop", tokens

    def whole(self, turn: Turn, model: str, mark: str) -> Json:
        message, reason, tokens = self._parts(turn, mark)
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        head = {"id": f"chatcmpl-{mark}", "object": "chat.completion", "created": 0, "model": model}
        return {**head, "choices": [choice], "usage": tokens}

    def stream(self, turn: Turn, model: str, mark: str) -> Iterator[Json | str]:
        message, reason, tokens = self._parts(turn, mark)
        head = {"id": f"chatcmpl-{mark}", "object": "chat.completion.chunk", "created": 0, "model": model}
        yield {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        yield {**head, "choices": [], "usage": tokens}
        yield "[DONE]"


class Gemini:
    """generateContent: Gemini CLI."""

    path = r"/models/(?P<model>[^:]+):(generateContent|streamGenerateContent)"

    def read(self, body: Json, talk: Talk) -> None:
        instruction = body.get("systemInstruction") or {}
        talk.system = instruction if isinstance(instruction, str) else _text(instruction.get("parts"))
        declared = [one for group in body.get("tools") or () for one in group.get("functionDeclarations") or ()]
        schemas = [one.get("parametersJsonSchema") or one.get("parameters") or {} for one in declared]
        talk.tools = [Tool(one["name"], schema) for one, schema in zip(declared, schemas, strict=True)]
        wanted = body.get("generationConfig") or {}
        if wanted.get("responseMimeType") == "application/json":
            talk.schema = wanted.get("responseJsonSchema") or wanted.get("responseSchema") or {"type": "object"}
        for content in body.get("contents") or ():
            for part in content.get("parts") or () if content.get("role", "user") != "model" else ():
                if "functionResponse" in part:
                    talk.results.append(json.dumps(part["functionResponse"].get("response")))
                elif part.get("text"):
                    talk.hears(part["text"])

    def whole(self, turn: Turn, model: str, mark: str) -> Json:
        parts: list[Json] = [{"text": turn.text}] if turn.text or not turn.tool else []
        if turn.tool:
            call = {"id": f"fc_{mark}", "name": turn.tool.name, "args": turn.arguments}
            parts.append({"functionCall": call, "thoughtSignature": "c2NyaXB0ZWQ="})
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}
        read, written = turn.tokens
        tokens = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
        head = {"modelVersion": model, "responseId": f"r_{mark}"}
        return {"candidates": [candidate], "usageMetadata": tokens, **head}

    def stream(self, turn: Turn, model: str, mark: str) -> Iterator[Json | str]:
        yield self.whole(turn, model, mark)

    def refused(self, turn: Turn) -> Json:
        states = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
        states |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
        error: Json = {"code": turn.status, "message": turn.text, "status": states.get(turn.status, "UNKNOWN")}
        if turn.retry_after:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{turn.retry_after:g}s"}]
        return {"error": error}


DIALECTS: tuple[Dialect, ...] = (Anthropic(), Responses(), Chat(), Gemini())
