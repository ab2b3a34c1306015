"""Which tests a command ran, and what became of each between two runs of it (EVID-13). Pure.

Tests are known by reports that programs leave anyway, or write when their environment asks.  Where nothing tells them,
a command is one test: its exit status.  A report says nothing against the status: a command that ends green has no red
test, and what is red of it beside its tests (a threshold, a second program) is a test of its own, `WHOLE`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from xml.parsers import expat

WHOLE = "(the command)"
"""Stands for all of a command that no report names."""
REPORT = "TEST-*.xml"


class State(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPECTED = "expected"
    """It failed, as it is marked to."""


_RANK = (State.FAILED, State.PASSED, State.EXPECTED, State.SKIPPED)
"""Of one test that is told twice (an error in its teardown, several environments), the first of these counts."""
Tests = Mapping[str, str]


# asking for reports


def asking(person: Mapping[str, str], folder: str) -> dict[str, str]:
    """The variables that make programs tell their tests: the person's own values in front, nothing changes a result.

    Args:
        folder: where reports go, as the command sees it; nothing else lies there.
    """
    # pytest fills in variables: each environment of tox has a report of its own.
    report = f"--junitxml={shlex.quote(folder)}/TEST-pytest-$TOX_ENV_NAME.xml"
    tox = person.get("TOX_OVERRIDE", "")
    return {
        "PYTEST_ADDOPTS": _behind(person.get("PYTEST_ADDOPTS", ""), " ", report),
        "TOX_OVERRIDE": _behind(tox, "\n" if "\n" in tox else ",", "testenv.pass_env+=PYTEST_ADDOPTS"),
        # -json would turn a red `go vet` green.
        "GOFLAGS": _behind(person.get("GOFLAGS", ""), " ", "-v"),
    }


def _behind(own: str, between: str, ours: str) -> str:
    return f"{own}{between}{ours}" if own.strip() else ours


def is_report(path: str, globs: Sequence[str] = ()) -> bool:
    """Whether a file is a report by its name, or by the patterns of `[evidence] junit`."""
    name = path.rpartition("/")[2]
    return fnmatchcase(name, REPORT) or any(fnmatchcase(path, glob) or fnmatchcase(name, glob) for glob in globs)


# reading reports


def tests_of(exit_code: int | None, out: str, reports: Iterable[bytes]) -> dict[str, State]:
    """What a run of a command came to, test by test."""
    told = [*(each for raw in reports for each in _junit(raw)), *_go(out)]
    found: dict[str, State] = {}
    for test, state in told:
        found[test] = min(found.get(test, state), state, key=_RANK.index)
    if exit_code == 0:
        found = {test: state for test, state in found.items() if state != State.FAILED}
        return {**found, WHOLE: State.PASSED}
    return found if State.FAILED in found.values() else {**found, WHOLE: State.FAILED}


def _junit(raw: bytes) -> list[tuple[str, State]]:
    """The tests of a JUnit report; none where it is no report, cut off, or defines entities (an attack)."""
    found: list[tuple[str, State]] = []
    open_case = False

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal open_case
        if tag == "testcase":
            about, name = given.get("classname", ""), given.get("name", "")
            found.append((" ".join(f"{about}::{name}".strip(":").split()), State.PASSED))
            open_case = True
        elif open_case and tag in ("failure", "error"):
            found[-1] = (found[-1][0], State.FAILED)
        elif open_case and tag == "skipped" and found[-1][1] == State.PASSED:
            found[-1] = (found[-1][0], State.EXPECTED if given.get("type") == "pytest.xfail" else State.SKIPPED)

    def end(tag: str) -> None:
        nonlocal open_case
        open_case = open_case and tag != "testcase"

    def refuse(*_: object) -> None:
        raise ValueError("it has a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = start, end, refuse
    try:
        parser.Parse(raw, True)
    except (expat.ExpatError, ValueError, LookupError):
        return []
    return found


_GO = re.compile(r"(?:^|\n)[ \t]*(?:=== RUN[ \t]+(\S+)|--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\))[ \t]*(?=\r?\n|$)")
_GO_PACKAGE = re.compile(r"(?:^|\n)(ok|FAIL)[ \t]+(\S+)[ \t]+(?:\(cached\)|[\d.]+s|\[[a-z ]+ failed\])")
_GO_STATES = {"PASS": State.PASSED, "FAIL": State.FAILED, "SKIP": State.SKIPPED}


def _go(out: str) -> Iterator[tuple[str, State]]:
    """The tests of `go test -v`: a package is named behind its tests; one that was not built is one red test."""
    begin = 0
    for package in _GO_PACKAGE.finditer(out):
        tests: dict[str, State | None] = {}
        for found in _GO.finditer(out, begin, package.start() + 1):
            if found[1]:
                tests.setdefault(found[1], None)
            else:
                tests[found[3]] = _GO_STATES[found[2]]
        green = package[1] == "ok"
        begin = package.end()
        if not tests and not green:
            yield package[2], State.FAILED
        for test, state in tests.items():  # one without an end: its output hid it, or the program broke down in it
            yield f"{package[2]}::{test}", state or (State.PASSED if green else State.FAILED)


# comparing


class Word(StrEnum):
    """What a pair of runs is called everywhere (EVID-06)."""

    MENDED = "mended"
    HELD = "held"
    BROKEN = "broken"
    STILL_RED = "still red"


@dataclass(frozen=True)
class Pairs:
    """What became of each test between two runs; names in order."""

    mended: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Red now, and not before."""
    still_red: tuple[str, ...] = ()
    unmended: tuple[str, ...] = ()
    """Red, then gone, skipped or expected to fail: that is no mending."""
    gone: tuple[str, ...] = ()
    """Green, then gone: told as weakened, as what is `skipped`."""
    skipped: tuple[str, ...] = ()
    """Green, then skipped or expected to fail."""
    moved: tuple[str, ...] = ()
    """Gone here, and green wherever its bare name stands now."""


