"""Where a workspace is, and what of a path counts in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interlock.documents.files import replace
from interlock.errors import WorkspaceFailed
from interlock.workspace.repository import Repository, repository_at

HOME = ".interlock"
SHARED = ("agents", "prompts", "playbooks")
"""What a team commits of the engine's own folder."""

_IGNORE = f"# interlock's own; a team shares {', '.join(SHARED)}.\n/*\n" + "".join(f"!/{name}/\n" for name in SHARED)


@dataclass(frozen=True)
class Workspace:
    """A folder that is worked in as a whole."""

    top: Path
    """git's top level, else the nearest folder upward with `interlock.toml`, else the folder itself."""
    place: str = "."
    """Where the person stood, from the top."""

    @property
    def own(self) -> Path:
        """The engine's folder; whoever writes there calls `prepared` first."""
        return self.top / HOME

    def prepared(self) -> Path:
        """The engine's folder, there and hidden from git."""
        try:
            self.own.mkdir(exist_ok=True)
            ignore = self.own / ".gitignore"
            if not ignore.exists():  # whole, or not at all: a full disk left one that hid nothing
                replace(ignore, _IGNORE.encode(), mode=0o644, sync=False)
        except OSError as error:
            raise WorkspaceFailed.of(error, "interlock's folder cannot be made", where=str(self.own)) from error
        return self.own

    @classmethod
    def find(cls, folder: Path) -> Workspace:
        """The workspace around a folder; a repository that ignores the folder is not its workspace."""
        folder = Path(os.path.realpath(folder))
        tops = (folder, *folder.parents)
        top = next((top for top in tops if repository_at(top)), None)
        if top and top != folder and Repository(top).ignores(folder):
            top = None
        if top is None:
            top = next((top for top in tops if (top / "interlock.toml").is_file()), folder)
        return cls(top, folder.relative_to(top).as_posix())


def counts(path: str) -> bool:
    """Whether a path can be in a snapshot: the engine's own folder is not, but for what a team shares."""
    first, _, rest = path.partition("/")
    return first != HOME or rest.partition("/")[0] in SHARED


def status_of(place: Path | None) -> os.stat_result | None:
    """What lies at a place, a link not followed; None where nothing does."""
    try:
        return place.lstat() if place else None
    except OSError:
        return None


def stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    """Stat data that differ once a file was changed, by whomever."""
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
