"""What a program in a confined layer sees, as a list of mounts. Pure: facts in, mounts out.

Two makers carry the mounts out: our launcher, and bubblewrap.  Both begin with the whole file system read-only, a small
``/dev`` and a ``/proc`` of the new process namespace, and end with what the mounts leave writable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from interlock.workspace.layers.launcher.order import Record

TEAM = ("agents", "prompts", "playbooks")
"""Folders of the engine's that a team commits: programs may read them."""


@dataclass(frozen=True)
class Tmpfs:
    """An empty folder in memory."""

    at: Path
    mode: str = "0755"
    writable: bool = False


@dataclass(frozen=True)
class Bind:
    """A file or folder, at the same or another path."""

    source: Path
    at: Path
    writable: bool = False
    file: bool = False


@dataclass(frozen=True)
class Overlay:
    """A folder that can be written, the writes in `upper`."""

    lower: Path
    upper: Path
    work: Path
    """Of this start alone: two programs in one layer each have their own."""
    at: Path
    lasting: bool = True
    """Whether anybody wants the writes afterwards; if not, nothing waits for the disk."""


@dataclass(frozen=True)
class Mask:
    """Nothing can be read from what is there, nor connected to it."""

    at: Path


Mount = Tmpfs | Bind | Overlay | Mask


@dataclass(frozen=True)
class Wanted:
    """What the mounts are made from. All paths are real and exist, but for those in private folders."""

    top: Path
    """What can be written: the workspace, or the repository that it is a part of."""
    engine: Path
    """The engine's folder of the workspace."""
    store: Path
    """Where uppers lie."""
    start: str
    """A name for this start of a program."""
    inner: Path
    exchange: Path
    tmp: Path
    homes: tuple[Path, ...]
    scratch: tuple[Path, ...]
    services: tuple[Path, ...]
    home: Path | None = None
    """Where the private HOME is to be seen."""
    private_home: Path | None = None
    """Where it lies."""
    runtime: Path | None = None
    git_dirs: tuple[Path, ...] = ()
    """Git dirs of the workspace that lie outside of that."""
    shown_folders: tuple[tuple[Path, Path], ...] = ()
    """(where it is seen, where it is)"""
    shown_files: tuple[tuple[Path, Path], ...] = ()
    own_files: tuple[tuple[Path, Path], ...] = ()
    """Private copies of files outside of HOME: (copy, path)."""
    team: tuple[str, ...] = ()
    parent: Path | None = None
    mounts: tuple[Path, ...] = ()
    masked: tuple[Path, ...] = ()


def mounts_for(wanted: Wanted) -> list[Mount]:
    """The mounts, outer ones first."""
    top = wanted.top
    mounts = _hiding(wanted)
    for place in wanted.git_dirs:
        mounts[place] = _overlay(wanted, place)
    for at, source in wanted.shown_folders:
        # What lies in another one at its own place is seen with that.
        if not any(at != other and lies_in(at, other) and source == at for other, _ in wanted.shown_folders):
            mounts[at] = _overlay(wanted, source, at=at, lasting=False)
    for at, source in wanted.shown_files:
        mounts[at] = Bind(source, at, file=True)
    for copy, place in wanted.own_files:
        mounts[place] = Bind(copy, place, writable=True, file=True)
    for place in wanted.mounts:
        # An overlay shows one file system; what is mounted inside of it comes back, to be read.
        if place != top and lies_in(place, top) and not lies_in(place, wanted.engine):
            mounts[place] = Bind(place, place)
    # The workspace is what it is, whatever else is said of its folder.
    mounts = {at: mount for at, mount in mounts.items() if not _covered(at, mount, top)}
    mounts[top] = Overlay(top, wanted.store / "upper", wanted.store / "work" / wanted.start, top)
    mounts.update(_of_engine(wanted))
    for place in wanted.masked:
        if not lies_in(place, wanted.exchange) and not _hidden(place, mounts):
            mounts[place] = Mask(place)
    return [mounts[at] for at in sorted(mounts, key=lambda at: at.parts)]


def _hiding(wanted: Wanted) -> dict[Path, Mount]:
    """Places that are empty, or private, instead of what is there."""
    mounts: dict[Path, Mount] = {}
    for place in wanted.homes:
        mounts[place] = Tmpfs(place)
    for number, place in enumerate(wanted.scratch):
        mounts[place] = Bind(wanted.tmp / str(number), place, writable=True)
    for place in wanted.services:
        mounts[place] = Tmpfs(place, writable=True)
    if wanted.runtime is not None and _inside(wanted.runtime, wanted.services):
        mounts[wanted.runtime] = Tmpfs(wanted.runtime, "0700", writable=True)
    if wanted.home is not None and wanted.private_home is not None:
        mounts[wanted.home] = Bind(wanted.private_home, wanted.home, writable=True)
    return mounts


