"""How a client learns of `interlock mcp`: one entry in the client's own file, all else of it kept byte for byte.

Files of JSON may have comments and commas before a closing bracket, as editors allow it.  For looking, both are blanked
out, so that every place stays where it is; what is written is put into the text as it was.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interlock.documents.files import read_plain, replace_file
from interlock.documents.json import JsonDocument
from interlock.errors import ConfigInvalid, DocumentInvalid, WorkspaceFailed

NAME: Final = "interlock"
MARK: Final = "\ufeff"
"""What some editors put before a text in UTF-8."""


@dataclass(frozen=True)
class Editor:
    """One client: its file, where in it servers stand, and what stands there for ours."""

    title: str
    path: str
    keys: tuple[str, ...]
    entry: Mapping[str, Any]

    @property
    def is_toml(self) -> bool:
        return self.path.endswith(".toml")


_HERE: Final = ("-C", "${workspaceFolder}", "mcp")
"""For clients that start a server anywhere, and know the folder by this name."""

EDITORS: Final[Mapping[str, Editor]] = {
    "claude": Editor("Claude Code", ".mcp.json", ("mcpServers",), {"command": "interlock", "args": ["mcp"]}),
    "codex": Editor(
        "Codex",
        ".codex/config.toml",
        ("mcp_servers",),
        {"command": "interlock", "args": ["mcp"], "startup_timeout_sec": 60, "tool_timeout_sec": 3600},
    ),
    "vscode": Editor(
        "VS Code", ".vscode/mcp.json", ("servers",), {"type": "stdio", "command": "interlock", "args": [*_HERE]}
    ),
    "cursor": Editor(
        "Cursor", ".cursor/mcp.json", ("mcpServers",), {"type": "stdio", "command": "interlock", "args": [*_HERE]}
    ),
}


@dataclass(frozen=True)
class Registration:
    """What is to be done to a client's file."""

    editor: Editor
    place: Path
    before: bytes | None
    after: bytes
    other: bool = False
    """The file has a server of our name that is not as we would write it; it is left so."""

    @property
    def needed(self) -> bool:
        return self.before != self.after

    def write(self) -> None:
        """Put the file in its place, whole."""
        if self.needed:
            try:
                self.place.parent.mkdir(parents=True, exist_ok=True)
                replace_file(self.place.resolve(), self.after)
            except OSError as error:
                raise WorkspaceFailed.of(error, f"{self.editor.path} cannot be written") from error


def registration(root: Path, name: str) -> Registration:
    """What registers the server with a client in this workspace; a file that cannot be read is refused."""
    editor = EDITORS.get(name)
    if editor is None:
        raise ConfigInvalid(
            f"there is no editor {name!r}", where="option --editor", expected=", ".join(EDITORS), found=name
        )
    place = root / editor.path
    try:
        before = read_plain(place)
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise WorkspaceFailed.of(error, f"{editor.path} cannot be read", where=editor.path) from error
    text = _decoded(before, editor.path) if before is not None else ""
    edit: Callable[[str, Editor], tuple[str, bool]] = _in_toml if editor.is_toml else _in_json
    after, other = edit(text.removeprefix(MARK), editor)
    mark = MARK if text.startswith(MARK) else ""
    return Registration(editor, place, before, (mark + after).encode(), other)


