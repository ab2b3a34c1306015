"""The runs of a place, as the page reads them: each is read again only when its files are others than before."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.agents import clients
from interlock.agents.redaction import Redaction
from interlock.app import Place
from interlock.cli import looking
from interlock.cli.door import Door
from interlock.engine.runs import Entry, Head, Runs
from interlock.engine.view import View
from interlock.errors import InterlockError, Refused
from interlock.settings import FILE
from interlock.web import diffs
from interlock.workspace.values import Pending

Stamp = tuple[Any, ...]
"""What is another one when files have changed."""
KEPT = 12
"""Runs whose fold is remembered."""
FAR = "far"
"""The folder of runs that are at work elsewhere, beside ours."""


@dataclass(frozen=True)
class Known:
    """A run, and how it stands in a list; `head` is None where its journal cannot be read."""

    entry: Entry
    head: Head | None
    far: bool


class Shelf:
    """Thread-safe: requests are answered side by side, off the loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = Door(str(folder)).workspace.top
        self.here, self.away = (Runs(Door(str(folder)).workspace.own) for _ in range(2))
        self.away.path = self.here.path.with_name(FAR)
        self._heads: dict[str, tuple[Stamp, Head | None]] = {}
        self._views: OrderedDict[str, tuple[Stamp, View]] = OrderedDict()
        self._secrets: tuple[Stamp, Redaction] | None = None
        self._lock = threading.Lock()

    @property
    def door(self) -> Door:
        """A new one for each request: nothing of settings or the repository is remembered."""
        return Door(str(self.folder))

    # --- all runs

    def runs(self) -> list[Known]:
        """Every run, the latest first; of those that are here and elsewhere, ours."""
        with self._lock:
            ours = [(entry, False) for entry in self.here.all()]
            names = {entry.id for entry, _ in ours}
            far = [(entry, True) for entry in self.away.all() if entry.id not in names]
            return [Known(entry, self._head(entry), far) for entry, far in (*far, *ours)]

    def _head(self, entry: Entry) -> Head | None:
        stamp, known = _stamp_of(entry), self._heads.get(entry.id)
        held = known is not None and known[1] is not None and known[1].status.is_open and entry.holder() is not None
        if known is None or known[0] != (stamp, held):
            head = None
            with suppress(OSError, ValueError, KeyError, TypeError):
                head = entry.head()
            now = head is not None and head.status.is_open and entry.holder() is not None
            known = self._heads[entry.id] = (stamp, now), head
        return known[1]

    def stamp(self) -> Stamp:
        """Of the board."""
        return tuple((one.entry.id, self._heads[one.entry.id][0]) for one in self.runs())

    # --- one run

    def find(self, run: str) -> Known:
        """The run of exactly that name; Refused: there is none."""
        for runs in (self.here, self.away):
            if run not in ("", ".", "..") and "/" not in run and "\0" not in run:
                entry = Entry(runs.path / run)
                with suppress(OSError):
                    if not entry.path.is_symlink() and entry.journal.is_file():
                        return Known(entry, None, runs is self.away)
        raise Refused(f"there is no run {run!r}")

    def view(self, entry: Entry) -> View:
        """The run as it stands; `JournalDamaged` where it cannot be read."""
        stamp = _stamp_of(entry)
        with self._lock:
            if entry.id in self._views and self._views[entry.id][0] == stamp:
                self._views.move_to_end(entry.id)
                return self._views[entry.id][1]
        view = entry.view()
        with self._lock:
            self._views[entry.id] = stamp, view
            while len(self._views) > KEPT:
                self._views.popitem(last=False)
        return view

    def run_stamp(self, entry: Entry) -> Stamp:
        """Of a run's page: its journal, who works on it, what waits in its inbox, what its agents said so far."""
        said: list[Any] = []
        with suppress(InterlockError):
            for call in self.view(entry).now:
                said.append(_stat(entry.folder.transcript(call.key, call.calls)))
        return _stamp_of(entry), entry.holder() is not None, _stat(entry.path / "inbox"), *said

    # --- what changed

    def changes(self, view: View) -> list[tuple[str, diffs.Files]]:
        """Everything that a run changed, in parts with a title: delivered, pending, held back."""
        door = self.door
        found: list[tuple[str, diffs.Files]] = []
        work = door.work(view)
        if work.problem:
            return [("What it changed", diffs.Files(problem=work.problem))]
        for title, pair in looking.of_run(view):
            every = door.trees.between(pair.base, pair.work)
            for name, changes in looking.as_it_is_now(title, every, work):
                found.append((name, self._files(door, pair, changes)))
        return found

    def changed(self, pair: Pending) -> diffs.Files:
        """The difference of two trees; where it cannot be read, why."""
        door = self.door
        try:
            return self._files(door, pair, door.trees.between(pair.base, pair.work))
        except (InterlockError, OSError) as error:
            return diffs.Files(problem=f"It cannot be read: {error}")

    def patch(self, view: View) -> bytes:
        """All of it as git writes it."""
        door = self.door
        pairs = [pair for _, pair in looking.of_run(view)]
        return self.redacted(b"".join(door.trees.patch(pair.base, pair.work) for pair in pairs))

    def _files(self, door: Door, pair: Pending, changes: Sequence[Any]) -> diffs.Files:
        patch = door.trees.patch(pair.base, pair.work, [one.path for one in changes]) if changes else b""
        return diffs.changed(changes, self.redacted(patch))

    def redacted(self, raw: bytes) -> bytes:
        """Without secret values (RUN-18); they are learned anew when settings or logins have changed."""
        files = [folder / FILE for folder in (self.folder, *self.folder.parents)]
        files += [Path.home() / login for row in clients.rows() for login in row.logins]
        stamp = tuple(map(_stat, files))
        if self._secrets is None or self._secrets[0] != stamp:
            self._secrets = stamp, Place(self.folder).redaction
        return self._secrets[1].raw(raw)


def _stat(place: Path) -> tuple[int, int]:
    try:
        found = os.stat(place)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _stamp_of(entry: Entry) -> tuple[int, int]:
    return _stat(entry.journal)
