"""The start of a run: which task, what its documents say, and whether it can be gone on with.

Everything here is read and proven before anything is written: a start that is refused leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.documents import Document, DocumentState
from interlock.engine import Ending, Run
from interlock.playbooks.harness import run_report, run_state, standards, templates
from interlock.playbooks.harness.decisions import Position, position
from interlock.playbooks.harness.escalation import Escalation, one_line
from interlock.playbooks.harness.ledger import Ledger, stamp
from interlock.playbooks.harness.lifecycle import WORKING, Stage, TaskStatus, belongs, run_id
from interlock.playbooks.harness.run_report import Kind, archive_path
from interlock.playbooks.harness.run_state import PATH, RunState
from interlock.playbooks.harness.task_file import Task, named_task, parse_task, task_path


@dataclass(frozen=True)
class HarnessInputs:
    """Which task, and what a person asked for when they started or resumed it."""

    task: str
    fallback: str = ""
    """The stage whose artifact a person supplies."""
    fallback_by: str = ""
    resumed: bool = False
    """A person explicitly lets a stopped task go on."""
    note: str = ""
    from_stage: str = ""
    reset_remediation: bool = False


@dataclass(frozen=True)
class Found:
    """What run-state says at the start."""

    document: Document
    mine: RunState | None
    """The state of the task that is asked for."""
    other: RunState | None = None
    """The state of another task; it has to be complete to make room."""


async def open_task(run: Run, inputs: HarnessInputs) -> Ledger | Ending:
    """The task's ledger, ready for the next stage; an ending where nothing is to be done."""
    document = await run.read(PATH)
    task_id = asked_for(inputs.task, document)
    found = look(document, task_id)
    if found.mine is None:
        archived = await run.read(archive_path(task_id))
        if archived.state is DocumentState.OK and is_complete(archived):
            return already_complete(task_id)
        make_room(found, task_id)
    task = parse_task(await run.read(task_path(task_id)))
    pattern = await load_references(run)
    day = stamp(run.now())[:10]
    state = run_state.initial(task, day) if found.mine is None else consistent(found.mine, task)
    run.note(
        "state.loaded",
        task=state.task_id,
        stage=state.stage,
        status=state.status,
        completed=state.completed,
        approvals={"Build": state.approve_build, "Complete": state.approve_complete},
        stop_reason=state.stop_reason,
        initial=found.mine is None,
    )
    going = moved_by(inputs, state, day)
    match run.decide(position, going):
        case Position.COMPLETE:
            return already_complete(task_id)
        case Position.BLOCKED:
            return still_blocked(run, going)
    if going.stage.works:
        contracts = standards.parse_contracts(await run.read(standards.CONTRACTS))
        standards.contract_for(contracts, going.stage)
    report = await run.read(run_report.report_path(task_id))
    if report.state is not DocumentState.MISSING:
        run_report.parse(report)
    return await begin(run, Ledger(run, task, state), found, pattern, going, inputs)


async def begin(
    run: Run, ledger: Ledger, found: Found, pattern: Mapping[str, str], going: RunState, inputs: HarnessInputs
) -> Ledger:
    """The first writes: make room, make what is missing, and record that a person lets the task go on."""
    if found.other is not None:
        await run.write_anew(archive_path(found.other.task_id), found.document.encode(found.document.text))
    await ledger.begin(
        pattern[templates.RUN_STATE],
        pattern[templates.RUN_REPORT],
        fresh=found.mine is None,
        replaces=found.document.digest if found.other is not None else "",
    )
    if going != ledger.state:
        at = ledger.stamp()
        ledger_rows = ledger.evidence(at, Kind.RESUMED, resumption(inputs)) if inputs.resumed else ()
        await ledger.commit(going, *ledger_rows, at=at)
    return ledger


# -- which task


def asked_for(named: str, document: Document) -> str:
    """The task to run: the one named, or else the one in run-state."""
    if named:
        return named_task(named)
    if document.state is DocumentState.MISSING:
        raise Escalation(
            f"No task to run: name a task or provide {PATH}",
            cure="Name one that has a file in harness/tasks, for example: interlock run harness TASK-001",
            path=PATH,
        )
    return run_state.parse(document).task_id


def look(document: Document, task_id: str) -> Found:
    """What run-state means for this task."""
    if document.link:
        raise Escalation(
            f"{PATH} is a symlink; refusing to write", cure="Put a plain file there, or remove the link.", path=PATH
        )
    if document.state is DocumentState.MISSING:
        return Found(document, None)
    state = run_state.parse(document)
    return Found(document, state) if state.task_id == task_id else Found(document, None, state)


