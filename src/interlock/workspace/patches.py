"""A work as a patch; the cost is that of what changed."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from uuid import uuid4

from interlock.workspace.layers.seam import Entry, KeptWork
from interlock.workspace.objects import LINK, Stored, reading, store_tree
from interlock.workspace.past import PastTree
from interlock.workspace.snapshots import Snapshot, Workspace
from interlock.workspace.waiting import GitQuestion

_PATCH = ("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


async def work_of(workspace: Workspace, past: Snapshot, now: Snapshot, paths: Sequence[str]) -> KeptWork:
    """What somebody would have done who put these files back to what they were at a snapshot."""
    async with workspace.shadow.busy(), reading(workspace.shadow, workspace.trees) as objects:
        at = PastTree(past, objects)
        found = [(path, await at.file(path)) for path in paths]
    entries = (Entry(path, entry.mode, entry.name) if entry else Entry(path, 0, "") for path, entry in found)
    return KeptWork(now, tuple(entries))


async def work_patch(workspace: Workspace, work: KeptWork) -> bytes:
    """The work as a binary patch for ``git apply`` in the workspace's root."""
    shadow = workspace.shadow
    async with shadow.busy(), reading(shadow, workspace.trees) as objects:
        past = PastTree(work.base, objects)
        found = [(entry.path, await past.file(entry.path)) for entry in work.entries]
        old = [(path, entry) for path, entry in found if entry is not None]
        new = [(entry.path, Stored(_git_mode(entry.mode), entry.blob)) for entry in work.entries if entry.blob]
        call = _call(workspace)
        before, after = await asyncio.to_thread(lambda: (store_tree(shadow, old), store_tree(shadow, new)))
        async with workspace.differing.talk(call) as talk:
            # It says the trees first, and what is no tree it says again, at once.
            end = f"end-{uuid4().hex}\n".encode()
            await talk.ask(f"{before} {after}\n".encode() + end)
            await talk.until(b"\n")
            return await talk.until(end)


async def prepare(workspace: Workspace) -> None:
    """Be ready to tell a work as a patch."""
    await workspace.differing.prepare(_call(workspace))


def _call(workspace: Workspace) -> GitQuestion:
    return GitQuestion(workspace.shadow.plain, ("diff-tree", "--stdin", *_PATCH))


def _git_mode(mode: int) -> int:
    if stat.S_ISLNK(mode):
        return LINK
    return 0o100755 if mode & 0o100 else 0o100644
