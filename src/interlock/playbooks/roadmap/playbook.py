"""`roadmap`: one ready item at a time goes through the agents that its complexity asks for, until all items pass."""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Command, Outcome, Proved, Report, Row, Run, Stop, clash
from interlock.engine.view import CallView, View
from interlock.errors import BadInput, WorkspaceFailed
from interlock.playbooks.roadmap import answers, decisions
from interlock.playbooks.roadmap.answers import Answer, Built, Designed, Found, Reviewed, Tested, Validated
from interlock.playbooks.roadmap.decisions import Came, Step, Then, upcoming, waits_on
from interlock.playbooks.roadmap.documents import MOST_RETRIES, Item, find, parsed, with_state
from interlock.workspace.values import Tree, Where

TOKEN = "<promise>COMPLETE</promise>"
TESTS = (
    *("**/test*/**", "**/__tests__/**", "**/spec*/**", "**/test_*.py", "**/*_test.*", "**/*.test.*", "**/*.spec.*"),
    "**/*Test*.*",
)


class Inputs(Model):
    """Which roadmap."""

    file: str = Field("roadmap.json", description="The roadmap.")
    commit: bool = Field(False, description="One commit for each item that is done.")


class Flags(Model):
    """How far this process goes."""

    once: bool = Field(False, description="Work on one item, report, and end.")


class Settings(Model):
    """The table `[roadmap]`."""

    verify: Literal["agents", "engine"] = "agents"
    fail_fast: bool = False
    absent_checks: list[Literal["lint", "typecheck", "build"]] = []


def _row(agent: str, step: Step, form: type[Answer], timeout_s: float, **more: Any) -> Row:
    return Row(agent, step.value, form, timeout_s=timeout_s, answers=True, repeats=1, **more)


ROWS = {
    Step.RESEARCH: _row("Research", Step.RESEARCH, Found, 3600),
    Step.DESIGN: _row("Architect", Step.DESIGN, Designed, 1800, writes=("docs/**", "**/adr/**", "**/*.md")),
    Step.IMPLEMENT: _row("Implement", Step.IMPLEMENT, Built, 7200, writes=("**",)),
    Step.VALIDATION: _row("Architect", Step.VALIDATION, Validated, 1800, judges=True, title="Architect validation"),
    Step.TESTING: _row("Testing", Step.TESTING, Tested, 3600, judges=True, writes=TESTS),
    Step.REVIEW: _row("Review", Step.REVIEW, Reviewed, 3600, judges=True),
}


class Edited(Exception):
    """A person changed the item while it was worked on: what they wrote stands, and the iteration is over."""


class Over(Exception):
    """Nothing of the attempt can follow."""

    def __init__(self, came: Came) -> None:
        self.came = came


