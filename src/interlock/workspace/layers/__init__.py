"""A place of its own for every program that works for a dispatch or a command; see `seam`."""

from interlock.workspace.layers.making import open_layers
from interlock.workspace.layers.seam import (
    UNPROMISED,
    Bounds,
    Confinement,
    Entry,
    Exit,
    Found,
    Layer,
    Layers,
    Mode,
    Network,
    Probe,
    Work,
)

__all__ = [
    "UNPROMISED",
    "Bounds",
    "Confinement",
    "Entry",
    "Exit",
    "Found",
    "Layer",
    "Layers",
    "Mode",
    "Network",
    "Probe",
    "Work",
    "open_layers",
]
