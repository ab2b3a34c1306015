"""A program and everything it starts, so that all of it can be ended.

A signal to the direct child is not enough: launchers leave their real work behind, and the shell tools of
coding agents put themselves into sessions of their own.  So three nets, each for what slips through the
one before:

1. the process group and session that every program gets at its start;
2. the marker in the environment, inherited by whatever is started, found by looking at all processes;
3. descent: the engine is a *child subreaper*, so the orphans of its programs become its own children even
   when they changed group and session and cleaned their environment.

An orphan without any mark cannot be told apart when several programs run side by side.  It is ended with the
last of the programs that were running when it was born: late, but never while its owner may still need it,
and never after all of them are gone.

The third net has a price: a process in a session of its own that is a child of the engine is taken for such
an orphan.  Programs in a new session are therefore started here and nowhere else; what the engine starts in
its own session (its git calls) is not concerned.  The numbers of programs that are still running or not yet
collected are known, so that no exit status is ever taken from whoever waits for it.
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
from functools import cache
from pathlib import Path
from typing import IO, Final, Protocol

from interlock.agents import process_table
from interlock.agents.process_table import MARKER, Listed
from interlock.agents.runner import Launched, Started
from interlock.errors import EngineFault

_KILL_PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, *(0.05,) * 40)
"""Between two looks while killed processes disappear; at the end of it a process is held by the kernel."""
_LONGEST_LOOK_PAUSE: Final = 0.1
_NOT_ENTERED: Final = 125
"""How a launcher ends that gave up while it made the namespaces: their first process may still be there."""
_COLLECT_S: Final = 2.0
"""How long the exit status of an ended program is waited for; longer only when the kernel holds it."""


class Fork(Protocol):
    """What `Enclosure.fork` is."""

    def __call__(self, command_line: Sequence[str], *, env: Mapping[str, str], stdin: int) -> Launched | None: ...


_live: dict[int, ProcessTree] = {}
_lock: Final = threading.RLock()
"""Start and registration are one step for everyone who looks, and a signal handler may look while we do."""


class ProcessTree:
    """One started program with all its descendants; `close` it whatever happens."""

    def __init__(
        self,
        popen: Started,
        marker: str,
        since: float,
        *,
        launched: Launched | None = None,
        wrapped: bool = False,
        sealed: bool = False,
    ) -> None:
        self.popen = popen
        self._launched = launched
        self.wrapped: Final = wrapped
        """What was started is a launcher, and the program its descendant."""
        self._sealed = sealed
        self.pid: Final = popen.pid
        """Also the number of its process group and session."""
        self.marker: Final = marker
        self.since: Final = since
        self._ended = self._closed = False
        self._forget_exit: Callable[[], None] = lambda: None

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        marker: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] = subprocess.PIPE,
        wrapped: bool = False,
        sealed: bool = False,
        fork: Fork | None = None,
    ) -> ProcessTree:
        """The program, running in a session of its own with the marker in its environment.

        OSError or ValueError if it cannot be started.

        Args:
            wrapped: `argv` is a launcher that lives as long as the program that it starts.
            sealed: the program is in a process namespace, and the launcher ends in order only when all in there have.
            fork: a faster way to start it, where there is one.
        """
        if not argv:
            raise ValueError("no program is named")
        _prepare_engine()
        with _lock:
            _forget_closed()
            since = process_table.now()
            forked = fork(argv, env={**env, MARKER: marker}, stdin=stdin) if fork and isinstance(stdin, int) else None
            popen: Started = forked or subprocess.Popen(
                list(argv),
                cwd=cwd,
                env={**env, MARKER: marker},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
            if forked is not None:  # It may have waited for a while.
                since = min(since, process_table.started(forked.pid) or since)
            tree = cls(popen, marker, since, launched=forked, wrapped=wrapped, sealed=sealed)
            _live[popen.pid] = tree
        return tree

    def exited(self) -> asyncio.Future[None]:
        """Done when the program itself has exited; it stays uncollected, so that its number cannot be given away."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        try:
            handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            threading.Thread(target=_wait_uncollected, args=(self.pid, loop, settle), daemon=True).start()
            return future
        launched = self._launched

        def forget() -> None:
            self._forget_exit = lambda: None
            loop.remove_reader(handle)
            os.close(handle)
            if launched is not None:
                loop.remove_reader(launched.word)

        def notice() -> None:
            forget()
            settle()

        def listen() -> None:
            assert launched is not None
            loop.remove_reader(launched.word)
            if launched.over():
                notice()

        self._forget_exit = forget
        loop.add_reader(handle, notice)
        if launched is not None:
            loop.add_reader(launched.word, listen)
        return future

    async def end(self, patience: float) -> tuple[int, ...]:
        """Ends all that is left: a termination request, `patience` seconds, then kill. Returns what resisted even that.

        Nothing left costs one look, or none where the kernel has seen to it. Cancelling it kills at once.
        """
        if self._took_all_along():
            self._ended = True
            return ()
        try:
            left = _find([self])
            # A launcher would take everything with it at once, before the program could end as it wants to.
            _signal((one for one in left if not (self.wrapped and one.pid == self.pid)), signal.SIGTERM)
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

    def _took_all_along(self) -> bool:
        """Whether a launcher has ended in order, and with it the namespace in which everything was."""
        if self._launched is not None and self._launched.over():
            return True
        if not self._sealed:
            return False
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return found is not None and found.si_code == os.CLD_EXITED and found.si_status != _NOT_ENTERED

    def kill(self) -> None:
        """Kills all that is left, now."""
        _kill(lambda: _find([self]))
        self._ended = True

    def close(self) -> int:
        """Kills what was not ended, collects the program and returns its exit status (negative: the signal).

        May be called again for the status.
        """
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
            self._closed = True
            _forget_closed()
        return -signal.SIGKILL if code is None else code


