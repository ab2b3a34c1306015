"""Files that others may have planted or may write to: nothing hangs, no path leads out, nothing is half written."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed

LIMIT = 10 * 1024 * 1024
"""Bytes of the largest document that is read."""
_OUR_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE})
"""Errors that say nothing about the file."""


def inside(top: Path, path: str) -> Path:
    """The absolute place of a path that counts from the workspace, whether or not anything is there yet.

    Each level is looked at on its own: a link that leads out and back in is refused as well.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathRefused(path, "it is not valid text") from None
    here, parts = top.absolute(), [part for part in path.split("/") if part not in ("", ".")]
    for why, holds in (
        ("it is empty", not path),
        ("it holds a NUL character", "\0" in path),
        ("it is absolute", path.startswith("/")),
        ("it has '..'", ".." in parts),
    ):
        if holds:
            raise PathRefused(path, why)
    for count, part in enumerate(parts, start=1):
        here /= part
        # pathlib's own methods raise on names too long and below unreadable folders.
        if os.path.islink(here) and not Path(os.path.realpath(here)).is_relative_to(os.path.realpath(top)):  # noqa: PTH114
            raise PathRefused(path, f"the symlink {'/'.join(parts[:count])} leaves the workspace")
    return here


def relative(top: Path, place: Path) -> str:
    """The path of a place, counted from the workspace; PathRefused where it is not in it."""
    whole = top.absolute() / place
    for base, candidate in ((top.absolute(), whole), (top.resolve(), whole.parent.resolve() / whole.name)):
        if candidate.is_relative_to(base):
            found = candidate.relative_to(base).as_posix()
            inside(top, found)
            return found
    raise PathRefused(str(place), "it is not inside the workspace")


def read(top: Path, path: str) -> bytes | None:
    """A document of the workspace, read through links that stay in it; None where there is none."""
    place = inside(top, path)
    try:
        return read_plain(place, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in _OUR_FAULT:
            raise WorkspaceFailed.of(error, f"cannot read {path}", where=path) from error
        reason = (error.strerror or type(error).__name__).lower()
        raise DocumentInvalid(f"cannot read {path}: {reason}", where=path, expected="a plain file") from error


def read_plain(place: Path, *, follow: bool = False, limit: int = LIMIT) -> bytes:
    """The bytes of a plain file; an OSError where it is something else, or larger than the limit. Never waits."""
    # The look before the opening is for devices, where opening may already do something.
    _check_plain(place.stat(follow_symlinks=follow), place)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(place, flags), "rb") as file:
        _check_plain(os.fstat(file.fileno()), place)
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit:,} bytes", str(place))
    return content


def _check_plain(status: os.stat_result, place: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", str(place))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a symlink", str(place))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, "is not a plain file", str(place))


def sha256(content: bytes | None) -> str:
    """In hexadecimal; empty for what is not there."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def replace(target: Path, content: bytes, *, mode: int | None, sync: bool = True) -> None:
    """Put the content in the target's place, whole or not at all.

    Args:
        mode: None: that of any new file.
        sync: whether it must survive a power loss, and not only the end of this process.
    """
    name = os.fsdecode(os.fsencode(target.name)[:200])  # 255 bytes with what is put around it
    temporary = target.with_name(f".{name}.interlock-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o666 if mode is None else 0o600), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if sync:  # the name in its folder, too
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write(top: Path, path: str, content: bytes) -> None:
    """A document of the workspace, whole; no link is written, a mode stays."""
    place = inside(top, path)
    if os.path.islink(place):  # noqa: PTH114 - pathlib's own raises on names too long
        raise PathRefused(path, "it is a symlink; refusing to write")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        replace(place, content, mode=stat.S_IMODE(place.stat().st_mode) if place.exists() else None)
    except OSError as error:
        raise WorkspaceFailed.of(error, f"cannot write {path}", where=path) from error


def move(top: Path, path: str, attic: Path) -> str:
    """A document into a folder of ours, if it is still there; where it lies, from the workspace."""
    place, target = inside(top, path), attic / path
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        place.rename(target)
    return target.relative_to(top).as_posix()
