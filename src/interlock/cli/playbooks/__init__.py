"""The playbooks' own doors: one module per playbook, with everything that only its command line needs.

A door adds the playbook's sub-command to `run` and knows what `validate` looks at. A new playbook adds its module
here and its name to `MODULES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from interlock.app import Application
    from interlock.errors import InterlockError


async def _nothing_more(_application: Application) -> list[InterlockError]:
    return []


@dataclass(frozen=True)
class Door:
    """How one playbook is reached from the command line."""

    name: str
    add: Callable[[typer.Typer], None]
    """Adds its sub-command to `run`."""
    first: str
    """A first command to try, as `init` says it."""
    examine: Callable[[Application], Awaitable[list[InterlockError]]] = _nothing_more
    """What is wrong with the documents it needs, beyond what holds for every playbook."""
    moves: tuple[str, ...] = ()
    """Options of `resume` that move its task, by the names of their flags."""


MODULES = ("feature", "harness", "roadmap", "router", "ticket")
DOORS: dict[str, Door] = {}


def doors() -> dict[str, Door]:
    """All doors by the name of their playbook; their modules are imported now."""
    for name in MODULES:
        if name not in DOORS:
            DOORS[name] = import_module(f"{__name__}.{name}").DOOR
    return DOORS


__all__ = ["DOORS", "MODULES", "Door", "doors"]
