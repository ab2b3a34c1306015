"""The attic: what has to leave the tree is moved there, so that nothing anybody wrote is lost."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from interlock.workspace.files import folder_of
from interlock.workspace.paths import file_parts, normal


class Attic:
    def __init__(self, home: Path) -> None:
        self._folder = home / "attic"

    def take(self, root: Path, path: str, into: str) -> Path | None:
        """Move `path` of `root` below ``attic/<into>/``; where it is now, or None when it was not there."""
        parts = file_parts(path)
        with folder_of(root, parts) as folder:
            if folder is None:
                return None
            try:
                os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
            place = self._free_place(Path(normal(into), *parts))
            try:
                os.rename(parts[-1], place, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy_and_remove(root.joinpath(*parts), place)
            return place

    def _free_place(self, name: Path) -> Path:
        if self._folder.is_symlink():
            self._folder.unlink()
        place = self._folder / name
        number = 0
        while os.path.lexists(place) or not _is_folder(place.parent):
            number += 1
            # A file of an earlier visit may stand where this one needs a folder.
            place = self._folder / f"{name.parts[0]}.{number}" / Path(*name.parts[1:])
        return place


def _is_folder(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _copy_and_remove(source: Path, place: Path) -> None:
    if stat.S_ISDIR(source.lstat().st_mode):
        shutil.copytree(source, place, symlinks=True)
        shutil.rmtree(source)
    else:
        shutil.copy2(source, place, follow_symlinks=False)
        source.unlink()
