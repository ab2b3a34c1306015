"""The page as a real server, over a workspace with scripted agents and a playbook of its own that needs people."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from interlock.finding.bundle import read
from interlock.finding.trust import TrustRecords
from tests import own_python
from tests.cli.conftest import Process, door

__all__ = ["door"]

PATIENCE_S = 300.0

SHIP = '''"""Plan, ask, build."""

from dataclasses import dataclass
from typing import Annotated, Literal

from interlock.contracts import Artifact, Contract
from interlock.engine import APPROVE, REJECT, Choice, Dispatch, Ending, Option, Run, playbook


@dataclass(frozen=True)
class Asked:
    what: Annotated[str, Option("What is to be shipped.", argument=True)]
    times: Annotated[int, Option("How often it is built.")] = 1
    how: Annotated[Literal["plainly", "by asking"], Option("How it is decided.")] = "plainly"
    hurry: Annotated[bool, Option("Do not ask anybody.")] = False
    parts: Annotated[list[str] | None, Option("Only these.", name="part")] = None


@playbook("ship", inputs=Asked, key=lambda asked: asked.what, agents=("planner", "builder"), needs_roles=False)
async def ship(run: Run, asked: Asked) -> Ending:
    """Plan something, ask a person, build it."""
    with run.step("plan"):
        plan = Contract(artifacts=(Artifact("plan.md"),))
        planned = await run.dispatch(Dispatch("planner", f"Plan {asked.what}.", contract=plan, writes=("**",)))
    if not planned.ok:
        return Ending.failed(f"planner: {planned.reason}")
    if asked.how == "by asking":
        said = await run.gate("colour", "Which colour?", choices=())
        return Ending.complete(f"it is {said.choice}")
    if not asked.hurry:
        choices = (APPROVE, REJECT, Choice("later", "the run stops, to be started again"))
        decision = await run.gate("ship", "Ship this plan?", choices=choices, shows=("plan.md",))
        if decision.choice != "approve":
            return Ending.stopped(f"{decision.choice}: {decision.note}")
    with run.step("build"):
        for turn in range(asked.times):
            built = Contract(artifacts=(Artifact(f"built-{turn}.txt"),))
            done = await run.dispatch(Dispatch("builder", "Build it.", contract=built, attempt=turn + 1))
            if not done.ok:
                return Ending.failed(f"builder: {done.reason}")
    return Ending.complete("shipped")
'''

SETTINGS = """\
runner = "played"
[runners.played]
type = "scripted"
scenario = "scenario.yaml"
"""


def until(happened: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """What came to be true, of something that another process does."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, f"this did not happen: {what}"
        time.sleep(0.05)
    return found


class Place:
    """A workspace of one user on one machine, and the command line in it."""

    def __init__(self, root: Path, home: Path, door: str) -> None:
        self.root, self.home, self.door = root, home, door
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "GIT_", "XDG_"))
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        self.env = {**kept, "HOME": str(home), "PATH": path, **own_python.SHOWN}

    def trust(self, playbook: Path) -> None:
        TrustRecords(self.root, self.env).keep(read(playbook))

    def scenario(self, *reactions: Mapping[str, Any]) -> None:
        (self.root / "scenario.yaml").write_text(json.dumps({"reactions": list(reactions)}), "utf-8")

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        told = Process(self.door, words, self.root, self.env).wait()
        return subprocess.CompletedProcess(words, told.code, told.stdout.decode(), told.stderr)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def waiting(self, what: str = "a kite") -> str:
        """The id of a run that waits at its gate."""
        said = self.json("run", "ship", what)
        assert said["status"] == "waiting", said
        return str(said["run_id"])

    def folder(self, run_id: str) -> Path:
        return self.root / ".interlock/runs" / run_id

    def journal(self, run_id: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder(run_id) / "journal.jsonl").read_bytes().splitlines()]

    def events(self, run_id: str) -> list[str]:
        return [line["event"] for line in self.journal(run_id)]

    def decisions(self, run_id: str) -> list[dict[str, Any]]:
        return [line["data"] for line in self.journal(run_id) if line["event"] == "gate.decided"]

    def runs(self) -> list[dict[str, Any]]:
        return list(self.json("runs"))

    def status(self, run_id: str) -> str:
        return next((run["status"] for run in self.runs() if run["run_id"] == run_id), "")

    @property
    def name(self) -> str:
        return self.root.name


