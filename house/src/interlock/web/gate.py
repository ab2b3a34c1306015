"""The page of a gate: the question, what it is about as it is now, and what keeps a decision bound to it (PERSON-01)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from interlock.cli import screens, text
from interlock.documents.files import read
from interlock.engine.keys import sha256
from interlock.engine.view import GateView, View
from interlock.errors import InterlockError, Status
from interlock.web import diffs
from interlock.web.prose import LONGEST, prose
from interlock.web.run import head, judges, pair_row, told
from interlock.web.shelf import Known, Shelf

OPEN = 60
"""Lines of a file's change that are not folded."""


@dataclass(frozen=True)
class Document:
    """One that the decision is about, as it is now."""

    path: str
    digest: str
    about: str
    """Its size, and whether it has changed."""
    body: Markup
    change: diffs.File | None
    """What is new in it since somebody decided about it last, where that is known."""
    cut: bool


def gate_page(shelf: Shelf, known: Known) -> dict[str, Any] | None:
    """All that the page tells; None where nothing waits for a decision."""
    view = shelf.view(known.entry)
    gate = view.gate
    if gate is None:
        return None
    documents = list(_documents(shelf, known, view, gate))
    try:
        changes = shelf.changes(view)
    except (InterlockError, OSError) as error:
        changes = [("What it changed", diffs.Files(problem=f"It cannot be read: {error}"))]
    unseen = [f"{one.unseen} ({title})" for title, one in changes if one.unseen]
    unseen += [f"the rest of {one.path}" for one in documents if one.cut]
    stands = view.status if known.far else view.status_now(known.entry.holder() is not None)
    return {
        **head(shelf, known, view, Status.WAITING if stands is Status.INTERRUPTED else stands),
        "tone": "waits",
        "documents": documents,
        "changes": changes,
        "unseen": f"Not all is on this page: {', '.join(unseen)}." if unseen else "",
        "seen": json.dumps({"opening": gate.opening, "shown": {one.path: one.digest for one in documents}}),
        "pairs": [pair_row(view, name) for name in view.pairs],
        "judges": judges(view),
        "told": told(view),
        "commands": screens.commands(view, stands, shelf.door.work(view)),
        "free": gate.choices == ("*",),
        "open": OPEN,
    }


def _documents(shelf: Shelf, known: Known, view: View, gate: GateView) -> Iterator[Document]:
    """The digests are of the very bytes that are shown."""
    decided = [one.shown for one in view.gates.values() if one.gate == gate.gate and one.decision]
    for path, asked in gate.shown.items():
        content = read(shelf.top, path)
        digest = "" if content is None else sha256(content)
        said = shelf.redacted(content or b"").decode("utf-8", "replace")
        before = decided[-1].get(path) if decided else None
        since = "" if before is None else "as you saw it" if before == digest else "changed since you saw it"
        if digest != asked:
            since = "changed since it was asked"
        size = "there is no such file" if content is None else text.size(len(content))
        change = None
        if content is not None and before not in (None, "", digest):
            with suppress(InterlockError):  # its words of then are kept where the run itself read or wrote it
                old = shelf.redacted(known.entry.folder.get(str(before))).decode("utf-8", "replace")
                change = diffs.between(path, old, said)
        about = ", ".join(filter(None, (size, since)))
        yield Document(path, digest, about, prose(said), change, len(said) > LONGEST)