def make_room(found: Found, task_id: str) -> None:
    """Escalation when run-state belongs to another task that is not complete."""
    other = found.other
    if other is not None and other.status is not TaskStatus.COMPLETE:
        raise Escalation(
            f"Active task conflict: run-state is for {other.task_id} ({other.status}); requested {task_id}",
            cure=f"Finish {other.task_id} first: interlock run harness {other.task_id}",
            path=PATH,
        )


def is_complete(document: Document) -> bool:
    """Whether an archived run-state says so; one that cannot be read says nothing."""
    try:
        return run_state.parse(document).status is TaskStatus.COMPLETE
    except Escalation:
        return False


def already_complete(task_id: str) -> Ending:
    return Ending.complete(f"Task {task_id} is already Complete; nothing was changed.\n")


def still_blocked(run: Run, state: RunState) -> Ending:
    before = run.identity.continues or "RUN"
    return Ending.stopped(
        f"Task {state.task_id} is Blocked at {state.stage}: {state.stop_reason or 'no reason given'}. A person lets it "
        f"go on with: interlock resume {before} --note WHY, or by setting Current Status to Active in {PATH}."
    )


# -- what governs it


async def load_references(run: Run) -> Mapping[str, str]:
    """The templates, after all standards were read and found to say what the engine does."""
    paths = (*standards.ALL, templates.RUN_STATE, templates.RUN_REPORT)
    documents = {path: await run.read(path) for path in paths}
    missing = [path for path, document in documents.items() if document.state is DocumentState.MISSING]
    if run.settings.builtin_templates:
        missing = [path for path in missing if path not in templates.HOLES]
    if missing:
        raise Escalation(
            f"Missing required file{'s' if len(missing) > 1 else ''}: {', '.join(missing)}",
            cure="Write what is missing with: interlock init --playbook harness",
            path=missing[0],
        )
    for path in standards.TABLES:
        standards.check_standard(documents[path])
    standards.parse_contracts(documents[standards.CONTRACTS])
    run.note("references.loaded", files={path: document.digest for path, document in documents.items()})
    return {
        path: templates.built_in(path)
        if documents[path].state is DocumentState.MISSING
        else templates.load(documents[path])
        for path in templates.HOLES
    }


def consistent(state: RunState, task: Task) -> RunState:
    """The state, if it makes sense in itself and with the task; its run id is brought up to date when entered."""
    if problem := run_state.inconsistency(state):
        raise Escalation(problem, cure=f"Correct {PATH}, or restore it from version control.", path=PATH)
    for stage, path in state.artifacts.items():
        if path != task.artifacts[stage]:
            raise Escalation(
                f"Artifact path for {stage} differs: {PATH} has {path}, {task.path} has {task.artifacts[stage]}",
                cure="Make the two the same; the artifact must lie where both say.",
                path=PATH,
            )
    return state


# -- what a person asked for


def moved_by(inputs: HarnessInputs, state: RunState, day: str) -> RunState:
    """The state from which the run goes on, given what a person asked for at its start."""
    if inputs.fallback:
        working_stage(inputs.fallback, "--fallback")
    stage = working_stage(inputs.from_stage, "--from") if inputs.from_stage else None
    if not inputs.resumed:
        return with_own_run_id(state, day)
    if stage is not None and state.stage.before(stage):
        raise Escalation(
            f"Stage {stage} cannot be resumed from: the task stands at {state.stage}, and no stage is skipped",
            cure=f"Name {state.stage} or an earlier stage with --from.",
            path=PATH,
        )
    moves = stage is not None or inputs.reset_remediation or state.status is TaskStatus.BLOCKED
    if not moves or state.status is TaskStatus.COMPLETE:
        return with_own_run_id(state, day)
    return run_state.resumed_at(
        state, stage, day, f"A person resumed the run: {resumption(inputs)}.", reset=inputs.reset_remediation
    )


def with_own_run_id(state: RunState, day: str) -> RunState:
    """With a run id of its stage: a person who sets another stage need not make one up."""
    if belongs(state.run_id, state.task_id, state.stage, state.remediations):
        return state
    own = run_id(day, state.task_id, state.stage, state.remediations)
    return state.told("The run id was brought up to date.", stop_reason=state.stop_reason, run_id=own)


def resumption(inputs: HarnessInputs) -> str:
    """What a person asked for when they resumed, and why."""
    parts = [one_line(inputs.note).rstrip(".") or "no reason given"]
    if inputs.from_stage:
        parts.append(f"from {working_stage(inputs.from_stage, '--from')}")
    if inputs.reset_remediation:
        parts.append("remediations counted anew")
    return ", ".join(parts)


def working_stage(text: str, option: str) -> Stage:
    """The stage that a person named; Escalation lists those there are."""
    if (stage := run_state.named_stage(text)) is not None:
        return stage
    raise Escalation(
        f"{option} {one_line(text)!r} is no stage that an agent carries out",
        cure=f"Name one of {', '.join(WORKING)}.",
        path=PATH,
    )
