"""The durable description of one task, `harness/tasks/<TASKID>.md`: read, never guessed at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from interlock.documents import Document, DocumentState, Sections, one_line, plain_parts
from interlock.engine import Scope
from interlock.errors import PathRefused
from interlock.playbooks.harness.escalation import Escalation, FoundProblems, text_of
from interlock.playbooks.harness.stages import Lifecycle

FOLDER = "harness/tasks"
GOVERNED = (
    "harness/run-state.md",
    "harness/runs/**",
    "harness/standards/**",
    "harness/templates/**",
    "harness/roles/**",
    "harness/tasks/**",
    ".github/agents/**",
)
"""What no agent may change: workflow state, and what the workflow is governed by."""
_GOVERNED = Scope((*GOVERNED, ".interlock/**"))
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


class WorkflowMode(StrEnum):
    STANDARD = "standard"
    SUPERVISED = "supervised"
    AUTONOMOUS = "autonomous"

    @property
    def asks(self) -> bool:
        """Whether people approve."""
        return self is not WorkflowMode.AUTONOMOUS


@dataclass(frozen=True)
class Task:
    """What a task file says."""

    task_id: str
    title: str
    path: str
    objective: str
    criteria: tuple[str, ...]
    artifacts: Mapping[str, str]
    """By stage."""
    asks: Mapping[str, bool]
    """Which gates people have to open, by the stage that they open."""


def task_path(task_id: str) -> str:
    return f"{FOLDER}/{task_id}.md"


def named_task(text: str) -> str:
    """The Task ID in what a person typed: an id, or the path of its file; Escalation when it can be neither."""
    name = text.strip().removeprefix("./").removeprefix(f"{FOLDER}/").removesuffix(".md")
    if _TASK_ID.fullmatch(name):
        return name
    raise Escalation(
        FOLDER,
        f"{one_line(text)!r} is not a Task ID",
        "Name a task by its id, for example TASK-012; ids have letters, digits and hyphens.",
    )


def parse_task(document: Document, lifecycle: Lifecycle) -> Task:
    """The task; Escalation says all that is missing or wrong in its file."""
    path = document.path
    if document.state is DocumentState.MISSING:
        raise Escalation(path, f"Task file not found: {path}", f"Write it, or name a task that has a file in {FOLDER}.")
    text, problems = Sections(text_of(document), path), FoundProblems()
    title = next((section for section in text.sections if section.level == 1 and section.title), None)
    if title is None:
        raise Escalation(*missing(path, "Title", "Begin the file with a line '# <title>'."))
    fields = {name: found.value for name, found in text.fields(title.heading).items()}
    with problems.noted():
        _check_id(_value(fields, "Task ID"), path)
    if not (objective := _body(text, "## Objective").strip()):
        problems.add(*missing(path, "Objective", "Say under '## Objective' what the task is for."))
    if not (criteria := _bullets(text, "## Acceptance Criteria")):
        problems.add(*missing(path, "Acceptance Criteria", "List at least one under '## Acceptance Criteria'."))
    default, artifacts, asks = True, dict[str, str](), dict[str, bool]()
    with problems.noted():
        default = _mode(_value(fields, "Workflow Mode"), path).asks
    with problems.noted():
        artifacts = dict(artifact_paths(text, path, lifecycle))
    for _, gate in lifecycle.gates:
        with problems.noted():
            asks[gate.opens] = yes_or_no(fields, gate.setting, path, default)
    problems.settle()
    return Task(
        task_id=_value(fields, "Task ID"),
        title=one_line(title.title),
        path=path,
        objective=objective,
        criteria=criteria,
        artifacts=artifacts,
        asks=asks,
    )


def _check_id(task_id: str, path: str) -> None:
    if not task_id:
        raise Escalation(*missing(path, "Task ID", "Add a line '- Task ID: <id>' below the title."))
    if not _TASK_ID.fullmatch(task_id):
        raise Escalation(
            path,
            f"{path}: Task ID {one_line(task_id)!r} is malformed",
            "Use letters, digits and hyphens, beginning with a letter or digit.",
        )
    file = PurePosixPath(path).name
    if file != f"{task_id}.md":
        raise Escalation(
            path, f"Task ID {task_id} does not match file {file}", "Rename the file, or correct the Task ID."
        )


def artifact_paths(text: Sections, path: str, lifecycle: Lifecycle) -> Mapping[str, str]:
    """The paths under `## Artifact Paths`, each checked: one for each stage that works, but for optional ones that take
    no part; shared by task file and run-state."""
    fields = text.fields("## Artifact Paths") if text.find("## Artifact Paths") else {}
    named = {name: field.value.strip("` ") for name, field in fields.items()}
    found = {stage.name: named.get(stage.name, "") for stage in lifecycle.taken(named).working}
    problems = FoundProblems()
    for stage, place in found.items():
        if not place:
            cure = f"Add '- {stage}: <path>' under '## Artifact Paths'."
            problems.add(*missing(path, f"Artifact path for {stage}", cure))
    for problem in problems_of({stage: place for stage, place in found.items() if place}):
        problems.add(path, problem, f"Correct '## Artifact Paths' in {path}.")
    problems.settle()
    return found


def problems_of(paths: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with artifact paths: outside the repository, governed, or the same."""
    seen: dict[PurePosixPath, str] = {}
    for stage, path in paths.items():
        place = PurePosixPath(path)
        if leaves(path):
            yield f"Artifact path for {stage} leaves the repository: {path}"
        elif set("*?") & set(path):
            yield f"Artifact path for {stage} is a pattern: {path}"
        elif is_governed(path):
            yield f"Artifact path for {stage} is not an agent's to write: {path}"
        elif place in seen:
            yield f"Artifact paths for {seen[place]} and {stage} are the same: {path}"
        seen.setdefault(place, stage)


