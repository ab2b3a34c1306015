"""A run: what it is about, how it stands and why, what works now, what was decided, what it cost, what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from interlock.agents.records import TranscriptReader
from interlock.engine.folder import KnownRun
from interlock.engine.glances import told
from interlock.engine.journal import Line
from interlock.engine.openings import document
from interlock.pages.changing import shown_changes
from interlock.pages.diffs import DiffSummary
from interlock.pages.documents import ShownDocument, named_document, shown_document
from interlock.pages.prose import prose
from interlock.pages.shelf import ELSEWHERE, Shelf, away_words, headline, key_besides, out_of_reach, step_title
from interlock.pages.spending import Plot, plots
from interlock.pages.timeline import Timeline, timeline
from interlock.telemetry import (
    UNKNOWN,
    Dispatched,
    Narrator,
    Pipeline,
    StepStand,
    Telling,
    Tone,
    Totals,
    WaitingGate,
    Weight,
    complaint,
    counted,
    decision,
    doing,
    is_cancelled,
    is_good,
    lined,
    printable,
    read_report,
    seconds_between,
    spoken_command,
    tokens,
    tone_of,
    waiting_gate,
    who,
)
from interlock.telemetry.report import SCHEDULE_COLUMNS, SCHEDULE_NOTE, schedule_rows

TAIL = 24_000
"""Bytes of the transcript of an agent at work that are read: what it says and does now."""
MOST_TEXT = 1_500
MOST_LINES = 3_000
"""Of the log; the records have the rest."""
MOST_OF_DOCUMENTS = 4_000_000
"""Bytes of documents that one page shows."""


@dataclass(frozen=True)
class AtWork:
    """An agent or a command that is running."""

    key: str
    name: str
    attempt: int | None
    since: str
    doing: str = ""
    """Its present tool call, or what else it does."""
    text: Markup = field(default_factory=Markup)
    """What it said last."""
    tokens: int | None = None
    is_dispatch: bool = True


@dataclass(frozen=True)
class RunDispatch:
    """A dispatch in the list of a run."""

    key: str
    about: str
    step: str
    member: str
    attempt: int
    tone: Tone
    outcome: str
    took: str
    changes: int
    tokens: str
    cost: str
    retries: int
    complaints: tuple[str, ...]


@dataclass(frozen=True)
class MadeDecision:
    """A decision of the playbook or of a person, with what it was made from."""

    at: str
    key: str
    rule: str
    given: tuple[str, ...]
    """Each input behind its name."""
    result: str
    person: bool
    note: str = ""


@dataclass(frozen=True)
class RanCheck:
    """A command that interlock ran itself, and how it ended."""

    key: str
    name: str
    command: str
    tone: Tone
    outcome: str
    tail: str


@dataclass(frozen=True)
class Logged:
    at: str
    weight: Weight
    text: str


@dataclass(frozen=True)
class RunView:
    workspace: str
    run_id: str
    playbook: str
    key: str
    """Where it says more than the headline."""
    version: str
    continues: str | None
    headline: str
    status: str
    tone: Tone
    why: str
    """Why it stands so: the reason of an end, a question, a fault, what goes on."""
    output: Markup
    """What the playbook said at its end."""
    inputs: tuple[tuple[str, str], ...]
    started_at: str
    last_at: str
    live: bool
    """A process works on it."""
    away: bool
    """Somebody else has it: nothing can be done to it here."""
    resumable: bool
    retriable: bool
    cancellable: bool
    steps: tuple[tuple[str, StepStand], ...]
    working: tuple[AtWork, ...]
    gate: WaitingGate | None
    totals: Totals
    timeline: Timeline
    plots: tuple[Plot, ...]
    dispatches: tuple[RunDispatch, ...]
    decisions: tuple[MadeDecision, ...]
    checks: tuple[RanCheck, ...]
    schedule: tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]
    code: DiffSummary
    besides: tuple[str, ...]
    """What else came into the tree, of which nothing can be shown."""
    documents: tuple[ShownDocument, ...]
    incidents: tuple[Logged, ...]
    log: tuple[Logged, ...]
    log_left_out: int
    seconds: float

    @property
    def has_costs(self) -> bool:
        return bool(self.totals.cost_usd)

    @property
    def tokens(self) -> str:
        known = (self.totals.input_tokens, self.totals.output_tokens)
        return UNKNOWN if known == (None, None) else f"{counted(known[0])} in, {counted(known[1])} out"

    @property
    def folders(self) -> tuple[tuple[str, tuple[ShownDocument, ...]], ...]:
        """The documents by the folder that they are in."""
        found: dict[str, list[ShownDocument]] = {}
        for one in self.documents:
            found.setdefault(one.path.rpartition("/")[0], []).append(one)
        return tuple((folder, tuple(inside)) for folder, inside in found.items())

    @property
    def contents(self) -> tuple[tuple[str, str, int], ...]:
        """The parts of the page below its head: id, title, how much there is."""
        parts = (
            ("run-dispatches", "Dispatches", len(self.dispatches)),
            ("run-decisions", "Decisions", len(self.decisions)),
            ("run-checks", "Commands", len(self.checks)),
            ("run-changes", "Code", len(self.code.files)),
            ("run-documents", "Documents", len(self.documents)),
        )
        return tuple(one for one in parts if one[2])


def run_view(shelf: Shelf, known: KnownRun, holder: str | None) -> RunView:
    """Everything about a run, as it stands now.

    Args:
        holder: the process that works on it, if one does.
    """
    identity, folder = known.identity, known.folder
    found = read_report(folder)
    lines: list[Line] = list(found.lines)  # type: ignore[arg-type]
    status, how = told(lines, holder, folder.elsewhere())
    gate = waiting_gate(lines)
    until = datetime.now(UTC).isoformat() if holder is not None else found.ended_at
    logged = list(_logged(lines))
    said = headline(identity, lines)
    steps = shelf.steps(identity)
    pipeline = Pipeline(steps)
    for line in lines:
        pipeline.pass_by(line.key)
    changes = shown_changes(shelf, known, lines)
    ended = bool(lines) and lines[-1].event == "run.end"
    away = out_of_reach(folder)
    if away is not None:
        status, gate = ELSEWHERE, None
    cancelled = is_cancelled(lines)
    return RunView(
        workspace=shelf.name,
        run_id=identity.run_id,
        playbook=identity.playbook,
        key=key_besides(identity, said),
        version=identity.version,
        continues=identity.continues,
        headline=said,
        status=status,
        tone=Tone.WAITS if gate is not None else tone_of(status),
        why=_why(gate, found.reason, how, holder) if away is None else away_words(away),
        output=prose(_output(lines)),
        inputs=tuple(_inputs(identity.inputs)),
        started_at=identity.started_at,
        last_at=found.ended_at,
        live=holder is not None,
        away=away is not None,
        resumable=away is None and holder is None and gate is None and not ended,
        retriable=away is None
        and holder is None
        and ended
        and not cancelled
        and status not in ("complete", "degraded"),
        cancellable=away is None and not ended,
        steps=tuple(_ended(pipeline, status)),
        working=tuple(at_work(known, lines)) if holder is not None else (),
        gate=gate,
        totals=found.totals,
        timeline=timeline(lines, found.schedules, until),
        plots=plots(lines, until),
        dispatches=tuple(listed_dispatches(found.dispatches, steps, lines)),
        decisions=tuple(_decisions(lines)),
        checks=tuple(_checks(lines)),
        schedule=(SCHEDULE_NOTE, SCHEDULE_COLUMNS, tuple(schedule_rows(found.schedules))),
        code=changes.code,
        besides=changes.besides,
        documents=tuple(_documents(known, changes.documents)),
        incidents=tuple(Logged(one.ts, Weight.ATTENTION, Narrator().tell(one).text) for one in found.incidents),
        log=tuple(logged[-MOST_LINES:]),
        log_left_out=max(0, len(logged) - MOST_LINES),
        seconds=seconds_between(identity.started_at, until),
    )


def _why(gate: WaitingGate | None, reason: str, how: str, holder: str | None) -> str:
    if gate is not None:
        return lined(gate.question)
    if holder is not None:
        return f"{printable(holder, 100)} works on it"
    return lined(reason or how)


def _ended(pipeline: Pipeline, status: str) -> Iterator[tuple[str, StepStand]]:
    """The steps; of a run that ended well, none of them is the present one."""
    for title, stand in pipeline:
        over = stand is StepStand.NOW and status in ("complete", "degraded")
        yield title, StepStand.DONE if over else stand


def _output(lines: Sequence[Line]) -> str:
    said = lines[-1].data.get("output") if lines and lines[-1].event == "run.end" else ""
    return said if isinstance(said, str) else ""


def _inputs(inputs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in inputs.items():
        if value not in (None, "", False, [], {}):
            yield printable(name), value if isinstance(value, str) else printable(value, 400)


# -- what works now


def at_work(known: KnownRun, lines: Sequence[Line]) -> Iterator[AtWork]:
    """The agents and commands that are running, each with what it does right now."""
    open_: dict[str, AtWork] = {}
    narrator = Narrator()
    for line in lines:
        narrator.tell(line)
        key = str(line.key)
        match line.event:
            case "dispatch.start":
                about, name = narrator.about(line), who(line)
                told_name = name if not about or about in name else f"{about}, {name}"
                open_[key] = AtWork(key, told_name, line.attempt, line.ts)
            case "command.intent":
                name = printable(spoken_command(line.data), 80)
                open_[key] = AtWork(key, name, None, line.ts, is_dispatch=False)
            case "dispatch.end" | "command":
                open_.pop(key, None)
            case "run.start" | "run.resumed" | "run.end" | "run.interrupted" | "run.fault":
                open_.clear()
    for one in open_.values():
        yield _heard(known, one) if one.is_dispatch else one


def _heard(known: KnownRun, one: AtWork) -> AtWork:
    now, text, used = "", "", None
    for news in TranscriptReader(known.folder.folder(one.key), at_most=TAIL).fresh():
        if news.kind in ("text", "thought"):
            said = str(news.data.get("text", ""))
            text = (text + said if news.data.get("part") else said)[-MOST_TEXT:]
        elif news.kind == "usage":
            used = tokens(news.data)
        else:
            now = doing(news.kind, news.data) or now
    return AtWork(one.key, one.name, one.attempt, one.since, now, prose(text), used)


# -- what happened


def listed_dispatches(
    found: Iterable[Dispatched], steps: Mapping[str, str], lines: Sequence[Line]
) -> Iterator[RunDispatch]:
    """Rows for a list.

    Args:
        steps: what people call the steps of the playbook.
        lines: the journal, which knows with which attempt each began, and what was said against what it judged.
    """
    begun: dict[str, int] = {}
    against: dict[str, str] = {}
    for line in lines:
        if line.event == "dispatch.start":
            begun.setdefault(str(line.key), line.attempt or 1)
        elif line.event == "dispatch.end" and not is_good(line.data):
            against[str(line.key)] = complaint(line.data)
    for one in found:
        facts, key = one.facts, str(one.facts["key"])
        said = one.complaints[:3] or (against.get(key, ""),)
        yield RunDispatch(
            key,
            one.about,
            step_title(steps, key, str(facts["step"])),
            printable(str(facts["member"]), 60),
            begun.get(key, 1),
            Tone.DONE if one.good else Tone.FAILED,
            one.outcome,
            one.took,
            len(one.changes),
            one.tokens,
            one.cost,
            int(facts["retries"]),
            () if one.good else tuple(lined(text) for text in said if text),
        )


def _decisions(lines: Sequence[Line]) -> Iterator[MadeDecision]:
    for line in lines:
        match line.event:
            case "decide":
                made = decision(line.data)
                given = made.named or ("nothing of what it asks for",)
                yield MadeDecision(line.ts, str(line.key), made.rule, given, made.result, person=False)
            case "gate.decided":
                data = line.data
                person = printable(str(data["who"]))
                note = lined(str(data["note"] or ""))
                given = (f"decided by {person}",)
                yield MadeDecision(
                    line.ts, str(line.key), f"gate {data['gate']}", given, str(data["choice"]), person=True, note=note
                )


def _checks(lines: Sequence[Line]) -> Iterator[RanCheck]:
    for line in lines:
        data = line.data
        if line.event == "proof" and isinstance(data.get("command"), str):
            code = data.get("exit")
            well = code == 0 and not data.get("timed_out")
            word = "timed out" if data.get("timed_out") else f"exit {code}"
            tail = str(data.get("tail") or "")
            name = printable(str(data.get("name") or "check"), 60)
            yield RanCheck(str(line.key), name, data["command"], Tone.DONE if well else Tone.FAILED, word, tail)


def _logged(lines: Sequence[Line]) -> Iterator[Logged]:
    narrator = Narrator()
    for line in lines:
        said: Telling = narrator.tell(line)
        if said.weight is not Weight.DETAIL:
            yield Logged(line.ts, said.weight, said.text)


# -- what it changed


def _documents(known: KnownRun, paths: Iterable[str]) -> Iterator[ShownDocument]:
    """The playbook's documents as they are now; of very many the last ones are only named."""
    room = MOST_OF_DOCUMENTS
    for path in paths:
        facts = document(known.folder, path)
        size = len(facts.content or b"")
        room -= size
        yield shown_document(facts) if room > 0 or not size else named_document(facts)
