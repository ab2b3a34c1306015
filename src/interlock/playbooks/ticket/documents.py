"""The documents of a ticket: what they hold, and how plans and reports are read. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from interlock.documents.markdown import Markdown
from interlock.engine.forms import Claim, Form, Weakened
from interlock.engine.kept import Kept, dumped

Words = Annotated[list[str], Field(min_length=1)]
CACHE = "docs/docs_cache_state.yaml"
IGNORED = ("prompts/", CACHE)


# --- prompt.yaml


class Mandate(Kept):
    text: str
    tool: str = ""
    assigned_agent: Literal["planner", "developer"] = "developer"


class Prompt(Kept):
    """`prompts/<jira>/prompt.yaml` (4.1)."""

    jira: str
    type: Literal["fix", "feature", "chore"]
    slug: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+_[a-z0-9]+_[a-z0-9]+$")]
    tool_mandates: list[Mandate]
    original_request: str
    refined_prompt: str
    success_criteria: Words
    created_at: str


class Asked(Form):
    """What the Interpreter may say beside its document."""

    questions: list[str] = Field(default=[], description="What only the person can say; empty: nothing.")


# --- progress.yaml

Phase = Literal["INITIALIZED", "PLANNING", "SPLITTING", "GIT_GATE", "TASK_EXECUTION", "REVIEW", "DOC_REFRESH"]
Standing = Literal["PENDING", "IN_PROGRESS", "ACCEPTED", "PAUSED", "REJECTED", "FAILED"]


class Iteration(Kept, extra="allow"):
    number: int
    status: Standing = "PENDING"
    started_at: str
    completed_at: str | None = None
    tasks_total: int = 0
    tasks_accepted: int = 0


class Progress(Kept):
    """`prompts/<jira>/progress.yaml` (4.2), with what stands in a new one."""

    jira: str
    type: Literal["fix", "feature", "chore"]
    slug: str
    branch: str
    build_command: str
    test_command: str
    max_parallel_tasks: int = Field(ge=1)
    docs_cache_state_path: str = CACHE
    docs_trusted_for_planning: bool
    trust_status: Literal["trusted", "stale", "unknown"]
    git_gate_completed: bool = False
    cycle_acceleration_mode: Literal["standard", "trivial_graph"] = "standard"
    startup: dict[str, Any]
    metrics: dict[str, Any]
    iteration_number: int = Field(default=0, ge=0, lt=5)
    current_phase: Phase = "INITIALIZED"
    current_step: str = "I2"
    current_task_id: str | None = None
    current_task_attempt: int = 0
    status: Standing = "PENDING"
    created_at: str
    last_updated: str
    last_checkpoint: dict[str, Any]
    iterations: list[Iteration] = Field(min_length=1)


PEOPLES = (
    *("build_command", "test_command", "max_parallel_tasks"),
    *("refined_prompt", "success_criteria", "tool_mandates"),
)
"""What people may change of progress.yaml and of prompt.yaml (4.11)."""
NO_METRICS = {
    **dict.fromkeys(("tasks_total", "tasks_completed", "groups_total", "groups_completed", "percent_complete"), 0),
    "elapsed_minutes_estimate": 0,
    "remaining_minutes_estimate": None,
    "eta_confidence": "low",
    **dict.fromkeys(("first_code_change_at", "lead_time_to_first_code_change_minutes")),
    **dict.fromkeys(("latest_group_cycle_minutes_estimate", "latest_iteration_cycle_minutes_estimate")),
}


def new_progress(prompt: Prompt, branch: str, commands: Mapping[str, str], found: Any, at: str) -> str:
    """The text of a new progress.yaml; `found`: what the startup analysis found."""
    here = {"branch": branch, "build_command": commands["build"], "test_command": commands["test"]}
    trust = {"docs_trusted_for_planning": found["trust"] == "trusted", "trust_status": found["trust"]}
    scan = {"docs_state": found["state"], "impact_scan": found["impact"], "planning_ready": True, "updated_at": at}
    point = {"timestamp": at, "git_head": "", "phase": "INITIALIZED", "step": "I2"}
    times = {
        "created_at": at,
        "last_updated": at,
        "last_checkpoint": point,
        "iterations": [{"number": 0, "started_at": at}],
    }
    known = {**prompt.model_dump(), **here, **trust, **times, "max_parallel_tasks": found["parallel"]}
    return dumped(Progress.model_validate({**known, "startup": scan, "metrics": NO_METRICS}).model_dump())


def filled(template: str, values: Mapping[str, str]) -> str:
    """A setting with its names in braces filled in; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


# --- review_report.yaml


class Check(Form):
    command: str
    exit: int = Field(description="The status with which it ended.")
    expected: bool = Field(False, description="True if it has to fail, and that is as it should be.")


