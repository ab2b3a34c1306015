"""Snapshots of a workspace: what it held, and what changed since.

    workspace = Workspace(root, root / ".interlock", documents=("docs/feature/**",))
    before = await workspace.snapshot()
    ...                                              # somebody works
    after = await workspace.snapshot()
    await workspace.changes(before, after)           # exactly what changed

A snapshot covers every file that git does not ignore, tracked or not, the declared documents and watched globs
even if ignored, and ``interlock.toml``.  The user's index, branches and HEAD are never touched.  A nested
repository or submodule is looked at with an index of its own; for everything that compares, the
trees are joined into one, so that paths are always those of the workspace.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Self

from interlock.errors import DocumentInvalid, WorkspaceFailed
from interlock.workspace.attic import Attic
from interlock.workspace.git import Git, seen_through, together, user_settings, users_file
from interlock.workspace.objects import Trees, reading
from interlock.workspace.paths import normal
from interlock.workspace.repository import UserRepository, repository_around, repository_at
from interlock.workspace.scan import Folder, FolderIndex, rerooted
from interlock.workspace.shadow import Shadow
from interlock.workspace.turns import turn
from interlock.workspace.waiting import WaitingGit

SETTINGS_FILE = "interlock.toml"
ROOT_INDEX = "root"

_TREE = re.compile("[0-9a-f]{40}")
_WHOLES = 256
_DIFF = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")


@dataclass(frozen=True)
class Snapshot:
    """What a tree held at one moment: (folder, git tree) of the workspace (``""``) and each nested repository."""

    trees: tuple[tuple[str, str], ...]

    def to_json(self) -> list[list[str]]:
        return [[folder, tree] for folder, tree in self.trees]

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The snapshot that `to_json` described."""
        trees: list[tuple[str, str]] = []
        for pair in value if isinstance(value, list) else [value]:
            match pair:
                case [str() as folder, str() as tree] if _TREE.fullmatch(tree):
                    trees.append((folder, tree))
                case _:
                    raise DocumentInvalid(
                        "a recorded snapshot is unreadable",
                        path="snapshot",
                        expected="a list of [folder, tree]",
                        found=repr(value),
                    )
        return cls(tuple(trees))


class ChangeKind(StrEnum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True)
class PathChange:
    path: str
    kind: ChangeKind


@dataclass(frozen=True)
class Difference:
    """One path's entry in two trees; a mode of zeros stands for absent."""

    path: str
    old_mode: str
    old_blob: str
    new_mode: str
    new_blob: str

    @property
    def kind(self) -> ChangeKind:
        if self.old_mode == "000000":
            return ChangeKind.ADDED
        return ChangeKind.DELETED if self.new_mode == "000000" else ChangeKind.MODIFIED


