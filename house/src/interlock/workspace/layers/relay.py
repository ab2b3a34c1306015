"""The way out of a layer whose network is cut: a proxy in the engine's process that connects to allowed hosts only.

Theory of operation.  With `network = "model"` a program has a network of its own with nothing in it but loopback.
Before it begins, `inside.py` listens on loopback in there and hands the listening sockets out over a pair of sockets
that the program never gets; a socket stays in the network where it was made, so what connects to it in there is
accepted out here.  Nothing that could be talked into more remains inside.  The relay looks at the host that is asked
for before any name is resolved; what passes through a tunnel is not looked into.  Bytes, seconds and connections
before the decision have bounds.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import re
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

NOTED: Final = 100
"""So many refused addresses are kept by name."""

_ORDINARY_PORTS: Final = (443, 80)
"""What an allowed host without a port means."""
_HEAD: Final = 65_536
_PATIENCE_S: Final = 30.0
_QUIET_S: Final = 300.0
"""How long a connection that one side has ended may be silent on the other."""
_CONNECTIONS: Final = 256
_END_OF_HEAD: Final = b"\r\n\r\n"
_OF_THE_HOP: Final = frozenset(
    (b"host", b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate")
)


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

    def __init__(self, hosts: Sequence[str], environ: Mapping[str, str]) -> None:
        self.refused: Counter[str] = Counter()
        """Address to how often it was asked for in vain."""
        self._environ = environ
        self._ports: dict[str, set[int]] = {}
        for entry in hosts:
            host, port = host_and_port(entry)
            self._ports.setdefault(host, set()).update(_ORDINARY_PORTS if port is None else (port,))
        self._open: set[socket.socket] = set()
        self._room = threading.BoundedSemaphore(_CONNECTIONS)

    @property
    def own_servers(self) -> list[str]:
        """Servers of this machine that are allowed: models that run here, to be found at their own port inside."""
        every = (Address(host, port) for host, ports in self._ports.items() for port in sorted(ports))
        return [str(one) for one in every if one.is_loopback]

    def door(self) -> int:
        """The descriptor that a program's `inside.py` inherits; whoever starts it closes it."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(ours,), daemon=True).start()
        return theirs.detach()

    def close(self) -> None:
        """End all that goes through it."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _serve(self, ours: socket.socket) -> None:
        """Take the listening sockets, once, and accept on them for as long as they are open."""
        with ours:
            try:
                said, handles, *_ = socket.recv_fds(ours, 65_536, 64)
                doors = [socket.socket(fileno=handle) for handle in handles]
                self._open.update(doors)
                for door, target in zip(doors, json.loads(said or b"[]"), strict=False):
                    threading.Thread(target=self._accept, args=(door, target), daemon=True).start()
                ours.sendall(b".")
            except (OSError, ValueError):  # it ended before it began
                return

    def _accept(self, door: socket.socket, target: str) -> None:
        with door:
            while True:
                self._room.acquire()
                try:
                    client, _ = door.accept()
                except OSError:  # closed
                    self._room.release()
                    self._open.discard(door)
                    return
                threading.Thread(target=self._carry, args=(client, target), daemon=True).start()

    def _carry(self, client: socket.socket, target: str) -> None:
        """One connection, to its end."""
        self._open.add(client)
        try:
            with client:
                client.settimeout(_PATIENCE_S)
                try:
                    if target:
                        to, head, early = Address(*_whole(target)), b"", b""
                    else:
                        raw, early = _head(client)
                        to, head = request(raw)
                    with self._connected(to) as out:
                        out.sendall(head + early)
                        if not head and not target:
                            client.sendall(b"HTTP/1.1 200 Connection established" + _END_OF_HEAD)
                        _exchange(client, out)
                except _Answer as answer:
                    client.sendall(answer.encoded)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65_536):  # closed with unread bytes, it would take the answer with it
                        pass
        except OSError:
            pass  # one of the two has gone
        finally:
            self._open.discard(client)
            self._room.release()

    def _connected(self, to: Address) -> socket.socket:
        by_name = to.port in self._ports.get(to.host, ())
        labels = to.host.split(".")
        domains = ("*." + ".".join(labels[at:]) for at in range(1, len(labels)))
        if not by_name and not any(to.port in self._ports.get(domain, ()) for domain in domains):
            if str(to) in self.refused or len(self.refused) < NOTED:
                self.refused[str(to)] += 1
            why = f'{to} is not among the hosts that can be reached here (sandbox.network = "model")'
            raise _Answer(HTTPStatus.FORBIDDEN, why)
        try:
            if (proxy := _proxy_for(to, self._environ)) is not None:
                return _through(proxy, to)
            return _open(to.host if by_name else _public_address(to), to.port)
        except TimeoutError as error:
            raise _Answer(HTTPStatus.GATEWAY_TIMEOUT, f"{to} does not answer") from error
        except (OSError, UnicodeError) as error:
            raise _Answer(HTTPStatus.BAD_GATEWAY, f"{to} cannot be reached: {error}") from error


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


def _whole(target: str) -> tuple[str, int]:
    host, port = host_and_port(target)
    return host, port or 0


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what was read behind it."""
    raw = b""
    while _END_OF_HEAD not in raw:
        if len(raw) > _HEAD:
            raise _Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head has more than {_HEAD} bytes")
        part = client.recv(65_536)
        if not part:
            raise ConnectionAbortedError
        raw += part
    head, _, early = raw.partition(_END_OF_HEAD)
    return head, early


