"""The private git of a layer: an ordinary `.git`, whatever the person's is (a linked worktree, a submodule).

Its HEAD is the very tree that the layer shows.  Settings, hooks, branches and tags are the person's, copied; what they
are in the middle of (a merge), their stashes, locks and reflogs are not there.  Objects are read where they lie.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import stat
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

from interlock.documents.files import read_plain
from interlock.workspace.layers.upper import remove, walk
from interlock.workspace.repository import Repository, borrowing
from interlock.workspace.trees import Trees

_NOT_SHOWN = ("refs/stash", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
_OF_PLACE = re.compile(rb"^\s*(worktree\s*=|bare\s*=\s*[ty1]|refstorage)", re.IGNORECASE | re.MULTILINE)
_COPIED = ("hooks", "info", "shallow", "description", "config")
_OWN = ("branches", "hooks", "info", "logs", "objects", "refs", "reftable", "rebase-*", "sequencer", "worktrees")

_LARGEST = 1 << 30
_ID = re.compile(r"[0-9a-f]{40}")


def lay(repository: Repository, place: Path, commit: str, branch: str, index: Path) -> dict[str, str]:
    """Make the private git in a folder, but for objects; the refs that are in it.

    Args:
        commit: what HEAD is; empty where there is none.
        branch: `refs/heads/x`, else HEAD is detached.
    """
    remove(place)
    for name in ("refs/heads", "info"):
        (place / name).mkdir(parents=True)
    for name in _COPIED:
        source = repository.common_dir / name
        if source.is_dir():
            shutil.copytree(source, place / name, symlinks=True, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copyfile(source, place / name)
    _settings(repository, place)
    refs = _refs(repository, place)
    on_branch = branch.startswith("refs/heads/")
    (place / "HEAD").write_bytes(os.fsencode(f"ref: {branch}\n" if on_branch else f"{commit}\n"))
    if on_branch and commit:
        refs[branch] = commit
        (place / branch).parent.mkdir(parents=True, exist_ok=True)
        (place / branch).write_text(f"{commit}\n")
    shutil.copy2(index, place / "index")  # its time says which files may have changed unnoticed
    return refs


def lay_stores(place: Path, stores: Sequence[Path]) -> None:
    """An object folder that is empty and borrows from others."""
    remove(place)
    (place / "info").mkdir(parents=True, exist_ok=True)
    (place / "pack").mkdir(exist_ok=True)
    (place / "info/alternates").write_bytes(borrowing(stores))


def shared(repository: Repository) -> list[str]:
    """Folders beside the objects that are large, or nobody knows what: of submodules, of LFS."""
    folders = [entry.name for entry in os.scandir(repository.common_dir) if entry.is_dir(follow_symlinks=False)]
    return [name for name in folders if not any(fnmatch.fnmatchcase(name, own) for own in _OWN)]


def _settings(repository: Repository, place: Path) -> None:
    """git's settings, without those that name the place of a repository; what a linked worktree has of its own."""
    if _OF_PLACE.search((place / "config").read_bytes()):
        for name in ("core.worktree", "core.bare", "extensions.refstorage"):
            repository.git.reply("config", "--file", str(place / "config"), "--unset-all", name)
    for name in ("config.worktree", "info/sparse-checkout"):
        if (repository.git_dir / name).is_file():
            shutil.copyfile(repository.git_dir / name, place / name)


def _refs(repository: Repository, place: Path) -> dict[str, str]:
    """The person's refs, packed."""
    told = repository.git.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
    refs: dict[str, str] = {}
    for line in os.fsdecode(told).splitlines():
        value, name, target = line.split(" ", 2)
        if name.startswith(_NOT_SHOWN):
            continue
        if target:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(os.fsencode(f"ref: {target}\n"))
        else:
            refs[name] = value
    packed = "".join(f"{value} {name}\n" for name, value in refs.items())
    (place / "packed-refs").write_bytes(b"# pack-refs with: sorted \n" + os.fsencode(packed))
    return refs


def moved(place: Path, before: Mapping[str, str]) -> dict[str, str]:
    """Branches and the stash that are not where they were; read as files: no git runs here on what programs wrote."""
    refs: dict[str, str] = {}
    with suppress(OSError):
        for line in read_plain(place / "packed-refs").splitlines():
            value, _, name = line.partition(b" ")
            if name:
                refs[os.fsdecode(name)] = value.decode("ascii", "replace")
    for path, status in walk(place / "refs"):
        if stat.S_ISREG(status.st_mode) and not path.endswith(".lock"):
            with suppress(OSError):
                refs[f"refs/{path}"] = read_plain(place / "refs" / path).decode("ascii", "replace").strip()
    kinds = ("refs/heads/", "refs/stash")
    told = {name: value for name, value in refs.items() if name.startswith(kinds) and _ID.fullmatch(value)}
    return {name: value for name, value in told.items() if before.get(name) != value}


def take_over(store: Path, trees: Trees) -> None:
    """Blobs that a git in a layer made become ours, if each is what it is called."""
    for path, _ in walk(store):
        name = path.replace("/", "")
        if _ID.fullmatch(name):
            packed = read_plain(store / path, limit=_LARGEST)
            if sha1(zlib.decompress(packed), usedforsecurity=False).hexdigest() == name:
                trees.take_over(name, packed)
