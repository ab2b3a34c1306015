"""The one JSON object that a command about a run prints with ``--json``: always the same keys (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.telemetry import Totals


def envelope(
    *,
    status: str,
    exit_code: int,
    reason: str = "",
    run_id: str | None = None,
    playbook: str | None = None,
    key: str | None = None,
    output: str = "",
    gate: Mapping[str, Any] | None = None,
    sums: Totals | None = None,
    started_at: str | None = None,
    finished_at: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The object; what is not known is null, and `more` stands after the common keys."""
    return {
        "run_id": run_id,
        "playbook": playbook,
        "key": key,
        "status": status,
        "exit_code": exit_code,
        "reason": reason,
        "output": output,
        "gate": None if gate is None else gate_json(gate),
        "dispatches": 0 if sums is None else sums.dispatches,
        "usage": {
            "input_tokens": None if sums is None else sums.input_tokens,
            "output_tokens": None if sums is None else sums.output_tokens,
            "cost_usd": None if sums is None else sums.cost_usd,
        },
        "started_at": started_at,
        "finished_at": finished_at,
        **more,
    }


def gate_json(gate: Mapping[str, Any]) -> dict[str, Any]:
    """A gate for programs: what it asks, what it shows, how it can be answered."""
    return {
        "key": gate["key"],
        "name": gate["gate"],
        "question": gate["question"],
        "choices": [dict(choice) for choice in gate["choices"]],
        "shows": list(gate["digests"]),
        "opening": gate["opening"],
    }
