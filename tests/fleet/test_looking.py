"""Runs of the remote are looked at from any clone: copies, renewed where their ref moved, verified, in nobody's way."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.fleet.arriving import exchange
from tests.cli.conftest import Workspace
from tests.fleet.conftest import Office, git, run_of, until
from tests.fleet.test_moving import finishes, waiting_run
from tests.proofs import long

BROKEN = {"blob-1", "stolen-1", "branch-1", "broken-1"}
LOOKING = ("show", "logs", "watch", "report", "why", "diff")


def with_fleet(clone: Workspace) -> Workspace:
    """A clone that knows of a fleet."""
    clone.env["INTERLOCK_FLEET_REMOTE"] = "origin"
    return clone


def attic(clone: Workspace) -> list[Path]:
    return list((clone.root / ".interlock" / "attic").glob("runs-before/**/run.json"))


def copied(clone: Workspace, run: str) -> dict[str, object]:
    """What a copy says of itself."""
    found = json.loads((clone.root / ".interlock" / "runs" / run / "elsewhere.json").read_bytes())
    assert isinstance(found, dict)
    return found


@pytest.mark.req("WK-03")
@pytest.mark.parametrize("how", ["git", *long("path", "ssh")])
def test_a_run_that_was_never_here_is_looked_at(
    office: Office, serve: Callable[[Office, str], None], how: str, tmp_path: Path
) -> None:
    """Each command that looks finds it on the remote; the tree, the branches and the run's holder notice nothing."""
    serve(office, how)
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    for clone in (laptop, desk) if how == "ssh" else ():
        clone.env |= {"GIT_SSH_COMMAND": str(tmp_path / "ssh"), "GIT_SSH_VARIANT": "simple"}
    (laptop.root / "code.txt").write_text("not committed\n", "utf-8")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    before, refs = git(desk.root, "for-each-ref"), office.refs()
    shown = desk("show", run[:-2])
    assert shown.code == 0, shown.stderr
    assert "where: it waits to be taken, as" in shown.stdout.decode()
    codes = {name: desk(name, run).code for name in LOOKING}
    assert codes == {**dict.fromkeys(LOOKING, 0), "watch": 4}, "one that waits has the exit code of one that waits"
    assert git(desk.root, "status", "--porcelain") == ""
    assert (git(desk.root, "for-each-ref"), office.refs()) == (before, refs)
    assert desk("show", "nobody").code == 2
    assert desk("runs", "--json").json[0]["run_id"] == run


@pytest.mark.req("WK-03")
def test_a_copy_is_renewed_and_leaves_nothing_behind(office: Office) -> None:
    """What is done elsewhere is seen at the next look, from where the run was sent too; the attic keeps no copies."""
    laptop, other, desk = office.clone("laptop"), office.clone("other"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert desk("show", run, "--json").json["status"] == "waiting"
    first = copied(desk, run)["commit"]
    assert desk("show", run).code == 0
    assert other("take", run).code == 0
    held = desk("show", run, "--json").json
    assert (held["status"], held["elsewhere"]["held"]) == ("running", True)
    assert "(other) has it" in held["how"]
    finishes(other, run)
    assert other("send", run).code == 0
    for clone in (desk, laptop):
        seen = clone("show", run, "--json").json
        assert (seen["status"], seen["totals"]["dispatches"]) == ("complete", 3)
        assert clone("show", run, "--verify").code == 0
        assert clone("diff", run, "--stat").stdout == other("diff", run, "--stat").stdout
    assert copied(desk, run)["commit"] != first
    assert attic(desk) == []
    assert len(attic(laptop)) == 1, "what stayed behind when it was sent"
    assert "interlock fetch" in desk("watch", run).stderr


@pytest.mark.req("WK-04")
def test_a_run_that_was_looked_at_is_fetched_and_taken(office: Office) -> None:
    """A copy is in nobody's way: branch and documents come with `fetch`, the run itself with `take`."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert desk("show", run).code == 0
    assert not (desk.root / "plan.md").exists()
    fetched = desk("fetch", run)
    assert fetched.code == 0, fetched.stderr
    assert git(desk.root, "show", f"interlock/{run}:plan.md") != ""
    taken = desk("take", run)
    assert taken.code == 0, taken.stderr
    finishes(desk, run)
    assert attic(desk) == []


@pytest.mark.req("WK-03")
def test_a_run_that_is_here_is_never_touched(office: Office) -> None:
    """Whoever took a run works on it; a look at all runs of the remote passes it over, whatever the remote says."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert desk("take", run).code == 0
    assert laptop("take", run, "--take-over").code == 0
    before = {path: path.read_bytes() for path in desk.folders[0].rglob("*") if path.is_file()}
    assert desk("show", run).code == 0
    assert {path: path.read_bytes() for path in desk.folders[0].rglob("*") if path.is_file()} == before


@pytest.mark.req("WK-03")
def test_a_copy_with_lines_of_its_own_stays_and_that_is_said(office: Office) -> None:
    """Lines that only this place has are nobody's to overwrite: the look says so, and shows what is here."""
    laptop, other = with_fleet(office.clone("laptop")), office.clone("other")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    journal = laptop.folders[0] / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b"gate", b"GATE"))
    assert other("take", run).code == 0
    before = journal.read_bytes()
    shown = laptop("logs", run)
    assert "has lines that the remote has not" in shown.stderr
    assert journal.read_bytes() == before


