"""The board: what waits for a person, what works, what has ended (PAGE-01)."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from interlock.cli import screens
from interlock.engine.runs import Entry, Head
from interlock.engine.view import View
from interlock.errors import InterlockError, Status
from interlock.web.run import TONES
from interlock.web.shelf import Shelf

SHOWN = 25
"""Runs of one part of the board on one page."""


class Listed(NamedTuple):
    """A run on the board."""

    run: str
    headline: str
    playbook: str
    status: str
    tone: str
    how: str
    at: datetime | None
    asks: bool = False
    """A person is asked something."""


def board(shelf: Shelf, q: str, page: int) -> dict[str, Any]:
    """All that the board tells.

    Args:
        q: words of which each stands in a run's headline, name, key, playbook or state.
        page: of those that have ended.
    """
    parts: dict[str, list[tuple[Entry, Head | None]]] = {"waiting": [], "working": [], "ended": []}
    for entry, head in shelf.runs():
        known = f"{head.headline} {head.key} {head.status}" if head else "damaged"
        if all(word in f"{known} {entry.id}".casefold() for word in q.casefold().split()):
            parts[_part(entry, head)].append((entry, head))
    working = [_listed(shelf, *one) for one in parts["working"][:SHOWN]]  # only what is shown is read as a whole
    asking = [one for one in working if one.asks]
    pages = max(1, -(-len(parts["ended"]) // SHOWN))
    page = min(page, pages - 1)
    return {
        "q": q,
        "waiting": [*asking, *(_listed(shelf, *one) for one in parts["waiting"][:SHOWN])],
        "working": [one for one in working if not one.asks],
        "ended": [_listed(shelf, *one) for one in parts["ended"][page * SHOWN : (page + 1) * SHOWN]],
        "counts": (len(parts["waiting"]) + len(asking), len(parts["working"]) - len(asking), len(parts["ended"])),
        "page": page,
        "pages": pages,
    }


def _part(entry: Entry, head: Head | None) -> str:
    if head is None or head.status.has_ended:
        return "ended"
    return "working" if head.status is Status.WORKING or entry.is_far else "waiting"


def _listed(shelf: Shelf, entry: Entry, head: Head | None) -> Listed:
    if head is None:
        how = f"It cannot be read: interlock doctor --mend {entry.id}"
        return Listed(entry.id, entry.id, "", "damaged", "failed", how, None)
    status, how, view = head.status, head.why, View()
    if status.is_open:
        with suppress(InterlockError):
            view = shelf.view(entry)
    if view.gate is not None:
        how = view.gate.question
    elif status is Status.WORKING:
        names = dict.fromkeys(call.name for call in view.now)
        step = screens.title(view.steps[-1].name) if view.steps else ""
        how = ": ".join(filter(None, (step, ", ".join(names))))
    word, tone = "elsewhere" if entry.is_far and status.is_open else status.value, TONES[status]
    if asks := view.gate is not None and not entry.is_far:
        word, tone = "asks", "waits"
    return Listed(entry.id, head.headline, head.playbook, word, tone, how, head.changed, asks)
