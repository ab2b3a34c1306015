"""Where a simulated run stands between two verbs: paths with the same beginning go on from there, and play it once.

A process that finds the disk and the journal of another goes on as if it were that one: replay promises it
(`recording`).  So a moment is what lies there, and no more; whoever goes on from it gets the rest by replaying.  It is
taken only where one task is at work, since what several have begun is nowhere but in their memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

from interlock.engine.journal import Line
from interlock.engine.recording import Recording
from interlock.engine.simulation import Begun, Simulation

AFTER = frozenset(("dispatch.end", "command", "cluster.end"))
"""Lines behind which it is worth to go on: what is recorded was work."""
_COLLECTIONS = (dict, list, set, bytearray)
_VALUES = (bytes, int, float, bool, str, tuple, NoneType)


@dataclass(frozen=True)
class Moment:
    """A simulated run that has just recorded what a verb came to."""

    occasions: int
    """How much has happened to it that could have gone otherwise."""
    begun: Begun
    _states: Sequence[_State]

    @classmethod
    def of(cls, simulation: Simulation, recording: Recording, occasions: int) -> Moment:
        states = [_State(part) for part in _parts(simulation)]
        states[0].values["clock"] = asyncio.get_running_loop().time()
        return cls(occasions, Begun.of(recording), states)

    def goes_on(self, simulation: Simulation) -> None:
        """Make a run that is yet to begin this one."""
        for part, state in zip(_parts(simulation), self._states, strict=True):
            state.goes_on(vars(part))
        simulation.world.tree.layers = {}  # those of verbs that have ended
        simulation.midway = self.begun


def is_quiet(line: Line, recording: Recording) -> bool:
    """Whether a moment can be taken behind this line."""
    return line.event in AFTER and not recording.open_members and not recording.journal.held


def _parts(simulation: Simulation) -> Iterator[Any]:
    world, records = simulation.world, simulation.world.records
    return iter((simulation, world, world.tree, world.repository, records, records.objects, simulation.medium))


class _State:
    """What of a part changes while it is played: values and collections of values; who it knows stays the same."""

    def __init__(self, part: Any) -> None:
        names = vars(part)
        self.values = {name: value for name, value in names.items() if type(value) in _VALUES}
        self._collections = {name: value.copy() for name, value in names.items() if type(value) in _COLLECTIONS}

    def goes_on(self, names: dict[str, Any]) -> None:
        names.update(self.values)
        for name, value in self._collections.items():
            names[name] = value.copy()
