"""What happened in a run since the last look, in rows for people: the same in the live view, in a pipe and in `--log`.

A row is made of what is new in the `View`; nothing here has ever seen an event.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from interlock.cli import text
from interlock.engine.folder import RunFolder
from interlock.engine.junit import WHOLE
from interlock.engine.view import CallView, DecisionView, GateView, PairView, StepView, View
from interlock.errors import InterlockError
from interlock.workspace.values import Remark

Tone = Literal["plain", "good", "bad", "note", "begin", "detail"]
"""`note`: to be looked at; `begin`: stands in the live view until it ends; `detail`: only where it is asked for."""
Said = tuple[str, str, str, Tone]
"""Who, what, the rest."""
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
    """Tells each thing once; `runs` is the folder of all runs."""

    def __init__(self, runs: Path | None = None) -> None:
        self._runs = runs
        self._told: dict[str, Counter[Said]] = {}
        self._named: set[str] = set()
        """Runners and commands that were told in full."""

    def take(self, view: View, key: str) -> list[Row]:
        """What is new, after the line about this key was folded."""
        new = [*self._fresh("", of_run(view)), *self.about(view, key)]
        return [Row(view.at, *said) for said in new] if view.at is not None else []

    def pass_by(self, view: View) -> None:
        """What has happened up to now is not told again."""
        for key in (*view.calls, *view.ran, *view.gates):
            self.take(view, key)

    def about(self, view: View, key: str) -> list[Said]:
        """What is new of what stands at one place: a dispatch, a command, a gate."""
        said: Iterable[Said] = ()
        if (call := view.calls.get(key)) is not None:
            said = _call(call)
        elif (pair := view.ran.get(key)) is not None:
            said = [self._ran(view, pair)]
        elif (gate := view.gates.get(key)) is not None:
            said = _gate(gate)
        return [self._once(*one) for one in self._fresh(key, said)]

    def of_step(self, view: View, step: StepView) -> Iterator[tuple[str, Said]]:
        """The same of each place of a step, by its key; that a dispatch began is told of who works."""
        for key in step.keys:
            for said in self.about(view, key):
                if said[3] != "begin" or (key in view.calls and view.calls[key].report is None):
                    yield key, said

    def _fresh(self, place: str, said: Iterable[Said]) -> Iterator[Said]:
        told, now = self._told.setdefault(place, Counter()), Counter[Said]()
        for one in said:
            mark: Said = (*one[:2], "", "begin") if one[3] == "begin" else one  # its model is told to us later
            now[mark] += 1
            if now[mark] > told[mark]:
                told[mark] = now[mark]
                yield one

    def _once(self, who: str, what: str, rest: str, tone: Tone) -> Said:
        """What is long is told in full once: a command, a runner with its model."""
        name = rest if tone == "begin" else what if who == "check" else ""
        if name in self._named:
            what, rest = (what, "") if tone == "begin" else (text.cut(what, REST - 21), rest)
        self._named |= {name} - {""}
        return who, what, rest, tone

    def _ran(self, view: View, pair: PairView) -> Said:
        if pair.proved is not None:
            return "check", pair.command, *pair_word(pair)
        run = pair.before
        if run is None or run.green:
            return "check", pair.command, "green", "good"
        failed = 0
        if run.tests and self._runs is not None:
            with suppress(InterlockError, ValueError):
                tests = json.loads(RunFolder(self._runs / view.run).get(run.tests))
                failed = sum(state == "failed" for name, state in tests.items() if name != WHOLE)
        state = f"red, {failed} failed" if failed else f"red, {run.error}" if run.error else "red"
        accepts = view.start.inputs.get("accept_baseline") if view.start else None
        if accepts:
            return "check", pair.command, f"{state}: it may stay red (--accept-baseline)", "note"
        red = (one.name for one in view.ran.values() if one.proved is None and one.before and not one.before.green)
        first = next(red)
        ways = " (if not: --accept-baseline)" if first == pair.name and accepts is not None else ""
        return "check", pair.command, f"{state}: this is what is to be done{ways}", "note"


def of_run(view: View) -> Iterator[Said]:
    """What belongs to no place of its own."""
    yield from (("note", warning, "", "note") for warning in view.warnings)
    yield from (("said", f"{words.who}: {words.text}", "", "plain") for words in view.words if not words.gate)
    yield from ((loop, f"{n} of {most}", "", "plain") for loop, (n, most) in view.turns.items() if n > 1)
    yield from (("rule", *decision(one), "detail") for one in view.decisions)
    for name, facts in view.notes:
        yield "fact", name, ", ".join(f"{one} {value}" for one, value in facts.items()), "detail"
    for landed in view.delivered:
        if landed.state == "conflict":
            paths = text.few(landed.landing.conflicts if landed.landing else ())
            yield "code", "not delivered", f"you changed the same lines: {paths}", "bad"
        elif landed.state == "done":
            papers = landed.label == "documents"  # who wrote them was told just now
            files = text.few(landed.landing.paths if landed.landing else ())
            yield "code", "delivered", files, "detail" if papers else "good"
        elif landed.state in _NOT_YET:
            yield "code", "not delivered", _NOT_YET[landed.state], "note"
    for made in view.committed:
        where = made.ref.removeprefix("refs/heads/")
        if made.problem:
            yield made.what, "not done" if made.what != "hooks" else "refused", made.problem, "bad"
        else:
            yield made.what, made.url or made.commit[:10] or "ok", f"on {where}" if where else "", "good"
    for undone in view.undone:
        yield undone.how, f"{text.count(len(undone.paths), 'file')} by {undone.who}", "", "note"
    yield from (("line", f"of another version: {line.event.e}", "", "detail") for line in view.unknown)


_NOT_YET = {
    "away": "another branch is checked out",
    "other": "your tree changed meanwhile: the checks run on it",
}


def _call(call: CallView) -> Iterator[Said]:
    who, report = call.name, call.report
    if call.calls:
        again = f", call {call.calls}" if call.calls > 1 else ""
        step = f"step {call.step}" if call.step[:1].isdigit() else ""  # where the process numbers its steps
        yield who, f"begins{again}", "  ".join(filter(None, (step, call.runner, call.model))), "begin"
    for tried in call.tries:
        until = call.until if tried is call.tries[-1] and call.state == "waiting" else None
        yield who, "again" if until is None else f"waits until {text.clock(until)}", _why(tried), "note"
    if report is None:
        return
    word, tone = outcome(call)
    yield who, word, "  ".join(_figures(call)), tone
    if tone == "bad":
        yield from (("", f"- {why}", "", "plain") for why in against(call)[:3])
    yield from (("", remark(one), "", "note") for one in report.remarks)


def _gate(gate: GateView) -> Iterator[Said]:
    again = "" if gate.opening == 1 else f"for the {gate.opening}. time"
    yield "asks", gate.question, again, "note"
    if gate.decision is not None:
        note = f": {gate.decision.note}" if gate.decision.note else ""
        yield "decided", gate.decision.choice, f"{gate.decision.who}{note}", "plain"


# --- words that several screens share


def outcome(call: CallView) -> tuple[str, Tone]:
    """How a dispatch ended; of a judge, what it says of the work."""
    report = call.report
    if report is None:
        return call.state, "plain"
    if not report.ok:
        return "failed", "bad"
    if report.ruling is not None:
        return report.ruling.words, "good" if report.ruling.passes else "bad"
    word, form = call.form.get("status") or "done", call.form
    idle = not (report.paths or report.held or form.get("already_so"))
    if idle and (report.form is None or ("already_so" in form and word == "done")):
        return "changed nothing", "note"
    return ("ok", "good") if str(word).casefold() in ("done", "success") else (str(word), "bad")


def _figures(call: CallView) -> Iterator[str]:
    yield text.duration(call.seconds)
    if call.calls > 1:
        yield text.count(call.calls, "call")
    if call.report is not None and call.report.paths:
        yield text.count(len(call.report.paths), "file")
    if call.spent.cost_usd is not None:
        yield text.money(call.spent.cost_usd)


def against(call: CallView) -> list[str]:
    """What speaks against a dispatch, or against what it judged."""
    report = call.report
    if report is None or (report.ok and report.ruling is None):
        return [str(call.form.get("summary") or "it does not say why")]
    if report.ok and report.ruling is not None:
        return list(report.ruling.against)
    return [_why(report)]


def _why(report: Any) -> str:
    return ": ".join(filter(None, (report.reason, "; ".join(report.complaint.splitlines()))))


def remark(one: Remark) -> str:
    """What the engine has to say of somebody's work."""
    return ": ".join(filter(None, (one.kind.value, one.text, text.few(one.paths))))


def notes(call: CallView) -> Sequence[str]:
    """Why a judge lets changed checks stand, and what it noted besides: it counts for nothing."""
    why = [f"{one.get('path')}: {one.get('why')}" for one in call.form.get("weakened") or ()]
    return [*why, *(call.report.ruling.notes if call.report and call.report.ruling else ())]


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
        case "told" | "green":  # not run before: it claims nothing
            return ("green" if one.after and one.after.green else "red"), "note"
        case "known":
            return f"red: as before{names}", "note"
    return f"red: {one.word}{names}{flaky}", "bad"
