"""Put files of a snapshot back: written beside, then renamed into place; no link is followed out of the tree."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from interlock.errors import WorkspaceFailed
from interlock.workspace.attic import Attic, parent_of
from interlock.workspace.paths import file_parts, normal
from interlock.workspace.shadow import Shadow

_ASKED_BY_NAME = 200
"""Up to so many paths git is asked for each; beyond, it lists the whole tree."""


@dataclass(frozen=True)
class Entry:
    mode: str
    blob: str


@dataclass(frozen=True)
class Past:
    """What a tree says of some paths: the files it has, and the folders on the way to them."""

    files: dict[str, Entry]
    folders: frozenset[str]


async def look_up(shadow: Shadow, tree: str, paths: Collection[str]) -> Past:
    """The entries of `paths` in `tree`."""
    asked = sorted(paths) if len(paths) <= _ASKED_BY_NAME else []
    listed = await shadow.plain.run("ls-tree", "-r", "-t", "-z", "--full-tree", tree, "--", *asked, reads=True)
    wanted = frozenset(paths)
    files: dict[str, Entry] = {}
    folders: set[str] = set()
    for line in listed.split(b"\0")[:-1]:
        about, _, name = line.partition(b"\t")
        mode, kind, blob = about.decode().split(" ")
        path = os.fsdecode(name)
        if kind == "tree":
            folders.add(path)
        elif path in wanted:
            files[path] = Entry(mode, blob)
    return Past(files, frozenset(folders))


async def restore_files(
    shadow: Shadow, tree: str, paths: Iterable[str], *, root: Path, staging: Path, attic: Attic, label: str
) -> None:
    """Make each file of `paths` below `root` what it was in `tree`, or absent where it was not there."""
    names = {normal(path) for path in paths}
    for name in names:
        file_parts(name)
    if not names:
        return
    past = await look_up(shadow, tree, names)
    stage = staging / uuid4().hex
    try:
        if past.files:
            stage.mkdir(parents=True)
            await _check_out(shadow, past, stage)
        await asyncio.to_thread(_put_back, names, past, stage, _Target(root, attic, label))
    except OSError as error:
        raise WorkspaceFailed(
            f"a file could not be put back: {error.strerror}",
            where=str(error.filename or root),
            remedy="Make the folder writable, then resume.",
        ) from error
    finally:
        await asyncio.to_thread(shutil.rmtree, stage, ignore_errors=True)


async def _check_out(shadow: Shadow, past: Past, stage: Path) -> None:
    async with shadow.scratch() as git:
        entries = (f"{entry.mode} {entry.blob}\t".encode() + os.fsencode(path) for path, entry in past.files.items())
        await git.run("update-index", "-z", "--index-info", stdin=b"\0".join([*entries, b""]))
        await git.run("checkout-index", "--all", f"--prefix={stage}/")


@dataclass(frozen=True)
class _Target:
    """The tree that files are put back into, and the attic's folder for what is in their way."""

    root: Path
    attic: Attic
    label: str

    def clear(self, name: str) -> None:
        self.attic.take(self.root, name, self.label)


def _put_back(names: set[str], past: Past, stage: Path, target: _Target) -> None:
    name = ""
    try:
        for name in sorted(names - past.files.keys(), reverse=True):
            _remove(target.root, name, past.folders)
        for name in sorted(past.files):
            _place(stage / name, name, target)
    except OSError as error:
        # The system names the staged file; what the user can mend is where it should go.
        raise OSError(error.errno, error.strerror, str(target.root / name)) from error


def _remove(root: Path, name: str, kept: frozenset[str]) -> None:
    """Remove a file and then each folder above it that is empty and was not in the snapshot."""
    parts = file_parts(name)
    folder = parent_of(root, parts)
    if folder is not None:
        try:
            os.unlink(parts[-1], dir_fd=folder)
        except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
            # A folder of that name is not this file; macOS says so with EPERM.
            if isinstance(error, PermissionError) and not root.joinpath(*parts).is_dir():
                raise
        finally:
            os.close(folder)
    for depth in range(len(parts) - 1, 0, -1):
        if "/".join(parts[:depth]) in kept:
            return
        folder = parent_of(root, parts[:depth])
        if folder is None:
            continue
        try:
            os.rmdir(parts[depth - 1], dir_fd=folder)
        except FileNotFoundError:
            continue
        except OSError:
            return
        finally:
            os.close(folder)


def _place(staged: Path, name: str, target: _Target) -> None:
    parts = file_parts(name)
    folder = _made_parent(parts, target)
    try:
        if _is_folder(folder, parts[-1]):
            target.clear(name)
        try:
            os.rename(staged, parts[-1], dst_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_into(staged, folder, parts[-1])
    finally:
        os.close(folder)


def _made_parent(parts: tuple[str, ...], target: _Target) -> int:
    """The open folder for a file; what stands in its way is moved to the attic."""
    folder = parent_of(target.root, parts)
    if folder is not None:
        return folder
    for depth in range(1, len(parts)):
        above = parent_of(target.root, parts[:depth])
        assert above is not None
        try:
            if not _is_folder(above, parts[depth - 1]):
                target.clear("/".join(parts[:depth]))
                os.mkdir(parts[depth - 1], dir_fd=above)
        finally:
            os.close(above)
    folder = parent_of(target.root, parts)
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, "its folder vanished meanwhile", "/".join(parts))
    return folder


def _is_folder(folder: int, name: str) -> bool:
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise
    return True


def _copy_into(staged: Path, folder: int, name: str) -> None:
    """Across file systems: a copy beside the target, then renamed."""
    beside = f".{uuid4().hex}.interlock"
    if staged.is_symlink():
        os.symlink(staged.readlink(), beside, dir_fd=folder)
    else:
        mode = staged.stat().st_mode & 0o777
        target = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        with staged.open("rb") as source, os.fdopen(target, "wb") as sink:
            shutil.copyfileobj(source, sink)
    os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
