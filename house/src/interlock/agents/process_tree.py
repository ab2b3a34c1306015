"""A program and everything it starts, so that all of it can be ended.

A signal to the direct child is not enough: launchers leave their real work behind, and the shell tools of coding
agents put themselves into sessions of their own.  So three nets, each for what slips through the one before:

1. the process group and session that every program gets at its start;
2. the marker in the environment, inherited by whatever is started, found by looking at all processes;
3. descent: the engine is a *child subreaper*, so the orphans of its programs become its own children even when they
   changed group and session and cleaned their environment.

An orphan without any mark cannot be told apart while several programs run side by side: it is ended with the last of
them.  The third net has a price: a child of the engine in a session of its own is taken for such an orphan.  Programs
in a new session are therefore started here and nowhere else.

Where the program runs in a layer, what is started is bubblewrap.  Its process space ends with it, so nothing needs to
be looked for; but it must not be told to end before the program has had its time, since it would take it along.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import psutil

from interlock.errors import EngineFault

MARKER = "INTERLOCK_MARKER"
"""The variable that every process of one call of one program carries."""
_KILL_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02, *(0.05,) * 40)
"""Between two looks while killed processes disappear; at the end of it a process is held by the kernel."""
_LONGEST_LOOK_PAUSE = 0.1
_COLLECT_S = 2.0
"""How long the exit status of an ended program is waited for; longer only when the kernel holds it."""
_live: dict[int, ProcessTree] = {}
_lock = threading.RLock()
"""Start and registration are one step for everyone who looks, and a signal handler may look while we do."""


class ProcessTree:
    """One started program with all its descendants; `close` it whatever happens."""

    def __init__(self, popen: subprocess.Popen[bytes], marker: str, *, launched: bool) -> None:
        self.popen = popen
        self.pid = popen.pid
        """Also the number of its process group and session."""
        self.marker = marker
        self.launched = launched
        """What was started is a launcher, and everything ends with it."""
        self._ended = False
        self._watching = -1
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        marker: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        pass_fds: Sequence[int] = (),
        launched: bool = False,
    ) -> ProcessTree:
        """The program, running in a session of its own with the marker in its environment.

        OSError or ValueError if it cannot be started.
        """
        if not argv:
            raise ValueError("no program is named")
        _prepare_engine()
        with _lock:
            popen = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env={**env, MARKER: marker},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
                pass_fds=pass_fds,
            )
            tree = cls(popen, marker, launched=launched)
            _live[popen.pid] = tree
        return tree

    def exited(self) -> asyncio.Future[None]:
        """Done when the program itself has exited; it stays uncollected, so that its number cannot be given away."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            self._forget_exit()
            if not future.done():
                future.set_result(None)

        try:
            self._watching = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not on this system
            threading.Thread(target=_wait, args=(self.popen, loop, settle), daemon=True).start()
        else:
            self._loop = loop
            loop.add_reader(self._watching, settle)
        return future

    async def end(self, patience: float) -> tuple[int, ...]:
        """Ends all that is left: a termination request, `patience` seconds, then kill. Returns what resisted even that.

        Nothing left costs one look, behind a launcher that has ended none. Cancelling it kills at once.
        """
        if self._took_all_along():
            self._ended = True
            return ()
        try:
            left = _find([self])
            _signal((one for one in left if not (self.launched and one.pid == self.pid)), signal.SIGTERM)
            deadline, pause = time.monotonic() + patience, 0.005
            while left and (remaining := deadline - time.monotonic()) > 0:
                await asyncio.sleep(min(pause, remaining))
                pause = min(pause * 2, _LONGEST_LOOK_PAUSE)
                left = _find([self])
            for pause in _KILL_PAUSES:
                if not left:
                    break
                _signal(left, signal.SIGKILL)
                await asyncio.sleep(pause)
                left = _find([self])
        except BaseException:
            self.kill()
            raise
        self._ended = True
        return tuple(sorted(process.pid for process in left))

    def kill(self) -> None:
        """Kills all that is left, now."""
        _kill(lambda: _find([self]))
        self._ended = True

    def close(self) -> int:
        """Kills what was not ended, collects the program and returns its exit status (negative: the signal)."""
        if not self._ended and not self._took_all_along():
            self.kill()
        self._forget_exit()
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # of a program with threads the last ones may still end
            self.popen.wait(_COLLECT_S)
        with _lock:
            code = self.popen.poll()
            if code is not None:  # A number that is not known any more is taken for an orphan's.
                _live.pop(self.pid, None)
        return -signal.SIGKILL if code is None else code

    def _took_all_along(self) -> bool:
        """Whether a launcher has ended, and with it the process space in which everything was."""
        if not self.launched or self.popen.returncode is not None:
            return self.launched
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False

    def _forget_exit(self) -> None:
        if self._watching >= 0 and self._loop is not None:
            self._loop.remove_reader(self._watching)
            os.close(self._watching)
            self._watching = -1


