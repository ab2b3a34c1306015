"""`harness`: a governed task, stage by stage, each by its own agent and an artifact that was opened and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from interlock.documents.files import digest
from interlock.documents.markdown import markdown
from interlock.engine.forms import Unusable, judge
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Command, GateDecided, Outcome, Proved, Report, Row, Run
from interlock.errors import BadInput, Exit
from interlock.playbooks.harness.contracts import Contract, place_of, present, read_contracts
from interlock.playbooks.harness.house import Edited, Flags, House, Inputs, begin
from interlock.playbooks.harness.invariants import INVARIANTS
from interlock.playbooks.harness.qa import Answer, Built, Judged, flaw, read_answer, read_judged, spell_judged
from interlock.playbooks.harness.report import CHANGED, DELIVERED, judged_before, rejections, undelivered
from interlock.playbooks.harness.run_state import State, read_state
from interlock.playbooks.harness.stages import (
    AGENTS,
    CONTRACTS,
    GATES,
    GOVERNED,
    KEPT_OUT,
    REJECTIONS,
    REMEDIATIONS,
    RUN_STATE,
    WORKED,
    Came,
    Failure,
    Move,
    Stage,
    Status,
    after_verdict,
    failure,
)
from interlock.playbooks.harness.task_file import belongs, read_task, task_file
from interlock.workspace import scope
from interlock.workspace.values import RemarkKind

UNVERIFIED = "Initialization verification failed — required artifacts missing"
AT_LIMIT = "QA remediation retry limit reached"
UNSTARTED = ("no start", "login", "model", "refused", "session", "busy")
STRAYS = (RemarkKind.OUTSIDE, RemarkKind.STATE, RemarkKind.BY_PRODUCT)
LATE = 3
"""Times that work is merged anew because the person's tree changed before its delivery."""


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
    go_on = f"interlock run harness {house.task.id}"
    try:
        async for _ in run.loop("stage"):
            if (ended := await turn(house)) is not None:
                return ended
    except Edited as edited:
        return Outcome.stopped(str(edited), next=go_on, again=house.scope)
    return Outcome.stopped("as many stages as one run takes", next=go_on)


async def turn(house: House) -> Outcome | None:
    """One stage, or one gate, from what stands in the files."""
    run, task = house.run, house.task
    house.began, house.scope = house.tick(), run.scope
    texts = {path: await _text(run, path) or "" for path in (RUN_STATE, house.report)}
    answers = {path: "YES" if text.strip() else "NO" for path, text in texts.items()}
    run.note("checkpoint", **answers)
    if "NO" in answers.values():
        return await unverified(house, answers)
    house.history, state = texts[house.report], read_state(texts[RUN_STATE])
    asked = run.once("asked", {}, house.heed)
    own, now = house.state.position(), state.position()
    if not asked["resumed"] and own != now:
        name = next(name for name in own if own[name] != now[name])
        why = f"{RUN_STATE} was changed by a person: {name}: expected {own[name]!r}, found {now[name]!r}"
        raise Edited(why)
    house.state = state
    try:
        house.task = read_task(await run.read(task.path) or "", task.path)
    except BadInput as problem:
        return await house.block(problem.what)
    if why := state.problem(house.task):
        raise BadInput(why, where=RUN_STATE)
    if state.status is Status.COMPLETE:
        return Outcome.complete(f"{task.id} is Complete")
    if back := asked["from"]:
        if back not in (*state.stage.before, state.stage):
            raise BadInput(f"--from {back}: {task.id} is at {state.stage}", expected="that stage or an earlier one")
        await house.keep(state.at(Stage(back), house.day, remediations=0), f"A person sent the task back to {back}.")
    elif state.status is Status.BLOCKED:
        if not asked["person"]:
            return house.stops(f"{task.id} is Blocked: {state.stop}")
        await house.keep(state.at(state.stage, house.day), f"A person resumed {state.stage}.")
    if house.state.stage is Stage.APPROVAL:
        return await complete(house)
    if house.state.status is Status.AWAITING:
        return await approve_build(house)
    with run.step(house.state.stage):
        return await work(house, by_person=asked["fallback"])


