"""What a playbook can ask of its workspace as a whole; single documents have verbs of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from interlock.engine.model import Changed
from interlock.engine.recording import Recording
from interlock.workspace import Scope


class WorkspaceVerbs:
    """The workspace at certain moments, and what may be written in it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def place(self, path: str) -> str:
        """The absolute path of a file: for messages to people, never for a digest."""
        return str(self._recording.world.tree.root / path)

    def guarded(self, path: str) -> bool:
        """Whether a path is one that no program may change unless its scope names it (LY-33)."""
        return self._recording.guarded(path)

    async def snapshot(self) -> Any:
        """The workspace as it is now, to be asked later what `changes` there are since."""
        slot = self._recording.recall("snapshot", {})
        if slot.recorded:
            return slot.value()
        self._recording.materialize()
        token = await self._recording.world.tree.snapshot()
        slot.settle("snapshot", token)
        return token

    async def changes(self, since: Any, *, besides: Sequence[str] = (), only: Collection[str] | None = None) -> Changed:
        """What changed since a snapshot, paths under these globs left out; the difference is kept in the run folder.

        Args:
            only: the files that are looked at, where others change the workspace too.
        """
        named = {} if only is None else {"only": sorted(only)}
        slot = self._recording.recall("changes", {"since": since, "besides": list(besides), **named})
        if slot.recorded:
            return Changed.from_json(slot.value())
        left_out, world = Scope(tuple(besides)), self._recording.world
        now = await world.tree.snapshot()
        paths = [one.path for one in await world.tree.changes(since, now) if not left_out.covers(one.path)]
        paths = [path for path in paths if only is None or path in only]
        patch = await world.tree.patch(since, now, paths) if paths else b""
        lines = sum(line[:1] in (b"+", b"-") and line[:4] not in (b"+++ ", b"--- ") for line in patch.split(b"\n"))
        kept = world.records.keep(slot.key, "changes.patch", patch)
        found = Changed(tuple(paths), lines, kept)
        slot.settle("changes", asdict(found))
        return found