def kill_everything() -> None:
    """Kills every program that is running and all its descendants, now (the second Ctrl-C)."""
    _kill(lambda: _find(list(_live.values())))


def end_leftovers(marker: str) -> list[int]:
    """Kills what an engine that is gone has left behind, and returns the numbers of those ended.

    Args:
        marker: the beginning of the marker that all calls in question had in common.
    """
    if not marker:
        raise EngineFault("leftovers cannot be looked for without a marker: every process would match")
    return sorted(_kill(lambda: _left_behind(marker)))


@dataclass(frozen=True, slots=True)
class _Seen:
    """One process as the machine lists it."""

    pid: int
    parent: int
    group: int
    session: int
    dead: bool
    """Ended, but not yet collected by its parent."""


def _processes() -> dict[int, _Seen]:
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            pid, dead = process.pid, process.status() == psutil.STATUS_ZOMBIE
            found[pid] = _Seen(pid, process.ppid(), os.getpgid(pid), os.getsid(pid), dead)
    return found


def _marker(pid: int) -> str | None:
    """None: there is none, or it may not be read."""
    try:
        return psutil.Process(pid).environ().get(MARKER)
    except (psutil.Error, OSError):
        return None


def _find(trees: Collection[ProcessTree]) -> list[_Seen]:
    """Every living process of these trees, by all three nets; orphans that died meanwhile are collected."""
    if not trees:
        return []
    with _lock:
        table = _processes()
        wanted, markers = {tree.pid for tree in trees}, {tree.marker for tree in trees}
        others = _live.keys() - wanted
        found = set(wanted)
        for process in table.values():
            if process.session in others:
                continue
            if (
                process.session in wanted
                or process.group in wanted
                or (
                    not process.dead
                    and (
                        (not others and _is_orphan(process)) or _marker(process.pid) in markers  # the cheaper one first
                    )
                )
            ):
                found.add(process.pid)
        living = _with_descendants(found, table, {os.getpid(), *others})
        for process in table.values():
            if process.dead and _is_orphan(process):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        return living


def _left_behind(marker: str) -> list[_Seen]:
    table = _processes()
    marked = [process for process in table.values() if (_marker(process.pid) or "").startswith(marker)]
    sessions = {process.session for process in marked} - {0, os.getsid(0)}
    found = {process.pid for process in table.values() if process in marked or process.session in sessions}
    return _with_descendants(found, table, _ancestry(table))


def _ancestry(table: Mapping[int, _Seen]) -> set[int]:
    """This process and those it comes from: an engine inside an agent must not end its own agent."""
    line, parent = {os.getpid()}, os.getppid()
    while parent in table and parent not in line:
        line.add(parent)
        parent = table[parent].parent
    return line


def _is_orphan(process: _Seen) -> bool:
    return process.parent == os.getpid() and process.session != os.getsid(0) and process.pid not in _live


def _with_descendants(roots: Iterable[int], table: Mapping[int, _Seen], spared: Collection[int]) -> list[_Seen]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in seen and pid not in spared:
            seen.add(pid)
            waiting.extend(children.get(pid, ()))
    return [table[pid] for pid in seen if pid in table and not table[pid].dead]


def _kill(find: Callable[[], list[_Seen]]) -> set[int]:
    """Kills until a look finds nothing more, and returns all that were found."""
    killed: set[int] = set()
    for pause in _KILL_PAUSES:
        left = find()
        if not left:
            break
        _signal(left, signal.SIGKILL)
        killed |= {process.pid for process in left}
        time.sleep(pause)
    return killed


def _signal(processes: Iterable[_Seen], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _wait(popen: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, settle: Callable[[], None]) -> None:
    """Where there are no process descriptors a thread waits."""
    popen.wait()
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle)


@cache
def _prepare_engine() -> None:
    """Makes this process the one that inherits its programs' orphans, with room for the pipes of many programs."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    roomy = _ROOMY if hard == resource.RLIM_INFINITY else min(_ROOMY, hard)
    if soft != resource.RLIM_INFINITY and soft < roomy:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (roomy, hard))
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


_PR_SET_CHILD_SUBREAPER = 36
_ROOMY = 4096
"""Open files; five per running program."""
