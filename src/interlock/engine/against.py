"""Recorded runs, played with the playbook as it is now: the first key that differs is named (OWN-04).

Nothing happens: what is recorded returns at once, and where a run asks for more than that it is over.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from interlock.engine.folder import Folder, InMemory
from interlock.engine.halts import Halted
from interlock.engine.journal import Memory
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.simulation import Simulated, drive
from interlock.errors import Diverged


@dataclass(frozen=True)
class Compared:
    """How far a recorded run goes with a playbook."""

    kept: int
    """Keys that are asked for as they are recorded."""
    key: str = ""
    """The first that is not; empty: all that is recorded is asked for."""
    what: str = ""


class _Beyond(Halted):
    """It asks for more than is recorded."""


class _Records(InMemory):
    """What a run recorded, to be read; what is added is nobody's."""

    def __init__(self, folder: Folder) -> None:
        super().__init__()
        self._folder = folder
        self.medium = Memory(folder.medium.load())

    def get(self, digest: str) -> bytes:
        return self.objects[digest] if digest in self.objects else self._folder.get(digest)


class _Nowhere:
    """A world in which nothing can be done."""

    def __init__(self, folder: Folder) -> None:
        self.folder = _Records(folder)

    together = Simulated.together

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def document(self, path: str) -> bytes | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return _beyond


def _beyond(*_: Any, **__: Any) -> Any:
    raise _Beyond


def against(playbook: Playbook, folder: Folder, *, settings: Any, own: Mapping[str, tuple[str, str]]) -> Compared:
    """A recorded run, with the playbook as it is now.

    Args:
        own: texts of the team in place of the playbook's.
    """
    world: Any = _Nowhere(folder)
    player = Player(playbook, world, Prompts(playbook.prompts, own), settings=settings)
    key = what = ""
    try:
        contextvars.copy_context().run(lambda: drive(player.play()))
    except Diverged as error:
        key, what = error.key, error.what.partition(": ")[2]
    except Halted:
        pass
    return Compared(player.recorder.kept, key, what)
