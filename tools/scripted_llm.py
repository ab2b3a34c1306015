r"""A model on loopback that does what a script says, for real coding agents in tests. No model, no key, no network.

It speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, streaming or not, and remembers
nothing of a conversation: the tool results since the last human words are the program counter, so a client that asks
again gets the same answer.  The program comes from the first rule whose pattern is found in the human words, else from
directives in these words themselves, one per line:

    @write PATH :: CONTENT      @edit PATH :: OLD => NEW (whole lines)      @shell COMMAND      @tool NAME {"json": 1}
    @say TEXT                   @form {"json": 1}                           @usage INPUT OUTPUT
    @sleep SECONDS              @http STATUS [MESSAGE]                      @http_once STATUS   @retry_after SECONDS

`\n` in a text is a line break; a status of 0 is half of an answer and a connection that is gone.  Words without a
program are answered with "OK".
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
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tools.llm_dialects import DIALECTS, Json, Talk, Tool, Turn


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
        for dialect in DIALECTS:
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
        if turn.status not in (0, 200):
            return turn.status, dialect.refused(turn), turn.retry_after
        if body.get("stream") or "streamGenerate" in path:
            return turn.status, list(dialect.stream(turn, talk.model, mark)), 0
        return turn.status, dialect.whole(turn, talk.model, mark), 0


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
        events = isinstance(content, list)
        raw = b"".join(map(_event, content)) if isinstance(content, list) else json.dumps(content).encode()
        self.send_response(status or 200)
        self.send_header("content-type", "text/event-stream" if events else "application/json")
        self.send_header("content-length", str(len(raw)))
        if retry_after:
            self.send_header("retry-after", f"{retry_after:g}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw if status else raw[: len(raw) // 2])
            self.close_connection = not status

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
