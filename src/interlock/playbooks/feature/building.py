"""Plans, and steps 5 to 7: waves of tasks, verified, reviewed; what is wanting is planned again, within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from interlock.engine.forms import Given
from interlock.engine.prompts import fence
from interlock.engine.run import Stop
from interlock.playbooks.feature import decisions, members
from interlock.playbooks.feature.answers import Judged, Worked, criteria_of, grown
from interlock.playbooks.feature.decisions import LOST, Move, Reviewed, Said
from interlock.playbooks.feature.members import V_BUILD, V_OTHERS, VERIFIERS, WEIGHED, Agent
from interlock.playbooks.feature.plan import Plan, PlanBroken, Task, read_plan, sample
from interlock.playbooks.feature.work import Heard, Progress, Work

REPLANS = 3


# --- 4. Planning


async def plan(work: Work, *, reads: Sequence[str], mode: str = "", human: bool = False, **texts: str) -> None:
    """A plan that holds, with its task files; the first one, or one in place of what did not pass.

    Args:
        texts: what else the planner is told: `refused`, `found`.
    """
    known = await task_files(work) if mode else {}
    before = await work.run.read(work.at("plan.md")) if mode or texts else None
    begun = [name for name, one in work.progress.items() if one.done]

    def check(given: Given) -> list[str]:
        files = known | {
            _stem(path): text for path, text in given.outputs.items() if path.startswith(work.at("tasks/"))
        }
        for path in given.gone:
            files.pop(_stem(path), None)
        try:
            made = read_plan(given.outputs.get(work.at("plan.md"), before), files, begun=begun)
        except PlanBroken as broken:
            return list(broken.args)
        return [] if made.waves else ["plan.md: it leaves nothing to be done"]

    work.rounds["plan"] += 1
    free = next(name for n in count(len(work.tasks) + 1) if (name := f"T{n:02}") not in work.tasks)
    told = {"refused": "", "found": "", **texts, "constraints": work.constraints, "states": states(work)}
    with work.run.step("4"):
        heard = await work.alone(
            members.PLANNER,
            again=work.rounds["plan"],
            human=human,
            reads=reads,
            check=check,
            leaves=(work.at("tasks/*.md"),),
            samples=sample(work.at("").rstrip("/"), free),
            mode=mode,
            first=free,
            texts=told,
        )
        if heard.form is None:
            raise work.halted(heard.why)
        await work.merge("4", [heard])
    await take_plan(work, begun)


async def replan(work: Work, judges: Sequence[Agent], why: str) -> None:
    """Pattern C: entries of the judges are marked, the planner gets their memories and what they found (FT-49)."""
    await work.invalidate({one.name for one in judges}, why)
    said = work.last(judges)
    found = [f"- {name}: {line}" for name, one in said.items() for line in one.findings]
    found += [f"- {one.why}" for one in said.values() if one.form is None]
    found += [f"- {line}" for line in work.against]
    judged = (*(f"memory/{one.name}.mem.md" for one in judges), *(one.artifact for one in judges))
    reads = (*judged, "plan.md", *members.PLANNER.reads, "tasks/*.md")
    await plan(work, reads=reads, mode="REPLAN", found="\n".join(found))


def states(work: Work) -> str:
    """How the tasks stand, with what failed ones had changed."""
    every = work.progress.items()
    left = [f"\nWhat {name} had changed:\n\n{fence(one.left, 'diff')}" for name, one in every if one.left]
    return "\n".join([*(f"- {name}: {one.state}" for name, one in every), *left])


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


async def task_files(work: Work, *, aside: bool = False) -> dict[str, str]:
    """The task files as they stand, by id; `aside`: and they are moved out of the way."""
    found = {}
    for name in await work.run.names(work.at("tasks"), "*.md"):
        path = work.at(f"tasks/{name}")
        found[_stem(name)] = await work.run.read(path) or ""
        if aside:
            await work.run.set_aside(path)
    return found


async def take_plan(work: Work, begun: Sequence[str]) -> Plan:
    """The plan as it stands now, a person's changes in it: tasks that are not begun are those of this plan. One that
    does not hold stops the run (4.9)."""
    run = work.run
    with run.step("5.1"):
        try:
            found = read_plan(await run.read(work.at("plan.md")), await task_files(work), begun=begun)
        except PlanBroken as broken:
            raise Stop(work.stopped("; ".join(broken.args))) from None
    for name in [name for name in found.added if name not in work.progress]:
        run.warn(f"{name} stands in no wave: it is added as the last one")
    for name, task in found.tasks.items():
        if task.agent != task.worker and name not in work.tasks:
            run.warn(f'{name}: unknown agent "{task.agent}"; using implementer')
    listed = [*(name for name in work.progress if name in begun), *(name for wave in found.waves for name in wave)]
    work.progress = {name: work.progress.get(name) or Progress() for name in listed}
    work.tasks |= found.tasks
    work.there = {path for path in work.there if not path.startswith("tasks/")}
    work.there |= {f"tasks/{name}.md" for name in found.tasks}
    return found


# --- 5. Implementation in waves


async def implement(work: Work) -> None:
    """Wave after wave, each read anew; a failed implementer ends them, and verification finds out what is missing."""
    run = work.run
    begun, lost = [name for name, one in work.progress.items() if one.done], list[Task]()
    async for _ in run.loop("wave"):
        found = await take_plan(work, begun)
        if not found.waves:
            return
        failed = {name for name, one in work.progress.items() if one.tried and not one.done}
        if any(failed & set(found.tasks[name].depends_on) for name in found.waves[0]):
            return
        with run.step("5.2"):
            for group in decisions.groups(found.waves[0]):
                begun += group
                now = await carry_out(work, "tasks", [found.tasks[name] for name in group])
                work.decided = run.scope if now and not lost else work.decided
                lost += now
                if any(task.worker == "implementer" for task in now):
                    return


async def carry_out(
    work: Work, name: str, tasks: Sequence[Task], findings: Mapping[str, str] | None = None
) -> list[Task]:
    """A sub-wave, awaited as a whole; those of its tasks that failed."""
    run, failed = work.run, []

    asked: dict[str, Callable[[], Awaitable[Heard]]] = {}
    for task in tasks:
        worker, stands = members.WORKERS[task.worker], work.progress[task.id]
        worker = replace(worker, step="7.4") if findings else worker
        stands.tried += 1
        found = (findings or {}).get(task.id, "")
        reviewed = ("review/r-quality.md", "review/r-testing.md") if found else ()
        asked[task.member] = partial(
            work.ask,
            worker,
            member=task.member,
            again=stands.tried,
            reads=(f"tasks/{task.id}.md", *worker.reads, *reviewed),
            writes=task.scope,
            task=task.id,
            texts={"left": stands.left, "findings": found},
        )
    heard = await work.together(name, asked)
    work.undelivered = ""
    for task in tasks:
        one, stands, why = heard[task.member], work.progress[task.id], ""
        changed = any(not path.startswith("docs/feature/") for path in one.report.paths)
        if not isinstance(one.form, Worked):
            why = one.fault
        elif not changed and not (findings and stands.done):
            # Who was done and is only asked to settle findings may have nothing to settle: the reviewers look again.
            why = await run.idle(one.form.already_so)
            shown = f"{task.id} changed nothing: {', '.join(one.form.already_so)} shows that it is so already"
            work.errors += [] if why else [shown]
        stands.state, stands.left = f"failed: {why}" if why else "done", await run.left(one.report) if why else ""
        failed += [task] if why else []
    await work.merge("5.2", [one for one in heard.values() if one.form])
    if failed:
        await work.invalidate({task.member for task in failed}, "the task failed")
    return failed


# --- 6. Verification


async def verify(work: Work) -> None:
    """The V cluster, and at most three replans a run (Pattern C)."""
    if await verification(work) is Said.DONE:
        return
    async for _ in work.run.loop("replan", cap=REPLANS - work.replans):
        work.replans += 1
        await replan(work, VERIFIERS, "work is being replanned")
        await implement(work)
        if await verification(work) is Said.DONE:
            return


async def verification(work: Work) -> Said:
    """One pass: commands, then the build as a gate, then the three side by side (Pattern B)."""
    run = work.run
    with run.step("6"):
        for agent in VERIFIERS:
            await work.clear(agent)
        work.proved = await run.prove(work.commands)
        acceptance = {name: work.tasks[name].acceptance for name in work.progress}
        tasks = {f"{name}.{n}": text for name, given in acceptance.items() for n, text in enumerate(given, 1)}
        criteria = {"v-feature": criteria_of(await run.read(work.at("feature.md")) or ""), "v-tasks": tasks}
        known: dict[str, Any] = {"again": work.rounds["v"] + 1, "texts": {"states": states(work)}}
        with run.step("6.1"):
            heard = {"v-build": await work.alone(V_BUILD, **known)}
        if heard["v-build"].verdict.said is Said.DONE:
            with run.step("6.2"):
                asked = {one.name: partial(work.ask, one, criteria=criteria.get(one.name), **known) for one in V_OTHERS}
                heard |= await work.together("verifiers", asked)
        said = {one.name: heard[one.name].verdict if one.name in heard else LOST for one in VERIFIERS}
        build, *others = said.values()
        work.verified = run.decide(decisions.v_cluster, build=build, others=others, against=bool(work.against))
        said["v-build"] = build if build.said is Said.DONE else LOST
        values = ", ".join(f"V-{name[2:].title()}={one.said}" for name, one in said.items())
        await work.settle("6", "v", heard, work.verified, values)
        work.decided = run.scope if work.finished else work.decided
    return work.verified


# --- 7. Final review


async def build(work: Work) -> Reviewed:
    """Implement, verify, review; and once a run a fix pass by those whose work it is about."""
    run = work.run
    await implement(work)
    await verify(work)
    reviewed = await review(work)
    if run.decide(decisions.after_review, reviewed, work.fixed, work.replanned) is Move.FIX:
        async for _ in run.loop("fix"):
            work.fixed = True
            reviewed = await review(work, against=await mend(work))
    return reviewed


async def review(work: Work, against: bool = False) -> Reviewed:
    """The R cluster; what it accepts is delivered, where nothing that the engine knows is against it."""
    run, n = work.run, work.rounds["r"] + 1
    with run.step("7"):
        changes = await run.changed()
        tier, files = run.decide(decisions.review_tier, changes=changes), [one.path for one in changes]
        known: dict[str, Any] = {"again": n, "tier": tier, "files": files}
        before = {work.at(path): await run.read(work.at(path)) or "" for path in members.GROWING}
        grows = {path: f"{text.rstrip()}\n- Round {n}: an entry.\n".lstrip() for path, text in before.items()}
        kept: dict[str, Any] = {"leaves": tuple(before), "samples": grows, "grows": list(before)}
        asked = {one.name: partial(work.ask, one, **known) for one in WEIGHED}
        asked["r-knowledge"] = partial(work.ask, members.R_KNOWLEDGE, **known, **kept)
        with run.step("7.2"):
            heard = await work.together("reviewers", asked)
            await keep_growing(work, heard["r-knowledge"], before)
            first = heard["r-security"]
            if first.verdict.severity == "Blocker" and not work.confirmed:
                work.confirmed = True
                heard |= await work.together("confirm", {"r-security": asked["r-security"]})
                second = heard["r-security"]
                if second.verdict.severity != "Blocker":
                    work.flaws.append(f"r-security did not confirm its Blocker: {'; '.join(first.findings)}")
        said = {one.name: heard[one.name].verdict for one in WEIGHED}
        security, *others = said.values()
        reviewed = run.decide(decisions.r_cluster, security=security, others=others, against=against)
        words = ", ".join(f"R-{name[2:].title()}={one}" for name, one in said.items())
        words += f", R-Knowledge={heard['r-knowledge'].said} (non-blocking)"
        await work.settle("7", "r", heard, reviewed.logged, words)
        if work.against:  # it was decided before
            return reviewed
        if reviewed is not Reviewed.DONE:
            work.decided = run.scope
        else:
            work.undelivered = await deliver(work, n)
            reviewed = Reviewed.NEEDS_REVISION if work.undelivered else reviewed
    return reviewed


async def keep_growing(work: Work, one: Heard, before: Mapping[str, str]) -> None:
    """Decisions and suggestions only grow, whatever r-knowledge did to them (FT-32)."""
    for path in filter(before.get, one.report.paths):
        if (await work.run.change(path, partial(grown, before[path]))).state == "written":
            work.run.warn(f"{path}: earlier content changed; restored, new text appended")
    if one.said is not Said.DONE:
        work.run.warn(f"{one.member} gave nothing that counts; that changes nothing ({one.why})")


async def mend(work: Work) -> bool:
    """The fix pass (FT-103): each task agent concerned gets what was found; then the commands, or V once. Whether
    something speaks against the work still."""
    run, lost = work.run, False
    scopes = {name: work.tasks[name].scope for name in work.progress}
    found: dict[str, list[str]] = {name: [] for name in scopes}
    for name, one in work.last(WEIGHED).items():
        form = one.form
        if not isinstance(form, Judged) or not one.against:
            continue
        for task in [task for task in form.affected if task not in scopes]:
            run.warn(f"{name}: Affected Tasks lists {task}; no such task")
        tasks = [*form.affected, *(task for graded in form.findings for task in graded.tasks)]
        files = [path for graded in form.findings for path in graded.files]
        for task in run.decide(decisions.affected, named=tasks, files=files, scopes=scopes):
            found[task] += [f"- {name}: {line}" for line in one.findings or ["see its review"]]
    if work.undelivered or not any(found.values()):
        found = {name: [*lines, work.undelivered or "see the reviews"] for name, lines in found.items()}
    findings = {name: "\n".join(lines) for name, lines in found.items() if lines}
    await work.invalidate({one.name for one in WEIGHED}, "work is being mended")
    with run.step("7.4"):
        work.decided = run.scope if work.finished else work.decided
        for group in decisions.groups(list(findings)):
            lost = bool(await carry_out(work, "fixes", [work.tasks[name] for name in group], findings)) or lost
    if not work.commands:
        return await verification(work) is not Said.DONE or lost
    with run.step("6"):
        work.proved = await run.prove(work.commands)
    return bool(work.against)


async def deliver(work: Work, n: int) -> str:
    """What was accepted comes into the tree; why not, or nothing."""
    run = work.run
    if beside := run.against(await run.rest(work.commands)):
        return "; ".join(beside)
    landed = await run.land(work.commands, label=f"{n}-")
    work.proved = [*landed.proved]
    if landed.state == "away":
        work.flaws.append(f"another branch is checked out, so nothing was delivered: interlock apply {run.id}")
    return "; ".join(landed.against)
