"""Where a run stops: bounds of the process, conditions that block, and the end of the task."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.engine import Checks, Ending, Proof, Run, Status
from interlock.playbooks.harness import run_state
from interlock.playbooks.harness.decisions import Bounds
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.lifecycle import Stage, TaskStatus
from interlock.playbooks.harness.run_report import Entry, Kind, of_kind, parse, report_path


@dataclass
class Progress:
    """What this run has done so far: for its bounds, and for what comes next."""

    bounds: Bounds
    inputs: HarnessInputs
    checks: Checks
    prose: tuple[str, ...] = ()
    """Standards without anything that a program can compare: agents get them to read."""
    executed: int = 0
    last: Stage | None = None
    rejections: int = 0
    red: tuple[Proof, ...] = ()
    """What was red when the task was last judged."""


def bounds_of(run: Run) -> Bounds:
    """How far this process is to go: its options, or else its settings; never part of the run."""
    until = run.flags.get("until") or run.settings.until
    most = run.flags.get("max_stages") or run.settings.max_stages
    return Bounds(run_state.named_stage(until) if until else None, most)


async def stop_at_bound(run: Run, ledger: Ledger, progress: Progress) -> None:
    """A bounded run stops here, with its status kept; an option of this process, so nothing of it is replayed."""
    after = progress.bounds.reached(ledger.state, progress.executed, progress.last)
    if after is None or not run.live:
        return
    reason = f"Bounded orchestration test: stopped after {after}"
    with run.outside_replay("bounded"):
        await ledger.commit(ledger.state.told(f"{reason}.", stop_reason=reason), at=ledger.stamp())
    run.pause(reason)


async def block(
    run: Run, ledger: Ledger, reason: str, *entries: Entry, status: Status = Status.STOPPED, at: str = ""
) -> Ending:
    """Both documents say why the run stops where it stands."""
    await ledger.commit(ledger.state.blocked(reason), *entries, at=at or ledger.stamp())
    run.note("stage.blocked", stage=ledger.state.stage, reason=ledger.state.stop_reason)
    return Ending(status, ledger.state.stop_reason)


async def completed(run: Run, ledger: Ledger) -> Ending:
    """The end of the task, with what a person should know of it at a glance."""
    task = ledger.task
    report = parse(await run.read(ledger.report))
    changed = of_kind(report, Kind.CHANGED)
    lines = [f"Task {task.task_id} is Complete: {task.title}", f"History: {report_path(task.task_id)}"]
    lines += [f"Changed by Build: {len(changed)} file{'' if len(changed) == 1 else 's'}"] if changed else []
    lines += [f"Noticed: {text}" for text in of_kind(report, Kind.NOTICED)]
    return Ending.complete("".join(f"{line}\n" for line in lines))


def note_result(run: Run, ledger: Ledger) -> None:
    """Where a step has brought the task: a next stage, an approval stop, or its completion."""
    match ledger.state.status:
        case TaskStatus.AWAITING_APPROVAL:
            run.note("stage.approval", stage=ledger.state.stage, run=ledger.state.run_id)
        case TaskStatus.COMPLETE:
            run.note("stage.complete", stage=ledger.state.stage, run=ledger.state.run_id)
        case _:
            run.note("stage.next", stage=ledger.state.stage, run=ledger.state.run_id)
