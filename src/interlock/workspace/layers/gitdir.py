"""The private git of a layer: an ordinary `.git`, whatever the person's is (a linked worktree, a submodule).

Its HEAD is the very tree that the layer shows.  Settings, hooks, branches and tags are the person's, copied; what they
are in the middle of (a merge), their stashes, locks and reflogs are not there.  Objects are read where they lie.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import zlib
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

from interlock.documents.files import read_plain
from interlock.workspace.layers.upper import remove, walk
from interlock.workspace.repository import Repository, borrowing
from interlock.workspace.trees import Trees

_NOT_SHOWN = ("refs/stash", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
_OWN = "\n[core]\n\tbare = false\n\tworktree = ..\n\tlogAllRefUpdates = true\n"
"""Settings that name the place of a repository, and whatever moves a branch is in its reflog."""
_FILES = "[extensions]\n\trefStorage = files\n"
_COPIED = ("hooks", "info", "shallow", "description", "config")
_WORKTREES = ("config.worktree", "info/sparse-checkout")
"""Of a linked worktree alone."""
_LARGEST = 1 << 30
_ID = re.compile(r"[0-9a-f]{40}")


def lay(repository: Repository, place: Path, commit: str, branch: str, index: Path) -> None:
    """Make the private git in a folder, but for objects.

    Args:
        commit: what HEAD is; empty where there is none.
        branch: `refs/heads/x`, else HEAD is detached.
    """
    remove(place)
    for name in ("refs/heads", "info"):
        (place / name).mkdir(parents=True)
    sources = {name: repository.common_dir / name for name in _COPIED}
    for name, source in (sources | {name: repository.git_dir / name for name in _WORKTREES}).items():
        if source.is_dir():
            shutil.copytree(source, place / name, symlinks=True, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copyfile(source, place / name)
    with (place / "config").open("a") as file:
        file.write(_OWN + (_FILES if "extensions.refstorage" in repository.settings else ""))
    _lay_refs(repository, place)
    on_branch = branch.startswith("refs/heads/")
    (place / "HEAD").write_bytes(os.fsencode(f"ref: {branch}\n" if on_branch else f"{commit}\n"))
    if on_branch and commit:
        (place / branch).parent.mkdir(parents=True, exist_ok=True)
        (place / branch).write_text(f"{commit}\n")
    shutil.copy2(index, place / "index")  # its time says which files may have changed unnoticed


def lay_stores(place: Path, stores: Sequence[Path]) -> None:
    """An object folder that is empty and borrows from others."""
    remove(place)
    (place / "info").mkdir(parents=True, exist_ok=True)
    (place / "pack").mkdir(exist_ok=True)
    (place / "info/alternates").write_bytes(borrowing(stores))


def shared(repository: Repository) -> list[Path]:
    """Folders beside the objects that are large."""
    return [place for name in ("annex", "lfs", "modules", "svn") if (place := repository.common_dir / name).is_dir()]


def _lay_refs(repository: Repository, place: Path) -> None:
    """The person's refs, packed."""
    told = repository.git.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
    packed = "# pack-refs with: sorted \n"
    for line in os.fsdecode(told).splitlines():
        value, name, target = line.split(" ", 2)
        if name.startswith(_NOT_SHOWN):
            continue
        if target:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(os.fsencode(f"ref: {target}\n"))
        else:
            packed += f"{value} {name}\n"
    (place / "packed-refs").write_bytes(os.fsencode(packed))


def moved(place: Path) -> dict[str, str]:
    """Branches and the stash that are not where they were; read as files: no git runs here on what programs wrote."""
    found: dict[str, str] = {}
    for path, status in walk(place / "logs/refs"):
        if path.startswith(("heads/", "stash")) and stat.S_ISREG(status.st_mode) and status.st_size:
            with suppress(OSError):
                told = read_plain(place / "logs/refs" / path).decode("ascii", "replace").splitlines()
                before, now = told[0][:40], told[-1][41:81]
                if before != now and _ID.fullmatch(now):
                    found[f"refs/{path}"] = now
    return found


def take_over(store: Path, trees: Trees) -> None:
    """Blobs that a git in a layer made become ours, if each is what it is called."""
    for path, _ in walk(store):
        name = path.replace("/", "")
        if _ID.fullmatch(name):
            packed = read_plain(store / path, limit=_LARGEST)
            if sha1(zlib.decompress(packed), usedforsecurity=False).hexdigest() == name:
                trees.take_over(name, packed)
