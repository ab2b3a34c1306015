"""`harness`: a governed task, stage by stage, each by its own agent and an artifact that was opened and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from interlock.documents.files import sha256
from interlock.documents.markdown import markdown
from interlock.engine.forms import Unusable, judge
from interlock.engine.playbook import Playbook
from interlock.engine.run import MOOT, Call, Outcome, Proved, Report, Row, Run, clash, difference
from interlock.engine.view import View
from interlock.errors import BadInput, Exit
from interlock.playbooks.harness import run_state, stages
from interlock.playbooks.harness.documents import Contract, place_of, present, read_contracts, read_task, task_file
from interlock.playbooks.harness.house import Flags, House, Inputs, begin
from interlock.playbooks.harness.qa import Answer, Built, Judged, flaw, read_answer, read_judged, spell_judged
from interlock.playbooks.harness.run_state import State, read_state
from interlock.playbooks.harness.stages import (
    AGENTS,
    CONTRACTS,
    KEPT_OUT,
    RUN_STATE,
    WORKED,
    Came,
    Stage,
    Status,
    named,
)
from interlock.workspace import scope
from interlock.workspace.values import RemarkKind

UNVERIFIED = "Initialization verification failed — required artifacts missing"
AT_LIMIT = "QA remediation retry limit reached"
UNSTARTED = ("no start", "login", "model", "refused", "session", "busy")
STRAYS = (RemarkKind.OUTSIDE, RemarkKind.STATE, RemarkKind.BY_PRODUCT)


def _row(stage: Stage, form: type[Any] = Answer, timeout_s: float = 1800, **more: Any) -> Row:
    return Row(AGENTS[stage], "stage", form, timeout_s=timeout_s, repeats=0, lost=True, **more)


ROWS = {
    **{stage: _row(stage) for stage in Stage.BUILD.before},
    Stage.BUILD: _row(Stage.BUILD, Built, 7200, writes=("**", *KEPT_OUT), stays=True),
    Stage.QA: _row(Stage.QA, Judged, 3600, judges=True, spell=spell_judged, says=Answer),
}


async def harness(run: Run, inputs: Inputs) -> Outcome:
    """Stage after stage, from where run-state says that the task stands."""
    with run.step("start"):
        house = await begin(run, inputs)
    async for _ in run.loop("stage"):
        if await turn(house):
            return Outcome.complete(f"{house.task.id} is Complete", next="interlock diff")
    return Outcome.stopped("as many stages as one run takes", next=f"interlock run harness {house.task.id}")


async def turn(house: House) -> bool:
    """One stage, or one gate, from what stands in the files; whether the task is Complete."""
    run, task = house.run, house.task
    house.began, house.scope = house.tick(), run.scope
    texts = await checkpoint(house)
    house.history, state = texts[house.report], read_state(texts[RUN_STATE])
    asked = run.once("asked", {}, house.heed)
    if not asked["resumed"] and (changed := difference(house.state.position(), state.position())):
        raise house.edited(f"{RUN_STATE} was changed by a person: {changed}")
    house.state = state
    try:
        house.task = read_task(await run.read(task.path) or "", task.path)
    except BadInput as problem:
        await house.block(problem.what)
    if why := state.problem(house.task):
        raise BadInput(why, where=RUN_STATE)
    state = house.state = state.model_copy(update={"task_file": house.task.path, "paths": house.task.paths})
    if state.status is Status.COMPLETE:
        return True
    if back := asked["from"]:
        if back not in (*state.stage.before, state.stage):
            raise BadInput(f"--from {back}: {task.id} is at {state.stage}", expected="that stage or an earlier one")
        await house.keep(state.at(Stage(back), house.day, remediations=0), f"A person sent the task back to {back}.")
    elif state.status is Status.BLOCKED:
        if not asked["person"]:
            raise house.stop(f"{task.id} is Blocked: {state.stop}")
        await house.keep(state.at(state.stage, house.day), f"A person resumed {state.stage}.")
    if house.state.stage is Stage.APPROVAL:
        await complete(house)
    elif house.state.status is Status.AWAITING:
        await approve_build(house)
    else:
        with run.step(house.state.stage):
            await work(house, by_person=asked["fallback"])
    return house.state.stage is Stage.COMPLETE


async def checkpoint(house: House) -> dict[str, str]:
    """Both documents, which are there, or the run halts (HN-40 to HN-42)."""
    texts = {path: await _text(house.run, path) or "" for path in (RUN_STATE, house.report)}
    house.run.note("checkpoint", **{path: "YES" if text.strip() else "NO" for path, text in texts.items()})
    if gone := [path for path, text in texts.items() if not text.strip()]:
        await house.keep(house.state.stopped(Status.BLOCKED, UNVERIFIED), UNVERIFIED, gone=gone)
        go_on = f'interlock run harness {house.task.id} --note "go on"'
        raise house.stop(UNVERIFIED, Exit.FAILED, again="", next=go_on)
    return texts


async def _text(run: Run, path: str) -> str | None:
    """A document as it stands; what cannot be read is not there."""
    try:
        return await run.read(path)
    except BadInput:
        return None


async def negative(house: House, why: Sequence[str], row: Sequence[str] = (), evidence: Sequence[str] = ()) -> None:
    """Back to Build, as often as that is allowed (HN-74 to HN-79)."""
    state, row = house.state, row or house.row(Came.RETURNED)
    came = house.run.decide(stages.after_negative, state.remediations)
    rows, told = [(*row[:3], came, *row[4:])], [*evidence, *(f"reason: {one}" for one in why)]
    if came is Came.BLOCKED:
        await house.block(AT_LIMIT, rows=rows, evidence=told)
    count = state.remediations + 1
    event = f"{state.stage} returned the task to Build for remediation {count} of {stages.REMEDIATIONS}."
    await house.keep(state.at(Stage.BUILD, house.day, remediations=count), event, rows=rows, evidence=told)


async def missing(house: House) -> bool:
    """Whether the work of Build lies in another clone's trees; then the task is back at Build (HN-117)."""
    if house.run.has_work or not run_state.undelivered(house.history):
        return False
    why = "The work of Build was not delivered, and is not here: Build makes it again."
    house.run.warn(why)
    await house.keep(house.state.at(Stage.BUILD, house.day), why, rows=[house.row(Came.RETURNED)], evidence=[why])
    return True


