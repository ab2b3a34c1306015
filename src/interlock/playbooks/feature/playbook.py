"""A feature request, from research to a reviewed change: the pipeline, a function per step of the seed.

Here are steps 0 to 4 and the playbook itself; 5 to 7 are in `building`, 8 in `closing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from interlock.documents.markdown import markdown
from interlock.documents.model import Model
from interlock.engine.playbook import Playbook
from interlock.engine.prompts import fence
from interlock.engine.run import Outcome, Run, Stop
from interlock.errors import BadInput
from interlock.playbooks.feature import decisions, members, memory
from interlock.playbooks.feature.answers import severity_of
from interlock.playbooks.feature.building import REPLANS, build, plan, replan, task_files
from interlock.playbooks.feature.closing import conclude, post_mortem
from interlock.playbooks.feature.decisions import ENOUGH, LONGEST, SLUG, Kind, Move, Said, slug_of
from interlock.playbooks.feature.forms import Judged
from interlock.playbooks.feature.invariants import INVARIANTS
from interlock.playbooks.feature.members import (
    CRITICS,
    CT_FOUND,
    DESIGNER,
    MEMORY,
    PLANNER,
    REQUEST,
    RESEARCHERS,
    Agent,
)
from interlock.playbooks.feature.work import Heard, Work

ROUNDS = 5
"""Times that a rejection sends work back."""
CAPS = {"ct": 1, "replan": REPLANS, "fix": 1, "full-replan": 1, "wave": 99, "research": ROUNDS + 1, "plan": ROUNDS + 1}
NO_PAUSE = "APPROVAL_MODE requested but interactive pause not supported — proceeding autonomously"


class Inputs(Model):
    """A feature request, and how it is handled."""

    request: str = Field(description="What the feature should be, in your words.")
    slug: str = Field("", description="Name of its folder; unset: from the request.")
    approval: bool = Field(False, description="Wait for a person after research and after the plan.")
    check: tuple[str, ...] = Field((), description="A command that decides; `none`: there is none.")
    accept_baseline: bool = Field(False, description="What is red before may stay red.")


class Flags(Model):
    """Of one process."""

    new_run: bool = Field(False, description="Run again although the feature's last run is DONE.")


class Settings(Model):
    """The table `[feature]`."""

    approval: bool = False
    approval_fallback: Literal["wait", "proceed"] = "wait"


async def feature(run: Run, inputs: Inputs) -> Outcome:
    """Research, specify, design, criticise, plan, implement, verify, review; then look back, which changes nothing."""
    work = Work(run, inputs)
    await setup(work)
    await research(work)
    await produce(work, members.SPEC)
    await design(work)
    await plan_first(work)
    reviewed = await build(work)
    if run.decide(decisions.after_review, reviewed, work.fixed, work.replanned) is Move.REPLAN:
        async for _ in run.loop("full-replan"):
            work.replanned = True
            await replan(work, [*members.WEIGHED, *members.VERIFIERS], "review asks for a full replan")
            reviewed = await build(work)
    ending = await conclude(work, reviewed)
    await post_mortem(work, ending)
    return ending


async def setup(work: Work) -> None:
    """Step 0. What an earlier run planned is set aside; the request and the shared memory are there."""
    run, inputs = work.run, work.inputs
    with run.step("0"):
        work.commands = await run.commands(inputs.check)
        await run.baseline(work.commands)
        if not work.commands:
            run.warn("no command checks this work: judges alone decide")
        run.watch(work.at(MEMORY))
        run.watch(work.at(REQUEST))
        await run.set_aside(work.at("plan.md"))
        await task_files(work, aside=True)
        asked = inputs.request.rstrip()

        def begun(text: str) -> str:
            head = text.rstrip() or "# Initial Request"
            return text if asked in text else f"{head}\n\n{asked}\n"

        await run.change(work.at(REQUEST), begun)
        path = work.at(MEMORY)
        found = await run.look("earlier", lambda look: memory.known_entries(look.read(path) or ""), path=path)
        work.old = frozenset(found)
        await work.remember()
        work.there |= {REQUEST, MEMORY}


async def research(work: Work) -> None:
    """Step 1. Four researchers, of whom two are enough; a person who does not approve is heard, and all work again."""

    async def explore(note: str = "") -> None:
        with work.run.step("1.1"):
            n = work.rounds["research"] + 1
            asked = {one.name: partial(work.ask, one, again=n, human=n > 1) for one in RESEARCHERS}
            heard = await work.together("researchers", asked)
            usable = [one for one in heard.values() if one.form]
            result = Said.DONE if len(usable) >= ENOUGH else Said.ERROR
            await work.settle("1.1", "research", heard, result)
            if result is Said.ERROR:
                why = "; ".join(dict.fromkeys(one.why for one in heard.values() if one.form is None))
                raise work.halted(f"research: {len(usable)} of {len(heard)} usable; at least {ENOUGH} required ({why})")

    await explore()
    shows = [work.at(one.artifact) for one in RESEARCHERS]
    await approved(work, "research", "Research is complete. Go on to the specification?", lambda: shows, explore)


async def approved(
    work: Work, name: str, question: str, shows: Callable[[], Sequence[str]], revise: Callable[[str], Awaitable[None]]
) -> None:
    """A person approves, where that is wanted, or it is revised with their words and shown again (FT-125, FT-134)."""
    run = work.run
    if not work.inputs.approval:
        return
    if run.once("approval_fallback", {}, lambda: run.settings.approval_fallback) == "proceed":
        run.warn(NO_PAUSE)
        return
    decided = await run.approve(
        name, question, revise, rounds=ROUNDS, summary=partial(summary, work), shows=lambda: tuple(shows())
    )
    if decided.choice == "reject":
        note = f"interlock resume {run.id} --note TEXT"
        raise Stop(Outcome.stopped(f"{name} was rejected: {decided.note}", next=note))


def summary(work: Work) -> str:
    """What the last agents say of their work."""
    last = {one.member: one.form.summary for one in work.heard if one.form}
    return "\n".join(f"- {name}: {said}" for name, said in last.items())


async def produce(work: Work, agent: Agent, **asked: Any) -> None:
    """A document that all else depends on: merged and on. Where its agent fails for good, the run stops there."""
    with work.run.step(agent.step):
        heard = await work.alone(agent, **asked)
        if heard.form is None:
            raise work.halted(heard.why)
        await work.merge(agent.step, [heard])


async def design(work: Work) -> None:
    """Steps 3 and 3b. What critics find goes back to the designer once, then to the planner as constraints."""
    run = work.run
    await produce(work, DESIGNER, revised=False)
    result, heard = await criticise(work)
    if result is Said.NEEDS_REVISION:
        async for _ in run.loop("ct"):
            stale = {"designer", *(one.name for one in CRITICS)}
            await work.remember(memory.invalidated(stale, "design is being revised"))
            await produce(work, DESIGNER, again=2, reads=(*CT_FOUND, *DESIGNER.reads, "design.md"), revised=True)
            result, heard = await criticise(work)
    if result is Said.NEEDS_REVISION:
        run.warn("the critics' findings are not settled: they go to the planner as constraints")
        work.constraints = "\n".join(line for one in heard.values() for line in constraints(work, one))


def constraints(work: Work, critic: Heard) -> list[str]:
    """What of a critic's findings binds the planner (FT-70)."""
    if not isinstance(critic.form, Judged) or not critic.against:
        return []
    grave = [f"{one.severity}: {one.title}" for one in critic.form.grave()] or critic.findings
    return [f"- `{work.at(critic.agent.artifact)}`: {one}" for one in grave or [critic.verdict.severity]]


