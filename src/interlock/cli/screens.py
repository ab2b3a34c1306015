"""How a run stands, as people see it: its head, its stages, what was reached and on what evidence (CLI-02, CLI-03).

All of it renders a `View`; what of the work only the trees know, its lines, comes as `Work`.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from interlock.cli import telling, text
from interlock.cli.telling import Narrator, laid
from interlock.engine.afterwards import Work
from interlock.engine.view import CallView, GateView, PairView, View
from interlock.errors import Status
from interlock.workspace.values import Change, RemarkKind

MOST = 8
"""Files, notes and the like that are shown; `diff` has all."""
Told = tuple[str, str, str]
"""A row: its label, what, the rest."""


# --- the head


def head(view: View, width: int | None, facts: Sequence[str]) -> str:
    """The playbook and what it is about, in the user's words; on the right what is known of it."""
    about = f"{view.start.playbook}  {text.line(view.start.headline, 400)}" if view.start else ""
    if width is None:
        return "  ".join((about, *facts))
    shown = list(facts)
    while shown and len("  ".join(shown)) + 24 > width:
        shown.pop(min(1, len(shown) - 1))
    right = "  ".join(shown)
    left = text.cut(about, width - len(right) - 2 if right else width)
    return f"{text.padded(left, width - len(right))}{right}".rstrip()


def facts(view: View, stands: Status, usual_s: float | None = None) -> list[str]:
    """Time, the rest of it where it is known how long such a run usually takes, and cost."""
    took = seconds(view, stands)
    left = [f"about {text.running(usual_s - took)} left"] if usual_s and usual_s - took > 1 else []
    return [text.running(took), *left, *(cost(view, stands) if view.usage.cost_usd is not None else ())]


def cost(view: View, stands: Status) -> list[str]:
    """Who is at work tells its cost at the end: until then it is not unknown."""
    told = [call.spent.cost_usd is not None for call in view.calls.values() if call.report]
    known = view.cost_known or (stands is Status.WORKING and all(told))
    return [text.money(view.usage.cost_usd, known)] if told or stands is not Status.WORKING else []


def seconds(view: View, stands: Status) -> float:
    """How long it was worked on; where somebody does so now, up to now."""
    until = datetime.now(UTC) if stands is Status.WORKING else view.at
    return view.seconds + ((until - view.since).total_seconds() if until and view.since else 0)


def stages(view: View, width: int) -> str:
    """The way so far: what is done, where it is now and who is in it; on the right the run's name."""
    known, shown = [step for step in view.steps if step.name], []
    for number, step in enumerate(known):
        now = number == len(known) - 1 and view.status is Status.WORKING
        inside = dict.fromkeys(_at(view, key) for key in step.keys if now)
        names = "  ".join(name for name in inside if name)
        shown.append(f"{'>' if now else '+'} {title(step.name)}{f': {names}' if names else ''}")
    while len(shown) > 1 and text.columns("   ".join(shown)) > width:
        shown = ["…", *shown[2 if shown[0] == "…" else 1 :]]
    row = text.cut("   ".join(shown), width)
    fits = width - text.columns(row) - 2 >= len(view.run)
    return f"{text.padded(row, width - len(view.run))}{view.run}" if fits else row


def _at(view: View, key: str) -> str:
    call = view.calls.get(key)
    return call.name if call else "checks" if key in view.ran else ""


def title(step: str) -> str:
    """A scope of the playbook, as people say it: `round-1` is round 1."""
    return re.sub(r"-(\d+)$", r" \1", step) or "start"


