"""`ticket`: a ticket becomes a plan, a task graph, a branch, built and tested work, a review and one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.forms import Form, Given, Unusable, read_form
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Outcome, Row, Run
from interlock.errors import BadInput
from interlock.playbooks.ticket import analysis, gate
from interlock.playbooks.ticket import documents as doc
from interlock.playbooks.ticket.analysis import DOCS
from interlock.playbooks.ticket.execution import DEVELOPER, EXECUTOR, execute
from interlock.playbooks.ticket.graph import faults, is_trivial, sample
from interlock.playbooks.ticket.invariants import INVARIANTS
from interlock.playbooks.ticket.request import Clarity, clarity, find_ticket, reading, tool_mandates
from interlock.playbooks.ticket.review import REVIEWER, commit, review
from interlock.playbooks.ticket.state import Stop, Ticket
from interlock.workspace import scope
from interlock.workspace.values import Where

ITERATIONS = 5
MIXED = (
    "ERROR: Mixed artifact model detected. Migrate legacy task state into tasks.yaml and remove legacy derived "
    "artifacts before resume. STOPPING."
)
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
    try:
        return await process(t)
    except Stop as stop:
        return stop.outcome


async def process(t: Ticket) -> Outcome:
    run = t.run
    with run.step("I0"):
        begun = await resume_detection(t)
    if not begun:
        with run.step("I1"):
            prompt, text, found, commands = await startup_analysis(t)
        with run.step("I2"):
            await initialize(t, prompt, text, found, commands)
    elif t.data["status"] == "ACCEPTED":
        run.say(f"{t.jira} is done already: accepted and committed on {t.data['branch']}.")
        return Outcome.complete(f"{t.jira} is done already")
    async for turn in run.loop("iteration"):
        if turn <= t.n:
            continue
        t.n = turn - 1
        if await iteration(t):
            break
    else:
        raise await t.stop("MAXIMUM ITERATIONS REACHED (5/5). STOPPING.", "REJECTED")
    with run.step("O7"):
        await refresh_docs(t)
    return await end(t)


# --- I0 to I2


async def resume_detection(t: Ticket) -> bool:
    """Whether the ticket was begun: then it goes on from its documents, which are trusted (TK-17)."""
    run, inputs = t.run, t.inputs
    if inputs.fresh or await run.read(t.at("progress.yaml"), doc.usable(doc.Progress, t.at("progress.yaml"))) is None:
        return False
    await t.read()
    prompt = await t.prompt()
    if " ".join(prompt.original_request.split()) != " ".join(inputs.request.split()):
        raise BadInput(
            f"ERROR: {t.jira} was begun with another request; --fresh starts over. STOPPING.",
            where=t.at("prompt.yaml"),
            expected=prompt.original_request,
        )
    if t.data["status"] == "ACCEPTED":
        return True
    found = await run.look("artifacts", partial(analysis.artifacts, folder=t.at("")))
    if found["legacy"] and found["tasks"]:
        raise BadInput(MIXED, where=", ".join(found["legacy"]))
    await t.find_commands()
    branch, through = t.data["branch"], t.data["git_gate_completed"]
    facts = await check_ground(t, branch)
    if through and not facts.at:
        raise BadInput(f"ERROR: branch {branch} does not exist; cannot resume", where=t.at("progress.yaml"))
    if not through:
        await gate.settle_dirt(t, await gate.dirty(t))
    elif facts.current != branch and (problem := await run.switch(branch, anyway=True)):
        run.warn(f"{branch} cannot be checked out: {problem}. The ticket goes on, on {branch}, all the same")
    t.watch()
    t.n, t.begins = t.data["iteration_number"], t.data["current_phase"]
    t.group_minutes = t.data["metrics"]["elapsed_minutes_estimate"]
    pair, known = run.view.pending, t.data["iterations"]
    if any(one["tasks_accepted"] for one in known) and (pair is None or pair.base == pair.work):
        run.warn("the work of accepted tasks is not here: the iteration is planned anew")
        t.begins = "PLANNING"
    elif known and known[-1]["status"] == "REJECTED":
        t.begins = "PLANNING"
    named = {name: line for name, line in (("build", inputs.build), ("test", inputs.test)) if line}
    await t.commands({**{name: t.data[f"{name}_command"] for name in ("build", "test")}, **named})
    await t.set(**{f"{name}_command": line for name, line in named.items()})
    t.log("resume", "I0", phase=t.data["current_phase"], at=t.data["current_step"])
    await t.flush()
    return True


async def check_ground(t: Ticket, branch: str) -> Any:
    """Where the repository stands, if work can begin there (TK-165)."""
    facts = await t.run.branch(branch)
    if not facts.head:
        raise BadInput("ERROR: there is no commit to begin from", remedy="Commit what there is first.")
    if facts.elsewhere:
        raise BadInput(f"ERROR: {branch} is checked out in {facts.elsewhere}")
    if facts.current == "detached" and await gate.dirty(t):
        raise BadInput(
            "ERROR: HEAD is detached and there are local changes", remedy="Commit them, or check out a branch."
        )
    return facts


async def startup_analysis(t: Ticket) -> tuple[doc.Prompt, str, Any, Mapping[str, str]]:
    """I1: commands, cores, documentation and impact by code; the prompt, too, where it is clear. Nothing is changed."""
    run, inputs = t.run, t.inputs
    t.log("startup.analysis.start", "I1")
    lines = await t.find_commands()
    commands = {name: getattr(inputs, name) or lines.get(name, "") for name in ("build", "test")}
    if not commands["test"]:
        raise BadInput("ERROR: no build/test command found; give --build and --test", where="--test")
    commands["build"] = commands["build"] or "none"
    unclear = run.decide(clarity, request=inputs.request)
    text = doc.dumped(reading(t.jira, inputs.request, t.stamp())) if unclear is Clarity.CLEAR else ""
    await check_ground(t, branch_of(t, doc.parsed(doc.Prompt, text, "prompt.yaml")) if text else t.jira)
    left = await gate.dirty(t)
    await gate.settle_dirt(t, left)
    await t.commands(commands)
    found = await run.look("survey", partial(analysis.survey, request=inputs.request), request=inputs.request)
    found["renew"] = [path for path in found["renew"] if path not in left]
    found["parallel"] = analysis.parallel_tasks(run.cores())
    if not inputs.fresh:
        await run.set_aside(t.at("prompt.yaml"))
    else:
        for path in (await run.look("artifacts", partial(analysis.artifacts, folder=t.at(""))))["all"]:
            await run.set_aside(path)
    if not text:
        await interpret(t, unclear)
        prompt = await t.prompt()
    else:
        prompt = doc.parsed(doc.Prompt, text, "prompt.yaml")
    t.log("startup.analysis.complete", "I1", clarity=str(unclear), trust=found["trust"])
    return prompt, text, found, commands


async def interpret(t: Ticket, unclear: Clarity) -> None:
    """An ambiguous request: the Interpreter makes prompt.yaml; what it has to ask is asked once (TK-50)."""
    path, request = t.at("prompt.yaml"), t.inputs.request
    mandates = [one["text"] for one in tool_mandates(request)]
    best = {**reading(t.jira, request, t.stamp()), "success_criteria": ["what is asked for is there"]}
    best |= {} if best["type"] else {"type": "chore", "slug": "do_the_task"}
    asked = {"request": request, "jira": t.jira, "at": t.stamp(), "mandates": mandates, "unclear": str(unclear)}
    row = replace(INTERPRETER, outputs=(path,), read=partial(interpreted, path, t.jira, request, mandates))
    answers = ""
    for _ in range(2):
        call = Call(row, inputs={**asked, "answers": answers}, request=request, samples={path: doc.dumped(best)})
        form = doc.Asked.model_validate((await t.call(call)).form or {})
        if answers or not form.questions:
            return
        decided = await t.run.gate("questions", "\n".join(form.questions), choices=("*",))
        answers = decided.choice if decided.choice not in ("", "*") else decided.note or "Decide it yourself."


def interpreted(path: str, ticket: str, request: str, mandates: Sequence[str], given: Given) -> Form | Unusable:
    """The Interpreter's questions, if its document is one."""
    wrong = doc.complaints(doc.Prompt, given.outputs.get(path), path)
    if not wrong:
        found = doc.parsed(doc.Prompt, given.outputs[path], path)
        kept = [one.text for one in found.tool_mandates]
        wrong += [] if found.jira == ticket else [f"ERROR: prompt.yaml: jira is {found.jira}, expected {ticket}"]
        if " ".join(found.original_request.split()) != " ".join(request.split()):
            wrong.append("ERROR: prompt.yaml: original_request is not the request, word for word")
        missing = [one for one in mandates if not any(one in text for text in kept)]
        wrong += [f"ERROR: prompt.yaml: tool_mandates lacks {one!r}, word for word" for one in missing]
    form = read_form(doc.Asked, given.structured, given.text)
    asked = form if isinstance(form, doc.Asked) else doc.Asked()
    return Unusable(problems=tuple(wrong)) if wrong else asked


