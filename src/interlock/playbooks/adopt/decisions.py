"""What follows what the checks and the critic found.  Pure."""

from __future__ import annotations

from enum import StrEnum


class AfterDraft(StrEnum):
    JUDGE = "judge"
    ASK = "ask"
    MEND = "mend"


def after_checks(problems: int) -> AfterDraft:
    """A draft in which code finds nothing wrong is judged; any other goes back to its author."""
    return AfterDraft.MEND if problems else AfterDraft.JUDGE


def after_critic(rejected: int) -> AfterDraft:
    """A draft of which every statement is accepted goes to a person; any other goes back to its author."""
    return AfterDraft.MEND if rejected else AfterDraft.ASK
