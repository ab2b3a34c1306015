"""`/implement 259 be brief`: check the task, route by language, delegate once, relay the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from shlex import quote
from typing import Annotated, TypeVar

from interlock.engine import (
    AfterComplete,
    Asking,
    Checks,
    Delegation,
    Dispatch,
    Ending,
    Option,
    Report,
    Run,
    playbook,
    within_time,
)
from interlock.errors import DocumentInvalid
from interlock.playbooks.router.answers import ReturnFacts, ending, judge_return
from interlock.playbooks.router.decisions import (
    ValidatedCommand,
    about_language,
    check_cycle,
    check_depth,
    parse_command,
    route,
    settled_already,
    time_limit,
)
from interlock.playbooks.router.documents import (
    CommandFile,
    TaskEntry,
    agent_path,
    command_path,
    find_task,
    read_agent_file,
    read_command_file,
)
from interlock.playbooks.router.handover import RETRIES, ValidatedTask, dispatch_of, handover
from interlock.playbooks.router.problems import TASK_LIST, Problem, RouterError, escaped
from interlock.playbooks.router.settings import RouterSettings

T = TypeVar("T")

CONFIGURATION = (".opencode/command/**", ".opencode/agent/**")
"""What routing is decided by: an agent's changes to it stay in its layer."""
INDEX = ".opencode/context/index.md"
GUIDES = (
    ".opencode/context/core/system/routing-guide.md",
    ".opencode/context/core/system/validation-rules.md",
)


@dataclass(frozen=True)
class RouterInputs:
    """What the user typed, whole."""

    line: Annotated[
        str,
        Option(
            "/research, /plan, /implement or /revise, the task's number, and a text for the agent.",
            metavar="COMMAND",
            argument=True,
        ),
    ]


COMMANDS = ("research", "plan", "implement", "revise")
SAMPLE = 50
"""Tasks that `validate` tries; the same code that would run them looks at each."""


def samples(asking: Asking) -> Iterator[RouterInputs]:
    """Each command for the first tasks of the list."""
    text = asking.documents.read(TASK_LIST).text
    numbers = list(dict.fromkeys(re.findall(r"^### (\d+)\.", text, re.MULTILINE)))
    if not numbers:
        raise DocumentInvalid(
            f"{TASK_LIST} has no task",
            path=TASK_LIST,
            expected="headings like: ### 259. Title",
            remedy="Write one, or get an example with: interlock init --playbook router --example",
        )
    for word in COMMANDS:
        for number in numbers[:SAMPLE]:
            yield RouterInputs(f"/{word} {number}")


def run_key(inputs: RouterInputs) -> str:
    """Command and task number; what is neither stands for itself, so that it can be refused under its own name."""
    command = parse_command(inputs.line)
    return escaped(inputs.line) if isinstance(command, Problem) else command.key


@playbook(
    "router",
    inputs=RouterInputs,
    settings=RouterSettings,
    samples=samples,
    first='"/implement 259 be brief"',
    key=run_key,
    steps={"stage-1": "check", "stage-2": "route", "preflight": "preflight", "stage-3": "delegate"},
    documents=lambda _inputs: (TASK_LIST, *CONFIGURATION, INDEX, *GUIDES),
    state=lambda _inputs: CONFIGURATION,
    max_parallel=1,
    retries=RETRIES,
    needs_roles=False,
    after_complete=AfterComplete.ALWAYS_NEW,
)
async def router(run: Run, inputs: RouterInputs) -> Ending:
    """Hand one task of .opencode/specs/TODO.md to the agent that its command file names, and print its answer.

    What depends on settings is not recorded as a decision: settings may change between a crash and its resume.
    """
    limit_s = run.settings.timeout_s
    async with within_time(limit_s, f"router timed out after {limit_s:g} s"):
        with run.step("stage-1"):
            established = await extract_and_validate(run, inputs.line)
        with run.step("stage-2"):
            task = await route_task(run, established)
            spec = await prepare(run, task)
    await Checks(run, (), agents=(task.agent.name,)).preflight()
    with run.step("stage-3"):
        report = await run.dispatch(spec)
        return await relay(run, task, established, report)


def need(run: Run, found: T | Problem) -> T:
    """What a check established; a problem refuses the command, and nothing can be reached behind that."""
    if not isinstance(found, Problem):
        return found
    run.note("refused", state=found.refusal, error=found.short)
    raise RouterError(found)


