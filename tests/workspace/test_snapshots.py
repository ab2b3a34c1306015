"""Snapshots see every file that counts, and touch nothing of the user's."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed
from interlock.workspace import ChangeKind, PathChange, Snapshot, Workspace
from interlock.workspace.scan import FolderIndex, Taken

GitCall = Callable[..., str]
EMPTY = Snapshot((("", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),))


def workspace_at(root: Path, *, documents: tuple[str, ...] = (), watch: tuple[str, ...] = ()) -> Workspace:
    return Workspace(root, root / ".interlock", documents=documents, watch=watch)


async def paths_of(workspace: Workspace, snapshot: Snapshot | None = None) -> set[str]:
    return {c.path for c in await workspace.changes(EMPTY, snapshot or await workspace.snapshot())}


async def changed(workspace: Workspace, before: Snapshot) -> dict[str, str]:
    return {c.path: c.kind.value for c in await workspace.changes(before, await workspace.snapshot())}


@pytest.mark.req("EN-33")
async def test_everything_not_ignored_is_covered_and_the_declared_even_if_ignored(repository: Path) -> None:
    """Tracked, untracked, documents, watched globs and interlock.toml are in a snapshot; other ignored files not."""
    for name in ("build/out.bin", "build/plan/a.md", "run.log", "x/y.log", "new.txt", "interlock.toml"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("x")
    (repository / ".gitignore").write_text("build/\n*.log\ninterlock.toml\n")
    workspace = workspace_at(repository, documents=("build/plan/**",), watch=("x/*.log",))
    before = await workspace.snapshot()
    assert await paths_of(workspace, before) == {
        *(".gitignore", "README.md", "src/app.py", "new.txt"),
        *("build/plan/a.md", "x/y.log", "interlock.toml"),
    }
    for name in ("build/plan/a.md", "interlock.toml", "build/out.bin", "run.log"):
        (repository / name).write_text("changed")
    assert await changed(workspace, before) == {"build/plan/a.md": "modified", "interlock.toml": "modified"}


@pytest.mark.req("EN-33")
async def test_the_engines_folder_is_left_out_but_for_what_a_team_commits(repository: Path) -> None:
    """Only agents, prompts and playbooks of .interlock are covered, whatever ignore files say."""
    names = ("runs/r/journal.jsonl", "agents/qa.md", "prompts/p.md", "playbooks/a/b.py", "playbooks/__pycache__/b.pyc")
    for ignore in ("*\n", "!*\n", "/*\n!/agents/\n"):
        for name in names:
            (repository / ".interlock" / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / ".interlock" / name).write_text("x")
        (repository / ".interlock" / ".gitignore").write_text(ignore)
        (repository / ".gitignore").write_text(".interlock/\n")
        found = await paths_of(workspace_at(repository, watch=("**/*.jsonl",)))
        assert {name for name in found if name.startswith(".interlock")} == {
            f".interlock/{name}" for name in ("agents/qa.md", "prompts/p.md", "playbooks/a/b.py")
        }


@pytest.mark.req("EN-33")
async def test_private_and_global_ignore_files_of_the_user_count(
    repository: Path, users_home: Path, git: GitCall
) -> None:
    """Files that .git/info/exclude or core.excludesFile ignore are not in a snapshot."""
    (repository / ".git/info/exclude").write_text("private.txt\n")
    (users_home / "ignore").write_text("*.swp\n")
    git(repository, "config", "--global", "core.excludesFile", "~/ignore")
    for name in ("private.txt", "a.swp", "seen.txt"):
        (repository / name).write_text("x")
    assert await paths_of(workspace_at(repository)) == {".gitignore", "README.md", "src/app.py", "seen.txt"}


@pytest.mark.req("CM-14")
async def test_each_kind_of_change_is_told(repository: Path) -> None:
    """Added, modified, deleted; a mode or type change is a modification; a rename is both ends."""
    (repository / "link").symlink_to("README.md")
    (repository / "tool").write_text("#!/bin/sh\n")
    (repository / "old").write_text("same\n" * 50)
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "tool").chmod(0o755)
    (repository / "link").unlink()
    (repository / "link").write_text("README.md")
    (repository / "old").rename(repository / "new")
    (repository / "README.md").write_text("hallo\n")
    after = await workspace.snapshot()
    assert await workspace.changes(before, after) == (
        PathChange("README.md", ChangeKind.MODIFIED),
        PathChange("link", ChangeKind.MODIFIED),
        PathChange("new", ChangeKind.ADDED),
        PathChange("old", ChangeKind.DELETED),
        PathChange("tool", ChangeKind.MODIFIED),
    )
    assert await workspace.changes(after, after) == ()


async def test_a_change_of_the_same_size_right_after_a_snapshot_is_seen(repository: Path, git: GitCall) -> None:
    """Neither our own nor the user's copied index hides an edit made within the clock's grain."""
    for number in range(12):
        (repository / "README.md").write_text(f"h{number:04}\n")
        git(repository, "add", ".")
        root_workspace = workspace_at(repository)
        (repository / "README.md").write_text(f"H{number:04}\n")
        first = await root_workspace.snapshot()
        assert await root_workspace.read(first, "README.md") == f"H{number:04}\n".encode()
        (repository / "README.md").write_text(f"X{number:04}\n")
        second = await root_workspace.snapshot()
        assert await root_workspace.read(second, "README.md") == f"X{number:04}\n".encode()
        shutil.rmtree(repository / ".interlock")


async def test_the_users_repository_is_not_touched(repository: Path, git: GitCall) -> None:
    """Index, HEAD, refs and objects of the user stay as they were, byte for byte."""
    (repository / "staged.txt").write_text("staged")
    git(repository, "add", "staged.txt")
    (repository / "README.md").write_text("changed\n")

    def state() -> dict[str, bytes]:
        return {str(f): f.read_bytes() for f in sorted((repository / ".git").rglob("*")) if f.is_file()}

    before = state()
    workspace = workspace_at(repository)
    await workspace.snapshot()
    (repository / "README.md").write_text("again\n")
    await workspace.snapshot()
    assert state() == before


async def test_a_folder_that_is_no_repository_is_covered_with_its_ignore_files(folder: Path) -> None:
    """Without a repository .gitignore files are honoured all the same."""
    (folder / ".gitignore").write_text("*.tmp\n")
    for name in ("a.txt", "a.tmp", "deep/b.txt", "deep/b.tmp"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    workspace = workspace_at(folder)
    before = await workspace.snapshot()
    assert await paths_of(workspace, before) == {".gitignore", "a.txt", "deep/b.txt"}
    (folder / "deep" / "b.txt").unlink()
    assert await changed(workspace, before) == {"deep/b.txt": "deleted"}


async def test_empty_folders_and_repositories_have_snapshots(folder: Path, git: GitCall) -> None:
    """Nothing at all is a snapshot too, with and without a repository that has no commit."""
    assert await workspace_at(folder).snapshot() == EMPTY
    git(folder, "init", "-q")
    workspace = workspace_at(folder)
    assert await workspace.snapshot() == EMPTY
    (folder / "a").write_text("x")
    assert await changed(workspace, EMPTY) == {"a": "added"}


async def test_a_part_of_a_larger_repository_is_a_workspace_of_its_own(repository: Path, git: GitCall) -> None:
    """Paths are those of the workspace, and the ignore files above it apply."""
    part = repository / "packages" / "app [x]"
    (part / "dist").mkdir(parents=True)
    (repository / ".gitignore").write_text("/packages/*/dist/\n")
    for name in ("main.py", "dist/out", "old.py"):
        (part / name).write_text("x")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "part")
    (part / "new.py").write_text("x")
    (part / ".interlock" / "runs").mkdir(parents=True)
    (part / ".interlock" / "runs" / "r").write_text("x")
    workspace = workspace_at(part)
    before = await workspace.snapshot()
    assert await paths_of(workspace, before) == {"main.py", "new.py", "old.py"}
    (part / "main.py").write_text("y")
    (part / "old.py").unlink()
    (repository / "README.md").write_text("outside")
    assert await changed(workspace, before) == {"main.py": "modified", "old.py": "deleted"}
    for name in ("main.py", "old.py"):
        (part / name).write_text("x")
    assert await workspace.snapshot() == before
    for name in ("main.py", "old.py", "new.py"):
        (part / name).unlink()
    assert await workspace.snapshot() == EMPTY


async def test_a_folder_that_the_repository_above_ignores_is_on_its_own(repository: Path) -> None:
    """A workspace inside an ignored folder is still seen."""
    inner = repository / "build" / "scratch"
    inner.mkdir(parents=True)
    (inner / "a.txt").write_text("x")
    assert await paths_of(workspace_at(inner)) == {"a.txt"}


@pytest.mark.req("EN-34")
async def test_edits_inside_nested_repositories_and_submodules_are_seen(
    repository: Path, tmp_path: Path, git: GitCall
) -> None:
    """Each nested repository is one more (path, tree), and its files have the workspace's paths."""
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.c").write_text("int x;\n")
    (library / ".gitignore").write_text("*.o\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "lib")
    git(repository, "submodule", "--quiet", "add", str(library), "third/lib")
    git(repository, "commit", "-qm", "submodule")
    unborn = repository / "unborn"
    unborn.mkdir()
    git(unborn, "init", "-q")
    (unborn / "deep").mkdir()
    git(unborn / "deep", "init", "-q")
    (unborn / "deep" / "d.txt").write_text("d")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    assert [folder for folder, _ in before.trees] == ["", "third/lib", "unborn", "unborn/deep"]
    assert {"third/lib/lib.c", "unborn/deep/d.txt", ".gitmodules"} <= await paths_of(workspace, before)
    (repository / "third/lib/lib.c").write_text("int y;\n")
    (repository / "third/lib/lib.o").write_text("ignored")
    (unborn / "u.txt").write_text("u")
    (unborn / "deep" / "d.txt").unlink()
    assert await changed(workspace, before) == {
        "third/lib/lib.c": "modified",
        "unborn/deep/d.txt": "deleted",
        "unborn/u.txt": "added",
    }
    after = await workspace.snapshot()
    patch = await workspace.patch(before, after)
    (repository / "third/lib/lib.c").write_text("int x;\n")
    (unborn / "u.txt").unlink()
    (unborn / "deep" / "d.txt").write_text("d")
    assert await workspace.snapshot() == before
    git(repository, "apply", "-", stdin=patch)
    assert await workspace.snapshot() == after


@pytest.mark.req("EN-34")
async def test_nested_repositories_may_come_and_go(repository: Path, git: GitCall) -> None:
    """A repository that appears, loses its .git or vanishes shows as changes of its files only."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    nested = repository / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "n.txt").write_text("n")
    with_nested = await workspace.snapshot()
    assert await workspace.changes(before, with_nested) == (PathChange("nested/n.txt", ChangeKind.ADDED),)
    shutil.rmtree(repository / "nested/.git")
    plain = await workspace.snapshot()
    assert plain != with_nested
    assert await workspace.changes(with_nested, plain) == ()
    git(repository / "src", "init", "-q")
    (repository / "src" / "app.py").write_text("hidden?\n")
    assert await changed(workspace, plain) == {"src/app.py": "modified"}
    shutil.rmtree(repository / "nested")
    assert (await changed(workspace, plain))["nested/n.txt"] == "deleted"


@pytest.mark.req("EN-33", "EN-34")
async def test_declared_documents_in_a_nested_repository_are_seen_though_ignored(
    repository: Path, git: GitCall
) -> None:
    """A document's pattern reaches into nested repositories."""
    nested = repository / "sub"
    (nested / "docs").mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / ".gitignore").write_text("docs/\n*.key\n")
    (nested / "docs" / "spec.md").write_text("x")
    (nested / "a.key").write_text("x")
    found = await paths_of(workspace_at(repository, documents=("sub/docs/*.md",), watch=("**/*.key",)))
    assert {name for name in found if name.startswith("sub/")} == {"sub/.gitignore", "sub/docs/spec.md", "sub/a.key"}


