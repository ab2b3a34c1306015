"""Worktrees: an agent's own copy, with history, uncommitted work and dependencies; gone afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import PathRefused
from interlock.workspace import Workspace, open_worktree, sweep_worktrees

GitCall = Callable[..., str]

pytestmark = pytest.mark.req("EN-38")


def workspace_at(root: Path, *documents: str) -> Workspace:
    return Workspace(root, root / ".interlock", documents=documents)


def files_of(root: Path) -> set[str]:
    found = (file for file in root.rglob("*") if not file.is_dir() or file.is_symlink())
    return {str(file.relative_to(root)) for file in found} - {".git"}


async def test_a_worktree_holds_the_snapshot_and_the_history(repository: Path, cache: Path, git: GitCall) -> None:
    """Uncommitted, untracked and declared ignored files are there; git log and git diff work in it."""
    (repository / "README.md").write_text("uncommitted\n")
    (repository / "untracked.txt").write_text("u")
    (repository / "tool").write_text("#!/bin/sh\n")
    (repository / "tool").chmod(0o755)
    (repository / "link").symlink_to("README.md")
    (repository / os.fsdecode(b"caf\xe9")).write_text("x")
    (repository / "build").mkdir()
    (repository / "build/plan.md").write_text("plan")
    (repository / "build/other").write_text("not cloned")
    workspace = workspace_at(repository, "build/plan.md")
    snapshot = await workspace.snapshot()
    (repository / "README.md").write_text("later\n")
    branches = git(repository, "branch", "--list")
    worktree = await open_worktree(workspace, snapshot, "task-1", cache)
    assert cache in worktree.root.parents
    assert files_of(worktree.root) == {
        *(".gitignore", "README.md", "src/app.py", "untracked.txt", "tool", "link"),
        *(os.fsdecode(b"caf\xe9"), "build/plan.md"),
    }
    assert (worktree.root / "README.md").read_text() == "uncommitted\n"
    assert os.access(worktree.root / "tool", os.X_OK)
    assert (worktree.root / "link").is_symlink()
    assert await worktree.snapshot() == snapshot
    assert "start" in git(worktree.root, "log", "--oneline")
    assert " M README.md" in git(worktree.root, "status", "--short")
    assert git(repository, "branch", "--list") == branches
    await worktree.close()
    assert not worktree.root.exists()
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "status", "--short", "README.md").strip() == "M README.md"


async def test_commits_made_in_a_worktree_are_flattened(repository: Path, cache: Path, git: GitCall) -> None:
    """Only the tree counts: committed, uncommitted and moved HEADs give the same changes."""
    workspace = workspace_at(repository)
    base = await workspace.snapshot()
    worktree = await open_worktree(workspace, base, "w", cache)
    (worktree.root / "a.txt").write_text("a")
    git(worktree.root, "add", "a.txt")
    git(worktree.root, "commit", "-qm", "agent")
    git(worktree.root, "checkout", "-q", "-b", "agents-branch")
    (worktree.root / "b.txt").write_text("b")
    after = await worktree.snapshot()
    assert [c.path for c in await worktree.changes(base, after)] == ["a.txt", "b.txt"]
    assert await workspace.changes(base, after) == await worktree.changes(base, after)
    assert b"+a" in await worktree.patch(base, after, ["a.txt"])
    await worktree.restore(base, ["a.txt"])
    assert not (worktree.root / "a.txt").exists()
    assert (worktree.root / "b.txt").exists()
    assert git(repository, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    await worktree.close()


@pytest.mark.parametrize("unborn", [False, True])
async def test_without_a_repository_the_worktree_is_one_of_the_shadow(
    folder: Path, cache: Path, git: GitCall, unborn: bool
) -> None:
    """A plain folder, or a repository without a commit, gives a worktree where git works all the same."""
    if unborn:
        git(folder, "init", "-q")
    workspace = workspace_at(folder)
    (folder / "a.txt").write_text("in no commit\n")
    early = await workspace.snapshot()
    (folder / "a.txt").write_text("a\n")
    base = await workspace.snapshot()
    worktree = await open_worktree(workspace, base, "w", cache)
    assert files_of(worktree.root) == {"a.txt"}
    assert git(worktree.root, "status", "--short") == ""
    (worktree.root / "a.txt").write_text("b\n")
    assert "+b" in git(worktree.root, "diff")
    git(worktree.root, "commit", "-qam", "agent")
    git(worktree.root, "gc", "--prune=now", check=False)
    git(worktree.root, "prune", check=False)
    assert await workspace.read(await worktree.snapshot(), "a.txt") == b"b\n"
    assert await workspace.read(base, "a.txt") == b"a\n"
    assert await workspace.read(early, "a.txt") == b"in no commit\n"
    await worktree.close()
    assert not (folder / ".interlock/snapshots.git/worktrees").exists()


async def test_dependencies_and_chosen_ignored_files_are_cloned_in(repository: Path, cache: Path, git: GitCall) -> None:
    """Ignored dependency folders and what .worktreeinclude names are there, links kept; no other ignored file."""
    (repository / ".gitignore").write_text("node_modules/\n.venv/\n.env*\nbuild/\nsecret/\n")
    (repository / ".worktreeinclude").write_text("# local settings\n.env*\n!.env.prod\nbuild/cache/\nREADME.md\n")
    for name in (
        *("node_modules/m/index.js", "web/node_modules/n.js", ".venv/bin/python", ".env", "web/.env.local"),
        *(".env.prod", "build/cache/deep/x", "build/out", "secret/key", ".interlock/runs/.env"),
    ):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(name)
    (repository / "node_modules/.bin").mkdir()
    (repository / "node_modules/.bin/m").symlink_to("../m/index.js")
    (repository / ".venv/bin/python").chmod(0o755)
    (repository / "node_modules/m").chmod(0o555)
    nested = repository / "sub"
    (nested / "vendor").mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / ".gitignore").write_text("vendor/\n")
    (nested / "vendor/v.go").write_text("v")
    workspace = workspace_at(repository)
    base = await workspace.snapshot()
    worktree = await open_worktree(workspace, base, "w", cache)
    snapshot_files = {".gitignore", ".worktreeinclude", "README.md", "src/app.py", "sub/.gitignore"}
    assert files_of(worktree.root) - snapshot_files == {
        *("node_modules/m/index.js", "node_modules/.bin/m", "web/node_modules/n.js", ".venv/bin/python"),
        *(".env", "web/.env.local", "build/cache/deep/x", "sub/vendor/v.go"),
    }
    assert (worktree.root / "node_modules/.bin/m").readlink() == Path("../m/index.js")
    assert os.access(worktree.root / ".venv/bin/python", os.X_OK)
    (worktree.root / ".env").write_text("changed there only")
    assert (repository / ".env").read_text() == ".env"
    assert await workspace.changes(base, await worktree.snapshot()) == ()
    await worktree.close()
    assert not worktree.root.exists()


async def test_files_of_nested_repositories_are_in_a_worktree(repository: Path, cache: Path, git: GitCall) -> None:
    """Nested repositories' files are plain files there, and edits of them are seen."""
    nested = repository / "lib"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "l.c").write_text("l")
    git(nested, "add", ".")
    git(nested, "commit", "-qm", "lib")
    git(repository, "add", "lib")
    git(repository, "commit", "-qm", "gitlink")
    workspace = workspace_at(repository)
    base = await workspace.snapshot()
    worktree = await open_worktree(workspace, base, "w", cache)
    assert (worktree.root / "lib/l.c").read_text() == "l"
    (worktree.root / "lib/l.c").write_text("edited")
    assert [c.path for c in await worktree.changes(base, await worktree.snapshot())] == ["lib/l.c"]
    await worktree.close()


