"""`task`, whole, by the real world: agents that do ordinary and hostile things, a person who goes on working."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.replay import Recorder
from interlock.errors import BadInput, Status
from interlock.workspace import delivery
from tests.whole.bench import ACCEPTS, Bench


@pytest.fixture(params=["auto", pytest.param("off", marks=pytest.mark.long)], ids=["confined", "copy"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(tmp_path / "project", mode=request.param)


@pytest.mark.req("TREE-03", "TREE-05")
def test_what_is_not_committed_survives_an_agent_that_takes_everything_back(bench: Bench) -> None:
    """stash, reset, clean and checkout take nothing of the person's, and nothing ignored leaves the layer."""
    bench.write("notes.txt", "one\nTWO, and unsaved\nthree\n")
    bench.write("new.txt", "untracked\n")
    bench.write("x.cache", "ignored\n")
    bench.act(
        "builder",
        """
        git stash -u -q; git reset -q --hard; git clean -qfdx; git checkout -q -- .
        rm -rf .venv x.cache; mkdir -p __pycache__; echo planted > __pycache__/lib.pyc
        sed -i 's/a - b/a + b/' lib.py
        git add -A; git -c user.name=A -c user.email=a@a commit -qm mine
        echo done
        """,
    )
    bench.act("reviewer", f"echo four >> notes.txt; {ACCEPTS}")
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    told = [one.kind.value for call in view.calls.values() for one in (call.report.remarks if call.report else ())]
    assert "by-product" in told and "changed unsaved work" not in told, "what a judge leaves is dropped, and no work"
    assert bench.read("notes.txt") == "one\nTWO, and unsaved\nthree\n"
    assert bench.read("new.txt") == "untracked\n"
    assert bench.read("x.cache") == "ignored\n"
    assert not (bench.top / "__pycache__").exists()
    assert "a + b" in bench.read("lib.py")
    assert bench.run_git("log", "--format=%s") == "first"


@pytest.mark.req("TREE-04", "TREE-02")
def test_a_person_who_edits_the_same_lines_meanwhile_keeps_theirs(bench: Bench) -> None:
    """Both changed one line: the person's version stands, and the agent makes its change again on it."""
    person = bench.top / "lib.py"
    bench.act("builder-1", "sed -i 's/a - b/a + b/' lib.py; echo done")
    bench.act("builder-2", "sed -i 's/a - b.*/a + b  # hers/' lib.py; echo again")
    bench.act("reviewer-1", ACCEPTS)
    edited = []

    def told(view, key):  # type: ignore[no-untyped-def]
        if "reviewer" in key and not edited:
            edited.append(True)
            person.write_text(person.read_text().replace("return a - b", "return a - b  # mine"))

    from interlock.app import Watcher

    view = bench.run(watcher=Watcher(told=told))
    assert view.status is Status.COMPLETE, view.why
    assert view.why == "Accepted in round 2"
    assert "return a + b  # hers" in bench.read("lib.py")


@pytest.mark.req("TREE-06", "RUN-05")
@pytest.mark.parametrize("moved", [pytest.param(0, marks=pytest.mark.long), 1, 9])
@pytest.mark.parametrize(("how", "back"), [("undo", "apply"), ("apply", "undo")])
def test_a_movement_of_work_that_died_half_way_happens_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, back: str, moved: int
) -> None:
    """It dies before a file, between two, or between the last one and the record: said again, it is brought to its
    end, and can be taken back whole."""
    bench = Bench(tmp_path / "project")
    bench.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo new > new.txt; echo done")
    bench.run()
    states = {"apply": _work_there(bench)}

    def again(what: Any) -> tuple[str, ...]:
        place = bench.place()
        return place.move(place.runs.find("latest"), what).paths

    again("undo")
    states["undo"] = _work_there(bench)
    if how == "undo":
        again("apply")
    with monkeypatch.context() as patch:
        move, left = delivery._move, [moved]

        def dies(*args: Any, **more: Any) -> None:
            if left[0] == 0:
                raise Died
            left[0] -= 1
            move(*args, **more)

        def mute(recorder: Recorder, key: str, event: Any, **more: Any) -> None:
            if event.e == "undone":
                raise Died
            add(recorder, key, event, **more)

        add = Recorder.add
        patch.setattr(delivery, "_move", dies)
        patch.setattr(Recorder, "add", mute)
        with pytest.raises(Died):
            again(how)
    for what in (how, back, how):
        assert again(what) == ("lib.py", "new.txt")
        assert _work_there(bench) == states[what]


class Died(BaseException):
    """This process, at that place."""


def _work_there(bench: Bench) -> tuple[str, bool]:
    return bench.read("lib.py"), (bench.top / "new.txt").exists()


@pytest.mark.req("TREE-12")
@pytest.mark.parametrize("mode", ["auto", pytest.param("off", marks=pytest.mark.long)])
def test_no_git_at_all(tmp_path: Path, mode: str) -> None:
    """A folder without a repository works the same."""
    bench = Bench(tmp_path / "plain", git=False, mode=mode)
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    assert "a + b" in bench.read("lib.py")


