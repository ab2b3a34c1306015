"""The files of a workspace: read with care, written whole or not at all, set aside instead of deleted.

A write makes a temporary file beside its target, syncs it, renames it over the target, syncs the folder and
reads the result back (CM-02).  Whoever is killed on the way leaves the old file or the new one, and at worst
a temporary file, which the next one who writes in that folder removes (see `files`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from interlock.documents import paths
from interlock.documents.document import Document
from interlock.documents.facts import FileFacts
from interlock.documents.files import LEFTOVER, open_plain, read_plain, remove_leftovers, replacing, sync_folder
from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed

LIMIT = 10 * 1024 * 1024
"""Bytes of the largest document that is read or written (CM-28)."""

_NAME_BYTES = 255
_PATH_BYTES = 3500
"""Of a place in the attic, below the root; the system's own limit is 4096 with all that leads to the workspace."""


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
        self._tidied: set[Path] = set()

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
            self._tidy(target.parent)

            def still_as_expected() -> None:
                if expect is not None and _signature(_lstat(target)) != _signature(seen):
                    raise EditedMeanwhile(path, expected_digest=expect, found_digest=_current(target)[0])

            mode = None if seen is None else stat.S_IMODE(seen.st_mode)
            with replacing(target, mode=mode, check=still_as_expected) as file:
                file.write(data)
            if read_plain(target) != data:
                raise WorkspaceFailed(
                    f"{path} does not hold what was written to it",
                    where=path,
                    expected=f"sha256 {_digest(data)}",
                    remedy="Another program writes to the same file: end it, then call interlock again.",
                )
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
            if not LEFTOVER.fullmatch(PurePosixPath(path).name)
            and paths.escaping_link(self.root, path) is None
            and os.path.isfile(self.root / path)  # noqa: PTH113 - the method of Path raises below unreadable folders
        )

    def place_aside(self, path: str, into: str) -> str:
        """Where `set_aside` would move the path to: a place in the attic that nothing has taken yet."""
        plain = PurePosixPath(self.attic, *paths.plain_parts(into), *paths.plain_parts(path))
        if len(os.fsencode(plain)) > _PATH_BYTES:  # deep below something deep: by a name that stands for the whole
            plain = PurePosixPath(self.attic, f"{_digest(os.fsencode(plain))[:16]}-{_cut(plain.name, 200)}")
        place, count = plain, 1
        while os.path.lexists(self.root / place):
            count += 1
            behind = f"-{count}{plain.suffix}"
            place = plain.with_name(_cut(plain.stem, _NAME_BYTES - len(os.fsencode(behind))) + behind)
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
            sync_folder(target.parent)
            sync_folder(source.parent)
        return destination

    def _tidy(self, folder: Path) -> None:
        """Once for each folder: whoever was killed while writing there left a temporary file."""
        if folder not in self._tidied:
            self._tidied.add(folder)
            with suppress(OSError):  # a folder that may not be listed can still be written to
                remove_leftovers(folder)

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
    descriptor = -1
    try:
        status = place.stat()
        found = FileFacts(path, exists=True, size=status.st_size, mtime_ns=status.st_mtime_ns)
        if stat.S_ISDIR(status.st_mode):
            return replace(found, problem="is a directory")
        if not stat.S_ISREG(status.st_mode):
            return replace(found, problem="is not a plain file")
        descriptor = open_plain(place, follow=True)
        status = os.fstat(descriptor)
        found = FileFacts(path, exists=True, plain=True, size=status.st_size, mtime_ns=status.st_mtime_ns)
        if status.st_size > LIMIT:
            return replace(found, problem=_too_large(status.st_size))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(LIMIT)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return replace(found, readable=True, size=len(content), digest=_digest(content), content=content)


def _current(target: Path) -> tuple[str, os.stat_result | None]:
    """Digest and status of what is there now; the digest of nothing is empty."""
    status = _lstat(target)
    return ("" if status is None else _digest(read_plain(target))), status


def _lstat(target: Path) -> os.stat_result | None:
    try:
        return target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _signature(status: os.stat_result | None) -> tuple[int, ...] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _cut(name: str, room: int) -> str:
    """The beginning of a name that has so many bytes at most."""
    return os.fsdecode(os.fsencode(name)[:room])


@contextmanager
def _failing(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceFailed.of(error, what, where=path) from error


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _too_large(size: int) -> str:
    return f"{size} bytes; documents over {LIMIT // 1024 // 1024} MB are refused"


def _shown(digest: str) -> str:
    return f"sha256 {digest}" if digest else "no file"