def branch_of(t: Ticket, prompt: doc.Prompt) -> str:
    values = {"type": prompt.type, "jira": t.jira, "slug": prompt.slug}
    return doc.filled(t.run.settings.branch, values)


async def initialize(t: Ticket, prompt: doc.Prompt, text: str, found: Any, commands: Mapping[str, str]) -> None:
    """I2: the ticket's documents are there before the Planner runs."""
    run = t.run
    if text:
        await run.change(t.at("prompt.yaml"), lambda old: old or text)
    new = doc.new_progress(prompt, branch_of(t, prompt), commands, found, t.stamp())
    t.watch()
    await t.prompt()
    await run.change(t.at("tmp/.gitkeep"), lambda text: text)
    wrote = await run.change(t.at("progress.yaml"), lambda old: old or new)
    t.data = doc.data_of(run.text(wrote.text), "progress.yaml")
    await run.change(".gitignore", doc.ignoring)
    t.log("start", "I2", branch=t.data["branch"])
    await t.flush()


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
    known = t.data["iterations"][t.n]["status"] == "ACCEPTED"
    if not known and (begins in ("REVIEW", "DOC_REFRESH") or not await execute(t)):
        why = await review(t)
    else:
        await t.graph()
        why = ""
    if not why:
        if not known:
            await t.end_iteration("ACCEPTED")
        why = await commit(t)
    if why:
        await t.end_iteration("REJECTED")
        await t.flush()
        if t.n + 1 >= ITERATIONS:
            raise await t.stop("MAXIMUM ITERATIONS REACHED (5/5). STOPPING.", "REJECTED")
    return not why


