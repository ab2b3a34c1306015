"""A folder of its own for a task that changes code: a git worktree, filled from a snapshot.

The agent in it sees the user's history and can build; the engine looks at it through the shadow repository only.
So commits made there are flattened (the tree alone counts), and a ``.git`` file replaced there leads nowhere.
Files are written from the snapshot by the shadow repository: no hook, no filter of the user runs.
"""

from __future__ import annotations

import asyncio
import os
from hashlib import sha256
from pathlib import Path, PurePosixPath

from interlock.errors import PathRefused, WorkspaceFailed
from interlock.workspace.clone import clone, remove_folder
from interlock.workspace.git import Git
from interlock.workspace.repository import UserRepository
from interlock.workspace.scan import Folder
from interlock.workspace.snapshots import ROOT_INDEX, Snapshot, Tree, Workspace

DEPENDENCY_FOLDERS = frozenset(
    (
        *("node_modules", "bower_components", ".yarn", ".pnpm-store", ".venv", "venv", ".tox", ".nox", "site-packages"),
        *("target", "vendor", ".gradle", ".m2", ".bundle", "Pods", "Carthage", "deps", "_build", "elm-stuff"),
        *(".cargo", ".eggs", ".direnv", ".dart_tool", "packages", "dist-newstyle", ".stack-work", "jspm_packages"),
    )
)
"""Folders that builds need and projects ignore; cloned into a worktree where they are ignored."""

INCLUDE_FILE = ".worktreeinclude"


class Worktree(Tree):
    """An isolated copy of a workspace; `open_worktree` makes one. It has all that a workspace has for snapshots."""

    def __init__(self, workspace: Workspace, name: str, top: Path, prefix: str) -> None:
        shadow = workspace.shadow
        super().__init__(top / prefix, workspace.home, shadow, _indexes(workspace, name), _staging(top))
        self.name = name
        self._workspace = workspace
        self._top = top

    async def close(self) -> None:
        """Remove the folder and what git knows of it. What it held stays in its snapshots."""
        await _remove(self._workspace, self.name, self._top)

    async def _folder(self, folder: str) -> Folder:
        if folder:
            return Folder(root=self.root / folder, top=self.root / folder)
        return await self._workspace.folder_of("", self.root)


async def open_worktree(workspace: Workspace, snapshot: Snapshot, name: str, cache: Path) -> Worktree:
    """A new worktree below `cache` that holds what `snapshot` held; a leftover of that name is removed first."""
    top = _place(workspace, cache) / _checked(name)
    await _remove(workspace, name, top)
    repository = await workspace.user_repository()
    head = await _head(repository) if repository is not None else None
    tree = await workspace.whole(snapshot)
    prefix = ""
    if repository is not None and head is not None:
        prefix = workspace.root.relative_to(repository.top).as_posix().removeprefix(".")
        async with workspace.shadow.worktrees:
            await _add(Git(repository.git_dir, repository.top), top, head)
        if prefix:
            await _fill_around(workspace, repository, head, top, prefix)
    else:
        git = workspace.shadow.plain
        commit = await git.run("commit-tree", tree, "-m", "The workspace as the run found it")
        async with workspace.shadow.worktrees:
            await _add(git, top, commit.decode().strip())
    worktree = Worktree(workspace, name, top, prefix)
    worktree.root.mkdir(parents=True, exist_ok=True)
    index = _indexes(workspace, name) / ROOT_INDEX
    index.parent.mkdir(parents=True, exist_ok=True)
    async with workspace.shadow.busy():
        git = workspace.shadow.git(top, index=index)
        await git.run("read-tree", *((f"--prefix={prefix}/",) if prefix else ()), tree)
        await git.run("checkout-index", "--all", "--index", "--force")
    await _bring_ignored(workspace, snapshot, worktree)
    # From now on the engine knows its index, so that whoever touches it is noticed.
    await worktree.snapshot()
    return worktree


async def sweep_worktrees(workspace: Workspace, cache: Path, run_id: str | None = None) -> list[str]:
    """Remove worktrees that dead runs left, or that this one left. The names that were removed."""
    place = _place(workspace, cache)
    known = {entry.name for entry in place.iterdir() if not entry.name.startswith(".")} if place.is_dir() else set()
    known |= {top.name for _, top in await _entries(workspace) if top.parent == place}
    indexes = _indexes(workspace, "")
    known |= {entry.name for entry in indexes.iterdir()} if indexes.is_dir() else set()
    removed = sorted(name for name in known if run_id is None or name.startswith(f"{run_id}-"))
    for name in removed:
        await _remove(workspace, name, place / name)
    return removed


