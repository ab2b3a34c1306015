"""`--detach`: the run goes on in a process of its own, in a session of its own.

The process is forked before the work begins.  It keeps the caller's streams until the run is at work: what refuses the
run (an input, a lock, an agent that is not there) is said to the caller as ever, with its exit code.  With the first
piece of work it lets go: its words go to a file of the run's folder, and the run's id, sent through a pipe, lets the
caller return.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from interlock.cli.door import Door
from interlock.cli.live import PlainView
from interlock.cli.output import flush, tell
from interlock.cli.screens import Told
from interlock.engine.view import View

WORDS = "detached.log"
"""In the run's folder: what a process in the background would have said to a terminal."""


class DetachedView(PlainView):
    """Plain lines: for the caller until the run is at work, then for the run's folder."""

    def __init__(self, caller: int, door: Door, preface: Sequence[Told]) -> None:
        super().__init__(runs=door.runs.path, verbose=door.verbose, preface=preface)
        self._caller, self._runs = caller, door.runs.path

    def is_at_work(self, view: View) -> bool:
        """What it asks before any work is said to the caller, as a refusal is."""
        return super().is_at_work(view) and (view.gate is None or bool(view.calls or view.ran))

    def begin(self, view: View) -> None:
        _speak_into(self._runs / view.run / WORDS)
        with suppress(OSError):  # the caller may have gone meanwhile
            os.write(self._caller, view.run.encode())
        os.close(self._caller)
        super().begin(view)


def in_the_background(door: Door, preface: Sequence[Told]) -> PlainView | int:
    """Returns twice: in a process of its own the view of the work, and here, when the run is at work, the exit code."""
    flush()
    ours, theirs = os.pipe()
    if worker := os.fork():
        os.close(theirs)
        return _told(door, worker, ours)
    os.close(ours)
    os.setsid()
    _keep_nothing_of_the_caller(theirs)
    return DetachedView(theirs, door, preface)


def _told(door: Door, worker: int, words: int) -> int:
    """What the process in the background said of itself: that the run is at work, or, by its exit code, why not."""
    while True:
        try:
            if run := os.read(words, 4096).decode():
                break
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:  # the start is given up: the process ends as one at this terminal would
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGINT)
    entry = door.runs.find(run)
    door.says(door.facts(entry, entry.view(), 0, worked_on=True), [run])
    ways = (f"  watch it: interlock watch {run}", f"  end it: interlock cancel {run}")
    tell(f"{run} goes on in the background.", *ways, f"  its words: {os.path.relpath(entry.path / WORDS)}")
    return 0


def _keep_nothing_of_the_caller(spared: int) -> None:
    """No input, and none of the descriptors that the caller left open: somebody may wait for their end."""
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for place in Path("/dev/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            if (number := int(place.name)) > 2 and number != spared and os.get_inheritable(number):
                os.close(number)


def _speak_into(file: Path) -> None:
    """From now on both streams go to the end of this file."""
    flush()
    handle = os.open(file, os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)
