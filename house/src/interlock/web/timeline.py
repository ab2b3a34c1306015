"""When each agent worked, as a picture: a row each, bars for dispatches; time in which nothing happened is a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from interlock.cli import telling, text
from interlock.engine.view import CallView, View

ROW = 22
"""Pixels of a row."""
MOST_ROWS = 14
GAP = 3.0
"""Percent that a gap takes, however long it was: a night at a gate is no work."""
LEAST = 0.5
"""Percent of the shortest bar, so that it can be seen."""
TOUCHES = 0.15
"""Percent between two bars that are drawn as one."""


@dataclass
class Bar:
    tone: str
    title: str
    x: float
    width: float


@dataclass
class Line:
    name: str
    y: int
    bars: list[Bar] = field(default_factory=list)


@dataclass(frozen=True)
class Timeline:
    lines: Sequence[Line] = ()
    gaps: Sequence[float] = ()
    ticks: Sequence[tuple[float, str]] = ()
    left_out: int = 0

    @property
    def height(self) -> int:
        return ROW * len(self.lines)


def timeline(view: View, now: datetime) -> Timeline:
    """The picture of a run; empty where no agent was called, or one alone."""
    calls = sorted(view.calls.values(), key=lambda call: call.started)
    if len(calls) < 2:
        return Timeline()
    spans = [(call.started.timestamp(), _end(call, now)) for call in calls]
    place, gaps, ticks = _scale(spans)
    lines: dict[str, Line] = {}
    left_out = set[str]()
    for call, (begin, end) in zip(calls, spans, strict=True):
        name = call.member or call.agent
        if name not in lines and len(lines) == MOST_ROWS:
            left_out.add(name)
            continue
        line = lines.setdefault(name, Line(name, ROW * len(lines)))
        word, tone = telling.outcome(call)
        tone = {"good": "done", "bad": "failed"}.get(tone, "works" if call.report is None else "done")
        x = min(place(begin), 100 - LEAST)
        width = max(place(end) - x, LEAST)
        last = line.bars[-1] if line.bars else None
        if last is not None and last.tone == tone and x - last.x - last.width < TOUCHES:
            last.width = max(last.width, round(x + width - last.x, 2))
        else:
            line.bars.append(Bar(tone, f"{name}: {word}, {text.duration(end - begin)}", round(x, 2), round(width, 2)))
    return Timeline(list(lines.values()), gaps, ticks, len(left_out))


def _end(call: CallView, now: datetime) -> float:
    return max((call.ended or now).timestamp(), call.started.timestamp())


def _scale(spans: Sequence[tuple[float, float]]) -> tuple[Callable[[float], float], list[float], list[tuple[float, str]]]:
    """Where a moment stands, in percent; where time was left out; and how much work was done up to some places."""
    busy: list[list[float]] = []
    for begin, end in spans:
        if busy and begin <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([begin, end])
    worked = sum(end - begin for begin, end in busy) or 1.0
    merged: list[list[float]] = []
    for begin, end in busy:  # what is short beside the work is drawn as it was
        if merged and begin - merged[-1][1] < worked * 0.1:
            merged[-1][1] = end
        else:
            merged.append([begin, end])
    room = 100 - GAP * min(len(merged) - 1, 20)
    gap = (100 - room) / max(1, len(merged) - 1)
    whole = sum(end - begin for begin, end in merged) or 1.0

    def place(moment: float) -> float:
        x = 0.0
        for begin, end in merged:
            if moment <= end:
                return x + max(0.0, moment - begin) / whole * room
            x += (end - begin) / whole * room + gap
        return 100.0

    gaps = [round(place(begin) - gap / 2, 2) for begin, _ in merged[1:]] if len(merged) <= 21 else []
    ticks = [(round(share * room, 2), text.running(share * whole)) for share in (0.25, 0.5, 0.75)] if not gaps else []
    return place, gaps, [(0.0, "0:00"), *ticks] if ticks else []
