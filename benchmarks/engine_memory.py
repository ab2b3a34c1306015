"""Peak memory of the whole engine: one agent with 1 GB of output, and 200 dispatches at once.

With `--quick` a hundredth of each.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine import BenchSetup, Size, size_key
from interlock.agents import CommandRunner
from interlock.engine import Dispatch, Ending, Run, playbook
from interlock.engine.definition import Playbook
from interlock.engine.options import Options
from interlock.engine.runs import Quiet, Runs

LIMIT_MB = 80
QUICK = "--quick"


def cases(part: int) -> dict[str, tuple[int, str]]:
    """By name, how many dispatches there are and what each does; a part of the whole."""
    size, many = 1_000_000_000 // part, 200 // part
    return {
        "nothing": (0, "true"),
        "one trivial dispatch": (1, "echo DONE: yes"),
        f"{size // 1_000_000} MB of output": (1, f"head -c {size} /dev/zero | tr '\\0' x; echo; echo DONE: yes"),
        f"{many} dispatches at once": (many, "sleep 2; echo DONE: yes"),
    }


@playbook("wide", inputs=Size, key=size_key, max_parallel=200)
async def wide(run: Run, size: Size) -> Ending:
    """As many dispatches as asked for, side by side."""
    specs = (Dispatch("agent", "Do it.", member=f"m{number}") for number in range(size.count))
    await run.cluster("", {spec.name: partial(run.dispatch, spec) for spec in specs})
    return Ending.complete()


@dataclass(frozen=True)
class WideSetup(BenchSetup):
    def options(self, playbook: Playbook) -> Options:
        return replace(super().options(playbook), max_parallel=200)


def one(count: int, script: str) -> None:
    """Run one case in this process and print its peak."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "a.txt").write_text("a")
        started = time.perf_counter()
        if count:
            runner = CommandRunner("sh", ["sh", "-c", script], {}, os.environ)
            runs = Runs(root, WideSetup(root, runner, os.environ), Quiet(), environ={})
            finished = asyncio.run(runs.run(wide, Size(count)))
            assert finished.exit_code == 0, finished
        seconds = time.perf_counter() - started
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, {seconds:.1f} s")


def main() -> None:
    if len(sys.argv) > 2:
        one(int(sys.argv[1]), sys.argv[2])
        return
    for name, (count, script) in cases(100 if QUICK in sys.argv else 1).items():
        done = subprocess.run(
            [sys.executable, __file__, str(count), script], capture_output=True, text=True, check=True
        )
        print(f"{name}: {done.stdout.strip()} (max {LIMIT_MB} MB)")


if __name__ == "__main__":
    main()
