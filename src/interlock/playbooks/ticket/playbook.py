"""`ticket`: a ticket becomes a plan, a task graph, a branch, built and tested work, a review and one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.forms import Form, Given, Unusable, read_form
from interlock.engine.kept import complaints, dumped, held, parsed
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Outcome, Report, Row, Run
from interlock.engine.view import CallView, View
from interlock.errors import BadInput, Status
from interlock.playbooks.ticket import analysis, gate
from interlock.playbooks.ticket import documents as doc
from interlock.playbooks.ticket.analysis import DOCS
from interlock.playbooks.ticket.execution import DEVELOPER, EXECUTOR, execute
from interlock.playbooks.ticket.graph import ATTEMPTS, faults, is_trivial, sample
from interlock.playbooks.ticket.request import find_ticket, reading, unclarity
from interlock.playbooks.ticket.review import REVIEWER, commit, review
from interlock.playbooks.ticket.state import MIXED, Ticket
from interlock.workspace.values import BranchFacts, Where

ITERATIONS = 5
LIMIT = "MAXIMUM ITERATIONS REACHED (5/5). STOPPING."
DEFERRED = "ERROR: Planner deferred research — violates NO RESEARCH DEFERRAL rule. STOPPING."
Dirty = Literal["", "stash", "carry", "abort"]


class Inputs(Model):
    """A ticket, and what is known of it beforehand."""

    request: str = Field(description="What is to be done, with the id of its ticket.")
    jira: str = Field("", description="The ticket, where the request names none or several.")
    build: str = Field("", description="The build command; `none`: there is none.")
    test: str = Field("", description="The test command; `none`: there is none.")
    fast_path: bool = Field(True, description="One simple task takes the short cut.")
    accept_baseline: bool = Field(False, description="What is red before may stay red.")
    fresh: bool = Field(False, description="Set the ticket's documents aside and start over.")
    pr: bool = Field(False, description="Push the branch and open a pull request.")


class Flags(Model):
    """What this process may do by itself."""

    dirty: Dirty = Field("", description="What becomes of uncommitted code: stash, carry or abort.")


class Settings(Model):
    """The table `[ticket]`."""

    branch: str = "{type}/{jira}_{slug}"
    commit_message: str = "{kind}({jira}): {summary}\n\n{tasks}"
    dirty: Dirty = ""
    fast_path: bool = True
    command_timeout_s: float = Field(1800, gt=0)


INTERPRETER = Row("Interpreter", "interpreter", doc.Asked, timeout_s=1800, lost=True, repeats=1)
INITIALIZER = Row("Initializer", "initializer", timeout_s=3600, lost=True, repeats=1)
PLANNER = Row("Planner", "planner", timeout_s=1800, lost=True, repeats=1)
SPLITTER = Row("Splitter", "splitter", timeout_s=1800, lost=True, repeats=1)


async def ticket(run: Run, inputs: Inputs) -> Outcome:
    """From the request, or from where its documents stand, to one commit."""
    t = Ticket(run, inputs)
    with run.step("I0"):
        begun = await resume_detection(t)
    if not begun:
        await begin(t)
    elif t.data.status == "ACCEPTED":
        run.say(f"{t.jira} is done already: accepted and committed on {t.data.branch}.")
        return Outcome.complete(f"{t.jira} is done already")
    async for turn in run.loop("iteration"):
        t.n = max(t.n, turn - 1)
        if t.n == turn - 1 and await iteration(t):
            break
    with run.step("O7"):
        await refresh_docs(t)
    return await end(t)


# --- I0 to I2


async def resume_detection(t: Ticket) -> bool:
    """Whether the ticket was begun: then it goes on from its documents, which are trusted (TK-17)."""
    run, inputs = t.run, t.inputs
    if inputs.fresh or await run.read(t.at("progress.yaml")) is None:
        return False
    await t.read()
    prompt, state = await t.prompt(), t.data
    if prompt.original_request.split() != inputs.request.split():
        what = f"ERROR: {t.jira} was begun with another request; --fresh starts over. STOPPING."
        raise BadInput(what, where=t.at("prompt.yaml"), expected=prompt.original_request)
    if state.status == "ACCEPTED":
        await t.resumes()
        return True
    if len(state.iterations) == ITERATIONS and state.iterations[-1].status == "REJECTED":
        raise await t.stop(LIMIT, "REJECTED")
    if left := await t.legacy():
        raise BadInput(MIXED, where=left)
    await t.find_commands()
    facts, branch = await check_ground(t, state.branch), state.branch
    if not state.git_gate_completed:
        await gate.settle_dirt(t, await gate.dirty(t))
    elif not facts.at:
        raise BadInput(f"ERROR: branch {branch} does not exist; cannot resume", where=t.at("progress.yaml"))
    elif facts.current != branch and (problem := await run.switch(branch, anyway=True)):
        run.warn(f"{branch} cannot be checked out: {problem}. The ticket goes on, on {branch}, all the same")
    t.n, t.begins = state.iteration_number, state.current_phase
    counts = [state.metrics[name] for name in ("remaining_minutes_estimate", "tasks_completed", "tasks_total")]
    t.group_minutes = (counts[0] or 0) * counts[1] / max(1, counts[2] - counts[1])
    pair = run.view.pending
    if any(one.tasks_accepted for one in state.iterations) and (pair is None or pair.base == pair.work):
        run.warn("the work of accepted tasks is not here: the iteration is planned anew")
        t.begins = "PLANNING"
    elif state.iterations[-1].status == "REJECTED":
        t.begins = "PLANNING"
    known = {"build": inputs.build or state.build_command, "test": inputs.test or state.test_command}
    await t.commands(known)
    await t.set(build_command=known["build"], test_command=known["test"])
    await t.resumes()
    return True


async def check_ground(t: Ticket, branch: str) -> BranchFacts:
    """Where the repository stands, if work can begin there (TK-165)."""
    facts = await t.run.branch(branch)
    if not facts.head:
        raise BadInput("ERROR: there is no commit to begin from", remedy="Commit what there is first.")
    if facts.elsewhere:
        raise BadInput(f"ERROR: {branch} is checked out in {facts.elsewhere}")
    if facts.current == "detached" and await gate.dirty(t):
        remedy = "Commit them, or check out a branch."
        raise BadInput("ERROR: HEAD is detached and there are local changes", remedy=remedy)
    return facts


async def begin(t: Ticket) -> None:
    """I1 finds by code what can be found, and changes nothing; I2: the documents are there before the Planner runs."""
    run, inputs = t.run, t.inputs
    with run.step("I1"):
        await t.log("startup.analysis.start", "I1")
        lines = await t.find_commands()
        commands = {name: getattr(inputs, name) or lines.get(name, "") for name in ("build", "test")}
        if not commands["test"]:
            raise BadInput("ERROR: no build/test command found; give --build and --test", where="--test")
        commands["build"] = commands["build"] or "none"
        unclear, known = run.decide(unclarity, request=inputs.request), reading(t.jira, inputs.request, t.stamp())
        await check_ground(t, t.jira if unclear else branch_of(t, known))
        await gate.settle_dirt(t, await gate.dirty(t))
        await t.commands(commands)
        found = await run.look("survey", partial(analysis.survey, request=inputs.request), request=inputs.request)
        found["parallel"] = analysis.parallel_tasks(run.cores())
        earlier = await run.look("artifacts", partial(analysis.artifacts, folder=t.at("")))
        for path in earlier["all"] if inputs.fresh else [t.at("prompt.yaml")]:
            await run.set_aside(path)
        if unclear:
            await interpret(t, unclear, known)
        await t.log("startup.analysis.complete", "I1", clarity=unclear or "clear", trust=found["trust"])
    with run.step("I2"):
        await run.change(t.at("prompt.yaml"), lambda old: old or dumped(known))
        prompt = await t.prompt()
        new = doc.new_progress(prompt, branch_of(t, prompt.model_dump()), commands, found, t.stamp())
        await run.change(t.at("tmp/.gitkeep"), lambda text: text)
        await run.change(t.at("progress.yaml"), lambda old: old or new)
        await t.read()
        await run.change(".gitignore", doc.ignoring)
        await t.log("start", "I2", branch=t.data.branch)


async def interpret(t: Ticket, unclear: str, known: Mapping[str, Any]) -> None:
    """An ambiguous request: the Interpreter makes prompt.yaml; what it has to ask is asked once (TK-50)."""
    path, request = t.at("prompt.yaml"), t.inputs.request
    mandates = [one["text"] for one in known["tool_mandates"]]
    best = {**known, **({} if known["type"] else {"type": "chore", "slug": "do_the_task"})}
    asked = {"request": request, "jira": t.jira, "at": known["created_at"], "mandates": mandates, "unclear": unclear}
    row = replace(INTERPRETER, outputs=(path,), read=partial(interpreted, path, t.jira, request, mandates))
    answers = ""
    for _ in range(2):
        call = Call(row, inputs={**asked, "answers": answers}, request=request, samples={path: dumped(best)})
        form = doc.Asked.model_validate((await t.call(call)).form or {})
        if answers or not form.questions:
            return
        decided = await t.run.gate("questions", "\n".join(form.questions), choices=("*",))
        answers = decided.choice if decided.choice not in ("", "*") else decided.note or "Decide it yourself."


def interpreted(path: str, ticket: str, request: str, mandates: Sequence[str], given: Given) -> Form | Unusable:
    """The Interpreter's questions, if its document is one."""
    wrong = complaints(doc.Prompt, given.outputs.get(path), path)
    if not wrong:
        found = parsed(doc.Prompt, given.outputs[path], path)
        if found.jira != ticket:
            wrong.append(f"ERROR: prompt.yaml: jira is {found.jira}, expected {ticket}")
        if found.original_request.split() != request.split():
            wrong.append("ERROR: prompt.yaml: original_request is not the request, word for word")
        missing = [one for one in mandates if not any(one in kept.text for kept in found.tool_mandates)]
        wrong += [f"ERROR: prompt.yaml: tool_mandates lacks {one!r}, word for word" for one in missing]
    form = read_form(doc.Asked, given.structured, given.text)
    asked = form if isinstance(form, doc.Asked) else doc.Asked()
    return Unusable(problems=tuple(wrong)) if wrong else asked


