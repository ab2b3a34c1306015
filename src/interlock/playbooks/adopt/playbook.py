"""An orchestrator prompt becomes a playbook: read every statement, write, check, judge, ask a person, install."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from interlock.playbooks.adopt.decisions import AfterDraft, after_checks, after_critic
from interlock.playbooks.adopt.draft import Draft, Examined, look
from interlock.playbooks.adopt.inputs import AdoptedFiles, AdoptInputs
from interlock.playbooks.adopt.listing import told
from interlock.playbooks.adopt.source import MOST_PARTS, Part, SourceText
from interlock.playbooks.adopt.statements import Statement, StatementsOf, rendered
from interlock.playbooks.adopt.summary import summary, trace_page
from interlock.playbooks.adopt.trace import Keeper
from interlock.playbooks.adopt.verdicts import StatementVerdict, VerdictsOn

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
    state=lambda inputs: (inputs.at.statements, inputs.at.summary, inputs.at.page),
    caps={"round": ROUNDS, "try": TRIES, "approval": APPROVALS},
    retries=briefs.RETRIES,
    after_complete=AfterComplete.NEW_ON_REQUEST,
    reopens=True,
)
async def adopt(run: Run, inputs: AdoptInputs) -> Ending:
    """Make a playbook in YAML from an orchestrator prompt; a person approves what code will keep of it."""
    work = Adoption(run, inputs.at, await open_source(run, inputs))
    await Checks(run, ()).preflight()
    try:
        work = replace(work, statements=await read(work))
        async for turn in run.loop("approval"):
            draft = await settle(work)
            decision = await ask(work, draft, last=turn >= run.identity.caps.get("approval", APPROVALS))
            if decision.approved:
                return await install(work, by=draft.by)
    except Stop as stop:
        return stop.ending
    reason = f"rejected by {decision.who}: nothing was installed; the draft is in {work.at.folder}"
    return Ending.stopped(reason, because=(draft.by,))


@dataclass(frozen=True)
class Adoption:
    """One adoption: what is adopted, where, and what it was found to say."""

    run: Run
    at: AdoptedFiles
    source: SourceText
    statements: tuple[Statement, ...] = ()


async def open_source(run: Run, inputs: AdoptInputs) -> SourceText:
    """The prompt, if it can be adopted under this name; nothing has been paid or written until here."""
    at = inputs.at
    document = await run.read(inputs.file)
    source = SourceText(inputs.file, document.require("prompt").text)
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


async def read(work: Adoption) -> tuple[Statement, ...]:
    """Every statement of the source, read part by part, side by side."""
    run, at = work.run, work.at
    with run.step("read"):
        for path in await run.list(at.folder, "**/*"):
            await run.set_aside(path)
        readers = {f"part-{part.number}": partial(read_part, work, part) for part in work.source.parts}
        found = await run.cluster("", readers)
        statements = tuple(one for some in found.values() for one in some)
        await run.write(at.statements, rendered(statements))
    return statements


async def read_part(work: Adoption, part: Part) -> tuple[Statement, ...]:
    report = counted(await work.run.dispatch(briefs.reader(work.at, work.source, part)))
    return StatementsOf(work.source, part).statements(report.text(work.at.reading(part.number)))


def counted(report: Report) -> Report:
    """A report that counts; any other ends the run, with what was wrong."""
    if report.ok:
        return report
    why = told(report.complaints) or report.detail or str(report.reason or report.outcome)
    raise Stop(Ending.failed(f"{report.member} did not do its part: {why}", because=(report.key,)))


# -- what becomes of it


async def settle(work: Adoption) -> Draft:
    """A draft in which code and critic find nothing wrong; what they find goes back to the author."""
    rejected: tuple[StatementVerdict, ...] = ()
    async for _ in work.run.loop("round"):
        draft = await write(work, rejected)
        rejected = await judge(work, draft)
        if work.run.decide(after_critic, len(rejected)) is AfterDraft.ASK:
            return draft
    reason = f"the critic still does not accept: {', '.join(one.id for one in rejected)}"
    said = briefs.rejections(work.statements, rejected)
    raise Stop(Ending.stopped(f"{reason}; the draft is in {work.at.folder}", f"{said}\n", (draft.by,)))


async def write(work: Adoption, rejected: tuple[StatementVerdict, ...]) -> Draft:
    """A draft that holds; one that does not goes back with exactly what is wrong."""
    run, at = work.run, work.at
    problems: list[str] = []
    async for _ in run.loop("try"):
        with run.step("write"):
            first = (await run.list(at.folder, "playbook.yaml")) == []
            spec = briefs.author(at, work.source, work.statements, first=first, problems=problems, rejected=rejected)
            report = counted(await run.dispatch(spec))
            draft = await drafted(work, by=report.key)
            problems = draft.problems(at.name, work.statements)
            if run.decide(after_checks, len(problems)) is AfterDraft.JUDGE:
                return draft
    raise Stop(unsound(f"the draft in {at.folder} does not hold", problems, draft))


def unsound(what: str, problems: Sequence[str], draft: Draft) -> Ending:
    """The end of a run whose draft cannot be used: some of why in its reason, all of it in its output.

    A retry calls the author of the draft again, as it does wherever a draft was refused.
    """
    return Ending.stopped(f"{what}: {told(problems)}", "".join(f"{one}\n" for one in problems), (draft.by,))


async def drafted(work: Adoption, *, by: str) -> Draft:
    """The draft as it lies in the workspace."""
    run, at = work.run, work.at
    found = await run.read(at.yaml, look)
    paths = await run.list(at.roles, "*.md")
    roles = {path.rpartition("/")[2].removesuffix(".md"): (await run.read(path)).text for path in paths}
    trace = await run.read(at.trace)
    return Draft(found["text"], roles, trace.text, Examined.from_json(found["examined"]), by)


async def judge(work: Adoption, draft: Draft) -> tuple[StatementVerdict, ...]:
    """What the critic does not accept of the statements that code is said to keep."""
    enforced = draft.kept(work.statements, Keeper.CODE)
    if not enforced:
        return ()
    with work.run.step("judge"):
        report = counted(await work.run.dispatch(briefs.critic(work.at, work.source, enforced)))
    return VerdictsOn(tuple(one.id for one in enforced)).rejected(report.text(work.at.verdicts))


# -- people


async def ask(work: Adoption, draft: Draft, *, last: bool) -> GateDecision:
    """What a person says to the draft, for exactly the files that they were shown."""
    at, statements = work.at, work.statements
    await work.run.write(at.summary, summary(at.name, work.source, statements, draft))
    await work.run.write(at.page, trace_page(at.name, work.source, statements, draft))
    rules = [one for one in draft.kept(statements, Keeper.NOBODY) if one.is_rule]
    kept = len(draft.kept(statements, Keeper.CODE))
    return await work.run.gate(
        "approve-playbook",
        f"Install {at.name}? Code keeps {kept} of {len(statements)} statements; rules not enforced: {len(rules)}.",
        choices=(
            Choice(APPROVE.name, f"it is installed in {at.installed}"),
            Choice("reject", "the run ends, and nothing is installed" if last else "the author hears what you say"),
        ),
        shows=(at.summary, at.page, at.yaml, at.trace, *(f"{at.roles}/{role}.md" for role in draft.roles)),
    )


async def install(work: Adoption, *, by: str) -> Ending:
    """What was approved, put where playbooks are found. Whoever approved may have edited it: it is checked as it is."""
    run, at, statements = work.run, work.at, work.statements
    with run.step("install"):
        draft = await drafted(work, by=by)
        if problems := draft.problems(at.name, statements):
            return unsound(f"the draft in {at.folder} was edited and does not hold", problems, draft)
        for path in await run.list(at.installed, "**/*"):
            await run.set_aside(path)
        await run.write(f"{at.installed}/trace.md", trace_page(at.name, work.source, statements, draft), anew=True)
        for role, text in draft.roles.items():
            await run.write(f"{at.installed}/agents/{role}.md", text, anew=True)
        await run.write(f"{at.installed}/playbook.yaml", draft.text, anew=True)
    words = f"installed in {at.installed}; look at it with: interlock rehearse {at.name}"
    return Ending.complete(f"{words}\n", words)
