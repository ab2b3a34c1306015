r"""A model on loopback that does what a script says, for real coding agents in tests. No model, no key, no network.

It speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, streaming or not, and remembers
nothing of a conversation: the tool results since the last human words are the program counter, so a client that asks
again gets the same answer.  The program comes from the first rule whose pattern is found in the human words, else from
directives in these words themselves, one per line:

    @write PATH :: CONTENT      @edit PATH :: OLD => NEW (whole lines)      @shell COMMAND      @tool NAME {"json": 1}
    @say TEXT                   @form {"json": 1}                           @usage INPUT OUTPUT
    @sleep SECONDS              @http STATUS [MESSAGE]                      @http_once STATUS   @retry_after SECONDS

`\n` in a text is a line break.  Words without a program are answered with "OK".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import posixpath
import re
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One thing that the model does; made by the functions below."""

    word: str
    args: tuple[Any, ...] = ()


def write(path: str, content: str) -> Step:
    return Step("write", (path, content))


def edit(path: str, old: str, new: str) -> Step:
    return Step("edit", (path, old, new))


def shell(command: str) -> Step:
    return Step("shell", (command,))


def use(tool: str, arguments: Json | str) -> Step:
    return Step("tool", (tool, arguments))


def say(text: str) -> Step:
    """Words: with the next call, or as the final message."""
    return Step("say", (text,))


def form(value: Any) -> Step:
    """The structured answer: by the client's own tool for it, else as JSON."""
    return Step("form", (value,))


def usage(read: int, written: int) -> Step:
    return Step("usage", (read, written))


def sleep(seconds: float) -> Step:
    return Step("sleep", (seconds,))


def http(status: int, message: str = "scripted refusal", *, once: bool = False, retry_after: float = 0) -> Step:
    return Step("http", (status, message, once, retry_after))


def happens(what: Callable[[], None]) -> Step:
    """Something that happens in the world before the next answer, once."""
    return Step("happens", (what,))


@dataclass(frozen=True)
class Rule:
    """A program, and the pattern in the human words that calls for it; its named groups fill `{name}` in texts."""

    pattern: str
    steps: tuple[Step, ...]


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


_LINE = re.compile(r"^[ \t>*-]*\\?@(?P<word>[a-z_]+)(?:[ \t]+(?P<rest>.*?))?[ \t]*$", re.MULTILINE)


def directives(text: str) -> tuple[Step, ...]:
    """The program that stands in a text."""
    steps: list[Step] = []
    after = 0.0
    for found in _LINE.finditer(text):
        word, rest = found["word"], (found["rest"] or "").replace("\\n", "\n")
        left, _, right = rest.partition(" :: ")
        head, _, tail = rest.partition(" ")
        match word:
            case "write":
                steps.append(write(left, right + "\n"))
            case "edit":
                old, _, new = right.partition(" => ")
                steps.append(edit(left, old, new))
            case "shell" | "say":
                steps.append(Step(word, (rest,)))
            case "tool":
                steps.append(use(head, json.loads(tail or "{}")))
            case "form":
                steps.append(form(json.loads(found["rest"])))
            case "usage":
                steps.append(usage(int(head), int(tail)))
            case "sleep":
                steps.append(sleep(float(rest)))
            case "retry_after":
                after = float(rest)
            case "http" | "http_once":
                steps.append(http(int(head), tail or "scripted refusal", once=word == "http_once", retry_after=after))
    return tuple(steps)


def answer(talk: Talk, rules: Sequence[Rule], asked_before: int) -> tuple[Turn, float, list[Callable[[], None]]]:
    """The next turn, what to wait before it, and what happens meanwhile."""
    steps, names = directives(talk.human), {"cwd": talk.folder}
    for rule in rules:
        if found := re.search(rule.pattern, talk.human, re.MULTILINE | re.DOTALL):
            steps, names = rule.steps, names | found.groupdict("")
            break
    if not talk.tools:  # the client's own bookkeeping: a title, a summary, a decision of its own
        said = [step.args[0] for step in steps if step.word == "say"]
        return Turn(json.dumps(example(talk.schema)) if talk.schema else (said or ["OK"])[-1]), 0, []
    results, words, tokens = list(talk.results), [], (1000, 50)
    delay, meanwhile, refusals = 0.0, list[Callable[[], None]](), list[Step]()
    for step in steps:
        args = tuple(_filled(arg, names) for arg in step.args)
        match step.word:
            case "say":
                words.append(args[0])
            case "usage":
                tokens = (args[0], args[1])
            case "sleep":
                delay += args[0]
            case "happens":
                meanwhile.append(args[0])
            case "http":
                refusals.append(step)
            case _:
                answers: list[str] = []
                while (call := _call(step.word, args, answers, talk)) is not None:
                    if not results:
                        turn = Turn("\n".join(words) or call[2], call[0], call[1], tokens)
                        return _refused(refusals, asked_before) or turn, delay, [] if asked_before else meanwhile
                    answers.append(results.pop(0))
                    words, delay, meanwhile, refusals = [], 0.0, [], []
                if step.word == "form" and talk.tool(_FORMS) is None:
                    block = json.dumps(args[0])  # held to a schema, a model says nothing beside it
                    words = [block] if talk.schema else [*words, f"```json\n{block}\n```"]
    turn = Turn("\n".join(words) or ("Done." if steps else "OK"), tokens=tokens)
    return _refused(refusals, asked_before) or turn, delay, [] if asked_before else meanwhile


