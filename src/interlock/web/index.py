"""The runs of the workspaces that are served, from their folders; each is read anew only when its files changed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from interlock.engine.folder import ELSEWHERE, HOME, KnownRun, RunFolder
from interlock.engine.glances import running
from interlock.errors import InterlockError, Refused
from interlock.pages import ListedRun, Shelf, listed, unreadable

RESERVED: Final = frozenset({"static", "stream", "enter"})
"""First parts of addresses that are no workspace's."""
RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
HEARD: Final = frozenset({"transcript.jsonl", "stream.jsonl", "output.md"})
"""Files of a dispatch that grow while its agent works."""

Stamp = tuple[object, ...]
"""What files looked like; another one means that they changed."""


def workspaces(roots: Iterable[Path]) -> list[Index]:
    """The workspaces by names that can stand in an address, each once."""
    made: dict[str, Path] = {}
    for root in dict.fromkeys(roots):
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name).strip(".-") or "workspace"
        names = (base, *(f"{base}-{number}" for number in range(2, 10_000)))
        made[next(name for name in names if name not in made and name not in RESERVED)] = root
    return [Index(Shelf.of(name, root)) for name, root in made.items()]


def file_stamp(path: Path | str) -> Stamp | None:
    try:
        facts = os.stat(path)  # noqa: PTH116 - a thousand of them on every look
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def version(stamp: Stamp) -> str:
    """A short word for what files looked like."""
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


class RunSource(Protocol):
    """Where runs come from that the page shows: a workspace of this machine, or anything that can say the same.

    What people do to a run of a source is said to the command line in `shelf.root`; what a run left is read where
    `KnownRun.folder` is, with its documents below `KnownRun.folder.root`.  The two are one for a workspace, and need
    not be for runs that live elsewhere and of which a copy is kept here.
    """

    @property
    def shelf(self) -> Shelf:
        """Its name in addresses, and what its playbooks call their steps and documents."""
        ...

    def stamp(self) -> Stamp:
        """What all runs look like, without reading any of them; cheap, it is asked twice a second."""
        ...

    def look(self) -> tuple[Stamp, list[ListedRun]]:
        """All runs, for the board, and what they looked like before they were read."""
        ...

    def find(self, run_id: str) -> KnownRun:
        """The run of exactly this id; `Refused` where there is none."""
        ...

    def holder(self, run_id: str) -> str | None:
        """Who works on it now, in a word or two."""
        ...

    def run_stamp(self, known: KnownRun) -> Stamp:
        """What a run looks like, with what its agents said so far."""
        ...


@dataclass(frozen=True)
class Index:
    """One workspace: which runs it has, and how each stands."""

    shelf: Shelf
    _rows: dict[str, tuple[Stamp, ListedRun | None]] = field(default_factory=dict)
    _guard: Lock = field(default_factory=Lock)

    def stamp(self) -> Stamp:
        """What all runs look like, without reading any of them."""
        return tuple(self._stamps().items())

    def look(self) -> tuple[Stamp, list[ListedRun]]:
        """All runs, and what they looked like; of those that cannot be read, that they are damaged."""
        stamps = self._stamps()
        with self._guard:  # one reads, the others find it read
            for name in self._rows.keys() - stamps.keys():
                del self._rows[name]
            for name, stamp in stamps.items():
                if (kept := self._rows.get(name)) is None or kept[0] != stamp:
                    self._rows[name] = stamp, self._listed(name, str(stamp[-1]) if stamp[-1] else None)
            return tuple(stamps.items()), [row for _, row in self._rows.values() if row is not None]

    def _stamps(self) -> dict[str, Stamp]:
        runs = self.shelf.root / HOME / "runs"
        live = self._holders()
        found: dict[str, Stamp] = {}
        with suppress(OSError), os.scandir(runs) as entries:
            for entry in entries:
                if (journal := file_stamp(f"{entry.path}/journal.jsonl")) is not None:
                    files = (journal, *(file_stamp(f"{entry.path}/{name}") for name in ("run.json", ELSEWHERE)))
                    found[entry.name] = *files, live.get(entry.name)
        return found

    def _holders(self) -> Mapping[str, str]:
        try:
            return running(self.shelf.root)
        except (InterlockError, OSError):
            return {}

    def _listed(self, name: str, holder: str | None) -> ListedRun | None:
        try:
            return listed(self.shelf, self.find(name), holder)
        except Refused:  # a folder without a run
            return None
        except (InterlockError, OSError, ValueError, LookupError, TypeError) as error:
            return unreadable(self.shelf, name, str(error))

    def find(self, run_id: str) -> KnownRun:
        """The run of exactly this id; `Refused` where there is none."""
        folder = RunFolder(self.shelf.root, run_id) if RUN_ID.fullmatch(run_id) else None
        if folder is None or folder.path.is_symlink() or not folder.path.is_dir():
            raise Refused("there is no such run")
        return KnownRun(folder, folder.identity())

    def holder(self, run_id: str) -> str | None:
        return self._holders().get(run_id)

    def run_stamp(self, known: KnownRun) -> Stamp:
        """What a run looks like: its journal, who works on it, and what its agents said so far."""
        path = known.folder.path
        heard = tuple(_heard(path / "dispatches"))
        files = (file_stamp(path / "journal.jsonl"), file_stamp(path / ELSEWHERE))
        return *files, self.holder(known.identity.run_id), heard


def _heard(folder: Path) -> Iterator[Stamp]:
    for place, _, names in os.walk(folder):
        for name in sorted(HEARD.intersection(names)):
            yield place, name, file_stamp(f"{place}/{name}")
