"""A remote, and people with clones of it, each at a command line of their own."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from interlock.demo.fleet import database as database_of_our_own
from interlock.fleet.queue import Queue
from tests.cli.conftest import CommandLine, person
from tests.whole.bench import Bench

__all__ = ["person"]


@dataclass
class Office:
    """Where everybody has a clone of the same project."""

    folder: Path
    capture: pytest.CaptureFixture[bytes] | None
    people: dict[str, CommandLine] = field(default_factory=dict)

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    def first(self, mode: str = "off") -> CommandLine:
        """Whoever made the project, and the remote."""
        made = CommandLine(self.folder / "ada", mode=mode)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.remote)], check=True)
        made.run_git("remote", "add", "origin", str(self.remote))
        made.run_git("push", "-q", "origin", "main")
        made.run_git("fetch", "-q")
        return self._sits("ada", made)

    def laid(self, made: Path) -> CommandLine:
        """What somebody made of it, to be changed."""
        shutil.copytree(made, self.folder, symlinks=True, dirs_exist_ok=True)
        ada = CommandLine.there(self.folder / "ada")
        ada.run_git("remote", "set-url", "origin", str(self.remote))
        return self._sits("ada", ada)

    def clone(self, name: str) -> CommandLine:
        subprocess.run(["git", "clone", "-q", str(self.remote), str(self.folder / name)], check=True)
        made = CommandLine.there(self.folder / name)
        made.introduce()
        return self._sits(name, made)

    def _sits(self, name: str, made: CommandLine) -> CommandLine:
        if self.capture is not None:
            made.capture = self.capture
        self.people[name] = made
        return made

    def refs(self) -> list[str]:
        words = ["git", "-C", str(self.remote), "for-each-ref", "--format=%(refname)"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture
def office(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Office:
    return Office(tmp_path, capsysbinary)


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    office = Office(tmp_path_factory.mktemp("usual") / "office", None)
    office.first()
    return office.folder


@pytest.fixture(scope="session")
def waits(usual: Path) -> Path:
    """The same, with a run of Ada's that waits for a person: it rests on a changed check."""
    office = Office(usual.with_name("waits"), None)
    ada = office.laid(usual)
    ada.weakens()
    ada.write("notes.txt", "one\ntwo\nthree\nhers, unsaved\n")
    Bench.trust(ada)
    assert ada.types("Make add right").code == 4
    return office.folder


@pytest.fixture
def ada(office: Office, request: pytest.FixtureRequest) -> CommandLine:
    made = office.laid(request.getfixturevalue("waits" if "waiting" in request.fixturenames else "usual"))
    made.trust()
    return made


@pytest.fixture
def waiting(ada: CommandLine) -> str:
    """The run of Ada's that waits for a person."""
    return ada.latest()


class Server:
    """A PostgreSQL of these tests' own."""

    def __init__(self, server: Any) -> None:
        self._server, self._names = server, itertools.count()
        self.stop, self.start = server.stop, server.start

    def fresh(self, *, prepared: bool = True) -> str:
        """The address of a database of its own."""
        name = f"fleet{next(self._names)}"
        self.sql(f"CREATE DATABASE {name}")
        address = self._server.get_uri().replace("/postgres?", f"/{name}?")
        if prepared:
            Queue(address).setup()
        return address

    def sql(self, query: LiteralString, address: str = "") -> list[tuple[Any, ...]]:
        with psycopg.connect(address or self._server.get_uri(), autocommit=True) as connection:
            found = connection.execute(query)
            return found.fetchall() if found.description else []


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with database_of_our_own() as made:
        yield Server(made)


@pytest.fixture
def database(server: Server, monkeypatch: pytest.MonkeyPatch, person: None) -> str:
    """A prepared one, known to everybody by the environment."""
    address = server.fresh()
    monkeypatch.setenv("INTERLOCK_FLEET_DATABASE", address)
    return address


USUAL = "from interlock.cli.main import main; main()"
QUICK = f"from interlock.fleet import queue, worker; queue.STALLED_S = 12.0; worker.HEARTBEAT_S = 1.0; {USUAL}"


class Workers:
    """Workers as processes, each in a clone of its own."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.alive: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *words: str, quick: bool = False) -> subprocess.Popen[str]:
        """
        Args:
            quick: it counts others as dead sooner.
        """
        sits = self._office.people.get(name) or self._office.clone(name)
        with (self._office.folder / f"{name}.log").open("a") as log:
            words, streams = ("fleet", "work", "--name", name, *words), {"stdout": log, "stderr": log}
            program = [sys.executable, "-P", "-c", QUICK if quick else USUAL, *words]
            self.alive[name] = subprocess.Popen(program, cwd=sits.top, text=True, stdin=subprocess.DEVNULL, **streams)
        return self.alive[name]

    def told(self) -> str:
        """All that workers and their commands said."""
        logs = [*self._office.folder.glob("*.log"), *self._office.folder.glob("*/.interlock/work/*.log")]
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in logs)

    def end(self) -> None:
        for process in self.alive.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.alive.values():
            process.wait(60)


@pytest.fixture
def workers(office: Office, database: str) -> Iterator[Workers]:
    made = Workers(office)
    yield made
    made.end()


def until(happened: Callable[[], Any], told: Callable[[], str], patience_s: float = 120) -> Any:
    """Look until something is so; what it was."""
    end = time.monotonic() + patience_s
    while not (found := happened()):
        assert time.monotonic() < end, told()
        time.sleep(0.4)
    return found