def _refused(refusals: Sequence[Step], asked_before: int) -> Turn | None:
    """Each that holds once, in order, then one that holds for ever."""
    for number, step in enumerate(refusals):
        status, message, once, after = step.args
        if not once or number == asked_before:
            return Turn(message, status=status, retry_after=after)
    return None


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
    return value


# Tools: every client names its own differently, and some refuse a first try; a real model reads such a complaint.

_WRITERS = ("Write", "write", "write_file", "create", "create_file")
_EDITORS = ("Edit", "edit", "replace", "str_replace")
_READERS = ("Read", "read", "read_file", "view")
_SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell", "shell_command")
_FORMS = ("StructuredOutput", "structured_output")
_PARAMETERS = {
    "path": ("file_path", "filePath", "path", "absolute_path"),
    "content": ("content", "file_text", "contents"),
    "old": ("old_string", "oldString", "old_str"),
    "new": ("new_string", "newString", "new_str"),
    "command": ("command", "cmd"),
    "patch": ("input", "patchText", "patch"),
}
_Call = tuple[Tool, Json | str, str]


def _call(word: str, args: Sequence[Any], answers: Sequence[str], talk: Talk) -> _Call | None:
    """The call that a step needs next, after its own calls so far got these answers; None when it is done."""
    if word == "form":
        tool = talk.tool(_FORMS)
        return (tool, args[0], "") if tool and not answers else None
    if word == "tool":
        return None if answers else (talk.tool((args[0],)) or Tool(args[0]), args[1], "")
    if word == "shell":
        return None if answers else _run(args[0], talk)
    if len(answers) in (0, 2):
        return _change(word, args, talk) if not answers or _remedy(answers[0], args[0], talk) else None
    return _remedy(answers[0], args[0], talk) if len(answers) == 1 else None


def _change(word: str, args: Sequence[str], talk: Talk) -> _Call:
    path = args[0] if args[0].startswith("/") or not talk.folder else f"{talk.folder}/{args[0]}"
    if word == "write" and (tool := talk.tool(_WRITERS)):
        return tool, arguments(tool, path=path, content=args[1]), ""
    if word == "edit" and (tool := talk.tool(_EDITORS)):
        return tool, arguments(tool, path=path, old=args[1], new=args[2]), ""
    if tool := talk.tool(("apply_patch",)):
        lines = [f"+{line}\n" for line in args[-1].splitlines()]
        if word == "edit":
            lines = ["@@\n", *(f"-{line}\n" for line in args[1].splitlines()), *lines]
        head = f"*** {'Add' if word == 'write' else 'Update'} File: {args[0]}\n"
        patch = f"*** Begin Patch\n{head}{''.join(lines)}*** End Patch\n"
        return tool, patch if tool.freeform else arguments(tool, patch=patch), ""
    return _run(f"{_folder_of(args[0])} && printf %s {shlex.quote(args[-1])} > {shlex.quote(args[0])}", talk)


def _run(command: str, talk: Talk) -> _Call:
    tool = talk.tool(_SHELLS) or Tool("shell")
    return tool, arguments(tool, command=command), ""


def _remedy(complaint: str, path: str, talk: Talk) -> _Call | None:
    reader, runner = talk.tool(_READERS), talk.tool(_SHELLS)
    if reader and re.search(r"not been read|read (?:it|the file) (?:first|before)|must read", complaint, re.I):
        whole = path if path.startswith("/") or not talk.folder else f"{talk.folder}/{path}"
        return reader, arguments(reader, path=whole), ""
    if runner and re.search(r"parent directory .*does not exist", complaint, re.I):
        return _run(_folder_of(path), talk)
    if runner and re.search(r"already exists", complaint, re.I):
        return _run(f"rm -f {shlex.quote(path)}", talk)
    return None


def _folder_of(path: str) -> str:
    return f"mkdir -p {shlex.quote(posixpath.dirname(path) or '.')}"


def arguments(tool: Tool, **values: str) -> Json:
    """The values under the names that the tool has for them, and something harmless for what else it requires."""
    known: Json = tool.schema.get("properties") or {}
    given: Json = {}
    for meaning, value in values.items():
        name = next((name for name in _PARAMETERS[meaning] if name in known), _PARAMETERS[meaning][0])
        given[name] = ["bash", "-lc", value] if known.get(name, {}).get("type") == "array" else value
    for name in tool.schema.get("required") or ():
        given.setdefault(name, example(known.get(name, {})))
    return given


