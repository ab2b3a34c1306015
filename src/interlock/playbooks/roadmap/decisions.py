"""What a roadmap decides: which item, which steps, what follows an attempt. Pure and total."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

from interlock.playbooks.roadmap.documents import MOST_RETRIES, Item

Pick = Literal["selected", "resumed", "complete", "nothing"]
Research = Literal["skipped", "full", "narrowed"]
Came = Literal["passed", "failed", "stopped"]
"""How an attempt ended; stopped: an agent says that it cannot go on, and repeating does not help."""
Then = Literal["done", "retry", "blocked"]


def select(items: Sequence[Item]) -> tuple[Pick, str]:
    """What there is to do, and the id of the item that comes next; the order of the array never decides. What was left
    in progress, by a run of another clone maybe, is resumed first (RM-98)."""
    if (begun := next((item for item in items if item.status == "in_progress"), None)) is not None:
        return "resumed", str(begun.id)
    if all(item.passes for item in items):
        return "complete", ""
    for item in sorted((item for item in items if item.status == "ready"), key=lambda item: item.order):
        if not waits_on(item, items):
            return "selected", str(item.id)
    return "nothing", ""


def waits_on(item: Item, items: Sequence[Item]) -> list[Item]:
    """The items that it depends on and that are not done."""
    return [one for one in items if str(one.id) in item.needs and one.status != "done"]


def upcoming(items: Sequence[Item]) -> str:
    """The next candidate, as the report names it (RM-93)."""
    pick, identity = select(items)
    if identity:
        return next(item.name for item in items if str(item.id) == identity)
    blocked, waiting = (sum(item.status == word for item in items) for word in ("blocked", "ready"))
    return "COMPLETE" if pick == "complete" else f"none ({blocked} blocked, {waiting} waiting)"


class Step(StrEnum):
    RESEARCH = "research"
    DESIGN = "design"
    IMPLEMENT = "implement"
    VALIDATION = "validation"
    TESTING = "testing"
    REVIEW = "review"


_BUILD = (Step.IMPLEMENT, Step.TESTING, Step.REVIEW)
_CHECKED = (Step.IMPLEMENT, Step.VALIDATION, Step.TESTING, Step.REVIEW)
_FOUND_OUT = (Step.RESEARCH, Step.DESIGN)
PIPELINES = {"simple": _BUILD, "medium": (*_FOUND_OUT, *_BUILD), "complex": (*_FOUND_OUT, *_CHECKED)}
RETRIES = {"simple": _BUILD, "medium": _BUILD, "complex": _CHECKED}
"""A complex retry is validated, too, else drift is never seen cured."""


def research(complexity: str, known: bool, edited: Sequence[str]) -> Research:
    """What a pipeline's research has to find out: a complex item is always researched, and nothing twice."""
    if not known:
        return "full"
    return "narrowed" if edited or complexity == "complex" else "skipped"


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


def after_attempt(came: Came, retries: int) -> Then:
    if came == "passed":
        return "done"
    return "retry" if came == "failed" and retries < MOST_RETRIES else "blocked"
