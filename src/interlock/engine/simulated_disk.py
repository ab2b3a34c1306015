"""The disk of a simulated world: files, layers over them, documents and a run's records, all in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from interlock.documents import Document, EditedMeanwhile, FileFacts, Written
from interlock.documents.patches import spelled
from interlock.engine.keys import sha256
from interlock.engine.objects import MemoryObjects, Objects
from interlock.errors import DocumentInvalid
from interlock.workspace import ChangeKind, Exit, Found, PathChange, Scope

ROOT = Path("/simulated")


class MemoryTree:
    """Files in memory, with snapshots that share what did not change, and the layers over them."""

    root = ROOT

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.layers: dict[str, MemoryLayer] = {}
        self._times = dict.fromkeys(files, 1)
        self._clock = 1
        self._snapshots: list[dict[str, bytes]] = []
        self._latest: int | None = None
        self._kept: list[bytes | None] = []

    def tick(self) -> int:
        self._clock += 1
        return self._clock

    def put(self, path: str, content: bytes | None) -> None:
        self._latest = None
        if content is None:
            self.files.pop(path, None)
        else:
            self.files[path] = content
            self._times[path] = self.tick()

    def keep(self, content: bytes | None) -> int:
        """Store a content, as the shadow repository does; its number."""
        self._kept.append(content)
        return len(self._kept) - 1

    def kept(self, number: int) -> bytes | None:
        return self._kept[number]

    async def snapshot(self) -> int:
        if self._latest is None:
            self._snapshots.append(dict(self.files))
            self._latest = len(self._snapshots) - 1
        return self._latest

    def at(self, snapshot: int) -> dict[str, bytes]:
        return self._snapshots[snapshot]

    async def changes(self, before: int, after: int) -> list[PathChange]:
        if before == after:
            return []
        old, new = self._snapshots[before], self._snapshots[after]
        return [
            PathChange(path, change_kind(old.get(path), new.get(path)))
            for path in sorted({**old, **new})
            if old.get(path) != new.get(path) and not path.startswith(".interlock/")
        ]

    async def patch(self, before: int, after: int, paths: Sequence[str]) -> bytes:
        old, new = self._snapshots[before], self._snapshots[after]
        return b"".join(
            b"%s\n-%s\n+%s\n" % (path.encode(), old.get(path, b"(none)"), new.get(path, b"(none)")) for path in paths
        )

    async def past(self, snapshot: int, paths: Sequence[str]) -> dict[str, Any]:
        then = self._snapshots[snapshot]
        return {
            "base": await self.snapshot(),
            "entries": [[path, 0o100644, self.keep(then.get(path))] for path in paths],
        }

    def facts(self, path: str) -> FileFacts:
        content = self.files.get(path)
        return FileFacts.absent(path) if content is None else memory_facts(path, content, self._times[path])


class MemoryLayer:
    """A layer in memory: what its agent wrote, over the tree as it is."""

    exchange = ROOT / ".interlock/layers/exchange"
    confined = True
    sealed = False

    def __init__(self, tree: MemoryTree, base: int) -> None:
        self._tree = tree
        self._base = base
        self._written: dict[str, bytes | None] = {}
        self._times: dict[str, int] = {}

    @property
    def root(self) -> Path:
        return self._tree.root

    @property
    def enclosure(self) -> MemoryLayer:
        return self

    def put(self, path: str, content: bytes | None) -> None:
        self._written[path] = content
        self._times[path] = self._tree.tick()

    @property
    def files(self) -> dict[str, bytes]:
        """The workspace as it is seen in here."""
        whole = {**self._tree.files, **self._written}
        return {path: content for path, content in whole.items() if content is not None}

    def command_line(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> list[str]:
        return list(argv)

    def fork(self, command_line: Sequence[str], *, env: Mapping[str, str], stdin: int) -> None:
        return None

    def exit(self) -> Exit | None:
        return None

    def forget_exit(self) -> None:
        return None

    def facts(self, path: str) -> FileFacts:
        if path not in self._written:
            return self._tree.facts(path)
        content = self._written[path]
        return FileFacts.absent(path) if content is None else memory_facts(path, content, self._times[path])

    async def found(self) -> Found:
        base = self._tree.at(self._base)
        changed = [
            PathChange(path, change_kind(base.get(path), now))
            for path, now in sorted(self._written.items())
            if now not in (base.get(path), self._tree.files.get(path)) and not path.startswith(".interlock/")
        ]
        return Found(tuple(changed), files=len(changed))

    async def work(self, paths: Sequence[str]) -> dict[str, Any]:
        return {"base": self._base, "entries": [[path, 0o100644, self._tree.keep(self._now(path))] for path in paths]}

    def _now(self, path: str) -> bytes | None:
        return self._written[path] if path in self._written else self._tree.files.get(path)

    def show(self, path: str, content: bytes) -> None:
        return None

    async def start_from(self, work: Mapping[str, Any]) -> None:
        base = self._tree.at(work["base"])
        for path, _mode, kept in work["entries"]:
            if self._tree.files.get(path) == base.get(path):  # else it cannot be merged, and is left as the tree has it
                self.put(path, self._tree.kept(kept))

    async def revert(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._written.pop(path, None)

    async def take_ignored(self, paths: Sequence[str]) -> None:
        return None

    async def rest(self) -> None:
        return None

    async def close(self) -> None:
        self._tree.layers = {name: layer for name, layer in self._tree.layers.items() if layer is not self}


def memory_facts(path: str, content: bytes, time: int) -> FileFacts:
    return FileFacts(
        path,
        exists=True,
        plain=True,
        readable=True,
        size=len(content),
        mtime_ns=time,
        digest=sha256(content),
        content=content,
    )


def change_kind(old: bytes | None, new: bytes | None) -> ChangeKind:
    if old is None:
        return ChangeKind.ADDED
    return ChangeKind.DELETED if new is None else ChangeKind.MODIFIED


class MemoryDocuments:
    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree

    def facts(self, path: str) -> FileFacts:
        return self._tree.facts(path)

    def read(self, path: str) -> Document:
        return Document.of(self._tree.facts(path))

    def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written:
        before = self._tree.facts(path).digest or ""
        if expect is not None and before != expect:
            raise EditedMeanwhile(path, expected_digest=expect, found_digest=before)
        raw = content.encode() if isinstance(content, str) else content
        self._tree.put(path, raw)
        return Written(path, sha256(raw), before)

    def list(self, folder: str, pattern: str = "*") -> list[str]:
        base = "" if folder in (".", "") else folder.rstrip("/") + "/"
        wanted = Scope((pattern,))
        return sorted(path for path in self._tree.files if path.startswith(base) and wanted.covers(path[len(base) :]))

    def place_aside(self, path: str, into: str) -> str:
        return f".interlock/attic/{into}/{path}"

    def set_aside_to(self, path: str, destination: str) -> str:
        names = [name for name in self._tree.files if name == path or name.startswith(path + "/")]
        if not names and destination not in self._tree.files:
            raise DocumentInvalid(f"{path} not found", path=path)
        for name in names:
            self._tree.put(destination + name[len(path) :], self._tree.files[name])
            self._tree.put(name, None)
        return destination


class MemoryRecords:
    def __init__(self) -> None:
        self.objects: Objects = MemoryObjects()
        self.kept: dict[tuple[str, str], Any] = {}
        self.identity: bytes | None = None

    def create(self, identity: bytes) -> None:
        self.identity = identity

    def folder(self, key: str) -> Path:
        return ROOT

    def keep(self, key: str, name: str, content: bytes) -> str:
        self.kept[key, name] = content
        return f".interlock/runs/simulated/dispatches/{key}/{name}"

    def keep_json(self, key: str, name: str, value: Any) -> None:
        self.kept[key, name] = value

    def begin_try(self, key: str, number: int) -> None:
        return None

    def last_sign(self, key: str) -> datetime | None:
        return None

    def shown(self, path: Path) -> str:
        return path.as_posix()


def memory_difference(path: str, old: bytes | None, new: bytes | None) -> bytes:
    """How git would show it, all old lines before all new ones."""
    kind = b"new file mode 100644\n" if old is None else b"deleted file mode 100644\n" if new is None else b""
    gone = b"".join(b"-%s\n" % line for line in (old or b"").splitlines())
    come = b"".join(b"+%s\n" % line for line in (new or b"").splitlines())
    return b"diff --git %s %s\n%s@@\n%s%s" % (spelled(path, "a/"), spelled(path, "b/"), kind, gone, come)
