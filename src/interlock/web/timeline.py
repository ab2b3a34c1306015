"""When each agent worked, as a picture: a row each, bars for dispatches; time in which nobody worked is left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from math import inf
from typing import NamedTuple

from interlock.cli import telling, text
from interlock.engine.view import View

MOST_ROWS = 14
"""Agents that have a row."""
LEAST = 0.5
"""Percent of the shortest bar, so that it can be seen."""


class Bar(NamedTuple):
    tone: str
    title: str
    x: float
    width: float


class Timeline(NamedTuple):
    lines: Mapping[str, list[Bar]] = {}
    left_out: int = 0
    """Agents without a row."""
    took: str = ""
    """How long it was worked on, all in all."""


def timeline(view: View, now: datetime) -> Timeline:
    """The picture of a run; empty where no agent was called, or one alone."""
    calls = sorted(view.calls.values(), key=lambda call: call.started)
    if len(calls) < 2:
        return Timeline()
    spans = [(call.started.timestamp(), max(call.started, call.ended or now).timestamp()) for call in calls]
    scale, lines = Scale(spans), dict[str, list[Bar]]()
    names = list(dict.fromkeys(call.name for call in calls))
    for call, (begin, end) in zip(calls, spans, strict=True):
        name = call.name
        if name in names[MOST_ROWS:]:
            continue
        word, told = telling.outcome(call)
        tone = "works" if call.report is None else "failed" if told == "bad" else "done"
        x = min(scale.place(begin), 100 - LEAST)
        width = max(scale.place(end) - x, LEAST)
        bar = Bar(tone, f"{name}: {word}, {text.duration(end - begin)}", round(x, 2), round(width, 2))
        lines.setdefault(name, []).append(bar)
    return Timeline(lines, len(names[MOST_ROWS:]), text.running(scale.worked))


class Scale:
    """Where a moment stands, in percent of the time in which somebody worked: a night at a gate is no work."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        busy: list[tuple[float, float]] = []
        for begin, end in spans:
            last = busy[-1] if busy else (begin, begin)
            if begin <= last[1]:
                busy[-1:] = [(last[0], max(last[1], end))]
            else:
                busy.append((begin, end))
        self._busy, self._before = busy, [0.0, *accumulate(end - begin for begin, end in busy)]
        self.worked = self._before[-1] or 1.0

    def place(self, moment: float) -> float:
        at = bisect_right(self._busy, (moment, inf)) - 1
        begin, end = self._busy[at]
        return (self._before[at] + min(moment, end) - begin) / self.worked * 100
