"""What happened in a run since the last look, in rows for people: the same in the live view, in a pipe and in `--log`.

A row is made of what is new in the `View`; nothing here has ever seen an event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from interlock.cli import text
from interlock.engine.junit import WHOLE
from interlock.engine.view import CallView, DecisionView, PairView, View
from interlock.errors import InterlockError, Status

Tone = Literal["plain", "good", "bad", "note", "begin", "detail"]
"""`note`: to be looked at; `begin`: stands in the live view until it ends; `detail`: only where it is asked for."""
WHO, REST = 7, 39
"""Columns of who acted, and where the rest begins, on a terminal."""


@dataclass(frozen=True)
class Row:
    """One thing that happened."""

    at: datetime
    who: str
    what: str
    rest: str = ""
    tone: Tone = "plain"

    def laid(self, width: int | None = None) -> str:
        """The row as it is shown: in columns; over several lines where it is wider than the terminal."""
        return laid(f"{text.clock(self.at)}  ", self.who, self.what, self.rest, width)


def laid(lead: str, who: str, what: str, rest: str, width: int | None) -> str:
    """Who, what and the rest below one another from row to row; a pipe (no width) gets one line."""
    begin = len(lead) + WHO + 1
    left = f"{lead}{text.padded(text.line(who, 40), WHO)} {text.line(what, 2000)}".rstrip()
    rest = text.line(rest, 2000)
    whole = f"{text.padded(left, REST - 2)}  {rest}".rstrip()
    if width is not None and width < text.WIDTH and rest:  # too narrow for columns
        whole = f"{left}  {rest}"
    if width is None or text.columns(whole) <= width:
        return whole
    if rest and width >= text.WIDTH and text.columns(left) <= REST - 2:
        below = text.fitted(" " * REST + rest, width, 0)
        return text.padded(left, REST) + below[REST:]
    rows = text.fitted(" " * begin + rest, width, 0) if rest else ""
    return f"{text.fitted(left, width, begin - (len(left) - len(left.lstrip())))}\n{rows}".rstrip()


class Narrator:
    """Tells each thing once."""

    def __init__(self, objects: Callable[[str], bytes] | None = None) -> None:
        self._objects = objects
        self._told: dict[str, int] = {}
        self._named: set[str] = set()
        """Runners, and long commands: each is told in full once."""
        self._status = Status.WORKING

    def pass_by(self, view: View) -> None:
        """What has happened up to now is not told again."""
        for key in ("", *view.calls, *view.ran, *view.gates):
            self.take(view, key)

    def take(self, view: View, key: str) -> list[Row]:
        """What is new, after the line about this key was folded."""
        at = view.at
        if at is None:
            return []
        return [Row(at, *row) for row in self._new(view, key)]

    def _new(self, view: View, key: str) -> Iterator[tuple[str, str, str, Tone]]:
        if self._fresh("warnings", len(view.warnings)):
            yield "note", view.warnings[-1], "", "note"
        if self._fresh("words", len(view.words)):
            words = view.words[-1]
            yield "said", f"{words.who}: {words.text}", "", "plain"
        if view.status is not self._status:
            was, self._status = self._status, view.status
            if view.status is Status.WORKING:
                yield "run", "goes on", "" if was is not Status.FAILED else "what failed is done again", "plain"
        for loop, (n, most) in view.turns.items():
            if self._fresh(f"turn {loop}", n) and n > 1:
                yield loop, f"{n} of {most}", "", "plain"
        if (call := view.calls.get(key)) is not None:
            yield from self._call(call)
        if (pair := view.ran.get(key)) is not None and self._fresh(f"ran {key}", 1):
            yield self._ran(view, pair)
        if (gate := view.gates.get(key)) is not None:
            if self._fresh(f"gate {key}", gate.opening):
                yield "asks", gate.question, "", "note"
            if gate.decision is not None and self._fresh(f"decided {key}", 1):
                note = f": {gate.decision.note}" if gate.decision.note else ""
                yield "decided", gate.decision.choice, f"{gate.decision.who}{note}", "plain"
        if self._fresh("decisions", len(view.decisions)):
            yield "rule", *decision(view.decisions[-1]), "detail"
        if self._fresh("notes", len(view.notes)):
            name, facts = view.notes[-1]
            yield "fact", name, ", ".join(f"{one} {value}" for one, value in facts.items()), "detail"
        if self._fresh("delivered", len(view.delivered)):
            yield from delivered(view)
        if self._fresh("committed", len(view.committed)):
            yield committed(view)
        if self._fresh("undone", len(view.undone)):
            one = view.undone[-1]
            kept = f"; kept, since you changed it: {text.few(one.kept)}" if one.kept else ""
            yield one.how, f"{text.count(len(one.paths), 'file')} by {one.who}", kept, "note"
        if self._fresh("unknown", len(view.unknown)):
            yield "line", f"of another version: {view.unknown[-1].event.e}", "", "detail"

    def _fresh(self, what: str, number: int) -> bool:
        was, self._told[what] = self._told.get(what, 0), number
        return number > was

    def _call(self, call: CallView) -> Iterator[tuple[str, str, str, Tone]]:
        who = call.member or call.agent
        if self._fresh(f"began {call.key}", call.calls) and call.report is None:
            by = [] if call.runner in self._named else [call.runner, call.model]
            self._named.add(call.runner)
            again = [f"call {call.calls}"] if call.calls > 1 else []
            yield who, "begins", "  ".join(filter(None, (*again, *by))), "begin"
        if self._fresh(f"tried {call.key}", len(call.tries)):
            report = call.tries[-1]
            why = f"{report.reason}: {report.complaint}" if report.complaint else report.reason
            if call.state == "waiting" and call.until is not None:
                yield who, "waits", f"until {text.clock(call.until)}: {report.complaint or report.reason}", "note"
            else:
                yield who, "again", why, "note"
        if call.report is not None and self._fresh(f"done {call.key}", call.calls or 1):
            word, tone = outcome(call)
            yield who, word, "  ".join(figures(call)), tone
            if tone == "bad":
                yield from (("", f"- {why}", "", "plain") for why in against(call)[:3])
            for remark in call.report.remarks:
                paths = f": {text.few(remark.paths)}" if remark.paths else ""
                yield "", f"{remark.kind.value}: {remark.text}{paths}", "", "note"

    def _ran(self, view: View, pair: PairView) -> tuple[str, str, str, Tone]:
        command = text.cut(pair.command, REST - 21) if pair.command in self._named else pair.command
        self._named.add(pair.command)
        if pair.proved is not None:
            return "check", command, *pair_word(pair)
        state = self._before(pair)
        if state == "green":
            return "check", command, state, "good"
        if view.start is not None and view.start.inputs.get("accept_baseline"):
            return "check", command, f"{state}: it may stay red (--accept-baseline)", "note"
        ways = " (if not: --accept-baseline)" if self._fresh("red before", 1) else ""
        return "check", command, f"{state}: this is what is to be done{ways}", "note"

    def _before(self, pair: PairView) -> str:
        """Green or red, and how many tests failed where a report told it."""
        run = pair.before
        if run is None or run.green:
            return "green"
        failed = 0
        if run.tests and self._objects is not None:
            with suppress(InterlockError, OSError, ValueError, LookupError):
                told = json.loads(self._objects(run.tests))
                failed = sum(state == "failed" for name, state in told.items() if name != WHOLE)
        return f"red, {failed} failed" if failed else f"red, {run.error}" if run.error else "red"


# --- words that several screens share


def outcome(call: CallView) -> tuple[str, Tone]:
    """How a dispatch ended; of a judge, what it says of the work."""
    report = call.report
    assert report is not None
    if not report.ok:
        return "failed", "bad"
    if report.ruling is not None:
        return ("accepts", "good") if report.ruling.passes else ("does not accept", "bad")
    word = str((report.form or {}).get("status") or "ok") if isinstance(report.form, dict) else "ok"
    return ("ok", "good") if word == "done" else (word, "good" if word == "ok" else "bad")


def figures(call: CallView) -> Iterator[str]:
    report = call.report
    assert report is not None
    yield text.duration(call.seconds)
    if call.calls > 1:
        yield text.count(call.calls, "call")
    if report.paths:
        yield text.count(len(report.paths), "file")
    if call.spent.cost_usd is not None:
        yield text.money(call.spent.cost_usd)


def against(call: CallView) -> list[str]:
    """What speaks against a dispatch, or against what it judged."""
    report = call.report
    assert report is not None
    if not report.ok:
        return [f"{report.reason}: {report.complaint}" if report.complaint else report.reason]
    form = report.form if isinstance(report.form, dict) else {}
    return list(report.ruling.against) if report.ruling else [str(form.get("summary") or "")]


def decision(one: DecisionView) -> tuple[str, str]:
    """A rule, and what it made of which inputs."""
    inputs = ", ".join(f"{name} {value}" for name, value in one.inputs.items())
    return one.rule, f"{inputs} -> {one.result}"


def pair_word(pair: PairView) -> tuple[str, Tone]:
    """What came of a command after the work, in one word and its reasons."""
    one = pair.proved
    assert one is not None
    tests = [name for name in one.tests if name != WHOLE]
    names = f": {text.few(tests)}" if tests else ""
    weak = f"; rests on changed checks: {text.few((*one.weak.paths, *one.weak.gone))}" if one.weak else ""
    flaky = "; flaky: two runs differ" if one.flaky else ""
    match one.word:
        case "mended" | "held":
            return f"green: {one.word}{weak}{flaky}", "note" if weak or flaky else "good"
        case "conflict":
            return f"not run: you changed the same lines{names}", "bad"
        case "theirs":
            return "red on your own tree, too: not the work's", "note"
        case "known":
            return f"red as before: allowed{names}", "note"
    return f"red: {one.word}{names}{flaky}", "bad"


def delivered(view: View) -> Iterator[tuple[str, str, str, Tone]]:
    one = view.delivered[-1]
    match one.state:
        case "done":
            yield "code", "delivered", text.few(one.landing.paths if one.landing else ()), "good"
        case "conflict":
            paths = one.landing.conflicts if one.landing else ()
            yield "code", "not delivered", f"you changed the same lines: {text.few(paths)}", "bad"
        case "away":
            yield "code", "not delivered", "another branch is checked out", "note"
        case "other":
            yield "code", "not yet", "your tree changed meanwhile: the checks run on it", "note"


def committed(view: View) -> tuple[str, str, str, Tone]:
    one = view.committed[-1]
    if one.problem:
        return one.what, "not done" if one.what != "hooks" else "refused", one.problem, "bad"
    where = one.ref.removeprefix("refs/heads/")
    return one.what, one.url or one.commit[:10] or "ok", f"on {where}" if where else "", "good"
