"""A layer without the kernel's help: a private copy of a folder, brought up to date again and again.

For each file the manifest has its stat data in the source and in the copy, as they were when it was copied.  Where both
are still the same nothing has to be done, and what is not the same in the copy was written by a program; the time of
the last status change cannot be set by anybody.  A manifest that is gone costs a few copies more, and nothing else.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import shutil
import stat
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from interlock.workspace.layers.upper import OPAQUE, Touched, Upper, remove, scratch, walk
from interlock.workspace.place import above, counts

_FICLONE = 0x40049409
"""Linux: make one file share another's blocks."""
_NOT_HERE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM)

_Stamps = list[list[int]]
"""Of the file in the source, and of the one in the copy."""


class Copy(Upper):
    """The writes of a layer that is a copy; its manifest lies beside it."""

    def __init__(self, source: Path, copy: Path) -> None:
        super().__init__(copy, apart=not_copied)
        self.source = source
        self._manifest = copy.with_name(f"{copy.name}.json")
        self._known: dict[str, _Stamps] = {}
        with suppress(OSError, ValueError):
            self._known = json.loads(self._manifest.read_bytes())

    def restore(self, touched: Touched, kept: Collection[str]) -> None:
        """Make the copy what the source is now, but for paths that are kept, and what is below them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stays = set(kept)

        def is_kept(path: str) -> bool:
            return bool(stays) and (path in stays or not stays.isdisjoint(above(path)))

        there = {path: status for path, status in walk(self.folder, self.apart) if not is_kept(path)}
        fresh: dict[str, _Stamps] = {}
        for path, status in walk(self.source, self.apart):
            if is_kept(path):
                continue
            found = there.pop(path, None)
            if stat.S_ISDIR(status.st_mode):
                self._folder(path, stat.S_IMODE(status.st_mode) | stat.S_IRWXU, found)
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                known = self._known.get(path)
                if known is None or found is None or known != [_stamp(status), _stamp(found)]:
                    known = self._copied(self.source / path, self.folder / path)
                if known is not None:
                    fresh[path] = known
        for path in sorted(there, reverse=True):
            place = self.folder / path
            if stat.S_ISDIR(there[path].st_mode):
                with suppress(OSError):  # something in it stays
                    place.rmdir()
            else:
                remove(place)
        fresh |= {path: stamps for path, stamps in self._known.items() if path in stays}
        if fresh != self._known:
            self._known = fresh
            written = self._manifest.with_name(f"{self._manifest.name}.{uuid4().hex}")
            written.write_text(json.dumps(fresh, separators=(",", ":")), encoding="ascii")
            written.replace(self._manifest)

    def _folder(self, path: str, mode: int, found: os.stat_result | None) -> None:
        target = self.folder / path
        if found is None or not stat.S_ISDIR(found.st_mode):
            remove(target)
            target.mkdir()
        if found is None or stat.S_IMODE(found.st_mode) != mode:
            target.chmod(mode)

    def _copied(self, source: Path, target: Path) -> _Stamps | None:
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
                clone(source, target)
            return [_stamp(before), _stamp(target.lstat())]
        except (FileNotFoundError, PermissionError):
            remove(target)
            return None

    def touched(self, found: Touched, *, opening: bool = True) -> Touched:
        missing = dict(self._known)
        for path, status in walk(self.folder, self.apart, opening=opening):
            if stat.S_ISDIR(status.st_mode):
                continue
            found.newest = max(found.newest, status.st_mtime_ns)
            known = missing.pop(path, None)
            if known is None or known[1] != _stamp(status):
                found.add(status)
                found.files[path] = status
        found.gone += missing
        return found


def not_copied(path: str) -> bool:
    """git's own folder, and of the engine's all but what a team shares."""
    return path == ".git" or (path.startswith(".interlock/") and path != ".interlock/.gitignore" and not counts(path))


def clone(source: Path, target: Path) -> None:
    """Copy a file with its times and mode; the blocks are shared where the file system can."""
    if sys.platform == "darwin" and not ctypes.CDLL(None).clonefile(os.fsencode(source), os.fsencode(target), 0):
        return
    with source.open("rb") as given, target.open("xb") as taken:
        try:
            fcntl.ioctl(taken.fileno(), _FICLONE, given.fileno())
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            shutil.copyfileobj(given, taken, 1 << 20)
    shutil.copystat(source, target)
    with suppress(OSError):
        os.removexattr(target, OPAQUE)


def shares_blocks(*folders: Path) -> bool:
    """Whether copies in the first of these folders that is there cost nothing."""
    with scratch(next(folder for folder in folders if folder.is_dir())) as place:
        (place / "one").write_bytes(bytes(4096))
        try:
            with (place / "one").open("rb") as given, (place / "two").open("wb") as taken:
                fcntl.ioctl(taken.fileno(), _FICLONE, given.fileno())
        except OSError:
            return False
    return True


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_ino, status.st_size, status.st_ctime_ns]
