"""What a durable step costs, and what a crash costs: the figures of docs/adr/0001, measured again.

A chain of no-op steps runs through, then a second chain is killed with SIGKILL inside one step and resumed.
Measured: milliseconds per step, seconds to resume (start of the process included), and how many finished steps
happen again.  The synced JSONL line is always measured; the other engines where they are installed, for example in
a virtual environment of their own:

    python -m pip install dbos langgraph langgraph-checkpoint-sqlite prefect
    python benchmarks/adr0001_engines.py
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

Step = Callable[[int], int]


class Position(TypedDict):
    number: int


def jsonl(folder: Path, steps: int, step: Step) -> None:
    """One line per step, synced before the next step; resume reads the lines."""
    journal = folder / "journal.jsonl"
    done = len(journal.read_bytes().splitlines()) if journal.exists() else 0
    with journal.open("ab") as file:
        for number in range(done, steps):
            line = json.dumps({"key": f"step#{number}", "data": step(number)})
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def dbos(folder: Path, steps: int, step: Step) -> None:
    """DBOS with its SQLite system database; launch recovers what was pending."""
    engine: Any = importlib.import_module("dbos")
    engine.DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}"})
    durable_step = engine.DBOS.step(name="step")(step)

    @engine.DBOS.workflow(name="chain")  # type: ignore[untyped-decorator]
    def chain() -> None:
        for number in range(steps):
            durable_step(number)

    engine.DBOS.launch()
    if engine.DBOS.get_workflow_status("bench") is None:
        with engine.SetWorkflowID("bench"):
            chain()
    else:
        engine.DBOS.retrieve_workflow("bench").get_result()
    engine.DBOS.destroy()


def langgraph(folder: Path, steps: int, step: Step) -> None:
    """LangGraph with its SQLite checkpointer; resume invokes the thread without input."""
    graphs: Any = importlib.import_module("langgraph.graph")
    checkpoints: Any = importlib.import_module("langgraph.checkpoint.sqlite")

    def node(state: Position) -> Position:
        return {"number": step(state["number"]) + 1}

    graph = graphs.StateGraph(Position)
    graph.add_node("step", node)
    graph.add_edge(graphs.START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["number"] < steps else graphs.END)
    with checkpoints.SqliteSaver.from_conn_string(str(folder / "langgraph.sqlite")) as saver:
        chain = graph.compile(checkpointer=saver)
        thread = {"configurable": {"thread_id": "bench"}, "recursion_limit": steps + 10}
        begun = bool(chain.get_state(thread).values)
        chain.invoke(None if begun else {"number": 0}, thread)


def prefect(folder: Path, steps: int, step: Step) -> None:
    """Prefect with persisted results; resume runs the flow again over its cache."""
    os.environ["PREFECT_HOME"] = str(folder / "prefect")
    os.environ["PREFECT_LOGGING_LEVEL"] = "ERROR"
    engine: Any = importlib.import_module("prefect")
    policies: Any = importlib.import_module("prefect.cache_policies")
    durable_step = engine.task(persist_result=True, cache_policy=policies.INPUTS)(step)

    @engine.flow  # type: ignore[untyped-decorator]
    def chain() -> None:
        for number in range(steps):
            durable_step(number)

    chain()


ENGINES: dict[str, tuple[Callable[[Path, int, Step], None], tuple[str, ...]]] = {
    "jsonl": (jsonl, ()),
    "dbos": (dbos, ("dbos",)),
    "langgraph": (langgraph, ("langgraph", "langgraph.checkpoint.sqlite")),
    "prefect": (prefect, ("prefect",)),
}


@dataclass(frozen=True)
class Figures:
    step_ms: float
    resume_s: float
    repeated: int


def work(name: str, folder: Path, steps: int, die_at: int | None) -> None:
    """The child process: the chain once, each step leaving a byte behind, with SIGKILL inside step `die_at`."""
    trace = os.open(folder / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step(number: int) -> int:
        if number == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(trace, b".")
        return number

    started = time.perf_counter()
    ENGINES[name][0](folder, steps, step)
    (folder / "seconds").write_text(str(time.perf_counter() - started), encoding="utf-8")


def child(name: str, folder: Path, steps: int, die_at: int | None) -> int:
    argv = [sys.executable, __file__, "--steps", str(steps), "--child", name, "--folder", str(folder)]
    argv += [] if die_at is None else ["--die-at", str(die_at)]
    return subprocess.run(argv, check=False, stdout=subprocess.DEVNULL).returncode


def measure(name: str, steps: int) -> Figures:
    with tempfile.TemporaryDirectory() as through, tempfile.TemporaryDirectory() as crashed:
        if child(name, Path(through), steps, None) != 0:
            raise SystemExit(f"{name}: the chain did not run through")
        seconds = float((Path(through) / "seconds").read_text(encoding="utf-8"))
        if child(name, Path(crashed), steps, steps * 9 // 10) != -signal.SIGKILL:
            raise SystemExit(f"{name}: the chain was not killed in its step")
        started = time.perf_counter()
        if child(name, Path(crashed), steps, None) != 0:
            raise SystemExit(f"{name}: the killed chain did not resume")
        resumed = time.perf_counter() - started
        happened = (Path(crashed) / "trace").stat().st_size
        return Figures(1000 * seconds / steps, resumed, happened - steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--quick", action="store_const", const=50, dest="steps", help="50 steps")
    parser.add_argument("--child", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--die-at", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work(options.child, options.folder, options.steps, options.die_at)
        return
    print(f"{'engine':10} {'ms per step':>12} {'resume s':>9} {'steps repeated':>15}")
    for name, (_, modules) in ENGINES.items():
        if all(_installed(module) for module in modules):
            figures = measure(name, options.steps)
            print(f"{name:10} {figures.step_ms:12.2f} {figures.resume_s:9.2f} {figures.repeated:15}")
        else:
            print(f"{name:10} not installed: see the head of this file")


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


if __name__ == "__main__":
    main()
