"""The relay: what it lets through, what it answers, and how it finds its way out."""

from __future__ import annotations

import json
import socket
from http.server import ThreadingHTTPServer

import pytest

from interlock.workspace.layers import relay as relays
from interlock.workspace.layers.relay import Relay, host_and_port

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


_NONSENSE = (b"nonsense", b"GET / HTTP/1.1", b"CONNECT x HTTP/1.1", b"CONNECT *.x:1 HTTP/1.1",
             b"GET https://x/ HTTP/1.1", b"CONNECT u@model.test:443 HTTP/1.1", b"\xff\x00", b"x" * 200_000)  # fmt: skip


@pytest.mark.req("TREE-10")
def test_what_is_allowed_gets_through_and_the_rest_is_refused_and_noted(served: ThreadingHTTPServer) -> None:
    """By name and port, whatever headers say; a server of this machine has a door of its own; nothing is open after
    the end."""
    here = f"127.0.0.1:{served.server_address[1]}"
    relay = Relay([here, "model.test"])
    assert relay.own_servers == [here]
    proxy, direct = _door(relay, "", here)
    whole = f"GET http://{here}/a?q HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: k\r\nA: b\r\n\r\n"
    assert _said(proxy, whole.encode()).endswith(f"/a?q {here} - b".encode())
    inner = b"GET /b HTTP/1.0\r\nHost: h\r\n\r\n"
    assert _said(proxy, f"CONNECT {here} HTTP/1.1\r\nHost: other\r\n\r\n".encode() + inner).endswith(b"/b h - -")
    assert _said(direct, inner).endswith(b"/b h - -")
    for other in ("model.test:22", "x.model.test:443", "127.0.0.1:1"):
        assert b"403 Forbidden" in _said(proxy, f"CONNECT {other} HTTP/1.1\r\n\r\n".encode())
    for raw in _NONSENSE:
        assert b" 400 " in _said(proxy, raw + b"\r\n\r\n")
    assert b" 400 " in _said(proxy, b"GET http://x/ HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n")
    assert set(relay.refused) == {"model.test:22", "x.model.test:443", "127.0.0.1:1"}
    relay.close()
    with pytest.raises(OSError):
        _said(proxy, b"x\r\n\r\n")


@pytest.mark.req("TREE-10")
def test_a_name_below_a_domain_must_be_public() -> None:
    """Nobody named that very host: it is no way to machines in here."""
    relay = Relay(["*.localhost"])
    (proxy,) = _door(relay, "")
    told = _said(proxy, b"CONNECT inner.localhost:443 HTTP/1.1\r\n\r\n")
    assert b" 502 " in told and b"cannot be reached" in told
    assert b" 403 " in _said(proxy, b"CONNECT localhost:443 HTTP/1.1\r\n\r\n")
    relay.close()
    with pytest.raises(OSError, match="not a public one"):
        relays._public_address("localhost", 443)


@pytest.mark.req("TREE-10")
def test_it_goes_out_through_the_persons_own_proxy(
    served: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its password; not to what no_proxy names."""
    outer = f"http://ann:p%40ss@127.0.0.1:{served.server_address[1]}"
    monkeypatch.setenv("https_proxy", outer)
    monkeypatch.setenv("no_proxy", ".spared.test, x")
    relay = Relay(["model.test", "*.test"])
    (proxy,) = _door(relay, "")
    for name in ("model.test", "other.test"):  # the second is no name that could be looked up here
        assert _said(proxy, f"CONNECT {name}:443 HTTP/1.1\r\n\r\nhello\n".encode()).endswith(b"through hello\n")
        assert served.met.pop() == (f"{name}:443", "Basic YW5uOnBAc3M=")  # type: ignore[attr-defined]
    ways = {"a.spared.test": None, "127.0.0.1": None, "x": None, "model.org": outer}
    assert {host: relays._proxy_for(host) for host in ways} == ways
    relay.close()
