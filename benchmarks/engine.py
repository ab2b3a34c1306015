"""What the engine costs: a journaled verb, a resume, a dispatch, a simulated run. Ratios, measured in one run.

Each figure is the median of interleaved repetitions against a baseline of the same run, because machines are noisy.
With `--quick` there are so few that they only show that it works.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interlock.agents import BoundAgent, CommandRunner, Runner
from interlock.contracts import Artifact, Contract
from interlock.engine import Dispatch, Ending, Playbook, Run, playbook, scopes
from interlock.engine.folder import HOME, RunFolder, known_runs
from interlock.engine.identity import Identity
from interlock.engine.journal import Journal
from interlock.engine.journal_file import FileMedium, sync_data
from interlock.engine.keys import sha256
from interlock.engine.options import Options
from interlock.engine.real_world import RealWorld
from interlock.engine.recording import Recording
from interlock.engine.runs import Quiet, Runs, Setup
from interlock.engine.simulation import Crash
from interlock.testing import SimulatedWorld, Simulation
from interlock.workspace import Workspace


@dataclass(frozen=True)
class Repeated:
    """How often each thing is done."""

    verbs: int = 400
    lines: tuple[int, ...] = (3_000, 6_000, 12_000)
    dispatches: int = 40
    runs: tuple[int, ...] = (100, 1_000)
    starts: int = 15


QUICK = Repeated(verbs=20, lines=(140,), dispatches=4, runs=(5,), starts=1)


@dataclass(frozen=True)
class Size:
    count: int = 0


def size_key(size: Size) -> str:
    return str(size.count)


@playbook("verbs", inputs=Size, key=size_key)
async def verbs(run: Run, size: Size) -> Ending:
    """Notes, and one dispatch with a 4 KB brief in five verbs."""
    for number in range(size.count):
        if number % 5:
            run.note("step", number=number)
        else:
            await run.dispatch(Dispatch("agent", "x" * 4096, step="work"))
    await run.write("done.txt", "done\n")
    return Ending.complete()


@playbook("thirty", inputs=Size, key=size_key)
async def thirty(run: Run, size: Size) -> Ending:
    """Thirty dispatches: ten clusters of three."""
    for number in range(10):
        with run.step(f"step-{number}"):
            await run.cluster("", {f"m{n}": partial(run.dispatch, task(n)) for n in range(3)})
    return Ending.complete()


def task(number: int) -> Dispatch:
    return Dispatch("agent", "Do it.", Contract((Artifact(f"out/{number}.md"),)), member=f"m{number}")


@playbook("trivial", inputs=Size, key=size_key)
async def trivial(run: Run, size: Size) -> Ending:
    """Dispatches of a trivial command, one after another."""
    for _ in range(size.count):
        await run.dispatch(Dispatch("agent", "Say it."))
    return Ending.complete()


@dataclass(frozen=True)
class OneRunner:
    one: Runner

    def bind(self, agent: str) -> BoundAgent:
        return BoundAgent(agent, self.one.name)

    def runner(self, bound: BoundAgent) -> Runner:
        return self.one


@dataclass(frozen=True)
class BenchSetup(Setup):
    root: Path
    runner: Runner
    environ: Mapping[str, str]

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> RealWorld:
        workspace = Workspace(self.root, self.root / HOME)
        return RealWorld(folder, workspace, OneRunner(self.runner), environ=self.environ)

    def options(self, playbook: Playbook) -> Options:
        return Options()


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def runs(root: Path) -> Runs:
    runner = CommandRunner("echo", ["echo", "DONE: yes"], {}, os.environ)
    return Runs(root, BenchSetup(root, runner, os.environ), Quiet(), environ={})


def journaled_verb(folder: Path, count: int) -> None:
    """A journaled verb against a bare synced append of the same bytes."""
    journal = Journal(FileMedium(folder / "journal"), run_id="r", genesis="0" * 64, clock=lambda: "2026-01-01T00:00:00")
    run = Run(Recording(verbs, bench_identity(), journal, SimulatedWorld({})))
    line = b"x" * 470 + b"\n"
    bare = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    mine, theirs = [], []

    def bare_append() -> None:
        os.write(bare, line)
        sync_data(bare)

    async def measure() -> None:
        scopes.begin()
        for number in range(count):
            mine.append(timed(partial(run.note, "step", number=number)))
            theirs.append(timed(bare_append))

    asyncio.run(measure())
    ours, base = statistics.median(mine), statistics.median(theirs)
    ratio = ours / base
    print(f"journaled verb: {ours * 1e3:.3f} ms, bare synced append {base * 1e3:.3f} ms, ratio {ratio:.2f} (max 2)")


def bench_identity() -> Identity:
    return Identity("verbs-1", "verbs", "0", {"count": 0}, {}, "bench", "")


def resume(folder: Path, sizes: Sequence[int]) -> None:
    """From the start of a resume to its first new verb, and how it grows with the journal."""
    for lines in sizes:
        root = folder / f"resume-{lines}"
        root.mkdir()
        count = lines // 7 * 5  # a dispatch is three lines
        write_run(root, count)
        seconds = timed(partial(resume_one, root, count))
        (known,) = known_runs(root)
        written = len((known.folder.path / "journal.jsonl").read_bytes().splitlines())
        each = seconds / written * 1e6
        print(f"resume with {written} lines: {seconds:.3f} s to the end after one new verb ({each:.0f} us a line)")


def resume_one(root: Path, count: int) -> None:
    asyncio.run(runs(root).run(verbs, Size(count)))


def write_run(root: Path, count: int) -> None:
    """A run folder as a crash before its last write would leave it."""
    simulation = Simulation(verbs, Size(count), SimulatedWorld({}))

    def before_write(point: str) -> None:
        if point == "effect" and simulation.lines[-1].event == "write.intent":
            raise Crash

    with suppress(Crash):
        simulation.go(tripwire=before_write)
    run_id = simulation.lines[0].run
    folder = root / HOME / "runs" / run_id
    folder.mkdir(parents=True)
    identity = simulation.world.records.identity
    assert identity is not None
    (folder / "run.json").write_bytes(identity)
    (folder / "journal.jsonl").write_bytes(simulation.medium.load())
    (folder / "objects").mkdir()
    for content in simulation.world.records.objects.contents():  # type: ignore[attr-defined]
        (folder / "objects" / sha256(content)).write_bytes(content)


def dispatch(folder: Path, count: int) -> None:
    """A dispatch of a trivial command against a bare asyncio subprocess of it and one snapshot (`layers.py`: more)."""
    root = folder / "dispatch"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for number in range(200):
        (root / f"{number}.txt").write_text(str(number))
    bare: list[float] = []
    snapshots: list[float] = []

    async def baseline() -> None:
        workspace = Workspace(root, root / HOME)
        await workspace.snapshot()
        for _ in range(count):
            started = time.perf_counter()
            process = await asyncio.create_subprocess_exec("echo", "DONE: yes", stdout=asyncio.subprocess.PIPE)
            await process.communicate()
            bare.append(time.perf_counter() - started)
            started = time.perf_counter()
            await workspace.snapshot()
            snapshots.append(time.perf_counter() - started)

    asyncio.run(baseline())
    asyncio.run(runs(root).run(trivial, Size(1)))
    seconds = timed(lambda: asyncio.run(runs(root).run(trivial, Size(count)))) / count
    base = statistics.median(bare) + statistics.median(snapshots)
    print(
        f"dispatch: {seconds * 1e3:.1f} ms; bare subprocess and one snapshot {base * 1e3:.1f} ms; "
        f"engine and layer {(seconds - base) * 1e3:.1f} ms (max 25)"
    )


def simulated(counts: Sequence[int]) -> None:
    """Complete simulated runs of a 30-dispatch playbook, in seconds of this process."""
    for count in counts:
        started = time.process_time()
        for _ in range(count):
            close = Simulation(thirty, Size(), SimulatedWorld({})).go()
            assert close.exit_code == 0
        seconds = time.process_time() - started
        each = seconds / count * 1e3
        print(f"simulated: {count} runs of 30 dispatches in {seconds:.2f} s of one core ({each:.2f} ms a run)")


def version(count: int) -> None:
    """`interlock --version` against `python -c pass`."""
    ours, base = [], []
    for _ in range(count):
        ours.append(
            timed(partial(subprocess.run, [sys.executable, "-m", "interlock", "--version"], capture_output=True))
        )
        base.append(timed(partial(subprocess.run, [sys.executable, "-c", "pass"], capture_output=True)))
    mine, theirs = statistics.median(ours), statistics.median(base)
    print(f"--version: {mine * 1e3:.0f} ms; python -c pass {theirs * 1e3:.0f} ms; allowed {theirs * 2e3 + 150:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    repeated = QUICK if parser.parse_args().quick else Repeated()
    with tempfile.TemporaryDirectory() as folder:
        journaled_verb(Path(folder), repeated.verbs)
        resume(Path(folder), repeated.lines)
        dispatch(Path(folder), repeated.dispatches)
    simulated(repeated.runs)
    version(repeated.starts)


if __name__ == "__main__":
    main()
