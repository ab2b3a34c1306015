"""The documents that the engine writes for a ticket: where they are, what they say, how they are begun. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from interlock.contracts import key_problems
from interlock.documents import read_yaml
from interlock.engine import Line
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket.analysis import CACHE, DocsState, impact
from interlock.playbooks.ticket.request import TicketError, WorkKind

ITERATIONS = 5
ATTEMPTS = 5
LEGACY = (
    ("", "startup_context.yaml"),
    ("", "context_compact.yaml"),
    ("", "validation_plan.yaml"),
    ("/task_packets", "**/*"),
    ("/logs", "task_*_summary.yaml"),
    ("/summaries", "task_*_summary.yaml"),
)
"""Folder and pattern of what an older way of working left behind."""


def home(ticket: str) -> str:
    return f"prompts/{ticket}"


def iteration_home(ticket: str, iteration: int) -> str:
    return f"{home(ticket)}/iteration_{iteration}"


# -- progress.yaml


class Phase(StrEnum):
    INITIALIZED = "INITIALIZED"
    PLANNING = "PLANNING"
    SPLITTING = "SPLITTING"
    GIT_GATE = "GIT_GATE"
    TASK_EXECUTION = "TASK_EXECUTION"
    REVIEW = "REVIEW"
    DOC_REFRESH = "DOC_REFRESH"


STEPS: Mapping[Phase, tuple[str, ...]] = {
    Phase.INITIALIZED: ("I2",),
    Phase.PLANNING: ("O1", "O3"),
    Phase.SPLITTING: ("O4",),
    Phase.GIT_GATE: ("O4.5",),
    Phase.TASK_EXECUTION: ("O5",),
    Phase.REVIEW: ("O6",),
    Phase.DOC_REFRESH: ("O7",),
}


class RunStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    ACCEPTED = "ACCEPTED"
    PAUSED = "PAUSED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


def first_progress(
    found: Mapping[str, Any], docs: DocsState, likely: Sequence[str], *, options: Mapping[str, Any], head: str, now: str
) -> dict[str, Any]:
    """The state document as the startup analysis leaves it: `found` stands at its head, `options` are the user's."""
    unknown = ("first_code_change_at", "lead_time_to_first_code_change_minutes")
    cycles = ("latest_group_cycle_minutes_estimate", "latest_iteration_cycle_minutes_estimate")
    return {
        **found,
        "docs_cache_state_path": CACHE,
        "docs_trusted_for_planning": docs.trusted,
        "trust_status": docs.trust.value,
        "git_gate_completed": False,
        "cycle_acceleration_mode": "standard",
        **options,
        "startup": {
            "docs_state": docs.to_json(),
            "impact_scan": impact(likely),
            "planning_ready": True,
            "updated_at": now,
        },
        "metrics": {**metrics(0, 0, 0, 0, 0, accepted=False), **dict.fromkeys((*unknown, *cycles))},
        "iteration_number": 0,
        "current_phase": Phase.INITIALIZED.value,
        "current_step": "I2",
        "current_task_id": None,
        "current_task_attempt": 0,
        "status": RunStatus.PENDING.value,
        "created_at": now,
        "last_updated": now,
        "last_checkpoint": checkpoint(Phase.INITIALIZED, "I2", head, now),
        "iterations": [iteration_entry(0, now)],
    }


def checkpoint(phase: Phase, step: str, git_head: str, now: str) -> dict[str, str]:
    return {"timestamp": now, "git_head": git_head, "phase": phase.value, "step": step}


def iteration_entry(number: int, now: str) -> dict[str, Any]:
    return {
        "number": number,
        "status": "PENDING",
        "started_at": now,
        "completed_at": None,
        "tasks_total": 0,
        "tasks_accepted": 0,
    }


_TEXTS = ("jira", "type", "slug", "branch", "build_command", "test_command", "docs_cache_state_path", "created_at")
_COUNTS = ("iteration_number", "max_parallel_tasks", "current_task_attempt")
_KINDS = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_COUNTS, int),
    **dict.fromkeys(("git_gate_completed", "docs_trusted_for_planning"), bool),
    **dict.fromkeys(("startup", "metrics", "last_checkpoint"), dict),
    "iterations": list,
}
_RESTORE = "Restore it from tmp/progress.bak.yaml or start over with --fresh."


def read_progress(text: str, path: str, ticket: str) -> dict[str, Any]:
    """The state document's data, trusted after this check; `TicketError` says what is wrong with it."""
    line, why = 1, "not a mapping"
    try:
        data = read_yaml(text, path)
    except DocumentInvalid as error:
        data, line, why = None, error.line or 0, error.what
    if not isinstance(data, dict):
        said = f"ERROR: progress.yaml is not valid YAML: {f'line {line}' if line else why}. {_RESTORE}"
        raise TicketError(said, where=f"{path}:{line}" if line else path, found=why)
    for field, problem in _progress_problems(data, ticket):
        raise TicketError(f"ERROR: progress.yaml: {field} {problem}", where=path, remedy=_RESTORE)
    return data


