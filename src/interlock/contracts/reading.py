"""Commands that agents report, and whatever else says that something failed, read from data (EV-01).

Theory of operation.  A report is read for what speaks against it at least as readily as for what speaks for it.  A
status that is a number counts as it is.  One that is a word counts where the word says that it failed; any other is
unclear, and whoever wrote it is asked again.  What is neither data nor stands beside a command is prose, and decides
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.contracts.ended import LEADING, Check, as_line, whole
from interlock.contracts.failures import told_failed
from interlock.contracts.meant import wanted
from interlock.contracts.spoken import checks_in_text
from interlock.contracts.words import FAILED, FAILED_ALONE, denies, is_open, says_failed, says_none

DEEP = 12
"""Levels of data in which something is looked for."""

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


def checks_in_data(value: Any) -> tuple[Check, ...]:
    """Commands out of data: objects with ``command``, ``exit``, ``summary`` at any depth, or lines; whatever it is, no
    error."""
    return tuple(_commands(value, DEEP))


def _commands(value: Any, deep: int) -> Iterator[Check]:
    named = value.items() if isinstance(value, Mapping) else ()
    entries = [inner for name, inner in named if not _BEFORE.match(_plain(name))]
    for entry in entries if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        if isinstance(entry, str) and entry.strip() and not isinstance(value, Mapping):
            yield from checks_in_text(entry) or (Check(as_line(entry)),)
        elif isinstance(entry, Mapping) and (command := _command_of(entry)):
            yield _check(command, entry)
        elif deep > 0:
            yield from _commands(entry, deep - 1)


def _command_of(entry: Mapping[str, Any]) -> str:
    for name in _COMMAND_KEYS:
        match entry.get(name):
            case str() as command if command.strip():
                return as_line(command)
            case [*words] if words and all(isinstance(word, str) for word in words):
                return as_line(" ".join(words))
    return ""


def _check(command: str, entry: Mapping[str, Any]) -> Check:
    numbers, words, beside = list[int](), list[str](), list[str]()
    for name, value in entry.items():
        key = _plain(name)
        if key in _STATUS_KEYS:
            for one in value if isinstance(value, list) else [value]:
                number = _status(key, one)
                numbers += [] if number is None else [number]
                words += [as_line(str(one))] if number is None and one not in (None, "") else []
                beside += [one] if number == 0 and isinstance(one, str) else []
        elif (
            (key in _TRUTH_KEYS and denies(value))
            or (key in _COUNT_KEYS and _amount(value))
            or (key in _FAULT_KEYS and _amount(value))
        ):
            text = as_line(f"{name}: {value}").lower()[:100]
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
    number = whole(value)
    bare = not isinstance(value, str) or LEADING.fullmatch(value.strip()) or value.strip()[:4].casefold() == "exit"
    return number if bare or key not in _WORD_KEYS else None


def _as_expected(entry: Mapping[str, Any], status: Any) -> bool:
    """Whether data says beside a status that it is the one that was expected."""
    said = [value for name, value in entry.items() if _plain(name).startswith("expected")]
    return any(value is True or whole(value) == status or str(value).casefold() == str(status) for value in said)


def _texts(value: Any) -> Iterator[str]:
    """What was printed, as one line each; lines of it are parted by semicolons."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and text.strip():
            yield "; ".join(as_line(row) for row in text.splitlines() if row.strip())


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
            yield f"{'.'.join(here)}: {as_line(str(inner))[:100]}"
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
    return bool(whole(numbers.get("skipped"))) and whole(numbers.get("passed")) == 0


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
