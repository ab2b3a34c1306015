"""A copy of a folder that is brought up to date again and again, and that tells what somebody else changed in it.

For each file the manifest has its stat data in the source and in the copy, as they were when it was copied.  Where both
are still the same, nothing has to be done; the time of the last status change cannot be set by anybody.  So a manifest
that is out of date, or gone, costs a few copies more, and nothing else.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from interlock.workspace.clone import clone, remove_folder
from interlock.workspace.layers.touched import TooMuch, checked_depth

_Stamp = tuple[int, int, int]
Adapt = Callable[[str, Path], bytes | None]
"""What a file of the copy holds instead of the source's bytes, by its path; None for the same."""


def _stamp(status: os.stat_result) -> _Stamp:
    return (status.st_ino, status.st_size, status.st_ctime_ns)


class Mirror:
    """The copy of `source` in `copy`; its manifest lies beside it."""

    def __init__(self, source: Path, copy: Path, manifest: Path, *, left_out: Callable[[str], bool]) -> None:
        self._source = source
        self.copy = copy
        self._manifest = manifest
        self._left_out = left_out
        self._known: dict[str, tuple[_Stamp, _Stamp]] | None = None

    def update(self, adapt: Adapt) -> None:
        """Make the copy equal to the source; what costs is what differs."""
        known = self._read()
        fresh: dict[str, tuple[_Stamp, _Stamp]] = {}
        if self.copy.is_symlink() or not self.copy.is_dir():
            remove_folder(self.copy)
            self.copy.mkdir(parents=True)
        for folder, statuses in self._walked(self._source, is_copy=False):
            self._update_folder(folder, statuses, fresh, adapt)
        self._known = fresh
        if fresh != known:
            self._write(fresh)

    def _update_folder(
        self,
        folder: str,
        statuses: dict[str, os.stat_result],
        fresh: dict[str, tuple[_Stamp, _Stamp]],
        adapt: Adapt,
    ) -> None:
        here, there = str(self._source / folder), str(self.copy / folder)
        prefix = f"{folder}/" if folder else ""
        known = self._read()
        old = _statuses(there, is_copy=True)
        for name, status in statuses.items():
            path = prefix + name
            found = old.pop(name, None)
            place = f"{there}/{name}"
            if stat.S_ISDIR(status.st_mode):
                mode = stat.S_IMODE(status.st_mode) | stat.S_IRWXU
                if found is None or not stat.S_ISDIR(found.st_mode):
                    remove_folder(Path(place))
                    Path(place).mkdir()
                    Path(place).chmod(mode)
                elif stat.S_IMODE(found.st_mode) != mode:
                    Path(place).chmod(mode)
                continue
            stamps = known.get(path)
            if stamps is None or found is None or stamps != (_stamp(status), _stamp(found)):
                stamps = self._copied(f"{here}/{name}", place, path, adapt)
            if stamps is not None:
                fresh[path] = stamps
        for name in old:
            remove_folder(Path(there, name))

    def _copied(self, source: str, target: str, path: str, adapt: Adapt) -> tuple[_Stamp, _Stamp] | None:
        """Copy one file; its stamps, or None when it is not there any more."""
        remove_folder(Path(target))
        try:
            # Before it is read: what somebody writes meanwhile is then copied the next time.
            before = _stamp(Path(source).lstat())
            instead = adapt(path, Path(source))
            if instead is None:
                clone(Path(source), Path(target))
            else:
                Path(target).write_bytes(instead)
            return before, _stamp(Path(target).lstat())
        except FileNotFoundError:
            return None

    def git_files(self) -> list[str]:
        """The ``.git`` of every repository in the copy, the outermost ones among them."""
        found = {path.partition("/.git/")[0] + "/.git" for path in self._read() if "/.git/" in path}
        return sorted(found | {path for path in self._read() if path.endswith("/.git")})

    def touched(self) -> tuple[dict[str, os.stat_result], set[str], set[str]]:
        """Files that are not as they were copied, folders, and what is not there any more (the topmost of it)."""
        known = dict(self._read())
        files: dict[str, os.stat_result] = {}
        folders: set[str] = set()
        for folder, statuses in self._walked(self.copy, is_copy=True):
            if folder:
                folders.add(folder)
            prefix = f"{folder}/" if folder else ""
            for name, status in statuses.items():
                if not stat.S_ISDIR(status.st_mode):
                    before = known.pop(prefix + name, None)
                    if before is None or before[1] != _stamp(status):
                        files[prefix + name] = status
        gone = {_topmost(path, folders) for path in known}
        return files, folders, gone - files.keys()

    def _walked(self, root: Path, *, is_copy: bool) -> Iterator[tuple[str, dict[str, os.stat_result]]]:
        """Every folder with what is in it, outer ones first; what is left out is not there."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            checked_depth(folder)
            prefix = f"{folder}/" if folder else ""
            statuses = {
                name: status
                for name, status in _statuses(f"{root}/{folder}", is_copy=is_copy).items()
                if not self._left_out(prefix + name)
            }
            waiting += [prefix + name for name, status in statuses.items() if stat.S_ISDIR(status.st_mode)]
            yield folder, statuses

    def _read(self) -> dict[str, tuple[_Stamp, _Stamp]]:
        if self._known is None:
            try:
                listed = json.loads(self._manifest.read_bytes())
                self._known = {path: ((a, b, c), (d, e, f)) for path, a, b, c, d, e, f in listed}
            except (OSError, ValueError, TypeError):
                self._known = {}
        return self._known

    def _write(self, known: dict[str, tuple[_Stamp, _Stamp]]) -> None:
        fresh = self._manifest.with_name(f"{self._manifest.name}.{uuid4().hex}")
        lines = [(path, *one, *two) for path, (one, two) in known.items()]
        fresh.write_text(json.dumps(lines, separators=(",", ":")), encoding="ascii")
        fresh.replace(self._manifest)


def _statuses(folder: str, *, is_copy: bool) -> dict[str, os.stat_result]:
    """What is in a folder. One in the copy that a program closed is opened again."""
    try:
        entries = list(os.scandir(folder))
    except PermissionError:
        if not is_copy:
            return {}
        Path(folder).chmod(0o700)
        return _statuses(folder, is_copy=False)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise TooMuch(f"a folder cannot be looked at: {error.strerror}") from error
    found: dict[str, os.stat_result] = {}
    for entry in entries:
        with suppress(FileNotFoundError):
            found[entry.name] = entry.stat(follow_symlinks=False)
    return found


def _topmost(path: str, folders: set[str]) -> str:
    """The topmost of the folders above a path that is not there either."""
    parts = path.split("/")
    for number in range(1, len(parts)):
        if "/".join(parts[:number]) not in folders:
            return "/".join(parts[:number])
    return path
