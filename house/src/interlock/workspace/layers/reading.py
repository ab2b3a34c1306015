"""What a program left in a layer, sorted: what counts, what is refused, nested, too large or ignored."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from interlock.workspace.layers.laying import State, blob, stamp
from interlock.workspace.layers.upper import Touched, Upper
from interlock.workspace.place import above, counts
from interlock.workspace.trees import Entry, Trees
from interlock.workspace.values import EMPTY, Remark, RemarkKind

_FIRST = 100
"""So many ignored paths are told."""
_GIT_NAME = re.compile(r"\.git[ .]*(:.*)?|git~1[ .]*", re.IGNORECASE)
"""Names that git takes for its own folder, on some system."""
_LINKS = 40
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

Ignoring = Callable[[Sequence[str]], set[str]]


@dataclass
class Left:
    """What counts, and what is to be told of the rest."""

    changed: list[str] = field(default_factory=list)
    """Files and links whose content may differ from what was shown."""
    lost: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [*self.changed, *self.lost]


class Reading:
    """Looks at what lies in a layer; no program runs in it meanwhile."""

    def __init__(self, trees: Trees, held: Upper, state: State, root: Path, largest: int) -> None:
        self._trees = trees
        self._held = held
        self._state = state
        self._root = root
        """The workspace's top, as programs saw it."""
        self._largest = largest
        self._nested: dict[str, bool] = {}

    def left(self, touched: Touched, inside: Ignoring) -> Left:
        """Everything that a program left.

        Args:
            inside: which paths the layer's own ignore files ignore; asked only where a program changed one.
        """
        laid = self._state.laid
        same = {path for path, status in touched.files.items() if path in laid and laid[path].stamp == stamp(status)}
        # The git of a repository that was made in there is no news.
        files = [path for path in touched.files if path not in same and counts(path) and ".git" not in path.split("/")]
        hidden = {*touched.gone, *touched.emptied}
        known = self._trees.entries(self._state.shown, [*files, *hidden]) if files or hidden else {}
        left = Left()
        gone = (path for path in known if path not in touched.files)
        left.lost = [path for path in gone if path in hidden or not hidden.isdisjoint(above(path))]
        left.lost += [path for path in laid if path not in touched.files and path not in known]
        odd: dict[str, list[str]] = defaultdict(list)
        unknown: list[str] = []
        for path in files:
            if why := self._refused(path, touched.files[path], known.get(path)):
                odd[why].append(path)
            elif path in known:
                left.changed.append(path)
            else:
                unknown.append(path)
        self._sort(unknown, touched, left, inside)
        left.remarks += [
            Remark(kind=RemarkKind.REFUSED, text=f"not taken: {why}", paths=tuple(sorted(paths)))
            for why, paths in odd.items()
        ]
        return left

    def _sort(self, unknown: Sequence[str], touched: Touched, left: Left, inside: Ignoring) -> None:
        """Files that the shown tree does not know."""
        nested = [path for path in unknown if self._is_nested(path)]
        asked = [path for path in unknown if not self._nested.get(path.rpartition("/")[0])]
        ignored = self._ignored(asked, self._trees.ignored)
        rules = [path for path in (*touched.files, *left.lost) if path.rpartition("/")[2] == ".gitignore"]
        if any(path in left.lost or path in left.changed or path in unknown for path in rules):
            ignored |= self._ignored([path for path in asked if path not in ignored], inside)
        left.ignored = sorted(path for path in asked if path in ignored)[:_FIRST]
        large = [path for path in asked if path not in ignored and touched.files[path].st_size > self._largest]
        left.changed += [path for path in asked if path not in ignored and path not in set(large)]
        if large:
            text = f"over {self._largest >> 20} MB and new: it stays in the layer"
            left.remarks.append(Remark(kind=RemarkKind.LARGE, text=text, paths=tuple(large)))
        if nested:
            old = self._trees.from_folder(EMPTY, self._trees.workspace.top, nested)
            new = self._trees.from_folder(EMPTY, self._held.folder, nested)
            text = "work inside a repository of its own: run interlock there"
            remark = Remark(kind=RemarkKind.NESTED, text=text, paths=tuple(nested), old=old, new=new)
            left.remarks += [remark] if old != new else []

    def _ignored(self, paths: Sequence[str], ask: Ignoring) -> set[str]:
        """Which of the files are ignored; of what lies in a new folder that is ignored, the folder alone is asked."""
        top = self._trees.workspace.top
        tops: dict[str, list[str]] = defaultdict(list)
        is_new = cache(lambda folder: not os.path.lexists(top / folder))
        for path in paths:
            new = [folder for folder in above(path) if is_new(folder)]
            tops[f"{new[-1]}/" if new else path].append(path)
        found = ask(list(tops))
        whole = {path for folder in found for path in tops.get(folder, ())}
        rest = [
            path for folder, below in tops.items() if folder.endswith("/") and folder not in found for path in below
        ]
        return whole | (ask(rest) if rest else set())

    def _is_nested(self, path: str) -> bool:
        """Whether a file lies in a repository of its own."""
        folder = path.rpartition("/")[0]
        if not folder:
            return False
        if folder not in self._nested:
            self._nested[folder] = self._held.place(f"{folder}/.git") is not None or self._is_nested(folder)
        return self._nested[folder]

    def _refused(self, path: str, status: os.stat_result, known: Entry | None) -> str:
        """Why a file can never come along; empty when it can."""
        if any(_GIT_NAME.fullmatch(part) for part in path.split("/")):
            return "git cannot hold a file of this name"
        if kind := _KINDS.get(stat.S_IFMT(status.st_mode)):
            return f"it is {kind}"
        place = self._held.folder / path
        if stat.S_ISLNK(status.st_mode):
            same = known is not None and known[1] == blob(place, status)
            return "" if same or not leads_out(self._held, self._root, path) else "a link that leads out"
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            return "it has a set-uid or set-gid bit"
        return "" if os.access(place, os.R_OK) else "it cannot be read"


def leads_out(held: Upper, root: Path, path: str) -> bool:
    """Whether following a link leaves the workspace, or enters git's or the engine's folder: as the program sees it,
    whether or not something is there."""
    waiting = path.split("/")[::-1]
    here: list[str] = []
    followed = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return True
            here.pop()
            continue
        here.append(part)
        place = held.place("/".join(here))
        if place is None or not place.is_symlink():
            continue
        followed += 1
        if followed > _LINKS:
            return False  # it leads in circles, which is nowhere
        target = os.readlink(place)  # noqa: PTH115
        here.pop()
        if target.startswith("/"):
            # As text: what ".." means behind a link, only following it tells.
            if target != str(root) and not target.startswith(f"{root}/"):
                return True
            here, target = [], target.removeprefix(str(root))
        waiting += target.split("/")[::-1]
    return bool(here) and here[0].lower() in (".git", ".interlock")
