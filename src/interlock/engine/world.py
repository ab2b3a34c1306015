"""The world as the engine sees it: two classes have it, the real one and the simulated one, and nothing lies between.

A `Tree` is the name of a git tree (simulated: of a table of files).  Everything here may take long, fail with an
`InterlockError`, or be cut off by the death of the process; what has an effect is noted in the journal before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from interlock.agents.values import Ask, CommandExit, Exit, News, Role
from interlock.engine.events import GateDecided
from interlock.engine.folder import Folder, Message
from interlock.engine.toolchains import Look
from interlock.engine.view import GateView
from interlock.workspace.values import (
    BranchFacts,
    Change,
    Committed,
    Found,
    Landing,
    Merged,
    Pending,
    Standing,
    Tree,
    Where,
)

T = TypeVar("T")
Hear = Callable[[News], None]


@dataclass(frozen=True)
class Command:
    """A command that the engine runs: a line for the shell, in the folder where the person stood."""

    name: str
    line: str
    origin: str = "named"
    """`named` by a person, or `found`, with its file."""
    timeout_s: float = 1800


@dataclass(frozen=True)
class Checked:
    """How one run of a command on one tree ended."""

    exit: CommandExit
    tests: Mapping[str, str] | None = None
    opened: tuple[str, ...] = ()
    moved: bool = False
    """The person's tree changed while it ran: it says nothing about one tree."""


class Seat(Protocol):
    """A layer in which one agent works."""

    name: str
    shown: Tree
    confined: bool

    async def found(self, own: Mapping[str, str]) -> Found: ...
    async def read(self, path: str) -> bytes | None: ...
    async def drop(self, *, keep_ignored: bool) -> None: ...


@dataclass(frozen=True)
class CommitOrder:
    """A commit of the run's work alone, merged onto the head of a branch."""

    base: Tree
    work: Tree
    message: str
    at: datetime
    branch: str = ""
    """A new branch from HEAD; empty: the run's own."""


@dataclass
class Toolbox:
    """What was found to run in the workspace (EVID-05)."""

    commands: list[Command] = field(default_factory=list)
    setup: Command | None = None


class World(Protocol):
    """All that a run can touch."""

    @property
    def folder(self) -> Folder: ...
    def now(self) -> datetime: ...
    def draw(self, length: int) -> str: ...
    def cores(self) -> int: ...
    async def sleep_until(self, at: datetime) -> None: ...
    async def together(
        self, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int, begin: Callable[[str], None]
    ) -> dict[str, T]:
        """Run members side by side, at most `cap` at once; an error ends the others, a halt lets them finish."""
        ...

    def redact(self, text: str) -> str: ...

    # the person's workspace and its trees
    def where(self) -> Where: ...
    async def standing(self, where: Where, last: Standing | None) -> Standing: ...
    async def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged: ...
    async def between(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> list[Change]: ...
    async def patch(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> bytes: ...
    async def graft(self, tree: Tree, source: Tree, paths: Sequence[str]) -> Tree: ...
    async def read(self, tree: Tree, path: str) -> bytes | None: ...
    async def keep(self, trees: Sequence[Tree]) -> None:
        """Nobody's `gc` takes these away while the run is there."""
        ...

    async def owned(self, own: Mapping[str, str], standing: Standing, before: Tree, after: Tree) -> dict[str, str]:
        """What a run delivered, after one delivery more: path -> blob, where nothing unsaved of the person is in it."""
        ...

    # effects on it
    async def deliver(self, before: Tree, after: Tree, modes: Mapping[str, int] | None = None) -> Landing:
        """Make the tree have what `after` has and `before` has not; `modes`: of files that come again."""
        ...

    async def without(self, before: Tree, after: Tree, now: Tree) -> tuple[Tree, tuple[str, ...]]:
        """`now` without what changed from `before` to `after`, and the paths on which a later change keeps some."""
        ...

    async def finish(self, before: Tree, after: Tree) -> Landing: ...
    async def document(self, path: str) -> bytes | None: ...
    async def names(self, folder: str) -> list[str]:
        """Of the files in a folder of the workspace."""
        ...

    async def write(self, path: str, content: bytes) -> None: ...
    async def aside(self, path: str, key: str) -> str:
        """Move a document into the attic, once for that key; where it lies now, from the workspace."""
        ...

    async def commit_tree(self, where: Where, order: CommitOrder) -> Tree | None:
        """The tree of that commit in raw spelling, where it is another than `order.work`."""
        ...

    async def plan_commit(self, where: Where, order: CommitOrder) -> Committed: ...
    async def publish(self, where: Where, commit: str, branch: str) -> Committed: ...
    async def hooks(self, where: Where, order: CommitOrder) -> CommandExit | None:
        """The person's commit hooks, run in a layer over the tree to be committed; None: there are none."""
        ...

    async def pull_request(self, branch: str, title: str, body: str) -> Committed: ...
    async def committed(self, standing: Standing) -> Tree:
        """What is committed on the branch that is checked out."""
        ...

    async def branch(self, name: str) -> BranchFacts:
        """What is checked out, and how a branch stands to it."""
        ...

    async def unsaved(self, standing: Standing) -> list[Change]:
        """What the person has not committed, against the head of the branch that is checked out."""
        ...

    async def switch(self, branch: str, *, new: bool) -> str:
        """Check a branch out, without hooks; a new one begins where the person stands. Why not, or nothing."""
        ...

    async def stash(self, paths: Sequence[str], note: str) -> Committed:
        """Put what is not committed of these paths away, once for that note; `commit` holds the stash."""
        ...

    # agents and commands
    def role(self, name: str, *, judges: bool, file: str = "") -> Role:
        """Who plays a role; `file`: its file, in place of what is looked up."""
        ...

    async def seat(self, slot: str, role: Role, standing: Standing, shown: Tree, *, goes_on: bool) -> Seat | None:
        """A layer that shows this tree; with `goes_on` the one of before as it lies, or None where it is gone."""
        ...

    async def call(self, ask: Ask, seat: Seat, hear: Hear) -> Exit: ...
    async def recover(self, ask: Ask, seat: Seat) -> Exit | None:
        """What a call came to whose engine died before it could say so; None where its turn had not ended."""
        ...

    async def toolbox(self, tree: Tree, place: str) -> Toolbox: ...
    async def look(self, tree: Tree, find: Callable[[Look], T]) -> T:
        """What a pure function finds in a tree."""
        ...

    async def product(self, command: Command, tree: Tree, paths: Sequence[str]) -> set[str]:
        """Which of these are product, and no part of what the command checks with (EVID-07)."""
        ...

    async def check(
        self,
        command: Command,
        standing: Standing,
        tree: Tree,
        *,
        keeps: bool = False,
        changed: Sequence[str] = (),
        seat: Seat | None = None,
    ) -> Checked: ...
    async def setup(self, command: Command, standing: Standing, tree: Tree) -> CommandExit | None:
        """Prepare the engine's cache, where its manifest changed or what it makes is missing; None: nothing to do."""
        ...

    # people
    async def ask(self, gate: GateView) -> Message | None:
        """The decision of a person who is there; None: nobody is."""
        ...


__all__ = ["Checked", "Command", "CommitOrder", "GateDecided", "Hear", "Pending", "Seat", "Toolbox", "World"]
