"""What a change does to the tests and checks of a project, told from its difference alone.

Nothing here is forbidden: tests are deleted and moved for good reasons.  But it is evidence, and whoever judges the
change next is told of it, as is the person who watches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from interlock.contracts.definitions import hides, is_definition, is_recorded, is_test
from interlock.documents.patches import patch_parts

_SKIP = re.compile(
    r"pytest\.mark\.(skip|skipif|xfail)\b|\bpytest\.(skip|xfail|importorskip|exit)\(|\bunittest\.(skip|expectedFailure)"
    r"|@(skip|skipIf|skipUnless|expectedFailure)\b"
    r"|\b(it|test|describe|context|suite)(\.\w+)*\.(skip|skipIf|runIf|todo|fixme|only|failing)\b"
    r"|\{\s*(skip|todo):\s*(true|['\"])|\.each\(\[\s*\]\)|\bparametrize\([^\[]*\[\s*\]\s*[,)]|^\s*del test_\w+"
    r"|^\s*(if|while)\s*\(?(False|false|0)\)?\s*[:{]"
    r"|\b(xit|xtest|xdescribe|fit|fdescribe)\(|\bt\.Skip(f|Now)?\(|#\[ignore\b|#\[cfg_attr\(.*\bignore\b|#!\[allow\(|#\[should_panic\b"
    r"|@(Disabled|Enabled)(If|On|For)?\w*\b|@Ignore\b"
    r"|@Test\s*\(.*(enabled\s*=\s*false|expected\s*=\s*\w*(Exception|Throwable|Error)\b)"
    r"|\btesting\.Short\(\)|func TestMain\(m \*testing\.M\)\s*\{\s*\}|\bpending\(|\[Ignore"
    r"|collect_ignore|pytest_collection_modifyitems|deselect|eslint-disable|@ts-(ignore|nocheck|expect-error)"
    r"|\bSkipTest\b|\.skipTest\(|\b__test__\s*=\s*False|#\s*(noqa|type:\s*ignore|pragma:\s*no cover)\b|//nolint"
    r"|\b(c8|istanbul|v8) ignore\b|\bassume(True|False|That)\(|\bthis\.skip\(\)|#\[cfg\(any\(\)\)\]"
    r"|^\s*//\s*(go:build|\+build)\b"
)
_SWITCH = re.compile(r"^\s*(test|doctest|bench|harness|autotests)\s*=\s*false")
"""In a Cargo.toml: a test that is none."""
_TEST = re.compile(
    r"^\s*(async\s+)?def\s+test\w*\(|^\s*(it|test)(\.each.*)?\(|^func\s+(Test|Fuzz)\w*\(|^\s*@(Test|ParameterizedTest)\b"
    r"|^\s*#\[(\w+::)?test\]|^\s*@test\s+\"|^\s*(it|scenario)\s+['\"]|^\s*class\s+(Test\w*\b|\w+\(.*TestCase\))"
)
_BESIDE = re.compile(r"^\s*#\[(\w+::)?test\]")
"""A test that stands beside what it tests."""
_ASSERTION = re.compile(
    r"^\s*assert\b|\bassert[A-Z]\w*\(|\bassert(_\w+)?!?\(|\b(assert|require)\.\w+\(|\bexpect\(|\bexpect\.(assertions|hasAssertions)\("
    r"|\bpytest\.raises\("
    r"|\bt\.(Error|Fatal)f?\(|\.should\b|\b(EXPECT|ASSERT)_\w+\("
)
_EXACT = re.compile(
    r"^\s*assert\b.*(==|!=|\bin\b|\bis\b(?! not None))|\bassert(Array|Dict|List|Not)?(Equals?|Same|In|Raises)\w*\("
    r"|\.to(Be|Equal|StrictEqual|Match|Contain|Throw|HaveLength)\w*\((?!\s*\))|\bassert_(eq|ne)!\("
    r"|\b(assert|require)\.(Equal|Exactly|Same|strictEqual|deepEqual|deepStrictEqual)\("
)
"""An assertion that names what it compares with."""
_HOLDS = re.compile(
    r"^\s*assert\s+(True|1|not False|\(.*,.*\))\s*(#.*)?$|\bassert\b.*\bor True\b|\bassertTrue\(\s*(True|true|1)\s*[,)]"
    r"|\bexpect\(\s*(true|1)\s*\)\.(toBe|toEqual|toBeTruthy)\(|\bassert!?(\.ok|\.True)?\(\s*(t,\s*)?true\s*[,)]"
)
"""An assertion that holds whatever happens."""
_SWALLOWS = re.compile(
    r"\bsuppress\((AssertionError|Exception|BaseException)\b|^\s*except\s*(\(?.*\b(AssertionError|BaseException)\b.*)?:"
    r"|\bcatch\s*(\([^)]*\))?\s*\{\s*\}|\bcatch\s*\((final )?(Throwable|AssertionError)\b"
)
"""In a test: an assertion that fails is caught."""
_LEAVES = re.compile(r"\bos\._exit\(|\b(sys|process)\.exit\(0?\)|\braise SystemExit\b|\bos\.Exit\(0\)")
"""In a test: everything ends there, and well."""
_LOOKS = re.compile(
    r"PYTEST_CURRENT_TEST|[\"']pytest[\"'] (not )?in sys\.modules|\bcfg!\(test\)|#\[cfg\(not\(test\)\)\]"
    r"|JEST_WORKER_ID|\btesting\.Testing\(\)"
    r"|(NODE|RAILS|APP)_ENV\W{1,6}[!=]==?\W{1,3}test\b"
)
"""In the product: it looks whether it is being tested."""
QUOTED_MOST = 3
"""Lines of one kind that are quoted from a file; the rest is counted."""
_THRESHOLD = re.compile(
    r"(fail[-_]under|cov-fail-under|coverageThreshold|\bthresholds?\b|minimum_coverage|min[-_]?coverage"
    r"|\b(branches|functions|lines|statements)\b|max-warnings|--max-warnings)[^\n\d]{0,20}(\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_ALLOWS_MORE = re.compile("max-warnings", re.IGNORECASE)


@dataclass
class _File:
    """One file of a difference."""

    path: str
    gone: bool
    new: bool
    binary: bool
    """Its lines cannot be compared."""
    modes: tuple[str, ...] = ()
    """Before and after, where they differ."""
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def fewer(self, pattern: re.Pattern[str]) -> int:
        """Of the lines with this pattern, how many more went than came."""
        return _count(pattern, self.removed) - _count(pattern, self.added)

    def new_lines(self, pattern: re.Pattern[str]) -> list[str]:
        """The lines with this pattern that were not there before."""
        known = {line.strip() for line in self.removed}
        return [line.strip()[:100] for line in self.added if pattern.search(line) and line.strip() not in known]


def weakened(patch: str) -> tuple[str, ...]:
    """What the difference (as git writes it) does to tests and checks, one sentence each."""
    files = list(_files(patch))
    arrived: dict[str, _File] = {one.name: one for one in files if one.new}
    return tuple(said for one in files for said in _of_file(one, arrived))


def _of_file(one: _File, arrived: Mapping[str, _File]) -> Iterator[str]:
    if is_test(one.path):
        if one.gone:
            yield from _gone(one, arrived.get(one.name))
            return
        yield from _in_test(one)
    elif (fewer := one.fewer(_BESIDE)) > 0:
        yield f"removes {_tests(fewer)} from {one.path}"
    else:
        yield from _quoted(f"lets the product see that it is being tested, in {one.path}: ", one.new_lines(_LOOKS))
    off = one.new_lines(_SKIP) + (one.new_lines(_SWITCH) if one.name == "Cargo.toml" else [])
    yield from _quoted(f"switches a check off in {one.path}: ", off)
    for before, after in _lowered(one):
        yield f"lowers a threshold in {one.path}: {before} -> {after}"
    if is_definition(one.path):
        verb = "deletes" if one.gone else "adds" if one.new else "changes"
        yield f"{verb} {one.path}, which says how tests and checks are run"
    for rule in _hiding(one):
        yield f"hides tests, or what says how they are run, by a rule in {one.path}: {rule}"


def _gone(one: _File, again: _File | None) -> Iterator[str]:
    """A test file that is not there any more: it may be elsewhere, with as many tests as it had."""
    if again is None or not is_test(again.path):
        yield f"deletes {one.path}"
    elif (fewer := _count(_TEST, one.removed) - _count(_TEST, again.added)) > 0:
        now = f", which is {again.path} now" if again.path != one.path else ""
        yield f"removes {_tests(fewer)} from {one.path}{now}"
    elif again.path.split("/")[0] != one.path.split("/")[0]:
        yield f"moves {one.path} to {again.path}"


def _in_test(one: _File) -> Iterator[str]:
    if (fewer := one.fewer(_TEST)) > 0:
        yield f"removes {_tests(fewer)} from {one.path}"
    elif (fewer := one.fewer(_ASSERTION)) > 0:
        yield f"removes {fewer} assertion{'s' if fewer > 1 else ''} from {one.path}"
    elif (fewer := one.fewer(_EXACT)) > 0:
        yield f"makes {fewer} assertion{'s' if fewer > 1 else ''} weaker in {one.path}"
    yield from _quoted(f"adds an assertion that always holds to {one.path}: ", one.new_lines(_HOLDS))
    yield from _quoted(f"catches assertions that fail, in {one.path}: ", one.new_lines(_SWALLOWS))
    yield from _quoted(f"ends the tests early, and well, in {one.path}: ", one.new_lines(_LEAVES))
    if one.modes and int(one.modes[0], 8) & 0o111 and not int(one.modes[1], 8) & 0o111:
        yield f"makes {one.path} a file that cannot be run"
    if one.binary and not one.new and not is_recorded(one.path):
        yield f"changes {one.path}, a binary file for git, so that its lines cannot be compared"
    if is_recorded(one.path) and not one.new and one.removed:
        yield f"changes what tests compare with: {one.path}"


def _tests(number: int) -> str:
    return f"{number} test{'s' if number > 1 else ''}"


def _quoted(lead: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"{lead}{line}" for line in lines[:QUOTED_MOST])
    if len(lines) > QUOTED_MOST:
        yield f"{lead}and {len(lines) - QUOTED_MOST} more"


def _hiding(one: _File) -> Iterator[str]:
    """New rules by which git would ignore a test or a definition: nobody compares what it ignores."""
    if one.path.rpartition("/")[2] != ".gitignore":
        return
    known = {line.strip() for line in one.removed}
    for line in map(str.strip, one.added):
        if line not in known and not line.startswith(("#", "!")) and hides(line):
            yield line[:100]
    for line in known.difference(map(str.strip, one.added)):
        if line.startswith("!") and hides(line[1:]):
            yield f"{line[:100]} (no more)"


def _lowered(one: _File) -> Iterator[tuple[str, str]]:
    before = {found[1].casefold(): found for line in one.removed if (found := _THRESHOLD.search(line))}
    for line in one.added:
        found = _THRESHOLD.search(line)
        if found is None or (old := before.get(found[1].casefold())) is None:
            continue
        now, then = float(found[3]), float(old[3])
        if now > then if _ALLOWS_MORE.search(found[1]) else now < then:
            yield " ".join(old[0].split()), " ".join(found[0].split())


def _count(pattern: re.Pattern[str], lines: Sequence[str]) -> int:
    return sum(pattern.search(line) is not None for line in lines)


def _files(patch: str) -> Iterator[_File]:
    for part in patch_parts(patch.encode("utf-8", "surrogateescape")):
        file = _File(
            part.path or "",
            gone=bool(part.said("deleted file mode")),
            new=bool(part.said("new file mode")),
            binary=part.is_binary,
        )
        if before := part.said("old mode"):
            file.modes = (before, part.said("new mode"))
        for row in part.rows():
            line = row.decode("utf-8", "surrogateescape")
            if line[:1] == "+":
                file.added.append(line[1:])
            elif line[:1] == "-":
                file.removed.append(line[1:])
        yield file
