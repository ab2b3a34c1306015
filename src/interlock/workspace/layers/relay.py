"""The way out of a layer whose network is cut: a proxy in the engine's process that connects to allowed hosts only.

Theory of operation.  With `network = "model"` a program has a network of its own with nothing in it but loopback.
Before it begins, `inside.py` listens on loopback in there and hands the listening sockets out over a pair of sockets
that the program never gets; a socket stays in the network where it was made, so what connects to it in there is
accepted out here.  Nothing that could be talked into more remains inside.  The relay looks at the host that is asked
for before any name is resolved; what passes through a tunnel is not looked into.  Bytes and seconds before the
decision, and connections, have bounds.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import re
import socket
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_NOTED = 100
"""So many refused addresses are kept by name."""
_ORDINARY_PORTS = (443, 80)
"""What an allowed host without a port means."""
_PIECE = 65_536
_PATIENCE_S = 30.0
_ENDING_S = 2.0
_CONNECTIONS = 256
_OF_THE_HOP = ("host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate")
_USAGE = "this is a proxy: CONNECT HOST:PORT, or a request with a whole http address"


class Relay:
    """The relay of one layer: `host` (ports 443 and 80), `host:port`, and `*.domain` for all below it are allowed."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.refused: dict[str, None] = {}
        """Addresses that were asked for in vain."""
        every = ((host, port) for host, port in map(host_and_port, hosts) if host)
        self._allowed = {_address(host, one) for host, port in every for one in ((port,) if port else _ORDINARY_PORTS)}
        self._end: Future[None] = Future()
        self._threads: list[threading.Thread] = []
        self._open: set[asyncio.Task[None] | None] = set()
        """Connections: a loop holds its tasks weakly, and one that waits for its streams alone is collected."""

    @property
    def own_servers(self) -> list[str]:
        """Servers of this machine that are allowed: models that run here, to be found at their own port inside."""
        return sorted(one for one in self._allowed if _is_loopback(host_and_port(one)[0]))

    def door(self) -> int:
        """The descriptor that a program's `inside.py` inherits; whoever starts it closes it."""
        ours, theirs = socket.socketpair()
        self._threads.append(threading.Thread(target=lambda: asyncio.run(self._serve(ours)), daemon=True))
        self._threads[-1].start()
        return theirs.detach()

    def close(self) -> None:
        """Nothing is accepted any more, and nothing stays open."""
        self._end.cancel()
        for thread in self._threads:
            thread.join(_ENDING_S)

    async def _serve(self, ours: socket.socket) -> None:
        """Take the listening sockets, and accept on them from now on."""
        # It may end before it began.
        with ours, ExitStack() as opened, suppress(OSError, ValueError, asyncio.CancelledError):
            said, handles, *_ = socket.recv_fds(ours, _PIECE, 64)
            for handle, target in zip(handles, json.loads(said or b"[]"), strict=False):
                door = socket.socket(fileno=handle)
                server = await asyncio.start_server(partial(self._connection, target), sock=door)
                opened.callback(server.close)
            ours.sendall(b".")
            await asyncio.wrap_future(self._end)

    async def _connection(self, target: str, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection, to its end.

        Args:
            target: where its door leads; empty: whoever connects says that.
        """
        with closing(writer), suppress(OSError), self._held():  # one of the two has gone
            if len(self._open) > _CONNECTIONS:
                return
            head, tunnel = b"", not target
            if tunnel:
                with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    async with asyncio.timeout(_PATIENCE_S):
                        target, head = _asked(await reader.readuntil(b"\r\n\r\n"))
            there, refusal = await self._reached(target)
            if there is None:
                writer.write(refusal.encode("utf-8", "replace"))
                writer.write_eof()
                while await reader.read(_PIECE):  # closed with unread bytes, it would take the answer with it
                    pass
                return
            coming, going = await asyncio.open_connection(sock=there)
            with closing(going):
                if head:
                    going.write(head)
                elif tunnel:
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_pass_on(reader, going), _pass_on(coming, writer))

    @contextmanager
    def _held(self) -> Iterator[None]:
        task = asyncio.current_task()
        self._open.add(task)
        try:
            yield
        finally:
            self._open.discard(task)

    async def _reached(self, target: str) -> tuple[socket.socket | None, str]:
        """A connection to where a program wants to get; else the answer that it gets."""
        host, port = host_and_port(target)
        if not host or not port or host.startswith("*"):
            return None, _refusal("400 Bad Request", _USAGE)
        address = _address(host, port)
        if not self.allows(host, port):
            why = f'{address} is not among the hosts that can be reached here (sandbox.network = "model")'
            return None, _refusal("403 Forbidden", why)
        try:
            return await asyncio.to_thread(_connected, host, port, public=address not in self._allowed), ""
        except (OSError, HTTPException, ValueError) as error:
            return None, _refusal("502 Bad Gateway", f"{address} cannot be reached: {error}")

    def allows(self, host: str, port: int) -> bool:
        """Whether a program may get there; else it is noted."""
        domains = (f"*.{host.split('.', at)[-1]}" for at in range(1, host.count(".") + 1))
        allowed = any(_address(name, port) in self._allowed for name in (host, *domains))
        if not allowed and len(self.refused) < _NOTED:
            self.refused[_address(host, port)] = None
        return allowed


def _refusal(status: str, why: str) -> str:
    return f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\ninterlock: {why}\n"


def _asked(raw: bytes) -> tuple[str, bytes]:
    """Where a program wants to get, and what goes there first; nothing for a tunnel."""
    first, *lines = raw.decode("latin-1").strip().split("\r\n")
    if tunnel := re.fullmatch(r"CONNECT (\S+) HTTP/1\.[01]", first):
        return tunnel[1], b""
    request = re.fullmatch(r"(\S+) (?i:http)://([^/?#\s]*)/?(\S*) HTTP/1\.[01]", first)
    if not request:
        return "", b""
    host, port = host_and_port(request[2])
    kept = [line for line in lines if line.partition(":")[0].strip().lower() not in _OF_THE_HOP]
    # One request for each connection: the next one may be for another host.
    own = [f"{request[1]} /{request[3]} HTTP/1.1", f"Host: {request[2]}", "Connection: close"]
    return _address(host, port or 80), "\r\n".join((*own, *kept, "", "")).encode("latin-1")


def host_and_port(authority: str) -> tuple[str, int | None]:
    """Host in its one spelling, and the port if there is one; an empty host where there is none to be asked for."""
    match = re.fullmatch(r"((?:\*\.)?[\w-]+(?:\.[\w-]+)*)\.?(?::(\d{1,5}))?", authority, re.ASCII)
    match = match or re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?", authority)
    if match is None or (match[2] and not 0 < int(match[2]) < 65_536):
        return "", None
    return match[1].lower(), int(match[2]) if match[2] else None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or bool(re.fullmatch(r"127(\.\d+){3}", host))


def _connected(host: str, port: int, *, public: bool) -> socket.socket:
    """A connection to the address, by the person's own proxy where they have one."""
    if (proxy := _proxy_for(host)) is None:
        out = socket.create_connection((_public_address(host, port) if public else host, port), _PATIENCE_S)
    else:
        place = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if place.scheme != "http" or place.hostname is None:
            raise OSError("the proxy in the environment is not an http:// one")
        login = base64.b64encode(f"{unquote(place.username or '')}:{unquote(place.password or '')}".encode()).decode()
        tunnel = HTTPConnection(place.hostname, place.port or 80, timeout=_PATIENCE_S)
        tunnel.set_tunnel(host, port, {"Proxy-Authorization": f"Basic {login}"} if place.username else {})
        tunnel.connect()
        out = tunnel.sock
    out.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    out.setblocking(False)
    return out


def _proxy_for(host: str) -> str | None:
    """The person's own proxy for this host."""
    if _is_loopback(host) or proxy_bypass(host):
        return None
    named = getproxies()
    return named.get("https") or named.get("all")


def _public_address(host: str, port: int) -> str:
    """Where a host of an allowed domain is. Nobody named that very host: it must not be a machine in here."""
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global:
            return str(address[0])
    raise OSError("its address is not a public one; name the host itself to allow that")


async def _pass_on(source: StreamReader, sink: StreamWriter) -> None:
    while part := await source.read(_PIECE):
        sink.write(part)
        await sink.drain()
    sink.write_eof()
