"""A feature request, from research to a reviewed change: the pipeline, one function per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal

from interlock.documents import DocumentState, EditedMeanwhile
from interlock.engine import (
    CHECK,
    AfterComplete,
    Checks,
    Ending,
    GateDecision,
    Named,
    Option,
    Run,
    Status,
    named_commands,
    playbook,
)
from interlock.errors import BadInput, ConfigInvalid
from interlock.playbooks.feature import shared_memory
from interlock.playbooks.feature.briefs import RETRIES
from interlock.playbooks.feature.closing import conclude, date_of, keep_run_log, report
from interlock.playbooks.feature.clusters import (
    BLOCKING,
    Panel,
    confirm,
    critics,
    failed_keys,
    reasons,
    reviewers,
    verification,
)
from interlock.playbooks.feature.crew import Crew, Halt, Heard
from interlock.playbooks.feature.decisions import AfterReview, Result, Reviewed, Said, after_review, slug_of, valid_slug
from interlock.playbooks.feature.findings import of_severity
from interlock.playbooks.feature.gates import SHOWN, Gate, decided
from interlock.playbooks.feature.layout import AGENTS, CRITICS, FOCUSES, REVIEWERS, VERIFIERS, Layout
from interlock.playbooks.feature.run_log import telemetry
from interlock.playbooks.feature.settings import FeatureSettings
from interlock.playbooks.feature.stages import Move, Stage
from interlock.playbooks.feature.tasks import AT_ONCE, BARRIER, EAGER, carry_out, fix_tasks, planner, take_plan

REPLANS = 3
CAPS = {"ct": 1, "replan": REPLANS, "again": 2, "pass": 2, "plan": 2, "research-gate": SHOWN, "plan-gate": SHOWN}
"""Loops and their turns. `pass`: the first one and one escalation; `again`: one confirmation and one fix pass;
`plan`: one retry of the planner; `research-gate` and `plan-gate`: five rounds after the first."""
AGAIN = (AfterReview.CONFIRM, AfterReview.FIX)
NOT_APPROVED = "A person did not approve the plan before this one; what they said stands above. Change it accordingly."


@dataclass(frozen=True)
class FeatureInputs:
    """A request and how it is to be handled; fixed for the whole run."""

    request: Annotated[str, Option("What the feature should be.", metavar="REQUEST", argument=True)]
    slug: Annotated[str, Option("Name of its folder. Default: from the request.", metavar="SLUG")] = ""
    approval: Annotated[
        bool,
        Option("Wait for a person after research and after planning.", setting="approval", variable="APPROVAL_MODE"),
    ] = False
    approval_fallback: Annotated[
        Literal["wait", "proceed"], Option("What to do instead of waiting.", setting="approval_fallback")
    ] = "wait"
    approve_replans: Annotated[bool, Option("Wait for approval of replans too.", setting="approve_replans")] = False
    strict: Annotated[bool, Option("A verifier without a verdict is a reason to replan.", setting="strict")] = False
    post_mortem_on_halt: Annotated[
        bool, Option("A post-mortem also after an early end.", setting="post_mortem_on_halt")
    ] = False
    scheduling: Annotated[
        Literal["barrier", "eager"], Option("Whether sub-waves wait for each other.", setting="scheduling")
    ] = BARRIER
    git: Annotated[bool, Option("Whether a missing git repository is worth a warning.", setting="git")] = True
    check_commands: Annotated[list[str], CHECK] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether a person who is to approve is waited for."""
        return self.approval_fallback == "wait"

    @property
    def name(self) -> str:
        return self.slug or slug_of(self.request)


def layout_of(inputs: FeatureInputs) -> Layout:
    return Layout(inputs.name if valid_slug(inputs.name) else "invalid")


STEPS = {
    "0": "setup",
    "1": "research",
    "2": "spec",
    "3": "design",
    "3b": "critique",
    "4": "plan",
    "5": "build",
    "6": "verify",
    "7": "review",
    "8": "post-mortem",
}


