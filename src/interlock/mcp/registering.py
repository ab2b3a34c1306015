"""How a client learns of `interlock mcp`: one entry in the client's own file, or the lines to paste there."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.documents.changing import set_json
from interlock.documents.files import read, write
from interlock.errors import InterlockError, unknown

NAME = "interlock"
_PLAIN: Mapping[str, Any] = {"command": "interlock", "args": ["mcp"]}
_HERE: Mapping[str, Any] = {"command": "interlock", "args": ["-C", "${workspaceFolder}", "mcp"]}
"""For clients that start a server anywhere, and know the folder by this name."""
CLIENTS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "claude": (".mcp.json", "mcpServers", _PLAIN),
    "codex": (".codex/config.toml", "mcp_servers", {**_PLAIN, "startup_timeout_sec": 60, "tool_timeout_sec": 3600}),
    "vscode": (".vscode/mcp.json", "servers", {"type": "stdio", **_HERE}),
    "cursor": (".cursor/mcp.json", "mcpServers", _HERE),
}
"""Client -> its file in the workspace, where in it servers stand, and what stands there for ours."""


def register(top: Path, client: str) -> list[str]:
    """Write the entry where the client's file takes it, all else kept as it is; what was done, in lines."""
    if client not in CLIENTS:
        raise unknown(f"there is no client {client!r} to register with", client, CLIENTS, where="--register")
    path, servers, entry = CLIENTS[client]
    added = _in_toml if path.endswith(".toml") else _in_json
    try:
        text = (read(top, path) or b"").decode("utf-8")
        changed = added(text, servers, entry)
    except (ValueError, InterlockError):  # commented, broken, or otherwise than expected: it is theirs to change
        lines = _toml(servers, entry) if path.endswith(".toml") else json.dumps({servers: {NAME: entry}}, indent=2)
        return [f"{path} was left as it is. Paste this into it:", "", *lines.splitlines()]
    if changed == text:
        return [f"kept as it is: {path}"]
    write(top, path, changed.encode())
    return [f"written: {path}"]


def _in_json(text: str, servers: str, entry: Mapping[str, Any]) -> str:
    if not text.strip():
        return json.dumps({servers: {NAME: entry}}, indent=2) + "\n"
    known = json.loads(text)
    if NAME in known.get(servers, {}):
        return text
    keys, value = ((servers, NAME), entry) if servers in known else ((servers,), {NAME: entry})
    return _held(set_json(text, {keys: dict(value)}), json.loads, known, servers, entry)


def _in_toml(text: str, servers: str, entry: Mapping[str, Any]) -> str:
    known = tomllib.loads(text)
    if NAME in known.get(servers, {}):
        return text
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return _held(f"{text}{gap}{_toml(servers, entry)}", tomllib.loads, known, servers, entry)


def _held(text: str, parse: Any, known: Any, servers: str, entry: Mapping[str, Any]) -> str:
    """The text, if it says what it said and the entry."""
    if parse(text) != {**known, servers: {**known.get(servers, {}), NAME: entry}}:
        raise ValueError("it says something else then")
    return text


def _toml(servers: str, entry: Mapping[str, Any]) -> str:
    rows = [f"[{servers}.{NAME}]", *(f"{name} = {json.dumps(value)}" for name, value in entry.items())]
    return "\n".join(rows) + "\n"
