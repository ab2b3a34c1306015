"""Commands that agents report, read from the shapes in which they report them: data, lines of text, tables (EV-01).

Theory of operation.  A report is read for what speaks against it at least as readily as for what speaks for it.  A
status that is a number counts as it is.  One that is a word counts where the word says that it failed; any other is
unclear, and whoever wrote it is asked again.  What is neither data nor stands beside a command is prose, and decides
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.contracts.failures import told_failed, told_idle
from interlock.contracts.meant import (
    is_aim,
    is_call,
    is_case,
    is_duty,
    is_name,
    is_rule,
    past,
    past_title,
    proves,
    row_agrees,
    shows_behaviour,
    wanted,
)
from interlock.contracts.structure import with_pipes
from interlock.contracts.words import FAILED, FAILED_ALONE, denies, is_open, says_failed, says_none
from interlock.documents import Sections

DEEP = 12
"""Levels of data in which something is looked for."""


@dataclass(frozen=True)
class Check:
    """A command that was run, and how it ended."""

    command: str
    exit: int | None = None
    summary: str = ""
    said: str = ""
    """How it ended, where that was not said by a number."""
    meant: bool = False
    """It is said that it was to end so."""

    @property
    def ending(self) -> str:
        """How it ended, as it was said; empty where it was not."""
        return f"exit status {self.exit}" if self.exit is not None else self.said

    @property
    def shown(self) -> str:
        said = f"`{self.command}` ended with {self.ending or 'a status that is not said'}"
        return f"{said}: {self.summary}" if self.summary else said

    @property
    def red(self) -> bool:
        """It failed, by its status or by what is said beside it."""
        return (self._bad and not self.meant) or bool(told_failed(self.summary))

    @property
    def doubtful(self) -> bool:
        """It failed, which is said to be meant, but it is a check of the project."""
        return self._bad and self.meant and proves(self.command)

    @property
    def _bad(self) -> bool:
        return bool(self.exit) or bool(self.said and (says_failed(self.said) or told_failed(self.said)))

    @property
    def unclear(self) -> bool:
        """How it ended is said in a way that says neither."""
        return bool(self.said) and not self._bad and not self.red and self.exit is None

    @property
    def shows(self) -> bool:
        """It could have failed, and it is known how it ended."""
        return self.exit is not None and not self.idle and not self.meant

    @property
    def idle(self) -> str:
        """Why it shows nothing, although it ended well; empty where it does."""
        if _IDLE.fullmatch(self.command.strip()):
            return "ends well whatever happens"
        return f"ran nothing ({said})" if (said := told_idle(self.summary)) else ""


_NOTHING_DONE = r"(?:true|:|exit 0|(?:echo|printf)\b[^;&|]*)"
_IDLE = re.compile(
    rf"{_NOTHING_DONE}|.*(?:\|\||;)\s*{_NOTHING_DONE}[\s\"')]*"
    r"|\S+(?: \S+)? (?:--version|--help|--collect-only|--listTests)",
    re.DOTALL,
)


# -- data


_COMMAND_KEYS = ("command", "cmd", "argv", "run", "script")
_STATUS_KEYS = frozenset(
    (
        *("exit", "exitcode", "exitstatus", "returncode", "returnstatus", "rc", "code", "exits", "exitcodes"),
        *("status", "statuses", "result", "outcome", "state"),
    )
)
_WORD_KEYS = frozenset(("status", "statuses", "result", "outcome", "state"))
"""Of these, those under which a number need not be a status."""
_TRUTH_KEYS = frozenset(("ok", "passed", "pass", "success", "succeeded", "green", "met", "satisfied"))
_DONE_KEYS = frozenset(("done", "complete", "completed", "proven", "verified", "checked", "ticked"))
"""Of a point that is judged."""
_COUNT_KEYS = frozenset(
    (
        *("failed", "failing", "failures", "errors", "unmet", "blockers", "blockingissues", "regressions"),
        *("numfailedtests", "failedtests", "failingtests", "testsfailed", "failedcount", "failurecount", "errorcount"),
        "opencriteria",
    )
)
_FAULT_KEYS = frozenset(("error", "signal", "timedout", "crashed", "aborted", "killed"))
"""Beside a command: it did not end as it should."""
_SUMMARY_KEYS = ("summary", "output", "note", "detail", "stdout", "stderr", "tail", "log", "message")
_OUTPUT_KEYS = frozenset(
    (
        *("test", "tests", "unit", "unittests", "integration", "e2e", "suite", "suites", "ci", "results"),
        *("build", "lint", "typecheck", "types", "output", "stdout", "stderr", "tail", "log"),
    )
)
"""What stands there a program has printed, or could have."""
_POINTS = re.compile(r"criteri|acceptance|requirement")
_CHECKED = re.compile(r"(?:^|/)(?:\w*checks?|\w*tests?(?<!latest)|suites?|verification)(?:/|$)")
"""Names of what is judged point by point: one that is open there is not met, by whatever name or by its status."""
_BEFORE = re.compile(
    r"before|previous|baseline|prior|old|original|expected|firstrun|reproduc|without(?:the)?(?:fix|change)|onmain"
    r"|main(?:branch)?$|followup|future|outofscope"
)
"""How such a name begins: what stands below it is not about the work as it is now."""
_LEADING = re.compile(r"(?:exit(?:ed)?(?:[ _-]?(?:status|code))?[ :=]*)?(-?\d+)\b", re.IGNORECASE)


def checks_in_data(value: Any) -> tuple[Check, ...]:
    """Commands out of data: objects with ``command``, ``exit``, ``summary`` at any depth, or lines; whatever it is, no
    error."""
    return tuple(_commands(value, DEEP))


def _commands(value: Any, deep: int) -> Iterator[Check]:
    named = value.items() if isinstance(value, Mapping) else ()
    entries = [inner for name, inner in named if not _BEFORE.match(_plain(name))]
    for entry in entries if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        if isinstance(entry, str) and entry.strip() and not isinstance(value, Mapping):
            yield from checks_in_text(entry) or (Check(_line(entry)),)
        elif isinstance(entry, Mapping) and (command := _command_of(entry)):
            yield _check(command, entry)
        elif deep > 0:
            yield from _commands(entry, deep - 1)


def _command_of(entry: Mapping[str, Any]) -> str:
    for name in _COMMAND_KEYS:
        match entry.get(name):
            case str() as command if command.strip():
                return _line(command)
            case [*words] if words and all(isinstance(word, str) for word in words):
                return _line(" ".join(words))
    return ""


def _check(command: str, entry: Mapping[str, Any]) -> Check:
    numbers, words, beside = list[int](), list[str](), list[str]()
    for name, value in entry.items():
        key = _plain(name)
        if key in _STATUS_KEYS:
            for one in value if isinstance(value, list) else [value]:
                number = _status(key, one)
                numbers += [] if number is None else [number]
                words += [_line(str(one))] if number is None and one not in (None, "") else []
                beside += [one] if number == 0 and isinstance(one, str) else []
        elif (
            (key in _TRUTH_KEYS and denies(value))
            or (key in _COUNT_KEYS and _amount(value))
            or (key in _FAULT_KEYS and _amount(value))
        ):
            text = _line(f"{name}: {value}").lower()[:100]
            words.append(text if FAILED.search(text) else f"failed ({text})")
    said = next((word for word in words if says_failed(word) or told_failed(word)), "")
    texts = [*(text for name in _SUMMARY_KEYS for text in _texts(entry.get(name))), *beside]
    summary = next((text for text in texts if told_failed(text)), texts[0] if texts and texts[0] not in beside else "")
    if said and not any(numbers):
        return Check(command, None, summary, said)
    status = next((number for number in numbers if number), numbers[0] if numbers else None)
    meant = bool(status) and (any(map(wanted, texts)) or _as_expected(entry, status))
    return Check(command, status, summary, words[0] if words and status is None else "", meant)


def _status(key: str, value: Any) -> int | None:
    """The number of a status; ``12 passed`` is none."""
    number = _whole(value)
    bare = not isinstance(value, str) or _LEADING.fullmatch(value.strip()) or value.strip()[:4].casefold() == "exit"
    return number if bare or key not in _WORD_KEYS else None


def _as_expected(entry: Mapping[str, Any], status: Any) -> bool:
    """Whether data says beside a status that it is the one that was expected."""
    said = [value for name, value in entry.items() if _plain(name).startswith("expected")]
    return any(value is True or _whole(value) == status or str(value).casefold() == str(status) for value in said)


def _texts(value: Any) -> Iterator[str]:
    """What was printed, as one line each; lines of it are parted by semicolons."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and text.strip():
            yield "; ".join(_line(row) for row in text.splitlines() if row.strip())


