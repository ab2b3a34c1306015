"""`roadmap`: one ready item at a time goes through the agents that its complexity asks for, until all items pass."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Command, Outcome, Proved, Report, Row, Run
from interlock.errors import BadInput, WorkspaceFailed
from interlock.playbooks.roadmap import answers
from interlock.playbooks.roadmap.answers import Answer, Built, Designed, Found, Reviewed, Tested, Validated
from interlock.playbooks.roadmap.decisions import (
    AFTER,
    PIPELINES,
    RESEARCH,
    RETRIES,
    Came,
    Pick,
    Research,
    Step,
    Then,
    changed_scope,
    known,
    retries,
    select,
    upcoming,
    waits_on,
)
from interlock.playbooks.roadmap.documents import MOST_RETRIES, Complexity, Item, find, own, parsed, with_state
from interlock.playbooks.roadmap.invariants import INVARIANTS
from interlock.workspace.values import Tree, Where

TOKEN = "<promise>COMPLETE</promise>"
LATE = 3
"""Times that work is merged anew because the person's tree changed before its delivery."""
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


class Blocked(Exception):
    """An agent cannot go on with the item, and repeating does not help."""


class Failed(Exception):
    """The attempt has failed, and nothing of it can follow."""


@dataclass
class Work:
    """One item on its way, and what has come of it so far."""

    run: Run
    inputs: Inputs
    file: str
    item: Item
    unknown: bool
    """Somebody worked on it before this run did, and nothing of that is known (RM-98)."""
    commands: list[Command] = field(default_factory=list)
    rules: Mapping[str, Any] = field(default_factory=dict)
    """What settings said when the attempt began."""
    parts: dict[str, str] = field(default_factory=dict)
    """What earlier steps have to hand on, compressed, by the heading in briefs."""
    files: dict[str, str] = field(default_factory=dict)
    """A line for each file that any attempt changed."""
    touched: dict[int, list[str]] = field(default_factory=dict)
    """Attempt -> those that it changed."""
    proved: list[Proved] = field(default_factory=list)
    judged: Tree | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    """Of all attempts, as `blockedReasons` has them."""
    called: list[str] = field(default_factory=list)
    gates: dict[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        return self.item.retryCount + 1

    def fails(self, source: str, *reasons: str) -> None:
        self.failures += [{"attempt": self.attempt, "source": source, "reason": one} for one in reasons]

    def has_failed(self) -> bool:
        return any(one["attempt"] == self.attempt for one in self.failures[len(self.item.blockedReasons) :])

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
    file = _path(inputs, run.where)
    async for _ in run.loop("item"):
        items = parsed(await run.read(file, partial(parsed, path=file)), file)
        pick, identity = run.decide(select, items=items)
        if pick is Pick.COMPLETE:
            run.say(TOKEN)
            return Outcome.complete(f"all {len(items)} items pass")
        if (item := find(items, identity)) is None:
            left = [(one, waits_on(one, items)) for one in sorted(items, key=lambda one: one.order) if not one.passes]
            run.say(run.fill("nothing", items=left))
            waiting = [f"{one.id} waits on {_listed(on)}" for one, on in left if one.status == "ready"]
            return Outcome.stopped(
                f"no selectable item: {'; '.join(waiting or [f'{one.id} is {one.status}' for one, _ in left][:10])}",
                next="interlock run roadmap",
            )
        for one in items:
            if one.status == "ready" and one.order < item.order:
                run.note("passed over", item=one.name, waits_on=[str(other.id) for other in waits_on(one, items)])
        work = Work(run, inputs, file, item, pick is Pick.RESUMED or bool(item.retryCount or item.blockedReasons))
        then = await iteration(work)
        items = parsed(await run.read(file, partial(parsed, path=file)), file)
        updates = ", ".join(_updates(item, find(items, identity)))
        run.say(run.fill("iteration", work=work, item=item, updates=updates, upcoming=upcoming(items)))
        if then is Then.BLOCKED:
            run.say(run.fill("blocked", item=work.item, failures=work.failures, file=file))
            why = " ".join(work.failures[-1]["reason"].split())
            return Outcome.stopped(f"item {identity} is blocked: {why}", next="interlock run roadmap")
        ends = then is Then.DONE and run.once("once", {}, lambda: bool(run.flags.get("once")))
        if ends and upcoming(items) != "COMPLETE":
            return Outcome.complete(f"one item done; next candidate: {upcoming(items)}")
    return Outcome.stopped("as many items as one run takes", next="interlock run roadmap")


async def iteration(work: Work) -> Then | None:
    """The item, marked as in progress, until it is done or blocked; None: a person changed it meanwhile."""
    run, item = work.run, work.item
    run.watch(work.file, partial(own, path=work.file, identity=str(item.id)))
    await run.unit(str(item.id))
    work.failures = [one.model_dump() for one in item.blockedReasons]
    try:
        await heed(work)
        if not work.unknown:
            await run.baseline(work.commands)
        if item.status != "in_progress":
            await work.keep(status="in_progress")
        pipeline = PIPELINES[item.complexity]
        async for _ in run.loop("attempt"):
            came = await attempt(work, pipeline)
            then = run.decide(AFTER, came, retries(work.item))
            if then is Then.DONE:
                await work.keep(passes=True, status="done", blockedReasons=None)
                if work.inputs.commit:
                    await commit(work)
                return then
            if then is Then.BLOCKED:
                await work.keep(status="blocked", blockedReasons=work.failures)
                return then
            await work.keep(retryCount=work.item.retryCount + 1)
            await heed(work)
            pipeline = RETRIES[item.complexity]
    except Edited:
        run.note("edited", item=item.name)
    return None


async def heed(work: Work) -> None:
    """What settings say now, for the attempt that begins."""
    run, item = work.run, work.item
    work.rules = run.once("rules", {}, (run.settings or Settings()).model_dump)
    engine = work.rules["verify"] == "engine"
    named = await run.commands(item.verification) if engine else []
    work.commands = [replace(one, name=f"{item.id} {one.name}") for one in named]


async def attempt(work: Work, pipeline: tuple[Step, ...]) -> Came:
    """The steps in order, up to one behind which nothing can follow; then the work comes into the tree."""
    work.gates, work.proved, work.judged = {}, [], None
    try:
        for step in pipeline:
            with work.run.step(step.value):
                await STEPS[step](work)
            if work.has_failed() and (step not in (Step.TESTING, Step.REVIEW) or work.rules["fail_fast"]):
                break
        if not work.has_failed():
            with work.run.step("delivery"):
                await deliver(work)
    except Blocked:
        return Came.STOPPED
    except Failed:
        return Came.FAILED
    return Came.FAILED if work.has_failed() else Came.PASSED


async def research(work: Work) -> None:
    item = work.item
    if item.planningResearch is not None:
        work.parts["Known from planning"] = _planned(item)
    wanted = work.run.decide(RESEARCH, item.complexity, known(item))
    if wanted is not Research.SKIPPED:
        changed = changed_scope(item) if wanted is Research.NARROWED else None
        report = await ask(work, Step.RESEARCH, changed=changed)
        work.parts = {"Research findings": answers.findings(Found.model_validate(report.form))}


async def design(work: Work) -> None:
    report = await ask(work, Step.DESIGN)
    work.parts["Architect decision"] = answers.decision(Designed.model_validate(report.form))


async def implement(work: Work) -> None:
    report = await ask(work, Step.IMPLEMENT, retry=work.item.retryCount)
    built = Built.model_validate(report.form)
    lines = answers.files(built, report.paths)
    work.files |= lines
    work.touched[work.attempt] = list(lines.values())
    work.parts["Implementation evidence"] = answers.evidence(built)
    if report.did is None and not built.already_so:
        work.fails("Engine", "nothing was changed; if it is so already, say why in `already_so`")
    else:
        await prove(work)


async def prove(work: Work) -> None:
    """The item's commands, where the engine runs them (RM-100)."""
    work.proved = await work.run.prove(work.commands)
    red = [one for one in work.proved if one.word in ("broken", "still red", "conflict")]
    if work.proved:
        work.gates["verification"] = "fail" if red else "pass"
        work.judged = work.proved[0].tree
    for one in red:
        said = work.run.tail(one.after, 12) if one.after else _conflict(one.tests)
        work.fails("Engine", f"`{one.command}` is {one.word}: {said}")


async def validation(work: Work) -> None:
    passes, _ = await judge(work, Step.VALIDATION)
    work.gates["validation"] = passes


async def testing(work: Work) -> None:
    passes, report = await judge(work, Step.TESTING)
    work.gates["tests"] = passes
    work.parts["Test summary"] = answers.tests(Tested.model_validate(report.form), passed=passes == "pass")
    added = {path: f"- `{path}` (by Testing)" for path in report.paths}
    work.files |= added
    work.touched[work.attempt] += added.values()


async def review(work: Work) -> None:
    passes, report = await judge(work, Step.REVIEW)
    words = dict(Reviewed.model_validate(report.form).evidence.checks)
    if passes == "fail" and "fail" not in words.values():
        words["quality"] = "fail"
    work.gates |= words
    work.judged = report.shown


async def judge(work: Work, step: Step) -> tuple[str, Report]:
    """Whether a judge's pass stands; all that speaks against it joins the evidence."""
    report = await ask(work, step)
    passes = report.ruling is not None and report.ruling.passes
    if not passes and report.ruling is not None:
        work.fails(ROWS[step].title or ROWS[step].agent, *report.ruling.against)
    return "pass" if passes else "fail", report


async def deliver(work: Work) -> None:
    """The item's work into the tree, as it was judged; what prevents that fails the attempt (RM-60)."""
    run = work.run
    for again in range(LATE):
        await prove(work)
        if work.has_failed():
            return None
        if work.inputs.commit and (refused := await run.hooks(work.item.name)):
            return work.fails("Engine", f"the commit hooks refuse it: {refused.problem}\n{run.text(refused.out)}")
        delivered = await run.deliver(f"{again}", work.judged)
        if delivered.state == "conflict":
            conflicts = delivered.landing.conflicts if delivered.landing else ()
            return work.fails("Engine", _conflict(conflicts))
        if delivered.state != "other":
            return None
        work.judged = delivered.merged
    return work.fails("Engine", "the person's tree changed each time before the work could come into it")


async def commit(work: Work) -> None:
    """One commit of the item's work (TS-09); what prevents it is told."""
    run, message = work.run, work.item.name
    red = any(one.word in ("broken", "still red") for one in await run.prove_commit(work.commands, message))
    problem = "red without what you have not committed" if red else (await run.commit(message)).problem
    if problem:
        run.warn(f"item {work.item.id} is not committed: {problem}")


async def ask(work: Work, step: Step, **inputs: Any) -> Report:
    """One step by its agent. Who says that it is not finished is asked once more, and then the item is blocked."""
    run, row, remark = work.run, ROWS[step], ""
    absent, title, green = work.rules["absent_checks"], row.title or row.agent, bool(work.proved)
    ran = [{"command": line, "exit": 0} for line in work.item.verification]
    checks = dict.fromkeys(answers.CHECKS, "pass")
    for _ in range(2):
        context = run.fill("item", **_context(work, step), **{"retry": 0, "changed": None, **inputs}, remark=remark)
        call = Call(
            replace(row, read=partial(answers.read, row.form, absent, green)),
            member=row.title,
            inputs={"item": work.item.model_dump(mode="json"), "unknown": work.unknown, **inputs},
            texts={"context": context, "absent": absent},
            attempt=work.attempt,
            proved=tuple(work.proved) if row.judges else (),
            known={"evidence": {"verification": ran, "checks": checks}} if row.judges else {},
        )
        report = await run.dispatch(call)
        if report.reason == "edited":
            raise Edited
        work.called.append(f"{title}#{work.attempt}")
        if report.conflicts and step is not Step.DESIGN:
            work.fails("Engine", _conflict(report.conflicts))
            raise Failed
        answer = Answer.model_validate(report.form)
        why = "; ".join(answer.reasons) or "no reason given"
        if answer.status == "blocked":
            work.fails(title, why)
            raise Blocked
        if row.judges or (answer.status == "success" and report.ok):
            return report
        remark = "\n".join([*answer.reasons, *answer.learnings]) if report.ok else _conflict(report.conflicts)
    work.fails(title, f"not finished when asked again: {why if report.ok else remark}")
    raise Blocked


STEPS = {
    Step.RESEARCH: research,
    Step.DESIGN: design,
    Step.IMPLEMENT: implement,
    Step.VALIDATION: validation,
    Step.TESTING: testing,
    Step.REVIEW: review,
}

PARTS = {
    Step.RESEARCH: ("Known from planning",),
    Step.DESIGN: ("Research findings", "Known from planning"),
    Step.IMPLEMENT: ("Research findings", "Known from planning", "Architect decision"),
    Step.VALIDATION: ("Architect decision", "Files created or modified"),
    Step.TESTING: ("Files created or modified", "Implementation evidence"),
    Step.REVIEW: ("Files created or modified", "Test summary", "Verification commands to run"),
}
"""What each brief has from earlier steps (RM-44)."""
_TOLD = ("id", "title", "complexity", "acceptanceCriteria", "verification", "dependencies")


def _context(work: Work, step: Step) -> dict[str, Any]:
    """The values of `item.md`: the item, what earlier steps hand on, what has failed so far."""
    item = work.item
    parts = {
        **work.parts,
        "Files created or modified": "\n".join(work.files.values()) or "(none)",
        "Verification commands to run": "\n".join(item.verification),
    }
    told = {name: value for name, value in item.model_dump(mode="json").items() if name in _TOLD and value != []}
    return {
        "item": json.dumps(told, ensure_ascii=False, indent=2),
        "parts": [(title, parts[title]) for title in PARTS[step] if title in parts],
        "failures": work.failures if step is Step.IMPLEMENT else [],
        "before": len(item.blockedReasons),
        "touched": work.touched if step is Step.IMPLEMENT else {},
        "unknown": work.unknown and not work.failures,
    }


def _planned(item: Item) -> str:
    known = item.planningResearch
    return known if isinstance(known, str) else json.dumps(known, ensure_ascii=False, indent=2)


def _conflict(paths: Sequence[str]) -> str:
    return f"the person changed the same lines meanwhile ({', '.join(paths)}): their version stands; work on that"


def _updates(before: Item, after: Item | None) -> Iterator[str]:
    """The state fields that the iteration changed, as the file has them now."""
    for name in ("status", "passes", "retryCount", "blockedReasons"):
        old, new = (_word(getattr(one, name, None)) for one in (before, after))
        if old != new:
            yield f"{name}: {old} -> {new}"


def _word(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
    return value if isinstance(value, str) else json.dumps(value)


def _listed(items: Sequence[Item]) -> str:
    return ", ".join(f"{one.id} ({one.status})" for one in items)


def _path(inputs: Inputs, where: Where) -> str:
    return posixpath.normpath(posixpath.join(where.place, inputs.file))


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    if inputs.commit and (why := refuses("")):
        raise BadInput(f"nothing could be committed: {why}", where="--commit")


EXAMPLE = {
    "id": 1,
    "title": "Export as CSV",
    "complexity": Complexity.COMPLEX.value,
    "priority": 1,
    "status": "ready",
    "passes": False,
    "acceptanceCriteria": ["there is an export"],
    "verification": ["make test"],
}
ROADMAP = Playbook(
    name="roadmap",
    play=roadmap,
    inputs=Inputs,
    flags=Flags,
    rows=tuple(ROWS.values()),
    caps={"item": 1000, "attempt": MOST_RETRIES + 1},
    headline=lambda inputs: inputs.file,
    key=_path,
    package="interlock.playbooks.roadmap",
    settings=Settings,
    summary="A roadmap, one item at a time, each through the agents that its complexity asks for.",
    check=_check,
    goes_on=True,
    files={"roadmap.json": json.dumps([EXAMPLE], indent=2)},
    invariants=INVARIANTS,
)
