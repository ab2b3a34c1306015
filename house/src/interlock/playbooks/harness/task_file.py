"""`harness/tasks/<TASKID>.md`, read as people write it (4.2)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from interlock.documents.markdown import Markdown, markdown, plain_value
from interlock.documents.model import Model
from interlock.errors import BadInput, DocumentInvalid, place
from interlock.playbooks.harness.stages import GOVERNED, TASKS, WORKED, Stage, called
from interlock.workspace import scope

BEFORE_BUILD, BEFORE_COMPLETE = "Require Approval Before Build", "Require Approval Before Complete"
MODES = {"standard": "Yes", "supervised": "Yes", "autonomous": "No"}
"""Whether people approve before Build and before Complete."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_MARK = re.compile(r"[*_`]*([A-Z]{1,5}-?\d+(?:\.\d+)*)[*_`]*[\s:.)\u2013\u2014-]")
OBJECTIVE = ("Objective", "Goal", "Description", "Summary")
"""What is to be reached, by the names that people give it."""
_MARKED = re.compile(r"\]\(([^()]+)\)|`([^`]+)`")
"""A path as a link or as code, with words beside it."""
_NOWHERE = ("", "...", "\u2026", "tbd", "none", "-")


class Task(Model):
    id: str
    path: str
    title: str
    criteria: tuple[str, ...]
    """Each begins with its mark."""
    paths: dict[Stage, str]
    defaults: tuple[Stage, ...]
    """Stages for which the file names no path."""
    before_build: bool
    before_complete: bool


def task_file(task: str) -> str:
    return f"{TASKS}/{task}.md"


def belongs(name: str, task: str) -> bool:
    """Whether a file of that name is the task's: it begins with the Task ID, in any case."""
    return re.match(rf"{re.escape(task)}(?![A-Za-z0-9])", name, re.IGNORECASE) is not None


def wrong(what: str, path: str) -> BadInput:
    return DocumentInvalid(what, where=place(path))


@lru_cache(maxsize=64)
def read_task(text: str, path: str) -> Task:
    """The task in its file.

    Raises:
        BadInput: with all that is missing or wrong.
    """
    page, problems = markdown(text), list[str]()
    found, stem = page.value("Task ID") or "", posixpath.basename(path).removesuffix(".md")
    title = next((one.title for one in page.sections if one.level == 1), page.value("Task Title") or "")
    title = title.removeprefix(found).lstrip(" :\u2013\u2014-") or title
    criteria, named = _criteria(page), paths_in(page)
    objective = any(page.under(name, deep=True).strip() or page.value(name) for name in OBJECTIVE)
    needed = {"Title": title, "Task ID": found, "Objective": objective, "Acceptance Criteria": criteria}
    if missing := [name for name, there in needed.items() if not there]:
        problems.append(f"{path}: required metadata missing: {', '.join(missing)}")
    if found and not _ID.fullmatch(found):
        problems.append(f'{path}: Task ID "{found}" is none; expected letters, digits and hyphens')
    elif found and not belongs(stem, found):
        problems.append(f"Task ID {found} does not match file {stem}.md")
    mode = (page.value("Workflow Mode") or "standard").casefold()
    if mode not in MODES:
        problems.append(f'Workflow Mode: "{mode}"; expected {", ".join(MODES)}')
    said = {name: page.value(name) or MODES.get(mode, "Yes") for name in (BEFORE_BUILD, BEFORE_COMPLETE)}
    problems += [f'{name}: "{one}"; expected Yes or No' for name, one in said.items() if yes(one) is None]
    paths = {stage: named.get(stage) or default_path(found, stage) for stage in WORKED}
    problems += _wrong_paths(paths)
    if problems:
        raise BadInput.together([wrong(problem, path) for problem in problems])
    return Task(
        id=found,
        path=path,
        title=title,
        criteria=criteria,
        paths=paths,
        defaults=tuple(stage for stage in WORKED if stage not in named),
        before_build=bool(yes(said[BEFORE_BUILD])),
        before_complete=bool(yes(said[BEFORE_COMPLETE])),
    )


def default_path(task: str, stage: Stage) -> str:
    return f"harness/artifacts/{task}/{stage.lower().replace(' ', '-')}.md"


def yes(value: str) -> bool | None:
    """None: it says neither."""
    return {"yes": True, "true": True, "no": False, "false": False}.get(value.casefold())


def paths_in(page: Markdown) -> dict[Stage, str]:
    """The artifact paths that a document lists: bullets `Stage: path`, or a table of the two."""
    named = [one.title for one in page.sections if "artifact" in one.title.casefold()]
    title = "Artifact Paths" if page.field("Artifact Paths") or not named else named[0]
    listed = [one.partition(":")[::2] for one in page.values(title, ticked=False) or ()]
    pairs: Iterable[tuple[str, ...]] = [*listed, *(row.cells[:2] for row in page.rows(title))]
    found: dict[Stage, str] = {}
    for name, path in (pair for pair in pairs if len(pair) == 2):
        marked = _MARKED.search(path)
        stage, value = called(name), plain_value(marked[1] or marked[2] if marked else path).removeprefix("./")
        if stage in WORKED and value.casefold() not in _NOWHERE:
            found.setdefault(stage, value)
    return found


def _criteria(page: Markdown) -> tuple[str, ...]:
    """As bullets, numbers, boxes or rows, each with the mark that all of them have, else with AC1, AC2, ..."""
    listed = [" ".join(item.text.split()) for item in page.items("Acceptance Criteria")]
    listed = listed or [": ".join(filter(None, row.cells)) for row in page.rows("Acceptance Criteria")[1:]]
    listed = listed or page.values("Acceptance Criteria", ticked=False) or []
    texts = [one for one in listed if one.casefold().strip(" .") not in _NOWHERE]
    marks = {found[1] for one in texts if (found := _MARK.match(one))}
    return tuple(texts if len(marks) == len(texts) else (f"AC{n}: {one}" for n, one in enumerate(texts, 1)))


def mark_of(criterion: str) -> str:
    """The mark with which a criterion begins."""
    found: Any = _MARK.match(criterion)
    return found[1] if found else criterion


def _wrong_paths(paths: Mapping[Stage, str]) -> Iterable[str]:
    known = dict[str, Stage]()
    for stage, one in paths.items():
        if one.startswith(("/", "~")) or ".." in one.split("/") or re.match(r"[A-Za-z]:", one):
            yield f"Artifact path for {stage} leaves the repository: {one}"
        elif scope.within(one, GOVERNED):
            yield f"Artifact path for {stage} is governed: {one}"
        elif one in known:
            yield f"Artifact paths for {known[one]} and {stage} are the same: {one}"
        known.setdefault(one, stage)
