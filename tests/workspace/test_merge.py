"""Merging a worktree's result: all of it or nothing, and a conflict is evidence."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.workspace import MergeResult, Scope, Snapshot, Workspace, Worktree, merge, open_worktree
from interlock.workspace.merge import CONFLICT_BYTES

GitCall = Callable[..., str]
LINES = "".join(f"line {number}\n" for number in range(20))


@dataclass(frozen=True)
class Meeting:
    """A workspace and a worktree that start from the same snapshot."""

    workspace: Workspace
    worktree: Worktree
    base: Snapshot

    @property
    def here(self) -> Path:
        return self.workspace.root

    @property
    def there(self) -> Path:
        return self.worktree.root

    async def merge(self, scope: Scope | None = None) -> MergeResult:
        theirs = await self.worktree.snapshot()
        return await merge(self.workspace, self.base, theirs, label="implementer-T1", paths=scope)


@pytest.fixture
async def meeting(repository: Path, cache: Path) -> Meeting:
    (repository / "text.txt").write_text(LINES)
    (repository / "bin").write_bytes(b"\x00\x01\x02")
    (repository / "tool").write_text("#!/bin/sh\n")
    (repository / os.fsdecode(b"n\xe9")).write_bytes(b"\xe9\n" * 9)
    workspace = Workspace(repository, repository / ".interlock")
    base = await workspace.snapshot()
    return Meeting(workspace, await open_worktree(workspace, base, "w", cache), base)


async def test_changes_of_both_sides_meet(meeting: Meeting) -> None:
    """Different files, and different places of one file, are joined; added, deleted, modes and bytes too."""
    odd = os.fsdecode(b"n\xe9")
    (meeting.here / "text.txt").write_text(LINES.replace("line 1\n", "ours\n"))
    (meeting.here / "ours.txt").write_text("ours")
    (meeting.there / "text.txt").write_text(LINES.replace("line 18\n", "theirs\n"))
    (meeting.there / "new/deep").mkdir(parents=True)
    (meeting.there / "new/deep/x.bin").write_bytes(b"\x00\xff")
    (meeting.there / "tool").chmod(0o755)
    (meeting.there / "bin").unlink()
    (meeting.there / "link").symlink_to("text.txt")
    (meeting.there / odd).write_bytes(b"\xe9\n" * 10)
    result = await meeting.merge()
    assert result.merged
    assert result.paths == tuple(sorted(["bin", "link", "new/deep/x.bin", "text.txt", "tool", odd]))
    assert (meeting.here / "text.txt").read_text() == LINES.replace("line 1\n", "ours\n").replace("line 18", "theirs")
    assert (meeting.here / "ours.txt").read_text() == "ours"
    assert (meeting.here / "new/deep/x.bin").read_bytes() == b"\x00\xff"
    assert os.access(meeting.here / "tool", os.X_OK)
    assert not (meeting.here / "bin").exists()
    assert (meeting.here / "link").is_symlink()
    assert (meeting.here / odd).read_bytes() == b"\xe9\n" * 10


@pytest.mark.req("EN-37")
async def test_a_conflict_writes_nothing_and_is_the_evidence(meeting: Meeting) -> None:
    """The same lines changed twice: no file changes, and the conflict shows both sides by name."""
    (meeting.here / "text.txt").write_text(LINES.replace("line 5\n", "ours\n"))
    (meeting.there / "text.txt").write_text(LINES.replace("line 5\n", "theirs\n"))
    (meeting.there / "other.txt").write_text("would be clean")
    before = await meeting.workspace.snapshot()
    result = await meeting.merge()
    assert not result.merged
    assert result.paths == ()
    (conflict,) = result.conflicts
    assert conflict.path == "text.txt"
    assert "<<<<<<< shared tree\nours\n=======\ntheirs\n>>>>>>> implementer-T1\n" in conflict.text
    assert await meeting.workspace.snapshot() == before


@pytest.mark.parametrize("kind", ["binary", "deleted here", "deleted there", "added twice", "file and folder", "link"])
async def test_what_cannot_be_merged_is_a_conflict(meeting: Meeting, kind: str) -> None:
    """Binary, deleted and modified, added on both sides, and changes of type are conflicts that name the path."""
    here, there = meeting.here, meeting.there
    path = "text.txt"
    match kind:
        case "binary":
            path = "bin"
            (here / path).write_bytes(b"\x00ours")
            (there / path).write_bytes(b"\x00theirs")
        case "deleted here":
            (here / path).unlink()
            (there / path).write_text(LINES + "more\n")
        case "deleted there":
            (here / path).write_text(LINES + "more\n")
            (there / path).unlink()
        case "added twice":
            path = "added"
            (here / path).write_text("ours\n")
            (there / path).write_text("theirs\n")
        case "file and folder":
            path = "added"
            (here / path).write_text("ours\n")
            (there / path).mkdir()
            (there / path / "x").write_text("theirs\n")
        case "link":
            path = "added"
            (here / path).symlink_to("a")
            (there / path).symlink_to("b")
    before = await meeting.workspace.snapshot()
    result = await meeting.merge()
    assert [conflict.path for conflict in result.conflicts] == [path]
    assert "CONFLICT" in result.conflicts[0].text
    assert await meeting.workspace.snapshot() == before


async def test_the_same_change_on_both_sides_is_no_conflict(meeting: Meeting) -> None:
    """What both did alike is done."""
    for root in (meeting.here, meeting.there):
        (root / "text.txt").write_text(LINES + "same\n")
    assert await meeting.merge() == MergeResult()


async def test_only_changes_in_scope_are_taken(meeting: Meeting) -> None:
    """Changes outside the scope are named and left out."""
    (meeting.there / "src/app.py").write_text("in scope\n")
    (meeting.there / "README.md").write_text("out of scope\n")
    result = await meeting.merge(Scope(("src/**",)))
    assert result == MergeResult(paths=("src/app.py",), outside=("README.md",))
    assert (meeting.here / "README.md").read_text() == "hello\n"


async def test_results_are_merged_one_after_the_other(repository: Path, cache: Path) -> None:
    """Merges asked for at once each see what the one before wrote: nothing is lost."""
    (repository / "text.txt").write_text(LINES)
    workspace = Workspace(repository, repository / ".interlock")
    base = await workspace.snapshot()
    worktrees = [await open_worktree(workspace, base, f"w{number}", cache) for number in range(4)]
    for number, worktree in enumerate(worktrees):
        (worktree.root / "text.txt").write_text(LINES.replace(f"line {number * 5}\n", f"changed {number}\n"))
    snapshots = await asyncio.gather(*(worktree.snapshot() for worktree in worktrees))
    results = await asyncio.gather(*(merge(workspace, base, theirs, label="w") for theirs in snapshots))
    assert all(result.paths == ("text.txt",) for result in results)
    assert (repository / "text.txt").read_text().count("changed") == 4


async def test_files_of_nested_repositories_are_merged(repository: Path, cache: Path, git: GitCall) -> None:
    """A worktree's edit of a nested repository's file lands in that repository's folder."""
    nested = repository / "lib"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "l.c").write_text("l\n")
    workspace = Workspace(repository, repository / ".interlock")
    base = await workspace.snapshot()
    worktree = await open_worktree(workspace, base, "w", cache)
    (worktree.root / "lib/l.c").write_text("edited\n")
    result = await merge(workspace, base, await worktree.snapshot(), label="w")
    assert result.paths == ("lib/l.c",)
    assert (nested / "l.c").read_text() == "edited\n"
    assert (nested / ".git").is_dir()


async def test_the_text_of_a_conflict_is_bounded(meeting: Meeting) -> None:
    """A conflict in a huge file keeps its beginning and says how long it was."""
    (meeting.here / "huge").write_text("ours\n" * 20_000)
    (meeting.there / "huge").write_text("theirs\n" * 20_000)
    (conflict,) = (await meeting.merge()).conflicts
    assert len(conflict.text) < CONFLICT_BYTES + 500
    assert "[cut:" in conflict.text


async def test_a_renamed_file_gets_the_other_sides_edit(meeting: Meeting) -> None:
    """Git's own rename detection applies, as in the user's merges."""
    (meeting.here / "text.txt").write_text(LINES.replace("line 3\n", "ours\n"))
    (meeting.there / "text.txt").rename(meeting.there / "renamed.txt")
    result = await meeting.merge()
    assert result.paths == ("renamed.txt", "text.txt")
    assert (meeting.here / "renamed.txt").read_text() == LINES.replace("line 3\n", "ours\n")