async def _add(git: Git, top: Path, commit: str) -> None:
    """A detached worktree without files; then its own index, so that the agent's git knows what HEAD holds.

    Held off while another worktree is removed, which takes an empty parent folder along."""
    top.parent.mkdir(parents=True, exist_ok=True)
    await git.run("worktree", "add", "--detach", "--no-checkout", "--force", "--", str(top), commit)
    entry = Path((top / ".git").read_text("utf-8", "surrogateescape").partition(":")[2].strip())
    await Git(entry, top).run("read-tree", commit)


async def _head(repository: UserRepository) -> str | None:
    git = Git(repository.git_dir, repository.top)
    try:
        return (await git.run("rev-parse", "--verify", "HEAD^{commit}", reads=True)).decode().strip()
    except WorkspaceFailed:
        return None


async def _fill_around(workspace: Workspace, repository: UserRepository, head: str, top: Path, prefix: str) -> None:
    """The files of HEAD outside of the workspace, when that is only a part of the user's repository."""
    async with workspace.shadow.scratch() as scratch:
        git = Git(
            scratch.git_dir,
            top,
            index=scratch.index,
            borrowed=repository.objects,
            own_common_dir=scratch.own_common_dir,
        )
        await git.run("read-tree", head)
        ours = await git.run("ls-files", "-z", "--", prefix, reads=True)
        await git.run("update-index", "-z", "--force-remove", "--stdin", stdin=ours)
        await git.run("checkout-index", "--all", "--force")


async def _bring_ignored(workspace: Workspace, snapshot: Snapshot, worktree: Worktree) -> None:
    for folder, _ in snapshot.trees:
        place = workspace.root / folder
        if not place.is_dir():
            continue
        index = await workspace.index_of(folder)
        ignored = await index.left_out()
        chosen = [name for name in ignored if name.endswith("/") and PurePosixPath(name).name in DEPENDENCY_FOLDERS]
        if (place / INCLUDE_FILE).is_file():
            chosen += await index.left_out(place / INCLUDE_FILE)
        nested = {path for path, _ in snapshot.trees}
        for name in dict.fromkeys(chosen):
            path = str(PurePosixPath(folder, name))
            if path not in nested:
                await asyncio.to_thread(clone, workspace.root / path, worktree.root / path)


async def _remove(workspace: Workspace, name: str, top: Path) -> None:
    """Every trace of a worktree, whatever an agent or a crash left of it."""

    def remove(entries: list[Path]) -> None:
        for folder in (*entries, top, _staging(top), _indexes(workspace, name)):
            remove_folder(folder)
        for parent in (*(entry.parent for entry in entries), top.parent):
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()

    async with workspace.shadow.worktrees:
        entries = [entry for entry, at in await _entries(workspace) if at == top]
        try:
            await asyncio.to_thread(remove, entries)
        except OSError as error:
            raise WorkspaceFailed(
                f"worktree {name!r} could not be removed: {error.strerror}", where=str(error.filename or top)
            ) from error


async def _entries(workspace: Workspace) -> list[tuple[Path, Path]]:
    """What the user's and the shadow repository know as worktrees: (entry, folder). Only files are read."""
    repository = await workspace.user_repository()
    git_dirs = [workspace.shadow.path] if repository is None else [workspace.shadow.path, repository.common_dir]
    found: list[tuple[Path, Path]] = []
    for git_dir in git_dirs:
        for file in (git_dir / "worktrees").glob("*/gitdir"):
            found.append((file.parent, Path(file.read_text("utf-8", "surrogateescape").strip()).parent))
    return found


def _place(workspace: Workspace, cache: Path) -> Path:
    """One folder per workspace, so that two of the same name do not meet."""
    mark = sha256(os.fsencode(workspace.root)).hexdigest()[:12]
    return cache.resolve() / f"{workspace.root.name}-{mark}"


def _staging(top: Path) -> Path:
    """Where files are written before they are renamed into the worktree: the same file system."""
    return top.with_name(f".{top.name}.staging")


def _indexes(workspace: Workspace, name: str) -> Path:
    return workspace.shadow.path / "indexes" / "worktrees" / name


def _checked(name: str) -> str:
    if not name or "/" in name or "\0" in name or name.startswith("."):
        raise PathRefused(name, "a worktree's name is one plain folder name")
    return name
