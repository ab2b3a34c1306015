"""The ticket's documents: what they say, how they are begun, and edits that keep what a person wrote in them.

A document that reads exactly as interlock would write it is written anew with the changed values; any other one is
edited in place, so that comments, order and unknown keys stay.  Which of the two happens depends on the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.documents import Key, YamlDocument, load_yaml, render_yaml
from interlock.engine import KEY
from interlock.engine.journal import Line
from interlock.errors import DocumentInvalid
from interlock.playbooks.ticket import problems
from interlock.playbooks.ticket.progress import STEPS, Phase, RunStatus
from interlock.playbooks.ticket.project import CACHE, DOCS, DocsState, Impact
from interlock.playbooks.ticket.request import Work
from interlock.playbooks.ticket.toolchains import Command

Changes = Mapping[tuple[Key, ...], Any]

# -- places


def home(ticket: str) -> str:
    return f"prompts/{ticket}"


def iteration_home(ticket: str, iteration: int) -> str:
    return f"{home(ticket)}/iteration_{iteration}"


LEGACY = (
    ("", "startup_context.yaml"),
    ("", "context_compact.yaml"),
    ("", "validation_plan.yaml"),
    ("/task_packets", "**/*"),
    ("/logs", "task_*_summary.yaml"),
    ("/summaries", "task_*_summary.yaml"),
)
"""Folder and pattern of what an older way of working left behind."""

# -- text and data


_REMEMBERED = 1000


class _Known:
    """Texts that were read or written lately: parsing YAML costs a hundred times what writing it does."""

    def __init__(self) -> None:
        self._data: dict[str, Any] = {}
        self._own: dict[str, bool] = {}

    def data(self, text: str, path: str) -> Any:
        if text not in self._data:
            self._keep(text, load_yaml(text, path))
        return self._data[text]

    def is_own(self, text: str) -> bool:
        """Whether the text, which was read before, reads as interlock would write it."""
        if text not in self._own:
            self._own[text] = render_yaml(self._data[text]) == text
        return self._own[text]

    def written(self, data: Any) -> str:
        text = render_yaml(data)
        self._keep(text, data)
        self._own[text] = True
        return text

    def _keep(self, text: str, data: Any) -> None:
        if len(self._data) >= _REMEMBERED:
            self._data.clear()
            self._own.clear()
        self._data[text] = data


_known = _Known()


def read_yaml(text: str, path: str) -> Any:
    """The plain data of a text; not to be changed. `DocumentInvalid` when it is no YAML."""
    return _known.data(text, path)


def edited(text: str, path: str, changes: Changes) -> str:
    """The text with these values replaced or added."""
    data = read_yaml(text, path)
    if not isinstance(data, dict) or not _known.is_own(text):
        return YamlDocument.parse(text, path).set_all(changes).render()
    for keys, value in changes.items():
        data = _with(data, keys, value)
    return _known.written(data)


def _with(data: Any, keys: Sequence[Key], value: Any) -> Any:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(data, list) and isinstance(key, int):
        grown = list(data) if key < len(data) else [*data, None]
        grown[key] = _with(grown[key], rest, value)
        return grown
    return {**(data or {}), key: _with((data or {}).get(key), rest, value)}


# -- progress.yaml


def first_progress(
    *,
    ticket: str,
    work: Work,
    slug: str,
    branch: str,
    existing_branch: str,
    commands: Mapping[str, Command],
    baseline: Mapping[str, Any],
    parallel: int,
    fast_path: bool,
    named_settings: Mapping[str, Any],
    docs: DocsState,
    impact: Impact,
    git_head: str,
    now: str,
) -> str:
    """The state document as the startup analysis leaves it."""
    return render_yaml(
        {
            "jira": ticket,
            "type": work.value,
            "slug": slug,
            "branch": branch,
            **({"existing_branch": existing_branch} if existing_branch else {}),
            **{f"{name}_command": command.text for name, command in commands.items()},
            "command_origins": {name: command.origin for name, command in commands.items()},
            "named_commands": {name: command.text for name, command in commands.items() if command.by_person},
            "max_parallel_tasks": parallel,
            "docs_cache_state_path": CACHE,
            "docs_trusted_for_planning": docs.trusted,
            "trust_status": docs.trust.value,
            "git_gate_completed": False,
            "cycle_acceleration_mode": "standard",
            "fast_path": fast_path,
            "named_settings": dict(named_settings),
            "startup": {
                "docs_state": {
                    "architecture_exists": docs.exists[DOCS[0]],
                    "code_style_exists": docs.exists[DOCS[1]],
                    "findings_exists": docs.exists[DOCS[2]],
                    "docs_trusted_for_planning": docs.trusted,
                    "refresh_required": docs.refresh_required,
                },
                "impact_scan": impact.to_json(),
                "planning_ready": True,
                "updated_at": now,
            },
            "metrics": {
                "tasks_total": 0,
                "tasks_completed": 0,
                "groups_total": 0,
                "groups_completed": 0,
                "percent_complete": 0,
                "elapsed_minutes_estimate": 0,
                "remaining_minutes_estimate": None,
                "eta_confidence": "low",
                "first_code_change_at": None,
                "lead_time_to_first_code_change_minutes": None,
                "latest_group_cycle_minutes_estimate": None,
                "latest_iteration_cycle_minutes_estimate": None,
            },
            "iteration_number": 0,
            "current_phase": Phase.INITIALIZED.value,
            "current_step": "I2",
            "current_task_id": None,
            "current_task_attempt": 0,
            "status": RunStatus.PENDING.value,
            "created_at": now,
            "last_updated": now,
            "last_checkpoint": {"timestamp": now, "git_head": git_head, "phase": Phase.INITIALIZED.value, "step": "I2"},
            "iterations": [iteration_entry(0, now)],
            "baseline": dict(baseline),
        }
    )


def branch_name(template: str, ticket: str, work: Work, slug: str) -> str:
    return template.format(type=work.value, kind=KINDS[work], ticket=ticket, slug=slug)


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


def read_progress(text: str, path: str, ticket: str) -> dict[str, Any]:
    """The state document's data, trusted after this check; `TicketError` says what is wrong with it."""
    try:
        data = read_yaml(text, path)
    except DocumentInvalid as error:
        raise problems.bad_progress(path, error.line, error.what) from None
    if not isinstance(data, dict):
        raise problems.bad_progress(path, 1, "not a mapping")
    for field, problem in _progress_problems(data, ticket):
        raise problems.progress_field(path, field, problem)
    return data