async def plan(t: Ticket) -> None:
    """O1 to O3: a plan without a loose end, and mostly a task graph; beside it the documentation is renewed (I3)."""
    run = t.run
    with run.step("O1"):
        head, stamp = (await run.branch(t.data["branch"])).head, t.stamp()
        entries = [*t.data["iterations"][: t.n], {**doc.new_iteration(t.n, stamp), "status": "IN_PROGRESS"}]
        await t.set("PLANNING", "O1", head, iteration_number=t.n, status="IN_PROGRESS", iterations=entries)
        await run.change(t.here(".gitkeep"), lambda text: text)
        t.log("iteration.start", "O1", number=t.n + 1)
    with run.step("O3"):
        await t.set("PLANNING", "O3")
        t.log("planner.pre_git_gate.start", "O3", input=t.primary)
        for name in ("plan.md", "tasks.yaml", "review_report.yaml"):
            await run.set_aside(t.here(name))
        call = await planning(t)
        await t.flush()
        calls = {"Planner": partial(run.dispatch, call)}
        if t.n == 0 and not t.data["docs_trusted_for_planning"]:
            calls["Initializer"] = partial(initializer, t, "REFRESH_IF_REQUIRED")
        came = await run.together("planning", calls)
        await t.answered(came["Planner"], run.scope)
        await t.prompt()
        text = await run.read(t.here("plan.md")) or ""
        if lines := doc.deferrals(text):
            raise await t.stop("\n".join((DEFERRED, *lines)))
        t.log("planner.complete", "O3", plan=t.here("plan.md"))


