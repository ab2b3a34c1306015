"""The states of an iteration and of an item, drawn from the tables that decide them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from interlock.playbooks.roadmap.decisions import (
    AFTER_ATTEMPT,
    PIPELINES,
    RESEARCH,
    RETRY_PIPELINES,
    Choice,
    Move,
    Research,
    Step,
)
from interlock.playbooks.roadmap.schema import Complexity, ItemStatus

LOADED: Final = {
    Choice.SELECTED: "Select",
    Choice.RESUMED: "Select",
    Choice.COMPLETE: "Complete",
    Choice.NOTHING: "Stop_NoCandidate",
}
AFTER: Final = {Move.FINISH: "Done", Move.RETRY: "Implement", Move.BLOCK: "Blocked"}
STATUS_AFTER: Final = {
    Move.FINISH: ItemStatus.DONE,
    Move.RETRY: ItemStatus.IN_PROGRESS,
    Move.BLOCK: ItemStatus.BLOCKED,
}
NAMES: Final = {Step.DESIGN: "Architect_Design", Step.VALIDATION: "Architect_Validate"}


def diagram() -> str:
    """The pipeline of an iteration as a Mermaid state diagram."""
    return "\n".join(["stateDiagram-v2", *dict.fromkeys(f"    {line}" for line in _moves())])


def item_diagram() -> str:
    """What becomes of an item's status as a Mermaid state diagram."""
    begun = ItemStatus.IN_PROGRESS
    moves = [
        f"[*] --> {ItemStatus.READY}: written by a person",
        f"{ItemStatus.READY} --> {begun}: {Choice.SELECTED}",
        f"{begun} --> {begun}: {Choice.RESUMED}",
        *(f"{begun} --> {STATUS_AFTER[move]}: {result}, {left}" for (result, left), move in AFTER_ATTEMPT.rows.items()),
        f"{ItemStatus.BLOCKED} --> {ItemStatus.READY}: a person, never the engine",
        f"{ItemStatus.DONE} --> [*]",
    ]
    return "\n".join(["stateDiagram-v2", *(f"    {move}" for move in moves)])


def _moves() -> Iterator[str]:
    yield "[*] --> Load"
    yield "Load --> Stop_Invalid: missing, malformed or not of its schema"
    for choice, state in LOADED.items():
        yield f"Load --> {state}: {choice}"
    yield from _first_steps()
    yield from _later_steps()
    yield f"{_name(Step.VALIDATION)} --> Evaluate: drift_detected"
    yield "Review --> Evaluate"
    yield "Review --> Verify: no failure, verify = engine"
    yield "Verify --> Evaluate"
    for step in Step:
        yield f"{_name(step)} --> Evaluate: stopped"
        yield f"{_name(step)} --> Left_Open: its agent did not do its part"
    for (result, left), move in AFTER_ATTEMPT.rows.items():
        yield f"Evaluate --> {AFTER[move]}: {result.value}, {left.value}"
    yield "Done --> Report"
    yield "Blocked --> Report"
    yield "Report --> Load: loop mode, item done"
    yield "Report --> [*]: once, or blocked"
    for state in ("Complete", "Stop_Invalid", "Stop_NoCandidate", "Left_Open"):
        yield f"{state} --> [*]"


def _first_steps() -> Iterator[str]:
    """From the selected item to its first step, by complexity and what is known of it."""
    for (complexity, known), research in RESEARCH.rows.items():
        assert isinstance(complexity, Complexity)
        steps = [step for step in PIPELINES[complexity] if step is not Step.RESEARCH or _is_called(research)]
        what = "" if research is Research.SKIPPED else f", planning research {known.value}"
        yield f"Select --> {_name(steps[0])}: {complexity}{what}"


def _later_steps() -> Iterator[str]:
    """From each step to the next, with the complexities for which it is the next."""
    edges: dict[tuple[Step, Step], list[str]] = {}
    for complexity in Complexity:
        for pipeline in (PIPELINES[complexity], RETRY_PIPELINES[complexity]):
            for before, after in pairwise(pipeline):
                edges.setdefault((before, after), []).append(complexity)
    for (before, after), complexities in edges.items():
        aligned = "aligned; " if before is Step.VALIDATION else ""
        yield f"{_name(before)} --> {_name(after)}: {aligned}{' or '.join(dict.fromkeys(complexities))}"


def _is_called(research: Research) -> bool:
    return research in (Research.FULL, Research.NARROWED)


def _name(step: Step) -> str:
    return NAMES.get(step, step.value.capitalize())
