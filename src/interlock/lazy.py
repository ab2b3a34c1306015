"""Public names of a package, loaded when they are first used: commands that only look must not wait for everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        homes: module of the package (or a full name) to the names that are public of it, separated by spaces.
    """
    home = {
        name: module if "." in module else f"{package}.{module}"
        for module, names in homes.items()
        for name in names.split()
    }

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return load