async def test_names_and_contents_need_not_be_utf8(repository: Path) -> None:
    """A name in another encoding, a newline in a name and binary contents are kept exactly."""
    names = [os.fsdecode(b"caf\xe9.txt"), "a\nb", " lead", 'quo"te', "-dash", "ünïcode"]
    for name in names:
        (repository / name).write_bytes(b"\x00\xff\r\n" + os.fsencode(name))
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    assert set(names) <= await paths_of(workspace, before)
    for name in names:
        (repository / name).write_bytes(b"other")
    assert set(await changed(workspace, before)) == set(names)
    assert await workspace.read(before, names[0]) == b"\x00\xff\r\n" + os.fsencode(names[0])
    for name in names:
        (repository / name).write_bytes(b"\x00\xff\r\n" + os.fsencode(name))
    assert await workspace.snapshot() == before


@pytest.mark.parametrize("autocrlf", ["false", "true"])
async def test_bytes_are_kept_raw_whatever_attributes_say(repository: Path, git: GitCall, autocrlf: str) -> None:
    """Line ends, ident, encodings and filters of .gitattributes change nothing in a snapshot."""
    git(repository, "config", "core.autocrlf", autocrlf)
    if autocrlf == "false":
        (repository / ".gitattributes").write_text(
            "*.txt text eol=crlf\n*.id ident\n*.u working-tree-encoding=UTF-16\n*.big filter=big\n* -diff merge=union\n"
        )
    git(repository, "config", "filter.big.clean", "tr a-z A-Z")
    git(repository, "config", "filter.big.smudge", "tr A-Z a-z")
    contents = {
        "a.txt": b"one\r\ntwo\r\n",
        "mixed.txt": b"one\r\ntwo\n",
        "b.id": b"$Id: 0123 $\n",
        "c.u": "\ufeffhi".encode("utf-16-le"),
        "d.big": b"MiXed\n",
    }
    for name, content in contents.items():
        (repository / name).write_bytes(content)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "attributes")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    for name, content in contents.items():
        assert await workspace.read(before, name) == content
        (repository / name).unlink()
    after = await workspace.snapshot()
    assert b"-two" in await workspace.patch(before, after)


