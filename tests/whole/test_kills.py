"""A process that dies at any event: resumed, the run ends as if nothing had happened (RUN-03)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app import Watcher
from interlock.errors import Status
from tests.whole.bench import Bench

DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from interlock.engine.journal import Journal
from tests.whole.bench import Bench

bench, at, how = Bench.there(Path(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
append, lines = Journal.append, 0

def dies(self, *line):
    global lines
    lines += 1
    if lines == at and "before" in how:
        os.kill(os.getpid(), signal.SIGKILL)
    written = append(self, *line)
    if lines == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return written

Journal.append = dies
asyncio.run(bench.start(commit="commit" in how))
"""


def killed_at(bench: Bench, event: int, how: str = "") -> bool:
    """Whether the process lived to be killed there: behind a line, or `before` it, when all is done that it tells."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(bench.top), str(event), how],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0


def ends_as_undisturbed(place: Path, event: int, when: str) -> bool:
    bench = Bench(place)
    bench.write("notes.txt", "one\nunsaved\nthree\n")
    if not killed_at(bench, event, f"commit {when}"):
        return False
    place_ = bench.place()
    runs = place_.runs.all()
    if runs:
        entry = runs[0]
        if not entry.view().status.has_ended:
            asyncio.run(place_.resume(entry, Watcher()))
        view = entry.view()
    else:
        view = bench.run(commit=True)
    assert view.status is Status.COMPLETE, (event, view.why)
    assert "a + b" in bench.read("lib.py")
    assert bench.read("notes.txt") == "one\nunsaved\nthree\n"
    assert bench.run_git("log", "--format=%s") == "Make add right\nfirst"
    assert bench.run_git("show", "--format=", "--name-only") == "lib.py"
    assert bench.run_git("status", "--porcelain") == "M notes.txt"
    ended = [call for call in view.calls.values() if call.report]
    assert [call.agent for call in ended] == ["builder", "reviewer"]
    if when == "before" and place_.layers.maker().confined:  # its layer noted that it had ended
        assert [call.calls for call in ended] == [1, 1], event
    return True


@pytest.mark.req("RUN-03", "RUN-05")
def test_a_run_killed_at_an_event_ends_as_undisturbed(tmp_path: Path) -> None:
    """kill -9, then resume: the same tree, one commit, nobody's unsaved work touched, no agent that ended is called
    again."""
    assert ends_as_undisturbed(tmp_path / "p", 14, "before")


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_at_every_event_ends_as_undisturbed(tmp_path: Path, when: str) -> None:
    """The same at each event of a whole run."""
    event = 1
    while ends_as_undisturbed(tmp_path / str(event), event, when):
        event += 1
    assert event > 15
