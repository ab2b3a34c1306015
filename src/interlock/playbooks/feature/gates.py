"""Where a person approves what agents made: asked as often as the gate's loop has turns, and heard each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.engine import APPROVE, Choice, GateDecision
from interlock.playbooks.feature.crew import Crew, Halt
from interlock.playbooks.feature.stages import Move

SHOWN = 6
"""Times that a gate asks: once, and again after each of five rounds with what a person said."""
NO_PAUSE = "APPROVAL_MODE requested but interactive pause not supported — proceeding autonomously"


@dataclass(frozen=True)
class Gate:
    """Where a person approves something, as often as its loop has turns."""

    loop: str
    name: str
    revised: str
    """What a rejection leads to, in words."""
    waits: bool = True

    def choices(self, last: bool) -> tuple[Choice, ...]:
        return (APPROVE, Choice("reject", "the run ends" if last else self.revised))


async def decided(
    crew: Crew,
    gate: Gate,
    question: str,
    shown: Sequence[str],
    makers: Sequence[str],
    turn: int,
) -> GateDecision:
    """What a person decides; where the run may not wait, that is said instead. A rejection at the last turn halts.

    Args:
        makers: the dispatches whose work is shown; a retry after the last rejection does them again.
    """
    run = crew.run
    if not gate.waits:
        run.warn(NO_PAUSE)
        return GateDecision(APPROVE.name, "nobody", "")
    last = turn >= run.identity.caps.get(gate.loop, SHOWN)
    decision = await run.gate(gate.name, question, choices=gate.choices(last), shows=shown)
    crew.person_acted = True
    if not decision.approved and last:
        crew.go(Move.REFUSED)
        note = f": {decision.note}" if decision.note else ""
        raise Halt(f"rejected at {gate.name} by {decision.who}{note}", makers)
    return decision
