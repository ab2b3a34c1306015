"""Commits, branches and stashes: the run's work alone, made without running anything, done once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.workspace.commits import Commits
from interlock.workspace.delivery import Delivery
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import Committed, RemarkKind, Tree, Where
from tests.workspace.conftest import tree
from tests.workspace.person import Person

WHEN = datetime(2026, 11, 18, 18, 33, 49, tzinfo=UTC)
MAIN = Where(branch="refs/heads/main")
ROWS = [f"line {at}\n" for at in range(20)]


def _same(of: Tree) -> Tree:
    return of


def _rows(**changes: str) -> str:
    return "".join(changes.get(f"r{at}", row) for at, row in enumerate(ROWS))


class Ready:
    """A person's workspace in which work was delivered, and the commit that is planned for it."""

    def __init__(self, person: Person, trees: Trees, work: dict[str, str | None]) -> None:
        self.person, self.trees = person, trees
        self.commits = Commits(trees, _same)
        self.head = person.git("rev-parse", "-q", "--verify", "HEAD", ok=(0, 1)).strip()
        self.before = trees.standing("run", trees.where()).tree
        self.after = tree(trees, work, self.before)
        assert Delivery(trees).deliver(self.before, self.after).state == "done"
        self.planned = self.plan()

    def plan(self, **more: str) -> Committed:
        return self.commits.plan(MAIN, self.before, self.after, "Make it right  \n\nBecause.\n\n", when=WHEN, **more)

    def publish(self) -> Committed:
        return self.commits.publish(MAIN, self.planned.commit, expect=self.head)

    def show(self, *words: str) -> str:
        return self.person.git("show", *words, self.planned.commit)

    def status(self) -> list[str]:
        return self.person.git("status", "--porcelain").splitlines()


@pytest.mark.req("TREE-15", "TREE-12")
def test_a_commit_has_the_runs_work_alone(person: Person, trees: Trees) -> None:
    """Unsaved lines of the person in the same file are not in it, what they staged stays staged, files are untouched,
    and no hook, filter or editor runs."""
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        person.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch '{person.top}/ran-{hook}'\nexit 1\n", mode=0o755)
    person.write("a.txt", _rows(r2="staged\n"))
    person.write("staged", "s\n")
    person.git("add", "a.txt", "staged")
    person.write("a.txt", _rows(r2="staged\n", r10="unsaved\n"))
    person.settle()
    ready = Ready(person, trees, {"a.txt": _rows(r2="staged\n", r10="unsaved\n", r18="agent\n"), "new": "n\n"})
    lies = person.files()
    assert not person.git("cat-file", "-t", ready.planned.commit, ok=(128,)), "it is beside their repository at first"
    assert ready.publish() == Committed(commit=ready.planned.commit)
    assert person.files() == lies
    assert person.git("rev-parse", "main", "HEAD~1").split() == [ready.planned.commit, ready.head]
    changed = ready.show("--format=%an <%ae> %cn %ad%n%B", "--date=iso", "--unified=0").splitlines()
    who = "Pat Person <pat@example.org> Pat Person 2026-11-18 18:33:49 +0000"
    assert changed[:4] == [who, "Make it right", "", "Because."]
    rows = [row for row in changed if row[:1] in ("+", "-")][2:]
    assert rows == ["-line 18", "+agent", "--- /dev/null", "+++ b/new", "+n"]
    (person.top / "ran-post-index-change").unlink(missing_ok=True)  # by the person's own git
    assert ready.status()[:2] == ["MM a.txt", "A  staged"]
    assert person.git("show", ":a.txt") == _rows(r2="staged\n", r18="agent\n")
    assert "commit: Make it right" in person.git("reflog", "-1", "HEAD")
    assert person.git("fsck", "--no-dangling", "--strict") == ""


@pytest.mark.req("RUN-05")
def test_a_commit_happens_once(person: Person, trees: Trees) -> None:
    """Published again, after the ref had moved, after the person went on, or from the beginning, it is one commit."""
    ready = Ready(person, trees, {"a.txt": "x\n", "new": "n\n"})
    assert ready.plan() == ready.planned
    person.git("unpack-objects", "-q", ok=(0, 128))
    assert ready.publish().commit and ready.publish().commit
    assert ready.status() == [] and person.git("rev-list", "--count", "main").strip() == "2"
    person.write("more", "m")
    person.commit()
    assert ready.publish() == Committed(commit=ready.planned.commit)
    assert ready.status() == [] and person.git("rev-list", "--count", "main").strip() == "3"


APART: dict[str, tuple[dict[str, str | None], dict[str, str | None]]] = {
    # what the person did and has not committed, what the agent did
    "same lines": ({"a.txt": _rows(r5="unsaved\n")}, {"a.txt": _rows(r5="agent\n")}),
    "untracked": ({"new": "mine\n"}, {"new": "mine\nagent\n"}),
    "removed": ({"a.txt": None}, {"a.txt": "agent\n"}),
    "nothing": ({}, {}),
}