@playbook(
    "feature",
    inputs=FeatureInputs,
    settings=FeatureSettings,
    first='"Add a greeting"',
    key=lambda inputs: inputs.name,
    steps=STEPS,
    agents=AGENTS,
    documents=lambda inputs: (f"{layout_of(inputs).folder}/**",),
    state=lambda inputs: (layout_of(inputs).memory, layout_of(inputs).request),
    caps=CAPS,
    max_parallel=AT_ONCE,
    retries=RETRIES,
    after_complete=AfterComplete.NEW_ON_REQUEST,
    complete=lambda inputs: (
        f"{layout_of(inputs).folder} exists and its run is DONE; use --new-run to run again "
        "(memory, decisions and suggestions are kept)"
    ),
    reopens=True,
)
async def feature(run: Run, inputs: FeatureInputs) -> Ending:
    """Take a feature request through research, design, implementation in waves, verification and review."""
    check(inputs)
    checks = Checks(run, named(run, inputs))
    await checks.preflight()
    crew = await setup(run, inputs)
    crew.checks, crew.named = checks, partial(named, run, inputs)
    try:
        await research(crew, inputs)
        await specify(crew)
        await design(crew)
        await criticise(crew)
        panel = await build(crew, inputs)
    except Halt as halt:
        return await halted(crew, inputs, halt)
    ending = await conclude(crew, panel)
    run.note("outcome", status=ending.status, result=ending.output)
    await post_mortem(crew, ending)
    crew.go(Move.CLOSED_ERROR if ending.status is Status.FAILED else Move.CLOSED_DONE)
    return ending


# -- 0. Setup


def check(inputs: FeatureInputs) -> None:
    """Refuse what cannot be run, before anything is written."""
    if not inputs.request.strip():
        raise BadInput("Feature request is empty", remedy='Say what you want: interlock run feature "REQUEST"')
    if not valid_slug(inputs.name):
        raise BadInput(
            f'Invalid feature slug "{inputs.name}": use lower-case letters, digits and "-"',
            expected="words joined by '-', at most 40 characters",
            found=inputs.name,
        )
    for name, value, allowed in (
        ("approval_fallback", inputs.approval_fallback, ("wait", "proceed")),
        ("scheduling", inputs.scheduling, (BARRIER, EAGER)),
    ):
        if value not in allowed:
            raise ConfigInvalid(f"{name} must be {' or '.join(allowed)}", where=f"feature.{name}", found=value)


def named(run: Run, inputs: FeatureInputs) -> tuple[Named, ...]:
    """The commands that a person names: what they mend in the settings counts from then on."""
    settings = run.settings.check_commands if run.settings is not None else ()
    return named_commands(run, inputs.check_commands, settings, "feature")


async def setup(run: Run, inputs: FeatureInputs) -> Crew:
    """Create the shared memory and the request; what an earlier run planned is set aside."""
    crew = Crew(run, Layout(inputs.name))
    with run.step("0"):
        run.note("step", step="0", stage=Stage.SETUP.value, after="", because="start")
        for path in (*await run.list(crew.at.folder, "plan.md"), *await run.list(crew.at.tasks, "*.md")):
            await run.set_aside(path)
        await write_request(crew, inputs.request)
        await begin_memory(crew)
        if inputs.git and not (await run.inspect(["git", "rev-parse", "--git-dir"])).ok:
            run.warn(
                "git diff context not available: the workspace is not a git repository; snapshots are used instead"
            )
        crew.go(Move.READY)
    return crew


async def write_request(crew: Crew, request: str) -> None:
    run, path = crew.run, crew.at.request
    text = f"# Initial Request\n\n{request}" + ("" if request.endswith("\n") else "\n")
    document = await run.read(path)
    if document.state is not DocumentState.OK or document.text != text:
        await run.write_anew(path, text)


async def begin_memory(crew: Crew) -> None:
    """A shared memory to begin with; one that is there, or that somebody makes meanwhile, is gone on with."""
    if (await crew.run.read(crew.at.memory)).state is DocumentState.MISSING:
        try:
            await crew.run.write(crew.at.memory, shared_memory.TEMPLATE, expect="")
            return
        except EditedMeanwhile:
            pass
    await crew.usable_memory()


# -- 1. Research


