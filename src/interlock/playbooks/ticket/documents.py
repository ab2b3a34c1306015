"""The ticket's own documents: where they are, what they say, how they are begun."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from interlock.documents import DocumentState, read_yaml, render_yaml
from interlock.engine import Line, Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket.analysis import CACHE, DocsState
from interlock.playbooks.ticket.metrics import Metrics
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


def bad_document(path: str, problem: str) -> TicketError:
    return TicketError(f"ERROR: {path.rsplit('/', 1)[-1]}: {problem}", where=path)


async def prompt_of(run: Run, ticket: str) -> Mapping[str, Any]:
    """What prompt.yaml says now; nothing where it cannot be used."""
    document = await run.read(f"{home(ticket)}/prompt.yaml")
    try:
        data = read_yaml(document.text, document.path) if document.state is DocumentState.OK else None
    except DocumentInvalid:
        return {}
    return data if isinstance(data, dict) else {}


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
    found: Mapping[str, Any], docs: DocsState, impact: Mapping[str, Any], *, options: Mapping[str, Any], now: str
) -> str:
    """The state document as the startup analysis leaves it: `found` stands at its head."""
    unknown = ("first_code_change_at", "lead_time_to_first_code_change_minutes")
    cycles = ("latest_group_cycle_minutes_estimate", "latest_iteration_cycle_minutes_estimate")
    return render_yaml(
        {
            **{name: value for name, value in found.items() if name not in ("git_head", "baseline")},
            "docs_cache_state_path": CACHE,
            "docs_trusted_for_planning": docs.trusted,
            "trust_status": docs.trust.value,
            "git_gate_completed": False,
            "cycle_acceleration_mode": "standard",
            **options,
            "startup": {
                "docs_state": docs.to_json(),
                "impact_scan": impact,
                "planning_ready": True,
                "updated_at": now,
            },
            "metrics": {**Metrics(0, 0, 0, 0, elapsed=0).fields(), **dict.fromkeys((*unknown, *cycles))},
            "iteration_number": 0,
            "current_phase": Phase.INITIALIZED.value,
            "current_step": "I2",
            "current_task_id": None,
            "current_task_attempt": 0,
            "status": RunStatus.PENDING.value,
            "created_at": now,
            "last_updated": now,
            "last_checkpoint": checkpoint(Phase.INITIALIZED, "I2", found["git_head"], now),
            "iterations": [iteration_entry(0, now)],
            "baseline": found["baseline"],
        }
    )


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
    for field in _TEXTS:
        if not isinstance(data.get(field), str) or not data[field]:
            yield field, "missing" if field not in data else "is no text"
    if data["jira"] != ticket:
        yield "jira", f"is {data['jira']}, expected {ticket}"
    for field, allowed in (("current_phase", tuple(Phase)), ("status", tuple(RunStatus)), ("type", tuple(WorkKind))):
        if data.get(field) not in allowed:
            yield field, f'"{data.get(field)}" unknown'
    if data.get("current_step") not in STEPS[Phase(data["current_phase"])]:
        yield "current_step", f'"{data.get("current_step")}" unknown in phase {data["current_phase"]}'
    for field in ("iteration_number", "max_parallel_tasks", "current_task_attempt"):
        if isinstance(data.get(field), bool) or not isinstance(data.get(field), int) or data[field] < 0:
            yield field, "is no count"
    for field in ("git_gate_completed", "docs_trusted_for_planning"):
        if not isinstance(data.get(field), bool):
            yield field, "is neither true nor false"
    for field, kind in (("startup", dict), ("metrics", dict), ("last_checkpoint", dict), ("iterations", list)):
        if not isinstance(data.get(field), kind):
            yield field, "missing or of another kind"


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
DOCS_KIND = "docs"


def branch_name(template: str, ticket: str, work: WorkKind, slug: str) -> str:
    return template.format(type=work.value, kind=KINDS[work], ticket=ticket, slug=slug)


def commit_message(template: str, ticket: str, work: WorkKind, slug: str, summary: str, tasks: Sequence[str]) -> str:
    """What was asked for and the tasks that were done, in the form that the settings want."""
    body = "\n".join(["Tasks:", *(f"- {task}" for task in tasks)])
    return _filled(
        template, type=work.value, kind=KINDS[work], ticket=ticket, slug=slug, summary=short(summary), tasks=body
    )


def docs_message(template: str, ticket: str, slug: str) -> str:
    summary = "refresh documentation"
    return _filled(template, type=DOCS_KIND, kind=DOCS_KIND, ticket=ticket, slug=slug, summary=summary, tasks="")


def _filled(template: str, **fields: str) -> str:
    """The message; a subject alone gets the tasks as its body."""
    whole = template if "\n" in template.strip() or "{tasks}" in template else f"{template}\n\n{{tasks}}"
    return f"{whole.format(**fields).strip()}\n"


def short(summary: str) -> str:
    text = " ".join(summary.split())
    if len(text) > LONGEST_SUMMARY:
        text = text[: LONGEST_SUMMARY - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"
    return text.rstrip(".")
