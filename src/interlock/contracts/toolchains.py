"""How a project is built and tested, found in its files as a person would; for playbooks whose user names nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

NONE = "none"
"""Declares that there is nothing to build, or nothing to test."""


@dataclass(frozen=True)
class Command:
    """A command for a shell, and where somebody finds it."""

    text: str
    origin: str
    by_person: bool = False

    @property
    def runs(self) -> bool:
        return self.text not in (NONE, "true")


@dataclass(frozen=True)
class Commands:
    build: Command | None = None
    test: Command | None = None

    def over(self, other: Commands) -> Commands:
        """These commands; where one is not known, the other's."""
        return Commands(self.build or other.build, self.test or other.test)


PROJECT_FILES = (
    "package.json",
    "deno.json",
    "deno.jsonc",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "Cargo.toml",
    "go.work",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "*.sln",
    "*.csproj",
    "mix.exs",
    "composer.json",
    "Gemfile",
    "Rakefile",
    "CMakeLists.txt",
    "GNUmakefile",
    "makefile",
    "Makefile",
)
"""In the order in which they decide; what one does not say, the next one may."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
READ_FOR_COMMANDS = (
    *("package.json", "deno.json", "deno.jsonc", "Cargo.toml", "composer.json", "Gemfile", "Rakefile"),
    *_MAKEFILES,
)
_COMPILE = "python3 -m compileall -q -x '(^|/)[.]?(git|venv|interlock|tox|node_modules)/' ."
_GO_MODULES = "go list -f '{{.Dir}}/...' -m | xargs"
_Pair = tuple[str | None, str | None]
"""How to build and how to test, as far as a file says it."""


def detect_commands(names: Iterable[str], texts: Mapping[str, str]) -> Commands:
    """The commands that the files at the root say, the first that says one; what none says stays unknown."""
    here, found = frozenset(names), Commands()
    for pattern in PROJECT_FILES:
        for name in sorted(one for one in here if fnmatchcase(one, pattern)):
            build, test = _said_by(name, texts.get(name, ""), here)
            said = Commands(Command(build, name) if build else None, Command(test, name) if test else None)
            found = found.over(said)
    return found


def _said_by(name: str, text: str, here: frozenset[str]) -> _Pair:  # noqa: PLR0912 - one case for each kind
    match name:
        case "package.json":
            return _node(_mapping(text), here)
        case "deno.json" | "deno.jsonc":
            tasks = _part(_mapping(text), "tasks")
            return _task(tasks, "build", "deno task build"), _task(tasks, "test", "deno task test") or "deno test"
        case "pyproject.toml" | "setup.py" | "setup.cfg":
            runner = "uv run " if "uv.lock" in here else "poetry run " if "poetry.lock" in here else "python3 -m "
            return _COMPILE, f"{runner}pytest"
        case "tox.ini":
            return _COMPILE, "tox"
        case "Cargo.toml":
            whole = " --workspace" if re.search(r"^\s*\[workspace\]", text, re.MULTILINE) else ""
            return f"cargo build{whole}", f"cargo test{whole}"
        case "go.work":
            return f"{_GO_MODULES} go build", f"{_GO_MODULES} go test"
        case "go.mod":
            return "go build ./...", "go test ./..."
        case "pom.xml":
            maven = "./mvnw" if "mvnw" in here else "mvn"
            return f"{maven} -B compile", f"{maven} -B test"
        case "mix.exs":
            return "mix compile", "mix test"
        case "composer.json":
            return _php(_mapping(text), here)
        case "Gemfile" | "Rakefile":
            return None, _ruby(name, text, here)
        case "CMakeLists.txt":
            return "cmake -S . -B build && cmake --build build", "ctest --test-dir build"
        case "GNUmakefile" | "makefile" | "Makefile":
            return _make(text)
        case _ if "gradle" in name:
            gradle = "./gradlew" if "gradlew" in here else "gradle"
            return f"{gradle} assemble", f"{gradle} test"
        case _:
            return "dotnet build", "dotnet test"


def _mapping(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}


def _task(tasks: Mapping[str, Any], name: str, command: str) -> str | None:
    return command if tasks.get(name) else None


_NODE = {"pnpm-lock.yaml": "pnpm", "pnpm-workspace.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun"}
_NODE["bun.lockb"] = "bun"
_IN_MEMBERS = {
    "npm": "npm run {} --workspaces --if-present",
    "pnpm": "pnpm -r run {}",
    "yarn": "yarn workspaces run {}",
    "bun": "bun run --filter '*' {}",
}


def _node(data: Mapping[str, Any], here: frozenset[str]) -> _Pair:
    """By the scripts of the root; without one, by those of all members of a workspace."""
    runner = next((name for lock, name in _NODE.items() if lock in here), "npm")
    members = _IN_MEMBERS[runner] if data.get("workspaces") or "pnpm-workspace.yaml" in here else ""
    scripts = {name: text for name, text in _part(data, "scripts").items() if "no test specified" not in str(text)}
    test = f"{runner} run test" if runner == "bun" else f"{runner} test"
    return (
        _task(scripts, "build", f"{runner} run build") or members.format("build") or None,
        _task(scripts, "test", test) or members.format("test") or None,
    )


def _php(data: Mapping[str, Any], here: frozenset[str]) -> _Pair:
    scripts = _part(data, "scripts")
    required = _part(data, "require-dev")
    phpunit = not here.isdisjoint(("phpunit.xml", "phpunit.xml.dist")) or "phpunit/phpunit" in required
    return (
        _task(scripts, "build", "composer run build"),
        _task(scripts, "test", "composer test") or ("vendor/bin/phpunit" if phpunit else None),
    )


def _ruby(name: str, text: str, here: frozenset[str]) -> str | None:
    bundled = "bundle exec " if "Gemfile" in here else ""
    if ".rspec" in here or (name == "Gemfile" and "rspec" in text):
        return f"{bundled}rspec"
    return f"{bundled}rake test" if name == "Rakefile" else None


_RULE = re.compile(r"^([^\s#:=][^#:=]*?)[ \t]*::?(?![:=])", re.MULTILINE)
_TEST_TARGETS = ("test", "check", "tests")


def _make(text: str) -> _Pair:
    """By the targets that are spelled out, several of them before one colon too."""
    targets = {word for line in _RULE.findall(text) for word in line.split() if "%" not in word and word[0] != "."}
    test = next((target for target in _TEST_TARGETS if target in targets), None)
    build = next((f"make {target}" for target in ("build", "all") if target in targets), None)
    return build or ("make" if targets - set(_TEST_TARGETS) else None), test and f"make {test}"
