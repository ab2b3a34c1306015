"""Runs on a real disk with real processes: what only the world shows."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.app import open_runs
from interlock.engine.folder import known_runs
from interlock.engine.journal import Tripwire, no_tripwire
from interlock.engine.playing import Finished
from interlock.engine.runs import Call, Quiet, Runs
from interlock.errors import ConfigInvalid, DocumentInvalid
from interlock.playbooks.roadmap import RoadmapInputs, roadmap

from .conftest import FILE, item, spelled

TOKEN = "<promise>COMPLETE</promise>"
AGENT = """
import json, os, sys
from pathlib import Path
brief = sys.stdin.read()
agent, step, attempt = (os.environ["INTERLOCK_" + name] for name in ("AGENT", "STEP", "ATTEMPT"))
state = [one["status"] for one in json.loads(Path("roadmap.json").read_text())]
answer = {"status": "success", "evidence": {"files": []}, "seen": state}
if step == "validation":
    answer["verdict"] = "aligned"
if step == "testing":
    ran = [{"command": "make test", "exit": 0}]
    answer |= {"verdict": "pass", "evidence": {"tests": {"passed": 3, "failed": 0}, "verification": ran}}
if step == "review":
    checks = dict.fromkeys(["lint", "typecheck", "build", "quality"], "pass")
    answer |= {"verdict": "pass", "evidence": {"checks": checks, "verification": [{"command": "make", "exit": 0}]}}
if step == "implement":
    answer["noChange"] = "it is there already"
"""
SAY = "\nprint('```json\\n' + json.dumps(answer) + '\\n```')\n"


class Dead(BaseException):
    """The process is gone at this point."""


def dies_at(number: int) -> Tripwire:
    """The process ends before its n-th effect: a write, or a call of an agent."""
    count = 0

    def trip(point: str) -> None:
        nonlocal count
        count += point == "effect"
        if point == "effect" and count == number:
            raise Dead

    return trip


@dataclass
class Place:
    """A git workspace with a roadmap and a program as its agents."""

    root: Path

    def roadmap(self, *items: dict[str, Any]) -> None:
        (self.root / FILE).write_text(spelled([*items]), "utf-8")

    @property
    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.root / FILE).read_text("utf-8"))
        return found

    def agent(self, code: str = "") -> None:
        (self.root.parent / "agent.py").write_text(AGENT + code + SAY, "utf-8")

    def app(self, tripwire: Tripwire = no_tripwire, view: Quiet | None = None) -> Runs:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.root.parent)}
        return open_runs(self.root, view or Quiet(), environ=environ, tripwire=tripwire)

    def run(self, **flags: Any) -> Finished:
        return asyncio.run(self.app().run(roadmap, RoadmapInputs(), Call(flags=flags)))

    def die(self, effect: int) -> None:
        with pytest.raises(Dead):
            asyncio.run(self.app(dies_at(effect)).run(roadmap, RoadmapInputs()))

    @property
    def calls(self) -> list[str]:
        """Agent, step and attempt of each call that came to its end, and how the items stood as the agent saw them."""
        lines = [line for known in known_runs(self.root) for line in known.folder.lines()]
        ends = [line for line in lines if line.event == "dispatch.end"]
        return [
            f"{end.agent} {end.data['step']} {end.attempt} {','.join(end.data['out']['data']['seen'])}" for end in ends
        ]

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def tree(self) -> dict[str, bytes]:
        return {p.relative_to(self.root).as_posix(): p.read_bytes() for p in self.root.rglob("*") if p.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "work"
    root.mkdir()
    found = Place(root)
    found.agent()
    program = json.dumps([sys.executable, str(tmp_path / "agent.py")])
    settings = f'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = {program}\n'
    (root / "interlock.toml").write_text(settings, "utf-8")
    found.roadmap(item(7), item(8, priority=2))
    found.git("init", "--quiet")
    found.git("add", ".")
    found.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "start")
    return found


@pytest.mark.req("RM-17", "RM-86", "RM-58", "RM-80", "RM-20")
def test_with_agents_that_write_nothing_only_the_roadmap_changes(place: Place) -> None:
    """Agents see their item in progress; git sees one file changed; results are stored before verdicts are drawn."""
    finished = place.run()
    assert (finished.exit_code, finished.output) == (0, f"{TOKEN}\n")
    assert place.calls == [
        *(f"{agent} {step} 1 in_progress,ready" for agent, step in
          (("Implement", "implement"), ("Testing", "testing"), ("Review", "review"))),
        *(f"{agent} {step} 1 done,in_progress" for agent, step in
          (("Implement", "implement"), ("Testing", "testing"), ("Review", "review"))),
    ]  # fmt: skip
    changed = [line for line in place.git("status", "--short").splitlines() if not line.endswith(".interlock/")]
    assert changed == [" M roadmap.json"]
    (known,) = known_runs(place.root)
    folder = known.folder.path / "dispatches" / "item-1" / "attempt-1" / "testing" / "Testing#1"
    result = json.loads((folder / "result.json").read_text())
    assert result["evidence"]["passed"] == 3
    assert (folder / "brief.md").read_text().startswith("---") is False
    events = [line.event for line in known.folder.lines()]
    assert events.index("verdict") > events.index("dispatch.end")


@pytest.mark.req("RM-88", "RM-87")
def test_a_roadmap_that_an_agent_wrote_is_not_taken_over(place: Place) -> None:
    """The engine's bytes stand; what the agent wrote is kept as a patch."""
    place.roadmap(item(7, notes="mine"))
    place.agent('if step == "implement": Path("roadmap.json").write_text("[]"); answer["evidence"]["files"] = []')
    before = (place.root / FILE).read_text()
    assert place.run().exit_code == 0
    assert (place.root / FILE).read_text() == before.replace('"ready"', '"done"').replace("false", "true")
    (known,) = known_runs(place.root)
    (event,) = [line.data for line in known.folder.lines() if line.event == "foreign_write"]
    assert '-    "notes": "mine"' in (place.root / event["patch"]).read_text()


