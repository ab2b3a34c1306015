"""Large values are stored once, by their digest; the journal holds the digest (EN-08)."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from interlock.documents.files import open_plain, read_plain, replace_file, replacing
from interlock.engine.keys import canonical, sha256
from interlock.errors import JournalDamaged, WorkspaceFailed

LIMIT = 4096
_PART = 1 << 20
_TRIES = 5
_IN_THE_WAY = frozenset({errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENOTDIR})


class Objects(Protocol):
    def put(self, content: bytes) -> str: ...

    def put_file(self, path: Path) -> str: ...

    def get(self, digest: str) -> bytes: ...


class MemoryObjects:
    def __init__(self) -> None:
        self._content: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        digest = sha256(content)
        self._content[digest] = content
        return digest

    def put_file(self, path: Path) -> str:
        return self.put(read_plain(path))

    def get(self, digest: str) -> bytes:
        return self._content[digest]

    def contents(self) -> list[bytes]:
        return list(self._content.values())


class FileObjects:
    """``objects/<sha256>`` of a run folder. What is there is checked before it is believed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole: set[str] = set()
        """What this process has written, or found to be what its name says."""

    def put(self, content: bytes) -> str:
        digest = sha256(content)
        if not self._holds(digest):
            self._folder.mkdir(exist_ok=True)
            replace_file(self._folder / digest, content)
            self._whole.add(digest)
        return digest

    def put_file(self, path: Path) -> str:
        """Keep a file's present content, without reading it into memory."""
        with os.fdopen(open_plain(path), "rb") as file:
            for _ in range(_TRIES):
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                file.seek(0)
                if self._holds(digest) or self._copied(file, digest):
                    return digest
                file.seek(0)
        raise WorkspaceFailed(
            f"{path.name} changes while it is being kept",
            where=str(path),
            remedy="End the program that still writes to it, then call interlock again.",
        )

    def _copied(self, file: BinaryIO, digest: str) -> bool:
        """Keep what the file holds under this name; False when it meanwhile holds something else."""
        hashed = hashlib.sha256()

        def is_the_same() -> None:
            if hashed.hexdigest() != digest:
                raise _Changed

        self._folder.mkdir(exist_ok=True)
        try:
            with replacing(self._folder / digest, check=is_the_same) as kept:
                while part := file.read(_PART):
                    hashed.update(part)
                    kept.write(part)
        except _Changed:
            return False
        self._whole.add(digest)
        return True

    def _holds(self, digest: str) -> bool:
        if digest not in self._whole:
            try:
                self.get(digest)
            except (JournalDamaged, OSError):
                return False
        return (self._folder / digest).exists()

    def get(self, digest: str) -> bytes:
        """The content of this name; `JournalDamaged` when it is gone or something else."""
        path = self._folder / digest
        try:
            content = read_plain(path)
        except FileNotFoundError:
            raise JournalDamaged(f"object {digest} of this run is missing", path=str(path)) from None
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise JournalDamaged(f"object {digest} of this run was replaced", path=str(path)) from None
            raise WorkspaceFailed.of(error, f"object {digest} of this run cannot be read", where=str(path)) from error
        if (found := sha256(content)) != digest:
            raise JournalDamaged(f"object {digest} of this run was changed (it is {found})", path=str(path))
        self._whole.add(digest)
        return content


class _Changed(Exception):
    pass


def pack(value: Any, objects: Objects) -> Any:
    """A value in the form in which a journal line holds it."""
    packed = pack_texts(value, objects)
    if type(packed) in (dict, list) and len(spelled := canonical(packed)) > LIMIT:
        return {"$json": objects.put(spelled)}
    return packed


def pack_texts(value: Any, objects: Objects) -> Any:
    """Only single texts and bytes are stored elsewhere; the whole may still be long."""
    kind = type(value)
    if kind is str:
        if len(value) * 4 > LIMIT and len(content := value.encode("utf-8", "surrogatepass")) > LIMIT:
            # Names that are not UTF-8, and half characters of an agent, come back as they were.
            kind_of_text = "$text" if _is_unicode(value) else "$loose"
            return {kind_of_text: objects.put(content)}
    elif kind is dict:
        packed = {
            key: pack_texts(item, objects)
            if type(item) in _DEEP or (type(item) is str and len(item) * 4 > LIMIT)
            else item
            for key, item in value.items()
        }
        return {"$dict": packed} if "$" in "".join(packed) and any(key[:1] == "$" for key in packed) else packed
    elif kind is list or kind is tuple:
        return [pack_texts(item, objects) for item in value]
    elif kind is bytes:
        if len(value) > LIMIT:
            return {"$bytes": objects.put(value)}
        return {"$base64": base64.b64encode(value).decode()}
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unpack(value: Any, objects: Objects) -> Any:
    """The value again; objects are read only here."""
    kind = type(value)
    if kind is dict:
        if len(value) == 1 and (mark := next(iter(value)))[:1] == "$":
            return _unpack_marked(mark, value, objects)
        return {key: unpack(item, objects) if item and type(item) in _DEEP else item for key, item in value.items()}
    if kind is list:
        return [unpack(item, objects) for item in value]
    return value


_DEEP = (dict, list, tuple, bytes)


def _unpack_marked(mark: str, value: dict[str, Any], objects: Objects) -> Any:
    match mark:
        case "$json":
            return unpack(json.loads(objects.get(value[mark])), objects)
        case "$text":
            return objects.get(value[mark]).decode("utf-8", "surrogateescape")  # which earlier versions stored so
        case "$loose":
            return objects.get(value[mark]).decode("utf-8", "surrogatepass")
        case "$bytes":
            return objects.get(value[mark])
        case "$base64":
            return base64.b64decode(value[mark])
        case "$dict":
            return {key: unpack(item, objects) for key, item in value[mark].items()}
        case _:
            return {mark: unpack(value[mark], objects)}