@pytest.mark.req("TS-09")
def test_a_commit_holds_the_work_alone(bench: Bench) -> None:
    """--commit: one commit of the run's work; what the person has not committed is not in it and stays staged."""
    bench.write("notes.txt", "unsaved\n")
    bench.write("staged.txt", "staged\n")
    bench.run_git("add", "staged.txt")
    view = bench.run(commit=True)
    assert view.status is Status.COMPLETE, view.why
    assert bench.run_git("show", "--format=%s", "--name-only", "HEAD").split("\n") == ["Make add right", "", "lib.py"]
    assert sorted(bench.run_git("status", "--porcelain").split("\n")) == ["A  staged.txt", "M notes.txt"] or sorted(
        bench.run_git("status", "--porcelain").split("\n")
    ) == [" M notes.txt", "A  staged.txt"]


@pytest.mark.req("TS-09", "TREE-15")
def test_work_that_needs_unsaved_lines_is_delivered_and_not_committed(bench: Bench) -> None:
    """The commit would be red without what the person has not committed: told, exit 1."""
    bench.write("check.sh", "grep -q 'a + b' ./*.py && grep -q needed notes.txt\n")
    bench.commit("check")
    bench.write("notes.txt", "needed\n")
    view = bench.run(commit=True)
    assert view.status is Status.DEGRADED, view.why
    assert "not committed" in view.why
    assert "a + b" in bench.read("lib.py")
    assert bench.run_git("log", "--format=%s") == "check\nfirst"


@pytest.mark.req("TS-10")
def test_a_new_branch_gets_the_work_in_place_of_the_tree(bench: Bench) -> None:
    """--branch: a commit on a branch that is not checked out; the tree is as it was."""
    before = bench.read("lib.py")
    view = bench.run(branch="mended")
    assert view.status is Status.COMPLETE, view.why
    assert bench.read("lib.py") == before
    assert "a + b" in bench.run_git("show", "mended:lib.py")
    assert bench.run_git("branch", "--show-current") == "main"


@pytest.mark.req("TS-09", "TS-10", "RUN-11")
@pytest.mark.parametrize(
    ("before", "inputs", "words"),
    [
        ("true", {"branch": "main"}, "already"),
        ("git rev-parse HEAD > .git/MERGE_HEAD", {"commit": True}, "in the middle"),
        ("git checkout -q --detach", {"commit": True}, "no branch"),
        ("git config --remove-section user; git config user.useConfigOnly true", {"commit": True}, "who you are"),
    ],
)
def test_what_cannot_be_committed_is_found_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, inputs: dict[str, object], words: str
) -> None:
    """A branch that exists, a merge in progress, nobody's name: bad input, and no run is left behind."""
    bench = Bench(tmp_path / "p")
    subprocess.run(before, shell=True, cwd=bench.top, check=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "EMAIL"))]:
        monkeypatch.delenv(name)
    with pytest.raises(BadInput, match=words):
        bench.run(**inputs)
    assert bench.place().runs.all() == []


@pytest.mark.req("TS-09")
def test_a_commit_hook_that_refuses_goes_back_like_a_check(bench: Bench) -> None:
    """The hook runs in a layer, on the tree to be committed; what it calls in the agent's edit never runs outside."""
    bench.write("helper.sh", "exit 0\n")
    bench.commit("helper")
    escaped = bench.top.parent / "escaped"
    hook = bench.top / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ngit diff --cached lib.py | grep -q TODO && { echo 'no TODO'; exit 1; }\nsh helper.sh\n")
    hook.chmod(0o755)
    evil = f"touch {escaped}; exit 0"
    bench.act("builder-1", f"sed -i 's/a - b/a + b  # TODO/' lib.py; echo '{evil}' > helper.sh; echo x")
    bench.act("builder-2", "sed -i 's/  # TODO//' lib.py; echo again")
    view = bench.run(commit=True)
    assert (view.status, view.why[:19]) == (Status.COMPLETE, "Accepted in round 2"), view.why
    assert "TODO" not in bench.run_git("show", "HEAD:lib.py")
    assert not bench.place().layers.maker().confined or not escaped.exists()


@pytest.mark.req("RUN-08", "TREE-14")
def test_a_stopped_run_goes_on_from_its_refused_work(bench: Bench) -> None:
    """resume --note: the last round is done again, with the words, and nothing else is paid for."""
    bench.act("builder", "echo '# tried' >> lib.py; echo tried")
    bench.run(rounds=1)
    bench.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo mended")
    view = bench.resume(said="just change the sign")
    assert view.status is Status.COMPLETE, view.why
    text = bench.read("lib.py")
    assert "a + b" in text
    assert text.count("# tried") == 1
    folder = bench.top / ".interlock" / "runs" / view.run / "dispatches" / "round-1" / "builder#1"
    assert "just change the sign" in (folder / "brief.md").read_text()


