"""The processes that interlock ships, each a room of its own; a room is opened when its playbook is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from interlock.errors import ConfigInvalid

if TYPE_CHECKING:
    from interlock.engine.definition import Playbook

NAMES = ("feature", "harness", "roadmap", "router", "ticket")


def load(name: str) -> Playbook:
    """The playbook of this name; `ConfigInvalid` names those there are."""
    if name not in NAMES:
        raise ConfigInvalid(f"there is no playbook {name!r}", expected=f"one of {', '.join(NAMES)}", found=name)
    found: Playbook = import_module(f"{__name__}.{name}").PLAYBOOK
    return found


__all__ = ["NAMES", "load"]
