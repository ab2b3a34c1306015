"""What is to become of each file of a work: its own version, the tree's, both merged, or a conflict.

Three versions count: what the program started from, what it left, and what is in the tree now.  Where only one side
changed a file, that side is taken; where both did, and it is text, they are merged; anything else is a conflict, kept
with both versions and never resolved here.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from uuid import uuid4

from interlock.errors import WorkspaceFailed
from interlock.workspace.clone import remove_folder
from interlock.workspace.files import status_of
from interlock.workspace.layers.ignoring import sort_out
from interlock.workspace.layers.seam import Entry, KeptWork
from interlock.workspace.objects import GitObjects, Stored, file_name, open_plain, store_bytes, store_file
from interlock.workspace.past import PastTree
from interlock.workspace.snapshots import Workspace

CONFLICT_BYTES = 20_000
"""How much of a conflict's text is kept, per file."""

_OURS = "the tree"
_TEXT_BYTES = 32 * 1024 * 1024
"""Larger files are not merged line by line."""


@dataclass(frozen=True)
class Now:
    """What the tree has at a path."""

    mode: int = 0
    blob: str = ""

    @classmethod
    def at(cls, root: Path, path: str) -> Now:
        """OSError where it cannot be read."""
        return cls.of(root / path, status_of(root, path))

    @classmethod
    def of(cls, place: Path, status: os.stat_result | None) -> Now:
        if status is None:
            return cls()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            return cls(status.st_mode)
        return cls(status.st_mode, file_name(place, status))


@dataclass(frozen=True)
class PathStep:
    """What is to become of one path."""

    path: str
    mode: int
    blob: str
    """Empty: nothing is to be there."""
    was_mode: int
    was: str
    """What was there when it was decided; empty for nothing that is a file or link."""

    def fits(self, now: Now) -> bool:
        """Whether it is done."""
        if now.blob != self.blob:
            return False
        return not self.blob or now.mode == self.mode or (stat.S_ISLNK(self.mode) and stat.S_ISLNK(now.mode))


