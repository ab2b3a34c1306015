"""The one read model: what people see of a run, folded from its lines.

Terminal, page, MCP, report, notices and `--json` render a `View`.  It hands on some events as they are (a report, a
delivery); no door imports or folds one.  Folding is incremental and touches nothing.  The engine itself asks the same
fold for what counts now: the pending pair, who was heard, what was spent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Any

from interlock.agents.values import News, NewsKind, Usage
from interlock.documents.model import plain
from interlock.engine import events as ev
from interlock.engine.journal import Line, Unknown
from interlock.errors import Status
from interlock.workspace.scope import within
from interlock.workspace.values import Pending, Remark, Standing, Where


@dataclass
class CallView:
    """A dispatch: one or more calls of an agent."""

    key: str
    agent: str
    member: str
    step: str
    attempt: int
    runner: str
    started: datetime
    calls: int = 0
    model: str = ""
    role: str = ""
    state: str = "working"
    """`working`, `waiting`, `done`, `fault`."""
    until: datetime | None = None
    ended: datetime | None = None
    report: ev.Report | None = None
    spent: Usage = Usage()
    """Of all its calls, as far as told; of the present one so far."""
    earlier: Usage = Usage()
    """Of the calls before the present one."""
    last: int = 0
    """The number of its last call; what was forgotten keeps its numbers."""
    tries: list[ev.Report] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Who it is for people."""
        return self.member or self.agent

    @property
    def form(self) -> dict[str, Any]:
        """What was answered."""
        form = self.report.form if self.report else None
        return form if isinstance(form, dict) else {}

    @property
    def seconds(self) -> float:
        return max((self.ended - self.started).total_seconds(), 0) if self.ended else 0


@dataclass
class GateView:
    key: str
    gate: str
    question: str
    summary: str
    choices: tuple[str, ...]
    shown: dict[str, str]
    opening: int
    at: datetime
    decision: ev.GateDecided | None = None


@dataclass
class PairView:
    """A command before and after the work."""

    name: str
    command: str
    before: ev.Run1 | None = None
    proved: ev.Proved | None = None


@dataclass
class DecisionView:
    key: str
    rule: str
    inputs: dict[str, str]
    result: Any


@dataclass
class StepView:
    """A stage of the process: everything below one top-level scope."""

    name: str
    keys: list[str] = field(default_factory=list)
    """Of dispatches, checks and gates, in order."""


