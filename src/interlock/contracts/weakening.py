"""What a change does to the tests and checks of a project, told from its difference alone.

Nothing here is forbidden: tests are deleted and moved for good reasons.  But it is evidence, and whoever judges the
change next is told of it, as is the person who watches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate

_TEST_FILE = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testing)/.*\.\w+$"
    r"|(^|/)(test_[^/]*\.py|[^/]*_test\.(py|go|dart|exs|c|cc|cpp)|[^/]*\.(test|spec)\.[cm]?[jt]sx?|[^/]*_spec\.rb"
    r"|[^/]*(Test|Tests|Spec|IT)\.(java|kt|scala|cs|php|swift)|test-[^/]*\.(sh|bats)|[^/]*\.bats)$"
)
_DEFINITIONS = (
    *("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "noxfile.py", ".coveragerc", "pyproject.toml", "mypy.ini"),
    *("ruff.toml", ".ruff.toml", ".flake8", ".pylintrc", "clippy.toml", "codecov.yml", "codecov.yaml"),
    *("package.json", ".mocharc*", ".eslintrc*", "tsconfig*.json", ".golangci.yml", ".golangci.yaml"),
    *(f"{tool}.config.*" for tool in ("jest", "vitest", "karma", "mocha", "playwright", "cypress", "eslint")),
    *("Makefile", "makefile", "GNUmakefile", "Justfile", "justfile", "Taskfile.yml", "Taskfile.yaml", "CMakeLists.txt"),
    *("pom.xml", "build.gradle", "build.gradle.kts", "build.sbt", "Rakefile", "phpunit.xml", "phpunit.xml.dist"),
)
"""Names of files that say how tests and checks are run."""
_DEFINITION = re.compile("|".join(map(translate, _DEFINITIONS)))
_SAMPLES = tuple(name.replace("*", "x") for name in _DEFINITIONS)
_SKIP = re.compile(
    r"pytest\.mark\.(skip|skipif|xfail)\b|\bpytest\.(skip|xfail|importorskip)\(|\bunittest\.(skip|expectedFailure)"
    r"|@(skip|skipIf|skipUnless|expectedFailure)\b|\b(it|test|describe|context|suite)\.(skip|todo|fixme|only|failing)\b"
    r"|\b(xit|xtest|xdescribe|fit|fdescribe)\(|\bt\.Skip(f|Now)?\(|#\[ignore\b|@(Disabled|Ignore)\b|\bpending\(|\[Ignore"
    r"|collect_ignore|pytest_collection_modifyitems|deselect|eslint-disable|@ts-(ignore|nocheck)"
)
_TEST = re.compile(
    r"^\s*(async\s+)?def\s+test\w*\(|^\s*(it|test)(\.each.*)?\(|^func\s+(Test|Fuzz)\w*\(|^\s*@(Test|ParameterizedTest)\b"
    r"|^\s*#\[(tokio::)?test\]|^\s*@test\s+\"|^\s*(it|scenario)\s+['\"]"
)
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
    gone: bool = False
    new: bool = False
    in_text: bool = False
    """Its head is over, what follows are its lines."""
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """One more line of the difference."""
        if line.startswith("@@"):
            self.in_text = True
        elif self.in_text and line[:1] == "+":
            self.added.append(line[1:])
        elif self.in_text and line[:1] == "-":
            self.removed.append(line[1:])
        elif line.startswith("deleted file mode"):
            self.gone = True
        elif line.startswith("new file mode"):
            self.new = True


def is_definition(path: str) -> bool:
    """Whether this file says what tests and checks are, or how they are run."""
    return _DEFINITION.match(path.rpartition("/")[2]) is not None


def is_test(path: str) -> bool:
    return _TEST_FILE.search(path) is not None


def weakened(patch: str) -> tuple[str, ...]:
    """What the difference (as git writes it) does to tests and checks, one sentence each."""
    files = _files(patch)
    arrived = {one.path.rpartition("/")[2] for one in files if one.new}
    return tuple(said for one in files for said in _of_file(one, arrived))


def _of_file(one: _File, arrived: set[str]) -> Iterator[str]:
    if is_test(one.path):
        if one.gone:
            if one.path.rpartition("/")[2] not in arrived:
                yield f"deletes {one.path}"
            return
        if (fewer := _count(_TEST, one.removed) - _count(_TEST, one.added)) > 0:
            yield f"removes {fewer} test{'s' if fewer > 1 else ''} from {one.path}"
    for line in _marks(one):
        yield f"switches a check off in {one.path}: {line}"
    for before, after in _lowered(one):
        yield f"lowers a threshold in {one.path}: {before} -> {after}"
    if is_definition(one.path):
        verb = "deletes" if one.gone else "adds" if one.new else "changes"
        yield f"{verb} {one.path}, which says how tests and checks are run"
    for rule in _hiding(one):
        yield f"hides tests, or what says how they are run, by a rule in {one.path}: {rule}"


def _hiding(one: _File) -> Iterator[str]:
    """New rules by which git would ignore a test or a definition: nobody compares what it ignores."""
    if one.path.rpartition("/")[2] != ".gitignore":
        return
    known = {line.strip() for line in one.removed}
    for line in map(str.strip, one.added):
        if line not in known and not line.startswith(("#", "!")) and _hides(line):
            yield line[:100]
    for line in known.difference(map(str.strip, one.added)):
        if line.startswith("!") and _hides(line[1:]):
            yield f"{line[:100]} (no more)"


def _hides(rule: str) -> bool:
    """Whether a rule can be met by a test, by a definition, or by a folder of tests."""
    rule = re.sub(r"(?<=[^*/])/\**$", "", rule)  # a folder, and all that is in it
    name, path = rule.rpartition("/")[2], rule.lstrip("*/").replace("*", "x")
    known = is_definition(path) or any(fnmatchcase(one, name) for one in _SAMPLES)
    return known or is_test(path) or is_test(f"{path}/x.py")


def _marks(one: _File) -> Iterator[str]:
    known = {line.strip() for line in one.removed}
    for line in one.added:
        if _SKIP.search(line) and line.strip() not in known:
            yield line.strip()[:100]


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


def _files(patch: str) -> list[_File]:
    files: list[_File] = []
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            files.append(_File(_path(line)))
        elif files:
            files[-1].take(line)
    return files


def _path(line: str) -> str:
    """The path in ``diff --git a/x b/x``; both sides are the same, since renames are not looked for."""
    rest = line.removeprefix("diff --git ").strip()
    half = rest[len(rest) // 2 + 1 :]
    return half.strip('"').removeprefix("b/")
