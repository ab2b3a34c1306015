"""O6 and the commit: an iteration is accepted by its Reviewer and by what runs, then delivered and committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from interlock.engine.forms import Form, Given, Unusable
from interlock.engine.kept import put, reads, spell
from interlock.engine.run import Call, Proved, Row, clash
from interlock.playbooks.ticket import documents as doc
from interlock.playbooks.ticket.analysis import architecture_relevant
from interlock.playbooks.ticket.graph import Graph
from interlock.playbooks.ticket.request import ALWAYS_CRITERIA
from interlock.playbooks.ticket.state import Ticket, weakened

REVIEWER = Row("Reviewer", "reviewer", doc.Review, judges=True, timeout_s=3600, lost=True, repeats=1, spell=spell)

ALLOWED = dict(zip(("build", "test"), zip(("build", "tests"), ALWAYS_CRITERIA, strict=True), strict=True))
"""Of a command that may stay red (TK-166): its field of the report, and the criterion that is not asked for then."""


async def review(t: Ticket) -> str:
    """Why the iteration is rejected; empty: it is accepted. The report says the same."""
    run, path = t.run, t.here("review_report.yaml")
    with run.step("O6"):
        await t.set("REVIEW", "O6")
        graph = await t.graph()
        t.proved = await run.prove(await t.commands())
        if bad := t.red(t.proved):
            return await reject(t, bad)
        known = [one for one in t.proved if one.after and not one.after.green]
        allowed = [ALLOWED[one.name] for one in known if one.name in ALLOWED]
        criteria, weak = criteria_of(await t.prompt(), graph, [always for _, always in allowed]), weakened(t.proved)
        call = Call(
            replace(REVIEWER, outputs=(path,), read=partial(told, path, [field for field, _ in allowed])),
            inputs={**t.facts, "criteria": criteria, "weakened": weak},
            texts={"known": [one.command for one in known]},
            reads=(t.at("prompt.yaml"), t.here("tasks.yaml")),
            criteria=criteria,
            attempt=t.n + 1,
            proved=tuple(t.proved),
        )
        report = await t.call(call)
        if report.conflicts:
            return await reject(t, [clash(report.conflicts)])
        if report.ruling is not None and report.ruling.passes:
            return ""
        said = doc.Review.model_validate(report.form)
        against = report.ruling.against if report.ruling else ("it gave no verdict",)
        return "REJECTED" if said.status == "REJECTED" else await reject(t, against, said)


def told(path: str, allowed: Sequence[str], given: Given) -> Form | Unusable:
    """The Reviewer's answer; what may stay red and is told so speaks against nothing."""
    form = reads(doc.Review, path)(given)
    return form.model_copy(update=dict.fromkeys(allowed, "PASSED")) if isinstance(form, doc.Review) else form


def criteria_of(prompt: doc.Prompt, graph: Graph, without: Sequence[str] = ()) -> tuple[str, ...]:
    """`C1` and on of the prompt, `T1.1` and on of the tasks."""
    whole = [f"C{n}: {one}" for n, one in enumerate(prompt.success_criteria, 1) if one not in without]
    tasks = [f"{task.id}.{n}: {one}" for task in graph.tasks for n, one in enumerate(task.success_criteria, 1)]
    return (*whole, *tasks)


async def reject(t: Ticket, against: Sequence[str], said: doc.Review | None = None) -> str:
    """The report says REJECTED, and why: it is what the next plan is made from (TK-150)."""
    failed = {one.name for one in t.proved if one.red}
    issues: list[Any] = [issue.model_dump() for issue in said.issues] if said else []
    issues += [{"severity": "engine", "problem": one} for one in against]
    values: dict[str, Any] = {"status": "REJECTED", "issues": issues}
    if said is None:
        tests = "FAILED" if failed - {"build"} else "PASSED"
        values |= {"mode": "prompt-review", "build": "FAILED" if "build" in failed else "PASSED", "tests": tests}
        values |= {"files_verified": True, "notes": "Rejected by interlock.", "reviewed_at": t.stamp()}
    await put(t.run, t.here("review_report.yaml"), values)
    return "\n".join(against)


async def commit(t: Ticket) -> str:
    """The accepted work, delivered and committed on the branch; why that has to be planned anew, or nothing."""
    run, also = t.run, {".gitignore": doc.ignoring}
    with run.step("commit"):
        message, changes = await t.message(), await run.changed()
        t.relevant = architecture_relevant(changes)
        commands = await t.commands()
        t.proved = await run.prove(commands)
        if clashes := t.red([one for one in t.proved if one.word == "conflict"]):
            return await reject(t, clashes)
        await must_be_green(t, t.proved, "with what changed in your tree since")
        await must_be_green(t, await run.prove_commit(commands, message), "without what you have not committed")
        if refused := await run.hooks(message, also):
            raise await t.stop(f"the commit hooks refuse it: {refused.problem}\n{run.text(refused.out)}".strip())
        landed = await run.land(commands, t.proved[0].tree if t.proved else None, f"{t.n}-")
        if landed.state == "conflict":
            return await reject(t, [*landed.against])
        if landed.against:
            raise await t.stop("\n".join(("the accepted work cannot come into your tree:", *landed.against.values())))
        made = await run.commit(message, also=also)
        done = [one for one in run.view.delivered if one.state == "done" and one.label != "documents"]
        if made.problem and (done or landed.state == "away"):
            raise await t.stop(f"the work is accepted, but not committed: {made.problem}")
        if not made.commit:
            run.warn("there is nothing to commit: the accepted work left no file that differs from the last commit")
        head = made.commit or (await run.branch(t.data.branch)).head
        await t.set(
            t.data.current_phase, t.data.current_step, head, status="ACCEPTED", metrics={"percent_complete": 100}
        )
        await t.log("iteration.accepted", "O6", commit=made.commit)
    return ""


async def must_be_green(t: Ticket, proved: Sequence[Proved], how: str) -> None:
    if bad := t.red(proved):
        raise await t.stop("\n".join((f"the accepted work is red {how}:", *bad)))
