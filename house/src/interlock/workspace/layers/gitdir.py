"""The private git of a layer: an ordinary `.git`, whatever the person's is (a linked worktree, a submodule).

Its HEAD is the very tree that the layer shows.  Branches and tags are the person's; what they are in the middle of (a
merge), their stashes, locks and reflogs are not there, and their objects are read where they lie.  Over an overlay only
what differs is laid; for a copy, all but objects.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import stat
import struct
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha1
from pathlib import Path

from interlock.documents.files import read_plain
from interlock.documents.files import replace as replace_file
from interlock.workspace.layers.copies import clone
from interlock.workspace.layers.upper import OPAQUE, remove, walk
from interlock.workspace.repository import Repository
from interlock.workspace.trees import Entry, Trees

_STATES = (
    *("*_HEAD", "MERGE_*", "BISECT_*", "*.lock", "rebase-*", "sequencer", "AUTO_MERGE", "SQUASH_MSG", "gc.*"),
    *("reftable", "config.worktree", "sharedindex.*"),
)
_NOT_SHOWN = ("refs/stash", "refs/bisect/", "refs/rewritten/", "refs/worktree/")
_OF_PLACE = re.compile(rb"^\s*(worktree\s*=|bare\s*=\s*[ty1]|refstorage)", re.IGNORECASE | re.MULTILINE)
_COPIED = ("hooks", "info", "modules", "shallow", "description", "config")

_LARGEST = 1 << 30
_ID = re.compile(r"[0-9a-f]{40}")
_STAT = struct.Struct(">10L")


def lay(
    repository: Repository,
    place: Path,
    *,
    commit: str,
    branch: str,
    index: Path,
    stores: Sequence[Path],
    overlay: bool,
) -> dict[str, str]:
    """Make the private git in a folder; the refs that are in it.

    Args:
        commit: what HEAD is; empty where there is none.
        branch: `refs/heads/x`, else HEAD is detached.
        stores: further object folders.
        overlay: what is laid lies over the person's own folder; else it is all there is.
    """
    remove(place)
    for name in ("refs/heads", "logs", "objects/info", "info"):
        (place / name).mkdir(parents=True)
    common = repository.common_dir
    if overlay:
        _hide(common, place)
    else:
        _copy(common, place)
    _settings(repository, place)
    refs = _refs(repository, place)
    on_branch = branch.startswith("refs/heads/")
    (place / "HEAD").write_bytes(os.fsencode(f"ref: {branch}\n" if on_branch else f"{commit}\n"))
    if on_branch and commit:
        refs[branch] = commit
        (place / branch).parent.mkdir(parents=True, exist_ok=True)
        (place / branch).write_text(f"{commit}\n")
    lines = [os.fsencode(store) for store in stores]
    (place / "objects/info/alternates").write_bytes(b"".join(_quoted(line) + b"\n" for line in lines))
    shutil.copy2(index, place / "index")  # its time says which files may have changed unnoticed
    return refs


def _hide(common: Path, place: Path) -> None:
    for name in ("refs", "logs"):
        os.setxattr(place / name, OPAQUE, b"y")
    for name in os.listdir(common):  # noqa: PTH208
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _STATES):
            os.mknod(place / name, stat.S_IFCHR, 0)


def _copy(common: Path, place: Path) -> None:
    for name in _COPIED:
        source = common / name
        if source.is_dir():
            shutil.copytree(source, place / name, symlinks=True, dirs_exist_ok=True, copy_function=_clone)
        elif source.is_file():
            shutil.copyfile(source, place / name)


def _clone(source: str, target: str) -> None:
    clone(Path(source), Path(target))


def _settings(repository: Repository, place: Path) -> None:
    """git's settings, without those that name the place of a repository; what a linked worktree has of its own."""
    content = (repository.common_dir / "config").read_bytes()
    if _OF_PLACE.search(content):
        remove(place / "config")
        (place / "config").write_bytes(content)
        for name in ("core.worktree", "core.bare", "extensions.refstorage"):
            repository.git.reply("config", "--file", str(place / "config"), "--unset-all", name)
    for name in ("config.worktree", "info/sparse-checkout"):
        if (repository.git_dir / name).is_file():
            remove(place / name)
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


def _quoted(path: bytes) -> bytes:
    if not re.search(rb'[\n"\\]|^#', path):
        return path
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def change_index(trees: Trees, index: Path, changes: Mapping[str, Entry | None]) -> None:
    """Entries of an index, without stat data."""
    if changes:
        facts = {path: f"{entry[0]:o} {entry[1]}" if entry else f"0 {'0' * 40}" for path, entry in changes.items()}
        listed = os.fsencode("".join(f"{fact}\t{path}\0" for path, fact in facts.items()))
        replace(trees.git, index=index).run("update-index", "-z", "--index-info", stdin=listed)


def stamp(index: Path, laid: Mapping[str, tuple[str, os.stat_result]]) -> None:
    """Write the stat data of laid files into an index: else git reads each of them, and they count as opened."""
    if not laid:
        return
    content = bytearray(index.read_bytes())
    if int.from_bytes(content[4:8]) not in (2, 3):
        return
    for path, (blob, status) in laid.items():
        name = os.fsencode(path)
        entry = bytes.fromhex(blob) + struct.pack(">H", min(len(name), 0xFFF)) + name + b"\0"
        at = content.find(entry) - _STAT.size
        if at < 0:
            continue
        times = (*divmod(status.st_ctime_ns, 10**9), *divmod(status.st_mtime_ns, 10**9))
        mode = _STAT.unpack_from(content, at)[6]
        facts = (*times, status.st_dev, status.st_ino, mode, status.st_uid, status.st_gid, status.st_size)
        _STAT.pack_into(content, at, *(fact & 0xFFFFFFFF for fact in facts))
    content[-20:] = sha1(content[:-20], usedforsecurity=False).digest()
    index.write_bytes(content)


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


def take_over(store: Path, objects: Path) -> None:
    """Blobs that a git in a layer made become ours, if each is what it is called."""
    for path, _ in walk(store):
        name = path.replace("/", "")
        if not _ID.fullmatch(name) or (objects / path).exists():
            continue
        packed = read_plain(store / path, limit=_LARGEST)
        if sha1(zlib.decompress(packed), usedforsecurity=False).hexdigest() == name:
            (objects / path).parent.mkdir(exist_ok=True)
            replace_file(objects / path, packed, mode=0o444, sync=False)
