"""Clones of one repository, a remote between them, and the command line as real processes in each."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Workspace, door
from tests.fleet.database import POSTGRES, Server, installed
from tests.fleet.stage import Stage

if TYPE_CHECKING:
    from tests.fleet.fleet import Fleet

__all__ = ["door"]

SETTINGS = 'runner = "played"\n[runners.played]\ntype = "scripted"\nscenario = "scenario.yaml"\n'
WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def git(folder: Path, *words: str) -> str:
    """What git says there."""
    told = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **WHO}, check=True, capture_output=True, text=True
    )
    return told.stdout.strip()


class Office:
    """A bare repository, and clones of it."""

    def __init__(self, folder: Path, door: str) -> None:
        self.folder = folder
        self.bare = folder / "bare.git"
        self._door = door
        self._clones: list[Workspace] = []
        seed = folder / "seed"
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(seed)], check=True)
        (seed / "interlock.toml").write_text(SETTINGS, "utf-8")
        (seed / "scenario.yaml").write_text('{"reactions": []}', "utf-8")
        (seed / ".gitignore").write_text("build/\n", "utf-8")
        (seed / "code.txt").write_text("first\n", "utf-8")
        git(seed, "add", "--all")
        git(seed, "commit", "--quiet", "--message", "first")
        subprocess.run(["git", "clone", "--quiet", "--bare", str(seed), str(self.bare)], check=True)
        self.address = str(self.bare)

    def clone(self, name: str) -> Workspace:
        root = self.folder / name
        subprocess.run(["git", "clone", "--quiet", str(self.bare), str(root)], check=True)
        git(root, "remote", "set-url", "origin", self.address)
        state = self.folder / f"{name}-state"
        state.mkdir()
        made = Workspace(root, state, self._door)
        self._clones.append(made)
        return made

    def refs(self) -> dict[str, str]:
        listed: Iterator[tuple[str, str]] = (
            (line.split()[0], line.split()[1])
            for line in git(self.bare, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        )
        return dict(listed)

    def end(self) -> None:
        for clone in self._clones:
            clone.end()


@pytest.fixture
def office(tmp_path: Path, door: str) -> Iterator[Office]:
    made = Office(tmp_path, door)
    yield made
    made.end()


def run_of(clone: Workspace) -> str:
    """The id of its only run."""
    (folder,) = clone.folders
    return folder.name


def files(root: Path) -> dict[str, bytes]:
    """What a person sees of a workspace, its ignored files included."""
    found = (path for path in root.rglob("*") if path.is_file() and not {".git", ".interlock"} & set(path.parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Office, str], None]]:
    """Lets an office be reached in another way than by its path."""
    started: list[subprocess.Popen[bytes]] = []

    def change(office: Office, how: str) -> None:
        match how:
            case "path":
                return
            case "file":
                office.address = f"file://{office.bare}"
            case "git":
                port = free_port()
                words = ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}", "--export-all"]
                more = ["--enable=receive-pack", f"--base-path={office.folder}", str(office.folder)]
                started.append(subprocess.Popen([*words, *more], stderr=subprocess.DEVNULL, start_new_session=True))
                office.address = f"git://127.0.0.1:{port}/bare.git"
                until(lambda: _answers(office.address), "git daemon answers")
            case "ssh":
                wrapper = tmp_path / "ssh"
                # As ssh is called: options, the host, one word that the other side's shell reads.
                wrapper.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n', "utf-8")
                wrapper.chmod(0o755)
                office.address = f"ssh://host.example{office.bare}"

    yield change
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)  # git starts the daemon as a program of its own
        process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(address: str) -> bool:
    return subprocess.run(["git", "ls-remote", address], check=False, capture_output=True).returncode == 0


def until(
    happened: Callable[[], bool], what: str, seconds: float = 120.0, *, told: Callable[[], str] = lambda: ""
) -> None:
    """Wait for something another process does; `told` says more where it does not happen."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"this did not happen: {what}\n{told()}"
        time.sleep(0.05)


async def soon(happened: Callable[[], Awaitable[bool] | bool], what: str, seconds: float = 120.0) -> None:
    """`until`, beside what else goes on in this process."""
    end = time.monotonic() + seconds
    while not (found if isinstance(found := happened(), bool) else await found):
        assert time.monotonic() < end, f"this did not happen: {what}"
        await asyncio.sleep(0.02)


KILLER = """#!/bin/sh
# Git, whose caller is killed at one of its commands; once.
for word in "$@"; do
  if [ "$word" = "{command}" ] && mkdir "{once}" 2>/dev/null; then
    [ {when} = after ] && {git} "$@" >/dev/null 2>&1
    kill -9 $PPID
    exit 1
  fi
done
exec {git} "$@"
"""


@pytest.fixture
def killing(tmp_path: Path) -> Callable[[str, str], str]:
    """A PATH on which the process that calls git is killed before or after one of its commands."""

    def path(command: str, when: str) -> str:
        folder = tmp_path / f"killing-{command}-{when}"
        folder.mkdir()
        program = folder / "git"
        real = shutil.which("git")
        program.write_text(KILLER.format(command=command, when=when, once=folder / "done", git=real), "utf-8")
        program.chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    return path


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """PostgreSQL by its version, one server of each for this process of the tests."""
    made: dict[str, Server] = {}

    def serve(version: str) -> Server:
        if version not in made:
            made[version] = Server.make(installed()[version], free_port())
        return made[version]

    yield serve
    for server in made.values():
        server.end()


@pytest.fixture(scope="session", params=POSTGRES)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    """Each PostgreSQL that is there."""
    return servers(request.param)


@pytest.fixture
def database(server: Server) -> str:
    """The address of an empty database."""
    return server.fresh()


@pytest.fixture(scope="session")
def newest(servers: Callable[[str], Server]) -> Server:
    """The newest PostgreSQL, for what does not depend on its version."""
    return servers(next(iter(installed())))


@pytest.fixture
def fleet(office: Office, newest: Server) -> Iterator[Fleet]:
    """A remote, a database, and whoever works there; agents in the hands of the test."""
    from tests.fleet.fleet import Fleet

    made = Fleet(office, newest, Stage())
    yield made
    print(
        "\n".join(f"--- {member.name} {member.codes}\n{member.log}" for member in made.members)
    )  # shown when it failed
    made.close()
