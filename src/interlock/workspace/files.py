"""Files put into a tree, and taken out of it, one at a time: whole or not at all, and no link is followed.

A file is made beside, in a staging folder of the engine, and renamed into place.  Folders are opened one below the
other: a link on the way is something in the way, never a way.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from interlock.workspace.paths import file_parts

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class InTheWay(OSError):
    """Where a file should go, something else stands: a folder, or a file or link instead of a folder above it."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EEXIST, "something else is in its way", path)


@contextmanager
def folder_of(root: Path, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int | None]:
    """The open folder that holds ``parts[-1]``; None when there is none and none is to be made."""
    handle: int | None = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts[:-1], start=1):
            assert handle is not None
            inner = _entered(handle, part, make=make, named="/".join(parts[:number]))
            os.close(handle)
            handle = inner
            if handle is None:
                break
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _entered(folder: int, name: str, *, make: bool, named: str) -> int | None:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        if not make:
            return None
        if error.errno != errno.ENOENT:
            raise InTheWay(named) from error
    with suppress(FileExistsError):  # somebody was quicker
        os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        raise InTheWay(named) from error


def status_of(root: Path, path: str) -> os.stat_result | None:
    """What stands at a path, a link not followed there nor on the way; None for nothing."""
    parts = file_parts(path)
    with folder_of(root, parts) as folder:
        if folder is None:
            return None
        try:
            return os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def place_file(root: Path, path: str, staged: Path) -> None:
    """Rename a staged file or link to its path below `root`; folders are made, a file there is replaced."""
    parts = file_parts(path)
    with folder_of(root, parts, make=True) as folder:
        assert folder is not None
        try:
            os.rename(staged, parts[-1], dst_dir_fd=folder)
        except OSError as error:
            if error.errno == errno.EISDIR:
                raise InTheWay(path) from error
            if error.errno != errno.EXDEV:
                raise
            copy_into(staged, folder, parts[-1])


def remove_file(root: Path, path: str) -> None:
    """Remove a file, then each folder above it that is empty by now."""
    parts = file_parts(path)
    with folder_of(root, parts) as folder:
        if folder is not None:
            try:
                os.unlink(parts[-1], dir_fd=folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                # A folder of that name is not this file; macOS says so with EPERM.
                if error.errno != errno.EISDIR and not _is_folder(folder, parts[-1]):
                    raise
    for depth in range(len(parts) - 1, 0, -1):
        with folder_of(root, parts[:depth]) as folder:
            if folder is None:
                continue
            try:
                os.rmdir(parts[depth - 1], dir_fd=folder)
            except FileNotFoundError:
                continue
            except OSError:
                return


def copy_into(source: Path, folder: int, name: str) -> None:
    """Across file systems: a copy beside the target, then renamed; the source goes."""
    beside = f".{uuid4().hex}.interlock"
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), beside, dir_fd=folder)  # noqa: PTH115
    else:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with source.open("rb") as given, os.fdopen(handle, "wb") as taken:
            shutil.copyfileobj(given, taken, 1 << 20)
            taken.flush()
            os.fchmod(taken.fileno(), stat.S_IMODE(status.st_mode))
            os.utime(taken.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    source.unlink()


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