class View:
    """A run as it stands after the lines that were folded into it."""

    def __init__(self) -> None:  # noqa: PLR0915 - what is known of a run
        self.start: ev.RunStarted | None = None
        self.version = ""
        """Of interlock, that worked on it last."""
        self.status, self.why, self.remedy = Status.WORKING, "", ""
        self.until: datetime | None = None
        self.calls: dict[str, CallView] = {}
        self.gates: dict[str, GateView] = {}
        self.openings: dict[str, int] = {}
        """How often each gate opened, also where that no longer counts."""
        self.made: dict[str, int] = {}
        """Calls made at each place, forgotten ones too: a transcript is one call's alone."""
        self.ran: dict[str, PairView] = {}
        """Commands at each place where they were run; `pairs` has the last word of each."""
        self.decisions, self.steps = list[DecisionView](), list[StepView]()
        self.turns: dict[str, tuple[int, int]] = {}
        self._notes: dict[str, tuple[str, dict[str, Any]]] = {}
        self.warnings: list[str] = []
        self.intends = False
        """An effect on the world was noted."""
        self.delivered, self.committed = list[ev.Delivered](), list[ev.Committed]()
        self.undone, self.held = list[ev.Undone](), list[Pending]()
        """`held`: guarded work that waits for a person's word."""
        self.came = list[Pending]()
        """All that came into the person's tree, in order: delivered, or brought by a person."""
        self.moved: dict[str, str] = {}
        """Path -> `undo` or `apply`: a person's last word about it, until it is delivered again."""
        self.said: dict[str, ev.Digest] = {}
        self.documents: dict[str, str] = {}
        """What the engine itself wrote: path -> digest."""
        self.texts: dict[str, ev.Digest] = {}
        """What the run last saw of documents that it reads or watches, in turns that are done again, too."""
        self.words: list[ev.Words] = []
        self._hearing: dict[str, tuple[ev.Words, ...]] = {}
        """Dispatch -> what of them stood in its briefs."""
        self._forgotten: list[CallView] = []
        """Dispatches that are done again: they were paid for."""
        self.stopped = ""
        """Why it had stopped, for the dispatch that does it again."""
        self.shown_by: dict[str, Any] | None = None
        """Which check tells the work from none, if one was looked for (EVID-14)."""
        self.options: dict[str, Any] = {}
        self.pending: Pending | None = None
        self.units: dict[str, Pending] = {}
        """Pending work that was put by, of units that the playbook may come back to."""
        self.unit, self.where, self._pending_at = "", Where(), 0
        self.standing: Standing | None = None
        self.ended: ev.Ended | None = None
        self.ended_at: datetime | None = None
        self.at: datetime | None = None
        self.seconds = 0.0
        self.since: datetime | None = None
        """Since when it is worked on, as told so far; `seconds` has the time before."""
        self.untold_since: datetime | None = None
        """When the stretch of work began that nobody outside was told of yet; whoever ends in order tells them."""
        self.last = 0
        self.unknown: list[Line] = []

    # --- folding

    def take(self, line: Line) -> None:  # noqa: PLR0915 - one match over all events
        """Fold one more line."""
        key, event, at = line.key, line.event, line.at
        self.last = max(self.last, line.seq)
        before, self.at = self.at or at, at
        self._place(key, event)
        match event:
            case ev.RunStarted():
                self.start, self.standing, self.where, self.units = event, event.standing, event.where, {**event.units}
                untouched = Pending(base=event.standing.tree, work=event.standing.tree)
                self.pending = self.units.pop("", untouched)
                self._open(at, event)
            case ev.Resumed():
                self._open(at, event)
                for call in self.calls.values():
                    if call.report is None:  # nobody worked on it meanwhile
                        call.started += at - before
                self.warnings += event.changed
            case ev.Reopened():
                self.stopped = self.ended.reason if self.ended else ""
                self._forget(set(event.forgotten))
            case ev.Paused():
                self._close(at)
                self.status = Status(event.status)
                self.why, self.remedy, self.until = event.why, event.remedy, event.until
            case ev.Left():
                self._close(at)
                self.status = Status.FAILED if event.how == "fault" else Status.INTERRUPTED
                self.why = event.what
            case ev.Ended():
                self._close(at)
                self.ended, self.ended_at, self.status, self.why = event, at, Status(event.status), event.reason
                for call in self.calls.values():
                    if call.report is None:
                        call.state = "fault"
            case ev.Warned():
                self.warnings.append(event.text)
            case ev.GateOpened():
                self.openings[key] = event.opening
                self.gates[key] = GateView(
                    key, event.gate, event.question, event.summary, event.choices, event.shown, event.opening, at
                )
            case ev.GateDecided():
                if key in self.gates:
                    self.gates[key].decision = event
                if event.note:
                    self.words.append(ev.Words(text=event.note, who=event.who, at=event.at, gate=event.gate))
            case ev.Called():
                self._started(key, event, at)
            case ev.Heard():
                self._heard(key, event.news)
            case ev.Tried():
                call = self._call(key, event.report, at)
                call.earlier, call.spent = call.earlier + event.report.usage, call.earlier + event.report.usage
                call.tries.append(event.report)
                call.state, call.until = "waiting" if event.move == "wait" else "working", event.until
            case ev.Done():
                self._done(line.seq, key, event, at)
                if by := next((check.command for check in event.report.checks if check.shows), ""):
                    self.shown_by = {"by": by}
            case ev.Based():
                self.ran[key] = PairView(event.name, event.command, event.run)
            case ev.Proved():
                self.ran[key] = PairView(event.name, event.command, event.before, event)
            case ev.Intended():
                self.intends = True
            case ev.Decided():
                self.decisions.append(DecisionView(key, event.rule, event.inputs, event.result))
            case ev.Turn():
                self.turns[event.loop] = (event.n, event.cap)
            case ev.Noted():
                self._notes[key] = event.name, event.facts
            case ev.Got(verb="shown"):
                self.shown_by = event.value
            case ev.Said():
                self.said[key] = event.text
            case ev.Got(verb="read", value=path, text=text) if text:
                self.texts[path] = text
            case ev.Wrote(path=path, state="aside"):
                self.texts.pop(path, None)
            case ev.Wrote(path=path, digest=digest, text=text) if digest:
                self.documents[path] = digest
                self.texts |= {path: text} if text else {}
            case ev.Delivered():
                self.delivered.append(event)
                if event.state == "done" and event.before and event.merged:
                    self.came.append(Pending(base=event.before, work=event.merged))
                for path in event.landing.paths if event.landing and event.state == "done" else ():
                    self.moved.pop(path, None)
                self._move(line.seq, event.pair)
                self.standing = event.standing or self.standing
            case ev.Committed():
                self.committed.append(event)
            case ev.Turned() if event.unit != self.unit:
                if self.pending is not None:
                    self.units[event.put_by] = self.pending
                self.units.pop(event.unit, None)
                self.unit = event.unit
                self._move(line.seq, event.pair)
            case ev.Switched(branch=branch, moved=True):
                self.where = self.where.model_copy(update={"branch": branch})
            case ev.Undone():
                self.undone.append(event)
                self.came += [event.pair] if event.how == "apply" else []
                self.moved |= {path: event.how for path in event.paths if path not in event.kept}
                self.units |= {unit: pair for unit, pair in event.left.items() if unit != self.unit}
                self._move(line.seq, event.left.get(self.unit))
            case Unknown():
                self.unknown.append(line)
            case _:
                pass

    def _place(self, key: str, event: ev.Event) -> None:
        shows = (ev.Called, ev.Based, ev.Proved, ev.GateOpened, ev.Turn, ev.Committed, ev.Delivered)
        if not key or not isinstance(event, shows):
            return
        top = key.split("/", 1)[0] if "/" in key else f"{event.loop}-{event.n}" if isinstance(event, ev.Turn) else ""
        step = next((step for step in self.steps if step.name == top), None)
        if step is None:
            self.steps.append(step := StepView(top))
        if key not in step.keys and not isinstance(event, ev.Turn):
            step.keys.append(key)

    def _open(self, at: datetime, event: ev.RunStarted | ev.Resumed) -> None:
        self.untold_since = at if self.since is None else self.untold_since
        self.status, self.why, self.remedy, self.until, self.since = Status.WORKING, "", "", None, at
        self.ended = self.ended_at = None
        self.version = event.version
        self.options |= event.options
        self.words += [event.said] if event.said else []

    def _close(self, at: datetime) -> None:
        self.untold_since = at if self.since is None else self.untold_since
        self.seconds += max((at - (self.since or at)).total_seconds(), 0)
        self.since = None

    def _forget(self, keys: set[str]) -> None:
        self._forgotten += [call for key, call in self.calls.items() if key in keys]
        known: tuple[dict[str, Any], ...] = (self.calls, self.gates, self.ran, self.said, self._notes)
        for one, key in product(known, keys):
            one.pop(key, None)
        self.decisions = [one for one in self.decisions if one.key not in keys]
        for step in self.steps:
            step.keys = [key for key in step.keys if key not in keys]

    def _started(self, key: str, event: ev.Called, at: datetime) -> None:
        call = self._call(key, event, at)
        call.calls += 1
        call.last = self.made[key] = event.n
        call.earlier = call.spent
        call.step, call.runner, call.model, call.role = event.step, event.runner, event.model, event.role
        call.state, call.until = "working", None
        self._hearing[key] = (*self._hearing.get(key, ()), *event.heard)
        self.standing = event.standing

    def _heard(self, key: str, news: News) -> None:
        call = self.calls.get(key)
        if call is None:
            return
        if news.kind is NewsKind.SESSION:
            call.model = news.facts.get("model") or call.model
        elif news.kind is NewsKind.USAGE:
            call.spent = call.earlier + Usage(**{name: news.facts.get(name) for name in Usage.model_fields})

    def _done(self, seq: int, key: str, event: ev.Done, at: datetime) -> None:
        report = event.report
        call = self._call(key, report, at)
        call.report, call.ended, call.state = report, at, "done" if report.ok else "fault"
        call.spent, call.until = call.earlier + report.usage, None
        self._move(seq, event.pair)
        self.held += [report.held] if report.held else []
        self.stopped = ""
        self.standing = event.standing

    def _call(self, key: str, event: ev.Called | ev.Report, at: datetime) -> CallView:
        """The dispatch of that key; made where its first call is not known, or none was made."""
        if key not in self.calls:
            step = key.partition("/")[0] if "/" in key else ""
            self.calls[key] = CallView(key, event.agent, event.member, step, event.attempt, "", at)
        return self.calls[key]

    def _move(self, seq: int, pair: Pending | None) -> None:
        """Take up a pending pair, unless a later line had one: on replay, members' lines come in another order."""
        if pair is not None and seq >= self._pending_at:
            self.pending, self._pending_at = pair, seq

    # --- what is asked of it

    @property
    def run(self) -> str:
        return self.start.run if self.start else ""

    @property
    def pairs(self) -> dict[str, PairView]:
        """Each command by its name, with its last word."""
        found: dict[str, PairView] = {}
        for one in self.ran.values():
            known = found.get(one.name, one)
            found[one.name] = PairView(one.name, one.command, one.before or known.before, one.proved or known.proved)
        return found

    @property
    def began(self) -> bool:
        """It had an effect, or may have had one: something was paid for, asked, written, delivered or committed."""
        return bool(self.calls or self.gates or self.intends)

    @property
    def gate(self) -> GateView | None:
        """The gate that waits for a person, if one does."""
        if not self.status.is_open:
            return None
        return next((gate for gate in reversed(self.gates.values()) if gate.decision is None), None)

    @property
    def now(self) -> list[CallView]:
        """Who is at work."""
        return [call for call in self.calls.values() if call.state in ("working", "waiting")]

    @property
    def unheard(self) -> tuple[ev.Words, ...]:
        """What people said and no dispatch that ended has heard."""
        heard = {one for key, call in self.calls.items() if call.report for one in self._hearing.get(key, ())}
        return tuple(words for words in self.words if words not in heard)

    @property
    def notes(self) -> list[tuple[str, dict[str, Any]]]:
        """Facts that the playbook noted."""
        return list(self._notes.values())

    @property
    def _paid(self) -> list[CallView]:
        return [*self._forgotten, *self.calls.values()]

    @property
    def usage(self) -> Usage:
        return sum((call.spent for call in self._paid), Usage())

    @property
    def called(self) -> int:
        """How often agents were called, with what was done again since."""
        return sum(call.calls for call in self._paid)

    @property
    def cost_known(self) -> bool:
        """Whether every call told what it cost."""
        return all(call.spent.cost_usd is not None for call in self._paid if call.calls)

    @property
    def on_branch(self) -> str:
        """The new branch that has the work in place of the tree, as it was asked for."""
        made = (one.ref for one in self.committed if one.what == "branch" and one.commit and not one.problem)
        return next(made, "").removeprefix("refs/heads/")

    @property
    def last_words(self) -> list[CallView]:
        """What each judge said last."""
        ruled = [call for call in self.calls.values() if call.report and call.report.ruling]
        return list({call.name: call for call in ruled}.values())

    @property
    def landed(self) -> list[str]:
        """What was delivered."""
        return sorted({path for one in self.delivered if one.landing for path in one.landing.paths})

    @property
    def is_blind(self) -> bool:
        """A check that tells the work from none was looked for, and there is none (EVID-14)."""
        return self.shown_by is not None and not self.shown_by.get("by")

    def is_document(self, path: str) -> bool:
        """Whether it is the process's own: written by the engine, came with its dispatch, or named by the playbook."""
        came = any(one.landing and path in one.landing.paths for one in self.delivered if one.label == "documents")
        return came or path in self.documents or within(path, self.start.documents if self.start else ())

    @property
    def remarks(self) -> list[Remark]:
        return [remark for call in self.calls.values() if call.report for remark in call.report.remarks]

    def status_now(self, worked_on: bool) -> Status:
        """How it stands, given whether a process works on it: without one a working run was interrupted."""
        if worked_on and self.status.is_open:
            return Status.WORKING
        return Status.INTERRUPTED if self.status is Status.WORKING else self.status

    def to_json(self, *, worked_on: bool = False, output: str = "") -> dict[str, Any]:
        """The run as `--json`, MCP and notices tell it; these names are kept."""
        start, status, gate = self.start, self.status_now(worked_on), self.gate
        usage = self.usage
        return {
            "run_id": self.run,
            "playbook": start.playbook if start else "",
            "key": start.key if start else "",
            "status": status.value,
            "exit_code": int(self.ended.exit if self.ended else status.exit),
            "reason": self.why,
            "output": output,
            "gate": gate and {"name": gate.gate} | _named(gate, "question summary choices shown opening"),
            "dispatches": [_call_json(call) for call in self.calls.values()],
            "checks": [_pair_json(pair) for pair in self.pairs.values()],
            "delivered": self.landed,
            "commits": [one.commit for one in self.committed if one.commit],
            "warnings": self.warnings,
            "next": self.ended.next if self.ended else self.remedy,
            "usage": usage.model_dump() | {"cost_known": self.cost_known},
            "started_at": start.at.isoformat() if start else None,
            "finished_at": self.ended_at.isoformat() if self.ended_at else None,
        }


def _named(one: object, names: str) -> dict[str, Any]:
    return {name: plain(getattr(one, name)) for name in names.split()}


def _call_json(call: CallView) -> dict[str, Any]:
    report = call.report
    remarks = report.remarks if report else ()
    return _named(call, "key agent member step attempt state runner model calls seconds") | {
        "usage": call.spent.model_dump(),
        "outcome": report.outcome if report else None,
        "reason": report.reason if report else "",
        "form": report.form if report else None,
        "files": list(report.paths) if report else [],
        "remarks": [remark.model_dump(mode="json", exclude={"old", "new"}) for remark in remarks],
    }


def _pair_json(pair: PairView) -> dict[str, Any]:
    proved = pair.proved
    return _named(pair, "name command") | {
        "before": pair.before.exit if pair.before else None,
        "after": proved.after.exit if proved and proved.after else None,
        "word": proved.word if proved else "",
        "tests": list(proved.tests) if proved else [],
        "weakened": list(proved.weak.paths) if proved and proved.weak else [],
        "flaky": bool(proved and proved.flaky),
    }


def fold(lines: list[Line]) -> View:
    """The whole of a run, as a door sees it."""
    view = View()
    for line in lines:
        view.take(line)
    return view
