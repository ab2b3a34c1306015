"""Accepted work whose commit is missing: a hook refused it, or the machine was lost. Nothing of it is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from interlock.documents import load_yaml
from interlock.engine import CommandResult, Status
from interlock.engine.simulated_repository import Committed
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, checks, graph, task
from interlock.testing import Trouble
from tests.playbooks.ticket.conftest import Bench
from tests.playbooks.ticket.place import Place, git
from tests.playbooks.ticket.test_real_runs import MAKE

WORK = "fix(ABC-12): fix the login error so that users can sign in"
BOTH = {
    "tasks": graph(task("T1"), task("T2")),
    "work": {name: [{"files": {f"src/{name.lower()}.txt": f"ok, {name} \n"}}] for name in ("T1", "T2")},
}
NO_BLANKS = "#!/bin/sh\nif git grep -n --cached ' $' -- src/t1.txt; then echo a blank at the end >&2; exit 1; fi\n"


def hook(place: Place, text: str) -> None:
    path = place.root / ".git/hooks/pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def refused(bench: Bench) -> None:
    """Play until the hook refuses; from then on it lets everything pass."""
    bench.git.befall(Trouble.HOOK)
    assert bench.play().exit_code == 3
    bench.git.troubles.clear()


def committed(bench: Bench) -> dict[str, bytes]:
    return bench.git.files


def builds(bench: Bench) -> int:
    assert bench.world is not None
    return sum(call.argv[-1] in ("make build", "make test") for call in bench.world.commands)


@pytest.mark.req("TK-153", "EN-46")
def test_what_was_mended_for_the_hook_is_built_tested_and_committed(bench: Bench) -> None:
    """The mended file is the task's work: nobody is called, build and tests run again, one commit has everything."""
    refused(bench)
    bench.put("src/t1.txt", "T1 done, mended\n")
    calls, before, accepted = len(bench.called), builds(bench), bench.task("T1")["files_sha256"]
    assert bench.play().status is Status.COMPLETE
    assert len(bench.called) == calls
    assert builds(bench) == before + 2
    assert bench.task("T1")["files_sha256"] != accepted
    assert (committed(bench)["src/t1.txt"], committed(bench)["src/t2.txt"]) == (b"T1 done, mended\n", b"T2 done\n")
    assert "- T1\n- T2\n" in bench.git.messages[0]
    assert [bench.task(name)["status"] for name in ("T1", "T2")] == ["ACCEPTED", "ACCEPTED"]
    assert bench.git.uncommitted() == {}


def test_a_mended_file_with_red_tests_is_worked_on_again(bench: Bench) -> None:
    """A person's change that breaks the build is not committed; the task is done again, and reviewed again."""
    refused(bench)
    bench.put("src/t1.txt", "broken\n")
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert bench.called[calls:] == ["task-executor-T1", "Reviewer"]
    assert committed(bench)["src/t1.txt"] == b"T1 done\n"
    assert bench.task("T1")["status"] == "ACCEPTED"


@pytest.mark.parametrize("tasks", [graph(task("T1"), task("T2")), graph(task("T1"))], ids=["reviewed", "short cut"])
def test_work_that_is_gone_before_its_commit_is_done_again(bench: Bench, tasks: str) -> None:
    """A file that is as committed holds nothing of the work: never a success without it."""
    bench.tasks = tasks
    refused(bench)
    bench.put("src/t1.txt", "one\n")
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert bench.called[calls] in ("task-executor-T1", "Developer-T1", "Developer")
    assert committed(bench)["src/t1.txt"] == b"T1 done\n"
    assert bench.git.uncommitted() == {}


def test_tests_that_turned_red_before_the_commit_lead_to_a_review(bench: Bench) -> None:
    """Whatever made them red is not committed unseen: the review rejects it, and a new plan follows."""
    refused(bench)
    red = [2]

    def tool(call: Any, files: Any) -> CommandResult:
        red[0] -= 1
        return CommandResult(1, stderr="red now") if red[0] >= 0 else checks(call, files)

    bench.tool = tool
    assert bench.play().status is Status.COMPLETE
    assert bench.decisions("verdict") == ["REJECTED", "ACCEPTED", "ACCEPTED"]
    assert len(bench.git.messages) == 2


def test_a_graph_with_tasks_left_is_never_only_committed(bench: Bench) -> None:
    """A task that the documents call pending is worked on, whatever they say of the iteration."""
    refused(bench)
    path = f"{HOME}/iteration_0/tasks.yaml"
    bench.put(path, bench.text(path).replace("status: ACCEPTED", "status: PENDING", 1))
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert bench.called[calls:] == ["task-executor-T1", "Reviewer"]


@pytest.mark.req("TK-22", "TK-23")
def test_without_branch_and_changes_the_work_is_done_again(bench: Bench) -> None:
    """The gate is passed again, the tasks are done again; one commit with all of it."""
    refused(bench)
    bench.git.branch = "main"
    del bench.git.branches[BRANCH]
    for path, text in (("src/t1.txt", "one\n"), ("src/t2.txt", "two\n")):
        bench.put(path, text)
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == bench.called.count("task-executor-T2") == 2
    assert committed(bench)["src/t2.txt"] == b"T2 done\n"


def test_work_that_the_gate_puts_away_is_done_again(bench: Bench) -> None:
    """Without its branch the accepted work is somebody's uncommitted change; stashed, it is not here any more."""
    refused(bench)
    bench.git.branch = "main"
    del bench.git.branches[BRANCH]
    assert bench.play(flags={"dirty": "stash"}).status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == bench.called.count("task-executor-T2") == 2
    assert committed(bench)["src/t1.txt"] == b"T1 done\n"


