"""What a fleet costs (WK-18), all of it on this machine: PostgreSQL, a bare repository, workers as processes.

- From `submit` to the first agent, against the same from `run` in the same workspace.
- Hand-over: from the kill of a worker to the moment in which another one goes on.
- What a dispatch costs more than in the same run on one machine: a feature with agents that take no time.
- 100 queued runs on 4 workers, against the same number one after the other with `run`.
- A checkpoint, and how it grows: with the lines of the journal, with the files of the repository.

Agents are scripted and take no time, so that what is left is interlock's. Workers here share the cores of one machine.
With `--quick` the same with a few runs, which shows no more than that it works.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from interlock.app import FromSettings, open_runs
from interlock.cli.elsewhere import depot_of
from interlock.demo.fleet import database
from interlock.demo.workspace import GIT, environment
from interlock.engine.folder import RunFolder
from interlock.engine.journal import Line
from interlock.engine.runs import Quiet
from interlock.fleet.carriage import Carriage
from interlock.fleet.carried import Carried
from interlock.fleet.remote import state_ref

QUICK = "--quick" in sys.argv
STARTS, KILLS, QUEUED, WORKERS = (3, 1, 6, 2) if QUICK else (20, 5, 100, 4)
PATIENCE_S = 900
ENDED = frozenset(("complete", "degraded", "stopped", "failed", "invalid"))
JOURNALS = (100, 1_000) if QUICK else (100, 1_000, 10_000)
FILES = (100, 1_000) if QUICK else (100, 1_000, 10_000)
CAST = '{"reactions": [{"agent": "builder", "append": {"notes.md": "once more\\n"}}]}'
SLOW = '{"reactions": [{"agent": "builder", "delay_s": 600}]}'
SETTINGS = 'runner = "cast"\n[runners.cast]\ntype = "scripted"\nscenario = "cast.json"\n'


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, database() as address:
        office = Office(Path(folder), address)
        office.interlock("fleet", "setup")
        first_agent(office)
        a_dispatch(office)
        handed_over(office)
        many(office)
        for lines in JOURNALS:
            checkpoint(office, lines, FILES[0])
        for files in FILES[1:]:
            checkpoint(office, JOURNALS[0], files)


class Office:
    """A remote, a laptop that submits, and as many workers as are wanted."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.laptop = folder / "laptop"
        self.environ = {**environment(), "INTERLOCK_FLEET_DATABASE": address}
        self.laptop.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit({"interlock.toml": SETTINGS, "cast.json": CAST, "notes.md": "# Notes\n"})
        subprocess.run([*GIT, "clone", "--quiet", "--bare", "laptop", "remote.git"], cwd=folder, check=True)
        self.git("remote", "add", "origin", str(folder / "remote.git"))

    def git(self, *words: str) -> None:
        subprocess.run([*GIT, *words], cwd=self.laptop, env=environment(), check=True)

    def commit(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            place = self.laptop / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", "more")

    def interlock(self, *words: str) -> str:
        told = subprocess.run(
            [sys.executable, "-m", "interlock", *words],
            check=False,
            cwd=self.laptop,
            env=self.environ,
            capture_output=True,
            text=True,
        )
        if told.returncode != 0:
            raise SystemExit(f"interlock {' '.join(words)}: {told.returncode}\n{told.stderr}")
        return told.stdout

    def task(self, how: str, request: str) -> str:
        said = json.loads(self.interlock(how, "task", request, "--check", "true", "--no-review", "--json"))
        return str(said["run_id"])

    @contextmanager
    def working(self, count: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        """So many workers; whoever is left is killed."""
        names = [f"w{number}" for number in range(count)]
        for name in names:
            if not (self.folder / name).exists():
                subprocess.run([*GIT, "clone", "--quiet", "remote.git", name], cwd=self.folder, check=True)
        command = [sys.executable, "-m", "interlock", "worker", "--name"]
        started = {
            name: subprocess.Popen(
                [*command, name],
                cwd=self.folder / name,
                env=self.environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            for name in names
        }
        try:
            yield started
        finally:
            for process in started.values():
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def lines(self, run: str) -> list[Line]:
        """The journal as the remote has it."""
        self.interlock("show", run)
        return RunFolder(self.laptop, run).lines()

    def until_ended(self, runs: Sequence[str]) -> None:
        wanted = set(runs)

        def ended() -> bool:
            said = json.loads(self.interlock("runs", "--fleet", "--json"))
            return {one["run_id"] for one in said if one["status"] in ENDED} >= wanted

        until(ended)


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {PATIENCE_S} s")
        time.sleep(0.2)


def moment(line: Line) -> float:
    return datetime.fromisoformat(line.ts).timestamp()


def of(lines: Sequence[Line], event: str) -> Line:
    return next(line for line in lines if line.event == event)


def shown(values: Sequence[float]) -> str:
    ordered = sorted(values)
    return f"p50 {statistics.median(ordered):.2f} s, p95 {ordered[int(0.95 * (len(ordered) - 1))]:.2f} s"


def first_agent(office: Office) -> None:
    """From the command to the moment in which the first agent is called."""
    took: dict[str, list[float]] = {"run": [], "submit": []}
    with office.working(1):
        for number in range(STARTS):
            for how, times in took.items():
                began = time.time()
                run = office.task(how, f"{how} {number}")
                if how == "submit":
                    office.until_ended([run])
                times.append(moment(of(office.lines(run), "dispatch.start")) - began)
    for how, times in took.items():
        print(f"from `{how}` to the first agent: {shown(times)} ({len(times)} runs)")
    ratio = statistics.median(took["submit"]) / statistics.median(took["run"])
    print(f"  submit takes {ratio:.1f} times as long; a worker asks the queue every 2 s")


def a_dispatch(office: Office) -> None:
    """The same feature, here and at a worker."""
    took, calls = {}, 0
    for how in ("run", "submit"):
        said = json.loads(office.interlock(how, "feature", "Say hello", "--slug", f"hello-{how}", "--json"))
        run = str(said["run_id"])
        if how == "submit":
            with office.working(1):
                office.until_ended([run])
        lines = office.lines(run)
        calls = sum(line.event == "dispatch.end" for line in lines)
        took[how] = moment(of(lines, "run.end")) - moment(of(lines, "dispatch.start"))
        if how == "run":
            office.git("checkout", "--quiet", ".")
            office.git("clean", "--quiet", "-fd")
    more = (took["submit"] - took["run"]) / calls
    print(
        f"a feature of {calls} dispatches: {took['run']:.1f} s here, {took['submit']:.1f} s at a worker: "
        f"{more * 1000:.0f} ms more for each ({took['submit'] / took['run']:.2f} times)"
    )


def handed_over(office: Office) -> None:
    """From the kill of a worker to the moment in which another one goes on with its run."""
    office.commit({"cast.json": SLOW})
    times = [_one_hand_over(office, number) for number in range(KILLS)]
    office.commit({"cast.json": CAST})
    print(f"from the kill of a worker until another one goes on: {shown(times)} ({len(times)} kills; about 30 wanted)")


def _one_hand_over(office: Office, number: int) -> float:
    with office.working(2) as workers:
        run = office.task("submit", f"hand over {number}")

        def at_work() -> list[str]:
            return [one for one in workers if any(line.event == "dispatch.start" for line in _there(office, one, run))]

        until(lambda: bool(at_work()))
        (victim,) = at_work()
        killed = time.time()
        os.killpg(workers[victim].pid, signal.SIGKILL)
        other = next(name for name in workers if name != victim)

        def resumed() -> list[float]:
            lines = _there(office, other, run)
            return [when for line in lines if line.event == "run.resumed" and (when := moment(line)) > killed]

        until(lambda: bool(resumed()))
        took = resumed()[0] - killed
        office.interlock("cancel", run)
        office.until_ended([run])  # while somebody is there to hear it: else its end is in the way of the next
    return took


def _there(office: Office, worker: str, run: str) -> list[Line]:
    """The journal in the workspace of a worker, while it works there."""
    for root in (office.folder / worker / ".interlock" / "fleet").glob(f"*/runs/{run}"):
        try:
            return RunFolder(root, run).lines()
        except Exception:  # noqa: BLE001 - it is being made, or cleared away
            return []
    return []


def many(office: Office) -> None:
    """Queued runs on several workers, against the same one after the other."""
    alone = min(10, QUEUED)
    began = time.monotonic()
    for number in range(alone):
        office.task("run", f"alone {number}")
    each = (time.monotonic() - began) / alone
    runs = [office.task("submit", f"queued {number}") for number in range(QUEUED)]
    began = time.monotonic()
    with office.working(WORKERS):
        office.until_ended(runs)
    took = time.monotonic() - began
    print(
        f"{QUEUED} queued runs on {WORKERS} workers: {took:.0f} s, {took / QUEUED:.2f} s each; "
        f"with `run`, one after the other: {each:.2f} s each ({os.cpu_count()} cores)"
    )


def checkpoint(office: Office, lines: int, files: int) -> None:
    """One checkpoint of a run with a journal of so many lines, in a repository of so many files; what it sends."""
    office.commit({f"src/{number // 100}/{number}.txt": f"{number}\n" for number in range(files)})
    office.git("push", "--quiet", "origin", "main")
    run = office.task("submit", f"a checkpoint with {lines} lines and {files} files")
    environ = office.environ
    runs = open_runs(office.laptop, Quiet(), environ=environ)
    assert isinstance(runs.setup, FromSettings)
    depot = depot_of(runs, runs.setup)
    took: list[float] = []

    async def measured() -> int:
        await depot.take(run, "origin")
        known = runs.find(run)
        with runs.holding(known) as journal:
            for number in range(lines):
                journal.append("note", data={"number": number, "text": "x" * 200})
        carriage: Carriage = await depot.open_carriage(known, "origin")
        await carriage.checkpoint()
        size = _size(office)
        for number in range(5):
            with runs.holding(known) as journal:
                journal.append("note", data={"number": number})
            began = time.monotonic()
            await carriage.checkpoint()
            took.append(time.monotonic() - began)
        assert Carried.of(office.laptop, run).commit == await carriage.remote.tip(state_ref(run))
        return (_size(office) - size) // 5

    sent = asyncio.run(measured())
    office.interlock("cancel", run)
    print(
        f"a checkpoint with {lines} lines and {files} files: {statistics.median(took) * 1000:.0f} ms, "
        f"{sent / 1000:.1f} KB more on the remote"
    )


def _size(office: Office) -> int:
    return sum(place.stat().st_size for place in (office.folder / "remote.git").rglob("*") if place.is_file())


if __name__ == "__main__":
    main()
