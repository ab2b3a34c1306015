"""What the engine needs from the world. There are two worlds: the real one and the simulated one.

Everything a verb does to anything outside its journal goes through a `World`.  The run, its keys, its replay,
its dispatch procedure and its clusters are the same code in both; that is what makes a rehearsal a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from interlock.agents.book import Bound
from interlock.agents.runner import AgentExit, AgentRequest, Observer
from interlock.documents import Document, FileFacts, Written
from interlock.engine.model import CommandResult
from interlock.engine.objects import Objects
from interlock.workspace import Change

T = TypeVar("T")
SnapshotToken = Any
"""A snapshot as JSON data; only its tree can read it."""


class Tree(Protocol):
    """A folder in which a dispatch works: the workspace, or a worktree of its own."""

    @property
    def root(self) -> Path: ...

    async def snapshot(self) -> SnapshotToken: ...

    async def changes(self, before: SnapshotToken, after: SnapshotToken) -> Sequence[Change]: ...

    async def patch(self, before: SnapshotToken, after: SnapshotToken, paths: Sequence[str]) -> bytes: ...

    async def restore(self, snapshot: SnapshotToken, paths: Sequence[str]) -> None: ...

    def facts(self, path: str) -> FileFacts: ...

    async def move_to_attic(self, paths: Sequence[str], into: str) -> list[str]: ...

    async def close(self) -> None: ...


class Documents(Protocol):
    """The documents of the workspace, read and written by the engine alone."""

    def read(self, path: str) -> Document: ...

    def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written: ...

    def list(self, folder: str, pattern: str = "*") -> list[str]: ...

    def place_aside(self, path: str, into: str) -> str: ...

    def set_aside_to(self, path: str, destination: str) -> str: ...

    def facts(self, path: str) -> FileFacts: ...


class Records(Protocol):
    """The run folder: ``run.json``, objects, and one folder per dispatch."""

    @property
    def objects(self) -> Objects: ...

    def create(self, identity: bytes) -> None: ...

    def folder(self, key: str) -> Path:
        """Where the records of this dispatch are."""
        ...

    def keep(self, key: str, name: str, content: bytes) -> str:
        """Store a record of a dispatch; returns its path relative to the workspace."""
        ...

    def keep_json(self, key: str, name: str, value: Any) -> None: ...

    def begin_try(self, key: str, number: int) -> None:
        """Make room for try `number`: the records of the one before move into a folder of their own."""
        ...

    def shown(self, path: Path) -> str:
        """A path below the run folder as a person in the workspace would write it."""
        ...


KEPT_OF_OUTPUT = 200_000
"""Bytes of a command's output that its result carries, the last ones; the whole lies in the run folder."""


@dataclass(frozen=True)
class CommandCall:
    argv: tuple[str, ...]
    cwd: str = "."
    timeout_s: float = 1800.0
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    keep: int = KEPT_OF_OUTPUT
    """Bytes of the output that the result carries."""


@dataclass(frozen=True)
class Merged:
    """What a merge did: the paths it wrote, or the conflicts that kept it from writing anything."""

    paths: tuple[str, ...] = ()
    conflicts: Mapping[str, str] = field(default_factory=dict)
    """Path to conflict text of each file that two sides changed."""

    @property
    def ok(self) -> bool:
        return not self.conflicts

    def to_json(self) -> dict[str, Any]:
        return {"paths": list(self.paths), "conflicts": dict(self.conflicts)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Merged:
        return cls(tuple(value["paths"]), value["conflicts"])


class World(Protocol):
    @property
    def documents(self) -> Documents: ...

    @property
    def records(self) -> Records: ...

    @property
    def tree(self) -> Tree: ...

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...

    async def patiently(self, look: Callable[[], T]) -> T:
        """The result of something that may hang (a dead network folder) without hanging the run with it."""
        ...

    def draw(self, length: int) -> str:
        """Random characters ``0-9a-z``."""
        ...

    def claim_session(self, session: str, run_id: str) -> bool:
        """Whether this session id is now ours; False when another dispatch has it."""
        ...

    def redact(self, text: str) -> str:
        """The text without the values of variables that look like secrets (CM-29)."""
        ...

    def bind(self, agent: str) -> Bound:
        """How this agent is called; ConfigInvalid when nothing is bound to the name."""
        ...

    async def call(self, binding: Bound, request: AgentRequest, observe: Observer) -> AgentExit: ...

    async def command(self, call: CommandCall, *, key: str, marker: str) -> CommandResult: ...

    async def inspect(self, call: CommandCall, *, marker: str) -> CommandResult:
        """A command that only looks; leaves no file behind, not even among the run's records."""
        ...

    def working(self) -> AbstractAsyncContextManager[None]:
        """Held while something works in the shared tree (EN-39)."""
        ...

    async def isolated(self, snapshot: SnapshotToken, name: str) -> Tree: ...

    async def merge(self, base: SnapshotToken, theirs: SnapshotToken, paths: Sequence[str], label: str) -> Merged: ...

    def end_leftovers(self, prefix: str, group: int | None, started: float | None) -> list[int]:
        """End what a dead process left of a dispatch or command; the ids that were ended."""
        ...
