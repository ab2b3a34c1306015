"""Bring what was done in a worktree into the shared tree, by git's own three-way merge.

The merge happens between trees in the shadow repository; files are touched only when it has no conflict at all.
A conflict is never resolved here: it is handed back as evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.workspace.scope import Scope
from interlock.workspace.snapshots import Snapshot, Workspace

CONFLICT_BYTES = 20_000
"""How much of a conflict's text is kept, per file."""

_OURS = "shared tree"


@dataclass(frozen=True)
class Conflict:
    path: str
    text: str
    """What git says of it, and for text files the merged text with conflict markers; bounded."""


@dataclass(frozen=True)
class MergeResult:
    paths: tuple[str, ...] = ()
    """Files that were written (or removed) in the shared tree."""
    conflicts: tuple[Conflict, ...] = ()
    """Not empty: nothing was written."""
    outside: tuple[str, ...] = ()
    """Changes outside the given scope; they were left out."""

    @property
    def merged(self) -> bool:
        return not self.conflicts


async def merge(
    workspace: Workspace, base: Snapshot, theirs: Snapshot, *, label: str, paths: Scope | None = None
) -> MergeResult:
    """Apply what `theirs` changed since `base` to the workspace as it is now.

    Args:
        label: names their side in conflict markers.
        paths: only changes in this scope are taken.
    """
    async with workspace.merging:
        base_tree = await workspace.whole(base)
        changed = await workspace.differences(base_tree, await workspace.whole(theirs))
        taken = [entry for entry in changed if paths is None or paths.covers(entry.path)]
        outside = tuple(sorted({entry.path for entry in changed} - {entry.path for entry in taken}))
        if not taken:
            return MergeResult(outside=outside)
        ours_tree = await workspace.whole(await workspace.snapshot())
        merged_tree, conflicts = await _merge_trees(
            workspace, base_tree, ours_tree, await workspace.edited(base_tree, taken), label
        )
        if conflicts:
            return MergeResult(conflicts=conflicts, outside=outside)
        written = tuple(sorted(entry.path for entry in await workspace.differences(ours_tree, merged_tree)))
        await workspace.restore(Snapshot((("", merged_tree),)), written)
        return MergeResult(paths=written, outside=outside)


async def _merge_trees(
    workspace: Workspace, base: str, ours: str, theirs: str, label: str
) -> tuple[str, tuple[Conflict, ...]]:
    git = workspace.shadow.plain

    async def commit(tree: str, message: str, *parents: str) -> str:
        options = [word for parent in parents for word in ("-p", parent)]
        return (await git.run("commit-tree", tree, "-m", message, *options)).decode().strip()

    root = await commit(base, "base")
    our_commit = await commit(ours, "ours", root)
    their_commit = await commit(theirs, "theirs", root)
    async with workspace.shadow.busy():
        answer = await git.run("merge-tree", "--write-tree", "-z", "--messages", our_commit, their_commit, ok=(0, 1))
    tree, _, rest = answer.decode("utf-8", "surrogateescape").partition("\0")
    # Between the tree and the messages stand the unmerged entries, each closed by NUL, and one NUL more.
    unmerged, _, messages = ("", "", rest[1:]) if rest.startswith("\0") else rest.partition("\0\0")
    said = _conflict_messages(messages)
    names = dict.fromkeys([entry.partition("\t")[2] for entry in unmerged.split("\0") if entry] + list(said))
    sides = ((our_commit, _OURS), (their_commit, label))
    found: dict[str, str] = {}
    for name in names:
        text = said.get(name, "") + await _marked_text(workspace, tree, name)
        path = name
        for commit_id, side in sides:
            # Git sets a file aside under such a name where the other side has a folder.
            path = path.removesuffix(f"~{commit_id}")
            text = text.replace(commit_id, side)
        found[path] = found.get(path, "") + text
    return tree, tuple(Conflict(path, text) for path, text in found.items())


async def _marked_text(workspace: Workspace, tree: str, path: str) -> str:
    content = await workspace.read(Snapshot((("", tree),)), path)
    if content is None or b"\0" in content[:8000] or b"<<<<<<< " not in content:
        return ""
    text = content[:CONFLICT_BYTES].decode("utf-8", "replace")
    return text if len(content) <= CONFLICT_BYTES else f"{text}\n[cut: {len(content)} bytes in all]\n"


def _conflict_messages(output: str) -> dict[str, str]:
    """What git says of each conflict, by path, from ``-z`` messages: a count, so many paths, the kind, the sentence."""
    parts = output.split("\0")
    told: dict[str, str] = {}
    at = 0
    while at < len(parts) and parts[at].isdigit():
        kind_at = at + 1 + int(parts[at])
        kind, sentence = parts[kind_at], parts[kind_at + 1]
        if kind.startswith("CONFLICT"):
            for path in parts[at + 1 : kind_at]:
                told[path] = told.get(path, "") + sentence
        at = kind_at + 2
    return told