@pytest.mark.req("WK-03")
def test_what_is_damaged_or_forged_is_said_and_the_others_are_shown(office: Office) -> None:
    """A ref to a blob, to another run, to a branch, to nothing: each by its name; the others are seen all the same."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    tip = office.refs()[f"refs/interlock/{run}/state"]
    by = "a <a@example.org> 1 +0000"
    objects = {
        "blob-1": ("blob", "no run"),
        "broken-1": ("commit", f"tree {'1' * 40}\nauthor {by}\ncommitter {by}\n\n"),
    }
    for name, (kind, text) in objects.items():
        words = ["git", "hash-object", "-t", kind, "-w", "--stdin"]
        made = subprocess.run(words, cwd=office.bare, input=text.encode(), check=True, capture_output=True)
        git(office.bare, "update-ref", f"refs/interlock/{name}/state", made.stdout.decode().strip())
    git(office.bare, "update-ref", "refs/interlock/stolen-1/state", tip)
    git(office.bare, "update-ref", "refs/interlock/branch-1/state", git(office.bare, "rev-parse", "main"))
    listed = {one["run_id"]: one for one in desk("runs", "--fleet", "--json").json}
    assert listed[run]["status"] == "waiting"
    assert {name for name, one in listed.items() if one["status"] == "damaged"} == BROKEN
    assert desk("show", "broken-1").code == 2
    shown = desk("show", "stolen-1")
    assert shown.code == 2
    assert "another run" in shown.stderr
    assert desk("show", "blob-1").code == 2
    assert desk("show", run).code == 0
    assert desk("runs", "--fleet").code == 0, "where only what is broken is left to be fetched"
    assert [folder.name for folder in desk.folders] == [run]


@pytest.mark.req("WK-03")
def test_the_runs_of_the_remote_are_listed_with_who_has_them(office: Office) -> None:
    """From a clone that has none of them, and without bringing them: the list is what their claims say."""
    laptop, other, desk = office.clone("laptop"), office.clone("other"), office.clone("desk")
    assert desk("runs", "--fleet").code == 0
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    (one,) = desk("runs", "--fleet", "--json").json
    assert (one["run_id"], one["playbook"], one["key"], one["status"]) == (run, "toy", "word", "waiting")
    assert (one["held"], one["now"]) == (False, "waits for a person")
    assert other("take", run).code == 0
    row = desk("runs", "--fleet").stdout.decode()
    assert run in row
    assert "(other) has it" in row
    assert desk("runs", "--fleet", "--status", "complete", "--json").json == []
    finishes(other, run)
    assert other("send", run).code == 0
    (one,) = desk("runs", "--fleet", "--status", "complete", "--json").json
    assert one["held"] is False
    assert desk.folders == []


@pytest.mark.req("WK-03")
def test_a_remote_that_is_away_is_said_and_what_was_seen_is_shown(office: Office) -> None:
    """What is here is old, and is said to be; a run that was never seen here cannot be shown."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert desk("show", run).code == 0
    away = office.bare.with_name("away.git")
    office.bare.rename(away)
    shown = desk("show", run)
    assert shown.code == 0
    assert f"Run {run} is shown as it was last seen here: the remote origin cannot be reached" in shown.stderr
    refused = desk("show", "other-run")
    assert refused.code == 2
    assert "the remote origin cannot be reached" in refused.stderr
    assert desk("runs", "--fleet").code == 5
    away.rename(office.bare)
    assert "last seen" not in desk("show", run).stderr


