"""What the engine needs from the world. There are two worlds: the real one and the simulated one.

Everything a verb does to anything outside its journal goes through a `World`.  The run, its keys, its replay,
its dispatch procedure and its clusters are the same code in both; that is what makes a rehearsal a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interlock.agents.roster import BoundAgent
from interlock.agents.runner import AgentExit, AgentRequest, Enclosure, Observer
from interlock.documents import Document, FileFacts, Written
from interlock.engine.model import CommandResult
from interlock.engine.objects import Objects
from interlock.workspace import Exit, Found, PathChange, Repository

if TYPE_CHECKING:
    from interlock.engine.definition import Playbook

T = TypeVar("T")
SnapshotToken = Any
"""A snapshot as JSON data; only its tree can read it."""


WorkToken = Any
"""Changed files as JSON data; only its world can read it."""


class Tree(Protocol):
    """The user's tree. Nothing but people and accepted work ever changes it."""

    @property
    def root(self) -> Path: ...

    async def snapshot(self) -> SnapshotToken: ...

    async def changes(self, before: SnapshotToken, after: SnapshotToken) -> Sequence[PathChange]: ...

    async def patch(self, before: SnapshotToken, after: SnapshotToken, paths: Sequence[str]) -> bytes: ...

    async def past(self, snapshot: SnapshotToken, paths: Sequence[str]) -> WorkToken:
        """These files as they were then, as work from which a layer can start."""
        ...


class Layer(Protocol):
    """Where one dispatch or command works: it sees the workspace, and all that it writes stays in here."""

    @property
    def enclosure(self) -> Enclosure:
        """Where its program runs."""
        ...

    @property
    def exchange(self) -> Path:
        """A folder that the program and the engine share: brief in, answer out."""
        ...

    def exit(self) -> Exit | None:
        """How the program that was started here ended, as its launcher left it; for whoever resumes."""
        ...

    def forget_exit(self) -> None: ...

    def facts(self, path: str) -> FileFacts: ...

    async def found(self) -> Found:
        """What changed since the layer was made, whatever people did to the tree meanwhile."""
        ...

    async def work(self, paths: Sequence[str]) -> WorkToken: ...

    def show(self, path: str, content: bytes) -> None:
        """Lay a file of the engine's own folder before the program, which does not see the real one."""
        ...

    async def start_from(self, work: WorkToken) -> None: ...

    async def revert(self, paths: Sequence[str]) -> None: ...

    async def take_ignored(self, paths: Sequence[str]) -> None: ...

    async def rest(self) -> None:
        """Nothing of ours is at work on it any more, and all that it holds is on disk; it stays for whoever opens it
        again."""
        ...

    async def close(self) -> None:
        """Drop the layer; a login that its client refreshed is kept."""
        ...


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

    def last_sign(self, key: str) -> datetime | None:
        """When the call that this dispatch made last was last heard of."""
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
class Imported:
    """What an import did: the paths it wrote, or the conflicts that kept it from writing anything."""

    paths: tuple[str, ...] = ()
    conflicts: Mapping[str, str] = field(default_factory=dict)
    """Path to conflict text of each file that two sides changed."""

    @property
    def ok(self) -> bool:
        return not self.conflicts


class World(Protocol):
    @property
    def documents(self) -> Documents: ...

    @property
    def records(self) -> Records: ...

    @property
    def tree(self) -> Tree: ...

    @property
    def repository(self) -> Repository:
        """The user's own git."""
        ...

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

    def bind(self, agent: str) -> BoundAgent:
        """How this agent is called; ConfigInvalid when nothing is bound to the name."""
        ...

    def for_called(self, playbook: Playbook, inputs: Any) -> World:
        """The same world for a playbook that is called: its agents are bound, its documents are seen."""
        ...

    async def call(self, binding: BoundAgent, request: AgentRequest, observe: Observer) -> AgentExit: ...

    async def recall(self, binding: BoundAgent, request: AgentRequest, ended: Exit) -> AgentExit | None:
        """What a call came to that ended before its engine could record it; None when that cannot be told."""
        ...

    async def unready(self, agents: Sequence[str]) -> Sequence[str]:
        """Why some of these agents cannot be called, as far as that can be told for nothing; a sentence each."""
        ...

    def can_go_on(self, binding: BoundAgent) -> bool:
        """Whether this agent can go on with a session of its own in a new process."""
        ...

    async def layer(self, name: str, binding: BoundAgent | None, *, outer: Mapping[str, Any] | None = None) -> Layer:
        """A new layer, for an agent or (without one) for a command. `outer`: what a nested run is told of it."""
        ...

    async def kept_layer(
        self, name: str, binding: BoundAgent | None, *, outer: Mapping[str, Any] | None = None
    ) -> Layer | None:
        """The layer of that name that a process which is gone left behind."""
        ...

    async def bring_in(self, work: WorkToken, label: str) -> Imported:
        """Merge changed files into the user's tree, all or none; done again after a crash it finishes."""
        ...

    async def patch_of(self, work: WorkToken) -> bytes: ...

    async def command(self, call: CommandCall, *, key: str, marker: str, within: Layer) -> CommandResult: ...

    async def inspect(self, call: CommandCall, *, marker: str) -> CommandResult:
        """A command that only looks; leaves no file behind, not even among the run's records."""
        ...

    def end_leftovers(self, prefix: str, group: int | None, started: float | None) -> list[int]:
        """End what a dead process left of a dispatch or command; the ids that were ended."""
        ...


def redacted(world: World, raw: bytes) -> bytes:
    """Bytes for a record, without the secrets that are known (LY-39)."""
    return world.redact(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