def example(schema: Json) -> Any:
    """The plainest value that a JSON Schema allows."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object")
    match str(kind[0] if isinstance(kind, list) else kind).lower():
        case "object":
            return {name: example(part) for name, part in (schema.get("properties") or {}).items()}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 0
    return "scripted"


# Dialects: how a request is read, and an answer worded.


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


class Responses(_OpenAI):
    """Codex."""

    path = r"/responses"

    def read(self, body: Json, talk: Talk) -> None:
        talk.system = body.get("instructions") or ""
        talk.tools = list(self._tools(body.get("tools") or ()))
        wanted = (body.get("text") or {}).get("format") or {}
        talk.schema = wanted.get("schema") if wanted.get("type") == "json_schema" else None
        for item in body["input"]:
            kind, content = item.get("type", "message"), item.get("content")
            if kind.endswith("_call_output"):
                talk.results.append(_text(item.get("output")))
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
                yield Tool(tool["name"], tool.get("parameters") or {}, tool["type"] == "custom", group)

    def whole(self, turn: Turn, model: str, mark: str) -> Json:
        output: list[Json] = []
        if turn.text or not turn.tool:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            head = {"type": "message", "id": f"msg_{mark}", "status": "completed", "role": "assistant"}
            output.append({**head, "content": [part]})
        if turn.tool:
            free = turn.tool.freeform
            call = {"id": f"fc_{mark}", "call_id": f"call_{mark}", "status": "completed", "name": turn.tool.name}
            given = {"input": turn.arguments} if free else {"arguments": json.dumps(turn.arguments)}
            space = {"namespace": turn.tool.group} if turn.tool.group else {}
            output.append({"type": "custom_tool_call" if free else "function_call", **call, **space, **given})
        tokens = {"input_tokens": turn.tokens[0], "output_tokens": turn.tokens[1], "total_tokens": sum(turn.tokens)}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        head = {"id": f"resp_{mark}", "object": "response", "created_at": 0, "status": "completed", "model": model}
        more = {"error": None, "incomplete_details": None, "parallel_tool_calls": False, "tool_choice": "auto"}
        return {**head, **more, "tools": [], "output": output, "usage": {**tokens, **details}}

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


_DIALECTS = (Anthropic(), Responses(), Chat(), Gemini())
MODELS = ("claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5.5", "gemini-2.5-pro", "scripted")


@dataclass(frozen=True)
class Request:
    """What a client asked, and what it got."""

    path: str
    talk: Talk
    turn: Turn


class Model:
    """The model while it is served."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = list(rules)
        self.requests: list[Request] = []
        self.unknown: list[str] = []
        """Paths that nobody here serves."""
        self.url = ""
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def work(self) -> list[Request]:
        """The requests that offered tools: the work itself, without titles and probes."""
        return [request for request in self.requests if request.talk.tools]

    def asked(self, path: str, body: Json) -> tuple[int, Json | list[Json | str], float]:
        """Status, the answer whole or in events, and seconds to try again after."""
        for dialect in _DIALECTS:
            if found := re.search(dialect.path + r"\Z", path):
                break
        else:
            self.unknown.append(path)
            return 404, {"error": {"message": f"there is no {path} here"}}, 0
        talk = Talk(found.groupdict().get("model") or body.get("model", ""))
        dialect.read(body, talk)
        with self._lock:
            place = hashlib.sha256(repr((talk.human, talk.results, bool(talk.tools))).encode()).hexdigest()
            turn, delay, meanwhile = answer(talk, self.rules, self._asked[place])
            self._asked[place] += 1
            self.requests.append(Request(path, talk, turn))
            mark = f"{len(self.requests):024d}"
        time.sleep(delay)
        for happen in meanwhile:
            happen()
        if turn.status != 200:
            return turn.status, dialect.refused(turn), turn.retry_after
        if body.get("stream") or "streamGenerate" in path:
            return 200, list(dialect.stream(turn, talk.model, mark)), 0
        return 200, dialect.whole(turn, talk.model, mark), 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def do_GET(self) -> None:
        listed = [
            {"id": name, "object": "model", "type": "model", "display_name": name, "created": 0} for name in MODELS
        ]
        names = [{"name": f"models/{name}"} for name in MODELS]
        self._send(200, {"object": "list", "data": listed, "models": names, "has_more": False})

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if path.endswith(("/count_tokens", ":countTokens")):
            self._send(200, {"input_tokens": 1000, "totalTokens": 1000})
        else:
            self._send(*self.model.asked(path, body))

    def _send(self, status: int, content: Json | list[Json | str], retry_after: float = 0) -> None:
        if isinstance(content, list):
            raw = b"".join(_event(one) for one in content)
        else:
            raw = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if isinstance(content, list) else "application/json")
        self.send_header("content-length", str(len(raw)))
        if retry_after:
            self.send_header("retry-after", f"{retry_after:g}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: `Model.requests` has it all."""


def _event(data: Json | str) -> bytes:
    if isinstance(data, str):
        return f"data: {data}\n\n".encode()
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away."""


@contextmanager
def serving(*rules: Rule, port: int = 0) -> Iterator[Model]:
    """A scripted model on a port of its own, until the block ends."""
    model = Model(rules)
    handler = type("Handler", (_Handler,), {"model": model})
    with _Server(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield model
        finally:
            server.shutdown()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=8099)
    with serving(port=options.parse_args().port) as served:
        print(f"listening on {served.url}", flush=True)
        threading.Event().wait()
