"""Single files, handled so that nothing hangs, nothing is half written, and nothing of a killed write stays.

Reading opens without waiting and takes plain files only: a named pipe, socket or device that somebody left in the way
is an error at once.  Writing goes to a temporary file beside the target, synced, then renamed.  The temporary file is
locked as long as its writer lives; one that can be locked is a leftover of a process that was killed, and is removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import BinaryIO

LEFTOVER = re.compile(r"\..+\.interlock-[0-9a-f]{16}\.tmp", re.DOTALL)
"""The name of a temporary file; whoever lists a folder leaves it out."""
_NAME_ROOM = 255 - len("..interlock-.tmp") - 16
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
_TRIES = 20


class NotPlain(OSError):
    """What is there is neither a plain file nor a folder."""

    def __init__(self, place: object) -> None:
        super().__init__(errno.ENXIO, "is not a plain file", str(place))


def open_plain(place: Path, *, follow: bool = False) -> int:
    """A descriptor of a plain file, for reading. Never waits; anything else is `NotPlain`, or the system's error."""
    # The look before the opening is for devices, where opening may already do something.
    _check_plain(place.stat(follow_symlinks=follow), place)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(place, flags)
    try:
        _check_plain(os.fstat(descriptor), place)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_plain(status: os.stat_result, place: object) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", str(place))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a symlink", str(place))
    if not stat.S_ISREG(status.st_mode):
        raise NotPlain(place)


def read_plain(place: Path, *, follow: bool = False, limit: int = -1) -> bytes:
    """The bytes of a plain file, at most `limit` of them if that is not negative."""
    with os.fdopen(open_plain(place, follow=follow), "rb") as file:
        return file.read(limit)


@contextmanager
def replacing(
    target: Path, *, mode: int | None = None, check: Callable[[], None] = lambda: None, sync: bool = True
) -> Iterator[BinaryIO]:
    """A file to write to, which takes the target's place when the block is left without an error.

    Args:
        mode: permissions of the new file; those of any new file by default.
        check: the last word, when all is written: if it raises, the target stays as it is.
        sync: whether it must survive a power loss, and not only the end of this process.
    """
    temporary, file = _begun(target, mode)
    try:
        with file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
            check()
            temporary.replace(target)  # while it is still locked: nobody takes it for a leftover
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(target.parent)


def replace_file(target: Path, content: bytes, *, sync: bool = True) -> None:
    """Put the content in the target's place, whole; with `sync`, it is on the disk when this returns."""
    with replacing(target, sync=sync) as file:
        file.write(content)


def _begun(target: Path, mode: int | None) -> tuple[Path, BinaryIO]:
    """A new temporary file beside the target, locked."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(_TRIES):
        temporary = target.with_name(temporary_name(target.name))
        descriptor = os.open(temporary, flags, 0o666)
        try:
            # Whoever clears up may have found it in the moment before it was locked.
            if _lock(descriptor) is not LockState.TAKEN and os.fstat(descriptor).st_nlink:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                return temporary, os.fdopen(descriptor, "wb")
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                temporary.unlink()
            raise
        os.close(descriptor)
    raise OSError(errno.EBUSY, "temporary files are removed as soon as they are made", str(target.parent))


class LockState(Enum):
    OURS = "ours"
    TAKEN = "taken"
    UNKNOWN = "unknown"
    """This file system has no such locks."""


def _lock(descriptor: int) -> LockState:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return LockState.UNKNOWN if error.errno in _NO_LOCKS else LockState.TAKEN
    return LockState.OURS


def temporary_name(name: str) -> str:
    """A name for a temporary file, not longer than names may be."""
    short = os.fsdecode(os.fsencode(name)[:_NAME_ROOM])
    return f".{short}.interlock-{secrets.token_hex(8)}.tmp"


def remove_leftovers(folder: Path, names: re.Pattern[str] = LEFTOVER) -> list[Path]:
    """Remove the temporary files that killed writes left in a folder; what a living process writes to stays."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(Path(entry.path) for entry in entries if names.fullmatch(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [place for place in found if _removed(place)]


def _removed(place: Path) -> bool:
    try:
        descriptor = open_plain(place)
    except OSError:
        return False
    try:
        if _lock(descriptor) is not LockState.OURS or os.fstat(descriptor).st_ino != place.lstat().st_ino:
            return False
        place.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss, not only the bytes of its files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
