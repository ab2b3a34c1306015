"""Large values are stored once, by their digest; the journal holds the digest (EN-08)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, Protocol

from interlock.engine.keys import canonical, sha256
from interlock.errors import JournalDamaged

LIMIT = 4096


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
        return self.put(path.read_bytes())

    def get(self, digest: str) -> bytes:
        return self._content[digest]

    def contents(self) -> list[bytes]:
        return list(self._content.values())


class FileObjects:
    """``objects/<sha256>`` of a run folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes) -> str:
        digest = sha256(content)
        if not (target := self._folder / digest).exists():
            temporary = self._temporary()
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(target)
        return digest

    def put_file(self, path: Path) -> str:
        """Keep a file's present content, without reading it into memory or storing it twice."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if not (target := self._folder / digest).exists():
            temporary = self._temporary()
            os.link(path, temporary)
            temporary.rename(target)
        return digest

    def _temporary(self) -> Path:
        self._folder.mkdir(exist_ok=True)
        return self._folder / f".{secrets.token_hex(8)}.tmp"

    def get(self, digest: str) -> bytes:
        path = self._folder / digest
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise JournalDamaged(f"object {digest} of this run is missing", path=str(path)) from None
        if sha256(content) != digest:
            raise JournalDamaged(f"object {digest} of this run was changed", path=str(path))
        return content


def pack(value: Any, objects: Objects) -> Any:
    """A value in the form in which a journal line holds it."""
    packed = _pack(value, objects)
    if type(packed) in (dict, list) and len(spelled := canonical(packed)) > LIMIT:
        return {"$json": objects.put(spelled)}
    return packed


def pack_texts(value: Any, objects: Objects) -> Any:
    """Only single texts and bytes are stored elsewhere; the whole may still be long."""
    return _pack(value, objects)


def _pack(value: Any, objects: Objects) -> Any:
    kind = type(value)
    if kind is str:
        if len(value) * 4 > LIMIT and len(content := value.encode("utf-8", "surrogateescape")) > LIMIT:
            return {"$text": objects.put(content)}
    elif kind is dict:
        packed = {key: _pack(item, objects) for key, item in value.items()}
        return {"$dict": packed} if "$" in "".join(packed) and any(key[:1] == "$" for key in packed) else packed
    elif kind is list or kind is tuple:
        return [_pack(item, objects) for item in value]
    elif kind is bytes:
        if len(value) > LIMIT:
            return {"$bytes": objects.put(value)}
        return {"$base64": base64.b64encode(value).decode()}
    return value


def unpack(value: Any, objects: Objects) -> Any:
    """The value again; objects are read only here."""
    match value:
        case {"$json": digest, **rest} if not rest:
            return unpack(json.loads(objects.get(digest)), objects)
        case {"$text": digest, **rest} if not rest:
            return objects.get(digest).decode("utf-8", "surrogateescape")
        case {"$bytes": digest, **rest} if not rest:
            return objects.get(digest)
        case {"$base64": text, **rest} if not rest:
            return base64.b64decode(text)
        case {"$dict": packed, **rest} if not rest:
            return {key: unpack(item, objects) for key, item in packed.items()}
        case dict():
            return {key: unpack(item, objects) for key, item in value.items()}
        case list():
            return [unpack(item, objects) for item in value]
        case _:
            return value