@dataclass(frozen=True)
class Established:
    """What stage 1 knows of a command."""

    command: ValidatedCommand
    entry: TaskEntry
    file: CommandFile
    here: Delegation
    list_digest: str


async def extract_and_validate(run: Run, line: str) -> Established:
    """Stage 1: command and number, the task's entry, the command's file, the depth; a bad number reads no file."""
    settings = run.settings
    command = need(run, parse_command(line))
    task_list = await run.read(TASK_LIST)
    entry = need(run, find_task(task_list, command.number))
    if settled_already(command.command, entry.status):
        run.warn(
            f"Task {command.number} has status {escaped(entry.status)} in {TASK_LIST}; it is implemented all the same"
        )
    document = await run.read(command_path(command.command))
    file = need(run, read_command_file(document))
    here = need(run, check_depth(run.parent, settings.max_depth))
    run.note(
        "stage.1.done",
        command=command.command,
        task_number=command.number,
        title=entry.title,
        language=entry.language,
        status=entry.status,
        line=entry.line,
        language_based=file.language_based,
        returns=file.returns,
        timeout=file.timeout_s,
        depth=here.depth,
    )
    return Established(command, entry, file, here, task_list.digest)


async def route_task(run: Run, known: Established) -> ValidatedTask:
    """Stage 2, first half: the target, its file, and that it is not called from within itself."""
    settings = run.settings
    file = known.file if settings.language_routing else replace(known.file, languages={})
    target = need(run, run.decide(route, file, known.entry.language))
    document = await run.read(agent_path(target))
    agent = need(run, read_agent_file(document, target, file.path))
    for remark in (*agent.remarks, *about_language(file, known.entry, target)):
        run.warn(remark)
    delegation = need(run, check_cycle(known.here, target, settings.cycle_detection))
    timeout_s = time_limit(known.command.command, file.timeout_s, settings.timeout_default_s)
    return ValidatedTask(known.command, known.entry, agent, delegation, timeout_s, file.returns)


async def prepare(run: Run, task: ValidatedTask) -> Dispatch:
    """Stage 2, second half: the context, within its limit, and nothing besides."""
    here = {*await run.list(".opencode/context", "index.md"), *await run.list(".opencode/context/core/system", "*.md")}
    for path in (INDEX, *GUIDES):
        if path not in here:
            run.note("context.missing", path=path)
    context = need(run, handover(task, run.settings.max_context_bytes))
    run.note(
        "stage.2.done",
        agent=task.agent.name,
        depth=task.delegation.depth,
        path=task.delegation.path,
        context_bytes=context.size,
    )
    guides = tuple(path for path in GUIDES if path in here)
    return dispatch_of(task, context, guides=guides, partial_grace_s=run.settings.partial_grace_s)


async def relay(run: Run, task: ValidatedTask, known: Established, report: Report) -> Ending:
    """Stage 3, after the return: judge it, and pass the answer on byte for byte if it counts."""
    answer = report.answer()
    returned = judge_return(
        ReturnFacts(
            agent=task.agent.name,
            returns=task.returns,
            content=answer,
            path=report.answer_path,
            session=report.session,
            exit_code=report.exit_code,
            reason=report.reason,
            token=report.token,
            detail=report.detail,
            against=report.evidence.contradictions,
            data=report.data,
            partial=report.partial,
            timeout_s=task.timeout_s,
            violations=report.violations,
            conflicts=tuple(report.conflicts),
        )
    )
    status = run.decide(ending, returned.kind)
    state = "Relayed" if returned.relayed else "Failed"
    if (await run.read(TASK_LIST)).digest != known.list_digest:
        by_agent = report.accepted and TASK_LIST in report.changes
        run.note("todo.changed", path=TASK_LIST, by=task.agent.name if by_agent else "somebody else")
    if report.foreign:
        paths = ", ".join(report.foreign)
        run.warn(f"{task.agent.name} changed the router's configuration; that was not taken over: {paths}")
    if report.patch and not report.accepted:
        run.warn(f"the work of {task.agent.name} is not in the tree; to take it over: git apply {quote(report.patch)}")
    run.note("stage.3.done", state=state, status=returned.kind, session=report.session, answer_bytes=len(answer))
    return Ending(status, returned.reason, answer if returned.relayed else b"")
