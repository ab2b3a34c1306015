"""Peak memory of the engine's process while its programs talk much, or are many.

    python benchmarks/output_memory.py
    python benchmarks/output_memory.py --quick     # a hundredth of it

Each case runs in a process of its own, so that one peak does not hide another; the first runs nothing and is
what the interpreter and the imports take.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from interlock.agents import ProcessExit, run_process

QUICK = "--quick"
PART = 100 if QUICK in sys.argv else 1
OUTPUT = 1_000_000_000 // PART
PROGRAMS = 200 // PART
CALLS = 51 if PART == 1 else 3


async def nothing(folder: Path) -> str:
    return "imports only"


async def gigabyte(folder: Path) -> str:
    ended = await start(folder, "talker", ["head", "-c", str(OUTPUT), "/dev/zero"])
    kept = (folder / "talker.out").stat().st_size
    assert ended.code == 0
    assert ended.stdout_cut or kept == OUTPUT
    return f"{OUTPUT / 1e6:.0f} MB of output, {kept / 1e6:.0f} MB kept, {OUTPUT / 1e6 / ended.duration_s:.0f} MB/s"


async def crowd(folder: Path) -> str:
    ended = await asyncio.gather(*(start(folder, f"sleeper-{number}", ["sleep", "1"]) for number in range(PROGRAMS)))
    assert all(one.code == 0 for one in ended)
    return f"{PROGRAMS} programs side by side, each sleeping 1 s"


async def trivial(folder: Path) -> str:
    async def bare() -> None:
        process = await asyncio.create_subprocess_exec("true", stdin=-1, stdout=-1, stderr=-1)
        await process.communicate(b"")

    async def median(call: Callable[[], Awaitable[object]]) -> float:
        times = []
        for _ in range(CALLS):
            began = time.perf_counter()
            await call()
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1000

    ours, plain = await median(lambda: start(folder, "true", ["true"])), await median(bare)
    return f"`true`: {ours:.1f} ms a call, {plain:.1f} ms by asyncio alone (median of {CALLS})"


async def start(folder: Path, name: str, argv: list[str]) -> ProcessExit:
    return await run_process(
        argv,
        cwd=folder,
        env=dict(os.environ),
        stdin=b"",
        stdout=folder / f"{name}.out",
        stderr=folder / f"{name}.err",
        timeout_s=120,
        marker=f"benchmark-{os.getpid()}:{name}:1",
    )


CASES = {case.__name__: case for case in (nothing, gigabyte, crowd, trivial)}


def measure(case: str) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        text = asyncio.run(CASES[case](Path(folder)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"{case:9} {peak / 1e6:7.1f} MB peak {time.monotonic() - began:6.2f} s   {text}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] in CASES:
        measure(words[0])
    else:
        for case in CASES:
            subprocess.run([sys.executable, __file__, case, *words], check=True)
