"""The board: what waits for a person, what works, what has ended (PAGE-01)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from interlock.cli import screens
from interlock.engine.view import View
from interlock.errors import InterlockError, Status
from interlock.web.run import TONES
from interlock.web.shelf import Known, Shelf

SHOWN = 40
"""Runs of one part of the board on one page."""


@dataclass(frozen=True)
class Asked:
    """Which runs somebody wants to see."""

    q: str = ""
    status: str = ""
    playbook: str = ""
    page: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Asked:
        page = given.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 0
        return cls(given.get("q", "")[:200], given.get("status", ""), given.get("playbook", ""), number)

    def query(self, **other: Any) -> str:
        """The same as the end of an address."""
        known = {name: value for name, value in {**vars(self), **other}.items() if value}
        return f"?{urlencode(known, errors='replace')}" if known else ""


@dataclass(frozen=True)
class Listed:
    """A run on the board."""

    run: str
    headline: str
    playbook: str
    status: str
    tone: str
    how: str
    at: datetime | None
    asks: bool
    """A person is asked something."""
    far: bool


def board(shelf: Shelf, asked: Asked) -> dict[str, Any]:
    """All that the board tells."""
    waiting, working, ended, playbooks = list[Known](), list[Known](), list[Known](), set[str]()
    for known in shelf.runs():
        head = known.head
        if head is not None:
            playbooks.add(head.playbook)
        if not _fits(known, asked):
            continue
        if head is None or head.status.has_ended:
            ended.append(known)
        elif head.status is Status.WORKING or (known.far and head.status is Status.INTERRUPTED):
            working.append(known)
        else:
            waiting.append(known)
    asking = [known for known in working[:SHOWN] if _asks(_view(shelf, known))]
    waiting, working = asking + waiting, [known for known in working if known not in asking]
    pages = max(1, -(-len(ended) // SHOWN))
    page = min(asked.page, pages - 1)
    return {
        "asked": asked,
        "playbooks": sorted(playbooks),
        "statuses": [one.value for one in Status if one.is_open or one.has_ended],
        "waiting": [_listed(shelf, known) for known in waiting[:SHOWN]],
        "working": [_listed(shelf, known) for known in working[:SHOWN]],
        "ended": [_listed(shelf, known) for known in ended[page * SHOWN : (page + 1) * SHOWN]],
        "counts": (len(waiting), len(working), len(ended)),
        "page": page,
        "pages": pages,
    }


def _fits(known: Known, asked: Asked) -> bool:
    head = known.head
    if head is None:
        return not (asked.status or asked.playbook) and asked.q.casefold() in known.entry.id
    words = f"{head.headline} {head.id} {head.key}".casefold()
    return (
        asked.status in ("", head.status.value)
        and asked.playbook in ("", head.playbook)
        and asked.q.casefold() in words
    )


def _view(shelf: Shelf, known: Known) -> View | None:
    with suppress(InterlockError):
        return shelf.view(known.entry)
    return None


def _asks(view: View | None) -> bool:
    return view is not None and view.gate is not None


def _listed(shelf: Shelf, known: Known) -> Listed:
    head, entry = known.head, known.entry
    if head is None:
        told = f"It cannot be read: interlock doctor --mend {entry.id}"
        return Listed(entry.id, entry.id, "", "damaged", "failed", told, None, asks=False, far=known.far)
    status, how = head.status, head.why
    view = _view(shelf, known) if status.is_open else None
    asks = _asks(view)
    if view is not None and view.gate is not None:
        how = view.gate.question
    elif view is not None and (status is Status.WORKING or known.far):
        names = dict.fromkeys(call.member or call.agent for call in view.now)
        step = screens.title(view.steps[-1].name) if view.steps else ""
        how = ": ".join(filter(None, (step, ", ".join(names))))
    word = "elsewhere" if known.far else "asks" if asks else status.value
    tone = "waits" if asks else TONES.get(status, "quiet")
    return Listed(entry.id, head.headline or entry.id, head.playbook, word, tone, how, head.changed, asks, known.far)
