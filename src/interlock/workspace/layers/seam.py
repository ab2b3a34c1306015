"""The seam between the engine and whatever keeps an agent's writes apart from the user's tree.

Theory of operation.  A program that works for a dispatch or a command never writes into the user's tree.  It sees the
workspace at `DiskLayer.root` and writes into a *layer*: a folder of its own in ``.interlock/layers/``.  What it changed
is what its layer holds.  The engine looks at that (`found`), puts what counts into the shadow repository (`work`), and
brings it into the tree (`interlock.workspace.bring_in`); the layer is dropped afterwards.

Three makers stand behind it.  Two lay an overlay over the workspace at its usual path, in namespaces of its own, and
confine the program by the kernel: bubblewrap, or our own launcher.  Where the kernel refuses, the program works in a
private copy at another path, unconfined.  All else is the same for all three, and one suite runs over them.

A layer outlives the process that made it: after a crash it is opened again by its name, with everything in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

from interlock.documents import FileFacts
from interlock.errors import ConfigInvalid
from interlock.workspace.layers.nursery import Forked
from interlock.workspace.snapshots import PathChange, Snapshot


class Mode(StrEnum):
    """How much confinement is asked for (`[sandbox] mode`)."""

    AUTO = "auto"
    """Confined where the kernel allows it."""
    STRICT = "strict"
    """Confined, or not at all."""
    OFF = "off"
    """A private copy; nothing keeps the program from the rest of the machine."""


class Network(StrEnum):
    """What a confined program reaches (`[sandbox] network`)."""

    OPEN = "open"
    MODEL = "model"
    """The model's hosts only, through a proxy with an allow-list."""
    NONE = "none"


@dataclass(frozen=True)
class Bounds:
    """How much one layer may hold; over it, nothing of it is imported."""

    size: int = 4_000_000_000
    """Bytes, all files together."""
    files: int = 400_000


