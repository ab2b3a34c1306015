"""The relay: allowed hosts are reached, nothing else is even resolved, and no request can hold it up."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.workspace.layers.relay import Address, AllowList, RelayBounds, forwarder_command, forwarder_needs, relay

NAMESPACE = ("unshare", "--map-root-user", "--net")
HAS_NAMESPACES = shutil.which("unshare") and not subprocess.run([*NAMESPACE, "true"], check=False).returncode
PLACES = {"outside": (), **({"namespace": NAMESPACE} if HAS_NAMESPACES else {})}
"""Where the forwarder is tried: without a namespace of its own, and with one where the kernel allows it."""


@dataclass
class Model:
    """A server on loopback that answers every request, and keeps what it was sent."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: bool = True
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection of a model that does not answer is ended by the other side."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        self.asked.set()
        if b"Content-Length: 5" in head:
            self.bodies.append(await reader.readexactly(5))
        if self.answers:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nHello\n")
            writer.close()
            await writer.wait_closed()
            return
        await everything(reader)
        self.gone.set()
        await self.over.wait()
        writer.close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    made = Model()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    made.over.set()
    server.close()


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every name that anybody asks the system for."""
    names: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        names.append(host)
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


async def ask(path: Path, text: bytes, *, end: bool = False) -> bytes:
    """All that the relay answers."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text)
    if end:
        writer.write_eof()
    said = await everything(reader)
    writer.close()
    return said


async def everything(reader: asyncio.StreamReader) -> bytes:
    said = b""
    try:
        while part := await reader.read(65_536):
            said += part
    except ConnectionResetError:  # after an answer to a request that was not read to its end
        pass
    return said


def status(said: bytes) -> int:
    return int(said.split(b" ")[1])


def connect(to: str) -> bytes:
    return f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n".encode()


@pytest.mark.req("LY-11")
@pytest.mark.parametrize(
    ("listed", "asked", "allowed"),
    [
        ("api.example.com", ("api.example.com", 443), True),
        ("api.example.com", ("api.example.com", 80), True),
        ("api.example.com", ("api.example.com", 22), False),
        ("api.example.com:8443", ("api.example.com", 8443), True),
        ("api.example.com:8443", ("api.example.com", 443), False),
        ("API.Example.com.", ("api.example.com", 443), True),
        ("api.example.com", ("x.api.example.com", 443), False),
        ("api.example.com", ("example.com", 443), False),
        ("api.example.com", ("api.example.com.evil.org", 443), False),
        ("api.example.com", ("evilapi.example.com", 443), False),
        ("*.example.com", ("api.example.com", 443), True),
        ("*.example.com", ("a.b.example.com", 443), True),
        ("*.example.com", ("example.com", 443), False),
        ("*.example.com", ("evilexample.com", 443), False),
        ("*.example.com:8443", ("a.example.com", 8443), True),
        ("*.example.com:8443", ("a.example.com", 443), False),
        ("127.0.0.1:4000", ("127.0.0.1", 4000), True),
        ("127.0.0.1:4000", ("127.1", 4000), False),
        ("127.0.0.1:4000", ("localhost", 4000), False),
        ("[::1]:4000", ("::1", 4000), True),
    ],
)
def test_an_entry_allows_exactly_what_it_says(listed: str, asked: tuple[str, int], allowed: bool) -> None:
    """A host, with its port or the two ordinary ones; a domain is everything below it."""
    hosts, address = AllowList([listed]), Address(*asked)
    assert (hosts.names(address) or hosts.has_domain_of(address)) is allowed


@pytest.mark.parametrize("entry", ["", "*", "*.", "http://a", "a b", "a:0", "a:65536", "a@b", "a/b", "[::1", "::1"])
def test_an_entry_that_names_no_host_is_refused(entry: str, tmp_path: Path) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigInvalid, match="names no host"):
        AllowList([entry])


@pytest.mark.req("LY-11")
async def test_an_allowed_host_is_reached_through_a_tunnel(model: Model, tmp_path: Path) -> None:
    """What goes through a tunnel is passed on as it is, in both directions."""
    async with relay([model.host], tmp_path / "s"):
        said = await ask(tmp_path / "s", connect(model.host) + b"GET /\xff HTTP/1.1\r\nX: 1\r\n\r\n", end=True)
    assert said.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert said.endswith(b"Hello\n")
    assert model.heads == [b"GET /\xff HTTP/1.1\r\nX: 1\r\n\r\n"]


