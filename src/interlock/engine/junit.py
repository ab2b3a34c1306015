"""Which tests a command ran, and what became of each between two runs of it (EVID-13). Pure.

Tests are known by reports that programs leave anyway, or write when their environment asks.  Where nothing tells them,
a command is one test: its exit status.  A report says nothing against the status: a command that ends green has no red
test, and what is red of it beside its tests (a threshold, a second program) is a test of its own, `WHOLE`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple
from xml.etree import ElementTree

WHOLE = "(the command)"
"""Stands for all of a command that no report names."""
REPORT = "TEST-*.xml"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
"""What a test came to; one that is expected to fail, and does, is skipped."""
_RANK = (FAILED, PASSED, SKIPPED)
"""Of one test that is told twice (an error in its teardown, several environments), the first of these counts."""
Tests = Mapping[str, str]


# asking for reports


def asking(person: Mapping[str, str], folder: str) -> dict[str, str]:
    """The variables that make programs leave reports of their tests in a folder, as the command sees it: the person's
    own values in front, nothing changes a result."""
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


def tests_of(exit_code: int | None, out: str, reports: Iterable[bytes]) -> dict[str, str]:
    """What a run of a command came to, test by test."""
    told = [*(each for raw in reports for each in _junit(raw)), *_go(out)]
    found: dict[str, str] = {}
    for test, state in told:
        found[test] = min(found.get(test, state), state, key=_RANK.index)
    if exit_code == 0:
        found = {test: state for test, state in found.items() if state != FAILED}
        return {**found, WHOLE: PASSED}
    return found if FAILED in found.values() else {**found, WHOLE: FAILED}


class _Plain(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        raise ValueError("it may define entities: an attack")


def _junit(raw: bytes) -> Iterator[tuple[str, str]]:
    """The tests of a JUnit report; none where it is no report, or cut off."""
    try:
        cases = ElementTree.fromstring(raw, ElementTree.XMLParser(target=_Plain())).iter("testcase")
    except (ElementTree.ParseError, ValueError, LookupError):
        return
    for case in cases:
        inside = {each.tag for each in case.iter()}
        state = FAILED if inside & {"failure", "error"} else SKIPPED if "skipped" in inside else PASSED
        yield " ".join(f"{case.get('classname', '')}::{case.get('name', '')}".strip(":").split()), state


_GO = re.compile(r"(?:^|\n)[ \t]*(?:=== RUN[ \t]+(\S+)|--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\))[ \t]*(?=\r?\n|$)")
_GO_PACKAGE = re.compile(r"(?:^|\n)(ok|FAIL)[ \t]+(\S+)[ \t]+(?:\(cached\)|[\d.]+s|\[[a-z ]+ failed\])")
_GO_STATES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}


def _go(out: str) -> Iterator[tuple[str, str]]:
    """The tests of `go test -v`: a package is named behind its tests; one that was not built is one red test."""
    begin = 0
    for package in _GO_PACKAGE.finditer(out):
        tests: dict[str, str | None] = {}
        for found in _GO.finditer(out, begin, package.start() + 1):
            if found[1]:
                tests.setdefault(found[1], None)
            else:
                tests[found[3]] = _GO_STATES[found[2]]
        green = package[1] == "ok"
        begin = package.end()
        if not tests and not green:
            yield package[2], FAILED
        for test, state in tests.items():  # one without an end: its output hid it, or the program broke down in it
            yield f"{package[2]}::{test}", state or (PASSED if green else FAILED)


# comparing


class Pairs(NamedTuple):
    """What became of each test between two runs; names in order. One that only moved stands nowhere."""

    mended: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Red now, and not before."""
    still_red: tuple[str, ...] = ()
    """Or red, then gone or skipped: that is no mending."""
    lost: tuple[str, ...] = ()
    """Green, then gone or skipped: told as weakened."""


def compare(before: Tests, after: Tests) -> Pairs:
    """Pairs by test; of a file that could not be loaded: mended by any green test in it."""
    pairs: dict[str, list[str]] = {name: [] for name in (*Pairs._fields, "")}
    arrived: dict[str, set[str]] = {}
    for test, state in after.items():
        arrived.setdefault(_bare(test), set()).add(state)
    came = {_bare(test) for test in after.keys() - before.keys()}
    cut_off, blind = _is_cut_off(after), _is_cut_off(before)

    def gone(test: str, *, was_red: bool) -> str:
        # A file or package is told as a test where it cannot be loaded.
        below = (f"{test}::", f"{test}.") if "::" not in test else ()
        inside = {state for other, state in after.items() if other.startswith(below)} & {PASSED, FAILED}
        if was_red and inside:
            return "mended" if PASSED in inside else "still_red"
        if cut_off:  # it was not run: nobody took it away
            return "still_red" if was_red else ""
        if _bare(test) in came and arrived[_bare(test)] == {PASSED}:  # moved
            return ""
        return "still_red" if was_red else "lost"

    for test in sorted((before.keys() | after.keys()) - {WHOLE}):
        was, now = before.get(test), after.get(test)
        if now is None and was in (FAILED, PASSED):
            became = gone(test, was_red=was == FAILED)
        elif now == FAILED:
            became = "still_red" if was == FAILED or (was is None and blind) else "broken"
        elif was == FAILED:
            became = "mended" if now == PASSED else "still_red"
        else:
            became = "lost" if was == PASSED and now != PASSED else ""
        pairs[became].append(test)
    if after.get(WHOLE) == FAILED:
        pairs["broken" if before.get(WHOLE) == PASSED else "still_red"].append(WHOLE)
    elif before.get(WHOLE) == FAILED and WHOLE in after:
        pairs["mended"].append(WHOLE)
    return Pairs(*(tuple(pairs[name]) for name in Pairs._fields))


def word(before: Tests, after: Tests, known: Container[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The one word for a pair of runs (EVID-06), and the tests that made it; `known` may stay red as they were."""
    pairs = compare(before, after)
    if pairs.broken:
        return "broken", pairs.broken
    if any(test not in known for test in pairs.still_red):
        return "still red", pairs.still_red
    if FAILED in after.values():
        return "known", pairs.still_red
    was_red = any(state == FAILED and test not in known for test, state in before.items())
    return ("mended", pairs.mended) if was_red else ("held", ())


def _is_cut_off(tests: Tests) -> bool:
    """Whether not all of them were run: a file or package could not be loaded, or there is nothing but the status."""
    red = [test for test, state in tests.items() if state == FAILED]
    return any("::" not in test for test in red if test != WHOLE) or (WHOLE in red and len(tests) == 1)


def _bare(test: str) -> str:
    """A test's name without file, class and parameters."""
    name = test.rpartition("::")[2]
    found = re.match(r"(\w+)[\[(/]", name)
    return found[1] if found else name
