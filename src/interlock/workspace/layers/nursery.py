"""Starts launchers from a process that is ready to fork them (`launcher.nursery`); one for each engine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from interlock.workspace.layers.launcher.nursery import END

LAUNCHER = Path(__file__).parent / "launcher" / "__main__.py"
_PATIENCE_S = 5.0
_LONGEST_LOOK_S = 0.02


class Forked:
    """A launcher that was forked for this process and is its child; used as a `subprocess.Popen` is."""

    def __init__(self, pid: int, streams: list[IO[bytes] | None]) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.returncode = 0  # As subprocess has it for one that somebody else has collected.
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline, pause = time.monotonic() + timeout, 0.0005
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("launcher", timeout)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_LOOK_S)
        return code


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

    def prepare(self) -> None:
        """Start it, where that is possible, before it is needed."""
        with self._lock, suppress(OSError):
            if not self._refused:
                self._ready()

    def fork(self, order: Path, env: Mapping[str, str], stdin: int, stdout: int, stderr: int) -> Forked | None:
        """A launcher that carries out an order; None when it has to be started the ordinary way.

        Args:
            stdin: `subprocess.PIPE` or `subprocess.DEVNULL`, as are the others.
        """
        if self._refused:
            return None
        ours: list[IO[bytes] | None] = []
        theirs: list[int] = []
        try:
            for number, wanted in enumerate((stdin, stdout, stderr)):
                if wanted != subprocess.PIPE:
                    ours.append(None)
                    theirs.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
                    continue
                ends = os.pipe()
                mine, other = (ends[1], ends[0]) if number == 0 else ends
                ours.append(os.fdopen(mine, "wb" if number == 0 else "rb", 0))
                theirs.append(other)
            pid = self._asked(order, env, theirs)
        except OSError:
            pid = None
        finally:
            for handle in theirs:
                os.close(handle)
        if pid is not None:
            return Forked(pid, ours)
        for stream in ours:
            if stream is not None:
                stream.close()
        return None

    def _asked(self, order: Path, env: Mapping[str, str], streams: list[int]) -> int | None:
        words = (os.fsencode(order), *(os.fsencode(f"{name}={value}") for name, value in env.items()))
        text = b"\0".join(words) + END
        with self._lock:
            for _ in ("with the one that is there", "with a new one"):
                try:
                    return self._told(text, streams)
                except (OSError, ValueError):
                    self._end()
            self._refused = True
        return None

    def _told(self, text: bytes, streams: list[int]) -> int:
        mine, other = socket.socketpair()
        with mine:
            mine.settimeout(_PATIENCE_S)
            with other:
                socket.send_fds(self._ready(), [b"x"], [other.fileno()])
            pid = int(mine.recv(32))
            socket.send_fds(mine, [text[:1]], streams)
            mine.sendall(text[1:])
        return pid

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
