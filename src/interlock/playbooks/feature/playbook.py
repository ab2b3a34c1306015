"""A feature request, from research to a reviewed change: the pipeline, one function per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from interlock.documents import DocumentState
from interlock.engine import (
    APPROVE,
    AfterComplete,
    Choice,
    Ending,
    GateDecision,
    Playbook,
    Run,
    Stop,
    dispatch_facts,
    playbook,
    snapshot,
)
from interlock.errors import BadInput
from interlock.playbooks.feature.briefs import RETRIES, Brief
from interlock.playbooks.feature.calls import Heard, failed_keys, reasons
from interlock.playbooks.feature.closing import conclude, keep_run_log, report, telemetry_of
from interlock.playbooks.feature.clusters import Panel, confirm, critics, reviewers, verification
from interlock.playbooks.feature.decisions import AfterReview, ClusterResult, Decided, Said, after_review, valid_slug
from interlock.playbooks.feature.findings import of_severity
from interlock.playbooks.feature.members import CT, ENOUGH, MEMBERS, RESEARCH, SEVERITY, Members, R, V
from interlock.playbooks.feature.settings import FeatureSettings
from interlock.playbooks.feature.tasks import AT_ONCE, carry_out, fix_tasks, planner, take_plan
from interlock.playbooks.feature.work import FeatureInputs, Work, halt

REPLANS = 3
SHOWN = 6
"""Times that a gate asks: once, and again after each of five rounds with what a person said."""
CAPS = {"ct": 1, "replan": REPLANS, "again": 2, "pass": 2, "plan": 2, "research-gate": SHOWN, "plan-gate": SHOWN}
"""Loops and their turns. `pass`: the first one and one escalation; `again`: one confirmation and one fix pass;
`plan`: one retry of the planner; `research-gate` and `plan-gate`: five rounds after the first."""
STEPS = {
    "0": "setup", "1": "research", "2": "spec", "3": "design", "3b": "critique", "4": "plan", "5": "build",
    "6": "verify", "7": "review", "8": "post-mortem",
}  # fmt: skip
AGAIN = (AfterReview.CONFIRM, AfterReview.FIX)
NOT_APPROVED = "A person did not approve the plan before this one; what they said stands above. Change it accordingly."
NO_PAUSE = "APPROVAL_MODE requested but interactive pause not supported — proceeding autonomously"


def feature_of(members: Members) -> Playbook:
    """The playbook with these members."""

    @playbook(
        "feature",
        inputs=FeatureInputs,
        settings=FeatureSettings,
        first='"Add a greeting"',
        key=lambda inputs: inputs.name,
        steps=STEPS,
        agents=members.agents,
        documents=lambda inputs: (f"{inputs.at.folder}/**",),
        state=lambda inputs: (inputs.at.memory, inputs.at.request),
        caps=CAPS,
        max_parallel=AT_ONCE,
        retries=RETRIES,
        after_complete=AfterComplete.NEW_ON_REQUEST,
        complete=lambda inputs: (
            f"{inputs.at.folder} exists and its run is DONE; use --new-run to run again "
            "(memory, decisions and suggestions are kept)"
        ),
        reopens=True,
    )
    async def feature(run: Run, inputs: FeatureInputs) -> Ending:
        """Take a feature request through research, design, implementation in waves, verification and review."""
        check(inputs)
        work = Work(run, inputs, members)
        await work.checks.preflight()
        await setup(work)
        try:
            await research(work)
            await specify(work)
            await design(work)
            await criticise(work)
            panel = await build(work)
        except Stop as stop:
            return await halted(work, stop.ending)
        ending = await conclude(work, panel)
        run.note("outcome", status=ending.status, result=ending.output)
        await post_mortem(work, ending)
        return ending

    return feature


feature = feature_of(MEMBERS)


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


async def setup(work: Work) -> None:
    """Create the shared memory and the request; what an earlier run planned is set aside."""
    run, at, request = work.run, work.at, work.inputs.request
    with run.step("0"):
        for path in (*await run.list(at.folder, "plan.md"), *await run.list(at.tasks, "*.md")):
            await run.set_aside(path)
        text = f"# Initial Request\n\n{request}" + ("" if request.endswith("\n") else "\n")
        document = await run.read(at.request)
        if document.state is not DocumentState.OK or document.text != text:
            await run.write(at.request, text, anew=True)
        await work.memory.begin()
        if (
            work.inputs.git
            and not (await run.command(["git", "rev-parse", "--git-dir"], timeout_s=300.0, looks=True)).ok
        ):
            run.warn(
                "git diff context not available: the workspace is not a git repository; snapshots are used instead"
            )


# -- where a person approves


@dataclass(frozen=True)
class ApprovalGate:
    """Where a person approves what agents made: asked as often as its loop has turns, and heard each time."""

    loop: str
    name: str
    revised: str
    """What a rejection leads to, in words."""

    async def decided(
        self, work: Work, question: str, shown: Sequence[str], makers: Sequence[str], turn: int
    ) -> GateDecision:
        """What a person decides; where the run may not wait, that is said instead. A rejection at the last turn halts.

        Args:
            makers: the dispatches whose work is shown; a retry after the last rejection does them again.
        """
        run = work.run
        if work.inputs.approval_fallback != "wait":
            run.warn(NO_PAUSE)
            return GateDecision(APPROVE.name, "nobody", "")
        last = turn >= run.identity.caps.get(self.loop, SHOWN)
        choices = (APPROVE, Choice("reject", "the run ends" if last else self.revised))
        decision = await run.gate(self.name, question, choices=choices, shows=shown)
        work.calls.person_acted = True
        if not decision.approved and last:
            note = f": {decision.note}" if decision.note else ""
            raise halt(f"rejected at {self.name} by {decision.who}{note}", makers)
        return decision


OF_RESEARCH = ApprovalGate("research-gate", "approve-research", "the researchers work again, with what you say")
OF_PLAN = ApprovalGate("plan-gate", "approve-plan", "the planner plans again, with what you say")


# -- 1. Research


async def research(work: Work) -> None:
    """Researchers side by side; two of them are enough. Whoever does not approve is heard, and they work again."""
    with work.run.step("1"):
        if not work.inputs.approval:
            await explore(work)
            return
        async for turn in work.run.loop(OF_RESEARCH.loop):
            heard = await explore(work, turn)
            question = "Research is complete. Go on to the specification?"
            shown, makers = list(map(work.at.output, heard)), [one.report.key for one in heard.values()]
            if (await OF_RESEARCH.decided(work, question, shown, makers, turn)).approved:
                return


async def explore(work: Work, turn: int = 1) -> dict[str, Heard]:
    """One round of researchers, merged; those that are usable."""
    rows = work.members.of(RESEARCH)
    briefs = [work.briefs.researcher(row, again=turn > 1) for row in rows]
    heard = await work.calls.together(RESEARCH.name, briefs, "A", turn)
    usable = {name: one for name, one in heard.items() if one.done}
    enough = len(usable) >= ENOUGH
    work.calls.summarize(RESEARCH.called, RESEARCH.name, heard, ClusterResult.DONE if enough else ClusterResult.ERROR)
    if not enough:
        said = f"research: {len(usable)} of {len(rows)} researchers usable; at least {ENOUGH} required"
        raise halt(f"{said} ({reasons(heard)})", failed_keys(heard))
    await work.memory.merge(await work.calls.memories(usable), prune=1)
    return usable


# -- 2. Specification, 3. Design


async def specify(work: Work) -> None:
    """One agent turns research into a specification; its memory is merged and old entries are pruned."""
    with work.run.step("2"):
        await produce(work, work.briefs.spec(work.members.names(RESEARCH)), prune=2)


async def design(work: Work) -> None:
    """One agent designs; merged, not pruned."""
    with work.run.step("3"):
        await produce(work, work.briefs.designer(work.members.names(RESEARCH)))


async def produce(work: Work, brief: Brief, *, prune: int | None = None, revises: bool = False) -> None:
    """A document that the rest depends on: merged and on, or halt."""
    one = await work.calls.alone(brief)
    if revises:
        await work.memory.clean()
    if not one.done:
        raise halt(one.why, [one.report.key])
    await work.memory.merge(await work.calls.memories({one.member: one}), prune=prune)


# -- 3b. Design review: CT cluster


async def criticise(work: Work) -> None:
    """Critics; their findings go back to the designer once, then to the planner as constraints."""
    run, names = work.run, work.members.names(CT)
    result = await critics(work)
    if result is ClusterResult.NEEDS_REVISION:
        async for _ in run.loop("ct"):
            with run.step("3"):
                await work.memory.invalidate((*names, "designer"), "design is being revised")
                brief = work.briefs.designer(work.members.names(RESEARCH), names)
                await produce(work, replace(brief, round=2), revises=True)
            result = await critics(work)
    if result is ClusterResult.DONE:
        return
    run.warn("the critics' findings are not settled; they go to the planner as constraints")
    parts = [await run.read(path) for path in map(work.at.output, names) if path in work.calls.available]
    grave = "\n\n".join(filter(None, (of_severity(part.text, SEVERITY.grave) for part in parts)))
    work.constraints = grave or "See the reviews: their findings carry no severity headings."


# -- 4 to 7: plan, implement, verify, review, and once more after an escalation


async def build(work: Work) -> Panel:
    """Plan, implement, verify, review; a review that nothing else settles leads to one full replan."""
    most = work.run.identity.caps.get("pass", CAPS["pass"])
    async for turn in work.run.loop("pass"):
        judges = () if turn == 1 else (*work.members.weighed_reviewers, *work.members.names(V))
        await make_plan(work, judges, turn)
        await implement(work)
        await verify(work)
        panel, move = await review(work, escalations=most - turn)
        if move is not AfterReview.ESCALATE:
            break
    return panel


# -- 4. Planning


async def make_plan(work: Work, judges: Sequence[str] = (), turn: int = 1) -> None:
    """A first plan, or a replan from the memories of judges; approved if wanted."""
    round = work.replans + turn
    with work.run.step("4"):
        if judges:
            await work.memory.invalidate(judges, "work is being replanned")
        if work.inputs.approval and (not judges or work.inputs.approve_replans):
            await plan_and_ask(work, judges, round)
        else:
            await plan_once(work, judges, round, work.tasks.plan.last_wave)


async def plan_once(
    work: Work, judges: Sequence[str], round: int, after: int, rejected: GateDecision | None = None
) -> str:
    """A plan that holds, asked for twice at most; the key of the dispatch that made it.

    Args:
        after: the number of the last wave that was carried out.
        rejected: what a person said of the plan before it; the engine hands it to the first who works, and to no other.
    """
    complaint, failure = "", NOT_APPROVED if rejected else ""
    said = f"{rejected.who} said of an earlier plan: {rejected.note}\n\n" if rejected else ""
    async for turn in work.run.loop("plan"):
        one = await work.calls.alone(replace(planner(work, judges, failure), round=round, again=turn - 1))
        complaint = one.why or await take_plan(work, after, one.report.changes)
        if not complaint:
            break
        failure = f"{said}The plan before this one does not hold: {complaint}"
    await work.memory.clean()
    if complaint:
        raise halt(complaint, [one.report.key])
    await work.memory.merge(await work.calls.memories({one.member: one}), prune=4)
    return one.report.key


async def plan_and_ask(work: Work, judges: Sequence[str], round: int) -> None:
    """The plan that a person approved, with whatever they changed at the gate, is the one that is carried out; one that
    they reject goes back to the planner with what they said; its task files are nobody's until a plan lists them."""
    tasks = work.tasks
    before, after = (tasks.plan, tasks.listed, tasks.states), tasks.plan.last_wave
    maker, problem, rejected = "", "", None
    async for turn in work.run.loop(OF_PLAN.loop):
        if not problem:
            maker = await plan_once(work, judges, round, after, rejected)
        many, waves = len(tasks.plan.tasks), len(tasks.plan.waves)
        parts = f"{many} {'task' if many == 1 else 'tasks'} in {waves} {'wave' if waves == 1 else 'waves'}"
        question = f"The plan has {parts}. Carry it out?"
        shown = (work.at.plan, *(work.at.task(task.id) for task in tasks.plan.tasks))
        decision = await OF_PLAN.decided(work, problem + question, shown, [maker], turn)
        if decision.approved:
            complaint = await take_plan(work, after)
            if not complaint:
                return
            problem = f"The approved plan does not hold: {complaint}. "
            continue
        tasks.plan, tasks.listed, tasks.states = before
        problem, rejected = "", decision
    raise halt(problem.strip(), [maker])


