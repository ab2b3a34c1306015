"""What the look before the first paid call costs, beside the commands that it runs.

A run of `task` with two named commands: the time from its first journal line to the one that says how the preflight
went, less what the two commands take by themselves, in turns. Agents: the scripted one, and the real ones that are
installed (`python -m tools.clients install`), which are asked whether they can be started and are signed in. The bound
is half a second. With `--quick` only the scripted one, once.

    python benchmarks/preflight.py [--times 10] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.clients import client, environment
from tools.model_server import serving

COMMANDS = ("git log --oneline", "git grep -n line")
AGENTS = ("claude", "codex")
FILES = 1_000
MOST_MS = 500.0
PATIENCE_S = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    times, files = (1, 10) if options.quick else (options.times, FILES)
    installed = [] if options.quick else [name for name in AGENTS if client(name).installed()]
    for name in ("scripted", *installed):
        with tempfile.TemporaryDirectory(dir=Path.home(), prefix=".interlock-bench-") as place, serving() as model:
            measure(name, Path(place), model.url, times, files)


def measure(name: str, place: Path, url: str, times: int, files: int) -> None:
    env = dict(os.environ) if name == "scripted" else environment(name, url, place / "home")
    workspace = place / "workspace"
    lay_out(workspace, name, files)
    looks, commands = [], []
    for number in range(times + 1):  # the first start of a client unpacks and caches, and the first snapshot reads all
        commands.append(bare(workspace))
        looks.append(look(workspace, env, number))
    whole, alone = (statistics.median(times[1:] or times) * 1e3 for times in (looks, commands))
    beside = whole - alone
    print(
        f"{name}, {files} files: preflight {whole:.0f} ms, its two commands alone {alone:.0f} ms: "
        f"{beside:.0f} ms beside them (max {MOST_MS:.0f}){'' if beside <= MOST_MS else '  TOO MUCH'}"
    )


def lay_out(workspace: Path, name: str, files: int) -> None:
    for number in range(files):
        path = workspace / f"part{number % 20}" / f"file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number}\n")
    settings = f'runner = "{name}"\n'
    if name != "scripted":
        settings += f'[runners.{name}]\ntype = "{name}"\nprogram = {json.dumps(str(client(name).path()))}\n'
    (workspace / "interlock.toml").write_text(settings)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
        author = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
        subprocess.run(["git", *author, *words], cwd=workspace, check=True)


def bare(workspace: Path) -> float:
    started = time.perf_counter()
    for command in COMMANDS:
        subprocess.run(command.split(), cwd=workspace, capture_output=True, check=True)
    return time.perf_counter() - started


def look(workspace: Path, env: Mapping[str, str], number: int) -> float:
    """Seconds until the run said how its preflight went; it is ended there, before it pays anything."""
    words = [sys.executable, "-m", "interlock", "run", "task", f"work {number}"]
    words += [part for command in COMMANDS for part in ("--check", command)]
    process = subprocess.Popen(words, cwd=workspace, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return between(workspace, number, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def between(workspace: Path, number: int, process: subprocess.Popen[bytes]) -> float:
    """Seconds between the two lines, as the run stamped them."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        over = process.poll() is not None
        for journal in workspace.glob(".interlock/runs/task-*/journal.jsonl"):
            text = journal.read_text("utf-8")
            lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
            stamps = {line["event"]: datetime.fromisoformat(line["ts"]) for line in lines}
            if lines and lines[0]["data"]["key"] == f"work {number}" and "preflight" in stamps:
                assert not next(line for line in lines if line["event"] == "preflight")["data"]["problems"], text
                return (stamps["preflight"] - stamps["run.start"]).total_seconds()
        if over:
            break
        time.sleep(0.02)
    raise SystemExit(f"run {number} did not come to its preflight: see {workspace}")


if __name__ == "__main__":
    main()
