"""People: the gates before Build and before Complete, and what their word changes."""

from __future__ import annotations

from interlock.documents import one_line
from interlock.engine import APPROVE, Choice, Ending, GateDecision, Run
from interlock.playbooks.harness.escalation import sentence
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.proofs import prove, red
from interlock.playbooks.harness.run_report import Fact, ReportRow, StageOutcome, executed
from interlock.playbooks.harness.run_state import Approval
from interlock.playbooks.harness.stages import REJECTIONS, StageGate, TaskStatus
from interlock.playbooks.harness.stint import Stint

RECORD = Choice("record", "approved, and the task file says by whom")


async def ask(run: Run, ledger: Ledger, stint: Stint) -> Ending | None:
    """The gate at which the task stands; only a recorded decision leaves it."""
    state, gate = ledger.state, ledger.state.row.gate
    assert gate is not None  # else the state would make no sense
    reject = Choice("reject", gate.choice)
    shows = tuple(state.artifacts[stage] for stage in gate.shows)
    decision = await run.gate(
        f"approve-{state.lifecycle[gate.opens].slug}",
        f"May {state.task_id} go on to {gate.opens}?",
        choices=(APPROVE, reject, RECORD),
        shows=shows,
    )
    if decision.choice == reject.name:
        return await send_back(run, ledger, stint, decision, gate, shows[0])
    if not state.row.agent and (ending := await still_red(run, ledger, stint)) is not None:
        return ending
    await record_approval(ledger, gate, decision, shows[0])
    return None


async def still_red(run: Run, ledger: Ledger, stint: Stint) -> Ending | None:
    """The end of a run whose tree does not bear out what was judged, because somebody changed it since (EV-04)."""
    found = red(await prove(run, stint.checks, stint.inputs))
    if not found:
        return None
    rows = ledger.evidence(ledger.stamp(), Fact.PROOF, *(proof.shown for proof in found))
    return await ledger.block(f"Not complete: {found[0].shown}", *rows)


async def send_back(
    run: Run, ledger: Ledger, stint: Stint, decision: GateDecision, gate: StageGate, shown: str
) -> Ending | None:
    """A rejection revises (EV-21): whoever made what was shown is called again, with what the person said."""
    state, said = ledger.state, one_line(decision.note) or "no reason given"
    row = decided(ledger, decision, StageOutcome.REJECTED, shown)
    rows = (row, *ledger.evidence(decision.at, Fact.REJECTED, said))
    stint.rejections += 1
    if stint.rejections > min(REJECTIONS, run.identity.caps.get("rejection", REJECTIONS)):
        return await ledger.block(f"Approval rejected: {said}", *rows, at=decision.at)
    event = sentence(f"{who(decision)} rejected it: {said}")
    # What people send back to be mended is a remediation, so that a negative verdict may send it back once more.
    count = 1 if gate.back_to in state.lifecycle.menders else state.remediations
    active = {"status": TaskStatus.ACTIVE, "remediations": count}
    await ledger.move(state.sent_back(gate.back_to, decision.at[:10], event, **active), *rows, at=decision.at)
    return None


def decided(ledger: Ledger, decision: GateDecision, result: str, shown: str) -> ReportRow:
    """The row of a person's decision, with the digest of what they decided on."""
    return executed(
        ledger.state, who(decision), result, decision.at, decision.at, shown, decision.digests.get(shown, "")
    )


def who(decision: GateDecision) -> str:
    return one_line(decision.who) or "a person"


async def record_approval(ledger: Ledger, gate: StageGate, decision: GateDecision, shown: str) -> None:
    """Both documents say at once that the gate is open, and by whom."""
    state, event = ledger.state, f"{who(decision)} approved {gate.opens}."
    approvals = (*state.approvals, Approval(gate.opens, who(decision), decision.at))
    if state.row.agent:
        moved = state.told(event, status=TaskStatus.ACTIVE, approvals=approvals)
    else:
        moved = state.advanced(decision.at[:10], event, approvals=approvals)
    row = decided(ledger, decision, StageOutcome.APPROVED, shown)
    await ledger.move(moved, row, at=decision.at)
    if decision.choice == RECORD.name:
        await ledger.record_in_task(gate.opens, who(decision), decision.at)


async def pass_unasked(run: Run, ledger: Ledger, stint: Stint) -> Ending | None:
    """Nobody has to approve, or somebody has: that is recorded, and the task is complete."""
    if (ending := await still_red(run, ledger, stint)) is not None:
        return ending
    state, at = ledger.state, ledger.stamp()
    asked = state.row.gate is not None and state.asks[state.row.gate.opens]
    event = "Approved by a person." if asked else "Approval not required."
    moved = state.advanced(at[:10], event)
    outcome = StageOutcome.APPROVED if asked else StageOutcome.NOT_REQUIRED
    await ledger.move(moved, executed(state, "-", outcome, at, at), at=at)
    return None
