"""The workspace: snapshots of it, write scopes, layers in which agents work, and how their work gets into the tree.

Everything that is a quirk of git or of the kernel stays behind these names.  They are loaded when they are first used:
most commands only look at runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "bases": "Base",
    "bringing_in": "BroughtIn bring_in",
    "layers": "UNPROMISED Bounds Confinement Entry Exit Found Layer Layers Mode Network Probe Work open_layers",
    "patches": "work_of work_patch",
    "scope": "DEFAULT_PROTECTED Scope protected_names",
    "snapshots": "Change ChangeKind Snapshot Workspace",
}
_HOME = {name: f"interlock.workspace.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


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