@pytest.mark.req("TREE-15", "TREE-14")
def test_a_branch_switched_in_the_middle_is_left_alone(bench: Bench) -> None:
    """The work waits; back on its branch a person's word delivers it."""
    from interlock.app import Watcher

    bench.run_git("branch", "other")
    switched = []

    def told(view, key):  # type: ignore[no-untyped-def]
        if "reviewer" in key and not switched:
            switched.append(True)
            bench.run_git("switch", "-q", "other")

    view = bench.run(watcher=Watcher(told=told))
    assert (view.status, view.ended.exit) == (Status.DEGRADED, 1), view.why
    assert "a - b" in bench.read("lib.py")
    bench.run_git("switch", "-q", "main")
    place = bench.place()
    place.move(place.runs.find("latest"), "apply")
    assert "a + b" in bench.read("lib.py")


@pytest.mark.req("RUN-17")
def test_two_runs_at_once_leave_each_others_work_alone(bench: Bench) -> None:
    """Two requests side by side in one workspace: both are delivered."""
    bench.act(
        "builder",
        """
        sed -i 's/a - b/a + b/' lib.py; echo "$INTERLOCK_RUN_ID" > "by-$INTERLOCK_RUN_ID.txt"; echo done
    """,
    )

    async def both() -> None:
        await asyncio.gather(bench.start("Make add right"), bench.start("Make add right, too"))

    asyncio.run(both())
    views = [entry.view() for entry in bench.place().runs.all()]
    assert [view.status for view in views] == [Status.COMPLETE] * 2, [view.why for view in views]
    assert len(list(bench.top.glob("by-*.txt"))) == 2


@pytest.mark.req("RUN-11", "TS-02")
@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"request": "  "}, "empty"),
        ({"check": ("none",), "review": False}, "nothing would judge"),
        ({"check": ("no-such-program --x",)}, "cannot be run"),
        ({"expect_red": True, "check": ("true",)}, "green before"),
    ],
)
def test_what_is_wrong_is_found_before_the_first_agent(tmp_path: Path, inputs: dict[str, object], words: str) -> None:
    """Bad input: nothing is paid, and no run is left behind."""
    bench = Bench(tmp_path / "p")
    with pytest.raises(BadInput, match=words):
        bench.run(**inputs)
    assert bench.place().runs.all() == []
    assert not list((bench.top / ".interlock" / "layers").glob("*/builder"))


@pytest.mark.req("TS-04")
def test_each_round_goes_on_from_the_one_before_with_what_spoke_against_it(tmp_path: Path) -> None:
    """Files are the answer, wherever they lie; three rounds at most."""
    bench = Bench(tmp_path / "project", mode="off")
    bench.act("builder-1", "mkdir -p deep/er; echo one > deep/er/new.txt")
    bench.act("builder-2", "echo two >> deep/er/new.txt; echo ''")
    bench.act("builder-3", "test $(wc -l < deep/er/new.txt) = 2 && sed -i 's/a - b/a + b/' lib.py")
    view = bench.run()
    assert (view.why, bench.calls(view)) == ("Accepted in round 3", ["builder:1"] * 3 + ["reviewer:1"])
    assert bench.read("deep/er/new.txt") == "one\ntwo\n" and "a + b" in bench.read("lib.py")
    briefs = [bench.read(f".interlock/runs/{view.run}/dispatches/round-{n}/builder#1/brief.md") for n in (1, 2, 3)]
    assert ["`sh check.sh` is still red" in brief for brief in briefs] == [False, True, True]


@pytest.mark.req("TS-04", "EVID-00", "TREE-03")
@pytest.mark.parametrize(
    ("form", "why", "there"),
    [
        (None, "Accepted in round 1", True),
        ('{"status": "nonsense"}', "Accepted in round 1", True),
        ('{"status": "done", "takes_back": ["mine.txt"]}', "Accepted in round 1", False),
        ('{"status": "blocked", "summary": "no key"}', "blocked: no key", True),
        ('{"status": "blocked"}', "blocked: the agent does not say why", True),
    ],
    ids=["none", "broken", "takes back", "blocked", "blocked, no word"],
)
def test_the_builders_form_is_optional_and_says_what_files_cannot(
    form: str | None, why: str, there: bool, tmp_path: Path
) -> None:
    bench = Bench(tmp_path / "project", mode="off")
    bench.write("mine.txt", "not committed\n")
    said = "" if form is None else f"echo '```json'; echo '{form}'; echo '```'"
    bench.act("builder", f"rm mine.txt; sed -i 's/a - b/a + b/' lib.py; {said}")
    view = bench.run()
    assert (view.why, (bench.top / "mine.txt").exists()) == (why, there)
    assert ("a + b" in bench.read("lib.py")) is (view.status is Status.COMPLETE)
