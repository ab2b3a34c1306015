"""Bringing a layer to the tree that it shows.

A file that is laid gets a time later, by a whole second, than anything that programs left in that layer and than it
ever had there, and another one only when its content changes: build tools and Python compare times, and gave a wrong
green and a wrong red.  So a path that was laid, or that a program changed, and is the person's again is laid too.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from interlock.workspace.layers.upper import Touched
from interlock.workspace.place import above
from interlock.workspace.trees import GITLINK, Entry, Trees
from interlock.workspace.values import Needs, Tree

_SECOND = 10**9
_NO_BOUND = 1 << 62

Stamp = tuple[int, int, int, int]


class Held(Protocol):
    """Where the writes of a layer's programs lie; paths count from the workspace's top."""

    folder: Path

    def touched(self, found: Touched) -> Touched:
        """All that may differ from what is below."""
        ...

    def place(self, path: str) -> Path | None:
        """Where the bytes of a path lie; None where programs find nothing."""
        ...

    def put(self, path: str, mode: int, content: bytes, mtime_ns: int) -> os.stat_result: ...
    def remove(self, path: str) -> None: ...
    def update(self, kept: Collection[str]) -> None:
        """What is below has changed; of what programs wrote (`kept`) nothing does."""
        ...


@dataclass(frozen=True)
class Laid:
    """A file that the engine laid, as it was then."""

    mode: int
    blob: str
    stamp: Stamp


@dataclass
class State:
    """What is known of a layer; a folder without it is no whole layer."""

    shown: Tree
    live: Tree
    """What lay on the person's disk when it was opened."""
    standing: Tree
    head: Tree
    """Of the person's HEAD commit."""
    clean: tuple[Tree, Tree] | None = None
    """The clean spelling of `standing` and `shown`, where that differs."""
    commit: str = ""
    """What HEAD in the layer was at first."""
    refs: dict[str, str] = field(default_factory=dict)
    laid: dict[str, Laid] = field(default_factory=dict)
    needs: Needs = field(default_factory=Needs)
    logins: dict[str, str] = field(default_factory=dict)
    """Digests of what was copied in."""
    newest: int = 0
    """Everything that programs left is older than this."""

    def save(self, folder: Path) -> None:
        told = {**asdict(self), "needs": self.needs.model_dump()}
        fresh = folder / f"layer.{uuid4().hex}"
        fresh.write_text(json.dumps(told), encoding="ascii")
        fresh.replace(folder / "layer.json")

    @classmethod
    def load(cls, folder: Path) -> State | None:
        try:
            told: dict[str, Any] = json.loads((folder / "layer.json").read_bytes())
            laid = {
                path: Laid(one["mode"], one["blob"], (*one["stamp"],)) for path, one in told.pop("laid").items()
            }
            clean = told.pop("clean")
            needs = Needs.model_validate(told.pop("needs"))
            return cls(**told, laid=laid, clean=(clean[0], clean[1]) if clean else None, needs=needs)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def stamp(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def bring(trees: Trees, held: Held, before: State | None, live: Tree, shown: Tree) -> dict[str, Laid]:
    """Make the layer show a tree: what is not ignored is cleared, ignored files stay; what is laid afterwards."""
    touched = held.touched(Touched(_NO_BOUND, _NO_BOUND))
    was_laid = before.laid if before else {}
    found = [*touched.files, *touched.gone, *touched.emptied, *was_laid]
    there = trees.entries(shown, found) if found else {}
    below = trees.entries(live, found) if found else {}
    unknown = [path for path in touched.files if path not in there and path not in below and path not in was_laid]
    ignored = trees.ignored(unknown)
    held.update([*touched.files, *touched.gone])
    wanted: dict[str, Entry | None] = {path: there.get(path) for path in touched.files if path not in ignored}
    wanted |= {path: there.get(path) for path in was_laid}
    hidden = {*touched.gone, *touched.emptied}
    for path, entry in there.items():
        if path not in touched.files and (path in hidden or not hidden.isdisjoint(above(path))):
            wanted[path] = entry
    wanted |= {delta.path: delta.new for delta in trees.deltas(live, shown) if delta.path not in wanted}
    laid: dict[str, Laid] = {}
    missing: dict[str, list[str]] = defaultdict(list)
    for path, entry in sorted(wanted.items()):
        if entry is None:
            held.remove(path)
        elif path in touched.files and (same := _same(held, path, touched.files[path], entry, was_laid)):
            laid[path] = same
        elif entry[0] != GITLINK:
            missing[entry[1]].append(path)
    newest = max(touched.newest, before.newest if before else 0, *(one.stamp[2] for one in was_laid.values()), 0)
    laid |= lay(trees, held, {path: entry for path, entry in wanted.items() if entry and entry[1] in missing}, newest)
    return laid


def lay(trees: Trees, held: Held, wanted: dict[str, Entry], newest: int) -> dict[str, Laid]:
    """Lay files, later than `newest`."""
    paths: dict[str, list[str]] = defaultdict(list)
    for path, (_, blob) in wanted.items():
        paths[blob].append(path)
    laid: dict[str, Laid] = {}
    for blob, content in trees.blobs(paths):
        for path in paths[blob]:
            mode = wanted[path][0]
            times = (newest, _time(trees.workspace.top / path), _time(held.place(path)))
            later = max(time.time_ns(), *((one // _SECOND + 1) * _SECOND for one in times))
            laid[path] = Laid(mode, blob, stamp(held.put(path, mode, content, later)))
    return laid


def _same(held: Held, path: str, status: os.stat_result, entry: Entry, laid: dict[str, Laid]) -> Laid | None:
    """The file as it lies there, where it is what is to be shown; it counts as not opened again."""
    mode, blob = entry
    known, place = laid.get(path), held.folder / path
    if known and known.stamp == stamp(status):
        same = (known.mode, known.blob) == entry
    else:
        same = stat.S_IFMT(status.st_mode) == stat.S_IFMT(mode) and _blob(place, status) == blob
        same = same and (stat.S_ISLNK(mode) or bool(status.st_mode & 0o100) == bool(mode & 0o100))
    if not same:
        return None
    os.utime(place, ns=(0, status.st_mtime_ns), follow_symlinks=False)
    return Laid(mode, blob, stamp(place.lstat()))


def _blob(place: Path, status: os.stat_result) -> str:
    """The name that git gives to a file's content."""
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(place.readlink())
    else:
        place.chmod(status.st_mode & 0o777 | 0o400)
        content = place.read_bytes()
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _time(place: Path | None) -> int:
    try:
        return place.lstat().st_mtime_ns if place else 0
    except OSError:
        return 0
