"""The workspace: snapshots of it, write scopes, worktrees for parallel writers, and the merge of their results.

Everything that is a quirk of git stays behind these names.
"""

from interlock.workspace.merge import Conflict, MergeResult, merge
from interlock.workspace.scope import Scope, overlap
from interlock.workspace.snapshots import Change, ChangeKind, Snapshot, Workspace
from interlock.workspace.worktrees import Worktree, open_worktree, sweep_worktrees

__all__ = [
    "Change",
    "ChangeKind",
    "Conflict",
    "MergeResult",
    "Scope",
    "Snapshot",
    "Workspace",
    "Worktree",
    "merge",
    "open_worktree",
    "overlap",
    "sweep_worktrees",
]
