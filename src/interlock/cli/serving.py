"""`web`: the page; `mcp`: tools for a coding agent's client, on standard streams (PAGE-01, PAGE-05)."""

from __future__ import annotations

from typing import Any

from interlock.cli.door import Door
from interlock.cli.output import tell


def web(door: Door, **how: Any) -> int:
    door.people_only("serve the page")
    from interlock.web.serving import serve

    return serve(door, **how)


def mcp(door: Door, *, register: str) -> int:
    door.people_only("open this door")
    if register:
        from interlock.mcp import registering

        tell(*registering.register(door.workspace.top, register))
        return 0
    from interlock.mcp.desk import Desk
    from interlock.mcp.server import server

    server(Desk(door.folder)).run("stdio")
    return 0