def test_work_that_came_to_the_base_by_hand_is_reviewed_once_more(bench: Bench) -> None:
    """Merged by a person who deleted the branch: the gate is passed again, no task is repeated."""
    refused(bench)
    git = bench.git
    done = {f"src/{name}.txt": bench.text(f"src/{name}.txt").encode() for name in ("t1", "t2")}
    git.commits["f" * 40] = Committed({**committed(bench), **done}, "by hand", (git.branches["main"],))
    git.branch, git.branches["main"] = "main", "f" * 40
    del git.branches[BRANCH]
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert bench.called[calls:] == ["Reviewer"]
    assert git.branch == BRANCH


@pytest.mark.req("TK-31")
def test_an_acceptance_without_its_commit_is_not_the_end(bench: Bench) -> None:
    """The machine is lost while the hook runs, and the journal with it: the next start makes the commit."""
    refused(bench)
    path = f"{HOME}/progress.yaml"
    bench.put(path, bench.text(path).replace("status: FAILED", "status: ACCEPTED", 1))
    calls = len(bench.called)
    close = bench.play()
    assert close.status is Status.COMPLETE
    assert str(close.output).startswith("SUCCESS")
    assert len(bench.called) == calls
    assert committed(bench)["src/t1.txt"] == b"T1 done\n"
    assert str(bench.play().output).startswith("ABC-12 is already done")


def test_an_acceptance_without_its_work_is_not_the_end(bench: Bench) -> None:
    """The same, and the work is lost, too: it is done again."""
    refused(bench)
    path = f"{HOME}/progress.yaml"
    bench.put(path, bench.text(path).replace("status: FAILED", "status: ACCEPTED", 1))
    bench.put("src/t2.txt", "two\n")
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("task-executor-T2") == 2
    assert committed(bench)["src/t2.txt"] == b"T2 done\n"


# -- in real repositories


@pytest.mark.long
@pytest.mark.req("TK-153", "EN-46")
def test_the_advice_of_a_refused_commit_leads_to_all_of_the_work(place: Place) -> None:
    """A real hook complains of one file; mended and resumed, both files are in the commit."""
    place.begin(MAKE)
    hook(place, NO_BLANKS)
    place.script = BOTH
    finished = place.run()
    assert finished.exit_code == 3
    assert "a blank at the end" in finished.reason
    (place.root / "src/t1.txt").write_text("ok, T1\n")
    resumed = place.resume()
    assert resumed.status is Status.COMPLETE, resumed
    at = place.git("log", "--format=%h", "--grep=^fix(ABC-12)")
    assert place.git("show", "--name-only", "--format=", at).splitlines() == [".gitignore", "src/t1.txt", "src/t2.txt"]
    assert place.git("show", f"{at}:src/t1.txt") == "ok, T1"
    assert place.git("status", "--porcelain") == ""
    assert [call[1] for call in place.calls].count("task-executor-T1") == 1


@pytest.mark.long
def test_what_a_person_mended_and_committed_by_hand_is_not_done_again(place: Place) -> None:
    """The ticket goes on behind the commit, once build and tests are green."""
    place.begin(MAKE)
    hook(place, NO_BLANKS)
    place.script = BOTH
    assert place.run().exit_code == 3
    (place.root / "src/t1.txt").write_text("ok, T1\n")
    place.git("commit", "-q", "-m", "by hand", "--", "src")
    calls = [call[1] for call in place.calls if call[0] != "Initializer"]
    resumed = place.resume()
    assert resumed.status is Status.COMPLETE, resumed
    assert [call[1] for call in place.calls if call[0] != "Initializer"] == calls
    assert place.git("show", f"{BRANCH}:src/t1.txt") == "ok, T1"
    assert place.git("status", "--porcelain", "--", "src") == ""


@pytest.mark.long
@pytest.mark.req("TK-31")
def test_the_machine_is_lost_while_the_hook_runs(place: Place) -> None:
    """The disk as it is in the middle of the commit, without `.interlock/`: run again, and the commit is there."""
    place.begin(MAKE)
    hook(place, "#!/bin/sh\ntest -d ../lost || cp -R . ../lost\n")
    place.script = BOTH
    assert place.run().status is Status.COMPLETE
    lost = Place(place.root.parent / "lost", BOTH)
    shutil.rmtree(lost.root / ".interlock")
    assert lost.git("log", "--format=%s") == "first"
    again = lost.run()
    assert again.status is Status.COMPLETE, again
    assert WORK in lost.git("log", "--format=%s").splitlines()
    assert lost.git("status", "--porcelain", "--", "src") == ""
    assert lost.run().exit_code == 0


@pytest.mark.long
@pytest.mark.req("TK-22", "TK-23", "TK-27")
def test_another_clone_after_a_refused_commit_does_the_work_again(place: Place, tmp_path: Path) -> None:
    """Neither branch nor changes came along, only `prompts/`: gate, tasks and review once more, one commit."""
    place.begin(MAKE)
    hook(place, NO_BLANKS)
    place.script = BOTH
    assert place.run().exit_code == 3
    git(tmp_path, "clone", "-q", "-b", "main", str(place.root), str(tmp_path / "elsewhere"))
    clone = Place(tmp_path / "elsewhere", BOTH)
    clone.git("remote", "remove", "origin")
    clone.git("config", "user.name", "A Person")
    clone.git("config", "user.email", "person@example.org")
    shutil.copytree(place.root / "prompts", clone.root / "prompts")
    finished = clone.run()
    assert finished.status is Status.COMPLETE, finished
    assert [call[1] for call in clone.calls].count("task-executor-T2") == 1
    assert clone.git("show", f"{BRANCH}:src/t2.txt") == "ok, T2"
    assert load_yaml(clone.text(f"{HOME}/progress.yaml"), "x")["iterations"][0]["status"] == "ACCEPTED"
