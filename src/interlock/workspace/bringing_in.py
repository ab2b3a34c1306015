"""What a layer's program did, brought into the user's tree: all of it or nothing.

What will be written is noted before the first file is, so that a process that dies in between can be followed by
another that finishes: a file that is already what was noted is done, one that is what it was when it was noted is
written, and one that a person has changed since is merged anew.  A conflict that shows only then takes back what was
written before.  One import at a time writes, of all processes that work in the workspace.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from interlock.errors import PathRefused, WorkspaceFailed
from interlock.workspace.clone import remove_folder
from interlock.workspace.files import place_file, remove_file, status_of
from interlock.workspace.git import seen_through
from interlock.workspace.layers.seam import Entry, KeptWork
from interlock.workspace.objects import GitObjects, copy_out, reading
from interlock.workspace.paths import file_parts
from interlock.workspace.snapshots import Workspace
from interlock.workspace.three_ways import Now, PathStep, ThreeWays
from interlock.workspace.turns import turn

T = TypeVar("T")
_TRIES = 5


@dataclass(frozen=True)
class BroughtIn:
    """What became of a work."""

    paths: tuple[str, ...] = ()
    """Its files, which the tree has now; empty when there are conflicts."""
    conflicts: Mapping[str, str] = field(default_factory=dict)
    """Path to what is in conflict: a sentence, the names of both versions in the shadow repository, and for text the
    merged file with its marks. Not empty: nothing was written."""


class _ChangedMeanwhile(Exception):
    """A person wrote a file between the decision about it and its writing."""


async def bring_in(workspace: Workspace, work: KeptWork, *, label: str) -> BroughtIn:
    """Bring changed files into the tree, merged with what is there. Again after a crash, it finishes.

    Args:
        label: names their side where both sides are shown.
    """
    for entry in work.entries:
        _check(entry)
    if not work.entries:
        return BroughtIn()
    _ = workspace.shadow.plain
    lock = turn(workspace.shadow.path / "import.lock", "the import", workspace.tell)
    async with workspace.merging, lock, reading(workspace.shadow, workspace.trees) as objects:
        return await _Import(workspace, objects, work, label).run()


class _Import:
    def __init__(self, workspace: Workspace, objects: GitObjects, work: KeptWork, label: str) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._objects = objects
        self._ways = ThreeWays(workspace, objects, work, label)
        content = json.dumps(work.to_json()).encode()
        self._note = workspace.shadow.path / "tmp" / f"{sha256(content).hexdigest()[:32]}.note"

    async def run(self) -> BroughtIn:
        noted = _noted(self._note)
        for _ in range(_TRIES):
            steps, conflicts = await self._ways.decide(noted)
            if conflicts:
                await self._take_back(noted.values())
                self._note.unlink(missing_ok=True)
                return BroughtIn(conflicts=dict(sorted(conflicts.items())))
            noted = {step.path: _since_first(step, noted) for step in steps}
            try:
                await self._carry_out(steps, noted.values())
            except _ChangedMeanwhile:
                continue
            self._note.unlink(missing_ok=True)
            return BroughtIn(tuple(sorted(noted)))
        raise WorkspaceFailed(
            "files are changed again and again while they are brought in",
            where=str(self._root),
            remedy="Stop what writes to them, then resume.",
        )

    async def _carry_out(self, steps: Iterable[PathStep], note: Collection[PathStep] = ()) -> None:
        """Write what is not yet as it should be: what goes first, then what comes.

        Args:
            note: what is noted before all of it.
        """
        stage = self._workspace.shadow.path / "tmp" / f"{uuid4().hex}.import"
        ordered = sorted(steps, key=lambda step: step.path)
        coming = [(step, Path(f"{stage}.{number}")) for number, step in enumerate(ordered) if step.blob]
        going = [step for step in ordered if not step.blob]

        def copy_and_write() -> list[tuple[PathStep, Path]]:
            if note:
                _write_note(self._note, note)
            if not (left := self._not_copied(coming)):
                _write(self._workspace, going, coming)
            return left

        try:
            if left := await _whole(copy_and_write):
                for step, place in left:
                    await self._make(step, place)
                await _whole(partial(_write, self._workspace, going, coming))
        except BaseException as error:
            await asyncio.to_thread(_remove, [place for _, place in coming])
            if not isinstance(error, OSError):
                raise
            raise WorkspaceFailed(
                f"a file could not be brought in: {error.strerror}",
                where=str(error.filename or self._root),
                remedy="Make the folder writable and see that the disk has room, then resume.",
            ) from error

    def _not_copied(self, coming: Iterable[tuple[PathStep, Path]]) -> list[tuple[PathStep, Path]]:
        """Make files for what is to come; what is left are links, and what only git can read."""
        shadow = self._workspace.shadow
        return [
            (step, place)
            for step, place in coming
            if not stat.S_ISREG(step.mode) or not copy_out(shadow, step.blob, place)
        ]

    async def _make(self, step: PathStep, place: Path) -> None:
        if stat.S_ISLNK(step.mode):
            target = os.fsdecode(await self._objects.blob(step.blob))
            await asyncio.to_thread(place.symlink_to, target)
        else:
            await self._objects.write_out(step.blob, place)

    async def _take_back(self, noted: Iterable[PathStep]) -> None:
        """Undo what an earlier try wrote, where nobody has changed it since."""
        back = [PathStep(step.path, step.was_mode, step.was, step.mode, step.blob) for step in noted]
        await self._carry_out([step for step in back if await asyncio.to_thread(_is_undone, self._root, step)])


async def _whole(work: Callable[[], T]) -> T:
    """What it comes to in a thread; who is cancelled waits for it, for the tree is not half written behind a lock that
    is free again."""
    done = asyncio.get_running_loop().run_in_executor(None, work)
    await seen_through(done)
    return done.result()


def _write(workspace: Workspace, going: Iterable[PathStep], coming: Iterable[tuple[PathStep, Path]]) -> None:
    root = workspace.root
    for step in sorted(going, key=lambda step: step.path, reverse=True):
        _still_there(root, step)
        remove_file(root, step.path)
    for step, place in coming:
        there, now = _still_there(root, step)
        if step.fits(now):
            place.unlink()
            continue
        if stat.S_ISREG(step.mode):
            if os.geteuid() == 0 and there is not None:
                # A file of another user stays theirs.
                os.chown(place, there.st_uid, there.st_gid)
            place.chmod(stat.S_IMODE(step.mode))
        if there is not None and stat.S_ISDIR(there.st_mode):
            _clear_folder(workspace, step.path)
        place_file(root, step.path, place)


def _remove(places: Iterable[Path]) -> None:
    for place in places:
        place.unlink(missing_ok=True)


def _clear_folder(workspace: Workspace, path: str) -> None:
    """Make way for a file: ignored files may be left in the folder, and nobody else keeps them."""
    if any(names for _, _, names in os.walk(workspace.root / path)):
        workspace.attic.take(workspace.root, path, "import")
    else:
        remove_folder(workspace.root / path)


def _still_there(root: Path, step: PathStep) -> tuple[os.stat_result | None, Now]:
    """What stands there: what did when it was decided, or what should."""
    status = status_of(root, step.path)
    now = Now.of(root / step.path, status)
    if now.blob != step.was and not step.fits(now):
        raise _ChangedMeanwhile
    return status, now


def _is_undone(root: Path, step: PathStep) -> bool:
    """Whether a step back can be taken: what was written is still there."""
    return Now.at(root, step.path).blob == step.was != step.blob


def _since_first(step: PathStep, noted: Mapping[str, PathStep]) -> PathStep:
    """A step that remembers what was there before the first try wrote."""
    before = noted.get(step.path)
    if before is None or step.was != before.blob:
        return step
    return PathStep(step.path, step.mode, step.blob, before.was_mode, before.was)


def _check(entry: Entry) -> None:
    """Refuse what is never imported; whoever reads a layer has left it out."""
    parts = file_parts(entry.path)
    if parts[0].lower() == ".interlock" and parts[1:2] not in (("agents",), ("prompts",), ("playbooks",)):
        raise PathRefused(entry.path, "it lies in the engine's own folder")
    if entry.blob and not (stat.S_ISREG(entry.mode) or stat.S_ISLNK(entry.mode)):
        raise PathRefused(entry.path, "it is neither a file nor a link")
    if stat.S_ISREG(entry.mode) and entry.mode & (stat.S_ISUID | stat.S_ISGID):
        raise PathRefused(entry.path, "it has a set-uid or set-gid bit")


def _write_note(note: Path, steps: Iterable[PathStep]) -> None:
    fresh = note.with_name(f"{note.name}.{uuid4().hex}")
    with fresh.open("w", encoding="ascii") as file:
        json.dump([[step.path, step.mode, step.blob, step.was_mode, step.was] for step in steps], file)
    fresh.replace(note)


def _noted(note: Path) -> dict[str, PathStep]:
    try:
        return {step.path: step for step in (PathStep(*parts) for parts in json.loads(note.read_text("ascii")))}
    except (OSError, ValueError, TypeError):
        return {}
