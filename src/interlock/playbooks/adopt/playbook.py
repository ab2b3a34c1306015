"""An orchestrator prompt becomes a playbook: read every statement, write, check, judge, ask a person, install."""

from __future__ import annotations

from functools import partial

from interlock.engine import (
    APPROVE,
    AfterComplete,
    Checks,
    Choice,
    Ending,
    GateDecision,
    Report,
    Run,
    Stop,
    playbook,
)
from interlock.errors import ConfigInvalid, DocumentInvalid
from interlock.playbooks.adopt import briefs
from interlock.playbooks.adopt.decisions import Move, after_checks, after_critic
from interlock.playbooks.adopt.draft import Draft, Examined, look
from interlock.playbooks.adopt.inputs import AdoptInputs, Layout
from interlock.playbooks.adopt.listing import told
from interlock.playbooks.adopt.source import MOST_PARTS, Part, Source
from interlock.playbooks.adopt.statements import Reading, Statement, rendered
from interlock.playbooks.adopt.summary import summary, trace_page
from interlock.playbooks.adopt.trace import Keeper
from interlock.playbooks.adopt.verdicts import Judging, Verdict

ROUNDS = 3
"""Drafts that the critic judges until a person is asked."""
TRIES = 3
"""Drafts that code checks until one is judged."""
APPROVALS = 2
"""How often a person is asked; whoever rejects is heard once."""


@playbook(
    "adopt",
    inputs=AdoptInputs,
    first="orchestrator.md",
    key=lambda inputs: inputs.called,
    steps={name: name for name in ("preflight", "read", "write", "judge", "install")},
    agents=("reader", "author", "critic"),
    documents=lambda inputs: (f"{inputs.at.folder}/**", inputs.file),
    state=lambda inputs: (inputs.at.statements, inputs.at.summary),
    caps={"round": ROUNDS, "try": TRIES, "approval": APPROVALS},
    retries=briefs.RETRIES,
    after_complete=AfterComplete.NEW_ON_REQUEST,
    reopens=True,
)
async def adopt(run: Run, inputs: AdoptInputs) -> Ending:
    """Make a playbook in YAML from an orchestrator prompt; a person approves what code will keep of it."""
    at = inputs.at
    source = await open_source(run, inputs)
    await Checks(run, ()).preflight()
    try:
        statements = await read(run, at, source)
        async for turn in run.loop("approval"):
            draft = await settle(run, at, source, statements)
            decision = await ask(run, at, source, statements, draft, last=turn >= run.identity.caps.get("approval", 2))
            if decision.approved:
                return await install(run, at, source, statements)
    except Stop as stop:
        return stop.ending
    return Ending.stopped(f"rejected by {decision.who}: nothing was installed; the draft is in {at.folder}")


async def open_source(run: Run, inputs: AdoptInputs) -> Source:
    """The prompt, if it can be adopted under this name; nothing has been paid or written until here."""
    at = inputs.at
    document = await run.read(inputs.file)
    source = Source(inputs.file, document.require("prompt").text)
    if not source.words:
        raise DocumentInvalid(f"{inputs.file} says nothing", path=inputs.file, expected="a prompt with text")
    if len(source.parts) > MOST_PARTS:
        raise DocumentInvalid(
            f"{inputs.file} is too long to be adopted",
            path=inputs.file,
            expected=f"at most {MOST_PARTS} parts, some {MOST_PARTS * 100} lines",
            found=f"{len(source.parts)} parts, {len(source.lines)} lines",
            remedy="Adopt the files in which its processes can be told apart, one at a time.",
        )
    if not inputs.replace and (taken := await run.list(at.installed, "**/*")):
        raise ConfigInvalid(
            f"there is a playbook {at.name} already",
            where=taken[0],
            remedy="Give this one another name with --name NAME, or put it in that one's place with --replace.",
        )
    return source


# -- what it says


async def read(run: Run, at: Layout, source: Source) -> tuple[Statement, ...]:
    """Every statement of the source, read part by part, side by side."""
    with run.step("read"):
        for path in await run.list(at.folder, "**/*"):
            await run.set_aside(path)
        found = await run.cluster(
            "", {f"part-{part.number}": partial(read_part, run, at, source, part) for part in source.parts}
        )
        statements = tuple(one for some in found.values() for one in some)
        await run.write(at.statements, rendered(statements))
    return statements


async def read_part(run: Run, at: Layout, source: Source, part: Part) -> tuple[Statement, ...]:
    report = counted(await run.dispatch(briefs.reader(at, source, part)))
    return Reading(source, part).statements(report.text(at.reading(part.number)))