async def _text(run: Run, path: str) -> str | None:
    """A document as it stands; what cannot be read is not there."""
    try:
        return await run.read(path)
    except BadInput:
        return None


async def unverified(house: House, answers: dict[str, str]) -> Outcome:
    """A checkpoint that says NO: nobody is called, nothing is repaired, and what can be written is (HN-41)."""
    for path, edit in house.edits(house.state.stopped(Status.BLOCKED, UNVERIFIED), UNVERIFIED).items():
        if answers[path] == "YES":
            await house.run.change(path, edit, may_fail=True)
    go_on = f'interlock run harness {house.task.id} --note "go on"'
    return Outcome.stopped(UNVERIFIED, exit=int(Exit.FAILED), next=go_on)


async def negative(
    house: House, why: Sequence[str], row: Sequence[str], evidence: Sequence[str] = ()
) -> Outcome | None:
    """Back to Build, as often as that is allowed (HN-74 to HN-79)."""
    state = house.state
    move = house.run.decide(after_verdict, False, state.remediations)
    told = [*evidence, *(f"reason: {one}" for one in why)]
    if move is Move.BLOCK:
        return await house.block(AT_LIMIT, rows=[(*row[:3], Came.BLOCKED, *row[4:])], evidence=told)
    count, rows = state.remediations + 1, [(*row[:3], Came.RETURNED, *row[4:])]
    event = f"{state.stage} returned the task to Build for remediation {count} of {REMEDIATIONS}."
    await house.keep(state.at(Stage.BUILD, house.day, remediations=count), event, rows=rows, evidence=told)
    return None


async def missing(house: House) -> bool:
    """Whether the work of Build lies in another clone's trees; then the task is back at Build (HN-117)."""
    pair = house.run.view.pending
    if pair is None or pair.base != pair.work or not undelivered(house.history):
        return False
    why = "The work of Build was not delivered, and is not here: Build makes it again."
    house.run.warn(why)
    await house.keep(house.state.at(Stage.BUILD, house.day), why, rows=[house.row(Came.RETURNED)], evidence=[why])
    return True


# --- the stages


async def work(house: House, *, by_person: bool) -> Outcome | None:
    """One stage by its own agent, or by a person who asked for that; its artifact decides."""
    run, task, state, stage = house.run, house.task, house.state, house.state.stage
    path = task.paths[stage]
    try:
        contract = read_contracts(await run.read(CONTRACTS) or "")[stage]
    except BadInput as problem:
        return await house.block(problem.what)
    if stage is Stage.QA and await missing(house):
        return None
    required = [place_of(one, task) for one in contract.required]
    beside = [place_of(one, task) for one in contract.optional]
    beside += [task.paths[Stage.QA]] if _returned(state) else []
    paths = list(dict.fromkeys((*required, *beside)))
    there = await run.look("inputs", partial(present, paths=paths), paths=paths)
    if gone := [one for one in required if one not in there]:
        return await house.block(f"Input contract of {stage} not satisfiable: {', '.join(gone)} missing")
    proved = await run.prove(house.commands) if stage is Stage.QA else []
    checks = [f"`{one.command}`: {one.word}" for one in proved]
    if red := _red(run, proved):
        house.against = "\n\n".join(red.values())
        return await negative(house, list(red), house.row(Came.RETURNED), checks)
    old = await _text(run, path)
    if by_person:
        return await supplied(house, contract, old, proved, checks)
    report = await run.dispatch(await _call(house, contract, there, old, proved))
    house.tick()
    if report.reason == "edited":
        raise Edited(report.complaint)
    if stage is Stage.QA and report.reason == "conflict":
        return await negative(house, [_conflict(house, report.conflicts)], house.row(Came.RETURNED))
    text = await _text(run, path) or ""
    how, why = _counts(run, stage, path, report, flaw(text, contract.headings))
    row = house.row(how.came, AGENTS[stage], None if why else text)
    checks.append(why or f"{path}: verified")
    if why:
        return await house.block(why, how.exit, rows=[row], evidence=checks)
    if stage is Stage.QA:
        house.judged, ruling = report.shown, report.ruling
        against = ruling.against if ruling and not ruling.passes else ()
        return await verdict(house, Judged.model_validate(report.form), against, row, checks)
    if stage is Stage.BUILD and (idle := await _idle(run, report)):
        house.against = idle
        return await negative(house, [idle], row, checks)
    return await advance(house, row, checks)


