"""Where the workspace is. Needs no models: commands that only look around must start fast."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interlock.errors import ConfigInvalid

FILE_NAME: Final = "interlock.toml"


def find_workspace(start: Path, explicit: Path | None = None) -> Path:
    """The folder a run works in: `explicit`, else the nearest parent with interlock.toml, else the git top level."""
    if explicit is not None:
        if not explicit.is_dir():
            raise ConfigInvalid(
                f"workspace {str(explicit)!r} is not a folder",
                where="option --workspace",
                expected="an existing folder",
                remedy="Create the folder, or name another one.",
            )
        return explicit.resolve()
    here = start.resolve()
    upward = (here, *here.parents)
    marked = next((folder for folder in upward if (folder / FILE_NAME).is_file()), None)
    return marked or next((folder for folder in upward if is_repository(folder)), here)


def is_repository(folder: Path) -> bool:
    """Whether this is the top of a git repository; an empty ``.git``, as sandboxes leave behind, makes none."""
    mark = folder / ".git"  # a file in worktrees and submodules
    return mark.is_file() or (mark / "HEAD").is_file()