@pytest.mark.parametrize("untracked", [True, False])
async def test_attribute_files_the_index_does_not_show_are_noticed(
    repository: Path, git: GitCall, untracked: bool
) -> None:
    """Blobs of the user's index are not trusted when attributes in force are new or private."""
    place = repository / (".gitattributes" if untracked else ".git/info/attributes")
    place.write_text("*.txt text\n")
    (repository / "a.txt").write_bytes(b"one\r\n")
    git(repository, "add", "a.txt")
    workspace = workspace_at(repository)
    assert await workspace.read(await workspace.snapshot(), "a.txt") == b"one\r\n"


async def test_flags_in_the_users_index_hide_nothing(repository: Path, git: GitCall) -> None:
    """Edits of files marked assume-unchanged or skip-worktree are seen."""
    git(repository, "update-index", "--assume-unchanged", "README.md")
    git(repository, "update-index", "--skip-worktree", "src/app.py")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    assert await paths_of(workspace, before) == {".gitignore", "README.md", "src/app.py"}
    (repository / "README.md").write_text("edited")
    (repository / "src/app.py").write_text("edited")
    assert await changed(workspace, before) == {"README.md": "modified", "src/app.py": "modified"}


@pytest.mark.req("EN-33")
@pytest.mark.parametrize("kind", ["plain", "flagged", "attributes"])
async def test_tracked_files_count_though_a_pattern_ignores_them(repository: Path, git: GitCall, kind: str) -> None:
    """Git does not ignore what the user tracks, however the first snapshot comes about."""
    (repository / "kept.log").write_text("tracked")
    (repository / "other.log").write_text("ignored")
    if kind == "attributes":
        (repository / ".gitattributes").write_text("* text=auto\n")
    git(repository, "add", "-f", "kept.log", ".gitattributes" if kind == "attributes" else "kept.log")
    if kind == "flagged":
        git(repository, "update-index", "--assume-unchanged", "kept.log")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "kept.log").write_text("changed")
    assert await changed(workspace, before) == {"kept.log": "modified"}
    (repository / ".interlock/snapshots.git/indexes/root").write_bytes(b"damaged")
    (repository / ".git/index").unlink()
    assert await changed(workspace_at(repository), before) == {"kept.log": "modified"}