@pytest.mark.req("LY-11")
@pytest.mark.parametrize(("path", "passed"), [("/v1?a=b", "/v1?a=b"), ("", "/"), ("?a", "/?a")])
async def test_an_allowed_host_is_reached_by_a_plain_request(
    model: Model, path: str, passed: str, tmp_path: Path
) -> None:
    """The host gets an ordinary request, without what was between program and proxy; one for each connection."""
    head = (
        f"POST http://{model.host}{path} HTTP/1.1\r\nHost: elsewhere\r\nProxy-Connection: keep-alive\r\n"
        "Proxy-Authorization: Basic x\r\nConnection: keep-alive\r\nX-Key: secret\r\nContent-Length: 5\r\n\r\n"
    )
    async with relay([model.host], tmp_path / "s"):
        said = await ask(tmp_path / "s", head.encode() + b"12345")
    assert (status(said), said[-6:]) == (200, b"Hello\n")
    line, *fields = model.heads[0].decode().removesuffix("\r\n\r\n").split("\r\n")
    assert line == f"POST {passed} HTTP/1.1"
    assert fields == [f"Host: {model.host}", "Connection: close", "X-Key: secret", "Content-Length: 5"]
    assert model.bodies == [b"12345"]


@pytest.mark.req("LY-11")
@pytest.mark.parametrize(
    "asked",
    [
        "evil.example.org:443",
        "api.example.com.evil.org:443",
        "api.example.com:22",
        "169.254.169.254:80",
        "127.1:443",
        "0x7f000001:443",
        "localhost:443",
        "[::ffff:127.0.0.1]:443",
    ],
)
async def test_every_other_host_is_refused_and_not_even_resolved(
    asked: str, resolved: list[str], tmp_path: Path
) -> None:
    """403, for tunnels and plain requests, with the address in the answer; the engine is told."""
    async with relay(["api.example.com"], tmp_path / "s") as kept:
        tunnel = await ask(tmp_path / "s", connect(asked))
        plain = await ask(tmp_path / "s", f"GET http://{asked}/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n".encode())
        assert (status(tunnel), status(plain)) == (403, 403)
        assert asked.encode() in tunnel
        assert kept.refused == {asked: 2}
    assert resolved == []


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        b"CONNECT api.example.com HTTP/1.1\r\n\r\n",
        b"CONNECT *.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT user@api.example.com:443 HTTP/1.1\r\n\r\n",
        b"GET http://user:x@api.example.com/ HTTP/1.1\r\n\r\n",
        b"GET http://api.example.com\\@evil.org/ HTTP/1.1\r\n\r\n",
        b"GET http://evil.org#@api.example.com/ HTTP/2\r\n\r\n",
        b"GET https://api.example.com/ HTTP/1.1\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"\r\n\r\n",
    ],
)
async def test_what_is_no_request_to_a_proxy_is_refused(text: bytes, resolved: list[str], tmp_path: Path) -> None:
    """400; an address that two readers could read differently is none."""
    async with relay(["api.example.com", "*.example.com"], tmp_path / "s"):
        assert status(await ask(tmp_path / "s", text)) == 400
    assert resolved == []


async def test_the_list_of_refused_addresses_has_a_bound(tmp_path: Path) -> None:
    """A program that asks for ever new hosts fills nothing."""
    async with relay([], tmp_path / "s") as kept:
        for number in range(130):
            await ask(tmp_path / "s", connect(f"h{number}:443"))
        assert len(kept.refused) == 100


@pytest.mark.req("LY-11")
async def test_a_host_of_an_allowed_domain_must_not_be_a_machine_in_here(
    monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path
) -> None:
    """Nobody named that host: whoever answers for its name cannot point it at loopback or the local network."""
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", model.port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: answers)
    async with relay([f"*.example.com:{model.port}", f"named.example.com:{model.port}"], tmp_path / "s"):
        said = await ask(tmp_path / "s", connect(f"sly.example.com:{model.port}"))
        assert status(said) == 502
        assert b"not a public one" in said
        assert model.heads == []
        named = connect(f"named.example.com:{model.port}") + b"GET / HTTP/1.1\r\n\r\n"
        assert (await ask(tmp_path / "s", named)).endswith(b"Hello\n")


