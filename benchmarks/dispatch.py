"""What a dispatch costs beside its agent: layer, start, result; in 5,000 and 50,000 files, clean or with 500 unsaved.

CPU of this process and its children, and wall, medians of interleaved repetitions; beside it, in the same run, what
`git worktree add` with a copy of the unsaved files would take. With `--quick` small and once, to show that it works.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from interlock.settings import SandboxSettings
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import Needs


def made(top: Path, count: int, unsaved: int) -> None:
    """An aged repository of that many files."""
    top.mkdir()
    for number in range(count):
        place = top / f"d{number % 100}" / f"e{number // 5000}" / f"f{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"x = {number}\n" * 20)
        os.utime(place, (time.time() - 100, time.time() - 100))
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=P", "-c", "user.email=p@p", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=top, check=True)
    for number in range(unsaved):
        place = top / f"d{number % 100}" / f"e{number // 5000}" / f"f{number}.py"
        place.write_text("unsaved\n")
        os.utime(place, (time.time() - 50, time.time() - 50))


def spent() -> float:
    return sum(
        use.ru_utime + use.ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for use in (resource.getrusage(who),)
    )


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds of CPU and of wall."""
    cpu, wall = spent(), time.perf_counter()
    work()
    return (spent() - cpu) * 1000, (time.perf_counter() - wall) * 1000


def dispatch(trees: Trees, layers: Layers, number: int) -> None:
    """One agent that edits one file."""
    standing = trees.standing("run", trees.where())
    layer = layers.open("run", "builder", standing, standing.tree, Needs())
    wrapped = layer.wrap(["/bin/sh", "-c", f"echo {number} > d0/e0/f0.py"], {"PATH": os.defpath})
    subprocess.run(wrapped.argv, env=dict(wrapped.env), cwd=wrapped.cwd, pass_fds=wrapped.pass_fds, check=True)
    for handle in wrapped.pass_fds:
        os.close(handle)
    found = layer.found({})
    assert found.result != standing.tree
    layer.drop(keep_ignored=True)


def worktree(top: Path, number: int) -> None:
    place = top.parent / f"worktree-{number}"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(place)], cwd=top, check=True)
    changed = subprocess.run(["git", "diff", "--name-only"], cwd=top, check=True, capture_output=True, text=True)
    for name in changed.stdout.split():
        shutil.copy2(top / name, place / name)
    subprocess.run(["sh", "-c", f"echo {number} > d0/e0/f0.py"], cwd=place, check=True)
    subprocess.run(["git", "status", "--porcelain"], cwd=place, check=True, capture_output=True)
    subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=top, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    sizes, times = ((300,), 1) if quick else ((5_000, 50_000), 7)
    for count in sizes:
        for unsaved in (0, min(500, count // 10)):
            with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir="/var/tmp") as folder:
                top = Path(folder) / "w"
                made(top, count, unsaved)
                trees = Trees(Workspace(top))
                layers = Layers(trees, SandboxSettings())
                first = timed(lambda: dispatch(trees, layers, 0))  # noqa: B023 - called at once
                ours, theirs = [], []
                for number in range(1, times + 1):
                    ours.append(timed(lambda: dispatch(trees, layers, number)))  # noqa: B023
                    theirs.append(timed(lambda: worktree(top, number)))  # noqa: B023
                cpu, wall = (statistics.median(one[at] for one in ours) for at in (0, 1))
                git_cpu, git_wall = (statistics.median(one[at] for one in theirs) for at in (0, 1))
                print(
                    f"{count:6} files, {unsaved:3} unsaved: {cpu:5.0f} ms CPU, {wall:5.0f} ms wall"
                    f" (first {first[0]:.0f}, {first[1]:.0f}); worktree and copy {git_cpu:5.0f}, {git_wall:5.0f}:"
                    f" {cpu / git_cpu:.2f}x CPU"
                )


if __name__ == "__main__":
    main()
