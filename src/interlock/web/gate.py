"""The page of a gate: the question, what it is about as it is now, and what binds a decision to it (PERSON-01)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from interlock.documents.files import read, sha256
from interlock.engine.runs import Entry
from interlock.engine.view import GateView, View
from interlock.errors import InterlockError
from interlock.web import diffs
from interlock.web.prose import LONGEST, prose
from interlock.web.run import commands, evidence, head
from interlock.web.shelf import Shelf


def gate_page(shelf: Shelf, entry: Entry) -> dict[str, Any] | None:
    """All that the page tells; None where nothing waits for a decision here."""
    view = shelf.view(entry)
    gate = view.gate
    if gate is None or entry.is_far:
        return None
    documents, changes = list(_documents(shelf, entry, view, gate)), shelf.changes(view)
    unseen = [f"{one.unseen} ({title})" for title, one in changes if one.unseen]
    unseen += [f"the rest of {one['path']}" for one in documents if one["cut"]]
    return {
        **head(entry, view),
        **evidence(view),
        "documents": documents,
        "changes": changes,
        "unseen": f"Not all is on this page: {', '.join(unseen)}." if unseen else "",
        "seen": json.dumps({"opening": gate.opening, "shown": {one["path"]: one["digest"] for one in documents}}),
        "commands": commands(view, entry.status(view), shelf.door.work(view)),
        "free": gate.choices == ("*",),
    }


def _documents(shelf: Shelf, entry: Entry, view: View, gate: GateView) -> Iterator[dict[str, Any]]:
    """The digests are of the very bytes that are shown."""
    decided = [one.shown for one in view.gates.values() if one.gate == gate.gate and one.decision]
    about = shelf.door.shown(view)
    for path in gate.shown:
        content = read(shelf.top, path)
        digest = sha256(content)
        said = shelf.redacted(content or b"").decode("utf-8", "replace")
        before, change = decided[-1].get(path) if decided else None, None
        if content is not None and before not in (None, "", digest):
            with suppress(InterlockError):  # its words of then are kept where the run itself read or wrote it
                old = shelf.redacted(entry.folder.get(str(before))).decode("utf-8", "replace")
                change = diffs.compared(path, old, said)
        yield {
            "path": path,
            "digest": digest,
            "about": about.get(path, ""),
            "body": prose(said),
            "change": change,  # since somebody decided about it last
            "cut": len(said) > LONGEST,
        }
