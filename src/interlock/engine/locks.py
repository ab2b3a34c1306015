"""One live run per key (CM-01).

The operating system's lock says whether the holder lives; a note beside it says who it is.  A note without a lock
is a process that died: its lock is taken over with a warning.  That holds for every process of this start of this
machine, in whatever container or pid namespace, and for earlier ones of this host.  A note of another machine proves
nothing here, so taking that over needs a person's word.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from interlock.documents.files import read_plain, remove_leftovers, replace_file
from interlock.engine.keys import sha256
from interlock.engine.processes import Process, boot_id, seen, this_process
from interlock.errors import Locked, WorkspaceFailed

LOOKS = 10
"""Times that a lock without a living holder is tried."""
_NOTE_BYTES = 10_000


@dataclass(frozen=True)
class Holder:
    """Who holds, or held, a lock. Notes of earlier versions lack the last three: then nobody knows."""

    pid: int
    host: str
    started: str
    """When it took the lock."""
    run: str
    boot: str = ""
    namespace: str = ""
    start: str = ""

    @classmethod
    def me(cls, run_id: str) -> Self:
        process = this_process()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(process.pid, process.host, now, run_id, process.boot, process.namespace, process.start)

    @classmethod
    def read(cls, note: Path) -> Self | None:
        """What the note says; None when there is none, or none that can be read."""
        try:
            said = json.loads(read_plain(note, limit=_NOTE_BYTES))
            known = {field.name for field in fields(cls)}
            return cls(**{name: value for name, value in said.items() if name in known})
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return None

    @property
    def process(self) -> Process | None:
        """The process that is meant; None where the note does not say it beyond doubt."""
        known = self.boot and self.start
        return Process(self.host, self.boot, self.namespace, self.pid, self.start) if known else None

    @property
    def elsewhere(self) -> bool:
        """Whether it is a process of another machine, of which the lock here says nothing."""
        return self.host != socket.gethostname() and self.boot != boot_id()

    @property
    def lives(self) -> bool:
        """Whether it is seen from here that the process lives; not seeing it proves nothing in another namespace."""
        return bool(self.start) and self.process == seen(self.pid)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.started} (run {self.run})"


class Lock:
    """A named lock in a folder; the same process may not take it twice."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._note = folder / f"{name}.json"
        self._lock = FileLock(folder / f"{name}.lock", thread_local=False)

    def holder(self) -> Holder | None:
        """The one who last wrote its name here."""
        return Holder.read(self._note)

    def acquire(self, run_id: str, *, take_over: bool = False) -> Holder | None:
        """Take the lock or raise `Locked`; returns the dead holder it was taken over from, if there was one."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._take()
            dead = self.holder()
        except OSError as error:
            raise self._failed(error) from error
        try:
            if dead is not None and dead.elsewhere and not take_over:
                raise self._locked(dead, "If that machine is surely not working on it any more, add --take-over.")
            remove_leftovers(self._folder)
            replace_file(self._note, json.dumps(Holder.me(run_id).to_json()).encode())
        except OSError as error:
            self._lock.release()
            raise self._failed(error) from error
        except BaseException:
            self._lock.release()
            raise
        return dead

    def _take(self) -> None:
        """The operating system's lock. Whoever merely looks whether it is free holds it for a moment, too."""
        for _ in range(LOOKS):
            try:
                self._lock.acquire(timeout=0)
                return
            except Timeout:
                if (holder := self.holder()) is not None and holder.lives:
                    break
                time.sleep(0.01)
        raise self._locked(self.holder())

    def _failed(self, error: OSError) -> WorkspaceFailed:
        return WorkspaceFailed.of(error, f"the lock {self.name} cannot be taken", where=str(self._note.parent))

    def is_free(self) -> bool:
        """Whether nobody alive holds it right now."""
        try:
            descriptor = os.open(self._lock.lock_file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:  # a lock of another user: its note has to do
            return (holder := self.holder()) is None or not holder.lives
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def release(self) -> None:
        if self._lock.is_locked:
            with suppress(OSError):  # a note without a lock is that of a process that is gone
                self._note.unlink()
            self._lock.release()

    def _locked(self, holder: Holder | None, remedy: str | None = None) -> Locked:
        who = str(holder) if holder else "another process"
        return Locked(
            f"{self.name} is locked by {who}",
            holder=holder.to_json() if holder else None,
            remedy=remedy or _end_it(holder),
        )


def holders(home: Path) -> dict[str, tuple[Lock, Holder]]:
    """Who says to hold the lock of a run key in the engine's folder: by run, with that lock."""
    found = {}
    for note in sorted((home / "locks").glob("*.json")):
        if note.stem != "workspace" and (holder := Holder.read(note)) is not None:
            found[holder.run] = (Lock(note.parent, note.stem), holder)
    return found


def run_lock(home: Path, playbook: str, key: str) -> Lock:
    """The lock of a run key, in the engine's folder."""
    return Lock(home / "locks", f"{playbook}-{sha256(key.encode())[:16]}")


def _end_it(holder: Holder | None) -> str:
    end = f", or end it with: interlock cancel {holder.run}" if holder else ""
    return f"Wait until it has ended{end}"