async def test_a_host_that_does_not_answer_is_an_answer(tmp_path: Path) -> None:
    """502, with the reason."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        async with relay([nobody], tmp_path / "s"):
            said = await ask(tmp_path / "s", connect(nobody))
    assert status(said) == 502
    assert b"cannot be reached" in said


async def test_a_head_has_a_bound_in_bytes(tmp_path: Path) -> None:
    """431, whether or not it ends."""
    async with relay(["a"], tmp_path / "s", bound=RelayBounds(head=4096)):
        for end in (b"", b"\r\n\r\n"):
            assert status(await ask(tmp_path / "s", b"CONNECT a:443 HTTP/1.1\r\nX: " + b"x" * 20_000 + end)) == 431


async def test_a_head_has_a_bound_in_time(tmp_path: Path) -> None:
    """408 for one that never ends; one that is given up is none."""
    async with relay(["a"], tmp_path / "s", bound=RelayBounds(head_s=0.05)):
        assert status(await ask(tmp_path / "s", b"CONNECT a:443 HTTP/1.1\r\nX: ")) == 408
    async with relay(["a"], tmp_path / "s"):
        assert await ask(tmp_path / "s", b"CONNECT a:443 HTT", end=True) == b""


async def test_connections_have_a_bound(tmp_path: Path) -> None:
    """One too many is told so; when another has gone there is room again."""
    async with relay([], tmp_path / "s", bound=RelayBounds(connections=1)):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(b"CONNECT ")
        assert status(await ask(tmp_path / "s", connect("a:443"))) == 503
        writer.write(b"a:443 HTTP/1.1\r\n\r\n")
        assert status(await everything(reader)) == 403
        writer.close()
        assert status(await ask(tmp_path / "s", connect("a:443"))) == 403


async def test_a_program_that_has_sent_all_still_gets_its_answer(model: Model, tmp_path: Path) -> None:
    """An end in one direction is passed on, and does not end the other."""
    async with relay([model.host], tmp_path / "s"):
        said = await ask(tmp_path / "s", f"GET http://{model.host}/ HTTP/1.1\r\n\r\n".encode(), end=True)
    assert said.endswith(b"Hello\n")


async def test_a_connection_that_is_half_open_and_silent_is_ended(model: Model, tmp_path: Path) -> None:
    """The program has sent all, the host says nothing and stays: the program is not left waiting."""
    model.answers = False
    async with relay([model.host], tmp_path / "s", bound=RelayBounds(quiet_s=0.05)):
        said = await ask(tmp_path / "s", f"GET http://{model.host}/ HTTP/1.1\r\n\r\n".encode(), end=True)
        assert said == b""
        await asyncio.wait_for(model.gone.wait(), 120)


async def test_everything_ends_with_the_relay(model: Model, tmp_path: Path) -> None:
    """Open tunnels are cut, on both sides, and the socket is gone."""
    model.answers = False
    async with relay([model.host], tmp_path / "s") as kept:
        assert kept.socket == tmp_path / "s"
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(connect(model.host) + b"GET / HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(model.asked.wait(), 120)
    assert await everything(reader) == b""
    writer.close()
    await asyncio.wait_for(model.gone.wait(), 120)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("obstacle", ["socket", "file", "folder", "link", "shut"])
async def test_what_a_program_left_in_the_way_does_not_matter(obstacle: str, tmp_path: Path) -> None:
    """A dead socket, a file, a folder with something in it, a link, a folder that was shut: the relay listens."""
    folder = tmp_path / "exchange"
    folder.mkdir()
    path, elsewhere = folder / "s", tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    match obstacle:
        case "socket":
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
        case "file":
            path.write_text("x")
        case "folder":
            (path / "deep").mkdir(parents=True)
        case "link":
            path.symlink_to(elsewhere)
        case "shut":
            folder.chmod(0)
    async with relay([], path):
        assert status(await ask(path, connect("a:443"))) == 403
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert elsewhere.read_text() == "mine"


async def test_a_folder_that_is_none_is_an_error_that_says_so(tmp_path: Path) -> None:
    """Missing, or a link to somewhere else."""
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in (tmp_path / "missing", tmp_path / "link"):
        with pytest.raises(WorkspaceFailed, match="exchange folder"):
            async with relay([], folder / "s"):
                pass


@dataclass
class Outer:
    """A proxy of the user's: notes what it is asked and answers for every host."""

    asked: list[bytes] = field(default_factory=list)
    says: bytes = b"HTTP/1.1 200 OK"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.says + b"\r\n\r\n" + b"from there")
        await writer.drain()
        writer.close()


