"""Settings of a workspace: `interlock.toml`, the environment and command-line options as one frozen object.

The models are the only list of settings; each playbook has a table of its own in its folder, and `with_tables`
puts them together.  Their JSON Schema is what editors get, and one walk over it
(`catalogue`) gives everything else: environment variables, what an error expected, the nearest known key, the
reference page.  Loading is three layers, options over environment over file, merged and validated once; whatever
is wrong is reported at once, each problem with its place.

Names are imported when they are first used: whoever only asks where the workspace is does not pay for pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily
from interlock.settings.location import FILE_NAME, find_workspace

if TYPE_CHECKING:
    from interlock.settings.inventory import Setting, catalogue, json_schema, reference
    from interlock.settings.loading import SettingProblem, SettingsInvalid, load_settings
    from interlock.settings.models import (
        READY_RUNNERS,
        AcpAgent,
        AgentSettings,
        AnyProgram,
        CodingAgent,
        Globs,
        Limits,
        Name,
        NotifySettings,
        RunnerSandbox,
        RunnerSettings,
        SandboxSettings,
        Scripted,
        Seconds,
        Settings,
        SettingsTable,
        WorkspaceSettings,
        is_taken,
        template,
        with_tables,
    )
    from interlock.settings.sources import PROTOCOL_VARIABLES

__all__ = [
    "FILE_NAME",
    "PROTOCOL_VARIABLES",
    "READY_RUNNERS",
    "AcpAgent",
    "AgentSettings",
    "AnyProgram",
    "CodingAgent",
    "Globs",
    "Limits",
    "Name",
    "NotifySettings",
    "RunnerSandbox",
    "RunnerSettings",
    "SandboxSettings",
    "Scripted",
    "Seconds",
    "Setting",
    "SettingProblem",
    "Settings",
    "SettingsInvalid",
    "SettingsTable",
    "WorkspaceSettings",
    "catalogue",
    "find_workspace",
    "is_taken",
    "json_schema",
    "load_settings",
    "reference",
    "template",
    "with_tables",
]

__getattr__ = lazily(
    __name__,
    {
        "inventory": "Setting catalogue json_schema reference",
        "loading": "SettingProblem SettingsInvalid load_settings",
        "models": (
            "READY_RUNNERS AcpAgent AgentSettings AnyProgram CodingAgent Globs Limits Name NotifySettings "
            "RunnerSandbox RunnerSettings SandboxSettings Scripted Seconds Settings SettingsTable "
            "WorkspaceSettings is_taken template with_tables"
        ),
        "sources": "PROTOCOL_VARIABLES",
    },
)
