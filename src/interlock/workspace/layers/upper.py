"""The folder that a layer's programs write to: the upper of an overlay, or a private copy; read and set while no
program works in it.

Overlayfs keeps a deleted name as a character device 0:0 and a folder that hides what was below it by the attribute
`user.overlay.opaque`.  A layer can lie on several folders: `levels`, the topmost first, the workspace last.

A copy is brought up to date again and again.  For each file its manifest has the stat data in the source and in the
copy, as they were when it was copied.  Where both are still the same nothing has to be done, and what is not the same
in the copy was written by a program; the time of the last status change cannot be set by anybody.  A manifest that is
gone costs a few copies more, and nothing else.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.documents.files import replace as replace_file
from interlock.errors import WorkspaceFailed
from interlock.workspace.place import above, counts, stamp, status_of

OPAQUE = "user.overlay.opaque"
_DEEPEST = 200
_FICLONE = 0x40049409
"""Linux: make one file share another's blocks."""

_Stamps = list[list[int]]
"""Of the file in the source, and of the one in the copy."""


class TooMuch(Exception):
    """A layer holds more than its bounds; the sentence says what."""


@dataclass
class Touched:
    """What in a layer may differ from the workspace."""

    max_bytes: float = math.inf
    max_files: float = math.inf
    files: dict[str, os.stat_result] = field(default_factory=dict)
    """What is there and is no folder."""
    gone: list[str] = field(default_factory=list)
    """Files or whole folders that are not there any more."""
    emptied: list[str] = field(default_factory=list)
    """Folders of which nothing is left but what is in `files`."""
    size: int = 0
    count: int = 0
    newest: int = 0
    """The latest time of a file, in nanoseconds."""

    def add(self, status: os.stat_result) -> None:
        self.count += 1
        self.size += status.st_blocks * 512
        self.newest = max(self.newest, status.st_mtime_ns)
        if self.count > self.max_files:
            raise TooMuch(f"it holds more than {self.max_files:,} files ([sandbox] max_files)")
        if self.size > self.max_bytes:
            raise TooMuch(f"it holds more than {self.max_bytes:,} bytes ([sandbox] max_bytes)")


class Upper:
    """Where the writes of a layer's programs lie; paths count from the workspace's top.

    Args:
        apart: paths where another mount lies: nothing there is the program's work.
    """

    def __init__(self, *levels: Path, apart: Callable[[str], bool]) -> None:
        self.folder, self.levels, self.apart = levels[0], levels, apart

    def touched(self, found: Touched, *, opening: bool = True) -> Touched:
        for path, status in walk(self.folder, self.apart, opening=opening):
            if stat.S_ISDIR(status.st_mode):
                if is_opaque(self.folder / path):
                    found.emptied.append(path)
            elif is_whiteout(status):
                found.gone.append(path)
            else:
                found.add(status)
                found.files[path] = status
        return found

    def weigh(self, found: Touched, *, opening: bool) -> None:
        """What counts for the bounds of a layer."""
        self.touched(found, opening=opening)

    def place(self, path: str, first: int = 0) -> Path | None:
        """Where the bytes of a path lie, no link on the way followed; None where programs find nothing.

        Args:
            first: of the levels that are looked at, which lie over each other as overlayfs lays them.
        """
        parts = path.split("/")
        for level in self.levels[first:]:
            place, hides = level, False
            for number, part in enumerate(parts, start=1):
                place = place / part
                if (status := status_of(place)) is None:
                    break
                if is_whiteout(status) or (number < len(parts) and not stat.S_ISDIR(status.st_mode)):
                    return None
                hides = hides or (stat.S_ISDIR(status.st_mode) and is_opaque(place))
            else:
                return place
            if hides:
                return None
        return None

    def put(self, path: str, mode: int, content: bytes, mtime_ns: int) -> os.stat_result:
        """Lay a file (or link) so that programs find it, not opened yet (its access time is 0)."""
        there = status_of(self.place(path))
        place = self._cleared(path)
        if stat.S_ISLNK(mode):
            place.symlink_to(os.fsdecode(content))
        else:
            place.write_bytes(content)
            # git knows one bit of a mode, the file there has all of them.
            bits = there.st_mode if there and stat.S_ISREG(there.st_mode) else place.stat().st_mode
            place.chmod(bits & 0o666 | ((bits & 0o444) >> 2 if mode & 0o100 else 0))
        _owned(place, there or place.parent.stat())
        os.utime(place, ns=(0, mtime_ns), follow_symlinks=False)
        return place.lstat()

    def remove(self, path: str) -> None:
        """Programs find no file at that path."""
        if (status := status_of(self.place(path))) is None or stat.S_ISDIR(status.st_mode):
            return
        place = self._cleared(path)
        if self.place(path) is not None:
            os.mknod(place, stat.S_IFCHR, 0)
        else:
            self._without_empty_folders(path)

    def restore(self, touched: Touched, kept: Collection[str]) -> None:
        """Programs find again what is below, but for paths that are kept."""
        for path in (*touched.files, *touched.gone):
            if path not in kept:
                remove(self.folder / path)
                self._without_empty_folders(path)
        for path in touched.emptied:
            if path not in kept:
                with suppress(OSError):
                    os.removexattr(self.folder / path, OPAQUE)
                self._without_empty_folders(f"{path}/")

    def _cleared(self, path: str) -> Path:
        """The place for a path in the upper folder, with folders above it and nothing at it."""
        for name in reversed(list(above(path))):
            place = self.folder / name
            status = status_of(place)
            if _is_folder(status):
                continue
            below = status_of(self.place(name, 1))
            remove(place)
            place.mkdir()
            if below is not None and _is_folder(below):
                place.chmod(stat.S_IMODE(below.st_mode))
            _owned(place, below or place.parent.stat())
            if status is not None and below is not None:
                os.setxattr(place, OPAQUE, b"y")
        remove(self.folder / path)
        return self.folder / path

    def _without_empty_folders(self, path: str) -> None:
        """Folders that only led to what is gone."""
        with suppress(OSError):
            for folder in above(path):
                if _is_folder(status_of(self.place(folder, 1))):
                    return
                (self.folder / folder).rmdir()