class Met(Form):
    id: str
    met: bool
    by: str = ""


class Issue(Form):
    severity: str = ""
    task: str = ""
    files: list[str] = []
    problem: str
    evidence: str = ""
    criterion: str = Field("", description="The id of the criterion that it speaks against.")


class Review(Form):
    """`review_report.yaml` (4.5): the Reviewer's answer; its first seven fields are enough."""

    status: Literal["ACCEPTED", "REJECTED"]
    mode: str = "prompt-review"
    build: Literal["PASSED", "FAILED"]
    tests: Literal["PASSED", "FAILED"]
    files_verified: bool
    notes: str = ""
    reviewed_at: str = ""
    checks: list[Check] = []
    criteria: list[Met] = []
    issues: list[Issue] = []
    weakened: list[Weakened] = []

    @classmethod
    def known(cls, criteria: Sequence[str], green: bool) -> dict[str, Any]:
        return {"criteria": [{"id": one.partition(":")[0], "criterion": one, "met": True} for one in criteria]}

    def claim(self, criteria: Sequence[str]) -> Claim:
        """Criteria count as told where any is told; else the status speaks for all."""
        named = {one.id.partition(":")[0].strip(): one.met for one in self.criteria}
        ids = {one: one.partition(":")[0] for one in criteria}
        passes = self.status == "ACCEPTED"
        failed = [name for name, how in (("build", self.build), ("tests", self.tests)) if how == "FAILED"]
        against = [f"{one} FAILED" for one in failed] + ([] if self.files_verified else ["files_verified: false"])
        against += [_line(one) for one in self.issues if not passes or one.criterion in ids.values()]
        return Claim(
            passes=passes,
            checks=tuple((one.command, "green" if one.exit == 0 else "red", one.expected) for one in self.checks),
            criteria=tuple((one, named.get(name, True)) for one, name in ids.items() if not named or name in named),
            blocking=tuple(against) if passes or against else ("REJECTED",),
            notes=tuple(_line(one) for one in self.issues),
            explained=tuple(one.path for one in self.weakened),
            reads_only=True,
        )


def _line(issue: Issue) -> str:
    return " ".join(filter(None, (issue.task, *issue.files, issue.problem, issue.evidence)))


AUTO_ACCEPTED = {
    **{"status": "ACCEPTED", "mode": "auto-accept-trivial", "build": "PASSED", "tests": "PASSED"},
    **{"files_verified": True, "notes": "Trivial-graph auto-accepted: 1 task, build green, tests green."},
}


class Executed(Form):
    """What task-executor and Developer may answer (4.8)."""

    status: Literal["SYNTAX_VALID", "ACCEPTED", "REJECTED", "SYNTAX_ERROR", "ERROR"] = "SYNTAX_VALID"
    first_code_change_at: str | None = None
    checks: list[Any] = []
    notes: str = ""
    already_so: list[str] = Field(default=[], description="If nothing has to be done: the commands that show it.")


# --- plan.md, log.jsonl, .gitignore

_DEFERRED = re.compile(
    r"(?<!\w)(confirm later|research later|need to research|further research required|figure out|where available|"
    r"if different|determine later|TBD|TODO(?!\.md))(?!\w)",
    re.IGNORECASE,
)


def deferrals(plan: str) -> list[str]:
    """The lines of a plan that put research off; what stands in code is quoted, and says nothing."""
    lines = Markdown(plan).open_lines(None, deep=True)
    return [line.text.strip() for line in lines if _DEFERRED.search(re.sub(r"`[^`]*`", "", line.text))]


def has_title(plan: str) -> bool:
    return any(section.level == 1 for section in Markdown(plan).sections)


def appended(events: Sequence[Mapping[str, Any]]) -> Callable[[str], str]:
    """An edit: these events end the log, numbered by their line."""

    def told(first: int) -> list[str]:
        numbered = ({"ts": one["ts"], "seq": n, **one} for n, one in enumerate(events, first))
        return [json.dumps(one, ensure_ascii=False) for one in numbered]

    def edit(text: str) -> str:
        lines = text.splitlines()
        before = max(0, len(lines) - len(events))
        return text if lines[before:] == told(before + 1) else "\n".join([*lines, *told(len(lines) + 1), ""])

    return edit


def ignoring(text: str) -> str:
    """A .gitignore with our two lines."""
    known = {line.strip() for line in text.splitlines()}
    missing = [line for line in IGNORED if line not in known and f"/{line}" not in known]
    gap = "\n" if text and missing and not text.endswith("\n") else ""
    return f"{text}{gap}" + "".join(f"{line}\n" for line in missing)