def _progress_problems(data: Mapping[str, Any], ticket: str) -> Iterator[tuple[str, str]]:
    """Fields that cannot be used, each with what is wrong."""
    for field in _TEXTS:
        if not isinstance(data.get(field), str) or not data[field]:
            yield field, "missing" if field not in data else "is no text"
    if data["jira"] != ticket:
        yield "jira", f"is {data['jira']}, expected {ticket}"
    for field, allowed in (("current_phase", tuple(Phase)), ("status", tuple(RunStatus)), ("type", tuple(Work))):
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

IGNORED = ("prompts/", CACHE)


def with_ignored(text: str) -> str:
    """A .gitignore with both of our lines, each exactly once."""
    have = {line.strip() for line in text.splitlines()}
    added = "".join(f"{line}\n" for line in IGNORED if line not in have)
    return text + ("\n" if text and added and not text.endswith("\n") else "") + added


# -- log.jsonl


def log_entry(ticket: str) -> Any:
    """What a journal line looks like in the ticket's log; None for those that do not belong there."""

    def render(line: Line) -> Mapping[str, Any] | None:
        if line.event.startswith("orchestrator."):
            facts = {name: value for name, value in line.data.items() if name not in ("in", "out")}
            return _entry(line, line.event, ticket, facts.pop("iteration", None), facts.pop("step", ""), facts)
        if line.event in ("dispatch.start", "dispatch.end"):
            shown = {
                name: line.data.get(name) for name in ("member", "outcome", "reason", "token") if name in line.data
            }
            facts = {"agent": line.agent, "attempt": line.attempt, "key": line.key, **shown}
            iteration = re.search(r"iteration-(\d+)", line.key or "")
            step = line.data.get("step", "")
            return _entry(line, f"orchestrator.{line.event}", ticket, iteration and int(iteration[1]), step, facts)
        return None

    return render


def _entry(
    line: Line, event: str, ticket: str, iteration: int | None, step: str, data: Mapping[str, Any]
) -> Mapping[str, Any]:
    return {"ts": line.ts, "event": event, "jira": ticket, "iteration": iteration, "step": step, "data": dict(data)}


# -- commits

KINDS = {Work.FEATURE: "feat", Work.FIX: "fix", Work.CHORE: "chore"}
LONGEST_SUMMARY = 72
DOCS_KIND = "docs"


def commit_message(template: str, ticket: str, work: Work, slug: str, summary: str, tasks: Sequence[str]) -> str:
    """What was asked for and the tasks that were done, in the form that the settings want."""
    body = "\n".join(["Tasks:", *(f"- {task}" for task in tasks)])
    return filled(
        template, type=work.value, kind=KINDS[work], ticket=ticket, slug=slug, summary=short(summary), tasks=body
    )


def docs_message(template: str, ticket: str, slug: str) -> str:
    summary = "refresh documentation"
    return filled(template, type=DOCS_KIND, kind=DOCS_KIND, ticket=ticket, slug=slug, summary=summary, tasks="")


def filled(template: str, **fields: str) -> str:
    """The message, with the mark by which the commit is found again; a subject alone gets the tasks as its body."""
    whole = template if "\n" in template.strip() or "{tasks}" in template else f"{template}\n\n{{tasks}}"
    return f"{whole.format(**fields).strip()}\n\nInterlock-Key: {KEY}\n"


def short(summary: str) -> str:
    text = " ".join(summary.split())
    if len(text) > LONGEST_SUMMARY:
        text = text[: LONGEST_SUMMARY - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"
    return text.rstrip(".")
