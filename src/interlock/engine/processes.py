"""Which process is meant: a number alone says nothing, it is used again.

A process is known by host, boot, pid namespace, number and the moment of its start, counted in ticks since the boot:
the clock can be set, the ticks cannot.  Two notes that agree in all five mean the same process.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_START = 19
"""Of the fields in ``/proc/<pid>/stat`` behind the program's name: its start, in ticks since the boot."""


@dataclass(frozen=True)
class Process:
    """One process, on any machine, at any time."""

    host: str
    boot: str
    namespace: str
    pid: int
    start: str


def this_process() -> Process:
    return seen(os.getpid())


def seen(pid: int) -> Process:
    """The process that has this number here and now; without a start when there is none."""
    return Process(socket.gethostname(), boot_id(), namespace_of("self"), pid, start_of(pid))


def ancestors() -> list[Process]:
    """The processes above this one, nearest first, as far as they can be seen from here."""
    import psutil

    try:
        return [seen(process.pid) for process in psutil.Process().parents()]
    except (psutil.Error, OSError):
        return []


@cache
def boot_id() -> str:
    """What tells this start of the machine from every other one."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        import psutil  # not needed where there is /proc: `interlock runs` has no time for it

        return f"{int(psutil.boot_time())}"


def namespace_of(pid: int | str) -> str:
    """The name of a process's pid namespace; empty where there are none."""
    try:
        return os.readlink(_PROC / str(pid) / "ns/pid")  # noqa: PTH115 - it is a text, not a path
    except OSError:
        return ""


def start_of(pid: int) -> str:
    """When a process started, as a text to compare; empty when there is no such process."""
    try:
        about = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
        return about.rpartition(")")[2].split()[_START]
    except (OSError, LookupError):
        pass
    if _PROC.joinpath("self").exists():
        return ""
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except (psutil.Error, OSError):
        return ""
