"""The table `[router]` of `interlock.toml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from interlock.settings import SettingsTable


class RouterSettings(SettingsTable):
    """The router playbook."""

    cycle_detection: bool = Field(default=True, description="Refuse an agent that is already in the delegation path.")
    max_depth: int = Field(default=3, ge=1, le=3, description="Deepest delegation; a cap: may only be lowered.")
    timeout_s: float = Field(default=60, ge=1, le=60, description="Limit of the router's own work, in seconds.")
    timeout_default_s: Annotated[int, Field(ge=1, le=86_400)] | None = Field(
        default=None, description="Deadline of commands that name none; unset: by the type of the command."
    )
    partial_grace_s: float = Field(
        default=30, ge=0, le=30, description="Wait for partial results after the deadline; a cap: may only be lowered."
    )
    max_context_bytes: int = Field(
        default=10_000, ge=1, le=10_000, description="Largest context handed over; a cap: may only be lowered."
    )
    language_routing: bool = Field(
        default=False, description="Let a command file name an agent per language (`routing.<language>`)."
    )
