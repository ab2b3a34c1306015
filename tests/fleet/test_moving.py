"""A run moves from one clone to another, with nothing but git between them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Workspace
from tests.fleet.conftest import Office, files, git, run_of, until
from tests.proofs import long


def waiting_run(clone: Workspace) -> str:
    """A run that waits at its gate."""
    assert clone("run", "toy", "word").code == 4
    return run_of(clone)


def finishes(clone: Workspace, run: str) -> None:
    """It goes on to its end here, and whatever was finished elsewhere is not done again."""
    approved = clone("approve", run, "--resume")
    assert approved.code == 0, approved.stderr
    starts = [line["key"] for line in clone.journal() if line["event"] == "dispatch.start"]
    assert sorted(starts) == ["build/builder#1", "build/tester#1", "plan/planner#1"]


@pytest.mark.req("WK-02")
@pytest.mark.req("WK-10")
@pytest.mark.parametrize("how", ["git", *long("path", "file", "ssh")])
def test_a_run_goes_on_in_another_clone(
    office: Office, serve: Callable[[Office, str], None], how: str, tmp_path: Path
) -> None:
    """Its uncommitted tree and its records arrive whole; the place it left refuses, and says where it is."""
    serve(office, how)
    laptop, other = office.clone("laptop"), office.clone("other")
    for clone in (laptop, other) if how == "ssh" else ():
        clone.env |= {"GIT_SSH_COMMAND": str(tmp_path / "ssh"), "GIT_SSH_VARIANT": "simple"}
    (laptop.root / "code.txt").write_text("changed, and not committed\n", "utf-8")
    (laptop.root / "new.txt").write_text("never added\n", "utf-8")
    before = office.refs()
    run = waiting_run(laptop)

    sent = laptop("send", run)
    assert sent.code == 0, sent.stderr
    assert {ref for ref in office.refs() if ref not in before} == {f"refs/interlock/{run}/state"}
    refused = laptop("resume", run)
    assert refused.code == 2
    assert f"run {run} is not here any more: it waits on origin" in refused.stderr
    assert f"interlock take {run}" in refused.stderr
    assert laptop("approve", run).code == 2
    assert laptop("cancel", run).code == 2
    assert laptop("run", "toy", "word").code == 2

    taken = other("take", run)
    assert taken.code == 0, taken.stderr
    assert files(other.root) == files(laptop.root)
    finishes(other, run)
    assert not (laptop.root / "built.txt").exists()
    assert {ref: name for ref, name in office.refs().items() if ref in before} == before


@pytest.mark.req("WK-10")
def test_a_run_comes_back_with_what_was_done_meanwhile(office: Office) -> None:
    """There and back: what was sent from here is nobody's new work, so what was done to it elsewhere is written."""
    laptop, other = office.clone("laptop"), office.clone("other")
    (laptop.root / "code.txt").write_text("not committed\n", "utf-8")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert other("take", run).code == 0
    (other.root / "code.txt").write_text("mended elsewhere\n", "utf-8")
    (other.root / "plan.md").unlink()
    assert other("send", run).code == 0
    back = laptop("take", run)
    assert back.code == 0, back.stderr
    assert (laptop.root / "code.txt").read_text("utf-8") == "mended elsewhere\n"
    assert not (laptop.root / "plan.md").exists()
    assert other("resume", run).code == 2
    assert laptop("resume", run).code == 4


@pytest.mark.req("WK-10")
def test_commits_that_nobody_pushed_travel_and_no_branch_is_moved(office: Office) -> None:
    """HEAD is at the run's commit afterwards, on a branch of its own where another one has the name."""
    laptop, other = office.clone("laptop"), office.clone("other")
    (laptop.root / "code.txt").write_text("second\n", "utf-8")
    git(laptop.root, "commit", "--quiet", "--all", "--message", "second, here only")
    run = waiting_run(laptop)
    main = git(other.root, "rev-parse", "main")
    assert laptop("send", run).code == 0
    taken = other("take", run)
    assert taken.code == 0, taken.stderr
    assert git(other.root, "symbolic-ref", "--short", "HEAD") == f"interlock/{run}"
    assert git(other.root, "rev-parse", "HEAD") == git(laptop.root, "rev-parse", "HEAD")
    assert git(other.root, "rev-parse", "main") == main == git(office.bare, "rev-parse", "main")
    assert git(other.root, "status", "--porcelain") == git(laptop.root, "status", "--porcelain")
    finishes(other, run)


