"""Commands that agents report in texts: in a line of their own words, or in the row of a table (EV-01)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.contracts.ended import Check, as_line, whole
from interlock.contracts.failures import told_failed
from interlock.contracts.meant import (
    is_aim,
    is_call,
    is_case,
    is_duty,
    is_name,
    is_rule,
    past,
    past_title,
    row_agrees,
    shows_behaviour,
    wanted,
)
from interlock.contracts.structure import with_pipes
from interlock.contracts.words import FAILED, FAILED_ALONE
from interlock.documents import Sections

_COMMAND = re.compile(r"``\s?(.+?)\s?``|`([^`]+)`")
_BARE = re.compile(
    r"^[ \t]*+(?:[-*+|$>]|\d+[.)])*+[ \t|$]*+"
    r"((?:npm|pnpm|yarn|npx|bun|deno|node|pytest|python[\d.]*|tox|nox|ruff|mypy|uv|"
    r"poetry|g?make|just|cargo|go|mvn|gradle|tsc|eslint|jest|vitest|bundle|rake|rspec|dotnet|swift|ctest|cmake|bazel|"
    r"composer|phpunit|mix|sbt|ba?sh|\./[\w./-]+)\b[^:|→=]*?)[ \t]*(?:[:|→=(,-]|->|exit|ended|return)",
)
"""A command that nobody marked as code, by a program that everybody knows."""
_STATUS = re.compile(
    r"\b(?:exit(?:ed|s)?(?:[ _-]?(?:status|code))?|(?:return|exit)[ _-]?code|returncode|rc"
    r"|(?:ended|finished|failed|terminated|completed|died)(?= with (?:exit|code|status)))"
    r"(?: (?:with|was|is|of))?(?: (?:exit|code|status)){0,2}[*_` :=|]*(?:(-?\d+)\b|(non-?\s?zero)\b)",
    re.IGNORECASE,
)
_SIGNS = re.compile(
    r"^[ \t]*(?:[-*+|]|\d+[.)])*[ \t]*[❌✗✘✖✕🔴]|[`:|→>=-][*_ \t]*[❌✗✘✖✕🔴](?!`)|[❌✗✘✖✕🔴][*_ \t|.!]*$"
)
"""Of failure: where a line or a cell begins or ends, or behind a command."""
_WORD = re.compile(r"^[*_` \t:|→>=-]*((?:FAIL(?:ED|S|URE)?|RED)\b|(?i:fail(?:ed|s)?|red|broken|errors?)[*_` \t|.!]*$)")
_EXIT_COLUMN = re.compile(r"(?:exit|rc)\b.*|(?:exit|return)[ _-]?(?:code|status)", re.IGNORECASE)
_RESULT_COLUMN = re.compile(r"status|result|outcome", re.IGNORECASE)
"""What stands in such a column need not be about a command: it counts where it says that one failed."""
_MARKS = " \t*_`|:;,.()[]→=>-–—"
_CLAUSES = re.compile(r"[,;.]")
_GOES_ON = re.compile(r"\s+(?!now\b)[^\W\d]")
_BETWEEN = " \t*_`|:;,→=>–—"
"""The same, without what a program may begin or end its words with."""


def checks_in_text(text: str) -> tuple[Check, ...]:
    """Commands that a text reports in its own words: a line with a command as code and how it ended.

    ``- `npm test`: exit 0``, ``| `make` | exit status 2 |``, or a row below a column ``Exit``; examples in code blocks
    and quotes are nobody's word.
    """
    found: list[Check] = []
    columns: list[str] = []
    above, before = "", 0
    for line in with_pipes(Sections(text).prose()).splitlines():
        if heading := _HEADING.match(line):
            level = len(heading[1])
            before = before if before and level > before else level if past_title(heading[2]) else 0
        row = [cell.strip(" *_`") for cell in line.strip().strip("|").split("|")] if line.lstrip()[:1] == "|" else []
        goes_on = f"{above} {line.strip()}" if above and line[:1].isspace() else ""
        alone = [] if row and shows_behaviour(columns) else [*_in_line(line)] or [*_in_line(goes_on)]
        checks = alone or [*_in_row(line, row, columns)]
        columns = row and (columns or row)
        found += [check for check in checks if not (before and check.red)]
        above = "" if checks else line if _COMMAND.search(line) else goes_on if line[:1].isspace() else ""
    return tuple(found)


_HEADING = re.compile(r"(#{1,6})\s+(.*)")


def _in_line(line: str) -> Iterator[Check]:
    """The commands of a line, each status with the command before it."""
    commands = [(one.start(), one.end(), as_line(one[1] or one[2])) for one in _COMMAND.finditer(line)]
    commands = [one for one in commands if not is_call(one[2])]
    if not commands and (bare := _BARE.match(line)):
        commands = [(bare.start(1), bare.end(1), as_line(bare[1]))]
    if not commands:
        return
    statuses = [one for one in _STATUS.finditer(line) if not _within(one, commands)]
    aims = {_number(one) for one in statuses if is_aim(line[: one.start()])}
    statuses = [one for one in statuses if not is_aim(line[: one.start()])]
    plain = [one for one in statuses if not is_case(line[one.end() :]) and not wanted(line[one.end() :])]
    told: list[tuple[int, int, str]] = []
    since, heard = 0, commands[0][1]
    for status in statuses:
        before = [one for one in commands if one[0] < status.start()] or commands[:1]
        command = before[-1][2] if len(statuses) > 1 else commands[0][2]
        lead = _blank(line, commands)[since : status.start()]  # "exit 0 before, exit 1": only its own clause counts
        of_before, since = past(_CLAUSES.split(lead)[-1] if since else lead), status.end()
        if before[-1] in told and _GOES_ON.match(line, status.end()):  # "exit 0; it exits with 1 on bad input"
            continue
        behind, bad = line[status.end() :], status[1] is None or int(status[1][:10]) != 0
        if bad and (of_before or (is_rule(behind) and is_name(command))):
            heard = status.end()
            continue
        if bad and status not in plain and _ended_well(plain):
            continue
        told.append(before[-1])
        end = next((start for start, _, _ in commands if start > status.end() and len(statuses) > 1), len(line))
        rest = as_line(line[status.end() : end]).strip(_BETWEEN)
        between = line[before[-1][1] : status.start()]
        meant = bad and (is_case(behind) or wanted(rest) or is_duty(between) or _number(status) in aims)
        rest = rest if told_failed(rest) else rest.strip(_MARKS)
        if counted := told_failed(line[heard : status.start()].strip(_BETWEEN)):
            rest = counted
        if status[1] is None:
            yield Check(command, None, rest, status[2].lower(), meant)
        else:
            yield Check(command, int(status[1][:10]), rest, "", meant)
    if not statuses and (said := _badly(line, line[commands[0][1] :])):
        yield Check(commands[0][2], None, "", said)


def _number(status: re.Match[str]) -> int | None:
    return None if status[1] is None else int(status[1][:10])


def _ended_well(statuses: Sequence[re.Match[str]]) -> bool:
    return any(_number(one) == 0 for one in statuses)


def _blank(line: str, commands: Sequence[tuple[int, int, str]]) -> str:
    """The line without its commands, of the same length."""
    for start, end, _ in commands:
        line = line[:start] + " " * (end - start) + line[end:]
    return line


def _badly(line: str, rest: str) -> str:
    """How a command failed, where that is said by a sign, a word or a number of failures; empty where it is not."""
    if sign := _SIGNS.search(line):
        return f"failed ({sign[0].strip(_MARKS + '+0123456789')})"
    if word := _WORD.match(rest):
        return word[1].strip(_MARKS).lower()
    return told_failed(rest.strip(_BETWEEN))


def _within(status: re.Match[str], commands: Sequence[tuple[int, int, str]]) -> bool:
    """Whether what looks like a status is a part of a command (``exit 1`` as code)."""
    return any(start <= status.start() and status.end() <= end for start, end, _ in commands)


def _in_row(line: str, row: Sequence[str], columns: Sequence[str]) -> Iterator[Check]:
    """The command of a row, by the cell that says how it ended."""
    command = _COMMAND.search(line) or _BARE.match(line)
    if command is None:
        return
    text = as_line(next(filter(None, command.groups())))
    bad = FAILED_ALONE if shows_behaviour(columns) else FAILED
    for at, (column, said) in enumerate(zip(columns, row, strict=False)):
        agreed = row_agrees(columns, row, at)
        if _EXIT_COLUMN.fullmatch(column) and said.strip("-–—"):
            number = whole(said)
            if number and any(map(past, row)):
                continue
            meant = bool(number) and (agreed or wanted(said))
            yield Check(text, number, "", "" if number is not None else said, meant)
        elif _RESULT_COLUMN.fullmatch(column) and bad.fullmatch(said) and not agreed:
            yield Check(text, None, "", said.lower())


def nothing_to_run(text: str) -> str:
    """The reason that a text gives for having run nothing (``Nothing to run: why``)."""
    found = _NOTHING_TO_RUN.search(Sections(text).prose())
    return as_line(found[1]).strip("*_` ") if found else ""


_NOTHING_TO_RUN = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[*_`]{0,3}nothing to run[*_`]{0,3}[ \t]*:[ \t]*(\S.*)$", re.I | re.M
)