@dataclass
class Work:
    """One item on its way, and what has come of it so far."""

    run: Run
    inputs: Inputs
    file: str
    item: Item
    begun: bool
    """Somebody worked on it before this iteration."""
    unknown: bool
    """It was not this run, and nothing of that is known (RM-98)."""
    commands: list[Command] = field(default_factory=list)
    rules: Settings = field(default_factory=Settings)
    """What settings said when the attempt began."""
    parts: dict[str, str] = field(default_factory=dict)
    """What earlier steps have to hand on, compressed, by the heading in briefs."""
    touched: dict[int, dict[str, str]] = field(default_factory=dict)
    """Attempt -> the files that it changed, with a line for each."""
    proved: list[Proved] = field(default_factory=list)
    judged: Tree | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    """Of all attempts, as `blockedReasons` has them."""
    since: int = 0
    """How many of them are known when the attempt begins."""
    called: list[str] = field(default_factory=list)
    gates: dict[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        return self.item.retryCount + 1

    def fails(self, source: str, *reasons: str) -> None:
        self.failures += [{"attempt": self.attempt, "source": source, "reason": one} for one in reasons]

    @property
    def has_failed(self) -> bool:
        return len(self.failures) > self.since

    async def keep(self, **values: Any) -> None:
        """Change state fields of the item in the file; None takes one out."""
        identity = str(self.item.id)
        try:
            wrote = await self.run.change(self.file, lambda text: with_state(text, self.file, identity, values))
        except WorkspaceFailed as error:
            error.what = f"cannot write {self.file}: {error.what}; item {identity} stays {self.item.status}"
            raise
        now = find(parsed(self.run.text(wrote.text), self.file), identity) if wrote.text else None
        if wrote.state == "edited" or now is None:
            raise Edited
        self.item = now


async def roadmap(run: Run, inputs: Inputs) -> Outcome:
    """Item after item, until all pass, one is blocked, or none can be selected."""
    file, edited = _path(inputs, run.where), dict[str, Work]()
    read = partial(parsed, path=file)
    named = ["--file", inputs.file] if inputs.file != "roadmap.json" else []
    again = shlex.join(["interlock", "run", "roadmap", *named, *(["--commit"] if inputs.commit else [])])
    async for _ in run.loop("item"):
        items = read(await run.read(file, read))
        pick, identity = run.decide(decisions.select, items=items)
        if pick == "complete":
            run.say(TOKEN)
            return Outcome.complete(f"all {len(items)} items pass")
        ordered = sorted((one for one in items if not one.passes), key=lambda one: one.order)
        left = [(one, ", ".join(f"{on.id} ({on.status})" for on in waits_on(one, items))) for one in ordered]
        if (item := find(items, identity)) is None:
            run.say(run.fill("nothing", items=left))
            waiting = [f"{one.id} waits on {on}" for one, on in left if on] or [
                f"{one.id} is blocked" for one, _ in left
            ]
            return Outcome.stopped(f"no selectable item: {'; '.join(waiting)}", next=again)
        for one, on in left:
            if one.status == "ready" and one.order < item.order:
                run.note("passed over", item=one.name, waits_on=on)
        begun = pick == "resumed" or bool(item.retryCount or item.blockedReasons)
        work = Work(run, inputs, file, item, begun, unknown=begun)
        work.failures = [one.model_dump() for one in item.blockedReasons]
        if (past := edited.get(identity)) is not None:
            work.failures += past.failures[len(past.item.blockedReasons) :]
            work.touched, work.unknown = past.touched, False
        then = await iteration(work)
        if then is None:
            edited[identity] = work
        items = read(await run.read(file, read))
        run.say(run.fill("iteration", work=work, item=item, now=find(items, identity), upcoming=upcoming(items)))
        if then == "blocked":
            run.say(run.fill("blocked", item=work.item, failures=work.failures, file=file))
            why = work.failures[-1]["reason"].strip().partition("\n")[0]
            return Outcome.stopped(f"item {identity} is blocked: {why}", next=again)
        ends = then == "done" and run.once("once", {}, lambda: bool(run.flags.get("once")))
        if ends and upcoming(items) != "COMPLETE":
            return Outcome.complete(f"one item done; next candidate: {upcoming(items)}")
    return Outcome.stopped("as many items as one run takes", next=again)


async def iteration(work: Work) -> Then | None:
    """The item, marked as in progress, until it is done or blocked; None: a person changed it meanwhile."""
    run, item, planned = work.run, work.item, work.item.planningResearch
    if not decisions.is_empty(planned):
        told = planned if isinstance(planned, str) else json.dumps(planned, ensure_ascii=False, indent=2)
        work.parts["Known from planning"] = told
    run.watch(work.file, lambda text: find(parsed(text, work.file), str(item.id)))
    await run.unit(str(item.id))
    try:
        await heed(work)
        if not work.begun:
            await run.baseline(work.commands)
        if item.status != "in_progress":
            await work.keep(status="in_progress")
        pipelines = decisions.PIPELINES
        async for _ in run.loop("attempt"):
            came = await attempt(work, pipelines[item.complexity])
            then = run.decide(decisions.after_attempt, came, work.item.retryCount)
            if then == "done":
                await work.keep(passes=True, status="done", blockedReasons=None)
                if work.inputs.commit:
                    await commit(work)
                return then
            if then == "blocked":
                await work.keep(status="blocked", blockedReasons=work.failures)
                return then
            await work.keep(retryCount=work.item.retryCount + 1)
            await heed(work)
            pipelines = decisions.RETRIES
    except Edited:
        run.note("edited", item=item.name)
    return None


async def heed(work: Work) -> None:
    """What settings say now, for the attempt that begins."""
    run, item = work.run, work.item
    work.rules = Settings.model_validate(run.once("rules", {}, (run.settings or Settings()).model_dump))
    named = await run.commands(item.verification) if work.rules.verify == "engine" else []
    work.commands = [replace(one, name=f"{item.id} {one.name}") for one in named]


async def attempt(work: Work, pipeline: tuple[Step, ...]) -> Came:
    """The steps in order, up to one behind which nothing can follow; then the work comes into the tree."""
    work.gates, work.proved, work.judged, work.since = {}, [], None, len(work.failures)
    try:
        for step in pipeline:
            with work.run.step(step.value):
                await STEPS.get(step, judge)(work, step)
            if work.has_failed and (step not in (Step.TESTING, Step.REVIEW) or work.rules.fail_fast):
                break
        if not work.has_failed:
            with work.run.step("delivery"):
                await deliver(work)
    except Over as over:
        return over.came
    return "failed" if work.has_failed else "passed"


async def research(work: Work, step: Step) -> None:
    item = work.item
    known, edited = not decisions.is_empty(item.planningResearch), decisions.changed_scope(item)
    wanted = work.run.decide(decisions.research, item.complexity, known, edited)
    if wanted != "skipped":
        report = await ask(work, step, changed=edited if wanted == "narrowed" else None)
        work.parts = {"Research findings": answers.findings(Found.model_validate(report.form))}


async def design(work: Work, step: Step) -> None:
    report = await ask(work, step)
    work.parts["Architect decision"] = answers.decision(Designed.model_validate(report.form))


async def implement(work: Work, step: Step) -> None:
    report = await ask(work, step, retry=work.item.retryCount)
    built = Built.model_validate(report.form)
    work.touched[work.attempt] = answers.files(built, report.paths)
    work.parts["Implementation evidence"] = answers.evidence(built)
    if report.did is None and not built.already_so:
        return work.fails("Engine", "nothing was changed; if it is so already, say why in `already_so`")
    work.proved = await work.run.prove(work.commands)
    red = work.run.against(work.proved)
    if work.commands:
        work.gates["verification"] = "fail" if red else "pass"
    return work.fails("Engine", *red.values())


async def judge(work: Work, step: Step) -> None:
    """Validation, Testing, Review: whether a pass stands; all that speaks against it joins the evidence."""
    report = await ask(work, step)
    passes = report.ruling is not None and report.ruling.passes
    if report.ruling and not passes:
        work.fails(ROWS[step].title or ROWS[step].agent, *report.ruling.against)
    work.judged, word = report.shown, "pass" if passes else "fail"
    if step is Step.VALIDATION:
        work.gates["validation"] = word
    elif step is Step.TESTING:
        work.gates["tests"] = word
        work.parts["Test summary"] = answers.tests(Tested.model_validate(report.form), word)
        work.touched[work.attempt] |= {path: f"- `{path}` (by Testing)" for path in report.paths}
    else:
        words = dict(Reviewed.model_validate(report.form).evidence.checks)
        work.gates |= words if passes or "fail" in words.values() else {**words, "quality": "fail"}


async def deliver(work: Work) -> None:
    """The item's work into the tree, as it was judged; what prevents that fails the attempt (RM-60)."""
    run = work.run
    if work.inputs.commit and (refused := await run.hooks(work.item.name)):
        said = answers.essence(run.text(refused.out), answers.MUCH)
        return work.fails("Engine", f"the commit hooks refuse it: {refused.problem}\n{said}")
    landed = await run.land(work.commands, None if work.commands else work.judged)
    if landed.state == "away" and not work.inputs.commit:
        why = f"{run.where.branch} is not checked out: the work of item {work.item.id} cannot come into it"
        raise Stop(Outcome.stopped(why, next=f"interlock resume {run.id}", again=run.scope))
    if landed.state == "red":
        work.gates["verification"] = "fail"
    return work.fails("Engine", *landed.against.values())


async def commit(work: Work) -> None:
    """One commit of the item's work (TS-09); what prevents it is told."""
    run, message = work.run, work.item.name
    red = run.against(await run.prove_commit(work.commands, message))
    problem = "red without what you have not committed" if red else (await run.commit(message)).problem
    if problem:
        run.warn(f"item {work.item.id} is not committed: {problem}")


async def ask(work: Work, step: Step, **inputs: Any) -> Report:
    """One step by its agent. Who says that it is not finished is asked once more, and then the item is blocked."""
    row, item, why = ROWS[step], work.item, ""
    absent, title = work.rules.absent_checks, row.title or row.agent
    ran = [{"command": line, "exit": 0} for line in item.verification]
    for _ in range(2):
        call = Call(
            replace(row, read=partial(answers.read, row.form, absent, bool(work.proved))),
            member=row.title,
            inputs={"item": item.model_dump(mode="json"), "unknown": work.begun, **inputs},
            texts={"context": _context(work, step, remark=why, **inputs), "absent": absent},
            attempt=work.attempt,
            proved=tuple(work.proved) if row.judges else (),
            known={"evidence": {"verification": ran, "checks": answers.BEST}} if row.judges else {},
        )
        report = await work.run.dispatch(call)
        if report.reason == "edited":
            raise Edited
        work.called.append(f"{title}#{work.attempt}")
        answer = Answer.model_validate(report.form or {"status": "needs_revision"})
        why, theirs = "\n".join(answer.reasons) or "no reason given", clash(report.conflicts)
        if report.conflicts and step not in (Step.RESEARCH, Step.DESIGN):
            work.fails("Engine", theirs)
            raise Over("failed")
        if report.conflicts and report.ok:  # what was found out and decided holds; who builds is told
            work.fails("Engine", theirs)
            work.since = len(work.failures)
        elif report.conflicts:
            why = theirs
        if answer.status == "blocked":
            work.fails(title, why)
            raise Over("stopped")
        if row.judges or (answer.status == "success" and report.ok):
            return report
    work.fails(title, f"not finished when asked again: {why}")
    raise Over("stopped")


STEPS = {Step.RESEARCH: research, Step.DESIGN: design, Step.IMPLEMENT: implement}
"""The others judge."""
PARTS = {
    Step.RESEARCH: ("Known from planning",),
    Step.DESIGN: ("Research findings", "Known from planning"),
    Step.IMPLEMENT: ("Research findings", "Known from planning", "Architect decision"),
    Step.VALIDATION: ("Architect decision", "Files created or modified"),
    Step.TESTING: ("Files created or modified", "Implementation evidence"),
    Step.REVIEW: ("Files created or modified", "Test summary", "Verification commands to run"),
}
"""What each brief has from earlier steps (RM-44)."""
_TOLD = {"id", "title", "complexity", "acceptanceCriteria", "verification", "dependencies"}


def _context(work: Work, step: Step, **more: Any) -> str:
    """The item, what earlier steps hand on, what has failed so far."""
    item, builds = work.item, step is Step.IMPLEMENT
    files = {path: line for attempt in work.touched.values() for path, line in attempt.items()}
    parts = {
        **work.parts,
        "Files created or modified": "\n".join(files.values()) or "(none)",
        "Verification commands to run": "\n".join(item.verification),
    }
    values = {
        "item": item.model_dump_json(include=_TOLD, exclude_defaults=True, indent=2),
        "parts": [(title, parts[title]) for title in PARTS[step] if title in parts],
        "failures": work.failures if builds else [],
        "before": len(item.blockedReasons),
        "touched": work.touched if builds else {},
        "unknown": work.unknown and not work.failures,
    }
    return work.run.fill("item", **{"retry": 0, "changed": None, **values, **more})


def _path(inputs: Inputs, where: Where) -> str:
    return posixpath.normpath(posixpath.join(where.place, inputs.file))


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    if inputs.commit and (why := refuses("")):
        raise BadInput(f"nothing could be committed: {why}", where="--commit")


# --- what holds on every path

_ORDER = list(Step)


def _step(call: CallView) -> int:
    return _ORDER.index(Step(call.key.split("/")[-2]))


def _in_order(view: View) -> bool:
    """Each attempt goes through its steps in the one order there is."""
    attempts = groupby(view.calls.values(), key=lambda call: call.key.rsplit("/", 2)[0])
    steps = [[_step(call) for call in calls] for _, calls in attempts]
    return all(one == sorted(one) for one in steps)


def _a_retry_is_a_fix(view: View) -> bool:
    """Research and design belong to the first attempt alone."""
    late = (call for call in view.calls.values() if "/attempt-1/" not in f"/{call.key}")
    return all(_step(call) >= _ORDER.index(Step.IMPLEMENT) for call in late)


def _judged(view: View) -> bool:
    """Who is complete has passed the last judge of each kind."""
    last = {_step(call): call.report for call in view.calls.values() if call.report and call.report.ruling}
    passed = [report.ruling.passes for report in last.values() if report.ruling]
    return view.status != "complete" or not view.calls or (len(passed) >= 2 and all(passed))


EXAMPLE = """\
[{"id": 1, "title": "Export as CSV", "complexity": "complex", "priority": 1, "status": "ready", "passes": false,
  "acceptanceCriteria": ["there is an export"], "verification": ["make test"]}]
"""
ROADMAP = Playbook(
    name="roadmap",
    play=roadmap,
    inputs=Inputs,
    flags=Flags,
    rows=tuple(ROWS.values()),
    caps={"item": 10_000, "attempt": MOST_RETRIES + 1},
    headline=lambda inputs: inputs.file,
    key=_path,
    package="interlock.playbooks.roadmap",
    settings=Settings,
    summary="A roadmap, one item at a time, each through the agents that its complexity asks for.",
    check=_check,
    goes_on=True,
    files={"roadmap.json": EXAMPLE},
    invariants={
        "attempts are in order": _in_order,
        "a retry is a fix": _a_retry_is_a_fix,
        "both judges have passed what is done": _judged,
        "nobody is asked": lambda view: not view.gates,
    },
)
