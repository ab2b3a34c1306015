"""The page over a small project with runs: asked in this process, as a browser or as somebody else."""

from __future__ import annotations

import asyncio
import fcntl
import html
import http.client
import json
import os
import re
import shutil
import signal
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import pytest

from interlock.engine.runs import Entry
from interlock.engine.view import View
from interlock.web.guarding import Browsers, Proxy
from interlock.web.page import Page
from tests.cli.conftest import CommandLine, person

__all__ = ["person"]

ORIGIN = "http://interlock-0123456789abcdef0123456789abcdef.localhost:8765"
SHIP = """\
playbook: ship
summary: Plan something, ask a person, build it.
inputs:
  what: {help: What is to be shipped., argument: true}
  times: {help: How often it is built., type: number, default: 1, at_most: 3}
  hurry: {help: Do it quickly., type: switch}
key: "{{ what }}"
agents:
  planner: {instructions: You plan., writes: ["**"]}
  builder: {instructions: You build., writes: ["**"]}
steps:
  - {agent: planner, task: "Plan {{ what }}.", produces: plan.md}
  - {ask: ship, question: "Ship {{ what }}?", shows: [plan.md], choices: {approve: go on, reject: it is stopped}}
  - decide: after_ship
    rows: [{ship: approve, then: go on}, {ship: reject, then: end not_now}]
  - {agent: builder, task: "Build {{ what }}.", produces: built.md}
  - {end: shipped, status: complete, words: "Shipped {{ what }}."}
  - {end: not_now, status: stopped, words: Not now.}
"""
PLANS = "printf '# The plan\\n\\n1. Cut the **sails**\\n' > plan.md; echo planned"
BUILDS = "echo built > built.md; echo built"


