"""The page of one dispatch: brief, answer, transcript, what it changed, and its checks (PAGE-01)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from interlock.cli import telling, text
from interlock.documents.files import read_plain
from interlock.engine.runs import Entry
from interlock.engine.view import CallView
from interlock.errors import Refused, Status
from interlock.web import diffs
from interlock.web.gate import OPEN
from interlock.web.run import SAID, head
from interlock.web.said import transcript
from interlock.web.shelf import Known, Shelf
from interlock.workspace.values import Pending

LONGEST = 1_000_000
"""Bytes of a brief or an answer that are read."""


def dispatch_page(shelf: Shelf, known: Known, key: str, number: int | None, page: int | None) -> dict[str, Any]:
    """All that the page tells; Refused: the run has no such dispatch.

    Args:
        number: of the call whose transcript is shown; None: the last one.
        page: of that transcript.
    """
    view = shelf.view(known.entry)
    call = view.calls.get(key)
    if call is None:
        raise Refused(f"run {known.entry.id} has no dispatch {key!r}")
    report, keys = call.report, list(view.calls)
    at = keys.index(key)
    word, tone = telling.outcome(call)
    calls = max(1, call.calls)
    number = calls if number is None else min(max(number, 1), calls)
    form = telling.form_of(call)
    stands = view.status if known.far else view.status_now(known.entry.holder() is not None)
    return {
        **head(shelf, known, view, stands),
        "key": key,
        "name": call.member or call.agent,
        "agent": call.agent,
        "word": word if report or stands is Status.WORKING else "cut off",
        "tone": SAID.get(tone, "works" if report is None else "quiet"),
        "live": report is None and stands is Status.WORKING,
        "began": call.started,
        "call_took": call.seconds,
        "against": telling.against(call) if report and tone == "bad" else [],
        "facts": _facts(call),
        "tries": [": ".join(filter(None, (one.reason, one.complaint))) for one in call.tries],
        "summary": str(form.get("summary") or ""),
        "form": json.dumps(form, indent=2, ensure_ascii=False, default=str) if form else "",
        "criteria": [one for one in form.get("criteria") or () if isinstance(one, dict)],
        "notes": list(telling.notes(call)),
        "checks": report.checks if report else (),
        "remarks": [telling.remark(one) for one in report.remarks] if report else [],
        "answer": _record(shelf, known.entry, key, "answer.md"),
        "brief": _record(shelf, known.entry, key, "brief.md"),
        "diff": shelf.changed(report.did) if report and report.did else diffs.Files(),
        "left": _left(shelf, call),
        "transcript": transcript(shelf, known.entry, call, number, page),
        "calls": calls,
        "before": keys[at - 1] if at else "",
        "after": keys[at + 1] if at + 1 < len(keys) else "",
        "named": {one: view.calls[one].member or view.calls[one].agent for one in keys[max(0, at - 1) : at + 2]},
        "open": OPEN,
    }


def _facts(call: CallView) -> list[tuple[str, str]]:
    spent = call.spent
    tokens = "unknown" if spent.tokens is None else text.amount(spent.tokens)
    rows = [
        ("by", " ".join(filter(None, (call.runner, call.model)))),
        ("tokens", tokens),
        ("cost", text.money(spent.cost_usd).removeprefix("cost ")),
        ("attempt", str(call.attempt) if call.attempt > 1 else ""),
        ("calls", str(call.calls) if call.calls > 1 else ""),
        ("step", call.step),
        ("role", call.role),
    ]
    return [(name, value) for name, value in rows if value]


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