# --- the stages


class Done(NamedTuple):
    """What a stage came to."""

    came: Came
    exit: Exit = Exit.DONE
    why: str = ""
    """Why it does not count."""
    against: Sequence[str] = ()
    """What sends it back to Build."""
    result: str = ""
    """Of QA, in its own words."""


async def work(house: House, *, by_person: bool) -> None:
    """One stage by its own agent, or by a person who asked for that; its artifact decides."""
    run, task, stage = house.run, house.task, house.state.stage
    path = task.paths[stage]
    try:
        contract = read_contracts(await run.read(CONTRACTS) or "")[stage]
    except BadInput as problem:
        await house.block(problem.what)
    if stage is Stage.QA and await missing(house):
        return None
    reads = await _inputs(house, contract)
    proved = await run.prove(house.commands) if stage is Stage.QA else []
    told = [f"`{one.command}`: {one.word}" for one in proved]
    if red := run.against(proved):
        house.against = "\n\n".join(red.values())
        return await negative(house, list(red), evidence=told)
    text = await _text(run, path)
    if by_person:
        done, who = supplied(house, contract, text, proved), "a person (fallback)"
    else:
        report = await run.dispatch(await _call(house, contract, reads, text, proved))
        house.tick()
        if report.reason == "edited":
            await checkpoint(house)
            raise house.edited(report.complaint)
        if stage is Stage.QA and report.conflicts and not report.calls:
            house.against = clash(report.conflicts)
            return await negative(house, [house.against])
        text = await _text(run, path) or ""
        done, who = await _came_to(house, report, flaw(text, contract.headings)), AGENTS[stage]
    row = house.row(done.came, who, None if done.why else text)
    told.append(done.why or f"{path}: verified{', supplied by a person' if by_person else ''}")
    if done.why:
        await house.block(done.why, done.exit, rows=[row], evidence=told)
    told += [f"QA result: {done.result}"] if done.result else []
    house.against = ""
    return await (negative(house, done.against, row, told) if done.against else advance(house, row, told))