def _progress_problems(data: Mapping[str, Any], ticket: str) -> Iterator[tuple[str, str]]:
    """Fields that cannot be used, each with what is wrong: people may edit them."""
    yield from key_problems(data, _KINDS)
    if data["jira"] != ticket:
        yield "jira", f"is {data['jira']}, expected {ticket}"
    for field, allowed in (("current_phase", tuple(Phase)), ("status", tuple(RunStatus)), ("type", tuple(WorkKind))):
        if data.get(field) not in allowed:
            yield field, f'"{data.get(field)}" unknown'
    if data.get("current_step") not in STEPS[Phase(data["current_phase"])]:
        yield "current_step", f'"{data.get("current_step")}" unknown in phase {data["current_phase"]}'
    yield from ((field, "is no count") for field in _COUNTS if data[field] < 0)


# -- how far a ticket is, and how long it will take


def moment_of(text: object) -> datetime | None:
    """The moment of a stamp; None for anything else."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and not found.tzinfo else found


def minutes_between(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else round(max(0.0, (end - start).total_seconds() / 60), 2)


MOST_BEFORE_ACCEPTANCE = 95


def percent(completed: int, total: int, *, accepted: bool) -> int:
    """How much is done: at most 95 until the review accepts, 100 only then."""
    if accepted:
        return 100
    return 0 if total <= 0 else min(MOST_BEFORE_ACCEPTANCE, MOST_BEFORE_ACCEPTANCE * completed // total)


def remaining_minutes(elapsed: float, completed: int, total: int) -> int | None:
    """The estimate from what the completed tasks took; None while nothing is completed."""
    return None if completed <= 0 else math.ceil(round(elapsed / completed * max(0, total - completed), 6))


def confidence(completed: int, total: int) -> str:
    share = completed / total if total else 0.0
    return "low" if share < 0.25 else "medium" if share < 0.6 else "high"


def metrics(tasks: int, done: int, groups: int, groups_done: int, elapsed: float, *, accepted: bool) -> dict[str, Any]:
    """The part of `metrics` that is counted anew after each group and each retry round."""
    return {
        "tasks_total": tasks,
        "tasks_completed": done,
        "groups_total": groups,
        "groups_completed": groups_done,
        "percent_complete": percent(done, tasks, accepted=accepted),
        "elapsed_minutes_estimate": elapsed,
        "remaining_minutes_estimate": remaining_minutes(elapsed, done, tasks),
        "eta_confidence": confidence(done, tasks),
    }


def progress_line(said: Mapping[str, Any]) -> str:
    """What the user is told of the metrics at each update."""
    left = said["remaining_minutes_estimate"]
    return (
        f"Progress: {said['percent_complete']}% | Completed: {said['tasks_completed']}/{said['tasks_total']} tasks | "
        f"ETA: ~{'?' if left is None else left} min remaining"
    )


# -- .gitignore

IGNORE = ".gitignore"
IGNORED = ("prompts/", CACHE)


def with_ignored(text: str) -> str:
    """A .gitignore with both of our lines, each exactly once."""
    have = {line.strip() for line in text.splitlines()}
    added = "".join(f"{line}\n" for line in IGNORED if line not in have)
    return text + ("\n" if text and added and not text.endswith("\n") else "") + added


# -- log.jsonl


def log_entry(ticket: str) -> Callable[[Line], Mapping[str, Any] | None]:
    """What a journal line looks like in the ticket's log; None for those that do not belong there."""

    def render(line: Line) -> Mapping[str, Any] | None:
        if line.event.startswith("orchestrator."):
            facts = {name: value for name, value in line.data.items() if name not in ("in", "out")}
            event, iteration, step = line.event, facts.pop("iteration", None), facts.pop("step", "")
        elif line.event in ("dispatch.start", "dispatch.end"):
            told = {name: line.data[name] for name in ("member", "outcome", "reason", "token") if name in line.data}
            facts = {"agent": line.agent, "attempt": line.attempt, "key": line.key, **told}
            within = re.search(r"iteration-(\d+)", line.key or "")
            event, iteration = f"orchestrator.{line.event}", within and int(within[1])
            step = line.data.get("step", "")
        else:
            return None
        return {"ts": line.ts, "event": event, "jira": ticket, "iteration": iteration, "step": step, "data": facts}

    return render


# -- names of branches, messages of commits

KINDS = {WorkKind.FEATURE: "feat", WorkKind.FIX: "fix", WorkKind.CHORE: "chore"}
LONGEST_SUMMARY = 72


def branch_name(template: str, ticket: str, work: WorkKind, slug: str) -> str:
    return template.format(type=work.value, kind=KINDS[work], ticket=ticket, slug=slug)


def commit_message(
    template: str, ticket: str, work: WorkKind | None, slug: str, summary: str, tasks: Sequence[str] = ()
) -> str:
    """What was asked for and the tasks that were done, in the form that the settings want: a subject alone gets the
    tasks as its body. Without a kind of work it is documentation."""
    whole = template if "\n" in template.strip() or "{tasks}" in template else f"{template}\n\n{{tasks}}"
    kind = {"type": work.value, "kind": KINDS[work]} if work else {"type": "docs", "kind": "docs"}
    body = "\n".join(["Tasks:", *(f"- {task}" for task in tasks)]) if tasks else ""
    return f"{whole.format(**kind, ticket=ticket, slug=slug, summary=short(summary), tasks=body).strip()}\n"


def short(summary: str) -> str:
    text = " ".join(summary.split())
    if len(text) > LONGEST_SUMMARY:
        text = text[: LONGEST_SUMMARY - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"
    return text.rstrip(".")
