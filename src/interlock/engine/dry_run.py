"""What a run would do next, found by doing everything before it in memory (CM-32)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from interlock import __version__
from interlock.documents import Document, FileFacts, Written
from interlock.engine.definition import Playbook
from interlock.engine.folder import RunFolder, last_run
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, MemoryMedium, stamp_now
from interlock.engine.keys import sha256
from interlock.engine.lifecycle import ended_as
from interlock.engine.objects import MemoryObjects, Objects
from interlock.engine.playing import Finished, play
from interlock.engine.recording import Recording
from interlock.engine.runs import Setup
from interlock.engine.simulated_disk import MemoryDocuments, MemoryRecords, MemoryTree
from interlock.engine.world import Documents


class OverlaidDocuments:
    """The documents of the workspace, with writes that stay in memory."""

    def __init__(self, below: Documents) -> None:
        self._below = below
        self._tree = MemoryTree({})
        self._above = MemoryDocuments(self._tree)
        self._gone: set[str] = set()

    def facts(self, path: str) -> FileFacts:
        if path in self._gone:
            return FileFacts.absent(path)
        return self._above.facts(path) if path in self._tree.files else self._below.facts(path)

    def read(self, path: str) -> Document:
        return Document.of(self.facts(path))

    def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written:
        below = self.facts(path)
        if path not in self._tree.files and below.content is not None:
            self._tree.put(path, below.content)
        self._gone.discard(path)
        return self._above.write(path, content, expect=expect)

    def list(self, folder: str, pattern: str = "*") -> list[str]:
        paths = {*self._below.list(folder, pattern), *self._above.list(folder, pattern)}
        return sorted(paths - self._gone)

    def place_aside(self, path: str, into: str) -> str:
        return self._below.place_aside(path, into)

    def set_aside_to(self, path: str, destination: str) -> str:
        content = self.facts(path).content
        self._tree.put(destination, content)
        self._tree.put(path, None)
        self._gone.add(path)
        return destination


class OverlayRecords(MemoryRecords):
    """Objects of the real run can be read; nothing is written to its folder."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder
        self.objects = _ReadThrough(folder.objects)

    def folder(self, key: str) -> Path:
        return self._folder.folder(key)


class _ReadThrough(MemoryObjects):
    def __init__(self, below: Objects) -> None:
        super().__init__()
        self._below = below

    def get(self, digest: str) -> bytes:
        return self._content[digest] if digest in self._content else self._below.get(digest)


async def dry_run(root: Path, setup: Setup, playbook: Playbook, inputs: Any) -> Finished:
    """Play the playbook, or its open run, up to the first dispatch, command or gate; the workspace stays as it is.

    `Finished.before` is what would come next; its run is the open one, if there is one.
    """
    last = last_run(root, playbook.name, playbook.key(inputs))
    if last is not None and ended_as(last.folder.lines()) is not None:
        last = None
    if last is not None:
        identity, folder = last.identity, last.folder
        medium = MemoryMedium(folder.medium().load())
        genesis = folder.genesis()
    else:
        identity = Identity.of(playbook, inputs, run_id="dry-run", version=__version__, started_at=stamp_now())
        folder = RunFolder(root, identity.run_id)
        medium = MemoryMedium()
        genesis = sha256(identity_bytes(identity))
    world: Any = setup.world(folder, playbook, inputs)
    world.documents = OverlaidDocuments(world.documents)
    world.records = OverlayRecords(folder)
    journal = Journal(medium, run_id=identity.run_id, genesis=genesis, clock=stamp_now, held=last is None)
    options = replace(setup.options(playbook), stop_before_work=True, flags={"no_preflight": True})
    finished = await play(Recording(playbook, identity, journal, world, options=options))
    return replace(finished, run_id=last.identity.run_id if last else None)
