"""What a playbook touches beside `run`: found by reading its code, in every file of its folder (OW-07).

A playbook is replayed, so all that it does goes through the verbs.  Whoever reads a clock, a file or a chance of their
own gets another run at replay; whoever reaches behind the public names is broken by the next version.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from interlock.engine.definition import Playbook

FILES = (
    "os",
    "io",
    "sys",
    "shutil",
    "tempfile",
    "glob",
    "fileinput",
    "mmap",
    "fcntl",
    "sqlite3",
    "logging",
    "filelock",
)
PROCESSES = ("subprocess", "signal", "threading", "multiprocessing", "concurrent", "asyncio", "psutil", "ctypes")
NETWORK = ("socket", "ssl", "select", "urllib", "http")
CLOCK_AND_CHANCE = ("time", "random", "secrets", "uuid")
WORLD = frozenset((*FILES, *PROCESSES, *NETWORK, *CLOCK_AND_CHANCE))
"""Modules that are the outside world: files, processes, network, clock, chance."""

INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(FILES, "read and write documents with run.read and run.write"),
    **dict.fromkeys(PROCESSES, "run.command runs programs, run.cluster works side by side"),
    **dict.fromkeys(NETWORK, "agents and commands reach the network, a playbook does not"),
    **dict.fromkeys(CLOCK_AND_CHANCE, "run.now is the clock, run.new_id makes names"),
    "pathlib.Path": "read and write documents with run.read and run.write",
    "pathlib.PosixPath": "read and write documents with run.read and run.write",
    "datetime.datetime.now": "run.now is the clock",
    "datetime.datetime.utcnow": "run.now is the clock",
    "datetime.datetime.today": "run.now is the clock",
    "datetime.date.today": "run.now is the clock",
    "open": "read and write documents with run.read and run.write",
    "print": "run.say is the output",
    "input": "run.gate asks a person",
    "exec": "a playbook is the code that is read",
    "eval": "a playbook is the code that is read",
    "__import__": "a playbook is the code that is read",
    "importlib.import_module": "a playbook is the code that is read",
    "interlock.documents.Store": "read and write documents with run.read and run.write",
}
"""Names that reach around the verbs, each with what to use instead."""

PUBLIC = tuple(
    f"interlock.{room}" for room in ("engine", "contracts", "documents", "errors", "flows", "settings", "testing")
)
"""What a playbook may import of interlock, by the names that each has in `__all__`."""
WHOLE_FOLDER = "playbook.py"
"""A playbook whose process stands in a file of this name is a folder (OW-01)."""
INNER = frozenset({"world", "journal", "recording", "options"})
"""What stands behind a run, as are its private names; none of a playbook's business."""


@dataclass(frozen=True)
class Touch:
    """One place at which a playbook reaches past the verbs."""

    file: str
    line: int
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}: {self.instead}"


def touches(playbook: Playbook) -> list[Touch]:
    """Every place at which a playbook touches the world beside `run`, in all Python files of its folder; of one that
    is a single file, in that."""
    module = sys.modules[playbook.function.__module__]
    package = module.__package__ or ""
    own = PurePath(str(module.__file__)).name
    sources = list(_sources(playbook.folder))
    if own != WHOLE_FOLDER:
        sources = [(path, file) for path, file in sources if path == own]
    found = (in_text(file.read_text(encoding="utf-8"), path, package) for path, file in sources)
    return sorted((one for some in found for one in some), key=lambda one: (one.file, one.line, one.what))


def _sources(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    """The Python files below a folder, each with its path there."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{above}{entry.name}", entry


def in_text(text: str, file: str, package: str = "") -> list[Touch]:
    """The places of one file."""
    tree = ast.parse(text)
    spared = set(_for_types(tree))
    aliases: dict[str, str] = {}
    found: set[Touch] = set()
    for node in ast.walk(tree):
        for name, alias in _imported(node):
            aliases[alias] = name
            if id(node) not in spared and (instead := _refused(name, package)):
                found.add(Touch(file, node.lineno, f"imports {name}", instead))  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (full := _full(node, aliases)) in INSTEAD:
            found.add(Touch(file, node.lineno, f"uses {full}", INSTEAD[full]))
        if isinstance(node, ast.Attribute) and (node.attr in INNER or node.attr[0] == "_") and _is_run(node.value):
            found.add(Touch(file, node.lineno, f"reaches run.{node.attr}", "a run is its verbs"))
    return sorted(found, key=lambda one: (one.line, one.what))


def _for_types(tree: ast.AST) -> Iterator[int]:
    """The statements that only a type checker reads."""
    for branch in ast.walk(tree):
        if isinstance(branch, ast.If) and ast.unparse(branch.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from (id(node) for statement in branch.body for node in ast.walk(statement))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Full name and the name under which it is used, of what a statement imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            head = alias.name.partition(".")[0]
            yield (alias.name, alias.asname) if alias.asname else (head if head == alias.name else alias.name, head)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield f"{node.module}.{alias.name}", alias.asname or alias.name


def _refused(name: str, package: str) -> str:
    """What to do instead of importing this; empty where it may be imported."""
    head, _, _rest = name.partition(".")
    if head in WORLD:
        return INSTEAD[head]
    if name in INSTEAD:
        return INSTEAD[name]
    if head != "interlock" or name == "interlock.lazy.lazily" or (package and f"{name}.".startswith(f"{package}.")):
        return ""
    room = ".".join(name.split(".")[:2])
    if room not in PUBLIC:
        return f"import from {', '.join(PUBLIC)}"
    return "" if len(name.split(".")) <= 3 else f"import what {room} has in __all__"


def _full(node: ast.AST, aliases: Mapping[str, str]) -> str:
    try:
        dotted = ast.unparse(node)
    except (ValueError, RecursionError):
        return ""
    head, dot, rest = dotted.partition(".")
    return aliases.get(head, head) + dot + rest


def _is_run(node: ast.AST) -> bool:
    """Whether an expression is the run: by its name, which the house keeps to."""
    return (isinstance(node, ast.Name) and node.id == "run") or (
        isinstance(node, ast.Attribute) and node.attr in ("run", "_run")
    )
