"""How a project is built, tested and prepared is found in its files."""

from __future__ import annotations

import json
import posixpath

import pytest

from interlock.engine.toolchains import PROJECT_FILES, find, not_runnable, setups

pytestmark = pytest.mark.req("EVID-05")
SCRIPTS = json.dumps({"scripts": {"build": "tsc", "test": "jest"}})


class Tree:
    """Files by path, as any of the ways to look has them."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def list(self, folder: str) -> list[str]:
        start = "" if folder == "." else f"{folder}/"
        return sorted({path.removeprefix(start).split("/")[0] for path in self.files if path.startswith(start)})


def _tree(files: str | dict[str, str]) -> Tree:
    return Tree(dict.fromkeys(files.split(), "") if isinstance(files, str) else files)


def _found(files: str | dict[str, str], place: str = ".") -> dict[str, str]:
    return {tool.name: tool.line_from(place) for tool in find(_tree(files), place)}


ALONE = [
    ("", {}),
    ("README.md lib.py test_lib.py", {}),
    ({"package.json": SCRIPTS}, {"build": "npm run build", "test": "npm test"}),
    ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, {}),
    ({"package.json": SCRIPTS, "pnpm-lock.yaml": ""}, {"build": "pnpm run build", "test": "pnpm test"}),
    ({"package.json": SCRIPTS, "yarn.lock": ""}, {"build": "yarn run build", "test": "yarn test"}),
    ({"package.json": SCRIPTS, "bun.lock": ""}, {"build": "bun run build", "test": "bun run test"}),
    ({"package.json": "{ no json"}, {}),
    ({"package.json": "[" * 5000}, {}),
    ("pyproject.toml tests/test_a.py", {"test": "python3 -m pytest"}),
    ("pyproject.toml test_a.py uv.lock", {"test": "uv run pytest"}),
    ("setup.py conftest.py poetry.lock", {"test": "poetry run pytest"}),
    ("setup.cfg a_test.py pdm.lock", {"test": "pdm run pytest"}),
    ({"pyproject.toml": "[tool.pytest.ini_options]"}, {"test": "python3 -m pytest"}),
    ({"pyproject.toml": "[tool.black]"}, {}),
    ("tox.ini", {"test": "tox"}),
    ("tox.ini uv.lock", {"test": "uv run tox"}),
    ({"Cargo.toml": "[package]"}, {"build": "cargo build", "test": "cargo test"}),
    ({"Cargo.toml": "[workspace]"}, {"build": "cargo build --workspace", "test": "cargo test --workspace"}),
    ("go.mod", {"build": "go build ./...", "test": "go test ./..."}),
    ("pom.xml", {"build": "mvn -B compile", "test": "mvn -B test"}),
    ("pom.xml mvnw", {"build": "./mvnw -B compile", "test": "./mvnw -B test"}),
    ("build.gradle.kts gradlew", {"build": "./gradlew assemble", "test": "./gradlew test"}),
    ("My_App.sln app.csproj", {"build": "dotnet build My_App.sln", "test": "dotnet test My_App.sln"}),
    ({"CMakeLists.txt": "project(x)"}, {"build": "cmake -S . -B build && cmake --build build"}),
    ({"CMakeLists.txt": "include(CTest)"},
     {"build": "cmake -S . -B build && cmake --build build",
      "test": "cmake -S . -B build && cmake --build build && ctest --test-dir build --output-on-failure"}),
    ({"Makefile": "all: x\n\ttrue\nx check: y\n\ttrue\n"}, {"build": "make all", "test": "make check"}),
    ({"makefile": "prog: a.c\n\tgcc a.c\n"}, {}),
    ({"Makefile": "help:\n\techo\n.PHONY: build\nX := build\n%.o: %.c\n"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("files", "found"), ALONE, ids=str)
def test_each_kind_of_project_says_its_commands(files: str | dict[str, str], found: dict[str, str]) -> None:
    """A lock file's runner is part of them; what says nothing gives none."""
    assert _found(files) == found


def test_the_list_decides_and_what_one_does_not_say_the_next_may() -> None:
    """In the order of the specification."""
    files = {"Makefile": "build:\n\ttrue\ntest:\n\ttrue\n", "pyproject.toml": "", "tests/a.py": ""}
    assert _found(files) == {"build": "make build", "test": "python3 -m pytest"}
    assert _found({**files, "package.json": SCRIPTS})["test"] == "npm test"
    order = [*PROJECT_FILES]
    assert order.index("package.json") < order.index("pyproject.toml") < order.index("Makefile")


