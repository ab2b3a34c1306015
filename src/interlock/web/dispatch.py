"""The page of one dispatch: brief, answer, transcript, what it changed, and its checks (PAGE-01)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from interlock.cli import screens, telling, text
from interlock.documents.files import read_plain
from interlock.engine.runs import Entry
from interlock.engine.view import CallView
from interlock.errors import Status
from interlock.web import diffs
from interlock.web.run import SAID, claims, head
from interlock.web.said import transcript
from interlock.web.shelf import Shelf
from interlock.workspace.values import Pending

LONGEST = 1_000_000
"""Bytes of a brief or an answer that are read."""


def dispatch_page(shelf: Shelf, entry: Entry, key: str, number: int | None, page: int | None) -> dict[str, Any]:
    """All that the page tells.

    Args:
        number: of the call whose transcript is shown; None: the last one.
        page: of that transcript.
    """
    view = shelf.view(entry)
    call = view.calls[key]
    report, facts = call.report, head(entry, view)
    is_live = report is None and facts["status"] is Status.WORKING
    word, tone = telling.outcome(call)
    calls = max(1, call.calls)
    form = call.form
    return {
        **facts,
        **claims(call),
        "name": call.name,
        "word": word if report or is_live else "cut off",
        "tone": SAID[tone] if report else "works" if is_live else "quiet",
        "live": is_live,
        "call": call,
        "against": telling.against(call) if report and tone == "bad" else [],
        "about": _about(call),
        "tries": [": ".join(filter(None, (one.reason, one.complaint))) for one in call.tries],
        "form": json.dumps(form, indent=2, ensure_ascii=False, default=str) if form else "",
        "answer": _record(shelf, entry, key, "answer.md"),
        "brief": _record(shelf, entry, key, "brief.md"),
        "diff": shelf.changed(report.did) if report and report.did else diffs.Files(),
        "left": _left(shelf, call),
        "transcript": transcript(shelf, entry, call, min(max(number or calls, 1), calls), page),
        "calls": calls,
    }


def _about(call: CallView) -> str:
    spent = call.spent
    rows = (
        " ".join(filter(None, (call.runner, call.model))),
        "" if spent.tokens is None else f"{text.amount(spent.tokens)} tokens",
        text.money(spent.cost_usd),
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        f"step {screens.title(call.step)}" if call.step else "",
        f"role {call.role}" if call.role else "",
    )
    return " · ".join(filter(None, rows))


def _left(shelf: Shelf, call: CallView) -> diffs.Files:
    """What it had done where that did not count."""
    report = call.report
    if report is None or report.kept is None:
        return diffs.Files()
    base = report.did.work if report.did else report.shown
    return shelf.changed(Pending(base=base, work=report.kept)) if base else diffs.Files()


def _record(shelf: Shelf, entry: Entry, key: str, name: str) -> str:
    with suppress(OSError):
        raw = read_plain(entry.path / "dispatches" / key / name, limit=LONGEST)
        return shelf.redacted(raw).decode("utf-8", "replace")
    return ""
