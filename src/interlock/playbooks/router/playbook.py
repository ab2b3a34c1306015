"""`router`: a task-based command is validated, routed by the task's language, delegated, and its answer relayed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from interlock.documents.model import Model
from interlock.engine.playbook import Playbook
from interlock.engine.run import Call, Outcome, Report, Row, Run, clash
from interlock.engine.view import View
from interlock.playbooks.router import decisions
from interlock.playbooks.router.decisions import Answer, Came, Return, asked, escaped, read
from interlock.playbooks.router.documents import EVERYTHING, TODO, agent_file, command_file, find_task, still_so

CONTEXT = ".opencode/context"
REQUIRED = ("core/system/routing-guide.md", "core/system/validation-rules.md")
SHOWN = 2000
"""Characters at the end of what an agent had written that are shown."""
UNVERIFIED = "unverified: {agent} did not say how it ended (Status: completed, partial, failed or blocked)"


class Inputs(Model):
    """What was typed."""

    request: str = Field(
        description="The command with its task: /research, /plan, /implement, /revise NUMBER [PROMPT]."
    )


class Settings(Model):
    """The table `[router]`; numbers may be lowered alone, but for the default timeout."""

    max_depth: Annotated[int, Field(ge=1, le=3)] = 3
    cycle_detection: bool = True
    max_context_bytes: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    timeout_default_s: Annotated[int, Field(ge=1, le=86_400)] | None = None
    partial_grace_s: Annotated[int, Field(ge=1, le=30)] = 30


ROW = Row("subagent", "delegate", Answer, writes=EVERYTHING, timeout_s=7200, overall=True, repeats=0, lost=True)


async def router(run: Run, inputs: Inputs) -> Outcome:
    """Three stages: extract and validate, route, delegate."""
    request = asked(inputs.request)
    with run.step("ExtractAndValidate"):
        task = find_task(await run.read(TODO, partial(find_task, number=request.number)), request.number)
        header = await run.read(request.file, partial(command_file, path=request.file))
        command = command_file(header, request.file)
        rules = Settings.model_validate(run.once("rules", {}, (run.settings or Settings()).model_dump))
        depth, path, tasks = decisions.outer(run.start.outer)
        decisions.check_depth(depth, path, rules.max_depth)
        begun = run.now()
        session = f"sess_{begun:%Y%m%d}_{run.new_id(6)}"
        run.note("validated", **asdict(task), session=session, depth=depth)
        for why in decisions.odd(task, request.command):
            run.warn(why)
    with run.step("Route"):
        agent = run.decide(decisions.target, task, command, request.file)
        if rules.cycle_detection:
            decisions.check_cycle(agent, task.number, path, tasks)
        file = f".opencode/agent/subagents/{agent}.md"
        text = await run.read(file, lambda found: agent_file(found, agent, file, request.file))
        writes, problem = agent_file(text, agent, file, request.file)
        if problem:
            run.warn(problem)
        timeout = decisions.deadline_s(request.command, command, rules.timeout_default_s)
        context = {
            "prompt": f"Task {task.number}: {task.title}",
            "task_number": int(task.number),
            "language": task.language,
            "task_description": task.description,
            "user_prompt": request.prompt,
            "session_id": session,
            "delegation_depth": depth,
            "delegation_path": [*path, agent],
            "timeout": timeout,
            "deadline": f"{begun.fromtimestamp(begun.timestamp() + timeout, begun.tzinfo):%Y-%m-%dT%H:%M:%SZ}",
        }
        decisions.check_size(context, rules.max_context_bytes)
        run.note("routed", agent=agent, timeout=timeout, delegation_path=context["delegation_path"])
    with run.step("Delegate"):
        row = replace(
            ROW,
            agent=agent,
            role=file,
            writes=writes,
            form=Answer if command.returns == "json" else None,
            answers=command.returns == "json",
            read=partial(read, command.returns, agent, session),
            timeout_s=timeout,
            grace_s=rules.partial_grace_s,
        )
        call = Call(
            row,
            inputs={"context": context, "command": request.command, "returns": command.returns},
            texts={"assigned": partial(_assigned, context)},
            reads=await _reads(run),
            request=f"{request.prompt}\n{task.description}",
            known={"status": "completed", "session_id": session, "errors": []},
            hands={"depth": depth, "path": [*path, agent], "tasks": [*tasks, task.number]},
        )
        report = await run.dispatch(call)
        came, why = await _settled(run, agent, report)
        run.note("returned", came=came.value, session=session)
    status, code = run.decide(decisions.ending, came)
    if not still_so(await run.read(TODO), task):
        run.warn(f"task {task.number} is not what it was in {TODO}: somebody changed it meanwhile")
    answer = "" if came is Came.NOTHING else Return.model_validate(report.form).answer or run.text(report.text)
    return Outcome(status, why or f"{agent} returned {came.value}", answer, exit=code)


def _assigned(context: Mapping[str, Any], timeout_s: float, ends: str) -> str:
    """The object as it is handed over, with the time that the call to come really has."""
    told = {**context, "timeout": round(timeout_s), "deadline": ends}
    return json.dumps(told, ensure_ascii=False, indent=1)


async def _reads(run: Run) -> tuple[str, ...]:
    """The context that an agent is pointed to, as far as it is there."""
    found = []
    for path in ("index.md", *REQUIRED):
        folder, _, name = f"{CONTEXT}/{path}".rpartition("/")
        if await run.names(folder, name):
            found.append(f"{folder}/{name}")
        elif path in REQUIRED:
            run.warn(f"{folder}/{name} is not there")
    return tuple(found)


async def _settled(run: Run, agent: str, report: Report) -> tuple[Came, str]:
    """What came back, its work delivered if the agent vouches for it; and why it is not what one would expect."""
    raw = f"Raw answer: .interlock/runs/{run.id}/dispatches/{run.scope}/{agent}#1/answer.md"
    if report.conflicts:
        return Came.NOTHING, f"Error: {clash([*map(escaped, report.conflicts)])} {raw}"
    if not report.ok:
        if report.reason == "timeout" and (wrote := run.text(report.text)[-SHOWN:].strip()):
            run.warn(f"{agent} had written, at the end:\n{wrote}")
        why = "; ".join(report.complaint.splitlines()) or report.reason
        return Came.NOTHING, f"Error: {why if why.startswith((agent, 'answer')) else f'{agent}: {why}'}. {raw}"
    told = Return.model_validate(report.form)
    if told.came is Came.FAILED:
        return told.came, told.why and f"{agent}: {told.why}"
    delivered = await run.deliver("answer", unjudged=True)
    if delivered.state == "conflict":
        conflicts = delivered.landing.conflicts if delivered.landing else ()
        return Came.NOTHING, f"Error: {clash([*map(escaped, conflicts)])} {raw}"
    if delivered.state == "away":
        run.warn(f"another branch is checked out: interlock apply {run.id} brings the work")
    return told.came, UNVERIFIED.format(agent=agent) if told.came is Came.UNVERIFIED else ""


def _key(inputs: Inputs, where: Any) -> str:
    request = asked(inputs.request)
    return f"{request.command} {request.number}"


# --- what holds on every path


def _relays_what_counts(view: View) -> bool:
    """Nothing is delivered, and nothing is complete, without an answer that says so."""
    reports = [call.report for call in view.calls.values() if call.report]
    came = [report.form["came"] for report in reports if report.ok and report.form]
    if any(one.state == "done" for one in view.delivered):
        return bool(came) and came[-1] in (Came.COMPLETED, Came.PARTIAL, Came.BLOCKED, Came.UNVERIFIED)
    return view.status != "complete" or came == [Came.COMPLETED]


EXAMPLE = {
    TODO: "### 259. Add\n- **Status**: [NOT STARTED]\n- **Language**: lean\n- **Description**: Make add right\n",
    ".opencode/command/implement.md": "---\nrouting:\n  language_based: true\n  lean: lean-agent\nreturns: json\n---\n",
    ".opencode/agent/subagents/lean-agent.md": "You know Lean.\n",
}
ROUTER = Playbook(
    name="router",
    play=router,
    inputs=Inputs,
    rows=(ROW,),
    caps={},
    headline=lambda inputs: inputs.request,
    key=_key,
    package="interlock.playbooks.router",
    settings=Settings,
    summary="A task-based command goes to the one agent that its task's language and its command file name.",
    check=lambda inputs, refuses: (asked(inputs.request), None)[1],
    nests=True,
    example={"request": "/implement 259"},
    files=EXAMPLE,
    invariants={
        "one agent is called": lambda view: len(view.calls) <= 1,
        "only what an agent vouches for counts": _relays_what_counts,
        "nobody is asked": lambda view: not view.gates,
    },
)
