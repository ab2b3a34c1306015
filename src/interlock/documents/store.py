"""The files of a workspace: read with care, written whole or not at all, set aside instead of deleted.

A write makes a temporary file beside its target, syncs it, renames it over the target, syncs the folder and
reads the result back (CM-02).  Whoever is killed on the way leaves the old file or the new one, and at worst
a temporary file, which `clean_leftovers` knows by its name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from interlock.documents import paths
from interlock.documents.document import Document
from interlock.documents.facts import FileFacts
from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed

LIMIT = 10 * 1024 * 1024
"""Bytes of the largest document that is read or written (CM-28)."""

_LEFTOVER = re.compile(r"\..+\.interlock-[0-9a-f]{16}\.tmp", re.DOTALL)
_NAME_ROOM = 255 - len("..interlock-.tmp") - 16


class EditedMeanwhile(DocumentInvalid):
    """Somebody changed the file since it was read; nothing was written."""

    def __init__(self, path: str, *, expected_digest: str, found_digest: str) -> None:
        super().__init__(
            f"{path} was changed meanwhile; nothing was written",
            path=path,
            expected=_shown(expected_digest),
            found=_shown(found_digest),
            remedy="Read the file again and decide anew.",
        )
        self.expected_digest = expected_digest
        self.found_digest = found_digest


@dataclass(frozen=True)
class Written:
    path: str
    digest: str
    before: str
    """Digest of what was replaced; empty when there was nothing."""


class Store:
    """The documents under one root.  Every path is relative to it; one writer at a time is assumed."""

    def __init__(self, root: Path, attic: Path) -> None:
        self.root = root.absolute()
        self.attic = paths.relative(self.root, attic)

    def read(self, path: str) -> Document:
        """The document, or a value that says why there is none."""
        return Document.of(self.facts(path))

    def facts(self, path: str) -> FileFacts:
        """What is at the path now, with its bytes when it is a plain file within the limit."""
        parts = paths.plain_parts(path)
        if link := paths.escaping_link(self.root, path):
            return FileFacts(path, exists=True, problem=f"the symlink {link} leaves the workspace")
        place = self.root.joinpath(*parts)
        try:
            return replace(_look(place, path), link=os.path.islink(place))  # noqa: PTH114 - see `_writable`
        except (FileNotFoundError, NotADirectoryError):
            return FileFacts.absent(path)
        except OSError as error:
            return FileFacts(path, exists=True, plain=error.errno not in _NOT_PLAIN, problem=_reason(error))

    def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written:
        """Put the content in place, atomically and verified; folders are made as needed.

        Args:
            expect: digest that the file must have now, empty for "must not exist"; else EditedMeanwhile.
        """
        data = self._bytes(path, content)
        target = self._writable(path)
        with _failing(f"cannot write {path}", path):
            before, seen = _current(target)
            if expect is not None and before != expect:
                raise EditedMeanwhile(path, expected_digest=expect, found_digest=before)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(_temporary_name(target.name))
            try:
                _write_synced(temporary, data, mode=None if seen is None else stat.S_IMODE(seen.st_mode))
                if expect is not None and _signature(_lstat(target)) != _signature(seen):
                    raise EditedMeanwhile(path, expected_digest=expect, found_digest=_current(target)[0])
                temporary.replace(target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
            _sync_folder(target.parent)
            if target.read_bytes() != data:
                raise WorkspaceFailed(f"{path} does not hold what was written to it", where=path)
        return Written(path, _digest(data), before)

    def list(self, folder: str, pattern: str = "*") -> list[str]:
        """Relative paths of the plain files in a folder that fit the pattern (``**`` for any depth), sorted."""
        start = paths.inside(self.root, folder)
        wanted = "/".join(paths.plain_parts(pattern))
        try:
            found = [place.relative_to(self.root).as_posix() for place in start.glob(wanted)]
        except (ValueError, NotImplementedError) as error:
            raise PathRefused(pattern, f"it is not a usable pattern ({error})") from None
        return sorted(
            path
            for path in found
            if not _LEFTOVER.fullmatch(PurePosixPath(path).name)
            and paths.escaping_link(self.root, path) is None
            and os.path.isfile(self.root / path)  # noqa: PTH113 - the method of Path raises below unreadable folders
        )

    def place_aside(self, path: str, into: str) -> str:
        """Where `set_aside` would move the path to: a place in the attic that nothing has taken yet."""
        plain = PurePosixPath(self.attic, *paths.plain_parts(into), *paths.plain_parts(path))
        place, count = plain, 1
        while os.path.lexists(self.root / place):
            count += 1
            place = plain.with_name(f"{plain.stem}-{count}{plain.suffix}")
        return place.as_posix()

    def set_aside(self, path: str, into: str) -> str:
        """Move a file or folder to ``<attic>/<into>/<path>`` and return that place; nothing is overwritten."""
        return self.set_aside_to(path, self.place_aside(path, into))

    def set_aside_to(self, path: str, destination: str) -> str:
        """Move to a place that `place_aside` chose; done already when that place is taken (crash recovery)."""
        source, target = self._unresolved(path), self._unresolved(destination)
        attic = self.root / self.attic
        if not target.is_relative_to(attic) or target == attic:
            raise PathRefused(destination, f"it is not in {self.attic}")
        if attic.is_relative_to(source):
            raise PathRefused(path, "it holds the attic")
        if os.path.lexists(target):
            return destination
        if not os.path.lexists(source):
            raise DocumentInvalid(f"{path} not found", path=path)
        with _failing(f"cannot set {path} aside", path):
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
            _sync_folder(target.parent)
            _sync_folder(source.parent)
        return destination

    def clean_leftovers(self, folder: str) -> tuple[str, ...]:
        """Remove the temporary files that killed writes left in the folder, nothing else; returns their paths."""
        start = paths.inside(self.root, folder)
        with _failing(f"cannot clean {folder}", folder):
            entries = sorted(start.iterdir()) if start.is_dir() else []
            left = [it for it in entries if _LEFTOVER.fullmatch(it.name) and it.is_file() and not it.is_symlink()]
            for place in left:
                place.unlink()
        return tuple(place.relative_to(self.root).as_posix() for place in left)

    def _bytes(self, path: str, content: str | bytes) -> bytes:
        try:
            data = content.encode() if isinstance(content, str) else content
        except UnicodeEncodeError as error:
            raise DocumentInvalid(f"{path}: the new text is not valid Unicode ({error.reason})", path=path) from None
        if len(data) > LIMIT:
            raise DocumentInvalid(f"refusing to write {path}: {_too_large(len(data))}", path=path)
        return data

    def _unresolved(self, path: str) -> Path:
        """The place itself, which may be any symlink; only what leads to it must stay in the workspace."""
        parts = paths.plain_parts(path)
        if not parts:
            raise PathRefused(path, "it is the workspace itself")
        return paths.inside(self.root, "/".join(parts[:-1]) or ".") / parts[-1]

    def _writable(self, path: str) -> Path:
        target = self._unresolved(path)
        if os.path.islink(target):  # noqa: PTH114 - the method of Path raises on names too long
            raise DocumentInvalid(f"{path} is a symlink; refusing to write", path=path)
        return target


_NOT_PLAIN = frozenset({errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV})


def _look(place: Path, path: str) -> FileFacts:
    # Not blocking: a named pipe that an agent left would otherwise stop us here for ever.
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        found = FileFacts(path, exists=True, size=status.st_size, mtime_ns=status.st_mtime_ns)
        if stat.S_ISDIR(status.st_mode):
            return replace(found, problem="is a directory")
        if not stat.S_ISREG(status.st_mode):
            return replace(found, problem="is not a plain file")
        found = replace(found, plain=True)
        if status.st_size > LIMIT:
            return replace(found, problem=_too_large(status.st_size))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(LIMIT)
    finally:
        os.close(descriptor)
    return replace(found, readable=True, size=len(content), digest=_digest(content), content=content)


def _current(target: Path) -> tuple[str, os.stat_result | None]:
    """Digest and status of what is there now; the digest of nothing is empty."""
    status = _lstat(target)
    return ("" if status is None else _digest(target.read_bytes())), status


def _lstat(target: Path) -> os.stat_result | None:
    try:
        return target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _signature(status: os.stat_result | None) -> tuple[int, ...] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _temporary_name(name: str) -> str:
    short = os.fsdecode(os.fsencode(name)[:_NAME_ROOM])
    return f".{short}.interlock-{secrets.token_hex(8)}.tmp"


def _write_synced(place: Path, data: bytes, *, mode: int | None) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make the renames in a folder durable, not only the bytes of its files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _failing(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceFailed(f"{what}: {_reason(error)}", where=path) from error


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _too_large(size: int) -> str:
    return f"{size} bytes; documents over {LIMIT // 1024 // 1024} MB are refused"


def _shown(digest: str) -> str:
    return f"sha256 {digest}" if digest else "no file"
