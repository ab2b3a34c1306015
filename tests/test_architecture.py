"""The order of the house, read from the imports (HOUSE-02)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "interlock"
FLOORS = [
    ("cli", "web", "mcp", "traces", "fleet", "demo", "testing"),
    ("app",),
    ("finding",),
    ("playbooks",),
    ("flows",),
    ("engine",),
    ("agents", "workspace"),
    ("settings_file",),
    ("settings",),
    ("documents",),
    ("errors",),
]
"""From the doors down; what stands side by side knows nothing of each other, but doors may."""
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
PURE = {
    "__future__",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "graphlib",
    "itertools",
    "json",
    "posixpath",
    "re",
    "shlex",
    "typing",
    "textwrap",
    "math",
    "hashlib",
}
"""What of the standard library a playbook may use: nothing that touches the world or depends on it."""
KNOWN = {"kept", "forms", "playbook", "run", "view", "prompts"}
"""Modules of the engine that a playbook may name."""
BEHIND = {"world", "recorder", "full", "slot", "listen", "pair_lock", "prompts", "ran", "hear"}
"""Of a `Run`: what is the engine's own."""


TEMPLATES = SRC / "finding" / "new"
"""What a person's own playbook begins with: code of theirs."""


def modules(*parts: str) -> list[Path]:
    return [path for path in sorted(SRC.joinpath(*parts).rglob("*.py")) if TEMPLATES not in path.parents]


def name(path: Path) -> str:
    return str(path.relative_to(SRC))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that is imported, at whatever depth, with its line; of `from a import b` also `a.b`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno} imports relatively"
            assert node.module is not None
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def floor_of(module: str) -> tuple[str, int] | None:
    parts = module.split(".")
    return (parts[1], FLOOR[parts[1]]) if parts[0] == "interlock" and len(parts) > 1 and parts[1] in FLOOR else None


def test_every_module_has_a_floor() -> None:
    known = {path.name.removesuffix(".py") for path in SRC.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert known - {"__init__", "__main__", "__pycache__", "py.typed"} <= FLOOR.keys()


@pytest.mark.req("HOUSE-02")
def test_imports_point_down() -> None:
    up = []
    for path in modules():
        package = path.relative_to(SRC).parts[0].removesuffix(".py")
        if package not in FLOOR:
            continue
        for module, line in imports(path):
            there = floor_of(module)
            if there is None or there[0] == package:
                continue
            if there[1] < FLOOR[package] or (there[1] == FLOOR[package] and there[1] > 0):
                up.append(f"{name(path)}:{line} imports {module}")
    assert up == []


@pytest.mark.req("HOUSE-02")
def test_events_are_named_in_the_engine_alone() -> None:
    """Doors fold lines into a view and look at no line; the bench of tests does."""
    named = [
        f"{name(path)}:{line} imports {module}"
        for path in modules()
        if path.relative_to(SRC).parts[0] not in ("engine", "testing.py")
        for module, line in imports(path)
        if module.startswith(("interlock.engine.events", "interlock.engine.journal.", "interlock.engine.replay"))
        and module not in {f"interlock.engine.journal.{one}" for one in ("read_lines", "lines_of", "mend")}
    ]
    assert named == []


@pytest.mark.req("HOUSE-02")
def test_only_the_two_folds_read_the_journals_lines() -> None:
    """A second truth would begin with somebody who looks at lines beside the view and the replay."""
    readers = {
        name(path)
        for path in modules("engine")
        for module, _ in imports(path)
        if module in ("interlock.engine.journal.Line", "interlock.engine.journal.Unknown")
    }
    assert readers == {"engine/replay.py", "engine/view.py"}


@pytest.mark.req("HOUSE-02")
def test_playbooks_touch_the_world_through_their_run_alone() -> None:
    wrong = []
    for path in modules("playbooks"):
        for module, line in imports(path):
            first, *rest = module.split(".")
            own = module.startswith("interlock.playbooks.")
            if first == "interlock":
                fine = own or rest[:1] in ([], ["documents"], ["errors"], ["flows"]) or module == "interlock.workspace"
                fine = fine or rest[:2] in (["workspace", "values"], ["workspace", "scope"])
                fine = fine or (rest[:1] == ["engine"] and (len(rest) == 1 or rest[1] in KNOWN))
            else:
                fine = first in PURE or first == "pydantic"
            if not fine:
                wrong.append(f"{name(path)}:{line} imports {module}")
        for node in ast.walk(tree(path)):
            match node:
                case ast.Attribute(value=ast.Name(id="run"), attr=attr) if attr in BEHIND or attr.startswith("_"):
                    wrong.append(f"{name(path)}:{node.lineno} uses run.{attr}")
                case ast.Call(func=ast.Name(id="open" | "print" | "input" as called)):
                    wrong.append(f"{name(path)}:{node.lineno} calls {called}()")
    assert wrong == []


@pytest.mark.req("HOUSE-02")
def test_decisions_of_the_engine_are_pure() -> None:
    """Forms, keys, events and the folds touch nothing: no file, no clock, no process."""
    pure = ["forms", "events", "view", "junit", "product", "receipt", "halts", "prompts", "brief"]
    touches = {"os", "pathlib", "subprocess", "asyncio", "time", "random", "secrets", "shutil", "socket", "threading"}
    found = [
        f"{stem}:{line} imports {module}"
        for stem in pure
        for module, line in imports(SRC / "engine" / f"{stem}.py")
        if module.split(".")[0] in touches
    ]
    found += [
        f"{stem}:{node.lineno} asks for the time"
        for stem in pure
        for node in ast.walk(tree(SRC / "engine" / f"{stem}.py"))
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today") and _is_clock(node.value)
    ]
    assert found == []


def _is_clock(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("datetime", "date")


@pytest.mark.req("HOUSE-02")
def test_pydantic_is_the_one_schema_language() -> None:
    others = {"jsonschema", "attr", "attrs", "marshmallow", "msgspec", "cattrs", "voluptuous"}
    found = [
        f"{name(path)}: {module}" for path in modules() for module, _ in imports(path) if module.split(".")[0] in others
    ]
    assert found == []