def leaves(path: str) -> bool:
    """Whether a path is not a plain relative one."""
    try:
        return not plain_parts(path)
    except PathRefused:
        return True


def is_governed(path: str) -> bool:
    """Whether no contract can make this an agent's file."""
    return _GOVERNED.covers(path)


def yes_or_no(fields: Mapping[str, str], name: str, path: str, default: bool | None) -> bool:
    """An approval setting; Escalation unless it is Yes or No (or left out, where there is a default)."""
    value = _value(fields, name)
    if not value and default is not None:
        return default
    if value not in ("Yes", "No"):
        raise Escalation(path, f'{name}: "{one_line(value)}"; expected Yes or No', f"Write Yes or No there in {path}.")
    return value == "Yes"


def with_approval(document: Document, gate: str, who: str, at: str) -> str | None:
    """The task file's text with an approval recorded under `## Approval`; None when it has no field for it."""
    text = Sections(document.text, document.path)
    name = f"{gate} Approved By"
    if text.find("## Approval") is None or name not in text.fields("## Approval"):
        return None
    return text.set_field(name, f"{who} {at}", "## Approval").text


def missing(path: str, what: str, cure: str) -> tuple[str, str, str]:
    return path, f"{path}: required metadata missing: {what}", cure


def _value(fields: Mapping[str, str], name: str) -> str:
    """A field's value without a trailing comment."""
    return re.sub(r"(?:^|\s)#.*$", "", fields.get(name, "")).strip()


def _mode(value: str, path: str) -> WorkflowMode:
    if not value:
        return WorkflowMode.STANDARD
    try:
        return WorkflowMode(value)
    except ValueError:
        raise Escalation(
            path,
            f'Workflow Mode: "{one_line(value)}"; expected {", ".join(WorkflowMode)}',
            f"Choose one of them in {path}.",
        ) from None


def _body(text: Sections, title: str) -> str:
    return text.body(title) if text.find(title) else ""


def _bullets(text: Sections, title: str) -> tuple[str, ...]:
    items = text.items(title) if text.find(title) else ()
    return tuple(one_line(item.text) for item in items if item.text.strip())