def failures_in_data(value: Any) -> tuple[str, ...]:
    """Whatever in data says by its name that something failed (``failed: 3``, ``passed: false``, ``unit: fail``, a
    command that did) or is open, at any depth, with its place."""
    return tuple(_adverse(value, (), DEEP))


def _adverse(value: Any, place: tuple[str, ...], deep: int) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for entry in value if deep > 0 else ():
            yield from _adverse(entry, place, deep - 1)
    if not isinstance(value, Mapping):
        return
    if (command := _command_of(value)) and (check := _check(command, value)).red:
        yield check.shown
        return
    if _all_skipped(value):
        yield f"{'.'.join((*place, 'skipped'))}: {value['skipped']}, and none passed"
    for name, inner in value.items():
        here, key = (*place, str(name)), _plain(name)
        if _BEFORE.match(key):
            continue
        above = "/".join(map(_plain, place))
        points = _POINTS.search(above) and (key in _STATUS_KEYS | _TRUTH_KEYS | _DONE_KEYS or not _is_stated(value))
        judged = bool(points or (key in _STATUS_KEYS and _CHECKED.search(above)))
        if key in _STATUS_KEYS and isinstance(inner, str) and _as_expected(value, inner.casefold()):
            continue
        if _speaks_against(key, inner, judged):
            yield f"{'.'.join(here)}: {_line(str(inner))[:100]}"
        elif deep > 0:
            yield from _adverse(inner, here, deep - 1)