def counted(report: Report) -> Report:
    """A report that counts; any other ends the run, with what was wrong."""
    if report.ok:
        return report
    why = told(report.complaints) or report.detail or str(report.reason or report.outcome)
    raise Stop(Ending.failed(f"{report.member} did not do its part: {why}", because=(report.key,)))


# -- what becomes of it


async def settle(run: Run, at: Layout, source: Source, statements: tuple[Statement, ...]) -> Draft:
    """A draft in which code and critic find nothing wrong; what they find goes back to the author."""
    rejected: tuple[Verdict, ...] = ()
    async for _ in run.loop("round"):
        draft = await write(run, at, source, statements, rejected)
        rejected = await judge(run, at, source, draft.kept(statements, Keeper.CODE))
        if run.decide(after_critic, len(rejected)) is Move.ASK:
            return draft
    reason = f"the critic still does not accept: {', '.join(one.id for one in rejected)}"
    raise Stop(Ending.stopped(f"{reason}; the draft is in {at.folder}", briefs.rejections(statements, rejected) + "\n"))


async def write(
    run: Run, at: Layout, source: Source, statements: tuple[Statement, ...], rejected: tuple[Verdict, ...]
) -> Draft:
    """A draft that holds; one that does not goes back with exactly what is wrong."""
    problems: list[str] = []
    async for _ in run.loop("try"):
        with run.step("write"):
            first = (await run.list(at.folder, "playbook.yaml")) == []
            spec = briefs.author(at, source, statements, first=first, problems=problems, rejected=rejected)
            counted(await run.dispatch(spec))
            draft = await drafted(run, at)
            problems = draft.problems(at.name, statements)
            if run.decide(after_checks, len(problems)) is Move.JUDGE:
                return draft
    reason = f"the draft in {at.folder} does not hold: {told(problems)}"
    raise Stop(Ending.stopped(reason, "".join(f"{one}\n" for one in problems)))


async def drafted(run: Run, at: Layout) -> Draft:
    """The draft as it lies in the workspace."""
    found = await run.read(at.yaml, look)
    paths = await run.list(at.roles, "*.md")
    roles = {path.rpartition("/")[2].removesuffix(".md"): (await run.read(path)).text for path in paths}
    trace = await run.read(at.trace)
    return Draft(found["text"], roles, trace.text, Examined.from_json(found["examined"]))


async def judge(run: Run, at: Layout, source: Source, enforced: list[Statement]) -> tuple[Verdict, ...]:
    """What the critic does not accept of the statements that code is said to keep."""
    if not enforced:
        return ()
    with run.step("judge"):
        report = counted(await run.dispatch(briefs.critic(at, source, enforced)))
    return Judging(tuple(one.id for one in enforced)).rejected(report.text(at.verdicts))


# -- people


async def ask(
    run: Run, at: Layout, source: Source, statements: tuple[Statement, ...], draft: Draft, *, last: bool
) -> GateDecision:
    """What a person says to the draft, for exactly the files that they were shown."""
    await run.write(at.summary, summary(at.name, source, statements, draft))
    rules = [one for one in draft.kept(statements, Keeper.NOBODY) if one.is_rule]
    kept = len(draft.kept(statements, Keeper.CODE))
    return await run.gate(
        "approve-playbook",
        f"Install {at.name}? Code keeps {kept} of {len(statements)} statements; rules not enforced: {len(rules)}.",
        choices=(
            Choice(APPROVE.name, f"it is installed in {at.installed}"),
            Choice("reject", "the run ends, and nothing is installed" if last else "the author hears what you say"),
        ),
        shows=(at.summary, at.yaml, at.trace, *(f"{at.roles}/{role}.md" for role in draft.roles)),
    )


async def install(run: Run, at: Layout, source: Source, statements: tuple[Statement, ...]) -> Ending:
    """What was approved, put where playbooks are found. Whoever approved may have edited it: it is checked as it is."""
    with run.step("install"):
        draft = await drafted(run, at)
        if problems := draft.problems(at.name, statements):
            reason = f"the draft in {at.folder} was edited and does not hold: {told(problems)}"
            return Ending.stopped(reason, "".join(f"{one}\n" for one in problems))
        for path in await run.list(at.installed, "**/*"):
            await run.set_aside(path)
        await run.write(f"{at.installed}/trace.md", trace_page(at.name, source, statements, draft), anew=True)
        for role, text in draft.roles.items():
            await run.write(f"{at.installed}/agents/{role}.md", text, anew=True)
        await run.write(f"{at.installed}/playbook.yaml", draft.text, anew=True)
    words = f"installed in {at.installed}; look at it with: interlock rehearse {at.name}"
    return Ending.complete(f"{words}\n", words)