async def research(crew: Crew, inputs: FeatureInputs) -> None:
    """Four researchers side by side; two of them are enough. Whoever does not approve is heard, and they work again."""
    run = crew.run
    with run.step("1"):
        if not inputs.approval:
            await explore(crew)
            crew.go(Move.ENOUGH_RESEARCH)
            return
        async for turn in run.loop("research-gate"):
            heard = await explore(crew, iteration=turn)
            crew.go(Move.ASK)
            shown = [crew.at.output(name) for name in heard]
            question = "Research is complete. Go on to the specification?"
            makers = [one.report.key for one in heard.values()]
            revised = "the researchers work again, with what you say"
            gate = Gate("research-gate", "approve-research", revised, waits=inputs.waits)
            if (await decided(crew, gate, question, shown, makers, turn)).approved:
                crew.go(Move.APPROVED)
                return
            crew.go(Move.REJECTED)


async def explore(crew: Crew, iteration: int = 1) -> dict[str, Heard]:
    """One round of researchers, merged; those that are usable."""
    specs = [crew.desk.researcher(focus, again=iteration > 1) for focus in FOCUSES]
    heard = await crew.pattern_a("research", specs, iteration=iteration)
    usable = {name: one for name, one in heard.items() if one.done}
    crew.summarize("1.1", "research", list(heard.values()), Result.DONE if len(usable) >= 2 else Result.ERROR)
    if len(usable) < 2:
        crew.go(Move.NO_QUORUM)
        raise Halt(
            f"research: {len(usable)} of 4 researchers usable; at least 2 required ({reasons(heard)})",
            failed_keys(heard),
        )
    await crew.merge(await crew.memories(list(usable)), prune=1)
    return usable


# -- 2. Specification, 3. Design


async def specify(crew: Crew) -> None:
    """One agent turns research into a specification; its memory is merged and old entries are pruned."""
    with crew.run.step("2"):
        one = await crew.alone(crew.desk.spec())
        await produced(crew, one, prune=2)


async def design(crew: Crew) -> None:
    """One agent designs; merged, not pruned."""
    with crew.run.step("3"):
        one = await crew.alone(crew.desk.designer())
        await produced(crew, one)


async def produced(crew: Crew, one: Heard, *, prune: int | None = None) -> None:
    """A document that the rest depends on: merged and on, or halt."""
    if not one.done:
        crew.go(Move.FAILED)
        raise Halt(one.why, [one.report.key])
    await crew.merge(await crew.memories([one.member]), prune=prune)
    crew.go(Move.FINISHED)


# -- 3b. Design review: CT cluster


async def criticise(crew: Crew) -> None:
    """Four critics; their findings go back to the designer once, then to the planner as constraints."""
    result = await critics(crew, iteration=1)
    if result is Result.NEEDS_REVISION:
        async for _ in crew.run.loop("ct"):
            crew.go(Move.REVISE)
            await revise_design(crew)
            result = await critics(crew, iteration=2)
    if result is Result.DONE:
        crew.go(Move.ACCEPTED)
        return
    crew.run.warn("the critics' findings are not settled; they go to the planner as constraints")
    worst = ("Critical", "High", "Medium")
    parts = [await crew.run.read(crew.at.output(name)) for name in CRITICS if crew.at.output(name) in crew.available]
    crew.constraints = "\n\n".join(filter(None, (of_severity(part.text, worst) for part in parts)))
    crew.constraints = crew.constraints or "See the reviews: their findings carry no severity headings."
    crew.go(Move.CONSTRAINED)


async def revise_design(crew: Crew) -> None:
    with crew.run.step("3"):
        await crew.invalidate((*CRITICS, "designer"), "design is being revised")
        one = await crew.alone(crew.desk.designer_revision(), iteration=2)
        await crew.clean()
        await produced(crew, one)


# -- 4 to 7: plan, implement, verify, review, and once more after an escalation