@pytest.mark.req("WK-10")
def test_a_run_whose_process_was_killed_moves_too(office: Office) -> None:
    """What was recorded counts elsewhere; the agent that was cut off is called anew there."""
    laptop, other = office.clone("laptop"), office.clone("other")
    laptop.scenario({"agent": "tester", "misbehave": "hang"})
    git(laptop.root, "commit", "--quiet", "--all", "--message", "tester hangs")
    run = waiting_run(laptop)
    process = laptop.start("approve", run, "--resume")
    laptop.until(lambda: laptop.events().count("dispatch.end") == 2, "planner and builder have ended")
    busy = laptop("send", run)
    assert busy.code == 6
    assert "is locked by process" in busy.stderr
    process.send(signal.SIGKILL)
    process.wait()
    until(lambda: laptop("send", run).code == 0, "it is sent")
    taken = other("take", run)
    assert taken.code == 0, taken.stderr
    other.scenario()
    resumed = other("resume", run)
    assert resumed.code == 0, resumed.stderr
    ends = [line["key"] for line in other.journal() if line["event"] == "dispatch.end"]
    assert sorted(ends) == ["build/builder#1", "build/tester#1", "plan/planner#1"]


@pytest.mark.req("WK-10")
def test_of_two_who_take_at_once_one_has_it(office: Office) -> None:
    """The same second, the same tree: a claim is never the same commit as another, so one push is refused."""
    laptop = office.clone("laptop")
    others = [office.clone(f"other-{number}") for number in range(3)]
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    answers = [process.wait() for process in [other.start("take", run) for other in others]]
    assert sorted(answer.code for answer in answers) == [0, 2, 2]
    for other, answer in zip(others, answers, strict=True):
        if answer.code:
            assert "took run" in answer.stderr or "is not free" in answer.stderr
            assert other.folders == []
            assert git(other.root, "status", "--porcelain") == ""
        else:
            finishes(other, run)


@pytest.mark.req("WK-11")
def test_who_was_taken_over_from_is_fenced(office: Office) -> None:
    """A person's word takes a run from somebody who has it; that one then changes nothing, here and there."""
    laptop, other, third = office.clone("laptop"), office.clone("other"), office.clone("third")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert other("take", run).code == 0
    refused = third("take", run)
    assert refused.code == 2
    assert "(other) has it since" in refused.stderr
    assert "--take-over" in refused.stderr
    assert third("take", run, "--take-over").code == 0
    before = office.refs()
    for words in (("approve", run, "--resume"), ("resume", run), ("send", run)):
        fenced = other(*words)
        assert fenced.code == 2
        assert f"run {run} is not here any more" in fenced.stderr
        assert "(third) has it" in fenced.stderr
    assert office.refs() == before
    finishes(third, run)


@pytest.mark.req("WK-10")
@pytest.mark.long
@pytest.mark.parametrize(
    ("who", "command", "when"),
    [
        ("sender", "push", "before"),
        ("sender", "push", "after"),
        ("taker", "fetch", "after"),
        ("taker", "push", "before"),
        ("taker", "push", "after"),
        ("taker", "symbolic-ref", "after"),
        ("taker", "checkout-index", "before"),
        ("taker", "checkout-index", "after"),
    ],
)
def test_whoever_is_killed_on_the_way_does_it_again(
    office: Office, killing: Callable[[str, str], str], who: str, command: str, when: str
) -> None:
    """Killed at any point, the run is in one place, whole, and what was asked for can be asked for again."""
    laptop, other = office.clone("laptop"), office.clone("other")
    (laptop.root / "code.txt").write_text("second\n", "utf-8")
    git(laptop.root, "commit", "--quiet", "--all", "--message", "second, here only")
    (laptop.root / "code.txt").write_text("third, not committed\n", "utf-8")
    run = waiting_run(laptop)
    if who == "sender":
        assert laptop("send", run, PATH=killing(command, when)).code == -9
        assert laptop("resume", run).code == 2
    assert laptop("send", run).code == 0
    if who == "taker":
        assert other("take", run, PATH=killing(command, when)).code == -9
    taken = other("take", run)
    assert taken.code == 0, taken.stderr
    assert files(other.root) == files(laptop.root)
    assert git(other.root, "status", "--porcelain") == git(laptop.root, "status", "--porcelain")
    finishes(other, run)


