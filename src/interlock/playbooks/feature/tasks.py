"""The tasks of the plan: taken from its files, carried out in waves, sent back for fixes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from interlock.engine import Scope
from interlock.playbooks.feature.briefs import Brief
from interlock.playbooks.feature.clusters import Panel
from interlock.playbooks.feature.decisions import ClusterResult, Concern, Onward, affected_tasks, after_group, groups
from interlock.playbooks.feature.findings import Finding, findings, joined
from interlock.playbooks.feature.members import CT, RESEARCH, TaskAgent
from interlock.playbooks.feature.memory_file import MemoryFile, parse_memory
from interlock.playbooks.feature.plan import (
    PlanInvalid,
    Task,
    TaskProgress,
    TaskState,
    Wave,
    next_id,
    read_plan,
    to_do,
)
from interlock.playbooks.feature.shared_memory import Memories
from interlock.playbooks.feature.work import BARRIER, Work

AT_ONCE = 4
"""Tasks in one sub-wave."""
CONFLICT_SHOWN = 4000
"""Characters of a merge conflict that the planner is shown."""


# -- the plan


def planner(work: Work, judges: Sequence[str], failure: str) -> Brief:
    """`failure`: why the plan before this one does not stand."""
    tasks, members = work.tasks, work.members
    first = next_id(tasks.listed)
    if not judges:
        names = members.names(RESEARCH), members.names(CT)
        return work.briefs.planner(first, *names, constraints=work.constraints, failure=failure)
    patches, last = tasks.left_behind, work.verification
    lines = (f"{one}: what it changed was not taken over: {patch}" for one, patch in patches.items())
    return work.briefs.replanner(
        first,
        tasks.plan.last_wave + 1,
        judges,
        replace(work.known, state="\n".join([tasks.shown, *lines])),
        why=(*last.against, *last.disproved) if last is not None else (),
        patches=tuple(patches.values()),
        failure=failure,
    )


async def take_plan(work: Work, after: int, written: Collection[str] | None = None) -> str:
    """Adopt plan and tasks as they are now, if they hold; else the complaint.

    Args:
        written: what the planner wrote just now. Other task files that no plan which was carried out lists, and this
            one does not either, are left of plans that did not stand: they are set aside.
    """
    run, at, known = work.run, work.at, work.tasks
    text = (await run.read(at.plan)).text
    paths = await run.list(at.tasks, "*.md")
    tasks = {path.rsplit("/", 1)[-1].removesuffix(".md"): (await run.read(path)).text for path in paths}
    done = known.done
    try:
        waves = to_do(text, done, after)
        listed = {one for _, ids in waves for one in ids}
        unknown = sorted(set(tasks) - listed - set(known.listed)) if written is not None else ()
        for one in (one for one in unknown if at.task(one) not in (written or ())):
            await run.set_aside(at.task(one))
            del tasks[one]
        plan = read_plan(text, tasks, done=done, after=after)
    except PlanInvalid as error:
        run.warn(error.what)
        return error.what
    if dropped := [one for one in known.listed if one not in done and one not in listed]:
        run.note("tasks.dropped", tasks=dropped)
    known.adopt(plan)
    return ""


# -- waves


async def carry_out(work: Work, wave: Wave) -> bool:
    """One wave in sub-waves, each awaited fully, or all at once where they shall not wait for each other: the engine
    has no more than four at work. Whether the waves end here."""
    run, tasks, scheduling, stop = work.run, work.tasks, work.inputs.scheduling, False
    parts = groups([task.id for task in wave.tasks], AT_ONCE if scheduling == BARRIER else len(wave.tasks))
    known = {task.id: task.member for task in tasks.plan.tasks}  # what earlier plans finished is waited for no more
    needs = {task.member: [known[one] for one in task.depends_on if one in known] for task in wave.tasks}
    for piece in in_pieces(needs):
        run.note("schedule", part=f"wave {wave.number}", policy=scheduling, at_once=AT_ONCE, needs=piece)
    memories: dict[str, MemoryFile | None] = {}
    for number, part in enumerate(parts, start=1):
        name = f"wave-{wave.number}" + (f"-{number}" if len(parts) > 1 else "")
        memories |= await do_tasks(work, "5", name, part, work.briefs.worker)
        lost = tasks.of(TaskProgress.FAILED)
        implementer = any(one in lost and tasks.listed[one].worker is TaskAgent.IMPLEMENTER for one in part)
        pending = {one: tasks.listed[one].depends_on for one in tasks.of(TaskProgress.PENDING)}
        if stop := run.decide(after_group, implementer, lost, pending) is Onward.VERIFY:
            break
    await work.memory.merge(memories, lessons=True)
    return stop


def in_pieces(waits_for: Mapping[str, list[str]], most: int = 60) -> Iterator[dict[str, list[str]]]:
    """The same in parts of so many names, so that each fits into a line of the journal."""
    piece: dict[str, list[str]] = {}
    for member, others in waits_for.items():
        if piece and sum(1 + len(one) for one in piece.values()) + 1 + len(others) > most:
            yield piece
            piece = {}
        piece[member] = others
    if piece:
        yield piece


async def do_tasks(work: Work, step: str, name: str, ids: Sequence[str], brief: Callable[[Task], Brief]) -> Memories:
    """Task agents side by side; what they did comes into the tree in declared order.

    Returns the private memory of each, whether or not its work was taken over.
    """
    run, known = work.run, work.tasks
    tasks = [known.listed[one] for one in ids]
    heard = await work.calls.together(name, map(brief, tasks), "wave", known.rounds)
    memories: dict[str, MemoryFile | None] = {}
    for task in tasks:
        one = heard[task.member]
        path = work.at.mem(task.member)
        memories[task.member] = parse_memory(one.report.text(path)) if path in one.report.artifacts else None
        state = TaskState(TaskProgress.DONE) if one.done else TaskState(TaskProgress.FAILED, one.why)
        if conflicts := one.report.conflicts:
            paths = ", ".join(conflicts)
            run.note("task.conflict", task=task.id, paths=list(conflicts))
            shown = "\n".join(conflicts.values())[:CONFLICT_SHOWN]
            state = TaskState(TaskProgress.FAILED, f"merge conflict in {paths}", shown)
            work.calls.lasting.append(f"{task.member}: merge conflict in {paths}")
        if one.report.accepted:
            known.changed |= set(one.report.changes)
        elif one.report.patch:
            known.patches[task.id] = one.report.patch
        known.states[task.id] = state
        run.note("task", task=task.id, state=state.shown)
    work.calls.summarize(step, name, heard, ClusterResult.DONE if known.done.issuperset(ids) else ClusterResult.ERROR)
    return memories


# -- fixes


async def fix_tasks(work: Work, panel: Panel) -> None:
    """Send the tasks that the reviewers' findings concern back to their agents, with these findings."""
    run, tasks, wanting = work.run, work.tasks, panel.wanting(work)
    found = {name: findings((await run.read(work.at.output(name))).text) for name in wanting}
    concerns = [concern_of(work, name, panel.round.memories[name] or MemoryFile(), found[name]) for name in wanting]
    affected = run.decide(affected_tasks, concerns, {task.id: task.files for task in tasks.listed.values()})
    run.note("review.fix", tasks=list(affected), reviewers=wanting)
    tasks.rounds += 1
    everything = [one for some in found.values() for one in some]

    def brief(task: Task) -> Brief:
        return work.briefs.worker(task, concerning(task, everything) or "See the reviews.", wanting)

    memories: dict[str, MemoryFile | None] = {}
    for number, part in enumerate(groups(affected, AT_ONCE), start=1):
        memories |= await do_tasks(work, "7", f"fix-{number}", part, brief)
    await work.memory.merge(memories, lessons=True)


def concern_of(work: Work, name: str, memory: MemoryFile, found: Sequence[Finding]) -> Concern:
    """What a reviewer wants changed, with a warning for tasks that it made up."""
    for task in memory.tasks:
        if task not in work.tasks.listed:
            work.run.warn(f"{name}: Affected Tasks lists {task}; no such task")
    named = memory.tasks or tuple(task for one in found for task in one.tasks)
    return Concern(named, tuple(path for one in found for path in one.files))


def concerning(task: Task, everything: Sequence[Finding]) -> str:
    """The findings that concern a task: those that name it or its files, and those that name neither."""
    mine = Scope(task.files) if task.files else None
    some = [
        one
        for one in everything
        if task.id in one.tasks or (mine and any(map(mine.covers, one.files))) or not (one.tasks or one.files)
    ]
    return joined(some or everything)
