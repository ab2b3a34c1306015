"""What a program did to the user's git in its layer, told in sentences.

Only files are read: no git runs on a git dir that a program could write to.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from interlock.workspace.layers.upper import Upper, is_opaque, is_whiteout
from interlock.workspace.objects import open_plain

_LARGEST = 16 * 1024 * 1024
_WALKED = 1000
_TOLD = 20
"""Sentences of one kind; of the rest only the number is told."""
_SETTINGS = {
    "config": "git's settings were changed",
    "config.worktree": "git's settings of the worktree were changed",
    "info/attributes": "git's private attributes were changed",
    "info/exclude": "git's private ignore file was changed",
    "info/grafts": "git's grafts were changed",
    "objects/info/alternates": "git was given objects from elsewhere",
    "reftable/tables.list": "references were changed",
}
_KINDS = {"refs/heads/": "branch", "refs/tags/": "tag"}


class GitDir(Protocol):
    """A git dir to read from; a name that leads through a link is not there."""

    def read(self, path: str) -> bytes | None: ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder; empty when it is none."""
        ...


class PlainGitDir:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> bytes | None:
        return _content(self._folder / path)

    def names(self, folder: str) -> list[str]:
        return _names(self._folder / folder)


class LayeredGitDir:
    """A git dir as it is in an overlay."""

    def __init__(self, upper: Upper, prefix: str = "") -> None:
        self._upper = upper
        self._prefix = prefix

    def read(self, path: str) -> bytes | None:
        place = self._upper.place(self._prefix + path)
        return _content(place) if place is not None else None

    def names(self, folder: str) -> list[str]:
        path = self._prefix + folder
        if self._upper.place(path) is None:
            return []
        above = self._upper.upper / path
        names = set() if is_opaque(above) else set(_names(self._upper.lower / path))
        for name in _names(above):
            if is_whiteout((above / name).lstat()):
                names.discard(name)
            else:
                names.add(name)
        return sorted(names)


@dataclass(frozen=True)
class GitState:
    """What of a repository somebody may have changed on purpose."""

    head: str = ""
    refs: dict[str, str] = field(default_factory=dict)
    stashes: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    hooks: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return dict(vars(self))


def state_of(own: GitDir, shared: GitDir) -> GitState:
    """The state of a repository: its own git dir, and the one that its worktrees share."""
    refs = dict(_packed(shared))
    refs.update(_loose(shared, "refs"))
    stash_log = shared.read("logs/refs/stash") or b""
    return GitState(
        head=(own.read("HEAD") or b"").decode("utf-8", "replace").strip(),
        refs=refs,
        stashes=stash_log.count(b"\n") or int("refs/stash" in refs),
        settings={name: _digest((own if name == "config.worktree" else shared).read(name)) for name in _SETTINGS},
        hooks={
            name: _digest(shared.read(f"hooks/{name}"))
            for name in shared.names("hooks")
            if not name.endswith(".sample")
        },
    )


def sentences(before: GitState, after: GitState, objects: GitDir, known: GitDir) -> Iterator[str]:
    """What differs, as a person would say it.

    Args:
        objects: the shared git dir as the layer has it.
        known: the same as the user has it.
    """
    if before.head != after.head:
        yield f"HEAD was switched from {_head(before.head)} to {_head(after.head)}"
    told: list[str] = []
    for name in sorted(before.refs.keys() | after.refs.keys()):
        old, new = before.refs.get(name), after.refs.get(name)
        if old != new and name != "refs/stash":
            told.append(_ref(name, old, new, objects, known))
    if _detached(before.head) and _detached(after.head) and (made := _commits(after.head, before.head, objects, known)):
        told.append(f"{_number(made, 'commit')} on no branch")
    yield from told[:_TOLD]
    if len(told) > _TOLD:
        yield f"{len(told) - _TOLD} more references were changed"
    if after.stashes > before.stashes:
        yield f"{_number(after.stashes - before.stashes, 'stash')} made"
    elif before.refs.get("refs/stash") != after.refs.get("refs/stash"):
        yield "the stashes were changed"
    for name in sorted(before.hooks.keys() | after.hooks.keys()):
        if before.hooks.get(name) != after.hooks.get(name):
            done = "put in" if name not in before.hooks else "changed" if name in after.hooks else "removed"
            yield f"hook {name!r} was {done}"
    for name, sentence in _SETTINGS.items():
        if before.settings.get(name) != after.settings.get(name):
            yield sentence


def _ref(name: str, old: str | None, new: str | None, objects: GitDir, known: GitDir) -> str:
    kind, short = "reference", name
    for prefix, word in _KINDS.items():
        if name.startswith(prefix):
            kind, short = word, name.removeprefix(prefix)
    if new is None:
        return f"{kind} {short!r} was removed"
    if kind != "branch":
        return f"{kind} {short!r} was {'made' if old is None else 'moved'}"
    made = _commits(new, old, objects, known)
    if old is None:
        return f"branch {short!r} was made" + (f" with {_number(made, 'commit')}" if made else "")
    return f"{_number(made, 'commit')} on branch {short!r}" if made else f"branch {short!r} was moved"


def _commits(new: str, old: str | None, objects: GitDir, known: GitDir) -> int:
    """Commits that lead to `new` and that the user does not have; 0 when they cannot be found one by one."""
    seen: set[str] = set()
    waiting = [new]
    count = 0
    while waiting and count < _WALKED:
        name = waiting.pop()
        place = f"objects/{name[:2]}/{name[2:]}"
        if name in seen or name == old or (content := objects.read(place)) is None or known.read(place) is not None:
            continue
        seen.add(name)
        try:
            text = zlib.decompressobj().decompress(content, 65536)
        except zlib.error:
            continue
        if text.startswith(b"commit "):
            count += 1
            head = text.partition(b"\n\n")[0].partition(b"\0")[2]
            waiting += [line[7:47].decode("ascii", "replace") for line in head.split(b"\n") if line[:7] == b"parent "]
    return count


def _packed(git_dir: GitDir) -> Iterator[tuple[str, str]]:
    for line in (git_dir.read("packed-refs") or b"").split(b"\n"):
        if line[:1] not in (b"#", b"^", b""):
            value, _, name = line.partition(b" ")
            yield os.fsdecode(name), value.decode("ascii", "replace")


def _loose(git_dir: GitDir, folder: str) -> Iterator[tuple[str, str]]:
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        for name in git_dir.names(place):
            path = f"{place}/{name}"
            content = git_dir.read(path)
            if content is None:
                waiting.append(path)
            elif not name.endswith(".lock"):
                yield path, content.decode("ascii", "replace").strip()


def _content(place: Path) -> bytes | None:
    try:
        handle = open_plain(place)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return None
    finally:
        os.close(handle)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder)) if not folder.is_symlink() else []
    except OSError:
        return []


def _digest(content: bytes | None) -> str:
    return "" if content is None else sha256(content).hexdigest()


def _head(head: str) -> str:
    return repr(head.removeprefix("ref: refs/heads/")) if head.startswith("ref: ") else head[:12] or "nothing"


def _detached(head: str) -> bool:
    return bool(head) and not head.startswith("ref: ")


def _number(count: int, word: str) -> str:
    many = f"{word}es" if word.endswith("sh") else f"{word}s"
    return f"1 {word}" if count == 1 else f"{'more than ' if count >= _WALKED else ''}{count} {many}"
