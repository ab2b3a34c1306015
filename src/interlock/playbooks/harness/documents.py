"""What people write, read as they write it: `harness/tasks/<TASKID>.md` (4.2), and the input contracts (4.6).

A contract is a section per stage, which stands whole in its brief; or exact, in a fenced block of YAML.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator

from interlock.documents.markdown import Markdown, Section, bullet, markdown, plain_value
from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import read_yaml
from interlock.errors import BadInput, DocumentInvalid, place
from interlock.playbooks.harness.stages import CONTRACTS, GOVERNED, KEPT_OUT, TASKS, WORKED, Stage, StageName, called
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

    criteria, named = _criteria(page), paths_in(page)
    objective = any(page.under(name, deep=True).strip() or page.value(name) for name in OBJECTIVE)
    needed = {"Title": title, "Task ID": found, "Objective": objective, "Acceptance Criteria": criteria}
    if missing := [name for name, there in needed.items() if not there]:
        problems.append(f"{path}: required metadata missing: {', '.join(missing)}")
    if found and not _ID.fullmatch(found):
        problems.append(f'{path}: Task ID "{found}" is none; expected letters, digits and hyphens')
    elif found and stem != found:
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
    asks = {"before_build": bool(yes(said[BEFORE_BUILD])), "before_complete": bool(yes(said[BEFORE_COMPLETE]))}
    defaults = tuple(stage for stage in WORKED if stage not in named)
    return Task(id=found, path=path, title=title, criteria=criteria, paths=paths, defaults=defaults, **asks)


def default_path(task: str, stage: Stage) -> str:
    return f"harness/artifacts/{task}/{stage.lower().replace(' ', '-')}.md"


def yes(value: str) -> bool | None:
    """None: it says neither."""
    return {"yes": True, "true": True, "no": False, "false": False}.get(value.casefold())


def paths_in(page: Markdown) -> dict[Stage, str]:
    """The artifact paths that a document lists: bullets `Stage: path`, or a table of the two."""
    listed = [one.partition(":")[::2] for one in page.values("Artifact Paths", ticked=False) or ()]
    pairs: Iterable[tuple[str, ...]] = [*listed, *(row.cells[:2] for row in page.rows("Artifact Paths"))]
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


# --- stage-input-contracts.md

_QUOTED = re.compile(r"`([^`\n]+)`")
_PART = r"(?:[\w.@*?-]|<[^<>]*>|\{[^}]*\}+)+"
_PATH = re.compile(rf"(?:{_PART}/)+(?:{_PART})?|{_PART}\.\w+")
_ASKS, _ASKS_NOT = r"\brequire[sd]?\b", r"\b(?:not|never|optional|outputs?|produces?|writes?|forbidden)\b"
_HOLE = re.compile(r"\{\{?[^{}]*\}?\}|<[^<>]*>|\bTASK[_-]?ID\b")


def _known(name: str) -> str:
    kind, _, rest = name.partition(":")
    known = called(rest) in WORKED if kind == "artifact" else rest.strip() if kind == "path" else name == "task_file"
    if not known:
        raise ValueError("malformed; expected task_file, artifact:STAGE or path:PATH")
    return name


Inputs = tuple[Annotated[str, AfterValidator(_known)], ...]


class Structure(Model):
    headings: tuple[str, ...] = ()


class Contract(Model):
    """What a stage may read and write, and what its artifact must contain beside a title: an exact one is such a block
    of YAML."""

    stage: StageName
    required: Inputs
    optional: Inputs = ()
    writes: Inputs = ()
    min_structure: Structure = Structure()
    prose: str = ""
    """The section as people wrote it; empty where it is exact."""

    @property
    def headings(self) -> tuple[str, ...]:
        return self.min_structure.headings

    @property
    def scope(self) -> tuple[str, ...]:
        """Globs that may be written beside the artifact, without all that is governed."""
        named = tuple(one[5:] for one in self.writes if one.startswith("path:"))
        globs = named or (("**",) if self.stage == Stage.BUILD else ())
        return (*globs, *KEPT_OUT) if globs else ()


@lru_cache(maxsize=16)
def read_contracts(text: str) -> dict[Stage, Contract]:
    """The contract of each stage.

    Raises:
        BadInput: stages without one; a block that cannot be used.
    """
    page, found = markdown(text), dict[Stage, Contract]()
    for fence in (*page.fences("yaml"), *page.fences("yml")):
        source = read_yaml(fence.content, CONTRACTS, first_line=fence.line + 1)
        if isinstance(source.data, dict) and "stage" in source.data:
            one = load(Contract, source)
            found[Stage(one.stage)] = one
    for section in sorted(page.sections, key=_distance):
        if (stage := called(section.title)) in WORKED:
            found.setdefault(stage, _prose(text.split("\n")[section.line - 1 : section.end - 1], stage))
    if missing := [f"No input contract for stage {stage} in {CONTRACTS}" for stage in WORKED if stage not in found]:
        raise BadInput.together([wrong(one, CONTRACTS) for one in missing])
    return {stage: found[stage] for stage in WORKED}


def _distance(section: Section) -> tuple[bool, int]:
    """How far a heading is from a stage's name: "Design" is its contract's before "Design principles" is."""
    return section.title.casefold() not in map(str.casefold, WORKED), len(section.title)


def _prose(lines: Sequence[str], stage: Stage) -> Contract:
    """Paths in back-quotes that it lists as required, and those that it names beside. A line without a path says it of
    those below it."""
    required, named, listing = list[str](), list[str](), ""
    for line in lines[1:]:
        own = _QUOTED.sub("", line).casefold()
        says = re.search(f"{_ASKS}|{_ASKS_NOT}", own)
        paths = [f"path:{path.strip()}" for path in _QUOTED.findall(line) if _PATH.fullmatch(path.strip())]
        if not paths and line.strip() and (says or not bullet(line)):
            listing = own
        words = own if says else listing
        (required if re.search(_ASKS, words) and not re.search(_ASKS_NOT, words) else named).extend(paths)
    prose = "\n".join(lines).strip()
    return Contract(stage=stage, prose=prose, required=tuple(required), optional=tuple(named))


def place_of(name: str, task: Task) -> str:
    """The path, folder or pattern that an input stands for."""
    stage = called(name[9:]) if name.startswith("artifact:") else None
    if stage is not None or name == "task_file":
        return task.paths[stage] if stage else task.path
    return _HOLE.sub(lambda hole: task.id if "task" in hole[0].casefold() else "*", name.removeprefix("path:"))


def present(look: Any, paths: Sequence[str]) -> list[str]:
    """Those inputs that are there with something in them: a file, a folder, or one that fits the pattern."""

    def is_there(path: str) -> bool:
        if re.search(r"[*?]", path):
            return any(scope.within(one, (path,)) for one in look.paths())
        text, folder = look.read(path.rstrip("/")), f"{path.rstrip('/')}/"
        return any(one.startswith(folder) for one in look.paths()) if text is None else bool(text.strip())

    return [path for path in paths if is_there(path)]
