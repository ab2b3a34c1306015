"""O5: the groups in their order, each built and tested by the engine; what was rejected is tried again.

An agent's word is never enough: a task is accepted when its changes are in its scope and the commands are green.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from interlock.engine.kept import dumped, put
from interlock.engine.run import Call, Report, Row, clash
from interlock.playbooks.ticket.documents import AUTO_ACCEPTED, Executed
from interlock.playbooks.ticket.graph import ATTEMPTS, FAILED, Graph, Step, Task, batches, blamed, is_trivial
from interlock.playbooks.ticket.state import MIXED, MOST_TOLD, Ticket, weakened
from interlock.workspace.values import RemarkKind

EXECUTOR = Row("task-executor", "executor", Executed, timeout_s=7200, stays=True, lost=True, repeats=1)
DEVELOPER = Row("Developer", "developer", Executed, timeout_s=7200, stays=True, lost=True, repeats=1)


async def execute(t: Ticket) -> bool:
    """All groups; whether the short cut accepted the work by itself."""
    with t.run.step("O5"):
        await t.set("TASK_EXECUTION", "O5")
        graph = await t.graph()
        for step in graph.execution_order:
            with t.run.step(f"group-{step.group}"):
                graph = await work_through(t, step)
        task, green = graph.tasks[0], bool(t.proved) and all(one.after and one.after.green for one in t.proved)
        short = await is_short(t, graph) and task.attempt == 1 and bool(task.first_code_change_at)
        if not short or not green or weakened(t.proved):
            return False
        await put(t.run, t.here("review_report.yaml"), {**AUTO_ACCEPTED, "reviewed_at": t.stamp()})
        await t.log("trivial.auto_accept", "O5", task=task.id)
        return True


async def is_short(t: Ticket, graph: Graph) -> bool:
    """The graph is one simple task, still (TK-108)."""
    mandates = [one.text for one in (await t.prompt()).tool_mandates]
    return t.data.cycle_acceleration_mode == "trivial_graph" and is_trivial(graph, mandates)


async def work_through(t: Ticket, step: Step) -> Graph:
    """One group, round by round, until all its tasks are accepted."""
    await t.read()
    graph = await t.graph()
    after = graph.execution_order[graph.execution_order.index(step) + 1 :]
    if not undone(graph, step) and any(task.attempt for later in after for task in graph.of(later)):
        return graph
    await t.measure(graph)
    began, before = t.stamp(), t.group_minutes
    async for _ in t.run.loop("round"):
        graph = await one_round(t, step, last=not after)
        t.stamp()
        took, done = t.minutes(began), not undone(graph, step)
        t.group_minutes = before + took
        await t.measure(graph, {"latest_group_cycle_minutes_estimate": round(took, 1)} if done else {})
        if done:
            return graph
        if tired := [task for task in graph.of(step) if task.status in FAILED and task.attempt >= ATTEMPTS]:
            await t.log("task.max_attempts", "O5", task=tired[0].id, attempt=tired[0].attempt)
            raise await t.stop(f"PAUSED: task {tired[0].id} failed {ATTEMPTS} attempts", "PAUSED")
    raise await t.stop(f"PAUSED: group {step.group} came to no end", "PAUSED")


def undone(graph: Graph, step: Step) -> list[Task]:
    return [task for task in graph.of(step) if task.status != "ACCEPTED"]


async def one_round(t: Ticket, step: Step, *, last: bool) -> Graph:
    """What needs work is worked on; then the group is judged on what is on disk (TK-130)."""
    await t.read()
    if t.data.status in ("PAUSED", "FAILED"):  # a resume does the round again
        if left := await t.legacy():
            raise await t.stop(f"{MIXED} {left}", exit=2)
        await t.resumes()
    graph = await t.graph()
    again = {one.id: {"attempt": 0} for one in graph.of(step) if one.status in FAILED and one.attempt >= ATTEMPTS}
    graph = await t.mark(graph, again)
    short = await is_short(t, graph) and graph.tasks[0].next_attempt == 1
    for number, batch in enumerate(batches(step, graph, t.data.max_parallel_tasks), 1):
        with t.run.step(f"batch-{number}"):
            await work_on(t, step, batch, DEVELOPER if short else EXECUTOR)
    graph = await t.graph()
    failed = any(task.status in FAILED for task in graph.of(step))
    if not failed:
        graph, failed = await judged(t, graph, step, last=last)
    if short and failed:
        await t.set(cycle_acceleration_mode="standard")
    return graph


async def work_on(t: Ticket, step: Step, batch: Sequence[Task], row: Row) -> None:
    """Attempts side by side, counted on disk before they begin (TK-125)."""
    graph, stamp = await t.graph(), t.stamp()
    started = {"status": "IN_PROGRESS", "started_at": stamp}
    graph = await t.mark(graph, {task.id: {**started, "attempt": task.next_attempt} for task in batch})
    first = undone(graph, step)[0]
    await t.set(current_task_id=first.id, current_task_attempt=first.attempt)
    tasks = [graph.task(task.id) for task in batch]
    calls = {task.id: partial(t.run.dispatch, call(t, row, step, task, graph)) for task in tasks}
    came = await t.run.together("tasks", calls, cap=len(calls))
    marks = {name: await outcome(t, graph.task(name), report, stamp) for name, report in came.items()}
    await t.mark(graph, {name: mark for name, mark in marks.items() if mark})
    for name, report in came.items():
        await t.answered(report, f"{t.run.scope}/tasks/{name}", scoped=True)


def call(t: Ticket, row: Row, step: Step, task: Task, graph: Graph) -> Call:
    facts = {**t.facts, "task": task.id, "attempt": task.attempt, "mode": step.strategy.upper()}
    return Call(
        replace(row, writes=graph.scope(task)),
        member=task.id,
        inputs={**facts, "mandates": "; ".join(task.mandates) or "none"},
        texts={
            "entry": dumped(task.model_dump(exclude={"last_error"}, exclude_unset=True)),
            "last_error": task.last_error or "",
        },
        reads=(t.here("tasks.yaml"),),
        attempt=task.attempt,
        request=t.inputs.request,
        samples=dict.fromkeys((path for path in task.files if "*" not in path), ""),
    )


async def outcome(t: Ticket, task: Task, report: Report, started: str) -> Mapping[str, Any]:
    """What an attempt came to, for tasks.yaml; nothing where nobody answered."""
    form = Executed.model_validate(report.form or {})
    facts: dict[str, Any] = {}
    if report.did is not None and not task.first_code_change_at:
        now, told = t.stamp(), form.first_code_change_at or ""
        fits = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told) and started <= told <= now
        facts["first_code_change_at"] = told if fits else now
    if report.reason == "scope":
        outside = [path for one in report.remarks if one.kind is RemarkKind.OUTSIDE for path in one.paths]
        why = f"Task {task.id} modified files outside its scope: {', '.join(outside)}"
        return {**facts, "status": "REJECTED", "last_error": why}
    if report.conflicts:
        return {**facts, "status": "REJECTED", "last_error": clash(report.conflicts)}
    if not report.ok:
        return facts
    if form.status in FAILED:
        return {**facts, "status": form.status, "last_error": form.notes or form.status}
    if report.did is None and not task.first_code_change_at:
        with t.run.step(task.id):
            if why := await t.run.idle(form.already_so):
                return {**facts, "status": "ERROR", "last_error": why}
    return {**facts, "status": "SYNTAX_VALID"}


# --- judging


async def judged(t: Ticket, graph: Graph, step: Step, *, last: bool) -> tuple[Graph, bool]:
    """The group with what the commands say: accepted, or rejected; and whether it is."""
    group = graph.of(step)
    worked = [task for task in group if task.status == "SYNTAX_VALID"]
    finished = all(task.status in ("ACCEPTED", "SYNTAX_VALID") for task in group)
    # The person's commands first, then those of the graph, beside them.
    t.proved = await t.run.prove(await t.commands())
    bad = t.red(t.proved, last=last and finished) or t.red(await t.run.prove(t.proposed(graph, step)))
    if not bad:
        done = {"status": "ACCEPTED", "completed_at": t.stamp(), "last_error": None}
        return await t.mark(graph, {task.id: done for task in worked}), False
    rejected = {"status": "REJECTED", "last_error": "\n\n".join(bad)[-MOST_TOLD:]}
    once = {task.id: {"set_back": True} for task in group if task.status == "ACCEPTED"}
    every = blamed("\n".join(bad), group, worked) or [task.id for task in group]
    return await t.mark(graph, {name: {**rejected, **once.get(name, {})} for name in every}), True