async def test_a_part_of_a_larger_repository_gets_the_rest_from_head(
    repository: Path, cache: Path, git: GitCall
) -> None:
    """The worktree's root is the same part, filled from the snapshot; around it are the files of HEAD."""
    part = repository / "packages/app"
    part.mkdir(parents=True)
    (part / "main.py").write_text("committed")
    (part / "gone.py").write_text("committed")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "part")
    (part / "main.py").write_text("uncommitted")
    (part / "gone.py").unlink()
    (repository / "README.md").write_text("outside, uncommitted")
    workspace = workspace_at(part)
    base = await workspace.snapshot()
    worktree = await open_worktree(workspace, base, "w", cache)
    assert files_of(worktree.root) == {"main.py"}
    assert (worktree.root / "main.py").read_text() == "uncommitted"
    assert (worktree.root / "../../README.md").read_text() == "hello\n"
    assert await worktree.snapshot() == base
    (worktree.root / "new.py").write_text("x")
    assert [c.path for c in await worktree.changes(base, await worktree.snapshot())] == ["new.py"]
    await worktree.close()
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_bytes_are_raw_in_a_worktree_too(repository: Path, cache: Path, git: GitCall) -> None:
    """Line ends and filters of the project do not touch what is put into a worktree."""
    (repository / ".gitattributes").write_text("*.txt text eol=crlf\n*.big filter=big\n")
    git(repository, "config", "filter.big.smudge", "tr a-z A-Z")
    (repository / "a.txt").write_bytes(b"one\ntwo\r\n")
    (repository / "b.big").write_bytes(b"lower\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "attributes")
    workspace = workspace_at(repository)
    worktree = await open_worktree(workspace, await workspace.snapshot(), "w", cache)
    assert (worktree.root / "a.txt").read_bytes() == b"one\ntwo\r\n"
    assert (worktree.root / "b.big").read_bytes() == b"lower\n"
    await worktree.close()


async def test_leftovers_of_dead_runs_are_swept(repository: Path, cache: Path, git: GitCall) -> None:
    """After a crash those of the run go, others and the user's own stay; opening again works at once."""
    git(repository, "worktree", "add", "-q", "--detach", str(cache.with_name("users-own")))
    dead = workspace_at(repository)
    base = await dead.snapshot()
    for name in ("run-1-a", "run-10-a", "run-2-a"):
        await open_worktree(dead, base, name, cache)
    workspace = workspace_at(repository)
    again = await open_worktree(workspace, base, "run-2-a", cache)
    assert await again.snapshot() == base
    assert await sweep_worktrees(workspace, cache, "run-3") == []
    assert await sweep_worktrees(workspace, cache, "run-1") == ["run-1-a"]
    listed = git(repository, "worktree", "list")
    assert "/run-1-a " not in listed
    assert "/run-10-a " in listed
    shutil.rmtree(again.root.parent / "run-10-a")
    assert await sweep_worktrees(workspace, cache) == ["run-10-a", "run-2-a"]
    assert git(repository, "worktree", "list").count("\n") == 2
    assert list(cache.iterdir()) == []
    assert await sweep_worktrees(workspace, cache) == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
async def test_names_that_leave_the_cache_are_refused(repository: Path, cache: Path, name: str) -> None:
    """A worktree's name is one folder name."""
    workspace = workspace_at(repository)
    with pytest.raises(PathRefused):
        await open_worktree(workspace, await workspace.snapshot(), name, cache)
