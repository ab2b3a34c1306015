"""The relay: what it lets through, what it answers, and how it finds its way out."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from interlock.workspace.layers import relay as relays
from interlock.workspace.layers.relay import Address, Relay, host_and_port, request

_HOSTS = {
    "example.org": ("example.org", None), "EXAMPLE.org.:8443": ("example.org", 8443), "*.x.org": ("*.x.org", None),
    "[::1]:80": ("::1", 80), "127.0.0.1:1": ("127.0.0.1", 1), "a b": ("", None), "x:0": ("", None),
    "x:70000": ("", None), "http://x": ("", None), "": ("", None), "x/y": ("", None), "user@x": ("", None),
    "ü.org": ("", None),
}  # fmt: skip


@pytest.mark.parametrize("given", list(_HOSTS))
def test_a_host_has_one_spelling(given: str) -> None:
    """What names none, or hides another one, is none."""
    assert host_and_port(given) == _HOSTS[given]


def test_a_request_names_where_it_wants_to_get() -> None:
    """A tunnel, or a whole address, whose host wins over every header; all else is answered."""
    assert request(b"CONNECT api.x.org:443 HTTP/1.1\r\nHost: other") == (Address("api.x.org", 443), b"")
    to, head = request(b"GET http://X.org:81/p?q HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: k\r\nA: b")
    assert (to, head) == (
        Address("x.org", 81), b"GET /p?q HTTP/1.1\r\nHost: X.org:81\r\nConnection: close\r\nA: b\r\n\r\n",
    )  # fmt: skip
    for raw in (
        b"GET / HTTP/1.1",
        b"CONNECT x HTTP/1.1",
        b"CONNECT *.x:1 HTTP/1.1",
        b"GET https://x/ HTTP/1.1",
        b"\xff\x00",
    ):
        with pytest.raises(relays._Answer):
            request(raw)


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path} {self.headers['Host']}".encode())

    def do_CONNECT(self) -> None:
        """A proxy of the person's: it notes who knocked, and is the host itself."""
        self.server.met.append((self.path, self.headers["Proxy-Authorization"]))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"through")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        server.met = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _door(relay: Relay, *targets: str) -> list[int]:
    """The ports at which a program inside would find it."""
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in targets]
    with socket.socket(fileno=relay.door()) as pair:
        socket.send_fds(pair, [json.dumps(targets).encode()], [door.fileno() for door in doors])
        assert pair.recv(1) == b"."
    ports = [door.getsockname()[1] for door in doors]
    for door in doors:
        door.close()
    return ports


def _said(port: int, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        said = b""
        while part := client.recv(65536):
            said += part
        return said


def test_what_is_allowed_gets_through_and_the_rest_is_refused_and_noted(served: ThreadingHTTPServer) -> None:
    """By name and port; a server of this machine has a door of its own; nothing is open after the end."""
    here = f"127.0.0.1:{served.server_address[1]}"
    relay = Relay([here, "model.test"], {})
    assert relay.own_servers == [here]
    proxy, direct = _door(relay, "", here)
    assert _said(proxy, f"GET http://{here}/a HTTP/1.1\r\n\r\n".encode()).endswith(f"/a {here}".encode())
    tunnel = f"CONNECT {here} HTTP/1.1\r\n\r\nGET /b HTTP/1.0\r\nHost: h\r\n\r\n".encode()
    assert _said(proxy, tunnel).endswith(b"/b h") and _said(direct, b"GET /c HTTP/1.0\r\nHost: h\r\n\r\n").endswith(
        b"/c h"
    )
    for other in ("model.test:22", "x.model.test:443", "127.0.0.1:1"):
        assert b"403 Forbidden" in _said(proxy, f"CONNECT {other} HTTP/1.1\r\n\r\n".encode())
    assert b"400" in _said(proxy, b"nonsense\r\n\r\n")
    assert str(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE.value).encode() in _said(proxy, b"x" * 200_000)
    assert set(relay.refused) == {"model.test:22", "x.model.test:443", "127.0.0.1:1"}
    relay.close()
    with pytest.raises(OSError):
        _said(proxy, b"x\r\n\r\n")


def test_a_name_below_a_domain_must_be_public() -> None:
    """Nobody named that very host: it is no way to machines in here."""
    with pytest.raises(OSError, match="not a public one"):
        relays._public_address(Address("localhost", 443))
    (proxy,) = _door(Relay(["*.localhost"], {}), "")
    assert b"502" in _said(proxy, b"CONNECT inner.localhost:443 HTTP/1.1\r\n\r\n")
    assert b"403" in _said(proxy, b"CONNECT localhost:443 HTTP/1.1\r\n\r\n")


def test_it_goes_out_through_the_persons_own_proxy(served: ThreadingHTTPServer) -> None:
    """With its password; not to what no_proxy names."""
    outer = f"http://ann:p%40ss@127.0.0.1:{served.server_address[1]}"
    (proxy,) = _door(Relay(["model.test"], {"HTTPS_PROXY": outer, "no_proxy": "other.test"}), "")
    assert _said(proxy, b"CONNECT model.test:443 HTTP/1.1\r\n\r\n").endswith(b"through")
    assert served.met == [("model.test:443", "Basic YW5uOnBAc3M=")]  # type: ignore[attr-defined]
    spared = {"https_proxy": outer, "no_proxy": ".test, x"}
    assert relays._proxy_for(Address("model.test", 443), spared) is None
    assert relays._proxy_for(Address("127.0.0.1", 443), {"https_proxy": outer}) is None
    assert relays._proxy_for(Address("model.org", 443), spared) == outer