def test_the_nearest_folder_upward_counts() -> None:
    """Each command from the nearest that says it, run there; a runner or starter may lie further up."""
    files = {
        "package.json": SCRIPTS,
        "pnpm-lock.yaml": "",
        "packages/my app/package.json": '{"scripts": {"test": "vitest"}}',
        "packages/my app/src/x.ts": "",
        "services/api/pyproject.toml": "pytest",
        "services/uv.lock": "",
        "java/gradlew": "",
        "java/core/build.gradle": "",
    }
    assert _found(files, "packages/my app") == {"build": "cd ../.. && pnpm run build", "test": "pnpm test"}
    assert _found(files, "packages/my app/src")["test"] == "cd .. && pnpm test"
    assert _found(files, "services/api")["test"] == "uv run pytest"
    assert _found(files, "java/core")["build"] == "../gradlew assemble"
    assert _found(files, "packages") == {"build": "cd .. && pnpm run build", "test": "cd .. && pnpm test"}
    (_, test) = find(_tree(files), "packages/my app")
    assert (test.source, test.folder) == ("packages/my app/package.json", "packages/my app")


SETUPS = [
    ("", []),
    ("go.mod Cargo.toml pom.xml", []),
    ("uv.lock pyproject.toml", [("uv sync", ("pyproject.toml", "uv.lock"), (".venv",))]),
    ("poetry.lock pyproject.toml", [("poetry install", ("pyproject.toml", "poetry.lock"), ())]),
    ("Pipfile.lock Pipfile", [("pipenv sync --dev", ("Pipfile", "Pipfile.lock"), ())]),
    ("requirements.txt", []),
    ("requirements.txt requirements-dev.txt .venv/bin/pip",
     [("python3 -m pip install -r requirements-dev.txt -r requirements.txt",
       ("requirements-dev.txt", "requirements.txt"), (".venv",))]),
    ("pyproject.toml .venv/bin/python", [("uv pip install -e .", ("pyproject.toml",), (".venv",))]),
    ("package.json package-lock.json",
     [("npm install --no-audit --no-fund", ("package.json", "package-lock.json"), ("node_modules",))]),
    ("package.json pnpm-lock.yaml uv.lock",
     [("pnpm install", ("package.json", "pnpm-lock.yaml"), ("node_modules",)), ("uv sync", ("uv.lock",), (".venv",))]),
    ("package.json", []),
    ({"package.json": '{"devDependencies": {"jest": "1"}}'},
     [("npm install --no-audit --no-fund", ("package.json",), ("node_modules",))]),
]  # fmt: skip


@pytest.mark.req("TREE-05")
@pytest.mark.parametrize(("files", "wanted"), SETUPS, ids=str)
def test_what_prepares_a_project_knows_its_manifests_and_what_it_makes(
    files: str | dict[str, str], wanted: list[tuple[str, tuple[str, ...], tuple[str, ...]]]
) -> None:
    """It runs again when one of them changed or is missing; tool chains that fetch by themselves need none."""
    assert [(tool.line, tool.manifests, tool.makes) for tool in setups(_tree(files))] == wanted


@pytest.mark.req("TREE-05")
def test_a_member_of_a_workspace_is_prepared_where_the_lock_lies() -> None:
    """Paths count from the top, whoever stands where."""
    files = "a/package.json a/pnpm-lock.yaml a/packages/b/package.json"
    (tool,) = setups(_tree(files), "a/packages/b")
    assert (tool.folder, tool.manifests, tool.makes) == (
        "a",
        ("a/package.json", "a/pnpm-lock.yaml"),
        ("a/node_modules",),
    )
    assert tool.line_from("a/packages/b") == "cd ../.. && pnpm install"
    assert posixpath.normpath("a/packages/b/../..") == tool.folder


@pytest.mark.req("EVID-06")
@pytest.mark.parametrize(
    ("line", "code", "out", "why"),
    [
        ("pytest", 127, "sh: 1: pytest: not found\n", "pytest is not installed"),
        ("pytest -q", 127, "/bin/sh: line 1: pytest: command not found", "pytest is not installed"),
        ("npm test", 127, "> jest\n\nsh: 1: jest: not found\nnpm error\n", "jest is not installed"),
        ("./check.sh", 127, "sh: 1: ./check.sh: not found\n", ""),
        (".venv/bin/x", 127, "sh: 1: .venv/bin/x: not found\n", ".venv/bin/x is not there, and what git ignores no"),
        (".venv/bin/x", 127, "sh: line 1: .venv/bin/x: No such file or directory\n", ".venv/bin/x is not there, and"),
        ("python3 -m pytest", 1, "/usr/bin/python3: No module named pytest\n", "pytest is not installed"),
        ("python3 -m pytest", 1, "E  ModuleNotFoundError: No module named 'lib'\n", ""),
        ("python3 -m tools.x", 0, "x: No module named tools.x", ""),
        ("make test", 2, "make: *** no rule\n", ""),
        ("make test", None, "", ""),
    ],
)
def test_a_program_that_is_not_installed_is_no_red_check(line: str, code: int | None, out: str, why: str) -> None:
    """A script of the workspace that is not there yet is."""
    said = not_runnable(line, code, out, lambda path: path.startswith(".venv/"))
    assert (said.startswith(why), bool(said)) == (True, bool(why))
