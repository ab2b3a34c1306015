"""People work on while agents do: the roadmap, code, commits. Nothing they wrote is lost, and conflicts are said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.folder import known_runs
from interlock.testing import Act, Crash, dying_at
from tests.playbooks.person import WAITS, person

from .conftest import FILE, Bench, good, item, spelled
from .test_real_runs import Place, place

__all__ = ["place"]


def edited(content: bytes, change: Callable[[list[dict[str, Any]]], None]) -> str:
    items = json.loads(content)
    change(items)
    return spelled(items)


def meanwhile(change: Callable[[list[dict[str, Any]]], None]) -> Callable[[Any], Act]:
    """The best answer, while a person changes the roadmap as it is."""

    def act(request: Any) -> Act:
        return replace(good(request), people={FILE: edited(request.within.facts(FILE).content, change)})

    return act


def another_title(items: list[dict[str, Any]]) -> None:
    items[1]["title"] = "Edited by a person"


@pytest.mark.req("LY-05", "RM-91", "EN-23")
@pytest.mark.parametrize("step", ["implement", "testing", "review"])
def test_an_edit_of_the_roadmap_while_an_agent_works_stays(bench: Bench, step: str) -> None:
    """Another item, a new one, a remark: all of it is there at the end, beside the engine's state fields."""

    def change(items: list[dict[str, Any]]) -> None:
        another_title(items)
        items[0]["notes"] = "mine"
        if len(items) == 2:
            items.append(item(9, priority=3))

    bench.data = [item(7), item(8, priority=2)]
    bench.reactions = {(step, 1): meanwhile(change)}
    assert bench.play().exit_code == 0
    assert [(one["id"], one["title"], one["status"], one["passes"]) for one in bench.items] == [
        (7, "Item 7", "done", True),
        (8, "Edited by a person", "done", True),
        (9, "Item 9", "done", True),
    ]
    assert bench.items[0]["notes"] == "mine"
    assert bench.events("roadmap.foreign_write") == bench.events("foreign_write") == []


@pytest.mark.req("LY-05", "EN-22")
def test_an_edit_of_the_very_item_counts(bench: Bench) -> None:
    """What the person wrote stands, and the item is begun anew by it: the next brief has the new criteria."""

    def change(items: list[dict[str, Any]]) -> None:
        items[0]["acceptanceCriteria"] = ["It works offline."]

    def testing(request: Any) -> Act:
        return meanwhile(change)(request) if len(bench.calls) < 3 else good(request)

    bench.reactions = {"testing": testing}
    assert bench.play().exit_code == 0
    assert bench.items[0]["acceptanceCriteria"] == ["It works offline."]
    assert bench.items[0]["status"] == "done"
    assert "It works offline." in bench.brief("implement", 1)
    assert bench.steps == ["implement", "testing", "review", "implement", "testing", "review"]


@pytest.mark.req("LY-05")
def test_a_roadmap_that_a_person_saves_half_stops_the_run_and_is_left_alone(bench: Bench) -> None:
    """It is said what is wrong with it; not a byte of it is written."""
    bench.reactions = {"testing": lambda request: replace(good(request), people={FILE: "[{"})}
    simulation = bench.simulate()
    close = simulation.go()
    assert close.exit_code == 3
    assert "roadmap.json is not valid JSON" in close.reason
    assert simulation.world.tree.files[FILE] == b"[{"


def at_odds(request: Any) -> Act:
    return replace(good(request), files={"src/a.py": "agent's", "src/b.py": "new"}, people={"src/a.py": "person's"})


@pytest.mark.req("LY-05", "LY-04", "EN-36")
def test_code_that_both_changed_is_worked_in_again(bench: Bench) -> None:
    """Implement is asked once more: it is shown the conflict, has its other work, and the person's file is theirs."""
    seen = []

    def implement(request: Any) -> Act:
        if len(bench.calls) == 1:
            return at_odds(request)
        seen.append({path: request.within.facts(path).content for path in ("src/a.py", "src/b.py")})
        return replace(good(request), files={"src/a.py": "person's and agent's"})

    bench.reactions = {"implement": implement}
    assert bench.play().exit_code == 0
    assert seen == [{"src/a.py": b"person's", "src/b.py": b"new"}]
    assert "somebody else changed the same places" in bench.brief("implement", 1)
    assert "<<<<<<<" in bench.brief("implement", 1)
    assert bench.simulation is not None
    files = bench.simulation.world.tree.files
    assert (files["src/a.py"], files["src/b.py"]) == (b"person's and agent's", b"new")
    assert bench.items[0]["status"] == "done"
    assert len(bench.events("dispatch.conflict")) == 1


