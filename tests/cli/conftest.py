"""A workspace with scripted agents, and the command line as real processes on it."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOY = Path(__file__).parent / "toy_cli.py"


@dataclass(frozen=True)
class Answer:
    """How one call of the command line ended."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Process:
    """A command line that is running."""

    def __init__(self, door: str, arguments: tuple[str, ...], cwd: Path, env: dict[str, str]) -> None:
        self._files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115 - closed by `wait`
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(300)
        self._connection.connect(door)
        call = {"arguments": arguments, "cwd": str(cwd), "env": env}
        socket.send_fds(self._connection, [json.dumps(call).encode()], [file.fileno() for file in self._files])
        self.pid = self._number()
        self.code: int | None = None

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def seen(self) -> str:
        """What it has said on stdout so far."""
        file = self._files[0].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode()

    @property
    def told(self) -> str:
        """What it has said on stderr so far."""
        file = self._files[1].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode()

    @property
    def ended(self) -> bool:
        """Whether it has; `wait` does not wait then."""
        return self.code is not None or self._has_number()

    def wait(self) -> Answer:
        """How it ended."""
        self.code = self._number()
        self._connection.close()
        outputs = []
        for file in self._files:
            file.seek(0)
            outputs.append(file.read())
            file.close()
        return Answer(self.code, outputs[0], outputs[1].decode())

    def _has_number(self) -> bool:
        look = select.poll()  # select itself knows no more than 1024 files
        look.register(self._connection, select.POLLIN)
        return bool(look.poll(0))

    def _number(self) -> int:
        raw = b""
        while len(raw) < 4:
            part = self._connection.recv(4 - len(raw))
            assert part, "the command line's keeper has gone"
            raw += part
        return int(struct.unpack("i", raw)[0])


class Workspace:
    """A git workspace whose agents a scenario plays, and the command line in it."""

    def __init__(self, root: Path, state: Path, door: str) -> None:
        self.root = root
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "GIT_"))}
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
            inherited.pop(name, None)
        self.env = {**inherited, "XDG_STATE_HOME": str(state / "state"), "XDG_CACHE_HOME": str(state / "cache")}
        self.door = door
        self._started: list[Process] = []

    def scenario(self, *reactions: dict[str, Any]) -> None:
        (self.root / "scenario.yaml").write_text(json.dumps({"reactions": list(reactions)}), "utf-8")

    def __call__(self, *arguments: str, **env: str) -> Answer:
        """Call the command line and wait for it."""
        return Process(self.door, arguments, self.root, {**self.env, **env}).wait()

    def start(self, *arguments: str, **env: str) -> Process:
        """Start the command line and do not wait."""
        self._started.append(Process(self.door, arguments, self.root, {**self.env, **env}))
        return self._started[-1]

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        """The command line as a program that was started from nothing, with pipes."""
        return subprocess.Popen(
            [sys.executable, str(TOY), *arguments],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end(self) -> None:
        for process in self._started:
            if process.code is None:
                with suppress(ProcessLookupError):
                    process.send(signal.SIGKILL)
                process.wait()

    def talks(self, *steps: str) -> None:
        """All agents from now on: a program that speaks as Claude Code does, says these lines, and does not end."""
        said = "".join(f"printf '%s\\n' '{step}'\n" for step in steps)
        program = self.root / "talker"
        program.write_text(f"#!/bin/sh\ncat > /dev/null\n{said}exec sleep 3600\n", "utf-8")
        program.chmod(0o755)
        (self.root / "interlock.toml").write_text(
            'runner = "talks"\n[runners.talks]\ntype = "claude"\nprogram = "./talker"\n', "utf-8"
        )

    @property
    def worker(self) -> int:
        """The process that works on the only run that is worked on."""
        (note,) = (self.root / ".interlock" / "locks").glob("toy-*.json")
        return int(json.loads(note.read_bytes())["pid"])

    @property
    def folders(self) -> list[Path]:
        """The run folders, the oldest first; ids of the same second do not sort."""
        found = (self.root / ".interlock" / "runs").glob("*/run.json")
        return [file.parent for file in sorted(found, key=lambda file: json.loads(file.read_bytes())["started_at"])]

    def journal(self, number: int = -1) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folders[number] / "journal.jsonl").read_bytes().splitlines()]

    def events(self, number: int = -1) -> list[str]:
        return [line["event"] for line in self.journal(number)]

    def until(self, happened: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Wait for something another process does."""
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"this did not happen: {what}"
            time.sleep(0.02)

    def until_event(self, event: str) -> None:
        def happened() -> bool:
            try:
                return event in self.events()
            except (IndexError, FileNotFoundError, ValueError):
                return False

        self.until(happened, event)

    def digest(self) -> str:
        """One digest of the whole tree: names, bytes, and times of change, the engine's folder included."""
        seen = hashlib.sha256()
        for path in sorted(self.root.rglob("*")):
            facts = path.lstat()
            seen.update(f"{path.relative_to(self.root)} {facts.st_mode} {facts.st_mtime_ns}".encode())
            if path.is_file():
                seen.update(path.read_bytes())
        return seen.hexdigest()


@contextmanager
def open_door() -> Iterator[str]:
    """Where command lines are started quickly."""
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket must be short
        place = str(Path(folder) / "door")
        server = subprocess.Popen(
            [sys.executable, str(TOY.with_name("quick_start.py")), place],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield place
        server.kill()
        server.stdout.close()  # not read to its end: whoever keeps a command line that goes on has it too
        server.wait()


@pytest.fixture(scope="session")
def door() -> Iterator[str]:
    with open_door() as place:
        yield place


@pytest.fixture
def workspace(tmp_path: Path, door: str) -> Iterator[Workspace]:
    root = tmp_path / "work"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    settings = 'runner = "played"\n[runners.played]\ntype = "scripted"\nscenario = "scenario.yaml"\n'
    (root / "interlock.toml").write_text(settings, "utf-8")
    made = Workspace(root, tmp_path, door)
    made.scenario()
    yield made
    made.end()


@pytest.fixture
def router(workspace: Workspace) -> Workspace:
    """A workspace with the router's example documents."""
    from interlock.playbooks.router import example_files

    for path, text in example_files().items():
        place = workspace.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    return workspace
