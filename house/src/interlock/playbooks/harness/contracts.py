"""`harness/standards/stage-input-contracts.md`: what a stage may read and write (4.6).

As people write it: a section per stage, which stands whole in its brief; or exact, in a fenced block of YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field

from interlock.documents.markdown import Markdown, Section, bullet, cells, label, markdown
from interlock.documents.model import Model
from interlock.documents.problems import load
from interlock.documents.reading import read_yaml
from interlock.errors import BadInput, DocumentInvalid, place
from interlock.playbooks.harness.stages import CONTRACTS, KEPT_OUT, WORKED, Stage, called
from interlock.playbooks.harness.task_file import Task, wrong
from interlock.workspace import scope

_QUOTED = re.compile(r"`([^`\n]+)`")
_PART = r"(?:[\w.@*?-]|<[^<>]*>|\{[^}]*\}+)+"
_PATH = re.compile(rf"(?:{_PART}/)+(?:{_PART})?|{_PART}\.\w+")
_ASKS, _ASKS_NOT = r"\brequire[sd]?\b", r"\b(?:not|never|optional|outputs?|produces?|writes?|forbidden)\b"
_HOLE = re.compile(r"\{\{?[^{}]*\}?\}|<[^<>]*>|\bTASK[_-]?ID\b")


class Structure(Model):
    headings: tuple[str, ...] = ()


class Exact(Model):
    """A contract as a block of YAML."""

    stage: str
    required: tuple[str, ...] = Field(min_length=1)
    optional: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    min_structure: Structure | None = None


class Contract(Model):
    """What a stage may read and write, and what its artifact must contain."""

    prose: str = ""
    """The section as people wrote it; empty where it is exact."""
    required: tuple[str, ...]
    """Paths, folders and patterns; `task_file` and `artifact:STAGE` stand for those of the task."""
    optional: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Globs beside the artifact, without all that is governed."""
    headings: tuple[str, ...] = ()
    """Of its artifact, beside a title."""


@lru_cache(maxsize=16)
def read_contracts(text: str) -> dict[Stage, Contract]:
    """The contract of each stage.

    Raises:
        BadInput: stages without one; a block that cannot be used.
    """
    page = markdown(text)
    found = dict(_exact(page))
    for section in page.sections:
        if (stage := called(section.title)) in WORKED:
            found.setdefault(stage, _prose(page, section, stage))
    if missing := [f"No input contract for stage {stage} in {CONTRACTS}" for stage in WORKED if stage not in found]:
        raise BadInput.together([wrong(one, CONTRACTS) for one in missing])
    return found


def _exact(page: Markdown) -> Iterator[tuple[Stage, Contract]]:
    for fence in (*page.fences("yaml"), *page.fences("yml")):
        source = read_yaml(fence.content, CONTRACTS, first_line=fence.line + 1)
        if not isinstance(source.data, dict) or "stage" not in source.data:
            continue
        one = load(Exact, source)
        stage, names = called(one.stage), [*one.required, *one.optional, *one.writes]
        odd = [name for name in names if not re.fullmatch(r"task_file|artifact:.+|path:\S.*", name)]
        odd += [name for name in names if name.startswith("artifact:") and called(name[9:]) not in WORKED]
        if stage not in WORKED or odd:
            raise DocumentInvalid(
                f"{CONTRACTS}: malformed: " + (f'"{odd[0]}" is no input' if odd else f'"{one.stage}" is no stage'),
                where=place(CONTRACTS, fence.line),
                expected="task_file, artifact:STAGE or path:PATH" if odd else ", ".join(WORKED),
            )
        yield (
            stage,
            Contract(
                required=one.required,
                optional=one.optional,
                writes=_writes(stage, tuple(name[5:] for name in one.writes if name.startswith("path:"))),
                headings=one.min_structure.headings if one.min_structure else (),
            ),
        )


def _prose(page: Markdown, section: Section, stage: Stage) -> Contract:
    """Paths in back-quotes that it lists as required, and those that it names beside."""
    required, named, listing = list[str](), list[str](), ""
    lines = page.text.split("\n")[section.line - 1 : section.end - 1]
    for line in lines[1:]:
        row, named_so = cells(line), label(line)
        heading = line.lstrip("# ") if line.startswith("#") else row[0] if row else named_so["name"] if named_so else ""
        if heading and not _QUOTED.search(heading):
            listing = heading.casefold()
        elif line.strip() and not bullet(line) and not row:
            listing = line.casefold()
        paths = [path.strip() for path in _QUOTED.findall(line) if _PATH.fullmatch(path.strip())]
        own = _QUOTED.sub("", line).casefold()
        words = own if re.search(f"{_ASKS}|{_ASKS_NOT}", own) else listing
        (required if re.search(_ASKS, words) and not re.search(_ASKS_NOT, words) else named).extend(paths)
    return Contract(
        prose="\n".join(lines).strip(),
        required=tuple(required),
        optional=tuple(named),
        writes=_writes(stage, ()),
    )


def _writes(stage: Stage, globs: tuple[str, ...]) -> tuple[str, ...]:
    globs = globs or (("**",) if stage is Stage.BUILD else ())
    return (*globs, *KEPT_OUT) if globs else ()


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