async def _inputs(house: House, contract: Contract) -> list[str]:
    """What the stage may read, as far as it is there; all that is required is, or the run stops (HN-14)."""
    state, task = house.state, house.task
    required, beside = ([place_of(one, task) for one in names] for names in (contract.required, contract.optional))
    beside += [task.paths[Stage.QA]] if _returned(state) else []
    paths = list(dict.fromkeys((*required, *beside)))
    there: list[str] = await house.run.look("inputs", partial(present, paths=paths), paths=paths)
    if gone := [one for one in required if one not in there]:
        await house.block(f"Input contract of {state.stage} not satisfiable: {', '.join(gone)} missing")
    return there


def _returned(state: State) -> bool:
    """Whether Build mends what QA or a person found."""
    return state.stage is Stage.BUILD and Stage.BUILD in state.completed


async def _call(
    house: House, contract: Contract, reads: Sequence[str], old: str | None, proved: Sequence[Proved]
) -> Call:
    """What the agent of the present stage is asked."""
    run, task, state, stage = house.run, house.task, house.state, house.state.stage
    path, criteria = task.paths[stage], task.criteria if stage is Stage.QA else ()
    read = partial(read_answer, stage=stage, path=path, headings=contract.headings, old=old, criteria=criteria)
    about, spoken = f"{state.run_id}, {len(house.history)}", [one for one in named(contract.prose) if one in WORKED]
    sample = "\n\n".join([f"# {stage} {about}", *(f"{title}\n\nPlayed." for title in contract.headings)])
    return Call(
        replace(ROWS[stage], outputs=(path,), read=read, writes=contract.scope),
        inputs={"task": task.id, "stage": stage, "run_id": state.run_id},
        texts={
            "title": task.title,
            "artifact": path,
            "headings": contract.headings,
            "contract": contract.prose,
            "places": [f"the task in `{task.path}`", *(f"{one} in `{task.paths[one]}`" for one in spoken)],
            "returned": _returned(state),
            "against": house.against if stage is Stage.BUILD else "",
            "changed": [one.path for one in await run.changed()] if stage in (Stage.BUILD, Stage.QA) else [],
            "checked": bool(proved),
            "weakened": [name for one in proved for name in one.weakened],
        },
        reads=tuple(reads),
        criteria=criteria,
        samples={} if stage is Stage.QA else {path: f"{sample}\n"},
        known={"about": about} if stage is Stage.QA else {},
        attempt=state.remediations + 1,
        proved=tuple(proved),
    )


async def _came_to(house: House, report: Report, flawed: str) -> Done:
    """What a dispatch comes to."""
    run, stage, path = house.run, house.state.stage, house.task.paths[house.state.stage]
    strays = [one for remark in report.remarks if remark.kind in STRAYS for one in remark.paths]
    said, unusable = Answer.model_validate(report.form or {}), report.reason in ("unusable", "error")
    lines = report.complaint.splitlines()
    words = "; ".join([line for line in lines if line.startswith(path)] or lines) or report.reason
    ended = "cannot be dispatched" if report.reason in UNSTARTED else "did not finish"
    done = Done(
        *run.decide(
            stages.counts,
            stage=stage,
            governed=[one for one in strays if scope.within(one, stages.GOVERNED)],
            strays=strays if report.reason == "scope" else [],
            conflicts=report.conflicts if report.reason == "conflict" else [],
            status=said.status,
            reason=said.reason or "no reason given",
            trouble="" if report.ok or unusable else f"{ended}: {words}",
            flaw=words if unusable else flawed and f"{path}: {flawed}",
        )
    )
    if stage is Stage.BUILD and not done.why:  # EVID-08: who changed nothing shows that it is so already
        built = Built.model_validate(report.form)
        idle = "" if report.paths and run.has_work else await run.idle(built.already_so if report.paths else ())
        return Done(Came.FAILED, Exit.STOPPED, f"Stage {stage}: {idle}") if idle else done
    if stage is Stage.QA and not done.why:
        house.judged, ruling = report.shown, report.ruling
        against = ruling.against if ruling and not ruling.passes else ()
        return done._replace(against=against, result=Judged.model_validate(report.form).summary)
    return done


