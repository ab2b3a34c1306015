"""What happened to a task: `harness/runs/<TASKID>-run-report.md`, for people, kept by the engine.

The top says where the task stands and is rewritten.  Below it are three tables that only grow: stage history,
validation evidence, stops.  Each row ends with a link of a hash chain, so that a row that was changed, removed or
put in between shows the next time that the report is read.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from interlock.documents import Document, DocumentState, Sections, one_line
from interlock.playbooks.harness.escalation import Escalation
from interlock.playbooks.harness.run_state import NONE, RunState, head
from interlock.playbooks.harness.splices import Splices, is_bullet, row_text, sections_of

FOLDER = "harness/runs"
SCALARS = ("Task ID", "Task Title", "Current Stage", "Current Run ID", "Status", "Stop Reason")
ARTIFACTS = "Artifact Paths"
LINK = 16
"""Characters of a link: enough to notice, short enough to read."""


class Log(StrEnum):
    """The tables that only grow."""

    HISTORY = "Stage History"
    EVIDENCE = "Validation Evidence"
    STOPS = "Stops"


COLUMNS: Mapping[Log, tuple[str, ...]] = {
    Log.HISTORY: ("Run ID", "Stage", "Agent", "Outcome", "Started", "Ended", "Artifact", "SHA-256"),
    Log.EVIDENCE: ("Time", "Run ID", "Kind", "Finding"),
    Log.STOPS: ("Time", "Stage", "Reason"),
}
CHAIN = "Chain"
HOLES = (*SCALARS, ARTIFACTS, *Log)


class StageOutcome(StrEnum):
    """How one execution of a stage came out."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    APPROVED = "Approved"
    REJECTED = "Rejected"
    NOT_REQUIRED = "Not required"


class Fact(StrEnum):
    """What a line of evidence is about."""

    CHECK = "Artifact check"
    REASON = "Reason for the return"
    ISSUE = "Blocking issue"
    CRITERION = "Failed criterion"
    FALLBACK = "fallback"
    RESUMED = "Resumed"
    SCOPE = "Scope"
    CHANGED = "Changed file"
    PROOF = "Command run by interlock"
    BASELINE = "Before the work"
    NOTICED = "Noticed"
    REJECTED = "Rejected"
    PARKED = "Put aside"
    MENDED = "Mended"
    KEPT = "Not taken over"
    EDITED = "Edited meanwhile"


@dataclass(frozen=True)
class ReportRow:
    """A row to be added."""

    log: Log
    cells: tuple[str, ...]


def executed(
    state: RunState, agent: str, result: str, started: str, ended: str, artifact: str = "", digest: str = ""
) -> ReportRow:
    """One execution of the current stage."""
    return ReportRow(Log.HISTORY, (state.run_id, state.stage, agent, result, started, ended, artifact, digest))


def evidence(state: RunState, at: str, kind: str, finding: str) -> ReportRow:
    return ReportRow(Log.EVIDENCE, (at, state.run_id, kind, finding))


def stop(state: RunState, at: str) -> ReportRow:
    """That the run stopped in this state, for the reason it gives."""
    return ReportRow(Log.STOPS, (at, state.stage, state.stop_reason))


@dataclass(frozen=True)
class RunReport:
    """A report that was read and whose chains are whole."""

    fields: Mapping[str, str]
    rows: Mapping[Log, tuple[tuple[str, ...], ...]]
    """The cells of each table, without the links."""


def report_path(task_id: str) -> str:
    return f"{FOLDER}/{task_id}-run-report.md"


def archive_path(task_id: str) -> str:
    """Where the run-state of a complete task is kept when another task begins."""
    return f"{FOLDER}/{task_id}-run-state.md"


def top_values(state: RunState, title: str) -> dict[str, str]:
    return {
        "Task ID": state.task_id,
        "Task Title": title,
        "Current Stage": state.stage,
        "Current Run ID": state.run_id,
        "Status": state.status,
        "Stop Reason": state.stop_reason or NONE,
    }


def artifact_lines(state: RunState) -> str:
    return "\n".join(f"- {stage}: {path}" for stage, path in state.artifacts.items())


def empty_table(log: Log) -> str:
    columns = (*COLUMNS[log], CHAIN)
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"


def grown(text: str, state: RunState, title: str, entries: Sequence[ReportRow]) -> str:
    """The report with its top brought up to date and rows added; all else stays as it was."""
    return _grown(text, tuple(top_values(state, title).items()), artifact_lines(state), tuple(entries))


@lru_cache(maxsize=1024)
def _grown(text: str, top: tuple[tuple[str, str], ...], artifacts: str, entries: tuple[ReportRow, ...]) -> str:
    document = sections_of(text, "run report")
    edits, place = Splices(document), head(document)
    for name, value in top:
        edits.field(name, value, place)
    there = document.own_text(f"## {ARTIFACTS}").splitlines()
    if not set(there).issuperset(artifacts.splitlines()):
        edits.lines(f"## {ARTIFACTS}", artifacts, is_bullet)
    for log in Log:
        if added := [tuple(map(one_line, entry.cells)) for entry in entries if entry.log is log]:
            rows = _rows(document, log)
            edits.rows(f"## {log}", list(_chained(rows[-1][-1] if rows else _genesis(log), added)))
    return edits.made()