async def criticise(work: Work) -> tuple[Said, Mapping[str, Heard]]:
    """The CT cluster, all four."""
    run = work.run
    with run.step("3b.1"):
        asked = {one.name: partial(work.ask, one, again=work.rounds["ct"] + 1) for one in CRITICS}
        heard = await work.together("critics", asked)
        severities = {name: one.verdict.severity for name, one in heard.items() if one.verdict.usable}
        result = run.decide(decisions.ct_cluster, severities=severities)
        if result is Said.ERROR:
            await run.wait(1.0)
            severities |= await reread(work, [one for one in heard.values() if not one.verdict.usable])
            result = run.decide(decisions.ct_cluster, severities=severities)
        values = ", ".join(severities.get(name, "ERROR") for name in heard)
        await work.settle("3b", "ct", heard, result, f"severity values [{values}]")
        if result is Said.ERROR:
            raise work.halted(f"CT cluster: {len(severities)} of {len(heard)} usable; at least {ENOUGH} required")
    return result, heard


async def reread(work: Work, critics: Sequence[Heard]) -> dict[str, str]:
    """The severities of those whose memory stands there by now, and who did not say that they failed (FT-60)."""
    found = {}
    for one in critics:
        text = await work.run.read(work.at(f"memory/{one.member}.mem.md"))
        if text and not one.report.complaint.startswith(Said.ERROR):
            found[one.member] = Kind.CRITIC.worse(severity_of(Kind.CRITIC, markdown(text)))
    return found


async def plan_first(work: Work) -> None:
    """Step 4. The first plan, approved if that is wanted."""
    found = CT_FOUND if work.constraints else ()
    await plan(work, reads=(*PLANNER.reads, *found))

    async def again(note: str) -> None:
        files = await task_files(work, aside=True)
        refused = "\n\n".join(f"`tasks/{name}.md`:\n\n{fence(text)}" for name, text in files.items())
        await plan(work, reads=("plan.md", *PLANNER.reads, *found), human=True, refused=refused)

    shows = lambda: [work.at(path) for path in ("plan.md", *(f"tasks/{name}.md" for name in work.progress))]  # noqa: E731
    await approved(work, "plan", "Carry out this plan?", shows, again)


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    """Refuse what cannot be run, before anything is written."""
    if not inputs.request.strip():
        raise BadInput("Feature request is empty", remedy='Say what you want: interlock run feature "REQUEST"')
    if inputs.slug and not (len(inputs.slug) <= LONGEST and SLUG.fullmatch(inputs.slug)):
        what = f'Invalid feature slug "{inputs.slug}": use lower-case letters, digits and "-"'
        raise BadInput(what, where="--slug", expected=f"words joined by '-', at most {LONGEST} characters")


def _slug(inputs: Inputs) -> str:
    return inputs.slug or slug_of(inputs.request)


def _repeats(inputs: Inputs) -> str:
    kept = "memory, decisions and suggestions are kept"
    return f"docs/feature/{_slug(inputs)} exists and its run is DONE; use --new-run to run again ({kept})"


FEATURE = Playbook(
    name="feature",
    play=feature,
    inputs=Inputs,
    rows=tuple(one.row for one in members.EVERYBODY),
    caps=CAPS,
    headline=lambda inputs: inputs.request,
    key=lambda inputs, where: _slug(inputs),
    package="interlock.playbooks.feature",
    settings=Settings,
    flags=Flags,
    summary="A feature: research, specification, design, review by critics, waves of tasks, verification, review.",
    documents=lambda inputs: (f"docs/feature/{_slug(inputs)}/**",),
    check=_check,
    variables={"approval": "APPROVAL_MODE"},
    repeats=_repeats,
    example={"request": "Add a greeting", "slug": "greeting"},
    invariants=INVARIANTS,
)
