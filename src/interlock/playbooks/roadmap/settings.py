"""The table `[roadmap]` of `interlock.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from interlock.settings import Name, SettingsTable


class RoadmapSettings(SettingsTable):
    """The roadmap playbook."""

    fail_fast: bool = Field(default=False, description="Skip Review when Testing failed; one retry then cures less.")
    verify: Literal["engine", "agents"] = Field(
        default="agents",
        description="Who runs the item's `verification` before it is done: the engine as well, or the agents alone.",
    )
    absent_checks: Annotated[tuple[Literal["lint", "typecheck", "build"], ...], Strict(False)] = Field(
        default=(), description="Checks that the project does not have: Review may skip these, and only these."
    )
    skills_line: Name | None = Field(
        default=None, description="The reminder of skill files in every brief; unset: interlock's own sentence."
    )
    scope_line: Name | None = Field(
        default=None, description="What a retry may touch, in its brief; unset: interlock's own sentence."
    )
