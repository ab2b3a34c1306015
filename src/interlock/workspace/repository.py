"""Where the user's own repository is, found by reading files: no git runs to find out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class UserRepository:
    """A repository of the user: its work tree, its git dir, and the dir that its worktrees share."""

    top: Path
    git_dir: Path
    common_dir: Path

    @property
    def exclude_file(self) -> Path:
        return self.common_dir / "info" / "exclude"

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"


def repository_at(top: Path) -> UserRepository | None:
    """The repository whose work tree is `top`, or None; ``.git`` may be a folder, a link or a file that points."""
    dot_git = top / ".git"
    try:
        if dot_git.is_dir():
            git_dir = dot_git
        elif not dot_git.is_file():
            return None
        else:
            word, _, target = dot_git.read_text("utf-8", "surrogateescape").partition(":")
            if word != "gitdir":
                return None
            git_dir = top / target.strip()
        if not (git_dir / "HEAD").is_file():
            return None
        common = git_dir / "commondir"
        shared = common.read_text("utf-8", "surrogateescape").strip() if common.is_file() else "."
        return UserRepository(top, git_dir.resolve(), (git_dir / shared).resolve())
    except (OSError, ValueError):
        return None


def repository_around(folder: Path) -> UserRepository | None:
    """The repository that `folder` belongs to: its own, or the nearest one above it."""
    for top in (folder, *folder.parents):
        if repository := repository_at(top):
            return repository
    return None
