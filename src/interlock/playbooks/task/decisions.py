"""What follows from a piece of work, its checks and its review: pure, and total."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from interlock.contracts import Outcome, Reason
from interlock.engine import Proof, Report, Table


class Worked(StrEnum):
    DONE = "done"
    FELL_SHORT = "fell short"
    """What it did cannot be taken over; it can be told why."""
    BLOCKED = "blocked"
    """Only a person can go on."""
    FAILED = "failed"
    """No answer came of it that anybody could use."""


def after_work(outcome: Outcome, reason: Reason | None) -> Worked:
    """How a call of the builder counts."""
    match outcome:
        case Outcome.OK:
            return Worked.DONE
        case Outcome.BLOCKED:
            return Worked.BLOCKED
        case Outcome.REVISE:
            return Worked.FELL_SHORT
        case Outcome.FAIL:
            told = (Reason.SCOPE_VIOLATION, Reason.CONTRACT_VIOLATION, Reason.NO_CHANGE)
            return Worked.FELL_SHORT if reason in told else Worked.FAILED


class Checked(StrEnum):
    GREEN = "green"
    RED = "red"
    NONE = "none"
    """There is nothing to run."""


class Reviewed(StrEnum):
    ACCEPTS = "accepts"
    OBJECTS = "objects"
    UNUSABLE = "unusable"
    """It was asked, and once more, and gave no verdict."""
    NOBODY = "nobody"
    """Nobody reviews, by a person's wish."""
    MISSED = "missed"
    """Nobody reviews, and there is something that only a reviewer could weigh."""


class Next(StrEnum):
    ACCEPT = "accept"
    AGAIN = "again"
    STOP = "stop"


AFTER_ROUND: Table[Next] = Table(
    "after_round",
    {
        (Checked.GREEN, Reviewed.ACCEPTS): Next.ACCEPT,
        (Checked.GREEN, Reviewed.OBJECTS): Next.AGAIN,
        (Checked.GREEN, Reviewed.UNUSABLE): Next.STOP,
        (Checked.GREEN, Reviewed.NOBODY): Next.ACCEPT,
        (Checked.GREEN, Reviewed.MISSED): Next.AGAIN,
        (Checked.NONE, Reviewed.ACCEPTS): Next.ACCEPT,
        (Checked.NONE, Reviewed.OBJECTS): Next.AGAIN,
        (Checked.NONE, Reviewed.UNUSABLE): Next.STOP,
        (Checked.NONE, Reviewed.NOBODY): Next.STOP,  # nothing would bear it out
        (Checked.NONE, Reviewed.MISSED): Next.STOP,
        **{(Checked.RED, reviewed): Next.AGAIN for reviewed in Reviewed},  # whatever a reviewer says
    },
)


def checked(proofs: Sequence[Proof]) -> Checked:
    if not proofs:
        return Checked.NONE
    return Checked.GREEN if all(proof.ok for proof in proofs) else Checked.RED


def reviewed(review: Report | None, noticed: Sequence[str]) -> Reviewed:
    """What a review came to; without one, whether one is missed."""
    if review is None:
        return Reviewed.MISSED if noticed else Reviewed.NOBODY
    if review.ok and review.passed:
        return Reviewed.ACCEPTS
    return Reviewed.OBJECTS if review.outcome is Outcome.REVISE else Reviewed.UNUSABLE
