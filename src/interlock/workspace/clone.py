"""Copies of files and folders that cost nothing where the file system can share blocks."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

_FICLONE = 0x40049409
"""Linux: make one file share another's blocks."""


def clone(source: Path, target: Path) -> None:
    """Copy a file, link or folder; what already stands at the target stays. Links are kept as links."""
    mode = source.lstat().st_mode
    if stat.S_ISDIR(mode):
        _clone_folder(source, target)
    elif not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clone_file(source, target, mode)


def _clone_folder(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        clone(Path(entry.path), target / entry.name)
    # At the end: a read-only folder would take no files, and its time would not stay.
    shutil.copystat(source, target)


def _clone_file(source: Path, target: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISREG(mode):
        try:
            if not _share_blocks(source, target):
                shutil.copyfile(source, target)
            shutil.copystat(source, target)
        except PermissionError:
            # A file nobody lets us read is not ours to hand on.
            target.unlink(missing_ok=True)


def _share_blocks(source: Path, target: Path) -> bool:
    try:
        from fcntl import ioctl
    except ImportError:
        return False
    with source.open("rb") as given, target.open("wb") as taken:
        try:
            ioctl(taken.fileno(), _FICLONE, given.fileno())
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM):
                return False
            raise
    return True


def remove_folder(folder: Path) -> None:
    """Remove a folder and all below it, or a file, whatever modes and depth it has."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        # Folders without rights (package caches and overlays make them), or deeper than a path may be long; or somebody
        # else, another run that clears up, is removing it as well.
        while folder.exists():
            try:
                _remove_flat(folder)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                    raise


def remove_folders(folders: Iterable[Path]) -> None:
    for folder in folders:
        remove_folder(folder)


def _remove_flat(folder: Path) -> None:
    """Bring every folder to the top before it is emptied: no right and no depth is in the way there."""
    folder.chmod(stat.S_IRWXU)
    while inner := [Path(entry.path) for entry in list(os.scandir(folder)) if _emptied_of_files(entry)]:
        for place in inner:
            place.chmod(stat.S_IRWXU)
            for entry in list(os.scandir(place)):
                if _emptied_of_files(entry):
                    Path(entry.path).chmod(stat.S_IRWXU)
                    Path(entry.path).rename(folder / uuid4().hex)
            place.rmdir()
    folder.rmdir()


def _emptied_of_files(entry: os.DirEntry[str]) -> bool:
    """Remove what is no folder; whether it is one."""
    if entry.is_dir(follow_symlinks=False):
        return True
    Path(entry.path).unlink()
    return False
