"""One process at a time, of all that work in a workspace: whoever waits long for its turn says for whom."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from interlock.errors import WorkspaceFailed

PATIENCE_S = 5.0
_PAUSE_S = 0.005
_SHOWN = 80


@asynccontextmanager
async def turn(place: Path, what: str, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """The lock at a place, held by one process at a time.

    Args:
        tell: hears once who holds it, if that takes long.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise WorkspaceFailed.of(error, f"the lock of {what} cannot be taken", where=str(place)) from error
    try:
        patient_until: float | None = time.monotonic() + PATIENCE_S
        while not _is_ours(handle, place, what):
            if patient_until is not None and time.monotonic() >= patient_until:
                patient_until = None
                tell(f"Waiting for {what}: {_holder(handle)} is at it in this workspace.")
            await asyncio.sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)


def _is_ours(handle: int, place: Path, what: str) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise WorkspaceFailed.of(error, f"the lock of {what} cannot be taken", where=str(place)) from error
    return True


def _holder(handle: int) -> str:
    """Who holds the lock, as far as the kernel tells."""
    file = str(os.fstat(handle).st_ino)
    with suppress(OSError, ValueError, psutil.Error):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            _, kind, _, _, pid, place, *_ = line.split()
            if kind == "FLOCK" and place.rpartition(":")[2] == file:
                return f"process {pid} ({' '.join(psutil.Process(int(pid)).cmdline())[:_SHOWN]})"
    return "another process"
