"""`web` and `mcp`: the doors for browsers, and for programs that speak the Model Context Protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.commands import LOOK, SEVERAL, WORKSHOP, command
from interlock.cli.door import Door
from interlock.cli.output import complain, print_lines
from interlock.engine.nesting import only_people
from interlock.errors import ConfigInvalid


@command("web", example="interlock web --open", always=SEVERAL, panel=LOOK)
def web(
    door: Door,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Where; 0: any that is free.")
    ] = 8765,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Another address than this machine alone; needs TLS or a proxy."
        ),
    ] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="URL",
            help="Address under which browsers reach it, if not the one that is printed; may be repeated.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate, as PEM.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, as PEM.", show_default=False)
    ] = None,
    proxy_user_header: Annotated[
        str,
        typer.Option(
            "--proxy-user-header",
            metavar="NAME",
            help="Header in which the reverse proxy in front names the person who signed in there.",
            show_default=False,
        ),
    ] = "",
    proxy_secret_file: Annotated[
        Path | None,
        typer.Option(
            "--proxy-secret-file",
            metavar="FILE",
            help="What the proxy proves itself with, as the header X-Interlock-Proxy-Secret.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Serve a page that shows the runs and lets you decide, start and end them; it works on none of them itself.

    The address that it prints lets one browser in, once. Ctrl-C ends the page; no run notices.
    """
    from interlock.web import Listening, serve

    listening = Listening(host, port, tuple(origin or ()), tls_cert, tls_key, proxy_user_header, proxy_secret_file)
    serve(door.roots, listening, environ=door.environ, tell=_tell, opened=_open if open_ else None)
    complain("The page has ended; runs go on.")
    return 0


def _tell(text: str) -> None:
    print_lines([text])
    sys.stdout.flush()


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        complain("No browser was found here: open the address above yourself.")


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