async def test_the_relay_goes_out_as_the_user_would(tmp_path: Path, model: Model) -> None:
    """Through the user's own proxy, with its login; not for loopback, and not for what is spared."""
    outer = Outer()
    server = await asyncio.start_server(outer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    environ = {"HTTPS_PROXY": f"http://me:p%40ss@127.0.0.1:{port}", "NO_PROXY": ".spared.invalid, other"}
    async with relay(["far.invalid:443", "x.spared.invalid:443", model.host], tmp_path / "s", environ=environ):
        assert (await ask(tmp_path / "s", connect("far.invalid:443"))).endswith(b"from there")
        expected = b"CONNECT far.invalid:443 HTTP/1.1\r\nHost: far.invalid:443\r\n"
        assert outer.asked == [expected + b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n"]
        assert status(await ask(tmp_path / "s", connect("x.spared.invalid:443"))) == 502
        assert (await ask(tmp_path / "s", f"GET http://{model.host}/ HTTP/1.1\r\n\r\n".encode())).endswith(b"Hello\n")
        assert len(outer.asked) == 1
        outer.says = b"HTTP/1.1 407 Who are you?"
        said = await ask(tmp_path / "s", connect("far.invalid:443"))
        assert status(said) == 502
        assert b"407 Who are you?" in said
        assert status(await ask(tmp_path / "s", connect("elsewhere.invalid:443"))) == 403
    server.close()


# The forwarder: a real program inside, the real relay outside.


Start = Callable[..., Any]


@pytest.fixture(params=PLACES.values(), ids=list(PLACES))
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """Starts a program behind the forwarder; gives its exit status and what it printed."""

    async def run(argv: list[str], hosts: list[str], *, path: Path | None = None, **environ: str) -> tuple[int, str]:
        command = [*request.param, *forwarder_command(path or tmp_path / "s", hosts, argv)]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], **environ},
        )
        out, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode()

    return run


URLLIB = "import sys, urllib.request as u\nprint(u.urlopen(sys.argv[1], timeout=300).read().decode(), end='')"


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("client", ["curl", "python", "no proxy"])
async def test_clients_inside_reach_a_model_on_loopback(
    client: str, start: Start, model: Model, tmp_path: Path
) -> None:
    """By the address that it has outside, whether or not the client knows of proxies."""
    url = f"http://{model.host}/v1"
    argv = {
        "curl": ["curl", "-sS", "-m", "60", url],
        "python": [sys.executable, "-c", URLLIB, url],
        "no proxy": ["curl", "-sS", "-m", "60", "--noproxy", "*", url],
    }[client]
    async with relay([model.host], tmp_path / "s"):
        assert await start(argv, [model.host]) == (0, "Hello\n")


@pytest.mark.req("LY-11")
async def test_clients_inside_are_sent_through_the_proxy(start: Start, model: Model, tmp_path: Path) -> None:
    """For every host that is not on loopback: tunnels for https, plain requests for http; refusals are told."""
    async with relay([model.host], tmp_path / "s") as kept:
        code, said = await start(["curl", "-sS", "-m", "60", "http://far.invalid/"], [model.host])
        assert (code, "far.invalid:80 is not among the hosts" in said) == (0, True)
        code, said = await start(["curl", "-sS", "-m", "60", "https://far.invalid/"], [model.host])
        assert (code != 0, "403" in said) == (True, True)
        code, said = await start([sys.executable, "-c", URLLIB, "https://other.invalid/"], [model.host])
        assert (code, "403" in said) == (1, True)
        assert kept.refused == {"far.invalid:80": 1, "far.invalid:443": 1, "other.invalid:443": 1}


OWN_SERVER = """
import http.server, threading, sys, subprocess, urllib.request as u
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"own")
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://localhost:{server.server_port}/"
print(u.urlopen(url, timeout=300).read().decode(), subprocess.check_output(["curl", "-sS", url], text=True))
"""


