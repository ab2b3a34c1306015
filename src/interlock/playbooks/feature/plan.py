"""`plan.md` and `tasks/*.md`: waves of tasks, checked as a whole before anything is carried out; how they stand."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from interlock.documents import Sections, split_frontmatter
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature.members import TaskAgent

WAVES = "## Execution Waves"
TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,60}")
_WAVE = re.compile(r"wave\s+(\d+)\b.*", re.IGNORECASE | re.DOTALL)
_LISTED = re.compile(r"[*`]*(?P<id>[^\s:*`]+)[*`]*\s*(?::[*`]*\s*(?P<title>.*))?", re.DOTALL)


class PlanInvalid(DocumentInvalid):
    """A plan that cannot be carried out; `what` is the exact complaint."""

    def __init__(self, what: str, path: str = "plan.md", line: int | None = None) -> None:
        super().__init__(what, path=path, line=line)


@dataclass(frozen=True)
class Task:
    """One task file."""

    id: str
    title: str = ""
    agent: str = ""
    """As written; empty where the file says nothing."""
    depends_on: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Globs that the task may write; empty: everything outside of the features' documents."""
    acceptance: tuple[str, ...] = ()

    @property
    def worker(self) -> TaskAgent:
        """Who does it; an unknown name means an implementer."""
        return TaskAgent(self.agent) if self.agent in set(TaskAgent) else TaskAgent.IMPLEMENTER

    @property
    def agent_unknown(self) -> bool:
        return bool(self.agent) and self.agent not in set(TaskAgent)

    @property
    def member(self) -> str:
        return f"{self.worker}-{self.id}"


