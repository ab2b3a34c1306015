"""A shadow index that starts from the user's own, so that the first snapshot need not read every file.

The user's index knows each file's stat data and blob.  That blob is what a snapshot would store only while nothing
converts files on their way into git; any doubt means: start from nothing, which is slower and always right.
The user's objects are hard-linked, not borrowed: a later ``git gc`` of the user cannot take them from a snapshot.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from interlock.errors import WorkspaceFailed
from interlock.workspace.git import Git, user_settings, users_file
from interlock.workspace.repository import UserRepository

_CONVERTS = re.compile(rb"\b(text|crlf|eol|filter|ident|working-tree-encoding|binary)\b")
_SETTINGS = r"^(core\.(autocrlf|attributesfile)|extensions\.(objectformat|partialclone|refstorage))$"


async def seed_index(
    git: Git, repository: UserRepository, prefix: str, counts: Callable[[str], bool]
) -> list[str] | None:
    """Make `git`'s index the user's, cut down to plain entries below `prefix` that count; None if that is not safe.

    Entries with a flag that hides changes (assume-unchanged, skip-worktree) and conflicts are left out, and named
    in the answer; submodules are left out.
    """
    assert git.index is not None
    try:
        if not await _faithful(repository):
            return None
        await asyncio.to_thread(_link_objects, repository.objects, git.git_dir / "objects")
        # The time of the index tells git which files may have changed unnoticed since: it has to stay.
        await asyncio.to_thread(shutil.copy2, repository.git_dir / "index", git.index)
        whole = Git(git.git_dir, git.work_tree, index=git.index, own_common_dir=True)
        listed = await whole.run("ls-files", "-z", "--stage", "-v", reads=True)
        dropped, flagged, attributes = _sort(listed, os.fsencode(prefix), counts)
        if any(_converts(git.work_tree / os.fsdecode(name)) for name in attributes):
            git.index.unlink()
            return None
        if dropped:
            await whole.run("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join([*dropped, b""]))
        return flagged
    except (WorkspaceFailed, OSError):
        git.index.unlink(missing_ok=True)
        return None


async def _faithful(repository: UserRepository) -> bool:
    """Whether nothing outside the tree's own attribute files converts what the repository stores."""
    if (repository.objects / "info" / "alternates").exists():
        return False
    settings = await user_settings(repository.git_dir, repository.top, _SETTINGS)
    if settings.pop("core.autocrlf", "false") not in ("false", "no", "off", "0", ""):
        return False
    everywhere = users_file(settings.pop("core.attributesfile", None), "attributes")
    if settings:
        return False
    files = (everywhere, repository.common_dir / "info" / "attributes", Path("/etc/gitattributes"))
    return not any(_converts(file) for file in files)


def _converts(attributes: Path) -> bool:
    return attributes.is_file() and _CONVERTS.search(attributes.read_bytes()) is not None


def _sort(listed: bytes, prefix: bytes, counts: Callable[[str], bool]) -> tuple[list[bytes], list[str], list[bytes]]:
    """The entries that cannot be used, those of them that may still be files, and the attribute files of the rest."""
    dropped: list[bytes] = []
    flagged: list[str] = []
    attributes: list[bytes] = []
    for entry in listed.split(b"\0")[:-1]:
        about, _, name = entry.partition(b"\t")
        tag, mode, _, stage = about.split(b" ")
        if mode == b"160000" or not name.startswith(prefix) or not counts(os.fsdecode(name[len(prefix) :])):
            dropped.append(name)
        elif tag != b"H" or stage != b"0":
            dropped.append(name)
            flagged.append(os.fsdecode(name[len(prefix) :]))
        elif b".git" in name:
            parts = name.lower().split(b"/")
            if b".git" in parts:
                dropped.append(name)
            elif parts[-1] == b".gitattributes":
                attributes.append(name)
    return dropped, flagged, attributes


def _link_objects(source: Path, target: Path) -> None:
    for folder in os.scandir(source):
        if folder.name != "pack" and not (len(folder.name) == 2 and folder.is_dir()):
            continue
        place = target / folder.name
        place.mkdir(exist_ok=True)
        for file in os.scandir(folder.path):
            if folder.name != "pack" or file.name.endswith((".pack", ".idx", ".rev")):
                try:
                    os.link(file.path, place / file.name, follow_symlinks=False)
                except FileExistsError:
                    continue
