"""The fault sweep: a fault at a phase of a run, on three workers; every run ends once, as if nothing had happened."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from interlock.fleet.queue import Queue
from tests.cli.conftest import CommandLine
from tests.fleet.conftest import Office, Server, Workers, until
from tests.fleet.test_workers import stands, submitted
from tests.whole.bench import ACCEPTS

AGENT = """\
echo "$INTERLOCK_DISPATCH $PPID $(git -C {remote} rev-parse refs/interlock/$INTERLOCK_RUN_ID)" >> {calls}
touch {at}
while [ ! -e {go} ]; do sleep 0.1; done
"""
HOOK = """\
#!/bin/sh
while read old new ref; do
  case $ref in refs/interlock/*) ;; *) continue ;; esac
  [ -e {armed} ] || continue
  [ "$(git cat-file blob $new:about.json | grep -c '"holder": "worker')" = 1 ] || continue
  journal=$(git cat-file blob $new:run/journal/000000 | grep -c '"e":"done"')
  [ "$journal" = "$(cat {armed})" ] || continue
  rm {armed}
  touch {at}
  while [ ! -e {go} ]; do sleep 0.1; done
done
exit 0
"""
CLAIM, WORKS, PUSH, PUSHED = (
    "while it is claimed",
    "while an agent works",
    "before the push of a dispatch",
    "after the push of a dispatch",
)
PHASES = (CLAIM, WORKS, PUSH, PUSHED)


@dataclass
class Trial:
    """One run, and what goes wrong with it."""

    office: Office
    ada: CommandLine
    workers: Workers
    server: Server
    database: str
    later: list[Callable[[], object]] = field(default_factory=list)
    """What puts right what went wrong, when the run is over elsewhere."""
    old: list[psutil.Process] = field(default_factory=list)
    """What has to be gone in the end."""

    @property
    def at(self) -> Path:
        return self.office.folder / "at"

    @property
    def go(self) -> Path:
        return self.office.folder / "go"

    def stage(self, phase: str) -> None:
        folder = self.office.folder
        names = {"remote": self.office.remote, "calls": folder / "calls", "armed": folder / "armed", "go": self.go}
        self.ada.act("reviewer", AGENT.format(at=folder / "later", **names) + ACCEPTS)
        at = self.at if phase == WORKS else folder / "later"
        self.ada.act("builder", AGENT.format(at=at, **names) + "sed -i 's/a - b/a + b/' lib.py\n")
        if phase == WORKS:
            return
        hook = self.office.remote / "hooks" / ("post-receive" if phase == PUSHED else "pre-receive")
        hook.write_text(HOOK.format(at=self.at, **names))
        hook.chmod(0o755)
        (folder / "armed").write_text("0" if phase == CLAIM else "1")
        if phase != CLAIM:
            self.ada.act("builder", AGENT.format(at=at, **{**names, "go": "/"}) + "sed -i 's/a - b/a + b/' lib.py\n")

    def worker(self, run: str) -> psutil.Process:
        """The one that has the run."""
        name = next(job["worker"] for job in Queue(self.database).jobs() if job["args"]["run"] == run)
        return psutil.Process(self.workers.alive[name].pid)

    def moved_on(self, run: str) -> None:
        """Nobody waits any more."""
        (self.office.folder / "armed").unlink(missing_ok=True)
        self.go.touch()
        until(lambda: stands(self.ada, run) == "complete", self.workers.told, 240)


def kill(trial: Trial, worker: psutil.Process) -> None:
    trial.old += worker.children(recursive=True)
    worker.kill()


def pause(trial: Trial, worker: psutil.Process) -> None:
    """The whole machine sleeps, and wakes up when another one has done the run."""
    sleeps = [worker, *worker.children(recursive=True)]
    trial.old += sleeps[1:]
    told(sleeps, "suspend")
    trial.later.append(partial(told, sleeps, "resume"))


def orphan(trial: Trial, worker: psutil.Process) -> None:
    """Its child outlives it, stopped for as long as it takes another one to do the run."""
    children = worker.children(recursive=True)
    trial.old += children
    told(children, "suspend")
    worker.kill()
    trial.later.append(partial(told, children, "resume"))


def told(processes: list[psutil.Process], what: str) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # whoever took the run over on this very machine has ended its agents
            getattr(process, what)()


def leave(trial: Trial, worker: psutil.Process) -> None:
    trial.old += worker.children(recursive=True)
    worker.terminate()


def restart_database(trial: Trial, worker: psutil.Process) -> None:
    trial.server.stop()
    trial.server.start()


def remote_away(trial: Trial, worker: psutil.Process) -> None:
    away = trial.office.remote.rename(trial.office.remote.with_name("away.git"))
    trial.go.touch()
    until(lambda: "cannot be reached" in trial.workers.told(), trial.workers.told)
    away.rename(trial.office.remote)


FAULTS = (kill, pause, orphan, leave, restart_database, remote_away)
PAIRS = [(fault, phase) for phase in PHASES for fault in FAULTS]


@pytest.fixture
def trial(office: Office, ada: CommandLine, workers: Workers, server: Server, database: str) -> Iterator[Trial]:
    made = Trial(office, ada, workers, server, database)
    yield made
    for mend in made.later:
        mend()


def sweep(trial: Trial, fault: Callable[[Trial, psutil.Process], None], phase: str) -> None:
    trial.stage(phase)
    run = submitted(trial.ada)
    for name in ("north", "east", "south"):
        trial.workers.start(name, quick=True)
    until(trial.at.exists, trial.workers.told)
    fault(trial, trial.worker(run))
    trial.moved_on(run)
    while trial.later:
        trial.later.pop()()
    until(lambda: all(not one.is_running() or one.status() == "zombie" for one in trial.old), trial.workers.told)
    until(lambda: not [job for job in Queue(trial.database).jobs() if job["status"] != "failed"], trial.workers.told)
    check(trial, run)


def check(trial: Trial, run: str) -> None:
    """It ended once, with the work of an undisturbed one; nothing that was recorded was done again."""
    said, git = trial.workers.told(), trial.ada.run_git
    assert trial.ada("fleet", "fetch", run).code == 0
    assert git("show", f"interlock/{run}:lib.py").startswith("def add(a, b):\n    return a + b")
    states = states_of(trial.office.remote, run)
    for before, after in zip(states[1:], states, strict=False):
        assert after[1][: len(before[1])] == before[1], said  # each goes on from the one before it
    ends = [line["event"]["e"] for line in states[0][1]]
    done = [line["key"] for line in states[0][1] if line["event"]["e"] == "done"]
    assert ends.count("ended") == 1 and len(done) == len(set(done)) == 2, said
    known = {commit: {line["key"] for line in lines if line["event"]["e"] == "done"} for commit, lines in states}
    for call in (trial.office.folder / "calls").read_text().splitlines():
        dispatch, _, tip = call.split(" ")
        assert dispatch not in known.get(tip, ()), said
    assert not Queue(trial.database).jobs(), said


def states_of(remote: Path, run: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Every state of its ref, the latest first, with the journal of each."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(remote), *words], check=True, capture_output=True, text=True).stdout

    found = []
    for commit in git("rev-list", "--first-parent", f"refs/interlock/{run}").split():
        names = git("ls-tree", "-r", "--name-only", commit).splitlines()
        if "about.json" in names:
            pieces = sorted(name for name in names if name.startswith("run/journal/"))
            text = "".join(git("cat-file", "blob", f"{commit}:{name}") for name in pieces)
            found.append((commit, [json.loads(line) for line in text.splitlines()]))
    return found


@pytest.mark.long
@pytest.mark.req("FLEET-03")
@pytest.mark.parametrize(("fault", "phase"), PAIRS, ids=[f"{fault.__name__}, {phase}" for fault, phase in PAIRS])
def test_every_run_ends_once(trial: Trial, fault: Callable[[Trial, psutil.Process], None], phase: str) -> None:
    sweep(trial, fault, phase)
