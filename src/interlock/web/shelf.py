"""The runs of a place, as the page reads them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from interlock.cli import looking
from interlock.cli.door import Door
from interlock.engine.journal import read_lines
from interlock.engine.runs import FAR, Entry, Head, Runs
from interlock.engine.view import View, fold
from interlock.errors import InterlockError, Refused
from interlock.web import diffs
from interlock.workspace.values import Change, Pending


class Shelf:
    """Looked at by several threads: requests are answered side by side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = self.door.workspace.top
        self._runs = Runs(self.door.workspace.own)

    @property
    def door(self) -> Door:
        """A new one for each request: nothing of settings or the repository is remembered."""
        return Door(str(self.folder))

    def runs(self) -> list[tuple[Entry, Head | None]]:
        """Every run, the latest first, with how it stands in a list; None: its journal cannot be read."""
        ours = self._runs.all()
        names = {entry.id for entry in ours}
        far = [entry for entry in self._runs.far() if entry.id not in names]
        return [(entry, _ended(entry.path, _stat(entry.journal)) or _head(entry)) for entry in (*far, *ours)]

    def stamp(self) -> tuple[Any, ...]:
        """Of the board: another one when something on it has changed."""
        return tuple((entry.id, head) for entry, head in self.runs())

    def find(self, run: str) -> Entry:
        """The run of exactly that name; Refused: there is none."""
        for folder in (self._runs.path, self._runs.path.with_name(FAR)):
            if run not in ("", ".", "..") and "/" not in run and "\0" not in run:
                entry = Entry(folder / run)
                with suppress(OSError):
                    if not entry.path.is_symlink() and entry.journal.is_file():
                        return entry
        raise Refused(f"there is no run {run!r}")

    def view(self, entry: Entry) -> View:
        """The run as it stands; `JournalDamaged` where it cannot be read."""
        return _folded(entry.journal, _stat(entry.journal))

    def run_stamp(self, entry: Entry) -> tuple[Any, ...]:
        """Of a run's page: its journal, who works on it, what waits in its inbox, what its agents said so far."""
        said: list[Any] = []
        with suppress(InterlockError):
            said += [_stat(entry.folder.transcript(call.key, call.last)) for call in self.view(entry).now]
        return _stat(entry.journal), entry.holder() is not None, _stat(entry.path / "inbox"), *said

    # --- what changed

    def changes(self, view: View) -> list[tuple[str, diffs.Files]]:
        """Everything that a run changed, in parts with a title: delivered, pending, held back."""
        door = self.door
        try:
            work = door.work(view)
            return [
                (name, self._files(pair, changes))
                for title, pair in looking.of_run(view)
                for name, changes in looking.as_it_is_now(title, door.trees.between(pair.base, pair.work), work)
            ]
        except (InterlockError, OSError) as error:
            return [("what it changed", diffs.Files(problem=f"It cannot be read: {error}"))]

    def changed(self, pair: Pending) -> diffs.Files:
        """The difference of two trees; where it cannot be read, why."""
        try:
            return self._files(pair, self.door.trees.between(pair.base, pair.work))
        except (InterlockError, OSError) as error:
            return diffs.Files(problem=f"It cannot be read: {error}")

    def patch(self, view: View) -> bytes:
        """All of it as git writes it."""
        trees = self.door.trees
        return self.redacted(b"".join(trees.patch(pair.base, pair.work) for _, pair in looking.of_run(view)))

    def _files(self, pair: Pending, changes: Sequence[Change]) -> diffs.Files:
        patch = self.door.trees.patch(pair.base, pair.work, [one.path for one in changes]) if changes else b""
        return diffs.changed(changes, self.redacted(patch))

    def redacted(self, raw: bytes) -> bytes:
        """Without secret values (RUN-18)."""
        return self.door.place.redaction.raw(raw)


@lru_cache(maxsize=5000)
def _ended(run: Path, _stamp: tuple[int, int]) -> Head | None:
    """How a run stands that has ended; who works on an open one leaves without a word when it dies."""
    head = _head(Entry(run))
    return head if head and head.status.has_ended else None


def _head(entry: Entry) -> Head | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return entry.head()
    return None


@lru_cache(maxsize=8)
def _folded(journal: Path, _stamp: tuple[int, int]) -> View:
    return fold(read_lines(journal))


def _stat(place: Path) -> tuple[int, int]:
    try:
        found = place.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