def branch_of(t: Ticket, prompt: Mapping[str, Any]) -> str:
    return doc.filled(t.run.settings.branch, {name: prompt[name] for name in ("type", "jira", "slug")})


# --- one iteration


async def iteration(t: Ticket) -> bool:
    """O1 to O6, or from the phase where it stood; whether it was accepted and committed."""
    begins, t.begins = t.begins, "PLANNING"
    if begins in ("INITIALIZED", "PLANNING"):
        await plan(t)
    if begins in ("INITIALIZED", "PLANNING", "SPLITTING"):
        await settle_tasks(t)
    if begins not in ("TASK_EXECUTION", "REVIEW", "DOC_REFRESH"):
        await gate.git_gate(t)
    why = ""
    if t.data.iterations[t.n].status != "ACCEPTED":
        if begins in ("REVIEW", "DOC_REFRESH") or not await execute(t):
            why = await review(t)
        if not why:
            await t.end_iteration("ACCEPTED")
    if why := why or await commit(t):
        await t.end_iteration("REJECTED")
        if t.n + 1 == ITERATIONS:
            with t.run.step("limit"):
                raise await t.stop(LIMIT, "REJECTED")
    return not why


async def plan(t: Ticket) -> None:
    """O1 to O3: a plan without a loose end, and mostly a task graph; beside it the documentation is renewed (I3)."""
    run = t.run
    with run.step("O1"):
        head = (await run.branch(t.data.branch)).head
        new = doc.Iteration(number=t.n, status="IN_PROGRESS", started_at=t.stamp())
        entries = [one.model_dump() for one in (*t.data.iterations[: t.n], new)]
        await t.set("PLANNING", "O1", head, iteration_number=t.n, iterations=entries)
        t.group_minutes = 0
        await run.change(t.here(".gitkeep"), lambda text: text)
        await t.log("iteration.start", "O1", number=t.n + 1)
    with run.step("O3"):
        await t.set("PLANNING", "O3")
        await t.log("planner.pre_git_gate.start", "O3", input=t.primary)
        for name in ("plan.md", "tasks.yaml", "review_report.yaml"):
            await run.set_aside(t.here(name))
        calls = {"Planner": partial(run.dispatch, await planning(t))}
        if t.n == 0 and not t.data.docs_trusted_for_planning:
            calls["Initializer"] = partial(initializer, t, "REFRESH_IF_REQUIRED")
        came = await run.together("planning", calls)
        await t.answered(came["Planner"], run.scope)
        await t.prompt()
        if lines := doc.deferrals(await run.read(t.here("plan.md")) or ""):
            raise await t.stop("\n".join((DEFERRED, *lines)))
        await t.log("planner.complete", "O3", plan=t.here("plan.md"))


