"""Work that was accepted, put into the person's tree: file by file, each still being what was decided about.

Theory of operation.  A file is staged beside our trees and exchanged with the one in the tree in a single step of the
kernel; what came out must be what `before` says, else it is exchanged back.  So a person who writes at that moment loses
nothing, and finds nothing half written.  A late difference takes back what was done; whoever asked merges anew.  What is
staged is listed in a manifest first: a process that died is followed by `finish`, which looks at what lies in its stage
before anything else, for it may be what a person wrote a moment before.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from uuid import uuid4

from interlock.errors import WorkspaceFailed
from interlock.workspace.place import above, inside
from interlock.workspace.snapshot import GITLINK
from interlock.workspace.trees import LINK, Delta, Entry, Trees
from interlock.workspace.values import Landing, Remark, RemarkKind, Tree

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOREPLACE, _EXCHANGE = 1, 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV)
_SWAPS = 8
_MANIFEST = "manifest.json"
RUN = "delivery"
"""The index by which a delivery that goes on after a crash looks at the workspace."""


class _Late(Exception):
    """A file is not what was decided about."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass
class _Step:
    """One file on its way; the stage holds what comes before it is done, and what came out afterwards."""

    path: str
    stage: Path
    old: Entry | None
    new: Entry | None
    came: os.stat_result | None = None
    """What came out of the tree, as it was when it was found to be `old`."""
    placed: os.stat_result | None = None
    """The file of ours that is in the tree."""


@dataclass
class _Sorted:
    deltas: list[Delta] = field(default_factory=list)
    refused: list[Remark] = field(default_factory=list)