async def build(crew: Crew, inputs: FeatureInputs) -> Panel:
    """Plan, implement, verify, review; a review that nothing else settles leads to one full replan."""
    most = crew.run.identity.caps.get("pass", CAPS["pass"])
    async for turn in crew.run.loop("pass"):
        judges = () if turn == 1 else (*BLOCKING, *VERIFIERS)
        await make_plan(crew, inputs, judges, iteration=crew.replans + turn)
        await implement(crew, inputs)
        await verify(crew, inputs)
        panel, move = await review(crew, inputs, escalations=most - turn)
        if move is not AfterReview.ESCALATE:
            break
        crew.go(Move.ESCALATE)
    crew.go(Move.PASSED if panel.reviewed is Reviewed.DONE else Move.GAVE_UP)
    return panel


# -- 4. Planning


async def make_plan(crew: Crew, inputs: FeatureInputs, judges: Sequence[str] = (), iteration: int = 1) -> None:
    """A first plan, or a replan from the memories of judges; approved if wanted."""
    with crew.run.step("4"):
        if judges:
            await crew.invalidate(judges, "work is being replanned")
        if inputs.approval and (not judges or inputs.approve_replans):
            await plan_and_ask(crew, inputs, judges, iteration)
        else:
            await plan_once(crew, judges, iteration, crew.plan.last_wave)
            crew.go(Move.FINISHED)


async def plan_once(
    crew: Crew, judges: Sequence[str], iteration: int, after: int, rejected: GateDecision | None = None
) -> str:
    """A plan that holds, asked for twice at most; the key of the dispatch that made it.

    Args:
        after: the number of the last wave that was carried out.
        rejected: what a person said of the plan before it; the engine hands it to the first who works, and to no other.
    """
    complaint, deciding, failure = "", "", NOT_APPROVED if rejected else ""
    said = f"{rejected.who} said of an earlier plan: {rejected.note}\n\n" if rejected else ""
    async for turn in crew.run.loop("plan"):
        one = await crew.alone(planner(crew, judges, failure), iteration=iteration, retries=turn - 1)
        complaint, deciding = one.why or await take_plan(crew, after, one.report.changes), one.report.key
        if not complaint:
            break
        failure = f"{said}The plan before this one does not hold: {complaint}"
    await crew.clean()
    if complaint:
        crew.go(Move.FAILED)
        raise Halt(complaint, [deciding])
    await crew.merge(await crew.memories(["planner"]), prune=4)
    return deciding


async def plan_and_ask(crew: Crew, inputs: FeatureInputs, judges: Sequence[str], iteration: int) -> None:
    """The plan that a person approved, with whatever they changed at the gate, is the one that is carried out; one that
    they reject goes back to the planner with what they said."""
    gate = Gate("plan-gate", "approve-plan", "the planner plans again, with what you say", waits=inputs.waits)
    before, after = crew.standing, crew.plan.last_wave
    maker, problem, rejected = "", "", None
    async for turn in crew.run.loop(gate.loop):
        if not problem:
            maker = await plan_once(crew, judges, iteration, after, rejected)
            crew.go(Move.ASK)
        question = f"The plan has {len(crew.plan.tasks)} tasks in {len(crew.plan.waves)} waves. Carry it out?"
        shown = (crew.at.plan, *(crew.at.task(task.id) for task in crew.plan.tasks))
        decision = await decided(crew, gate, problem + question, shown, [maker], turn)
        if decision.approved:
            complaint = await take_plan(crew, after)
            if not complaint:
                crew.go(Move.APPROVED)
                return
            problem = f"The approved plan does not hold: {complaint}. "
            continue
        crew.withdraw(before)
        problem, rejected = "", decision
        crew.go(Move.REJECTED)
    crew.go(Move.REFUSED)
    raise Halt(problem.strip(), [maker])


# -- 5. Implementation in waves


async def implement(crew: Crew, inputs: FeatureInputs) -> None:
    """Wave after wave; a failed implementer ends them, and verification finds out what is missing."""
    run = crew.run
    with run.step("5"):
        if crew.base is None:
            crew.base = await run.snapshot()
        run.note("waves", waves={str(wave.number): [task.id for task in wave.tasks] for wave in crew.plan.waves})
        for task in crew.plan.tasks:
            if task.agent_unknown:
                run.note("task.agent_unknown", task=task.id, value=task.agent)
                run.warn(f'{task.id}: unknown agent "{task.agent}"; using implementer')
        crew.rounds += 1
        for wave in crew.plan.waves:
            if await carry_out(crew, wave, inputs.scheduling):
                break
        crew.go(Move.WORKED)


