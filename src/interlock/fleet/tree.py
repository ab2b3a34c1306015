"""A tree that arrives: what it would overwrite here, and how it is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.agents.environment import Redaction
from interlock.errors import Refused, WorkspaceFailed
from interlock.fleet.remote import Remote
from interlock.workspace import ChangeKind, Workspace
from interlock.workspace.git import Git
from interlock.workspace.objects import Stored, reading
from interlock.workspace.scan import HOME, TEAM_FOLDERS
from interlock.workspace.scope import Scope
from interlock.workspace.shadow import EMPTY_TREE

_SHOWN = 5


@dataclass(frozen=True)
class Standpoint:
    """Where the user's HEAD is."""

    commit: str | None
    branch: str | None
    prefix: str = ""


async def standpoint(remote: Remote) -> Standpoint:
    """Where the user's HEAD is; nowhere in a folder without a repository, and before the first commit."""
    if remote.repository is None:
        return Standpoint(None, None)
    prefix = remote.workspace.root.relative_to(remote.repository.top.resolve()).as_posix()
    commit = await remote.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", reads=True)
    branch = await remote.git("symbolic-ref", "--quiet", "--short", "HEAD", reads=True)
    found = commit.text.strip() or None
    if found is not None and len(found) != 40:
        raise Refused("repositories with SHA-256 names cannot carry runs", where=str(remote.repository.top))
    return Standpoint(found, branch.text.strip() or None, "" if prefix == "." else f"{prefix}/")


async def tree_at(remote: Remote, commit: str | None, prefix: str) -> str:
    """The workspace as a commit has it, in the shadow repository."""
    if commit is None:
        return EMPTY_TREE
    await remote.bring(commit)
    if not prefix:
        return await remote.asked("rev-parse", f"{commit}^{{tree}}")
    found = await remote.git("rev-parse", "--verify", "--quiet", f"{commit}:{prefix.rstrip('/')}", reads=True)
    return found.text.strip() or EMPTY_TREE


async def check_secrets(
    workspace: Workspace, base: str, objects: Sequence[Stored], redaction: Redaction, clean: set[str]
) -> None:
    """`Refused` when something that is about to travel holds a secret of this environment or of the settings.

    Args:
        base: what travels anyway, since it is committed.
        objects: trees of the workspace, now and at earlier moments, and files of theirs.
        clean: files that were looked at before; those of now are added.
    """
    if not redaction.needed:
        return
    found: dict[str, str] = {}
    for one in objects:
        if one.is_folder:
            changes = await workspace.differences(base, one.name)
            found |= {entry.new_blob: entry.path for entry in changes if entry.new_mode not in ("000000", "160000")}
        else:
            found.setdefault(one.name, "work that is not imported yet")
    fresh = {blob: path for blob, path in found.items() if blob not in clean}
    async with reading(workspace.shadow, workspace.trees) as stored:
        held = {path for blob, path in fresh.items() if redaction.bytes(content := await stored.blob(blob)) != content}
    if held:
        raise Refused(
            "what is not committed holds a secret, and secrets do not travel",
            where=", ".join(sorted(held)[:_SHOWN]),
            remedy=(
                "Take it out, or have git ignore the file. Agents get secrets from the environment of whoever runs "
                "them. Where an earlier snapshot of the run holds it, start a new run."
            ),
        )
    clean |= fresh.keys()


def check_records(held: Sequence[str]) -> None:
    """`Refused` when records hold a secret that nobody knew to be one when they were written."""
    if held:
        raise Refused(
            "the records of the run hold a secret, and secrets do not travel",
            where=", ".join(held[:_SHOWN]),
            remedy="It came in before it was known as one. Start a new run, with the secret in the environment only.",
        )


@dataclass(frozen=True)
class Arrival:
    """What has to be done in a workspace so that it holds a tree."""

    tree: str
    written: tuple[str, ...]
    removed: tuple[str, ...]
    aside: tuple[str, ...]
    """Ignored files that stand where one is to be written, or one of its folders: they go to the attic."""


