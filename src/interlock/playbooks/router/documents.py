"""The three files that the router reads and never writes: task list, command file, agent file.  Pure.

Each reader takes a document as it was found and gives either what the file says or the `Problem` with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interlock.documents import Document, DocumentState, paths, split_frontmatter
from interlock.errors import DocumentInvalid, PathRefused
from interlock.playbooks.router import problems
from interlock.playbooks.router.problems import Problem

GENERAL = "general"
"""The language of a task that names none."""
LEAN = "lean"
ORCHESTRATOR = "orchestrator"
"""The router's own name in delegation paths and command files."""
LONGEST_TIMEOUT_S = 86_400

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_ENTRY_END = re.compile(r"#{1,3}(?:[ \t]|$)")
_BULLET = r"[ \t]*(?:(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?"
_FIELD = re.compile(_BULLET + r"(?:\*\*|__)([^*_:]+?)(?::(?:\*\*|__)|(?:\*\*|__)[ \t]*:)(.*)")
"""``- **Name**: value``, ``* __Name:__ value`` and what is between."""
_PLAIN_FIELD = re.compile(r"(?i)" + _BULLET + r"`?(language|status|description)`?[ \t]*:(.*)")
"""Without emphasis only these names count, and only before the description: in it they are just words."""
_SUBHEADING = re.compile(r"(?i)#{4,6}[ \t]+(description)[ \t]*:?[ \t]*#*")
_VERSION = re.compile(r"[ \t]+v?\d+(?:\.\d+)*$|(?<=^lean)\d+$")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


# -- the task list


@dataclass(frozen=True)
class TaskEntry:
    """One task of the list: its heading and its own fields."""

    number: int
    title: str
    line: int
    language: str
    """In lower case, without its version; `GENERAL` where none is named."""
    description: str
    status: str
    names_language: bool = True


def find_task(document: Document, number: int) -> TaskEntry | Problem:
    """The entry under the one heading ``### <number>.``"""
    if document.state is not DocumentState.OK:
        return problems.task_list_unusable(document.problem or f"cannot read {document.path}")
    lines = list(_lines(document.text))
    found = [position for position, (line, code) in enumerate(lines) if not code and line.startswith(f"### {number}.")]
    if not found:
        return problems.task_not_found(number)
    if len(found) > 1:
        return problems.task_twice(number, [position + 1 for position in found])
    start = found[0]
    fields = _fields(lines[start + 1 :])
    language = _language(fields.get("language", ""))
    return TaskEntry(
        number=number,
        title=lines[start][0].removeprefix(f"### {number}.").strip(),
        line=start + 1,
        language=language or GENERAL,
        description=fields.get("description") or fields.get("", ""),
        status=fields.get("status", ""),
        names_language=bool(language),
    )


def _language(said: str) -> str:
    """The language that a field names: `Lean 4` in back-quotes is lean."""
    plain = " ".join(said.partition("\n")[0].strip(" \t`*_.").lower().split())
    return _VERSION.sub("", plain)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of fenced code."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            yield line, True
        else:
            yield line, False


def _fields(lines: Sequence[tuple[str, bool]]) -> dict[str, str]:
    """The fields of an entry, up to the next heading of level 1 to 3. The first of a name counts.

    A description goes on over paragraphs; text that belongs to no field has the empty name.
    """
    here: list[str] = []
    said = {"": here}
    name, depth = "", 0
    for line, code in lines:
        if not code and _ENTRY_END.match(line):
            break
        opening = None if code else _opening(line, within=depth if name == "description" else None)
        if opening is not None:
            (name, value), depth = opening, _depth(line)
            here = [value]
            said.setdefault(name, here)
        elif not code and _HEADING.match(line):
            name, here = "", []  # what stands below another heading is not about the task as a whole
        elif not name or name == "description":
            here.append(line)
        elif not line.strip():
            name, here = "", said[""]
    return {one: _trimmed(text) for one, text in said.items()}


def _opening(line: str, *, within: int | None) -> tuple[str, str] | None:
    """The name and the first words of the field that begins with this line. `within`: the depth of the description that
    goes on here; what is set further in, or has no emphasis, is part of it."""
    if found := _SUBHEADING.fullmatch(line):
        return found[1].lower(), ""
    found = _FIELD.fullmatch(line) if within is None or _depth(line) <= within else None
    if found is None and within is None:
        found = _PLAIN_FIELD.fullmatch(line)
    return (found[1].strip().lower(), found[2]) if found else None


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _trimmed(said: list[str]) -> str:
    while said and (not said[-1].strip() or _RULE.fullmatch(said[-1])):
        said.pop()
    return "\n".join(said).strip()


# -- the command file


class Returns(StrEnum):
    """What kind of answer a command expects of its agent."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True)
class CommandFile:
    """What the frontmatter of ``.opencode/command/<command>.md`` says."""

    path: str
    agent: str = ORCHESTRATOR
    timeout_s: int | None = None
    language_based: bool = False
    default: str | None = None
    lean: str | None = None
    languages: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `routing`, unchecked: agents by language, where settings allow that extension."""
    returns: Returns = Returns.TEXT


