"""The layers hold: imports point down only, pure parts touch no world."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from interlock.finding.purity import WORLD

SOURCE = Path(__file__).parent.parent / "src" / "interlock"

FLOOR = ("contracts", "documents", "errors", "lazy")
MIDDLE = ("agents", "workspace", "telemetry")
DOORS = ("cli", "web", "mcp", "demo")
BEHIND_DOORS = (
    "app",
    "commanding",
    "fleet",
    "pages",
    "finding",
    "playbooks",
    "testing",
    "engine",
    "settings",
    *MIDDLE,
    *FLOOR,
)

MAY_IMPORT = {
    "lazy": (),
    "errors": (),
    "documents": ("errors",),
    "contracts": ("documents", "errors"),
    "settings": ("errors", "lazy"),
    **dict.fromkeys(MIDDLE, FLOOR),
    "engine": (*MIDDLE, *FLOOR),
    "testing": ("engine", *MIDDLE, *FLOOR),
    "playbooks": ("flows", "engine", "settings", "testing", *FLOOR),
    "flows": ("engine", "testing", *FLOOR),
    "finding": ("flows", "playbooks", "engine", "settings", "telemetry", *FLOOR),
    "pages": ("finding", "engine", *MIDDLE, *FLOOR),
    "app": ("finding", "playbooks", "engine", "settings", *MIDDLE, *FLOOR),
    "fleet": ("engine", *MIDDLE, *FLOOR),
    "commanding": ("engine", *FLOOR),
    **dict.fromkeys(DOORS, BEHIND_DOORS),
    "cli": (*BEHIND_DOORS, "mcp", "web"),  # the command line opens the other doors
    "__main__": ("cli",),
}
"""What each part may import; its own modules always."""

MAY_IMPORT_AS_TYPES = dict.fromkeys(("engine", "agents", "workspace"), ("settings",))
"""Allowed under `if TYPE_CHECKING` only."""

DISK = ("pathlib.Path", "interlock.documents.Store", "interlock.documents.store")
"""What reads and writes files inside modules that are otherwise fine: pure paths and formats of documents."""

TWICE = {
    "Briefs": "what the agents of one playbook are told; a room has one",
    "Ledger": "the keeper of one playbook's state document; a room has one",
    "Step": "one named part of a process: of a flow, and of an item's cycle in the roadmap's specification",
    "Task": "what the specification of each playbook calls so",
    "TaskStatus": "what the specification of each playbook calls so",
}
"""Public names of classes and types that occur more than once, each with the reason; the glossary has them too."""


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    for_types: bool


@dataclass(frozen=True)
class Source:
    """One module: where it stands, what it imports."""

    path: Path
    part: str
    imports: tuple[Import, ...]


def read(root: Path, path: Path) -> Source:
    inside = path.relative_to(root)
    package = ("interlock", *inside.parent.parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }
    imports: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imports.append(Import(alias.name, node.lineno, id(node) in for_types))
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            for alias in node.names:
                imports.append(Import(f"{base}.{alias.name}", node.lineno, id(node) in for_types))
    part = inside.parts[0].removesuffix(".py")
    return Source(inside, part, tuple(imports))


def violations(root: Path) -> list[str]:
    """Every place below `root` (the package `interlock`) that breaks a rule of the house."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        source = read(root, path)
        found += _upward(source)
        if source.part == "playbooks":
            found += _neighbours(source)
        if source.part == "contracts" or source.path.name == "decisions.py":
            found += _worldly(source)
    return sorted(set(found))


def _upward(source: Source) -> Iterator[str]:
    if source.path == Path("__init__.py"):
        allowed: tuple[str, ...] = ()
    elif source.part not in MAY_IMPORT:
        yield f"{source.path}: {source.part} has no place in the layers"
        return
    else:
        allowed = (source.part, *MAY_IMPORT[source.part])
    for one in source.imports:
        module = one.module.split(".")
        if module[0] != "interlock" or len(module) < 2 or module[1].startswith("__"):
            continue
        as_types = MAY_IMPORT_AS_TYPES.get(source.part, ()) if one.for_types else ()
        if module[1] not in (*allowed, *as_types):
            yield f"{source.path}:{one.line}: {source.part} must not import {one.module}"


def _neighbours(source: Source) -> Iterator[str]:
    room = source.path.parts[1] if len(source.path.parts) > 2 else None
    for one in source.imports:
        other = one.module.split(".")[2:3] if one.module.startswith("interlock.playbooks.") else []
        if room and other and other[0] != room:
            yield f"{source.path}:{one.line}: the room {room} must not enter the room {other[0]}"


def _worldly(source: Source) -> Iterator[str]:
    for one in source.imports:
        if one.module.split(".")[0] in WORLD or one.module.startswith(DISK):
            yield f"{source.path}:{one.line}: a pure part must not import {one.module}"


def test_the_house_holds() -> None:
    """No module of interlock breaks the layers, or the purity of decisions and contracts."""
    assert violations(SOURCE) == []