def _forget_closed() -> None:
    """Only what is collected: a number that is not known any more is taken for an orphan's."""
    for tree in list(_live.values()):
        if tree._closed and (tree._launched is None or tree._launched.collect()):
            del _live[tree.pid]


def kill_everything() -> None:
    """Kills every program that is running and all its descendants, now (the second Ctrl-C)."""
    _kill(lambda: _find(list(_live.values())))


def end_leftovers(marker: str, pgid: int | None = None, started: float | None = None) -> list[int]:
    """Kills what an attempt of a process that is gone has left behind, and returns the numbers of those ended.

    Args:
        marker: the beginning of the marker, ``<run-id>:<dispatch-key>:`` for all attempts of a dispatch.
        pgid: the recorded process group; it counts only if its leader is still the one that began at `started`.
        started: the leader's start time as `process_table.started` gave it.
    """
    if not marker:
        raise EngineFault("leftovers cannot be looked for without a marker: every process would match")
    return sorted(_kill(lambda: _left_behind(marker, pgid, started)))


def _left_behind(marker: str, pgid: int | None, started: float | None) -> list[Listed]:
    table = {process.pid: process for process in process_table.processes()}
    spared = _ancestry(table)
    leader = table.get(pgid) if pgid is not None else None
    same_leader = leader is not None and started is not None and abs(leader.started - started) < 1e-6
    found = {
        process.pid
        for process in table.values()
        if (same_leader and pgid in (process.group, process.session))
        or (process_table.marker(process.pid) or "").startswith(marker)
    }
    return _with_descendants(found - spared, table.values(), spared)


def _ancestry(table: Mapping[int, Listed]) -> set[int]:
    """This process and those it comes from: an engine inside an agent must not end its own agent."""
    line = {os.getpid()}
    parent = os.getppid()
    while parent in table and parent not in line:
        line.add(parent)
        parent = table[parent].parent
    return line


def _find(trees: Collection[ProcessTree]) -> list[Listed]:
    """Every living process of these trees, by all three nets; orphans that died meanwhile are collected."""
    if not trees:
        return []
    with _lock:
        _forget_closed()
        since = min(tree.since for tree in trees)
        table = [process for process in process_table.processes() if process.started >= since]
        wanted = {tree.pid for tree in trees}
        markers = {tree.marker for tree in trees}
        others = {pid: tree for pid, tree in _live.items() if pid not in wanted}
        found = set(wanted)
        for process in table:
            if process.session in others:
                continue
            if process.session in wanted or process.group in wanted:
                found.add(process.pid)
            elif process.dead:
                _collect(process)
            elif (marker := process_table.marker(process.pid)) in markers or (
                _is_orphan(process) and not _may_belong_to(process, marker, others.values())
            ):
                found.add(process.pid)
        spared = {os.getpid(), *others}
        living = _with_descendants(found - spared, table, spared)
        for process in table:
            if process.dead and process.pid in found:
                _collect(process)
        return living


def _is_orphan(process: Listed) -> bool:
    return process.parent == os.getpid() and process.session != os.getsid(0) and process.pid not in _live


def _may_belong_to(process: Listed, marker: str | None, others: Iterable[ProcessTree]) -> bool:
    return any(marker == other.marker if marker is not None else other.since <= process.started for other in others)


def _with_descendants(roots: set[int], table: Iterable[Listed], spared: Collection[int]) -> list[Listed]:
    children: dict[int, list[Listed]] = {}
    by_pid: dict[int, Listed] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
        by_pid[process.pid] = process
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in seen and pid not in spared:
            seen.add(pid)
            waiting.extend(child.pid for child in children.get(pid, ()))
    return [by_pid[pid] for pid in seen if pid in by_pid and not by_pid[pid].dead]


def _collect(process: Listed) -> None:
    """Takes a dead orphan off the process table, never one that somebody waits for."""
    if _is_orphan(process):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def _kill(find: Callable[[], list[Listed]]) -> set[int]:
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


def _signal(processes: Iterable[Listed], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _wait_uncollected(pid: int, loop: asyncio.AbstractEventLoop, settle: Callable[[], None]) -> None:
    """Where there are no process descriptors a thread waits, without collecting."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
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


_PR_SET_CHILD_SUBREAPER: Final = 36
_ROOMY: Final = 4096
"""Open files; five per running program."""
