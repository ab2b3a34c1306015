"""Ignored files of a layer, moved into the user's tree: what an install or a build made comes along.

A folder that the tree does not have is renamed as a whole, after what never belongs there was taken out of it:
devices, sockets, pipes, set-uid bits, anything called ``.git``.  A folder that both have is gone through file by file,
and what the layer says is gone in it goes.  A file or folder that is gone as a whole stays in the tree: nothing else
keeps what git does not.  No link of the tree is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.workspace.clone import remove_folder
from interlock.workspace.files import copy_into, folder_of
from interlock.workspace.layers.upper import is_opaque, is_whiteout
from interlock.workspace.paths import file_parts

_OVERLAY = "user.overlay."


def take(place: Path, root: Path, path: str, *, only: Callable[[str], bool] = lambda _: True) -> None:
    """Move `place` of a layer to `path` of the tree at `root`.

    Args:
        only: which paths differ; of a folder that both have, the others stay where they are.
    """
    parts = file_parts(path)
    try:
        status = place.lstat()
    except FileNotFoundError:
        return
    if not _counts(status) or is_whiteout(status):
        return
    with folder_of(root, parts, make=True) as folder:
        assert folder is not None
        _Taking(only).take(place, status, folder, path)


def clear(root: Path, path: str) -> None:
    """Remove a file or folder of the tree."""
    parts = file_parts(path)
    with folder_of(root, parts) as folder:
        if folder is not None:
            _clear(folder, parts[-1])


@dataclass(frozen=True)
class _Taking:
    only: Callable[[str], bool]

    def take(self, place: Path, status: os.stat_result, folder: int, path: str) -> None:
        name = path.rpartition("/")[2]
        there = _status(folder, name)
        if not stat.S_ISDIR(status.st_mode):
            _plain(place, status)
            if there is not None and stat.S_ISDIR(there.st_mode):
                _clear(folder, name)
            _rename(place, folder, name)
        elif there is None or not stat.S_ISDIR(there.st_mode):
            _cleaned(place)
            if there is not None:
                os.unlink(name, dir_fd=folder)
            _rename(place, folder, name)
        else:
            self._join(place, folder, path)

    def _join(self, place: Path, folder: int, path: str) -> None:
        """Go through a folder that layer and tree both have."""
        name = path.rpartition("/")[2]
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            entries = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(place)}
            if is_opaque(place):
                for old in set(os.listdir(inner)) - entries.keys():  # noqa: PTH208 - an open folder
                    _clear(inner, old)
            for entry, status in entries.items():
                if is_whiteout(status):
                    _clear(inner, entry)
                elif _counts(status) and entry.lower() != ".git" and self.only(f"{path}/{entry}"):
                    self.take(place / entry, status, inner, f"{path}/{entry}")
        finally:
            os.close(inner)


def _cleaned(folder: Path) -> None:
    """Take out of a folder what never belongs into a tree, and the overlay's own marks."""
    for above, folders, files in os.walk(folder):
        _unmark(Path(above))
        for name in [*folders, *files]:
            place = Path(above, name)
            status = place.lstat()
            if name.lower() == ".git" or not _counts(status):
                remove_folder(place)
                if name in folders:
                    folders.remove(name)
            else:
                _plain(place, status)


def _plain(place: Path, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            place.chmod(stat.S_IMODE(status.st_mode) & 0o777)
        _unmark(place)


def _unmark(place: Path) -> None:
    with suppress(OSError):
        for name in os.listxattr(place, follow_symlinks=False):
            if name.startswith(_OVERLAY):
                os.removexattr(place, name, follow_symlinks=False)


def _counts(status: os.stat_result) -> bool:
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return is_whiteout(status) or any(is_kind(status.st_mode) for is_kind in kinds)


def _rename(place: Path, folder: int, name: str) -> None:
    try:
        os.rename(place, name, dst_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if stat.S_ISDIR(place.lstat().st_mode):
            shutil.copytree(place, f"/proc/self/fd/{folder}/{name}", symlinks=True)
            remove_folder(place)
        else:
            copy_into(place, folder, name)


def _clear(folder: int, name: str) -> None:
    status = _status(folder, name)
    if status is None:
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
