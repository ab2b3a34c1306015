"""What processes there are on this machine, read cheaply.

On Linux one read of ``/proc/<pid>/stat`` per process says everything but the environment, and the
environment is read only of those that could matter; elsewhere psutil answers the same questions.
Start times are opaque numbers: two of them from the same machine and boot can be compared, which is what
tells a process from a later one that got its number.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MARKER: Final = "INTERLOCK_MARKER"
"""The variable that every process of one call of one program carries."""
PLACE: Final = "_INTERLOCK_PLACE"
"""The variable by which workers on one machine tell their programs apart: one run can come to several of them."""

_ON_LINUX: Final = sys.platform == "linux"
_DEAD: Final = frozenset({b"Z", b"X", b"x"})


@dataclass(frozen=True, slots=True)
class Listed:
    """One process as the machine lists it."""

    pid: int
    parent: int
    group: int
    session: int
    started: float
    dead: bool
    """Ended, but not yet collected by its parent."""


def now() -> float:
    """A moment on the scale of `Listed.started`, rounded down: whatever is started later is not listed as older."""
    if _ON_LINUX:
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS) / _TICKS
    return time.time() - 0.01


def started(pid: int) -> float | None:
    """When the process began; with its number the identity of a process. ``None``: there is no such process."""
    found = _look_at(pid)
    return None if found is None or found.dead else found.started


def processes() -> Iterator[Listed]:
    """Every process that can be seen now."""
    if _ON_LINUX:
        with os.scandir("/proc") as entries:
            for entry in entries:
                if entry.name.isdecimal() and (found := _look_at(int(entry.name))) is not None:
                    yield found
        return
    import psutil  # not needed on Linux, and slow to import

    for pid in psutil.pids():
        if (found := _look_at(pid)) is not None:
            yield found


def marker(pid: int) -> str | None:
    """The marker in the environment a process was started with; ``None`` if there is none, it may not be read, or it is
    that of another worker."""
    environ = _environ(pid)
    return environ.get(MARKER) if environ.get(PLACE, "") == os.environ.get(PLACE, "") else None


def _environ(pid: int) -> Mapping[str, str]:
    if _ON_LINUX:
        entries = _read(f"/proc/{pid}/environ").decode(errors="surrogateescape").split("\0")
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)
    import psutil

    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


_TICKS: Final = os.sysconf("SC_CLK_TCK")


def _look_at(pid: int) -> Listed | None:
    if not _ON_LINUX:
        return _ask_psutil(pid)
    # The name of the program stands in parentheses and may itself hold blanks and parentheses.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return Listed(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]) / _TICKS,
        dead=fields[0] in _DEAD,
    )


def _read(path: str) -> bytes:
    """All of a file below /proc; empty when the process is gone or belongs to someone else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = b""
        while chunk := os.read(handle, 65536):
            content += chunk
        return content
    except OSError:
        return b""
    finally:
        os.close(handle)


def _ask_psutil(pid: int) -> Listed | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return Listed(
            pid=pid,
            parent=process.ppid(),
            group=os.getpgid(pid),
            session=os.getsid(pid),
            started=process.create_time(),
            dead=process.status() == psutil.STATUS_ZOMBIE,
        )
    except (psutil.Error, OSError):
        return None
