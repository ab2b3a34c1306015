"""One suite over both kinds of repository: the user's, by their git, and its twin in the simulated world."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interlock.engine.simulated_disk import MemoryTree
from interlock.engine.simulated_repository import SimulatedRepository, Trouble
from interlock.engine.virtual_time import instantly
from interlock.workspace import Checkout, Commit, Effect, Repository, Stash, Unstash, UsersRepository

T = TypeVar("T")
FIRST = {"README.md": "old\n", "src/a.txt": "one\n", "src/b.txt": "two\n", ".gitignore": "out/\n"}
MARK = "run-1/step/commit#1"


class Stage(ABC):
    """A repository with one commit, a person who works in it, and what can befall it."""

    repository: Repository

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return instantly(work)

    def do(self, effect: Effect, mark: str = MARK) -> Any:
        return self.run(self.repository.do(effect, mark))

    @abstractmethod
    def put(self, path: str, text: str | None) -> None: ...

    def text(self, path: str) -> str | None:
        found = self.repository.content(path)
        return None if found is None else found.decode()

    @abstractmethod
    def person_commits(self, message: str) -> None:
        """Everything as it is."""

    @abstractmethod
    def befall(self, trouble: Trouble) -> None: ...

    @abstractmethod
    def messages(self) -> list[str]: ...

    def committed(self, path: str) -> str:
        return self.run(self.repository.committed(path))


class Twin(Stage):
    def __init__(self, files: dict[str, str]) -> None:
        self.repository = self.git = SimulatedRepository()
        self.git.join(MemoryTree({path: text.encode() for path, text in files.items()}))

    def put(self, path: str, text: str | None) -> None:
        self.git.tree.put(path, None if text is None else text.encode())

    def person_commits(self, message: str) -> None:
        seen = {path for path in self.git.tree.files if path in self.git.files or path in self.git.uncommitted()}
        self.git.record({path: self.git.tree.files[path] for path in seen}, message)

    def befall(self, trouble: Trouble) -> None:
        self.git.befall(trouble)

    def messages(self) -> list[str]:
        return self.git.messages


class Real(Stage):
    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
        self.repository = UsersRepository(folder, environ)
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A Person")
        self.git("config", "user.email", "person@example.org")
        for path, text in files.items():
            self.put(path, text)
        self.person_commits("first")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def git(self, *words: str) -> str:
        return subprocess.run(("git", *words), cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def put(self, path: str, text: str | None) -> None:
        place = self.folder / path
        if text is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def person_commits(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def befall(self, trouble: Trouble) -> None:
        inside = self.folder / ".git"
        match trouble:
            case Trouble.HOOK:
                (inside / "hooks").mkdir(exist_ok=True)
                (inside / "hooks/pre-commit").write_text("#!/bin/sh\necho hook: a blank at the end >&2\nexit 1\n")
                (inside / "hooks/pre-commit").chmod(0o755)
            case Trouble.LOCKED:
                (inside / "index.lock").touch()
            case Trouble.FULL:  # as far as that can be had without a disk: no new object finds its folder
                for number in range(256):
                    place = inside / "objects" / f"{number:02x}"
                    if not place.exists():
                        place.touch()
                (inside / "index.lock").touch()
            case Trouble.MERGING:
                (inside / "MERGE_HEAD").write_text(self.git("rev-parse", "HEAD"))
            case Trouble.DETACHED:
                self.git("checkout", "-q", "--detach")
            case Trouble.ELSEWHERE:
                self.git("checkout", "-q", "main")

    def messages(self) -> list[str]:
        return [text for text in self.git("log", "-z", "--format=%B").split("\0") if text]


@pytest.fixture(params=["real", "twin"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield Real(tmp_path / "work", FIRST) if request.param == "real" else Twin(FIRST)


# -- questions


def test_where_it_stands(stage: Stage) -> None:
    """Branch, head, and what is not committed; what is ignored does not count, nor what is left out."""
    clean = stage.run(stage.repository.standing())
    assert (clean.branch, clean.busy, clean.changed, clean.contents) == ("main", (), (), "")
    assert clean.head == stage.run(stage.repository.commit_of("refs/heads/main")) != ""
    stage.put("src/a.txt", "changed\n")
    stage.put("new.txt", "new\n")
    stage.put("README.md", None)
    stage.put("out/made.o", "x")
    stage.put("prompts/x", "x")
    dirty = stage.run(stage.repository.standing(("prompts/",)))
    assert set(dirty.changed) == {"README.md", "new.txt", "src/a.txt"}
    stage.put("new.txt", "newer\n")
    again = stage.run(stage.repository.standing(("prompts/",)))
    assert again.changed == dirty.changed
    assert again.contents != dirty.contents


def test_what_is_known_of_commits_and_branches(stage: Stage) -> None:
    """Names resolve or are empty; a branch contains what it grew from, and says what changed since."""
    ask, first = stage.repository, stage.run(stage.repository.where()).head
    assert stage.do(Checkout("fix/x", create=True)).ok
    stage.put("src/a.txt", "changed\n")
    stage.put("src/b.txt", None)
    stage.put("src/c.txt", "three\n")
    stage.person_commits("second")
    second = stage.run(ask.where()).head
    assert sorted(stage.run(ask.changes_since(first))) == [("A", "src/c.txt"), ("D", "src/b.txt"), ("M", "src/a.txt")]
    assert stage.run(ask.contains("fix/x", first))
    assert not stage.run(ask.contains("main", second))
    assert not stage.run(ask.contains("main", "f" * 40))
    assert stage.run(ask.changes_since("f" * 40)) == []
    assert stage.run(ask.commit_of("refs/heads/none")) == stage.run(ask.commit_of("f" * 40)) == ""
    assert stage.run(ask.default_branch()) == "main"
    assert not stage.run(ask.is_on_a_remote("main"))
    assert [stage.run(ask.is_a_name(name)) for name in ("fix/ABC-1_x", "two words", "a..b")] == [True, False, False]


def test_what_is_known_of_tracked_files(stage: Stage) -> None:
    """Those that are tracked, a digest of their names, and the ones that a few words are about."""
    stage.put("src/login.txt", "x\n")
    stage.put("notes.txt", "the Login page\nand the login error\n")
    stage.person_commits("more")
    stage.put("untracked_login.txt", "login\n")
    ask = stage.repository
    assert stage.run(ask.tracked(("src/a.txt", "untracked_login.txt"))) == ["src/a.txt"]
    assert stage.run(ask.submodules()) == []
    assert stage.run(ask.search(("login", "error"), 100, 1000, 5)) == ["notes.txt", "src/login.txt"]
    assert stage.run(ask.search(("login",), 100, 10, 5)) == ["src/login.txt"], "a large file is not read"
    whole = stage.run(ask.listing(()))
    assert stage.run(ask.listing(("notes.txt",))) != whole
    stage.put("src/login.txt", "changed\n")
    assert stage.run(ask.listing(())) == whole


# -- effects


@pytest.mark.req("EN-11")
def test_a_commit_has_its_files_and_its_mark(stage: Stage) -> None:
    """Changed, new and deleted ones, and a text of its own; whatever else is not committed stays so. It is found by
    its mark."""
    stage.put("src/a.txt", "changed\n")
    stage.put("src/b.txt", None)
    stage.put("src/c.txt", "new\n")
    stage.put("README.md", "the user's\n")
    stage.put(".gitignore", "out/\nmine/\n")
    effect = Commit(("src/a.txt", "src/b.txt", "src/c.txt"), "fix: it", {".gitignore": "out/\nprompts/\n"})
    assert stage.run(stage.repository.done(effect, MARK)) is None
    made = stage.do(effect)
    assert made.ok and made.commit == stage.run(stage.repository.where()).head
    assert stage.messages()[0].strip() == f"fix: it\n\nInterlock-Key: {MARK}"
    assert [stage.committed(path) for path in ("src/a.txt", "src/b.txt", "src/c.txt")] == ["changed\n", "", "new\n"]
    assert (stage.committed("README.md"), stage.committed(".gitignore")) == ("old\n", "out/\nprompts/\n")
    assert set(stage.run(stage.repository.changed())) == {"README.md", ".gitignore"}
    found = stage.run(stage.repository.done(effect, MARK))
    assert found is not None and (found.probed, found.commit) == (True, made.commit)
    assert stage.run(stage.repository.done(effect, "another")) is None


@pytest.mark.req("EN-10")
def test_a_checkout_loses_nothing(stage: Stage) -> None:
    """What is not committed comes along where the branches agree, and keeps the branch from being left where not."""
    assert stage.do(Checkout("other", create=True)).ok
    stage.put("src/a.txt", "theirs\n")
    stage.person_commits("theirs")
    stage.put("src/b.txt", "mine\n")
    assert stage.do(Checkout("main")).ok
    assert (stage.text("src/a.txt"), stage.text("src/b.txt")) == ("one\n", "mine\n")
    stage.put("src/a.txt", "mine, too\n")
    refused = stage.do(Checkout("other"))
    assert not refused.ok and "src/a.txt" in refused.problem
    assert stage.text("src/a.txt") == "mine, too\n"
    assert stage.run(stage.repository.done(Checkout("other"), MARK)) is None
    assert stage.run(stage.repository.done(Checkout("main"), MARK)) is not None
    assert not stage.do(Checkout("none")).ok
    assert not stage.do(Checkout("other", create=True)).ok


@pytest.mark.req("EN-10")
def test_a_stash_is_found_by_its_note(stage: Stage) -> None:
    """Only the files that were named go; they come back, whatever else was stashed since."""
    stage.put("README.md", "mine\n")
    stage.put("new.md", "new\n")
    stage.put("src/a.txt", "stays\n")
    effect = Stash(("README.md", "new.md", "vanished.md"), "docs of run-1")
    assert stage.run(stage.repository.done(effect, MARK)) is None
    assert stage.do(effect).ok
    assert (stage.text("README.md"), stage.text("new.md"), stage.text("src/a.txt")) == ("old\n", None, "stays\n")
    assert stage.run(stage.repository.stashes("docs of run-1")) == ["stash@{0}"]
    assert stage.run(stage.repository.done(effect, MARK)) is not None
    assert stage.do(Stash(("src/a.txt",), "another"), "another").ok
    assert stage.run(stage.repository.stashes("docs of run-1")) == ["stash@{1}"]
    assert stage.run(stage.repository.done(Unstash("docs of run-1"), MARK)) is None
    assert stage.do(Unstash("docs of run-1")).ok
    assert (stage.text("README.md"), stage.text("new.md")) == ("mine\n", "new\n")
    assert stage.run(stage.repository.done(Unstash("docs of run-1"), MARK)) is not None
    assert stage.do(Unstash("docs of run-1")).ok, "nothing is left to take out"
    assert stage.run(stage.repository.stashes("another")) == ["stash@{0}"]


def test_a_stash_that_does_not_fit_is_kept(stage: Stage) -> None:
    """The branch has other lines in the same place: a problem, and the stash is still there."""
    stage.do(Checkout("other", create=True))
    stage.put("README.md", "theirs\n")
    stage.person_commits("theirs")
    stage.do(Checkout("main"))
    stage.put("README.md", "mine\n")
    assert stage.do(Stash(("README.md",), "mine")).ok
    stage.put("README.md", "changed since\n")
    assert not stage.do(Unstash("mine")).ok
    assert stage.run(stage.repository.stashes("mine")) == ["stash@{0}"]


# -- what befalls it

EFFECTS: dict[str, Effect] = {
    "checkout": Checkout("other"),
    "stash": Stash(("README.md",), "mine"),
    "unstash": Unstash("kept"),
    "commit": Commit(("src/a.txt",), "fix: it"),
}
REFUSED = {
    Trouble.HOOK: {"commit": "a blank at the end"},
    Trouble.LOCKED: dict.fromkeys(("checkout", "stash", "unstash"), "index.lock"),
    Trouble.FULL: dict.fromkeys(EFFECTS, "unable to|locked|File exists"),
    Trouble.MERGING: dict.fromkeys(EFFECTS, r"in the middle of something \(MERGE_HEAD\)"),
    Trouble.DETACHED: {},
    Trouble.ELSEWHERE: {},
}


@pytest.mark.req("LY-36")
@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("name", EFFECTS)
def test_what_befalls_a_repository_is_told_and_loses_nothing(stage: Stage, name: str, trouble: Trouble) -> None:
    """An effect that is refused says why, and leaves branch, commits, stashes and the user's files as they were."""
    stage.do(Checkout("other", create=True))
    stage.put("src/b.txt", "other\n")
    stage.person_commits("other")
    stage.do(Checkout("main"))
    stage.do(Checkout("work", create=True))
    stage.put("new.md", "kept\n")
    stage.do(Stash(("new.md",), "kept"), "before")
    stage.put("README.md", "mine\n")
    stage.put("src/a.txt", "work\n")
    stage.befall(trouble)
    before = stage.run(stage.repository.standing()), stage.messages(), stage.run(stage.repository.stash_list())
    done = stage.do(EFFECTS[name])
    wanted = REFUSED[trouble].get(name)
    if wanted is None:
        assert done.ok, done
        assert bool(done.warning) is (trouble is Trouble.LOCKED), "the index still has what was committed"
        return
    assert not done.ok
    assert re.search(wanted, done.problem), done
    after = stage.run(stage.repository.standing()), stage.messages(), stage.run(stage.repository.stash_list())
    assert after == before
    assert stage.run(stage.repository.done(EFFECTS[name], MARK)) is None


def test_what_befalls_it_shows_in_where_it_stands(stage: Stage) -> None:
    """A merge, a detached head, another branch."""
    stage.do(Checkout("work", create=True))
    seen = {}
    for trouble in (Trouble.ELSEWHERE, Trouble.DETACHED, Trouble.MERGING):
        stage.befall(trouble)
        standing = stage.run(stage.repository.standing())
        seen[trouble] = (standing.branch, standing.busy)
    assert seen == {
        Trouble.ELSEWHERE: ("main", ()),
        Trouble.DETACHED: ("", ()),
        Trouble.MERGING: ("", ("MERGE_HEAD",)),
    }