async def test_a_tracked_folder_that_is_now_an_ignored_link_is_not_looked_into(
    repository: Path, tmp_path: Path, git: GitCall
) -> None:
    """Files that the user's index has beyond a link are not there."""
    (repository / ".gitattributes").write_text("* text=auto\n")
    (repository / "data").mkdir()
    (repository / "data/x.log").write_text("x")
    git(repository, "add", "-f", ".")
    (repository / "data").rename(tmp_path / "data")
    (repository / "data").symlink_to(tmp_path / "data")
    assert await paths_of(workspace_at(repository)) == {
        *(".gitattributes", ".gitignore", "README.md", "src/app.py", "data")
    }


async def test_odd_indexes_of_the_user_are_handled(repository: Path, git: GitCall) -> None:
    """Split index, sparse checkout, intent to add and a conflict in progress give the right files."""
    git(repository, "branch", "other")
    (repository / "README.md").write_text("ours\n")
    git(repository, "commit", "-qam", "ours")
    git(repository, "checkout", "-q", "other")
    (repository / "README.md").write_text("theirs\n")
    git(repository, "commit", "-qam", "theirs")
    git(repository, "merge", "-q", "main", check=False)
    assert "UU README.md" in git(repository, "status", "--short")
    (repository / "later.txt").write_text("later")
    git(repository, "add", "--intent-to-add", "later.txt")
    expected = {".gitignore", "README.md", "src/app.py", "later.txt"}
    workspace = workspace_at(repository)
    snapshot = await workspace.snapshot()
    assert await paths_of(workspace, snapshot) == expected
    assert b"<<<<<<<" in (await workspace.read(snapshot, "README.md") or b"")
    assert await workspace.read(snapshot, "later.txt") == b"later"

    shutil.rmtree(repository / ".interlock")
    git(repository, "update-index", "--split-index")
    assert await paths_of(workspace_at(repository)) == expected

    shutil.rmtree(repository / ".interlock")
    git(repository, "reset", "-q", "--hard")
    git(repository, "sparse-checkout", "set", "--sparse-index", "nothing")
    assert not (repository / "src").exists()
    assert await paths_of(workspace_at(repository)) == {".gitignore", "README.md"}


