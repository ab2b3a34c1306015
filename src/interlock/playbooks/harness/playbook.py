"""One governed task through Specification, Design, Planning, Build, QA and approval, each by a verified artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from interlock.engine import Asked, Asking, Ending, Past, Run, playbook
from interlock.errors import DocumentInvalid, EngineFault, InterlockError
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.briefs import RETRIES
from interlock.playbooks.harness.decisions import Position, position
from interlock.playbooks.harness.gates import ask, pass_unasked
from interlock.playbooks.harness.inputs import HarnessFlags, HarnessInputs, HarnessMoves
from interlock.playbooks.harness.ledger import Halt, Ledger
from interlock.playbooks.harness.lifecycle import AGENTS, REJECTIONS, REMEDIATIONS, WORKING
from interlock.playbooks.harness.opening import asked_for, open_task, working_stage
from interlock.playbooks.harness.run_state import PATH
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import carry_out
from interlock.playbooks.harness.stops import Progress, bounds_of, completed, stop_at_bound
from interlock.playbooks.harness.task_file import FOLDER, GOVERNED

if TYPE_CHECKING:
    from interlock.engine.world import Documents

STEPS = 16 + REJECTIONS * 5
"""Steps that one run can take at most: nine stages with remediation, two gates, a little air, and for each rejection
Build, QA and a way back before the gate is asked again."""


def understand(given: Mapping[str, Any], flags: Mapping[str, Any], asking: Asking) -> Asked:
    """The task that a person means, and the stages that they named."""
    said = dict(given)
    for name in ("fallback", "from_stage"):
        if name in said:
            said[name] = working_stage(said[name], "--fallback" if name == "fallback" else "--from").value
    note = str(said.get("note", "")).strip()
    inputs = HarnessInputs(
        **{
            **said,
            "task": asked_for(said.get("task", ""), asking.documents.read(PATH)),
            "fallback_by": asking.who if said.get("fallback") else "",
            "resumed": bool(note or said.get("from_stage") or said.get("reset_remediation")),
            "note": note,
        }
    )
    until = {"until": working_stage(flags["until"], "--until").value} if flags.get("until") else {}
    return Asked(inputs, {**flags, **until}, note=note)


def samples(asking: Asking) -> Iterator[HarnessInputs]:
    """The task in run-state, or else every task there is."""
    try:
        yield HarnessInputs(asked_for("", asking.documents.read(PATH)))
    except InterlockError:
        tasks = [path.rpartition("/")[2].removesuffix(".md") for path in asking.documents.list(FOLDER, "*.md")]
        if not tasks:
            raise
        yield from map(HarnessInputs, tasks)


def successor(inputs: HarnessInputs, flags: Mapping[str, Any]) -> HarnessInputs:
    """A person resumes a stopped task (EN-19)."""
    return HarnessInputs(
        task=inputs.task,
        fallback=inputs.fallback,
        fallback_by=inputs.fallback_by,
        check=inputs.check,
        resumed=True,
        note=str(flags.get("note") or ""),
        from_stage=str(flags.get("from_stage") or ""),
        reset_remediation=bool(flags.get("reset_remediation")),
    )


def edited(_inputs: HarnessInputs, past: Past, documents: Documents) -> str | None:
    """Whether somebody changed run-state since this run wrote or read it (EN-22); one that is gone is for the run."""
    now = documents.facts(PATH).digest
    own = {known[PATH] for known in (past.last_written, past.begun, past.last_read) if PATH in known}
    return PATH if now is not None and own and now not in own else None


def standing(_inputs: HarnessInputs, documents: Documents) -> str:
    """Where the live task stands, for somebody who decides although nothing waits."""
    try:
        state = run_state.parse(documents.read(PATH))
    except DocumentInvalid as problem:
        return problem.what
    return f"status {state.status}, stage {state.stage}"


@playbook(
    "harness",
    inputs=HarnessInputs,
    settings=HarnessSettings,
    flags=HarnessFlags,
    moves=HarnessMoves,
    understand=understand,
    samples=samples,
    first="TASK-001",
    key=lambda inputs: inputs.task,
    steps={stage.slug: stage.value for stage in WORKING},
    agents=tuple(AGENTS.values()),
    documents=lambda _inputs: ("harness/**",),
    state=lambda _inputs: GOVERNED,
    caps={"stage": STEPS, "remediation": REMEDIATIONS, "rejection": REJECTIONS},
    max_parallel=1,
    retries=RETRIES,
    successor=successor,
    afresh=lambda inputs: HarnessInputs(inputs.task, inputs.fallback, inputs.fallback_by, inputs.check),
    edited=edited,
    standing=standing,
)
async def harness(run: Run, inputs: HarnessInputs) -> Ending:
    """Carry one task of harness/tasks through specification, design, plan, build, QA and approval."""
    try:
        with run.step("open"):
            opened = await open_task(run, inputs)
        if isinstance(opened, Ending):
            return opened
        ledger = opened.ledger
        progress = Progress(bounds_of(run), inputs, opened.checks, opened.prose)
        async for _ in run.loop("stage"):
            if (ending := await one_step(run, ledger, progress)) is not None:
                return ending
    except Halt as halt:
        return halt.ending
    raise EngineFault(f"the task took more than {STEPS} steps", where=PATH)


async def one_step(run: Run, ledger: Ledger, progress: Progress) -> Ending | None:
    """Whatever comes next for the task; None when something comes after it."""
    here = run.decide(position, ledger.state)
    if here in (Position.STAGE, Position.NOT_REQUIRED):
        await stop_at_bound(run, ledger, progress)
    match here:
        case Position.STAGE:
            with run.step(ledger.state.stage.slug):
                return await carry_out(run, ledger, progress)
        case Position.GATE:
            return await ask(run, ledger, progress)
        case Position.NOT_REQUIRED:
            return await pass_unasked(run, ledger, progress)
        case Position.COMPLETE:
            return await completed(run, ledger)
        case Position.BLOCKED:
            return Ending.stopped(ledger.state.stop_reason)