def middle(numbers: Sequence[float]) -> float | None:
    """Of the numbers the one in the middle; None: there are none."""
    return sorted(numbers)[len(numbers) // 2] if numbers else None


# --- the end


def ending(view: View, work: Work, stands: Status, shown: Mapping[str, str] | None = None) -> list[str]:
    """What was reached and on what evidence; what a person can do next, each command on a line of its own.

    Args:
        shown: of each document that waits for a decision what is known: its size, whether it has changed.
    """
    calls = view.called
    spent = [text.count(calls, "call"), *cost(view, stands)] if calls else []
    took = [f"{stands.value}{' in' if stands.has_ended else ' after'} {text.running(seconds(view, stands))}"]
    rows = [*asked(view.gate, shown or {})] if view.gate else []
    if view.why and stands is not Status.COMPLETE and view.gate is None:
        rows.append(("why", view.why, ""))
    rows += [*_checks(view), *judged(view), *_work(view, work)]
    rows += [("note", warning, "") for warning in view.warnings[:MOST]]
    known = commands(view, stands, work)
    return [
        "  ".join([*took, *spent]),
        *block(rows),
        *(f"  {'next' if not number else '':<8}{command}" for number, command in enumerate(known)),
    ]


def block(rows: Iterable[Told]) -> list[str]:
    """The rows below one another; a label that goes on stands once."""
    known = list(rows)
    before = ["", *(label for label, _, _ in known)]
    return [
        laid("  ", "" if row[0] == above else row[0], *row[1:], text.WIDTH)
        for above, row in zip(before, known, strict=False)
    ]


def asked(gate: GateView, shown: Mapping[str, str]) -> Iterator[Told]:
    """What a person is to decide, and what about (PERSON-01)."""
    yield "asks", gate.question, ""
    yield from (("", line, "") for line in gate.summary.splitlines())
    yield from (("shows", path, shown.get(path, "")) for path in gate.shown)


def _checks(view: View) -> Iterator[Told]:
    yield from (("checks", pair.command, pair_words(pair)) for pair in view.pairs.values())
    if not view.pairs and any(call.report for call in view.calls.values()):
        yield "checks", "none", ""
    if view.is_blind:
        yield "", "no check tells this work from none", ""


def pair_words(pair: PairView) -> str:
    """Before and after, and the one word for both."""
    before = "-" if pair.before is None else "green" if pair.before.green else "red"
    one = pair.proved
    if one is None:
        return before
    after = "not run" if one.after is None else "green" if one.after.green else "red"
    return f"{before} -> {after}, {telling.pair_word(pair)[0].partition(': ')[2] or one.word}"


def judged(view: View) -> Iterator[Told]:
    """The last word of each judge, with its summary; what it noted besides stands below."""
    for call in view.last_words:
        said, tone = telling.outcome(call)
        why = telling.against(call)[:1] if tone == "bad" else [str(call.form.get("summary") or "")]
        yield "judged", ": ".join(filter(None, (f"{call.name} {said}", *why))), ""
        yield from (("judged", f"- {note}", "") for note in _few(telling.notes(call)))


def _few(rows: Sequence[str]) -> list[str]:
    return [*rows[:MOST], *([f"and {len(rows) - MOST} more"] if len(rows) > MOST else [])]


def _work(view: View, work: Work) -> Iterator[Told]:
    other = "your other work: untouched" if view.start is not None and view.start.standing.unsaved else ""
    papers = list(dict.fromkeys(one.path for one in work.delivered if view.is_document(one.path)))
    yield from _files("code", [one for one in work.delivered if one.path not in papers], other)
    if papers:
        folder = os.path.commonpath([posixpath.dirname(path) for path in papers])
        yield "docs", text.count(len(papers), "document") if len(papers) > 1 else papers[0], folder
    for one in view.committed:
        if one.commit and not one.problem:
            yield "commit", f"{one.commit[:10]} on {one.ref.removeprefix('refs/heads/')}", one.url
    if view.on_branch:
        yield from _files("code", work.pending, f"on {view.on_branch}, not in your tree")
    else:
        yield from _files("pending" if view.status.is_open else "kept", work.pending, "not delivered")
    yield from _files("held", work.held, "guarded: not delivered")
    yield from _files("undone", work.undone, f"by {view.undone[-1].who}" if view.undone else "")
    remarks = dict.fromkeys(telling.remark(one) for one in view.remarks if one.kind is not RemarkKind.HELD_BACK)
    yield from (("told", said, "") for said in _few(list(remarks)))
    if work.problem:
        yield "code", work.problem, ""


def _files(label: str, changes: Sequence[Change], rest: str = "") -> Iterator[Told]:
    for number, row in enumerate(_few([in_lines(change) for change in changes])):
        yield label, row, "" if number else rest


def in_lines(change: Change) -> str:
    """A path, with the lines that came and went."""
    counted = [f"{sign}{number}" for sign, number in (("+", change.added), ("-", change.removed)) if number is not None]
    kind = f" ({change.kind})" if change.kind not in ("changed", "added") or not counted else ""
    return f"{text.line(change.path, 400)} {' '.join(counted)}".rstrip() + kind


def commands(view: View, stands: Status, work: Work) -> list[str]:
    """What a person can type next: how to decide, and the one command that leads on."""
    return list(dict.fromkeys((*_deciding(view), *_next(view, stands, work))))


def _deciding(view: View) -> Iterator[str]:
    """How to decide at the gate that waits, from anywhere."""
    known = {
        "approve": f"interlock approve {view.run}",
        "reject": f"interlock reject {view.run} --note TEXT",
        "*": f'interlock answer {view.run} "your words"',
    }
    choices = view.gate.choices if view.gate is not None else ()
    yield from (known.get(choice, f"interlock answer {view.run} {shlex.quote(choice)}") for choice in choices)


def _next(view: View, status: Status, work: Work) -> Iterator[str]:
    """The one command that leads on (PERSON-05)."""
    told = view.ended.next if view.ended else view.remedy
    if work.undone:
        yield f"interlock apply {view.run}"
    elif told and status is not Status.INTERRUPTED and (work.refused or told != f"interlock apply {view.run}"):
        yield told
    elif status in (Status.INTERRUPTED, Status.FAILED, Status.STOPPED, Status.WAITING):
        yield f"interlock resume {view.run}"
    elif status is Status.WORKING:
        yield f"interlock watch {view.run}"
    elif work.delivered:
        yield f"interlock diff {view.run}"
    if (work.pending and status is Status.STOPPED) or (work.held and status.has_ended):
        yield f"interlock apply {view.run}"


# --- a run, looked at


def steps(view: View, narrator: Narrator) -> list[str]:
    """The steps as rows: who was called and how it ended, commands, gates, what decided."""
    lines = []
    for step in view.steps:
        rows = [row for _, row in narrator.of_step(view, step)]
        rows += [("rule", *telling.decision(one), "plain") for one in view.decisions if _top(one.key) == step.name]
        for number, (who, what, rest, _) in enumerate(rows):
            lead = f"  {text.padded('' if number else text.cut(title(step.name), 9), 9)} "
            lines.append(laid(lead, who, what, rest, text.WIDTH))
    return lines


def step(view: View, name: str, narrator: Narrator) -> list[str]:
    """One step, agent or key, in full: which rule decided what, from which inputs and evidence (CLI-07)."""
    lines: list[str] = []
    for each in view.steps:
        for key in each.keys:
            call, pair = view.calls.get(key), view.ran.get(key)
            if name in {key, each.name, title(each.name), *((call.agent, call.member) if call else ())}:
                rows = [row[:3] for row in narrator.about(view, key) if row[3] != "begin"]
                rows += _in_full(call) if call else ()
                rows += [("tree", pair.proved.tree[:10], "")] if pair and pair.proved else []
                lines += [key, *(laid("  ", *row, text.WIDTH) for row in rows)] if rows else []
    rules = [one for one in view.decisions if name in (one.key, _top(one.key), title(_top(one.key)))]
    return lines + [laid("  ", "rule", *telling.decision(one), text.WIDTH) for one in rules]


def _top(key: str) -> str:
    return key.partition("/")[0]


def _in_full(call: CallView) -> Iterator[Told]:
    form, report = call.form, call.report
    tokens = f"{text.amount(call.spent.tokens)} tokens" if call.spent.tokens is not None else "tokens unknown"
    yield "by", "  ".join(filter(None, (call.runner, call.model, f"role {call.role}" if call.role else ""))), tokens
    if report is None:
        return
    if form.get("summary"):
        yield "said", str(form["summary"]), ""
    yield from (("file", path, "") for path in report.paths)
    for check in report.checks:
        yield "check", check.command, f"told {check.told}{', expected' if check.expected else ''}: {check.word}"
    for one in form.get("criteria") or ():
        met = "met" if one.get("met") else "not met"
        yield "asked", str(one.get("criterion")), ": ".join(filter(None, (met, one.get("evidence"))))
    yield from (("note", one, "") for one in telling.notes(call))