class Copy(Upper):
    """The writes of a layer that is a copy; its manifest lies beside it."""

    def __init__(self, source: Path, copy: Path) -> None:
        super().__init__(copy, apart=not_copied)
        self.source = source
        self._manifest = copy.with_name(f"{copy.name}.json")
        self._known: dict[str, _Stamps] = {}
        with suppress(OSError, ValueError):
            self._known = json.loads(self._manifest.read_bytes())

    def touched(self, found: Touched, *, opening: bool = True) -> Touched:
        missing = dict(self._known)
        for path, status in walk(self.folder, self.apart, opening=opening):
            if not stat.S_ISDIR(status.st_mode):
                found.newest = max(found.newest, status.st_mtime_ns)
                known = missing.pop(path, None)
                if known is None or known[1] != [*stamp(status)]:
                    found.add(status)
                    found.files[path] = status
        found.gone += missing
        return found

    def restore(self, touched: Touched, kept: Collection[str]) -> None:
        """Make the copy what the source is now, but for paths that are kept, and what is below them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stays = set(kept)

        def passed_by(path: str) -> bool:
            return self.apart(path) or (bool(stays) and (path in stays or not stays.isdisjoint(above(path))))

        there = dict(walk(self.folder, passed_by))
        fresh = {path: stamps for path, stamps in self._known.items() if path in stays}
        for path, status in walk(self.source, passed_by, opening=False):  # theirs stays closed
            found = there.pop(path, None)
            target = self.folder / path
            if stat.S_ISDIR(status.st_mode):
                if not _is_folder(found):
                    remove(target)
                    target.mkdir()
                target.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                known = self._known.get(path)
                if found is None or known != [[*stamp(status)], [*stamp(found)]]:
                    known = _copied(self.source / path, target)
                if known is not None:
                    fresh[path] = known
        for path in sorted(there, reverse=True):
            with suppress(OSError):  # something in a folder stays
                (self.folder / path).rmdir() if _is_folder(there[path]) else remove(self.folder / path)
        if fresh != self._known:
            self._known = fresh
            replace_file(self._manifest, json.dumps(fresh, separators=(",", ":")).encode(), mode=0o600, sync=False)


def not_copied(path: str) -> bool:
    """git's own folder, and of the engine's all but what a team shares."""
    return path == ".git" or (path.startswith(".interlock/") and path != ".interlock/.gitignore" and not counts(path))


def _copied(source: Path, target: Path) -> _Stamps | None:
    """Copy one file; its stamps, or None when it is not there any more, or nobody lets us read it."""
    remove(target)
    try:
        # Before it is read: what somebody writes meanwhile is then copied the next time.
        before = source.lstat()
        if stat.S_ISLNK(before.st_mode):
            target.symlink_to(source.readlink())
        elif source.name == ".git" and source.read_bytes().startswith(b"gitdir: /"):
            # git in there would write into the repository that it names.
            target.write_bytes(b"gitdir: /nonexistent\n")
        else:
            _clone(source, target)
        return [[*stamp(before)], [*stamp(target.lstat())]]
    except (FileNotFoundError, PermissionError):
        remove(target)
        return None


def _clone(source: Path, target: Path) -> bool:
    """Copy a file with its times and mode; whether the two share their blocks, which not every file system can."""
    if sys.platform == "darwin" and not ctypes.CDLL(None).clonefile(os.fsencode(source), os.fsencode(target), 0):
        return True
    shared = True
    with source.open("rb") as given, target.open("xb") as taken:
        try:
            fcntl.ioctl(taken.fileno(), _FICLONE, given.fileno())
        except OSError:
            shared = False
            shutil.copyfileobj(given, taken, 1 << 20)
    shutil.copystat(source, target)
    return shared


def shares_blocks(folder: Path) -> bool:
    """Whether copies in this folder cost nothing."""
    with scratch(folder) as place:
        (place / "one").write_bytes(bytes(4096))
        return _clone(place / "one", place / "two")


def walk(
    root: Path, apart: Callable[[str], bool] = lambda _: False, *, opening: bool = True
) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder, links not followed; a folder that a program closed is opened again."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        if folder.count("/") > _DEEPEST:
            raise TooMuch(f"its folders lie more than {_DEEPEST} deep in each other")
        for entry in _entries(root / folder, opening=opening):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not apart(path):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield path, status
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(path)


def _entries(place: Path, *, opening: bool) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(place))
    except FileNotFoundError:
        return []
    except OSError as error:
        if not opening:  # programs are at work in it
            return []
        try:
            place.chmod(0o700)
            return list(os.scandir(place))
        except OSError:
            raise TooMuch(f"a folder cannot be looked at: {error.strerror}") from error


def is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(folder: Path | str) -> bool:
    try:
        return os.getxattr(folder, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def _owned(place: Path, like: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.lchown(place, like.st_uid, like.st_gid)


def way(root: Path, path: str, *, file: bool = False) -> Path:
    """A folder (or file) below a folder that programs wrote to; whatever else is in the way goes."""
    place = root / path
    for at in (*(root / name for name in reversed(list(above(path)))), place):
        wanted = stat.S_ISREG if file and at == place else stat.S_ISDIR
        if (status := status_of(at)) is None or not wanted(status.st_mode):
            remove(at)
            at.touch() if wanted is stat.S_ISREG else at.mkdir(mode=0o700)
    return place


def remove(place: Path) -> None:
    """Remove a file, or a folder with all below it, whatever modes and depth it has."""
    if not _is_folder(status_of(place)):
        place.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(place)
    except (OSError, RecursionError):
        # Folders without rights (overlays and package caches make them), or deeper than a path may be long.
        subprocess.run(["chmod", "-R", "u+rwX", "--", place], capture_output=True, check=False)
        subprocess.run(["rm", "-rf", "--", place], capture_output=True, check=False)
        if place.exists():
            raise


@contextmanager
def scratch(above: Path) -> Iterator[Path]:
    """A new folder, gone afterwards, and the one above as it was."""
    before = above.stat()
    try:
        with TemporaryDirectory(prefix=".interlock-", dir=above) as place:
            yield Path(place)
    except OSError as error:
        raise WorkspaceFailed.of(error, "a layer cannot be made", where=str(above)) from error
    finally:
        with suppress(PermissionError):
            os.utime(above, ns=(before.st_atime_ns, before.st_mtime_ns))