async def planning(t: Ticket) -> Call:
    """The Planner's call, with its snapshot read before anybody starts (TK-81)."""
    run, path, tasks = t.run, t.here("plan.md"), t.here("tasks.yaml")
    architecture, style, findings, given = [await run.read(one) or "not available" for one in (*DOCS, t.primary)]
    scan = t.data.startup["impact_scan"]
    known = sample(scan["likely_files"], t.jira, several=not t.inputs.fast_path)

    def wrong(left: Given) -> list[str]:
        told = f"ERROR: Planner produced no plan at {path}. STOPPING. It begins with a `# ` title."
        return [] if doc.has_title(left.outputs.get(path, "")) else [told]

    return Call(
        replace(PLANNER, outputs=(path,), may=(tasks,), read=held(wrong)),
        inputs={**t.facts, "primary": t.primary},
        texts={
            "impact": dumped(scan),
            "architecture": "\n".join(architecture.splitlines()[:80]),
            "code_style": "\n".join(style.splitlines()[:40]),
            "findings": findings,
            "input": given,
            "progress": await run.read(t.at("progress.yaml")),
            "format": run.fill("graph"),
        },
        reads=(t.primary,),
        request=t.inputs.request,
        samples={path: f"# Plan for {t.jira}\n", tasks: dumped(known)},
    )