def _returned(state: State) -> bool:
    """Whether Build mends what QA or a person found."""
    return state.stage is Stage.BUILD and (state.remediations > 0 or Stage.BUILD in state.completed)


async def _call(
    house: House, contract: Contract, there: Sequence[str], old: str | None, proved: Sequence[Proved]
) -> Call:
    """What the agent of the present stage is asked."""
    run, task, state, stage = house.run, house.task, house.state, house.state.stage
    path, criteria = task.paths[stage], task.criteria if stage is Stage.QA else ()
    read = partial(read_answer, stage=stage, path=path, headings=contract.headings, old=old, criteria=criteria)
    about = f"{state.run_id}, {len(house.history)}"
    sample = "\n\n".join([f"# {stage} {about}", *(f"{title}\n\nPlayed." for title in contract.headings)])
    return Call(
        replace(ROWS[stage], outputs=(path,), read=read, writes=contract.writes),
        inputs={"task": task.id, "stage": stage, "run_id": state.run_id},
        texts={
            "title": task.title,
            "artifact": path,
            "headings": contract.headings,
            "contract": contract.prose,
            "places": [f"the task in `{task.path}`", *(f"{one} in `{task.paths[one]}`" for one in WORKED)],
            "returned": _returned(state),
            "against": house.against if stage is Stage.BUILD else "",
            "changed": [one.path for one in await run.changed()] if stage in (Stage.BUILD, Stage.QA) else [],
            "checked": bool(proved),
            "weakened": [name for one in proved if one.weak for name in (*one.weak.paths, *one.weak.gone)],
        },
        reads=tuple(there),
        criteria=criteria,
        samples={} if stage is Stage.QA else {path: f"{sample}\n"},
        known={"about": about} if stage is Stage.QA else {},
        attempt=state.remediations + 1,
        proved=tuple(proved),
    )


def _counts(run: Run, stage: Stage, path: str, report: Report, flawed: str) -> tuple[Failure, str]:
    """How a dispatch counts, and why it does not."""
    strays = [path for remark in report.remarks if remark.kind in STRAYS for path in remark.paths]
    governed = [path for path in strays if scope.within(path, GOVERNED)]
    said, unusable = Answer.model_validate(report.form or {}), report.reason in ("unusable", "error")
    how = run.decide(
        failure,
        governed=bool(governed),
        strayed=report.reason == "scope",
        conflict=report.reason == "conflict",
        blocked=said.status == "blocked",
        error=said.status == "error",
        unfinished=not report.ok and not unusable,
        artifact=report.ok and not flawed,
    )
    lines = [line for line in report.complaint.splitlines() if line.startswith(path)] or report.complaint.splitlines()
    words = "; ".join(lines) or report.reason
    return how, how.text.format(
        stage=stage,
        agent=AGENTS[stage],
        governed=", ".join(governed),
        strays=", ".join(strays),
        conflicts=", ".join(report.conflicts),
        reason=said.reason or "no reason given",
        came="cannot be dispatched" if report.reason in UNSTARTED else "did not finish",
        words=words,
        flaw=words if unusable else f"{path}: {flawed}",
    )


async def _idle(run: Run, report: Report) -> str:
    """What speaks against a Build that changed nothing (EVID-08); empty: it did, or shows that it is so already."""
    pair, built = run.view.pending, Built.model_validate(report.form)
    if report.paths and pair is not None and pair.base != pair.work:
        return ""
    if not built.already_so or not report.paths:
        return (
            "Nothing was changed. If it is so already, name the commands that show it in `already_so`, and report it."
        )
    claims = [Command(name=f"claim-{n}", line=line) for n, line in enumerate(built.already_so, 1)]
    return "\n\n".join(_red(run, await run.prove(claims)).values())


