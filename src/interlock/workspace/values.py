"""What trees, layers and deliveries are told in: values, no behaviour.

A *tree* is a state of the workspace: the name of a git tree in our own repository, raw (the bytes as they lie on disk,
no filter asked).  Everything here can stand in a journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NewType

from interlock.documents.model import Model

Tree = NewType("Tree", str)
EMPTY = Tree("4b825dc642cb6eb9a060e54bf8d69288fbee4904")


class RemarkKind(StrEnum):
    """What happened to an agent's work; told beside the outcome that it belongs to."""

    OUTSIDE = "outside"
    """Outside of its scope: never delivered, kept."""
    HELD_BACK = "held back"
    """A guarded path: in no tree that others work on, until a person says so."""
    STATE = "state"
    """A document that the engine alone writes."""
    BY_PRODUCT = "by-product"
    """What a judge left beside its answer."""
    SET_BACK = "set back"
    """An older version, or the absence, of what the person has not committed: no work."""
    BOTH_WROTE = "you both wrote it"
    CONFLICT = "conflict"
    REFUSED = "refused"
    """No file that may come along: a device, a set-uid bit, a link that leads out, a name that git cannot hold."""
    GIT = "git"
    """Work that lies in a stash or on another branch of the layer alone."""
    NESTED = "nested"
    """Work inside a repository of its own."""
    LARGE = "large"
    OVER = "over"
    """The layer grew beyond its bounds: nothing of it counts."""
    NETWORK = "network"
    CLIENT = "refused by client"
    TAKEN_BACK = "takes back"
    CHANGED = "changed unsaved work"
    """A real change of a file with unsaved lines of the person: merged like any other, named in the receipt."""


class Remark(Model):
    """What the engine tells of an agent's work.

    Where content was kept out, `old` and `new` are the trees whose difference on `paths` is what was kept: a patch is
    made of them when somebody asks.
    """

    kind: RemarkKind
    text: str
    paths: tuple[str, ...] = ()
    old: Tree | None = None
    new: Tree | None = None


def told(kind: RemarkKind, text: str, paths: Iterable[str], **trees: Tree) -> list[Remark]:
    """One remark about paths; none without any."""
    found = tuple(sorted(paths))
    return [Remark(kind=kind, text=text, paths=found, **trees)] if found else []


class Standing(Model):
    """The person's workspace at a moment, as a run of `branch` sees it (TREE-15)."""

    tree: Tree
    head: str = ""
    """The commit of the run's branch; empty where there is none yet, or no git."""
    unsaved: bool = False
    """The tree has what no commit has."""
    away: bool = False
    """Another branch is checked out: `tree` is the last one seen on the run's own, with what its ref has gained."""
    left_out: tuple[Remark, ...] = ()
    """What is in the workspace and in no snapshot: too large, nested, unreadable."""


class Where(Model):
    """Where a run belongs: found at its start, fixed in its first event."""

    place: str = "."
    """The folder where the person stood, from the workspace's top."""
    branch: str = ""
    """`refs/heads/x`; `detached` for a detached HEAD; empty without git."""


class Pending(Model):
    """What a run has done and nobody has accepted: the difference from `base` to `work`."""

    base: Tree
    work: Tree


class Merged(Model):
    """A merge of three trees. With conflicts there is no tree, and nothing of it counts."""

    tree: Tree | None = None
    conflicts: tuple[str, ...] = ()


class Change(Model):
    """One path between two trees."""

    path: str
    kind: str
    """`added`, `changed`, `deleted`, `mode`, `link` (any change that has a link on either side)."""
    added: int | None = None
    """Lines; None for binary content."""
    removed: int | None = None


class Found(Model):
    """What a layer holds when its program has ended; read without looking at the layer's own object store."""

    result: Tree
    """As it was left, freed of what the person wrote below meanwhile."""
    mended: Tree
    """The same with what was set back given back, and edits on an older version put on the present one."""
    set_back: tuple[str, ...] = ()
    """Paths on which `mended` differs from `result`; what a builder means of them (`takes_back`) is `result`'s."""
    clashes: tuple[str, ...] = ()
    """Paths on which result and what the person wrote meanwhile cannot be told apart: the person's version stands."""
    remarks: tuple[Remark, ...] = ()


class Landing(Model):
    """How a delivery ended."""

    state: str
    """`done`, `late` (the tree changed under it: taken back, to be merged anew), `conflict`."""
    paths: tuple[str, ...] = ()
    modes: dict[str, int] = {}
    """Of files that were removed or replaced: git knows one bit of them."""
    conflicts: tuple[str, ...] = ()
    refused: tuple[Remark, ...] = ()


class Committed(Model):
    """A commit that the engine made, or why it could not."""

    commit: str = ""
    problem: str = ""
    remarks: tuple[Remark, ...] = ()


class BranchFacts(Model):
    """What is checked out, and how a branch stands to it."""

    current: str
    """The branch that is checked out, or `detached`."""
    head: str
    """Its commit; empty where there is none yet."""
    at: str
    """The commit of the branch that was asked about; empty where there is no such branch."""
    holds_head: bool
    """What is checked out is in its history."""
    elsewhere: str
    """Another worktree that has it checked out."""


class Needs(Model):
    """What programs of one dispatch need in their layer, beside the workspace: from the client's row and settings."""

    logins: tuple[str, ...] = ()
    """Files below HOME that are copied in (login, and settings without which it does not start)."""
    shows: tuple[str, ...] = ()
    """Absolute paths that stay readable although they lie below HOME or /tmp (a program's own prefix)."""
    hosts: tuple[str, ...] = ()
    """Hosts of its model, for `network = "model"`."""
    network: str = ""
    """open | none | model; empty: as settings say."""
