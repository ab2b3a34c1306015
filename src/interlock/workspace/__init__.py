"""The workspace: snapshots of it, write scopes, layers in which agents work, and how their work gets into the tree.

Everything that is a quirk of git or of the kernel stays behind these names.  They are loaded when they are first used:
most commands only look at runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.workspace.bases import Base
    from interlock.workspace.bringing_in import BroughtIn, bring_in
    from interlock.workspace.layers import (
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
        open_layers,
    )
    from interlock.workspace.patches import work_of, work_patch
    from interlock.workspace.scope import DEFAULT_PROTECTED, Scope, protected_names
    from interlock.workspace.snapshots import ChangeKind, PathChange, Snapshot, Workspace
    from interlock.workspace.users_git import UsersRepository
    from interlock.workspace.users_repository import (
        Checkout,
        Commit,
        Done,
        Effect,
        Repository,
        RepositoryStanding,
        Stash,
        Unstash,
        Where,
        commit_message,
        listing_digest,
        stash_message,
    )

__getattr__ = lazily(
    __name__,
    {
        "bases": "Base",
        "bringing_in": "BroughtIn bring_in",
        "layers": (
            "UNPROMISED Bounds Confinement DiskLayer Entry Exit Found KeptWork Layers Mode Network Probe open_layers"
        ),
        "patches": "work_of work_patch",
        "scope": "DEFAULT_PROTECTED Scope protected_names",
        "snapshots": "PathChange ChangeKind Snapshot Workspace",
        "users_git": "UsersRepository",
        "users_repository": (
            "Checkout Commit Done Effect Repository RepositoryStanding Stash Unstash Where commit_message "
            "listing_digest stash_message"
        ),
    },
)


__all__ = [
    "DEFAULT_PROTECTED",
    "UNPROMISED",
    "Base",
    "Bounds",
    "BroughtIn",
    "ChangeKind",
    "Checkout",
    "Commit",
    "Confinement",
    "DiskLayer",
    "Done",
    "Effect",
    "Entry",
    "Exit",
    "Found",
    "KeptWork",
    "Layers",
    "Mode",
    "Network",
    "PathChange",
    "Probe",
    "Repository",
    "RepositoryStanding",
    "Scope",
    "Snapshot",
    "Stash",
    "Unstash",
    "UsersRepository",
    "Where",
    "Workspace",
    "bring_in",
    "commit_message",
    "listing_digest",
    "open_layers",
    "protected_names",
    "stash_message",
    "work_of",
    "work_patch",
]
