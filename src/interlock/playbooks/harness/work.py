"""One stage: its contract and inputs, its own agent, its artifact, and the verdict of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from interlock.contracts import Answer, ArtifactCheck, ArtifactClass, Judgement, Outcome
from interlock.contracts import judge as weigh
from interlock.documents import Document, one_line
from interlock.engine import Ending, Proof, Quoted, Report, Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.harness import standards
from interlock.playbooks.harness.artifacts import Inspection, as_left, findings_of, inspect, structure_of
from interlock.playbooks.harness.briefs import Told, owed, paths_of, stage_dispatch
from interlock.playbooks.harness.decisions import AFTER_FAILURE, AfterVerdict, StageFailure, after_verdict, failure_of
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.proofs import prove, red, uncompared
from interlock.playbooks.harness.run_report import (
    Fact,
    ReportRow,
    StageOutcome,
    executed,
    last_judged,
    left_behind,
    of_kind,
    parse,
    rejected_last,
    returned_to,
    sent_back_with,
)
from interlock.playbooks.harness.run_state import RunState, same_paths
from interlock.playbooks.harness.stages import ARTIFACT, REMEDIATIONS, Judging, StageContract
from interlock.playbooks.harness.standards import is_there
from interlock.playbooks.harness.stint import Stint
from interlock.playbooks.harness.task_file import parse_task

SAID = 300
"""Characters of an agent's own words that a stop reason quotes."""
EARLIER = "Changes of an earlier attempt, which did not count and were not taken over"
SHOWN_OF_PATCH = 20_000
NOTHING_CLAIMED = Judgement(Outcome.FAIL)
LISTED = 200
"""Changed files of one Build that get a row of their own."""


async def carry_out(run: Run, ledger: Ledger, stint: Stint) -> Ending | None:
    """One stage: its contract, its inputs, the checkpoint, its agent, its artifact."""
    state, row = ledger.state, ledger.state.row
    started = ledger.stamp()
    await ledger.commit(state.told(f"{row.name} is with its agent, {row.agent}."), at=started)
    try:  # the task as its file says it now: people may have changed it since the run began (EV-23)
        ledger.task = same_paths(parse_task(await run.read(state.task_file), state.lifecycle), state)
        contract = await load_contract(run, state)
        judge = await sent_back_by(run, ledger) if state.remediating else ""
    except DocumentInvalid as problem:
        return await ledger.block(problem.what)
    required = paths_of((*contract.required, *([ARTIFACT + judge] if judge else [])), state)
    for path in required:
        if not await is_there(run, path):
            return await ledger.block(f"Input contract of {row.name} not satisfiable: {path} missing")
    beside = [path for path in paths_of(contract.optional, state) if await is_there(run, path)]
    inputs = tuple(dict.fromkeys((*required, *beside, *stint.prose)))
    proofs = await proofs_for(run, state, stint)
    so_far = await ledger.checkpoint()
    live = run.live
    if stint.inputs.fallback and state.lifecycle.named(stint.inputs.fallback) == row.name:
        done = await supplied(run, ledger, contract, stint.inputs.fallback_by or "a person")
    else:
        earlier = await earlier_work(run, left_behind(so_far, row.name))
        unsure = uncompared(stint.checks, state)
        told = Told(earlier, of_kind(so_far, Fact.CHANGED), proofs, judge, rejected_last(so_far), unsure)
        done = await dispatched(run, ledger, contract, inputs, told)
    done = replace(done, started=started, ended=ledger.stamp())
    if live:
        stint.executed, stint.last = stint.executed + 1, row.name
    if done.failure is not StageFailure.NONE:
        then = AFTER_FAILURE[done.failure]
        return await ledger.block(done.reason, *done.entries(ledger, then.outcome), status=then.status)
    if row.judging is not None:
        return await pass_judgement(run, ledger, stint, done, row.judging)
    await advance(ledger, done)
    return None


async def advance(ledger: Ledger, done: StageExecution, *besides: ReportRow) -> None:
    state = ledger.state
    moved = state.advanced(done.ended[:10], f"{state.stage} was completed by {done.who}.")
    await ledger.move(moved, *done.entries(ledger, StageOutcome.COMPLETED), *besides, at=done.ended)