@pytest.mark.req("RM-98", "EN-17", "RM-57")
def test_an_interrupted_run_goes_on_at_its_last_finished_step(place: Place) -> None:
    """Killed before Review: Implement and Testing are not paid again, and no second item was started."""
    place.die(effect=4)
    assert [one["status"] for one in place.items] == ["in_progress", "ready"]
    assert [call.split()[0] for call in place.calls] == ["Implement", "Testing"]
    assert place.run(once=True).exit_code == 0
    assert [call.split()[0] for call in place.calls] == ["Implement", "Testing", "Review"]
    assert [one["status"] for one in place.items] == ["done", "ready"]
    assert len(known_runs(place.root)) == 1


@pytest.mark.req("EN-22")
@pytest.mark.parametrize(
    "change",
    [
        {"acceptanceCriteria": ["Another criterion."]},
        {"status": "ready"},
        {"retryCount": 2},
        None,
    ],
)
def test_an_edit_of_the_current_item_ends_the_open_run(place: Place, change: dict[str, Any] | None) -> None:
    """A new run starts from the document; with other items edited, or none, the open one goes on."""
    place.die(effect=4)
    items = place.items
    if change is None:
        items[1]["title"] = "Another title"
    else:
        items[0] |= change
    place.roadmap(*items)
    assert place.run(once=True).exit_code == 0
    runs = known_runs(place.root)
    agents = [call.split()[0] for call in place.calls]
    if change is None:
        assert len(runs) == 1
        assert agents == ["Implement", "Testing", "Review"]
        assert place.items[1]["title"] == "Another title"
    else:
        end = runs[0].folder.lines()[-1].data
        assert (end["status"], end["reason"]) == ("stopped", "state document edited: item 7 of roadmap.json")
        assert runs[1].identity.continues == runs[0].identity.run_id
        assert agents == ["Implement", "Testing", "Implement", "Testing", "Review"]
    assert place.items[0]["status"] == "done"