@pytest.mark.req("LY-05")
def test_code_that_both_change_again_and_again_leaves_the_run_open(bench: Bench) -> None:
    """The person's version stays; it is said why, and where the agent's work is."""

    def implement(request: Any) -> Act:
        return replace(at_odds(request), people={"src/a.py": f"person's {len(bench.calls)}"})

    bench.reactions = {"implement": implement}
    close = bench.play()
    assert close.exit_code == 5
    assert bench.steps == ["implement", "implement"]
    assert bench.simulation is not None
    assert bench.simulation.world.tree.files["src/a.py"] == b"person's 2"
    assert "src/b.py" not in bench.simulation.world.tree.files
    assert bench.items[0]["status"] == "in_progress"
    assert "conflict with an edit made meanwhile: src/a.py" in close.reason
    said = "\n".join(warning["text"] for warning in bench.events("warning"))
    assert "its work is not in the tree; to take it over: git apply '.interlock/runs/" in said


@pytest.mark.long
@pytest.mark.req("LY-05", "EN-10", "CM-22")
def test_a_person_and_a_crash_at_every_point() -> None:
    """Wherever the engine dies while a person edits roadmap and code, the end is the same and both edits are there."""

    def build() -> Bench:
        bench = Bench([item(7), item(8, priority=2)])

        def implement(request: Any) -> Act:
            return replace(good(request), files={f"src/{request.dispatch[:6]}.py": "x"}, people={"mine.txt": "m"})

        bench.reactions = {"testing": meanwhile(another_title), "implement": implement}
        return bench

    whole = build()
    close = whole.play()
    assert whole.simulation is not None
    expected = whole.simulation.world.tree.files
    assert b"Edited by a person" in expected[FILE]
    number = 0
    while True:
        simulation = build().simulate()
        try:
            simulation.go(tripwire=dying_at(number + 1))
            break
        except Crash:
            resumed = simulation.go()
        assert (resumed.status, resumed.reason) == (close.status, close.reason), number
        assert simulation.world.tree.files == expected, number
        assert max(Counter(line.key for line in simulation.lines if line.event == "dispatch.end").values()) == 1
        number += 1
    assert number > 80


@pytest.mark.req("LY-05", "LY-07", "RM-91", "EN-36")
def test_a_person_edits_and_commits_while_agents_work(place: Place) -> None:
    """While Implement works: another item, a line of the same file, a commit. While Testing does: the roadmap again."""
    (place.root / "code.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    place.agent(
        WAITS
        + """
if step == "implement":
    text = Path("code.txt").read_text()
    wait_for_person()
    Path("code.txt").write_text(text.replace("line 8", "by the agent"))
    answer["evidence"]["files"] = [{"path": "code.txt", "change": "modified"}]
if step == "testing":
    wait_for_person()
"""
    )

    def work_on(name: str) -> None:
        items = place.items
        items[1][f"while {name}"] = "edited"
        place.roadmap(*items)
        if name == "Implement":
            text = (place.root / "code.txt").read_text()
            (place.root / "code.txt").write_text(text.replace("line 0", "by a person"))
            place.git("add", "code.txt")
            place.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "meanwhile", "code.txt")

    with person(place.root, work_on) as seen:
        finished = place.run(once=True)
    assert finished.exit_code == 0, finished
    assert seen == ["Implement", "Testing"]
    text = (place.root / "code.txt").read_text()
    assert text.startswith("by a person\nline 1\n")
    assert text.endswith("line 7\nby the agent\n")
    assert place.items[0]["status"] == "done"
    assert (place.items[1]["while Implement"], place.items[1]["while Testing"]) == ("edited", "edited")
    assert place.git("log", "-1", "--format=%s").strip() == "meanwhile"
    assert "by the agent" not in place.git("show", "HEAD:code.txt")
    (known,) = known_runs(place.root)
    assert "repository.touched" not in {line.event for line in known.folder.lines()}


@pytest.mark.req("LY-07")
def test_what_an_agent_commits_counts_as_its_change_and_stays_out_of_the_repository(place: Place) -> None:
    """Commit, branch, stash and hook are in its layer and in an event; the file that it committed is in the tree."""
    before = place.git("rev-parse", "HEAD"), place.git("branch", "--list"), place.git("stash", "list")
    place.agent("""
if step == "implement":
    import subprocess
    def git(*words):
        subprocess.run(["git", "-c", "user.name=b", "-c", "user.email=b@c", *words], check=True, capture_output=True)
    Path("committed.txt").write_text("content")
    git("checkout", "-q", "-b", "mine")
    git("add", "committed.txt")
    git("commit", "-q", "-m", "by the agent")
    Path(".git/hooks").mkdir(exist_ok=True)
    Path(".git/hooks/post-commit").write_text("#!/bin/sh")
    answer["evidence"]["files"] = [{"path": "committed.txt", "change": "created"}]
""")
    finished = place.run(once=True)
    assert finished.exit_code == 0, finished
    assert (place.root / "committed.txt").read_text() == "content"
    assert (place.git("rev-parse", "HEAD"), place.git("branch", "--list"), place.git("stash", "list")) == before
    assert not (place.root / ".git/hooks/post-commit").exists()
    (touched,) = [line.data for line in finished.lines if line.event == "repository.touched"]
    assert touched["by"] == "Implement"
    assert any("mine" in what for what in touched["what"])
