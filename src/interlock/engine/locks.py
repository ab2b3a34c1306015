"""One live run per key, one worker at a time in a tree (CM-01, EN-39).

The operating system's lock says whether the holder lives; a note beside it says who it is.  A note without a lock
is a process that died: its lock is taken over with a warning.  A note from another host proves nothing here, so
taking that over needs a person's word.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from interlock.errors import Locked


@dataclass(frozen=True)
class Holder:
    """Who holds, or held, a lock."""

    pid: int
    host: str
    started: str
    run: str

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
        try:
            return Holder(**json.loads(self._note.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def acquire(self, run_id: str, *, take_over: bool = False) -> Holder | None:
        """Take the lock or raise `Locked`; returns the dead holder it was taken over from, if there was one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise self._locked(self.holder()) from None
        dead = self.holder()
        if dead is not None and dead.host != socket.gethostname() and not take_over:
            self._lock.release()
            raise self._locked(dead, "If that machine is surely not working on it any more, add --take-over.")
        note = Holder(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"), run_id)
        temporary = self._note.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(note)), "utf-8")
        temporary.replace(self._note)
        return dead

    def take_over(self, run_id: str) -> None:
        """Forget a holder that is gone, of whatever host."""
        self.acquire(run_id, take_over=True)
        self.release()

    def is_free(self) -> bool:
        """Whether nobody alive holds it right now."""
        if not self._folder.exists():
            return True
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        self._lock.release()
        return True

    def release(self) -> None:
        if self._lock.is_locked:
            with suppress(FileNotFoundError):
                self._note.unlink()
            self._lock.release()

    def _locked(self, holder: Holder | None, remedy: str | None = None) -> Locked:
        who = str(holder) if holder else "another process"
        return Locked(
            f"{self.name} is locked by {who}",
            holder=asdict(holder) if holder else None,
            remedy=remedy or "Wait until it has ended, or end it with: interlock cancel RUN.",
        )


class SharedLock:
    """A lock that one process holds as long as anything in it works; others wait."""

    def __init__(self, lock: Lock, run_id: str, *, on_wait: Callable[[str], None], poll_s: float = 0.1) -> None:
        self._lock = lock
        self._run_id = run_id
        self._on_wait = on_wait
        self._poll_s = poll_s
        self._users = 0
        self._taking = asyncio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._taking:
            if self._users == 0:
                await self._acquire()
            self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._users == 0:
                self._lock.release()

    async def _acquire(self) -> None:
        waiting = False
        while True:
            try:
                self._lock.acquire(self._run_id)
                return
            except Locked as busy:
                if busy.holder and busy.holder["host"] != socket.gethostname():
                    raise  # nobody here will ever release it
                if not waiting:
                    self._on_wait(busy.what)
                    waiting = True
                await asyncio.sleep(self._poll_s)
