"""`--detach`: a run that goes on in the background, as a process of its own.

The process is forked before the work begins.  It has a session of its own at once, and the caller's streams until the
run is at work: what refuses the run (an input, a lock, an agent that is not there), or ends it before any work, is said
to the caller as ever, with its exit code.  With the first piece of work it lets go: from there on its words go to a
file of the run folder, and the run's id, sent through a pipe, lets the caller return.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.cli.door import Errand
from interlock.cli.output import complain, envelope, print_json, print_lines
from interlock.cli.progress import PlainView, title
from interlock.cli.runs import shown_path
from interlock.engine.folder import RunFolder
from interlock.engine.nesting import only_people

if TYPE_CHECKING:
    from interlock.cli.door import Door
    from interlock.engine.journal import Line

WORDS: Final = "detached.log"
"""The file of the run folder that has what a process in the background would have said to a terminal."""
WORK: Final = frozenset(("dispatch.start", "write.intent", "command.intent", "set_aside.intent"))
"""Events with which a run is at work."""


class DetachedView(PlainView):
    """Plain lines: for the caller until the run is at work, then for the run folder."""

    def __init__(self, errand: Errand, caller: int, *, root: Path, keep_output: bool, verbose: bool) -> None:
        super().__init__(errand, keep_output=keep_output, verbose=verbose)
        self._root = root
        self._caller: int | None = caller

    def line(self, line: Line) -> None:
        if line.event in WORK and self._caller is not None:
            self._let_go(self._caller, line.run)
            self._caller = None
        super().line(line)

    def _let_go(self, caller: int, run_id: str) -> None:
        _speak_into(words_of(self._root, run_id))
        with suppress(OSError), open(caller, "wb", buffering=0) as pipe:  # the caller may have gone meanwhile
            pipe.write(run_id.encode())


def words_of(root: Path, run_id: str) -> Path:
    return RunFolder(root, run_id).path / WORDS


def in_the_background(door: Door, work: Callable[[PlainView], int]) -> int:
    """Do the work in a process of its own; returns in both: when the run is at work, and when the work is done."""
    only_people(door.environ, door.root, "leave a run in the background")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ours, theirs = os.pipe()
    if worker := os.fork():
        os.close(theirs)
        return _told(door, worker, ours)
    os.close(ours)
    os.setsid()
    _keep_nothing_of_the_caller()
    return work(DetachedView(door.errand, theirs, root=door.root, keep_output=door.json, verbose=door.verbose))


def _told(door: Door, worker: int, words: int) -> int:
    """What the process in the background said of itself: that the run is at work, or, by its exit code, why not."""
    while True:
        try:
            if run_id := os.read(words, 4096).decode():
                break
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:  # the start is given up: the process ends as one at this terminal would
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGINT)
    return _gone_on(door, run_id)


def _gone_on(door: Door, run_id: str) -> int:
    known = door.find(run_id)
    identity = known.identity
    if door.json:
        print_json(
            envelope(
                status="running",
                exit_code=0,
                reason="goes on in the background",
                run_id=run_id,
                playbook=identity.playbook,
                key=identity.key,
                started_at=identity.started_at,
            )
        )
    else:
        print_lines([run_id])
    complain(
        f"{title(identity)} goes on in the background, as run {run_id}.",
        f"  watch it: {door.spoken(f'watch {run_id}')}",
        f"  end it: {door.spoken(f'cancel {run_id}')}",
        f"  its output: {shown_path(words_of(door.root, run_id))}",
    )
    return 0


def _keep_nothing_of_the_caller() -> None:
    """No input, and none of the descriptors that the caller left open: somebody may wait for their end."""
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for place in Path("/dev/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            if (number := int(place.name)) > 2 and os.get_inheritable(number):
                os.close(number)


def _speak_into(file: Path) -> None:
    """From now on both streams go to the end of this file; nowhere, where it cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        handle = os.open(file, flags | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    except OSError:
        handle = os.open(os.devnull, flags)
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)
