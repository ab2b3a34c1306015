"""Where the page listens, under which address it is reached, and what it says to who started it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
import webbrowser
from contextlib import ExitStack
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import FrameType
from urllib.parse import urlsplit

import uvicorn

from interlock.app import who
from interlock.cli.door import Door
from interlock.cli.output import complain
from interlock.errors import BadInput, ConfigInvalid
from interlock.web.guarding import ENTER, Browsers, Proxy, own_name
from interlock.web.page import Page

LOOPBACK = "127.0.0.1"
ENDS_WITHIN_S = 5
LEADS = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0; url={0}"><title>interlock</title></head>'
    '<body><p><a href="{0}">To the page</a></p></body></html>\n'
)


def serve(door: Door, *, port: int, open: bool, host: str, proxy_user: str, proxy_secret: str) -> int:
    """Serve the page until somebody ends it; no run notices."""
    door.people_only("serve the page")
    host = LOOPBACK if host == "localhost" else host
    behind = _proxy(proxy_user, proxy_secret, door.workspace.top)
    if not _is_loopback(host) and behind is None:
        raise ConfigInvalid(
            f"the page is not served to other machines in the clear: {host} is not of this machine alone",
            where="--host",
            expected="a loopback address, or a proxy that says who people are: --proxy-user and --proxy-secret",
            remedy=f"Without it, reach it from elsewhere by: ssh -L {port}:{LOOPBACK}:{port} HOST",
        )
    address = _address(door) if behind else ""
    sockets = _sockets(host, port)
    origin = address or f"http://{own_name()}:{sockets[0].getsockname()[1]}"
    browsers, way = Browsers(), ExitStack()

    def invite() -> str:
        return f"{origin}{ENTER}?token={browsers.token()}"

    def entered() -> None:
        way.close()  # it leads nowhere any more
        complain(f"A browser came in. For another one: {invite()}")

    page = Page(door.folder, origin=origin, browsers=browsers, person=who(), proxy=behind, entered=entered)
    first = shown = origin if behind else invite()
    complain(f"The page: {first}", "  Ctrl-C ends it; runs go on.")
    with way:
        if open and not behind:  # whoever starts a browser with the address shows it to all who list the processes
            file = Path(way.enter_context(TemporaryDirectory(prefix="interlock-")), "open.html")
            file.write_text(LEADS.format(escape(first)), "ascii")
            shown = file.as_uri()
        if open:  # one in a terminal comes back when it is left
            Thread(target=_opened, args=[shown], daemon=True).start()
        asyncio.run(Server(page).serve(sockets))
    return 0


def _proxy(header: str, file: str, top: Path) -> Proxy | None:
    if bool(header) != bool(file):
        raise BadInput(
            "the header of a proxy is believed only with its secret",
            where="--proxy-user and --proxy-secret",
            expected="both, or none of them",
        )
    return Proxy.of(header, Path(file).absolute(), top) if header else None


def _address(door: Door) -> str:
    """Where browsers reach the page behind a proxy: scheme, name and, if unusual, port."""
    parts = urlsplit(door.place.settings.web.address or "")
    if not parts.netloc:
        raise ConfigInvalid(
            "it is not clear under which address browsers reach the page",
            where="web.address",
            expected="scheme, name and, if unusual, port",
            remedy='For example in interlock.toml: [web] address = "https://interlock.example.org"',
        )
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _sockets(host: str, port: int) -> list[socket.socket]:
    """Listening. On this machine at both of its addresses: a browser asks either, and whoever had the other would get
    our cookies."""
    first = _listening(host, port)
    if host != LOOPBACK:
        return [first]
    try:
        return [first, _listening("::1", first.getsockname()[1])]
    except ConfigInvalid as problem:
        if isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EADDRINUSE:
            first.close()
            if port == 0:  # of all free ones it got one whose other half is taken
                return _sockets(host, port)
            raise
        return [first]  # this machine has no IPv6


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise ConfigInvalid(
            f"the page cannot be served at {host} port {port}: {(error.strerror or str(error)).lower()}",
            where="--host and --port",
            remedy="Name another port, or take any that is free: interlock web --port 0" if taken else None,
        ) from error


def _opened(address: str) -> None:
    if not webbrowser.open(address):
        complain("No browser could be opened: open the address above.")


class Server(uvicorn.Server):
    """Ends at once: streams that would go on for ever end with it."""

    def __init__(self, page: Page) -> None:
        self._page = page
        config = uvicorn.Config(
            page.app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=ENDS_WITHIN_S,
            timeout_keep_alive=30,
            limit_concurrency=1000,
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._page.live.close()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
