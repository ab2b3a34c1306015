"""The one way a program of a dispatch is started: a coding agent, a command of the engine.

It gets its input without being able to block us by not reading it, its output is heard line by line and kept so that
memory does not grow with it, it is held to a deadline, and when this returns, raises or is cancelled, nothing that it
started is left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from interlock.agents.output import Kept, Output, Transcript
from interlock.agents.process_tree import ProcessTree
from interlock.agents.redaction import Redaction

WATCH_S = 2.0
_LAST_WORDS_S = 0.3
"""How long output may stay open after the program has exited: a background child can keep it open for ever."""
_LEFTOVER_GRACE_S = 1.0
"""How long what a finished program left running has to end itself."""
_FAREWELL_S = 0.5
"""How long a program may take to exit by itself once nothing more is said to it."""
_STDERR = 64_000


@dataclass(frozen=True)
class Ended:
    """How a program ended, as facts; texts are redacted."""

    exit: int | None = None
    """None: ended by us, or never started."""
    error: str = ""
    """Why it was never started."""
    timed_out: bool = False
    over: str = ""
    """Why `watch` had it ended."""
    enough: bool = False
    seconds: float = 0.0
    out: bytes = b""
    """What it printed, cut in the middle."""
    stderr: str = ""
    """The end of what it printed there."""
    deaf: bool = False
    """A line was longer than anybody could hear."""


class Pipe:
    """The input of a running program. What is written never blocks us, and what nobody reads is dropped at its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._handle = pipe.fileno()
        self._left = bytearray()
        self._loop = asyncio.get_running_loop()
        self._closing = self._waiting = False
        os.set_blocking(self._handle, False)

    def write(self, content: bytes) -> None:
        if self._pipe.closed or self._closing:
            return
        self._left += content
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(self._handle, self._move)

    def close(self) -> None:
        """Ends the input, as soon as what was written is read."""
        self._closing = True
        if not self._waiting:
            self.stop()

    def stop(self) -> None:
        """Ends it now."""
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._handle)
        with contextlib.suppress(OSError):
            self._pipe.close()

    def _move(self) -> None:
        try:
            del self._left[: os.write(self._handle, self._left[:65536])]
        except BlockingIOError:
            return
        except OSError:  # the program does not want the rest
            self.stop()
            return
        if not self._left:
            self._waiting = False
            self._loop.remove_writer(self._handle)
            if self._closing:
                self.stop()


Talk = Callable[[Pipe], Awaitable[None]]
"""Speaks with a program while it runs; when it returns, the program is to end. It is cancelled at the deadline, and
has two seconds then for a last word."""


