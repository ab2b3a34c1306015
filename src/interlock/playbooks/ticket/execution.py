"""O5: the groups in their order, each built and tested by the engine; what was rejected is tried again.

An agent's word is never enough.  A task is accepted when its changes are in scope, merged with what is in the tree, and
the build and the tests of its group are green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from interlock.contracts import Outcome
from interlock.documents import FieldChanges, render_yaml, stamp
from interlock.engine import Ending, Report, Stop
from interlock.playbooks.ticket.artifacts import AUTO_ACCEPT_NOTES, accepting, added_files
from interlock.playbooks.ticket.documents import ATTEMPTS, Phase, RunStatus, minutes_between, moment_of
from interlock.playbooks.ticket.graph import (
    UNDONE,
    Graph,
    Group,
    Strategy,
    Task,
    TaskStatus,
    batches,
    blamed,
    changed_files,
    exhausted,
    is_trivial,
    literal_files,
    next_attempt,
    refused,
    share_files,
    steers_checks,
)
from interlock.playbooks.ticket.ledger import Ledger, failure, files_digest
from interlock.playbooks.ticket.planning import limits_of
from interlock.playbooks.ticket.validation import validate

SHOWN_OF_OUTPUT = 6000
"""Characters at the end of a failed command's output that the next attempt is told."""
IN_CONFLICT = (
    "Somebody else changed the same places meanwhile. The files below are in your tree as the others left them, and "
    "your other changes are there, too. Work the rest in again, and keep what the others did:"
)


@dataclass(frozen=True)
class TaskResult:
    """What an attempt at a task came to."""

    status: TaskStatus
    error: str
    facts: Mapping[str, Any]
    """What is put down of it, whatever becomes of it."""
    unseen: bool
    """It says that nothing is to be done, or weakened tests: that needs a judge."""

    @property
    def fine(self) -> bool:
        return self.status is TaskStatus.SYNTAX_VALID


def judged(task: str, report: Report) -> tuple[TaskStatus, str]:
    """How an attempt at a task ended, and what the next one is told of it."""
    if report.conflicts:
        texts = "\n".join(f"{path}:\n{text}" for path, text in report.conflicts.items())
        return TaskStatus.REJECTED, f"{IN_CONFLICT}\n{texts[:SHOWN_OF_OUTPUT]}"
    if report.violations:
        error = f"Task {task} modified files outside its scope: {', '.join(report.violations)}"
        return TaskStatus.REJECTED, f"{error}\n\n{report.outside_patch}".rstrip()
    if report.outcome is Outcome.OK:
        return TaskStatus.SYNTAX_VALID, ""
    why = "\n".join(filter(None, (report.detail, *report.complaints, str((report.data or {}).get("notes") or ""))))
    known = {"REJECTED": TaskStatus.REJECTED, "SYNTAX_ERROR": TaskStatus.SYNTAX_ERROR}
    return known.get(report.token or "", TaskStatus.ERROR), why or str(report.reason)


