"""One governed task through Specification, Design, Planning, Build, QA and approval, each by a verified artifact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from interlock.engine import Asked, Asking, Documents, Ending, Past, Playbook, Run, playbook
from interlock.errors import DocumentInvalid, EngineFault, InterlockError
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.briefs import RETRIES
from interlock.playbooks.harness.decisions import Position, position
from interlock.playbooks.harness.gates import ask, pass_unasked
from interlock.playbooks.harness.inputs import HarnessFlags, HarnessInputs, HarnessMoves
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.opening import asked_for, open_task, working_stage
from interlock.playbooks.harness.run_report import Fact, of_kind, parse
from interlock.playbooks.harness.run_state import PATH
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import REJECTIONS, REMEDIATIONS, STAGES, Lifecycle, Stage
from interlock.playbooks.harness.stint import Stint
from interlock.playbooks.harness.task_file import FOLDER, GOVERNED
from interlock.playbooks.harness.work import carry_out


def understand(lifecycle: Lifecycle, given: Mapping[str, Any], flags: Mapping[str, Any], asking: Asking) -> Asked:
    """The task that a person means, and the stages that they named."""
    said = dict(given)
    for name in ("fallback", "from_stage"):
        if name in said:
            said[name] = working_stage(said[name], "--fallback" if name == "fallback" else "--from", lifecycle)
    note = str(said.get("note", "")).strip()
    inputs = HarnessInputs(
        **{
            **said,
            "task": asked_for(said.get("task", ""), asking.documents.read(PATH), lifecycle),
            "fallback_by": asking.who if said.get("fallback") else "",
            "resumed": bool(note or said.get("from_stage") or said.get("reset_remediation")),
            "note": note,
        }
    )
    until = {"until": working_stage(flags["until"], "--until", lifecycle)} if flags.get("until") else {}
    return Asked(inputs, {**flags, **until}, note=note)


def samples(lifecycle: Lifecycle, asking: Asking) -> Iterator[HarnessInputs]:
    """The task in run-state, or else every task there is."""
    try:
        yield HarnessInputs(asked_for("", asking.documents.read(PATH), lifecycle))
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


def standing(lifecycle: Lifecycle, _inputs: HarnessInputs, documents: Documents) -> str:
    """Where the live task stands, for somebody who decides although nothing waits."""
    try:
        state = run_state.parse(documents.read(PATH), lifecycle)
    except DocumentInvalid as problem:
        return problem.what
    return f"status {state.status}, stage {state.stage}"


async def one_step(run: Run, ledger: Ledger, stint: Stint) -> Ending | None:
    """Whatever comes next for the task; None when something comes after it."""
    here = run.decide(position, ledger.state.status, bool(ledger.state.row.agent))
    if here in (Position.STAGE, Position.NOT_REQUIRED):
        await stint.stop_at_bound(run, ledger)
    match here:
        case Position.STAGE:
            with run.step(ledger.state.row.slug):
                return await carry_out(run, ledger, stint)
        case Position.GATE:
            return await ask(run, ledger, stint)
        case Position.NOT_REQUIRED:
            return await pass_unasked(run, ledger, stint)
        case Position.COMPLETE:
            return await completed(run, ledger)
        case Position.BLOCKED:
            return Ending.stopped(ledger.state.stop_reason)


async def completed(run: Run, ledger: Ledger) -> Ending:
    """The end of the task, with what a person should know of it at a glance."""
    task, report = ledger.task, parse(await run.read(ledger.report))
    changed = of_kind(report, Fact.CHANGED)
    who = " and ".join(ledger.state.lifecycle.builders)
    lines = [f"Task {task.task_id} is Complete: {task.title}", f"History: {ledger.report}"]
    lines += [f"Changed by {who}: {len(changed)} file{'' if len(changed) == 1 else 's'}"] if changed else []
    lines += [f"Noticed: {text}" for text in of_kind(report, Fact.NOTICED)]
    return Ending.complete("".join(f"{line}\n" for line in lines))


def harness_of(stages: Iterable[Stage]) -> Playbook:
    """The process with these stages."""
    lifecycle = Lifecycle(stages)

    @playbook(
        "harness",
        inputs=HarnessInputs,
        settings=HarnessSettings,
        flags=HarnessFlags,
        moves=HarnessMoves,
        understand=partial(understand, lifecycle),
        samples=partial(samples, lifecycle),
        first="TASK-001",
        key=lambda inputs: inputs.task,
        steps={stage.slug: stage.name for stage in lifecycle.working},
        agents=tuple(stage.agent for stage in lifecycle.working),
        documents=lambda _inputs: ("harness/**",),
        state=lambda _inputs: GOVERNED,
        caps={"stage": lifecycle.most_steps, "remediation": REMEDIATIONS, "rejection": REJECTIONS},
        max_parallel=1,
        retries=RETRIES,
        successor=successor,
        afresh=lambda inputs: HarnessInputs(inputs.task, inputs.fallback, inputs.fallback_by, inputs.check),
        edited=edited,
        standing=partial(standing, lifecycle),
    )
    async def harness(run: Run, inputs: HarnessInputs) -> Ending:
        """Carry one task of harness/tasks through specification, design, plan, build, QA and approval."""
        with run.step("open"):
            ledger, stint = await open_task(run, lifecycle, inputs)
        async for _ in run.loop("stage"):
            if (ending := await one_step(run, ledger, stint)) is not None:
                return ending
        raise EngineFault(f"the task took more than {lifecycle.most_steps} steps", where=PATH)

    return harness


harness = harness_of(STAGES)
