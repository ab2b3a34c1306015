"""A roadmap, item by item: select, send through the pipeline of its complexity, judge, retry or finish, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from interlock.contracts import Reason
from interlock.documents import DocumentState
from interlock.engine import (
    UNCOMPARED,
    AfterComplete,
    Checks,
    Documents,
    Ending,
    Option,
    Past,
    Report,
    Retries,
    Run,
    place_of,
    playbook,
)
from interlock.playbooks.roadmap.answers import StepAnswer, read_answer
from interlock.playbooks.roadmap.briefs import Known, tests_counted
from interlock.playbooks.roadmap.decisions import (
    AFTER_ATTEMPT,
    AGENTS,
    PIPELINES,
    RESEARCH,
    RETRY_PIPELINES,
    SOURCE_OF,
    AfterAttempt,
    AttemptResult,
    Failure,
    Pick,
    Research,
    Source,
    Step,
    budget,
    changed_scope,
    judge,
    judge_proofs,
    knowledge,
)
from interlock.playbooks.roadmap.documents import Item, Roadmap
from interlock.playbooks.roadmap.forwarding import short_line
from interlock.playbooks.roadmap.iteration import ItemBlocked, ItemEdited, Iteration
from interlock.playbooks.roadmap.ledger import COMPLETE, Survey, fingerprint, standing, survey
from interlock.playbooks.roadmap.report import (
    TOKEN,
    blocked_text,
    iteration_block,
    nothing_reason,
    nothing_text,
)
from interlock.playbooks.roadmap.schema import MOST_RETRIES, ItemStatus
from interlock.playbooks.roadmap.settings import RoadmapSettings

DEFAULT_FILE = "roadmap.json"
MOST_ITEMS = 100_000
"""Iterations of one run: more than a document of the largest size has items."""


@dataclass(frozen=True)
class RoadmapInputs:
    """Which roadmap."""

    file: Annotated[
        str,
        Option(
            "The roadmap, inside the workspace. Default: roadmap.json in its top folder.",
            metavar="FILE",
            file=True,
            must_exist=False,
        ),
    ] = DEFAULT_FILE


@dataclass(frozen=True)
class RoadmapFlags:
    """How far this call goes, and how."""

    once: Annotated[bool, Option("Work on one item, report, and end.")] = False
    fail_fast: Annotated[bool, Option("Skip Review when Testing failed, as [roadmap] fail_fast does.")] = False


def edited(inputs: RoadmapInputs, past: Past, documents: Documents) -> str | None:
    """Whether a person changed the item that an open run is working on, and what (EN-22)."""
    notes = [data for event, data in past.notes if event == "item.state"]
    document = documents.read(inputs.file)
    if not notes or document.state is DocumentState.MISSING:
        return None
    roadmap, last = Roadmap.read(document, inputs.file), notes[-1]
    if last["persisted"] and last["after"][0] != ItemStatus.IN_PROGRESS:
        return None
    item = roadmap.find(last["item"])
    expected = [last["after"]] if last["persisted"] else [last["before"], last["after"]]
    if item is not None and fingerprint(item) == last["fingerprint"] and standing(item) in expected:
        return None
    return f"item {last['item']} of {inputs.file}"


@playbook(
    "roadmap",
    inputs=RoadmapInputs,
    settings=RoadmapSettings,
    flags=RoadmapFlags,
    samples=lambda _asking: (RoadmapInputs(),),
    key=lambda inputs: inputs.file,
    steps={name: name for name in ("preflight", *(step.value for step in Step), "verify")},
    agents=AGENTS,
    state=lambda inputs: (inputs.file,),
    caps={"item": MOST_ITEMS, "attempt": 1 + MOST_RETRIES},
    max_parallel=1,
    retries=Retries(transient=1, contract=1, error=0),
    after_complete=AfterComplete.ALWAYS_NEW,  # the file says what is left to do: it is read again, always
    edited=edited,
)
async def roadmap(run: Run, inputs: RoadmapInputs) -> Ending:
    """Work through a roadmap, one ready item at a time, until all pass, one is blocked, or none can be selected."""
    place = place_of(run, inputs.file)
    async for turn in run.loop("item"):
        found = await load(run, inputs.file, place)
        if found.choice is Pick.COMPLETE:
            return Ending.complete(f"{TOKEN}\n", f"all {found.items} items pass")
        if found.item is None:
            return Ending.stopped(nothing_reason(found.remaining), nothing_text(found.remaining) + "\n")
        work = begin(run, inputs.file, place, found, found.item)
        try:
            if (ending := await one_item(work, first=turn == 1)) is not None:
                return ending
        except ItemEdited:
            continue  # what the person wrote stands, and decides what comes next
        if run.flags.get("once") and run.live and work.upcoming != COMPLETE:
            return Ending.complete(reason=f"one iteration done; next candidate: {work.upcoming}")
    return Ending.stopped(f"{MOST_ITEMS} iterations in one run")


async def load(run: Run, file: str, place: str) -> Survey:
    """Read and check the file, and find what there is to do in it."""
    found = Survey.from_json(await run.read(file, partial(survey, place=place)))
    run.note("roadmap.loaded", items=found.items, done=found.done, choice=found.choice)
    if found.passed_over:
        run.note("item.skipped", items=found.passed_over, in_all=found.passed_over_in_all)
    return found


def begin(run: Run, file: str, place: str, found: Survey, item: Item) -> Iteration:
    """The iteration of this item, with what the file says of earlier work on it."""
    reasons = tuple(Failure(str(one["source"]), str(one["reason"])) for one in item.blocked_reasons)
    begun = found.choice is Pick.RESUMED or item.retries > 0 or bool(reasons)
    known = Known(item, file, begun_before=begun, blocked_by=reasons)
    return Iteration(run, file, place, known, item, Checks(run, (), besides=(file,)))


async def one_item(work: Iteration, *, first: bool) -> Ending | None:
    """Mark the item, send it through its pipeline until it passes or is blocked, report. None: it is done."""
    run, item = work.run, work.item
    run.note("item.selected", item=item.id, title=item.title, complexity=item.complexity, retryCount=item.retries)
    work.heed_settings()
    if first:
        await preflight(work)
    if item.status is not ItemStatus.IN_PROGRESS:
        await work.persist({"status": ItemStatus.IN_PROGRESS.value})
    await work.checks.start()
    if work.known.begun_before and work.checks.commands:
        run.warn(f"item {item.id}: {UNCOMPARED}")
    passed = await build(work)
    if passed:
        settled: dict[str, Any] = {"blockedReasons": []} if item.blocked_reasons else {}
        await work.persist({"status": ItemStatus.DONE.value, "passes": True, **settled})
        run.note("item.done", item=item.id, attempts=work.attempt)
    else:
        await block(work)
    run.note("iteration.end", item=item.id, next=work.upcoming)
    run.say(iteration_block(work.known.item, work.item, work.called, work.gates, work.upcoming) + "\n\n")
    if passed:
        return None
    run.say(blocked_text(work.item, work.known.attempts, work.file))
    return Ending.stopped(f"item {item.id} is blocked: {short_line(work.known.attempts[-1].failures[-1].reason)}")


async def preflight(work: Iteration) -> None:
    """Whether agents can be called, and the item's commands pass before its first agent; on a tree that somebody
    already worked on they may well fail, and that is not asked."""
    checks = work.checks if not work.known.begun_before else Checks(work.run, ())
    await checks.preflight()


async def block(work: Iteration) -> None:
    """The item waits for a person, with the reasons of all attempts beside it."""
    reasons = [
        {"attempt": attempt.number, "source": str(failure.source), "reason": failure.reason}
        for attempt in work.known.attempts
        for failure in attempt.failures
    ]
    await work.persist({"status": ItemStatus.BLOCKED.value, "blockedReasons": reasons})
    work.run.note("item.blocked", item=work.item.id, reasons=reasons)


async def build(work: Iteration) -> bool:
    """Attempt after attempt, each with the evidence of all before it, while retries are left. True: it passed."""
    run, complexity = work.run, work.item.complexity
    async for turn in run.loop("attempt"):
        result = await attempt(work, PIPELINES[complexity] if turn == 1 else RETRY_PIPELINES[complexity])
        match run.decide(AFTER_ATTEMPT, result, budget(work.item.retries)):
            case AfterAttempt.FINISH:
                return True
            case AfterAttempt.RETRY:
                work.end_attempt()
                work.heed_settings()
                await work.persist({"retryCount": work.item.retries + 1})
                run.note("retry", item=work.item.id, retryCount=work.item.retries)
            case AfterAttempt.BLOCK:
                work.end_attempt()
                break
    return False


async def attempt(work: Iteration, pipeline: tuple[Step, ...]) -> AttemptResult:
    """The steps in their order, up to one whose verdict ends the attempt or behind which nothing can follow."""
    work.begin_attempt()
    for step in pipeline:
        with work.run.step(step):
            try:
                if not await STEPS[step](work):
                    break
            except ItemBlocked as stop:
                work.failures.append(stop.failure)
                return AttemptResult.STOPPED
    if not work.failures and work.checks.commands:
        with work.run.step("verify"):
            work.rule(Source.ENGINE, judge_proofs(await work.checks.prove()))
    return AttemptResult.FAILED if work.failures else AttemptResult.PASSED


# -- the steps; each says whether the next one follows


async def research(work: Iteration) -> bool:
    item = work.item
    wanted = work.run.decide(RESEARCH, item.complexity, knowledge(item))
    if wanted is Research.NOT_NEEDED:
        work.run.note("research.skipped", item=item.id, source="planningResearch")
    else:
        narrowed = changed_scope(item) if wanted is Research.NARROWED else None
        report = await work.call(Step.RESEARCH, narrowed=narrowed)
        work.know(findings=read_answer(report.data))
    return True


async def design(work: Iteration) -> bool:
    report = await work.call(Step.DESIGN)
    work.know(design=read_answer(report.data))
    return True


async def implement(work: Iteration) -> bool:
    report = await work.call(Step.IMPLEMENT, attempt=work.attempt)
    work.files = work.changed_files(report)
    work.know(work=read_answer(report.data), changed={**work.known.changed, **work.files})
    return True


async def validation(work: Iteration) -> bool:
    return (await verdict(work, Step.VALIDATION)).passed


async def testing(work: Iteration) -> bool:
    said = await verdict(work, Step.TESTING)
    counted = tests_counted(said.answer)
    work.know(tests=f"Tests: {'pass' if said.passed else 'fail'}" + (f" ({counted})" if counted else ""))
    if added := {path: f"- `{path}` (by Testing)" for path in said.report.changes}:
        work.run.note("tests.added", item=work.item.id, attempt=work.attempt, paths=list(added))
        work.files |= added
        work.know(changed={**work.known.changed, **added})
    return said.passed or not work.rules.fail_fast


async def review(work: Iteration) -> bool:
    await verdict(work, Step.REVIEW)
    return True


@dataclass(frozen=True)
class JudgeSaid:
    """What a judge said, and whether it lets the item pass."""

    report: Report
    answer: StepAnswer
    passed: bool


async def verdict(work: Iteration, step: Step) -> JudgeSaid:
    """Ask a judge, and take its ruling into the attempt."""
    report = await work.call(step, attempt=work.attempt)
    answer = read_answer(report.data)
    against = report.complaints if report.reason is Reason.CONTRADICTED else ()
    ruling = work.rule(SOURCE_OF[step], judge(step, answer, report.outcome, against))
    return JudgeSaid(report, answer, ruling.passed)


STEPS: Mapping[Step, Callable[[Iteration], Awaitable[bool]]] = {
    Step.RESEARCH: research,
    Step.DESIGN: design,
    Step.IMPLEMENT: implement,
    Step.VALIDATION: validation,
    Step.TESTING: testing,
    Step.REVIEW: review,
}
