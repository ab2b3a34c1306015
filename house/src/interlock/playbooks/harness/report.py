"""`harness/runs/<TASKID>-run-report.md`: the durable history of a task; entries are added, never removed (4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.documents.changing import add_below, add_row, set_fields
from interlock.documents.markdown import markdown
from interlock.playbooks.harness.run_state import State, filled
from interlock.playbooks.harness.stages import Came, Stage
from interlock.playbooks.harness.task_file import Task

HISTORY = ("Stage History", "Stage Outcomes")
"""The section of the stages, by the names that people give it."""
SECTIONS = (HISTORY[0], "Validation Evidence", "Stops")
COLUMNS = ("Run ID", "Stage", "Agent", "Outcome", "Started", "Ended", "Artifact", "SHA-256")
CHANGED = "changed by Build, not delivered yet:"
"""Begins the entry with the code that a Build left: without the run's trees it is missing (HN-117)."""
DELIVERED = "delivered:"


def report_of(task: str) -> str:
    return f"harness/runs/{task}-run-report.md"


def shelf_of(task: str) -> str:
    """Where the run-state of a task lies that is not the live one (5.3)."""
    return f"harness/runs/{task}-run-state.md"


def _head(state: State) -> dict[str, str]:
    known = state.position()
    shown = ("Task ID", "Current Stage", "Current Run ID", "Stop Reason")
    return {**{name: str(known[name]) for name in shown}, "Status": state.status}


def new_report(template: str, state: State, task: Task) -> str:
    """The first text of a report."""
    values = {**_head(state), "Task Title": task.title, "Artifact Paths": state.position()["Artifact Paths"]}
    text = filled(template, values, dict.fromkeys(SECTIONS, ""))
    missing = [name for name in SECTIONS if not _title(text, name)]
    return "\n".join([text.rstrip(), *(f"\n## {name}" for name in missing), ""])


def with_entries(
    text: str, state: State, at: str, rows: Sequence[Sequence[str]], evidence: Sequence[str], stop: str
) -> str:
    """The report with what happened at that time; one that is gone is not made again (HN-41)."""
    if not text.strip():
        return text
    text = set_fields(text, _head(state))
    for row in rows:
        text = add_row(text, _title(text, HISTORY[0]) or HISTORY[0], dict(zip(COLUMNS, row, strict=True)))
    for title, lines in (("Validation Evidence", evidence), ("Stops", [f"{state.stage}: {stop}"] if stop else [])):
        for line in lines:
            text = add_below(text, _title(text, title) or f"## {title}", f"- {at} {' '.join(line.split())}")
    return text


def _title(text: str, name: str) -> str:
    """The section of that name, as people called it; empty: there is none."""
    names = HISTORY if name == HISTORY[0] else (name,)
    return next((one for one in names if markdown(text).find(one)), "")


def history(text: str) -> list[dict[str, str]]:
    """The entries of the stages, in order, by the names of their columns in small letters."""
    rows = markdown(text).rows(_title(text, HISTORY[0]))
    return [dict(zip((cell.casefold() for cell in rows[0].cells), row.cells, strict=False)) for row in rows[1:]]


def rejections(text: str, gate: Stage) -> int:
    """How often people rejected at the gate before that stage."""
    return sum(one.get("stage") == gate and one.get("outcome") == Came.REJECTED for one in history(text))


def judged_before(text: str, stage: Stage, digest: str) -> bool:
    """Whether this artifact of a stage is one that has counted already."""
    return any(one.get("stage") == stage and one.get("sha-256") == digest for one in history(text))


def undelivered(text: str) -> bool:
    """Whether code of a Build was left that has not come into the tree."""
    entries = [item.text for item in markdown(text).items("Validation Evidence")]
    said = [CHANGED in one for one in entries if CHANGED in one or DELIVERED in one]
    return bool(said) and said[-1]