@pytest.mark.req("TREE-15")
@pytest.mark.parametrize("what", APART)
def test_what_cannot_be_told_apart_is_not_committed(person: Person, trees: Trees, what: str) -> None:
    """Work on lines, or in a file, that the person has not committed is named; without work nothing is."""
    theirs, work = APART[what]
    for path, content in theirs.items():
        (person.top / path).unlink() if content is None else person.write(path, content)
    planned = Ready(person, trees, work).planned
    assert not planned.commit and ("cannot be told from" in planned.problem) is bool(work)


@pytest.mark.req("TREE-15")
def test_a_branch_that_moved_stays_where_it_is(person: Person, trees: Trees) -> None:
    """Somebody else's commit is not overwritten; planned again the work goes on top of it."""
    ready = Ready(person, trees, {"a.txt": "agent\n"})
    person.write("lib/b.txt", "mine\n")
    person.git("commit", "-qm", "quicker", "lib/b.txt")
    assert "main is not where it was" in ready.publish().problem
    again = ready.plan()
    assert ready.commits.publish(MAIN, again.commit, expect=person.git("rev-parse", "HEAD").strip()).commit
    assert ready.status() == []


@pytest.mark.req("TREE-15")
def test_a_branch_that_is_not_checked_out_moves_alone(person: Person, trees: Trees) -> None:
    """A commit on another branch, or a new one, changes neither index nor files."""
    ready = Ready(person, trees, {"a.txt": "agent\n"})
    person.git("checkout", "-q", "-b", "other")
    status, index = ready.status(), (person.top / ".git/index").read_bytes()
    assert ready.publish().commit and ready.status() == status
    assert (person.top / ".git/index").read_bytes() == index
    new = ready.commits.publish(MAIN, ready.planned.commit, ref="refs/heads/new", expect="")
    assert new.commit == person.git("rev-parse", "new", "main").split()[0]
    assert ready.commits.refused("new") and ready.commits.refused("-x") and ready.commits.refused("a..b")
    assert ready.commits.refused("fine/name") == ""


