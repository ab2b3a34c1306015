"""A playbook that reads a clock of its own, which no replay can."""

from __future__ import annotations

import time
from dataclasses import dataclass

from interlock.engine import Ending, Run, playbook
from interlock.testing import Rehearsal, SimulatedWorld, Simulation


@dataclass(frozen=True)
class HastyInputs:
    word: str = "a"


@playbook("hasty", inputs=HastyInputs, key=lambda inputs: inputs.word, needs_roles=False)
async def hasty(_run: Run, _inputs: HastyInputs) -> Ending:
    """Say when it is."""
    return Ending.complete(f"{time.time()}")


def rehearsal() -> Rehearsal:
    return Rehearsal(
        lambda agent, options: Simulation(hasty, HastyInputs(), SimulatedWorld({}, agent), options=options)
    )
