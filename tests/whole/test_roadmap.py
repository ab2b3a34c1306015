"""`roadmap`, whole, by the real world: in a repository, by the command line, killed, cloned, in a team's own files."""

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


def _says(**form: Any) -> str:
    return f"cat <<'END'\n```json\n{json.dumps({'status': 'success', **form})}\n```\nEND\n"


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


# --- in a team's own files, from the seed's text alone

ROLE = """\
---
name: {name}
description: Our {name}
tools: ["read/readFile", "search/textSearch"]
---

# {name} Agent

You are the {name} Agent of the harbour team.
"""
PLANNED = {
    "version": 1,
    "project": "harbour",
    "items": [
        {
            "id": 1,
            "title": "Add must add",
            "description": "It subtracts.",
            "complexity": "complex",
            "priority": 1,
            "status": "ready",
            "passes": False,
            "acceptanceCriteria": ["add returns the sum"],
            "verification": ["sh check.sh"],
            "dependencies": [],
            "retryCount": 0,
            "planningResearch": None,
            "labels": ["bug"],
        }
    ],
}
PARTS = """\
cat <<'END'
I did what I was asked to do.

**Status:** success
{verdict}
**Evidence:**
- {evidence}

**Learnings:** {learned}

**Next steps:** {following}
END
"""
JUDGE = """\
if grep -q 'Failure context' brief; then
{form}else
{parts}fi
"""


def parts(evidence: str, learned: str, following: str, verdict: str = "") -> str:
    told = f"**Verdict:** {verdict}" if verdict else ""
    return PARTS.format(evidence=evidence, learned=learned, following=following, verdict=told)


@pytest.mark.req("AGENT-07", "PERSON-07", "RM-103", "RM-30", "RM-50", "AGENT-02")
def test_a_teams_own_agents_and_planner_work_as_they_are(tmp_path: Path) -> None:
    """Role files as they were named for Copilot, a planner's file, answers of exactly four parts."""
    road = Road(tmp_path / "p")
    for name in ("Research", "Architect", "Testing", "Review", "Planner", "Orchestrator"):
        road.write(f".github/agents/{name.lower()}.agent.md", ROLE.format(name=name))
    road.write(".github/skills/testing/SKILL.md", "# Testing\n")
    road.write("roadmap.json", json.dumps(PLANNED, indent=4))
    road.write(
        "agent.sh",
        'brief=$(mktemp -d)/brief; cat > $brief; PATH=$PATH; cd $PWD; export brief\n. "acts/$INTERLOCK_MEMBER.sh"\n',
    )
    road.write("acts/Research.sh", parts("lib.py: add returns a - b", "check.sh is the only test", "Architect"))
    road.write("acts/Architect.sh", parts("keep add(a, b) -> int in lib.py", "one line is enough", "Implement"))
    road.write(
        "acts/Implement.sh", "sed -i 's/a - b/a + b/' lib.py\n" + parts("lib.py modified", "it was a typo", "Testing")
    )
    road.write("acts/Architect validation.sh", parts("as decided", "no drift", "Testing", "aligned"))
    green = {"verification": [{"command": "sh check.sh", "exit": 0}]}
    words = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass")
    for name, form in (("Testing", green), ("Review", {**green, "checks": words})):
        told = JUDGE.replace(" brief;", ' "$brief";').format(
            form=_says(verdict="pass", evidence=form), parts=parts("all green", "none", "Done", "pass")
        )
        road.write(f"acts/{name}.sh", told)
    road.commit("as the team has it")
    road.write("interlock.toml", 'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["sh", "agent.sh"]\n')
    shown = road.types("plan", "roadmap")
    for name in ("research", "architect", "testing", "review"):
        assert f".github/agents/{name}.agent.md" in shown.out, shown.out + shown.err
    said = road.types("run", "roadmap")
    assert (said.code, said.out.endswith(f"\n{TOKEN}\n")) == (0, True), said.out + said.err
    assert "a + b" in road.read("lib.py")
    now = json.loads(road.read("roadmap.json"))
    assert now == {**PLANNED, "items": [{**PLANNED["items"][0], "status": "done", "passes": True}]}  # type: ignore[index]
    view = road.place().runs.find("latest").view()
    calls = {call.member or call.agent: call for call in view.calls.values()}
    assert {name: call.role for name, call in calls.items()} == {
        name: "" if name == "Implement" else f".github/agents/{name.split()[0].lower()}.agent.md" for name in calls
    }
    assert {name: call.calls for name, call in calls.items()} == dict.fromkeys(calls, 1) | {"Testing": 2, "Review": 2}
    folder = road.place().runs.find("latest").path / "dispatches"
    briefs = {"".join(file.parts[-2:-1]): file.read_text() for file in folder.rglob("brief.md")}
    implement = next(text for name, text in briefs.items() if name.startswith("Implement"))
    assert "lib.py: add returns a - b" in implement and "keep add(a, b) -> int in lib.py" in implement
    assert all("of the harbour team" in text for name, text in briefs.items() if not name.startswith("Implement"))