@pytest.fixture
def place(tmp_path: Path, door: str) -> Iterator[Place]:
    root, home = tmp_path / "work", tmp_path / "home"
    for folder in (root, home):
        folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    (root / "interlock.toml").write_text(SETTINGS, "utf-8")
    folder = root / ".interlock/playbooks/ship"
    folder.mkdir(parents=True)
    (folder / "playbook.py").write_text(SHIP, "utf-8")
    made = Place(root, home, door)
    made.trust(folder)
    made.scenario()
    yield made
    for run in made.runs():
        if run["status"] == "running":
            made("cancel", run["run_id"])


@dataclass(frozen=True)
class Got:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def location(self) -> str:
        return self.headers.get("location", "")

    def field(self, name: str) -> str:
        """The value of a hidden field."""
        import html

        found = re.search(rf'<input[^>]*name="{re.escape(name)}"[^>]*value="([^"]*)"', self.text)
        assert found, f"no field {name}"
        return html.unescape(found[1])


@dataclass
class Client:
    """A program that speaks HTTP to the server, as a browser or as somebody else."""

    port: int
    origin: str
    cookie: str = ""
    always: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Got:
        given: dict[str, str | None] = {"Host": urlsplit(self.origin).netloc, "Cookie": self.cookie or None}
        given |= self.always
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Got(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Got:
        return self.ask("GET", path, **headers)

    def post(self, path: str, form: Mapping[str, str], **headers: str | None) -> Got:
        given = {"Origin": self.origin, "Content_Type": "application/x-www-form-urlencoded", **headers}
        return self.ask("POST", path, urlencode(form).encode(), **given)


class Site:
    """A server of the page, as a process."""

    def __init__(self, place: Place, *words: str, port: int = 0) -> None:
        self.place, self.words = place, words
        self._start(port)

    def _start(self, port: int) -> None:
        words = ("web", "--port", str(port), *self.words)
        self.process = Process(self.place.door, words, self.place.root, self.place.env)
        self.address = until(lambda: self.said("The page: "), "the server says where it is")
        parts = urlsplit(self.address)
        self.origin, self.port = f"{parts.scheme}://{parts.netloc}", parts.port or 0

    def said(self, beginning: str) -> str:
        """What followed these words when the server said them last."""
        whole = self.process.seen.rpartition("\n")[0].splitlines()
        found = [line.partition(beginning)[2].strip() for line in whole if beginning in line]
        return found[-1] if found else ""

    def invitation(self) -> str:
        """An address that lets one more browser in."""
        used = self.address
        self.address = ""
        return used or until(lambda: self.said("For another one: "), "another address")

    def client(self, *, entered: bool = True) -> Client:
        client = Client(self.port, self.origin)
        if entered:
            parts = urlsplit(self.invitation())
            before = self.process.seen
            got = client.get(f"{parts.path}?{parts.query}")
            assert got.status == 303, got.text
            client.cookie = got.headers["set-cookie"].partition(";")[0]
            until(lambda: self.process.seen != before, "the next address")
        return client

    def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        if self.process.code is None:
            if not self.process.ended:
                self.process.send(signal.SIGTERM)
            self.process.wait()
        assert self.process.code is not None
        return self.process.code

    def restart(self) -> None:
        """Another server at the same place."""
        self._start(self.port)


@pytest.fixture
def site(place: Place) -> Iterator[Site]:
    made = Site(place)
    yield made
    made.end()


def person() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


class Stream:
    """A program that watches a page, as a browser's EventSource does."""

    def __init__(self, client: Client, path: str, last: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE_S)
        headers = {"Host": urlsplit(client.origin).netloc, "Cookie": client.cookie, "Accept": "text/event-stream"}
        self._connection.request("GET", path, headers=headers | ({"Last-Event-ID": last} if last else {}))
        self.answer = self._connection.getresponse()
        self.last = last

    def part(self) -> dict[str, str]:
        """The next part that is sent."""
        while True:
            line = self.answer.readline()
            assert line, "the stream has ended"
            if line.startswith(b"id: "):
                self.last = line[4:].strip().decode()
            if line.startswith(b"data: "):
                return dict(json.loads(line[6:]))

    def close(self) -> None:
        self.answer.close()
        self._connection.close()