class Delivery:
    """Deliveries into one workspace."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._top = trees.workspace.top

    def deliver(self, before: Tree, after: Tree, *, modes: Mapping[str, int] | None = None) -> Landing:
        """Make the tree have what `after` has and `before` has not, or nothing of it.

        Args:
            modes: of files that come again, as `Landing.modes` had them.
        """
        with self._trees.writing():
            self._tidy()
            return self._deliver(before, after, modes or {})

    def finish(self, before: Tree, after: Tree) -> Landing:
        """Bring a delivery to its end that a dead process began: forward, or back where a person's edits conflict."""
        with self._trees.writing():
            self._tidy()
            for _ in range(3):
                now = self._trees.snapshots.take(RUN)[0]
                merged = self._trees.merge(before, now, after)
                target = merged.tree or self.undoing(before, after, now)[0]
                landing = self._deliver(now, target, {})
                if landing.state == "done":
                    break
            else:
                return landing
        if merged.tree is None:
            return Landing(state="conflict", conflicts=merged.conflicts)
        paths = tuple(delta.path for delta in self._trees.deltas(before, after))
        return landing.model_copy(update={"paths": paths})

    def undoing(self, before: Tree, after: Tree, now: Tree) -> tuple[Tree, tuple[str, ...]]:
        """`now` without what a delivery changed, hunk by hunk: one that a person has changed since stays; and the paths
        on which something stays."""
        merged = self._trees.merge(after, now, before)
        if merged.tree is not None:
            return merged.tree, ()
        entries = [self._trees.entries(tree, merged.conflicts) for tree in (after, now, before)]
        tree, kept = self._trees.merge_for(after, before, now)
        changes: dict[str, Entry | None] = {}
        for path in kept:
            three = [found.get(path) for found in entries]
            if any(entry is None or entry[0] in (LINK, GITLINK) for entry in three):
                continue
            base, ours, theirs = (entry for entry in three if entry is not None)
            texts = dict(self._trees.blobs((base[1], ours[1], theirs[1])))
            text = self._trees.merge_text(texts[base[1]], texts[ours[1]], texts[theirs[1]], ours_stands=True)
            if text is not None:
                changes[path] = (ours[0], self._trees.write_blob(text))
        return self._trees.tree_of(tree, changes), kept

    # -- one delivery

    def _deliver(self, before: Tree, after: Tree, modes: Mapping[str, int]) -> Landing:
        sorted_ = self._sorted(self._trees.deltas(before, after))
        stage = self._trees.folder / "landing" / uuid4().hex
        try:
            stage.mkdir()
            steps = self._staged(stage, sorted_.deltas, modes)
            done: list[_Step] = []
            try:
                for step in steps:
                    done.append(step)  # before it is: what broke off in the middle is taken back, too
                    self._take(step)
                late = next((step.path for step in steps if not _is_still(step)), None)
                if late is not None:
                    raise _Late(late)
            except (_Late, OSError) as error:
                for step in reversed(done):
                    self._take_back(step)
                if isinstance(error, _Late):
                    return Landing(state="late", conflicts=(error.path,))
                raise
            replaced = {step.path: step.came.st_mode for step in steps if step.came is not None}
            return Landing(
                state="done",
                paths=tuple(step.path for step in steps),
                modes={path: stat.S_IMODE(mode) for path, mode in replaced.items() if stat.S_ISREG(mode)},
                refused=tuple(sorted_.refused),
            )
        except OSError as error:
            raise WorkspaceFailed.of(error, "a file cannot be delivered; nothing was") from error
        finally:
            self._tidy_one(stage)

    def _sorted(self, deltas: list[Delta]) -> _Sorted:
        """What can be delivered, in order: first what goes, then what comes."""
        found = _Sorted()
        going = {delta.path for delta in deltas if delta.new is None}
        blocked: set[str] = set()
        for delta in deltas:
            if delta.new is None or delta.old is not None or delta.new[0] == GITLINK:
                continue
            place = self._top / delta.path
            left = [] if place.is_symlink() or not place.is_dir() else _files_in(self._top, delta.path)
            if kept := [path for path in left if path not in going]:
                blocked.add(delta.path)
                text = f"a folder with files that are nobody's to remove stands there ({kept[0]} and others)"
                found.refused.append(Remark(kind=RemarkKind.REFUSED, text=text, paths=(delta.path,)))
        for delta in sorted(deltas, key=lambda delta: (delta.new is not None, delta.path)):
            inside(delta.path)
            modes = {entry[0] for entry in (delta.old, delta.new) if entry is not None}
            if GITLINK in modes:
                text = "a repository of its own: run interlock there"
                found.refused.append(Remark(kind=RemarkKind.NESTED, text=text, paths=(delta.path,)))
            elif delta.path not in blocked and blocked.isdisjoint(above(delta.path)):
                found.deltas.append(delta)
        return found

    def _staged(self, stage: Path, deltas: list[Delta], modes: Mapping[str, int]) -> list[_Step]:
        """All files that come, beside the tree, and the manifest of what is to happen."""
        steps = [_Step(delta.path, stage / str(at), delta.old, delta.new) for at, delta in enumerate(deltas)]
        listed = [[step.path, step.stage.name, step.old, step.new] for step in steps]
        (stage / _MANIFEST).write_text(json.dumps(listed), encoding="ascii")
        coming: dict[str, list[_Step]] = {}
        for step in steps:
            if step.new is not None:
                coming.setdefault(step.new[1], []).append(step)
        for blob, content in self._trees.blobs(coming):
            for step in coming.pop(blob):
                assert step.new is not None
                if step.new[0] == LINK:
                    step.stage.symlink_to(os.fsdecode(content))
                else:
                    step.stage.write_bytes(content)
                    self._set_mode(step, modes.get(step.path))
        if coming:
            raise WorkspaceFailed("the content of work is gone", where=next(iter(coming.values()))[0].path)
        return steps

    def _set_mode(self, step: _Step, known: int | None) -> None:
        """The mode and the owner of what is replaced, but for the bit that git knows."""
        assert step.new is not None
        place = self._top / step.path
        there = None if place.is_symlink() or not place.is_file() else place.stat()
        mode = known if known is not None else there.st_mode if there else 0o666 & ~_umask()
        if step.new[0] & 0o100:
            mode |= (mode & 0o444) >> 2
        else:
            mode &= ~0o111
        if os.geteuid() == 0:  # in a tree of somebody else (common in containers) a file is theirs
            owner = there or next((self._top / up for up in above(step.path) if (self._top / up).is_dir()), self._top)
            status = owner.stat() if isinstance(owner, Path) else owner
            os.chown(step.stage, status.st_uid, status.st_gid)
        step.stage.chmod(stat.S_IMODE(mode))

    def _take(self, step: _Step) -> None:
        """One file into the tree, or out of it."""
        with self._folder_of(step.path, make=step.new is not None) as (folder, name):
            if folder is None:
                if step.old is not None:
                    raise _Late(step.path)
                return
            if step.new is not None:
                ours = step.stage.lstat()
                try:
                    _move(step.stage, folder, name, _EXCHANGE if step.old is not None else _NOREPLACE)
                except (FileNotFoundError, FileExistsError, IsADirectoryError) as error:
                    raise _Late(step.path) from error
                step.placed = ours
            else:
                try:
                    _move_out(folder, name, step.stage)
                except FileNotFoundError as error:
                    raise _Late(step.path) from error
            if step.old is not None:
                step.came = _known(step.stage, step.old)
                if step.came is None:
                    raise _Late(step.path)
        if step.new is None:
            self._clear_folders(step.path)

    def _take_back(self, step: _Step) -> None:
        """The tree as it was before this step, and as a person has made it since."""
        if not os.path.lexists(step.stage) and step.placed is None:
            return
        with self._folder_of(step.path, make=True) as (folder, name):
            if folder is None:
                return
            for _ in range(_SWAPS):
                if step.placed is None:
                    if step.new is None:  # it was taken out: back, unless somebody has made another since
                        with suppress(FileExistsError):
                            _move(step.stage, folder, name, _NOREPLACE)
                    return
                if step.old is None:
                    with suppress(FileNotFoundError):
                        _move_out(folder, name, step.stage)
                        if not _is_same(step.stage, step.placed):  # a person's: it stays
                            with suppress(FileExistsError):
                                _move(step.stage, folder, name, _NOREPLACE)
                    break
                try:
                    _move(step.stage, folder, name, _EXCHANGE)
                except FileNotFoundError:  # a person has removed it since
                    break
                if _is_same(step.stage, step.placed):
                    break
                # What came out is what a person has written since; it goes back, and is what is looked at next.
                step.placed = step.stage.lstat()
                _move(step.stage, folder, name, _EXCHANGE)
                break
        if step.new is not None and step.old is None:
            self._clear_folders(step.path)

    # -- folders and leftovers

    @contextmanager
    def _folder_of(self, path: str, *, make: bool) -> Iterator[tuple[int | None, str]]:
        """The open folder of a path; entered step by step, so that no link leads elsewhere."""
        *parts, name = path.split("/")
        handle = os.open(self._top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=handle)
                except FileNotFoundError:
                    if not make:
                        yield None, name
                        return
                    self._make_folder(handle, part)
                    inner = os.open(part, _FOLDER, dir_fd=handle)
                except NotADirectoryError as error:
                    raise _Late(path) from error
                os.close(handle)
                handle = inner
            yield handle, name
        finally:
            os.close(handle)

    def _make_folder(self, above_it: int, name: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above_it)
            if os.geteuid() == 0:
                status = os.fstat(above_it)
                os.chown(name, status.st_uid, status.st_gid, dir_fd=above_it)

    def _clear_folders(self, path: str) -> None:
        """Folders above it that are empty by now go, as git does it."""
        for folder in above(path):
            try:
                (self._top / folder).rmdir()
            except OSError:
                return

    def _tidy(self) -> None:
        """What dead processes left on their stages."""
        landing = self._trees.git.git_dir / "landing"
        for stage in sorted(landing.iterdir()):
            try:
                listed = json.loads((stage / _MANIFEST).read_text(encoding="ascii"))
            except (OSError, ValueError):  # it had not yet begun
                listed = []
            for path, name, old, new in listed:
                place = stage / name
                left = _entry_of(place)
                if left is None or left[1] in {entry[1] for entry in (old, new) if entry is not None}:
                    continue
                # A person's version came out, and nobody looked at it: back with it, where ours is in its place.
                there = _entry_of(self._top / path)
                if (there is None and new is None) or (new is not None and there is not None and there[1] == new[1]):
                    place.replace(self._top / path)
            self._tidy_one(stage)

    def _tidy_one(self, stage: Path) -> None:
        shutil.rmtree(stage, ignore_errors=True)
