"""What in a layer may differ from the tree, counted on the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from interlock.workspace.layers.seam import Bounds

_DEEPEST = 200


class TooMuch(Exception):
    """A layer holds more than its bounds; the sentence says what."""


@dataclass
class Touched:
    """What in a layer may differ from the tree."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    """What is there and is no folder."""
    folders: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    """Files or whole folders that are not there any more."""
    emptied: set[str] = field(default_factory=set)
    """Folders of which nothing is left but what is in `files`."""
    repositories: set[str] = field(default_factory=set)
    """Folders whose ``.git`` may differ; ``""`` for the workspace. What is in there is not listed above."""
    outside: int = 0
    """Files of the repository around the workspace that differ; they are never imported."""
    count: int = 0
    size: int = 0

    def below(self, prefix: str) -> Touched:
        """What lies below a folder (with ``/``), by its paths in there; of the rest, the number of files."""

        def inside(paths: Iterable[str]) -> set[str]:
            return {path.removeprefix(prefix) for path in paths if path.startswith(prefix)}

        folder = prefix.rstrip("/")
        files = {path.removeprefix(prefix): status for path, status in self.files.items() if path.startswith(prefix)}
        repositories = inside(self.repositories) | ({""} if folder in self.repositories else set())
        gone = inside(self.gone)
        outside = len(self.files) - len(files) + len(self.gone) - len(gone)
        emptied = inside(self.emptied)
        return Touched(files, inside(self.folders), gone, emptied, repositories, outside, self.count, self.size)

    def add(self, status: os.stat_result, bounds: Bounds) -> None:
        """Count one file."""
        self.count += 1
        self.size += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if self.count > bounds.files:
            raise TooMuch(f"it holds more than {bounds.files} files")
        if self.size > bounds.size:
            raise TooMuch(f"it holds more than {bounds.size} bytes")


def checked_depth(path: str) -> None:
    if path.count("/") > _DEEPEST:
        raise TooMuch(f"its folders lie more than {_DEEPEST} deep in each other")