PLANTED = {
    "engine up to playbooks": ("engine/run.py", "from interlock.playbooks import router\n", "engine must not import"),
    "engine up, relative": ("engine/run.py", "from ..cli import main\n", "engine must not import interlock.cli.main"),
    "inside a function": ("agents/x.py", "def f():\n    import interlock.engine.run\n", "agents must not import"),
    "siblings": ("agents/x.py", "from interlock.workspace import git\n", "agents must not import interlock.workspace"),
    "errors is the bottom": ("errors.py", "from interlock import settings\n", "errors must not import"),
    "one door into another": ("web/x.py", "from interlock.cli import main\n", "web must not import interlock.cli.main"),
    "playbooks past the engine": ("playbooks/a/x.py", "import interlock.workspace\n", "playbooks must not import"),
    "settings at runtime": ("engine/x.py", "from interlock.settings import Settings\n", "engine must not import"),
    "room to room": (
        "playbooks/a/x.py",
        "from interlock.playbooks.b import y\n",
        "the room a must not enter the room b",
    ),
    "an unknown part": ("utils/x.py", "", "utils has no place"),
    "a contract that reads files": ("contracts/x.py", "import os.path\n", "pure part must not import os.path"),
    "a contract with a path": (
        "contracts/x.py",
        "from pathlib import Path\n",
        "pure part must not import pathlib.Path",
    ),
    "a contract with the store": (
        "contracts/x.py",
        "from interlock.documents import Sections, Store\n",
        "pure part must not import interlock.documents.Store",
    ),
    "formats that know contracts": ("documents/x.py", "import interlock.contracts\n", "documents must not import"),
    "a decision with a clock": ("playbooks/a/decisions.py", "import time\n", "pure part must not import time"),
}


@pytest.mark.parametrize(("file", "code", "complaint"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_found(file: str, code: str, complaint: str, tmp_path: Path) -> None:
    """Each rule catches the module that breaks it, and names the place."""
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code, encoding="utf-8")
    found = violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(file)
    assert complaint in found[0]


def test_what_is_allowed_is_left_alone(tmp_path: Path) -> None:
    """Imports that point down, types of settings, pure paths and dates are no violations."""
    allowed = {
        "cli/main.py": "from interlock.app import start\nfrom interlock.settings import Settings\nimport os\n",
        "engine/run.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import interlock.settings\n"
        "from interlock.agents.runner import Runner\nimport asyncio\n",
        "playbooks/a/playbook.py": "from datetime import datetime, timedelta\nfrom pathlib import PurePosixPath\n"
        "from interlock.engine import Run\nfrom . import decisions\nasync def f(run):\n    await run.read.open('x')\n",
        "contracts/x.py": "import re, json\nfrom interlock.documents import Sections\nimport interlock.errors\n",
    }
    for file, code in allowed.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(code, encoding="utf-8")
    assert violations(tmp_path) == []


def test_the_package_itself_imports_nothing_heavy() -> None:
    """`import interlock` leaves pydantic, rich and the others for those who need them."""
    script = "import sys, interlock, interlock.errors; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"pydantic", "rich", "jinja2", "markdown_it", "ruamel", "typer"} & set(loaded)


def names_used_twice(root: Path) -> set[str]:
    """Public names of classes, and of types that are put together from others, that stand for more than one thing."""
    seen: Counter[str] = Counter()
    for file in sorted(root.rglob("*.py")):
        if "sample.d" in file.parts:  # the workspace of the demo is not our code
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        seen.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            seen.update(one.id for one in targets if isinstance(one, ast.Name))
    return {name for name, times in seen.items() if times > 1 and re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}


def test_one_word_means_one_thing() -> None:
    """No two classes or types have the same name, besides those with a reason."""
    assert names_used_twice(SOURCE) == set(TWICE)


def test_a_name_that_is_taken_is_found(tmp_path: Path) -> None:
    """Two classes, or a class and a type; what a module keeps for itself, and constants, may be called as they like."""
    (tmp_path / "a.py").write_text("class Check: ...\nclass Plan: ...\nclass _Own: ...\nLIMIT = 1\nT = int\n")
    (tmp_path / "b.py").write_text("def f():\n    class Plan: ...\n\nclass _Own: ...\nLIMIT = 2\nT = str\n")
    (tmp_path / "c.py").write_text("Check = dict[str, int]\nOther: object = int\n")
    assert names_used_twice(tmp_path) == {"Check", "Plan"}


def test_what_is_imported_from_our_packages_is_there() -> None:
    """Packages that load their names late hide a missing one from the type checker, also where only types are meant."""
    missing = [
        f"{file.relative_to(SOURCE)}:{node.lineno}: {node.module}.{name.name}"
        for file in SOURCE.rglob("*.py")
        if "sample.d" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlock")
        for name in node.names
        if not _is_there(str(node.module), name.name)
    ]
    assert missing == []


def _is_there(module: str, name: str) -> bool:
    return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
