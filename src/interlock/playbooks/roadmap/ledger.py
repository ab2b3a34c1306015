"""roadmap.json as the playbook keeps it: surveyed anew for each iteration, changed by compare-and-set (EN-23).

Both go through `run.read` with a view and `run.update` with a name for the change, which record what is found and told
here and never the file: it may be large, and it is different each time.  So everything that crosses this line is JSON
data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from interlock.documents import Document
from interlock.engine import Edit
from interlock.playbooks.roadmap.decisions import Pick, is_candidate, select, waits_on
from interlock.playbooks.roadmap.documents import Item, Roadmap
from interlock.playbooks.roadmap.schema import ItemStatus

SHOWN_PASSED_OVER: Final = 50
COMPLETE: Final = "COMPLETE"


@dataclass(frozen=True)
class Remaining:
    """An item that has not passed, and why it cannot run."""

    id: str
    title: str
    status: str
    waits_on: tuple[tuple[str, str], ...] = ()
    """Id and status of each dependency that is not done."""
    reason: str = ""
    """Of a blocked item, the last reason."""


@dataclass(frozen=True)
class Survey:
    """What an iteration finds in the file."""

    choice: Pick
    items: int
    done: int
    item: Item | None = None
    passed_over: tuple[Mapping[str, Any], ...] = ()
    passed_over_in_all: int = 0
    remaining: tuple[Remaining, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Survey:
        item = value["item"]
        return cls(
            choice=Pick(value["choice"]),
            items=value["items"],
            done=value["done"],
            item=None if item is None else Item(value["position"], item),
            passed_over=tuple(value["passed_over"]),
            passed_over_in_all=value["passed_over_in_all"],
            remaining=tuple(
                Remaining(**{**one, "waits_on": tuple((a, b) for a, b in one["waits_on"])})
                for one in value["remaining"]
            ),
        )


def survey(document: Document, place: str) -> dict[str, Any]:
    """The survey of a roadmap as JSON data; DocumentInvalid when it is none."""
    items = Roadmap.read(document, place).items
    found = select(items)
    return {
        "choice": found.choice.value,
        "items": len(items),
        "done": sum(item.passes for item in items),
        "position": found.item.position if found.item else None,
        "item": found.item.raw if found.item else None,
        "passed_over": [
            {"item": one.item.id, "waits_on": [other.id for other in one.on]}
            for one in found.passed_over[:SHOWN_PASSED_OVER]
        ],
        "passed_over_in_all": len(found.passed_over),
        "remaining": [asdict(one) for one in _remaining(items)] if found.choice is Pick.NOTHING else [],
    }


def _remaining(items: Sequence[Item]) -> list[Remaining]:
    known = {item.id: item for item in items}
    return [
        Remaining(
            item.id,
            item.title,
            item.status.value,
            tuple((other.id, other.status.value) for other in waits_on(item, known)),
            _last_reason(item),
        )
        for item in sorted(items, key=lambda item: item.order)
        if not item.passes
    ]


def _last_reason(item: Item) -> str:
    return str(item.blocked_reasons[-1]["reason"]) if item.blocked_reasons else ""


# -- changing it


@dataclass(frozen=True)
class Persisted:
    """What became of a change of state."""

    edited: str | None
    """What a person changed of the item meanwhile; then nothing was written."""
    item: Item
    upcoming: str
    """The next candidate, as the report shows it."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Persisted:
        return cls(value["edited"], Item(value["position"], value["item"]), value["next"])


def transition(document: Document, place: str, item: Item, changes: Mapping[str, Any]) -> Edit:
    """Give the item these state fields, if it still is what it was; whatever else the file holds now is kept."""
    roadmap = Roadmap.read(document, place)
    now = roadmap.find(item.id)
    if now is not None and now.briefed() == item.briefed() and now.state() == {**item.state(), **changes}:
        return Edit(None, _told(roadmap, now))  # an earlier process wrote it, and somebody edited the file after that
    if difference := edited_of(now, item):
        return Edit(None, {"edited": difference, "position": item.position, "item": item.raw, "next": ""})
    assert now is not None
    written = roadmap.with_state(now, changes)
    return Edit(written.encode(), _told(written, written.items[now.position]))


def edited_of(now: Item | None, item: Item) -> str | None:
    """What differs between an item as it stands in the file and as it was left there."""
    if now is None:
        return f"item {item.id} was removed"
    before, after = ({**one.briefed(), **one.state()} for one in (item, now))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return f"item {item.id} was edited ({', '.join(names)})" if names else None


def _told(roadmap: Roadmap, item: Item) -> dict[str, Any]:
    return {"edited": None, "position": item.position, "item": item.raw, "next": upcoming(roadmap.items)}


def upcoming(items: Sequence[Item]) -> str:
    """The next candidate: id and title, `COMPLETE`, or how many items are in the way."""
    found = select(items)
    if found.choice is Pick.COMPLETE:
        return COMPLETE
    if found.item is not None:
        return found.item.name
    blocked = sum(item.status is ItemStatus.BLOCKED for item in items)
    waiting = sum(is_candidate(item) for item in items)
    return f"none ({blocked} blocked, {waiting} waiting)"


# -- recognising it after a crash


def fingerprint(item: Item) -> str:
    """A digest of what the work on the item depends on."""
    return hashlib.sha256(json.dumps(item.briefed(), sort_keys=True).encode()).hexdigest()


def standing(item: Item, changes: Mapping[str, Any] | None = None) -> list[Any]:
    """Status, passes and retries, with these changes."""
    state = {**item.state(), **(changes or {})}
    return [state["status"], state["passes"], state.get("retryCount", 0)]
