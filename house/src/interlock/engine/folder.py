"""A run's folder: its journal, objects by digest, what people say to it, and who works on it (RUN-01, RUN-07).

Nothing is on disk before the first effect: objects are held, too, until `settle` gives birth to the folder.  Locks are
the operating system's: free when a process dies, whatever it died of.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from interlock.documents.files import read_plain
from interlock.documents.model import Model
from interlock.engine.events import Digest
from interlock.engine.journal import Medium, Memory, OnDisk
from interlock.engine.keys import sha256
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


class Folder(Protocol):
    """Where the records of a run are: on disk, or in memory."""

    medium: Medium

    def put(self, content: bytes) -> Digest: ...
    def get(self, digest: str) -> bytes: ...
    def settle(self) -> None: ...
    def keep(self, key: str, name: str, content: bytes) -> None: ...
    def transcript(self, key: str, call: int) -> Path:
        """Where the stream of that call of a dispatch lies: each has its own, so that none is taken for another."""
        ...

    def messages(self) -> list[tuple[str, Message]]: ...
    def taken(self, name: str) -> None: ...


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
        place = self.path / "objects" / digest
        with _told("an object of the run cannot be written", place):
            if not _same(place, content):
                write_whole(place, content)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of that name; damaged ones are an error, never taken."""
        if digest in self._late:
            return self._late[digest]
        place = self.path / "objects" / digest
        try:
            with _told("an object of the run cannot be read", place):
                content = place.read_bytes()
        except WorkspaceFailed as error:
            if place.exists():
                raise
            raise JournalDamaged("an object of the run is missing", run=self.path.name, path=str(place)) from error
        if sha256(content) != digest:
            raise JournalDamaged("an object of the run was changed", run=self.path.name, path=str(place))
        return content

    def settle(self) -> None:
        """The folder is there, with all that was put so far."""
        if self._born:
            return
        with _told("the run's folder cannot be made", self.path):
            for name in ("objects", "inbox", "dispatches"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            for digest, content in self._late.items():
                write_whole(self.path / "objects" / digest, content)
        self._born = True
        self._late.clear()

    def dispatch(self, key: str) -> Path:
        """Where the records of a dispatch lie, for people: brief.md, answer.md, transcript.jsonl."""
        place = self.path / "dispatches" / key
        place.mkdir(parents=True, exist_ok=True)
        return place

    def keep(self, key: str, name: str, content: bytes) -> None:
        with _told("a record of the run cannot be written", self.path):
            if key:
                write_whole(self.dispatch(key) / name, content)
            else:
                write_whole(self.path / name, content)

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
        inbox = self.path / "inbox"
        with _told("the message cannot be left", inbox):
            inbox.mkdir(exist_ok=True)
            name = f"{message.at.strftime('%Y%m%dT%H%M%S%f')}-{os.getpid()}.json"
            write_whole(inbox / name, json.dumps(message.model_dump(mode="json")).encode())


def write_whole(place: Path, content: bytes) -> None:
    """All of it or nothing, under its name."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name[:100]}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _same(place: Path, content: bytes) -> bool:
    try:
        return place.stat().st_size == len(content) and place.read_bytes() == content
    except OSError:
        return False


@contextmanager
def _told(what: str, where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkspaceFailed.of(error, what, where=str(where)) from error


class Lock:
    """A lock of the operating system with a note of who holds it."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._fd = -1

    def take(self, what: str, note: dict[str, Any]) -> None:
        """Hold it, or say who does.

        Raises:
            Locked: another process holds it.
        """
        with _told("a lock cannot be made", self._place):
            while True:
                self._place.parent.mkdir(parents=True, exist_ok=True)
                try:
                    fd = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                except FileNotFoundError:  # the last holder took the folder away, too
                    continue
                if not _lock(fd):
                    held = _note(fd)
                    os.close(fd)
                    raise Locked(
                        f"{what} is being worked on by process {held.get('pid', '?')} on {held.get('host', '?')}",
                        remedy=f"Watch it: interlock watch {held.get('run', '')}".rstrip(),
                    )
                if os.fstat(fd).st_nlink:  # else it was removed by its last holder between our open and our lock
                    break
                os.close(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), **note}).encode(), 0)
        self._fd = fd

    def free(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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


def _lock(fd: int) -> bool:
    """A lock of the open file: of this holder alone, gone with it, and it can be asked for without being taken."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WHOLE)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def _note(fd: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(fd, 4096, 0) or b"{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
