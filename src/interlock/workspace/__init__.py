"""The workspace: snapshots of it, write scopes, layers in which agents work, and how their work gets into the tree.

Everything that is a quirk of git or of the kernel stays behind these names.
"""

from interlock.workspace.bases import Base
from interlock.workspace.bringing_in import BroughtIn, bring_in
from interlock.workspace.layers import (
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
    open_layers,
)
from interlock.workspace.patches import work_of, work_patch
from interlock.workspace.scope import DEFAULT_PROTECTED, Scope, protected_names
from interlock.workspace.snapshots import Change, ChangeKind, Snapshot, Workspace

__all__ = [
    "DEFAULT_PROTECTED",
    "UNPROMISED",
    "Base",
    "Bounds",
    "BroughtIn",
    "Change",
    "ChangeKind",
    "Confinement",
    "Entry",
    "Exit",
    "Found",
    "Layer",
    "Layers",
    "Mode",
    "Network",
    "Probe",
    "Scope",
    "Snapshot",
    "Work",
    "Workspace",
    "bring_in",
    "open_layers",
    "protected_names",
    "work_of",
    "work_patch",
]
