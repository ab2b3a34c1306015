"""What the router decides before it delegates: which command, which agent, how deep, how long.

All of it is pure and total: a check gives back what it established or the `Problem` that stands in the way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interlock.engine import Delegation
from interlock.playbooks.router import problems
from interlock.playbooks.router.documents import (
    GENERAL,
    LEAN,
    ORCHESTRATOR,
    CommandFile,
    TaskEntry,
    is_agent_name,
)
from interlock.playbooks.router.problems import COMMANDS, TASK_LIST, Problem, escaped

_SPACE = " \t\r\n\f\v"
_LONGEST_NUMBER = 1000
"""Digits beyond which a number is not even looked for: no heading has it, and no program would take it for one."""


# -- the command


@dataclass(frozen=True)
class ValidatedCommand:
    """A command of the four with a positive task number; `user_prompt` is what followed, as it was typed."""

    command: str
    number: int
    user_prompt: str = ""

    @property
    def key(self) -> str:
        return f"{self.command} {problems.shown_number(self.number)}"


def parse_command(line: str) -> ValidatedCommand | Problem:
    """The parts of what the user typed; the slash is optional, digits are ASCII, leading zeros do not count."""
    word, arguments = _split(line)
    command = word.removeprefix("/")
    if command not in COMMANDS:
        return problems.unknown_command(command)
    token, prompt = _split(arguments)
    if not token:
        return problems.number_missing(command)
    digits = token.lstrip("0")
    if not re.fullmatch("[0-9]+", token) or not digits:
        return problems.number_invalid(command, token)
    if len(digits) > _LONGEST_NUMBER:
        return problems.task_not_found(digits)
    return ValidatedCommand(command, int(digits), prompt)


def _split(text: str) -> tuple[str, str]:
    """The first word and the rest."""
    word, *rest = re.split(f"[{_SPACE}]+", text.strip(_SPACE), maxsplit=1)
    return word, rest[0] if rest else ""


# -- where it may go


def check_depth(parent: Delegation | None, maximum: int) -> Delegation | Problem:
    """The place from which this command delegates: its depth, and the path so far without the target."""
    if parent is None:
        here = Delegation(1, (ORCHESTRATOR,))
    else:
        here = Delegation(parent.depth + 1, parent.path or (ORCHESTRATOR,))
    return here if here.depth <= maximum else problems.too_deep(here.depth, maximum, here.path)


def route(file: CommandFile, language: str) -> str | Problem:
    """The agent for a task in this language. Only the file and the task's Language field decide."""
    if file.language_based:
        if language in file.languages:
            named = file.languages[language]
            return str(named) if is_agent_name(named) else problems.agent_name_invalid(named, file.path)
        if language == LEAN:
            return file.lean or problems.no_target_for(LEAN, file.path)
    if file.default:
        return file.default
    return file.agent if file.agent != ORCHESTRATOR else problems.no_target(file.path)


def check_cycle(here: Delegation, agent: str, detect: bool) -> Delegation | Problem:
    """The path with the target at its end, unless the target is in it already."""
    path = (*here.path, agent)
    if detect and agent in here.path:
        return problems.cycle(path)
    return Delegation(here.depth, path)


# -- how long it may take


class TaskKind(StrEnum):
    RESEARCH = "research"
    PLANNING = "planning"
    IMPLEMENTATION = "implementation"
    REVIEW = "review"
    OTHER = "other"


WORK_OF: Mapping[str, TaskKind] = {
    "research": TaskKind.RESEARCH,
    "plan": TaskKind.PLANNING,
    "implement": TaskKind.IMPLEMENTATION,
    "review": TaskKind.REVIEW,
}
"""What kind of work a command is; all others, `revise` among them, are `TaskKind.OTHER`."""

TIMEOUTS_S: Mapping[TaskKind, int] = {
    TaskKind.RESEARCH: 3600,
    TaskKind.PLANNING: 1800,
    TaskKind.IMPLEMENTATION: 7200,
    TaskKind.REVIEW: 3600,
    TaskKind.OTHER: 1800,
}


def time_limit(command: str, named: int | None, default: int | None) -> int:
    """Seconds for the agent: the command file's number, else the one in settings, else by the kind of work."""
    return named or default or TIMEOUTS_S[WORK_OF.get(command, TaskKind.OTHER)]


SETTLED = frozenset({"completed", "abandoned"})


def settled_already(command: str, status: str) -> bool:
    """Whether the list calls the task done or given up although it is to be implemented; worth a warning."""
    return command == "implement" and status.strip("[] \t").lower() in SETTLED


def about_language(file: CommandFile, entry: TaskEntry, target: str) -> tuple[str, ...]:
    """What a person should know where the language decides who is called, and says nothing that decides it."""
    if not file.language_based or entry.language in (LEAN, *file.languages):
        return ()
    if not entry.names_language:
        return (f"Task {entry.number} names no language in {TASK_LIST}; as {GENERAL} it goes to {target}",)
    if entry.language == GENERAL:
        return ()
    language = escaped(entry.language)
    return (f"{file.path} has no agent for language {language} of task {entry.number}; {target} gets it",)
