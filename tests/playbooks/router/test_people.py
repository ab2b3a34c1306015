"""A person works on while the router's agent does: nothing they wrote is lost, and what cannot be merged is said."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.app import open_runs
from interlock.engine.runs import Quiet
from interlock.playbooks.router import RouterInputs, example_files, router
from interlock.playbooks.router.problems import TASK_LIST
from interlock.testing import Act
from tests.playbooks.person import WAITS, person

LIST = example_files()[TASK_LIST]


@pytest.mark.req("LY-05", "RT-25")
def test_a_task_list_that_a_person_edits_meanwhile_is_theirs(bench: Any) -> None:
    """The answer counts, the edit stays, and the event does not blame the agent."""
    mine = LIST.replace("[NOT STARTED]", "[ABANDONED]")
    close = bench.play(
        "/implement 196", Act(message="Status: completed", files={"src/a.py": "1"}, people={TASK_LIST: mine})
    )
    assert close.exit_code == 0
    files = bench.simulation.world.tree.files
    assert (files[TASK_LIST], files["src/a.py"]) == (mine.encode(), b"1")
    assert [event["by"] for event in bench.events("todo.changed")] == ["somebody else"]


@pytest.mark.req("LY-05")
def test_what_cannot_be_merged_fails_the_command(bench: Any) -> None:
    """The person's version stays, the agent's is kept as a patch, and the end says both; the answer is not relayed."""
    act = Act(message="Status: completed", files={"src/a.py": "agent's"}, people={"src/a.py": "person's"})
    close = bench.play("/implement 196", act)
    assert (close.exit_code, close.output) == (5, b"")
    assert close.reason.startswith(
        "Error: implementer changed what was changed meanwhile by somebody else; "
        "its work was not taken over: src/a.py. Raw answer: "
    )
    assert bench.simulation.world.tree.files["src/a.py"] == b"person's"
    (kept,) = bench.events("dispatch.conflict")
    assert kept["patch"] in bench.events("warning")[-1]["text"]
    assert b"agent's" in bench.simulation.world.records.kept["stage-3/implementer#1", "changes.patch"]


@pytest.mark.req("LY-05")
def test_the_work_of_an_agent_that_failed_is_kept_beside_the_tree(bench: Any) -> None:
    """It is not in the tree, and the run says how to take it over."""
    close = bench.play("/implement 196", Act(message="Status: failed", files={"src/a.py": "half"}))
    assert close.exit_code == 5
    assert "src/a.py" not in bench.simulation.world.tree.files
    warning = bench.events("warning")[-1]
    assert "to take it over: git apply '.interlock/runs/" in warning["text"]


@pytest.mark.req("LY-33")
@pytest.mark.parametrize(
    ("path", "taken"),
    [
        (TASK_LIST, True),
        (".opencode/specs/196/plan.md", True),
        ("src/a.py", True),
        (".opencode/context/index.md", False),
        (".claude/settings.json", False),
        ("docs/AGENTS.md", False),
    ],
)
def test_an_agent_without_a_scope_may_write_the_project_and_the_specs(bench: Any, path: str, taken: bool) -> None:
    """What steers agents and tools is not the project."""
    close = bench.play("/implement 196", Act(message="Status: completed", files={path: "text"}))
    assert (close.exit_code == 0) is taken
    assert (bench.simulation.world.tree.files.get(path) == b"text") is taken


AGENT = """
import sys
from pathlib import Path
brief = sys.stdin.read()
listed = Path(".opencode/specs/TODO.md")
seen = listed.read_text()
wait_for_person()
listed.write_text(seen.replace("[NOT STARTED]", "[DONE]", 1))
Path("shared.txt").write_text(Path("shared.txt").read_text() + "by the agent\\n")
print("Status: completed")
"""


@pytest.mark.req("LY-05", "LY-30", "LY-01")
@pytest.mark.parametrize("at_odds", [False, True])
def test_an_agent_and_a_person_in_one_file(tmp_path: Path, at_odds: bool) -> None:
    """Different places of one file are merged; the same line is a conflict, and then the person's bytes stand."""
    root = tmp_path / "work"
    for path, text in {**example_files(), "shared.txt": "first\n", "agent.py": WAITS + AGENT}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    program = json.dumps([sys.executable, "agent.py"])
    (root / "interlock.toml").write_text(f'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = {program}\n')
    listed = root / TASK_LIST
    before = listed.read_text("utf-8")

    def work_on(_name: str) -> None:
        # In an order that a checkout or an editor has as well: one file replaced, another new.
        fresh = listed.with_name("TODO.md.new")
        old, new = ("[NOT STARTED]", "[PUT OFF]") if at_odds else ("# Tasks\n", "# Tasks of ours\n")
        fresh.write_text(before.replace(old, new, 1), "utf-8")
        fresh.replace(listed)
        (root / "mine.txt").write_text("by a person\n")

    app = open_runs(root, Quiet(), environ={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    with person(root, work_on) as seen:
        finished = asyncio.run(app.run(router, RouterInputs("/implement 196")))
    assert seen == ["implementer"]
    assert (root / "mine.txt").read_text() == "by a person\n"
    now = listed.read_text("utf-8")
    if not at_odds:
        assert finished.exit_code == 0, finished
        assert now == before.replace("# Tasks\n", "# Tasks of ours\n").replace("[NOT STARTED]", "[DONE]", 1)
        assert (root / "shared.txt").read_text() == "first\nby the agent\n"
        return
    assert finished.exit_code == 5
    assert now == before.replace("[NOT STARTED]", "[PUT OFF]", 1)
    assert (root / "shared.txt").read_text() == "first\n", "half of a dispatch's work must not come in"
    (conflict,) = [line.data for line in finished.lines if line.event == "dispatch.conflict"]
    assert conflict["paths"] == [TASK_LIST]
    patch = (root / conflict["patch"]).read_text()
    assert "[DONE]" in patch
    assert "by the agent" in patch
