"""What only real git can show: the index, hooks, submodules, folders below the top. The rest is in the suite that both
kinds of repository pass, tests/conformance/test_repositories.py."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import WorkspaceFailed
from interlock.workspace import Checkout, Commit, Done, Effect, Stash, Unstash, UsersRepository

GitCall = Callable[..., str]


def do(folder: Path, *effects: Effect, **environ: str) -> Done:
    """What came of the last of these effects."""
    users = UsersRepository(folder, {**os.environ, **environ})
    return [asyncio.run(users.do(effect, f"mark-{number}")) for number, effect in enumerate(effects)][-1]


def put(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_what_is_staged_comes_out_of_a_stash_staged(repository: Path, git: GitCall) -> None:
    """Changed, half staged and new files are on the other branch in the state in which they were."""
    put(repository, {"README.md": "staged\n", "src/app.py": "staged\n", "new.md": "new\n"})
    git(repository, "add", "README.md", "src/app.py", "new.md")
    put(repository, {"src/app.py": "changed again\n", "loose.md": "new\n"})
    users = git(repository, "status", "--porcelain", "-uall")
    paths = ("README.md", "src/app.py", "new.md", "loose.md")
    assert do(repository, Stash(paths, "mine"), Checkout("other", create=True), Unstash("mine")).ok
    assert git(repository, "status", "--porcelain", "-uall") == users
    assert git(repository, "show", ":src/app.py") == "staged\n"
    assert git(repository, "stash", "list") == ""


def test_what_cannot_be_staged_again_comes_out_all_the_same(repository: Path, git: GitCall) -> None:
    """The branch has changed a line next to it: the file is merged, and only its being staged is lost."""
    lines = ["one", "two", "three", "four", "five", "six"]
    put(repository, {"README.md": "\n".join(lines)})
    git(repository, "commit", "-qam", "six lines")
    git(repository, "checkout", "-qb", "other")
    put(repository, {"README.md": "\n".join([*lines[:3], "theirs", *lines[4:]])})
    git(repository, "commit", "-qam", "theirs")
    git(repository, "checkout", "-q", "main")
    put(repository, {"README.md": "\n".join(["mine", *lines[1:]])})
    git(repository, "add", "README.md")
    assert do(repository, Stash(("README.md",), "mine"), Checkout("other"), Unstash("mine")).ok
    assert (repository / "README.md").read_text().split() == ["mine", "two", "three", "theirs", "five", "six"]
    assert git(repository, "stash", "list") == ""


def test_what_is_deleted_and_renamed_in_the_index_is_stashed(repository: Path, git: GitCall) -> None:
    """`git mv` and `git rm`: one stash holds them all, and taken out it brings them back."""
    put(repository, {"old.py": "x = 1\n", "gone.py": "y = 1\n", "untracked.py": "z = 1\n"})
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "three")
    git(repository, "mv", "old.py", "moved.py")
    git(repository, "rm", "-q", "gone.py")
    git(repository, "rm", "-q", "--cached", "untracked.py")
    put(repository, {"untracked.py": "z = 2\n"})
    assert do(repository, Stash(("old.py", "moved.py", "gone.py", "untracked.py"), "mine")).ok
    assert git(repository, "status", "--porcelain") == ""
    texts = [(repository / path).read_text() for path in ("old.py", "gone.py", "untracked.py")]
    assert texts == ["x = 1\n", "y = 1\n", "z = 1\n"]
    assert len(git(repository, "stash", "list").splitlines()) == 1
    assert do(repository, Unstash("mine")).ok
    assert {path.name for path in repository.glob("*.py")} == {"moved.py", "untracked.py"}
    assert (repository / "untracked.py").read_text() == "z = 2\n"


FAILED_PUSHES = {
    "nothing was taken away": ('"$git" stash store -m "$message" "$("$git" stash create "$message")"', 0),
    "files were taken away": ('"$git" "$@"', 1),
}


@pytest.mark.parametrize("how", FAILED_PUSHES)
def test_a_stash_that_fails_is_dropped_only_if_its_files_are_still_there(
    repository: Path, git: GitCall, tmp_path: Path, how: str
) -> None:
    """Tries that fail leave no heap of stashes behind; the only copy of a file is kept."""
    put(repository, {"README.md": "mine\n"})
    git(repository, "mv", "src/app.py", "moved.py")
    before = git(repository, "status", "--porcelain")
    pushes, kept = FAILED_PUSHES[how]
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f"#!/bin/sh\ngit={shutil.which('git')}\nmessage='mine Interlock-Key: mark-0'\n"
        f'case "$*" in *"stash push"*) ;; *) exec "$git" "$@" ;; esac\n{pushes}\necho no >&2\nexit 7\n'
    )
    fake.chmod(0o755)
    effect = Stash(("README.md", "moved.py", "src/app.py"), "mine")
    assert do(repository, effect, PATH=f"{fake.parent}:{os.environ['PATH']}").problem == "no"
    assert len(git(repository, "stash", "list").splitlines()) == kept
    assert (git(repository, "status", "--porcelain") == before) is (kept == 0)
    assert not (repository / ".git/index.interlock").exists()


def test_a_commit_leaves_the_users_index_alone(repository: Path, git: GitCall) -> None:
    """What is staged stays staged and out of it; a lock that a killed commit left is no obstacle."""
    put(repository, {"README.md": "staged\n", "with blank é.txt": "new\n"})
    git(repository, "add", "README.md")
    (repository / ".git/interlock-index.lock").touch()
    made = do(repository, Commit(("with blank é.txt",), "work"))
    assert made == Done(commit=git(repository, "rev-parse", "HEAD").strip())
    assert git(repository, "-c", "core.quotePath=false", "status", "--porcelain") == "M  README.md\n"
    assert {path.name for path in (repository / ".git").glob("interlock-index*")} == set()


def test_hooks_run_for_the_commit_and_for_nothing_else(repository: Path, git: GitCall, tmp_path: Path) -> None:
    """With the environment of the user; what a hook adds to the message does not hide the mark."""
    for name in ("post-checkout", "pre-commit", "commit-msg", "post-index-change"):
        hook = repository / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(
            f'#!/bin/sh\necho {name} "$WHO" >> {tmp_path}/ran\ntest {name} != commit-msg || echo x >> "$1"\n'
        )
        hook.chmod(0o755)
    put(repository, {"README.md": "mine\n"})
    effects = (Stash(("README.md",), "mine"), Checkout("other", create=True), Unstash("mine"))
    assert do(repository, *effects, WHO="ann").ok
    assert not (tmp_path / "ran").exists()
    assert do(repository, Commit(("README.md",), "work"), WHO="ann").ok
    assert {"pre-commit ann", "commit-msg ann"} <= set((tmp_path / "ran").read_text().splitlines())
    users = UsersRepository(repository, os.environ)
    assert asyncio.run(users.done(Commit(("README.md",), "work"), "mark-0")) is not None
    before = asyncio.run(users.hooks())
    (repository / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    assert asyncio.run(users.hooks()) != before


def test_a_workspace_below_the_top_sees_paths_from_where_it_is(repository: Path, git: GitCall) -> None:
    """Files above it are named as such, and can be stashed and committed."""
    below = repository / "src"
    put(repository, {"README.md": "mine\n", "src/app.py": "mine\n", "src/new.py": "mine\n"})
    users = UsersRepository(below, os.environ)
    assert set(asyncio.run(users.changed())) == {"../README.md", "app.py", "new.py"}
    assert do(below, Stash(("../README.md", "new.py"), "mine")).ok
    assert git(repository, "status", "--porcelain").split() == ["M", "src/app.py"]
    assert do(below, Commit(("app.py",), "work", {".gitignore": "x\n"}), Unstash("mine")).ok
    assert git(repository, "show", "--name-only", "--format=", "HEAD").split() == ["src/.gitignore", "src/app.py"]
    assert asyncio.run(users.committed(".gitignore")) == "x\n"


def test_remotes_and_submodules(repository: Path, git: GitCall, tmp_path: Path) -> None:
    """The remote's default branch, branches that only a remote has, folders that are repositories of their own."""
    clone = tmp_path / "clone"
    git(repository, "branch", "side")
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    git(clone, "submodule", "--quiet", "add", str(repository), "lib")
    users = UsersRepository(clone, os.environ)
    assert asyncio.run(users.default_branch()) == "main"
    assert asyncio.run(users.is_on_a_remote("side"))
    assert asyncio.run(users.submodules()) == ["lib"]
    git(clone, "checkout", "-q", "--detach")
    git(clone, "branch", "-qD", "main")
    assert asyncio.run(users.default_branch()) == "origin/main"
    assert do(clone, Checkout("side")).problem == ""
    assert asyncio.run(users.where()).branch == "side"


@pytest.mark.req("LY-36")
def test_what_git_cannot_tell_is_an_error(repository: Path, folder: Path) -> None:
    """A damaged index is not a clean tree, and no repository is said to be none."""
    (repository / ".git/index").write_bytes(b"damaged")
    with pytest.raises(WorkspaceFailed, match="git status"):
        asyncio.run(UsersRepository(repository, os.environ).standing())
    assert not asyncio.run(UsersRepository(Path("/"), os.environ).where()).there
