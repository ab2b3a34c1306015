"""How a project is built, tested and prepared, found in its files as a person would (EVID-05). Pure.

From the place upward to the top, nearest first; in each folder by the list of files below: the first that says a
command wins, what one does not say the next may.  A lock file's runner is part of the command.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Protocol


class Look(Protocol):
    """A way to look at files: a folder, a git tree, a simulated one. Paths count from the top; `.` is the top."""

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none."""
        ...

    def list(self, folder: str) -> Sequence[str]:
        """The names in a folder; none where there is no such folder."""
        ...

    def paths(self) -> Sequence[str]:
        """Of all files, in order."""
        ...


@dataclass(frozen=True)
class Tool:
    """A command for a shell, and why it is one."""

    name: str
    """`build`, `test` or `setup`"""
    line: str
    folder: str
    """Where it runs, from the top."""
    source: str
    """The file that says it, from the top."""
    manifests: tuple[str, ...] = ()
    """Of `setup`: it is run again when one of these changed."""
    makes: tuple[str, ...] = ()
    """Of `setup`: it is run where one of these is missing."""

    def line_from(self, place: str) -> str:
        """The same for somebody who stands there."""
        way = posixpath.relpath(self.folder, place)
        return self.line if way == "." else f"cd {shlex.quote(way)} && {self.line}"


def find(look: Look, place: str = ".") -> list[Tool]:
    """Build and test, as far as files say them; in the order in which they are run."""
    found: dict[str, Tool] = {}
    for folder in _upward(place):
        here = _Folder(look, folder)
        for pattern, said_by in PROJECT_FILES.items():
            for source in here.like(pattern):
                for name, line in said_by(here, source).items():
                    if line:
                        found.setdefault(name, Tool(name, line, folder, _join(folder, source)))
    return [found[name] for name in ("build", "test") if name in found]


def setups(look: Look, place: str = ".") -> list[Tool]:
    """What prepares the project, for each tool chain that needs it: the nearest of each."""
    found: dict[str, Tool] = {}
    for folder in _upward(place):
        here = _Folder(look, folder)
        for chain, line, manifests, makes in (*_node_setup(here), *_python_setup(here)):
            known = tuple(_join(folder, name) for name in manifests if name in here.names)
            made = tuple(_join(folder, name) for name in makes)
            found.setdefault(chain, Tool("setup", line, folder, known[0], known, made))
    return list(found.values())


def not_runnable(line: str, exit_code: int | None, out: str, ignored: Callable[[str], bool]) -> str:
    """Why a command cannot be run at all, as far as its end tells (EVID-06); empty: it ran, red or green.

    A script of the workspace that is not there is red: it may be what is to be made, unless git ignores it.
    """
    absent = re.search(r"(?:^|[:\s])([^\s:]+/[^\s:]+): (?:not found|No such file or directory)\s*$", out, re.M)
    if exit_code == 127 and absent and ignored(absent[1]):
        return f"{absent[1]} is not there, and what git ignores no agent brings"
    if exit_code == 127 and (missing := re.search(r"(?:^|[:\s])([^\s:/]+): (?:command )?not found\s*$", out, re.M)):
        return f"{missing[1]} is not installed"
    wanted = re.search(r"\bpython[\d.]*\s+-m\s+([\w.]+)", line)
    if exit_code == 1 and wanted and re.search(rf": No module named '?{re.escape(wanted[1])}'?\s*$", out):
        return f"{wanted[1]} is not installed"
    return ""


class _Folder:
    def __init__(self, look: Look, folder: str) -> None:
        self.look, self.folder = look, folder
        self.list = cache(lambda where: frozenset(look.list(where)))
        self.names = self.list(folder)

    def text(self, name: str) -> str:
        return (self.look.read(_join(self.folder, name)) or "") if name in self.names else ""

    def like(self, *patterns: str) -> list[str]:
        return sorted(name for name in self.names if any(fnmatchcase(name, pattern) for pattern in patterns))

    def above(self, name: str) -> str:
        """The nearest folder upward, as a way from here, that has such a file; empty: none."""
        found = next((folder for folder in _upward(self.folder) if name in self.list(folder)), None)
        return "" if found is None else posixpath.relpath(found, self.folder)


def _upward(place: str) -> Iterator[str]:
    folder = posixpath.normpath(place)
    while folder not in (".", ""):
        yield folder
        folder = posixpath.dirname(folder)
    yield "."


def _join(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))


_Commands = Mapping[str, str | None]


def _pytest(here: _Folder, name: str) -> _Commands:
    return {"test": f"{_python_runner(here) or 'python3 -m '}pytest" if _has_pytest(here) else None}


def _tox(here: _Folder, name: str) -> _Commands:
    return {"test": f"{_python_runner(here)}tox"}


def _cargo(here: _Folder, name: str) -> _Commands:
    whole = " --workspace" if re.search(r"^\s*\[workspace\]", here.text(name), re.MULTILINE) else ""
    return {"build": f"cargo build{whole}", "test": f"cargo test{whole}"}


def _go(here: _Folder, name: str) -> _Commands:
    return {"build": "go build ./...", "test": "go test ./..."}


def _maven(here: _Folder, name: str) -> _Commands:
    maven = _wrapper(here, "mvnw", "mvn")
    return {"build": f"{maven} -B compile", "test": f"{maven} -B test"}


