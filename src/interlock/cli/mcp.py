"""`mcp`: the door for programs that speak the Model Context Protocol, on the standard streams."""

from __future__ import annotations

import sys

from interlock.cli.commands import WORKSHOP, command
from interlock.cli.door import Door
from interlock.cli.output import complain
from interlock.engine.nesting import only_people
from interlock.errors import ConfigInvalid


@command("mcp", example="interlock mcp", panel=WORKSHOP)
def mcp(door: Door) -> int:
    """Serve this workspace to an editor's chat or a coding agent, by MCP on standard input and output."""
    only_people(door.environ, door.root, "open this door")
    try:
        from interlock.mcp.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigInvalid(
            "the server for MCP needs the official SDK, which is not installed",
            where="interlock mcp",
            found=f"no module {missing.name}",
            remedy="Install interlock with its extra: pip install 'interlock[mcp]'",
        ) from missing
    if sys.stdin.isatty():
        complain(
            "This speaks MCP on its standard input: a client starts it, not a person.",
            f"  register it: {door.spoken('init --editor claude')}   (or codex, vscode, cursor)",
        )
    serve(door.root, door.environ)
    return 0
