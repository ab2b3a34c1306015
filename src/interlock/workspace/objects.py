"""Objects of the shadow repository, read and written without a git call for each.

An object is a header, its bytes, and their digest as its name, in a file of its own; only those that git packed are
asked for, one at a time, from one running git.  Trees are remembered: they never change.  What is read is checked
against its name: the repository lies where an unconfined program can write.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from interlock.errors import WorkspaceFailed
from interlock.workspace.git import Talk
from interlock.workspace.shadow import EMPTY_TREE, Shadow

LINK = 0o120000
FOLDER = 0o040000

_OTHER_CONTENT = "its content is not what its name says"
_CHUNK = 1 << 20
_REMEMBERED = 200_000
"""Entries of trees that are kept in memory."""


@dataclass(frozen=True)
class Stored:
    """One entry of a tree: git's mode, and the object's name."""

    mode: int
    name: str

    @property
    def is_folder(self) -> bool:
        return self.mode == FOLDER

    @property
    def is_link(self) -> bool:
        return self.mode == LINK

    @property
    def executable(self) -> bool:
        return self.mode == 0o100755


class Trees:
    """Parsed trees, remembered across uses."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Stored]] = {EMPTY_TREE: {}}
        self._entries = 0

    def keep(self, name: str, entries: dict[str, Stored]) -> None:
        self._entries += len(entries)
        if self._entries > _REMEMBERED:
            self.known = {EMPTY_TREE: {}}
            self._entries = len(entries)
        self.known[name] = entries


class GitObjects:
    """Reads objects; git is started when the first one is neither known nor a file of its own."""

    def __init__(self, shadow: Shadow, trees: Trees) -> None:
        self._shadow = shadow
        self._trees = trees
        self._talking: Talk | None = None
        self._started = AsyncExitStack()

    async def tree(self, name: str) -> dict[str, Stored]:
        if (known := self._trees.known.get(name)) is not None:
            return known
        content = await self._read(name, "tree")
        entries: dict[str, Stored] = {}
        at = 0
        while at < len(content):
            space = content.index(b" ", at)
            end = content.index(b"\0", space)
            mode = int(content[at:space], 8)
            entries[os.fsdecode(content[space + 1 : end])] = Stored(mode, content[end + 1 : end + 21].hex())
            at = end + 21
        self._trees.keep(name, entries)
        return entries

    async def blob(self, name: str) -> bytes:
        return await self._read(name, "blob")

    async def write_out(self, name: str, place: Path) -> None:
        """Make a new file that holds a blob; of a large one only a piece at a time is in memory."""
        if await asyncio.to_thread(copy_out, self._shadow, name, place):
            return
        talk, size = await self._asked(name, "blob")
        digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        with place.open("xb") as file:
            left = size
            while left:
                part = await talk.exactly(min(left, _CHUNK))
                left -= len(part)
                digest.update(part)
                file.write(part)
        await talk.exactly(1)
        if digest.hexdigest() != name:
            raise _damaged(name, _OTHER_CONTENT)

    async def _read(self, name: str, kind: str) -> bytes:
        if (own := _own_file(self._shadow, name)) is not None:
            with own:
                head, parts = _opened(own, name)
                content = b"".join(parts)
            if not head.startswith(f"{kind} ".encode()):
                raise _damaged(name, f"a {head.decode('ascii', 'replace')}")
            return content
        talk, size = await self._asked(name, kind)
        content = await talk.exactly(size)
        await talk.exactly(1)
        if object_name(kind, content) != name:
            raise _damaged(name, _OTHER_CONTENT)
        return content

    async def _asked(self, name: str, kind: str) -> tuple[Talk, int]:
        if self._talking is None:
            self._talking = await self._started.enter_async_context(self._shadow.plain.talk("cat-file", "--batch"))
        await self._talking.ask(f"{name}\n".encode())
        answer = (await self._talking.until(b"\n")).decode("utf-8", "replace").split(" ")
        if len(answer) != 3 or answer[1] != kind:
            raise _damaged(name, " ".join(answer[1:]))
        return self._talking, int(answer[2])

    async def close(self) -> None:
        self._talking = None
        await self._started.aclose()


@asynccontextmanager
async def reading(shadow: Shadow, trees: Trees) -> AsyncIterator[GitObjects]:
    objects = GitObjects(shadow, trees)
    try:
        yield objects
    finally:
        await objects.close()


def _own_file(shadow: Shadow, name: str) -> BinaryIO | None:
    """The file of an object that git has not packed."""
    try:
        return os.fdopen(open_plain(_object_place(shadow, name)), "rb")
    except OSError:
        return None


