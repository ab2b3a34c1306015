"""What a package offers is what its `__all__` says."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import interlock


def _packages() -> list[str]:
    walked = pkgutil.walk_packages(interlock.__path__, prefix="interlock.")
    return ["interlock", *sorted(module.name for module in walked if module.ispkg)]


def _offered(package: ModuleType) -> set[str]:
    """The public names that `__init__` defines or takes from its own modules."""
    assert package.__file__ is not None
    bound: set[str] = set()
    for node in ast.walk(ast.parse(Path(package.__file__).read_bytes())):
        match node:
            case ast.ImportFrom(module=module, level=1) if module:
                bound.update(alias.asname or alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)) if module.startswith(package.__name__ + "."):
                bound.update(alias.asname or alias.name for alias in node.names)
            case ast.Module(body=body):
                bound.update(name for statement in body for name in _defined(statement))
    return {
        name for name in bound if not name.startswith("_") and not isinstance(getattr(package, name, None), ModuleType)
    }


def _defined(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


@pytest.mark.parametrize("name", _packages())
def test_all_is_the_truth(name: str) -> None:
    """Every listed name exists and is public; every public name is listed."""
    package = importlib.import_module(name)
    listed = getattr(package, "__all__", [])
    assert [one for one in listed if one.startswith("_") and one != "__version__"] == []
    assert [one for one in listed if not hasattr(package, one)] == []
    assert len(set(listed)) == len(listed)
    assert _offered(package) - set(listed) == set()


def test_a_name_that_is_not_listed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `__init__` defines, or takes from its modules also only for types, counts as offered."""
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "inner.py").write_text("class Door: ...\nclass Key: ...\n", encoding="utf-8")
    (tmp_path / "planted" / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nfrom interlock.errors import Locked\n"
        "from planted.inner import Door as Gate\n"
        "if TYPE_CHECKING:\n    from .inner import Key\n"
        "LIMIT = 3\n_own: int = 2\ndef open_it(): ...\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert _offered(importlib.import_module("planted")) == {"Gate", "Key", "LIMIT", "open_it"}