@pytest.mark.req("TREE-15", "TREE-12")
def test_what_hinders_a_commit_is_said(person: Person, trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge in progress, a branch that another worktree has checked out, no branch, no name."""
    ready = Ready(person, trees, {"lib/b.txt": "agent\n"})
    (person.top / ".git/MERGE_HEAD").write_text(f"{ready.head}\n")
    assert "MERGE_HEAD" in ready.publish().problem
    (person.top / ".git/MERGE_HEAD").unlink()
    person.git("checkout", "-q", "-b", "other")
    person.git("worktree", "add", "-q", "../elsewhere", "main")
    assert "is checked out in" in ready.publish().problem
    detached = ready.commits.plan(Where(branch="detached"), ready.before, ready.after, "x", when=WHEN)
    assert detached.problem == "no branch is checked out"
    person.git("config", "user.useConfigOnly", "true")
    person.git("config", "--unset", "user.email")
    monkeypatch.setenv("HOME", str(person.top))
    monkeypatch.setenv("EMAIL", "")
    ready.commits = Commits(Trees(trees.workspace), _same)
    assert "who you are" in ready.plan().problem


@pytest.mark.req("TREE-12")
def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    """Where there is no commit yet the run's own files become the first, and the person's stay what they are."""
    person = Person(tmp_path / "w")
    person.init()
    person.write("mine", "m\n")
    trees = Trees(Workspace.find(person.top))
    ready = Ready(person, trees, {"new": "n\n"})
    assert ready.publish().commit == person.git("rev-parse", "main").strip()
    assert ready.status() == ["?? mine"]


@pytest.mark.req("TREE-12")
@pytest.mark.parametrize("kind", ["shallow", "worktree"])
def test_commits_in_other_repositories(person: Person, kind: str) -> None:
    """A shallow clone and a linked worktree get theirs like any other, without a fetch."""
    person.write("a.txt", _rows(r1="second\n"))
    person.commit()
    other = person.top.parent / "first"
    person.top.rename(other)
    if kind == "shallow":
        person.git("clone", "-q", "--depth=1", f"file://{other}", str(person.top), cwd=other)
    else:
        person.git("checkout", "-q", "--detach", cwd=other)
        person.git("worktree", "add", "-q", str(person.top), "main", cwd=other)
    person.introduce()
    trees = Trees(Workspace.find(person.top))
    ready = Ready(person, trees, {"a.txt": _rows(r1="second\n", r9="agent\n"), "d/new": "n\n"})
    assert ready.publish().commit and ready.status() == []
    assert person.git("fsck", "--no-dangling", "--connectivity-only") == ""


STAGED = {
    # what is staged, what the index has then, whether something is said
    "other lines": (_rows(r2="staged\n"), _rows(r2="staged\n", r9="agent\n"), False),
    "beside": (_rows(r10="staged\n"), _rows(r10="staged\n"), True),
    "removed": (None, "", True),
}


@pytest.mark.req("TREE-15")
@pytest.mark.parametrize("name", STAGED)
def test_what_was_staged_meanwhile_stays_staged(person: Person, trees: Trees, name: str) -> None:
    """Staged lines are merged with the commit's; where that is not possible they stay, and it is said."""
    staged, wanted, told = STAGED[name]
    ready = Ready(person, trees, {"a.txt": _rows(r9="agent\n")})
    lies = person.read("a.txt")
    (person.top / "a.txt").unlink() if staged is None else person.write("a.txt", staged)
    person.git("add", "-A")
    person.write("a.txt", lies)
    landed = ready.publish()
    assert landed.commit and [remark.kind for remark in landed.remarks] == [RemarkKind.GIT] * told
    assert (person.git("show", ":a.txt") if wanted else person.git("ls-files", "a.txt")) == wanted


def test_a_locked_index_is_named(person: Person, trees: Trees) -> None:
    """The commit stands; that the index could not follow, and what mends it, is said."""
    ready = Ready(person, trees, {"a.txt": "agent\n"})
    (person.top / ".git/index.lock").touch()
    landed = ready.publish()
    assert landed.commit and "index.lock" in landed.remarks[0].text and "git reset" in landed.remarks[0].text


@pytest.mark.req("TREE-12")
def test_a_commit_is_in_the_clean_spelling(person: Person) -> None:
    """Line ends and filters are the layer's to apply; the commit has what git would store."""
    person.git("config", "core.autocrlf", "true")
    person.write("a.txt", _rows().replace("\n", "\r\n"))
    person.settle()
    trees = Trees(Workspace.find(person.top))
    ready = Ready(person, trees, {"a.txt": _rows(r9="agent\n").replace("\n", "\r\n")})
    assert "cannot be told" in ready.planned.problem, "raw and clean have nothing in common"

    def clean(of: Tree) -> Tree:
        text = trees.read(of, "a.txt")
        assert text is not None
        return tree(trees, {"a.txt": text.decode().replace("\r\n", "\n")}, of)

    ready.commits = Commits(trees, clean)
    ready.planned = ready.plan()
    assert ready.publish().commit and person.git("show", "HEAD:a.txt") == _rows(r9="agent\n")
    assert ready.status() == []


# -- branches and stashes


@pytest.mark.req("TREE-15")
def test_a_branch_begins_where_the_person_stands(person: Person, trees: Trees) -> None:
    """HEAD alone moves: index and files are untouched; again after a crash it is there; back again, too."""
    commits = Commits(trees, _same)
    person.write("a.txt", "unsaved\n")
    person.git("add", "a.txt")
    index, lies = (person.top / ".git/index").read_bytes(), person.files()
    person.git("branch", "feature/x")
    assert commits.switch("feature/x", new=True) == "" and commits.switch("feature/x", new=True) == ""
    assert person.git("symbolic-ref", "HEAD").strip() == "refs/heads/feature/x"
    assert ((person.top / ".git/index").read_bytes(), person.files()) == (index, lies)
    assert commits.switch("main") == "" and person.git("rev-parse", "--abbrev-ref", "@{-1}").strip() == "feature/x"
    person.commit()
    assert "already" in commits.switch("feature/x", new=True)
    person.write("lib/b.txt", "kept\n")
    assert commits.switch("feature/x") == "" and person.read("lib/b.txt") == b"kept\n"
    person.write("a.txt", "in the way\n")
    assert "a.txt" in commits.switch("main") and commits.switch("none")
    person.write(".gitattributes", "*.txt filter=x\n")
    person.commit()
    assert "filters" in commits.switch("main")


@pytest.mark.req("RUN-05")
def test_a_stash_is_made_once_of_what_was_named(person: Person, trees: Trees) -> None:
    """Changed, staged, removed and new files go, others stay; it is found by its note whatever is stashed later."""
    commits = Commits(trees, _same)
    person.write("gone", "g")
    person.commit()
    person.write("a.txt", "changed\n")
    person.write("new ü", "n")
    person.write("stays", "s")
    person.git("rm", "-q", "gone")
    made = commits.stash(["a.txt", "new ü", "gone"], "interlock ticket-1")
    assert made.commit and not made.problem
    assert person.git("status", "--porcelain").splitlines() == ["?? stays"]
    person.git("stash", "push", "-q", "-u", "-m", "another")
    assert commits.stash(["a.txt"], "interlock ticket-1") == made
    assert person.git("stash", "list").count("\n") == 2
    person.git("stash", "drop", "-q")
    person.git("stash", "pop", "-q")
    assert sorted(person.git("status", "--porcelain").splitlines()) == [" D gone", " M a.txt", '?? "new \\303\\274"']


def test_a_stash_that_fails_changes_nothing(person: Person, trees: Trees) -> None:
    """A lock is named, and what was staged is staged as before."""
    person.write("a.txt", "changed\n")
    person.git("add", "a.txt")
    status = person.git("status", "--porcelain")
    (person.top / ".git/index.lock").touch()
    assert "index.lock" in Commits(trees, _same).stash(["a.txt"], "note").problem
    (person.top / ".git/index.lock").unlink()
    assert person.git("status", "--porcelain") == status and not person.git("stash", "list")
