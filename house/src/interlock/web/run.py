"""What the page of a run tells: verdict and receipt first, then its steps, when who worked, and what changed.

The words are those of the terminal (`cli.telling`, `cli.screens`); what is folded there by a narrow screen is folded
here by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from interlock.cli import screens, telling, text
from interlock.cli.telling import Narrator
from interlock.engine.receipt import last_words
from interlock.engine.view import CallView, DecisionView, StepView, View
from interlock.errors import InterlockError, Status
from interlock.web.said import doing
from interlock.web.shelf import Known, Shelf
from interlock.web.timeline import timeline
from interlock.workspace.values import Change, RemarkKind

TONES = {
    Status.WORKING: "works",
    Status.WAITING: "waits",
    Status.INTERRUPTED: "waits",
    Status.FAILED: "failed",
    Status.COMPLETE: "done",
    Status.DEGRADED: "waits",
    Status.STOPPED: "failed",
}
SAID = {"good": "done", "bad": "failed", "note": "waits", "begin": "works"}
"""The tone of a row of the terminal, as it looks here."""
ROWS = 200
"""Rows of the steps on one page."""
FEW = 12
"""Rows that are not folded."""
CHIPS = 7
"""Steps of the row of steps."""


@dataclass(frozen=True)
class Row:
    """One thing that happened in a step."""

    who: str
    what: str
    rest: str
    tone: str
    key: str = ""
    """Of the dispatch that it tells of."""


@dataclass(frozen=True)
class Step:
    title: str
    told: str
    tone: str
    rows: Sequence[Row]
    open: bool


def run_page(shelf: Shelf, known: Known, *, page: int | None = None, whole: bool = False) -> dict[str, Any]:
    """All that the page of a run tells.

    Args:
        page: of the rows of its steps, from 0; None: the last one.
        whole: all of them, for the one file.
    """
    entry, view = known.entry, shelf.view(known.entry)
    stands = view.status if known.far else view.status_now(entry.holder() is not None)
    work, steps = shelf.door.work(view), list(_steps(view, Narrator(entry.path.parent), stands))
    total = sum(len(step.rows) for step in steps)
    pages = 1 if whole else max(1, -(-total // ROWS))
    page = pages - 1 if page is None else min(page, pages - 1)
    is_document = _documents(shelf, view)
    groups = [
        ("delivered", work.delivered, ""),
        ("pending" if view.status.is_open else "kept", work.pending, "not delivered"),
        ("held back", work.held, "guarded: not delivered"),
        ("taken out again", work.undone, ""),
    ]
    return {
        **head(shelf, known, view, stands),
        "recorded": _recorded(known, view),
        "stages": _stages(view, stands),
        "now": [_working(shelf, known, call) for call in view.now] if stands is Status.WORKING else [],
        "pairs": [pair_row(view, name) for name in view.pairs],
        "no_check": not view.pairs and any(call.report for call in view.calls.values()),
        "tells_nothing": view.shown_by is not None and not view.shown_by.get("by"),
        "judges": judges(view),
        "told": told(view, judged={call.key for call in last_words(view)}),
        "words": [(one.who, one.text) for one in view.words],
        "code": [(name, why, [one for one in files if not is_document(one.path)]) for name, files, why in groups],
        "documents": _papers(view, [one for _, files, _ in groups for one in files], is_document),
        "problem": work.problem,
        "commits": [one for one in view.committed if one.commit and not one.problem],
        "untouched": bool(view.start and view.start.standing.unsaved and work.delivered),
        "steps": steps if pages == 1 else list(_cut(steps, page)),
        "page": page,
        "pages": pages,
        "total": total,
        "timeline": timeline(view, datetime.now(UTC)),
        "commands": screens.commands(view, stands, work),
        "output": entry.output(view).decode("utf-8", "replace"),
    }


def head(shelf: Shelf, known: Known, view: View, stands: Status) -> dict[str, Any]:
    """What every page about a run begins with."""
    calls = sum(call.calls for call in view.calls.values())
    why = view.why if view.gate is None and stands is not Status.WORKING else ""
    return {
        "run": known.entry.id,
        "far": known.far,
        "playbook": view.start.playbook if view.start else "",
        "headline": (view.start.headline if view.start else "") or known.entry.id,
        "status": stands,
        "tone": TONES.get(stands, "quiet"),
        "took": screens.seconds(view, stands),
        "since": view.since.isoformat() if stands is Status.WORKING and view.since and not view.seconds else "",
        "figures": [text.count(calls, "call"), *screens.cost(view, stands)] if calls else [],
        "why": why,
        "until": view.until,
        "gate": view.gate,
        "at": view.at,
    }


def _recorded(known: Known, view: View) -> str:
    """A decision that nobody has taken up yet."""
    said = next((one for _, one in known.entry.folder.messages()), None)
    if said is None:
        return ""
    what = said.choice or said.what
    return f"{what} by {said.who} is recorded{'' if known.entry.holder() else ', and is taken up when the run goes on'}."


def pair_row(view: View, name: str) -> tuple[str, str, str]:
    """A command, what came of it in words, and how that is."""
    pair = view.pairs[name]
    tone = telling.pair_word(pair)[1] if pair.proved else "plain"
    return pair.command, screens.pair_words(pair).replace("->", "→"), SAID.get(tone, "quiet")


def judges(view: View) -> list[dict[str, Any]]:
    """The last word of each judge: its summary, criteria, findings, notes, and the checks that it named."""
    found = []
    for call in last_words(view):
        report, form, (word, tone) = call.report, telling.form_of(call), telling.outcome(call)
        assert report is not None
        found.append(
            {
                "name": call.member or call.agent,
                "key": call.key,
                "word": word,
                "tone": SAID.get(tone, "quiet"),
                "summary": str(form.get("summary") or ""),
                "criteria": [one for one in form.get("criteria") or () if isinstance(one, dict)],
                "against": telling.against(call) if tone == "bad" else [],
                "notes": list(telling.notes(call)),
                "checks": report.checks,
                "remarks": [telling.remark(one) for one in report.remarks],
            }
        )
    return found


def told(view: View, judged: set[str] = frozenset()) -> list[Row]:  # type: ignore[assignment]
    """What is to be looked at, beside checks and judges: conflicts, what was not delivered, remarks, warnings."""
    rows = [Row(*said[:3], SAID[said[3]]) for said in telling.of_run(view) if said[3] in ("bad", "note")]
    calls = [call for key, call in view.calls.items() if call.report and key not in judged]
    for call in calls:
        for one in call.report.remarks if call.report else ():
            tone = "failed" if one.kind is RemarkKind.CONFLICT else "waits"
            rows.append(Row(call.member or call.agent, telling.remark(one), "", tone, call.key))
    return list(dict.fromkeys(rows))


def _stages(view: View, stands: Status) -> dict[str, Any]:
    """The way so far, the latest steps of it, and who is in the present one."""
    known = [step for step in view.steps if step.name]
    shown = known[-CHIPS:]
    last = known[-1] if known else None
    tone = TONES.get(stands, "quiet") if not stands.has_ended or stands is not Status.COMPLETE else "done"
    chips = [
        (screens.title(step.name), tone if step is last else "done", step is last and not stands.has_ended)
        for step in shown
    ]
    return {"before": len(known) - len(shown), "chips": chips}


def _working(shelf: Shelf, known: Known, call: CallView) -> dict[str, Any]:
    waits = f"waits until {text.clock(call.until)}" if call.state == "waiting" and call.until else ""
    return {
        "name": call.member or call.agent,
        "key": call.key,
        "since": call.started.isoformat(),
        "took": text.running((datetime.now(UTC) - call.started).total_seconds()),
        "by": " ".join(filter(None, (call.runner, call.model))),
        "tokens": f"{text.amount(call.spent.tokens)} tokens" if call.spent.tokens else "",
        "doing": waits or doing(shelf, known.entry, call),
    }


# --- the steps


def _steps(view: View, narrator: Narrator, stands: Status) -> Iterator[Step]:
    decided = dict[str, list[DecisionView]]()
    for one in view.decisions:
        decided.setdefault(one.key.partition("/")[0], []).append(one)
    every = [(step, [*_rows(view, narrator, step), *_decided(decided.get(step.name, ()))]) for step in view.steps]
    every = [(step, rows) for step, rows in every if rows]
    small = sum(len(rows) for _, rows in every) <= FEW
    for number, (step, rows) in enumerate(every, 1):
        calls = [view.calls[key] for key in step.keys if key in view.calls]
        tone = _tone(rows, stands if number == len(every) else Status.COMPLETE)
        is_now = number == len(every) and not stands.has_ended
        yield Step(screens.title(step.name), _in_short(calls, rows), tone, rows, small or is_now)


def _rows(view: View, narrator: Narrator, step: StepView) -> Iterator[Row]:
    for key in step.keys:
        works = key in view.calls and view.calls[key].report is None
        first = True
        for who, what, rest, tone in narrator.about(view, key):
            if tone != "begin" or works:
                yield Row(who, what, rest, SAID.get(tone, "quiet"), key if first and key in view.calls else "")
                first = False


def _decided(decisions: Iterable[DecisionView]) -> Iterator[Row]:
    """What code decided, from which named inputs; how its rule is called says nothing to people."""
    for one in decisions:
        inputs = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in one.inputs.items())
        yield Row("decided", text.line(str(one.result), 200), text.line(f"from {inputs}" if inputs else "", 400), "quiet")


def _tone(rows: Sequence[Row], stands: Status) -> str:
    if stands is Status.WORKING:
        return "works"
    ends = [row.tone for row in rows if row.key and row.tone in ("done", "failed")]
    return "waits" if stands in (Status.WAITING, Status.INTERRUPTED) else ends[-1] if ends else "done"


def _in_short(calls: Sequence[CallView], rows: Sequence[Row]) -> str:
    """A step in a line: who came to what, or how many were called; how long it took."""
    said = [f"{row.who} {row.what}" for row in rows if row.key]
    said = said if 0 < len(said) <= 3 else [text.count(len(calls), "dispatch", "dispatches")] if calls else []
    said = said or [f"{row.who}: {row.rest or row.what}" for row in rows if row.who in ("check", "asks", "decided")][:2]
    ends = [call.ended for call in calls if call.ended]
    took = (max(ends) - min(call.started for call in calls)).total_seconds() if ends else 0
    return "  ".join([text.line(", ".join(said), 120), *([text.duration(took)] if took else [])])


def _cut(steps: Iterable[Step], page: int) -> Iterator[Step]:
    """Those rows of the steps that stand on a page; a step may go on on the next one."""
    at, begin = 0, page * ROWS
    for step in steps:
        rows = step.rows[max(0, begin - at) : max(0, begin + ROWS - at)]
        at += len(step.rows)
        if rows:
            yield Step(step.title, step.told, step.tone, rows, step.open)


# --- documents


def _documents(shelf: Shelf, view: View) -> Any:
    """What tells documents of the process from code."""
    trees = shelf.door.trees
    trees.declare(view.start.documents if view.start else ())
    return lambda path: path in view.documents or trees.is_document(path)


def _papers(view: View, changes: Sequence[Change], is_document: Any) -> list[tuple[str, Change | None]]:
    """Documents that the run wrote: by agents, with their lines; by the engine itself, without."""
    found: dict[str, Change | None] = dict.fromkeys(view.documents)
    found |= {one.path: one for one in changes if is_document(one.path)}
    return sorted(found.items())


def heading(shelf: Shelf, known: Known) -> str:
    """What a run is about, for who is on another page of it."""
    with suppress(InterlockError):
        view = shelf.view(known.entry)
        return (view.start.headline if view.start else "") or known.entry.id
    return known.entry.id