def _gradle(here: _Folder, name: str) -> _Commands:
    gradle = _wrapper(here, "gradlew", "gradle")
    return {"build": f"{gradle} assemble", "test": f"{gradle} test"}


def _dotnet(here: _Folder, name: str) -> _Commands:
    return {"build": f"dotnet build {shlex.quote(name)}", "test": f"dotnet test {shlex.quote(name)}"}


def _cmake(here: _Folder, name: str) -> _Commands:
    build = "cmake -S . -B build && cmake --build build"
    tests = re.search(r"enable_testing|include\s*\(\s*CTest", here.text(name), re.IGNORECASE)
    # What a command leaves behind is thrown away: the tests are built by their own.
    return {"build": build, "test": f"{build} && ctest --test-dir build --output-on-failure" if tests else None}


def _wrapper(here: _Folder, script: str, program: str) -> str:
    """A project's own starter, which may lie further up."""
    way = here.above(script)
    return f"./{script}" if way == "." else f"{way}/{script}" if way else program


# Python

_PYTHON_LOCKS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "uv.lock": ("uv run ", "uv sync", [".venv"]),
    "poetry.lock": ("poetry run ", "poetry install", []),  # it keeps its own elsewhere
    "pdm.lock": ("pdm run ", "pdm install", [".venv"]),
    "Pipfile.lock": ("pipenv run ", "pipenv sync --dev", []),
}
"""Lock file -> what runs a program, what prepares, and what that makes."""


def _python_runner(here: _Folder) -> str:
    return next((runner for lock, (runner, *_) in _PYTHON_LOCKS.items() if here.above(lock)), "")


def _has_pytest(here: _Folder) -> bool:
    """Whether anything speaks of tests: a file that only sets up a formatter says no command."""
    if here.like("tests", "test", "conftest.py", "pytest.ini", "test_*.py", "*_test.py"):
        return True
    return any("pytest" in here.text(name) for name in ("pyproject.toml", "setup.cfg", "setup.py"))


_Setup = Iterator[tuple[str, str, Sequence[str], Sequence[str]]]
"""Tool chain, line, manifests, what it makes."""


def _python_setup(here: _Folder) -> _Setup:
    for lock, (_, line, makes) in _PYTHON_LOCKS.items():
        if lock in here.names:
            yield "python", line, ("pyproject.toml", "Pipfile", lock), makes
            return
    if ".venv" not in here.names:
        return
    pip = "python3 -m pip" if "pip" in here.list(_join(here.folder, ".venv/bin")) else "uv pip"
    if lists := here.like("requirements*.txt"):
        yield "python", f"{pip} install {' '.join(f'-r {shlex.quote(name)}' for name in lists)}", lists, [".venv"]
    elif here.names & {"pyproject.toml", "setup.py"}:
        yield "python", f"{pip} install -e .", ("pyproject.toml", "setup.py", "setup.cfg"), [".venv"]


# Node

_NODE_LOCKS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
_NODE_LOCKS["package-lock.json"] = "npm"


def _node(here: _Folder, name: str) -> _Commands:
    """By the scripts of the package."""
    data = _mapping(here.text(name))
    runner = next((name for lock, name in _NODE_LOCKS.items() if here.above(lock)), "npm")
    said = _mapping(data.get("scripts"))
    scripts = {name for name, text in said.items() if text and "no test specified" not in str(text)}
    test = f"{runner} run test" if runner == "bun" else f"{runner} test"
    return {"build": f"{runner} run build" if "build" in scripts else None, "test": test if "test" in scripts else None}


def _node_setup(here: _Folder) -> _Setup:
    for lock, runner in _NODE_LOCKS.items():
        if lock in here.names and "package.json" in here.names:
            quiet = " --no-audit --no-fund" if runner == "npm" else ""
            yield "node", f"{runner} install{quiet}", ("package.json", lock), ["node_modules"]
            return
    data = _mapping(here.text("package.json"))
    if any(data.get(name) for name in ("dependencies", "devDependencies")) and not any(map(here.above, _NODE_LOCKS)):
        yield "node", "npm install --no-audit --no-fund", ("package.json",), ["node_modules"]


def _mapping(text: Any) -> Mapping[str, Any]:
    try:
        data = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


# make

_RULE = re.compile(r"^([^\s#:=][^#:=]*?)[ \t]*::?(?![:=])", re.MULTILINE)


def _make(here: _Folder, name: str) -> _Commands:
    """By the targets that are spelled out, several of them before one colon too."""
    rules = _RULE.findall(here.text(name))
    targets = [word for line in rules for word in line.split() if "%" not in word and word[0] not in ".-"]
    build = next((target for target in ("build", "all") if target in targets), None)
    test = next((target for target in ("test", "check", "tests") if target in targets), None)
    return {"build": build and f"make {build}", "test": test and f"make {test}"}


PROJECT_FILES: Mapping[str, Callable[[_Folder, str], _Commands]] = {
    "package.json": _node,
    "pyproject.toml": _pytest,
    "setup.py": _pytest,
    "setup.cfg": _pytest,
    "tox.ini": _tox,
    "Cargo.toml": _cargo,
    "go.mod": _go,
    "pom.xml": _maven,
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
    "*.sln": _dotnet,
    "*.csproj": _dotnet,
    "CMakeLists.txt": _cmake,
    "GNUmakefile": _make,
    "makefile": _make,
    "Makefile": _make,
}
"""In the order in which they decide: a file, and the commands that it says."""
