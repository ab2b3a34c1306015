"""What lies in a layer: brought to the tree that it shows, and sorted when its program has ended.

A file that is laid gets a time later, by a whole second, than anything that programs left in that layer and than it
ever had there, and another one only when its content changes: build tools and Python compare times, and gave a wrong
green and a wrong red.  So a path that was laid, or that a program changed, and is the person's again is laid too.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from interlock.documents.files import replace
from interlock.workspace.git import GITLINK, Entry, entry_of
from interlock.workspace.layers.upper import Touched, Upper
from interlock.workspace.place import above, counts, stamp, status_of
from interlock.workspace.trees import Trees, is_rules
from interlock.workspace.values import EMPTY, Needs, Remark, RemarkKind, Tree, told

_STATE = "layer.json"
_SECOND = 10**9
_GIT_NAME = re.compile(r"\.git[ .]*(:.*)?|git~1[ .]*", re.IGNORECASE)
"""Names that git takes for its own folder, on some system."""
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

Stamp = tuple[int, int, int, int]


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
    laid: dict[str, Laid] = field(default_factory=dict)
    needs: Needs = field(default_factory=Needs)
    logins: dict[str, str] = field(default_factory=dict)
    """Digests of what was copied in."""
    newest: int = 0
    """Everything that programs left is older than this."""

    def save(self, folder: Path) -> None:
        told = json.dumps({**vars(self), "needs": self.needs.model_dump()})  # a path may be no UTF-8
        replace(folder / _STATE, told.encode(), mode=0o600, sync=False)

    @classmethod
    def load(cls, folder: Path) -> State | None:
        try:
            told = json.loads((folder / _STATE).read_bytes())
            laid = {path: Laid(mode, name, (*when,)) for path, (mode, name, when) in told.pop("laid").items()}
            return cls(**{**told, "laid": laid, "needs": Needs.model_validate(told["needs"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def forget(folder: Path) -> None:
        (folder / _STATE).unlink(missing_ok=True)


# -- before a program


def bring(
    trees: Trees, held: Upper, before: State | None, differs: Mapping[str, Entry | None], shown: Tree
) -> dict[str, Laid]:
    """Make the layer show a tree: what is not ignored is cleared, ignored files stay; what is laid afterwards, later
    than all that was there. A file with the content that it had there before gets its time again.

    Args:
        differs: what `shown` has where it differs from what lies on disk.
    """
    wanted = clear(trees, held, before, shown) if before else {}
    known, newest = (before.laid, before.newest) if before else ({}, 0)
    newest = max(newest, *(one.time for one in known.values()), 0)
    for path, entry in sorted(differs.items()):
        if entry is None:
            held.remove(path)
        else:
            wanted[path] = entry
    paths: dict[str, list[str]] = defaultdict(list)
    for path, (mode, name) in wanted.items():
        if mode != GITLINK:
            paths[name].append(path)
    laid: dict[str, Laid] = {}
    for name, content in trees.blobs(paths):
        for path in paths[name]:
            mode, one = wanted[path][0], known.get(path, _UNKNOWN)
            when = one.time
            if one[:2] != (mode, name):
                persons = status_of(trees.workspace.top / path)
                latest = max(newest, persons.st_mtime_ns if persons else 0)
                when = max(time.time_ns(), (latest // _SECOND + 1) * _SECOND)
            laid[path] = Laid(mode, name, stamp(held.put(path, mode, content, when)))
    return laid


def clear(
    trees: Trees, held: Upper, state: State, shown: Tree = EMPTY, *, rules: Tree | None = None
) -> dict[str, Entry]:
    """Take what is not ignored out of a layer; it has what is below again, and `state` says what it had. What is shown
    of all that was there, to be laid.

    Args:
        rules: the tree whose ignore files count beside the person's; else the one that is shown.
    """
    touched = held.touched(Touched())
    hidden = (*touched.gone, *touched.emptied)
    theirs = [path for path in (*touched.files, *hidden) if path not in state.laid]
    kept = trees.ignored(theirs, state.standing, rules or shown)
    files = [path for path in touched.files if path not in kept]
    asked = (*files, *hidden, *state.laid)
    wanted = trees.entries(shown, asked) if asked and shown != EMPTY else {}
    for path in files:
        status, entry = touched.files[path], wanted.get(path)
        if state.laid.get(path, _UNKNOWN).stamp != stamp(status):  # a program wrote it
            same = entry is not None and entry_of(held.folder / path) == entry
            state.laid[path] = Laid(*(entry if entry and same else (0, "")), stamp(status))
    state.laid = dict.fromkeys(wanted, _UNKNOWN) | state.laid
    state.newest = max(state.newest, touched.newest)
    # What is shown of a folder that a program took away is laid; the ignored files that went with it stay away.
    held.restore(touched, {*kept, *(hidden if shown != EMPTY else ())})
    return wanted


# -- after it


class Reading:
    """Looks at what lies in a layer, while no program runs in it: what counts, and what is told of the rest.

    Args:
        root: the workspace's top, as programs saw it.
    """

    def __init__(self, trees: Trees, held: Upper, state: State, root: Path, largest: int) -> None:
        self._trees, self._held, self._root = trees, held, root
        self.remarks: list[Remark] = []
        touched, laid = held.touched(Touched()), state.laid
        same = {path for path, status in touched.files.items() if path in laid and laid[path].stamp == stamp(status)}
        # The git of a repository that was made in there is no news.
        files = [path for path in touched.files if path not in same and counts(path) and ".git" not in path.split("/")]
        hidden = {*touched.gone, *touched.emptied}
        known = trees.entries(state.shown, [*files, *hidden]) if files or hidden else {}
        gone = (path for path in known if path not in touched.files)
        lost = [path for path in gone if path in hidden or not hidden.isdisjoint(above(path))]
        lost += [path for path in laid if path not in touched.files and path not in known]
        changed, nested, asked = self._sorted(files, known, touched)
        rules = trees.from_folder(state.shown, held.folder, [path for path in (*changed, *asked) if is_rules(path)])
        out = trees.ignored(asked, state.standing, rules)
        persons = {path: status_of(trees.workspace.top / path) for path in asked if path not in out}
        sizes = {path: max(touched.files[path].st_size, one.st_size if one else 0) for path, one in persons.items()}
        large = [path for path, size in sizes.items() if size > largest]
        self.remarks += told(
            RemarkKind.LARGE, f"over {largest >> 20} MB and in no snapshot: it stays in the layer", large
        )
        self.paths = [*changed, *(path for path in asked if path not in out and path not in large), *lost]
        """Files and links whose content may differ from what was shown."""
        if nested:
            old, new = (trees.from_folder(EMPTY, top, nested) for top in (trees.workspace.top, held.folder))
            text = "work inside a repository of its own: run interlock there"
            self.remarks += told(RemarkKind.NESTED, text, nested if old != new else (), old=old, new=new)

    def _sorted(
        self, files: Sequence[str], known: Mapping[str, Entry], touched: Touched
    ) -> tuple[list[str], list[str], list[str]]:
        """What was shown before, what lies in a repository of its own, and what is new; the rest is refused."""
        refused: dict[str, list[str]] = defaultdict(list)
        changed, nested, new = list[str](), list[str](), list[str]()
        is_nested = cache(lambda folder: any(self._held.place(f"{one}/.git") for one in (folder, *above(folder))))
        for path in files:
            if why := self._refused(path, touched.files[path], known.get(path)):
                refused[why].append(path)
            elif path in known:
                changed.append(path)
            else:
                (nested if "/" in path and is_nested(path.rpartition("/")[0]) else new).append(path)
        for why, paths in refused.items():
            self.remarks += told(RemarkKind.REFUSED, f"not taken: {why}", paths)
        return changed, nested, new

    def _refused(self, path: str, status: os.stat_result, known: Entry | None) -> str:
        """Why a file can never come along; empty when it can."""
        if any(_GIT_NAME.fullmatch(part) for part in path.split("/")):
            return "git cannot hold a file of this name"
        if kind := _KINDS.get(stat.S_IFMT(status.st_mode)):
            return f"it is {kind}"
        place = self._held.folder / path
        if stat.S_ISLNK(status.st_mode):
            return "" if known == entry_of(place) or not self._leads_out(path, place) else "a link that leads out"
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            return "it has a set-uid or set-gid bit"
        return "" if os.access(place, os.R_OK) else "it cannot be read"

    def _leads_out(self, path: str, link: Path) -> bool:
        """Whether the text of a link leaves the workspace, or enters git's or the engine's folder."""
        target = Path(os.path.normpath(self._root / path / ".." / link.readlink()))
        if not target.is_relative_to(self._root):
            return True
        return target.relative_to(self._root).as_posix().partition("/")[0].lower() in (".git", ".interlock")
