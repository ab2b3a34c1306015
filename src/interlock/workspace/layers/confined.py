"""The confined maker: what a program sees, as a line for bubblewrap.

Theory of operation.  A *mount* is what is to be seen at a path; outer ones come first.  An *area* is one that programs
can write to, and that lies in the layer's folder: mount points are made there before, without links on the way, for an
earlier program may have planted some.  A layer can lie on another's areas: the engine's cache is below each check.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from interlock.workspace.layers import gitdir, inside
from interlock.workspace.layers.bubblewrap import COPIED, LAID, MARK, Making
from interlock.workspace.layers.surroundings import Surroundings, masked_sockets, program_parts
from interlock.workspace.layers.upper import Touched, Upper, remove, walk, way
from interlock.workspace.trees import Trees

COVERED = ("runs", "trees.git", "layers")
"""What of the engine's folder is another one inside."""
OBJECTS = Path("/dev/interlock-objects")
"""Where the objects of our trees are seen: the engine's own folder is free for an interlock that works inside."""
_PROCESSES = 8192
_OWN_HOME = Path("/tmp/interlock-home")
"""Where the private HOME is seen when the person's is the workspace itself."""
_APART = frozenset((".git", *(f".interlock/{name}" for name in COVERED)))
"""Paths of the workspace where other mounts lie: git's own folder, and what is covered of the engine's."""

Words = tuple[str, ...]


class Slot:
    """The folders of one layer; its uppers lie in `store`: the same, or in memory."""

    def __init__(self, name: str, folder: Path, store: Path, *, confined: bool) -> None:
        self.name, self.folder, self.store = name, folder, store
        self.exchange, self.exit_file, self.home = folder / "exchange", folder / "exit.json", store / "home"
        self.top = store / "top" if confined else folder / COPIED
        self.git = store / "git" if confined else self.top / ".git"
        self.objects = store / "objects" if confined else self.git / "objects"
        self.laid = folder / LAID
        """What a run that is started inside finds at `MARK`."""

    def remove(self) -> None:
        for place in (self.folder, self.store):
            remove(place)


