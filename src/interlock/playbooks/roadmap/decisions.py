"""What a roadmap decides: which item, which steps, what follows an attempt. Pure and total."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from interlock.playbooks.roadmap.documents import MOST_RETRIES, Complexity, Item


class Pick(StrEnum):
    SELECTED = "selected"
    RESUMED = "resumed"
    """Left in progress, by a run of another clone maybe (RM-98)."""
    COMPLETE = "complete"
    NOTHING = "nothing"


def select(items: Sequence[Item]) -> tuple[Pick, str]:
    """What there is to do, and the id of the item that comes next; the order of the array never decides."""
    if (begun := next((item for item in items if item.status == "in_progress"), None)) is not None:
        return Pick.RESUMED, str(begun.id)
    if all(item.passes for item in items):
        return Pick.COMPLETE, ""
    for item in sorted((item for item in items if item.status == "ready"), key=lambda item: item.order):
        if not waits_on(item, items):
            return Pick.SELECTED, str(item.id)
    return Pick.NOTHING, ""


def waits_on(item: Item, items: Sequence[Item]) -> list[Item]:
    """The items that it depends on and that are not done."""
    return [one for one in items if str(one.id) in item.needs and one.status != "done"]


def upcoming(items: Sequence[Item]) -> str:
    """The next candidate, as the report names it (RM-93)."""
    pick, identity = select(items)
    if pick in (Pick.SELECTED, Pick.RESUMED):
        return next(item.name for item in items if str(item.id) == identity)
    blocked, waiting = (sum(item.status == word for item in items) for word in ("blocked", "ready"))
    return "COMPLETE" if pick is Pick.COMPLETE else f"none ({blocked} blocked, {waiting} waiting)"


class Step(StrEnum):
    RESEARCH = "research"
    DESIGN = "design"
    IMPLEMENT = "implement"
    VALIDATION = "validation"
    TESTING = "testing"
    REVIEW = "review"


_BUILD = (Step.IMPLEMENT, Step.TESTING, Step.REVIEW)
_CHECKED = (Step.IMPLEMENT, Step.VALIDATION, Step.TESTING, Step.REVIEW)
PIPELINES = {
    Complexity.SIMPLE: _BUILD,
    Complexity.MEDIUM: (Step.RESEARCH, Step.DESIGN, *_BUILD),
    Complexity.COMPLEX: (Step.RESEARCH, Step.DESIGN, *_CHECKED),
}
RETRIES = {Complexity.SIMPLE: _BUILD, Complexity.MEDIUM: _BUILD, Complexity.COMPLEX: _CHECKED}
"""A complex retry is validated, too, else drift is never seen cured."""


class Research(StrEnum):
    SKIPPED = "skipped"
    FULL = "full"
    NARROWED = "narrowed"


def research(complexity: Complexity, known: bool, edited: Sequence[str]) -> Research:
    """What a pipeline's research has to find out: a complex item is always researched, and nothing twice."""
    if not known:
        return Research.FULL
    return Research.NARROWED if edited or complexity is Complexity.COMPLEX else Research.SKIPPED


def is_empty(research: Any) -> bool:
    """White space, an empty list or object, or nothing but the snapshot of the scope."""
    if isinstance(research, dict):
        return all(is_empty(value) for name, value in research.items() if name != "scope")
    if isinstance(research, list):
        return all(map(is_empty, research))
    return research is None or (isinstance(research, str) and not research.strip())


def changed_scope(item: Item) -> list[str]:
    """The fields that were edited since planning; without a snapshot nothing says so."""
    scope = item.planningResearch.get("scope") if isinstance(item.planningResearch, dict) else None
    known, now = scope if isinstance(scope, dict) else {}, item.model_dump(mode="json")
    fields = [name for name in ("title", "acceptanceCriteria", "verification") if name in known]
    return [name for name in fields if json.dumps(known[name]) != json.dumps(now[name])]


class Came(StrEnum):
    """How an attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    STOPPED = "stopped"
    """An agent says that it cannot go on: repeating does not help."""


class Then(StrEnum):
    DONE = "done"
    RETRY = "retry"
    BLOCKED = "blocked"


def after_attempt(came: Came, retries: int) -> Then:
    if came is Came.PASSED:
        return Then.DONE
    return Then.RETRY if came is Came.FAILED and retries < MOST_RETRIES else Then.BLOCKED
