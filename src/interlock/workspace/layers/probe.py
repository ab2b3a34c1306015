"""Which maker can be used here, found out by trying in a child process. The answer is kept for this process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from interlock.workspace.clone import remove_folder
from interlock.workspace.layers.confined import Bubblewrap, bubblewrap_options
from interlock.workspace.layers.launcher import order
from interlock.workspace.layers.nursery import LAUNCHER
from interlock.workspace.layers.seam import Probe

BUBBLEWRAP, NAMESPACES, COPY = "bubblewrap", "namespaces", "copy"
MAKERS = (BUBBLEWRAP, NAMESPACES, COPY)

_OLDEST_BUBBLEWRAP = (0, 11)
_PATIENCE_S = 20
_MEMORY = Path("/dev/shm")
_ONLY_COPY = "agents work in private copies, and nothing keeps them from the rest of the machine"
_SWITCHES = {
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile that allows userns)",
    ),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
}


@dataclass(frozen=True)
class Probed:
    """A maker, and what it needs to know."""

    answer: Probe
    in_memory: bool = False
    """Upper folders have to lie in memory: the file system of the workspace takes none."""
    bubblewrap: Bubblewrap | None = None


_known: dict[tuple[object, ...], Probed] = {}


def probed(root: Path, engine: Path, environ: Mapping[str, str], wanted: str | None) -> Probed:
    """The maker for a workspace: the best one that works, or the wanted one."""
    if (engine / "parent.json").is_file() and os.statvfs("/").f_flag & os.ST_RDONLY:
        why = "this is inside of a layer already, which confines whatever runs in it; agents work in private copies"
        return Probed(Probe(COPY, True, why))
    if sys.platform != "linux":
        return Probed(Probe(COPY, False, f"the kernel is not Linux: {_ONLY_COPY}", "Run interlock on Linux."))
    status = root.stat()
    key = (status.st_dev, status.st_uid, status.st_gid, environ.get("PATH"), os.geteuid(), wanted)
    if key not in _known:
        _known[key] = _probed(engine, status, environ.get("PATH", os.defpath), wanted)
    return _known[key]


def forget() -> None:
    """Probe anew the next time."""
    _known.clear()


def _probed(engine: Path, root: os.stat_result, path: str, wanted: str | None) -> Probed:
    if wanted == COPY:
        return Probed(Probe(COPY, False, f"private copies were asked for: {_ONLY_COPY}"))
    if os.geteuid() != 0 and (root.st_uid, root.st_gid) != (os.geteuid(), os.getegid()):
        why = f"the workspace belongs to another user or group than this process: {_ONLY_COPY}"
        return Probed(Probe(COPY, False, why, "Give the workspace to your user and its first group (chown -R)."))
    reasons: list[str] = []
    try:
        return _tried(engine, path, wanted, reasons)
    except OSError as error:
        reasons.append(f"nothing can be tried: {error.strerror} ({error.filename})")
    return Probed(Probe(COPY, False, _because(_ONLY_COPY, reasons), _remedy()))


def _tried(engine: Path, path: str, wanted: str | None, reasons: list[str]) -> Probed:
    with _scratch(engine / "layers") as folder:
        (folder / "lower").mkdir()
        for maker in (BUBBLEWRAP, NAMESPACES):
            # As root, bubblewrap knows one user only, and files of others could not be changed.
            if wanted in (None, maker) and not (maker == BUBBLEWRAP and wanted is None and os.geteuid() == 0):
                found = _try_bubblewrap(folder, path) if maker == BUBBLEWRAP else _try_namespaces(folder)
                if isinstance(found, Probed):
                    return replace(found, answer=replace(found.answer, why=_because(found.answer.why, reasons)))
                reasons.append(found)
    return Probed(Probe(COPY, False, _because(_ONLY_COPY, reasons), _remedy()))


def _because(why: str, reasons: list[str]) -> str:
    return "; ".join([why, *reasons]) if reasons else why


def _try_namespaces(folder: Path) -> Probed | str:
    said = ""
    for store, in_memory in _stores(folder):
        lower, upper, work = folder / "lower", _new(store / "upper"), _new(store / "work")
        file = folder / "order"
        overlay = ("overlay", [str(lower), str(upper), str(work), str(lower), ""])
        file.write_text(order.written([("probe", []), overlay]), "utf-8", "surrogateescape", "")
        done = _run([sys.executable, "-I", "-S", str(LAUNCHER), str(file)])
        if done.returncode == 0:
            why = "user, mount and process namespaces work" + _but(
                in_memory=in_memory, new_proc="old" not in done.stdout
            )
            return Probed(Probe(NAMESPACES, True, why), in_memory)
        said = said or done.stderr.strip().removeprefix("interlock: ")
        if "overlay" not in said:
            break
    return f"user namespaces do not work: {said}"


def _try_bubblewrap(folder: Path, path: str) -> Probed | str:
    program = shutil.which("bwrap", path=path)
    if program is None:
        return "bubblewrap is not installed"
    version = re.search(r"(\d+)\.(\d+)", _run([program, "--version"]).stdout)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST_BUBBLEWRAP:
        return f"{program} is {version[0] if version else 'not bubblewrap'}, older than 0.11"
    if Path(program).stat().st_mode & stat.S_ISUID:
        return f"{program} is set-uid, and makes no overlays so"
    said = ""
    env = _resetting_env(path)
    for store, in_memory in _stores(folder):
        for new_proc in (True, False):
            lower, upper, work = folder / "lower", _new(store / "upper"), _new(store / "work")
            words = bubblewrap_options(new_proc=new_proc)
            words += ["--overlay-src", str(lower), "--overlay", str(upper), str(work), str(lower)]
            done = _run([program, *words, "--", "true"])
            if done.returncode == 0:
                why = f"{program} {version[0]} works" + _but(in_memory=in_memory, new_proc=new_proc)
                return Probed(Probe(BUBBLEWRAP, True, why), in_memory, Bubblewrap(Path(program), new_proc, env))
            said = said or done.stderr.strip()
    return f"bubblewrap does not work: {said}"


def _resetting_env(path: str) -> Path | None:
    """The program ``env``, if it can give signals their default effect (GNU coreutils 8.31)."""
    program = shutil.which("env", path=path)
    works = program is not None and _run([program, "--default-signal=TERM", "true"]).returncode == 0
    return Path(program) if program is not None and works else None


def _but(*, in_memory: bool, new_proc: bool) -> str:
    said = "; uppers lie in memory, for the file system takes none" if in_memory else ""
    return said + ("" if new_proc else "; /proc is the outer one, read-only, for a new one is refused")


def _new(folder: Path) -> Path:
    remove_folder(folder)
    folder.mkdir()
    return folder


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError) as error:
        return subprocess.CompletedProcess(words, errno.ENOEXEC, "", str(error))


def _remedy() -> str:
    off = []
    for switch, (value, turn) in _SWITCHES.items():
        try:
            if Path(switch).read_text().strip() == value:
                off.append(turn)
        except OSError:
            continue
    if off:
        return f"As root: {'; '.join(off)}."
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "Start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined."
    return "Allow user namespaces and overlays in them: Linux 5.12 or later, and no policy that forbids them."


@contextmanager
def _scratch(above: Path) -> Iterator[Path]:
    """A new folder, gone afterwards, with the folders above it that were not there before."""
    place = above / f".probe-{uuid4().hex[:8]}"
    new = [folder for folder in (above, *above.parents) if not folder.exists()]
    standing = next(folder for folder in (above, *above.parents) if folder not in new)
    before = standing.stat()
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        remove_folder(place)
        for folder in new:
            with suppress(OSError):  # somebody else uses it by now
                folder.rmdir()
        with suppress(OSError):  # whoever only looks leaves no trace
            os.utime(standing, ns=(before.st_atime_ns, before.st_mtime_ns))


def _stores(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Where uppers might lie, the better place first, and whether it is in memory."""
    yield folder, False
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        with _scratch(_MEMORY) as place:
            yield place, True
