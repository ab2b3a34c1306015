"""Files of the workspace: nothing hangs, nothing is half written, no path leads out, and nothing is deleted.

Reading opens without waiting and takes plain files only: a pipe, socket or device that somebody left in the way is an
error at once.  Writing goes to a temporary file beside the target, synced, then renamed over it, then read back.  The
temporary file is locked as long as its writer lives; one that can be locked is a leftover of a process that was killed,
and the next one who writes in that folder removes it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed

LIMIT = 10 * 1024 * 1024
"""Bytes of the largest document that is read or written."""
LEFTOVER = re.compile(r"\..+\.interlock-[0-9a-f]{16}\.tmp", re.DOTALL)
"""The name of a temporary file; whoever lists a folder leaves it out."""
_NAME_BYTES = 255
_ATTIC_BYTES = 3500
"""Of a place in the attic, below the top; the system's own limit is 4096 with all that leads to the workspace."""
_DRIVE = re.compile(r"[A-Za-z]:(?:[\\/]|$)")
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})


class NotPlain(OSError):
    """What is there is no plain file, or is larger than what is read."""


class EditedMeanwhile(DocumentInvalid):
    """Somebody changed the file since it was read; nothing was written."""


# paths


def plain_parts(path: str) -> tuple[str, ...]:
    """The parts of a path that is relative and plain as text; PathRefused else. Nothing on disk is looked at."""
    if not path:
        raise PathRefused(path, "it is empty")
    if "\0" in path:
        raise PathRefused(path, "it holds a NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathRefused(path, "it is not valid text") from None
    if path.startswith(("/", "\\")) or _DRIVE.match(path):
        raise PathRefused(path, "it is absolute")
    if ".." in re.split(r"[\\/]", path):
        raise PathRefused(path, "it has '..'")
    return tuple(part for part in path.split("/") if part not in ("", "."))


def inside(top: Path, path: str) -> Path:
    """The absolute place of a path that counts from the workspace, whether or not anything is there yet.

    Each level is looked at on its own: a link that leads out and back in is refused as well.
    """
    here, parts = top.absolute(), plain_parts(path)
    for count, part in enumerate(parts, start=1):
        here /= part
        # pathlib's own methods raise on names too long and below unreadable folders.
        if os.path.islink(here) and not Path(os.path.realpath(here)).is_relative_to(os.path.realpath(top)):  # noqa: PTH114
            raise PathRefused(path, f"the symlink {'/'.join(parts[:count])} leaves the workspace")
    return here


def relative(top: Path, place: Path | str) -> str:
    """The path of a place, counted from the workspace; PathRefused where it is not in it."""
    whole = top.absolute() / place
    for base, candidate in ((top.absolute(), whole), (top.resolve(), whole.parent.resolve() / whole.name)):
        if candidate.is_relative_to(base):
            found = candidate.relative_to(base).as_posix()
            inside(top, found)
            return found
    raise PathRefused(str(place), "it is not inside the workspace")


# reading


def open_plain(place: Path, *, follow: bool = False) -> int:
    """A descriptor of a plain file, for reading. Never waits; anything else is an OSError."""
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


def read_plain(place: Path, *, follow: bool = False, limit: int = LIMIT) -> bytes:
    """The bytes of a plain file; NotPlain where there are more than `limit`."""
    with os.fdopen(open_plain(place, follow=follow), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise NotPlain(errno.EOVERFLOW, f"is larger than {limit:,} bytes", str(place))
    return content


def read(top: Path, path: str) -> bytes | None:
    """A document of the workspace, read through links that stay in it; None where there is none."""
    place = inside(top, path)
    try:
        return read_plain(place, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE):
            raise WorkspaceFailed.of(error, f"cannot read {path}", where=path) from error
        reason = (error.strerror or type(error).__name__).lower()
        raise DocumentInvalid(f"cannot read {path}: {reason}", path=path, expected="a plain file") from error


def listing(top: Path, folder: str, pattern: str = "*") -> list[str]:
    """Paths of the plain files in a folder that fit the pattern (`**` for any depth), sorted."""
    start = inside(top, folder)
    try:
        found = [place.relative_to(top.absolute()).as_posix() for place in start.glob("/".join(plain_parts(pattern)))]
    except (ValueError, NotImplementedError) as error:
        raise PathRefused(pattern, f"it is not a usable pattern ({error})") from None
    return sorted(path for path in found if not LEFTOVER.fullmatch(PurePosixPath(path).name) and _is_plain(top, path))


def digest(content: bytes | None) -> str:
    """SHA-256 in hexadecimal; of nothing it is empty."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


# writing


def write(top: Path, path: str, content: bytes, *, expect: str | None = None) -> str:
    """Put a document in place, whole, and read it back; folders are made as needed. Returns the digest of before.

    Args:
        expect: digest that the file must have now, empty for "must not exist"; else EditedMeanwhile.
    """
    if len(content) > LIMIT:
        raise DocumentInvalid(f"refusing to write {path}: {len(content):,} bytes", path=path, expected=f"{LIMIT:,}")
    target = _entry(top, path)
    with _failing(f"cannot write {path}", path):
        seen = _lstat(target)
        if seen is not None and stat.S_ISLNK(seen.st_mode):
            raise DocumentInvalid(f"{path} is a symlink; refusing to write", path=path)
        before = "" if seen is None else digest(read_plain(target))

        def still_as_expected() -> None:
            if expect is not None and (before != expect or _signature(_lstat(target)) != _signature(seen)):
                raise EditedMeanwhile(
                    f"{path} was changed meanwhile; nothing was written",
                    path=path,
                    remedy="Read the file again and decide anew.",
                )

        still_as_expected()
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # a folder that may not be listed can still be written to
            remove_leftovers(target.parent)
        replace(target, content, mode=None if seen is None else stat.S_IMODE(seen.st_mode), check=still_as_expected)
        if read_plain(target) != content:
            raise WorkspaceFailed(
                f"{path} does not hold what was written to it",
                where=path,
                remedy="Another program writes to the same file: end it, then call interlock again.",
            )
    return before


def replace(
    target: Path,
    content: bytes,
    *,
    mode: int | None = None,
    sync: bool = True,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Put the content in the target's place, whole or not at all.

    Args:
        mode: permissions of the file; those of any new file by default.
        sync: whether it must survive a power loss, and not only the end of this process.
        check: the last word, when all is written: if it raises, the target stays as it is.
    """
    name = os.fsdecode(os.fsencode(target.name)[: _NAME_BYTES - len("..interlock-.tmp") - 16])
    temporary = target.with_name(f".{name}.interlock-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _lock(file.fileno())
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            check()
            if os.fstat(file.fileno()).st_nlink:
                temporary.replace(target)  # while it is still locked: nobody takes it for a leftover
            else:  # somebody did, in the moment before it was locked
                replace(target, content, mode=mode, sync=sync, check=check)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(target.parent)


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove the temporary files that killed writes left in a folder; what a living process writes to stays."""
    with os.scandir(folder) as entries:
        found = sorted(Path(entry.path) for entry in entries if LEFTOVER.fullmatch(entry.name))
    return [place for place in found if _removed(place)]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss, not only the bytes of its files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# setting aside


def place_aside(top: Path, path: str, into: str) -> str:
    """Where `set_aside` would move the path to: a place below `into` that nothing has taken yet."""
    plain = PurePosixPath(*plain_parts(into), *plain_parts(path))
    if len(os.fsencode(plain)) > _ATTIC_BYTES:  # deep below something deep: by a name that stands for the whole
        short = os.fsdecode(os.fsencode(plain.name)[:200])
        plain = PurePosixPath(*plain_parts(into)) / f"{digest(os.fsencode(plain))[:16]}-{short}"
    place, count = plain, 1
    while os.path.lexists(top / place):
        count += 1
        behind = f"-{count}{plain.suffix}"
        place = plain.with_name(os.fsdecode(os.fsencode(plain.stem)[: _NAME_BYTES - len(os.fsencode(behind))]) + behind)
    return place.as_posix()


def set_aside(top: Path, path: str, destination: str) -> None:
    """Move a file or folder to a place that `place_aside` chose; done already where that place is taken (a crash)."""
    source, target = _entry(top, path), _entry(top, destination)
    if target.is_relative_to(source):
        raise PathRefused(path, "it holds the place where it would go")
    if os.path.lexists(target):
        return
    if not os.path.lexists(source):
        raise DocumentInvalid(f"{path} not found", path=path)
    with _failing(f"cannot set {path} aside", path):
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        sync_folder(target.parent)
        sync_folder(source.parent)


# inside


def _entry(top: Path, path: str) -> Path:
    """The place itself, which may be any symlink; only what leads to it must stay in the workspace."""
    parts = plain_parts(path)
    if not parts:
        raise PathRefused(path, "it is the workspace itself")
    return inside(top, "/".join(parts[:-1]) or ".") / parts[-1]


def _is_plain(top: Path, path: str) -> bool:
    try:
        return os.path.isfile(inside(top, path))  # noqa: PTH113 - the method of Path raises below unreadable folders
    except PathRefused:
        return False


def _check_plain(status: os.stat_result, place: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", str(place))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a symlink", str(place))
    if not stat.S_ISREG(status.st_mode):
        raise NotPlain(errno.ENXIO, "is not a plain file", str(place))


def _lstat(target: Path) -> os.stat_result | None:
    try:
        return target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _signature(status: os.stat_result | None) -> tuple[int, ...] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _lock(descriptor: int) -> bool:
    """Whether the file is ours now; False where somebody has it, or the file system has no such locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS or error.errno == errno.EWOULDBLOCK:
            return False
        raise
    return True


def _removed(place: Path) -> bool:
    with suppress(OSError):
        descriptor = open_plain(place)
        try:
            if _lock(descriptor) and os.fstat(descriptor).st_ino == place.lstat().st_ino:
                place.unlink()
                return True
        finally:
            os.close(descriptor)
    return False


@contextmanager
def _failing(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceFailed.of(error, what, where=path) from error