async def plan_arrival(workspace: Workspace, tree: str, known: Sequence[str], only: Scope | None = None) -> Arrival:
    """How the workspace comes to hold a tree; `Refused` where that would overwrite somebody's work or ours.

    Args:
        known: trees whose files are nobody's new work.
        only: the files that are wanted.
    """
    here = await workspace.whole(await workspace.snapshot())
    wanted = [one for one in await workspace.differences(here, tree) if only is None or only.covers(one.path)]
    if only is not None:
        wanted = [one for one in wanted if one.kind is not ChangeKind.DELETED]
    await _check_names(workspace, tree, [one.path for one in wanted])
    mine = {one.path: (one.old_mode, one.old_blob) for one in wanted if one.kind is not ChangeKind.ADDED}
    for other in known:
        same = {one.path for one in await workspace.differences(here, other)}
        mine = {path: entry for path, entry in mine.items() if path in same}
    if mine:
        raise Refused(
            f"{len(mine)} {'file' if len(mine) == 1 else 'files'} here would be overwritten that nobody has committed",
            where=", ".join(sorted(mine)[:_SHOWN]),
            remedy="Commit or stash them, or take the run in another clone.",
        )
    added = [one.path for one in wanted if one.kind is ChangeKind.ADDED]
    return Arrival(
        tree,
        tuple(one.path for one in wanted if one.kind is not ChangeKind.DELETED),
        tuple(one.path for one in wanted if one.kind is ChangeKind.DELETED),
        tuple(dict.fromkeys(filter(None, (_in_the_way(workspace.root, path) for path in added)))),
    )


async def _check_names(workspace: Workspace, tree: str, paths: Sequence[str]) -> None:
    """`Refused` for a tree with names that lead out of the workspace, into git's own folder or into the engine's."""
    ours = [path for path in paths if path.split("/")[0].lower() == HOME and not path.startswith(TEAM_FOLDERS)]
    try:
        async with workspace.shadow.busy(), workspace.shadow.scratch() as scratch:
            git = Git(scratch.git_dir, workspace.root, index=scratch.index, own_common_dir=True)
            await git.run("read-tree", tree)
        found = ", ".join(ours[:_SHOWN])
    except WorkspaceFailed as error:
        found = error.found or error.what
    if found:
        raise Refused(
            "the tree of this run has files that no workspace has",
            found=found,
            remedy="Nothing was changed here. Ask whoever had the run last where they come from.",
        )


def _in_the_way(root: Path, path: str) -> str | None:
    """What stands where a file is to be written, or where a folder has to be for it; None: nothing."""
    parts = Path(path).parts
    for end in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:end])
        if not os.path.lexists(place):
            return None
        if end == len(parts) or place.is_symlink() or not place.is_dir():
            return "/".join(parts[:end])
    return None


async def write_arrival(workspace: Workspace, arrival: Arrival, into: str) -> None:
    """Write the tree; what has to go is kept in the attic."""
    try:
        for path in dict.fromkeys((*arrival.removed, *arrival.aside)):
            workspace.attic.take(workspace.root, path, into)
            _drop_empty(workspace.root, Path(path).parent)
        if not arrival.written:
            return
        async with workspace.shadow.busy(), workspace.shadow.scratch() as scratch:
            git = Git(scratch.git_dir, workspace.root, index=scratch.index, own_common_dir=True)
            await git.run("read-tree", arrival.tree)
            names = b"\0".join([*map(os.fsencode, arrival.written), b""])
            await git.run("checkout-index", "--force", "-z", "--stdin", stdin=names)
    except OSError as error:
        raise WorkspaceFailed.of(error, "the tree cannot be written", where=str(workspace.root)) from error


def _drop_empty(root: Path, folder: Path) -> None:
    while folder.parts and (root / folder).is_dir() and not any((root / folder).iterdir()):
        (root / folder).rmdir()
        folder = folder.parent