def compare(before: Tests, after: Tests) -> Pairs:
    """Pairs by test; of a file that could not be loaded: mended by any green test in it."""
    pairs: dict[str, list[str]] = {field.name: [] for field in fields(Pairs)}
    arrived: dict[str, set[str]] = {}
    for test, state in after.items():
        arrived.setdefault(_bare(test), set()).add(state)
    came = {_bare(test) for test in after.keys() - before.keys()}
    lost, blind = _is_cut_off(after), _is_cut_off(before)

    def absent(test: str, *, was_red: bool) -> str:
        inside = {state for other, state in after.items() if _is_in(other, test)} & {State.PASSED, State.FAILED}
        if was_red and inside:
            return "mended" if State.PASSED in inside else "still_red"
        if lost:  # it was not run: nobody took it away
            return "still_red" if was_red else ""
        if _bare(test) in came and arrived[_bare(test)] == {State.PASSED}:
            return "moved"
        return "unmended" if was_red else "gone"

    for test in sorted((before.keys() | after.keys()) - {WHOLE}):
        match before.get(test), after.get(test):
            case State.FAILED, State.PASSED:
                became = "mended"
            case State.FAILED, State.FAILED:
                became = "still_red"
            case State.FAILED, State.SKIPPED | State.EXPECTED:
                became = "unmended"
            case State.PASSED, State.SKIPPED | State.EXPECTED:
                became = "skipped"
            case (State.FAILED | State.PASSED) as was, None:
                became = absent(test, was_red=was == State.FAILED)
            case None, State.FAILED if blind:  # nobody knows what it was
                became = "still_red"
            case _, State.FAILED:
                became = "broken"
            case _:
                became = ""
        if became:
            pairs[became].append(test)
    if after.get(WHOLE) == State.FAILED:
        pairs["broken" if before.get(WHOLE) == State.PASSED else "still_red"].append(WHOLE)
    elif before.get(WHOLE) == State.FAILED and WHOLE in after:
        pairs["mended"].append(WHOLE)
    return Pairs(**{name: tuple(tests) for name, tests in pairs.items()})


def word(before: Tests, after: Tests, known: Container[str] = ()) -> Word:
    """The word for a pair of runs.

    Args:
        known: tests that were red before and may stay so (`--accept-baseline`).
    """
    pairs = compare(before, after)
    if pairs.broken:
        return Word.BROKEN
    if any(test not in known for test in (*pairs.still_red, *pairs.unmended)):
        return Word.STILL_RED
    was_red = any(state == State.FAILED and test not in known for test, state in before.items())
    return Word.MENDED if was_red else Word.HELD


def _is_cut_off(tests: Tests) -> bool:
    """Whether not all of them were run: a file or package could not be loaded, or there is nothing but the status."""
    red = [test for test, state in tests.items() if state == State.FAILED]
    return any("::" not in test for test in red if test != WHOLE) or (WHOLE in red and len(tests) == 1)


def _is_in(test: str, file: str) -> bool:
    """Whether a test belongs to a file or package, which are told as a test where they cannot be loaded."""
    return "::" not in file and test.startswith((f"{file}::", f"{file}."))


def _bare(test: str) -> str:
    """A test's name without file, class and parameters."""
    name = test.rpartition("::")[2]
    found = re.match(r"(\w+)[\[(/]", name)
    return found[1] if found else name