def command_path(command: str) -> str:
    return f".opencode/command/{command}.md"


def read_command_file(document: Document) -> CommandFile | Problem:
    """What the command file says. Keys that it does not know are other programs' business."""
    path = document.path
    if document.state is DocumentState.MISSING:
        return problems.command_file_missing(path)
    if document.state is not DocumentState.OK:
        return problems.command_file_unusable(document.problem or f"cannot read {path}")
    header = _header(document)
    if isinstance(header, Problem):
        return header
    routing = header.get("routing", {})
    if not isinstance(routing, dict):
        return _wrong(path, "routing", "a mapping", routing)
    routing = _set_keys(routing)
    language_based = routing.pop("language_based", False)
    returns = header.get("returns", Returns.TEXT.value)
    timeout = header.get("timeout")
    if not isinstance(header.get("name", ""), str):
        return _wrong(path, "name", "a string", header["name"])
    if not isinstance(language_based, bool):
        return _wrong(path, "routing.language_based", "true or false", language_based)
    if not isinstance(returns, str) or returns not in list(Returns):
        return _wrong(path, "returns", "json or text", returns)
    if timeout is not None and not (type(timeout) is int and 1 <= timeout <= LONGEST_TIMEOUT_S):
        return problems.timeout_invalid(timeout)
    named = {"agent": header.get("agent", ORCHESTRATOR)}
    named |= {key: routing.pop(key) for key in ("default", LEAN) if key in routing}
    for name in named.values():
        if not is_agent_name(name):
            return problems.agent_name_invalid(name, path)
    return CommandFile(
        path=path,
        agent=named["agent"],
        timeout_s=timeout,
        language_based=language_based,
        default=named.get("default"),
        lean=named.get(LEAN),
        languages={language.strip().lower(): agent for language, agent in routing.items()},
        returns=Returns(returns),
    )


def is_agent_name(name: object) -> bool:
    """Whether this is a plain name, which no path can be made of."""
    return isinstance(name, str) and _AGENT_NAME.fullmatch(name) is not None


def _set_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that have a value: one without says as much as none at all."""
    return {key: value for key, value in mapping.items() if value is not None}


def _header(document: Document) -> Mapping[str, Any] | Problem:
    """The frontmatter as data; a file without one says nothing."""
    try:
        return _set_keys(split_frontmatter(document.text, document.path).data())
    except DocumentInvalid as error:
        place = "" if error.line is None else f" (line {error.line})"
        return problems.command_file_unusable(f"{document.path}: frontmatter is not valid YAML{place}")


def _wrong(path: str, key: str, expected: str, found: object) -> Problem:
    return problems.command_file_unusable(f"{path}: {key} must be {expected}; found {problems.shown_value(found)}")


# -- the agent file


@dataclass(frozen=True)
class AgentFile:
    """The target's instructions, and what it may change."""

    name: str
    path: str
    body: str
    writes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    """What a person should know about the file although it can be used."""


EVERYTHING = ("**", ".opencode/specs/**")
"""The scope of an agent whose file names none: the project, and what is written down about its tasks. No wildcard
stands for a protected name like ``.opencode``, and the router's configuration is nobody's in any case."""


def agent_path(agent: str) -> str:
    return f".opencode/agent/subagents/{agent}.md"


def read_agent_file(document: Document, agent: str, command_file: str) -> AgentFile | Problem:
    """The agent's file. That it exists is what counts; only a write scope that says nothing usable is refused."""
    path = document.path
    if document.state is DocumentState.MISSING:
        return problems.agent_not_found(agent, path, command_file)
    if document.state is not DocumentState.OK:
        return problems.agent_file_unusable(document.problem or f"cannot read {path}")
    try:
        split = split_frontmatter(document.text, path)
    except DocumentInvalid as error:
        remark = f"{path}: its frontmatter cannot be read ({error.what}); the whole text is used as instructions"
        return AgentFile(agent, path, document.text, EVERYTHING, (remark,))
    header = split.data()
    named = header.get("name", agent)
    remarks = () if named == agent else (f"{path}: name is {problems.shown_value(named)}, not the name of the file",)
    writes = header.get("writes")
    if writes is None:
        return AgentFile(agent, path, split.body, EVERYTHING, remarks)
    if not (isinstance(writes, list) and all(isinstance(item, str) and _is_pattern(item) for item in writes)):
        return problems.agent_file_unusable(
            f"{path}: writes must be a list of path patterns inside the workspace; found {problems.shown_value(writes)}"
        )
    return AgentFile(agent, path, split.body, tuple(writes), remarks)


def _is_pattern(text: str) -> bool:
    try:
        return bool(paths.plain_parts(text.removeprefix("!")))
    except PathRefused:
        return False
