"""Which files say what is tested and how: told by their names alone."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase, translate

_TEST_FILE = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testing)/.*\.\w+$"
    r"|(^|/)(test_[^/]*\.py|[^/]*_test\.(py|go|dart|exs|c|cc|cpp)|[^/]*\.(test|spec|cy)\.[cm]?[jt]sx?|[^/]*_spec\.rb"
    r"|[^/]*(Test|Tests|Spec|IT)\.(java|kt|scala|cs|php|swift)|test-[^/]*\.(sh|bats)|[^/]*\.(bats|snap|t))$"
)
_DEFINITIONS = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "tox.toml", "setup.cfg", "noxfile.py"),
    *(".coveragerc", "pyproject.toml", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8", ".pylintrc"),
    *("pyrightconfig.json", "clippy.toml", ".clippy.toml", "nextest.toml", "codecov.y*ml", ".codecov.y*ml"),
    *("package.json", ".npmrc", ".yarnrc*", "bunfig.toml", "deno.json*", ".mocharc*", ".taprc", ".nycrc*", ".c8rc*"),
    *(".eslintrc*", ".eslintignore", "biome.json*", "tsconfig*.json", "turbo.json", "nx.json", ".golangci.*"),
    *(f"{tool}.config.*" for tool in ("jest", "vitest", "vite", "karma", "mocha", "ava", "nyc", "eslint")),
    *("playwright.config.*", "cypress.config.*", "cypress.json", "jest.setup.*", "vitest.setup.*"),
    *("vitest.workspace.*", "karma.conf.*", "wdio.conf.*", "protractor.conf.*", "nightwatch.conf.*"),
    *("Makefile", "makefile", "GNUmakefile", "Makefile.*", "*.mk", "Justfile", "justfile", "Taskfile.y*ml"),
    *("CMakeLists.txt", "CTestTestfile.cmake", "CTestCustom.cmake", ".bazelrc"),
    *("pom.xml", "maven.config", "build.gradle", "build.gradle.kts", "gradle.properties", "build.sbt"),
    *("Rakefile", ".rspec*", ".simplecov", "phpunit.xml", "phpunit.xml.dist", "phpstan.neon*", "test_helper.exs"),
    *(".env", ".env.*", ".pre-commit-config.yaml", "lefthook.yml", ".gitlab-ci.yml", ".travis.yml", ".drone.yml"),
    *(".woodpecker.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", "cloudbuild.yaml"),
    "Jenkinsfile",
)
"""Names of files that say how tests and checks are run."""
_DEFINITION = re.compile("|".join(map(translate, _DEFINITIONS)))
_SAMPLES = tuple(name.replace("*", "x") for name in _DEFINITIONS)
_PLACES = re.compile(r"(^|/)(\.cargo/config(\.toml)?|\.circleci/.*|\.buildkite/.*|test/mocha\.opts)$")
_SHADOWS = re.compile(
    r"(_?pytest|unittest|pluggy|coverage|nose2?|mypy|ruff|tox|sitecustomize|usercustomize)(\.py|/__init__\.py)"
)
"""A module at the root that Python finds before the one which runs the tests."""
_SAYS_NOTHING = re.compile(r"Makefile\.(md|rst|txt)|\.env\.(example|sample|template|dist)")
"""It has such a name, and nobody reads it."""
_RECORDED = re.compile(r"(^|/)(__snapshots__|snapshots|goldens?)/|\.(snap|ambr|golden|approved\.\w+)$")


_PROGRAMS = re.compile(r"(^|/)(\.?venv|node_modules|vendor|\.tox|\.nox|\.yarn|bin)/$")


def holds_programs(folder: str) -> bool:
    """Whether a folder that a project ignores is one in which the programs are installed that run its tests."""
    return _PROGRAMS.search(folder) is not None


def is_definition(path: str) -> bool:
    """Whether this file says what tests and checks are, or how they are run."""
    name = path.rpartition("/")[2]
    if _SAYS_NOTHING.fullmatch(name):
        return False
    return any((_DEFINITION.match(name), _PLACES.search(path), _SHADOWS.fullmatch(path)))


def is_test(path: str) -> bool:
    return _TEST_FILE.search(path) is not None


def is_recorded(path: str) -> bool:
    """Whether tests compare with this file, which a program wrote."""
    return _RECORDED.search(path) is not None


def hides(rule: str) -> bool:
    """Whether a rule by which git ignores files can be met by a test, by a definition, or by a folder of tests."""
    rule = re.sub(r"(?<=[^*/])/\**$", "", rule)  # a folder, and all that is in it
    name, path = rule.rpartition("/")[2], rule.lstrip("*/").replace("*", "x")
    if name.startswith(".env"):  # as everybody does: it has secrets
        return False
    known = is_definition(path) or any(fnmatchcase(one, name) for one in _SAMPLES)
    return known or is_test(path) or is_test(f"{path}/x.py")
