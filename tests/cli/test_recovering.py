"""`recover`: what people see of damaged records, and how they go on."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.history import _fresh as fresh
from interlock.errors import JournalDamaged


@pytest.fixture
def waiting(workspace: Any) -> Any:
    """A run that waits at its gate."""
    assert workspace("run", "toy", "a").code == 4
    return workspace


def cut(workspace: Any, lines: int = 3) -> bytes:
    """The journal without its last lines; returns what it was."""
    place = workspace.folders[0] / "journal.jsonl"
    before: bytes = place.read_bytes()
    place.write_bytes(b"".join(before.splitlines(keepends=True)[:-lines]))
    return before


@pytest.mark.req("LY-35")
def test_damage_is_named_by_every_command_with_the_way_on(waiting: Any) -> None:
    """Exit 2 and the two commands that help; the list of runs says which run it is."""
    cut(waiting)
    name = waiting.folders[0].name
    for words in (["show", "latest"], ["resume", "latest"], ["approve", "latest"], ["report", "latest"]):
        answer = waiting(*words)
        assert answer.code == 2, words
        assert "are missing at the end" in answer.stderr
        assert f"interlock show {name} --verify" in answer.stderr
        assert f"interlock recover {name}" in answer.stderr
    assert waiting("logs", "latest").code == 2
    assert waiting("run", "toy", "a").code == 2
    assert [run["status"] for run in waiting("runs", "--json").json] == ["damaged"]
    said = waiting("show", "latest", "--verify")
    assert said.code == 2
    assert f"interlock recover {name}" in said.stderr
    assert len(waiting.folders) == 1


@pytest.mark.req("LY-35")
def test_a_recovered_run_waits_where_it_waited(waiting: Any) -> None:
    """Nothing is lost, what was found is kept, and the run goes on to its end."""
    before = cut(waiting)
    found = (waiting.folders[0] / "journal.jsonl").read_bytes()
    said = waiting("recover", "latest")
    assert said.code == 0
    assert b"was wrong: lines" in said.stdout
    assert b"go on with: interlock resume toy-" in said.stdout
    folder = waiting.folders[0]
    assert (folder / "journal.jsonl").read_bytes().startswith(before)
    assert (folder / "journal.jsonl.damaged-1").read_bytes() == found
    assert waiting("show", "latest", "--verify").code == 0
    assert waiting("approve", "latest", "--resume").code == 0
    assert waiting.events().count("dispatch.start") == 3
    assert "journal.recovered" in waiting.events()


@pytest.mark.req("LY-35")
def test_recovering_what_is_whole_changes_nothing(waiting: Any) -> None:
    """Said in words and as JSON."""
    waiting("recover", "latest")  # the file of its lock is there from now on
    folder = waiting.folders[0]
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert b"nothing is damaged" in waiting("recover", "latest").stdout
    assert waiting("recover", "latest", "--json").json["findings"] == []
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.req("LY-35")
def test_an_emptied_journal_is_neither_a_new_run_nor_the_end_of_it(waiting: Any) -> None:
    """`: > journal.jsonl` and rm are both noticed; both are undone."""
    place = waiting.folders[0] / "journal.jsonl"
    for empty in (lambda: place.write_bytes(b""), place.unlink):
        empty()
        refused = waiting("resume", "latest")
        assert refused.code == 2
        assert waiting("recover", "latest", "--json").json["dropped"] == 0
    assert waiting("approve", "latest", "--resume").code == 0
    assert waiting.events().count("dispatch.start") == 3


@pytest.mark.req("LY-35")
def test_a_run_without_its_run_json_is_listed_as_what_it_is_and_comes_back(waiting: Any) -> None:
    """It does not vanish from the list in silence."""
    folder = waiting.folders[0]
    content = (folder / "run.json").read_bytes()
    (folder / "run.json").write_bytes(b"{")
    listed = waiting("runs")
    assert listed.code == 0
    assert f"interlock recover {folder.name}" in listed.stderr
    shown = waiting("show", folder.name)
    assert (shown.code, "is not readable" in shown.stderr) == (2, True)
    said = waiting("recover", folder.name, "--json").json
    assert "run.json" in said["mended"]
    assert (folder / "run.json").read_bytes() == content
    assert waiting("approve", "latest", "--resume").code == 0


@pytest.mark.req("LY-35")
def test_only_a_person_may_recover_and_only_when_nobody_works_on_the_run(waiting: Any) -> None:
    """Inside a dispatch it is refused; beside a living process it is exit 6."""
    cut(waiting)
    refused = waiting("recover", "latest", INTERLOCK_DISPATCH="plan/planner#1")
    assert (refused.code, "only a person" in refused.stderr) == (2, True)
    assert waiting("recover", "latest").code == 0
    waiting.scenario({"agent": "builder", "delay_s": 600})
    waiting("approve", "latest")
    working = waiting.start("resume", "latest")
    waiting.until(lambda: waiting.events().count("dispatch.running") == 3, "two agents work")
    locked = waiting("recover", "latest")
    assert locked.code == 6
    assert str(working.pid) in locked.stderr
    working.send(signal.SIGKILL)
    working.wait()


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("left", [b"", None], ids=["emptied", "removed"])
def test_whoever_follows_a_log_is_told_when_the_file_shrinks(tmp_path: Path, left: bytes | None) -> None:
    """It does not wait for ever for bytes that will not come."""
    place = tmp_path / "journal.jsonl"
    place.write_bytes(b"one\ntwo\nhal")
    assert fresh(place, 0) == [b"one", b"two"]
    assert fresh(place, 4) == [b"two"]
    assert fresh(place, 8) == []
    place.unlink()
    assert fresh(place, 0) == []
    if left is not None:
        place.write_bytes(left)
    with pytest.raises(JournalDamaged, match="shorter than it was"):
        fresh(place, 8)


@pytest.mark.req("LY-35", "CM-35")
def test_runs_are_listed_as_they_began_whatever_the_clock_says(workspace: Any) -> None:
    """A folder whose start lies in the future does not become the latest run."""
    workspace("run", "toy", "a", "--mode", "quick")
    first = workspace.folders[0]
    identity = json.loads((first / "run.json").read_bytes())
    assert identity["order"] == 1
    workspace("run", "toy", "b", "--mode", "quick")
    listed = [run["key"] for run in workspace("runs", "--json").json]
    assert listed == ["a", "b"]
    assert workspace("show", "latest", "--json").json["key"] == "b"
