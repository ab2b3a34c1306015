"""Work that was accepted, put into the person's tree: file by file, each still being what was decided about.

Theory of operation.  A file is staged beside our trees and exchanged with the one in the tree in a single step of the
kernel; what came out must be what `before` says, else it is exchanged back.  So a person who writes at that moment
loses nothing and finds nothing half written.  A late difference takes back what was done, which is the same step the
other way round; whoever asked merges anew.
What is staged is listed in a manifest first: after a process that died `finish` looks at what lies on its stage before
anything else, for it may be what a person wrote a moment before.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from interlock.errors import WorkspaceFailed
from interlock.workspace.git import GITLINK, LINK, Entry, entry_of
from interlock.workspace.layers.upper import walk
from interlock.workspace.place import above, status_of
from interlock.workspace.trees import Delta, Trees
from interlock.workspace.values import Landing, Remark, RemarkKind, Tree

_NO_FILES = (LINK, GITLINK)
_NOREPLACE, _EXCHANGE = 1, 2
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""What a system or file system says that does not know how to exchange."""
_MANIFEST = "manifest.json"
_INDEX = "delivery"
_TRIES = 3


class _Late(Exception):
    """The file at this path is not what was decided about."""


@dataclass
class _Step:
    """One file on its way: its stage holds ours first, and then what came out of the tree."""

    path: str
    stage: Path
    old: Entry | None
    new: Entry | None
    done: bool = False


