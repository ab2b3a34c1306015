"""What a ticket's startup analysis costs in a repository of 50,000 files: time and memory.

The analysis is read-only: tracked files, commands, cores, documentation and the files a request is probably about. It
must take under 5 seconds and the same memory whatever the size of the repository. It ends before the first agent is
called, so that the first snapshot is not part of it. With `--quick` one small repository is looked at once.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from interlock.app import open_runs
from interlock.engine.journal import Line
from interlock.engine.runs import Quiet
from interlock.playbooks.ticket import TicketInputs, ticket

FILES = (100, 5_000, 50_000)
TIMES = 3
LIMIT_S = 5.0
REQUEST = "ABC-12 fix the login error in module_17 so that users can sign in"
START, COMPLETE = "orchestrator.startup.analysis.start", "orchestrator.startup.analysis.complete"


def paths(count: int) -> Iterator[str]:
    return (f"src/area_{number % 50}/part_{number % 1000}/module_{number}.py" for number in range(count))


def lay_out(root: Path, count: int) -> None:
    """A committed project of so many source files of about 1 KB."""
    body = "def login(user):\n    return user.session\n" * 25
    for path in paths(count):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(body)
    (root / "Makefile").write_text("build:\n\t@true\ntest:\n\t@true\n")
    (root / "interlock.toml").write_text('runner = "scripted"\n')
    person = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(("git", *person, *words), cwd=root, check=True)


class Analysed(BaseException):
    """The analysis is complete; the run need not go on."""


class Watch(Quiet):
    """Notes when the analysis begins, and ends the run when it is complete."""

    started = seconds = 0.0

    def line(self, line: Line) -> None:
        if line.event == START:
            self.started = time.perf_counter()
        if line.event == COMPLETE:
            self.seconds = time.perf_counter() - self.started
            raise Analysed


def one(root: Path) -> None:
    """One analysis in this process: its seconds, and the peak of its memory in MB."""
    watch = Watch()
    app = open_runs(root, watch, environ=os.environ)
    try:
        asyncio.run(app.run(ticket, TicketInputs(REQUEST)))
    except Analysed:
        print(watch.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured(root: Path) -> tuple[float, float]:
    done = subprocess.run([sys.executable, __file__, str(root)], capture_output=True, text=True, check=True)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def main() -> None:
    quick = "--quick" in sys.argv
    if len(sys.argv) > 1 and not quick:
        one(Path(sys.argv[1]))
        return
    for count in FILES[:1] if quick else FILES:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            lay_out(root, count)
            found = [measured(root) for _ in range(1 if quick else TIMES)]
        seconds, peak = (statistics.median(values) for values in zip(*found, strict=True))
        print(f"{count:>6} files: {seconds:.2f} s (max {LIMIT_S:g}), peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
