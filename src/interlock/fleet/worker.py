"""A worker: it takes one run after the other, by the commands that a person types, in a clone of its own for each.

The run's own process pushes what it recorded and leaves with 75 when the run is somebody else's; this one only gives
signs of life, and records what became of a job.  A database that is away ends nothing: work goes on, and its end is
recorded when that is back.  Who just found it back judges nobody dead before the others had time to find it, too.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.agents import clients
from interlock.app import Place
from interlock.cli.output import complain
from interlock.cli.typed import PROGRAM
from interlock.engine.folder import locked
from interlock.engine.journal import read_lines
from interlock.engine.playbook import Playbook
from interlock.engine.runs import Entry
from interlock.engine.view import fold
from interlock.errors import Exit, InterlockError
from interlock.fleet.holding import FENCED
from interlock.fleet.moving import WORKER, remote_of
from interlock.fleet.queue import DatabaseAway, Job, Queue
from interlock.fleet.remote import RemoteAway
from interlock.workspace.layers.upper import remove

HEARTBEAT_S, POLL_S, AWAY_S = 5.0, 1.0, 2.0
SILENT_S = 60.0
"""A worker that reaches neither database nor remote for so long ends its agents: others have its run."""
TRIES, RETRY_S = 8, 5.0
SETTLED = (Exit.DONE, Exit.FINDINGS, Exit.STOPPED, Exit.WAITING)


def needs_of(place: Place, playbook: Playbook, runner: str = "") -> list[str]:
    """What a run needs of the worker that takes it: a kind and a value each."""
    found = {f"repository {remote_of(place).address}"}
    found |= {f"label {label}" for label in place.settings.fleet.labels}
    tables = [place.settings.runner_named(role.runner) for role in place.roles(playbook, runner)]
    programs = {one.program or clients.row(one.type, one.argv or ()).program for one in tables}
    programs |= {*place.settings.fleet.programs}
    found |= {f"program {one}" for one in programs if one and ("/" not in one or Path(one).is_absolute())}
    if playbook.source:
        name, _, digest = playbook.source.rpartition(" sha256:")
        found.add(f"trust {digest} {name}")
    return sorted(found)


class Worker:
    """One worker, in the clone where it was started."""

    def __init__(self, place: Place, queue: Queue, name: str, labels: Sequence[str]) -> None:
        self._place, self._queue, self._labels = place, queue, labels
        self._name = name or f"{os.uname().nodename}:{place.workspace.top.name}"
        self._remote = remote_of(place)
        self._address = self._remote.address
        self._folder = place.workspace.prepared() / "work" / re.sub(r"[^\w-]", "-", self._name)
        self._id: int | None = None
        self._lacks: dict[str, list[str]] = {}
        self._run = ""
        self._beaten = self._away_since = float("-inf")
        self._steady = 0
        self._leaving = False
        self._child: subprocess.Popen[bytes] | None = None

    def serve(self) -> int:
        """Until it is told to leave: then the agents at work are ended in order, and the run goes back to the queue."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._leave)
        with locked(self._folder.with_suffix(".lock"), f"worker {self._name}"):
            complain(f"worker {self._name} takes runs of {self._address}; their words: {self._folder}.log")
            while not self._leaving:
                job = self._look()
                if job is not None:
                    self._run = job.run
                    self._do(job)
                    self._run, self._beaten = "", float("-inf")
                else:
                    time.sleep(POLL_S)
            with suppress(InterlockError):
                if self._id is not None:
                    self._queue.leave(self._id)
        return 0

    def _leave(self, number: int, _frame: object) -> None:
        self._leaving = True
        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)

    # -- the queue

    def _look(self) -> Job | None:
        """A run for this worker, if there is one."""
        try:
            lacks = {queue: list(self._lacking(needs)) for queue, needs in self._queue.wanted().items()}
            if lacks != self._lacks:
                self._lacks, self._beaten = lacks, float("-inf")  # to be shown at once
            self._sign()
            assert self._id is not None
            return self._queue.given(self._id, [queue for queue, found in lacks.items() if not found])
        except DatabaseAway as error:
            self._is_away(error)
            return None

    def _lacking(self, needs: Sequence[str]) -> Iterator[str]:
        """What keeps it from a run; what a later version asks for is lacking, too."""
        for need in needs:
            kind, _, value = need.partition(" ")
            digest, _, name = value.partition(" ")
            has = {
                "repository": value == self._address,
                "label": value in self._labels,
                "program": shutil.which(value) is not None,
                "trust": os.path.lexists(self._place.library.trust.folder / digest),
            }
            if not has.get(kind):
                yield f"trust in {name}" if kind == "trust" else need

    def _sign(self) -> None:
        """A sign of life; what dead workers had is queued again."""
        if time.monotonic() - self._beaten < HEARTBEAT_S:
            return
        facts = {"name": self._name, "labels": list(self._labels), "lacks": self._lacks, "run": self._run}
        while self._id is None or not self._queue.alive(self._id, facts):
            self._id = self._queue.register()  # at its start, or it slept for hours; what it had is another's
        self._beaten, self._away_since = time.monotonic(), float("-inf")
        self._steady += 1
        if self._steady > 2:
            for run in self._queue.revive():
                complain(f"{run}: its worker gave no sign of life; it is queued again")

    def _is_away(self, error: DatabaseAway) -> None:
        if self._away_since < 0:
            self._away_since = time.monotonic()
            complain(f"{error.what} ({error.found}); this worker waits for it")
        self._steady = 0
        time.sleep(AWAY_S)

    def _settle(self, job: Job, how: str, why: str = "") -> None:
        """Record what became of a job, as soon as the database answers."""
        assert self._id is not None
        delay = 0.0
        if how == "later":
            how, delay = ("again", RETRY_S * 2**job.attempts) if job.attempts + 1 < TRIES else ("failed", 0.0)
        complain(f"{job.run}: {how}{f', {why}' if why else ''}")
        while True:
            try:
                self._queue.settle(job, self._id, how, delay, why)
                return
            except DatabaseAway as error:
                self._is_away(error)
                if self._leaving:  # others find that it is nobody's
                    return

    # -- one run

    def _do(self, job: Job) -> None:
        try:
            top = self._fresh()
            code = self._call(top, "fleet", "take", job.run)
            if code == Exit.DONE:
                code = self._worked_on(top, job)
        except InterlockError as error:
            complain(*(f"{label}: {text}" for label, text in [("Error", error.what), *error.parts()]))
            code = error.exit_code
        remove(self._folder)
        if code in SETTLED or code == FENCED:  # whose run somebody else has, and the job with it
            self._settle(job, "succeeded")
        elif code in (Exit.INPUT, Exit.LOCKED):
            self._settle(job, "failed", self._why())
        else:
            self._settle(job, "again" if self._leaving else "later", self._why())

    def _worked_on(self, top: Path, job: Job) -> int:
        lines = read_lines(Entry(top / ".interlock" / "runs" / job.run).journal)
        asked, code = len(lines) == job.lines, int(Exit.DONE)
        if asked or fold(lines).status.is_open:
            code = self._call(top, "resume", job.run, *(job.words if asked else ()), leaves=True)
        if code == FENCED:
            return code
        while (sent := self._call(top, "fleet", "send", job.run)) == Exit.FAILED and not self._leaving:
            self._rest(AWAY_S)  # the remote is away
        if code == Exit.FAILED and sent == Exit.DONE:
            return Exit.INPUT  # an agent or a program failed, as often as it is repeated: a person has to look
        return code if sent == Exit.DONE else Exit.INTERRUPTED

    def _fresh(self) -> Path:
        """An empty clone beside this one, with the objects that are here; by links, since a layer sees no other one."""
        self._folder.parent.mkdir(exist_ok=True)
        remove(self._folder)
        remote, words = self._remote, list[str]()
        if remote.name in remote.asked("remote").split():
            words = ["--origin", remote.name]
        top = ["-C", str(self._folder)]
        here, there = str(self._place.workspace.top), str(self._folder)
        remote.asked("clone", "--quiet", "--local", "--no-checkout", *words, "--", here, there, ours=False)
        if words:
            url = remote.asked("ls-remote", "--get-url", remote.name, ours=False)
            remote.asked(*top, "remote", "set-url", remote.name, url, ours=False)
        for ref in remote.asked(*top, "for-each-ref", "--format=%(refname)", "refs/heads/", ours=False).splitlines():
            remote.asked(*top, "update-ref", "-d", ref, ours=False)
        return self._folder

    def _call(self, top: Path, *words: str, leaves: bool = False) -> int:
        """How a command of interlock ended, which a person could have typed.

        Args:
            leaves: it is told when this worker is to leave; others come to their end.
        """
        if leaves and self._leaving:
            return Exit.INTERRUPTED
        environ = {name: value for name, value in os.environ.items() if name != "INTERLOCK_FLEET_DATABASE"}
        environ[WORKER] = f"{self._name}:{os.getpid()}"
        if not leaves:  # the settings that came along count for the run alone
            environ["INTERLOCK_FLEET_REMOTE"] = self._remote.name
        with self._folder.with_suffix(".log").open("ab") as log:
            argv, quiet = [*PROGRAM, "-C", str(top), *words], subprocess.DEVNULL
            child = subprocess.Popen(argv, env=environ, stdin=quiet, stdout=log, stderr=log, process_group=0)
        self._child = child if leaves else None
        if leaves and self._leaving:  # it was told while the program started
            child.send_signal(signal.SIGTERM)
        while child.poll() is None:
            self._rest(0.2, child)
        self._child = None
        return child.returncode

    def _rest(self, seconds: float, child: subprocess.Popen[bytes] | None = None) -> None:
        """Let time pass, with signs of life."""
        try:
            self._sign()
        except DatabaseAway as error:
            self._is_away(error)
            if child is not None and time.monotonic() - self._away_since > SILENT_S:
                self._away_since = time.monotonic()
                try:
                    self._remote.tips("refs/interlock/none")
                except RemoteAway:
                    child.send_signal(signal.SIGTERM)
        time.sleep(seconds)

    def _why(self) -> str:
        """What the last command said of what went wrong."""
        said = self._folder.with_suffix(".log").read_text("utf-8", "replace")[-20_000:]
        errors = [line.removeprefix("Error: ") for line in said.splitlines() if line.startswith("Error: ")]
        return errors[-1][:300] if errors else ""


def why_it_waits(job: dict[str, Any], workers: Sequence[dict[str, Any]], queue: str) -> str:
    """Why nobody works on a job, in words."""
    if job["later"]:
        return "a worker could not do its part; it is tried again"
    if not workers:
        return "no worker is there: interlock fleet work"
    lacks = {worker["name"]: worker["lacks"].get(queue) for worker in workers}
    if all(lacks.values()):
        return "; ".join(f"{name} lacks {' and '.join(found or ())}" for name, found in lacks.items())
    busy = all(worker["run"] for worker in workers if not lacks[worker["name"]])
    return "all workers that could are busy" if busy else "about to be taken"