@dataclass(frozen=True)
class Wave:
    number: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Plan:
    """Waves in order, still to be carried out."""

    waves: tuple[Wave, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(task for wave in self.waves for task in wave.tasks)

    @property
    def last_wave(self) -> int:
        return max((wave.number for wave in self.waves), default=0)


@lru_cache(maxsize=256)
def listed_waves(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Number and task ids of each wave in `plan.md`, in order; `PlanInvalid` says what is wrong."""
    document = Sections(text, "plan.md")
    top = document.section(WAVES) if document.find(WAVES) else None
    if top is None:
        raise PlanInvalid(f'plan.md: section "{WAVES}" not found')
    waves: dict[int, tuple[str, ...]] = {}
    for section in document.sections:
        if not top.body_start <= section.start < top.end or not (found := _WAVE.fullmatch(section.title)):
            continue
        number, own = int(found[1]), Sections(text[section.start : section.own_end], "plan.md")
        if number in waves:
            raise PlanInvalid(f"plan.md: wave {number} appears twice", line=section.line)
        waves[number] = tuple(_id(item.text, number) for item in own.items(section.heading))
    if not any(waves.values()):
        raise PlanInvalid(f'plan.md: "{WAVES}" lists no task', line=top.line)
    where: dict[str, int] = {}
    for number, ids in sorted(waves.items()):
        for one in ids:
            if one in where:
                raise PlanInvalid(f"plan.md: {one} is listed twice (wave {where[one]} and wave {number})")
            where[one] = number
    return tuple(sorted(waves.items()))


def _id(item: str, wave: int) -> str:
    found = _LISTED.fullmatch(item.strip())
    if found is None or not TASK_ID.fullmatch(found["id"]):
        raise PlanInvalid(f'plan.md: wave {wave}: "{item.partition(chr(10))[0]}" does not begin with a task id')
    return found["id"]


@lru_cache(maxsize=1024)
def parse_task(task_id: str, text: str) -> Task:
    """The task of `tasks/<id>.md`; `PlanInvalid` says what is wrong."""
    path = f"tasks/{task_id}.md"
    try:
        data = split_frontmatter(text, path).data()
    except DocumentInvalid as error:
        raise PlanInvalid(error.what, path, error.line) from error
    if not TASK_ID.fullmatch(task_id):
        raise PlanInvalid(f'{path}: "{task_id}" is not a task id (letters, digits, "-" and "_", at most 60)', path)
    if str(data.get("id", task_id)) != task_id:
        raise PlanInvalid(f'{path}: id is "{data["id"]}"; expected {task_id}', path)
    return Task(
        task_id,
        title=_text(data, "title", path),
        agent=_text(data, "agent", path),
        depends_on=_texts(data, "depends_on", path),
        files=_texts(data, "files", path),
        acceptance=_texts(data, "acceptance", path),
    )


def _text(data: Mapping[str, object], name: str, path: str) -> str:
    value = data.get(name)
    if isinstance(value, (dict, list)):
        raise PlanInvalid(f"{path}: {name} must be a text", path)
    return "" if value is None else str(value)


def _texts(data: Mapping[str, object], name: str, path: str) -> tuple[str, ...]:
    value = data.get(name)
    items = [] if value is None else value if isinstance(value, list) else [value]
    if any(isinstance(one, (dict, list)) or one is None for one in items):
        raise PlanInvalid(f"{path}: {name} must be a list of texts", path)
    if name == "files":
        for one in map(str, items):
            if not one or one.startswith(("/", "~", "!")) or ".." in one.split("/"):
                raise PlanInvalid(f'{path}: files: "{one}" is not a path pattern inside the workspace', path)
    return tuple(map(str, items))


def read_plan(text: str, tasks: Mapping[str, str], *, done: Collection[str] = (), after: int = 0) -> Plan:
    """The waves still to be carried out, checked against the task files; `PlanInvalid` has the first problem.

    Args:
        tasks: id to text of every file in `tasks/`.
        done: tasks that earlier plans finished; they may stand in no wave.
        after: the number of the last wave that was carried out; a replan's waves come behind it, and are renumbered
            where they begin at 1 again.
    """
    waves = to_do(text, done, after)
    if not waves:
        raise PlanInvalid(f"plan.md: no wave after wave {after}")
    where = {one: number for number, ids in waves for one in ids}
    for one, number in where.items():
        if one not in tasks:
            raise PlanInvalid(f"plan.md: wave {number} lists {one} but tasks/{one}.md does not exist")
    known = {one: parse_task(one, tasks[one]) for one in tasks if one in where or one not in done}
    for one in sorted(known):
        if one not in where:
            raise PlanInvalid(f"tasks/{one}.md is in no wave", f"tasks/{one}.md")
    for one, number in where.items():
        for needed in known[one].depends_on:
            if needed in where:
                if where[needed] >= number:
                    raise PlanInvalid(f"{one} (wave {number}) depends on {needed} (wave {where[needed]})")
            elif needed not in done:
                raise PlanInvalid(f"{one} (wave {number}) depends on {needed}; no such task")
    return Plan(tuple(Wave(number, tuple(known[one] for one in ids)) for number, ids in waves if ids))


def to_do(text: str, done: Collection[str], after: int) -> list[tuple[int, tuple[str, ...]]]:
    """The waves that a plan adds to those that were carried out, with their numbers.

    A replan may keep the old waves or leave them out, and may count on or begin anew.  So of waves with old numbers
    only what is not done is meant; if any of it is, all waves are numbered behind the last one.
    """
    listed = listed_waves(text)
    kept = [(number, ids if number > after else tuple(one for one in ids if one not in done)) for number, ids in listed]
    kept = [(number, ids) for number, ids in kept if ids or number > after]
    if all(number > after for number, _ in kept):
        return kept
    return [(number, ids) for number, (_, ids) in enumerate((wave for wave in kept if wave[1]), after + 1)]


def sample_plan(first_wave: int, task_id: str) -> str:
    return f"# Plan\n\n{WAVES}\n\n### Wave {first_wave}\n\n- {task_id}: a first task\n"


def sample_task(task_id: str) -> str:
    return f"""---
id: {task_id}
title: a first task
agent: implementer
depends_on: []
acceptance:
  - it is done
---

Do it.
"""


def next_id(tasks: Collection[str]) -> str:
    """A task id that is not taken: T01, T02 ..."""
    numbers = [int(one[1:]) for one in tasks if re.fullmatch(r"T\d+", one)]
    return f"T{max(numbers, default=0) + 1:02}"


# -- how the tasks stand


class TaskProgress(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class TaskState:
    progress: TaskProgress = TaskProgress.PENDING
    why: str = ""
    """Why it failed, in one line."""
    conflict: str = ""
    """The conflict text, where what it changed could not be merged."""

    @property
    def shown(self) -> str:
        return f"{self.progress}: {self.why}" if self.why else self.progress.value


@dataclass
class Tasks:
    """The tasks of a run's plans."""

    plan: Plan = field(default_factory=Plan)
    """The one that is carried out."""
    listed: dict[str, Task] = field(default_factory=dict)
    """Every task that a plan listed, in the order of the plans."""
    states: dict[str, TaskState] = field(default_factory=dict)
    patches: dict[str, str] = field(default_factory=dict)
    """Where the last work of a task lies that was not taken over."""
    changed: set[str] = field(default_factory=set)
    """The files that task agents changed and whose work was taken over."""
    base: Any = None
    """The workspace before the first of them."""
    rounds: int = 0

    def of(self, progress: TaskProgress) -> list[str]:
        return [one for one, state in self.states.items() if state.progress is progress]

    @property
    def done(self) -> set[str]:
        return set(self.of(TaskProgress.DONE))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The tasks that are not done, each with how it stands."""
        waiting = [(one, state) for one, state in self.states.items() if state.progress is not TaskProgress.DONE]
        return tuple(f"task {one} {state.shown if state.why else 'was not begun'}" for one, state in waiting)

    @property
    def shown(self) -> str:
        lines = (f"{one}: {state.shown}\n{state.conflict}".rstrip() for one, state in self.states.items())
        return "\n".join(lines) or "none yet"

    @property
    def left_behind(self) -> dict[str, str]:
        """By failed task: the patch with what it had changed, none of which is in the tree."""
        return {one: self.patches[one] for one in self.of(TaskProgress.FAILED) if one in self.patches}

    def adopt(self, plan: Plan) -> None:
        """Make this the plan: its tasks are to be done; of earlier ones only those that are done remain."""
        done, new = self.done, {task.id: task for task in plan.tasks}
        self.listed = {one: task for one, task in self.listed.items() if one in done and one not in new} | new
        self.states = {one: TaskState() if one in new else TaskState(TaskProgress.DONE) for one in self.listed}
        self.plan = plan