def test_a_file_that_was_broken_meanwhile_leaves_the_open_run_open(place: Place) -> None:
    """Exit 2 with the place of the mistake; mended, the run goes on where it was."""
    place.die(effect=4)
    good = (place.root / FILE).read_bytes()
    (place.root / FILE).write_bytes(good[:-5])
    with pytest.raises(DocumentInvalid) as caught:
        place.run()
    assert caught.value.what.startswith("roadmap.json is not valid JSON: line ")
    (place.root / FILE).write_bytes(good)
    assert place.run().exit_code == 0
    assert [call.split()[0] for call in place.calls][:3] == ["Implement", "Testing", "Review"]


@pytest.mark.req("RM-02", "EN-27", "RM-98")
def test_without_the_engines_folder_the_file_alone_decides(place: Place) -> None:
    """A new clone: the item in progress restarts its pipeline, and says that nothing is known of before."""
    place.die(effect=4)
    assert [call.split()[0] for call in place.calls] == ["Implement", "Testing"]
    shutil.rmtree(place.root / ".interlock")
    assert place.run(once=True).exit_code == 0
    assert [call.split()[0] for call in place.calls] == ["Implement", "Testing", "Review"]
    assert [one["status"] for one in place.items] == ["done", "ready"]
    (known,) = known_runs(place.root)
    brief = known.folder.path / "dispatches" / "item-1" / "attempt-1" / "implement" / "Implement#1" / "brief.md"
    assert "The evidence of that work is not available" in brief.read_text()
    shutil.rmtree(place.root / ".interlock")
    place.run(once=True)
    assert place.items[1]["status"] == "done"


@pytest.mark.req("EN-18", "RM-73", "RM-77", "RM-62")
def test_after_a_person_unblocks_an_item_the_next_run_works_on_it(place: Place) -> None:
    """The blocked run has ended; a new one continues from the document, with its retries reset by the person."""
    place.agent('if step == "testing": answer["verdict"] = "fail"')
    assert place.run().exit_code == 3
    assert place.items[0]["status"] == "blocked"
    assert [call.split()[2] for call in place.calls if call.startswith("Implement")] == ["1", "2", "3"]
    place.agent()
    first, second = place.items
    assert place.run(once=True).exit_code == 0
    assert place.items[1]["status"] == "done"
    first |= {"status": "ready", "retryCount": 0}
    del first["blockedReasons"]
    place.roadmap(first, place.items[1] if second else second)
    finished = place.run()
    assert finished.output == f"{TOKEN}\n"
    runs = known_runs(place.root)
    assert runs[1].identity.continues == runs[0].identity.run_id


@pytest.mark.req("RM-02", "EN-18", "CM-23")
def test_an_item_added_to_a_finished_roadmap_is_worked_on(place: Place) -> None:
    """Complete is what the file says, not what an earlier run said; without a change the token comes again."""
    place.run()
    before = place.tree()
    assert place.run().output == f"{TOKEN}\n"
    assert place.tree() == before
    place.roadmap(*place.items, item(9))
    assert place.run().output == f"{TOKEN}\n"
    assert place.items[2]["status"] == "done"
    assert len(known_runs(place.root)) == 2


@pytest.mark.req("RM-30", "RM-31", "CM-06")
def test_roles_of_the_team_replace_ours_and_implement_needs_none(place: Place) -> None:
    """With only the four roles of the team the run works; their text stands before the brief."""
    folder = place.root / ".github" / "agents"
    folder.mkdir(parents=True)
    for role in ("Research", "Architect", "Testing", "Review"):
        (folder / f"{role}.agent.md").write_text(f"---\nname: {role}\n---\n\nOur own {role}.\n")
    place.roadmap(item(7, complexity="complex"))
    assert place.run().exit_code == 0
    (known,) = known_runs(place.root)
    briefs = {path.parent.name: path.read_text() for path in known.folder.path.glob("dispatches/**/brief.md")}
    assert "Our own Testing." in briefs["Testing#1"]
    assert "Our own Architect." in briefs["Architect#1"]
    assert "You build one item, completely" in briefs["Implement#1"]
    (folder / "Testing.agent.md").unlink()
    (place.root / "interlock.toml").write_text('runner = "nobody"\n')
    place.roadmap(item(7))
    with pytest.raises(ConfigInvalid):
        place.run()