class Delivery:
    """Deliveries into one workspace."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._top = trees.workspace.top
        self._modes_count = trees.repository is None or trees.repository.keeps_modes

    def deliver(self, before: Tree, after: Tree, *, modes: Mapping[str, int] | None = None) -> Landing:
        """Make the tree have what `after` has and `before` has not, or nothing of it.

        Args:
            modes: of files that come again, as `Landing.modes` had them.
        """
        with self._trees.writing():
            self._tidy()
            return self._deliver(before, after, modes or {})

    def finish(self, before: Tree, after: Tree) -> Landing:
        """Bring to its end what a dead process began: forward, or back where a person's edits are in conflict."""
        with self._trees.writing():
            modes = self._tidy()
            for _ in range(_TRIES):
                now = self._trees.snapshots.take(_INDEX)[0]
                merged = self._trees.merge(before, now, after)
                target = merged.tree or self.undoing(before, after, now)[0]
                landing = self._deliver(now, target, {})
                if landing.state == "done":
                    break
            self._trees.snapshots.forget(_INDEX)
        if landing.state != "done":
            return landing
        if merged.tree is None:
            return Landing(state="conflict", conflicts=merged.conflicts)
        refused = {path for remark in landing.refused for path in remark.paths}
        paths = tuple(delta.path for delta in self._trees.deltas(before, after) if delta.path not in refused)
        return landing.model_copy(update={"paths": paths, "modes": {**modes, **landing.modes}})

    def undoing(self, before: Tree, after: Tree, now: Tree) -> tuple[Tree, tuple[str, ...]]:
        """`now` without what a delivery changed, hunk by hunk, and the paths on which a person's later change keeps
        something of it."""
        tree, kept = self._trees.merge_for(after, before, now)
        if not kept:
            return tree, ()
        sides = [self._trees.entries(side, kept) for side in (after, now, before)]
        texts = dict(self._trees.blobs(blob for side in sides for mode, blob in side.values() if mode not in _NO_FILES))
        changes: dict[str, Entry | None] = {}
        for path in kept:
            base, ours, theirs = (side.get(path, (0, "")) for side in sides)
            if all(blob in texts for _, blob in (base, ours, theirs)):
                merged = self._trees.merge_texts(texts[base[1]], texts[ours[1]], texts[theirs[1]], "--ours")
                if merged is not None:
                    changes[path] = (theirs[0] if ours[0] == base[0] else ours[0], self._trees.write(merged))
        return self._trees.tree_of(tree, changes), kept

    # -- one delivery

    def _deliver(self, before: Tree, after: Tree, modes: Mapping[str, int]) -> Landing:
        deltas, refused = self._possible(self._trees.deltas(before, after))
        if not deltas:
            return Landing(state="done", refused=refused)
        stage = self._trees.git.git_dir / "landing" / uuid4().hex
        steps: list[_Step] = []
        try:
            stage.mkdir()
            steps = self._staged(stage, deltas, modes)
            for step in steps:
                self._take(step)
            for step in steps:  # last of all: who had a file open may have written to what came out
                if step.old is not None and not self._fits(step.stage, step.old):
                    raise _Late(step.path)
            for step in steps:
                if step.new is None:
                    self._clear_folders(step.path)
        except (_Late, OSError) as error:
            for step in reversed(steps):
                self._take_back(step)
            self._clear(stage, steps)
            if isinstance(error, _Late):
                return Landing(state="late", conflicts=(str(error),))
            raise WorkspaceFailed.of(error, "work cannot be delivered, and nothing of it was") from error
        modes = self._modes(step for step in steps if step.old is not None)
        self._clear(stage, steps)
        return Landing(
            state="done",
            paths=tuple(sorted(step.path for step in steps)),
            modes=modes,
            refused=refused,
        )

    def _possible(self, deltas: Sequence[Delta]) -> tuple[list[Delta], tuple[Remark, ...]]:
        """What can be delivered, what goes first; and why not the rest."""
        hidden = self._trees.hidden([delta.path for delta in deltas if delta.old])
        # What a sparse checkout leaves out comes as a new file; git shows it so, too.
        deltas = [Delta(one.path, None, one.new) if one.path in hidden else one for one in deltas]
        going = {delta.path for delta in deltas if delta.new is None}
        coming = (delta.path for delta in deltas if delta.old is None and delta.new)
        obstacles = {path: found for path in coming if (found := list(self._in_the_way(path, going)))}
        seen: Mapping[str, Entry] = {}
        if obstacles:
            seen = self._trees.entries(self._trees.snapshots.take(_INDEX)[0])
            self._trees.snapshots.forget(_INDEX)
        why: dict[str, tuple[RemarkKind, str]] = {}
        for delta in deltas:
            unseen = [path for path in obstacles.get(delta.path, ()) if path not in seen]
            if GITLINK in (delta.old and delta.old[0], delta.new and delta.new[0]):
                why[delta.path] = RemarkKind.NESTED, "a repository of its own: run interlock there"
            elif delta.old is None and delta.new is None:
                why[delta.path] = RemarkKind.REFUSED, "your sparse checkout leaves it out"
            elif unseen:  # what a snapshot shows is late instead, and merged anew
                why[delta.path] = RemarkKind.REFUSED, f"{unseen[0]} of yours stands there, which no snapshot has"
        remarks = [Remark(kind=kind, text=text, paths=(path,)) for path, (kind, text) in why.items()]
        possible = [delta for delta in deltas if why.keys().isdisjoint((delta.path, *above(delta.path)))]
        return sorted(possible, key=lambda delta: (delta.new is not None, delta.path)), tuple(remarks)

    def _in_the_way(self, path: str, going: Collection[str]) -> Iterator[str]:
        """What stands in the place of a file that is to come, without going itself in the same delivery."""
        below = () if (self._top / path).is_symlink() else walk(self._top / path, opening=False)
        there = [(f"{path}/{at}", status) for at, status in below]
        there += [(at, status) for at in (path, *above(path)) if (status := status_of(self._top / at))]
        yield from (at for at, status in there if not stat.S_ISDIR(status.st_mode) and at not in going)

    def _staged(self, stage: Path, deltas: Sequence[Delta], modes: Mapping[str, int]) -> list[_Step]:
        """Write the manifest of what is to happen, then all files that come, each on the file system where it will
        lie."""
        device = stage.stat().st_dev
        steps = []
        for at, delta in enumerate(deltas):
            near = self._near(delta.path)
            place = stage / str(at) if near.stat().st_dev == device else near / f".{stage.name}.{at}.interlock"
            steps.append(_Step(delta.path, place, delta.old, delta.new))
        listed = [[step.path, str(step.stage), step.old, step.new] for step in steps]
        (stage / _MANIFEST).write_text(json.dumps(listed), encoding="ascii")
        contents = dict(self._trees.blobs(delta.new[1] for delta in deltas if delta.new))
        for step in steps:
            if step.new and step.new[1] not in contents:
                raise WorkspaceFailed("the content of work is gone", where=step.path)
            if step.new:
                self._stage_one(step, step.new[0], contents[step.new[1]], modes.get(step.path))
        return steps

    def _stage_one(self, step: _Step, wanted: int, content: bytes, known: int | None) -> None:
        """Write our file, with mode and owner of the one that it replaces; the executable bit is ours."""
        if wanted == LINK:
            step.stage.symlink_to(os.fsdecode(content))
            return
        there = status_of(self._top / step.path)
        there = there if there and stat.S_ISREG(there.st_mode) else None
        with step.stage.open("xb") as file:
            file.write(content)
            mode = known or (there or os.fstat(file.fileno())).st_mode
            if wanted & 0o100:
                mode |= (mode & 0o444) >> 2
            elif self._modes_count:
                mode &= ~0o111
            if os.geteuid() == 0:  # in a tree of somebody else, common in containers, a file is theirs
                owner = there or self._near(step.path).stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))

    def _near(self, path: str) -> Path:
        """The innermost folder above a path that is there."""
        return next(folder for up in (*above(path), ".") if (folder := self._top / up).is_dir())

    def _take(self, step: _Step) -> None:
        """Exchange one file of the tree with its stage; _Late where the tree is not as it was."""
        place = self._reached(step.path)
        if step.old is None:
            _remove_empty(place)
        try:
            _move(step.stage, place, comes=step.new is not None, goes=step.old is not None)
        except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise _Late(step.path) from error
        step.done = True

    def _take_back(self, step: _Step) -> None:
        """Undo this step in the tree; what a person has written since stands."""
        if not step.done:
            return
        comes = step.old is not None
        with suppress(OSError, _Late):
            place = self._reached(step.path)
            _move(step.stage, place, comes=comes, goes=step.new is not None)
            if step.new is not None and not self._fits(step.stage, step.new):
                _move(step.stage, place, comes=True, goes=comes)
        if self._is_unknown(step):  # nobody decided about it, and another version of the person is in its place
            attic = self._trees.workspace.own / "attic"
            attic.mkdir(exist_ok=True)
            step.stage.rename(attic / f"{uuid4().hex[:8]}-{Path(step.path).name[-200:]}")
        if step.old is None:
            self._clear_folders(step.path)

    def _fits(self, place: Path, wanted: Entry) -> bool:
        """Whether this very file lies there."""
        found = entry_of(place)
        if found is None or found[1] != wanted[1] or (found[0] == LINK) != (wanted[0] == LINK):
            return False
        return found[0] == wanted[0] or not self._modes_count

    def _is_unknown(self, step: _Step) -> bool:
        """Whether its stage holds what neither tree has."""
        left = entry_of(step.stage)
        known = [entry[1] for entry in (step.old, step.new) if entry]
        return os.path.lexists(step.stage) and (left is None or left[1] not in known)

    # -- folders and leftovers

    def _reached(self, path: str) -> Path:
        """The place of a path, with the folders above it; no link leads elsewhere."""
        for name in reversed(list(above(path))):
            folder = self._top / name
            with suppress(FileExistsError):
                folder.mkdir()
                if os.geteuid() == 0:
                    owner = folder.parent.stat()
                    os.chown(folder, owner.st_uid, owner.st_gid)
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise _Late(path)
        return self._top / path

    def _clear_folders(self, path: str) -> None:
        """Folders above a path that are empty by now go, as git does it."""
        with suppress(OSError):  # the top has the engine's own folder
            os.removedirs((self._top / path).parent)

    def _clear(self, stage: Path, steps: Sequence[_Step]) -> None:
        for step in steps:
            with suppress(OSError):
                step.stage.unlink(missing_ok=True)
        shutil.rmtree(stage, ignore_errors=True)

    def _tidy(self) -> dict[str, int]:
        """Clear the stages of processes that died; what a person wrote at the last moment goes back into the tree. The
        modes of files that had been taken out."""
        modes = dict[str, int]()
        for stage in sorted((self._trees.git.git_dir / "landing").iterdir()):
            try:
                listed = json.loads((stage / _MANIFEST).read_text(encoding="ascii"))
            except (OSError, ValueError):  # it had not yet begun
                listed = []
            steps = [_Step(path, Path(place), old, new, done=True) for path, place, old, new in listed]
            for step in filter(self._is_unknown, steps):
                self._take_back(step)
            modes |= self._modes(step for step in steps if step.old and self._fits(step.stage, step.old))
            self._clear(stage, steps)
        return modes

    def _modes(self, taken: Iterable[_Step]) -> dict[str, int]:
        """The modes of files that came out of the tree: git knows one bit of them."""
        found = {step.path: step.stage.lstat().st_mode for step in taken}
        return {path: stat.S_IMODE(mode) for path, mode in found.items() if stat.S_ISREG(mode)}


def _remove_empty(folder: Path) -> None:
    """Remove empty folders in whose place a file comes; one that is not empty makes that file late."""
    if folder.is_dir() and not folder.is_symlink():
        for at, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(at).rmdir()


def _move(stage: Path, place: Path, *, comes: bool, goes: bool) -> None:
    """Exchange a file with its stage in one step: one `comes`, one `goes`, or both. What only comes replaces
    nothing."""
    if not comes:
        place.rename(stage)
        return
    code = _renameat2(stage, place, _EXCHANGE if goes else _NOREPLACE)
    if code not in (0, *_UNKNOWN):
        raise OSError(code, os.strerror(code), str(stage))
    if code:
        out = stage.with_name(f"{stage.name}.out")
        if goes:
            place.rename(out)
        os.link(stage, place, follow_symlinks=False)
        stage.unlink()
        if goes:
            out.rename(stage)


def _renameat2(source: Path, target: Path, how: int) -> int:
    """Linux' rename with flags: the number of its error, or 0."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return errno.ENOSYS
    here = ctypes.c_int(-100)  # AT_FDCWD: the paths are absolute
    done = call(here, os.fsencode(source), here, os.fsencode(target), ctypes.c_uint(how))
    return ctypes.get_errno() if done else 0
