"""The one way the engine starts a program, for a dispatch as for the verb `command`.

The program gets its input without being able to block us by not reading it, its output goes to files in
pieces so that memory does not grow with it, it is held to a deadline, and when this returns, raises or is
cancelled, nothing that it started is left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import inspect
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from interlock.agents.capped_file import OUTPUT_LIMIT, CappedFile
from interlock.agents.plain_files import read_plain
from interlock.agents.process_table import MARKER
from interlock.agents.process_tree import ProcessTree
from interlock.agents.runner import Enclosure
from interlock.errors import WorkspaceFailed

_LAUNCHER: Final = "interlock: "
_LAUNCHERS_CODES: Final = (125, 126, 127)
"""How the launcher of a layer speaks, and how it ends, when it could not start the program."""
_CHUNK: Final = 64 * 1024
_LARGEST_PIPE: Final = 1024 * 1024
_LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line that are held until it is whole."""
_LAST_WORDS_S: Final = 0.3
"""How long output may stay open after the program has exited: a background child can keep it open for ever."""
_LEFTOVER_GRACE_S: Final = 1.0
"""How long what a finished program left running has to end itself."""
_TEMPORARY: Final = ("TMPDIR", "TMP", "TEMP")
_FAREWELL_S: Final = 0.5
"""How long a program may take to exit by itself once nothing more is said to it."""


@dataclass(frozen=True)
class ProcessExit:
    """How a program ended, as facts."""

    code: int | None
    """Exit status, negative for a signal; ``None`` when nothing was started."""
    timed_out: bool = False
    partial: bool = False
    """It ended well, or said all it had to say, in the time given after it had been asked for partial results."""
    stdout_cut: bool = False
    stderr_cut: bool = False
    spawn_error: str | None = None
    duration_s: float = 0.0
    survivors: tuple[int, ...] = ()
    """Processes that not even a kill could end (held by the kernel, or of another user)."""


