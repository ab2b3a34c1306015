"""The fault sweep: schedules of faults against three workers; every run ends once, as if nothing had happened.

A schedule is a fault at a phase of one run: ``python -m tests.fleet.sweep`` tries all of them, ``--only kill`` those
whose name holds a word, ``--outages`` those in which nobody reaches database, remote or both for a minute.  What is
compared with an undisturbed run: documents, outcomes of all dispatches, how the run ended.  What has to hold besides:
each state of the ref goes on from the one before it and is one that a crash could have left; no agent is called for a
dispatch whose end the ref already has.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.conftest import open_door
from tests.fleet.conftest import Office, free_port
from tests.fleet.database import POSTGRES, Server, installed
from tests.fleet.fleet import Fleet, Member
from tests.fleet.stage import Call, Stage, Wire

Act = Callable[["Trial", Member], None]

# -- what goes wrong


def kill(_trial: Trial, worker: Member) -> None:
    """kill -9"""
    worker.kill()


def pause(trial: Trial, worker: Member) -> None:
    """Paused until another one has the run, then it wakes up."""
    worker.kill(signal.SIGSTOP)
    trial.later.append(lambda: worker.kill(signal.SIGCONT))


def no_database(trial: Trial, worker: Member) -> None:
    """Cut off from the database until another one has the run, or it is over."""
    worker.database.cut()
    trial.later.append(worker.database.mend)


def no_remote(trial: Trial, worker: Member) -> None:
    """Cut off from the remote until it misses it."""
    worker.remote.cut()
    trial.later.append(worker.remote.mend)


def nobody(trial: Trial, worker: Member) -> None:
    """Cut off from both, without a word."""
    worker.database.hang()
    worker.remote.hang()
    trial.later += [worker.database.mend, worker.remote.mend]


def restart_database(trial: Trial, _worker: Member) -> None:
    trial.fleet.server.stop("immediate")
    trial.fleet.server.start()


def restart_remote(trial: Trial, _worker: Member) -> None:
    trial.fleet.stop_remote()
    trial.fleet.start_remote()


def leave(_trial: Trial, worker: Member) -> None:
    """SIGTERM"""
    worker.kill(signal.SIGTERM)


def nothing(_trial: Trial, _worker: Member) -> None:
    """Nothing goes wrong."""


FAULTS: dict[str, Act] = {
    "kill": kill,
    "pause": pause,
    "no database": no_database,
    "no remote": no_remote,
    "neither": nobody,
    "database restarts": restart_database,
    "remote restarts": restart_remote,
    "asked to leave": leave,
}


def database_away(trial: Trial, _worker: Member) -> None:
    """No worker reaches the database."""
    trial.cut(*(member.database for member in trial.fleet.members))


def remote_away(trial: Trial, _worker: Member) -> None:
    """No worker reaches the remote."""
    trial.cut(*(member.remote for member in trial.fleet.members))


def both_away(trial: Trial, worker: Member) -> None:
    """No worker reaches anything; whoever ends for that is started again."""
    database_away(trial, worker)
    remote_away(trial, worker)


OUTAGES: dict[str, Act] = {
    "database away for a minute": database_away,
    "remote away for a minute": remote_away,
    "both away for a minute": both_away,
}
MINUTE_S = 60.0

# -- when

SENT, ANSWERED = b"report-status", b"unpack ok"
"""What a push says, and what it is answered when it was carried out."""
BEFORE_CLAIM, AFTER_CLAIM = "before the claim", "after the claim"
WORKING = "while an agent works"
BEFORE_PUSH, AFTER_PUSH = "before the push of a dispatch", "after the push of a dispatch"
DECIDED = "when a decision brought it back"
BEFORE_END, AFTER_END = "before the push of its end", "after the push of its end, before its job returns"
PHASES = (BEFORE_CLAIM, AFTER_CLAIM, WORKING, BEFORE_PUSH, AFTER_PUSH, DECIDED, BEFORE_END, AFTER_END)
KEYS = {
    "relay": ("look/scout#1", "work/anna#1", "work/bert#1", "work/carl#1", "close/closer#1"),
    "toy": ("plan/planner#1", "build/builder#1", "build/tester#1"),
}
FIRST = {"relay": "scout", "toy": "planner"}
LAST = {"relay": "closer", "toy": "tester"}


@dataclass(frozen=True)
class Schedule:
    playbook: str
    phase: str
    fault: str

    def __str__(self) -> str:
        return f"{self.fault}, {self.phase} ({self.playbook})"


def schedules(faults: Collection[str] = FAULTS) -> list[Schedule]:
    """Every fault at every phase, with the two playbooks by turns; only one of them has a gate."""
    found = []
    for number, phase in enumerate(PHASES):
        for other, fault in enumerate(faults):
            found.append(Schedule("toy" if phase is DECIDED else ("relay", "toy")[(number + other) % 2], phase, fault))
    return found


@dataclass
class Trial:
    """One run through one schedule."""

    fleet: Fleet
    schedule: Schedule
    word: str
    later: list[Callable[[], None]] = field(default_factory=list)
    """What puts right what went wrong."""
    run: str = ""
    struck: str = ""
    repeated: list[str] = field(default_factory=list)
    _happened: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Submit it, let the fault come, and wait for the end of it."""
        stage, playbook, phase = self.fleet.stage, self.schedule.playbook, self.schedule.phase
        stage.heard = self._hear
        stage.release()
        stage.hold(FIRST[playbook])
        if phase in (BEFORE_CLAIM, AFTER_CLAIM):
            for member in self.fleet.members:
                self._arm(member, answers=phase is AFTER_CLAIM)
        self.run = self.fleet.submit(playbook, self.word)
        call = self._called(FIRST[playbook])
        if phase is WORKING:
            self._strike(self._holder())
        elif phase in (BEFORE_PUSH, AFTER_PUSH):
            self._arm(self._holder(), answers=phase is AFTER_PUSH)
        if phase in (BEFORE_END, AFTER_END, DECIDED):
            stage.hold(LAST[playbook])
        call.answer()
        stage.release(FIRST[playbook])
        if playbook == "toy":
            self._until(lambda: self._stands() == "waiting" and not self.fleet.state(self.run)["held"], "it waits")
            told = self.fleet.laptop("approve", self.run)
            assert told.code == 0, told.stderr
        if phase in (BEFORE_END, AFTER_END, DECIDED):
            self._called(LAST[playbook])
            if phase is DECIDED:
                self._strike(self._holder())
            else:
                # All that ended before is on the ref: the push of the last dispatch comes next, then that of the end.
                self._until(lambda: len(self.fleet.ends(self.run)) == len(KEYS[playbook]) - 1, "the others are done")
                self._arm(self._holder(), answers=phase is AFTER_END, nth=2)
            stage.release()
        self._until(lambda: self._stands() not in ("open", "waiting"), "it ends")
        self._mend()
        self._until(self._over, "its jobs end")
        assert self.struck, f"{self.schedule}: nothing went wrong"

    def check(self, undisturbed: dict[str, Any]) -> None:
        """It ended once, as if nothing had happened."""
        assert outcome(self.fleet, self.run) == undisturbed, f"{self.schedule}: it came out differently"
        assert not self.repeated, f"{self.schedule}: done again, although the ref had it: {self.repeated}"
        self.fleet.check_cuts(self.run)

    def cut(self, *wires: Wire) -> None:
        """Break these, until they are mended."""
        for wire in wires:
            wire.cut()
            self.later.append(wire.mend)

    # -- parts

    @property
    def _away_s(self) -> float:
        return MINUTE_S if self.schedule.fault in OUTAGES else AWAY_S

    def _over(self) -> bool:
        """Whether the fault is over, and nothing is queued any more."""
        if self.struck and not self._happened.is_set():  # the database may be about to start again
            return False
        return not {state for state, _ in self.fleet.jobs(self.run)} & {"todo", "doing"}

    def _hear(self, call: Call) -> None:
        if call.run == self.run and call.dispatch in self.fleet.ends(self.run):
            self.repeated.append(call.dispatch)

    def _arm(self, worker: Member, *, answers: bool, nth: int = 1) -> None:
        """The fault comes with a push of this worker: when it is sent, or when it was carried out."""
        worker.remote.on(ANSWERED if answers else SENT, lambda: self._strike(worker), answers=answers, nth=nth)

    def _strike(self, worker: Member) -> None:
        if not self.struck:
            self.struck = worker.name
            {**FAULTS, **OUTAGES, "nothing": nothing}[self.schedule.fault](self, worker)
            self._happened.set()

    def _called(self, agent: str) -> Call:
        found: list[Call] = []

        def here() -> bool:
            calls = (one for one in self.fleet.stage.calls if one.run == self.run and agent in (one.agent, one.member))
            found[:] = [one for one in calls if not one.answered and not one.gone]
            return bool(found)

        self._until(here, f"{agent} is called")
        return found[-1]

    def _holder(self) -> Member:
        name = str(self.fleet.state(self.run)["holder"]).partition(".")[0]
        return next(member for member in self.fleet.members if member.name == name)

    def _mend(self) -> None:
        while self.later:
            with suppress(ProcessLookupError, AssertionError):
                self.later.pop()()

    def _stands(self) -> str:
        return str(self.fleet.state(self.run)["status"])

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait; whoever ended is started again, as a supervisor does; what is cut off stays so for a while."""
        end, mended = time.monotonic() + LONGEST_S + self._away_s, 0.0
        while not happened():
            for member in self.fleet.members:
                if member.process is not None and member.process.ended:
                    member.ended()
                    member.start()
            if self.later and not mended:
                mended = time.monotonic() + self._away_s
            if mended and time.monotonic() > mended:
                self._mend()
                mended = 0.0
            assert time.monotonic() < end, f"{self.schedule}: this did not happen: {what}\n{self.fleet.told()}"
            time.sleep(0.1)


LONGEST_S, AWAY_S = 150.0, 5.0
"""How long something is waited for; how long somebody is paused or cut off: longer than a worker counts as alive."""

# -- what has to hold


def outcome(fleet: Fleet, run: str) -> dict[str, Any]:
    """What must not depend on anything that went wrong."""
    lines = fleet.journal(run)
    facts = {line["key"]: line["data"] for line in lines if line["event"] == "dispatch.end"}
    return {
        "files": fleet.files(run),
        "dispatches": {key: (data["outcome"], data["accepted"]) for key, data in sorted(facts.items())},
        "decisions": [line["data"]["choice"] for line in lines if line["event"] == "gate.decided"],
        "ends": [line["data"]["status"] for line in lines if line["event"] == "run.end"],
    }


def undisturbed(fleet: Fleet, playbook: str) -> dict[str, Any]:
    """How a run comes out when nothing goes wrong."""
    trial = Trial(fleet, Schedule(playbook, DECIDED if playbook == "toy" else WORKING, "nothing"), "undisturbed")
    trial.go()
    return outcome(fleet, trial.run)


@contextmanager
def opened(folder: Path) -> Iterator[Fleet]:
    """A fleet of three workers."""
    server = Server.make(installed()[POSTGRES[0]], free_port())
    with open_door() as door:
        fleet = Fleet(Office(folder, door), server, Stage())
        try:
            for name in ("ada", "bob", "cyd"):
                fleet.worker(name)
            yield fleet
        finally:
            fleet.close()
            server.end()


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", default="", help="schedules whose name holds this")
    asked.add_argument("--outages", action="store_true", help="what is away for a minute, and nothing else")
    asked.add_argument("--part", default="1/1", help="the first of two halves: 1/2")
    said = asked.parse_args()
    part, parts = map(int, said.part.split("/"))
    faults = OUTAGES if said.outages else FAULTS
    wanted = [one for one in schedules(faults) if said.only in str(one)][part - 1 :: parts]
    failed = Counter[str]()
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as fleet:
        expected = {playbook: undisturbed(fleet, playbook) for playbook in {one.playbook for one in wanted}}
        for number, schedule in enumerate(wanted, start=1):
            trial = Trial(fleet, schedule, f"word-{number}")
            try:
                trial.go()
                trial.check(expected[schedule.playbook])
                print(f"ok    {number}/{len(wanted)} {schedule}: {trial.struck}", flush=True)
            except AssertionError as error:
                trial._mend()
                failed[schedule.phase] += 1
                print(f"WRONG {number}/{len(wanted)} {error}", flush=True)
        ended = Counter(code for member in fleet.members for code in member.codes)
    print(f"{len(wanted)} schedules, {sum(failed.values())} wrong; workers ended with {dict(sorted(ended.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
