"""How long a snapshot takes, measured against ``git status`` in the same repository and the same run.

    python benchmarks/snapshots.py                       # 1,000, 10,000 and 50,000 files
    python benchmarks/snapshots.py --files 2000 --rounds 3

The two are measured in turns, so that a busy machine slows both.  Targets at 50,000 files: an unchanged repository
at most 1.5 times ``git status``, the first snapshot of a clean tree at most 3 times.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.workspace import Workspace

FILES_PER_FOLDER = 50


@dataclass(frozen=True)
class Timing:
    status: float
    first: float
    unchanged: float
    edited: float


def make_repository(root: Path, files: int) -> None:
    """A committed, packed repository, as a clone would be."""
    for number in range(files):
        folder = root / f"area{number // 2500}" / f"part{number // FILES_PER_FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_text(f"value = {number}\n" * (1 + number % 40))
    (root / ".gitignore").write_text("build/\n*.pyc\n")
    settings = ["-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "gc.auto=0"]
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"], ["gc", "-q"], ["status"]):
        subprocess.run(["git", *settings, *args], cwd=root, check=True, stdout=subprocess.DEVNULL)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def git_status(root: Path) -> None:
    subprocess.run(["git", "status", "--porcelain"], cwd=root, check=True, stdout=subprocess.DEVNULL)


def measure(root: Path, rounds: int) -> Timing:
    home = root / ".interlock"
    statuses: list[float] = []
    firsts: list[float] = []
    unchanged: list[float] = []
    edited: list[float] = []
    # Racily clean entries (written in the second of the index) cost both sides the same only once refreshed.
    git_status(root)
    for _ in range(max(3, rounds // 3)):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (home / ".gitignore").write_text("*\n")
        statuses.append(seconds(lambda: git_status(root)))
        firsts.append(seconds(lambda: asyncio.run(Workspace(root, home).snapshot())))

    async def turns() -> None:
        workspace = Workspace(root, home, documents=("docs/**",))
        await workspace.snapshot()
        target = next(root.glob("area0/part0/*.py"))
        for number in range(rounds):
            statuses.append(seconds(lambda: git_status(root)))
            start = time.perf_counter()
            await workspace.snapshot()
            unchanged.append(time.perf_counter() - start)
            target.write_text(f"changed = {number}\n")
            start = time.perf_counter()
            await workspace.snapshot()
            edited.append(time.perf_counter() - start)

    asyncio.run(turns())
    median = statistics.median
    return Timing(median(statuses), median(firsts), median(unchanged), median(edited))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time snapshots against git status.")
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a small tree, few rounds")
    options = parser.parse_args()
    if options.quick:
        options.files, options.rounds = [200], 3
    print(f"{'files':>7} {'git status':>11} {'first':>16} {'unchanged':>16} {'one edit':>16}")
    for files in options.files:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            make_repository(root, files)
            timing = measure(root, options.rounds)
        shown = [
            f"{taken * 1000:7.0f} ms {taken / timing.status:4.1f}x"
            for taken in (timing.first, timing.unchanged, timing.edited)
        ]
        print(f"{files:7} {timing.status * 1000:8.0f} ms " + " ".join(f"{text:>16}" for text in shown), flush=True)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