async def initializer(t: Ticket, mode: str) -> Report:
    """The documentation renewed, as far as it is missing, stale or invalid and nobody's own; failing is a warning."""
    run, unsaved = t.run, {change.path for change in await t.run.unsaved()}
    found = await run.look("docs", analysis.docs)
    now = {path: await run.read(path) for path in DOCS}
    theirs = [path for path in DOCS if path in unsaved and now[path] != t.docs_left.get(path)]
    renew, known = tuple(path for path in found["renew"] or DOCS if path not in theirs), found["fingerprint"]
    wrong: Callable[[Given], list[str]] = lambda left: analysis.cache_problems(left.outputs.get(doc.CACHE), known)  # noqa: E731
    call = Call(
        replace(INITIALIZER, outputs=(doc.CACHE,), may=renew, read=held(wrong)),
        inputs={**t.facts, "mode": mode, "renew": renew, "fingerprint": known},
        samples={**dict.fromkeys(renew, "# Documentation\n"), doc.CACHE: analysis.cache(known)},
    )
    report = await run.dispatch(call)
    if not report.ok:
        run.warn(f"the documentation was not refreshed: {' '.join(report.complaint.split()) or report.reason}")
    t.docs_left |= {path: await run.read(path) for path in renew}
    return report


async def settle_tasks(t: Ticket) -> None:
    """O4: the Planner's graph, if it is valid; else the Splitter's."""
    run, path, request, names = t.run, t.here("tasks.yaml"), t.inputs.request, t.run.limits.guarded
    with run.step("O4"):
        await t.set("SPLITTING", "O4")
        wrong = await run.look("tasks", lambda look: faults(look.read(path), path, names, request))
        if not wrong:
            await t.log("splitter.skipped_planner_provided", "O4")
        elif await run.set_aside(path):
            await t.log("tasks.yaml.invalid", "O4", reason=wrong)
        if wrong:
            read = held(lambda left: faults(left.outputs.get(path), path, names, request))
            call = Call(
                replace(SPLITTER, outputs=(path,), read=read),
                inputs=t.facts,
                texts={"format": run.fill("graph")},
                reads=(t.here("plan.md"),),
                request=request,
                samples={path: dumped(sample((), t.jira, several=True))},
            )
            report = await run.dispatch(call)
            if report.reason == "unusable":
                raise await t.stop(f"Splitter: {'; '.join(report.complaint.splitlines())}")
            await t.answered(report, run.scope)
        graph, mandates = await t.graph(), [one.text for one in (await t.prompt()).tool_mandates]
        trivial = t.inputs.fast_path and run.decide(is_trivial, graph=graph, mandates=mandates)
        await t.log("tasks.ready", "O4", tasks=[task.id for task in graph.tasks])
        await t.measure(graph, cycle_acceleration_mode="trivial_graph" if trivial else "standard")


# --- O7 and the end


