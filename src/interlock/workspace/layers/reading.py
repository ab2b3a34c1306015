"""What a layer holds, compared with the snapshot from which its program started."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from interlock.workspace.layers.git_dirs import PlainGitDir, sentences, state_of
from interlock.workspace.layers.holding import Holding
from interlock.workspace.layers.ignoring import sort_out
from interlock.workspace.layers.links import leads_out
from interlock.workspace.layers.seam import Bounds, Found
from interlock.workspace.layers.touched import TooMuch, Touched
from interlock.workspace.objects import Stored, file_name, open_plain, reading
from interlock.workspace.past import PastTree
from interlock.workspace.paths import above
from interlock.workspace.repository import UserRepository, repository_at
from interlock.workspace.snapshots import ChangeKind, PathChange, Snapshot, Workspace

_CHUNK = 1 << 20
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


async def found_in(holding: Holding, workspace: Workspace, base: Snapshot, bounds: Bounds) -> Found:
    """Everything that the layer holds and that is not the same as before."""
    try:
        touched = await asyncio.to_thread(holding.touched, bounds)
    except TooMuch as error:
        return Found(over=str(error))
    async with reading(workspace.shadow, workspace.trees) as objects:
        past = PastTree(base, objects)
        looked = _Looked(holding, workspace.root, touched)
        unknown = await looked.compare(past)
        repositories = set(past.repositories)
        counting, ignored = await _sorted(workspace, past, unknown)
    changes = looked.changes
    for path in counting:
        if path not in looked.lost:
            changes[path] = ChangeKind.ADDED
    told = [f"{touched.outside} files around the workspace were changed"] if touched.outside else []
    users = await workspace.user_repository()

    def rest() -> tuple[list[str], dict[str, str]]:
        of_git = _repository_sentences(holding, workspace.root, users, repositories, touched)
        return of_git, _refused(holding, workspace.root, touched, changes)

    of_git, refused = await asyncio.to_thread(rest)
    return Found(
        changes=tuple(PathChange(path, changes[path]) for path in sorted(changes)),
        ignored=dict(sorted(ignored.items())),
        refused=refused,
        repository=(*told, *of_git),
        files=touched.count,
        size=touched.size,
    )


class _Looked:
    """Touched paths, compared one by one."""

    def __init__(self, holding: Holding, root: Path, touched: Touched) -> None:
        self._holding = holding
        self._root = root
        self._touched = touched
        self._unknown: list[str] = []
        self.changes: dict[str, ChangeKind] = {}
        self.lost: set[str] = set()
        """Paths that only the tree has, and that are gone in the layer."""

    async def compare(self, past: PastTree) -> list[str]:
        """Compare what the snapshot knows; of what it does not know, the paths that differ from what is in the tree."""
        touched = self._touched
        known: list[tuple[str, Stored]] = []
        deleted: list[tuple[str, Stored]] = []
        for path in touched.files:
            entry = await past.entry(path)
            if entry is None or entry.is_folder:
                self._unknown.append(path)
            else:
                known.append((path, entry))
            if entry is not None and entry.is_folder:
                deleted += [found async for found in past.below(path)]
        for path in touched.folders:
            if (file := await past.file(path)) is not None:
                deleted.append((path, file))
        for path in touched.gone:
            entry = await past.entry(path)
            if entry is None:
                self._unknown.append(path)
                self.lost.add(path)
            elif entry.is_folder:
                deleted += [found async for found in past.below(path)]
            else:
                deleted.append((path, entry))
        for path in touched.emptied:
            deleted += [found async for found in past.below(path) if found[0] not in touched.files]
        return await asyncio.to_thread(self._compare, known, deleted)

    def _compare(self, known: Iterable[tuple[str, Stored]], deleted: Iterable[tuple[str, Stored]]) -> list[str]:
        for path, entry in known:
            if not self._same_as_known(path, entry):
                self.changes[path] = ChangeKind.MODIFIED
        for path, _ in deleted:
            if path not in self._touched.files and _status(self._root, path) is not None:
                self.changes[path] = ChangeKind.DELETED
        return [path for path in self._unknown if self._differs(path)]

    def _same_as_known(self, path: str, entry: Stored) -> bool:
        status = self._touched.files[path]
        place = self._holding.place(path)
        if place is None:
            return False
        live = _status(self._root, path)
        try:
            if _kind_fits(status, entry) and file_name(place, status) == entry.name:
                # A snapshot knows one bit of a mode; the file in the tree knows all of them.
                return (
                    entry.is_link or live is None or not stat.S_ISREG(live.st_mode) or _mode_fits(status, live, entry)
                )
            return live is not None and _same_files(place, status, self._root / path, live)
        except OSError:
            return False

    def _differs(self, path: str) -> bool:
        live = _status(self._root, path)
        if path in self.lost:
            return live is not None
        place = self._holding.place(path)
        if live is None or place is None:
            return True
        status = self._touched.files[path]
        if _same_times(status, live):
            return False
        try:
            return not _same_files(place, status, self._root / path, live)
        except OSError:
            return True


async def _sorted(workspace: Workspace, past: PastTree, unknown: list[str]) -> tuple[list[str], dict[str, int]]:
    by_repository: dict[str, list[str]] = defaultdict(list)
    for path in unknown:
        by_repository[past.repository_of(path)].append(path)
    counting: list[str] = []
    ignored: dict[str, int] = {}
    for repository, paths in by_repository.items():
        folders = {folder for path in paths for folder in above(path)}
        known = frozenset([folder for folder in folders if await past.entry(folder) is not None])
        found = await sort_out(workspace, repository, paths, known)
        counting += found.counting
        ignored.update(found.ignored)
    return counting, ignored


def _repository_sentences(
    holding: Holding, root: Path, users: UserRepository | None, known: set[str], touched: Touched
) -> list[str]:
    told: list[str] = []
    for folder in sorted(known | touched.repositories):
        repository = users if not folder else repository_at(root / folder)
        where = f" in {folder!r}" if folder else ""
        if repository is None:
            if folder in touched.repositories:
                told.append(f"a repository was made{where}")
            continue
        own, shared = (holding.git_dir(place) for place in (repository.git_dir, repository.common_dir))
        if own is None and shared is None:
            continue
        there = PlainGitDir(repository.git_dir), PlainGitDir(repository.common_dir)
        after = state_of(own or there[0], shared or there[1])
        before = holding.git_before(folder, repository)
        told += [f"{line}{where}" for line in sentences(before, after, shared or there[1], there[1])]
    return told


def _refused(holding: Holding, root: Path, touched: Touched, changes: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in changes:
        status = touched.files.get(path)
        if status is None:
            continue
        if why := _never(holding, root, path, status):
            found[path] = why
    return dict(sorted(found.items()))


def _never(holding: Holding, root: Path, path: str, status: os.stat_result) -> str:
    """Why a file can never be imported; empty when it can."""
    if any(part.lower() == ".git" for part in path.split("/")):
        return "git cannot hold a file of this name"
    if kind := _KINDS.get(stat.S_IFMT(status.st_mode)):
        return f"it is {kind}"
    if stat.S_ISREG(status.st_mode):
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            return "it has a set-uid or set-gid bit"
        place = holding.place(path)
        if place is None or not os.access(place, os.R_OK):
            return "it cannot be read"
        return ""
    return "it is a link that leads out of the workspace" if leads_out(holding, root, path) else ""


def _status(root: Path, path: str) -> os.stat_result | None:
    """What the tree has at a path, links not followed."""
    # As text, for it is done for each file.
    place = str(root)
    *folders, name = path.split("/")
    try:
        for folder in folders:
            place = f"{place}/{folder}"
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                return None
        return os.lstat(f"{place}/{name}")
    except OSError:
        return None


def _kind_fits(status: os.stat_result, entry: Stored) -> bool:
    if entry.is_link:
        return stat.S_ISLNK(status.st_mode)
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o100) == entry.executable


def _mode_fits(status: os.stat_result, live: os.stat_result, entry: Stored) -> bool:
    if bool(live.st_mode & 0o100) != entry.executable:
        return True
    return stat.S_IMODE(status.st_mode) == stat.S_IMODE(live.st_mode)


def _same_files(place: Path, status: os.stat_result, other: Path, live: os.stat_result) -> bool:
    """Whether two files have the same type, mode and content."""
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(live.st_mode):
        return False
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(place) == os.readlink(other)  # noqa: PTH115 - bytes as they are
    if not stat.S_ISREG(status.st_mode):
        return (status.st_mode, status.st_rdev) == (live.st_mode, live.st_rdev)
    if (status.st_mode, status.st_size) != (live.st_mode, live.st_size):
        return False
    with os.fdopen(open_plain(place), "rb") as one, os.fdopen(open_plain(other), "rb") as two:
        while (part := one.read(_CHUNK)) == two.read(_CHUNK):
            if not part:
                return True
    return False


def _same_times(status: os.stat_result, live: os.stat_result) -> bool:
    """A copied-up file keeps its time. Only for what is never imported unless it is seen to differ."""
    one = (status.st_mode, status.st_size, status.st_mtime_ns)
    return one == (live.st_mode, live.st_size, live.st_mtime_ns)
