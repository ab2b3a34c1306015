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
SHORTEST_WAIT_S, LONGEST_WAIT_S = 2.0, 300.0
"""Waits for a model service that does not say when its limit passes: doubled each time, within these."""


class AfterTry(StrEnum):
    END = "end"
    WAIT = "wait"
    """The agent's service takes no more requests for now: the same call later, at the cost of no repeat (EN-45)."""
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

    def after(self, move: AfterTry) -> Used:
        match move:
            case AfterTry.REPEAT:
                return Used(self.transient + 1, self.contract, self.error)
            case AfterTry.REPAIR:
                return Used(self.transient, self.contract + 1, self.error)
            case AfterTry.RETRY:
                return Used(self.transient, self.contract, self.error + 1)
            case AfterTry.END | AfterTry.WAIT:
                return self


def next_move(outcome: Outcome, reason: Reason | None, used: Used, allowed: Retries) -> AfterTry:
    """What follows a try that ended so."""
    if outcome is not Outcome.FAIL or reason is None or reason is Reason.CANCELLED:
        return AfterTry.END
    if reason in TRANSIENT:
        return AfterTry.REPEAT if used.transient < allowed.transient else AfterTry.END
    if allowed.shared and used.contract + used.error >= max(allowed.contract, allowed.error):
        return AfterTry.END
    if reason in UNUSABLE:
        return AfterTry.REPAIR if used.contract < allowed.contract else AfterTry.END
    return AfterTry.RETRY if used.error < allowed.error else AfterTry.END


def delay_s(used: Used) -> float:
    """How long to wait before the next transient repeat."""
    return DELAYS_S[min(used.transient, len(DELAYS_S) - 1)]


def wait_s(reset_s: float | None, waits: int, waited_s: float, allowed_s: float) -> float | None:
    """How long to wait for a limit to pass; None when that is longer than may be waited.

    Args:
        reset_s: when the service says that it passes.
        waits: how often it was waited for already, for `waited_s` together.
    """
    growing = min(SHORTEST_WAIT_S * 2.0 ** min(waits, 30), LONGEST_WAIT_S)
    left = allowed_s - waited_s
    if reset_s is None:
        wanted = min(growing, left)
        return wanted if wanted >= min(SHORTEST_WAIT_S, growing) else None
    wanted = max(reset_s, growing)
    return wanted if wanted <= left else None
