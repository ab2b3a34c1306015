"""What people write and the router reads: a task's entry in `TODO.md`, the header of a command file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from interlock.documents.markdown import bullet, cells, front_matter
from interlock.documents.problems import load
from interlock.errors import BadInput

TODO = ".opencode/specs/TODO.md"
GENERAL, LEAN = "general", "lean"
LANGUAGES = (LEAN, GENERAL, "markdown")
"""Known to the router; every other one is told, and goes to the default agent."""
ORCHESTRATOR = "orchestrator"


class Error(BadInput):
    """What a user is told, with a blank line between its parts; nothing was begun."""

    def __init__(self, *parts: str) -> None:
        super().__init__("\n\n".join((f"Error: {parts[0]}", *parts[1:])))


# --- the task list

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)")
_BOLD = re.compile(r"(?:\*\*|__)([^*_:]+?)(?::(?:\*\*|__)|(?:\*\*|__)[ \t]*:)(.*)")
_BARE = re.compile(r"(language|status|description)[ \t]*:(.*)", re.IGNORECASE)
_DESCRIPTION = re.compile(r"#{4,6}[ \t]+description[ \t]*:?[ \t#]*", re.IGNORECASE)


@dataclass(frozen=True)
class Task:
    """One task of the list: its heading, and its own fields."""

    number: str
    title: str
    language: str
    description: str
    status: str


def find_task(text: str | None, number: str) -> Task:
    """The entry below the one heading `### NUMBER.`"""
    if text is None:
        raise Error(f"{TODO} not found")
    lines = [(line.rstrip("\r"), is_code) for line, is_code in _lines(text)]
    found = [n for n, (line, is_code) in enumerate(lines) if not is_code and line.startswith(f"### {number}.")]
    if not found:
        shown = number if len(number) <= 40 else f"{number[:40]}…"
        raise Error(
            f"Task {shown} not found in TODO.md",
            f"Please verify the task number exists in {TODO}",
            f'You can list all tasks with: grep "^###" {TODO}',
        )
    if len(found) > 1:
        both = f"{', '.join(str(n + 1) for n in found[:-1])} and {found[-1] + 1}"
        raise Error(f"Task {number} appears twice in TODO.md (lines {both})")
    below = lines[found[0] + 1 :]
    end = next((n for n, (line, is_code) in enumerate(below) if not is_code and re.match(r"#{1,3}\s", line)), None)
    fields = _fields(below[:end])
    return Task(
        number=number,
        title=lines[found[0]][0].removeprefix(f"### {number}.").strip(),
        language=_language(fields.get("language", "")),
        description=fields.get("description") or fields[""],
        status=fields.get("status", "").strip("` "),
    )


def still_so(text: str | None, task: Task) -> bool:
    try:
        return find_task(text, task.number) == task
    except Error:
        return False


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is code in a fence."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line.rstrip())
        yield line, bool(fence or mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""


def _fields(lines: Sequence[tuple[str, bool]]) -> dict[str, str]:
    """The first of each name; a description goes on to the next field or heading; what is nobody's has no name."""
    found: dict[str, list[str]] = {"": []}
    name, depth = "", 0
    for line, is_code in lines:
        field = None if is_code else _field(line, depth if name == "description" else None)
        if field is not None:
            name, depth = field[0], -1 if cells(line) else len(line) - len(line.lstrip())
            if not found.setdefault(name, []):
                found[name].append(field[1])
            else:
                name = "again"
        elif not is_code and line.startswith("#"):
            name = ""
        elif name in ("", "description"):
            found[name].append(line)
        elif not line.strip():
            name = ""
    return {
        name: re.sub(r"(\n|^)[ \t]*([-*_][ \t]*){3,}\s*$", "", "\n".join(said)).strip() for name, said in found.items()
    }


def _field(line: str, within: int | None) -> tuple[str, str] | None:
    """A field's name in small letters, and the words beside it.

    Args:
        within: how deep the description is indented that goes on here, -1: it is a table's row. What stands deeper and
            is none of a task's own, or is not bold, is part of it.
    """
    if _DESCRIPTION.fullmatch(line):
        return "description", ""
    row = [cell.strip(" *_`:") for cell in cells(line)]
    if len(row) == 2 and (within == -1 or (within is None and _BARE.match(f"{row[0]}:"))):
        return row[0].lower(), row[1]
    item = bullet(line)
    text = re.sub(r"^`([^`]+)`", r"\1", (item[1] if item else line).strip())
    bold, deep = _BOLD.fullmatch(text), within is not None and len(line) - len(line.lstrip()) > within
    bold = None if bold and deep and bold[1].strip(" `").lower() not in ("language", "status") else bold
    match = bold or (_BARE.fullmatch(text) if within is None else None)
    return (match[1].strip(" `").lower(), match[2].strip()) if match else None


def _language(said: str) -> str:
    """In small letters, without its version: `Lean 4` is lean."""
    plain = " ".join(said.strip(" \t`*_.").lower().split())
    return re.sub(r"(?<=[a-z])[ \t]*v?\d+(\.\d+)*$", "", plain) or GENERAL


# --- the command file

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)]
"""Of an agent: nothing that a path could be made of."""


class _Header(BaseModel):
    """A key without a value is absent; what nobody knows is other programs' business."""

    model_config = ConfigDict(frozen=True, strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_set(cls, value: Any, info: Any) -> Any:
        return cls.model_fields[info.field_name].get_default(call_default_factory=True) if value is None else value


class Routing(_Header):
    language_based: bool = False
    lean: Name | None = None
    default: Name | None = None


class CommandFile(_Header):
    """What the frontmatter of a command says."""

    agent: Name = ORCHESTRATOR
    timeout: Annotated[int, Field(ge=1, le=86_400)] | None = None
    routing: Routing = Routing()
    returns: Literal["json", "text"] = "text"


def command_file(text: str | None, path: str) -> CommandFile:
    if text is None:
        raise Error(f"Command file {path} not found")
    return load(CommandFile, front_matter(text, path).source)


def agent_file(text: str | None, agent: str, path: str, command: str) -> tuple[tuple[str, ...], str]:
    """What an agent may change, as its file says; and why its header cannot be read, if so: then all of it is text."""
    if text is None:
        about = f"Check command configuration in {command}"
        raise Error(f"Agent {agent} not found", f"File: {path} does not exist", about)
    try:
        writes = front_matter(text, path).source.data.get("writes")
    except BadInput as error:
        return EVERYTHING, f"{path}: {error.what}; the whole text is taken as instructions"
    if writes is None:
        return EVERYTHING, ""
    if not (isinstance(writes, list) and all(isinstance(one, str) and _is_inside(one) for one in writes)):
        raise Error(f"{path}: writes must be a list of globs inside the workspace")
    return tuple(writes), ""


def _is_inside(glob: str) -> bool:
    plain = glob.removeprefix("!")
    return bool(plain) and not plain.startswith("/") and ".." not in plain.split("/")


EVERYTHING = ("**", ".opencode/specs/**")
"""The project, and what is written down about its tasks: no wildcard stands for `.opencode`."""
