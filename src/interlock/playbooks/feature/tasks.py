"""The tasks of the plan: taken from its files, carried out in waves, sent back for fixes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from interlock.engine import Scope
from interlock.playbooks.feature.briefs import Brief
from interlock.playbooks.feature.clusters import BLOCKING, Panel
from interlock.playbooks.feature.crew import Crew
from interlock.playbooks.feature.decisions import Concern, Onward, Result, affected_tasks, after_group, groups
from interlock.playbooks.feature.findings import Finding, findings, joined
from interlock.playbooks.feature.layout import TaskAgent
from interlock.playbooks.feature.memory_file import MemoryFile, parse_memory
from interlock.playbooks.feature.plan import PlanInvalid, Task, Wave, next_id, read_plan, to_do
from interlock.playbooks.feature.progress import Progress, TaskState

AT_ONCE = 4
"""Tasks in one sub-wave."""
BARRIER: Final = "barrier"
EAGER: Final = "eager"
"""Whether a sub-wave is awaited before the next one starts."""
CONFLICT_SHOWN = 4000
"""Characters of a merge conflict that the planner is shown."""


# -- the plan


def planner(crew: Crew, judges: Sequence[str], failure: str) -> Brief:
    """`failure`: why the plan before this one does not stand."""
    first = next_id(crew.tasks)
    if not judges:
        return crew.desk.planner(first, constraints=crew.constraints, failure=failure)
    wave, patches = crew.plan.last_wave + 1, crew.left_behind
    state = "\n".join(
        [
            crew.state_of_tasks,
            *(f"{one}: what it changed was not taken over: {patch}" for one, patch in patches.items()),
        ]
    )
    return crew.desk.replanner(
        first,
        wave,
        judges,
        list(crew.tasks),
        state=state,
        why=(*crew.against, *crew.disproved),
        proofs=crew.proofs,
        patches=tuple(patches.values()),
        failure=failure,
    )


async def take_plan(crew: Crew, after: int, written: Collection[str] | None = None) -> str:
    """Adopt plan and tasks as they are now, if they hold; else the complaint.

    Args:
        written: what the planner wrote just now. Other task files that no plan which was carried out lists, and this
            one does not either, are left of plans that did not stand: they are set aside.
    """
    run, at = crew.run, crew.at
    text = (await run.read(at.plan)).text
    paths = await run.list(at.tasks, "*.md")
    tasks = {path.rsplit("/", 1)[-1].removesuffix(".md"): (await run.read(path)).text for path in paths}
    done = crew.done_tasks
    try:
        waves = to_do(text, done, after)
        listed = {one for _, ids in waves for one in ids}
        unknown = sorted(set(tasks) - listed - set(crew.tasks)) if written is not None else ()
        for one in (one for one in unknown if at.task(one) not in (written or ())):
            await run.set_aside(at.task(one))
            del tasks[one]
        plan = read_plan(text, tasks, done=done, after=after)
    except PlanInvalid as error:
        run.warn(error.what)
        return error.what
    if dropped := [one for one in crew.tasks if one not in done and one not in listed]:
        run.note("tasks.dropped", tasks=dropped)
    crew.adopt(plan)
    return ""


# -- waves


async def carry_out(crew: Crew, wave: Wave, scheduling: str) -> bool:
    """One wave in sub-waves, each awaited fully, or all at once where they shall not wait for each other: the engine
    has no more than four at work. Whether the waves end here."""
    run, stop = crew.run, False
    parts = groups([task.id for task in wave.tasks], AT_ONCE if scheduling == BARRIER else len(wave.tasks))
    for piece in in_pieces(needs(crew, wave)):
        run.note("schedule", part=f"wave {wave.number}", policy=scheduling, at_once=AT_ONCE, needs=piece)
    memories: dict[str, MemoryFile | None] = {}
    for number, part in enumerate(parts, start=1):
        name = f"wave-{wave.number}" + (f"-{number}" if len(parts) > 1 else "")
        memories |= await work(crew, name, [crew.tasks[one] for one in part], crew.desk.worker)
        failed = [one for one in part if not crew.is_done(one)]
        implementer = any(crew.tasks[one].worker is TaskAgent.IMPLEMENTER for one in failed)
        states = crew.task_state
        pending = {one.id: one.depends_on for one in crew.plan.tasks if states[one.id].progress is Progress.PENDING}
        lost = [one for one, state in states.items() if state.failed]
        if stop := run.decide(after_group, implementer, lost, pending) is Onward.VERIFY:
            break
    await crew.merge(memories, lessons=True)
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


def needs(crew: Crew, wave: Wave) -> dict[str, list[str]]:
    """Whom each task agent of the wave must wait for; what earlier plans finished is waited for no more."""
    known = {task.id: task.member for task in crew.plan.tasks}
    return {task.member: [known[one] for one in task.depends_on if one in known] for task in wave.tasks}


async def work(
    crew: Crew, name: str, tasks: Sequence[Task], brief: Callable[[Task], Brief]
) -> dict[str, MemoryFile | None]:
    """Task agents side by side; what they did comes into the tree in declared order.

    Returns the private memory of each, whether or not its work was taken over.
    """
    run = crew.run
    await crew.clear([task.member for task in tasks])
    heard = await crew.side_by_side(name, [brief(task) for task in tasks], "wave", crew.rounds)
    memories: dict[str, MemoryFile | None] = {}
    for task in tasks:
        one = heard[task.member]
        path = crew.at.mem(task.member)
        memories[task.member] = parse_memory(one.report.text(path)) if path in one.report.artifacts else None
        state = TaskState(Progress.DONE) if one.done else TaskState(Progress.FAILED, one.why)
        if conflicts := one.report.conflicts:
            paths = ", ".join(conflicts)
            run.note("task.conflict", task=task.id, paths=list(conflicts))
            shown = "\n".join(conflicts.values())[:CONFLICT_SHOWN]
            state = TaskState(Progress.FAILED, f"merge conflict in {paths}", shown)
            crew.lasting.append(f"{task.member}: merge conflict in {paths}")
        if one.report.accepted:
            crew.changed |= set(one.report.changes)
        elif one.report.patch:
            crew.task_patch[task.id] = one.report.patch
        crew.task_state[task.id] = state
        run.note("task", task=task.id, state=state.shown)
    outcome = Result.DONE if all(crew.is_done(task.id) for task in tasks) else Result.ERROR
    crew.summarize(crew.walk.stage.number, name, list(heard.values()), outcome)
    return memories


# -- fixes


async def fix_tasks(crew: Crew, panel: Panel) -> None:
    """Send the tasks that the reviewers' findings concern back to their agents, with these findings."""
    run = crew.run
    wanting = [name for name in BLOCKING if panel.reviews[name].wants_change]
    found = {name: findings((await run.read(crew.at.output(name))).text) for name in wanting}
    concerns = [concern_of(crew, name, panel.memories[name] or MemoryFile(), found[name]) for name in wanting]
    affected = run.decide(affected_tasks, concerns, {task.id: task.files for task in crew.tasks.values()})
    run.note("review.fix", tasks=list(affected), reviewers=wanting)
    crew.rounds += 1
    everything = [one for some in found.values() for one in some]
    memories: dict[str, MemoryFile | None] = {}
    for number, part in enumerate(groups(affected, AT_ONCE), start=1):
        brief = partial(fix_brief, crew, everything, wanting)
        memories |= await work(crew, f"fix-{number}", [crew.tasks[one] for one in part], brief)
    await crew.merge(memories, lessons=True, step="7")


def concern_of(crew: Crew, name: str, memory: MemoryFile, found: Sequence[Finding]) -> Concern:
    """What a reviewer wants changed, with a warning for tasks that it made up."""
    for task in memory.tasks:
        if task not in crew.tasks:
            crew.run.warn(f"{name}: Affected Tasks lists {task}; no such task")
    named = memory.tasks or tuple(task for one in found for task in one.tasks)
    return Concern(named, tuple(path for one in found for path in one.files))


def fix_brief(crew: Crew, everything: Sequence[Finding], reviews: Sequence[str], task: Task) -> Brief:
    """The findings that concern a task: those that name it or its files, and those that name neither."""
    mine = Scope(task.files) if task.files else None
    some = [
        one
        for one in everything
        if task.id in one.tasks or (mine and any(map(mine.covers, one.files))) or not (one.tasks or one.files)
    ]
    return crew.desk.fixer(task, joined(some or everything) or "See the reviews.", reviews)