def _exchange(one: socket.socket, two: socket.socket) -> None:
    """Bytes in both directions until both have ended; once one has, the other may not be silent for long."""
    other = {one: two, two: one}
    with selectors.DefaultSelector() as reading:
        for source, sink in other.items():
            source.settimeout(_QUIET_S)
            reading.register(source, selectors.EVENT_READ, sink)
        while left := len(reading.get_map()):
            ready = reading.select(None if left == 2 else _QUIET_S)
            if not ready:
                return
            for key, _ in ready:
                ended: socket.socket = other[key.data]
                if part := ended.recv(65_536):
                    key.data.sendall(part)
                else:
                    reading.unregister(ended)
                    key.data.shutdown(socket.SHUT_WR)


def _open(host: str, port: int) -> socket.socket:
    out = socket.create_connection((host, port), timeout=_PATIENCE_S)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return out


def _public_address(to: Address) -> str:
    """Where a host of an allowed domain is. Nobody named that very host: it must not be a machine in here."""
    for *_, address in socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM):
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global:
            return str(address[0])
    raise OSError("its address is not a public one; name the host itself to allow that")


def _proxy_for(to: Address, environ: Mapping[str, str]) -> str | None:
    """The person's own proxy for this address."""

    def named(name: str) -> str:
        return environ.get(name) or environ.get(name.upper()) or ""

    spared = [one.strip().lower() for one in named("no_proxy").split(",")]
    domains = (one.removeprefix("*").lstrip(".").partition(":")[0] for one in spared)
    if to.is_loopback or "*" in spared or any(one and f".{to.host}".endswith(f".{one}") for one in domains):
        return None
    return named("https_proxy") or named("all_proxy") or None


def _through(proxy: str, to: Address) -> socket.socket:
    """A tunnel to the address through the person's own proxy."""
    place = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if place.scheme != "http" or place.hostname is None:
        raise OSError("the proxy in the environment is not an http:// one")
    out = _open(place.hostname, place.port or 80)
    try:
        login = f"{unquote(place.username or '')}:{unquote(place.password or '')}".encode()
        knock = b"Proxy-Authorization: Basic " + base64.b64encode(login) + b"\r\n" if place.username else b""
        out.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n".encode() + knock + b"\r\n")
        said = b""
        while not said.endswith(_END_OF_HEAD):  # what follows the head is the host's
            if not (part := out.recv(1)) or len(said) > _HEAD:
                raise OSError("the proxy in the environment does not speak HTTP")
            said += part
        if not re.match(rb"HTTP/1\.\d 2\d\d\b", said):
            raise OSError(f"the proxy in the environment answers {said.split(_END_OF_HEAD[:2])[0]!r}")
    except BaseException:
        out.close()
        raise
    return out