class Conflict(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ThreeWays:
    """Decides about the files of one work.

    Args:
        label: names their side where both sides are shown.
    """

    def __init__(self, workspace: Workspace, objects: GitObjects, work: KeptWork, label: str) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._past = PastTree(work.base, objects)
        self._objects = objects
        self._entries = work.entries
        self._label = "".join(letter if letter.isprintable() else "?" for letter in label) or "the agent"
        self._leaving = {entry.path for entry in work.entries if not entry.blob}

    async def decide(self, noted: Mapping[str, PathStep]) -> tuple[list[PathStep], dict[str, str]]:
        """A step for each file, and the conflicts by path.

        Args:
            noted: steps that were decided before, and hold as long as nobody else has changed the file.
        """
        steps: list[PathStep] = []
        conflicts: dict[str, str] = {}
        for entry, now in zip(self._entries, await asyncio.to_thread(self._look), strict=True):
            try:
                if isinstance(now, Conflict):
                    raise now
                step = noted.get(entry.path)
                if step is None or not (step.fits(now) or now.blob == step.was):
                    step = await self._decided(entry, now)
            except Conflict as conflict:
                conflicts[entry.path] = conflict.text
            else:
                steps.append(step)
        return steps, conflicts

    def _look(self) -> list[Now | Conflict]:
        found: list[Now | Conflict] = []
        above = cache(partial(status_of, self._root))  # many files lie in the same folders
        for entry in self._entries:
            try:
                found.append(self._now(entry, above))
            except Conflict as conflict:
                found.append(conflict)
            except OSError as error:
                found.append(Conflict(f"CONFLICT (unreadable): {entry.path} in {_OURS}: {error.strerror}\n"))
        return found

    def _now(self, entry: Entry, found_at: Callable[[str], os.stat_result | None]) -> Now:
        """What is at a path; a conflict when something stands where it has to go."""
        parts = entry.path.split("/")
        for number in range(1, len(parts)) if entry.blob else ():
            above = "/".join(parts[:number])
            status = found_at(above)
            if status is None or (above in self._leaving and not stat.S_ISDIR(status.st_mode)):
                return Now()
            if not stat.S_ISDIR(status.st_mode):
                raise Conflict(f"CONFLICT (file/folder): {above} is no folder in {_OURS}\n")
        now = Now.at(self._root, entry.path)
        if now.mode and not now.blob and not stat.S_ISDIR(now.mode):
            raise Conflict(f"CONFLICT (type): {entry.path} is neither a file nor a link in {_OURS}\n")
        return now

    async def _check_folder(self, folder: str) -> None:
        """A file is to take the place of a folder: what is left in that must be ignored by the user's project."""

        def left() -> list[str]:
            places = (Path(above, name) for above, _, names in os.walk(self._root / folder) for name in names)
            return [path for place in places if (path := str(place.relative_to(self._root))) not in self._leaving]

        paths = await asyncio.to_thread(left)
        found = await sort_out(self._workspace, self._past.repository_of(folder), paths, frozenset())
        if found.counting:
            inside = min(found.counting)
            raise Conflict(f"CONFLICT (folder/file): {folder} is a folder in {_OURS}, with {inside} in it\n")

    async def _decided(self, entry: Entry, now: Now) -> PathStep:
        base = await self._past.file(entry.path)
        if stat.S_ISDIR(now.mode):
            if entry.blob:
                await self._check_folder(entry.path)
            blob = entry.blob
        elif (now.blob == entry.blob and _same_type(now.mode, entry.mode)) or _unchanged(base, now):
            blob = entry.blob
        elif base is not None and entry.blob == base.name and base.is_link == stat.S_ISLNK(entry.mode) and now.blob:
            # They changed the mode alone.
            blob = now.blob
        else:
            blob = await self._merged(entry, now, base)
        if now.blob and (base is None or base.name != now.blob):
            # A person's version is kept before it is replaced.
            place = self._root / entry.path
            await asyncio.to_thread(store_file, self._workspace.shadow, place, place.lstat())
        return PathStep(entry.path, _mode(base, now, entry), blob, now.mode if now.blob else 0, now.blob)

    async def _merged(self, entry: Entry, now: Now, base: Stored | None) -> str:
        """The blob of both sides' changes; a conflict when they cannot be had together."""
        path, both_plain = entry.path, stat.S_ISREG(now.mode) and stat.S_ISREG(entry.mode)
        if not entry.blob:
            told = f"modify/delete): {path} was deleted by {self._label} and changed in {_OURS}"
        elif not now.blob:
            told = f"delete/modify): {path} was changed by {self._label} and deleted in {_OURS}"
        elif base is None:
            told = f"add/add): {path} was added by {self._label} and in {_OURS}"
        elif base.is_link or not both_plain:
            told = f"type): {path} was changed by {self._label} and in {_OURS}"
        else:
            told = f"content): {path} was changed by {self._label} and in {_OURS}, in the same places"
        if not entry.blob or not now.blob or not both_plain or (base is not None and base.is_link):
            raise await self._conflict(told, entry, now)
        return await self._merged_text(entry, now, base, told)

    async def _merged_text(self, entry: Entry, now: Now, base: Stored | None, told: str) -> str:
        ours = await asyncio.to_thread(_bytes, self._root / entry.path)
        theirs = await self._objects.blob(entry.blob)
        first = await self._objects.blob(base.name) if base is not None else b""
        if any(len(text) > _TEXT_BYTES or b"\0" in text[:8000] for text in (ours, theirs, first)):
            raise await self._conflict(told, entry, now)
        stage = self._workspace.shadow.path / "tmp" / f"{uuid4().hex}.merge"
        stage.mkdir()
        try:
            for name, text in (("ours", ours), ("base", first), ("theirs", theirs)):
                (stage / name).write_bytes(text)
            files = (str(stage / name) for name in ("ours", "base", "theirs"))
            call = ("merge-file", "-p", "-q", "-L", _OURS, "-L", "before", "-L", self._label, *files)
            git = self._workspace.shadow.plain
            try:
                text = await git.run(*call, reads=True)
            except WorkspaceFailed:
                # Its exit status is the number of conflicts.
                marked = await git.run(*call, reads=True, ok=range(1, 128))
                raise await self._conflict(told, entry, now, marked) from None
        finally:
            await asyncio.to_thread(remove_folder, stage)
        return await asyncio.to_thread(store_bytes, self._workspace.shadow, text)

    async def _conflict(self, told: str, entry: Entry, now: Now, marked: bytes = b"") -> Conflict:
        """The conflict as evidence; both versions are kept, whatever becomes of the tree."""
        ours = ""
        if now.blob:
            place = self._root / entry.path
            ours = await asyncio.to_thread(store_file, self._workspace.shadow, place, place.lstat())
        text = f"CONFLICT ({told}\n"
        for side, blob in ((_OURS, ours), (self._label, entry.blob)):
            text += f"{side}: object {blob} in .interlock/snapshots.git\n" if blob else ""
        shown = marked[:CONFLICT_BYTES].decode("utf-8", "replace")
        cut = f"\n[cut: {len(marked)} bytes in all]\n" if len(marked) > CONFLICT_BYTES else ""
        return Conflict(text + shown + cut)


def _mode(base: Stored | None, now: Now, entry: Entry) -> int:
    """Theirs, unless only the tree's side changed whether the file can be executed."""
    if not (entry.blob and now.blob and base is not None and stat.S_ISREG(now.mode) and stat.S_ISREG(entry.mode)):
        return entry.mode
    ours_changed = bool(now.mode & 0o100) != base.executable
    theirs_changed = bool(entry.mode & 0o100) != base.executable
    return now.mode if ours_changed and not theirs_changed else entry.mode


def _unchanged(base: Stored | None, now: Now) -> bool:
    """Whether the tree has what the program started from."""
    if base is None:
        return not now.blob
    return now.blob == base.name and base.is_link == stat.S_ISLNK(now.mode)


def _same_type(one: int, other: int) -> bool:
    return stat.S_IFMT(one) == stat.S_IFMT(other)


def _bytes(place: Path) -> bytes:
    with os.fdopen(open_plain(place), "rb") as file:
        return file.read()
