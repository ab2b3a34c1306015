"""One stage: its contract and inputs, its own agent, its artifact, and for QA the judgement of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.contracts import Answer, ArtifactCheck, ArtifactClass, Judgement, Outcome
from interlock.contracts import judge as weigh
from interlock.documents import Document
from interlock.engine import Ending, Proof, Quoted, Report, Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.harness import run_state, standards
from interlock.playbooks.harness.artifacts import Inspection, QaFindings, inspect, qa_findings, qa_lines
from interlock.playbooks.harness.briefs import Told, inputs_of, owed, stage_dispatch, structure
from interlock.playbooks.harness.decisions import (
    AFTER_FAILURE,
    AFTER_QA,
    QA_VERDICT,
    AfterQa,
    Failure,
    as_left,
    budget,
    failure_of,
    proven,
    word,
)
from interlock.playbooks.harness.escalation import one_line
from interlock.playbooks.harness.input_files import is_there
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.lifecycle import AGENTS, REMEDIATIONS, Finding, Stage
from interlock.playbooks.harness.proofs import prove, red, uncompared
from interlock.playbooks.harness.run_report import (
    Entry,
    Kind,
    Result,
    executed,
    last_judged,
    left_behind,
    of_kind,
    rejected_last,
)
from interlock.playbooks.harness.run_report import parse as parse_report
from interlock.playbooks.harness.run_state import RunState, same_paths
from interlock.playbooks.harness.standards import StageContract
from interlock.playbooks.harness.stops import Progress, block, note_result
from interlock.playbooks.harness.task_file import Task, parse_task

LIMIT_REACHED = "QA remediation retry limit reached"
SAID = 300
"""Characters of an agent's own words that a stop reason quotes."""
EARLIER = "Changes of an earlier attempt, which did not count and were not taken over"
SHOWN_OF_PATCH = 20_000
NOTHING_CLAIMED = Judgement(Outcome.FAIL)
LISTED = 200
"""Changed files of one Build that get a row of their own."""


async def carry_out(run: Run, ledger: Ledger, progress: Progress) -> Ending | None:
    """One stage: its contract, its inputs, the checkpoint, its agent, its artifact."""
    state, agent = ledger.state, AGENTS[ledger.state.stage]
    started = ledger.stamp()
    await ledger.commit(state.told(f"{state.stage} is with its agent, {agent}."), at=started)
    try:
        ledger.task = same_paths(await load_task(run, state), state)
        contract = await load_contract(run, state.stage)
    except DocumentInvalid as problem:
        return await block(run, ledger, problem.what)
    needed = inputs_of(contract, state)
    for path in needed.required:
        if not await is_there(run, path):
            return await block(run, ledger, f"Input contract of {state.stage} not satisfiable: {path} missing")
    beside = [path for path in needed.optional if await is_there(run, path)]
    inputs = tuple(dict.fromkeys((*needed.required, *beside, *progress.prose)))
    proofs = await proofs_for(run, state, progress)
    so_far = await ledger.checkpoint()
    live = run.live
    if (by := fallback_by(ledger, progress)) is not None:
        done = await supplied(run, ledger, contract, by)
    else:
        earlier = await earlier_work(run, left_behind(so_far, state.stage))
        unsure = uncompared(progress.checks, state)
        told = Told(earlier, of_kind(so_far, Kind.CHANGED), proofs, rejected_last(so_far), unsure)
        done = await dispatched(run, ledger, contract, inputs, told)
    if live:
        progress.executed, progress.last = progress.executed + 1, state.stage
    ended = ledger.stamp()
    entries = [*done.evidence(ledger, ended)]
    if done.failure is not Failure.NONE:
        then = AFTER_FAILURE[done.failure]
        return await block(
            run, ledger, done.reason, done.row(ledger, then.result, started, ended), *entries, status=then.status
        )
    if state.stage is Stage.QA:
        return await judge(run, ledger, progress, done, entries, started, ended)
    event = f"{state.stage} was completed by {done.who}."
    moved = state.moved(Finding.VERIFIED, ended[:10], event).gated(event)
    await ledger.commit(moved, done.row(ledger, Result.COMPLETED, started, ended), *entries, at=ended)
    note_result(run, ledger)
    return None


async def load_task(run: Run, state: RunState) -> Task:
    """The task as its file says it now: people may have changed it since the run began (EV-23)."""
    return parse_task(await run.read(state.task_file))


async def proofs_for(run: Run, state: RunState, progress: Progress) -> tuple[Proof, ...]:
    """How the named commands end, where the agent of the stage is to know it: QA, and a Build that has to mend it."""
    if state.remediating and progress.red:
        return progress.red
    if state.stage is Stage.QA or state.remediating:
        return await prove(run, progress.checks, progress.inputs, as_before=False)
    return ()


