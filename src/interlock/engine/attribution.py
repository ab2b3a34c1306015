"""Whose change is it, and what follows (EN-35..37). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from interlock.engine.model import Kind
from interlock.workspace import Change, ChangeKind


@dataclass(frozen=True)
class Attribution:
    """The changes of one dispatch, each in exactly one place."""

    mine: tuple[str, ...] = ()
    """In scope: the dispatch's own work."""
    foreign: tuple[str, ...] = ()
    """State documents: undone and reported, the outcome stands."""
    violations: tuple[str, ...] = ()
    """Out of scope: undone, kept as a patch, and the dispatch failed."""
    byproducts: tuple[str, ...] = ()
    """New files that a judge's builds and tests left: moved to the attic, the outcome stands."""
    left: tuple[str, ...] = ()
    """Not this dispatch's to judge: made beside others, cleaned up when the cluster ends."""


def attribute(
    changes: Sequence[Change],
    *,
    covers: Callable[[str], bool],
    is_state: Callable[[str], bool],
    kind: Kind,
    beside_others: bool,
    own: Mapping[str, str | None],
    digest_now: Callable[[str], str | None],
) -> Attribution:
    """Sort the changes between two snapshots around a dispatch. `own`: what the engine itself wrote."""
    mine, foreign, violations, byproducts, left = [], [], [], [], []
    for change in changes:
        path = change.path
        if path in own and digest_now(path) == own[path]:
            continue
        if covers(path) and not is_state(path):
            mine.append(path)
        elif beside_others:
            left.append(path)
        elif is_state(path):
            foreign.append(path)
        elif kind is Kind.JUDGE and change.kind is ChangeKind.ADDED:
            byproducts.append(path)
        else:
            violations.append(path)
    return Attribution(tuple(mine), tuple(foreign), tuple(violations), tuple(byproducts), tuple(left))
