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
    toml = path.endswith(".toml")
    loads: Any = tomllib.loads if toml else json.loads
    rows = [f"[{servers}.{NAME}]", *(f"{name} = {json.dumps(value)}" for name, value in entry.items())]
    alone = "\n".join(rows) if toml else json.dumps({servers: {NAME: entry}}, indent=2)
    try:
        text = (read(top, path) or b"").decode("utf-8")
        known = loads(text) if text.strip() else {}
        there = known.get(servers, {})
        if NAME in there:
            return [f"kept as it is: {path}"]
        if toml or not known:
            changed = f"{text}\n{alone}\n" if toml and text.strip() else f"{alone}\n"
        else:
            changed = set_json(text, {(servers, NAME): dict(entry)} if there else {(servers,): {NAME: entry}})
        if loads(changed) != {**known, servers: {**there, NAME: entry}}:
            raise ValueError("it says something else then")
    except (
        ValueError,
        TypeError,
        AttributeError,
        InterlockError,
    ):  # commented, broken, otherwise than expected: theirs
        return [f"{path} was left as it is. Paste this into it:", "", *alone.splitlines()]
    write(top, path, changed.encode())
    return [f"written: {path}"]