class Confined(Upper):
    """The writes of a confined layer, and its mounts; it can lie on what another one left."""

    def __init__(self, trees: Trees, slot: Slot, bubblewrap: Making, around: Surroundings, below: Slot | None) -> None:
        self._top = trees.workspace.top
        super().__init__(slot.top, *([below.top] if below else []), self._top, apart=_APART.__contains__)
        self._trees, self._slot, self._bubblewrap, self._under = trees, slot, bubblewrap, below
        self.around = around
        self.home = _OWN_HOME if around.home in (None, self._top) else around.home

    def weigh(self, found: Touched, *, opening: bool) -> None:
        """Everything in the layer's folders counts: HOME and downloads, too."""
        for _, status in walk(self._slot.store, "work".__eq__, opening=opening):
            found.add(status)

    def line(
        self, argv: Sequence[str], cwd: Path, status: int, doors: Sequence[str], shows: Sequence[str], size: int
    ) -> list[str]:
        """How the program is started, but for its network.

        Args:
            status: the descriptor that gets to know how it ended.
            doors: what `inside` is told of the relay.
            size: of temporary folders, in bytes.
        """
        sized = ("--size", str(size))
        mounts = self._mounts(sized, [*shows, *_parts(argv[0])])
        for place in self._prepared(mounts):
            mounts[place] = ("--ro-bind", "/dev/null", str(place))
        words = [*self._first_stage(), self._bubblewrap.program, "--json-status-fd", str(status)]
        words += [*self._bubblewrap.words, *sized, "--perms", "1777", "--tmpfs", "/dev/shm"]
        words += [word for at in sorted(mounts, key=lambda at: at.parts) for word in mounts[at]]
        sealed = (Path("/dev"), *(at for at in self.around.homes if at != self.home))
        words += [word for at in sealed for word in ("--remount-ro", str(at))]
        words += ["--unshare-net"] if doors else []
        text = Path(inside.__file__).read_text(encoding="utf-8")
        python = [os.path.realpath(sys.executable), "-I", "-S", "-c", text, str(_PROCESSES)]
        return [*words, "--chdir", str(cwd), "--", *python, *(doors or ["-"]), "--", *argv]

    def _mounts(self, sized: Words, shows: Sequence[str]) -> dict[Path, Words]:
        around, slot, top, repository = self.around, self._slot, self._top, self._trees.repository
        mounts: dict[Path, Words] = {place: ("--tmpfs", str(place)) for place in around.homes}
        mounts |= {place: (*sized, "--perms", "1777", "--tmpfs", str(place)) for place in around.scratch}
        mounts |= {place: (*sized, "--tmpfs", str(place)) for place in around.services}
        python = (sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.executable))
        named = (*around.programs, *python, *(repository.stores if repository else ()), *shows)
        seen = dict(sorted(pair for path in named for pair in around.seen(path)))
        for at, source in seen.items():
            whole = any(seen.get(folder) == folder for folder in at.parents)  # a link leads to a place of its own
            if not whole and not at.is_relative_to(top):
                mounts[at] = ("--ro-bind", str(source), str(at))
        for number, place in enumerate(around.downloads):
            mounts[place] = self._overlay(f"downloads/{number}", place, place)
        mounts[self.home] = self._overlay("home", None, self.home)
        # The workspace is what it is, whatever else is said of its folder.
        mounts = {at: words for at, words in mounts.items() if not at.is_relative_to(top) or words[0] != "--tmpfs"}
        mounts[top] = self._overlay("top", slot.store / "below" if self._under else top, top)
        if repository:
            git = top / ".git"
            mounts[git] = ("--bind", str(slot.git), str(git))
            mounts[git / "objects"] = self._overlay("objects", repository.objects, git / "objects")
            for place in gitdir.shared(repository):
                mounts[git / place.name] = self._overlay(place.name, place, git / place.name)
        for name in COVERED:
            place = self._trees.workspace.own / name
            mounts[place] = ("--bind", str(slot.folder / "inner" / name), str(place))
        mounts[OBJECTS] = ("--ro-bind", str(self._trees.objects), str(OBJECTS))
        mounts[slot.exchange] = ("--bind", str(slot.exchange), str(slot.exchange))
        mounts[MARK] = ("--ro-bind", str(slot.laid) if slot.laid.is_file() else "/dev/null", str(MARK))
        return mounts

    def _overlay(self, name: str, lower: Path | None, at: Path) -> Words:
        """A folder that can be written; the writes go to this layer's own."""
        upper, work = self._slot.store / name, self._slot.store / "work" / name
        upper.mkdir(parents=True, exist_ok=True)
        lowers = [lower] if lower else []
        if self._under and name != "top" and (self._under.store / name).is_dir():
            lowers.append(self._under.store / name)
        if not lowers:
            return ("--bind", str(upper), str(at))
        work.mkdir(parents=True, exist_ok=True)
        words = [word for place in lowers for word in ("--overlay-src", str(place))]
        return (*words, "--overlay", str(upper), str(work), str(at))

    def _first_stage(self) -> Words:
        """bubblewrap around bubblewrap: the workspace with the area below over it is what the second one finds, for the
        kernel takes no folder below that lies in another one."""
        if self._under is None:
            return ()
        work, both = self._slot.store / "work" / "below", self._slot.store / "below"
        for place in (work, both):
            place.mkdir(parents=True, exist_ok=True)
        alone = ("--unshare-user",) if "--unshare-user" in self._bubblewrap.words else ()
        overlay = ("--overlay-src", str(self._top), "--overlay", str(self._under.top), str(work), str(both))
        return (self._bubblewrap.program, *alone, "--die-with-parent", "--dev-bind", "/", "/", *overlay, "--")

    def _prepared(self, mounts: Mapping[Path, Words]) -> list[Path]:
        """Make the mount points in what programs could write to; sockets that are left to be masked."""
        areas = {at: Path(words[1]) for at, words in mounts.items() if words[0] == "--bind"}
        areas |= {at: Path(words[-3]) for at, words in mounts.items() if words[0] == "--overlay-src"}

        def area(place: Path) -> Path | None:
            return next((at for at in place.parents if at in areas), None)

        for folder in areas.values():
            folder.mkdir(parents=True, exist_ok=True)
        for at in sorted(mounts, key=lambda at: at.parts):
            if (around := area(at)) is not None:
                is_file = mounts[at][0] == "--ro-bind" and not Path(mounts[at][1]).is_dir()
                way(areas[around], at.relative_to(around).as_posix(), file=is_file)
        left = []
        for place in masked_sockets(self.around):
            around = area(place)
            if around is None:
                left.append(place)
            elif around != self._top:  # seen through an overlay a socket is another one, and nobody listens
                way(areas[around], place.relative_to(around).as_posix(), file=True)
        return left


def _parts(program: str) -> list[str]:
    """What a program that is named by its path needs to be seen."""
    place = Path(program)
    return [program, *map(str, program_parts(place))] if place.is_absolute() and place.is_file() else []
