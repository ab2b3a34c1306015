"""`task`, whole, by the real world: agents that do ordinary and hostile things, a person who goes on working."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import Status
from tests.whole.bench import ACCEPTS, Bench


@pytest.fixture(params=["auto", "off"], ids=["confined", "copy"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(tmp_path / "project", mode=request.param)


@pytest.mark.req("TS-08", "TREE-14", "EVID-06")
def test_a_red_check_is_mended_and_the_work_delivered(bench: Bench) -> None:
    """Red before, green after, accepted: the work is in the tree, and the pair is called mended."""
    view = bench.run()
    assert (view.status, view.why) == (Status.COMPLETE, "Accepted in round 1")
    assert "a + b" in bench.read("lib.py")
    assert [pair.proved.word for pair in view.pairs.values() if pair.proved] == ["mended"]
    assert bench.run_git("status", "--porcelain") == "M lib.py"


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
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    assert bench.read("notes.txt") == "one\nTWO, and unsaved\nthree\n"
    assert bench.read("new.txt") == "untracked\n"
    assert bench.read("x.cache") == "ignored\n"
    assert not (bench.top / "__pycache__").exists()
    assert "a + b" in bench.read("lib.py")
    assert bench.run_git("log", "--format=%s") == "first"


@pytest.mark.req("TREE-14", "TS-05")
def test_what_stays_red_is_not_accepted_and_not_delivered(bench: Bench) -> None:
    """Three rounds that mend nothing end with 3; no reviewer is paid, and the tree is as it was."""
    bench.act("builder", "echo '# tried' >> lib.py; echo tried")
    before = bench.read("lib.py")
    view = bench.run()
    assert view.status is Status.STOPPED
    assert bench.calls(view) == ["builder:1"] * 3
    assert bench.read("lib.py") == before
    assert view.pending is not None
    assert view.pending.base != view.pending.work


@pytest.mark.req("EVID-04", "EVID-03")
def test_a_judge_that_lies_about_a_command_is_refuted(bench: Bench) -> None:
    """A green that is red when it is run again is asked about once, then it counts against the work."""
    bench.act(
        "reviewer",
        """
        cat <<'END'
        ```json
        {"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}],
         "checks": [{"command": "grep -q nothing lib.py", "result": "green"}]}
        ```
        END
        """,
    )
    view = bench.run(rounds=1)
    assert view.status is Status.STOPPED
    assert "a - b" in bench.read("lib.py")
    judged = next(call for call in view.calls.values() if call.agent == "reviewer")
    assert judged.calls == 2
    assert judged.report is not None
    assert [check.word for check in judged.report.checks] == ["refuted"]


@pytest.mark.req("TREE-08", "TREE-12")
def test_files_that_steer_tools_are_held_back(bench: Bench) -> None:
    """An edited interlock.toml and a planted hook stay out of the tree; the rest is delivered."""
    settings = bench.read("interlock.toml")
    bench.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo '# x' >> interlock.toml; mkdir -p .husky; echo evil > .husky/pre-commit; echo done")
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    assert bench.read("interlock.toml") == settings
    assert not (bench.top / ".husky").exists()
    held = [path for remark in view.remarks if remark.kind == "held back" for path in remark.paths]
    assert held == [".husky/pre-commit", "interlock.toml"]


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


@pytest.mark.req("EVID-08", "TS-07")
def test_nothing_to_do_is_a_success_of_its_own(bench: Bench) -> None:
    """A builder that changes nothing and names the check that shows it is judged, and accepted."""
    bench.write("lib.py", "def add(a, b):\n    return a + b\n")
    bench.act("builder", """
        cat <<'END'
        ```json
        {"status": "done", "already_so": ["sh check.sh"]}
        ```
        END
    """)
    view = bench.run()
    assert view.status is Status.COMPLETE, view.why
    assert not [one for one in view.delivered if one.state == "done"]


def test_undo_takes_a_run_back_and_apply_brings_it_again(bench: Bench) -> None:
    """What was delivered is taken out hunk by hunk; what a person wrote since stays."""
    import asyncio

    bench.run()
    person = bench.read("lib.py").replace("'x'", "'mine'")
    bench.write("lib.py", person)
    place = bench.place()
    undone = asyncio.run(place.undo(place.runs.find("latest")))
    assert undone.paths == ("lib.py",)
    assert bench.read("lib.py") == person.replace("a + b", "a - b")
    place = bench.place()
    asyncio.run(place.apply(place.runs.find("latest")))
    assert bench.read("lib.py") == person


@pytest.mark.req("TREE-12")
@pytest.mark.parametrize("mode", ["auto", "off"])
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
