"""`plan.md` and `tasks/*.md`, as planners and people write them: waves of tasks, checked as a whole (4.5, 4.6)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, ValidationError, field_validator

from interlock.documents.markdown import bullet, cells, front_matter, markdown
from interlock.engine.kept import Kept, Listed
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature.answers import NOTHING
from interlock.playbooks.feature.members import WORKERS

WAVES = "## Execution Waves"
_ID = re.compile(r"[A-Za-z0-9_-]+")
_WAVE = re.compile(
    r"\s*(?:(#{1,6}\s+|[-*+]?\s*[*_]{2}|\|\s*[*_]*)|(?:[-*+]\s+)?)wave\s+(?P<number>\d+)"
    r"(?(1)\b|\s*(?:\([^)]*\))?\s*:)",
    re.IGNORECASE,
)
"""A heading, something bold, a row of a table; other lines with a colon behind it."""
_LABELS = {
    "depends_on": ("depends on", "depends_on", "dependencies"),
    "agent": ("agent",),
    "acceptance": ("acceptance", "acceptance criteria"),
}
"""Of fields, as people write them below the front matter or without any."""


class PlanBroken(Exception):
    """A plan that cannot be carried out; each argument is a complaint."""


Name = Annotated[str, BeforeValidator(lambda it: re.sub(r"[\s_]+", "-", str(it).strip().casefold()))]
"""Of an agent, as people write it: `Documentation Writer`."""


class Task(Kept):
    """What of a task file is acted on."""

    id: str
    agent: Name = "implementer"
    depends_on: Listed = []
    files: Listed = ["**"]
    acceptance: Listed = []

    @field_validator("files")
    @classmethod
    def _inside(cls, globs: list[str]) -> list[str]:
        for glob in globs:
            if not glob or glob.startswith(("/", "~", "!")) or ".." in glob.split("/"):
                raise ValueError(f'"{glob}" is not a path pattern inside the workspace')
        return globs

    @property
    def worker(self) -> str:
        """Who does it (FT-14)."""
        return self.agent if self.agent in WORKERS else "implementer"

    @property
    def member(self) -> str:
        return f"{self.worker}-{self.id}"

    @property
    def scope(self) -> tuple[str, ...]:
        return (*self.files, "!docs/feature/**")


@dataclass(frozen=True)
class Plan:
    """What is still to be done."""

    waves: tuple[tuple[str, ...], ...]
    tasks: Mapping[str, Task]
    """All of which there is a file."""
    added: tuple[str, ...] = ()
    """Tasks that no wave lists: they make up the last one (FT-161)."""


def read_task(name: str, text: str, known: Collection[str] = ()) -> Task:
    """The task of `tasks/<name>.md`, one of these; PlanBroken says what is wrong."""
    path = f"tasks/{name}.md"
    if not _ID.fullmatch(name):
        raise PlanBroken(f"{path}: {name!r} is no task id: letters, digits, '-' and '_'")
    try:
        front = front_matter(text, path)
    except DocumentInvalid as error:
        line = re.search(r":(\d+)", error.where or ":1")
        raise PlanBroken(f"{path}: frontmatter is not valid YAML: line {line and line[1]} ({error.what})") from None
    data = {field: value for field in Task.model_fields if (value := front.source.data.get(field)) not in (None, "")}
    for field, names in _LABELS.items():
        said = next(filter(None, (front.body.values(one, ticked=False) for one in names)), None)
        if said and field not in data:
            data[field] = said[0] if field == "agent" else said
    needed = data.get("depends_on", [])
    data["depends_on"] = list(_ids(needed.split(",") if isinstance(needed, str) else map(str, needed), known))
    try:
        task = Task.model_validate({"id": name, **data})
    except ValidationError as error:
        found = [f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise PlanBroken(*found) from None
    if task.id != name:
        raise PlanBroken(f"{path}: id is {task.id!r}, expected {name!r}")
    return task


def _ids(said: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """The tasks that are named: what stands by itself, and of more words those that there are."""
    for one in map(str.strip, said):
        alone = one if one.casefold() not in NOTHING else ""
        yield from (word for word in _ID.findall(one) if word in known or word == alone)


def read_plan(text: str | None, files: Mapping[str, str], *, begun: Collection[str] = ()) -> Plan:
    """The waves that are still to be done, in order.

    Args:
        files: id -> text of each task file.
        begun: tasks that were begun, and are no longer anybody's to plan.

    Raises:
        PlanBroken: with all that is wrong with it.
    """
    if text is None:
        raise PlanBroken("plan.md is missing")
    tasks: dict[str, Task] = {}
    problems: list[str] = []
    for name in sorted(files):
        try:
            tasks[name] = read_task(name, files[name], {*files, *begun})
        except PlanBroken as broken:
            problems += broken.args
    listed = list(dict.fromkeys(_listed(text, {*files, *begun})))
    if not listed:
        found = markdown(text).find(WAVES)
        problems.append("plan.md: no wave" if found else f'plan.md: section "{WAVES}" not found')
    at: dict[str, int] = {}
    for number, name in sorted(listed, key=lambda one: one[0]):
        if at.setdefault(name, number) != number:
            problems.append(f"plan.md: {name} stands in wave {at[name]} and in wave {number}")
        if name not in files and name not in begun:
            problems.append(f"plan.md: wave {number} lists {name} but tasks/{name}.md does not exist")
    added = tuple(name for name in tasks if name not in at and name not in begun)
    at |= dict.fromkeys(added, max(at.values(), default=0) + 1)
    for name, task in tasks.items():
        for needed in task.depends_on if name not in begun else ():
            if needed not in at and needed not in begun:
                problems.append(f"{name} (wave {at[name]}) depends on {needed}; no such task")
            elif needed not in begun and at[needed] >= at[name]:
                problems.append(f"{name} (wave {at[name]}) depends on {needed} (wave {at[needed]})")
    if problems:
        raise PlanBroken(*problems)
    open_ones = {name: number for name, number in at.items() if name not in begun}
    waves = (tuple(name for name, at in open_ones.items() if at == one) for one in sorted(set(open_ones.values())))
    return Plan(tuple(waves), tasks, added)


def _listed(text: str, known: Collection[str]) -> Iterator[tuple[int, str]]:
    """Wave and task of each bullet and row, in the order of the text."""
    page = markdown(text)
    wave, deepest, table = 0, 0, False
    for line, _ in page.open_lines(WAVES if page.find(WAVES) else None, deep=True):
        found, row, item = _WAVE.match(line), cells(line), bullet(line)
        table = bool(row) and (table or row[0].strip("*_` ").casefold() == "wave")
        if row and (found or table):
            wave = int(number[0]) if (number := re.search(r"\d+", row[0])) else wave
            known_ones = ([one for one in _ID.findall(cell) if one in known] for cell in row[1:])
            yield from ((wave, one) for one in next(filter(None, known_ones), ()))
        elif found:
            wave, deepest = int(found["number"]), len(line)
            yield from ((wave, one) for one in _ID.findall(line[found.end() :]) if one in known)
        elif line.startswith("#"):
            wave = 0
        elif wave and item and len(line) - len(line.lstrip()) <= deepest:
            deepest = len(line) - len(line.lstrip())
            words = _ID.findall(item[1])
            yield from ((wave, one) for one in [next((one for one in words if one in known), *words[:1])][:1])


def sample(feature: str, name: str) -> dict[str, str]:
    """A plan that would do, for who plays by script."""
    task = f"---\nid: {name}\ntitle: a first task\nacceptance:\n  - it is done\n---\n\nDo it.\n"
    return {
        f"{feature}/plan.md": f"# Plan\n\n{WAVES}\n\n### Wave 1\n\n- {name}: a first task\n",
        f"{feature}/tasks/{name}.md": task,
    }
