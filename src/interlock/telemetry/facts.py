"""Facts of a run, computed from its journal at any time (CM-38)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class LineLike(Protocol):
    """A journal line, as far as telemetry needs it."""

    @property
    def event(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...
    @property
    def attempt(self) -> int | None: ...
    @property
    def iteration(self) -> int | None: ...
    @property
    def ts(self) -> str: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


def is_good(data: Mapping[str, Any]) -> bool:
    """Whether a dispatch did its part and what it judged, if it judged, is well."""
    return data["outcome"] == "OK" and data.get("passed") is not False


def is_against(data: Mapping[str, Any]) -> bool:
    """Whether a dispatch did its part, and its verdict is against what it judged."""
    return data["outcome"] == "REVISE" or (data["outcome"] != "FAIL" and data.get("passed") is False)


def dispatch_rows(lines: Iterable[LineLike]) -> list[dict[str, Any]]:
    """One row per finished dispatch, in the order in which they ended."""
    rows = []
    for line in lines:
        if line.event != "dispatch.end":
            continue
        facts = line.data
        rows.append(
            {
                "key": line.key,
                "agent": line.agent,
                "member": facts["member"],
                "step": facts["step"],
                "attempt": line.attempt,
                "iteration": line.iteration,
                "outcome": facts["outcome"],
                "reason": facts["reason"],
                "passed": facts.get("passed"),
                "retries": facts["tries"] - 1,
                "started_at": facts["started_at"],
                "ended_at": line.ts,
                "seconds": facts["seconds"],
                "exit_code": facts["exit_code"],
                "brief_bytes": facts["brief_bytes"],
                "answer_bytes": facts["answer_bytes"],
                "changes": facts["changes"],
                "input_tokens": facts["input_tokens"],
                "output_tokens": facts["output_tokens"],
                "cost_usd": facts["cost_usd"],
            }
        )
    return rows


@dataclass(frozen=True)
class Totals:
    """Sums over the dispatches of a run; a sum is None as soon as nobody said anything."""

    dispatches: int = 0
    failed: int = 0
    against: int = 0
    """Verdicts of judges against the work."""
    seconds: float = 0.0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unknown_cost: int = 0
    """Dispatches whose cost is unknown: never counted as zero."""


def totals(lines: Iterable[LineLike]) -> Totals:
    rows = dispatch_rows(lines)

    def known(name: str) -> list[Any]:
        return [row[name] for row in rows if row[name] is not None]

    return Totals(
        dispatches=len(rows),
        failed=sum(row["outcome"] == "FAIL" for row in rows),
        against=sum(map(is_against, rows)),
        seconds=round(sum(row["seconds"] for row in rows), 3),
        input_tokens=sum(tokens) if (tokens := known("input_tokens")) else None,
        output_tokens=sum(tokens) if (tokens := known("output_tokens")) else None,
        cost_usd=round(sum(costs), 6) if (costs := known("cost_usd")) else None,
        unknown_cost=sum(row["cost_usd"] is None for row in rows),
    )
