"""People: the gates before Build and before Complete, and what their word changes."""

from __future__ import annotations

from interlock.engine import APPROVE, Choice, Ending, GateDecision, Run
from interlock.playbooks.harness.escalation import one_line, sentence
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.lifecycle import REJECTIONS, Finding, Stage, TaskStatus
from interlock.playbooks.harness.proofs import prove, red
from interlock.playbooks.harness.run_report import Entry, Kind, Result, executed
from interlock.playbooks.harness.run_state import GATES, Approval
from interlock.playbooks.harness.stops import Progress, block, note_result

RECORD = Choice("record", "approved, and the task file says by whom")
REJECT = {
    Stage.BUILD: Choice("reject", "the plan is revised by what you say"),
    Stage.COMPLETE: Choice("reject", "Build revises the work by what you say and by the QA report"),
}


async def ask(run: Run, ledger: Ledger, progress: Progress) -> Ending | None:
    """The gate at which the task stands; only a recorded decision leaves it."""
    state = ledger.state
    gate = GATES[state.stage]
    stages = (Stage.PLANNING,) if gate is Stage.BUILD else (Stage.QA, Stage.BUILD)
    decision = await run.gate(
        f"approve-{gate.slug}",
        f"May {state.task_id} go on to {gate}?",
        choices=(APPROVE, REJECT[gate], RECORD),
        shows=tuple(state.artifacts[stage] for stage in stages),
    )
    shown = state.artifacts[stages[0]]
    if decision.choice == REJECT[gate].name:
        return await send_back(run, ledger, progress, decision, shown)
    if gate is Stage.COMPLETE and (ending := await still_red(run, ledger, progress)) is not None:
        return ending
    await record_approval(run, ledger, gate, decision, shown)
    return None


async def still_red(run: Run, ledger: Ledger, progress: Progress) -> Ending | None:
    """The end of a run whose tree does not bear out what was judged, because somebody changed it since (EV-04)."""
    found = red(await prove(run, progress.checks, progress.inputs))
    if not found:
        return None
    rows = ledger.evidence(ledger.stamp(), Kind.PROOF, *(proof.shown for proof in found))
    return await block(run, ledger, f"Not complete: {found[0].shown}", *rows)


async def send_back(run: Run, ledger: Ledger, progress: Progress, decision: GateDecision, shown: str) -> Ending | None:
    """A rejection revises (EV-21): whoever made what was shown is called again, with what the person said."""
    state, said = ledger.state, one_line(decision.note) or "no reason given"
    row = decided(ledger, decision, Result.REJECTED, shown)
    rows = (row, *ledger.evidence(decision.at, Kind.REJECTED, said))
    progress.rejections += 1
    if progress.rejections > min(REJECTIONS, run.identity.caps.get("rejection", REJECTIONS)):
        return await block(run, ledger, f"Approval rejected: {said}", *rows, at=decision.at)
    event = sentence(f"{who(decision)} rejected it: {said}")
    # A task that people send back is one that Build remedies, so that a negative QA may send it back once more.
    count = 1 if state.stage is Stage.APPROVAL else state.remediations
    moved = state.moved(Finding.REJECTED, decision.at[:10], event, status=TaskStatus.ACTIVE, remediations=count)
    await ledger.commit(moved, *rows, at=decision.at)
    note_result(run, ledger)
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


async def pass_unasked(run: Run, ledger: Ledger, progress: Progress) -> Ending | None:
    """Nobody has to approve: that is recorded, and the task is complete."""
    if (ending := await still_red(run, ledger, progress)) is not None:
        return ending
    state, at = ledger.state, ledger.stamp()
    asked = state.approve_complete
    finding, result = (Finding.APPROVED, Result.APPROVED) if asked else (Finding.NOT_REQUIRED, Result.NOT_REQUIRED)
    moved = state.moved(finding, at[:10], f"{finding.value.capitalize()}.", status=TaskStatus.COMPLETE)
    await ledger.commit(moved, executed(state, "-", result, at, at), at=at)
    note_result(run, ledger)
    return None
