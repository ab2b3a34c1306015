"""The way out of a layer whose network is cut: a proxy in the engine's process that connects to allowed hosts only.

Theory of operation.  With `network = "model"` a program has a network of its own with nothing in it but loopback.
Before it begins, `inside.py` listens on loopback in there and hands the listening sockets out over a pair of sockets
that the program never gets; a socket stays in the network where it was made, so what connects to it in there is
accepted out here.  Nothing that could be talked into more remains inside.  The relay looks at the host that is asked
for before any name is resolved; what passes through a tunnel is not looked into.  Bytes and seconds before the
decision, and connections, have bounds.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_NOTED = 100
"""So many refused addresses are kept by name."""
_ORDINARY_PORTS = (443, 80)
"""What an allowed host without a port means."""
_PIECE = 65_536
_PATIENCE_S = 30.0
_HALF_OPEN_S = 300.0
"""How long an answer may go on when its program has ended."""
_CONNECTIONS = 256
_LOOKS_S = 0.1
_OF_THE_HOP = ("host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate")


class Relay:
    """The relay of one layer: `host` (ports 443 and 80), `host:port`, and `*.domain` for all below it are allowed."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.refused: dict[str, None] = {}
        """Addresses that were asked for in vain."""
        self.room = threading.BoundedSemaphore(_CONNECTIONS)
        every = ((host, port) for host, port in map(host_and_port, hosts) if host)
        self._allowed = {_address(host, one) for host, port in every for one in ((port,) if port else _ORDINARY_PORTS)}
        self._doors: list[_Door] = []

    @property
    def own_servers(self) -> list[str]:
        """Servers of this machine that are allowed: models that run here, to be found at their own port inside."""
        return sorted(one for one in self._allowed if _is_loopback(host_and_port(one)[0]))

    def door(self) -> int:
        """The descriptor that a program's `inside.py` inherits; whoever starts it closes it."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._take_doors, args=(ours,), daemon=True).start()
        return theirs.detach()

    def close(self) -> None:
        """Nothing is accepted any more; what is open ends with the program."""
        for door in self._doors:
            door.shutdown()
            door.server_close()

    def _take_doors(self, ours: socket.socket) -> None:
        """Take the listening sockets, and accept on them from now on."""
        with ours, suppress(OSError, ValueError):  # it may end before it began
            said, handles, *_ = socket.recv_fds(ours, _PIECE, 64)
            for handle, target in zip(handles, json.loads(said or b"[]"), strict=False):
                self._doors.append(_Door(self, socket.socket(fileno=handle), target))
                threading.Thread(target=self._doors[-1].serve_forever, args=(_LOOKS_S,), daemon=True).start()
            ours.sendall(b".")

    def allows(self, host: str, port: int) -> bool:
        """Whether a program may get there; else it is noted."""
        domains = (_address(f"*.{host.split('.', at)[-1]}", port) for at in range(1, host.count(".") + 1))
        allowed = self.names(host, port) or any(domain in self._allowed for domain in domains)
        if not allowed and len(self.refused) < _NOTED:
            self.refused[_address(host, port)] = None
        return allowed

    def names(self, host: str, port: int) -> bool:
        """Whether somebody named that very host."""
        return _address(host, port) in self._allowed


class _Door(ThreadingTCPServer):
    """A socket that a program listens on, and where it leads to; empty: whoever connects says that."""

    daemon_threads = True

    def __init__(self, relay: Relay, door: socket.socket, target: str) -> None:
        super().__init__(("", 0), _Connection, bind_and_activate=False)
        self.socket.close()
        self.socket = door
        self.relay, self.target = relay, target

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        if self.relay.room.acquire(blocking=False):
            try:
                super().process_request_thread(request, client_address)
            finally:
                self.relay.room.release()
        else:
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One of the two has gone."""


class _Connection(BaseHTTPRequestHandler):
    """One connection, to its end."""

    server: _Door
    timeout = _PATIENCE_S
    rbufsize = 0  # what is behind the head of a request stays in the socket
    default_request_version = "HTTP/1.1"

    def handle(self) -> None:
        target, head = self.server.target, b""
        if not target:
            self.raw_requestline = self.rfile.readline(_PIECE)
            if not self.parse_request():
                return
            target, head = self._asked()
        host, port = host_and_port(target)
        if not host or not port or host.startswith("*"):
            why = "this is a proxy: CONNECT HOST:PORT, or a request with a whole http address"
            self.send_error(HTTPStatus.BAD_REQUEST, why)
        elif not self.server.relay.allows(host, port):
            why = f'{_address(host, port)} is not among the hosts that can be reached here (sandbox.network = "model")'
            self.send_error(HTTPStatus.FORBIDDEN, why)
        else:
            self._connect(host, port, head)

    def _asked(self) -> tuple[str, bytes]:
        """Where the program wants to get, and what goes there first; nothing for a tunnel."""
        if self.command == "CONNECT":
            return self.path, b""
        parts = re.fullmatch(r"(?i:http)://([^/?#]*)(.*)", self.path)
        if not parts:
            return "", b""
        host, port = host_and_port(parts[1])
        path = parts[2] if parts[2].startswith("/") else f"/{parts[2]}"
        kept = [f"{name}: {value}" for name, value in self.headers.items() if name.lower() not in _OF_THE_HOP]
        # One request for each connection: the next one may be for another host.
        own = [f"{self.command} {path} HTTP/1.1", f"Host: {parts[1]}", "Connection: close"]
        return _address(host, port or 80), "\r\n".join((*own, *kept, "", "")).encode("latin-1")

    def _connect(self, host: str, port: int, head: bytes) -> None:
        try:
            there = _connected(host, port, public=not self.server.relay.names(host, port))
        except TimeoutError:
            self.send_error(HTTPStatus.GATEWAY_TIMEOUT, f"{_address(host, port)} does not answer")
        except (OSError, HTTPException, ValueError) as error:
            self.send_error(HTTPStatus.BAD_GATEWAY, f"{_address(host, port)} cannot be reached: {error}")
        else:
            with there:
                if head:
                    there.sendall(head)
                elif not self.server.target:
                    self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _exchange(self.connection, there)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """An answer of the relay's own."""
        body = f"interlock: {message}\n".encode("utf-8", "replace")
        self.send_response_only(code)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.connection.shutdown(socket.SHUT_WR)
        while self.connection.recv(_PIECE):  # closed with unread bytes, it would take the answer with it
            pass


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


def _exchange(client: socket.socket, there: socket.socket) -> None:
    """Bytes in both directions, until both have ended."""
    back = threading.Thread(target=_passed_on, args=(there, client), daemon=True)
    back.start()
    _passed_on(client, there)
    back.join(_HALF_OPEN_S)
    with suppress(OSError):
        there.shutdown(socket.SHUT_RDWR)


def _passed_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        source.settimeout(None)
        while part := source.recv(_PIECE):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
