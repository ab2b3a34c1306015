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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interlock.agents.output import Kept, Output, Transcript
from interlock.agents.process_tree import MARKER, ProcessTree, Wrapped
from interlock.agents.redaction import Redaction

GRACE_S = 5.0
"""From the request to end to the kill."""
WATCH_S = 2.0
_LAST_WORDS_S = 0.3
"""How long output may stay open after the program has exited: a background child can keep it open for ever."""
_READ_OUT_S = 5.0
"""How long reading what is still in the pipe may take, when nobody is known to be left who could write."""
_LEFTOVER_GRACE_S = 1.0
"""How long what a finished program left running has to end itself."""
_FAREWELL_S = 0.5
"""How long a program may take to exit by itself once nothing more is said to it."""
_STDERR = 64_000


@dataclass(frozen=True)
class ProcessEnd:
    """How a program ended, as facts; texts are redacted."""

    exit: int | None = None
    """None: ended by us, or never started."""
    error: str = ""
    """Why it was never started."""
    timed_out: bool = False
    over: str = ""
    """Why `watch` had it ended."""
    seconds: float = 0.0
    out: bytes = b""
    """What it printed, cut in the middle."""
    stderr: str = ""
    """The end of what it printed there."""


Pipe = asyncio.WriteTransport
"""The input of a running program. What is written never blocks us, and what nobody reads is dropped at its end."""
Talk = Callable[[Pipe], Awaitable[None]]
"""Speaks with a program while it runs; when it returns, the program is to end. It is cancelled at the deadline."""


async def run(
    program: Wrapped,
    *,
    marker: str,
    deadline_s: float,
    redact: Redaction,
    stdin: bytes | Talk = b"",
    on_line: Callable[[bytes], None] | None = None,
    transcript: Path | None = None,
    keep: int = 1_000_000,
    one_stream: bool = False,
    watch: Callable[[], str] | None = None,
    enough: asyncio.Event | None = None,
) -> ProcessEnd:
    """Runs a program to its end, or to its deadline, and ends everything that it started.

    Args:
        marker: unique for this call, in the environment of everything that it starts.
        on_line: gets each line of its output, redacted, without its end. An error of it ends the program and is raised.
        transcript: a new file for its output, redacted, cut at 50 MB with a mark.
        keep: bytes of its output that come back.
        one_stream: standard error is output, too.
        watch: asked every two seconds, in a thread; what it says ends the program.
        enough: set when the program is to be ended before it does so by itself.
    """
    began, kept = time.monotonic(), Kept(keep)
    deadline = asyncio.get_running_loop().time() + deadline_s
    said = kept if one_stream else Kept(_STDERR)
    with contextlib.ExitStack() as cleanup:
        try:
            file = [cleanup.enter_context(contextlib.closing(Transcript(transcript)))] if transcript else []
            if not program.argv:
                raise ValueError("no program is named")
            popen = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own way waits for its children in its own manner
                list(program.argv),
                cwd=program.cwd,
                env={**program.env, MARKER: marker},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if one_stream else subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=program.pass_fds,
            )
        except (OSError, ValueError) as failure:
            return ProcessEnd(error=_why(failure, program.argv), seconds=time.monotonic() - began)
        finally:
            for handle in program.pass_fds:
                os.close(handle)
        tree = ProcessTree(popen, marker, launched=program.exit_file is not None)
        cleanup.callback(tree.close)
        outputs = [(tree.popen.stdout, Output(redact, [kept, *file], on_line))]
        if not one_stream:
            outputs.append((tree.popen.stderr, Output(redact, [said])))
        for _, output in outputs:
            cleanup.callback(output.finish)
        ended = await _follow(tree, stdin, outputs, deadline, watch, enough or asyncio.Event())
    code = tree.close()
    error = _not_started(program.exit_file, said.text) if program.exit_file and code is not None else ""
    return replace(
        ended,
        exit=None if error or ended.timed_out or ended.over else code,
        error=error,
        seconds=time.monotonic() - began,
        out=kept.content,
        stderr=said.text[-_STDERR:],
    )


async def _follow(
    tree: ProcessTree,
    stdin: bytes | Talk,
    outputs: Sequence[tuple[Any, Output]],
    deadline: float,
    watch: Callable[[], str] | None,
    enough: asyncio.Event,
) -> ProcessEnd:
    """Waits for whatever comes first, and ends what is left in order."""
    pipe, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, tree.popen.stdin)
    exited, talk = tree.exited(), None

    async def hear(source: Any, output: Output) -> None:
        await output.listen(source)
        await asyncio.wait([exited])  # it may work on without a word

    heard = [asyncio.create_task(hear(*one)) for one in outputs]
    if isinstance(stdin, bytes):
        pipe.write(stdin)
        pipe.close()
    else:
        talk = asyncio.ensure_future(stdin(pipe))
    watching, told = asyncio.create_task(_watch(watch)), asyncio.create_task(enough.wait())
    tasks: list[asyncio.Future[Any]] = [*heard, watching, told, *([talk] if talk else [])]
    try:
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait([exited, *tasks], timeout=left, return_when=asyncio.FIRST_COMPLETED)
    finally:
        try:
            if talk is not None and not exited.done():  # it may exit by itself before it is told to
                talk.cancel()
                pipe.close()
                await asyncio.wait([exited], timeout=_FAREWELL_S)
            if exited.done():
                await asyncio.wait(heard, timeout=_LAST_WORDS_S)
            await tree.end(_LEFTOVER_GRACE_S if exited.done() else GRACE_S)
            await asyncio.wait(heard, timeout=_READ_OUT_S)
        finally:
            for task in tasks:
                task.cancel()
            if pipe.get_write_buffer_size():
                pipe.abort()
            else:  # one that is closed already takes no `abort`
                pipe.close()
    await asyncio.wait(heard)
    for task in (*heard, *([talk] if talk in done else [])):
        if not task.cancelled():
            task.result()
    return ProcessEnd(timed_out=not done, over=watching.result() if watching in done else "")


async def _watch(watch: Callable[[], str] | None) -> str:
    while True:
        await asyncio.sleep(WATCH_S)
        if watch is not None and (why := await asyncio.to_thread(watch)):
            return why


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
    program, why, place = argv[0] if argv else "", str(error), ""
    if isinstance(error, OSError) and error.strerror:
        why, place = error.strerror, f" ({error.filename!r})" if error.filename not in (None, program) else ""
    return f"{program!r} cannot be started: {why}{place}"
