"""`rehearse`: the real playbook against simulated agents that do everything agents can do wrong.

A playbook takes part by offering `rehearsal()` in its room: an object with `make` (from an agent to a `Simulation`),
`deviations`, and `most`, the number of deviations in one run up to which every combination is played.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import PlaybookName, command
from interlock.cli.output import complain, print_json
from interlock.cli.panels import WORKSHOP
from interlock.errors import InterlockError, Refused
from interlock.telemetry import in_words

if TYPE_CHECKING:
    from interlock.engine import Deviation, Simulation
    from interlock.engine.simulation import Agent

BROKEN = 2
SHOWN = 5


class Rehearsal(Protocol):
    """What a playbook's `rehearsal()` gives."""

    @property
    def make(self) -> Callable[[Agent], Simulation]: ...
    @property
    def deviations(self) -> Sequence[Deviation]: ...
    @property
    def most(self) -> int: ...


def add(app: typer.Typer) -> None:
    @command(app, "rehearse", example="interlock rehearse router", panel=WORKSHOP)
    def rehearse(
        desk: Desk,
        playbook: PlaybookName,
        most: Annotated[
            int | None,
            typer.Option("--most", min=0, metavar="N", help="Faults in one run, at most.", show_default=False),
        ] = None,
    ) -> int:
        """Play a playbook with simulated agents through every combination of verdicts and faults, in memory."""
        setup = find_rehearsal(playbook)
        result = play(setup, setup.most if most is None else most)
        if desk.json:
            print_json({"playbook": playbook, **result})
        else:
            typer.echo(_told(playbook, result))
        for problem in result["broken"][:SHOWN]:
            complain(f"Broken: {problem}")
        return BROKEN if result["broken"] else 0


def find_rehearsal(name: str) -> Rehearsal:
    from interlock.playbooks import load

    function = load(name).function
    room = import_module(function.__module__.rpartition(".")[0] or function.__module__)
    offered = getattr(room, "rehearsal", None)
    if offered is None:
        raise Refused(
            f"playbook {name} has no rehearsal",
            expected=f"a function rehearsal() in {room.__name__}",
            remedy=f"See what it needs with: interlock validate {name}",
        )
    return cast("Rehearsal", offered())


def play(setup: Rehearsal, most: int) -> dict[str, Any]:
    """Every run with at most so many faults: how many, how long, how they ended, and which broke a rule."""
    from interlock.engine import explore

    began = time.monotonic()
    endings: Counter[str] = Counter()
    processes, broken = 0, list[str]()
    schedules = explore(setup.make, setup.deviations, most=most)
    while True:
        try:
            played = next(schedules)
        except StopIteration:
            break
        except InterlockError as error:
            broken.append(error.what)
            break
        endings[played.close.status.value] += 1
        processes += played.simulation.processes
    return {
        "most": most,
        "paths": endings.total(),
        "processes": processes,
        "seconds": round(time.monotonic() - began, 3),
        "endings": dict(sorted(endings.items())),
        "broken": broken,
    }


def _told(name: str, result: dict[str, Any]) -> str:
    paths = result["paths"]
    lines = [f"{name}: {paths} paths with at most {result['most']} faults each, in {in_words(result['seconds'])}"]
    lines += [f"  {status}: {count}" for status, count in result["endings"].items()]
    crashes = result["processes"] - paths
    return "\n".join([*lines, f"  {crashes} of the faults were crashes of interlock itself, each followed by a resume"])