async def supplied(
    house: House, contract: Contract, text: str | None, proved: Sequence[Proved], checks: list[str]
) -> Outcome | None:
    """An artifact that a person wrote in the place of an agent: opened and checked like any other (HN-02)."""
    task, stage, path = house.task, house.state.stage, house.task.paths[house.state.stage]
    why = "missing" if text is None else flaw(text, contract.headings)
    judged = read_judged(text or "", path, task.criteria) if stage is Stage.QA and not why else None
    if isinstance(judged, Unusable):
        why = "; ".join(judged.problems).removeprefix(f"{path}: ")
    elif judged and judged_before(house.history, stage, digest((text or "").encode())):
        why = "malformed: it is the one that was judged before"
    row = house.row(Came.FAILED if why else Came.COMPLETED, "a person (fallback)", text)
    checks.append(f"{path}: {why or 'verified'}, supplied by a person")
    if why:
        return await house.block(f"{path}: {why}", Exit.FAILED, rows=[row], evidence=checks)
    if not isinstance(judged, Judged):
        return await advance(house, row, checks)
    green = [one.command for one in proved if one.after and one.after.green]
    ruling = judge(judged.claim(task.criteria), criteria=task.criteria, green=green)
    house.judged = proved[0].tree if proved else None
    return await verdict(house, judged, () if ruling.passes else ruling.against, row, checks)


async def verdict(
    house: House, judged: Judged, against: Sequence[str], row: Sequence[str], checks: Sequence[str]
) -> Outcome | None:
    """What QA's artifact comes to; one thing against it is enough (HN-69)."""
    told, house.against = [*checks, f"QA result: {judged.result}, {judged.readiness}"], ""
    return await negative(house, against, row, told) if against else await advance(house, row, told)


async def advance(house: House, row: Sequence[str], evidence: Sequence[str]) -> Outcome | None:
    """The stage is done: the next one is entered, or the gate before it waits (HN-59, HN-66, HN-88)."""
    run, stage = house.run, house.state.stage
    if stage is Stage.BUILD:
        changed = ", ".join(one.path for one in await run.changed())
        evidence = [*evidence, f"{CHANGED} {changed}" if changed else f"{DELIVERED} nothing is to be"]
    entered = house.state.at(stage.next, house.day, completed=stage.next.before)
    waits = entered.status is Status.AWAITING
    open_ = (entered.run_id, entered.stage, "-", Came.NOT_REQUIRED, house.now, house.now, "", "")
    rows = [row, open_] if stage.next in GATES and not waits and not entered.approved(stage.next) else [row]
    event = f"{stage} completed; {entered.stage} is next{', once it is approved' if waits else ''}."
    await house.keep(entered, event, rows=rows, evidence=evidence)
    if house.inputs.until == stage and not waits:
        with run.step("bound"):
            if run.once("stops", {}, lambda: not run.stopped):
                why = f"Bounded orchestration test: stopped after {stage}"
                await house.keep(entered.stopped(Status.ACTIVE, why), why)
                return house.stops(why, Exit.WAITING, run.scope)
    return None


def _red(run: Run, proved: Sequence[Proved]) -> dict[str, str]:
    """Each red command in a line, with the end of what it printed."""
    red = [one for one in proved if one.word in ("broken", "still red", "conflict")]
    heads = [f"`{one.command}` is {one.word}{': ' if one.tests else ''}{', '.join(one.tests)}" for one in red]
    return {head: f"{head}. {run.tail(one.after) if one.after else ''}" for head, one in zip(heads, red, strict=True)}


def _conflict(house: House, paths: Sequence[str]) -> str:
    house.against = f"The person changed the same lines meanwhile ({', '.join(paths)}): their version stands."
    return house.against