async def test_snapshots_outlive_the_users_garbage_collection(repository: Path, git: GitCall) -> None:
    """What a snapshot needs stays when the user rewrites history and prunes."""
    (repository / "staged.txt").write_text("only in the index\n")
    git(repository, "add", "staged.txt")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    git(repository, "rm", "-q", "--cached", "staged.txt")
    (repository / "staged.txt").unlink()
    (repository / "src/app.py").unlink()
    git(repository, "commit", "-qam", "x", "--amend")
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "-q", "--prune=now")
    fresh = workspace_at(repository)
    assert await fresh.read(before, "staged.txt") == b"only in the index\n"
    assert (await fresh.read(before, "src/app.py") or b"").startswith(b"print")


async def test_a_crash_in_the_middle_leaves_nothing_that_stops_the_next(repository: Path) -> None:
    """A stale lock, a damaged index and a shadow repository without control files are mended."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    shadow = repository / ".interlock/snapshots.git"
    (shadow / "indexes/root.lock").write_bytes(b"half")
    (repository / "README.md").write_text("x")
    assert await changed(workspace_at(repository), before) == {"README.md": "modified"}
    (shadow / "indexes/root").write_bytes(b"DIRC garbage")
    (shadow / "HEAD").unlink()
    assert await changed(workspace_at(repository), before) == {"README.md": "modified"}


async def test_an_index_that_somebody_else_touched_is_not_believed(
    repository: Path, git: GitCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that marks files as unchanged in the shadow index hides nothing."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    shadow = repository / ".interlock/snapshots.git"
    monkeypatch.setenv("GIT_INDEX_FILE", str(shadow / "indexes/root"))
    planted = ("update-index", "--assume-unchanged", "README.md")
    git(repository, f"--git-dir={shadow}", f"--work-tree={repository}", *planted)
    (repository / "README.md").write_text("hidden?")
    assert await changed(workspace, before) == {"README.md": "modified"}


async def test_an_unchanged_tree_rewrites_nothing(repository: Path) -> None:
    """The second snapshot of an unchanged tree leaves the index file alone."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    index = repository / ".interlock/snapshots.git/indexes/root"
    stamp = index.stat()
    assert await workspace.snapshot() == before
    assert index.stat().st_ino == stamp.st_ino
    assert index.stat().st_mtime_ns == stamp.st_mtime_ns


