"""A work as a patch; the cost is that of what changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from interlock.workspace.layers.seam import Entry, Work
from interlock.workspace.objects import reading
from interlock.workspace.past import Past
from interlock.workspace.snapshots import Snapshot, Workspace

_PATCH = ("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")

_Line = tuple[str, str, str]
"""Path, git's mode, blob."""


async def work_of(workspace: Workspace, past: Snapshot, now: Snapshot, paths: Sequence[str]) -> Work:
    """What somebody would have done who put these files back to what they were at a snapshot."""
    async with workspace.shadow.busy(), reading(workspace.shadow, workspace.trees) as objects:
        at = Past(past, objects)
        found = [(path, await at.file(path)) for path in paths]
    entries = (Entry(path, entry.mode, entry.name) if entry else Entry(path, 0, "") for path, entry in found)
    return Work(now, tuple(entries))


async def work_patch(workspace: Workspace, work: Work) -> bytes:
    """The work as a binary patch for ``git apply`` in the workspace's root."""
    old: list[_Line] = []
    async with reading(workspace.shadow, workspace.trees) as objects:
        past = Past(work.base, objects)
        for entry in work.entries:
            found = await past.entry(entry.path)
            if found is not None and not found.is_folder:
                old.append((entry.path, f"{found.mode:06o}", found.name))
    new = [(entry.path, _git_mode(entry.mode), entry.blob) for entry in work.entries if entry.blob]
    before, after = await _tree(workspace, old), await _tree(workspace, new)
    async with workspace.shadow.busy():
        return await workspace.shadow.plain.run("diff-tree", *_PATCH, before, after, reads=True)


async def _tree(workspace: Workspace, lines: list[_Line]) -> str:
    """A tree of nothing but these files."""
    given = [f"{mode} {blob}\t".encode() + os.fsencode(path) for path, mode, blob in lines]
    async with workspace.shadow.busy(), workspace.shadow.scratch() as git:
        if given:
            await git.run("update-index", "-z", "--index-info", stdin=b"\0".join([*given, b""]))
        return (await git.run("write-tree")).decode().strip()


def _git_mode(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & 0o100 else "100644"
