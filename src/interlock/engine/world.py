"""The world as the engine sees it: two classes have it, the real one and the simulated one, and nothing lies between.

A `Tree` is the name of a git tree (simulated: of a table of files).  Everything here may take long, fail with an
`InterlockError`, or be cut off by the death of the process; what has an effect is noted in the journal before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from interlock.agents.values import CommandExit, News
from interlock.workspace.values import Tree

if TYPE_CHECKING:
    from interlock.engine.real import RealSeat, RealWorld
    from interlock.engine.simulation import Simulated, SimulatedSeat

World: TypeAlias = "RealWorld | Simulated"
"""All that a run can touch."""
Seat: TypeAlias = "RealSeat | SimulatedSeat"
"""A layer in which one agent works."""
Hear = Callable[[News], None]


@dataclass(frozen=True)
class Command:
    """A command that the engine runs: a line for the shell, in the folder where the person stood."""

    name: str
    line: str
    origin: str = "named"
    """`named` by a person, else the file that says it."""
    timeout_s: float = 1800


@dataclass(frozen=True)
class Checked:
    """How one run of a command on one tree ended."""

    exit: CommandExit
    tests: Mapping[str, str] | None = None
    opened: tuple[str, ...] = ()
    moved: bool = False
    """The person's tree changed while it ran: it says nothing about one tree."""


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


class Table:
    """A tree as something to look at (`toolchains.Look`)."""

    def __init__(self, names: Collection[str], content: Callable[[str], bytes | None]) -> None:
        self._names, self._content = names, content

    def read(self, path: str) -> str | None:
        content = self._content(path) if path in self._names else None
        return None if content is None else content[:1_000_000].decode("utf-8", "replace")

    def paths(self) -> list[str]:
        return sorted(self._names)

    def list(self, folder: str) -> list[str]:
        lead = "" if folder in (".", "") else f"{folder}/"
        return sorted({path[len(lead) :].partition("/")[0] for path in self._names if path.startswith(lead)})