# -- 6. Verification: V cluster in a replan loop


async def verify(crew: Crew, inputs: FeatureInputs) -> None:
    """Build gate and verifiers; what does not pass is replanned and implemented, three times in a run at most."""
    verified = await verification(crew, inputs.strict)
    most = crew.run.identity.caps.get("replan", REPLANS) - crew.replans
    if not verified.passed and most > 0:
        async for _ in crew.run.loop("replan", cap=most):
            crew.replans += 1
            crew.go(Move.REPLAN)
            await make_plan(crew, inputs, VERIFIERS, iteration=crew.replans + 1)
            await implement(crew, inputs)
            verified = await verification(crew, inputs.strict)
            if verified.passed:
                break
    if not verified.passed:
        crew.run.note("verify.unresolved", result=verified.result, findings=list(map(crew.at.output, VERIFIERS)))
    crew.go(Move.VERIFIED if verified.passed else Move.UNRESOLVED)


# -- 7. Final review: R cluster


async def review(crew: Crew, inputs: FeatureInputs, escalations: int) -> tuple[Panel, AfterReview]:
    """Four reviewers; a blocker is confirmed once, findings are fixed once; then where that leads."""
    run = crew.run
    with run.step("7"):
        panel = await reviewers(crew)
        move = run.decide(after_review, panel.reviewed, crew.confirmations, crew.fixes, escalations)
        if move in AGAIN:
            async for _ in run.loop("again"):
                panel = await (confirm(crew, panel) if move is AfterReview.CONFIRM else fix(crew, inputs, panel))
                move = run.decide(after_review, panel.reviewed, crew.confirmations, crew.fixes, escalations)
                if move not in AGAIN:
                    break
        return panel, move


async def fix(crew: Crew, inputs: FeatureInputs, panel: Panel) -> Panel:
    """The agents of the affected tasks fix what concerns them; then verification, once, and the whole review again."""
    crew.fixes -= 1
    crew.go(Move.FIX_PASS)
    await crew.invalidate((*REVIEWERS, *VERIFIERS), "findings are being fixed")
    await fix_tasks(crew, panel)
    await crew.clean()
    verified = await verification(crew, inputs.strict)
    crew.go(Move.FIXED)
    again = await reviewers(crew)
    if again.reviewed is Reviewed.DONE and not verified.passed:
        return replace(again, reviewed=Reviewed.NEEDS_REVISION)
    return again


# -- 8. Post-mortem, and the end


async def post_mortem(crew: Crew, ending: Ending) -> None:
    """One agent looks back on the run; whatever it does, the result is fixed."""
    run, at = crew.run, crew.at
    with run.step("8"):
        run_date = await date_of(crew)
        facts = run.telemetry()
        told = telemetry(at.slug, run_date, crew.returns, crew.clusters, facts)
        one = await crew.alone(crew.desk.post_mortem(run_date, told, crew.result))
        if at.run_log(run_date) not in one.report.artifacts:
            await keep_run_log(crew, run_date, ending)
        status = Said.DONE if one.done else Said.ERROR
        said = f"PostMortem dispatch: {status}. {(one.report.detail or one.why).rstrip('.')}."
        memories = await crew.memories([one.member]) if one.done else {}
        if not one.done:
            run.warn(f"the post-mortem failed; its memory is not merged ({one.why})")
        await crew.merge(memories, said, step="8")


async def halted(crew: Crew, inputs: FeatureInputs, halt: Halt) -> Ending:
    """The pipeline could not go on: telemetry is kept, and no further agent is called unless that was asked for."""
    ending = Ending.failed(halt.reason, report(crew, f"ERROR: {halt.reason}", crew.unfinished), halt.because)
    crew.run.note("outcome", status=ending.status, result=ending.output)
    if inputs.post_mortem_on_halt:
        await post_mortem(crew, ending)
    else:
        with crew.run.step("halt"):
            await keep_run_log(crew, await date_of(crew), ending)
    return ending
