"""The table `[feature]` of `interlock.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from interlock.settings import Name, SettingsTable


class FeatureSettings(SettingsTable):
    """The feature playbook."""

    approval: bool = Field(default=False, description="Wait for a person after research and after planning.")
    approval_fallback: Literal["wait", "proceed"] = Field(
        default="wait", description="Instead of waiting for an approval: go on, and say so."
    )
    approve_replans: bool = Field(default=False, description="Wait for a person's approval of replans too.")
    strict: bool = Field(default=False, description="A verifier without a verdict is a reason to replan.")
    post_mortem_on_halt: bool = Field(default=False, description="Call the post-mortem agent after an early end too.")
    scheduling: Literal["barrier", "eager"] = Field(
        default="barrier", description="Whether a sub-wave of four is awaited before the next one starts."
    )
    git: bool = Field(default=True, description="Warn where the workspace is no git repository.")
    check_commands: Annotated[tuple[Name, ...], Strict(False)] = Field(
        default=(),
        description="Commands (for a shell) that must pass: interlock runs them before the first agent, at each "
        "verification, and before the end.",
    )
