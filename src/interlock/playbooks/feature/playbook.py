"""A feature request, from research to a reviewed change: the pipeline, a function per step of the seed.

Here are steps 0 to 4 and the playbook itself; 5 to 7 are in `building`, 8 in `closing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.playbook import Playbook
from interlock.engine.prompts import fence
from interlock.engine.run import Outcome, Run, Stop
from interlock.engine.view import View
from interlock.errors import BadInput, Status
from interlock.playbooks.feature import decisions, members, memory
from interlock.playbooks.feature.building import REPLANS, build, plan, replan, task_files
from interlock.playbooks.feature.closing import conclude, post_mortem
from interlock.playbooks.feature.decisions import ENOUGH, LONGEST, SLUG, Move, Said, slug_of
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

    @property
    def name(self) -> str:
        return self.slug or slug_of(self.request)


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
    run, memories, asked = work.run, work.at(MEMORY), work.inputs.request.rstrip()

    request = f"# Initial Request\n\n{asked}\n"
    with run.step("0"):
        work.commands = await run.commands(work.inputs.check)
        await run.baseline(work.commands)
        if not work.commands:
            run.warn("no command checks this work: judges alone decide")
        run.watch(memories)
        run.watch(work.at(REQUEST))
        await run.set_aside(work.at("plan.md"))
        await task_files(work, aside=True)
        wrote = await run.change(work.at(REQUEST), lambda text: text if text.strip() else request)
        if wrote.state == "same" and not (await run.read(work.at(REQUEST)) or "").startswith(request):
            await run.set_aside(work.at(REQUEST))
            await run.change(work.at(REQUEST), lambda text: request)
        known = await run.look("earlier", lambda look: memory.known_entries(look.read(memories) or ""), path=memories)
        work.old = frozenset(known)
        await work.remember()
        work.there |= {REQUEST, MEMORY}


async def research(work: Work) -> None:
    """Step 1. Four researchers, of whom two are enough; a person who does not approve is heard, and all work again."""

    async def explore(note: str = "") -> None:
        with work.run.step("1.1"):
            n = work.rounds["research"] + 1
            if n > 1:
                await work.invalidate({one.name for one in RESEARCHERS}, "research was rejected")
            asked = {one.name: partial(work.ask, one, again=n, human=n > 1) for one in RESEARCHERS}
            heard = await work.together("researchers", asked)
            lost = [one for one in heard.values() if one.form is None]
            usable = len(heard) - len(lost)
            await work.settle("1.1", "research", heard, Said.DONE if usable >= ENOUGH else Said.ERROR)
            if usable < ENOUGH:
                why = "; ".join(dict.fromkeys(one.why for one in lost))
                raise work.halted(f"research: {usable} of {len(heard)} usable; at least {ENOUGH} required ({why})")

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

    def summary() -> str:
        last = {one.member: one.form.summary for one in work.heard if one.form}
        return "\n".join(f"- {member}: {said}" for member, said in last.items())

    shown: Any = {"summary": summary, "shows": lambda: tuple(shows())}
    decided = await run.approve(name, question, revise, rounds=ROUNDS, **shown)
    if decided.choice == "reject":
        note = f"interlock resume {run.id} --note TEXT"
        raise Stop(Outcome.stopped(f"{name} was rejected: {decided.note}", next=note))


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
            await work.invalidate({"designer", *(one.name for one in CRITICS)}, "design is being revised")
            await produce(work, DESIGNER, again=2, reads=(*CT_FOUND, *DESIGNER.reads, "design.md"), revised=True)
            result, heard = await criticise(work)
    if result is Said.NEEDS_REVISION:
        run.warn("the critics' findings are not settled: they go to the planner as constraints")
        found = [(work.at(one.agent.artifact), line) for one in heard.values() for line in one.grave]
        work.constraints = "\n".join(f"- `{path}`: {line}" for path, line in found)


async def criticise(work: Work) -> tuple[Said, Mapping[str, Heard]]:
    """The CT cluster, all four; fewer than two that are usable decide nothing (FT-60)."""
    run = work.run
    with run.step("3b.1"):
        asked = {one.name: partial(work.ask, one, again=work.rounds["ct"] + 1) for one in CRITICS}
        heard = await work.together("critics", asked)
        severities = {name: one.verdict.severity for name, one in heard.items() if one.verdict.usable}
        result = run.decide(decisions.ct_cluster, severities=severities)
        values = ", ".join(severities.get(name, "ERROR") for name in heard)
        await work.settle("3b", "ct", heard, result, f"severity values [{values}]")
        if result is Said.ERROR:
            raise work.halted(f"CT cluster: {len(severities)} of {len(heard)} usable; at least {ENOUGH} required")
    return result, heard


async def plan_first(work: Work) -> None:
    """Step 4. The first plan, approved if that is wanted."""
    found = CT_FOUND if work.constraints else ()
    await plan(work, reads=(*PLANNER.reads, *found))

    async def again(note: str) -> None:
        await work.invalidate({PLANNER.name}, "the plan was rejected")
        files = await task_files(work, aside=True)
        refused = "\n\n".join(f"`tasks/{name}.md`:\n\n{fence(text)}" for name, text in files.items())
        await plan(work, reads=("plan.md", *PLANNER.reads, *found), human=True, refused=refused)

    def shows() -> Sequence[str]:
        return [work.at(path) for path in ("plan.md", *(f"tasks/{name}.md" for name in work.progress))]

    await approved(work, "plan", "Carry out this plan?", shows, again)


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    """Refuse what cannot be run, before anything is written."""
    if not inputs.request.strip():
        raise BadInput("Feature request is empty", remedy='Say what you want: interlock run feature "REQUEST"')
    if inputs.slug and not (len(inputs.slug) <= LONGEST and SLUG.fullmatch(inputs.slug)):
        what = f'Invalid feature slug "{inputs.slug}": use lower-case letters, digits and "-"'
        raise BadInput(what, where="--slug", expected=f"words joined by '-', at most {LONGEST} characters")


def _repeats(inputs: Inputs) -> str:
    kept = "memory, decisions and suggestions are kept"
    return f"docs/feature/{inputs.name} exists and its run is DONE; use --new-run to run again ({kept})"


# --- what holds on every path, beside what holds for all playbooks


def _reviewed(view: View) -> bool:
    said = [one.result for one in view.decisions if one.rule == "r_cluster"]
    return not _well(view) or said[-1:] == ["done"]


def _verified(view: View) -> bool:
    """No reviewer sees work that no verifier was asked about, but for what the one fix pass changed."""
    last = ""
    for key, call in view.calls.items():
        if call.agent.startswith("r-") and last not in ("v-", "r-") and "fix-" not in key:
            return False
        last = call.agent[:2]
    return True


def _looks_back(view: View) -> bool:
    """Behind the post-mortem comes nobody; without it nothing ends well."""
    called = [call.agent for call in view.calls.values()]
    behind = called[called.index("post-mortem") :] if "post-mortem" in called else []
    return {*behind} <= {"post-mortem"} and (bool(behind) or not _well(view))


def _bounded(view: View) -> bool:
    """One revision of a design, one second look at a Blocker."""
    looks = [key for key in view.calls if "/confirm/" in key]
    return len(looks) <= 1 and [call.agent for call in view.calls.values()].count("designer") <= 2


def _well(view: View) -> bool:
    return view.status in (Status.COMPLETE, Status.DEGRADED)


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "what ends well the reviewers decided": _reviewed,
    "no unverified work is reviewed": _verified,
    "the post-mortem is the last": _looks_back,
    "agents work within their bounds": _bounded,
}


FEATURE = Playbook(
    name="feature",
    play=feature,
    inputs=Inputs,
    rows=tuple(one.row for one in members.EVERYBODY),
    caps=CAPS,
    headline=lambda inputs: inputs.request,
    key=lambda inputs, where: inputs.name,
    package="interlock.playbooks.feature",
    settings=Settings,
    flags=Flags,
    summary="A feature: research, specification, design, review by critics, waves of tasks, verification, review.",
    documents=lambda inputs: (f"docs/feature/{inputs.name}/**",),
    check=_check,
    variables={"approval": "APPROVAL_MODE"},
    repeats=_repeats,
    example={"request": "Add a greeting", "slug": "greeting"},
    invariants=INVARIANTS,
)
