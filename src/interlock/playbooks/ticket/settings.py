"""The table `[ticket]` of `interlock.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from interlock.settings import Globs, Name, Seconds, SettingsTable, template


class TicketSettings(SettingsTable):
    """The ticket playbook."""

    build_command: Name | None = Field(default=None, description="Command that builds; unset: found in the project.")
    test_command: Name | None = Field(default=None, description="Command that tests; unset: found in the project.")
    command_timeout_s: Seconds = Field(default=1800, description="Limit of one build or test, in seconds.")
    dirty: Literal["stash", "carry", "abort"] | None = Field(
        default=None, description="What becomes of uncommitted code at the git gate; unset: a person is asked."
    )
    fast_path: bool = Field(default=True, description="Let a graph of one simple task skip executor and review.")
    max_parallel_tasks: Annotated[int, Field(ge=1, le=8)] | None = Field(
        default=None, description="Most tasks side by side; unset: the number of processors, at most 8."
    )
    base: Name | None = Field(
        default=None, description="Branch that the work begins from; unset: the remote's default, else the main one."
    )
    branch: Annotated[Name, AfterValidator(template("type", "kind", "ticket", "slug"))] = Field(
        default="{type}/{ticket}_{slug}",
        description="Name of a ticket's branch; `{type}`, `{kind}`, `{ticket}` and `{slug}` are filled in.",
    )
    commit_message: Annotated[Name, AfterValidator(template("type", "kind", "ticket", "slug", "summary", "tasks"))] = (
        Field(
            default="{kind}({ticket}): {summary}",
            description="Message of a commit, with what a branch name can have, `{summary}`, `{tasks}`; a single line "
            "is the subject, the tasks are listed below it.",
        )
    )
    drift: Globs = Field(
        default=(), description="Patterns that a graph's allow-lists may use; they name files one by one otherwise."
    )
