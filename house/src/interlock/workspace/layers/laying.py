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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from interlock.workspace.git import object_name
from interlock.workspace.layers.upper import Touched, Upper
from interlock.workspace.place import above
from interlock.workspace.snapshot import GITLINK
from interlock.workspace.trees import Entry, Trees
from interlock.workspace.values import EMPTY, Needs, Tree

_SECOND = 10**9

Stamp = tuple[int, int, int, int]
Ignoring = Callable[[Sequence[str]], set[str]]


class Laid(NamedTuple):
    """A file that the engine laid, as it was then."""

    mode: int
    blob: str
    stamp: Stamp

    @property
    def time(self) -> int:
        return self.stamp[2]


_UNKNOWN = Laid(0, "", (0, 0, 0, 0))


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
        fresh = folder / f"layer.{uuid4().hex}"
        fresh.write_text(json.dumps({**vars(self), "needs": self.needs.model_dump()}), encoding="ascii")
        fresh.replace(folder / "layer.json")

    @staticmethod
    def forget(folder: Path) -> None:
        (folder / "layer.json").unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> State | None:
        try:
            told: dict[str, Any] = json.loads((folder / "layer.json").read_bytes())
            laid = {path: Laid(mode, name, (*when,)) for path, (mode, name, when) in told.pop("laid").items()}
            return cls(**{**told, "laid": laid, "needs": Needs.model_validate(told["needs"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None


def stamp(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def bring(
    trees: Trees, held: Upper, before: State | None, differs: Mapping[str, Entry | None], shown: Tree
) -> dict[str, Laid]:
    """Make the layer show a tree: what is not ignored is cleared, ignored files stay; what is laid afterwards.

    Args:
        differs: what `shown` has where it differs from what lies on disk.
    """
    laid: dict[str, Laid] = {}
    missing: dict[str, Entry] = {}
    before_that: dict[str, Laid] = {}
    newest = 0
    if before is None:
        held.restore(Touched(), ())
    else:
        laid, missing = clear(trees, held, before, shown)
        before_that, newest = before.laid, before.newest
    for path, entry in sorted(differs.items()):
        if entry is None:
            held.remove(path)
        elif path not in laid:
            missing[path] = entry
    return laid | lay(trees, held, missing, newest, before_that)


def clear(trees: Trees, held: Upper, state: State, shown: Tree = EMPTY) -> tuple[dict[str, Laid], dict[str, Entry]]:
    """Take what is neither ignored nor shown out of a layer; it has what is below again, and `state` says what it had.

    Returns:
        What lies there as it is shown, and what of the rest that was touched is shown.
    """
    touched = held.touched(Touched())
    hidden = (*touched.gone, *touched.emptied)
    unknown = [path for path in (*touched.files, *hidden) if path not in state.laid]
    kept = ignored(trees, unknown, trees.ignored)
    files = [path for path in touched.files if path not in kept]
    asked = (*files, *hidden, *state.laid)
    wanted = trees.entries(shown, asked) if asked and shown != EMPTY else {}
    state.laid = dict.fromkeys(wanted, _UNKNOWN) | state.laid
    state.newest = max(state.newest, touched.newest)
    stays: dict[str, Laid] = {}
    for path in files:
        place, status, shows = held.folder / path, touched.files[path], wanted.get(path)
        known = state.laid.get(path, _UNKNOWN)
        if known.stamp != stamp(status):  # a program wrote it
            known = Laid(*shows, stamp(status)) if shows and is_same(place, shows) else Laid(0, "", stamp(status))
            state.laid[path] = known
        if shows == known[:2]:
            os.utime(place, ns=(0, known.time), follow_symlinks=False)  # it counts as not opened again
            stays[path] = Laid(*shows, stamp(place.lstat()))
    # What is shown of a folder that a program took away is laid; the ignored files that went with it stay away.
    held.restore(touched, {*kept, *stays, *(hidden if shown != EMPTY else ())})
    return stays, {path: entry for path, entry in wanted.items() if path not in stays}


def lay(
    trees: Trees, held: Upper, wanted: Mapping[str, Entry], newest: int, before: Mapping[str, Laid]
) -> dict[str, Laid]:
    """Lay files, later than `newest`; one with the content that it had there `before` gets its time again."""
    paths: dict[str, list[str]] = defaultdict(list)
    for path, (mode, name) in wanted.items():
        if mode != GITLINK:
            paths[name].append(path)
    newest = max(newest, *(one.time for one in before.values()), 0)
    laid: dict[str, Laid] = {}
    for name, content in trees.blobs(paths):
        for path in paths[name]:
            mode, known = wanted[path][0], before.get(path)
            if known and known[:2] == (mode, name):
                when = known.time
            else:
                times = (newest, _time(trees.workspace.top / path))
                when = max(time.time_ns(), *((one // _SECOND + 1) * _SECOND for one in times))
            laid[path] = Laid(mode, name, stamp(held.put(path, mode, content, when)))
    return laid


def ignored(trees: Trees, paths: Sequence[str], ask: Ignoring) -> set[str]:
    """Which of the files are ignored; of what lies in a new folder that is ignored, the folder alone is asked."""
    tops: dict[str, list[str]] = defaultdict(list)
    is_new = cache(lambda folder: not os.path.lexists(trees.workspace.top / folder))
    for path in paths:
        if trees.is_document(path):
            continue
        new = [folder for folder in above(path) if is_new(folder)]
        tops[f"{new[-1]}/" if new else path].append(path)
    found = ask(list(tops)) if tops else set()
    whole = {path for folder in found for path in tops.get(folder, ())}
    rest = [path for folder, below in tops.items() if folder.endswith("/") and folder not in found for path in below]
    return whole | (ask(rest) if rest else set())


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


def blob(place: Path, status: os.stat_result) -> str:
    """The name that git gives to a file's content."""
    content = os.fsencode(place.readlink()) if stat.S_ISLNK(status.st_mode) else place.read_bytes()
    return object_name(content)


def _time(place: Path) -> int:
    try:
        return place.lstat().st_mtime_ns
    except OSError:
        return 0
