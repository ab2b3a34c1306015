"""The workspace: snapshots of it, write scopes, layers in which agents work, and how their work gets into the tree.

Everything that is a quirk of git or of the kernel stays behind these names.
"""

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
from interlock.workspace.merge import Conflict, MergeResult, merge
from interlock.workspace.patches import work_patch
from interlock.workspace.scope import DEFAULT_PROTECTED, Scope, protected_names
from interlock.workspace.snapshots import Change, ChangeKind, Snapshot, Workspace
from interlock.workspace.worktrees import Worktree, open_worktree, sweep_worktrees

__all__ = [
    "DEFAULT_PROTECTED",
    "UNPROMISED",
    "Bounds",
    "BroughtIn",
    "Change",
    "ChangeKind",
    "Confinement",
    "Conflict",
    "Entry",
    "Exit",
    "Found",
    "Layer",
    "Layers",
    "MergeResult",
    "Mode",
    "Network",
    "Probe",
    "Scope",
    "Snapshot",
    "Work",
    "Workspace",
    "Worktree",
    "bring_in",
    "merge",
    "open_layers",
    "open_worktree",
    "protected_names",
    "sweep_worktrees",
    "work_patch",
]