def supplied(house: House, contract: Contract, text: str | None, proved: Sequence[Proved]) -> Done:
    """An artifact that a person wrote in the place of an agent: opened and checked like any other (HN-02)."""
    task, stage, path = house.task, house.state.stage, house.task.paths[house.state.stage]
    failed = partial(Done, Came.FAILED, Exit.FAILED)
    if why := "missing" if text is None else flaw(text, contract.headings):
        return failed(f"{path}: {why}")
    if stage is not Stage.QA:
        return Done(Came.COMPLETED)
    judged = read_judged(text or "", path, task.criteria)
    if isinstance(judged, Unusable):
        return failed("; ".join(judged.problems))
    if run_state.judged_before(house.history, stage, sha256((text or "").encode())):
        return failed(f"{path}: malformed: it is the one that was judged before")
    green = [one.command for one in proved if one.after and one.after.green]
    ruling = judge(judged.claim(task.criteria), criteria=task.criteria, green=green)
    house.judged = proved[0].tree if proved else None
    against = () if ruling.passes else ruling.against
    return Done(Came.COMPLETED, against=against, result=judged.summary)


async def advance(house: House, row: Sequence[str], evidence: Sequence[str]) -> None:
    """The stage is done: the next one is entered, or the gate before it waits (HN-59, HN-66, HN-88)."""
    run, stage = house.run, house.state.stage
    if stage is Stage.BUILD:
        changed = ", ".join(one.path for one in await run.changed())
        left = f"{run_state.CHANGED} {changed}" if changed else f"{run_state.DELIVERED} nothing is to be"
        evidence = [*evidence, left]
    entered = house.state.at(stage.next, house.day, completed=stage.next.before)
    open_ = (entered.run_id, entered.stage, "-", Came.NOT_REQUIRED, house.now, house.now, "", "")
    asks = entered.stage is not Stage.BUILD or entered.before_build
    event = f"{stage} completed; {entered.stage} is next{', once it is approved' if entered.gate else ''}."
    await house.keep(entered, event, rows=[row] if asks else [row, open_], evidence=evidence)
    if house.inputs.until == stage and not entered.gate:
        with run.step("bound"):
            if run.once("stops", {}, lambda: not run.stopped):
                why = f"Bounded orchestration test: stopped after {stage}"
                await house.keep(entered.stopped(Status.ACTIVE, why), why)
                raise house.stop(why, Exit.WAITING, again=run.scope)


# --- the gates


async def approve_build(house: House) -> None:
    """The gate before Build: people approve a plan (HN-94)."""
    state, task = house.state, house.task
    asks = f"Approve the plan of {task.id}, {task.title}, before Build?"
    if state.before_build and await ask(house, "Build", asks, Stage.PLANNING, (task.paths[Stage.PLANNING],)):
        return
    entered = state.model_copy(update={"before_build": False}).at(Stage.BUILD, house.day)
    row = house.row(Came.NOT_REQUIRED, "-")
    await house.keep(entered, "No approval is asked for before Build any more.", rows=[row])


async def ask(house: House, gate: str, question: str, back: Stage, shows: tuple[str, ...], summary: str = "") -> bool:
    """A person approves, or what is rejected is revised with their words, as often as that is allowed (HN-115); False:
    run-state asks for nobody's approval any more (RUN-16)."""
    run, state = house.run, house.state
    moot = (RUN_STATE, lambda text: not read_state(text).asks(gate))
    decided = await run.gate(gate.lower(), question, summary=summary, shows=shows, moot=moot)
    house.tick()
    if decided.choice == MOOT:
        return False
    who, note = decided.who, " ".join(decided.note.split())
    if decided.choice == "approve":
        approvals = (*state.approvals, f"{gate}: {who} {decided.at.strftime('%Y-%m-%dT%H:%M:%SZ')}")
        entered = state.at(state.stage, house.day, approvals=approvals)
        await house.keep(entered, f"{who} approved it before {gate}.", rows=[house.row(Came.APPROVED, who)])
        return True
    row, told = house.row(Came.REJECTED, who), [f"rejected by {who}: {note}"]
    if run_state.rejections(house.history, state.stage) >= stages.REJECTIONS:
        await house.block(f"Approval rejected: {note}", rows=[row], evidence=told)
    entered = state.at(back, house.day, remediations=1 if back is Stage.BUILD else 0)
    await house.keep(entered, f"{who} rejected it: {note} {back} works on that.", rows=[row], evidence=told)
    return True


