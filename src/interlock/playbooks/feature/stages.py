"""The pipeline as a table: each step has its successors and no others, so that none can be left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from interlock.errors import EngineFault


class Stage(StrEnum):
    SETUP = "S0_Setup"
    RESEARCH = "S1_Research"
    APPROVE_RESEARCH = "S1a_Approval"
    SPEC = "S2_Spec"
    DESIGN = "S3_Design"
    CRITIQUE = "S3b_CT"
    PLAN = "S4_Plan"
    APPROVE_PLAN = "S4a_Approval"
    IMPLEMENT = "S5_Implement"
    VERIFY = "S6_Verify"
    REVIEW = "S7_Review"
    FIX = "S7fix"
    POST_MORTEM = "S8_PostMortem"
    DONE = "DONE"
    ERROR = "ERROR"

    @property
    def number(self) -> str:
        """The step as people and the shared memory name it: `0`, `3b`."""
        found = re.match(r"S(\d+[ab]?)", self.value)
        return found[1] if found else self.value

    @property
    def final(self) -> bool:
        return self in (Stage.DONE, Stage.ERROR)


class Move(StrEnum):
    """Why a step is left."""

    READY = "documents created"
    ENOUGH_RESEARCH = "at least 2 researchers usable, merged, pruned"
    ASK = "approval mode"
    APPROVED = "approved"
    REJECTED = "rejected: made again with what was said"
    REFUSED = "rejected for the last time"
    FINISHED = "DONE, merged"
    FAILED = "ERROR after the retry"
    ACCEPTED = "CT DONE"
    REVISE = "CT NEEDS_REVISION, first time"
    CONSTRAINED = "CT NEEDS_REVISION again: findings become constraints"
    NO_QUORUM = "fewer than 2 usable"
    WORKED = "all waves done, or an implementer failed"
    VERIFIED = "V DONE"
    REPLAN = "V not DONE, replans left"
    UNRESOLVED = "V not DONE, no replan left"
    PASSED = "R DONE"
    FIX_PASS = "R NEEDS_REVISION, first time"
    FIXED = "fixes done, verified"
    ESCALATE = "R not DONE, escalation left"
    GAVE_UP = "R not DONE, nothing left to try"
    CLOSED_DONE = "R was DONE, and nothing speaks against it"
    CLOSED_ERROR = "R was not DONE, or something speaks against it"


START = Stage.SETUP
MOVES: Mapping[tuple[Stage, Move], Stage] = {
    (Stage.SETUP, Move.READY): Stage.RESEARCH,
    (Stage.RESEARCH, Move.ASK): Stage.APPROVE_RESEARCH,
    (Stage.RESEARCH, Move.ENOUGH_RESEARCH): Stage.SPEC,
    (Stage.RESEARCH, Move.NO_QUORUM): Stage.ERROR,
    (Stage.APPROVE_RESEARCH, Move.APPROVED): Stage.SPEC,
    (Stage.APPROVE_RESEARCH, Move.REJECTED): Stage.RESEARCH,
    (Stage.APPROVE_RESEARCH, Move.REFUSED): Stage.ERROR,
    (Stage.SPEC, Move.FINISHED): Stage.DESIGN,
    (Stage.SPEC, Move.FAILED): Stage.ERROR,
    (Stage.DESIGN, Move.FINISHED): Stage.CRITIQUE,
    (Stage.DESIGN, Move.FAILED): Stage.ERROR,
    (Stage.CRITIQUE, Move.ACCEPTED): Stage.PLAN,
    (Stage.CRITIQUE, Move.REVISE): Stage.DESIGN,
    (Stage.CRITIQUE, Move.CONSTRAINED): Stage.PLAN,
    (Stage.CRITIQUE, Move.NO_QUORUM): Stage.ERROR,
    (Stage.PLAN, Move.ASK): Stage.APPROVE_PLAN,
    (Stage.PLAN, Move.FINISHED): Stage.IMPLEMENT,
    (Stage.PLAN, Move.FAILED): Stage.ERROR,
    (Stage.APPROVE_PLAN, Move.APPROVED): Stage.IMPLEMENT,
    (Stage.APPROVE_PLAN, Move.REJECTED): Stage.PLAN,
    (Stage.APPROVE_PLAN, Move.REFUSED): Stage.ERROR,
    (Stage.IMPLEMENT, Move.WORKED): Stage.VERIFY,
    (Stage.VERIFY, Move.VERIFIED): Stage.REVIEW,
    (Stage.VERIFY, Move.REPLAN): Stage.PLAN,
    (Stage.VERIFY, Move.UNRESOLVED): Stage.REVIEW,
    (Stage.REVIEW, Move.PASSED): Stage.POST_MORTEM,
    (Stage.REVIEW, Move.FIX_PASS): Stage.FIX,
    (Stage.FIX, Move.FIXED): Stage.REVIEW,
    (Stage.REVIEW, Move.ESCALATE): Stage.PLAN,
    (Stage.REVIEW, Move.GAVE_UP): Stage.POST_MORTEM,
    (Stage.POST_MORTEM, Move.CLOSED_DONE): Stage.DONE,
    (Stage.POST_MORTEM, Move.CLOSED_ERROR): Stage.ERROR,
}


class Walk:
    """Where a run stands; it moves only along `MOVES`."""

    def __init__(self) -> None:
        self.stage = START

    def go(self, move: Move) -> Stage:
        if (self.stage, move) not in MOVES:
            raise EngineFault(f"the feature pipeline cannot leave {self.stage} by {move.value!r}", where=self.stage)
        self.stage = MOVES[self.stage, move]
        return self.stage


def diagram() -> str:
    """`MOVES` as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    lines += [f"    {before} --> {after}: {move}" for (before, move), after in MOVES.items()]
    return "\n".join([*lines, *(f"    {stage} --> [*]" for stage in Stage if stage.final)])