class Workspace:
    """The folder the user works in.

    Args:
        root: the workspace.
        home: the engine's folder in it, ``<root>/.interlock``.
        documents: paths or globs of the playbook's documents, seen even where the project ignores them.
        watch: further globs to see, from the settings.
        tell: hears what a person should know meanwhile.
    """

    def __init__(
        self,
        root: Path,
        home: Path,
        *,
        documents: Sequence[str] = (),
        watch: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.tell = tell
        self.root = root.resolve()
        self.home = home.resolve()
        self.shadow = Shadow(self.home)
        self.attic = Attic(self.home)
        self.merging = asyncio.Lock()
        """Held while a result is merged in: one at a time, each against what the one before left."""
        self.wanted = tuple(dict.fromkeys(normal(p) for p in (SETTINGS_FILE, *documents, *watch)))
        """Patterns of files that count even when the project ignores them."""
        self.trees = Trees()
        """Trees of snapshots that were looked at."""
        self.ignoring = WaitingGit()
        self.differing = WaitingGit()
        """Git for questions about the work of a program that is still running."""
        self.latest: Snapshot | None = None
        """The last one that was taken."""
        self._folders: dict[str, FolderIndex] = {}
        self._wholes: dict[Snapshot, str] = {}
        self._scanning = asyncio.Lock()
        self._coming: asyncio.Task[Snapshot] | None = None
        self._repository: UserRepository | None = None
        self._known_repository = False
        self._excludes: tuple[Path, ...] | None = None

    def want(self, documents: Sequence[str]) -> None:
        """From now on these documents are seen too, even where the project ignores them."""
        wider = tuple(dict.fromkeys((*self.wanted, *map(normal, documents))))
        if wider != self.wanted:
            self.wanted = wider
            self._folders.clear()

    async def snapshot(self) -> Snapshot:
        """What the tree holds now.

        Whoever asks while one is being taken gets the next, which starts afterwards and serves all who wait.
        """
        if self._coming is None or self._coming.done():
            self._coming = asyncio.create_task(self._next_snapshot())
            self._coming.add_done_callback(_retrieve)
        coming = self._coming
        # Whoever is cancelled waits too: when a run has ended, nobody writes to the shadow repository for it.
        await seen_through(coming)
        return coming.result()

    async def changes(self, before: Snapshot, after: Snapshot) -> tuple[PathChange, ...]:
        """Every path that differs, sorted; a changed mode or type counts as modified."""
        found = await self.differences(await self.whole(before), await self.whole(after))
        return tuple(sorted((PathChange(entry.path, entry.kind) for entry in found), key=lambda change: change.path))

    async def patch(self, before: Snapshot, after: Snapshot, paths: Sequence[str] | None = None) -> bytes:
        """The difference as a binary patch for ``git apply`` in the root; only of `paths` if given."""
        old, new = await self.whole(before), await self.whole(after)
        if paths is not None:
            wanted = {normal(path) for path in paths}
            found = await self.differences(old, new)
            new = await self.edited(old, [entry for entry in found if entry.path in wanted])
        async with self.shadow.busy():
            return await self.shadow.plain.run(
                "diff-tree", "-p", "--binary", "--full-index", *_DIFF, old, new, reads=True
            )

    async def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        """The bytes of a file (the target of a link) in the snapshot, or None when it is not there."""
        from interlock.workspace.past import PastTree  # it knows snapshots too

        async with reading(self.shadow, self.trees) as objects:
            found = await PastTree(snapshot, objects).file(normal(path))
            return await objects.blob(found.name) if found is not None else None

    async def whole(self, snapshot: Snapshot) -> str:
        """One git tree of the snapshot, nested repositories in their places."""
        if len(snapshot.trees) == 1 and not snapshot.trees[0][0]:
            return snapshot.trees[0][1]
        if snapshot not in self._wholes:
            if len(self._wholes) >= _WHOLES:
                self._wholes.clear()
            self._wholes[snapshot] = await self.shadow.graft(sorted(snapshot.trees))
        return self._wholes[snapshot]

    async def differences(self, old: str, new: str) -> list[Difference]:
        """Entries that differ between two git trees."""
        if old == new:
            return []
        async with self.shadow.busy():
            listed = await self.shadow.plain.run("diff-tree", "-z", "--raw", *_DIFF, old, new, reads=True)
        parts = listed.split(b"\0")[:-1]
        found: list[Difference] = []
        for about, name in zip(parts[::2], parts[1::2], strict=True):
            old_mode, new_mode, old_blob, new_blob, _ = about.decode().removeprefix(":").split(" ")
            found.append(Difference(os.fsdecode(name), old_mode, old_blob, new_mode, new_blob))
        return found

    async def edited(self, tree: str, entries: Sequence[Difference]) -> str:
        """`tree` with the new side of `entries`."""
        if not entries:
            return tree
        # Removals first: a file may give way to a folder of its name.
        ordered = sorted(entries, key=lambda entry: entry.kind is not ChangeKind.DELETED)
        async with self.shadow.busy(), self.shadow.scratch() as git:
            await git.run("read-tree", tree)
            lines = (f"{e.new_mode} {e.new_blob}\t".encode() + os.fsencode(e.path) for e in ordered)
            await git.run("update-index", "-z", "--index-info", stdin=b"\0".join([*lines, b""]))
            return (await git.run("write-tree")).decode().strip()

    async def _next_snapshot(self) -> Snapshot:
        async with self._scanning, self._alone():
            # From here on a caller may have changed a file that has been looked at: it gets the next one.
            self._coming = None
            trees: dict[str, str] = {}
            await self._visit("", trees)
            self.latest = Snapshot(tuple(sorted(trees.items())))
            return self.latest

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One scan at a time in a workspace, whatever runs there: all use the same indexes."""
        if not self.root.is_dir():
            raise WorkspaceFailed(f"folder {str(self.root)!r} is gone", where=str(self.root))
        async with turn(self.home / "locks" / "snapshots.lock", "the snapshots", self.tell):
            yield

    async def _visit(self, folder: str, trees: dict[str, str]) -> None:
        index = await self.index_of(folder)
        try:
            async with self.shadow.busy():
                taken = await index.take()
        except WorkspaceFailed:
            # Whatever vanishes while we look is simply not there; the workspace itself has to be.
            if not folder or (self.root / folder).is_dir():
                raise
            return
        trees[folder] = taken.tree
        below = f"{folder}/" if folder else ""
        await together(*(self._visit(below + name.rstrip("/"), trees) for name in taken.nested))

    async def index_of(self, folder: str) -> FolderIndex:
        """The shadow index of the root (``""``) or of a nested repository."""
        if folder not in self._folders:
            name = sha256(os.fsencode(folder)).hexdigest()[:24] if folder else ROOT_INDEX
            self._folders[folder] = FolderIndex(
                self.shadow, await self.folder_of(folder), self.shadow.path / "indexes" / name
            )
        return self._folders[folder]

    async def user_repository(self) -> UserRepository | None:
        """The user's repository that the workspace is (a part of), as it was when first asked for.

        It is remembered: a ``.git`` that an agent puts there later leads nowhere.
        """
        if not self._known_repository:
            found = repository_around(self.root)
            if found is not None and found.top != self.root and await _ignores(found, self.root):
                found = None
            self._repository, self._known_repository = found, True
        return self._repository

    async def folder_of(self, folder: str) -> Folder:
        """How the workspace (``""``) or a repository nested in it is looked at."""
        place = self.root / folder if folder else self.root
        if folder:
            repository = repository_at(place)
            wanted = (rerooted(pattern, folder) for pattern in self.wanted)
            patterns = tuple(dict.fromkeys(pattern for pattern in wanted if pattern is not None))
        else:
            repository = await self.user_repository()
            patterns = self.wanted
        own = repository.exclude_file if repository is not None else None
        return Folder(
            root=place,
            top=place if folder or repository is None else repository.top,
            exclude_files=tuple(file for file in (own, *await self._users_excludes()) if file is not None),
            wanted=patterns,
            holds_home=not folder,
            repository=repository,
        )

    async def _users_excludes(self) -> tuple[Path, ...]:
        """The user's ignore file for all repositories: data that still counts."""
        if self._excludes is None:
            repository = await self.user_repository()
            git_dir = repository.git_dir if repository is not None else self.shadow.path
            try:
                named = await user_settings(git_dir, self.root, r"^core\.excludesfile$")
            except WorkspaceFailed:
                named = {}
            self._excludes = (self.root / users_file(named.get("core.excludesfile"), "ignore"),)
        return self._excludes


async def _ignores(repository: UserRepository, folder: Path) -> bool:
    """Whether `repository` ignores a folder in it: then that folder is no part of it."""
    git = Git(repository.git_dir, repository.top)
    asked = os.fsencode(folder) + b"\0"
    try:
        # This command knows no literal pathspecs; an absolute path has no magic.
        answer = await git.run(
            "check-ignore", "--no-index", "-z", "--stdin", stdin=asked, reads=True, ok=(0, 1), globs=True
        )
    except WorkspaceFailed:
        return True
    return bool(answer)


def _retrieve(task: asyncio.Task[Snapshot]) -> None:
    """Whoever waits gets the error; when nobody waits any more it is not news."""
    if not task.cancelled():
        task.exception()
