"""A report as one HTML page: no script, no external resource, the timeline drawn as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.telemetry.facts import LineLike
from interlock.telemetry.lines import clock, harmless, indented, printable
from interlock.telemetry.narrator import INDENT, Narrator
from interlock.telemetry.report import (
    SCHEDULE_COLUMNS,
    SCHEDULE_NOTE,
    ReportContent,
    cost_line,
    counted,
    schedule_rows,
    seconds_between,
)

WIDTH, LABEL, ROW = 960, 240, 24
"""Of the timeline, in pixels: all of it, the names at its left, one row."""


@dataclass(frozen=True)
class Bar:
    """One row of the timeline."""

    name: str
    kind: str
    """ok, failed, or wait: decides the colour."""
    title: str
    x: float
    y: int
    width: float


def html(report: ReportContent) -> str:
    """The report as a page that can be mailed or kept: everything is inside."""
    from importlib import resources

    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    environment.filters |= {"clock": clock, "printable": printable, "indented": lambda text: indented(text, INDENT)}
    template = environment.from_string(resources.files(__package__).joinpath("page.html.j2").read_text("utf-8"))
    bars, narrator = list(_bars(report)), Narrator()
    return template.render(
        report=report,
        bars=bars,
        ticks=[(LABEL + (WIDTH - LABEL) * part / 4, report.seconds * part / 4) for part in range(5)],
        size=(WIDTH, ROW * len(bars) + 30),
        label=LABEL,
        row=ROW,
        schedule=(SCHEDULE_NOTE, SCHEDULE_COLUMNS, list(schedule_rows(report.schedules))),
        cost=cost_line(report.totals),
        tokens=f"{counted(report.totals.input_tokens)} in, {counted(report.totals.output_tokens)} out",
        log=[(line.ts, narrator.tell(line)) for line in report.lines],
    )


def _shown(value: object) -> object:
    """Whatever the page shows: no control character gets into it, whoever opens it with what."""
    return harmless(value) if isinstance(value, str) else value


def _bars(report: ReportContent) -> Iterator[Bar]:
    start, whole = report.identity.started_at, max(report.seconds, 0.001)
    spans = [
        (
            str(one.facts["member"]),
            "ok" if one.good else "failed",
            f"{one.facts['key']}: {one.outcome} in {one.took}",
            seconds_between(start, one.facts["ended_at"]) - one.facts["seconds"],
            one.facts["seconds"],
        )
        for one in report.dispatches
    ]
    spans += [
        (f"gate {gate.data['gate']}", "wait", f"{gate.key}: waited for a decision", opened, decided - opened)
        for gate, opened, decided in _waits(report)
    ]
    scale = (WIDTH - LABEL) / whole
    for number, (name, kind, title, begin, seconds) in enumerate(sorted(spans, key=lambda span: span[3])):
        place = LABEL + max(0.0, begin) * scale
        yield Bar(name, kind, title, round(place, 1), number * ROW, round(max(2.0, seconds * scale), 1))


def _waits(report: ReportContent) -> Iterator[tuple[LineLike, float, float]]:
    """Each gate with the seconds after the start at which it was opened and decided."""
    opened: dict[str | None, LineLike] = {}
    start = report.identity.started_at
    for line in report.lines:
        if line.event == "gate.opened":
            opened.setdefault(line.key, line)
        elif line.event == "gate.decided" and line.key in opened:
            first = opened.pop(line.key)
            yield first, seconds_between(start, first.ts), seconds_between(start, line.ts)
    for line in opened.values():
        yield line, seconds_between(start, line.ts), report.seconds