class Execution:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.run = ledger.run
        self._short = False
        """The one task is given to the Developer, and accepted without a review (O5.0)."""

    async def all_groups(self) -> bool:
        """O5: every group in the order of the graph. True if the short cut accepted the work by itself."""
        ledger = self.ledger
        if ledger.phase is not Phase.TASK_EXECUTION:
            await ledger.enter(Phase.TASK_EXECUTION, "O5")
        graph = await ledger.graph()
        self._short = self._may_cut_short(graph)
        for group in graph.order:
            with self.run.step(f"group-{group.letter}"):
                await self._group(group)
        if self._short:
            report = accepting("auto-accept-trivial", stamp(self.run.now()), notes=AUTO_ACCEPT_NOTES)
            await self.run.write(ledger.report_path, render_yaml(report), anew=True)
            ledger.log("trivial.auto_accept", task=next(iter(graph.tasks)))
        return self._short

    # -- O5.0

    def _may_cut_short(self, graph: Graph) -> bool:
        meant = self.ledger.fast_path and self.ledger.data["cycle_acceleration_mode"] == "trivial_graph"
        if not meant or not is_trivial(graph):
            return False
        (task,) = graph.tasks.values()
        return task.status in UNDONE and next_attempt(task) == 1

    async def _go_the_long_way(self) -> None:
        """The graph proved not to be trivial: the next attempt is an executor's, and a review is needed."""
        if self._short:
            self._short = False
            await self.ledger.change({("cycle_acceleration_mode",): "standard"})

    # -- O5.1 to O5.3

    async def _group(self, group: Group) -> None:
        ledger, graph = self.ledger, await self.ledger.graph()
        if graph.is_done(group):
            return
        started = self.run.now()
        ledger.log("group.start", group=group.letter, strategy=group.strategy.value, tasks=group.tasks)
        await self._count(graph, group)
        async for _ in self.run.loop("round", cap=(ATTEMPTS + 1) * (len(group.tasks) + 1)):
            graph, worked = await self._round(group, graph)
            elapsed = minutes_between(started, self.run.now()) or 0.0
            if graph.is_done(group):
                break
            await self._go_the_long_way()
            await self._check_attempts(graph, group)
            graph = await self._amend(graph, group)
            await self._count(graph, group)
        ledger.log("group.end", group=group.letter, minutes=elapsed)
        done: FieldChanges = {
            ("metrics", "latest_group_cycle_minutes_estimate"): elapsed,
            ("current_task_id",): None,
            ("current_task_attempt",): 0,
        }
        await ledger.count({**ledger.counted(graph, minutes=elapsed), **done})
        if any(result.unseen for result in worked.values()):
            await self._go_the_long_way()

    async def _count(self, graph: Graph, group: Group) -> None:
        rejected = [task.id for task in graph.of(group) if task.status in UNDONE and task.attempt]
        await self.ledger.count(self.ledger.counted(graph), rejected)

    async def _check_attempts(self, graph: Graph, group: Group) -> None:
        """No attempt left: the run pauses until a person says otherwise."""
        tired = exhausted(graph.of(group), ATTEMPTS)
        if not tired:
            return
        first = tired[0]
        self.ledger.log("task.max_attempts", task=first.id, attempt=first.attempt)
        await self.ledger.change({("current_task_id",): first.id, ("current_task_attempt",): first.attempt})
        self.ledger.stops_as = RunStatus.PAUSED
        said = f"PAUSED: task {first.id} failed {ATTEMPTS} attempts\n{first.entry.get('last_error') or ''}".rstrip()
        raise Stop(Ending.stopped(f"{said}\nAs many again with: {self.ledger.again} --retry"))

    async def _amend(self, graph: Graph, group: Group) -> Graph:
        """Ask the Planner, once in an iteration, about files that attempts needed again and again and no task has."""
        ledger = self.ledger
        needed = {task.id: again for task in graph.of(group) if task.status in UNDONE and (again := refused(task))}
        if not needed or ledger.entry.get("amended"):
            return graph
        limits = await limits_of(ledger)
        forgotten = {
            name: [path for path in paths if not limits.problem(path) and not steers_checks(path)]
            for name, paths in needed.items()
        }
        if not any(forgotten.values()):
            return graph
        await ledger.change({("iterations", ledger.place, "amended"): True})
        ledger.log("tasks.amended", refused=forgotten)
        with self.run.step("amend"):
            spec = ledger.briefs.amendment(graph, forgotten)
            report = await ledger.ask(spec)
        (path,) = spec.owed
        if report.outcome is not Outcome.OK:
            self.run.warn(failure("Planner", report, path))
            return graph
        added = added_files(report.text(path))
        ledger.tell(f"added to the tasks: {', '.join(path for paths in added.values() for path in paths) or 'nothing'}")
        return await ledger.mark(
            {name: {"files_to_modify": [*graph.tasks[name].files, *paths]} for name, paths in added.items() if paths}
        )

    async def _round(self, group: Group, graph: Graph) -> tuple[Graph, Mapping[str, TaskResult]]:
        """One round: what needs work is worked on, then the group is judged on what is on disk."""
        worked: dict[str, TaskResult] = {}
        limit = max(1, int(self.ledger.data["max_parallel_tasks"]))
        for number, batch in enumerate(batches(group, graph, limit), 1):
            with self.run.step(f"batch-{number}"):
                worked |= await self._batch(group, batch)
        parallel = group.strategy is Strategy.PARALLEL
        await self.ledger.mark(
            {
                name: await self._valid(graph.tasks[name], result) if result.fine else _rejected(result, result.error)
                for name, result in worked.items()
                if parallel or not result.fine
            }
        )
        graph = await self.ledger.graph()
        tasks = graph.of(group)
        if parallel:
            undone = any(task.status in UNDONE for task in tasks)
            ready = [] if undone else [task for task in tasks if task.status is TaskStatus.SYNTAX_VALID]
        else:
            ready = [task for task in tasks if task.id in worked and worked[task.id].fine]
        if not ready:
            return graph, worked
        if red := await validate(self.ledger, graph, group.letter):
            return await self._blame(red.output, tasks if parallel else ready, ready, worked), worked
        return await self._accept(ready, worked), worked

    async def _batch(self, group: Group, batch: Sequence[Task]) -> dict[str, TaskResult]:
        """Attempts one after the other or side by side, counted before they start; their work comes into the tree in
        the order of the group."""
        now = self.run.now()
        begun = {
            task.id: {
                "status": TaskStatus.IN_PROGRESS.value,
                "attempt": next_attempt(task),
                "started_at": task.entry.get("started_at") or stamp(now),
            }
            for task in batch
        }
        graph = await self.ledger.mark(begun)
        current = next(task for task in graph.of(group) if task.status is not TaskStatus.ACCEPTED)
        shown: FieldChanges = {("current_task_id",): current.id, ("current_task_attempt",): current.attempt}
        await self.ledger.change(shown, now=now)
        tasks = [graph.tasks[task.id] for task in batch]
        if group.strategy is Strategy.SEQUENTIAL:
            reports = {task.id: await self._attempt(group, task, graph) for task in tasks}
        else:
            members = {task.id: partial(self._attempt, group, task, graph) for task in tasks}
            reports = await self.run.cluster("tasks", members, cap=len(members))
        await self.ledger.check_head(", ".join(reports))
        return {task.id: self._result(task, reports[task.id]) for task in tasks}

    async def _attempt(self, group: Group, task: Task, graph: Graph) -> Report:
        """A call of who does the task; it goes on with what an attempt of this run, or of the one that it continues,
        left: the workspace still has it."""
        if self._short:
            return await self.ledger.ask(self.ledger.briefs.developer(task, graph.policy))
        left = task.entry.get("unfinished")
        here = (self.run.identity.run_id, self.run.identity.continues)
        work = left.get("work") if isinstance(left, dict) and left.get("run") in here else None
        spec = self.ledger.briefs.executor(task, graph.policy, attempt=task.attempt, strategy=group.strategy)
        return await self.ledger.ask(replace(spec, starts_from=work))

    def _result(self, task: Task, report: Report) -> TaskResult:
        """What an attempt came to; what of its work did not come into the tree is kept for the next one."""
        status, error = judged(task.id, report)
        facts: dict[str, Any] = {}
        first = moment_of((report.data or {}).get("first_code_change_at"))
        if first or report.changes:
            facts["first_code_change_at"] = stamp(first or self.run.now())
        if report.violations and not report.conflicts:
            facts["refused_files"] = [*(task.entry.get("refused_files") or ()), list(report.violations)]
        left = None if report.accepted else report.work
        if left or task.entry.get("unfinished"):
            facts["unfinished"] = {"run": self.run.identity.run_id, "work": left} if left else None
        came = report.accepted and not report.conflicts and not report.violations
        facts["changed_files"] = sorted({*(changed_files(task) or ()), *(report.changes if came else ())})
        return TaskResult(status, error, facts, bool(report.no_change or report.weakened))

    # -- judging

    async def _accept(self, tasks: Sequence[Task], worked: Mapping[str, TaskResult]) -> Graph:
        """Green: these tasks are accepted, and what their files are now is put down."""
        now = stamp(self.run.now())
        done = {"status": TaskStatus.ACCEPTED.value, "completed_at": now, "last_error": None}
        marks: dict[str, dict[str, Any]] = {
            task.id: {**done, **(worked[task.id].facts if task.id in worked else {})} for task in tasks
        }
        for task in (await self.ledger.graph()).tasks.values():
            touched = task.status is TaskStatus.ACCEPTED and any(share_files(task, other) for other in tasks)
            if task.id in marks or touched:
                digest = await files_digest(self.run, literal_files(task))
                marks.setdefault(task.id, {})["files_sha256"] = digest
        return await self.ledger.mark(marks)

    async def _blame(
        self, output: str, group: Sequence[Task], ready: Sequence[Task], worked: Mapping[str, TaskResult]
    ) -> Graph:
        """Red: whose files the output names is rejected; an accepted task only once."""
        names = self.run.decide(blamed, output, group, ready)
        tasks = [task for task in group if task.id in names]
        tries = ", ".join(f"{task.id} (attempt {task.attempt} of {ATTEMPTS})" for task in tasks)
        self.ledger.tell(f"failed: {tries}{'; no short cut any more' if self._short else ''}")
        set_back = {task.id: {"set_back": True} for task in tasks if task.status is TaskStatus.ACCEPTED}
        return await self.ledger.mark(
            {name: {**_rejected(worked.get(name), output), **set_back.get(name, {})} for name in names}
        )

    async def _valid(self, task: Task, result: TaskResult) -> dict[str, Any]:
        """Not accepted yet; what its files are now is put down, for whoever goes on without a journal."""
        digest = await files_digest(self.run, literal_files(task))
        return {"status": result.status.value, "files_sha256": digest, **result.facts}


def _rejected(result: TaskResult | None, why: str) -> dict[str, Any]:
    """What is put down of a task that is to be done again: how its attempt ended, if that was not well, and why."""
    status = result.status if result and not result.fine else TaskStatus.REJECTED
    return {"status": status.value, "last_error": why[-SHOWN_OF_OUTPUT:], **(result.facts if result else {})}
