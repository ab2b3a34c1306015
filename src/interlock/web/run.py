"""What the page of a run tells: verdict and receipt first, then its steps, when who worked, and what changed.

The words are those of the terminal (`cli.telling`, `cli.screens`); what is folded there by a narrow screen is folded
here by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from interlock.cli import screens, telling, text
from interlock.cli.door import Door
from interlock.cli.telling import Narrator
from interlock.documents import files
from interlock.engine.afterwards import Work
from interlock.engine.runs import Entry
from interlock.engine.view import CallView, DecisionView, StepView, View
from interlock.errors import Status, WorkspaceFailed
from interlock.web.rendering import render
from interlock.web.said import doing
from interlock.web.shelf import Shelf
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
    Status.CANCELLED: "quiet",
}
SAID = {"good": "done", "bad": "failed", "note": "waits", "begin": "works", "plain": "quiet", "detail": "quiet"}
"""The tone of a row of the terminal, as it looks here."""
ROWS = 200
"""Rows of the steps on one page."""
FEW = 12
"""Rows that are not folded."""
CHIPS = 7
"""Steps of the row of steps."""


class Row(NamedTuple):
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
    is_now: bool


def run_page(shelf: Shelf, entry: Entry, page: int | None = None, *, whole: bool = False) -> dict[str, Any]:
    """All that the page of a run tells.

    Args:
        page: of the rows of its steps, from 0; None: the last one.
        whole: all of them, with what changed, for the one file.
    """
    view = shelf.view(entry)
    facts = head(entry, view)
    stands, work = facts["status"], shelf.door.work(view)
    steps = list(_steps(view, Narrator(entry.path.parent), stands))
    total = sum(len(step.rows) for step in steps)
    pages = 1 if whole else max(1, -(-total // ROWS))
    page = pages - 1 if page is None else min(page, pages - 1)
    place = f"on {view.on_branch}, not in your tree" if view.on_branch else "not delivered"
    groups = [
        ("delivered", work.delivered, ""),
        ("pending" if view.status.is_open else "kept", work.pending, place),
        ("held back", work.held, "guarded: not delivered"),
        ("taken out again", work.undone, ""),
    ]
    documents: dict[str, Change | None] = dict.fromkeys(view.documents)
    documents |= {one.path: one for _, changes, _ in groups for one in changes if view.is_document(one.path)}
    return {
        **facts,
        **evidence(view),
        "recorded": _recorded(entry),
        "chips": steps[-CHIPS:],
        "before": max(0, len(steps) - CHIPS),
        "now": [_working(shelf, entry, call) for call in view.now] if stands is Status.WORKING else [],
        "no_check": not view.pairs and any(call.report for call in view.calls.values()),
        "code": [(name, why, [one for one in changes if one.path not in documents]) for name, changes, why in groups],
        "documents": sorted(documents.items()),
        "problem": work.problem,
        "untouched": bool(view.start and view.start.standing.unsaved and work.delivered),
        "steps": list(_cut(steps, page * ROWS, ROWS)) if pages > 1 else steps,
        "page": page,
        "pages": pages,
        "timeline": timeline(view, datetime.now(UTC)),
        "commands": commands(view, stands, work),
        "can_cancel": not entry.is_far and stands.is_open,
        "can_resume": not entry.is_far and view.gate is None and stands in _GOES_ON,
        "has_changes": any(changes for _, changes, _ in groups),
        "output": entry.output(view).decode("utf-8", "replace"),
        "changes": shelf.changes(view) if whole else (),
    }


_GOES_ON = (Status.WAITING, Status.INTERRUPTED, Status.FAILED, Status.STOPPED)


def write(door: Door, entry: Entry, file: Path) -> None:
    """The page as one file, replaced as a whole; into what is none, a pipe or a terminal, it streams (PAGE-03)."""
    page = render("run", None, whole=True, **run_page(Shelf(door.folder), entry, whole=True))
    place, content = door.folder / file, page.encode("utf-8", "backslashreplace")
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(content)
        else:
            files.replace(place, content, mode=0o644)
    except OSError as error:
        raise WorkspaceFailed.of(error, "the page cannot be written", where=str(file)) from error


def commands(view: View, stands: Status, work: Work) -> list[str]:
    """What leads on at a terminal, wherever it is typed later."""
    return [f"{one} {view.run}" if one == "interlock diff" else one for one in screens.commands(view, stands, work)]


def head(entry: Entry, view: View) -> dict[str, Any]:
    """What every page about a run begins with."""
    stands, calls = entry.status(view), view.called
    took = screens.seconds(view, stands)
    return {
        "run": entry.id,
        "far": entry.is_far,
        "playbook": view.start.playbook if view.start else "",
        "headline": (view.start.headline if view.start else "") or entry.id,
        "status": stands,
        "tone": "waits" if view.gate is not None and not entry.is_far else TONES[stands],
        "took": took,
        "since": datetime.now(UTC) - timedelta(seconds=took) if stands is Status.WORKING else None,
        "figures": [text.count(calls, "call"), *screens.cost(view, stands)] if calls else [],
        "why": view.why if view.gate is None and stands is not Status.WORKING else "",
        "view": view,
        "gate": view.gate,
    }


def evidence(view: View) -> dict[str, Any]:
    """What a decision rests on: commands before and after, judges, and what is to be looked at."""
    judges = [_judge(call) for call in view.last_words]
    return {
        "pairs": [_pair(view, name) for name in view.pairs],
        "judges": judges,
        "told": list(dict.fromkeys(_told(view, {one["key"] for one in judges}))),
    }


def _pair(view: View, name: str) -> tuple[str, str, str]:
    """A command, what came of it in words, and how that is."""
    pair = view.pairs[name]
    tone = telling.pair_word(pair)[1] if pair.proved else "plain"
    return pair.command, screens.pair_words(pair).replace("->", "→"), SAID[tone]


def _judge(call: CallView) -> dict[str, Any]:
    """The last word of a judge."""
    word, tone = telling.outcome(call)
    against = telling.against(call) if tone == "bad" else []
    return {"name": call.name, "word": word, "tone": SAID[tone], "against": against, **claims(call)}


def claims(call: CallView) -> dict[str, Any]:
    """What an agent said in its form, and what interlock has to say of that."""
    form, report = call.form, call.report
    return {
        "key": call.key,
        "summary": str(form.get("summary") or ""),
        "criteria": [one for one in form.get("criteria") or () if isinstance(one, dict)],
        "notes": [*telling.notes(call), *(telling.remark(one) for one in (report.remarks if report else ()))],
        "checks": report.checks if report else (),
    }


def _told(view: View, judged: set[str]) -> Iterator[Row]:
    """What is to be looked at, beside checks and judges: conflicts, what was not delivered, remarks, warnings."""
    for key, call in view.calls.items():
        for one in call.report.remarks if call.report and key not in judged else ():
            tone = "failed" if one.kind is RemarkKind.CONFLICT else "waits"
            yield Row(call.name, telling.remark(one), "", tone, key)
    yield from (Row(*said[:3], SAID[said[3]]) for said in telling.of_run(view) if said[3] in ("bad", "note"))


def _recorded(entry: Entry) -> str:
    """A decision that nobody has taken up yet."""
    said = next((one for _, one in entry.folder.messages()), None)
    if said is None:
        return ""
    later = "" if entry.holder() else ", and is taken up when the run goes on"
    return f"{said.choice or said.what} by {said.who} is recorded{later}."


def _working(shelf: Shelf, entry: Entry, call: CallView) -> dict[str, Any]:
    """Who works, and at what."""
    waits = f"waits until {text.clock(call.until)}" if call.state == "waiting" and call.until else ""
    return {
        "name": call.name,
        "key": call.key,
        "since": call.started,
        "by": " ".join(filter(None, (call.runner, call.model))),
        "tokens": f"{text.amount(call.spent.tokens)} tokens" if call.spent.tokens else "",
        "doing": waits or doing(shelf, entry, call),
    }


# --- the steps


def _steps(view: View, narrator: Narrator, stands: Status) -> Iterator[Step]:
    every = [(step, list(_rows(view, narrator, step))) for step in view.steps]
    for one in view.decisions if every else ():  # one outside of every step stands at the end
        top = one.key.rpartition("/")[0].partition("/")[0]
        next((rows for step, rows in every if step.name == top), every[-1][1]).append(_decided(one))
    every = [(step, rows) for step, rows in every if rows]
    few = sum(len(rows) for _, rows in every) <= FEW
    for step, rows in every:
        is_now = step is every[-1][0] and not stands.has_ended
        ends = [row.tone for row in rows if (row.key or row.who == "check") and row.tone in ("done", "failed")]
        tone = TONES[stands] if is_now else ends[-1] if ends else "done"
        yield Step(screens.title(step.name), _in_short(view, step, rows), tone, rows, few or is_now, is_now)


def _rows(view: View, narrator: Narrator, step: StepView) -> Iterator[Row]:
    linked = set[str]()
    for key, (who, what, rest, tone) in narrator.of_step(view, step):
        yield Row(who, what, rest, SAID[tone], key if key in view.calls and key not in linked else "")
        linked.add(key)


def _decided(one: DecisionView) -> Row:
    """What code decided, from which named inputs; how its rule is called says nothing to people."""
    inputs = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in one.inputs.items())
    return Row("decided", text.line(str(one.result), 200), text.line(f"from {inputs}" if inputs else "", 400), "quiet")


def _in_short(view: View, step: StepView, rows: Sequence[Row]) -> str:
    """A step in a line: who came to what, or how many were called; how long it took."""
    calls = [view.calls[key] for key in step.keys if key in view.calls]
    said = [f"{row.who} {row.what}" for row in rows if row.key]
    if len(said) > 3:
        said = [text.count(len(calls), "dispatch", "dispatches")]
    said = said or [f"{row.who}: {row.rest or row.what}" for row in rows if row.who in ("check", "asks", "decided")][:2]
    ends = [call.ended for call in calls if call.ended]
    took = (max(ends) - min(call.started for call in calls)).total_seconds() if ends else 0
    return "  ".join([text.line(", ".join(said), 120), *([text.duration(took)] if took else [])])


def _cut(steps: Iterable[Step], begin: int, most: int) -> Iterator[Step]:
    """Those rows of the steps that stand on a page; a step may go on on the next one."""
    for step in steps:
        if rows := step.rows[max(0, begin) : max(0, begin + most)]:
            yield replace(step, rows=rows)
        begin -= len(step.rows)