async def complete(house: House) -> None:
    """The gate before Complete, and the delivery of what was built (HN-80)."""
    run, state, task = house.run, house.state, house.task
    if await missing(house):
        return None
    changed = ", ".join(one.path for one in await run.changed())
    if state.gate:
        asks = f"Approve {task.id}, {task.title}, for Complete?"
        code = f"Code: {changed}. See it: interlock diff {run.id}" if changed else "No code was changed."
        await ask(house, "Complete", asks, Stage.BUILD, (task.paths[Stage.QA], task.paths[Stage.BUILD]), code)
        if house.state.stage is not Stage.APPROVAL:
            return None
    if beside := run.against(await run.rest(house.commands)):
        await house.block(f"Red before Complete: {'; '.join(beside)}")
    landed = await run.land(house.commands, house.judged)
    if landed.state == "conflict":
        house.against = "\n\n".join(landed.against.values())
        return await negative(house, list(landed.against))
    if landed.state == "away":
        raise house.stop(f"{run.where.branch} is not checked out: the work cannot come into it")
    if landed.against:
        red = "Red before Complete: " if landed.state == "red" else ""
        await house.block(f"{red}{'; '.join(landed.against)}")
    rows = (
        [] if any(one.startswith("Complete") for one in house.state.approvals) else [house.row(Came.NOT_REQUIRED, "-")]
    )
    done = house.state.at(Stage.COMPLETE, house.day, completed=Stage.COMPLETE.before)
    told = [f"{run_state.DELIVERED} {changed or 'nothing'}"]
    return await house.keep(done, f"{task.id} is Complete.", rows=[*rows, house.row(Came.COMPLETED)], evidence=told)


def _settle(inputs: Inputs, read: Callable[[str], str | None]) -> Inputs:
    """The task of run-state, where a person names none."""
    known = inputs.task or markdown(read(RUN_STATE) or "").value("Task ID") or ""
    return inputs.model_copy(update={"task": known})


# --- what holds on every path


def _in_order(view: View) -> bool:
    """Each stage follows the one before it, is repeated, or goes back to where a return or a rejection leads; behind
    the last one it is complete."""
    order, back = tuple(AGENTS.values()), {"build", "tech-lead"}
    places = [order.index(call.agent) for call in view.calls.values() if call.calls]
    steps = zip([-1, *places], places, strict=False)
    ordered = all(now <= last + 1 and (now >= last or order[now] in back) for last, now in steps)
    return ordered and (view.status != "complete" or places[-1] == len(order) - 1)


def _approved(view: View) -> bool:
    """Nobody builds before a person approved the plan, and nothing is complete before a person approved it."""
    opened = {one.gate for one in view.gates.values() if one.decision and one.decision.choice == "approve"}
    built = any(call.agent == AGENTS[Stage.BUILD] and call.calls for call in view.calls.values())
    return ("build" in opened or not built) and ("complete" in opened or view.status != "complete")


def _bounded(view: View) -> bool:
    """QA is asked at most three times between two words of people."""
    said = [one.decision.at for one in view.gates.values() if one.decision]
    asked = [call.started for call in view.calls.values() if call.agent == AGENTS[Stage.QA]]
    spans = [sum(begin < at for begin in said) for at in asked]
    return all(spans.count(one) <= stages.REMEDIATIONS + 1 for one in spans)


TASK = """\
# Greet by name

- Task ID: TASK-001

## Objective

Greet the person whose name is given.

## Acceptance Criteria

- A name is greeted.
"""
HARNESS = Playbook(
    name="harness",
    play=harness,
    inputs=Inputs,
    flags=Flags,
    rows=tuple(ROWS.values()),
    caps={"stage": 100},
    headline=lambda inputs: inputs.task,
    key=lambda inputs, where: inputs.task,
    package="interlock.playbooks.harness",
    summary="A governed task, stage by stage, each by a verified artifact; people approve.",
    documents=lambda inputs: ("harness/**",),
    goes_on=True,
    settle=_settle,
    example={"task": "TASK-001"},
    files={task_file("TASK-001"): TASK},
    invariants={
        "stages come in their order": _in_order,
        "people approve before Build and before Complete": _approved,
        "remediations are bounded": _bounded,
    },
)
