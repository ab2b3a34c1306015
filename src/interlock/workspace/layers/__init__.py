"""A place of its own for every program that works for a dispatch or a command; see `seam`."""

from interlock.workspace.layers.making import open_layers
from interlock.workspace.layers.seam import (
    UNPROMISED,
    Bounds,
    Confinement,
    DiskLayer,
    Entry,
    Exit,
    Found,
    KeptWork,
    Layers,
    Mode,
    Network,
    Probe,
)

__all__ = [
    "UNPROMISED",
    "Bounds",
    "Confinement",
    "DiskLayer",
    "Entry",
    "Exit",
    "Found",
    "KeptWork",
    "Layers",
    "Mode",
    "Network",
    "Probe",
    "open_layers",
]
