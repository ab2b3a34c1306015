"""What a program left in a layer, sorted: what counts, what is refused, nested, too large or ignored."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from interlock.workspace.layers.laying import Ignoring, State, blob, ignored, stamp
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


@dataclass
class Reading:
    """Looks at what lies in a layer, while no program runs in it: what counts, and what is told of the rest."""

    trees: Trees
    held: Upper
    state: State
    root: Path
    """The workspace's top, as programs saw it."""
    largest: int
    changed: list[str] = field(default_factory=list)
    """Files and links whose content may differ from what was shown."""
    lost: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    _nested: dict[str, bool] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        return [*self.changed, *self.lost]

    def read(self, touched: Touched, inside: Ignoring) -> None:
        """Sort everything that a program left.

        Args:
            inside: which paths the layer's own ignore files ignore; asked only where a program changed one.
        """
        laid = self.state.laid
        same = {path for path, status in touched.files.items() if path in laid and laid[path].stamp == stamp(status)}
        # The git of a repository that was made in there is no news.
        files = [path for path in touched.files if path not in same and counts(path) and ".git" not in path.split("/")]
        hidden = {*touched.gone, *touched.emptied}
        known = self.trees.entries(self.state.shown, [*files, *hidden]) if files or hidden else {}
        gone = (path for path in known if path not in touched.files)
        self.lost = [path for path in gone if path in hidden or not hidden.isdisjoint(above(path))]
        self.lost += [path for path in laid if path not in touched.files and path not in known]
        unknown: list[str] = []
        not_taken: dict[tuple[RemarkKind, str], list[str]] = defaultdict(list)
        for path in files:
            if why := self._refused(path, touched.files[path], known.get(path)):
                not_taken[RemarkKind.REFUSED, f"not taken: {why}"].append(path)
            elif path in known:
                self.changed.append(path)
            else:
                unknown.append(path)
        nested = [path for path in unknown if self._is_nested(path)]
        asked = [path for path in unknown if not self._is_nested(path)]
        top = self.trees.workspace.top
        out = ignored(self.trees, asked, self.trees.ignored)
        if any(path.rpartition("/")[2] == ".gitignore" for path in (*unknown, *self.paths)):
            out |= ignored(self.trees, [path for path in asked if path not in out], inside)
        self.ignored = sorted(out)[:_FIRST]
        for path in asked:
            if path in out:
                continue
            if touched.files[path].st_size > self.largest:
                not_taken[RemarkKind.LARGE, f"over {self.largest >> 20} MB and new: it stays in the layer"].append(path)
            else:
                self.changed.append(path)
        told = (Remark(kind=kind, text=text, paths=tuple(sorted(paths))) for (kind, text), paths in not_taken.items())
        self.remarks += told
        if nested:
            old = self.trees.from_folder(EMPTY, top, nested)
            new = self.trees.from_folder(EMPTY, self.held.folder, nested)
            text = "work inside a repository of its own: run interlock there"
            remark = Remark(kind=RemarkKind.NESTED, text=text, paths=tuple(nested), old=old, new=new)
            self.remarks += [remark] if old != new else []

    def _is_nested(self, path: str) -> bool:
        """Whether a file lies in a repository of its own."""
        folder = path.rpartition("/")[0]
        if not folder:
            return False
        if folder not in self._nested:
            self._nested[folder] = self.held.place(f"{folder}/.git") is not None or self._is_nested(folder)
        return self._nested[folder]

    def _refused(self, path: str, status: os.stat_result, known: Entry | None) -> str:
        """Why a file can never come along; empty when it can."""
        if any(_GIT_NAME.fullmatch(part) for part in path.split("/")):
            return "git cannot hold a file of this name"
        if kind := _KINDS.get(stat.S_IFMT(status.st_mode)):
            return f"it is {kind}"
        place = self.held.folder / path
        if stat.S_ISLNK(status.st_mode):
            same = known is not None and known[1] == blob(place, status)
            return "" if same or not leads_out(self.held, self.root, path) else "a link that leads out"
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
