"""`roadmap`, whole, by the real world: in a repository, by the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import Status
from tests.whole.bench import Bench

ITEM = {"complexity": "simple", "priority": 1, "status": "ready", "passes": False}
ITEMS = [
    {"id": "B", "title": "Say hello", "verification": ["grep -q hello lib.py"], "dependencies": ["A"]},
    {"id": "A", "title": "Mend add", "verification": ["sh check.sh"], "owner": "ann"},
]
SCENARIO = """\
reactions:
  - agent: Implement
    step: implement
    attempt: 1
    files: {lib.py: "def add(a, b):\\n    return a + b  # hello\\n"}
"""
SETTINGS = """\
runner = "played"
[runners.played]
type = "scripted"
scenario = "scenario.yaml"
[roadmap]
verify = "engine"
"""
TOKEN = "<promise>COMPLETE</promise>"


class Road(Bench):
    """The small project of `task`, with a roadmap of two items and agents that play."""

    playbook, asked = "roadmap", {}

    def __init__(self, top: Path, **bench: Any) -> None:
        super().__init__(top, **bench)
        self.write("interlock.toml", SETTINGS)
        self.write("scenario.yaml", SCENARIO)
        self.plan(*ITEMS)
        if self.git:
            self.commit("a roadmap")

    def plan(self, *items: dict[str, Any], file: str = "roadmap.json") -> None:
        whole = [{**ITEM, "acceptanceCriteria": [f"{one['title']} works"], **one} for one in items]
        self.write(file, json.dumps(whole, indent=2) + "\n")

    def states(self, file: str = "roadmap.json") -> dict[Any, tuple[Any, ...]]:
        found = json.loads(self.read(file))
        return {one["id"]: (one["status"], one["passes"], one.get("retryCount", 0)) for one in found}


@pytest.mark.req("RM-20", "RM-77", "RM-92", "RM-01", "RM-05", "RM-11", "RM-86", "RUN-08", "CLI-04")
def test_once_takes_one_item_and_the_next_call_goes_on_in_a_fresh_clone(tmp_path: Path) -> None:
    """The state is in the file: without `.interlock/` the next item is chosen, and then it is complete."""
    road = Road(tmp_path / "here")
    said = road.types("run", "roadmap", "--once")
    assert said.code == 0, said.err
    assert "- Selected item: A Mend add\n" in said.out and "- Next candidate: B Say hello\n" in said.out
    assert TOKEN not in said.out
    assert road.states() == {"B": ("ready", False, 0), "A": ("done", True, 0)}
    changed = road.run_git("diff", "--unified=0", "roadmap.json").split("\n")
    assert [line for line in changed if line.startswith("+ ")] == ['+    "status": "done",', '+    "passes": true,']
    road.commit("one item")
    there = Road.clone(road, tmp_path / "there")
    done = there.types("run", "roadmap")
    assert (done.code, done.out.endswith(f"\n{TOKEN}\n")) == (0, True), done.err
    assert "- Selected item: B Say hello\n" in done.out and "A Mend add" not in done.out
    again = there.types("run", "roadmap")
    assert (again.code, again.out) == (0, f"{TOKEN}\n")


@pytest.mark.req("RM-72", "RM-73", "RM-102", "RM-100", "RUN-08", "TREE-14")
@pytest.mark.parametrize("mode", ["auto", pytest.param("off", marks=pytest.mark.long)])
def test_a_blocked_item_leaves_the_tree_as_it_was_and_goes_on_from_its_work(tmp_path: Path, mode: str) -> None:
    """Three attempts that are red; set back to ready, a new run begins with what they left."""
    road = Road(tmp_path / "p", mode=mode)
    road.write("interlock.toml", f'{SETTINGS}[sandbox]\nmode = "{mode}"\n')
    road.write("scenario.yaml", SCENARIO.replace("a + b", "a * b").replace("attempt: 1", 'attempt: "[12]"'))
    before = road.read("lib.py")
    view = asyncio.run(road.begin())
    assert (view.status, road.states()["A"]) == (Status.STOPPED, ("blocked", False, 2))
    assert [call.agent for call in view.calls.values()] == ["Implement"] * 3, "no judge is paid for what is red"
    assert road.read("lib.py") == before
    text = road.read("roadmap.json").replace('"status": "blocked"', '"status": "ready"')
    road.write("roadmap.json", text.replace('"retryCount": 2', '"retryCount": 0'))
    road.write("scenario.yaml", "reactions:\n  - agent: Implement\n    files: {b.py: 'a + b  # hello'}\n")
    view = asyncio.run(road.begin())
    assert view.status is Status.STOPPED, "B is not said in lib.py"
    assert road.states()["A"] == ("done", True, 0)
    assert "a * b" in road.read("lib.py") and "a + b" in road.read("b.py")
    assert "blockedReasons" not in json.loads(road.read("roadmap.json"))[1]


@pytest.mark.long
@pytest.mark.req("TS-09", "TREE-15")
def test_each_item_that_is_done_is_one_commit(tmp_path: Path) -> None:
    road = Road(tmp_path / "p")
    road.write("notes.txt", "unsaved\n")
    road.write("scenario.yaml", SCENARIO + "  - agent: Implement\n    files: {b.py: '# b'}\n")
    view = asyncio.run(road.begin(commit=True))
    assert view.status is Status.COMPLETE, view.why
    assert road.run_git("log", "--format=%s").split("\n") == ["B Say hello", "A Mend add", "a roadmap", "first"]
    held = [road.run_git("show", "--format=", "--name-only", one).split("\n") for one in ("HEAD~1", "HEAD")]
    assert held[0][0] == "lib.py" and held[1][0] == "b.py" and "roadmap.json" not in held[0] + held[1]
    assert road.run_git("status", "--porcelain").split("\n")[0] == "M notes.txt"
