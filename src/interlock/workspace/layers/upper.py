"""The upper folder of an overlay: reading what a program wrote, and writing to it while nothing is mounted.

Overlayfs keeps a deleted name as a character device 0:0, a folder that hides what was below it by the attribute
``user.overlay.opaque``; a folder without it shows what the tree has there, with the upper folder's own mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from interlock.workspace.clone import remove_folder
from interlock.workspace.layers.seam import Bounds
from interlock.workspace.layers.touched import TooMuch, Touched, checked_depth

_OPAQUE = "user.overlay.opaque"


def is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


class Upper:
    """One upper folder over a folder of the tree."""

    def __init__(self, upper: Path, lower: Path, *, apart: str = "") -> None:
        self.upper = upper
        self.lower = lower
        self._apart = apart
        """A name at the top that is not looked at: a mount of its own is there."""

    def touched(self, bounds: Bounds) -> Touched:
        found = Touched()
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            checked_depth(folder)
            for name, status in self._entries(folder):
                path = f"{folder}/{name}" if folder else name
                if path == self._apart:
                    continue
                if name == ".git":
                    found.repositories.add(folder)
                    self._count(path, status, found, bounds)
                elif stat.S_ISDIR(status.st_mode):
                    found.folders.add(path)
                    waiting.append(path)
                    if is_opaque(self.upper / path):
                        found.emptied.add(path)
                elif is_whiteout(status):
                    found.gone.add(path)
                else:
                    found.add(status, bounds)
                    found.files[path] = status
        return found

    def count(self, found: Touched, bounds: Bounds) -> None:
        """Count what is below, without listing it."""
        self._count("", self.upper.lstat(), found, bounds)

    def _count(self, path: str, status: os.stat_result, found: Touched, bounds: Bounds) -> None:
        waiting = [(path, status)]
        while waiting:
            path, status = waiting.pop()
            if stat.S_ISDIR(status.st_mode):
                checked_depth(path)
                below = f"{path}/" if path else ""
                waiting += [(below + name, inner) for name, inner in self._entries(path)]
            elif not is_whiteout(status):
                found.add(status, bounds)

    def _entries(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        place = self.upper / folder
        try:
            entries = list(os.scandir(place))
        except PermissionError:
            # A program took its own rights away; the mode of a folder is of no use to anybody else.
            place.chmod(0o700)
            entries = list(os.scandir(place))
        except OSError as error:
            raise TooMuch(f"a folder cannot be looked at: {error.strerror}") from error
        for entry in entries:
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except OSError as error:
                raise TooMuch(f"a file cannot be looked at: {error.strerror}") from error

    def place(self, path: str) -> Path | None:
        """Where the bytes of a path lie, a link on the way not followed; None when nothing is there."""
        parts = path.split("/")
        # As text: this is called for each part of each path that a contract names.
        here, below, hidden = str(self.upper), str(self.lower), False
        for number, part in enumerate(parts):
            here = f"{here}/{part}"
            try:
                status = os.lstat(here)
            except FileNotFoundError:
                return None if hidden else self._below(Path(below), parts[number:])
            except OSError:
                return None
            if is_whiteout(status):
                return None
            if number == len(parts) - 1:
                return Path(here)
            if not stat.S_ISDIR(status.st_mode):
                return None
            below = f"{below}/{part}"
            hidden = hidden or is_opaque(here) or not _is_folder(below)
        return None

    def _below(self, folder: Path, parts: list[str]) -> Path | None:
        here = str(folder)
        for number, part in enumerate(parts, start=1):
            here = f"{here}/{part}"
            try:
                status = os.lstat(here)
            except OSError:
                return None
            if number < len(parts) and not stat.S_ISDIR(status.st_mode):
                return None
        return Path(here)

    def put(self, path: str, staged: Path) -> None:
        place = self._cleared(path)
        staged.rename(place)

    def remove(self, path: str) -> None:
        if self.place(path) is None:
            return
        place = self._cleared(path)
        if self._shines_through(path):
            os.mknod(place, stat.S_IFCHR, 0)

    def reset(self, path: str) -> None:
        """Show what the tree has; None of the upper folder's own is left there."""
        parts = path.split("/")
        for number in range(1, len(parts)):
            above = self.upper.joinpath(*parts[:number])
            try:
                status = above.lstat()
            except FileNotFoundError:
                return
            if is_whiteout(status) or not stat.S_ISDIR(status.st_mode):
                if not _is_folder(self.lower.joinpath(*parts[:number])):
                    return
                # A folder of the tree that is gone, or something else, here: it comes back, and all else stays gone.
                _remove(above)
                self._made_folder(parts[:number], opaque=True)
        _remove(self.upper / path)
        lower = self._below(self.lower, parts)
        if lower is not None and not self._shines_through(path):
            from interlock.workspace.clone import clone

            clone(lower, self.upper / path)
        self._remove_empty_folders(parts[:-1])

    def _shines_through(self, path: str) -> bool:
        """Whether the tree has something there that the upper folder does not hide above it."""
        parts = path.split("/")
        if self._below(self.lower, parts) is None:
            return False
        return not any(is_opaque(self.upper.joinpath(*parts[:number])) for number in range(1, len(parts)))

    def _cleared(self, path: str) -> Path:
        """The place for a path in the upper folder, with folders above it and nothing at it."""
        parts = path.split("/")
        for number in range(1, len(parts)):
            above = self.upper.joinpath(*parts[:number])
            try:
                status = above.lstat()
            except FileNotFoundError:
                self._made_folder(parts[:number], opaque=False)
                continue
            if not stat.S_ISDIR(status.st_mode):
                _remove(above)
                self._made_folder(parts[:number], opaque=True)
        place = self.upper / path
        _remove(place)
        return place

    def _made_folder(self, parts: list[str], *, opaque: bool) -> None:
        place = self.upper.joinpath(*parts)
        place.mkdir()
        lower = self._below(self.lower, parts)
        if lower is not None and stat.S_ISDIR((status := lower.lstat()).st_mode):
            place.chmod(stat.S_IMODE(status.st_mode))
            if os.geteuid() == 0:
                os.chown(place, status.st_uid, status.st_gid)
        if opaque:
            os.setxattr(place, _OPAQUE, b"y")

    def _remove_empty_folders(self, parts: list[str]) -> None:
        """Folders that only led to what is gone."""
        while parts:
            place = self.upper.joinpath(*parts)
            if is_opaque(place) and self._below(self.lower, parts) is not None:
                return  # It hides what the tree has there.
            try:
                place.rmdir()
            except OSError:
                return
            parts = parts[:-1]


def is_opaque(folder: Path | str) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _is_folder(place: Path | str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False


def _remove(place: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(place.lstat().st_mode):
            remove_folder(place)
        else:
            place.unlink()
