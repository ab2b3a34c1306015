"""The table `[task]` of `interlock.toml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from interlock.settings import Name, SettingsTable


class TaskSettings(SettingsTable):
    """The task playbook."""

    check_commands: Annotated[tuple[Name, ...], Strict(False)] = Field(
        default=(),
        description="Commands (for a shell) that must pass: interlock runs them before the first agent, and before "
        "anything is accepted. Unset: how the project is built and tested, as its files say. `none`: there are none.",
    )
    rounds: int = Field(default=3, ge=1, le=3, description="Most rounds of work; a cap: may only be lowered.")
    review: bool = Field(default=True, description="Whether a reviewer judges the change after its checks passed.")
    commit: bool = Field(default=False, description="Whether an accepted change is committed.")