async def test_files_folders_links_and_pipes_may_change_places(repository: Path, tmp_path: Path) -> None:
    """A file that becomes a folder, a folder that becomes a link, and a pipe are told for what they are."""
    (repository / "a").write_text("file")
    (repository / "d").mkdir()
    (repository / "d/x").write_text("x")
    (repository / "p").write_text("p")
    (repository / "e").mkdir()
    (repository / "e/y").write_text("y")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("other")
    (outside / "y").write_text("other")
    for name in ("a", "d/x", "p", "e/y"):
        (repository / name).unlink()
    (repository / "a").mkdir()
    (repository / "a/b").write_text("b")
    (repository / "d").rmdir()
    (repository / "d").symlink_to(outside)
    (repository / "e").rmdir()
    (repository / "e").symlink_to(outside)
    (repository / ".git/info/exclude").write_text("e\n")
    os.mkfifo(repository / "p")
    assert await changed(workspace, before) == {
        "a": "deleted",
        "a/b": "added",
        "d": "added",
        "d/x": "deleted",
        "e/y": "deleted",
        "p": "deleted",
    }
    assert (outside / "x").read_text() == "other"
    assert (outside / "y").read_text() == "other"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_what_cannot_be_read_does_not_count(repository: Path) -> None:
    """A file without read permission is left out and stops nothing."""
    (repository / "secret").write_text("x")
    (repository / "secret").chmod(0)
    assert "secret" not in await paths_of(workspace_at(repository))


