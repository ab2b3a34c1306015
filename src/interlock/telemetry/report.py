"""What a run did, as a page for people: made from its journal and its records alone, so it can be made at any time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from interlock.documents.files import read_plain, replace_file
from interlock.telemetry.facts import LineLike, Totals, dispatch_rows, is_good, totals
from interlock.telemetry.lines import (
    Weight,
    compact,
    decision,
    harmless,
    in_words,
    indented,
    lined,
    printable,
    tell,
    verdict_word,
)
from interlock.telemetry.narrator import Narrator
from interlock.telemetry.schedule import Scheduled, schedules
from interlock.telemetry.standing import State, standing

REPORT = "report.md"
UNKNOWN = "unknown"
"""What nobody said: never zero."""


class IdentityLike(Protocol):
    """Who a run is, as ``run.json`` says."""

    @property
    def run_id(self) -> str: ...
    @property
    def playbook(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def version(self) -> str: ...
    @property
    def started_at(self) -> str: ...
    @property
    def continues(self) -> str | None: ...


class RunRecord(Protocol):
    """A run folder, as far as a report needs it."""

    @property
    def path(self) -> Path: ...

    def identity(self) -> IdentityLike: ...

    def lines(self) -> Sequence[LineLike]: ...


@dataclass(frozen=True)
class Dispatched:
    """One finished dispatch with what its record adds to the journal's facts."""

    facts: Mapping[str, Any]
    changes: tuple[str, ...]
    violations: tuple[str, ...]
    complaints: tuple[str, ...]
    about: str = ""
    """What it worked on, where the playbook says so."""

    @property
    def outcome(self) -> str:
        return verdict_word(self.facts)

    @property
    def good(self) -> bool:
        return is_good(self.facts)

    @property
    def attempt(self) -> str:
        """Which attempt of the process it was; with its tries, where it was asked again itself."""
        again = int(self.facts["retries"] or 0)
        return str(self.facts["attempt"] - again) + (f" ({again + 1} tries)" if again else "")

    @property
    def took(self) -> str:
        return in_words(self.facts["seconds"])

    @property
    def tokens(self) -> str:
        counts = [self.facts["input_tokens"], self.facts["output_tokens"]]
        return UNKNOWN if None in counts else f"{counts[0]} in, {counts[1]} out"

    @property
    def cost(self) -> str:
        return spent(self.facts["cost_usd"])


@dataclass(frozen=True)
class DecisionRow:
    """One decision of the playbook or of a person."""

    at: str
    key: str
    what: str
    inputs: str
    result: str


@dataclass(frozen=True)
class ReportContent:
    """Everything a report says, before it is written as Markdown or HTML."""

    identity: IdentityLike
    lines: Sequence[LineLike]
    status: str
    reason: str
    ended_at: str
    totals: Totals
    dispatches: tuple[Dispatched, ...]
    decisions: tuple[DecisionRow, ...]
    incidents: tuple[LineLike, ...]
    """Warnings, retries, violations, recoveries."""
    schedules: tuple[Scheduled, ...] = ()

    @property
    def seconds(self) -> float:
        return seconds_between(self.identity.started_at, self.ended_at)

    @property
    def took(self) -> str:
        return in_words(self.seconds)


def read_report(record: RunRecord) -> ReportContent:
    """What there is to say about a run now."""
    lines, identity = record.lines(), record.identity()
    status, reason = _how_it_stands(lines)
    return ReportContent(
        identity=identity,
        lines=lines,
        status=status,
        reason=reason,
        ended_at=lines[-1].ts if lines else identity.started_at,
        totals=totals(lines),
        dispatches=tuple(_dispatched(row, record.path, about) for row, about in _with_subjects(lines)),
        decisions=tuple(decided for line in lines if (decided := _decided(line))),
        incidents=tuple(line for line in lines if _is_incident(line)),
        schedules=schedules(lines),
    )


def write_report(record: RunRecord) -> Path:
    """Bring ``report.md`` of the run folder up to date; returns where it is."""
    place = record.path / REPORT
    content = markdown(read_report(record)).encode()
    try:
        fresh = read_plain(place) == content
    except OSError:
        fresh = False
    if not fresh:
        replace_file(place, content, sync=False)
    return place


def markdown(report: ReportContent) -> str:
    """The report as a Markdown page, which a terminal can show as it is."""
    return harmless("\n".join(_page(report)) + "\n")


def _page(report: ReportContent) -> list[str]:
    identity, sums = report.identity, report.totals
    page = [
        f"# {identity.playbook} {_cell(identity.key)}",
        "",
        f"- Run: `{identity.run_id}`",
        f"- Status: {report.status}" + (f" ({_words(report.reason)})" if report.reason else ""),
        f"- Started: {identity.started_at}",
        f"- Last event: {report.ended_at}, {report.took} after the start",
        f"- Inputs: {_code(printable(dict(identity.inputs), 400))}",
        f"- Version: {identity.version}",
    ]
    if identity.continues:
        page.append(f"- Continues: `{identity.continues}`")
    page += [
        f"- Dispatches: {sums.dispatches}, failed: {sums.failed}, verdicts against the work: {sums.against}, "
        f"time of agents: {in_words(sums.seconds)}",
        f"- Tokens: {counted(sums.input_tokens)} in, {counted(sums.output_tokens)} out",
        f"- Cost: {cost_line(sums)}",
        "",
        "## Dispatches",
        "",
    ]
    page += _table(
        ("about", "step", "agent", "attempt", "outcome", "time", "changes", "tokens", "cost"),
        [
            (
                one.about,
                one.facts["step"],
                one.facts["member"],
                one.attempt,
                one.outcome,
                one.took,
                len(one.changes),
                one.tokens,
                one.cost,
            )
            for one in report.dispatches
        ],
    )
    if report.schedules:
        page += ["", "## Work side by side", "", SCHEDULE_NOTE, ""]
        page += _table(SCHEDULE_COLUMNS, list(schedule_rows(report.schedules)))
    page += ["", "## Decisions", ""]
    page += _table(
        ("time (UTC)", "decision", "from", "result"),
        [(one.at[11:19], one.what, one.inputs, one.result) for one in report.decisions],
    )
    page += ["", "## Changes", ""]
    changed = [(one, path) for one in report.dispatches for path in one.changes]
    page += [
        f"- {_code(printable(path))} by {_cell(one.facts['member'])} ({_code(printable(one.facts['key']))})"
        for one, path in changed
    ] or ["None."]
    if report.incidents:
        page += ["", "## Incidents", ""]
        page += [f"- {line.ts[11:19]} {_words(tell(line).text)}" for line in report.incidents]
    return page