async def sent_back_by(run: Run, ledger: Ledger) -> str:
    """The judge whose artifact says what is to be mended: of the last return or rejection, else the last one."""
    state = ledger.state
    judges = [row.name for row, judging in state.lifecycle.judges if judging.returns_to == state.stage]
    judges = [name for name in judges if name in state.artifacts]
    shown = sent_back_with(parse(await run.read(ledger.report)), state.stage)
    return next((name for name in judges if state.artifacts[name] == shown), judges[-1] if judges else "")


async def proofs_for(run: Run, state: RunState, stint: Stint) -> tuple[Proof, ...]:
    """How the named commands end, where the agent of the stage is to know it: a judge, and whoever has to mend it."""
    if state.remediating and stint.red:
        return stint.red
    if state.row.judging or state.remediating:
        return await prove(run, stint.checks, stint.inputs, as_before=False)
    return ()


async def load_contract(run: Run, state: RunState) -> StageContract:
    """The contract of the current stage as the workspace has it now."""
    document = await run.read(standards.CONTRACTS)
    contract = standards.parse_contracts(document, state.lifecycle)[state.stage]
    run.note("contract.loaded", stage=state.stage, digest=document.digest)
    return contract


@dataclass(frozen=True)
class StageExecution:
    """What is proven about one execution of a stage."""

    who: str
    found: Inspection
    text: str
    failure: StageFailure = StageFailure.NONE
    reason: str = ""
    supplied: bool = False
    """A person wrote it."""
    kept: str = ""
    """Where the changes lie that were not taken over."""
    judgement: Judgement = NOTHING_CLAIMED
    """What the claim of a judge comes to."""
    changed: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()
    """What a person should know of it beside its result."""
    started: str = ""
    ended: str = ""

    def entries(self, ledger: Ledger, outcome: str) -> tuple[ReportRow, ...]:
        """The rows of the report about it, when it came out like this."""
        found, at = self.found, self.ended
        strayed = self.failure in (StageFailure.GOVERNANCE, StageFailure.SCOPE)
        facts = {
            Fact.KEPT: (self.kept,) if self.kept else (),
            Fact.CHECK: (f"{found.path}: verified" if found.ok else found.complaint,),
            Fact.FALLBACK: (f"{ledger.state.stage} supplied by {self.who}",) if self.supplied else (),
            Fact.CHANGED: self.changed[:LISTED],
            Fact.NOTICED: self.noticed,
            Fact.SCOPE: (f"{self.reason}; not taken over",) if strayed else (),
        }
        row = executed(ledger.state, self.who, outcome, self.started, at, found.path, found.digest)
        return row, *(entry for fact, texts in facts.items() for entry in ledger.evidence(at, fact, *texts))


async def earlier_work(run: Run, patch: str) -> tuple[Quoted, ...]:
    """What an attempt before this one changed in vain, for the agent of the next one (LY-04)."""
    text = (await run.read(patch)).text if patch else ""
    return (Quoted(EARLIER, text[:SHOWN_OF_PATCH], "diff"),) if text else ()


async def dispatched(
    run: Run, ledger: Ledger, contract: StageContract, inputs: tuple[str, ...], told: Told
) -> StageExecution:
    """The stage's own agent at work, and what its artifact is when it is opened afterwards."""
    state = ledger.state
    report = await run.dispatch(stage_dispatch(ledger.task, state, contract, inputs, told))
    document, found = await open_artifact(run, ledger, contract, report.flaws)
    trespassed = bool(report.violations), bool(report.foreign), bool(report.conflicts)
    failure = run.decide(failure_of, report.outcome, report.reason, found.cls, *trespassed)
    counts = failure is StageFailure.NONE and state.row.builds
    return StageExecution(
        report.agent,
        found,
        document.text,
        failure,
        reason_of(failure, state.stage, report, found),
        kept="" if report.accepted else report.patch,
        judgement=Judgement(report.outcome, report.reason, report.complaints, report.evidence, report.passed),
        changed=tuple(path for path in report.changes if path != state.artifact) if counts else (),
        noticed=report.noticed,
    )


async def open_artifact(
    run: Run, ledger: Ledger, contract: StageContract, flaws: Sequence[ArtifactCheck] = ()
) -> tuple[Document, Inspection]:
    state, path = ledger.state, ledger.state.artifact
    document = await run.read(path)
    found = as_left(inspect(document, structure_of(state.row, contract, ledger.task.criteria)), flaws)
    run.note("artifact.check", stage=state.stage, path=path, cls=found.cls, detail=found.detail, **found.answers())
    return document, found


