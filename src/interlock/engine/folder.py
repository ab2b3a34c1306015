"""A run's folder: its journal, objects by digest, what people say to it, and who works on it (RUN-01, RUN-07).

Nothing is on disk before the first effect: objects are held, too, until `settle` gives birth to the folder.  Locks are
the operating system's: free when a process dies, whatever it died of.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from interlock.documents.files import read_plain, replace, sha256
from interlock.documents.model import Model
from interlock.engine.events import Digest
from interlock.engine.journal import Medium, Memory, OnDisk, told
from interlock.errors import JournalDamaged, Locked, WorkspaceFailed

_LONGEST = 1_000_000
"""Bytes of a message: what a person says is shorter."""


class Message(Model):
    """What a person said to a run while somebody else works on it."""

    what: Literal["approve", "reject", "answer", "cancel"]
    who: str
    at: datetime
    gate: str = ""
    opening: int = 0
    """Which opening of the gate was seen; 0: as the documents are now."""
    choice: str = ""
    note: str = ""
    shown: dict[str, str] = {}


class InMemory:
    """Records that live as long as their owner: simulation, plan."""

    def __init__(self) -> None:
        self.medium: Medium = Memory()
        self.objects: dict[str, bytes] = {}
        self.said: dict[str, Message] = {}

    def put(self, content: bytes) -> Digest:
        digest = Digest(sha256(content))
        self.objects[digest] = content
        return digest

    def get(self, digest: str) -> bytes:
        return self.objects[digest]

    def settle(self) -> None:
        return None

    def keep(self, key: str, name: str, content: bytes) -> None:
        return None

    def transcript(self, key: str, call: int) -> Path:
        return Path(key, str(call))

    def messages(self) -> list[tuple[str, Message]]:
        return sorted(self.said.items())

    def taken(self, name: str) -> None:
        self.said.pop(name, None)


class RunFolder:
    """`.interlock/runs/<id>/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.medium: Medium = OnDisk(path / "journal.jsonl")
        self._late: dict[str, bytes] = {}
        self._born = path.exists()

    def put(self, content: bytes) -> Digest:
        digest = Digest(sha256(content))
        if not self._born:
            self._late[digest] = content
            return digest
        with suppress(JournalDamaged, WorkspaceFailed):
            self.get(digest)
            return digest
        self._write(f"objects/{digest}", content)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of that name; damaged ones are an error, never taken."""
        if digest in self._late:
            return self._late[digest]
        place, content = self.path / "objects" / digest, None
        with told("an object of the run cannot be read", place), suppress(FileNotFoundError):
            content = place.read_bytes()
        if content is None or sha256(content) != digest:
            what = "is missing" if content is None else "was changed"
            raise JournalDamaged(f"an object of the run {what}", run=self.path.name, path=str(place))
        return content

    def settle(self) -> None:
        """The folder is there, with all that was put so far."""
        if self._born:
            return
        with told("the run's folder cannot be made", self.path):
            for name in ("objects", "inbox", "dispatches"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
        for digest, content in self._late.items():
            self._write(f"objects/{digest}", content)
        self._born = True
        self._late.clear()

    def keep(self, key: str, name: str, content: bytes) -> None:
        """A record for people: of a dispatch its brief.md and answer.md, of the run its report.md."""
        self._write(f"dispatches/{key}/{name}" if key else name, content, sync=False)

    def _write(self, name: str, content: bytes, *, sync: bool = True) -> None:
        """All of it or nothing, under its name."""
        place = self.path / name
        with told("a record of the run cannot be written", place):
            place.parent.mkdir(parents=True, exist_ok=True)
            replace(place, content, mode=0o600, sync=sync)

    def transcript(self, key: str, call: int) -> Path:
        return self.path / "dispatches" / key / ("transcript.jsonl" if call == 1 else f"transcript-{call}.jsonl")

    def messages(self) -> list[tuple[str, Message]]:
        """What waits in the inbox, oldest first. Odd files there block nobody."""
        found: list[tuple[str, Message]] = []
        with suppress(OSError):
            for name in sorted(place.name for place in (self.path / "inbox").iterdir()):
                if name.endswith(".json"):
                    with suppress(OSError, ValueError, RecursionError):
                        content = read_plain(self.path / "inbox" / name, limit=_LONGEST)
                        found.append((name, Message.model_validate(json.loads(content))))
        return found

    def taken(self, name: str) -> None:
        """A message stands in the journal now."""
        with suppress(FileNotFoundError):
            (self.path / "inbox" / name).unlink()

    def say(self, message: Message) -> None:
        """Leave a message for whoever works on the run."""
        name = f"{message.at.strftime('%Y%m%dT%H%M%S%f')}-{os.getpid()}.json"
        self._write(f"inbox/{name}", json.dumps(message.model_dump(mode="json")).encode())


Folder = InMemory | RunFolder
"""Where the records of a run are."""


@contextmanager
def locked(place: Path, what: str, run: str = "") -> Iterator[None]:
    """Hold a lock of the operating system, with a note of who does.

    Raises:
        Locked: another process holds it.
    """
    with told("a lock cannot be made", place):
        fd = _taken(place, what)
    try:
        with told("a lock cannot be noted", place):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "run": run}).encode(), 0)
        yield
    finally:
        os.close(fd)


def _taken(place: Path, what: str) -> int:
    while True:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # the last holder took the folder away, too
            continue
        try:
            # A lock of the open file: of this holder alone, gone with it, and it can be asked for without being taken.
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WHOLE)
        except (BlockingIOError, PermissionError):
            held = _note(fd)
            os.close(fd)
            raise Locked(
                f"{what} is being worked on by process {held.get('pid', '?')} on {held.get('host', '?')}",
                remedy=f"Watch it: interlock watch {held.get('run', '')}".rstrip(),
            ) from None
        if os.fstat(fd).st_nlink:  # else it was removed by its last holder between our open and our lock
            return fd
        os.close(fd)


def holder(place: Path) -> dict[str, Any] | None:
    """Who holds a lock, if anybody does; looking takes nothing, so that nobody who starts meanwhile is refused."""
    try:
        fd = os.open(place, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _WHOLE)
        return None if struct.unpack(_FORMAT, found)[0] == fcntl.F_UNLCK else _note(fd)
    finally:
        os.close(fd)


_FORMAT = "hhqqi4x"  # struct flock
_WHOLE = struct.pack(_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def _note(fd: int) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(os.pread(fd, 4096, 0))
        return found if isinstance(found, dict) else {}
    return {}