async def planning(t: Ticket) -> Call:
    """What the Planner is asked, with the snapshot of what it would read (TK-81)."""
    run, plan, tasks = t.run, t.here("plan.md"), t.here("tasks.yaml")
    texts = [await run.read(path) or "not available" for path in (*DOCS, t.primary)]
    scan = {"startup.impact_scan": t.data["startup"]["impact_scan"]}
    several = not t.inputs.fast_path
    known = sample(t.data["startup"]["impact_scan"]["likely_files"], t.jira, several=several)
    return Call(
        replace(PLANNER, outputs=(plan,), may=(tasks,), read=partial(planned, plan)),
        inputs={**t.facts, "primary": t.primary},
        texts={
            "impact": doc.dumped(scan["startup.impact_scan"]),
            "architecture": "\n".join(texts[0].splitlines()[:80]),
            "code_style": "\n".join(texts[1].splitlines()[:40]),
            "findings": texts[2],
            "input": texts[3],
            "progress": await t.read(),
            "format": run.fill("graph"),
        },
        reads=(t.primary,),
        request=t.inputs.request,
        samples={plan: f"# Plan for {t.jira}\n", tasks: doc.dumped(known)},
    )


def planned(path: str, given: Given) -> Unusable | None:
    text = given.outputs.get(path)
    if text is None:
        return Unusable(problems=(f"ERROR: Planner produced no plan at {path}. STOPPING.",))
    return None if doc.has_title(text) else Unusable(problems=(f"ERROR: {path} has no `# ` title",))


async def initializer(t: Ticket, mode: str) -> Any:
    """The documentation renewed, as far as it is missing, stale or invalid and nobody's own; failing is a warning."""
    run, unsaved = t.run, {change.path for change in await t.run.unsaved()}
    found = await run.look("docs", analysis.docs)
    now = {path: await run.read(path) for path in DOCS}
    theirs = [path for path in DOCS if path in unsaved and now[path] != t.docs_left.get(path)]
    renew = tuple(path for path in found["renew"] or DOCS if path not in theirs)
    call = Call(
        replace(INITIALIZER, outputs=(doc.CACHE,), may=renew, read=partial(documented, found["fingerprint"])),
        inputs={**t.facts, "mode": mode, "renew": renew, "fingerprint": found["fingerprint"]},
        samples={**dict.fromkeys(renew, "# Documentation\n"), doc.CACHE: analysis.cache(found["fingerprint"])},
    )
    report = await run.dispatch(call)
    if not report.ok:
        run.warn(f"the documentation was not refreshed: {' '.join(report.complaint.split()) or report.reason}")
    t.docs_left |= {path: await run.read(path) for path in renew}
    return report


def documented(fingerprint: str, given: Given) -> Unusable | None:
    wrong = analysis.cache_problems(given.outputs.get(doc.CACHE), fingerprint)
    return Unusable(problems=tuple(wrong)) if wrong else None