SCHEDULE_COLUMNS = ("work", "scheduling", "agents", "at once", "took", "critical path", "ratio", "at least", "chain")
SCHEDULE_NOTE = (
    "The critical path is the chain of dependencies that took longest; ratio: time taken against it. "
    "At least: what no order with so many places could beat."
)


def schedule_rows(scheduled: Sequence[Scheduled]) -> Iterator[tuple[str, ...]]:
    """How long work side by side took, against its critical path; below the whole of it, its parts."""
    for whole in scheduled:
        for one in (whole, *whole.parts):
            yield (
                one.name if one is whole else f"— {one.name}",
                one.policy,
                str(len(one.spans)),
                f"{one.most} of {one.at_once}",
                in_words(one.took),
                in_words(one.critical.seconds),
                "—" if one.ratio is None else f"{one.ratio:.2f}",
                in_words(one.least),
                " → ".join(one.critical.members),
            )


def spent(cost: float | None) -> str:
    """A cost in words; what nobody said is unknown, never zero."""
    return UNKNOWN if cost is None else f"{cost:.2f} USD"


def counted(tokens: int | None) -> str:
    return UNKNOWN if tokens is None else f"{tokens:,}".replace(",", " ")


def cost_line(sums: Totals) -> str:
    """The cost of a run, with how much of it nobody knows."""
    if sums.cost_usd is None or not sums.unknown_cost:
        return spent(sums.cost_usd)
    return f"{spent(sums.cost_usd)}, and that of {sums.unknown_cost} dispatches unknown"


def seconds_between(start: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _how_it_stands(lines: Sequence[LineLike]) -> tuple[str, str]:
    """Status and reason of the run's last ending or stop."""
    now = standing(lines)
    match now.state:
        case State.ASKING:
            return now.status, f"for a decision: {now.why}"
        case State.DECIDED | State.CUT_OFF:
            return "open", ""
        case State.UNBORN:
            return now.state.value, ""
    return now.status, str(now.why)


def _with_subjects(lines: Sequence[LineLike]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The facts of each dispatch, with what it worked on."""
    narrator = Narrator()
    for line in lines:
        narrator.tell(line)
        for row in dispatch_rows([line]):
            yield row, narrator.about(line)


def _dispatched(row: Mapping[str, Any], folder: Path, about: str) -> Dispatched:
    try:
        result = json.loads(read_plain(folder / "dispatches" / row["key"] / "result.json"))
    except (OSError, ValueError, RecursionError):
        result = {}
    said = result if isinstance(result, dict) else {}
    lists = (said.get(name) for name in ("changes", "violations", "complaints"))
    changes, violations, complaints = (tuple(map(str, one)) if isinstance(one, list) else () for one in lists)
    return Dispatched(row, changes, violations, complaints, about)


def _decided(line: LineLike) -> DecisionRow | None:
    match line.event:
        case "decide":
            made, given = decision(line.data), line.data.get("inputs")
            inputs = "; ".join(compact(part) for part in given) if isinstance(given, list) else "(long)"
            return DecisionRow(line.ts, str(line.key), made.rule, made.inputs or inputs, made.result)
        case "gate.decided":
            data = line.data
            note = f": {printable(data['note'])}" if data["note"] else ""
            return DecisionRow(
                line.ts, str(line.key), f"gate {data['gate']}", str(data["who"]), f"{data['choice']}{note}"
            )
    return None


def _is_incident(line: LineLike) -> bool:
    quiet = ("dispatch.end", "gate.opened", "gate.decided", "run.end", "command")
    return line.event not in quiet and tell(line).weight in (Weight.BAD, Weight.ATTENTION)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    if not rows:
        return ["None."]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return lines + [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]


def _code(text: str) -> str:
    """The text as code that it cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * (longest + 1)
    return f"{mark} {text} {mark}" if longest else f"{mark}{text}{mark}"


def _words(text: str) -> str:
    """What somebody said, in an entry of a list: with its lines, and without anything that would be markup."""
    return indented(lined(text).replace("<", "&lt;"), "  ")


def _cell(value: object) -> str:
    return printable(value if isinstance(value, str) else str(value)).replace("|", "\\|").replace("<", "&lt;")


__all__ = [
    "REPORT",
    "SCHEDULE_COLUMNS",
    "SCHEDULE_NOTE",
    "UNKNOWN",
    "DecisionRow",
    "Dispatched",
    "IdentityLike",
    "ReportContent",
    "RunRecord",
    "cost_line",
    "counted",
    "markdown",
    "read_report",
    "schedule_rows",
    "seconds_between",
    "spent",
    "write_report",
]
