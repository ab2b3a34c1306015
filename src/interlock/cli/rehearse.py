"""`rehearse`: the real playbook against simulated agents that do everything agents can do wrong.

A playbook takes part by offering `rehearsal()` in its room; it says what can go wrong, and what must hold all the same.
"""

from __future__ import annotations

import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

import typer

from interlock.cli.commands import WORKSHOP, PlaybookName, command
from interlock.cli.door import Door
from interlock.cli.failures import INTERRUPTED
from interlock.cli.output import complain, overwrite
from interlock.errors import InterlockError
from interlock.telemetry import in_words

if TYPE_CHECKING:
    from interlock.engine import Asking, Options, Playbook
    from interlock.engine.exploration import Rehearsal
    from interlock.engine.tracing import Trace

BROKEN = 2
SHOWN = 10


@dataclass
class Result:
    """What a rehearsal found."""

    most: int
    """Faults up to which every combination was played."""
    sample: int | None = None
    """Of the runs with one fault more, one in so many was played."""
    paths: int = 0
    faults: Counter[int] = field(default_factory=Counter)
    """Paths by their number of faults."""
    crashes: int = 0
    """Crashes of interlock itself that were survived by a resume."""
    fewest: int | None = None
    """Calls of agents on the shortest path that completes; where none does, on the one without faults."""
    most_calls: int = 0
    """Calls of agents on the longest path; those that crashes of interlock cost are left out."""
    seconds: float = 0.0
    interrupted: bool = False
    """Somebody stopped it: what it says holds for the paths that were played."""
    endings: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


@command("rehearse", example="interlock rehearse router", honours=("trust",), panel=WORKSHOP)
def rehearse(
    door: Door,
    playbook: PlaybookName,
    most: Annotated[
        int | None,
        typer.Option("--most", min=0, metavar="N", help="Faults in one run, at most.", show_default=False),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=1,
            metavar="N",
            help="Besides, of the runs with one fault more, one in N, always the same ones.",
            show_default=False,
        ),
    ] = None,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Print what it went through, as a Mermaid diagram.")
    ] = False,
) -> int:
    """Play a playbook with simulated agents through every combination of verdicts and faults, in memory."""
    from interlock.engine.tracing import Trace
    from interlock.finding.purity import touches

    known = door.playbook(playbook)
    trace = Trace(known)
    with Progress(playbook) as progress:
        result = play(
            find_rehearsal(known, door.setup.asking(known)), door.setup.options(known), most, sample, progress, trace
        )
    result.broken = [*(f"only the verbs: {touch}" for touch in touches(known)), *result.broken]
    told = trace.mermaid().splitlines() if diagram else _told(playbook, result)
    door.answer({"playbook": playbook, **vars(result), "diagram": trace.mermaid()}, told)
    for problem in result.broken[:SHOWN]:
        complain(f"Broken: {problem}")
    if result.interrupted:
        complain(f"Interrupted after {result.paths} paths: not every combination was played.")
        return INTERRUPTED
    return BROKEN if result.broken else 0


class Brake(Protocol):
    """Who is told how far a rehearsal is, and may want it to stop."""

    stop: bool

    def __call__(self, paths: int, broken: int, /) -> None: ...


class Progress:
    """Says how far a long command is, and hears that somebody wants it to stop.

    The first interrupt lets the path that is being played come to its end, so that there is something to say; the
    second one ends the command at once.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = self._began = time.monotonic()
        self._before: Any = None
        self.stop = False

    def __enter__(self) -> Self:
        with suppress(ValueError):  # not in the main thread: then nobody interrupts it this way
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if sys.stderr.isatty() and self._last != self._began:
            overwrite("")

    def _interrupt(self, _number: int, _frame: object) -> None:
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True

    def __call__(self, paths: int, broken: int) -> None:
        """Tell it, twice a second on a terminal and every ten seconds in a log."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self._last < (0.5 if terminal else 10.0):
            return
        self._last = now
        text = f"{self._what}: {paths} paths in {in_words(now - self._began)}, rules broken: {broken}"
        if terminal:
            overwrite(text)
        else:
            complain(text)


def find_rehearsal(playbook: Playbook, asking: Asking) -> Rehearsal:
    """The rehearsal that a playbook offers; else that of any playbook, with the inputs that it names as samples."""
    from interlock.testing import standard_rehearsal

    offered = playbook.rehearsal or getattr(room_of(playbook), "rehearsal", None)
    found: Rehearsal = offered() if offered is not None else standard_rehearsal(playbook, asking)
    return found


def room_of(playbook: Playbook) -> ModuleType:
    """Where a playbook may offer `setup_files()`, `example_files()`, `rehearsal()`, `narrowed(inputs)`: its package,
    its `rehearsing.py` or its own module."""
    module = playbook.function.__module__
    package = module.rpartition(".")[0] or module
    names = (package, f"{package}.rehearsing", module) if package != module else (module,)
    found = (import_module(name) for name in names if name in sys.modules or find_spec(name) is not None)
    return next((room for room in found if hasattr(room, "rehearsal")), import_module(package))


def play(
    setup: Rehearsal,
    options: Options,
    most: int | None,
    sample: int | None = None,
    progress: Brake | None = None,
    trace: Trace | None = None,
) -> Result:
    """Every run with at most so many faults, and one in `sample` of those with one more: how they ended, and where
    something did not hold."""
    from interlock.engine.trial import CallCount

    result = Result(setup.most if most is None else most, sample)
    calls = CallCount()
    began = time.monotonic()

    def drawn(schedule: Mapping[int, str]) -> bool:
        return zlib.crc32(repr(sorted(schedule.items())).encode()) % (sample or 1) == 0

    try:
        for played in setup.paths(
            options, most=result.most + (1 if sample else 0), sample_of=drawn if sample else None
        ):
            result.paths += 1
            result.faults[len(played.schedule)] += 1
            result.crashes += played.simulation.processes - 1
            result.endings[played.finished.status.value] += 1
            result.broken += setup.broken(played)
            calls.take(played)
            result.fewest, result.most_calls = calls.fewest, calls.most
            if trace is not None:
                trace.take(played.simulation.lines)
            if progress is not None:
                progress(result.paths, len(result.broken))
                if progress.stop:
                    result.interrupted = True
                    break
        if not result.interrupted and result.most >= setup.most:
            result.broken += setup.left_out()
    except InterlockError as error:
        result.broken.append(f"a path could not be played to its end: {error.what}")
    result.seconds = round(time.monotonic() - began, 3)
    return result


def _told(name: str, result: Result) -> list[str]:
    held = "every rule held" if not result.broken else f"rules broken: {len(result.broken)}"
    more = f", and one in {result.sample} of those with {result.most + 1}" if result.sample else ""
    return [
        f"{name}: {result.paths} paths with at most {result.most} faults each{more}, "
        f"in {in_words(result.seconds)}; {held}",
        *(f"  with {number} faults: {count}" for number, count in sorted(result.faults.items())),
        *(f"  {status}: {count}" for status, count in sorted(result.endings.items())),
        f"  crashes of interlock itself, each followed by a resume: {result.crashes}",
        f"  calls of agents: at least {result.fewest} to complete, at most {result.most_calls}",
    ]