class Dialogue(Protocol):
    """Speaks with a program while it runs, where one input at its start is not enough."""

    def begin(self, pipe: IO[bytes]) -> asyncio.Future[None]:
        """Takes over the program's input; what is returned is done when nothing more is expected of the program."""
        ...

    async def stop(self) -> None:
        """Asks the program to break off, and waits a short while for it."""
        ...

    def hang_up(self) -> None:
        """Closes the program's input. May be called again."""
        ...


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | Dialogue | None,
    stdout: Path,
    stderr: Path,
    timeout_s: float | None,
    marker: str,
    grace_s: float = 5.0,
    limit_bytes: int = OUTPUT_LIMIT,
    on_start: Callable[[int, int], None] | None = None,
    tap: Callable[[bytes], None] | None = None,
    clean: Callable[[bytes], bytes] | None = None,
    partial: Callable[[], Awaitable[None] | None] | None = None,
    partial_grace_s: float = 0.0,
    within: Enclosure | None = None,
    enough: asyncio.Future[None] | None = None,
) -> ProcessExit:
    """Runs a program to its end, or to its deadline, and ends everything it started.

    Args:
        stdin: what it may read, or who speaks with it; ``None`` gives it an empty input.
        stdout: the file for its output, at most `limit_bytes` long, then cut with a mark. `stderr` likewise.
        timeout_s: at this deadline `partial` is called and `partial_grace_s` given, then termination is requested,
            and after `grace_s` it is killed.
        marker: unique for this call, in the environment of everything it starts.
        on_start: gets the number of the process and of its group before anything is waited for.
        tap: gets all of the output, piece by piece, as it comes; also what the file has no room for. An empty piece
            says that the program has closed its output. An error of it ends the program and is raised.
        clean: what becomes of whole lines before they are stored.
        within: where it runs; `cwd` is a folder there.
        enough: done when the program is to be ended before it does so by itself.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        out, err = (cleanup.enter_context(_output_file(path, limit_bytes)) for path in (stdout, stderr))
        try:
            feed = subprocess.DEVNULL if stdin is None else subprocess.PIPE
            tree = _start(argv, cwd, {**env, MARKER: marker}, marker, feed, within)
        except (OSError, ValueError) as error:
            return ProcessExit(None, spawn_error=_why(error, argv), duration_s=time.monotonic() - began)
        cleanup.callback(tree.close)
        exited = tree.exited()
        sinks = [
            cleanup.enter_context(_Sink(pipe, file, reader, clean))
            for pipe, file, reader in ((tree.popen.stdout, out, tap), (tree.popen.stderr, err, None))
        ]
        dialogue = None if isinstance(stdin, bytes) else stdin
        if isinstance(stdin, bytes):
            cleanup.enter_context(_Feed(tree.popen.stdin, stdin))
        over = exited if dialogue is None else _begin(dialogue, tree, cleanup)
        timed_out = in_grace = False
        try:
            if on_start is not None:
                on_start(tree.pid, tree.pid)
            early = () if enough is None else (enough,)
            timed_out = not await _first(timeout_s, exited, over, sinks[0].broken, *early)
            if timed_out and partial is not None and partial_grace_s > 0:
                if inspect.isawaitable(asked := partial()):
                    await asked
                in_grace = await _first(partial_grace_s, exited, over)
            await _take_leave(dialogue, exited, over)
            if exited.done():
                await _within(_LAST_WORDS_S, *(sink.ended for sink in sinks))
        except asyncio.CancelledError:
            await _take_leave(dialogue, exited, over)
            await tree.end(grace_s)
            raise
        survivors = await tree.end(min(grace_s, _LEFTOVER_GRACE_S) if exited.done() else grace_s)
        for sink in sinks:
            sink.drain()
    code = tree.close()
    for sink, path in zip(sinks, (stdout, stderr), strict=True):
        sink.check(argv[0], path)
    if within is not None and (why := _not_started(code, stderr)):
        return ProcessExit(None, spawn_error=why, duration_s=time.monotonic() - began)
    return ProcessExit(
        code,
        timed_out=timed_out,
        partial=in_grace and (code == 0 or (dialogue is not None and over.done())),
        stdout_cut=out.cut,
        stderr_cut=err.cut,
        duration_s=time.monotonic() - began,
        survivors=survivors,
    )


def _start(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], marker: str, stdin: int, within: Enclosure | None
) -> ProcessTree:
    if within is None:
        return ProcessTree.start(argv, cwd=cwd, env=env, marker=marker, stdin=stdin)
    _check_program(argv, env)
    if within.confined:
        # The user's own folder for temporary files is hidden there, and /tmp is private.
        env = {name: value for name, value in env.items() if name not in _TEMPORARY or _lies_in(value, within.root)}
    launcher = within.command_line(argv, cwd=cwd, env=env)
    # The folder is the program's, and may be known to the launcher alone.
    return ProcessTree.start(
        launcher,
        cwd=Path("/"),
        env=env,
        marker=marker,
        stdin=stdin,
        wrapped=True,
        sealed=within.sealed,
        fork=within.fork,
    )


def _lies_in(place: str, root: Path) -> bool:
    return Path(place).is_relative_to(root)


def _check_program(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """OSError for a program that is not there: its launcher starts well, and only a status would say so."""
    program = argv[0] if argv else ""
    relative = "/" in program and not program.startswith("/")  # counts from a folder that only the launcher knows
    if not relative and shutil.which(program, path=env.get("PATH", os.defpath)) is None:
        number = errno.EACCES if Path(program).exists() else errno.ENOENT
        raise OSError(number, os.strerror(number), program)


def _output_file(path: Path, limit: int) -> CappedFile:
    try:
        return CappedFile(path, limit)
    except OSError as error:
        raise WorkspaceFailed(f"an output file cannot be created: {error.strerror}", where=str(path)) from error


async def _within(seconds: float | None, *futures: asyncio.Future[None]) -> bool:
    """Whether all of them are done in that time; they go on either way."""
    _, pending = await asyncio.wait(futures, timeout=seconds)
    return not pending


async def _first(seconds: float | None, *futures: asyncio.Future[None]) -> bool:
    """Whether one of them is done in that time; they go on either way."""
    done, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def _begin(dialogue: Dialogue, tree: ProcessTree, cleanup: contextlib.ExitStack) -> asyncio.Future[None]:
    pipe = tree.popen.stdin
    assert pipe is not None
    cleanup.callback(dialogue.hang_up)
    return dialogue.begin(pipe)


async def _take_leave(dialogue: Dialogue | None, exited: asyncio.Future[None], over: asyncio.Future[None]) -> None:
    """Ends a conversation, so that the program can exit by itself before it is told to."""
    if dialogue is None or exited.done():
        return
    if not over.done():
        await dialogue.stop()
    dialogue.hang_up()
    await _within(_FAREWELL_S, exited)


def _not_started(code: int, stderr: Path) -> str:
    """What a launcher says of a program that it could not start; empty when it could."""
    if code not in _LAUNCHERS_CODES:
        return ""
    said = (read_plain(stderr, _LONGEST_LINE) or b"").decode("utf-8", "replace").strip()
    return said.removeprefix(_LAUNCHER) if said.startswith(_LAUNCHER) and "\n" not in said else ""


def _why(error: OSError | ValueError, argv: Sequence[str]) -> str:
    program = argv[0] if argv else ""
    if isinstance(error, OSError) and error.strerror:
        place = f" ({error.filename!r})" if error.filename not in (None, program) else ""
        return f"{program!r} cannot be started: {error.strerror}{place}"
    return f"{program!r} cannot be started: {error}"


class _Sink:
    """Moves one output pipe into its file, a piece at a time; what does not fit is read and dropped."""

    def __init__(
        self,
        pipe: IO[bytes] | None,
        file: CappedFile,
        tap: Callable[[bytes], None] | None,
        clean: Callable[[bytes], bytes] | None,
    ) -> None:
        assert pipe is not None
        self._error: OSError | None = None
        self._fault: BaseException | None = None
        """Of the tap."""
        self._tap = tap
        self._clean = clean
        self._line = b""
        """The beginning of a line that is not whole yet, where lines are cleaned."""
        self._pipe = pipe
        self._handle = pipe.fileno()
        self._file = file
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.broken: asyncio.Future[None] = self._loop.create_future()
        """Done when the tap has failed: there is nobody any more for whom the program would work."""
        os.set_blocking(self._handle, False)
        _widen(self._handle)
        self._loop.add_reader(self._handle, self._move)

    def _move(self) -> bool:
        """Takes what is there, at most one piece; false when nothing is there or nothing will come."""
        try:
            chunk = os.read(self._handle, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.stop()
        else:
            self._store(chunk)
        self._pass_on(chunk)
        return bool(chunk)

    def _store(self, chunk: bytes, *, last: bool = False) -> None:
        """Keeps a piece; where lines are cleaned, as far as they are whole."""
        if self._clean is not None:
            held = self._line + chunk
            whole = len(held) if last or len(held) > _LONGEST_LINE else held.rfind(b"\n") + 1
            chunk, self._line = self._clean(held[:whole]), held[whole:]
        if self._error is None:
            try:
                self._file.write(chunk)
            except OSError as error:
                self._error = error

    def _pass_on(self, chunk: bytes) -> None:
        if self._tap is None or self._fault is not None:
            return
        try:
            self._tap(chunk)
        except BaseException as fault:  # noqa: BLE001 - it is raised by whoever waits for the program
            self._fault = fault
            if not self.broken.done():
                self.broken.set_result(None)

    def check(self, program: str, path: Path) -> None:
        """Raises what went wrong with the output, if something did."""
        if self._fault is not None:
            raise self._fault
        if self._error is not None:
            raise WorkspaceFailed(
                f"the output of {program!r} could not be stored: {self._error.strerror}",
                where=str(path),
                remedy="Make room or give write permission there, then resume.",
            ) from self._error

    def drain(self) -> None:
        """Takes the rest that is already there; bounded, since a writer may be left that is not ours to end yet."""
        for _ in range(_LARGEST_PIPE // _CHUNK):
            if self.ended.done() or not self._move():
                break

    def stop(self) -> None:
        if not self.ended.done():
            self._loop.remove_reader(self._handle)
            self.ended.set_result(None)

    def __enter__(self) -> _Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._store(b"", last=True)


def _widen(handle: int) -> None:
    """Gives the pipe as much room as it may have: some agents exit without waiting for their last words to be read."""
    with contextlib.suppress(AttributeError, OSError):
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _LARGEST_PIPE)


class _Feed:
    """Writes the input as fast as the program takes it; one that never reads, or stops reading, blocks nobody."""

    def __init__(self, pipe: IO[bytes] | None, content: bytes) -> None:
        assert pipe is not None
        self._pipe = pipe
        self._handle = pipe.fileno()
        self._left = memoryview(content)
        self._loop = asyncio.get_running_loop()
        self._open = True
        os.set_blocking(self._handle, False)
        self._loop.add_writer(self._handle, self._move)

    def _move(self) -> None:
        try:
            written = os.write(self._handle, self._left[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # the program does not want the rest
            self.stop()
            return
        self._left = self._left[written:]
        if not self._left:
            self.stop()

    def stop(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_writer(self._handle)
            self._pipe.close()

    def __enter__(self) -> _Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
