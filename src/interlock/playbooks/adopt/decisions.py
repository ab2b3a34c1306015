"""What follows what the checks and the critic found.  Pure."""

from __future__ import annotations

from enum import StrEnum


class Move(StrEnum):
    JUDGE = "judge"
    ASK = "ask"
    MEND = "mend"


def after_checks(problems: int) -> Move:
    """A draft in which code finds nothing wrong is judged; any other goes back to its author."""
    return Move.MEND if problems else Move.JUDGE


def after_critic(rejected: int) -> Move:
    """A draft of which every statement is accepted goes to a person; any other goes back to its author."""
    return Move.MEND if rejected else Move.ASK
