"""A layer without the kernel's help: a private copy of the workspace, in which the program works at another path.

Copies are kept and used again: a layer takes one that is free, or makes another.  A copy belongs to its layer until
that is dropped, also when the process that made it is gone.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.workspace.clone import clone, remove_folder
from interlock.workspace.layers.folder import COPIES, LayerFolder
from interlock.workspace.layers.git_dirs import GitDir, GitState, PlainGitDir, state_of
from interlock.workspace.layers.launcher.order import Record
from interlock.workspace.layers.mirror import Mirror
from interlock.workspace.layers.seam import Bounds, Confinement
from interlock.workspace.layers.taking import clear, take
from interlock.workspace.layers.touched import Touched
from interlock.workspace.layers.view import TEAM
from interlock.workspace.paths import above
from interlock.workspace.repository import UserRepository, repository_at

_WORKTREE = re.compile(rb"^(\s*worktree\s*=).*$", re.MULTILINE)


class Copy:
    """The writes of a layer that is a copy."""

    def __init__(
        self, root: Path, engine: Path, folder: LayerFolder, place: Path, repository: UserRepository | None
    ) -> None:
        self._users_root = root
        self._folder = folder
        self._place = place
        self._repository = repository
        self._top = repository.top if repository is not None else root
        self._tree = place / "tree"
        self._prefix = "" if self._top == root else f"{root.relative_to(self._top).as_posix()}/"
        self.root = self._tree / self._prefix
        self._engine = engine.relative_to(self._top).as_posix() if engine.is_relative_to(self._top) else ""
        self._mirror = Mirror(self._top, self._tree, place / "tree.json", left_out=self._is_engines)
        self._before: Mapping[str, GitState] = {}

    def _is_engines(self, path: str) -> bool:
        if not self._engine or not (path == self._engine or path.startswith(f"{self._engine}/")):
            return False
        inner = path[len(self._engine) + 1 :]
        return bool(inner) and inner.split("/")[0] not in (*TEAM, ".gitignore")

    def bring_up_to_date(self) -> dict[str, Any]:
        """Make the copy what the tree is now; what has to be remembered about it."""
        git_dir = self._private_git()
        self._mirror.update(lambda path, source: self._adapted(path, source, git_dir))
        states = {folder: _state(repository).to_json() for folder, repository in self._repositories()}
        return {"git": states}

    def recall(self, facts: Mapping[str, Any]) -> None:
        self._before = {folder: GitState(**state) for folder, state in facts.get("git", {}).items()}

    def _repositories(self) -> Iterator[tuple[str, UserRepository]]:
        """The user's repository, and those nested in the workspace, by folder."""
        if self._repository is not None:
            yield "", self._repository
        for path in self._mirror.git_files():
            folder = path.removeprefix(self._prefix).rpartition("/")[0]
            if path.startswith(self._prefix) and folder and (found := repository_at(self._users_root / folder)):
                yield folder, found

    def _private_git(self) -> Path | None:
        """A git dir of the copy's own, where the user's is not in the tree that is copied."""
        repository = self._repository
        if repository is None or repository.common_dir.is_relative_to(self._top):
            return None
        shared = self._place / "git"
        own = shared
        if repository.git_dir != repository.common_dir:
            if not repository.git_dir.is_relative_to(repository.common_dir):
                return None
            own = shared / repository.git_dir.relative_to(repository.common_dir)
        inner = own.relative_to(shared).as_posix()

        def adapt(path: str, source: Path) -> bytes | None:
            if path == f"{inner}/gitdir":
                return os.fsencode(self._tree / ".git") + b"\n"
            if path == "config":
                return _WORKTREE.sub(lambda met: met[1] + b" " + os.fsencode(self._tree), source.read_bytes())
            return None

        Mirror(repository.common_dir, shared, self._place / "git.json", left_out=lambda _: False).update(adapt)
        return own

    def _adapted(self, path: str, source: Path, git_dir: Path | None) -> bytes | None:
        """Files that name the place of a repository: in the copy they name the copy's."""
        name = path.rpartition("/")[2]
        if path == ".git" and git_dir is not None:
            return b"gitdir: " + os.fsencode(git_dir) + b"\n"
        in_git = ".git" in path.split("/")
        if (name == ".git" and not source.is_symlink()) or (in_git and name == "gitdir"):
            content = source.read_bytes()
            prefix = b"gitdir: " if content.startswith(b"gitdir: ") else b""
            target = Path(os.fsdecode(content.removeprefix(b"gitdir:").strip()))
            if target.is_absolute() and target.is_relative_to(self._top):
                return prefix + os.fsencode(self._tree / target.relative_to(self._top)) + b"\n"
            if target.is_absolute():
                return prefix + b"/nonexistent\n"
        return None

    def touched(self, bounds: Bounds) -> Touched:
        files, folders, gone = self._mirror.touched()
        found = Touched()
        for path, status in files.items():
            found.add(status, bounds)
            if self._counts(path, found):
                found.files[path] = status
        found.folders.update(path for path in folders if self._counts(path, found))
        found.gone.update(path for path in gone if self._counts(path, found))
        return found.below(self._prefix) if self._prefix else found

    def _counts(self, path: str, found: Touched) -> bool:
        """Whether a path is neither in a git dir, which is noted, nor only there for the engine."""
        parts = path.split("/")
        if ".git" in parts:
            found.repositories.add("/".join(parts[: parts.index(".git")]))
            return False
        return not self._engine or path not in (self._engine, f"{self._engine}/.gitignore")

    def place(self, path: str) -> Path | None:
        here = self.root
        parts = path.split("/")
        for number, part in enumerate(parts, start=1):
            here = here / part
            try:
                status = here.lstat()
            except OSError:
                return None
            if number < len(parts) and not stat.S_ISDIR(status.st_mode):
                return None
        return here

    def put(self, path: str, staged: Path) -> None:
        place = self._cleared(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        staged.rename(place)

    def remove(self, path: str) -> None:
        if (place := self.place(path)) is not None:
            remove_folder(place)

    def reset(self, path: str) -> None:
        source = self._users_root / path
        place = self._cleared(path)
        if os.path.lexists(source):
            place.parent.mkdir(parents=True, exist_ok=True)
            clone(source, place)
        else:
            self._remove_empty_folders(path)

    def _cleared(self, path: str) -> Path:
        """The place of a path, with nothing at it and no file or link above it."""
        here = self.root
        for part in path.split("/")[:-1]:
            here = here / part
            if os.path.lexists(here) and (here.is_symlink() or not here.is_dir()):
                remove_folder(here)
        remove_folder(self.root / path)
        return self.root / path

    def _remove_empty_folders(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        while folder and not (self._users_root / folder).is_dir():
            try:
                (self.root / folder).rmdir()
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def take(self, path: str) -> None:
        files, _, gone = self._mirror.touched()
        changed = {folder for file in files for folder in (file, *above(file))}
        take(self.root / path, self._users_root, path, only=lambda inner: f"{self._prefix}{inner}" in changed)
        for lost in gone:
            inner = lost.removeprefix(self._prefix)
            # As a whole it stays in the tree.
            if lost.startswith(f"{self._prefix}{path}/") and (self.root / path).is_dir():
                clear(self._users_root, inner)

    def git_before(self, folder: str, repository: UserRepository) -> GitState:
        return self._before.get(folder) or _state(repository)

    def git_dir(self, folder: Path) -> GitDir | None:
        if folder.is_relative_to(self._top):
            return PlainGitDir(self._tree / folder.relative_to(self._top))
        repository = self._repository
        if repository is not None and folder.is_relative_to(repository.common_dir):
            return PlainGitDir(self._place / "git" / folder.relative_to(repository.common_dir))
        return None

    def order(self, argv: Sequence[str], *, cwd: Path, confinement: Confinement) -> list[Record]:
        return [
            ("maker", ["copy"]),
            ("exit", [str(self._folder.exit_file)]),
            ("size", [str(confinement.bounds.size)]),
            ("cwd", [str(cwd)]),
            ("argv", list(argv)),
        ]

    def set_aside(self) -> list[Path]:
        return self._folder.set_aside()


def claim(layers: Path, name: str) -> Path:
    """A copy for a layer: a free one, or a new one."""
    copies = layers / COPIES
    if copies.is_symlink():
        copies.unlink()
    copies.mkdir(parents=True, exist_ok=True)
    with _locked(copies / "lock"):
        number = 0
        while True:
            place = copies / str(number)
            owner = place / "owner"
            if not place.exists():
                place.mkdir()
            held = owner.read_text("utf-8", "surrogateescape") if owner.is_file() else ""
            if not held or held == name or not (layers / held).exists():
                owner.write_text(name, encoding="utf-8", errors="surrogateescape")
                return place
            number += 1


def claimed(layers: Path, name: str) -> Path | None:
    """The copy that belongs to a layer."""
    for owner in (layers / COPIES).glob("*/owner"):
        if owner.read_text("utf-8", "surrogateescape") == name:
            return owner.parent
    return None


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _state(repository: UserRepository) -> GitState:
    return state_of(PlainGitDir(repository.git_dir), PlainGitDir(repository.common_dir))
