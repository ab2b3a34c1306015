"""Every way in which the router refuses a command, with its exact words.

The texts are part of the interface: people and scripts read them, golden tests hold them; the four that the original
process prescribes stand word for word.  A check returns a
`Problem` as a value; the playbook turns it into `RouterError`, so that no code which starts an agent can be reached
behind it.  Whatever comes from outside is shown with control characters escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.errors import BadInput

COMMANDS = ("research", "plan", "implement", "revise")
TASK_LIST = ".opencode/specs/TODO.md"
DIGITS_SHOWN = 40


class Refusal(StrEnum):
    """What a command is refused for: exit 2, before any agent is started."""

    UNKNOWN = "E_unknown"
    MISSING = "E_missing"
    INVALID = "E_invalid"
    NOT_FOUND = "E_notfound"
    TASK_LIST = "E_tasklist"
    CONFIG = "E_config"
    DEPTH = "E_depth"
    AGENT = "E_agent"
    CYCLE = "E_cycle"
    CONTEXT = "E_context"


@dataclass(frozen=True)
class Problem:
    """Why the command is refused: the whole text for people, the short one for the event."""

    refusal: Refusal
    text: str
    short: str


class RouterError(BadInput):
    """A refused command; `what` is the whole text that a person sees."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.short = problem.short
        self.refusal = problem.refusal


def escaped(text: str) -> str:
    """The text with everything that a terminal would not simply print written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def shown_number(number: int | str) -> str:
    """A task number, cut when nobody could read it."""
    digits = str(number)
    return digits if len(digits) <= DIGITS_SHOWN else digits[:DIGITS_SHOWN] + "…"


def shown_value(value: object) -> str:
    """A value of a document in one line, as JSON spells it."""
    return escaped(json.dumps(value, ensure_ascii=False, default=str))


def _problem(refusal: Refusal, headline: str, *further: str, short: str = "") -> Problem:
    return Problem(refusal, "\n\n".join((f"Error: {headline}", *further)), short or headline)


def _usage(command: str) -> tuple[str, str]:
    return f"Usage: /{command} TASK_NUMBER [PROMPT]", f"Example: /{command} 259"


def unknown_command(name: str) -> Problem:
    headline = f"Unknown command /{escaped(name)}" if name else "Command required"
    return _problem(Refusal.UNKNOWN, f"{headline}. Task commands: {' '.join('/' + command for command in COMMANDS)}")


def number_missing(command: str) -> Problem:
    return _problem(
        Refusal.MISSING,
        f"Task number required for /{command} command",
        *_usage(command),
        f"The task number should be a positive integer corresponding to a task in {TASK_LIST}",
        short="Task number required",
    )


def number_invalid(command: str, token: str) -> Problem:
    return _problem(
        Refusal.INVALID,
        f"Task number must be an integer. Got: {escaped(token)}",
        *_usage(command),
        short="Task number must be an integer",
    )


def task_not_found(number: int | str) -> Problem:
    return _problem(
        Refusal.NOT_FOUND,
        f"Task {shown_number(number)} not found in TODO.md",
        f"Please verify the task number exists in {TASK_LIST}",
        f'You can list all tasks with: grep "^###" {TASK_LIST}',
    )


def task_twice(number: int, lines: Sequence[int]) -> Problem:
    times = "twice" if len(lines) == 2 else f"{len(lines)} times"
    places = ", ".join(map(str, lines[:-1])) + f" and {lines[-1]}"
    return _problem(Refusal.TASK_LIST, f"Task {shown_number(number)} appears {times} in TODO.md (lines {places})")


def task_list_unusable(what: str) -> Problem:
    return _problem(Refusal.TASK_LIST, escaped(what))


def command_file_missing(path: str) -> Problem:
    return _problem(Refusal.CONFIG, f"Command file {path} not found")


def command_file_unusable(what: str) -> Problem:
    return _problem(Refusal.CONFIG, what)


def timeout_invalid(found: object) -> Problem:
    return command_file_unusable(f"timeout must be an integer of seconds from 1 to 86400; found {shown_value(found)}")


def agent_name_invalid(name: object, path: str) -> Problem:
    return command_file_unusable(f"invalid agent name {shown_value(name)} in {path}")


def no_target(path: str) -> Problem:
    return _problem(Refusal.CONFIG, f"{path} names no target agent (routing.default or agent)")


def no_target_for(language: str, path: str) -> Problem:
    return _problem(
        Refusal.CONFIG,
        f"{path} names no target agent for language {escaped(language)} (routing.{escaped(language)})",
    )


def agent_not_found(agent: str, file: str, command_file: str) -> Problem:
    return _problem(
        Refusal.AGENT,
        f"Agent {agent} not found",
        f"File: {file} does not exist",
        f"Check command configuration in {command_file}",
    )


def agent_file_unusable(what: str) -> Problem:
    return _problem(Refusal.CONFIG, what)


def too_deep(depth: int, maximum: int, path: Sequence[str]) -> Problem:
    trail = escaped(" -> ".join(path))
    return _problem(Refusal.DEPTH, f"delegation depth {depth} exceeds the maximum of {maximum} (path: {trail})")


def cycle(path: Sequence[str]) -> Problem:
    return _problem(Refusal.CYCLE, f"delegation cycle: {escaped(' -> '.join(path))}")


def context_too_large(agent: str, size: int, limit: int, description: int, prompt: int) -> Problem:
    return _problem(
        Refusal.CONTEXT,
        f"context for {agent} is {size} bytes; at most {limit} are handed over "
        f"(task_description: {description} bytes, user_prompt: {prompt} bytes)",
        f"Shorten the description in {TASK_LIST} or the text after the task number: refer to a file for the details",
    )