@dataclass(frozen=True)
class Confinement:
    """What a program may see and reach. Paths are absolute, as they are on this machine."""

    mode: Mode = Mode.AUTO
    network: Network = Network.OPEN
    home: Path | None = None
    """The program's HOME: private, but for what is named below; None: the user's home is hidden."""
    login: tuple[Path, ...] = ()
    """Files that its client needs to be signed in: a private copy each; what the client refreshed is brought back."""
    shown: tuple[Path, ...] = ()
    """Files and folders of HOME, or of other hidden places, that can be read; what is written to them is dropped."""
    hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` that it may reach with `Network.MODEL`."""
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True)
class Found:
    """What a layer holds, compared with the snapshot from which its program started. Nothing is left out."""

    changes: tuple[PathChange, ...] = ()
    """Files that count (git of the user would not ignore them; the agent's own ignore rules hide nothing), sorted.
    Touched but identical is no change; a changed type or mode is a modification."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Changed things that the user's project ignores: topmost folder (with ``/``) or file, to its number of files."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Path to the reason why it can never be imported: device, socket, pipe, set-uid bit, a link that leads out.
    Such a path is in `changes` too."""
    repository: tuple[str, ...] = ()
    """What the program did to the user's git, as sentences: commits, branches, stashes, hooks, settings."""
    files: int = 0
    size: int = 0
    over: str = ""
    """Which bound it exceeds, as a sentence; then nothing else is filled in."""


@dataclass(frozen=True)
class Entry:
    """One file as a layer left it."""

    path: str
    mode: int
    """Type and permission bits, exactly; 0 for a deleted file."""
    blob: str
    """Its content (a link's target) in the shadow repository; empty for a deleted file."""


@dataclass(frozen=True)
class KeptWork:
    """Changed files, kept in the shadow repository, with the snapshot they were made from. Independent of any layer."""

    base: Snapshot
    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        return {"base": self.base.to_json(), "entries": [[e.path, e.mode, e.blob] for e in self.entries]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(Snapshot.from_json(value["base"]), tuple(Entry(*entry) for entry in value["entries"]))

    def only(self, paths: Sequence[str]) -> KeptWork:
        wanted = set(paths)
        return KeptWork(self.base, tuple(entry for entry in self.entries if entry.path in wanted))


@dataclass(frozen=True)
class Exit:
    """How the program in a layer ended, as its launcher left it beside the layer."""

    code: int
    """Exit status, negative for a signal."""
    at: str
    """When, as an ISO time."""


class DiskLayer(Protocol):
    """A place of its own for one dispatch or command. `root` and `exchange` are paths as the program sees them."""

    @property
    def name(self) -> str: ...

    @property
    def root(self) -> Path:
        """The workspace, as the program sees it: its usual path, or that of a private copy."""
        ...

    @property
    def exchange(self) -> Path:
        """A folder that program and engine both see at this path and may write to."""
        ...

    @property
    def confined(self) -> bool:
        """Whether the kernel keeps the program from everything else."""
        ...

    @property
    def sealed(self) -> bool:
        """Whether programs have a process namespace of their own: what they started has ended when their launcher ends
        in order."""
        ...

    def command_line(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> list[str]:
        """What to start instead of `argv`, with the same environment, so that it runs in the layer.

        May be called any number of times, one program at a time or several: each time what the layer holds is there.
        The program's exit is left for `exit`; everything it started ends with it.
        """
        ...

    def fork(self, command_line: Sequence[str], *, env: Mapping[str, str], stdin: int) -> Forked | None:
        """Start what `command_line` gave, without a new Python for it; None when that is not possible here."""
        ...

    async def settled(self) -> None:
        """When this returns, what programs that have ended wrote is on disk, and so is the exit of the last one. Until
        then it can be read, and nothing more is written; only another program has to wait for that."""
        ...

    def connected(self, environ: Mapping[str, str]) -> AbstractAsyncContextManager[Mapping[str, int]]:
        """Meanwhile the way to the model's hosts is open, where the network is cut (`Network.MODEL`); what was asked
        for in vain, and how often."""
        ...

    def exit(self) -> Exit | None:
        """How the last program that was started here ended; None when it has not, or was ended with its engine."""
        ...

    def forget_exit(self) -> None:
        """Before another program is started here."""
        ...

    def facts(self, path: str) -> FileFacts:
        """What the program left at this path of the workspace; its untouched files are the tree's."""
        ...

    async def found(self, base: Snapshot) -> Found: ...

    async def work(self, base: Snapshot, paths: Sequence[str]) -> KeptWork:
        """Put what the layer has at these paths into the shadow repository; a path that is not there is a deletion."""
        ...

    def show(self, path: str, content: bytes) -> None:
        """Lay a file of the engine's folder (``.interlock/...``) before the program: it does not see the real one."""
        ...

    async def start_from(self, work: KeptWork) -> None:
        """Lay files into the layer before its program starts, merged with what the tree has by now. A file that cannot
        be merged is left as the tree has it."""
        ...

    async def revert(self, base: Snapshot, paths: Sequence[str]) -> None:
        """Make these paths in the layer what they were at `base`: a next try does not find them."""
        ...

    async def take_ignored(self, paths: Sequence[str]) -> None:
        """Move ignored files and folders (keys of `Found.ignored`) from the layer into the user's tree."""
        ...

    async def bring_back_logins(self) -> None:
        """Where the client refreshed its login, the user's own file gets it, atomically and with its mode."""
        ...

    async def drop(self) -> None:
        """Free the layer's name at once; what it holds is removed meanwhile, whatever modes a program gave to it, and
        is gone before the event loop is."""
        ...


@dataclass(frozen=True)
class Probe:
    """Which maker is used here, for `doctor`, the start of a run and gates."""

    maker: str
    """``bubblewrap``, ``namespaces`` or ``copy``."""
    confined: bool
    why: str
    """Why this one, and why not a better one, as a sentence."""
    remedy: str = ""
    """How to get a better one; empty when there is none."""

    def check(self, mode: Mode) -> None:
        """`ConfigInvalid` where the mode asks for confinement and there is none (LY-12)."""
        if mode is Mode.STRICT and not self.confined:
            raise ConfigInvalid(
                "agents cannot be confined here, and the settings ask for it",
                where="[sandbox] mode",
                expected='confinement, since mode is "strict"',
                found=self.why,
                remedy=self.remedy or 'Set mode = "auto".',
            )


UNPROMISED = (
    "with a mere copy nothing keeps an agent from your other files, your logins, the network, .interlock/ and your own "
    "tree by its real path, and what it starts may outlive it; what it changes in its copy is checked as ever"
)
"""What people are told wherever agents are not confined."""


class Layers(Protocol):
    """The layers of one workspace."""

    def probe(self) -> Probe: ...

    async def make(self, name: str, confinement: Confinement, *, parent: bytes | None = None) -> DiskLayer:
        """A new, empty layer; a leftover of that name is dropped first. `ConfigInvalid` when `Mode.STRICT` cannot be.

        Args:
            parent: what a nested interlock reads in ``.interlock/parent.json``; the program cannot change it.
        """
        ...

    async def find(self, name: str, confinement: Confinement, *, parent: bytes | None = None) -> DiskLayer | None:
        """The layer of that name that an earlier process left, with what it holds; None when there is none."""
        ...

    async def sweep(self, run_id: str) -> list[str]:
        """Drop what is left of a run's layers (names that begin with ``<run_id>-``); the names."""
        ...