def reason_of(failure: StageFailure, stage: str, report: Report, found: Inspection) -> str:
    """The stop reason of a failed stage; empty where it did not fail."""
    who = f"Stage {stage}: agent {report.agent}"
    unusable = f"{who} left no result that counts: {one_line('; '.join(report.complaints))}"
    return (
        ""
        if failure is StageFailure.NONE
        else AFTER_FAILURE[failure].reason.format(
            who=who,
            agent=report.agent,
            strayed=", ".join((*report.foreign, *report.violations)),
            conflicts=", ".join(report.conflicts),
            patch=report.patch,
            detail=one_line(report.detail),
            words=words_of(report),
            flaw=unusable if found.ok else found.complaint,
        )
    )


def words_of(report: Report) -> str:
    """What an agent said about its own failure, for people; nothing is decided by it."""
    said = report.detail if report.outcome is Outcome.BLOCKED or report.token is None else ""
    lines = [line for line in report.answer().decode("utf-8", "replace").splitlines() if line.strip()]
    spoken = " ".join(line for line in lines if not line.lower().lstrip("*_` ").startswith("status"))
    return one_line(said or spoken or report.detail)[:SAID] or "no reason given"


# -- a person in the place of an agent


async def supplied(run: Run, ledger: Ledger, contract: StageContract, by: str) -> StageExecution:
    """An artifact that a person wrote: opened, checked and weighed like any other, never made up."""
    state = ledger.state
    document, found = await open_artifact(run, ledger, contract)
    run.note("fallback", stage=state.stage, by=by)
    reason, failure = found.complaint, StageFailure.NONE if found.ok else StageFailure.BLOCKED
    judgement = NOTHING_CLAIMED
    if found.ok:
        judged = last_judged(parse(await run.read(ledger.report)), state.stage)
        good = ArtifactCheck(found.path, ArtifactClass.OK)
        judgement = weigh(owed(ledger.task, state, contract), Answer(Outcome.OK), [good], {found.path: document.text})
        if judged == found.digest:
            failure, reason = StageFailure.BLOCKED, f"{found.path}: stale: it is the one that was judged before"
        elif judgement.outcome is Outcome.FAIL:
            failure, reason = StageFailure.BLOCKED, f"{found.path}: {'; '.join(judgement.complaints)}"
    who = f"fallback: {one_line(by)}"
    return StageExecution(who, found, document.text, failure, reason, supplied=True, judgement=judgement)


# -- a verdict


async def pass_judgement(
    run: Run, ledger: Ledger, stint: Stint, done: StageExecution, judging: Judging
) -> Ending | None:
    """What a judge's report comes to, beside what the engine ran itself: go on, back, or halt for a person."""
    state, found, claimed = ledger.state, findings_of(judging, done.text), done.judgement
    proofs = await prove(run, stint.checks, stint.inputs, as_before=bool(claimed.passed))
    stint.red = red(proofs)
    cap = min(REMEDIATIONS, run.identity.caps.get("remediation", REMEDIATIONS))
    move = run.decide(after_verdict, bool(claimed.passed), bool(stint.red), state.remediations < cap)
    verdict = "positive" if move is AfterVerdict.ADVANCE else "negative"
    facts = {"issues": found.issues, "unmet": found.unmet, "remediations": state.remediations}
    run.note(f"{state.row.slug}.result", verdict=verdict, **facts)
    entries = [
        *ledger.evidence(done.ended, Fact.PROOF, *(proof.shown for proof in proofs)),
        *ledger.evidence(done.ended, f"{state.stage} result", f"{verdict}: {', '.join(found.words)}"),
    ]
    if move is AfterVerdict.ADVANCE:
        await advance(ledger, done, *entries)
        return None
    against = (*found.against, *claimed.complaints, *(proof.shown for proof in stint.red))
    entries += ledger.evidence(done.ended, Fact.REASON, "; ".join(against))
    entries += ledger.evidence(done.ended, Fact.ISSUE, *found.issues)
    entries += ledger.evidence(done.ended, Fact.CRITERION, *found.unmet)
    if move is AfterVerdict.BLOCK:
        reason = f"{state.stage} remediation retry limit reached"
        return await ledger.block(reason, *done.entries(ledger, StageOutcome.BLOCKED), *entries)
    target, count = judging.returns_to, state.remediations + 1
    event = f"{state.stage} returned the task to {target} for remediation {count} of {cap}."
    moved = state.sent_back(target, done.ended[:10], event, remediations=count)
    await ledger.move(moved, *done.entries(ledger, returned_to(target)), *entries, at=done.ended)
    return None