# -- 5. Implementation in waves


async def implement(work: Work) -> None:
    """Wave after wave; a failed implementer ends them, and verification finds out what is missing."""
    run, tasks = work.run, work.tasks
    with run.step("5"):
        if tasks.base is None:
            tasks.base = await snapshot(run)
        run.note("waves", waves={str(wave.number): [task.id for task in wave.tasks] for wave in tasks.plan.waves})
        for task in tasks.plan.tasks:
            if task.agent_unknown:
                run.note("task.agent_unknown", task=task.id, value=task.agent)
                run.warn(f'{task.id}: unknown agent "{task.agent}"; using implementer')
        tasks.rounds += 1
        for wave in tasks.plan.waves:
            if await carry_out(work, wave):
                break


# -- 6. Verification: V cluster in a replan loop


async def verify(work: Work) -> None:
    """Build gate and verifiers; what does not pass is replanned and implemented, three times in a run at most."""
    run, names = work.run, work.members.names(V)
    verified = await verification(work)
    most = run.identity.caps.get("replan", REPLANS) - work.replans
    if not verified.passed and most > 0:
        async for _ in run.loop("replan", cap=most):
            work.replans += 1
            await make_plan(work, names)
            await implement(work)
            verified = await verification(work)
            if verified.passed:
                break
    if not verified.passed:
        run.note("verify.unresolved", result=verified.result, findings=list(map(work.at.output, names)))


