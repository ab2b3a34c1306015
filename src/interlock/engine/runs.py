"""The runs of a workspace: found, listed, locked (RUN-07, CLI-06)."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from interlock.documents.files import sha256
from interlock.engine.folder import RunFolder, holder, locked
from interlock.engine.journal import line_of, read_lines
from interlock.engine.view import View, fold
from interlock.errors import Refused, Status, nearest

_TAIL = 65_536
FAR, HELD = "far", "held.json"
"""Where runs of elsewhere lie, and the note in a run's folder of who has it there."""


@dataclass(frozen=True)
class Head:
    """A run in a list: what its first and last lines tell, without reading all of them."""

    id: str
    order: int
    playbook: str
    key: str
    headline: str
    status: Status
    why: str
    started: datetime
    changed: datetime


class Entry:
    """One run of a workspace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name

    @cached_property
    def folder(self) -> RunFolder:
        return RunFolder(self.path)

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    def view(self) -> View:
        """The run as it stands now; `JournalDamaged` where it cannot be read."""
        return fold(read_lines(self.journal))

    def output(self, view: View) -> bytes:
        """The playbook's own output, once it has ended."""
        return self.folder.get(view.ended.output) if view.ended and view.ended.output else b""

    @property
    def is_far(self) -> bool:
        """Another machine works on it: this is a copy to look at, or what was left here when it went there."""
        return self.path.parent.name == FAR

    @property
    def held(self) -> dict[str, Any]:
        """The remote that carries it and who works on it there, as last noted; empty: no remote does."""
        with suppress(OSError, ValueError):
            found = json.loads((self.path / HELD).read_bytes())
            return found if isinstance(found, dict) else {}
        return {}

    def holder(self) -> dict[str, Any] | None:
        """Who works on it, if anybody does."""
        if not self.is_far:
            return holder(self.path / "lock")
        held = self.held
        return {"pid": held["holder"], "host": held["remote"], "run": self.id} if held.get("holder") else None

    def status(self, view: View | None = None) -> Status:
        return (view or self.view()).status_now(self.holder() is not None)

    @cached_property
    def first(self) -> dict[str, Any]:
        """Its first event, as it stands; empty where there is none."""
        with suppress(OSError, ValueError), self.journal.open("rb") as file:
            found = json.loads(file.readline())
            if isinstance(found, dict) and isinstance(found.get("event"), dict):
                return dict(found["event"])
        return {}

    @property
    def order(self) -> int:
        """Which run of the workspace it is: not the clock tells which is last."""
        return int(self.first.get("order", 0))

    def head(self) -> Head | None:
        """What a list tells of it; None where its journal cannot be read."""
        first = self.first
        if first.get("e") != "started":
            return None
        view, changed = View(), first["at"]
        for line in self._last_lines():
            changed, kind = max(changed, line["at"]), line["event"]["e"]
            if kind in ("ended", "paused", "left"):
                view.take(line_of(line))
            if kind not in ("refused", "intended", "undone", "warned"):
                break
        status = view.status_now(worked_on=self.holder() is not None)
        about = first["playbook"], first["key"], first.get("headline", ""), status, view.why
        return Head(self.id, self.order, *about, *map(datetime.fromisoformat, (first["at"], changed)))

    def _last_lines(self) -> Iterator[dict[str, Any]]:
        """The last lines, the very last first; read as far as they are asked for."""
        with self.journal.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            lines = file.read().splitlines()
        for line in reversed(lines[1:] if size > _TAIL else lines):
            with suppress(ValueError):  # torn
                yield json.loads(line)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Work on it, alone: also what an engine that died left running is ended."""
        from interlock.agents.process_tree import end_leftovers  # heavy, and not for looking

        if self.is_far:
            who = self.held.get("holder") or "nobody"
            raise Refused(
                f"run {self.id} is not here: {who} works on it, and {self.held.get('remote', 'a remote')} has it",
                remedy=f"Bring it here: interlock fleet take {self.id}",
            )
        with locked(self.path / "lock", f"run {self.id}", self.id):
            end_leftovers(f"{self.id}/")
            self.folder.settle()
            yield


def _is_of_before(place: Path) -> bool:
    return (place / "run.json").exists()


class Runs:
    """`.interlock/runs/`."""

    def __init__(self, own: Path, look: Callable[[str], None] = lambda name: None) -> None:
        """
        Args:
            look: renews the copies of runs of elsewhere whose names begin so (`interlock.fleet`).
        """
        self._own, self.look = own, look
        self.path = own / "runs"
        self._begun: dict[str, Entry] = {}
        """What was read of each: its first line never changes."""

    def all(self) -> list[Entry]:
        """Every run, the latest first."""
        there = [place.parent for place in self.path.glob("*/journal.jsonl")]
        every = [self._begun.get(place.name) or Entry(place) for place in there if not _is_of_before(place)]
        self._begun = {entry.id: entry for entry in every if entry.first}
        return sorted(every, key=lambda entry: (entry.order, entry.id), reverse=True)

    def of_before(self) -> list[str]:
        """The names of runs of interlock 0.1, which are left alone."""
        return sorted(place.name for place in self.path.glob("*") if _is_of_before(place))

    def far(self) -> list[Entry]:
        """Copies of runs that other machines work on; neither `latest` nor leaving the name out means one of them."""
        with suppress(OSError):
            there = [Entry(place) for place in (self._own / FAR).iterdir() if place.is_dir()]
            return sorted(there, key=lambda entry: str(entry.first.get("at", "")))
        return []

    def find(self, name: str) -> Entry:
        """The run of that name, or of which that is the beginning, also one of elsewhere; `latest`.

        Raises:
            Refused: none, or several.
        """
        every = self.all()
        if name in self.of_before():
            raise Refused(f"run {name} was made by interlock 0.1, and is left alone", where=str(self.path / name))
        if every and name == "latest":
            return every[0]
        if name != "latest" and not any(entry.id.startswith(name) for entry in every):
            self.look(name)
        every += self.far()
        if not every or name == "latest":
            begin = 'Begin one: interlock "what is to be done"'
            raise Refused("there are no runs here yet", where=str(self.path), remedy=begin)
        found = [entry for entry in every if entry.id.startswith(name)]
        if exact := [entry for entry in found if entry.id == name] or (found if len(found) == 1 else []):
            return exact[0]
        if found:
            several = ", ".join(entry.id for entry in found[:5])
            raise Refused(f"{name!r} begins several runs", found=several, expected="enough of the name to tell one")
        near = nearest(name, [entry.id for entry in every])
        raise Refused(
            f"there is no run {name!r}",
            expected="the name of a run, its beginning, or latest",
            remedy=f"Did you mean {near}?" if near else "List them: interlock runs",
        )

    def waiting(self) -> list[Entry]:
        """The runs that wait, and those that ask a person at another terminal just now."""

        def waits(entry: Entry, status: Status) -> bool:
            return status is Status.WAITING or (status is Status.WORKING and entry.view().gate is not None)

        return [entry for entry in self.all() if (head := entry.head()) and waits(entry, head.status)]

    def of_key(self, playbook: str, key: str) -> Entry | None:
        """The latest run of a run key."""
        asked = (playbook, key)
        return next((one for one in self.all() if (one.first.get("playbook"), one.first.get("key")) == asked), None)

    def next_order(self) -> int:
        return max((entry.order for entry in self.all()), default=0) + 1

    def new(self, playbook: str, now: datetime) -> Entry:
        """A name for a run; nothing is on disk yet."""
        stamp = now.astimezone().strftime("%Y%m%d-%H%M%S")
        while True:
            name = f"{re.sub(r'[^A-Za-z0-9_-]', '-', playbook)}-{stamp}-{secrets.token_hex(2)}"
            if not (self.path / name).exists():
                return Entry(self.path / name)

    @contextmanager
    def key_lock(self, playbook: str, key: str) -> Iterator[None]:
        """One run per key is open."""
        place = self._own / "keys" / sha256(f"{playbook}\0{key}".encode())[:32]
        with locked(place, f"this {playbook}"):
            try:
                yield
            finally:
                with suppress(OSError):  # what was refused leaves nothing: neither the lock nor the folders made for it
                    place.unlink()
                    place.parent.rmdir()
                    self._own.rmdir()
