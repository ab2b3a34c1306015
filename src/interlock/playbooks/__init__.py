"""The processes that interlock ships, each a room of its own; a room is opened when its playbook is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

from interlock.errors import ConfigInvalid

if TYPE_CHECKING:
    from interlock.engine.definition import Playbook
    from interlock.settings import Settings, SettingsTable

_SHIPPED = ("adopt", "feature", "harness", "roadmap", "router", "task", "ticket")
NAMES: tuple[str, ...] = _SHIPPED
"""Those that can be asked for."""


def load(name: str) -> Playbook:
    """The playbook of this name; `ConfigInvalid` names those there are."""
    if name not in NAMES:
        raise ConfigInvalid(f"there is no playbook {name!r}", expected=f"one of {', '.join(NAMES)}", found=name)
    found: Playbook = getattr(import_module(f"{__name__}.{name}.playbook"), name)
    return found


def settings_model(own: Mapping[str, type[SettingsTable] | None] = MappingProxyType({})) -> type[Settings]:
    """The settings of interlock with the tables of all playbooks; none of them is opened for it.

    Args:
        own: tables of playbooks that do not ship; None for one whose table nobody knows yet.
    """
    from interlock.settings import with_tables  # pydantic: not for those who only ask for names

    rooms = {name: f"{__name__}.{name}.settings" for name in _SHIPPED}
    homes = {name: import_module(room) for name, room in rooms.items() if find_spec(room) is not None}
    shipped = {name: getattr(home, f"{name.capitalize()}Settings") for name, home in homes.items()}
    return with_tables({**shipped, **own})


__all__ = ["NAMES", "load", "settings_model"]
