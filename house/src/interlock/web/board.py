"""The board: what waits for a person, what works, what has ended (PAGE-01)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from interlock.cli import screens
from interlock.engine.runs import Entry, Head
from interlock.engine.view import View
from interlock.errors import InterlockError, Status
from interlock.web.run import TONES
from interlock.web.shelf import Shelf

SHOWN = 25
"""Runs of one part of the board on one page."""


@dataclass(frozen=True)
class Asked:
    """Which runs somebody wants to see."""

    q: str = ""
    status: str = ""
    playbook: str = ""
    page: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str], page: int) -> Asked:
        return cls(given.get("q", "")[:200], given.get("status", ""), given.get("playbook", ""), page)

    def query(self, **other: Any) -> str:
        """The same as the end of an address."""
        known = {name: value for name, value in {**vars(self), **other}.items() if value}
        return f"?{urlencode(known, errors='replace')}" if known else ""

    def fits(self, entry: Entry, head: Head | None) -> bool:
        if head is None:
            return not (self.status or self.playbook) and self.q.casefold() in entry.id
        words = f"{head.headline} {head.id} {head.key}".casefold()
        is_so = self.status in ("", head.status.value) and self.playbook in ("", head.playbook)
        return is_so and self.q.casefold() in words


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
    asks: bool = False
    """A person is asked something."""


def board(shelf: Shelf, asked: Asked) -> dict[str, Any]:
    """All that the board tells."""
    waiting, working, ended, playbooks = list[Listed](), list[Listed](), list[tuple[Entry, Head | None]](), set[str]()
    for entry, head in shelf.runs():
        playbooks |= {head.playbook} if head else set()
        if not asked.fits(entry, head):
            continue
        if head is None or head.status.has_ended:
            ended.append((entry, head))
        else:
            listed = _open(shelf, entry, head)
            (working if listed.status in ("working", "elsewhere") else waiting).append(listed)
    pages = max(1, -(-len(ended) // SHOWN))
    page = min(asked.page, pages - 1)
    return {
        "asked": asked,
        "playbooks": sorted(playbooks),
        "statuses": [one.value for one in Status if one.is_open or one.has_ended],
        "waiting": waiting[:SHOWN],
        "working": working[:SHOWN],
        "ended": [_ended(entry, head) for entry, head in ended[page * SHOWN : (page + 1) * SHOWN]],
        "counts": (len(waiting), len(working), len(ended)),
        "page": page,
        "pages": pages,
    }


def _ended(entry: Entry, head: Head | None) -> Listed:
    if head is None:
        how = f"It cannot be read: interlock doctor --mend {entry.id}"
        return Listed(entry.id, entry.id, "", "damaged", "failed", how, None)
    status = head.status
    return Listed(entry.id, head.headline, head.playbook, status.value, TONES[status], head.why, head.changed)


def _open(shelf: Shelf, entry: Entry, head: Head) -> Listed:
    status, how, view = head.status, head.why, View()
    with suppress(InterlockError):
        view = shelf.view(entry)
    asks = view.gate is not None and not entry.is_far
    if view.gate is not None:
        how = view.gate.question
    elif status is Status.WORKING:
        names = dict.fromkeys(call.member or call.agent for call in view.now)
        step = screens.title(view.steps[-1].name) if view.steps else ""
        how = ": ".join(filter(None, (step, ", ".join(names))))
    word, tone = ("asks", "waits") if asks else ("elsewhere" if entry.is_far else status.value, TONES[status])
    return Listed(entry.id, head.headline, head.playbook, word, tone, how, head.changed, asks)
