"""What a run's journal tells: facts per dispatch, totals, how work side by side went, lines for people, reports."""

from interlock.telemetry.facts import Totals, dispatch_rows, totals
from interlock.telemetry.lines import (
    Told,
    Weight,
    clock,
    complaint,
    dated,
    in_words,
    outcome_word,
    printable,
    spoken_command,
    tell,
    who,
)
from interlock.telemetry.page import html
from interlock.telemetry.report import (
    REPORT,
    Report,
    cost_line,
    counted,
    markdown,
    read_report,
    seconds_between,
    spent,
    write_report,
)
from interlock.telemetry.schedule import Path, Scheduled, Span, critical_path, dispatch_spans, most_at_once, schedules

__all__ = [
    "REPORT",
    "Path",
    "Report",
    "Scheduled",
    "Span",
    "Told",
    "Totals",
    "Weight",
    "clock",
    "complaint",
    "cost_line",
    "counted",
    "critical_path",
    "dated",
    "dispatch_rows",
    "dispatch_spans",
    "html",
    "in_words",
    "markdown",
    "most_at_once",
    "outcome_word",
    "printable",
    "read_report",
    "schedules",
    "seconds_between",
    "spent",
    "spoken_command",
    "tell",
    "totals",
    "who",
    "write_report",
]
