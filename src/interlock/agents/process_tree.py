"""A program and everything it starts, so that all of it can be ended.

A signal to the direct child is not enough: launchers leave their real work behind, and the shell tools of coding
agents put themselves into sessions of their own.  So there are two nets, each for what slips through the other:

1. the session that every program gets at its start, with its process groups;
2. the marker in the environment, inherited by whatever is started, found by looking at all processes.

Where the program runs in a layer, what is started is bubblewrap.  Its process space ends with it, so nothing needs to
be looked for; but it must not be told to end before the program has had its time, since it would take it along.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

MARKER = "INTERLOCK_MARKER"
"""The variable that every process of one call of one program carries."""
_LONGEST_LOOK_PAUSE = 0.1
_HELD_S = 2.0
"""A process that is still there so long after it was killed is held by the kernel."""
_live: set[ProcessTree] = set()


class Wrapped(Protocol):
    """How a program is started, in a layer or without one."""

    @property
    def argv(self) -> Sequence[str]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def cwd(self) -> str: ...
    @property
    def pass_fds(self) -> Sequence[int]:
        """Open descriptors that it inherits; closed by whoever starts it."""
        ...

    @property
    def exit_file(self) -> Path | None:
        """Where there is one, what is started is bubblewrap, and notes there whether and how the program ended."""
        ...


class ProcessTree:
    """One started program with all its descendants; `close` it whatever happens."""

    def __init__(self, popen: subprocess.Popen[bytes], marker: str, *, launched: bool) -> None:
        """A program that was started in a session of its own, with its marker (`MARKER`) in its environment.

        Args:
            launched: it is bubblewrap, and what it starts is the program that is meant.
        """
        self.popen, self._marker, self._launched = popen, marker, launched
        self._inside: list[psutil.Process] = []
        """What its launcher has started; it may die a moment later than that."""
        self._ended = False
        """It did not end by itself."""
        _live.add(self)

    def exited(self) -> asyncio.Future[None]:
        """Done when the program itself has exited."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wait() -> None:
            if hasattr(os, "waitid"):
                with contextlib.suppress(ChildProcessError):  # collected meanwhile; until then its number stays taken
                    os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                self.popen.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(future.set_result, None)

        threading.Thread(target=wait, daemon=True).start()
        return future

    async def end(self, patience: float) -> None:
        """Ends all that is left: a termination request, `patience` seconds, then kill; cancelled, it kills at once."""
        left = self._left()
        self._ended = any(process.pid == self.popen.pid for process in left)
        for process in left:
            if not (self._launched and process.pid == self.popen.pid):
                with contextlib.suppress(psutil.Error):
                    process.terminate()
        deadline, pause = time.monotonic() + patience, 0.005
        try:
            while left and (remaining := deadline - time.monotonic()) > 0:
                await asyncio.sleep(min(pause, remaining))
                pause = min(pause * 2, _LONGEST_LOOK_PAUSE)
                left = self._left()
        finally:
            if left:
                self.kill()
        _live.discard(self)

    def kill(self) -> None:
        """Kills all that is left, now."""
        _kill(self._left)

    def close(self) -> int | None:
        """Kills what was not ended, collects the program and returns its exit status (negative: the signal).

        None: it was ended by us.
        """
        if self in _live:
            self.kill()
            _live.remove(self)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # of a program with threads the last ones may still end
            self.popen.wait(_HELD_S)
        return None if self._ended else self.popen.returncode

    def _left(self) -> list[psutil.Process]:
        """What of it is alive."""
        if not self._launched:
            return list(_alive(lambda session, marker: session == self.popen.pid or marker == self._marker))
        with contextlib.suppress(psutil.Error):
            launcher = psutil.Process(self.popen.pid)
            if launcher.status() != psutil.STATUS_ZOMBIE:
                self._inside = [launcher, *launcher.children(recursive=True)]
        return [process for process in self._inside if _lives(process)]


def kill_everything() -> None:
    """Kills every program that is running and all its descendants, now (the second Ctrl-C)."""
    for tree in _live:
        tree.kill()


def end_leftovers(marker: str) -> None:
    """Kills what an engine that is gone has left running.

    Args:
        marker: the beginning of the marker that all its calls have in common.
    """
    sessions: set[int] = set()

    def left() -> list[psutil.Process]:
        sessions.update(_alive(lambda session, found: found.startswith(marker)).values())
        return list(_alive(lambda session, found: session in sessions)) if sessions else []

    _kill(left)


def _alive(ours: Callable[[int, str], bool]) -> dict[psutil.Process, int]:
    """The living processes of such a session and marker, each with its session."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # it ended meanwhile
            session = os.getsid(process.pid)
            if ours(session, _marker(process)) and _lives(process):
                found[process] = session
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:  # it ended meanwhile
        return False


def _marker(process: psutil.Process) -> str:
    try:
        return process.environ().get(MARKER, "")
    except (psutil.Error, OSError):  # it may not be read
        return ""


def _kill(find: Callable[[], list[psutil.Process]]) -> None:
    """Kills until a look finds nothing more."""
    deadline = time.monotonic() + _HELD_S
    while (left := find()) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.002)