def _decoded(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _broken(path, f"is not valid UTF-8: {error.reason}", line) from None


def _broken(path: str, why: str, line: int | None = None, expected: str | None = None) -> DocumentInvalid:
    return DocumentInvalid(
        f"{path} {why}",
        path=path,
        line=line,
        expected=expected,
        remedy="Nothing was changed. Mend the file, then register again.",
    )


# -- TOML: a table at the end


def _in_toml(text: str, editor: Editor) -> tuple[str, bool]:
    known = _toml(text, editor.path)
    servers = known.get(editor.keys[0], {})
    if isinstance(servers, dict) and NAME in servers:
        return text, servers[NAME] != editor.entry
    line = "\r\n" if "\r\n" in text else "\n"
    rows = [f"[{'.'.join((*editor.keys, NAME))}]", *(f"{key} = {json.dumps(it)}" for key, it in editor.entry.items())]
    parts = [
        text,
        line if text and not text.endswith("\n") else "",
        line if text.strip() else "",
        line.join(rows),
        line,
    ]
    after = "".join(parts)
    wanted = {**known, editor.keys[0]: {**servers, NAME: dict(editor.entry)}} if isinstance(servers, dict) else None
    try:
        added = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        added = None
    if added is None or added != wanted:  # the servers stand in one line, which no table can add to
        raise _broken(
            editor.path, f"has {editor.keys[0]} in a form that cannot be added to", expected=f"[{editor.keys[0]}.NAME]"
        )
    return after, False


def _toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise _broken(path, f"is not valid TOML: {error}", int(found[1]) if found else None) from None


# -- JSON with comments: an entry behind the last one


def _in_json(text: str, editor: Editor) -> tuple[str, bool]:
    if not text.strip():
        whole: dict[str, Any] = {NAME: dict(editor.entry)}
        for key in reversed(editor.keys):
            whole = {key: whole}
        return json.dumps(whole, indent=2) + "\n", False
    try:
        known = JsonDocument.parse(blanked(text), editor.path)
    except DocumentInvalid as error:
        raise _broken(editor.path, error.what.removeprefix(f"{editor.path} "), error.line) from None
    for depth in range(len(editor.keys) + 1):
        keys = editor.keys[:depth]
        if not isinstance(known.get(keys, {}), dict):
            what = ".".join(keys) or "the whole file"
            raise _broken(editor.path, f"has something else than an object as {what}", known.line(keys), "{ ... }")
        if depth < len(editor.keys) and editor.keys[depth] not in known.get(keys):
            value: Any = {NAME: dict(editor.entry)}
            for key in reversed(editor.keys[depth + 1 :]):
                value = {key: value}
            return _added(text, known, keys, editor.keys[depth], value), False
    servers = known.get(editor.keys)
    if NAME in servers:
        return text, servers[NAME] != editor.entry
    return _added(text, known, editor.keys, NAME, dict(editor.entry)), False


def blanked(text: str) -> str:
    """The same text with blanks for comments, and for commas behind which something closes."""
    plain = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _BLACK.sub(" ", found[0]), text)
    return _LAST_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else " " + found[0][1:], plain)


_COMMENT: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_BLACK: Final = re.compile(r"[^\s]")


def _added(text: str, known: JsonDocument, keys: tuple[str, ...], key: str, value: Any) -> str:
    """The text with one entry more in the object at these keys: behind all others, and behind their comments."""
    span = known.span(keys)
    closing = span.end - 1
    line = "\r\n" if "\r\n" in text else "\n"
    inside = known.text[span.start + 1 : closing]
    last = span.start + 1 + len(inside.rstrip())  # behind the last value
    follows = bool(inside.strip())
    has_comma = follows and bool(re.match(r"\s*,", _without_comments(text[last:closing])))
    outer = _indent(text, span.start)
    step = _step(known.text)
    inner = outer + step
    dumped = json.dumps({key: value}, indent=step, ensure_ascii=False)[1:-1].strip("\n")
    shown = line.join(outer + row for row in dumped.split("\n"))
    assert shown.startswith(inner)
    tail = text[last:closing].rstrip(" \t")
    gap = "" if tail.endswith("\n") else line
    comma = "," if follows and not has_comma else ""
    return f"{text[:last]}{comma}{tail}{gap}{shown}{',' if has_comma else ''}{line}{outer}{text[closing:]}"


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)


def _indent(text: str, place: int) -> str:
    """What stands before the first character of the line of this place."""
    row = text[text.rfind("\n", 0, place) + 1 : place]
    return row[: len(row) - len(row.lstrip(" \t"))]


def _step(text: str) -> str:
    """What the file indents by."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "
