"""Steps of a script as calls of the tools that a client offers.

Every client names its tools and their parameters differently, and some refuse a first try: Claude Code and OpenCode
want an existing file read before it is overwritten, Copilot creates files only where the folder exists and the file
does not.  A real model reads such a complaint and tries again; so does `next_call`.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tools.model_server.conversation import Call, Conversation, JsonObject, Tool
from tools.model_server.steps import Action, Edit, Shell, Use, Write

WRITERS = ("Write", "write", "write_file", "create", "create_file")
EDITORS = ("Edit", "edit", "replace", "str_replace")
READERS = ("Read", "read", "read_file", "view")
SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell", "shell_command")
PATCHERS = ("apply_patch",)

PARAMETERS = {
    "path": ("file_path", "filePath", "path", "absolute_path"),
    "content": ("content", "file_text", "contents"),
    "old": ("old_string", "oldString", "old_str"),
    "new": ("new_string", "newString", "new_str"),
    "command": ("command", "cmd"),
    "patch": ("input", "patchText", "patch"),
}

_READ_FIRST = re.compile(r"not been read|read (?:it|the file) (?:first|before)|must read", re.IGNORECASE)
_NO_FOLDER = re.compile(r"parent directory .*does not exist", re.IGNORECASE)
_EXISTS = re.compile(r"already exists", re.IGNORECASE)


class NoTool(Exception):
    """The client offers nothing that could do this step."""

    def __init__(self, step: Action, offered: Sequence[Tool]) -> None:
        names = ", ".join(tool.name for tool in offered)
        super().__init__(f"No tool for {type(step).__name__.lower()}; offered: {names}")


def next_call(step: Action, answers: Sequence[str], talk: Conversation) -> Call | None:
    """The call that the step needs next, after its own calls so far got these answers; None when it is finished.

    Raises:
        NoTool: the client offers no tool for it.
    """
    if not answers:
        return _first_try(step, talk)
    if not isinstance(step, Write | Edit):
        return None
    remedy = _remedy(answers[0], step.path, talk)
    if remedy is None:
        return None
    match len(answers):
        case 1:
            return remedy
        case 2:
            return _first_try(step, talk)
        case _:
            return None


def _first_try(step: Action, talk: Conversation) -> Call:
    match step:
        case Write(path, content):
            return _write(step, path, content, talk)
        case Edit(path, old, new):
            if editor := _offered(EDITORS, talk):
                return Call(editor, _arguments(editor, path=_absolute(path, talk), old=old, new=new))
            return _patch(step, f"*** Update File: {path}\n@@\n{_lines('-', old)}{_lines('+', new)}", talk)
        case Shell(command):
            return _shell(step, command, talk)
        case Use(name, arguments):
            return Call(next((tool for tool in talk.tools if tool.name == name), Tool(name)), arguments)


def _write(step: Write, path: str, content: str, talk: Conversation) -> Call:
    if writer := _offered(WRITERS, talk):
        return Call(writer, _arguments(writer, path=_absolute(path, talk), content=content))
    if _offered(PATCHERS, talk):
        return _patch(step, f"*** Add File: {path}\n{_lines('+', content)}", talk)
    return _shell(step, f"{_made_folder(path)} && printf %s {shlex.quote(content)} > {shlex.quote(path)}", talk)


def _patch(step: Action, change: str, talk: Conversation) -> Call:
    patcher = _offered(PATCHERS, talk)
    if patcher is None:
        raise NoTool(step, talk.tools)
    patch = f"*** Begin Patch\n{change}*** End Patch\n"
    return Call(patcher, patch if patcher.freeform else _arguments(patcher, patch=patch))


def _shell(step: Action, command: str, talk: Conversation) -> Call:
    shell = _offered(SHELLS, talk)
    if shell is None:
        raise NoTool(step, talk.tools)
    return Call(shell, _arguments(shell, command=command))


def _remedy(complaint: str, path: str, talk: Conversation) -> Call | None:
    """What helps against the complaint, if it is one and the client has a tool for it."""
    reader, shell = _offered(READERS, talk), _offered(SHELLS, talk)
    if reader and _READ_FIRST.search(complaint):
        return Call(reader, _arguments(reader, path=_absolute(path, talk)))
    if shell and _NO_FOLDER.search(complaint):
        return Call(shell, _arguments(shell, command=_made_folder(path)))
    if shell and _EXISTS.search(complaint):
        return Call(shell, _arguments(shell, command=f"rm -f {shlex.quote(path)}"))
    return None


def _made_folder(path: str) -> str:
    """The command that makes the folder of a file; Gemini CLI refuses any `$(...)`."""
    return f"mkdir -p {shlex.quote(posixpath.dirname(path) or '.')}"


def _offered(names: Sequence[str], talk: Conversation) -> Tool | None:
    tools = {tool.name: tool for tool in talk.tools}
    return next((tools[name] for name in names if name in tools), None)


def _absolute(path: str, talk: Conversation) -> str:
    """Most clients demand absolute paths; all of them accept one."""
    return path if path.startswith("/") or talk.folder is None else f"{talk.folder}/{path}"


def _lines(mark: str, text: str) -> str:
    return "".join(f"{mark}{line}\n" for line in text.splitlines())


def _arguments(tool: Tool, **values: str) -> dict[str, Any]:
    """The values under the names that the tool has for them, and something harmless for what else it requires."""
    properties: Mapping[str, JsonObject] = tool.schema.get("properties") or {}
    arguments: dict[str, Any] = {}
    for meaning, value in values.items():
        name = next((name for name in PARAMETERS[meaning] if name in properties), PARAMETERS[meaning][0])
        is_list = properties.get(name, {}).get("type") == "array"
        arguments[name] = ["bash", "-lc", value] if is_list else value
    for name in tool.schema.get("required") or ():
        arguments.setdefault(name, example(properties.get(name, {})))
    return arguments


def example(schema: JsonObject) -> Any:
    """The plainest value that the JSON Schema allows."""
    if choices := schema.get("enum"):
        return choices[0]
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
        case "null":
            return None
        case _:
            return "scripted"
