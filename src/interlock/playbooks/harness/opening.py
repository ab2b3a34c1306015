"""The start of a run: which task, what its documents say, and whether it can be gone on with.

Everything here is read and proven before anything is written: a start that is refused leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.documents import Document, DocumentState, one_line, stamp
from interlock.engine import UNCOMPARED, Checks, Ending, Run, Stop
from interlock.playbooks.harness import run_report, run_state, standards, templates
from interlock.playbooks.harness.decisions import Position, position
from interlock.playbooks.harness.escalation import Escalation, FoundProblems
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.proofs import as_row, look_first, uncompared
from interlock.playbooks.harness.run_report import Fact, RunReport, archive_path, report_path
from interlock.playbooks.harness.run_state import PATH, RunState, same_paths
from interlock.playbooks.harness.stages import Lifecycle, TaskStatus
from interlock.playbooks.harness.stint import Stint
from interlock.playbooks.harness.task_file import Task, named_task, parse_task, task_path


@dataclass(frozen=True)
class FoundState:
    """What run-state says at the start."""

    document: Document
    mine: RunState | None
    """The state of the task that is asked for."""
    other: RunState | None = None
    """The state of another task, which has to make room."""
    parked: Document | None = None
    """The run-state of this task as it was when another one took its place."""


async def open_task(run: Run, lifecycle: Lifecycle, inputs: HarnessInputs) -> tuple[Ledger, Stint]:
    """The task, ready for the next stage; the run stops where nothing is to be done."""
    document = await run.read(PATH)
    task_id = asked_for(inputs.task, document, lifecycle)
    found = await look(run, document, task_id, lifecycle, inputs)
    make_room(run, found, task_id)
    task, references = await load_everything(run, task_id, lifecycle)
    day = stamp(run.now())[:10]
    state = run_state.initial(lifecycle, task, day) if found.mine is None else consistent(found.mine, task)
    run.note(
        "state.loaded",
        task=state.task_id,
        stage=state.stage,
        status=state.status,
        completed=state.completed,
        approvals=state.asks,
        stop_reason=state.stop_reason,
        initial=found.mine is None,
    )
    going = moved_by(inputs, state, day)
    match run.decide(position, going.status, bool(going.row.agent)):
        case Position.COMPLETE:
            raise Stop(already_complete(task_id))
        case Position.BLOCKED:
            raise Stop(still_blocked(going))
    report = await readable_report(run, task_id, inputs)
    checks = await look_first(run, inputs, going, report.found if found.mine is not None else None)
    ledger = Ledger(run, task, state)
    await begin(ledger, found, references, going, inputs, report, checks)
    return ledger, Stint(inputs, checks, references.prose)


async def begin(
    ledger: Ledger,
    found: FoundState,
    references: References,
    going: RunState,
    inputs: HarnessInputs,
    report: Readable,
    checks: Checks,
) -> None:
    """The first writes: make room, make what is missing, and record what a person asked for."""
    run, state, rows = ledger.run, ledger.state, list[tuple[Fact, str]]()
    if found.other is not None:
        await run.write(archive_path(found.other.task_id), found.document.encode(found.document.text), anew=True)
        if found.other.status is not TaskStatus.COMPLETE:
            rows.append((Fact.PARKED, found.other.task_id))
    elif inputs.start_over and found.document.state is not DocumentState.MISSING:
        await run.set_aside(PATH)
    if report.mended is not None:
        rows.append((Fact.MENDED, await mend(run, report)))
    first: str | bytes | None = None
    if found.parked is not None:
        first = found.parked.encode(found.parked.text)
        await run.set_aside(found.parked.path)
    elif found.mine is None:
        first = templates.first_state(references.templates[templates.RUN_STATE], state)
    await ledger.begin(
        first,
        references.templates[templates.RUN_REPORT],
        replaces=found.document.digest if found.other is not None else "",
    )
    if known := as_row(run, checks.baseline):
        rows.append((Fact.BASELINE, known))
    if uncompared(checks, going):
        run.warn(UNCOMPARED)
        rows.append((Fact.NOTICED, UNCOMPARED))
    if inputs.resumed and going != state:
        rows.append((Fact.RESUMED, resumption(inputs, state.lifecycle)))
    if rows or going != state:
        at = ledger.stamp()
        entries = [entry for kind, text in rows for entry in ledger.evidence(at, kind, text)]
        await (ledger.commit(going, *entries, at=at) if going != state else ledger.record(*entries, at=at))


# -- which task


def asked_for(named: str, document: Document, lifecycle: Lifecycle) -> str:
    """The task to run: the one named, or else the one in run-state."""
    if named:
        return named_task(named)
    if document.state is DocumentState.MISSING:
        raise Escalation(
            PATH,
            f"No task to run: name a task or provide {PATH}",
            "Name one that has a file in harness/tasks, for example: interlock run harness TASK-001",
        )
    return run_state.parse(document, lifecycle).task_id


async def look(run: Run, document: Document, task_id: str, lifecycle: Lifecycle, inputs: HarnessInputs) -> FoundState:
    """What run-state means for this task; the run stops if that was completed before another one took its place."""
    if document.link:
        raise Escalation(PATH, f"{PATH} is a symlink; refusing to write", "Put a plain file there, or remove the link.")
    if inputs.start_over:
        state = readable_state(document, lifecycle)
        return FoundState(document, None, state if state is not None and state.task_id != task_id else None)
    state = None if document.state is DocumentState.MISSING else run_state.parse(document, lifecycle)
    if state is not None and state.task_id == task_id:
        return FoundState(document, state)
    parked = await run.read(archive_path(task_id))
    before = readable_state(parked, lifecycle)
    if before is not None and before.status is TaskStatus.COMPLETE:
        raise Stop(already_complete(task_id))
    return FoundState(document, before, state, parked if before is not None else None)


def readable_state(document: Document, lifecycle: Lifecycle) -> RunState | None:
    """What a run-state says whose loss stops nobody; None where it cannot be read."""
    try:
        return run_state.parse(document, lifecycle) if document.state is DocumentState.OK else None
    except Escalation:
        return None


def make_room(run: Run, found: FoundState, task_id: str) -> None:
    """Escalation when run-state belongs to another task that is neither complete nor to be put aside."""
    other = found.other
    if other is None or other.status is TaskStatus.COMPLETE:
        return
    if not run.settle_once("park", {"park": bool(run.flags.get("park"))})["park"]:
        raise Escalation(
            PATH,
            f"Active task conflict: run-state is for {other.task_id} ({other.status}); requested {task_id}",
            f"Finish {other.task_id} first: interlock run harness {other.task_id}. Or put it aside, to go on with "
            f"it later: interlock run harness {task_id} --park",
        )


def already_complete(task_id: str) -> Ending:
    return Ending.complete(f"Task {task_id} is already Complete; nothing was changed.\n")


def still_blocked(state: RunState) -> Ending:
    return Ending.stopped(
        f"Task {state.task_id} is Blocked at {state.stage}: {state.stop_reason or 'no reason given'}. A person lets it "
        f'go on, with --from also from an earlier stage: interlock run harness {state.task_id} --note "why it may"'
    )


# -- what governs it


@dataclass(frozen=True)
class References:
    """What the workspace says about the process."""

    templates: Mapping[str, str]
    prose: tuple[str, ...]


async def load_everything(run: Run, task_id: str, lifecycle: Lifecycle) -> tuple[Task, References]:
    """The task and what governs it; Escalation names all that is wrong in any of it (EV-28)."""
    problems = FoundProblems()
    task, references = None, None
    with problems.noted():
        task = parse_task(await run.read(task_path(task_id)), lifecycle)
    with problems.noted():
        references = await load_references(run, lifecycle)
    problems.settle()
    assert task is not None and references is not None  # else there was a problem
    return task, references


async def load_references(run: Run, lifecycle: Lifecycle) -> References:
    """Templates and standards, after all of them were read and found to say what the engine does."""
    paths = (*standards.ALL, templates.RUN_STATE, templates.RUN_REPORT)
    documents = {path: await run.read(path) for path in paths}
    missing = [path for path, document in documents.items() if document.state is DocumentState.MISSING]
    there = {path: document for path, document in documents.items() if path not in missing}
    if run.settings.builtin_templates:
        missing = [path for path in missing if path not in templates.HOLES]
    problems = FoundProblems()
    if missing:
        problems.add(
            missing[0],
            f"Missing required file{'s' if len(missing) > 1 else ''}: {', '.join(missing)}",
            "Write what is missing with: interlock init --playbook harness",
        )
    for path in standards.ALL:
        with problems.noted():
            if path in there and path != standards.CONTRACTS:
                standards.check_standard(there[path], lifecycle)
            elif path in there:
                await standards.check_contracts(run, there[path], lifecycle)
    texts = dict.fromkeys(templates.HOLES, "")
    for path in templates.HOLES:
        with problems.noted():
            texts[path] = templates.load(there[path]) if path in there else templates.built_in(path)
    problems.settle()
    run.note("references.loaded", files={path: document.digest for path, document in documents.items()})
    return References(texts, tuple(path for path in standards.ALL if standards.is_prose(there[path], lifecycle)))


def consistent(state: RunState, task: Task) -> RunState:
    """The state, if it makes sense in itself and with the task; its run id is brought up to date when entered."""
    if problem := run_state.inconsistency(state):
        raise Escalation(
            PATH,
            problem,
            f"Correct {PATH}, restore it from version control, or begin the task anew: "
            f"interlock run harness {task.task_id} --start-over",
        )
    same_paths(task, state)
    return state


# -- its history


@dataclass(frozen=True)
class Readable:
    """The report of a task at the start."""

    document: Document
    found: RunReport | None
    """None where there is none yet."""
    mended: str | None = None
    """Where it was damaged and is to be mended: its text with new chains, empty where that cannot be."""


async def readable_report(run: Run, task_id: str, inputs: HarnessInputs) -> Readable:
    """The report; Escalation where it is damaged and nobody asked for it to be mended."""
    document = await run.read(report_path(task_id))
    if document.state is DocumentState.MISSING:
        return Readable(document, None)
    try:
        return Readable(document, run_report.parse(document))
    except Escalation:
        if not inputs.mend_report:
            raise
    text = run_report.mended(document.text) if document.state is DocumentState.OK else None
    return Readable(document, run_report.parse_text(text, document.path) if text else None, text or "")


async def mend(run: Run, report: Readable) -> str:
    """Put the report right, and say how: its rows linked anew, or set aside for a new one."""
    if report.mended:
        await run.write(report.document.path, report.document.encode(report.mended), expect=report.document.digest)
        return "a person had the chains made anew from the rows that were there"
    return f"a person had a new report begun; the old one is {await run.set_aside(report.document.path)}"


# -- what a person asked for


def moved_by(inputs: HarnessInputs, state: RunState, day: str) -> RunState:
    """The state from which the run goes on, given what a person asked for at its start."""
    lifecycle = state.lifecycle
    if inputs.fallback:
        working_stage(inputs.fallback, "--fallback", lifecycle)
    stage = working_stage(inputs.from_stage, "--from", lifecycle) if inputs.from_stage else None
    if not inputs.resumed:
        return with_own_run_id(state, day)
    if stage is not None and lifecycle.before(state.stage, stage):
        raise Escalation(
            PATH,
            f"Stage {stage} cannot be resumed from: the task stands at {state.stage}, and no stage is skipped",
            f"Name {state.stage} or an earlier stage with --from.",
        )
    moves = stage is not None or inputs.reset_remediation or state.status is TaskStatus.BLOCKED
    if not moves or state.status is TaskStatus.COMPLETE:
        return with_own_run_id(state, day)
    event = f"A person resumed the run: {resumption(inputs, lifecycle)}."
    return state.resumed(stage, day, event, reset=inputs.reset_remediation)


def with_own_run_id(state: RunState, day: str) -> RunState:
    """With a run id of its stage: a person who sets another stage need not make one up."""
    which = state.task_id, state.stage, state.remediations
    if state.lifecycle.is_run_id(state.run_id, *which):
        return state
    own = state.lifecycle.run_id(day, *which)
    return state.told("The run id was brought up to date.", stop_reason=state.stop_reason, run_id=own)


def resumption(inputs: HarnessInputs, lifecycle: Lifecycle) -> str:
    """What a person asked for when they resumed, and why."""
    parts = [one_line(inputs.note).rstrip(".") or "no reason given"]
    if inputs.from_stage:
        parts.append(f"from {working_stage(inputs.from_stage, '--from', lifecycle)}")
    if inputs.reset_remediation:
        parts.append("remediations counted anew")
    return ", ".join(parts)


def working_stage(text: str, option: str, lifecycle: Lifecycle) -> str:
    """The stage that a person named; Escalation lists those there are."""
    if (stage := lifecycle.named(text)) is not None:
        return stage
    raise Escalation(
        PATH,
        f"{option} {one_line(text)!r} is no stage that an agent carries out",
        f"Name one of {', '.join(row.name for row in lifecycle.working)}.",
    )
