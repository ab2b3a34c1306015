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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_NOTED: Final = 100
"""So many refused addresses are kept by name."""
_ORDINARY_PORTS: Final = (443, 80)
"""What an allowed host without a port means."""
_HEAD: Final = 65_536
_PATIENCE_S: Final = 30.0
_HALF_OPEN_S: Final = 300.0
"""How long a connection that one side has ended may go on."""
_CONNECTIONS: Final = 256
_END_OF_HEAD: Final = b"\r\n\r\n"
_OF_THE_HOP: Final = frozenset(
    (b"host", b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate")
)

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Address:
    """A host and a port, as somebody asked for them."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or bool(re.fullmatch(r"127(\.\d+){3}", self.host))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Answer(Exception):
    """Ends a request with an answer of the relay's own."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        body = f"interlock: {text}\n".encode("utf-8", "replace")
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        self.encoded = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


class Relay:
    """The relay of one layer: `host` (ports 443 and 80), `host:port`, and `*.domain` for all below it are allowed."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.refused: dict[str, None] = {}
        """Addresses that were asked for in vain."""
        self._ports: dict[str, set[int]] = {}
        for entry in hosts:
            host, port = host_and_port(entry)
            self._ports.setdefault(host, set()).update(_ORDINARY_PORTS if port is None else (port,))
        self._doors: list[asyncio.Server] = []
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    @property
    def own_servers(self) -> list[str]:
        """Servers of this machine that are allowed: models that run here, to be found at their own port inside."""
        every = (Address(host, port) for host, ports in self._ports.items() for port in sorted(ports))
        return [str(one) for one in every if one.is_loopback]

    def door(self) -> int:
        """The descriptor that a program's `inside.py` inherits; whoever starts it closes it."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._take_doors, args=(ours,), daemon=True).start()
        return theirs.detach()

    def close(self) -> None:
        """End all that goes through it."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    async def _end(self) -> None:
        for door in self._doors:
            door.close()
        at_work = asyncio.all_tasks() - {asyncio.current_task()}
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)
        self._loop.stop()

    def _take_doors(self, ours: socket.socket) -> None:
        """Take the listening sockets, and accept on them from now on."""
        with ours, suppress(OSError, ValueError):  # it may end before it began
            said, handles, *_ = socket.recv_fds(ours, 65_536, 64)
            doors = [socket.socket(fileno=handle) for handle in handles]
            for door, target in zip(doors, json.loads(said or b"[]"), strict=False):
                asyncio.run_coroutine_threadsafe(self._open_door(door, target), self._loop).result()
            ours.sendall(b".")

    async def _open_door(self, door: socket.socket, target: str) -> None:
        self._doors.append(await asyncio.start_server(partial(self._carry, target), sock=door, limit=_HEAD))

    async def _carry(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end; `target` is where it leads to, else it says that itself."""
        self._connections += 1
        try:
            if self._connections <= _CONNECTIONS:
                with suppress(OSError, EOFError):  # one of the two has gone
                    await self._answered(target, reader, writer)
        finally:
            self._connections -= 1
            writer.close()

    async def _answered(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                host, port = host_and_port(target)
                to, head = (Address(host, port or 0), b"") if target else request(await _head(reader))
            from_there, there = await self._connected(to)
        except _Answer as answer:
            writer.write(answer.encoded)
            writer.write_eof()
            async with asyncio.timeout(_PATIENCE_S):
                while await reader.read(65_536):  # closed with unread bytes, it would take the answer with it
                    pass
            return
        try:
            there.write(head)
            if not head and not target:
                writer.write(b"HTTP/1.1 200 Connection established" + _END_OF_HEAD)
            ways = [asyncio.ensure_future(_passed_on(*way)) for way in ((reader, there), (from_there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait(ways, timeout=_HALF_OPEN_S)
            finally:
                for way in ways:
                    way.cancel()
        finally:
            there.close()

    async def _connected(self, to: Address) -> _Streams:
        by_name = to.port in self._ports.get(to.host, ())
        labels = to.host.split(".")
        domains = ("*." + ".".join(labels[at:]) for at in range(1, len(labels)))
        if not by_name and not any(to.port in self._ports.get(domain, ()) for domain in domains):
            if len(self.refused) < _NOTED:
                self.refused[str(to)] = None
            why = f'{to} is not among the hosts that can be reached here (sandbox.network = "model")'
            raise _Answer(HTTPStatus.FORBIDDEN, why)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if (proxy := _proxy_for(to)) is not None:
                    streams = await _through(proxy, to)
                else:
                    host = to.host if by_name else await _public_address(to)
                    streams = await asyncio.open_connection(host, to.port)
        except TimeoutError as error:
            raise _Answer(HTTPStatus.GATEWAY_TIMEOUT, f"{to} does not answer") from error
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise _Answer(HTTPStatus.BAD_GATEWAY, f"{to} cannot be reached: {error}") from error
        streams[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return streams


def request(raw: bytes) -> tuple[Address, bytes]:
    """Where a program wants to get, and what goes there first; nothing for a tunnel."""
    line, *fields = raw.split(b"\r\n")
    match line.split(b" "):
        case [b"CONNECT", target, version] if version.startswith(b"HTTP/1."):
            host, port = host_and_port(target.decode("latin-1"))
            if host and port and not host.startswith("*"):
                return Address(host, port), b""
        case [method, target, version] if version.startswith(b"HTTP/1.") and (
            parts := re.fullmatch(rb"(?i:http)://([^/?#]*)(.*)", target)
        ):
            host, port = host_and_port(parts[1].decode("latin-1"))
            if host and not host.startswith("*"):
                path = parts[2] if parts[2].startswith(b"/") else b"/" + parts[2]
                kept = [one for one in fields if one.partition(b":")[0].strip().lower() not in _OF_THE_HOP]
                # One request for each connection: the next one may be for another host.
                own = [b" ".join((method, path, version)), b"Host: " + parts[1], b"Connection: close"]
                return Address(host, port or 80), b"\r\n".join((*own, *kept)) + _END_OF_HEAD
    raise _Answer(HTTPStatus.BAD_REQUEST, "this is a proxy: CONNECT HOST:PORT, or a request with a whole http address")


def host_and_port(authority: str) -> tuple[str, int | None]:
    """Host in its one spelling, and the port if there is one; an empty host where there is none to be asked for."""
    match = re.fullmatch(r"((?:\*\.)?[\w-]+(?:\.[\w-]+)*)\.?(?::(\d{1,5}))?", authority, re.ASCII)
    match = match or re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?", authority)
    if match is None or (match[2] and not 0 < int(match[2]) < 65_536):
        return "", None
    return match[1].lower(), int(match[2]) if match[2] else None


async def _head(reader: asyncio.StreamReader) -> bytes:
    """The head of a request; what is behind it stays to be read."""
    try:
        return (await reader.readuntil(_END_OF_HEAD)).removesuffix(_END_OF_HEAD)
    except asyncio.LimitOverrunError:
        text = f"the head has more than {_HEAD} bytes"
        raise _Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text) from None


async def _passed_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Bytes of one direction, and their end."""
    with suppress(OSError):
        while part := await source.read(65_536):
            sink.write(part)
            await sink.drain()
        sink.write_eof()


async def _public_address(to: Address) -> str:
    """Where a host of an allowed domain is. Nobody named that very host: it must not be a machine in here."""
    loop = asyncio.get_running_loop()
    for *_, address in await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM):
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global:
            return str(address[0])
    raise OSError("its address is not a public one; name the host itself to allow that")


def _proxy_for(to: Address) -> str | None:
    """The person's own proxy for this address."""
    if to.is_loopback or proxy_bypass(to.host):
        return None
    named = getproxies()
    return named.get("https") or named.get("all")


async def _through(proxy: str, to: Address) -> _Streams:
    """A tunnel to the address through the person's own proxy."""
    place = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if place.scheme != "http" or place.hostname is None:
        raise OSError("the proxy in the environment is not an http:// one")
    reader, writer = await asyncio.open_connection(place.hostname, place.port or 80)
    try:
        login = f"{unquote(place.username or '')}:{unquote(place.password or '')}".encode()
        knock = b"Proxy-Authorization: Basic " + base64.b64encode(login) + b"\r\n" if place.username else b""
        writer.write(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n".encode() + knock + b"\r\n")
        said = await reader.readuntil(_END_OF_HEAD)
        if not re.match(rb"HTTP/1\.\d 2\d\d\b", said):
            raise OSError(f"the proxy in the environment answers {said.splitlines()[0]!r}")
    except BaseException:
        writer.close()
        raise
    return reader, writer
