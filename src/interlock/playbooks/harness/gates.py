"""People: the gates before Build and before Complete, and what their word changes."""

from __future__ import annotations

from interlock.engine import APPROVE, REJECT, Choice, Ending, GateDecision, Run
from interlock.playbooks.harness.escalation import one_line
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.lifecycle import Finding, Stage, TaskStatus
from interlock.playbooks.harness.run_report import Entry, Result, executed
from interlock.playbooks.harness.run_state import GATES, Approval
from interlock.playbooks.harness.stops import block, note_result

RECORD = Choice("record", "approved, and the task file says by whom")


async def ask(run: Run, ledger: Ledger) -> Ending | None:
    """The gate at which the task stands; only a recorded decision leaves it."""
    state = ledger.state
    gate = GATES[state.stage]
    stages = (Stage.PLANNING,) if gate is Stage.BUILD else (Stage.QA, Stage.BUILD)
    decision = await run.gate(
        f"approve-{gate.slug}",
        f"May {state.task_id} go on to {gate}?",
        choices=(APPROVE, REJECT, RECORD),
        shows=tuple(state.artifacts[stage] for stage in stages),
    )
    if decision.choice == REJECT.name:
        row = decided(ledger, decision, Result.REJECTED, state.artifacts[stages[0]])
        return await block(run, ledger, f"Approval rejected: {decision.note}", row, at=decision.at)
    await record_approval(run, ledger, gate, decision, state.artifacts[stages[0]])
    return None


def decided(ledger: Ledger, decision: GateDecision, result: Result, shown: str) -> Entry:
    """The row of a person's decision, with the digest of what they decided on."""
    return executed(
        ledger.state, who(decision), result, decision.at, decision.at, shown, decision.digests.get(shown, "")
    )


def who(decision: GateDecision) -> str:
    return one_line(decision.who) or "a person"


async def record_approval(run: Run, ledger: Ledger, gate: Stage, decision: GateDecision, shown: str) -> None:
    """Both documents say at once that the gate is open, and by whom."""
    state, event = ledger.state, f"{who(decision)} approved {gate}."
    approvals = (*state.approvals, Approval(gate, who(decision), decision.at))
    if gate is Stage.BUILD:
        moved = state.told(event, status=TaskStatus.ACTIVE, approvals=approvals)
    else:
        moved = state.moved(Finding.APPROVED, decision.at[:10], event, status=TaskStatus.COMPLETE, approvals=approvals)
    await ledger.commit(moved, decided(ledger, decision, Result.APPROVED, shown), at=decision.at)
    if decision.choice == RECORD.name:
        await ledger.record_in_task(gate, who(decision), decision.at)
    note_result(run, ledger)


async def pass_unasked(run: Run, ledger: Ledger) -> None:
    """Nobody has to approve: that is recorded, and the task is complete."""
    state, at = ledger.state, ledger.stamp()
    asked = state.approve_complete
    finding, result = (Finding.APPROVED, Result.APPROVED) if asked else (Finding.NOT_REQUIRED, Result.NOT_REQUIRED)
    moved = state.moved(finding, at[:10], f"{finding.value.capitalize()}.", status=TaskStatus.COMPLETE)
    await ledger.commit(moved, executed(state, "-", result, at, at), at=at)
    note_result(run, ledger)