async def settle_tasks(t: Ticket) -> None:
    """O4: the Planner's graph, if it is valid; else the Splitter's."""
    run, path, request = t.run, t.here("tasks.yaml"), t.inputs.request
    with run.step("O4"):
        await t.set("SPLITTING", "O4")
        text = await run.look("tasks", lambda look: look.read(path))
        wrong = faults(text, path, partial(run.guarded, request=request)) if text is not None else ["missing"]
        if not wrong:
            t.log("splitter.skipped_planner_provided", "O4")
        elif text is not None:
            t.log("tasks.yaml.invalid", "O4", reason=wrong)
            await run.set_aside(path)
        if wrong:
            call = Call(
                replace(SPLITTER, outputs=(path,), read=partial(split, path, run.limits.guarded, request)),
                inputs=t.facts,
                texts={"format": run.fill("graph")},
                reads=(t.here("plan.md"),),
                request=request,
                samples={path: doc.dumped(sample((), t.jira, several=True))},
            )
            await t.flush()
            report = await run.dispatch(call)
            if report.reason == "unusable":
                raise await t.stop(f"Splitter: {'; '.join(report.complaint.splitlines())}")
            await t.answered(report, run.scope)
        graph, prompt = await t.graph(), await t.prompt()
        mandates = [one.text for one in prompt.tool_mandates]
        trivial = t.inputs.fast_path and run.decide(is_trivial, graph=graph, mandates=mandates)
        t.log("tasks.ready", "O4", tasks=[task.id for task in graph.tasks])
        await t.measure(graph, cycle_acceleration_mode="trivial_graph" if trivial else "standard")
        await t.flush()


def split(path: str, names: Sequence[str], request: str, given: Given) -> Unusable | None:
    def guarded(paths: Sequence[str]) -> list[str]:
        return [one for one in paths if scope.guarded(one, names) and not scope.named(one, request)]

    wrong = faults(given.outputs.get(path), path, guarded)
    return Unusable(problems=tuple(wrong)) if wrong else None


# --- O7 and the end


async def refresh_docs(t: Ticket) -> None:
    """O7: the documentation, where it was not trusted or no longer tells how things are; a commit of its own."""
    await t.set("DOC_REFRESH", "O7")
    wanted = not t.data["docs_trusted_for_planning"] or t.relevant
    if wanted:
        await t.flush()
        await initializer(t, "INCREMENTAL")
        message = f"docs({t.jira}): refresh documentation\n"
        done = await t.run.commit_documents(message, DOCS)
        if done.problem:
            t.run.warn(f"the documentation is not committed: {done.problem}")
    t.log("docs.refresh", "O7", refreshed=wanted)
    await t.flush()


async def end(t: Ticket) -> Outcome:
    run, branch = t.run, t.data["branch"]
    total = t.data["metrics"]["tasks_total"]
    run.say(run.fill("success", n=t.n, jira=t.jira, branch=branch, total=total))
    done = t.ended(Outcome.complete(f"accepted in {t.n + 1} iteration(s), on {branch}", next=f"git log {branch}"))
    if not t.inputs.pr:
        return done
    prompt = await t.prompt()
    opened = await run.pull_request(
        branch, t.message(prompt).splitlines()[0], f"{prompt.original_request}\n\n{run.receipt()}"
    )
    if opened.problem:
        return replace(
            done, status="degraded", reason=f"{done.reason}; no pull request: {opened.problem}", next=opened.url
        )
    return replace(done, reason=f"{done.reason}: {opened.url}", next=opened.url)


def _check(inputs: Inputs, refuses: Callable[[str], str]) -> None:
    jira = find_ticket(inputs.request, inputs.jira)
    if why := refuses(f"ticket/{jira}/new"):
        raise BadInput(f"ERROR: nothing could be committed here: {why}")


def _key(inputs: Inputs, where: Where) -> str:
    return find_ticket(inputs.request, inputs.jira)


def _documents(inputs: Inputs) -> Sequence[str]:
    return (f"prompts/{find_ticket(inputs.request, inputs.jira)}/**", doc.CACHE, *DOCS)


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
    documents=_documents,
    by_people=True,
    goes_on=True,
    example={"request": "ABC-12 fix the sum of the lib: it should add", "jira": ""},
    invariants=INVARIANTS,
)
