"""Cost and tokens of a run over time, as plots: each dispatch adds to the sum when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interlock.telemetry import counted, dispatch_rows, in_words, seconds_between, spent
from interlock.telemetry.facts import LineLike

WIDTH, HEIGHT = 1000, 100
"""Of a plot, in its own units; it is stretched to the room that it has."""


@dataclass(frozen=True)
class Plot:
    """A sum that grows: its line, what it is, how much it came to."""

    name: str
    total: str
    line: str
    """Points of the line: steps from the lower left."""
    area: str
    """The same down to the base."""
    took: str
    table: tuple[tuple[str, str], ...]
    """The same in words: a few moments, with the sum so far."""


def plots(lines: Sequence[LineLike], until: str) -> tuple[Plot, ...]:
    """Cost and tokens, each where anybody said anything."""
    rows = dispatch_rows(lines)
    if not lines or not rows:
        return ()
    begin = lines[0].ts
    whole = max(seconds_between(begin, until), 0.001)
    moments = [seconds_between(begin, row["ended_at"]) for row in rows]
    costs = [row["cost_usd"] for row in rows]
    tokens = [_sum(row) for row in rows]
    made = []
    if any(costs):
        made.append(_plot("Cost", moments, costs, whole, spent))
    if any(tokens):
        made.append(_plot("Tokens", moments, tokens, whole, lambda number: counted(int(number))))
    return tuple(made)


def _sum(row: dict[str, Any]) -> int | None:
    known = [row[name] for name in ("input_tokens", "output_tokens") if row[name] is not None]
    return sum(known) if known else None


def _plot(name: str, moments: Sequence[float], values: Sequence[float | None], whole: float, said: Any) -> Plot:
    total = sum(value or 0 for value in values)
    points, so_far, table = [(0.0, 0.0)], 0.0, []
    for moment, value in zip(moments, values, strict=True):
        if not value:
            continue
        x = min(1.0, moment / whole)
        points.append((x, so_far / total))
        so_far += value
        points.append((x, so_far / total))
        table.append((in_words(moment), said(so_far)))
    points.append((1.0, so_far / total))
    line = " ".join(f"{x * WIDTH:.1f},{(1 - y) * HEIGHT:.1f}" for x, y in points)
    every = max(1, len(table) // 8)
    few = tuple(one for number, one in enumerate(table, 1) if number % every == 0 or number == len(table))
    return Plot(name, said(total), line, f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}", in_words(whole), few)