async def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | Path,
    *,
    marker: str,
    deadline_s: float,
    redact: Redaction,
    stdin: bytes | Path | Talk | None = None,
    on_line: Callable[[bytes], None] | None = None,
    transcript: Path | None = None,
    keep: int = 1_000_000,
    one_stream: bool = False,
    watch: Callable[[], str] | None = None,
    enough: asyncio.Event | None = None,
    pass_fds: Sequence[int] = (),
    exit_file: Path | None = None,
    grace_s: float = 5.0,
) -> Ended:
    """Runs a program to its end, or to its deadline, and ends everything that it started.

    Args:
        marker: unique for this call, in the environment of everything that it starts.
        on_line: gets each line of its output, redacted, without its end. An error of it ends the program and is raised.
        transcript: a new file for its output, redacted, cut at 50 MB with a mark.
        keep: bytes of its output that come back.
        one_stream: standard error is output, too.
        watch: asked every two seconds, in a thread; what it says ends the program.
        enough: set when the program is to be ended before it does so by itself.
        pass_fds: open descriptors that it inherits; closed here.
        exit_file: what is started is bubblewrap, and writes there whether and how the program ended.
        grace_s: from the request to end to the kill.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        try:
            file = None if transcript is None else cleanup.enter_context(Transcript(transcript))
            given = cleanup.enter_context(stdin.open("rb")) if isinstance(stdin, Path) else None
            tree = ProcessTree.start(
                argv,
                cwd=cwd,
                env=env,
                marker=marker,
                stdin=given or (subprocess.DEVNULL if stdin is None else subprocess.PIPE),
                stderr=subprocess.STDOUT if one_stream else subprocess.PIPE,
                pass_fds=pass_fds,
                launched=exit_file is not None,
            )
        except (OSError, ValueError) as failure:
            return Ended(error=_why(failure, argv), seconds=time.monotonic() - began)
        finally:
            for handle in pass_fds:
                os.close(handle)
        cleanup.callback(tree.close)
        kept, errors = Kept(keep), Kept(_STDERR)
        out = cleanup.enter_context(Output(tree.popen.stdout, redact, (kept, file), on_line))
        sinks = [out]
        if tree.popen.stderr is not None:
            sinks.append(cleanup.enter_context(Output(tree.popen.stderr, redact, (errors,), None)))
        ending = await _follow(tree, stdin, out, sinks, deadline_s, watch, enough, grace_s)
        for sink in sinks:
            sink.drain()
    code = tree.close()
    if out.fault is not None:
        raise out.fault
    if file is not None:
        file.check(argv)
    error = _not_started(exit_file, errors.text) if ending.by_itself and exit_file is not None else ""
    return Ended(
        exit=code if ending.by_itself and not error else None,
        error=error,
        timed_out=ending.timed_out,
        over=ending.over,
        enough=ending.enough,
        seconds=time.monotonic() - began,
        out=kept.content,
        stderr=(kept if one_stream else errors).text[-_STDERR:],
        deaf=out.deaf,
    )


@dataclass(frozen=True)
class _Ending:
    by_itself: bool
    timed_out: bool = False
    over: str = ""
    enough: bool = False


async def _follow(
    tree: ProcessTree,
    stdin: bytes | Path | Talk | None,
    out: Output,
    sinks: Sequence[Output],
    deadline_s: float,
    watch: Callable[[], str] | None,
    enough: asyncio.Event | None,
    grace_s: float,
) -> _Ending:
    """Waits for whatever comes first, and ends what is left in order."""
    exited = tree.exited()
    pipe = None if tree.popen.stdin is None else Pipe(tree.popen.stdin)
    talk: asyncio.Future[None] | None = None
    if pipe is not None and isinstance(stdin, bytes):
        pipe.write(stdin)
        pipe.close()
    elif pipe is not None and callable(stdin):
        talk = asyncio.ensure_future(stdin(pipe))
    watching = None if watch is None else asyncio.create_task(_watch(watch))
    told = None if enough is None else asyncio.create_task(enough.wait())
    try:
        await asyncio.wait(
            [future for future in (exited, out.broken, talk, watching, told) if future is not None],
            timeout=deadline_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        spoken = talk is not None and talk.done()
        timed_out = not any(future.done() for future in (exited, out.broken, talk, watching, told) if future)
        await _take_leave(talk, pipe, exited)
        if exited.done():
            await asyncio.wait([sink.ended for sink in sinks], timeout=_LAST_WORDS_S)
        await tree.end(min(grace_s, _LEFTOVER_GRACE_S) if exited.done() else grace_s)
        if talk is not None and spoken:
            talk.result()
        over = watching.result() if watching is not None and watching.done() else ""
        by_itself = exited.done() and not timed_out and not over
        return _Ending(by_itself, timed_out, over, enough is not None and enough.is_set())
    except asyncio.CancelledError:
        await _take_leave(talk, pipe, exited)
        await tree.end(grace_s)
        raise
    finally:
        for task in (watching, told, talk):
            if task is not None:
                task.cancel()
        if pipe is not None:
            pipe.stop()


async def _watch(watch: Callable[[], str]) -> str:
    while True:
        await asyncio.sleep(WATCH_S)
        if why := await asyncio.to_thread(watch):
            return why


async def _take_leave(talk: asyncio.Future[None] | None, pipe: Pipe | None, exited: asyncio.Future[None]) -> None:
    """Ends a conversation, so that the program can exit by itself before it is told to."""
    if talk is None or pipe is None or exited.done():
        return
    if not talk.done():
        talk.cancel()
        await asyncio.wait([talk, exited], timeout=2.0, return_when=asyncio.FIRST_COMPLETED)
    pipe.close()
    await asyncio.wait([exited], timeout=_FAREWELL_S)


def _not_started(exit_file: Path, said: str) -> str:
    """What bubblewrap, or what it starts in front of the program, says of one that could not be started."""
    last = (said.strip().splitlines() or ["the sandbox could not be made"])[-1]
    code = recorded_exit(exit_file)
    by_us = code in (126, 127) and last.startswith("interlock: ")
    return last.removeprefix("interlock: ") if code is None or by_us else ""


def recorded_exit(exit_file: Path) -> int | None:
    """The exit status that bubblewrap noted; None where the program has not ended, or never began."""
    try:
        lines = exit_file.read_bytes().splitlines()
        told = [json.loads(line) for line in lines if b"exit-code" in line]
        return int(told[-1]["exit-code"]) if told else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _why(error: OSError | ValueError, argv: Sequence[str]) -> str:
    program = argv[0] if argv else ""
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename!r})" if error.filename not in (None, program) else ""
        return f"{program!r} cannot be started: {error.strerror}{place}"
    return f"{program!r} cannot be started: {error}"