def _opened(file: BinaryIO, name: str) -> tuple[bytes, Iterator[bytes]]:
    """The header of an object (kind and size), and its content piece by piece; at the end it is known to be right."""
    squeezed = zlib.decompressobj()
    digest = hashlib.sha1(usedforsecurity=False)

    def pieces() -> Iterator[bytes]:
        given = b""
        try:
            while given := squeezed.unconsumed_tail or file.read(_CHUNK):
                if part := squeezed.decompress(given, _CHUNK):
                    digest.update(part)
                    yield part
                if squeezed.eof:
                    break
        except (OSError, zlib.error) as error:
            raise _damaged(name, str(error)) from error
        if digest.hexdigest() != name:
            raise _damaged(name, _OTHER_CONTENT)

    parts = pieces()
    head, _, first = next(parts, b"").partition(b"\0")
    return head, chain((first,), parts)


def copy_out(shadow: Shadow, name: str, place: Path) -> bool:
    """Whether a new file holds the blob now; git has to be asked for one that it packed."""
    if (own := _own_file(shadow, name)) is None:
        return False
    with own, place.open("xb") as target:
        head, parts = _opened(own, name)
        for part in parts:
            target.write(part)
    if not head.startswith(b"blob "):
        raise _damaged(name, f"a {head.decode('ascii', 'replace')}")
    return True


def object_name(kind: str, content: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


def file_name(place: Path, status: os.stat_result) -> str:
    """The name that a file (or a link's target) has as a blob. OSError when it cannot be read."""
    if stat.S_ISLNK(status.st_mode):
        return object_name("blob", os.fsencode(os.readlink(place)))  # noqa: PTH115 - bytes as they are
    handle = open_plain(place)
    try:
        size = os.fstat(handle).st_size
        digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        while part := os.read(handle, _CHUNK):
            digest.update(part)
        return digest.hexdigest()
    finally:
        os.close(handle)


def open_plain(place: Path) -> int:
    """An open file that is no link and blocks nobody."""
    return os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def store_file(shadow: Shadow, place: Path, status: os.stat_result) -> str:
    """Put a file, or a link's target, into the shadow repository as a blob; its name."""
    if stat.S_ISLNK(status.st_mode):
        return store_bytes(shadow, os.fsencode(os.readlink(place)))  # noqa: PTH115
    name = file_name(place, status)
    if _object_place(shadow, name).exists():
        return name
    handle = open_plain(place)
    try:
        size = os.fstat(handle).st_size
        squeeze = zlib.compressobj(1)
        fresh = shadow.path / "tmp" / f"{uuid4().hex}.object"
        digest = hashlib.sha1(usedforsecurity=False)
        with fresh.open("wb") as target:
            part, left = f"blob {size}\0".encode(), size
            while part:
                digest.update(part)
                target.write(squeeze.compress(part))
                part = os.read(handle, min(left, _CHUNK))  # no further: somebody may still write to it
                left -= len(part)
            target.write(squeeze.flush())
        if left:
            raise WorkspaceFailed("a file became shorter while it was stored", where=str(place), remedy="Try again.")
        return _settled(shadow, fresh, digest.hexdigest())
    finally:
        os.close(handle)


def store_bytes(shadow: Shadow, content: bytes, kind: str = "blob") -> str:
    name = object_name(kind, content)
    if _object_place(shadow, name).exists():
        return name
    fresh = shadow.path / "tmp" / f"{uuid4().hex}.object"
    fresh.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content, 1))
    return _settled(shadow, fresh, name)


def store_tree(shadow: Shadow, files: Iterable[tuple[str, Stored]]) -> str:
    """Put a tree of nothing but these files into the shadow repository; its name."""
    entries: dict[bytes, Stored] = {}
    below: dict[str, list[tuple[str, Stored]]] = defaultdict(list)
    for path, entry in files:
        first, _, rest = path.partition("/")
        if rest:
            below[first].append((rest, entry))
        else:
            entries[os.fsencode(first)] = entry
    for first, inner in below.items():
        # With the slash by which git sorts a folder.
        entries[os.fsencode(first) + b"/"] = Stored(FOLDER, store_tree(shadow, inner))
    lines = (
        f"{entry.mode:o} ".encode() + name.rstrip(b"/") + b"\0" + bytes.fromhex(entry.name)
        for name, entry in sorted(entries.items())
    )
    return store_bytes(shadow, b"".join(lines), "tree")


def _settled(shadow: Shadow, fresh: Path, name: str) -> str:
    place = _object_place(shadow, name)
    place.parent.mkdir(exist_ok=True)
    fresh.chmod(0o444)
    fresh.replace(place)
    return name


def _object_place(shadow: Shadow, name: str) -> Path:
    return Path(f"{shadow.path}/objects/{name[:2]}/{name[2:]}")


def _damaged(name: str, found: str) -> WorkspaceFailed:
    return WorkspaceFailed(
        f"object {name} of the snapshots cannot be used",
        where=".interlock/snapshots.git",
        expected="an object whose content is what its name says",
        found=found or "missing",
        remedy="Something else has changed the folder. Restore it from a copy, or start a new run.",
    )