def _chained(last: str, rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """The rows with their links."""
    for cells in rows:
        last = link(last, cells)
        yield (*cells, last)


def link(previous: str, cells: Sequence[str]) -> str:
    """The link that follows `previous` for a row with these cells."""
    return hashlib.sha256("\x1f".join((previous, *cells)).encode()).hexdigest()[:LINK]


def _genesis(log: Log) -> str:
    return link("", (log,))


def parse(document: Document) -> RunReport:
    """The report; Escalation when it cannot be read or is not the one that was written."""
    if document.state is not DocumentState.OK:
        raise _malformed(document.path, document.problem or "unreadable")
    return parse_text(document.text, document.path)


@lru_cache(maxsize=1024)
def parse_text(text: str, path: str) -> RunReport:
    document = sections_of(text, "run report")
    if problem := next(_problems(document), None):
        raise _malformed(path, problem)
    fields = {name: found.value for name, found in document.fields(head(document)).items()}
    return RunReport(fields, {log: tuple(row[:-1] for row in _rows(document, log)) for log in Log})


def _problems(document: Sections) -> Iterator[str]:
    known = document.fields(head(document))
    yield from (f"field {name} not found" for name in SCALARS if name not in known)
    if document.find(f"## {ARTIFACTS}") is None:
        yield f"section {ARTIFACTS} not found"
    for log in Log:
        table = document.table(f"## {log}") if document.find(f"## {log}") else None
        if table is None or table.columns != (*COLUMNS[log], CHAIN):
            yield f"table {log} not found"
            return
        previous = _genesis(log)
        for number, row in enumerate(table.rows, start=1):
            if len(row.cells) != len(table.columns) or row.cells[-1] != link(previous, row.cells[:-1]):
                yield f"entry {number} of {log} was changed, or one before it removed"
                return
            previous = row.cells[-1]


def _rows(document: Sections, log: Log) -> tuple[tuple[str, ...], ...]:
    table = document.table(f"## {log}")
    return tuple(row.cells for row in table.rows) if table else ()


def _malformed(path: str, what: str) -> Escalation:
    task = path.rpartition("/")[2].removesuffix(report_path("").rpartition("/")[2])
    return Escalation(
        path,
        f"{path}: malformed: {what}",
        "Restore the report from version control; or let its chains be made anew from the rows that are there: "
        f"interlock run harness {task} --mend-report",
    )


def mended(text: str) -> str | None:
    """The report with new links for the rows that it has; None where it is not one that can be read at all."""
    document = Sections(text)
    edits: list[tuple[int, int, str]] = []
    for log in Log:
        table = document.table(f"## {log}") if document.find(f"## {log}") else None
        if table is None:
            return None
        width, last = len(COLUMNS[log]), _genesis(log)
        for row in table.rows:
            cells = (*row.cells[:width], *[""] * (width - len(row.cells)))
            last = link(last, cells)
            edits.append((row.start, row.end, row_text((*cells, last))))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text if next(_problems(Sections(text)), None) is None else None


def last_judged(report: RunReport, stage: str) -> str:
    """The digest of the artifact with which this stage was last executed; empty when it never was."""
    rows = [row for row in report.rows[Log.HISTORY] if row[1] == stage]
    return rows[-1][7] if rows else ""


def of_kind(report: RunReport, kind: str) -> tuple[str, ...]:
    """The findings of one kind over the whole life of the task, each once."""
    return tuple(dict.fromkeys(row[3] for row in report.rows[Log.EVIDENCE] if row[2] == kind))


def returned_to(stage: str) -> str:
    """The outcome of a judge that sent the task back."""
    return f"Returned to {stage}"


def sent_back_with(report: RunReport, target: str) -> str:
    """The path of what was judged or shown when the task was last sent back to this stage; empty when it never was."""
    back = (returned_to(target), StageOutcome.REJECTED)
    return next((row[6] for row in reversed(report.rows[Log.HISTORY]) if row[3] in back), "")


def rejected_last(report: RunReport) -> str:
    """What the person said who rejected the task, if nobody has done anything about it since; else nothing."""
    since = itertools.takewhile(lambda row: row[3] != StageOutcome.COMPLETED, reversed(report.rows[Log.HISTORY]))
    at = next((row[5] for row in since if row[3] == StageOutcome.REJECTED), None)
    said = [row[3] for row in report.rows[Log.EVIDENCE] if (row[0], row[2]) == (at, Fact.REJECTED)]
    return said[-1] if said else ""


def left_behind(report: RunReport, stage: str) -> str:
    """Where the changes lie that the last execution of this stage made in vain; empty when it made none, or counted."""
    last = next(iter(report.rows[Log.HISTORY][-1:]), ("",) * len(COLUMNS[Log.HISTORY]))
    if last[1] != stage:
        return ""
    kept = [row[3] for row in report.rows[Log.EVIDENCE] if row[:3] == (last[5], last[0], Fact.KEPT)]
    return kept[-1] if kept else ""