# --- the gates


async def approve_build(house: House) -> Outcome | None:
    """The gate before Build: people approve a plan (HN-94)."""
    state, task = house.state, house.task
    if not state.before_build:
        event, row = "No approval is asked for before Build any more.", house.row(Came.NOT_REQUIRED, "-")
        await house.keep(state.at(Stage.BUILD, house.day), event, rows=[row])
        return None
    asks = f"Approve the plan of {task.id}, {task.title}, before Build?"
    return await ask(house, "Build", asks, Stage.PLANNING, (task.paths[Stage.PLANNING],))


async def ask(
    house: House, gate: str, question: str, back: Stage, shows: tuple[str, ...], summary: str = ""
) -> Outcome | None:
    """A person approves, or what is rejected is revised with their words, as often as that is allowed (HN-115)."""
    run, state = house.run, house.state
    decided: GateDecided = await run.gate(gate.lower(), question, summary=summary, shows=shows)
    house.tick()
    who, note = decided.who, " ".join(decided.note.split())
    if decided.choice == "approve":
        approvals = (*state.approvals, f"{gate}: {who} {decided.at.strftime('%Y-%m-%dT%H:%M:%SZ')}")
        entered = state.at(state.stage, house.day, approvals=approvals)
        await house.keep(entered, f"{who} approved it before {gate}.", rows=[house.row(Came.APPROVED, who)])
        return None
    row, told = house.row(Came.REJECTED, who), [f"rejected by {who}: {note}"]
    if rejections(house.history, state.stage) >= REJECTIONS:
        return await house.block(f"Approval rejected: {note}", rows=[row], evidence=told)
    entered = state.at(back, house.day, remediations=1 if back is Stage.BUILD else 0)
    await house.keep(entered, f"{who} rejected it: {note} {back} works on that.", rows=[row], evidence=told)
    return None


async def complete(house: House) -> Outcome | None:
    """The gate before Complete, and the delivery of what was built (HN-80)."""
    run, state, task = house.run, house.state, house.task
    if await missing(house):
        return None
    changed = ", ".join(one.path for one in await run.changed())
    if state.due is Status.AWAITING:
        asks = f"Approve {task.id}, {task.title}, for Complete?"
        code = f"Code: {changed}. See it: interlock diff {run.id}" if changed else "No code was changed."
        ended = await ask(house, "Complete", asks, Stage.BUILD, (task.paths[Stage.QA], task.paths[Stage.BUILD]), code)
        if ended or house.state.stage is not Stage.APPROVAL:
            return ended
    proved = await run.rest(house.commands)
    for again in range(LATE):
        if house.judged is None or again:
            proved = await run.prove(house.commands)
            house.judged = proved[0].tree if proved else house.judged
        if red := _red(run, proved):
            return await house.block(f"Red before Complete: {'; '.join(red)}")
        delivered = await run.deliver(str(again), house.judged)
        if delivered.state == "conflict":
            paths = delivered.landing.conflicts if delivered.landing else ()
            return await negative(house, [_conflict(house, paths)], house.row(Came.RETURNED))
        if delivered.state in ("done", "nothing"):
            done = house.state.at(Stage.COMPLETE, house.day, completed=Stage.COMPLETE.before)
            landed = [f"{DELIVERED} {changed or 'nothing'}"]
            await house.keep(done, f"{task.id} is Complete.", rows=[house.row(Came.COMPLETED)], evidence=landed)
            return Outcome.complete(f"{task.id} is Complete", next="interlock diff")
        house.judged = delivered.merged
    return await house.block("Your tree changed each time before the work could come into it")


def _settle(inputs: Inputs, read: Callable[[str], str | None]) -> Inputs:
    """The Task ID, where a person names the file; the task of run-state, where they name none."""
    known = markdown(read(task_file(inputs.task) if inputs.task else RUN_STATE) or "").value("Task ID")
    return inputs.model_copy(update={"task": known}) if known and belongs(inputs.task or known, known) else inputs


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
    invariants=INVARIANTS,
)