async def refresh_docs(t: Ticket) -> None:
    """O7: the documentation, where it was not trusted or no longer tells how things are; a commit of its own."""
    await t.set("DOC_REFRESH", "O7")
    wanted = not t.data.docs_trusted_for_planning or t.relevant
    if wanted:
        await initializer(t, "INCREMENTAL")
        done = await t.run.commit_documents(f"docs({t.jira}): refresh documentation\n", DOCS)
        if done.problem:
            t.run.warn(f"the documentation is not committed: {done.problem}")
    await t.log("docs.refresh", "O7", refreshed=wanted)


async def end(t: Ticket) -> Outcome:
    run, branch = t.run, t.data.branch
    red = [one.name for one in t.proved if one.after and not one.after.green]
    run.say(run.fill("success", n=t.n, jira=t.jira, branch=branch, total=t.data.metrics["tasks_total"], red=red))
    done = t.ended(Outcome.complete(f"accepted in {t.n + 1} iteration(s), on {branch}", next=f"git log {branch}"))
    if not t.inputs.pr:
        return done
    title, body = (await t.message()).splitlines()[0], f"{(await t.prompt()).original_request}\n\n{run.receipt()}"
    opened = await run.pull_request(branch, title, body)
    if opened.problem:
        why = f"{done.reason}; no pull request: {opened.problem}"
        return replace(done, status="degraded", reason=why, next=opened.url)
    return replace(done, reason=f"{done.reason}: {opened.url}", next=opened.url)


def _key(inputs: Inputs, where: Where | None = None) -> str:
    return find_ticket(inputs.request, inputs.jira)


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    if why := refuses(f"ticket/{_key(inputs)}/new"):
        raise BadInput(f"ERROR: nothing could be committed here: {why}")


# --- what holds on every path, beside what holds for all playbooks

WORKERS = ("Developer", "task-executor")


def _calls(view: View, *agents: str) -> list[CallView]:
    return [call for call in view.calls.values() if call.agent in agents and call.report]


def _committed(view: View) -> bool:
    return any(one.what == "commit" and one.commit for one in view.committed)


def _on_its_branch(view: View) -> bool:
    """Nobody writes code before the git gate."""
    return view.start is None or not _calls(view, *WORKERS) or view.start.key in view.where.branch


def _is_committed(view: View) -> bool:
    """Complete is what is committed, or left nothing to commit."""
    nothing = any("nothing to commit" in one for one in view.warnings)
    return view.status not in (Status.COMPLETE, Status.DEGRADED) or _committed(view) or nothing


def _was_accepted(view: View) -> bool:
    """The last word before a commit is the Reviewer's, or that of the short cut."""
    last = _calls(view, "Reviewer", *WORKERS)[-1:]
    return not _committed(view) or all(
        one.agent == "Developer" or (one.report and one.report.ruling and one.report.ruling.passes) for one in last
    )


def _is_capped(view: View) -> bool:
    return all(call.attempt <= ATTEMPTS for call in _calls(view, *WORKERS))


def _unpaid(view: View) -> bool:
    """No Reviewer is paid while a command is red because of the work; what an attempt only claims is none."""
    for step in view.steps:
        red: dict[str, bool] = {}
        for key in step.keys:
            pair = view.ran.get(key)
            if pair is not None and pair.proved is not None and not pair.name.startswith("claim-"):
                red[pair.name] = pair.proved.red
            elif any(red.values()) and key in view.calls and view.calls[key].agent == "Reviewer":
                return False
    return True


INVARIANTS: Mapping[str, Callable[[View], bool]] = {
    "code is written on the ticket's branch alone": _on_its_branch,
    "complete is committed": _is_committed,
    "what is committed was accepted": _was_accepted,
    "no task has more than five attempts": _is_capped,
    "no Reviewer is paid for red work": _unpaid,
}


TICKET = Playbook(
    name="ticket",
    play=ticket,
    inputs=Inputs,
    flags=Flags,
    rows=(INTERPRETER, INITIALIZER, PLANNER, SPLITTER, DEVELOPER, EXECUTOR, REVIEWER),
    caps={"iteration": ITERATIONS, "round": 1000},
    headline=lambda inputs: inputs.request,
    key=_key,
    package="interlock.playbooks.ticket",
    settings=Settings,
    summary="A ticket: plan, task graph, branch, groups of tasks, review, one commit.",
    check=_check,
    documents=lambda inputs: (f"prompts/{_key(inputs)}/**", doc.CACHE, *DOCS),
    by_people=True,
    goes_on=True,
    example={"request": "ABC-12 fix the sum of the lib: it should add", "jira": ""},
    invariants=INVARIANTS,
)
