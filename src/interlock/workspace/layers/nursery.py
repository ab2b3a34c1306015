"""Starts launchers from a process that is ready to fork them (`launcher.nursery`); one for each engine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from interlock.workspace.layers.launcher.nursery import PLAIN
from interlock.workspace.layers.launcher.telling import tell

LAUNCHER = Path(__file__).parent / "launcher" / "__main__.py"
_PATIENCE_S = 5.0
_LONGEST_LOOK_S = 0.02


class Forked:
    """A launcher that was forked for this process and is its child. It waits for an order; from then on it is used as a
    `subprocess.Popen` is.

    Its exit is known as soon as its program, and all that this started, has ended.  Then it still takes the mounts away
    and writes to disk what it leaves; who needs that waits for it to `finish`.
    """

    def __init__(self, line: socket.socket) -> None:
        line.settimeout(_PATIENCE_S)
        self._line = line
        weakref.finalize(self, line.close)
        self.pid = 0
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self.returncode: int | None = None
        self._over = self._collected = False

    def start(self, order: Path, env: Mapping[str, str], stdin: int) -> None:
        """Have it carry out an order, with its output in pipes. OSError or ValueError when it is not there any more.

        Args:
            stdin: `subprocess.PIPE` or `subprocess.DEVNULL`.
        """
        environment = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        with ExitStack() as theirs, ExitStack() as ours:

            def pipe(mine: int) -> tuple[int, IO[bytes]]:
                ends = os.pipe()
                theirs.callback(os.close, ends[1 - mine])
                return ends[1 - mine], ours.enter_context(os.fdopen(ends[mine], "wb" if mine else "rb", 0))

            source: tuple[int, IO[bytes] | None] = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None
            theirs.callback(os.close, source[0])
            if stdin == subprocess.PIPE:
                source = pipe(1)
            out, err = pipe(0), pipe(0)
            self.pid = int(self._line.recv(32))
            tell(self._line, str(order), environment, (source[0], out[0], err[0]))
            self._line.setblocking(False)
            self.stdin, self.stdout, self.stderr = source[1], out[1], err[1]
            ours.pop_all()

    def dismiss(self) -> None:
        """There will be no order."""
        with self._line, suppress(OSError, ValueError):
            self.pid = self.pid or int(self._line.recv(32))
            self._line.close()
            os.waitpid(self.pid, 0)

    @property
    def word(self) -> int:
        """A descriptor that can be read when the program is over, or the launcher gone without a word of it."""
        return self._line.fileno()

    def over(self) -> bool:
        """Whether the launcher said that nothing of its program is left."""
        if self.returncode is None:
            with suppress(BlockingIOError, ConnectionError):
                if said := self._line.recv(32):
                    self.returncode, self._over = int(said), True
        return self._over

    def poll(self) -> int | None:
        if not self.over():
            self.collect()
        return self.returncode

    def collect(self) -> bool:
        """Whether it is gone; its number is free then."""
        if not self._collected:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0  # As subprocess has it for one that somebody else has collected.
            if pid:
                self._collected = True
                self._line.close()
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self._collected

    def wait(self, timeout: float) -> int:
        deadline, pause = time.monotonic() + timeout, 0.0005
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("launcher", timeout)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_LOOK_S)
        return code

    def finish(self) -> None:
        """When this returns, what it leaves is on disk."""
        if not self.collect():
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.collect()


class Nursery:
    """Where launchers are forked; started at the first need, gone with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._owner = self._pid = 0
        self._refused = sys.platform != "linux"
        """It cannot be had here: nobody tries again."""

    def close(self) -> None:
        """End it; it is started again when it is needed."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._control is not None and self._owner == os.getpid():
            self._control.close()
            # Not asked to end: it would not hear of it while a process that was forked here holds the socket too.
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        self._control = None

    def begin(self, wanted: bytes = PLAIN) -> Forked | None:
        """A launcher that gets ready for an order; None when it has to be started the ordinary way."""
        with self._lock:
            for _ in ("with the one that is there", "with a new one"):
                if self._refused:
                    break
                mine, other = socket.socketpair()
                with other:
                    try:
                        socket.send_fds(self._ready(), [wanted], [other.fileno()])
                    except OSError:
                        mine.close()
                        self._end()
                    else:
                        return Forked(mine)
            self._refused = True
        return None

    def fork(self, order: Path, env: Mapping[str, str], stdin: int, ready: Forked | None = None) -> Forked | None:
        """A launcher that carries out an order (`Forked.start`), the one that is ready or a new one; None when it has
        to be started the ordinary way."""
        for _ in ("with the one that is ready", "with the nursery that is there", "with a new one"):
            if (launcher := ready or self.begin()) is None:
                return None
            try:
                launcher.start(order, env, stdin)
            except (OSError, ValueError):
                if launcher.pid:  # It was there, and is gone; nobody waits for one that never came.
                    launcher.dismiss()
                ready = None
                self.close()
            else:
                return launcher
        self._refused = True
        return None

    def _ready(self) -> socket.socket:
        if self._control is None or self._owner != os.getpid():
            mine, other = socket.socketpair()
            try:
                self._pid = _started(other.fileno())
            except OSError:
                mine.close()
                raise
            finally:
                other.close()
            self._control, self._owner = mine, os.getpid()
        return self._control


def _started(control: int) -> int:
    """The nursery's process; in this session, for by that the engine knows it from what a program left behind."""
    streams = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(LAUNCHER), "--nursery", "3"],
        {},
        file_actions=[*streams, (os.POSIX_SPAWN_DUP2, control, 3)],
    )


NURSERY = Nursery()