@pytest.mark.req("WK-10")
@pytest.mark.parametrize("when", ["before", *long("after")])
def test_a_run_that_was_never_sent_for_good_can_be_kept(
    office: Office, killing: Callable[[str, str], str], when: str
) -> None:
    """Who was killed while sending takes the run back, whether the push had happened or not."""
    laptop = office.clone("laptop")
    run = waiting_run(laptop)
    assert laptop("send", run, PATH=killing("push", when)).code == -9
    back = laptop("take", run)
    assert back.code == 0, back.stderr
    finishes(laptop, run)


@pytest.mark.req("WK-04")
def test_a_run_is_fetched_to_be_looked_at(office: Office) -> None:
    """Branch, documents and folder come here; HEAD, the tree's other files and the remote's branches stay."""
    laptop, desk = office.clone("laptop"), office.clone("desk")
    (laptop.root / "code.txt").write_text("second\n", "utf-8")
    git(laptop.root, "commit", "--quiet", "--all", "--message", "second, here only")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert desk("fetch", run).code == 0
    assert desk("show", run).code == 0
    refused = desk("resume", run)
    assert refused.code == 2
    assert f"interlock take {run}" in refused.stderr
    assert laptop("take", run).code == 0
    finishes(laptop, run)
    heads = {ref: name for ref, name in office.refs().items() if ref.startswith("refs/heads/")}
    assert laptop("send", run).code == 0
    assert {ref: name for ref, name in office.refs().items() if ref.startswith("refs/heads/")} == heads
    before = git(desk.root, "rev-parse", "HEAD", "main")
    fetched = desk("fetch", run)
    assert fetched.code == 0, fetched.stderr
    assert git(desk.root, "rev-parse", "HEAD", "main") == before
    assert git(desk.root, "show", f"interlock/{run}:built.txt") != ""
    assert git(desk.root, "show", f"interlock/{run}~1:code.txt") == "second"
    assert (desk.root / "code.txt").read_text("utf-8") == "first\n"
    assert (desk.root / "state.txt").read_text("utf-8") == "approve\n"
    assert desk("show", run).code == 0
    assert desk("report", run).code == 0
    again = desk("fetch", run)
    assert again.code == 0, again.stderr


@pytest.mark.req("WK-04")
def test_what_is_fetched_overwrites_nobody(office: Office) -> None:
    """A document that somebody wrote here stays, and a branch of that name that is not interlock's, too."""
    laptop, desk = office.clone("laptop"), office.clone("desk")
    run = waiting_run(laptop)
    finishes(laptop, run)
    assert laptop("send", run).code == 0
    (desk.root / "state.txt").write_text("mine\n", "utf-8")
    fetched = desk("fetch", run)
    assert fetched.code == 0
    assert "state.txt" in fetched.stderr
    assert (desk.root / "state.txt").read_text("utf-8") == "mine\n"
    git(desk.root, "branch", "--force", f"interlock/{run}", "main")
    refused = desk("fetch", run)
    assert refused.code == 2
    assert "commits that are not interlock's" in refused.stderr


@pytest.mark.req("WK-10")
def test_a_take_overwrites_nobody(office: Office) -> None:
    """Uncommitted work in the way refuses the take by name, before it claims; ignored files go to the attic."""
    laptop, other = office.clone("laptop"), office.clone("other")
    (laptop.root / "code.txt").write_text("changed\n", "utf-8")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    before = office.refs()
    (other.root / "code.txt").write_text("mine\n", "utf-8")
    refused = other("take", run)
    assert refused.code == 2
    assert "code.txt" in refused.stderr
    assert (other.root / "code.txt").read_text("utf-8") == "mine\n"
    assert office.refs() == before
    assert other.folders == []
    git(other.root, "checkout", "--quiet", "code.txt")
    (other.root / ".git" / "info" / "exclude").write_text("plan.md\n", "utf-8")
    (other.root / "plan.md").write_text("ignored, and mine\n", "utf-8")
    assert other("take", run).code == 0
    kept = list((other.root / ".interlock" / "attic").rglob("plan.md"))
    assert [path.read_text("utf-8") for path in kept] == ["ignored, and mine\n"]


