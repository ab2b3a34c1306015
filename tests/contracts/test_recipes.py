"""What a command does is followed by names: through make targets and package scripts to the files that are started."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts.recipes import MAKEFILES, PACKAGE, Recipe, read_recipes, recipe_files

MAKEFILE = """\
PY := python3
.PHONY: test lint
all: app ; ./bundle.sh
app: main.c
\t$(CC) -o app main.c
test: unit # and no more
\t@./scripts/test.sh --all
unit: seed.sql
\tbash -eu tools/unit \\
\t  && CI=1 $(PYTHON) tools/check.py
lint: ; $(MAKE) -s format
format:
\tnpm run format
run:
\tpython src/app.py
loop: loop
\tmake loop
"""
PACKAGE_JSON = json.dumps(
    {
        "main": "src/index.js",
        "scripts": {"pretest": "./before.sh", "test": "node tools/run.js", "format": "sh -c './fmt.sh'", "start": 7},
    }
)
TEXTS = {"Makefile": MAKEFILE, PACKAGE: PACKAGE_JSON}


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("command", "starts"),
    [
        ("./check.sh", {"check.sh"}),
        ("sh -e check.sh && python3 -B tools/a.py | tee log", {"check.sh", "tools/a.py"}),
        ("A=1 exec ./check.sh", {"check.sh"}),
        ("uv run python tools/a.py", {"tools/a.py"}),
        ("python -m pytest tests/test_a.py", set()),
        ("node --check src/a.js && sh -n b.sh", set()),
        ("sh -c './a.sh; b'", {"a.sh"}),
        ("pytest", set()),
        ('make -s test ARGS="tests -k slow" # all', {"scripts/test.sh", "tools/unit", "tools/check.py"}),
        ("timeout -k 5 600 make lint", {"fmt.sh"}),
        ("sh -c 'make lint'", {"fmt.sh"}),
        ("make -s test", {"scripts/test.sh", "tools/unit", "tools/check.py"}),
        ("make -j 4", {"bundle.sh"}),
        ("make lint", {"fmt.sh"}),
        ("make loop", set()),
        ("make app", set()),
        ("npm test", {"before.sh", "tools/run.js"}),
        ("npm t", {"before.sh", "tools/run.js"}),
        ("yarn -s format", {"fmt.sh"}),
        ("pnpm run format -- --x", {"fmt.sh"}),
        ("npm tst", {"before.sh", "tools/run.js"}),
        ("npm run -s format", {"fmt.sh"}),
        ("yarn format src", {"fmt.sh"}),
        ("yarn format test", {"fmt.sh"}),
        ("npm ci", set()),
        ("npm ci t", set()),
        ("600 ./a.sh", set()),
        ("cd web\n./a.sh", {"a.sh"}),
        ("./a@2:x.sh", {"a@2:x.sh"}),
        ("./a.sh 'unclosed; ./b.sh", {"a.sh", "b.sh"}),
        ("python3 tools/a.py tools/b.py", {"tools/a.py"}),
        ("python3 -c './a.sh'", set()),
        ("sh ./a.sh -c ./b.sh", {"a.sh"}),
    ],
)
def test_what_a_command_starts(command: str, starts: set[str]) -> None:
    """Only behind what it names: what another target starts, or compiles, is not its definition."""
    found = read_recipes(command, TEXTS)
    assert (found.starts, found.known) == (starts, True)


@pytest.mark.req("EV-04")
@pytest.mark.parametrize(
    ("command", "texts", "known"),
    [
        ("make e2e", TEXTS, False),
        ("make e2e", {"Makefile": "include more.mk\n"}, True),
        ("make e2e", {}, False),
        ("make", {}, False),
        ("make", {"GNUmakefile": "e2e:\n\ttrue\n", "Makefile": ""}, True),
        ("npm run e2e", TEXTS, False),
        ("npm test", {PACKAGE: "{}"}, False),
        ("npm test", {PACKAGE: "not json"}, False),
        ("npm test", {PACKAGE: "[" * 100_000}, False),
        ("npm test", {PACKAGE: "[]"}, False),
        ("npm start", TEXTS, False),
        ("npm start", {PACKAGE: '{"scripts": {"start": "x"}}'}, True),
        ("make test && npm run e2e", TEXTS, False),
        ("npm ci", {}, True),
        ('make test ARGS="-k slow"', TEXTS, True),
        ("make -C sub test", TEXTS, True),
        ("make -f other.mk test", TEXTS, True),
        ("npm run -w web test", TEXTS, True),
        ("pytest", {}, True),
    ],
)
def test_whether_something_stands_behind_a_command(command: str, texts: dict[str, str], known: bool) -> None:
    """A target or script that is not there yet."""
    assert read_recipes(command, texts).known is known


def test_which_files_are_to_be_read() -> None:
    assert recipe_files("cd web && make test") == recipe_files("CI=1 npm test") == (*MAKEFILES, PACKAGE)
    """Also behind a shell that is handed the line."""
    assert recipe_files("sh -c 'make test'") == (*MAKEFILES, PACKAGE)
    assert recipe_files("pytest && ./make.sh") == ()


def test_make_alone_makes_its_first_target() -> None:
    """And none but that."""
    assert read_recipes("make", {"Makefile": "a:\n\t./a.sh\nb:\n\t./b.sh\n"}).starts == {"a.sh"}


@given(st.text(), st.dictionaries(st.sampled_from((*MAKEFILES, PACKAGE)), st.text()))
def test_reading_is_total(command: str, texts: dict[str, str]) -> None:
    """Whatever stands there, and however it goes round."""
    around = {"Makefile": f"a: a\n\t{command}\n", PACKAGE: json.dumps({"scripts": {"b": f"make a && {command}"}})}
    assert isinstance(read_recipes(command, texts), Recipe)
    assert isinstance(read_recipes("make a && npm run b", {**around, **texts}), Recipe)