async def test_callers_that_wait_share_one_snapshot(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 callers cost one scan; who asks during a scan gets the next, which sees later edits."""
    scans = 0
    looked, go_on = asyncio.Event(), asyncio.Event()
    go_on.set()
    take = FolderIndex.take

    async def counted(self: FolderIndex) -> object:
        nonlocal scans
        scans += 1
        taken = await take(self)
        looked.set()
        await go_on.wait()
        return taken

    monkeypatch.setattr(FolderIndex, "take", counted)
    workspace = workspace_at(repository)
    results = await asyncio.gather(*(workspace.snapshot() for _ in range(200)))
    assert (scans, len(set(results))) == (1, 1)

    looked.clear()
    go_on.clear()
    running = asyncio.create_task(workspace.snapshot())
    await looked.wait()
    (repository / "README.md").write_text("late edit")
    waiting = [asyncio.create_task(workspace.snapshot()) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    go_on.set()
    late = await asyncio.gather(*waiting[1:])
    assert await running == results[0]
    assert (scans, len(set(late))) == (3, 1)
    assert await workspace.read(late[0], "README.md") == b"late edit"


async def test_a_failed_snapshot_fails_for_all_who_wait_and_the_next_works(folder: Path, tmp_path: Path) -> None:
    """A workspace that is gone is an error of its own kind; it is not sticky."""
    workspace = workspace_at(folder)
    folder.rename(tmp_path / "elsewhere")
    failed = await asyncio.gather(workspace.snapshot(), workspace.snapshot(), return_exceptions=True)
    assert all(isinstance(error, WorkspaceFailed) for error in failed)
    (tmp_path / "elsewhere").rename(folder)
    assert await workspace.snapshot() == EMPTY


@pytest.mark.req("LY-30")
async def test_runs_in_one_workspace_look_one_after_the_other(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All use the same indexes: while one looks, another one cannot; whoever waits gets its own snapshot."""
    workspaces = [workspace_at(repository) for _ in range(3)]
    take, alone = FolderIndex.take, []

    async def taking(index: FolderIndex) -> Taken:
        with pytest.raises(Timeout):
            FileLock(workspaces[0].home / "locks" / "snapshots.lock", thread_local=False).acquire(timeout=0)
        alone.append(index)
        return await take(index)

    monkeypatch.setattr(FolderIndex, "take", taking)
    found = await asyncio.gather(*(workspace.snapshot() for workspace in workspaces))
    assert len(set(found)) == 1
    assert len(alone) == len(workspaces)


async def test_snapshots_travel_as_json(repository: Path) -> None:
    """A snapshot read back from its JSON is equal; anything else is refused."""
    snapshot = await workspace_at(repository).snapshot()
    odd = Snapshot((*snapshot.trees, ("sub\udcff", snapshot.trees[0][1])))
    for one in (snapshot, odd):
        assert Snapshot.from_json(json.loads(json.dumps(one.to_json()))) == one
    for bad in (None, "x", [["", 3]], [["a"]], {"": "x"}, [["", "--output=x"]]):
        with pytest.raises(DocumentInvalid):
            Snapshot.from_json(bad)


async def test_patches_hold_chosen_paths_and_apply(repository: Path, git: GitCall) -> None:
    """A patch of some paths holds exactly those, binary and modes too, and applies from the root."""
    (repository / "bin").write_bytes(b"\x00\x01")
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "bin").write_bytes(b"\x00\x02\xff")
    (repository / "bin").chmod(0o755)
    (repository / "src/app.py").unlink()
    (repository / "other*").write_text("x")
    (repository / "other1").write_text("x")
    after = await workspace.snapshot()
    patch = await workspace.patch(before, after, ["bin", "src/app.py", "other*"])
    assert b"other1" not in patch
    (repository / "bin").write_bytes(b"\x00\x01")
    (repository / "bin").chmod(0o644)
    git(repository, "checkout", "-q", "src/app.py")
    for name in ("other*", "other1"):
        (repository / name).unlink()
    git(repository, "apply", "-", stdin=patch)
    assert await changed(workspace, before) == {"bin": "modified", "src/app.py": "deleted", "other*": "added"}
    assert await workspace.patch(before, before) == b""
    with pytest.raises(PathRefused):
        await workspace.patch(before, after, ["../x"])


async def test_reading_gives_the_bytes_of_the_moment(repository: Path) -> None:
    """A file is read as it was; what was not there is None, a folder is no file."""
    workspace = workspace_at(repository)
    before = await workspace.snapshot()
    (repository / "README.md").write_text("later\n")
    assert await workspace.read(before, "./README.md") == b"hello\n"
    assert await workspace.read(before, "nowhere/x") is None
    assert await workspace.read(before, "src") is None


async def test_five_thousand_files_are_no_trouble(folder: Path) -> None:
    """Many new files are taken and compared."""
    for number in range(5000):
        (folder / f"d{number % 100}").mkdir(exist_ok=True)
        (folder / f"d{number % 100}/{number}.txt").write_text(str(number))
    workspace = workspace_at(folder)
    before = await workspace.snapshot()
    assert len(await paths_of(workspace, before)) == 5000
    for number in range(0, 5000, 10):
        (folder / f"d{number % 100}/{number}.txt").unlink()
    names = list(await changed(workspace, before))
    assert len(names) == 500
    for number in range(0, 5000, 10):
        (folder / f"d{number % 100}/{number}.txt").write_text(str(number))
    assert await workspace.snapshot() == before