def _speaks_against(key: str, value: Any, judged: bool) -> bool:
    """Whether what stands under this name says that something failed, or is open where points are judged."""
    if (key in _COUNT_KEYS and _amount(value)) or (key in _TRUTH_KEYS and denies(value)):
        return True
    if judged and key in _DONE_KEYS and denies(value):
        return True
    if isinstance(value, list):
        return key in _OUTPUT_KEYS and any(isinstance(one, str) and told_failed(one) for one in value)
    if not isinstance(value, str):
        return False
    status = key in _STATUS_KEYS or key in _OUTPUT_KEYS
    return (
        FAILED_ALONE.fullmatch(value.strip()) is not None
        or (status and FAILED.fullmatch(value.strip(" .!*_`")) is not None)
        or (key in _OUTPUT_KEYS and bool(told_failed(value)))
        or (judged and is_open(value))
    )


def _is_stated(value: Mapping[str, Any]) -> bool:
    """Whether a point has a word for how it stands; its other words are then about something else."""
    return any(_plain(name) in _STATUS_KEYS | _TRUTH_KEYS | _DONE_KEYS for name in value)


def _all_skipped(value: Mapping[str, Any]) -> bool:
    """Whether these are numbers of tests of which none has shown anything."""
    numbers = {_plain(name): inner for name, inner in value.items()}
    return bool(_whole(numbers.get("skipped"))) and _whole(numbers.get("passed")) == 0


def _plain(name: object) -> str:
    return str(name).replace("_", "").replace("-", "").replace(" ", "").casefold()


def _amount(value: Any) -> bool:
    """Whether there is at least one of it: a number, words that do not say there is none, or a list or object that
    has such."""
    match value:
        case str():
            return not says_none(value)
        case Mapping():
            return any(map(_amount, value.values()))
        case list() | tuple():
            return any(map(_amount, value))
    return bool(value)


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and (found := _LEADING.match(value.strip())):
        return int(found[1][:10])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# -- text


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
    commands = [(one.start(), one.end(), _line(one[1] or one[2])) for one in _COMMAND.finditer(line)]
    commands = [one for one in commands if not is_call(one[2])]
    if not commands and (bare := _BARE.match(line)):
        commands = [(bare.start(1), bare.end(1), _line(bare[1]))]
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
        rest = _line(line[status.end() : end]).strip(_BETWEEN)
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
    text = _line(next(filter(None, command.groups())))
    bad = FAILED_ALONE if shows_behaviour(columns) else FAILED
    for at, (column, said) in enumerate(zip(columns, row, strict=False)):
        agreed = row_agrees(columns, row, at)
        if _EXIT_COLUMN.fullmatch(column) and said.strip("-–—"):
            number = _whole(said)
            if number and any(map(past, row)):
                continue
            meant = bool(number) and (agreed or wanted(said))
            yield Check(text, number, "", "" if number is not None else said, meant)
        elif _RESULT_COLUMN.fullmatch(column) and bad.fullmatch(said) and not agreed:
            yield Check(text, None, "", said.lower())


def nothing_to_run(text: str) -> str:
    """The reason that a text gives for having run nothing (``Nothing to run: why``)."""
    found = _NOTHING_TO_RUN.search(Sections(text).prose())
    return _line(found[1]).strip("*_` ") if found else ""


_NOTHING_TO_RUN = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[*_`]{0,3}nothing to run[*_`]{0,3}[ \t]*:[ \t]*(\S.*)$", re.I | re.M
)


def _line(text: str) -> str:
    return " ".join(text.split())
