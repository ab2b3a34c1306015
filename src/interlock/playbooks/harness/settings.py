"""The table `[harness]` of `interlock.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, Strict

from interlock.playbooks.harness.stages import LIFECYCLE
from interlock.settings import Name, SettingsTable

if TYPE_CHECKING:
    StageName = str
else:
    StageName = Literal[tuple(stage.name for stage in LIFECYCLE.working)]


class HarnessSettings(SettingsTable):
    """The harness playbook."""

    builtin_templates: bool = Field(
        default=False, description="Use interlock's own templates where `harness/templates/` has none."
    )
    until: StageName | None = Field(default=None, description="Stop after this stage; unset: go on as far as possible.")
    max_stages: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Stop after so many stages; unset: go on as far as possible."
    )
    check_commands: Annotated[tuple[Name, ...], Strict(False)] = Field(
        default=(),
        description="Commands (for a shell) that must pass: interlock runs them before the first agent, and before "
        "a QA that passes counts.",
    )
