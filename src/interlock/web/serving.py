"""Where the page listens, under which address it is reached, and what it says to who started it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import uvicorn

from interlock.app import who
from interlock.cli.door import Door
from interlock.cli.output import complain
from interlock.errors import BadInput, ConfigInvalid
from interlock.web.entering import Browsers, Proxy, led_to, own_name, state_folder
from interlock.web.guarding import ENTER
from interlock.web.page import Page

LOOPBACK = "127.0.0.1"
ENDS_WITHIN_S = 5
LEADS_S = 60.0
"""How long a file leads to the page for a browser that does not come."""


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
    folder = state_folder(os.environ, door.workspace.top)
    sockets = _sockets(host, port)
    origin = address or f"http://{own_name(folder)}:{sockets[0].getsockname()[1]}"
    browsers, way = Browsers(), ExitStack()

    def invite() -> str:
        return f"{origin}{ENTER}?token={browsers.token()}"

    def entered() -> None:
        way.close()  # it leads nowhere any more
        complain(f"A browser came in. For another one: {invite()}")

    page = Page(door.folder, origin=origin, browsers=browsers, person=who(), proxy=behind, entered=entered)
    first = origin if behind else invite()
    complain(f"The page: {first}", "  Ctrl-C ends it; runs go on.")
    with way:
        shown = first if behind or not open else way.enter_context(led_to(folder, first)).as_uri()
        asyncio.run(Server(page, shown if open else "", way).serve(sockets))
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
    """Where browsers reach the page behind a proxy."""
    address = (door.place.settings.web.address or "").rstrip("/")
    parts = urlsplit(address)
    if not address or address != f"{parts.scheme}://{parts.netloc}" or "@" in parts.netloc:
        raise ConfigInvalid(
            "it is not clear under which address browsers reach the page",
            where="web.address",
            expected="scheme, name and, if unusual, port, without a path",
            found=address or "nothing",
            remedy='For example in interlock.toml: [web] address = "https://interlock.example.org"',
        )
    return address


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


class Server(uvicorn.Server):
    """Ends at once: streams that would go on for ever end with it."""

    def __init__(self, page: Page, shown: str, way: ExitStack) -> None:
        """
        Args:
            shown: what a browser is opened with, if one is.
            way: there, which leads nowhere after a while.
        """
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
        self._page, self._shown, self._way = page, shown, way

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.call_later(LEADS_S, self._way.close)
        if self._shown:  # one in a terminal comes back when it is left
            loop.run_in_executor(None, self._opened)

    def _opened(self) -> None:
        if not webbrowser.open(self._shown):
            complain("No browser could be opened: open the address above.")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._page.live.close()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