async def load_contract(run: Run, stage: Stage) -> StageContract:
    """The contract of a stage as the workspace has it now."""
    document = await run.read(standards.CONTRACTS)
    contract = standards.parse_contracts(document)[stage]
    run.note("contract.loaded", stage=stage, digest=document.digest)
    return contract


@dataclass(frozen=True)
class Done:
    """What is proven about one execution of a stage."""

    who: str
    found: Inspection
    text: str
    failure: Failure = Failure.NONE
    reason: str = ""
    kind: Kind = Kind.CHECK
    kept: str = ""
    """Where the changes lie that were not taken over."""
    judgement: Judgement = NOTHING_CLAIMED
    """What the claim of a QA report comes to."""
    changed: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()
    """What a person should know of it beside its result."""

    def evidence(self, ledger: Ledger, at: str) -> tuple[Entry, ...]:
        said = f"{self.found.path}: verified" if self.found.ok else self.found.complaint
        rows = ledger.evidence(at, Kind.KEPT, *([self.kept] if self.kept else []))
        rows += ledger.evidence(at, Kind.CHECK, said)
        if self.kind is Kind.FALLBACK:
            rows += ledger.evidence(at, Kind.FALLBACK, f"{ledger.state.stage} supplied by {self.who}")
        rows += ledger.evidence(at, Kind.CHANGED, *self.changed[:LISTED])
        rows += ledger.evidence(at, Kind.NOTICED, *self.noticed)
        if self.failure in (Failure.GOVERNANCE, Failure.SCOPE):
            rows += ledger.evidence(at, Kind.SCOPE, f"{self.reason}; not taken over")
        return rows

    def row(self, ledger: Ledger, result: Result, started: str, ended: str) -> Entry:
        return executed(ledger.state, self.who, result, started, ended, self.found.path, self.found.digest)


async def earlier_work(run: Run, patch: str) -> tuple[Quoted, ...]:
    """What an attempt before this one changed in vain, for the agent of the next one (LY-04)."""
    text = (await run.read(patch)).text if patch else ""
    return (Quoted(EARLIER, text[:SHOWN_OF_PATCH], "diff"),) if text else ()


async def dispatched(run: Run, ledger: Ledger, contract: StageContract, inputs: tuple[str, ...], told: Told) -> Done:
    """The stage's own agent at work, and what its artifact is when it is opened afterwards."""
    state = ledger.state
    report = await run.dispatch(stage_dispatch(ledger.task, state, contract, inputs, told))
    document, found = await open_artifact(run, ledger, contract, report.flaws)
    trespassed = bool(report.violations), bool(report.foreign), bool(report.conflicts)
    failure = run.decide(failure_of, report.outcome, report.reason, found.cls, *trespassed)
    counts = failure is Failure.NONE and state.stage is Stage.BUILD
    return Done(
        report.agent,
        found,
        document.text,
        failure,
        reason_of(failure, state.stage, report, found),
        kept="" if report.accepted else report.patch,
        judgement=Judgement(report.outcome, report.reason, report.complaints, report.evidence, report.passed),
        changed=tuple(path for path in report.changes if path != state.artifact) if counts else (),
        noticed=(*report.noticed, *touched(report)),
    )


def touched(report: Report) -> tuple[str, ...]:
    """What an agent did to git, of which nothing reached the repository (EV-10)."""
    who = f"{report.agent}, in its copy of the repository, and none of it was taken over"
    return tuple(f"{who}: {what}" for what in report.repository)


async def open_artifact(
    run: Run, ledger: Ledger, contract: StageContract, flaws: Sequence[ArtifactCheck] = ()
) -> tuple[Document, Inspection]:
    stage, path = ledger.state.stage, ledger.state.artifact
    document = await run.read(path)
    found = as_left(inspect(document, structure(contract, ledger.task)), flaws)
    run.note("artifact.check", stage=stage, path=path, cls=found.cls, detail=found.detail, **found.answers())
    return document, found


def reason_of(failure: Failure, stage: Stage, report: Report, found: Inspection) -> str:
    """The stop reason of a failed stage, in the words of the workflow."""
    who = f"Stage {stage}: agent {report.agent}"
    match failure:
        case Failure.GOVERNANCE | Failure.SCOPE:
            return f"Scope violation by {report.agent}: {', '.join((*report.foreign, *report.violations))}"
        case Failure.CONFLICT:
            return (
                f"{', '.join(report.conflicts)}: edited while {report.agent} worked; its own version is kept in "
                f"{report.patch}"
            )
        case Failure.NOT_STARTED:
            return f"{who} cannot be dispatched: {one_line(report.detail)}"
        case Failure.ERROR:
            return f"{who} failed: {words_of(report)}"
        case Failure.BLOCKED:
            return f"{who} is blocked: {words_of(report)}"
        case Failure.NO_ANSWER:
            return f"{who} did not finish: {one_line(report.detail)}"
        case Failure.NO_CHANGE:
            return f"{who} changed no file and does not say why"
        case Failure.ARTIFACT:
            said = one_line("; ".join(report.complaints))
            return found.complaint if not found.ok else f"{who} left no result that counts: {said}"
        case Failure.NONE:
            return ""