# -- 7. Final review: R cluster


async def review(work: Work, escalations: int) -> tuple[Panel, AfterReview]:
    """Reviewers; a blocker is confirmed once, findings are fixed once; then where that leads."""
    run = work.run
    with run.step("7"):
        panel = await reviewers(work)
        move = run.decide(after_review, panel.reviewed, work.confirmations, work.fixes, escalations)
        if move in AGAIN:
            async for _ in run.loop("again"):
                panel = await (confirm(work, panel) if move is AfterReview.CONFIRM else fix(work, panel))
                move = run.decide(after_review, panel.reviewed, work.confirmations, work.fixes, escalations)
                if move not in AGAIN:
                    break
        return panel, move


async def fix(work: Work, panel: Panel) -> Panel:
    """The agents of the affected tasks fix what concerns them; then verification, once, and the whole review again."""
    work.fixes -= 1
    await work.memory.invalidate(work.members.names(R, V), "findings are being fixed")
    await fix_tasks(work, panel)
    await work.memory.clean()
    verified = await verification(work)
    again = await reviewers(work)
    if again.reviewed is Decided.DONE and not verified.passed:
        return replace(again, reviewed=Decided.NEEDS_REVISION)
    return again


# -- 8. Post-mortem, and the end


async def post_mortem(work: Work, ending: Ending) -> None:
    """One agent looks back on the run; whatever it does, the result is fixed."""
    run, at, calls = work.run, work.at, work.calls
    with run.step("8"):
        known = await telemetry_of(work)
        outcome = str(ending.output).partition("\n")[0]
        one = await calls.alone(work.briefs.post_mortem(known.run_date, known.told, outcome))
        if at.run_log(known.run_date) not in one.report.artifacts:
            await keep_run_log(work, replace(known, returns=calls.returns, facts=dispatch_facts(run)), ending)
        status = Said.DONE if one.done else Said.ERROR
        said = f"PostMortem dispatch: {status}. {(one.report.detail or one.why).rstrip('.')}."
        memories = await calls.memories({one.member: one}) if one.done else {}
        if not one.done:
            run.warn(f"the post-mortem failed; its memory is not merged ({one.why})")
        await work.memory.merge(memories, said, step="8")


async def halted(work: Work, ending: Ending) -> Ending:
    """The pipeline could not go on: telemetry is kept, and no further agent is called unless that was asked for."""
    ending = replace(ending, output=report(work, f"ERROR: {ending.reason}", work.tasks.unfinished))
    work.run.note("outcome", status=ending.status, result=ending.output)
    if work.inputs.post_mortem_on_halt:
        await post_mortem(work, ending)
    else:
        with work.run.step("halt"):
            await keep_run_log(work, await telemetry_of(work), ending)
    return ending