@pytest.mark.req("EV-08")
def test_a_roles_own_write_scope_is_honoured(place: Place) -> None:
    """`writes:` in its front matter takes the place of ours; settings go over both."""
    folder = place.root / ".github" / "agents"
    folder.mkdir(parents=True)
    (folder / "Testing.agent.md").write_text("---\nname: Testing\nwrites: [qa/**]\n---\n\nOur own Testing.\n")
    place.agent('if step == "testing": Path("qa").mkdir(); Path("qa/check.txt").write_text("kept")')
    assert place.run(once=True).exit_code == 0
    assert (place.root / "qa/check.txt").read_text() == "kept"
    (known,) = known_runs(place.root)
    (added,) = [line.data for line in known.folder.lines() if line.event == "tests.added"]
    assert added["paths"] == ["qa/check.txt"]
    with (place.root / "interlock.toml").open("a") as settings:
        settings.write('[agents."roadmap/Testing"]\nwrites = ["tests/**"]\n')
    (place.root / "qa/check.txt").unlink()
    place.agent('if step == "testing": Path("qa").mkdir(exist_ok=True); Path("qa/check.txt").write_text("again")')
    assert place.run(once=True).exit_code == 5
    assert not (place.root / "qa/check.txt").exists()


@pytest.mark.req("EV-04", "EV-05")
def test_the_engine_runs_the_items_commands_where_the_settings_say_so(place: Place) -> None:
    """Really: red at the start is exit 3 with nobody called; green at the end is needed, whatever agents say."""
    with (place.root / "interlock.toml").open("a") as settings:
        settings.write('[roadmap]\nverify = "engine"\n')
    place.roadmap(item(7, verification=["test -e made.txt"]))
    before = place.items
    finished = place.run()
    assert (finished.exit_code, place.calls, place.items) == (3, [], before)
    assert "test -e made.txt: ended with exit status 1" in finished.reason
    assert place.run(no_preflight=True).exit_code == 3
    assert {one["source"] for one in place.items[0]["blockedReasons"]} == {"Engine"}
    place.roadmap(place.items[0] | {"status": "ready", "retryCount": 0})
    place.agent('if step == "implement": Path("made.txt").write_text("made"); del answer["noChange"]')
    assert place.run().exit_code == 0
    assert place.items[0]["status"] == "done"


def test_a_dry_run_shows_the_first_brief_and_changes_nothing(place: Place) -> None:
    """Selected, marked in memory only, and the dispatch shown."""
    before = place.tree()
    plan = asyncio.run(place.app().plan(roadmap, RoadmapInputs()))
    assert plan.before is not None
    assert plan.before.key == "item-1/attempt-1/implement/Implement#1"
    assert '"title": "Item 7"' in plan.before.detail.brief
    assert place.tree() == before


@pytest.mark.req("RM-89", "CM-02")
def test_the_file_is_replaced_whole_with_its_mode(place: Place) -> None:
    """Other bytes come by renaming: whoever has the old file open keeps it whole."""
    (place.root / FILE).chmod(0o640)
    with (place.root / FILE).open("rb") as old:
        before = (place.root / FILE).read_bytes()
        inode = (place.root / FILE).stat().st_ino
        assert place.run(once=True).exit_code == 0
        assert old.read() == before
    assert (place.root / FILE).stat().st_ino != inode
    assert (place.root / FILE).stat().st_mode & 0o777 == 0o640
    assert not list(place.root.glob(".roadmap*"))
