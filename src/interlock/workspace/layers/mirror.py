"""A copy of a folder that is brought up to date again and again, and that tells what somebody else changed in it.

For each file the manifest has its stat data in the source and in the copy, as they were when it was copied.  Where both
are still the same, nothing has to be done; the time of the last status change cannot be set by anybody.
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

Stamp = tuple[int, ...]
Adapt = Callable[[str, Path], bytes | None]
"""What a file of the copy holds instead of the source's bytes, by its path; None for the same."""


def stamp(status: os.stat_result) -> Stamp:
    return (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


class Mirror:
    """The copy of `source` in `copy`; its manifest lies beside it."""

    def __init__(self, source: Path, copy: Path, manifest: Path, *, left_out: Callable[[str], bool]) -> None:
        self._source = source
        self.copy = copy
        self._manifest = manifest
        self._left_out = left_out
        self._known: dict[str, tuple[Stamp, Stamp]] | None = None

    def update(self, adapt: Adapt) -> None:
        """Make the copy equal to the source; what costs is what differs."""
        known = self._read()
        fresh: dict[str, tuple[Stamp, Stamp]] = {}
        # Not believed again before it is whole: a crash in here costs a look at every file, no more.
        self._manifest.unlink(missing_ok=True)
        if self.copy.is_symlink() or not self.copy.is_dir():
            remove_folder(self.copy)
            self.copy.mkdir(parents=True)
            known = {}
        for folder in self._folders(self._source):
            self._update_folder(folder, known, fresh, adapt)
        self._known = fresh
        self._write(fresh)

    def _update_folder(
        self,
        folder: str,
        known: dict[str, tuple[Stamp, Stamp]],
        fresh: dict[str, tuple[Stamp, Stamp]],
        adapt: Adapt,
    ) -> None:
        here, there = self._source / folder, self.copy / folder
        prefix = f"{folder}/" if folder else ""
        old = _statuses(there)
        for name, status in _statuses(here).items():
            path = prefix + name
            found = old.pop(name, None)
            if self._left_out(path):
                if found is not None:
                    remove_folder(there / name)
                continue
            if stat.S_ISDIR(status.st_mode):
                if found is None or not stat.S_ISDIR(found.st_mode):
                    remove_folder(there / name)
                    (there / name).mkdir()
                    found = None
                if found is None or stat.S_IMODE(found.st_mode) != stat.S_IMODE(status.st_mode) | stat.S_IRWXU:
                    (there / name).chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
                continue
            before = known.get(path)
            if before is None or found is None or before != (stamp(status), stamp(found)):
                self._copy(here / name, there / name, path, adapt)
            with suppress(FileNotFoundError):
                fresh[path] = (stamp(status), stamp((there / name).lstat()))
        for name in old:
            remove_folder(there / name)

    def _copy(self, source: Path, target: Path, path: str, adapt: Adapt) -> None:
        remove_folder(target)
        instead = adapt(path, source)
        if instead is None:
            with suppress(FileNotFoundError):
                clone(source, target)
        else:
            target.write_bytes(instead)

    def git_files(self) -> list[str]:
        """The ``.git`` of every repository in the copy, the outermost ones among them."""
        found = {path.partition("/.git/")[0] + "/.git" for path in self._read() if "/.git/" in path}
        return sorted(found | {path for path in self._read() if path.endswith("/.git")})

    def touched(self) -> tuple[dict[str, os.stat_result], set[str], set[str]]:
        """Files that are not as they were copied, folders, and what is not there any more (the topmost of it)."""
        known = dict(self._read())
        files: dict[str, os.stat_result] = {}
        folders: set[str] = set()
        for folder in self._folders(self.copy):
            checked_depth(folder)
            if folder:
                folders.add(folder)
            prefix = f"{folder}/" if folder else ""
            for name, status in _statuses(self.copy / folder).items():
                path = prefix + name
                if stat.S_ISDIR(status.st_mode) or self._left_out(path):
                    continue
                before = known.pop(path, None)
                if before is None or before[1] != stamp(status):
                    files[path] = status
        gone = {_topmost(path, folders) for path in known}
        return files, folders, gone - files.keys()

    def _folders(self, root: Path) -> Iterator[str]:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            yield folder
            prefix = f"{folder}/" if folder else ""
            for name, status in _statuses(root / folder).items():
                if stat.S_ISDIR(status.st_mode) and not self._left_out(prefix + name):
                    waiting.append(prefix + name)

    def _read(self) -> dict[str, tuple[Stamp, Stamp]]:
        if self._known is None:
            try:
                listed = json.loads(self._manifest.read_text("utf-8", "surrogateescape"))
                self._known = {path: (tuple(one), tuple(two)) for path, one, two in listed}
            except (OSError, ValueError, TypeError):
                self._known = {}
        return self._known

    def _write(self, known: dict[str, tuple[Stamp, Stamp]]) -> None:
        fresh = self._manifest.with_name(f"{self._manifest.name}.{uuid4().hex}")
        fresh.write_text(json.dumps([[path, *stamps] for path, stamps in known.items()]), encoding="ascii")
        fresh.replace(self._manifest)


def _statuses(folder: Path) -> dict[str, os.stat_result]:
    try:
        entries = list(os.scandir(folder))
    except PermissionError:
        with suppress(OSError):
            folder.chmod(0o700)
            return {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(folder)}
        return {}
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
