"""What the engine costs: a durable step beside a synced append, reading back, the start of the command line."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from interlock.engine import events as ev
from interlock.engine.folder import RunFolder
from interlock.engine.journal import Journal
from interlock.engine.replay import Recorder
from interlock.workspace.values import EMPTY, Standing, Where


def began(place: Path) -> Recorder:
    recorder = Recorder(Journal(RunFolder(place).medium), RunFolder(place), lambda: datetime.now(UTC))
    recorder.add(
        "",
        ev.RunStarted(
            run="r", playbook="p", key="k", version="1", order=1, inputs={}, caps={}, where=Where(),
            standing=Standing(tree=EMPTY), at=datetime.now(UTC),
        ),
    )  # fmt: skip
    recorder.sync()
    return recorder


def step(recorder: Recorder, number: int) -> None:
    """Recalled, settled, synced: what every verb with an effect after it does."""
    slot = recorder.recall(f"note#{number}", {"number": number}, ev.Noted)
    slot.settle(ev.Noted(name="step", facts={"number": number, "text": "x" * 200}))
    recorder.sync()


def append(handle: int) -> None:
    os.write(handle, b"x" * 500 + b"\n")
    os.fdatasync(handle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    times = 20 if parser.parse_args().quick else 4000
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir="/var/tmp") as folder:
        recorder = began(Path(folder) / "run")
        handle = os.open(Path(folder) / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        ours, plain = [], []
        for number in range(times):
            start = time.perf_counter()
            step(recorder, number)
            middle = time.perf_counter()
            append(handle)
            ours.append(middle - start)
            plain.append(time.perf_counter() - middle)
        first, last = (statistics.median(part) for part in (ours[: times // 4], ours[-times // 4 :]))
        mine, base = statistics.median(ours), statistics.median(plain)
        print(
            f"durable step {mine * 1e6:.0f} us, synced append {base * 1e6:.0f} us: {mine / base:.2f}x"
            f" (the first quarter of {times} {first * 1e6:.0f} us, the last {last * 1e6:.0f} us)"
        )
        start = time.perf_counter()
        Recorder(
            Journal(RunFolder(Path(folder) / "run").medium), RunFolder(Path(folder) / "run"), lambda: datetime.now(UTC)
        )
        print(f"reading {times + 1} lines back: {(time.perf_counter() - start) * 1e3:.0f} ms")
    program, bare = [], []
    for _ in range(3 if times == 20 else 15):
        for found, words in ((program, ["-m", "interlock.cli.main", "--version"]), (bare, ["-c", "pass"])):
            start = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            found.append(time.perf_counter() - start)
    mine, base = statistics.median(program), statistics.median(bare)
    print(
        f"interlock --version {mine * 1e3:.0f} ms, bare python {base * 1e3:.0f} ms: {(mine - base) * 1e3:.0f} ms more"
    )


if __name__ == "__main__":
    main()
