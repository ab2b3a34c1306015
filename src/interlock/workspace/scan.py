"""What one repository's folder holds now, as a git tree in the shadow repository.

Each repository (the workspace, and every repository nested in it) has a shadow index of its own.  Two git
processes look side by side: one for tracked files whose stat data changed, one for files that are new.  Nothing
changed means nothing is written.  An index is only a cache: when git cannot use it, or somebody else has touched
it, it is thrown away and built again.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from uuid import uuid4

from interlock.errors import WorkspaceFailed
from interlock.workspace.git import Git, together
from interlock.workspace.repository import UserRepository
from interlock.workspace.seed import seed_index
from interlock.workspace.shadow import EMPTY_TREE, Shadow

HOME = ".interlock"
TEAM_FOLDERS = (f"{HOME}/agents/", f"{HOME}/prompts/", f"{HOME}/playbooks/")
"""What a team commits of the engine's folder; the rest of it is the engine's own and never in a snapshot."""

_UPDATES = 3
_MANY = 500


@dataclass(frozen=True)
class Folder:
    """A folder to look at, and what decides which of its files count."""

    root: Path
    top: Path
    """The work tree whose ignore files apply: `root`, or the top of the repository that `root` is a part of."""
    exclude_files: tuple[Path, ...] = ()
    """Private ignore files of the user: of the repository, and of all repositories."""
    wanted: tuple[str, ...] = ()
    """Patterns of files that count even when they are ignored."""
    holds_home: bool = False
    repository: UserRepository | None = None
    """Whose index may be the start, if it is safe to use."""

    @property
    def prefix(self) -> str:
        return "" if self.root == self.top else f"{self.root.relative_to(self.top).as_posix()}/"

    def counts(self, name: str) -> bool:
        return not (self.holds_home and name.startswith(f"{HOME}/")) or name.startswith(TEAM_FOLDERS)


@dataclass(frozen=True)
class Taken:
    tree: str
    nested: tuple[str, ...]
    """Folders (with ``/``) that are repositories of their own."""


@dataclass(frozen=True)
class _Findings:
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    nested: tuple[str, ...]


class FolderIndex:
    """The shadow index of one folder. One scan at a time: the caller sees to that."""

    def __init__(self, shadow: Shadow, folder: Folder, index: Path) -> None:
        self.folder = folder
        self._shadow = shadow
        self._index = index
        self._note = index.with_name(index.name + ".tree")
        self._known: tuple[tuple[int, ...] | None, str] | None = None
        """The index file as we left it, and its tree."""

    async def take(self) -> Taken:
        """The tree of everything that counts below the folder."""
        # The engine is the only one who uses this index, one scan at a time: a lock is a dead process's.
        self._index.with_name(self._index.name + ".lock").unlink(missing_ok=True)
        # Git would write through a planted link to wherever it points.
        for place in (self._index.parent, self._index):
            if place.is_symlink():
                place.unlink()
        self._index.parent.mkdir(parents=True, exist_ok=True)
        if self._known is not None and self._known[0] != _stamp(self._index):
            self.forget()
        for _ in ("with the index as it is", "with one made from the last tree"):
            try:
                return await self._take(recall=True)
            except WorkspaceFailed:
                if not self.folder.root.is_dir():
                    raise
                self.forget()
        return await self._take(recall=False)

    def forget(self) -> None:
        """Throw the index away; the next scan reads every file again."""
        self._known = None
        self._index.unlink(missing_ok=True)

    async def left_out(self) -> list[str]:
        """Ignored files and (with ``/``) folders below."""
        git = self._shadow.git(self.folder.top, folder=self.folder.root, index=self._index)
        options = self._ignore_rules()
        names = _names(await git.run("ls-files", "-z", "--others", "--ignored", "--directory", *options, reads=True))
        return [name for name in names if self.folder.counts(name)]

    async def _take(self, *, recall: bool) -> Taken:
        git = self._shadow.git(self.folder.top, folder=self.folder.root, index=self._index)
        missing: Sequence[str] = ()
        seeded = False
        if not self._index.exists() and not (recall and await self._recall(git)):
            repository = self.folder.repository
            if repository is not None:
                seed = await seed_index(git, repository, self.folder.prefix, self.folder.counts)
                seeded = seed is not None
                missing = seed if seed is not None else await self._tracked_but_ignored(repository)
        found = await self._look(git, missing)
        if seeded and any(name.rpartition("/")[2] == ".gitattributes" for name in (*found.new, *found.changed)):
            # Attributes that the user's index does not show may have changed what its blobs hold.
            self.forget()
            assert self.folder.repository is not None
            found = await self._look(git, await self._tracked_but_ignored(self.folder.repository))
        touched = bool(found.changed or found.gone or found.new)
        if touched:
            await self._update(git, found)
        if touched or self._known is None:
            tree = await self._write_tree(git)
            self._known = (_stamp(self._index), tree)
            fresh = self._shadow.path / "tmp" / f"{uuid4().hex}.tree"
            fresh.write_text(tree)
            fresh.replace(self._note)
        return Taken(self._known[1], found.nested)

    async def _recall(self, git: Git) -> bool:
        """Start from the last tree: it knows files that are ignored by now and would not be found again."""
        if self._note.is_symlink() or not self._note.is_file():
            return False
        tree = self._note.read_text("ascii", "replace")
        if re.fullmatch("[0-9a-f]{40}", tree) is None or tree == EMPTY_TREE:
            return False
        options = (f"--prefix={self.folder.prefix}",) if self.folder.prefix else ()
        await replace(git, folder=None).run("read-tree", *options, tree)
        return True

    async def _tracked_but_ignored(self, repository: UserRepository) -> list[str]:
        """Files that match an ignore pattern but that git does not ignore, because the user tracks them."""
        git = Git(repository.git_dir, self.folder.top, folder=self.folder.root)
        try:
            listed = await git.run("ls-files", "-z", "--cached", "--ignored", *self._ignore_rules(), reads=True)
        except WorkspaceFailed:
            # An index that git cannot read has nothing to tell.
            return []
        return _names(listed)

    async def _look(self, git: Git, missing: Sequence[str]) -> _Findings:
        asked = [self._changes(git), self._others(git)]
        if self.folder.wanted:
            asked.append(self._wanted(git))
        tracked, others, *wanted = await together(*asked)
        changed: list[str] = []
        gone: list[str] = []
        for status, name in zip(tracked[::2], tracked[1::2], strict=True):
            (gone if status == "D" or not _storable(self.folder.root / name) else changed).append(name)
        nested = [name for name in others if name.endswith("/")]
        present = [name for name in dict.fromkeys(missing) if _is_file(self.folder.root, name)]
        seen = (*others, *(wanted[0] if wanted else ()), *present)
        new = list(dict.fromkeys(name for name in seen if not name.endswith("/")))
        if len(new) <= _MANY:
            # Looked at here, an unreadable file does not make each update of the index fail first.
            new = [name for name in new if _storable(self.folder.root / name)]
        return _Findings(
            tuple(changed),
            tuple(gone),
            tuple(name for name in new if self.folder.counts(name)),
            tuple(name for name in nested if self.folder.counts(name)),
        )

    async def _changes(self, git: Git) -> list[str]:
        if not self._index.exists():
            return []
        options = ("--relative",) if self.folder.prefix else ()
        return _names(await git.run("diff-files", "-z", "--name-status", "--no-renames", *options, reads=True))

    async def _others(self, git: Git) -> list[str]:
        options = self._ignore_rules()
        if self.folder.holds_home:
            # On the command line these win over every ignore file, whatever an agent writes there.
            home = "/" + re.sub(r"([\\*?\[ ])", r"\\\1", self.folder.prefix) + HOME
            teams = [f"!{home}{folder.removeprefix(HOME)}{rest}" for folder in TEAM_FOLDERS for rest in ("", "**")]
            patterns = (f"!{home}/", f"{home}/*", *teams, f"{home}/**/__pycache__/")
            options += [f"--exclude={pattern}" for pattern in patterns]
        return _names(await git.run("ls-files", "-z", "--others", *options, reads=True))

    def _ignore_rules(self) -> list[str]:
        private = [f"--exclude-from={file}" for file in self.folder.exclude_files if file.is_file()]
        return ["--exclude-standard", *private]

    async def _wanted(self, git: Git) -> list[str]:
        specs = (":(glob)" + re.sub(r"([\\\[])", r"\\\1", pattern) for pattern in self.folder.wanted)
        return _names(await git.run("ls-files", "-z", "--others", "--", *specs, reads=True, globs=True))

    async def _update(self, git: Git, found: _Findings) -> None:
        if found.gone:
            await git.run("update-index", "-z", "--force-remove", "--stdin", stdin=_lines(found.gone))
        names: Sequence[str] = (*found.changed, *found.new)
        if not names:
            return
        # Git writes what it takes for big files into one pack: that saves creating a file for each of very many.
        writer = replace(git, settings=("core.bigFileThreshold=1",)) if len(names) > _MANY else git
        for attempt in range(1, _UPDATES + 1):
            try:
                await writer.run("update-index", "-z", "--add", "--replace", "--remove", "--stdin", stdin=_lines(names))
                return
            except WorkspaceFailed:
                # A build may be writing beside us, and a file nobody lets us read cannot be kept: it does not count.
                unreadable = [name for name in names if not _storable(self.folder.root / name)]
                if attempt == _UPDATES or not unreadable:
                    raise
                await git.run("update-index", "-z", "--force-remove", "--stdin", stdin=_lines(unreadable))
                names = sorted(set(names) - set(unreadable))

    async def _write_tree(self, git: Git) -> str:
        prefix = self.folder.prefix
        if prefix and not await git.run("ls-files", "-z", "--cached", reads=True):
            return EMPTY_TREE
        options = (f"--prefix={prefix}",) if prefix else ()
        return (await git.run("write-tree", *options)).decode().strip()


def rerooted(pattern: str, folder: str) -> str | None:
    """What `pattern` means below `folder`, or None when it covers nothing there."""
    parts = pattern.split("/")
    for name in folder.strip("/").split("/"):
        if not parts:
            return "**"
        if parts[0] == "**":
            return "/".join(parts)
        if not fnmatchcase(name, parts[0].replace("[", "[[]")):
            return None
        parts = parts[1:]
    return "/".join(parts) or "**"


def _storable(path: Path) -> bool:
    """Whether git can store what is there; what has just gone is for git to notice."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return True
    return stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and os.access(path, os.R_OK))


def _is_file(root: Path, name: str) -> bool:
    """Whether a file or link is there, not reached through a link: beyond one, git refuses to look."""
    path = root / name
    return (path.is_symlink() or path.is_file()) and not any((root / parent).is_symlink() for parent in _parents(name))


def _parents(name: str) -> Iterable[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _stamp(index: Path) -> tuple[int, ...] | None:
    try:
        status = index.stat()
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _names(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\0")[:-1]


def _lines(names: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(name) + b"\0" for name in names)