@dataclass(frozen=True)
class Got:
    """An answer of the page."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return ", ".join(value for known, value in self.headers if known == name)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """What somebody reads."""
        return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", "", self.text)))

    def field(self, name: str) -> str:
        """The value of a hidden field."""
        found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', self.text)
        assert found, f"no field {name}: {self.words}"
        return html.unescape(found[1])


class Site:
    """A page, and a browser that came in."""

    def __init__(self, person: CommandLine, proxy: Proxy | None = None, origin: str = ORIGIN) -> None:
        self.interlock, self.origin, self.browsers = person, origin, Browsers()
        self.entered = 0
        self.page = Page(
            person.top, origin=origin, browsers=self.browsers, person="ada", proxy=proxy, entered=self._entered
        )
        self.cookie = ""
        if proxy is None:
            self.cookie = self.get(f"/enter?token={self.browsers.token()}").header("set-cookie").partition(";")[0]

    def _entered(self) -> None:
        self.entered += 1

    def ask(self, method: str, target: str, body: bytes = b"", **headers: str | list[str] | None) -> Got:
        """A request as it goes over the wire; None leaves a header out, a list says it several times."""
        return asyncio.run(self._asked(method, target, body, headers))

    async def _asked(self, method: str, target: str, body: bytes, headers: Mapping[str, Any]) -> Got:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        with suppress(Exception):  # the server would have it in its log
            await self.page.app(self.scope(method, target, headers), receive, send)
        named = tuple((name.decode(), value.decode("latin-1")) for name, value in sent[0]["headers"])
        return Got(sent[0]["status"], named, b"".join(one.get("body", b"") for one in sent[1:]))

    def scope(self, method: str, target: str, headers: Mapping[str, Any]) -> dict[str, Any]:
        usual = {"host": urlsplit(self.origin).netloc, "cookie": self.cookie}
        given = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        several = [(name, [value] if isinstance(value, str) else value or []) for name, value in given.items()]
        path, _, query = target.partition("?")
        return {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), one.encode()) for name, values in several for one in values],
        }

    def get(self, target: str, **headers: str | list[str] | None) -> Got:
        return self.ask("GET", target, **headers)

    def post(self, target: str, form: Mapping[str, Any], **headers: str | list[str] | None) -> Got:
        return self.ask("POST", target, urlencode(form, doseq=True).encode(), **{"origin": self.origin, **headers})

    @asynccontextmanager
    async def watch(self, target: str, **headers: str) -> AsyncIterator[AsyncIterator[tuple[str, str, str]]]:
        """The events of a stream: kind, id, what it says."""
        sent: asyncio.Queue[Any] = asyncio.Queue()

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def events() -> AsyncIterator[tuple[str, str, str]]:
            assert (begun := await sent.get())["status"] == 200, begun
            while (message := await sent.get()).get("more_body"):
                facts = dict(line.split(": ", 1) for line in message["body"].decode().splitlines() if ": " in line)
                if "event" in facts:
                    yield facts["event"], facts["id"], json.loads(facts["data"])

        task = asyncio.ensure_future(self.page.app(self.scope("GET", target, headers), receive, sent.put))  # type: ignore[arg-type]
        try:
            yield events()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    # --- its runs

    def begin(self, *words: str) -> int:
        """Type it, in a process of its own; its exit code."""
        process = self.interlock.spawn(*words)
        process.communicate()
        return process.returncode

    def entry(self, name: str = "") -> Entry:
        """The latest run, or that of a playbook."""
        return next(one for one in self.interlock.place().runs.all() if one.id.startswith(name))

    def at(self, name: str = "", more: str = "") -> str:
        """The address of a run."""
        return f"/runs/{self.entry(name).id}{more}"

    def dispatch(self, member: str, name: str = "") -> str:
        entry = self.entry(name)
        key = next(key for key, call in entry.view().calls.items() if member in (call.agent, call.member))
        return f"/runs/{entry.id}/dispatches/{quote(key, safe='')}"

    def deciding(self, **more: str) -> dict[str, str]:
        """The form of the gate, filled in."""
        page = self.get(self.at("ship", "/gate"))
        return {"seen": page.field("seen"), "choice": "approve", "note": "", **more}


def settled(entry: Entry) -> View:
    """A run, once the process in the background has left it."""
    with (entry.path / "lock").open("rb+") as file:  # waits until it is free, whatever its holder dies of
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    return entry.view()


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run that is complete, and one that waits at its gate."""
    root = tmp_path_factory.mktemp("page")
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith(("INTERLOCK_", "GIT_"))]:
        patch.delenv(name)
    patch.setenv("XDG_DATA_HOME", str(root / "data"))
    made = CommandLine(root / "work", mode="off")
    made.write(".interlock/playbooks/ship.yaml", SHIP)
    made.act("planner", PLANS)
    made.act(
        "builder", f"[ -f plan.md ] && {{ {BUILDS}; exit; }}; sed -i 's/a - b/a + b/' lib.py; echo 'I mended *add*.'"
    )
    for words in (
        ("playbooks", "trust", "interlock.toml"),
        ("run", "task", "Make add right"),
        ("run", "ship", "a kite"),
    ):
        done = made.spawn(*words)
        assert done.communicate()[1] is not None
        assert done.returncode in (0, 4)
    patch.undo()
    return made.top


@pytest.fixture
def interlock(_made: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> CommandLine:
    """The same, to be changed."""
    shutil.copytree(_made, tmp_path / "work", symlinks=True)
    made = CommandLine.there(tmp_path / "work")
    made.capture = capsysbinary
    made.trust()
    return made


@pytest.fixture
def site(interlock: CommandLine) -> Iterator[Site]:
    yield Site(interlock)


# --- the same as a program


Serve = Callable[..., "Served"]


class Served:
    """A server of the page, and what it says."""

    def __init__(self, interlock: CommandLine, *words: str, **env: str) -> None:
        self.process = interlock.spawn("web", "--port", "0", *words, env={**os.environ, **env})
        self.address = self.said("The page: ")
        self.parts = urlsplit(self.address)

    def said(self, beginning: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if beginning in line:
                return line.partition(beginning)[2].strip()
        raise AssertionError(f"it never said {beginning!r}")

    def ask(self, path: str, host: str = "127.0.0.1", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(host, self.parts.port, timeout=120)
        connection.request("GET", path, headers={"Host": self.parts.netloc, "Connection": "close", **headers})
        return connection.getresponse()

    def enter(self) -> str:
        """The cookie of a browser that uses the address."""
        with self.ask(f"{self.parts.path}?{self.parts.query}") as answer:
            return (answer.getheader("set-cookie") or "").partition(";")[0]


@pytest.fixture
def serve(interlock: CommandLine) -> Iterator[Serve]:
    begun: list[Served] = []

    def begin(*words: str, **env: str) -> Served:
        begun.append(Served(interlock, *words, **env))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.send_signal(signal.SIGKILL)
        one.process.communicate()
