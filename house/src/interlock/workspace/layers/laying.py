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
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.workspace.layers.upper import OPAQUE, Touched, Upper, remove
from interlock.workspace.place import above
from interlock.workspace.snapshot import GITLINK
from interlock.workspace.trees import Entry, Trees
from interlock.workspace.values import Needs, Tree

_SECOND = 10**9
_NO_BOUND = 1 << 62

Stamp = tuple[int, int, int, int]


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

    @staticmethod
    def forget(folder: Path) -> None:
        (folder / "layer.json").unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> State | None:
        try:
            told: dict[str, Any] = json.loads((folder / "layer.json").read_bytes())
            laid = {path: Laid(one["mode"], one["blob"], (*one["stamp"],)) for path, one in told.pop("laid").items()}
            clean = told.pop("clean")
            needs = Needs.model_validate(told.pop("needs"))
            return cls(**told, laid=laid, clean=(clean[0], clean[1]) if clean else None, needs=needs)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def stamp(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def bring(
    trees: Trees, held: Upper, before: State | None, differs: Mapping[str, Entry | None], live: Tree, shown: Tree
) -> dict[str, Laid]:
    """Make the layer show a tree: what is not ignored is cleared, ignored files stay; what is laid afterwards.

    Args:
        differs: what `shown` has where it differs from what lies on disk (`live`).
    """
    if before is None:
        held.update(())
    touched = held.touched(Touched(_NO_BOUND, _NO_BOUND))
    laid_before = before.laid if before else {}
    found = [*touched.files, *touched.gone, *touched.emptied, *laid_before]
    there = trees.entries(shown, found) if found else {}
    ignored = _ignored(trees, touched, {*there, *laid_before}, live)
    if before is not None:
        held.update([*touched.files, *touched.gone])
    wanted: dict[str, Entry | None] = {path: there.get(path) for path in touched.files if path not in ignored}
    wanted |= {path: there.get(path) for path in laid_before}
    hidden = {*touched.gone, *touched.emptied}
    for path, shows in there.items():
        if path not in touched.files and (path in hidden or not hidden.isdisjoint(above(path))):
            wanted[path] = shows
    wanted = {**differs, **wanted}
    laid: dict[str, Laid] = {}
    missing: dict[str, Entry] = {}
    for path, entry in sorted(wanted.items()):
        if entry is None:
            if not _is_folder(held.place(path)):
                held.remove(path)
        elif path in touched.files and (same := _same(held, path, touched.files[path], entry, laid_before)):
            laid[path] = same
        elif entry[0] != GITLINK:
            missing[path] = entry
    newest = max(touched.newest, before.newest if before else 0)
    return laid | lay(trees, held, missing, newest, laid_before)


def lay(
    trees: Trees, held: Upper, wanted: Mapping[str, Entry], newest: int, before: Mapping[str, Laid]
) -> dict[str, Laid]:
    """Lay files, later than `newest`; one with the content that it had there `before` gets its time again."""
    paths: dict[str, list[str]] = defaultdict(list)
    for path, (_, name) in wanted.items():
        paths[name].append(path)
    newest = max(newest, *(one.stamp[2] for one in before.values()), 0)
    laid: dict[str, Laid] = {}
    for name, content in trees.blobs(paths):
        for path in paths[name]:
            mode, known = wanted[path][0], before.get(path)
            if known and (known.mode, known.blob) == (mode, name):
                when = known.stamp[2]
            else:
                times = (newest, _time(trees.workspace.top / path), _time(held.place(path)))
                when = max(time.time_ns(), *((one // _SECOND + 1) * _SECOND for one in times))
            laid[path] = Laid(mode, name, stamp(held.put(path, mode, content, when)))
    return laid


def clear(trees: Trees, upper: Upper, state: State) -> None:
    """Take what is not ignored out of an upper folder that others are to lie on; it shows what is below again."""
    touched = upper.touched(Touched(_NO_BOUND, _NO_BOUND))
    ignored = _ignored(trees, touched, set(state.laid), state.live)
    live = trees.entries(state.live, [*touched.gone, *touched.emptied])
    for path in touched.files:
        if path not in ignored:
            known = state.laid.get(path)
            if known is None or known.stamp != stamp(touched.files[path]):
                state.laid[path] = Laid(0, "", stamp(touched.files[path]))
            remove(upper.folder / path)
    for path in touched.gone:
        if path in live or any(path in above(one) for one in live):
            remove(upper.folder / path)
    for path in touched.emptied:
        with suppress(OSError):
            os.removexattr(upper.folder / path, OPAQUE)
    state.newest = max(state.newest, touched.newest)


def _ignored(trees: Trees, touched: Touched, known: Collection[str], live: Tree) -> set[str]:
    unknown = [path for path in touched.files if path not in known]
    tracked = trees.entries(live, unknown) if unknown else {}
    asked = [path for path in unknown if path not in tracked]
    return trees.ignored(asked) if asked else set()


def _same(held: Upper, path: str, status: os.stat_result, entry: Entry, laid: dict[str, Laid]) -> Laid | None:
    """The file as it lies there, where it is what is to be shown; it counts as not opened again."""
    known = laid.get(path)
    untouched = known is not None and known.stamp == stamp(status)
    same = (known.mode, known.blob) == entry if known and untouched else is_same(held.folder / path, entry)
    return again(held, path, Laid(*entry, stamp(status))) if same else None


def is_same(place: Path, entry: Entry | None) -> bool:
    """Whether a file is what a tree has; nothing there is the same as no entry."""
    try:
        status = place.lstat()
    except OSError:
        return entry is None
    if entry is None or stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry[0]):
        return entry is None and stat.S_ISDIR(status.st_mode)
    if stat.S_ISREG(status.st_mode) and (status.st_mode ^ entry[0]) & 0o100:
        return False
    try:
        return blob(place, status) == entry[1]
    except OSError:
        return False  # a program took the right to read it away


def again(held: Upper, path: str, laid: Laid) -> Laid:
    """The same file, as if it had not been opened yet."""
    place = held.folder / path
    os.utime(place, ns=(0, laid.stamp[2]), follow_symlinks=False)
    return Laid(laid.mode, laid.blob, stamp(place.lstat()))


def blob(place: Path, status: os.stat_result) -> str:
    """The name that git gives to a file's content."""
    content = os.fsencode(place.readlink()) if stat.S_ISLNK(status.st_mode) else place.read_bytes()
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _is_folder(place: Path | None) -> bool:
    return place is not None and stat.S_ISDIR(place.lstat().st_mode)


def _time(place: Path | None) -> int:
    try:
        return place.lstat().st_mtime_ns if place else 0
    except OSError:
        return 0
