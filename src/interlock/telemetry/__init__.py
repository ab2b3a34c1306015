"""What a run's journal tells: facts per dispatch, totals, lines for people, reports."""

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

__all__ = [
    "REPORT",
    "Report",
    "Told",
    "Totals",
    "Weight",
    "clock",
    "complaint",
    "cost_line",
    "counted",
    "dated",
    "dispatch_rows",
    "html",
    "in_words",
    "markdown",
    "outcome_word",
    "printable",
    "read_report",
    "seconds_between",
    "spent",
    "tell",
    "totals",
    "who",
    "write_report",
]
