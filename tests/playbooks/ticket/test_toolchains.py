"""Build and test commands on small projects of every kind: found as they should be, and really run where they can.

What has no broken variant here is only looked for: Maven fetches its plugins from the network before it does anything,
and the others differ from a kind that is run in nothing but the program's name.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.contracts.toolchains import Command, detect_commands
from interlock.playbooks.ticket import TicketInputs, ticket
from tests.playbooks.ticket.place import REQUEST, Place
from tests.proofs import long

PYTEST = {
    "shop.py": "def total(a, b):\n    return a + b\n",
    "test_shop.py": "from shop import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n",
}
COMPILE = "python3 -m compileall -q -x '(^|/)[.]?(git|venv|interlock|tox|node_modules)/' ."


@dataclass(frozen=True)
class Project:
    """A small project: what is found in it, and the places where it can be broken."""

    files: dict[str, str]
    build: str
    test: str
    tool: str = ""
    """What must be installed to run the commands; empty: they are not run."""
    wrong_test: tuple[str, str, str] = ("", "", "")
    """File, text and replacement: it builds, and its test fails."""
    wrong_build: tuple[str, str, str] = ("", "", "")


NODE = {
    "package.json": '{"name": "shop", "scripts": {"build": "node --check shop.js", "test": "node --test"}}\n',
    "shop.js": "exports.total = (a, b) => a + b;\n",
    "shop.test.js": "const test = require('node:test');\nconst { total } = require('./shop');\n"
    "test('total', () => require('node:assert').equal(total(1, 2), 3));\n",
}
C = {
    "shop.c": "int total(int a, int b) { return a + b; }\n",
    "check.c": "int total(int, int);\nint main(void) { return total(1, 2) == 3 ? 0 : 1; }\n",
}
PLUS = ("a + b", "a - b")

PROJECTS = {
    "npm": Project(
        NODE, "npm run build", "npm test", "npm", ("shop.js", *PLUS), ("shop.js", "=>", "=")
    ),
    "yarn": Project({**NODE, "yarn.lock": ""}, "yarn run build", "yarn test"),
    "pnpm": Project({**NODE, "pnpm-lock.yaml": ""}, "pnpm run build", "pnpm test"),
    "bun": Project({**NODE, "bun.lock": ""}, "bun run build", "bun run test"),
    "pyproject": Project(
        {**PYTEST, "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n'},
        COMPILE,
        "python3 -m pytest",
        "python3",
        ("shop.py", *PLUS),
        ("shop.py", "def", "deff"),
    ),
    "setup.py": Project({**PYTEST, "setup.py": ""}, COMPILE, "python3 -m pytest"),
    "uv": Project({**PYTEST, "pyproject.toml": "", "uv.lock": ""}, COMPILE, "uv run pytest"),
    "poetry": Project({**PYTEST, "pyproject.toml": "", "poetry.lock": ""}, COMPILE, "poetry run pytest"),
    "tox": Project({**PYTEST, "tox.ini": "[tox]\n"}, COMPILE, "tox"),
    "cargo": Project(
        {
            "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "pub fn total(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n"
            "#[test]\nfn totals() {\n    assert_eq!(total(1, 2), 3);\n}\n",
        },
        "cargo build",
        "cargo test",
        "cargo",
        ("src/lib.rs", *PLUS),
        ("src/lib.rs", "i32 {", "i32"),
    ),
    "go": Project({"go.mod": "module shop\n"}, "go build ./...", "go test ./..."),
    "maven": Project({"pom.xml": "<project/>\n"}, "mvn -B compile", "mvn -B test"),
    "maven wrapper": Project({"pom.xml": "<project/>\n", "mvnw": ""}, "./mvnw -B compile", "./mvnw -B test"),
    "gradle": Project({"build.gradle": ""}, "gradle assemble", "gradle test"),
    "gradle wrapper": Project({"build.gradle.kts": "", "gradlew": ""}, "./gradlew assemble", "./gradlew test"),
    "solution": Project({"shop.sln": ""}, "dotnet build", "dotnet test"),
    "csproj": Project({"shop.csproj": "<Project/>"}, "dotnet build", "dotnet test"),
    "cmake": Project(
        {
            **C,
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(shop C)\nenable_testing()\n"
            "add_executable(check shop.c check.c)\nadd_test(NAME total COMMAND check)\n",
        },
        "cmake -S . -B build && cmake --build build",
        "ctest --test-dir build",
        "cmake",
        ("shop.c", *PLUS),
        ("shop.c", "; }", " }"),
    ),
    "make": Project(
        {**C, "Makefile": "shop: shop.c check.c\n\t$(CC) -o $@ $^\n\ntest: shop\n\t./shop\n\n.PHONY: test\n"},
        "make",
        "make test",
        "cc",
        ("shop.c", *PLUS),
        ("shop.c", "; }", " }"),
    ),
}  # fmt: skip


SCRIPTS = '{"scripts": {"build": "b", "test": "t"}}'
ONLY_TEST = '{"scripts": {"test": "t"}}'
NO_TEST = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'
MEMBERS = '{"workspaces": ["packages/*"]}'
TARGETS = ".PHONY: build test\nCC := gcc\nbuild test: deps\n\ttrue\n"


@pytest.mark.req("TK-36", "EV-42")
@pytest.mark.parametrize(
    ("files", "build", "test"),
    [
        ({"package.json": SCRIPTS}, "npm run build", "npm test"),
        ({"package.json": SCRIPTS, "yarn.lock": ""}, "yarn run build", "yarn test"),
        ({"package.json": ONLY_TEST, "pnpm-lock.yaml": ""}, None, "pnpm test"),
        ({"package.json": ONLY_TEST, "bun.lock": ""}, None, "bun run test"),
        ({"package.json": ONLY_TEST, "Makefile": "build:\n"}, "make build", "npm test"),
        ({"package.json": NO_TEST}, None, None),
        ({"package.json": "{not json"}, None, None),
        ({"package.json": "[]", "Cargo.toml": ""}, "cargo build", "cargo test"),
        ({"package.json": NO_TEST, "pyproject.toml": ""}, COMPILE, "python3 -m pytest"),
        (
            {"package.json": MEMBERS},
            "npm run build --workspaces --if-present",
            "npm run test --workspaces --if-present",
        ),
        ({"package.json": "{}", "pnpm-workspace.yaml": ""}, "pnpm -r run build", "pnpm -r run test"),
        ({"package.json": MEMBERS, "yarn.lock": ""}, "yarn workspaces run build", "yarn workspaces run test"),
        ({"deno.json": "{}"}, None, "deno test"),
        ({"deno.jsonc": '{"tasks": {"build": "b", "test": "t"}}'}, "deno task build", "deno task test"),
        ({"setup.cfg": ""}, COMPILE, "python3 -m pytest"),
        ({"pyproject.toml": "", "tox.ini": ""}, COMPILE, "python3 -m pytest"),
        ({"setup.py": "", "uv.lock": ""}, COMPILE, "uv run pytest"),
        ({"Cargo.toml": "[workspace]\n"}, "cargo build --workspace", "cargo test --workspace"),
        ({"Cargo.toml": "", "go.mod": ""}, "cargo build", "cargo test"),
        (
            {"go.work": ""},
            "go list -f '{{.Dir}}/...' -m | xargs go build",
            "go list -f '{{.Dir}}/...' -m | xargs go test",
        ),
        ({"settings.gradle.kts": "", "gradlew": ""}, "./gradlew assemble", "./gradlew test"),
        ({"mix.exs": ""}, "mix compile", "mix test"),
        ({"composer.json": '{"scripts": {"test": "x"}}'}, None, "composer test"),
        ({"composer.json": '{"require-dev": {"phpunit/phpunit": "^11"}}'}, None, "vendor/bin/phpunit"),
        ({"composer.json": "{}", "phpunit.xml.dist": ""}, None, "vendor/bin/phpunit"),
        ({"composer.json": "{}"}, None, None),
        ({"Gemfile": 'gem "rspec"\n'}, None, "bundle exec rspec"),
        ({"Gemfile": "", "Rakefile": ""}, None, "bundle exec rake test"),
        ({"Rakefile": ""}, None, "rake test"),
        ({"GNUmakefile": TARGETS}, "make build", "make test"),
        ({"makefile": "all check: x\n"}, "make all", "make check"),
        ({"Makefile": "x.o: x.c\n\tcc\ntest:\n"}, "make", "make test"),
        ({"Makefile": "test:\n\ttrue\n"}, None, "make test"),
        ({"Makefile": "build := x\ntest ::= y\n%.o: %.c\n"}, None, None),
        ({"README.md": ""}, None, None),
    ],
)
def test_commands_are_found_as_a_person_would(files: dict[str, str], build: str | None, test: str | None) -> None:
    """What the first file does not say, the next one may; what none says stays unknown."""
    found = detect_commands(files, files)
    assert (found.build and found.build.text, found.test and found.test.text) == (build, test)


@pytest.mark.req("EV-05", "EV-42")
def test_each_command_knows_where_it_was_found() -> None:
    found = detect_commands(["package.json", "Makefile"], {"package.json": ONLY_TEST, "Makefile": "all:\n"})
    assert (found.build, found.test) == (Command("make all", "Makefile"), Command("npm test", "package.json"))


@pytest.mark.req("TK-36")
@pytest.mark.parametrize("kind", PROJECTS)
def test_the_commands_of_a_project_are_found(tmp_path: Path, kind: str) -> None:
    """The Planner's brief has them, as a dry run shows it; nothing has to be said."""
    project, place = PROJECTS[kind], Place(tmp_path / "work")
    place.begin(project.files)
    plan = asyncio.run(place.app().plan(ticket, TicketInputs(REQUEST)))
    assert plan.before is not None
    brief = plan.before.detail.brief
    assert f"\nBuild command: {project.build}\nTest command: {project.test}\n" in brief


def run(root: Path, command: str) -> int:
    """As the engine runs it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ("sh", "-c", command), cwd=root, env={**os.environ, "PATH": path}, capture_output=True, check=False
    )
    return done.returncode


HERE = [kind for kind, project in PROJECTS.items() if project.tool and shutil.which(project.tool)]


@pytest.mark.req("TK-36", "TK-112", "TK-113")
@pytest.mark.parametrize("kind", [*HERE[-1:], *long(*HERE[:-1])])
def test_the_commands_of_a_project_tell_red_from_green(tmp_path: Path, kind: str) -> None:
    """A sound project builds and passes; a wrong result is red in the tests; what does not compile is red at once."""
    project = PROJECTS[kind]
    place = Place(tmp_path)
    place.write(project.files)
    assert run(tmp_path, project.build) == 0
    assert run(tmp_path, project.test) == 0
    for (name, old, new), colours in ((project.wrong_test, (True, False)), (project.wrong_build, (False, False))):
        place.write({name: project.files[name].replace(old, new, 1)})
        for folder in tmp_path.rglob("__pycache__"):
            shutil.rmtree(folder)
        assert (run(tmp_path, project.build) == 0, run(tmp_path, project.test) == 0) == colours, name