async def test_a_program_reaches_the_servers_that_it_starts_itself(start: Start, tmp_path: Path) -> None:
    """A test suite's web server is on loopback inside: no proxy stands before it."""
    async with relay([], tmp_path / "s"):
        assert await start([sys.executable, "-c", OWN_SERVER], []) == (0, "own own\n")


async def test_a_program_behind_the_forwarder_is_otherwise_as_it_would_be(start: Start, tmp_path: Path) -> None:
    """Exit status, signals, environment; its output ends when it ends; a long path of the socket is no matter."""
    deep = tmp_path.joinpath(*["a" * 60] * 4)
    deep.mkdir(parents=True)
    assert len(str(deep)) > 108
    async with relay([], deep / "s"):
        environ = {"X": "1", "LANG": "C", "HTTP_PROXY": "http://user:secret@mine", "NO_PROXY": "*"}
        script = "grep SigIgn /proc/self/status; ls /proc/self/fd | wc -w; env; exit 3"
        code, said = await start(["sh", "-c", script], [], path=deep / "s", **environ)
        assert code == 3
        ignored, descriptors, *lines = said.splitlines()
        assert int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0
        assert int(descriptors) == 4  # three and the folder that is listed
        got = dict(line.split("=", 1) for line in lines)
        proxy = got["HTTP_PROXY"]
        assert proxy.startswith("http://127.0.0.1:")
        assert all(got[name] == got[name.upper()] == proxy for name in ("http_proxy", "https_proxy", "all_proxy"))
        assert got["no_proxy"] == got["NO_PROXY"] == "localhost,127.0.0.1,::1,[::1]"
        assert (got["X"], got["NODE_USE_ENV_PROXY"], "LC_CTYPE" in got, "secret" in said) == ("1", "1", False, False)
        missing = await start(["no-such-program"], [], path=deep / "s", PATH="/usr/bin:/bin")
        assert missing == (127, "interlock: no-such-program cannot be started: No such file or directory\n")


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("prefix", PLACES.values(), ids=PLACES.keys())
async def test_what_the_forwarder_left_behind_ends_with_the_program(prefix: tuple[str, ...], tmp_path: Path) -> None:
    """One process, which is not the program's child; when the program ends it ends, however that comes about."""
    async with relay([], tmp_path / "s"):
        command = [*prefix, *forwarder_command(tmp_path / "s", [], ["sh", "-c", "echo ready; exec cat"])]
        program = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdout is not None
        assert await program.stdout.readline() == b"ready\n"
        left = [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path / "s") in (one.info["cmdline"] or ())]
        assert len(left) == 1
        assert left[0].pid not in [one.pid for one in psutil.Process(program.pid).children()]
        program.kill()
        await program.communicate()
        await asyncio.to_thread(left[0].wait, 60)


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("prefix", PLACES.values(), ids=PLACES.keys())
async def test_a_namespace_of_its_own_has_no_other_way_out(
    prefix: tuple[str, ...], model: Model, tmp_path: Path
) -> None:
    """Past the proxy a server of this machine that is not allowed cannot be connected to; without one it could."""
    async with relay([], tmp_path / "s") as kept:
        argv = ["curl", "-sS", "-m", "60", "--noproxy", "*", f"http://{model.host}/"]
        command = [*prefix, *forwarder_command(kept.socket, [], argv)]
        program = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        await program.communicate()
    cannot_connect = 7
    assert program.returncode == (cannot_connect if prefix else 0)
    assert len(model.heads) == (0 if prefix else 1)


def test_the_forwarder_needs_the_interpreter_and_nothing_of_the_environment() -> None:
    """It starts without interlock, from the interpreter behind the virtual environment, whose places are named."""
    program, *rest = forwarder_command(Path("/x/s"), ["localhost:4000", "127.0.0.1:1", "[::1]:2", "far:3"], ["a", "b"])
    assert rest[:3] == ["-I", "-S", "-c"]
    assert rest[4:] == ["/x/s", "localhost:4000", "127.0.0.1:1", "[::1]:2", "--", "a", "b"]
    needs = forwarder_needs()
    assert Path(program) in needs
    assert all(path.exists() for path in needs)
    listed = subprocess.check_output([program, "-I", "-S", "-c", "import sys; print(*sys.path)"], text=True)
    for place in listed.split():
        assert any(Path(place).is_relative_to(need) for need in needs)
