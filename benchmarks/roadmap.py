"""What a roadmap of 1,000 items costs: each selection, each rewrite, and the run folder after many iterations.

The file has about 640 KB. A selection is a read from disk, the check of every item and the choice; a rewrite is a read,
the check, the change of one item, its proof, and the synced, verified write. Both must stay under 50 ms. With `--quick`
there are 60 items.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from interlock.agents import AgentExit, AgentRequest, BoundAgent, Health, MemoryOutput, Observer, Runner
from interlock.agents.runner import ClientNeeds
from interlock.contracts import sample
from interlock.documents import Store
from interlock.engine import Playbook
from interlock.engine.folder import HOME, RunFolder, known_runs
from interlock.engine.options import Options
from interlock.engine.real_world import RealWorld
from interlock.engine.runs import Quiet, Runs, Setup
from interlock.playbooks.roadmap import RoadmapInputs, roadmap
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.ledger import Survey, survey, transition
from interlock.playbooks.roadmap.settings import RoadmapSettings
from interlock.workspace import Workspace

QUICK = "--quick" in sys.argv
ITEMS = 60 if QUICK else 1_000
FILE = "roadmap.json"
ITERATIONS = 2 if QUICK else 60
TIMES = 3 if QUICK else 40


def item(number: int, **state: Any) -> dict[str, Any]:
    return {
        "id": f"ITEM-{number}",
        "title": f"Something that has to be done, number {number}",
        "complexity": "simple",
        "priority": number % 7,
        "status": "ready",
        "passes": False,
        "acceptanceCriteria": ["What must hold in the end, said in a sentence of some length. " * 2] * 2,
        "verification": ["npm test", "npm run lint"],
        "dependencies": [f"ITEM-{number - 1}"] if number else [],
        "retryCount": 0,
        **state,
    }


def lay_out(root: Path, done: int) -> Path:
    """A roadmap whose first items are done, so that the next candidate stands behind many."""
    passed = {"status": "done", "passes": True}
    items = [item(number, **(passed if number < done else {})) for number in range(ITEMS)]
    path = root / FILE
    path.write_text(json.dumps({"version": 1, "items": items}, indent=2) + "\n", "utf-8")
    return path


def timed(work: Any, times: int) -> str:
    """Medians of elapsed time and of this process's own, which other work on the machine does not lengthen."""
    elapsed, own = [], []
    for _ in range(times):
        started, began = time.perf_counter(), time.process_time()
        work()
        elapsed.append(time.perf_counter() - started)
        own.append(time.process_time() - began)
    return f"{statistics.median(elapsed) * 1e3:.1f} ms, of which CPU {statistics.median(own) * 1e3:.1f} ms (max 50)"


def selection_and_rewrite(root: Path) -> None:
    path = lay_out(root, done=ITEMS - 1)
    store = Store(root, root / "attic")

    def select() -> Survey:
        return Survey.from_json(survey(store.read(FILE), str(path)))

    chosen = select().item
    assert chosen is not None
    print(f"{path.stat().st_size // 1000} KB, {ITEMS} items")
    print(f"selection: {timed(select, TIMES)}")
    state = {"item": chosen}

    def rewrite() -> None:
        now = state["item"]
        flipped = "in_progress" if now.status == "ready" else "ready"
        made = transition(document := store.read(FILE), str(path), now, {"status": flipped, "retryCount": 1})
        assert made.content is not None
        store.write(FILE, made.content, expect=document.digest)
        state["item"] = Item(made.told["position"], made.told["item"])

    print(f"rewrite of the last item: {timed(rewrite, TIMES)}")


class AtOnce:
    """Agents that say the best at once."""

    name = "at once"

    async def call(self, request: AgentRequest, _observe: Observer) -> AgentExit:
        assert request.contract is not None
        said = sample(request.contract.answer)
        if request.contract.must_change:
            said = said.replace("{", '{"noChange": "nothing is built here",', 1)
        return AgentExit(0, MemoryOutput(said.encode()))

    async def recall(self, _request: AgentRequest, _code: int) -> AgentExit | None:
        return None

    def needs(self) -> ClientNeeds:
        return ClientNeeds()

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        return Health(True, "in process")

    def bind(self, agent: str) -> BoundAgent:
        return BoundAgent(agent, self.name)

    def runner(self, binding: BoundAgent) -> Runner:
        return self


class BenchSetup(Setup):
    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root, self.environ = root, environ

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> RealWorld:
        workspace = Workspace(self.root, self.root / HOME, documents=playbook.state(inputs))
        return RealWorld(folder, workspace, AtOnce(), environ=self.environ)

    def options(self, playbook: Playbook) -> Options:
        return Options(settings=RoadmapSettings())


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def whole_run(root: Path) -> None:
    """Many iterations over the large file: what the run folder holds afterwards, beside briefs and answers."""
    lay_out(root, done=ITEMS - ITERATIONS)
    runs = Runs(root, BenchSetup(root, os.environ), Quiet(), environ={})
    started = time.perf_counter()
    finished = asyncio.run(runs.run(roadmap, RoadmapInputs()))
    seconds = time.perf_counter() - started
    assert finished.exit_code == 0, finished
    (known,) = known_runs(root)
    parts = {name: size_of(known.folder.path / name) for name in ("objects", "dispatches")}
    journal = (known.folder.path / "journal.jsonl").stat().st_size
    reads = sum(line.event in ("read", "write") for line in known.folder.lines())
    per = {name: size // ITERATIONS / 1000 for name, size in {"journal": journal, **parts}.items()}
    took = f"{seconds / ITERATIONS * 1e3:.0f} ms an iteration with agents that answer at once"
    print(f"{ITERATIONS} iterations, {reads} reads and writes of the file: {took}")
    print("run folder per iteration: " + ", ".join(f"{name} {size:.1f} KB" for name, size in per.items()))
    print(f"snapshots of all of it: {size_of(root / HOME / 'snapshots.git') / 1e6:.1f} MB")


def main() -> None:
    for work in (selection_and_rewrite, whole_run):
        with tempfile.TemporaryDirectory() as folder:
            partial(work, Path(folder))()


if __name__ == "__main__":
    main()