def _of_engine(wanted: Wanted) -> dict[Path, Mount]:
    """The engine's folder: another one, with what a team shares, and the way to exchange files."""
    mounts: dict[Path, Mount] = {wanted.engine: Bind(wanted.inner, wanted.engine, writable=True)}
    for name in wanted.team:
        mounts[wanted.engine / name] = Bind(wanted.engine / name, wanted.engine / name)
    if wanted.parent is not None:
        mounts[wanted.engine / "parent.json"] = Bind(wanted.parent, wanted.engine / "parent.json", file=True)
    mounts[wanted.exchange] = Bind(wanted.exchange, wanted.exchange, writable=True)
    return mounts


def upper_of(store: Path, place: Path) -> Path:
    """The upper of some folder besides the workspace."""
    return store / "more" / sha256(str(place).encode("utf-8", "surrogateescape")).hexdigest()[:16] / "upper"


def _overlay(wanted: Wanted, place: Path, *, at: Path | None = None, lasting: bool = True) -> Overlay:
    upper = upper_of(wanted.store, at or place)
    return Overlay(place, upper, upper.with_name(f"work-{wanted.start}"), at or place, lasting)


def uppers(mounts: Iterable[Mount]) -> list[Path]:
    """The folders that have to be there before the overlays are mounted."""
    return [folder for mount in mounts if isinstance(mount, Overlay) for folder in (mount.upper, mount.work)]


def mount_points(mounts: Sequence[Mount]) -> list[tuple[Path, bool]]:
    """Places in private folders where something is mounted, and whether each is a file."""
    private = [
        (mount.at, mount.source) for mount in mounts if isinstance(mount, Bind) and mount.writable and not mount.file
    ]
    found: list[tuple[Path, bool]] = []
    for mount in mounts:
        around = [pair for pair in private if mount.at != pair[0] and lies_in(mount.at, pair[0])]
        if around and not isinstance(mount, Mask):
            at, source = max(around, key=lambda pair: len(pair[0].parts))
            file = isinstance(mount, Bind) and mount.file
            found.append((source / mount.at.relative_to(at), file))
    return found


def records(mounts: Iterable[Mount]) -> list[Record]:
    """The mounts as our launcher reads them."""

    def flag(value: bool) -> str:
        return "1" if value else ""

    found: list[Record] = []
    for mount in mounts:
        match mount:
            case Tmpfs(at, mode, writable):
                found.append(("tmpfs", (str(at), mode, flag(writable))))
            case Bind(source, at, writable, file):
                found.append(("bind", (str(source), str(at), flag(writable), flag(file))))
            case Overlay(lower, upper, work, at, lasting):
                found.append(("overlay", (str(lower), str(upper), str(work), str(at), flag(lasting))))
            case Mask(at):
                found.append(("mask", (str(at),)))
    return found


def bubblewrap_words(mounts: Iterable[Mount]) -> list[str]:
    """The mounts as bubblewrap's options."""
    words: list[str] = []
    sealed: list[str] = []
    for mount in mounts:
        match mount:
            case Tmpfs(at, mode, writable):
                words += ["--perms", mode, "--tmpfs", str(at)]
                if not writable:
                    # At the end: mount points below it have to be made first.
                    sealed += ["--remount-ro", str(at)]
            case Bind(source, at, writable, _):
                words += ["--bind" if writable else "--ro-bind", str(source), str(at)]
            case Overlay(lower, upper, work, at):
                words += ["--overlay-src", str(lower), "--overlay", str(upper), str(work), str(at)]
            case Mask(at):
                words += ["--ro-bind", "/dev/null", str(at)]
    return words + sealed


def lies_in(place: Path, folder: Path) -> bool:
    """Whether a place is a folder or in it; `Path.is_relative_to` takes ten times as long."""
    return place.parts[: len(folder.parts)] == folder.parts


def _inside(place: Path, folders: Iterable[Path]) -> bool:
    return any(lies_in(place, folder) for folder in folders)


def _covered(at: Path, mount: Mount, top: Path) -> bool:
    """Whether the workspace shows what is at a place: only a private HOME and mounts stay in it."""
    return at == top or (lies_in(at, top) and not isinstance(mount, Bind))


def _hidden(place: Path, mounts: dict[Path, Mount]) -> bool:
    """Whether what is really at a place cannot be seen."""
    around = [at for at in mounts if lies_in(place, at)]
    if not around:
        return False
    mount = mounts[max(around, key=lambda at: len(at.parts))]
    return isinstance(mount, Tmpfs) or (isinstance(mount, Bind) and mount.source != mount.at)
