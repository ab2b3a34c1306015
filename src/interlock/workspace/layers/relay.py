"""The way out of a layer whose network is cut: a proxy in the engine's process that connects to allowed hosts only.

Theory of operation.  With `Network.MODEL` a program has a network namespace of its own, with nothing in it but
loopback.  Three parts lead out of it:

    program  --127.0.0.1-->  forwarder  --unix socket in the exchange folder-->  relay  -->  allowed host

The relay, here, decides.  It is an HTTP proxy (CONNECT, and plain requests with a whole address) that looks at the
host that is asked for, before any name is resolved.  The forwarder (`forwarder.py`) runs inside and only copies bytes:
whatever a program does to it, it gets no more than the relay gives.  What passes through a tunnel is not looked into.

Everything that a program sends before the decision has a bound: bytes, seconds, connections.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import os
import re
import secrets
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit

from interlock.errors import ConfigInvalid, WorkspaceFailed

SOCKET_NAME: Final = "relay.sock"
"""What the relay's socket is called in a layer's exchange folder."""

ORDINARY_PORTS: Final = (443, 80)
"""What an allowed host without a port means."""

NOTED: Final = 100
"""So many refused addresses are kept by name."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_END_OF_HEAD: Final = b"\r\n\r\n"
_OF_THE_HOP: Final = frozenset(
    (b"host", b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate")
)
"""Header fields that are between the program and this proxy, or that it writes itself."""


@dataclass(frozen=True)
class RelayBounds:
    """How much a program may ask of its relay."""

    head: int = 65_536
    """Bytes of a request's head."""
    head_s: float = 30.0
    """Seconds until it is complete."""
    connect_s: float = 30.0
    connections: int = 256
    quiet_s: float = 300.0
    """How long a connection that one side has ended may be silent on the other."""


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


class AllowList:
    """The hosts that may be reached: ``host`` (ports 443 and 80), ``host:port``, and ``*.domain`` for all below it."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._ports: dict[str, set[int]] = {}
        for entry in hosts:
            host, port = _host_and_port(entry)
            if host is None:
                raise ConfigInvalid(
                    f"{entry!r} names no host", expected="HOST, HOST:PORT or *.DOMAIN", found=entry, where="sandbox"
                )
            self._ports.setdefault(host, set()).update(ORDINARY_PORTS if port is None else (port,))

    def names(self, address: Address) -> bool:
        """Whether exactly this host is in the list, with this port."""
        return address.port in self._ports.get(address.host, ())

    def has_domain_of(self, address: Address) -> bool:
        """Whether the host lies below a domain of the list."""
        labels = address.host.split(".")
        domains = ("*." + ".".join(labels[at:]) for at in range(1, len(labels)))
        return any(address.port in self._ports.get(domain, ()) for domain in domains)

    def on_loopback(self) -> list[Address]:
        """The servers of this machine that are in the list: models that run here."""
        every = (Address(host, port) for host, ports in self._ports.items() for port in sorted(ports))
        return [one for one in every if one.is_loopback]


@dataclass
class Relay:
    """Where a relay listens, and what it did not let through."""

    socket: Path
    refused: Counter[str] = field(default_factory=Counter)
    """Address to how often it was asked for in vain; at most `NOTED` of them."""

    def note_refused(self, address: str) -> None:
        if address in self.refused or len(self.refused) < NOTED:
            self.refused[address] += 1


@asynccontextmanager
async def relay(
    hosts: Sequence[str], socket_path: Path, *, environ: Mapping[str, str] = _NOTHING, bound: RelayBounds | None = None
) -> AsyncIterator[Relay]:
    """A proxy on a unix socket, for as long as the block lasts; everything that went through it ends with it.

    Args:
        hosts: what may be reached; with an empty list every request is refused.
        socket_path: whatever is there already is put aside; may be longer than the system lets sockets' paths be.
        environ: the user's own; where it names a proxy, the relay goes out through that.
    """
    server = _Server(AllowList(hosts), Relay(socket_path), environ, bound or RelayBounds())
    try:
        folder = _opened(socket_path.parent)
    except OSError as error:
        raise WorkspaceFailed.of(error, "a layer's exchange folder cannot be used") from error
    try:
        listening = await asyncio.start_unix_server(
            server.accept, sock=_bound_socket(folder, socket_path.name), limit=server.bound.head
        )
        try:
            yield server.relay
        finally:
            listening.close()
            await server.end()
    finally:
        with contextlib.suppress(OSError):
            os.unlink(socket_path.name, dir_fd=folder)
        os.close(folder)


def _opened(folder: Path) -> int:
    """A descriptor of the folder itself, by which its files are reached; a program may have shut it."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        Path(f"/proc/self/fd/{descriptor}").chmod(os.fstat(descriptor).st_mode & 0o777 | 0o700)
    return descriptor


def _bound_socket(folder: int, name: str) -> socket.socket:
    """A socket in a folder, that nobody else can connect to."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError:  # a folder
        os.rename(name, f"{name}.{secrets.token_hex(4)}", src_dir_fd=folder, dst_dir_fd=folder)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listening.fileno(), 0o600)  # the file gets it when it is made
        listening.bind(f"/proc/self/fd/{folder}/{name}")  # a socket's path is at most 107 bytes long
    except OSError as error:
        listening.close()
        raise WorkspaceFailed.of(error, "a layer's way to its model cannot be opened") from error
    return listening


class _Answer(Exception):
    """Ends a request with an answer of the relay's own."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status

    def encoded(self) -> bytes:
        body = f"interlock: {self}\n".encode("utf-8", "replace")
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join(head).encode() + _END_OF_HEAD + body


@dataclass(frozen=True)
class _Request:
    """What a program asks of the proxy."""

    to: Address
    head: bytes
    """What goes to the host first; empty for a tunnel."""

    @classmethod
    def parse(cls, raw: bytes) -> _Request:
        line, *fields = raw.removesuffix(_END_OF_HEAD).split(b"\r\n")
        match line.split(b" "):
            case [b"CONNECT", target, version] if version.startswith(b"HTTP/1."):
                host, port = _host_and_port(target.decode("latin-1"))
                if host is None or port is None or host.startswith("*"):
                    raise _Answer(HTTPStatus.BAD_REQUEST, "CONNECT needs HOST:PORT")
                return cls(Address(host, port), b"")
            case [method, target, version] if version.startswith(b"HTTP/1.") and (
                parts := re.fullmatch(rb"(?i:http)://([^/?#]*)(.*)", target)
            ):
                host, port = _host_and_port(parts[1].decode("latin-1"))
                if host is None or host.startswith("*"):
                    raise _Answer(HTTPStatus.BAD_REQUEST, "the address names no host")
                path = parts[2] if parts[2].startswith(b"/") else b"/" + parts[2]
                kept = [one for one in fields if one.partition(b":")[0].strip().lower() not in _OF_THE_HOP]
                # One request for each connection: the next one may be for another host.
                own = [b" ".join((method, path, version)), b"Host: " + parts[1], b"Connection: close"]
                return cls(Address(host, port or 80), b"\r\n".join((*own, *kept)) + _END_OF_HEAD)
        raise _Answer(
            HTTPStatus.BAD_REQUEST, "this is a proxy: it takes CONNECT, and requests with a whole http address"
        )


def _host_and_port(authority: str) -> tuple[str | None, int | None]:
    """Host in its one spelling, and the port if there is one; no host where there is none that could be asked for."""
    match = re.fullmatch(r"((?:\*\.)?[\w-]+(?:\.[\w-]+)*)\.?(?::(\d{1,5}))?", authority, re.ASCII)
    match = match or re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?", authority)
    if match is None or (match[2] and not 0 < int(match[2]) < 65_536):
        return None, None
    return match[1].lower(), int(match[2]) if match[2] else None


class _Server:
    """Serves the connections of one relay."""

    def __init__(self, allowed: AllowList, kept: Relay, environ: Mapping[str, str], bound: RelayBounds) -> None:
        self.relay = kept
        self.bound = bound
        self._allowed = allowed
        self._environ = environ
        self._tasks: set[asyncio.Task[None]] | None = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tasks is None:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        ending, self._tasks = self._tasks or set(), None
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._pass_on(reader, writer)
        except _Answer as answer:
            with contextlib.suppress(OSError):
                writer.write(answer.encoded())
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two has gone
        except BaseException:
            writer.transport.abort()
            raise
        await self._close(writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks or ()) > self.bound.connections:
            raise _Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"more than {self.bound.connections} connections at once")
        request = _Request.parse(await self._head(reader))
        out_reader, out_writer = await self._connected(request.to)
        try:
            if request.head:
                out_writer.write(request.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established" + _END_OF_HEAD)
            await _Exchange((reader, out_writer), (out_reader, writer)).carry(self.bound.quiet_s)
        except BaseException:
            out_writer.transport.abort()
            raise
        await self._close(out_writer)

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        """Close what has been written to; an end that takes nothing more is not waited for without limit."""
        try:
            writer.close()
            async with asyncio.timeout(self.bound.head_s):
                await writer.wait_closed()
        except OSError:
            writer.transport.abort()
        except BaseException:
            writer.transport.abort()
            raise

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self.bound.head_s):
                return await reader.readuntil(_END_OF_HEAD)
        except asyncio.LimitOverrunError as error:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _Answer(status, f"the head has more than {self.bound.head} bytes") from error
        except TimeoutError as error:
            raise _Answer(HTTPStatus.REQUEST_TIMEOUT, f"no request within {self.bound.head_s:g} seconds") from error

    async def _connected(self, to: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        by_name = self._allowed.names(to)
        if not by_name and not self._allowed.has_domain_of(to):
            self.relay.note_refused(str(to))
            raise _Answer(
                HTTPStatus.FORBIDDEN,
                f'{to} is not among the hosts that can be reached here (sandbox.network = "model")',
            )
        try:
            async with asyncio.timeout(self.bound.connect_s):
                proxy = _proxy_for(to, self._environ)
                if proxy is not None:
                    return await _through(proxy, to)
                return await _open(to.host if by_name else await _public_address(to), to.port)
        except TimeoutError as error:
            raise _Answer(HTTPStatus.GATEWAY_TIMEOUT, f"{to} does not answer") from error
        except (OSError, UnicodeError) as error:
            raise _Answer(HTTPStatus.BAD_GATEWAY, f"{to} cannot be reached: {error}") from error


async def _open(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port, happy_eyeballs_delay=0.25)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


async def _public_address(to: Address) -> str:
    """Where a host of an allowed domain is. Nobody named that very host: it must not be a machine in here."""
    found = await asyncio.get_running_loop().getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    for *_, address in found:
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global:
            return str(address[0])
    raise OSError("its address is not a public one; name the host itself to allow that")


class _Exchange:
    """Bytes in both directions between a program and its host, until both have ended."""

    def __init__(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._ways = ways
        self._moved = 0

    async def carry(self, quiet_s: float) -> None:
        pumps = {asyncio.ensure_future(self._pump(*way)) for way in self._ways}
        try:
            ended, left = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            while left and not any(pump.exception() for pump in ended):
                before = self._moved
                ended, left = await asyncio.wait(left, timeout=quiet_s)
                if left and self._moved == before:
                    break
            if left:
                raise ConnectionAbortedError
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65_536):
            self._moved += len(part)
            writer.write(part)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _proxy_for(to: Address, environ: Mapping[str, str]) -> str | None:
    """The user's own proxy for this address."""

    def named(name: str) -> str:
        return environ.get(name.lower()) or environ.get(name.upper()) or ""

    spared = [one.strip().lower() for one in named("no_proxy").split(",")]
    domains = (one.removeprefix("*").lstrip(".").partition(":")[0] for one in spared)
    if to.is_loopback or "*" in spared or any(one and f".{to.host}".endswith(f".{one}") for one in domains):
        return None
    return named("https_proxy") or named("all_proxy") or None


async def _through(proxy: str, to: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel to the address through the user's own proxy."""
    place = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if place.scheme != "http" or place.hostname is None:
        raise OSError("the proxy in the environment is not an http:// one")
    reader, writer = await _open(place.hostname, place.port or 80)
    try:
        lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
        if place.username is not None:
            login = f"{unquote(place.username)}:{unquote(place.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
        writer.write("\r\n".join(lines).encode() + _END_OF_HEAD)
        said = (await reader.readuntil(_END_OF_HEAD)).split(b"\r\n")[0].decode("latin-1")
        if not re.match(r"HTTP/1\.\d 2\d\d\b", said):
            raise OSError(f"the proxy in the environment answers {said!r}")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise OSError("the proxy in the environment does not speak HTTP") from error
    except BaseException:
        writer.close()
        raise
    return reader, writer


# What the launcher needs: the program that stands inside.


def forwarder_command(socket_path: Path, hosts: Sequence[str], argv: Sequence[str]) -> list[str]:
    """What to start in the layer's network namespace instead of `argv`, so that `argv` has the relay as its proxy.

    It brings loopback up where it is down, listens there, sets the variables that make clients use it
    (`forwarder.proxy_variables`), leaves a process behind that copies bytes, and becomes `argv`: same process, same
    descriptors, otherwise the same environment.  Servers on loopback that are allowed are found at their own port, as
    outside: many clients use no proxy for loopback.  Every other port of it is the program's own.

    A launcher in Python may call `forwarder.open_doors` in its place.
    """
    direct = [str(address) for address in AllowList(hosts).on_loopback()]
    return [_interpreter(), "-I", "-S", "-c", _program(), str(socket_path), *direct, "--", *argv]


def forwarder_needs() -> tuple[Path, ...]:
    """The files and folders that must be readable inside for `forwarder_command` to start."""
    return tuple(dict.fromkeys((Path(_interpreter()), Path(sys.base_prefix), Path(sys.base_exec_prefix))))


def _interpreter() -> str:
    """The interpreter behind a virtual environment's: it needs nothing of the environment, which may be hidden."""
    return os.path.realpath(sys.executable)


@cache
def _program() -> str:
    return Path(__file__).with_name("forwarder.py").read_text(encoding="utf-8")