def words_of(report: Report) -> str:
    """What an agent said about its own failure, for people; nothing is decided by it."""
    said = report.detail if report.outcome is Outcome.BLOCKED or report.token is None else ""
    lines = [line for line in report.answer().decode("utf-8", "replace").splitlines() if line.strip()]
    spoken = " ".join(line for line in lines if not line.lower().lstrip("*_` ").startswith("status"))
    return one_line(said or spoken or report.detail)[:SAID] or "no reason given"


# -- a person in the place of an agent


def fallback_by(ledger: Ledger, progress: Progress) -> str | None:
    """Who supplies the artifact of the current stage, where a person asked for that."""
    asked = run_state.named_stage(progress.inputs.fallback) if progress.inputs.fallback else None
    return (progress.inputs.fallback_by or "a person") if asked is ledger.state.stage else None


async def supplied(run: Run, ledger: Ledger, contract: StageContract, by: str) -> Done:
    """An artifact that a person wrote: opened, checked and weighed like any other, never made up."""
    state = ledger.state
    document, found = await open_artifact(run, ledger, contract)
    run.note("fallback", stage=state.stage, by=by)
    reason, failure = found.complaint, Failure.NONE if found.ok else Failure.BLOCKED
    judgement = NOTHING_CLAIMED
    if found.ok:
        judged = last_judged(parse_report(await run.read(ledger.report)), state.stage)
        good = ArtifactCheck(found.path, ArtifactClass.OK)
        judgement = weigh(owed(ledger.task, state, contract), Answer(Outcome.OK), [good], {found.path: document.text})
        if judged == found.digest:
            failure, reason = Failure.BLOCKED, f"{found.path}: stale: it is the one that was judged before"
        elif judgement.outcome is Outcome.FAIL:
            failure, reason = Failure.BLOCKED, f"{found.path}: {'; '.join(judgement.complaints)}"
    who = f"fallback: {one_line(by)}"
    return Done(who, found, document.text, failure, reason, Kind.FALLBACK, judgement=judgement)


# -- QA


async def judge(
    run: Run, ledger: Ledger, progress: Progress, done: Done, entries: list[Entry], started: str, ended: str
) -> Ending | None:
    """What the QA report comes to, beside what the engine ran itself: go on, back to Build, or halt for a person."""
    state, found = ledger.state, qa_findings(done.text)
    claimed = done.judgement
    proofs = await prove(run, progress.checks, progress.inputs, as_before=bool(claimed.passed))
    progress.red = red(proofs)
    verdict = run.decide(QA_VERDICT, word(claimed.passed), proven(bool(progress.red)))
    run.note("qa.result", verdict=verdict, issues=found.issues, unmet=found.unmet, remediations=state.remediations)
    cap = min(REMEDIATIONS, run.identity.caps.get("remediation", REMEDIATIONS))
    entries += ledger.evidence(ended, Kind.PROOF, *(proof.shown for proof in proofs))
    entries += ledger.evidence(ended, Kind.QA, f"{verdict}: {found.validation}, {found.readiness}")
    against = (*qa_lines(found), *claimed.complaints, *(proof.shown for proof in progress.red))
    match run.decide(AFTER_QA, verdict, budget(state.remediations, cap)):
        case AfterQa.ADVANCE:
            event = f"QA was completed by {done.who}."
            moved = state.moved(Finding.QA_POSITIVE, ended[:10], event).gated(event)
            await ledger.commit(moved, done.row(ledger, Result.COMPLETED, started, ended), *entries, at=ended)
        case AfterQa.RETURN:
            count = state.remediations + 1
            event = f"QA returned the task to Build for remediation {count} of {cap}."
            moved = state.moved(Finding.QA_NEGATIVE, ended[:10], event, remediations=count)
            entries += reasons(ledger, found, against, ended)
            await ledger.commit(moved, done.row(ledger, Result.RETURNED, started, ended), *entries, at=ended)
        case AfterQa.BLOCK:
            entries += reasons(ledger, found, against, ended)
            return await block(run, ledger, LIMIT_REACHED, done.row(ledger, Result.BLOCKED, started, ended), *entries)
    note_result(run, ledger)
    return None


def reasons(ledger: Ledger, found: QaFindings, against: Sequence[str], at: str) -> tuple[Entry, ...]:
    """Why a task goes back: what speaks against it, the blocking issues, the criteria that are not met."""
    return (
        *ledger.evidence(at, Kind.REASON, "; ".join(against)),
        *ledger.evidence(at, Kind.ISSUE, *found.issues),
        *ledger.evidence(at, Kind.CRITERION, *found.unmet),
    )
