"""From what a layer's program started: the snapshot that its work is compared with and merged from.

Theory of operation.  A snapshot of a large tree takes longer than the start of a program, so it is taken when that has
started.  Then a file may hold what a person wrote after the program had read it, and merged from that, their edit would
be lost.  So the snapshot before counts too, which was complete before the layer was made: a file that both know alike
was so in between.  One in which they differ was changed before the start or after it, and the file system's clock tells
which: when nothing has touched it since, the later snapshot has what the program saw.  Otherwise the earlier one is
taken: what is older than what the program saw can bring about a conflict, but loses nobody's edit.

Where there is no earlier snapshot, where the file system's clock cannot be asked, and for private copies, the snapshot
is taken before the layer is made.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from interlock.documents.files import read_plain, replace_file
from interlock.errors import DocumentInvalid, WorkspaceFailed
from interlock.workspace import patches
from interlock.workspace.git import seen_through, together
from interlock.workspace.layers import ignoring
from interlock.workspace.snapshots import Difference, Snapshot, Workspace

_COARSE = 5
"""Linux: the clock by which files get their times (CLOCK_REALTIME_COARSE)."""
_STARTING_S = 0.05


@dataclass(frozen=True)
class ProgramStart:
    """What was known of the tree when a program was about to start."""

    earlier: Snapshot
    since: int
    """A moment before the start, on the clock of the file system: what changed later has a later time of change."""
    on_disk: bool
    """Whether the file system is on a disk of this machine: then that clock is this kernel's."""

    def has_passed(self) -> bool:
        """Whether that clock is seen to have moved on; False when nobody can tell."""
        return self.on_disk and time.clock_gettime_ns(_COARSE) > self.since


class Base:
    """The base of one layer's work, in a file for whoever opens the layer again."""

    def __init__(self, workspace: Workspace, place: Path, known: Snapshot | None, start: ProgramStart | None) -> None:
        self._workspace = workspace
        self._place = place
        self._known = known
        self._start = start
        self._begun = time.monotonic()
        self._coming: asyncio.Task[Snapshot] | None = None
        self._wanted = asyncio.Event()

    @classmethod
    async def before(cls, workspace: Workspace, place: Path, *, live: bool) -> Self:
        """Before the layer is made.

        Args:
            live: the program will see the tree itself, not a copy.
        """
        place.parent.mkdir(parents=True, exist_ok=True)
        if live and workspace.latest is not None and (since := _now_on(place.parent, workspace.root)) is not None:
            on_disk = os.major(workspace.root.stat().st_dev) != 0  # 0: of servers, and of other file systems
            return cls(workspace, place, None, ProgramStart(workspace.latest, since, on_disk))
        taken = await workspace.snapshot()
        base = cls(workspace, place, taken, None)
        base._keep(taken)
        return base

    @classmethod
    def kept(cls, workspace: Workspace, place: Path) -> Self | None:
        """As another process left it; None when nothing says from what the program started."""
        try:
            return cls(workspace, place, Snapshot.from_json(json.loads(read_plain(place))), None)
        except (OSError, ValueError, DocumentInvalid):
            return None

    async def allows_start(self) -> None:
        """When this returns, the program may start."""
        if self._start is None or self._coming is not None:
            return
        # Until the file system's clock has moved on: what is changed from then on has a later time.
        if not self._start.has_passed():
            moved_on = self._begun + time.clock_getres(_COARSE)
            await asyncio.sleep(max(0.0, moved_on - time.monotonic()))
        # Whoever goes on after a crash in the next moments has this one, which is safe.
        self._keep(self._start.earlier)
        self._begin(self._start)

    async def snapshot(self) -> Snapshot:
        if self._known is None:
            assert self._start is not None
            self._wanted.set()
            self._known = await asyncio.shield(self._coming or self._begin(self._start))
        return self._known

    async def rest(self) -> None:
        """Nothing is at work on it any more."""
        # Seen through: whoever goes on in this layer is better off with it than with the earlier one.
        self._wanted.set()
        if self._coming is not None:
            try:
                await seen_through(self._coming)
            finally:
                self._workspace.ignoring.end()
                self._workspace.differing.end()

    def forget(self) -> None:
        self._place.unlink(missing_ok=True)

    def _begin(self, start: ProgramStart) -> asyncio.Task[Snapshot]:
        self._coming = asyncio.create_task(self._take(start))
        self._coming.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._coming

    async def _take(self, start: ProgramStart) -> Snapshot:
        with suppress(TimeoutError):  # The start of a program is not to wait for processors.
            await asyncio.wait_for(self._wanted.wait(), _STARTING_S)
        settled = await _settled(self._workspace, start, await self._workspace.snapshot())
        self._keep(settled)
        if not self._wanted.is_set():
            with suppress(WorkspaceFailed, OSError):  # who asks gets to know
                await together(ignoring.prepare(self._workspace), patches.prepare(self._workspace))
        return settled

    def _keep(self, base: Snapshot) -> None:
        replace_file(self._place, json.dumps(base.to_json()).encode(), sync=False)


def _now_on(folder: Path, root: Path) -> int | None:
    """What time it is for the file system of a workspace; None when the engine's folder cannot tell."""
    try:
        os.utime(folder)
        status = folder.stat()
        return status.st_ctime_ns if status.st_dev == root.stat().st_dev else None
    except OSError:
        return None


async def _settled(workspace: Workspace, start: ProgramStart, later: Snapshot) -> Snapshot:
    """The later snapshot, with those files from the earlier one that may have changed in between the wrong way."""
    if start.earlier == later:
        return later
    old = dict(start.earlier.trees)
    trees: list[tuple[str, str]] = []
    for folder, tree in later.trees:
        place = workspace.root / folder if folder else workspace.root
        differing = await workspace.differences(tree, old.get(folder, tree))
        back = await asyncio.to_thread(_touched_since, start.since, place, differing)
        trees.append((folder, await workspace.edited(tree, back)))
    return Snapshot(tuple(trees))


def _touched_since(since: int, root: Path, differing: list[Difference]) -> list[Difference]:
    return [one for one in differing if _is_touched(since, root, one.path)]


def _is_touched(since: int, root: Path, path: str) -> bool:
    """Whether a file may have been changed, or put there, after a moment."""
    place, above = root, root.lstat()
    for part in path.split("/"):
        place = place / part
        try:
            status = place.lstat()
        except OSError:
            # It is not there: the folder says when something last went.
            return above.st_ctime_ns > since
        if not stat.S_ISDIR(status.st_mode):
            break
        if status.st_mtime_ns <= since < status.st_ctime_ns:
            return True  # Nothing in this folder has come or gone, so the folder itself was put here.
        above = status
    return status.st_ctime_ns > since
