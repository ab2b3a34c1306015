"""Which repeats the dispatcher makes by itself (EN-41, common 2 "Retry"). Pure.

Three kinds, never mixed up: *transient* (no verdict was given), *contract* (something came that cannot be used),
*error* (the agent said that it failed, or wrote where it may not). Loops over verdicts are the playbook's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import TRANSIENT, UNUSABLE, Outcome, Reason
from interlock.engine.model import Retries

DELAYS_S = (1.0, 5.0)


class Move(StrEnum):
    END = "end"
    REPEAT = "repeat"
    REPAIR = "repair"
    RETRY = "retry"


@dataclass(frozen=True)
class Used:
    """Repeats made so far, by kind."""

    transient: int = 0
    contract: int = 0
    error: int = 0

    @property
    def total(self) -> int:
        return self.transient + self.contract + self.error

    def after(self, move: Move) -> Used:
        match move:
            case Move.REPEAT:
                return Used(self.transient + 1, self.contract, self.error)
            case Move.REPAIR:
                return Used(self.transient, self.contract + 1, self.error)
            case Move.RETRY:
                return Used(self.transient, self.contract, self.error + 1)
            case Move.END:
                return self


def next_move(outcome: Outcome, reason: Reason | None, used: Used, allowed: Retries) -> Move:
    """What follows a try that ended so."""
    if outcome is not Outcome.FAIL or reason is None or reason is Reason.CANCELLED:
        return Move.END
    if reason in TRANSIENT:
        return Move.REPEAT if used.transient < allowed.transient else Move.END
    if allowed.shared and used.contract + used.error >= max(allowed.contract, allowed.error):
        return Move.END
    if reason in UNUSABLE:
        return Move.REPAIR if used.contract < allowed.contract else Move.END
    return Move.RETRY if used.error < allowed.error else Move.END


def delay_s(used: Used) -> float:
    """How long to wait before the next transient repeat."""
    return DELAYS_S[min(used.transient, len(DELAYS_S) - 1)]