@pytest.mark.req("WK-03")
def test_logs_and_watch_follow_a_run_that_is_worked_on_elsewhere(office: Office) -> None:
    """They renew what they show while it goes on; each ends when the run does."""
    laptop, other, desk = office.clone("laptop"), office.clone("other"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert other("take", run).code == 0
    logs, watch = desk.start("logs", run, "--follow", "--json"), desk.start("watch", run)
    until(lambda: "gate.opened" in logs.seen and "ship" in watch.seen, "both show what there is")
    finishes(other, run)
    assert other("send", run).code == 0
    followed, watched = logs.wait(), watch.wait()
    assert (followed.code, watched.code) == (0, 0)
    assert followed.stdout == (other.folders[0] / "journal.jsonl").read_bytes()
    assert f"interlock fetch {run}" in watched.stderr


@pytest.mark.req("WK-03")
def test_a_copy_of_somebody_elses_run_is_meant_only_by_its_name(office: Office) -> None:
    """The latest run is the latest of this place; the same playbook and key starts here as ever."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    for word in ("first", "second"):
        assert laptop("run", "toy", word).code == 4
        assert laptop("cancel", "latest").code == 0
    assert laptop("run", "toy", "word").code == 4
    theirs = laptop.folders[-1].name
    assert laptop("send", theirs).code == 0
    assert desk("run", "toy", "mine", "--mode", "question").code == 4
    own = run_of(desk)
    assert desk("show", theirs).code == 0
    assert desk("show", "--json").json["run_id"] == own
    answered = desk("answer", "blue")
    assert answered.code == 0, "the only one that waits here"
    assert desk("run", "toy", "word").code == 4
    assert len(desk.folders) == 3


@pytest.mark.req("WK-03")
def test_a_gate_is_shown_with_the_documents_that_the_run_has(office: Office) -> None:
    """What lies in this clone under the same name is somebody else's: neither shown nor compared."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    plan = (laptop.root / "plan.md").read_text("utf-8").strip()
    assert laptop("send", run).code == 0
    (desk.root / "plan.md").write_text("Something quite different.\n", "utf-8")
    shown = desk("show", run).stdout.decode()
    assert plan in shown
    assert "quite different" not in shown
    assert f"interlock approve {run}\n" in shown, "a worker goes on by itself"
    assert desk("show", run, "--json").json["gate"]["opening"] == 1


def test_what_a_killed_process_had_unpacked_goes_with_the_next_look(
    office: Office, killing: Callable[[str, str], str]
) -> None:
    """Killed in the middle of it, nothing stands among the runs; the next look clears up, and brings the run."""
    laptop, desk = office.clone("laptop"), with_fleet(office.clone("desk"))
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    left = desk.root / ".interlock" / "arriving" / "0123456789abcdef" / ".interlock" / "runs" / run
    left.mkdir(parents=True)
    (left / "run.json").write_text("{}", "utf-8")
    assert desk("show", run, PATH=killing("fetch", "after")).code == -9
    assert desk.folders == []
    assert desk("show", run).code == 0
    assert not (desk.root / ".interlock" / "arriving").exists()


def test_two_folders_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where the system can; else one after the other."""
    import ctypes

    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    exchange(one, other)
    assert ((one / "other").exists(), (other / "one").exists()) == (True, True)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    exchange(one, other)
    assert ((one / "one").exists(), (other / "other").exists()) == (True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]
    shutil.rmtree(one)
