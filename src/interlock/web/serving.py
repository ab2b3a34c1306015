"""The server: where it listens, under which addresses it is reached, and what it says to whoever started it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from interlock.commanding import COMMAND, CommandLine
from interlock.engine.nesting import only_people
from interlock.engine.people import person
from interlock.errors import ConfigInvalid
from interlock.web.entering import Browsers, Proxy, led_to, own_name, state_folder
from interlock.web.guarding import ENTER, Threshold
from interlock.web.index import workspaces
from interlock.web.page import Page

LOOPBACK: Final = "127.0.0.1"
BOTH: Final = (LOOPBACK, "::1")
"""On this machine we listen at both: a browser asks either, and whoever had the other would get our cookies."""
ENDS_WITHIN_S: Final = 5
LEADS_S: Final = 60.0
"""How long a file leads to the page for a browser that does not come."""


@dataclass(frozen=True)
class Listening:
    """Where a page is served."""

    host: str = LOOPBACK
    port: int = 8765
    origins: tuple[str, ...] = ()
    """Addresses under which browsers reach it; empty: what follows from the rest."""
    certificate: Path | None = None
    key: Path | None = None
    user_header: str = ""
    secret_file: Path | None = None

    def check(self) -> None:
        """`ConfigInvalid` for a place where anybody could read along, or say that they are somebody else."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigInvalid("a certificate and its key go together", where="options --tls-cert and --tls-key")
        if bool(self.user_header) != (self.secret_file is not None):
            raise ConfigInvalid(
                "the header of a proxy is believed only with its secret",
                where="options --proxy-user-header and --proxy-secret-file",
                expected="both, or none of them",
            )
        if not self.is_loopback and self.certificate is None and not self.user_header:
            raise ConfigInvalid(
                f"the page is not served to other machines in the clear: {self.host} is not of this machine alone",
                where="option --host",
                expected="a loopback address; or --tls-cert and --tls-key; or --proxy-user-header, --proxy-secret-file",
                remedy=f"Without it, reach it from elsewhere by: ssh -L {self.port}:{LOOPBACK}:{self.port} HOST",
            )
        if not self.origins and (self.user_header or self._is_any):
            raise ConfigInvalid(
                "it is not clear under which address browsers reach the page",
                where="option --origin",
                expected="for example --origin https://interlock.example.org",
            )
        for origin in self.origins:
            _check_origin(origin)

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def _is_any(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def reached_at(self, port: int, name: str) -> tuple[str, ...]:
        """The origins, given the port that was found and the name that this user's pages have here."""
        if self.origins:
            return tuple(origin.rstrip("/") for origin in self.origins)
        host = name if self.is_loopback else f"[{self.host}]" if ":" in self.host else self.host
        scheme, usual = ("https", 443) if self.certificate is not None else ("http", 80)
        return (f"{scheme}://{host}" if port == usual else f"{scheme}://{host}:{port}",)

    def sockets(self) -> list[socket.socket]:
        """Listening; `ConfigInvalid` when the place is taken or not ours."""
        if self.host not in (LOOPBACK, "localhost"):
            return [_listening(self.host, self.port)]
        first = _listening(LOOPBACK, self.port)
        try:
            return [first, _listening("::1", first.getsockname()[1])]
        except ConfigInvalid as problem:
            if isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EADDRINUSE:
                first.close()
                raise
            return [first]  # this machine has no IPv6


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    plain = f"{parts.scheme}://{parts.netloc}"
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or origin.rstrip("/") != plain
        or "@" in parts.netloc
    ):
        raise ConfigInvalid(
            "this is no address of a page",
            where="option --origin",
            expected="scheme, name and, if unusual, port: https://interlock.example.org",
            found=origin,
        )


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise ConfigInvalid(
            f"the page cannot be served at {host} port {port}: {(error.strerror or str(error)).lower()}",
            where="options --host and --port",
            remedy="Name another port, or take any that is free: --port 0" if taken else None,
        ) from error


class Server(uvicorn.Server):
    """Ends at once: streams that would go on forever end with it."""

    def __init__(self, config: uvicorn.Config, page: Page) -> None:
        super().__init__(config)
        self._page = page

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._page.live.close()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(
    roots: Sequence[Path],
    listening: Listening,
    *,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    opened: Callable[[str], None] | None = None,
    command: Sequence[str] = COMMAND,
) -> None:
    """Serve the page until somebody ends it; no run notices.

    Args:
        tell: gets the address that lets a browser in, and the next one when it is used up.
        opened: gets what a browser is to open, once it answers: a file that leads to the first address.
    """
    for root in roots:
        only_people(environ, root, "serve the page")
    listening.check()
    folder = state_folder(environ, roots)
    name = own_name(folder)
    proxy = None
    if listening.secret_file is not None:
        proxy = Proxy.of(listening.user_header, listening.secret_file, roots)
    sockets = listening.sockets()
    origins = listening.reached_at(sockets[0].getsockname()[1], name)
    browsers = Browsers(proxy.secret if proxy else "")
    way = ExitStack()

    def invite() -> str:
        return f"{origins[0]}{ENTER}?token={browsers.token()}"

    def entered() -> None:
        way.close()  # it leads nowhere any more
        tell(f"A browser came in. For another one: {invite()}")

    threshold = Threshold(origins, browsers, person(), proxy, entered)
    page = Page(workspaces(roots), threshold, CommandLine(dict(environ), command))
    config = uvicorn.Config(
        page.app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=ENDS_WITHIN_S,
        timeout_keep_alive=30,
        limit_concurrency=1000,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigInvalid(
            f"the certificate or its key cannot be used: {error}",
            where="options --tls-cert and --tls-key",
            expected="two files in PEM format",
        ) from error
    first = origins[0] if proxy else invite()
    tell(f"The page: {first}")
    with way:
        ready = None
        if opened is not None:
            shown = first if proxy else way.enter_context(led_to(folder, first)).as_uri()
            ready = partial(opened, shown)
        asyncio.run(_serving(Server(config, page), page, sockets, ready, way.close))


async def _serving(
    server: Server,
    page: Page,
    sockets: list[socket.socket],
    ready: Callable[[], None] | None,
    late: Callable[[], None],
) -> None:
    asyncio.get_running_loop().call_later(LEADS_S, late)
    warming = asyncio.ensure_future(page.warm())
    if ready is not None:
        asyncio.get_running_loop().call_later(0.2, ready)  # the sockets listen already: a browser only waits
    try:
        with page.renewing.going_on():
            await server.serve(sockets)
    finally:
        warming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await warming
