"""What tests of a playbook need: a simulated world, agents by function, rehearsals.

The same code runs in memory: verbs, journal, layers and the order of a dispatch are the engine's own; only files,
agents, processes and the clock are not real.
"""

from __future__ import annotations

from interlock.engine.exploration import (
    ALWAYS,
    CRASH,
    ENDS,
    LIARS,
    PEOPLES_FILE,
    STANDARD,
    TROUBLES,
    WEAKENED_TEST,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    explore,
)
from interlock.engine.simulated_repository import SimulatedRepository, Trouble
from interlock.engine.simulation import (
    Act,
    Agent,
    MemoryDocuments,
    MemoryLayer,
    MemoryTree,
    SimulatedWorld,
    Simulation,
    best,
)

__all__ = [
    "ALWAYS",
    "CRASH",
    "ENDS",
    "LIARS",
    "PEOPLES_FILE",
    "STANDARD",
    "TROUBLES",
    "WEAKENED_TEST",
    "Act",
    "Agent",
    "Deviation",
    "Invariant",
    "MemoryDocuments",
    "MemoryLayer",
    "MemoryTree",
    "Played",
    "Rehearsal",
    "SimulatedRepository",
    "SimulatedWorld",
    "Simulation",
    "Trouble",
    "best",
    "explore",
]
