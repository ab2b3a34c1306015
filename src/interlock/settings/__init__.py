"""Settings of a workspace: `interlock.toml`, the environment and command-line options as one frozen object.

The models are the only list of settings.  Their JSON Schema is what editors get, and one walk over it
(`catalogue`) gives everything else: environment variables, what an error expected, the nearest known key, the
reference page.  Loading is three layers, options over environment over file, merged and validated once; whatever
is wrong is reported at once, each problem with its place.

Names are imported when they are first used: whoever only asks where the workspace is does not pay for pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from interlock.settings.location import FILE_NAME, find_workspace

if TYPE_CHECKING:
    from interlock.settings.inventory import Setting, catalogue, json_schema, reference
    from interlock.settings.loading import Problem, SettingsInvalid, load_settings
    from interlock.settings.models import (
        PLAYBOOK_SETTINGS,
        READY_RUNNERS,
        AcpAgent,
        AgentSettings,
        CodingAgent,
        Command,
        FeatureSettings,
        HarnessSettings,
        Limits,
        RoadmapSettings,
        RouterSettings,
        RunnerSandbox,
        RunnerSettings,
        SandboxSettings,
        Scripted,
        Settings,
        Table,
        TicketSettings,
        WorkspaceSettings,
    )
    from interlock.settings.sources import PROTOCOL_VARIABLES

__all__ = [
    "FILE_NAME",
    "PLAYBOOK_SETTINGS",
    "PROTOCOL_VARIABLES",
    "READY_RUNNERS",
    "AcpAgent",
    "AgentSettings",
    "CodingAgent",
    "Command",
    "FeatureSettings",
    "HarnessSettings",
    "Limits",
    "Problem",
    "RoadmapSettings",
    "RouterSettings",
    "RunnerSandbox",
    "RunnerSettings",
    "SandboxSettings",
    "Scripted",
    "Setting",
    "Settings",
    "SettingsInvalid",
    "Table",
    "TicketSettings",
    "WorkspaceSettings",
    "catalogue",
    "find_workspace",
    "json_schema",
    "load_settings",
    "reference",
]

_MODULES = ("inventory", "loading", "models", "sources")


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            home = import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