@pytest.mark.req("WK-10")
def test_what_git_ignores_stays_somewhere_when_a_folder_has_to_be_there(office: Office) -> None:
    """A file and a link of a person where the run has folders go to the attic; what the link leads to stays."""
    laptop, other = office.clone("laptop"), office.clone("other")
    for name in ("out", "link"):
        (laptop.root / name).mkdir()
        (laptop.root / name / "new.txt").write_text("the run's\n", "utf-8")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    (other.root / ".git" / "info" / "exclude").write_text("out\nlink\n", "utf-8")
    (other.root / "out").write_text("mine\n", "utf-8")
    beside = office.folder / "beside"
    beside.mkdir()
    (beside / "new.txt").write_text("mine too\n", "utf-8")
    (other.root / "link").symlink_to(beside)
    assert other("take", run).code == 0
    assert files(other.root) == files(laptop.root)
    attic = other.root / ".interlock" / "attic"
    assert [path.read_text("utf-8") for path in attic.rglob("out")] == ["mine\n"]
    assert [path.readlink() for path in attic.rglob("link")] == [beside]
    assert (beside / "new.txt").read_text("utf-8") == "mine too\n"


@pytest.mark.req("WK-10")
def test_what_a_person_saves_while_a_run_is_claimed_is_not_overwritten(office: Office, tmp_path: Path) -> None:
    """The claim is pushed, which takes its time; the workspace is looked at once more before it is written."""
    laptop, other = office.clone("laptop"), office.clone("other")
    (laptop.root / "code.txt").write_text("changed\n", "utf-8")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    slow = tmp_path / "slow" / "git"
    slow.parent.mkdir()
    saves = f'for word in "$@"; do [ "$word" = push ] && echo mine >"{other.root}/code.txt"; done'
    slow.write_text(f'#!/bin/sh\n{saves}\nexec {shutil.which("git")} "$@"\n', "utf-8")
    slow.chmod(0o755)
    refused = other("take", run, PATH=f"{slow.parent}:{os.environ['PATH']}")
    assert refused.code == 2
    assert "code.txt" in refused.stderr
    assert (other.root / "code.txt").read_text("utf-8") == "mine\n"
    assert other.folders == []
    git(other.root, "checkout", "--quiet", "code.txt")
    taken = other("take", run)
    assert taken.code == 0, taken.stderr
    assert files(other.root) == files(laptop.root)


@pytest.mark.req("WK-10")
def test_a_branch_that_cannot_be_made_here_keeps_nobody_from_taking(office: Office) -> None:
    """'work' here, 'work/a' there: the run gets a branch of its own, which follows what is committed elsewhere."""
    laptop, other = office.clone("laptop"), office.clone("other")
    git(laptop.root, "checkout", "--quiet", "-b", "work/a")
    run = waiting_run(laptop)
    git(other.root, "branch", "work")
    for content in ("second\n", "third\n"):
        (laptop.root / "code.txt").write_text(content, "utf-8")
        git(laptop.root, "commit", "--quiet", "--all", "--message", content.strip())
        assert laptop("send", run).code == 0
        taken = other("take", run)
        assert taken.code == 0, taken.stderr
        assert git(other.root, "symbolic-ref", "--short", "HEAD") == f"interlock/{run}"
        assert git(other.root, "rev-parse", "HEAD") == git(laptop.root, "rev-parse", "HEAD")
        assert other("send", run).code == 0
        assert laptop("take", run).code == 0
    assert git(laptop.root, "symbolic-ref", "--short", "HEAD") == "work/a"
    git(other.root, "checkout", "--quiet", "main")
    git(other.root, "branch", "--delete", "--force", f"interlock/{run}")
    git(other.root, "branch", "interlock")
    assert laptop("send", run).code == 0
    before = office.refs()
    refused = other("take", run)
    assert refused.code == 2
    assert "git branch -m interlock NAME" in refused.stderr
    assert office.refs() == before, "nothing is claimed"
