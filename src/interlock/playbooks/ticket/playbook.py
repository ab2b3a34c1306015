"""`ABC-12 fix the login error`: plan, split, branch, build and test, review, commit; at most five times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.documents import DocumentState
from interlock.engine.asking import Asked
from interlock.engine.definition import AfterComplete, Past, playbook
from interlock.engine.model import Ending, Retries
from interlock.engine.run import Run
from interlock.engine.world import Documents
from interlock.playbooks.ticket import problems
from interlock.playbooks.ticket.briefs import AGENTS
from interlock.playbooks.ticket.documents import home
from interlock.playbooks.ticket.execution import Execution
from interlock.playbooks.ticket.finishing import (
    Said,
    accept,
    commit,
    final_output,
    refresh_docs,
    reject,
    review,
    settle,
)
from interlock.playbooks.ticket.gate import git_gate, with_reminder
from interlock.playbooks.ticket.git import Branch, Repository, shown
from interlock.playbooks.ticket.ledger import Ledger, Stop
from interlock.playbooks.ticket.planning import begin_iteration, plan, settle_tasks
from interlock.playbooks.ticket.progress import ATTEMPTS, ITERATIONS, Phase
from interlock.playbooks.ticket.project import CACHE, MOST_PARALLEL
from interlock.playbooks.ticket.request import find_ticket
from interlock.playbooks.ticket.resuming import obey, refuse_legacy, resume_detection, starts_over, take_stock
from interlock.playbooks.ticket.settings import TicketSettings
from interlock.playbooks.ticket.startup import TicketFlags, TicketInputs, initialize, startup_analysis

RETRIES = Retries(transient=1, contract=1, error=0)
ORDER = tuple(Phase)


def run_key(inputs: TicketInputs) -> str:
    """The ticket's id; a request without one stands for itself, so that it can be refused under its own name."""
    try:
        return find_ticket(inputs.request, inputs.jira)
    except problems.TicketError:
        return "(no ticket)"


def documents(inputs: TicketInputs) -> tuple[str, ...]:
    return (f"{home(run_key(inputs))}/**", CACHE)


def state(inputs: TicketInputs) -> tuple[str, ...]:
    """What only the engine writes; an agent may begin a document that its contract asks for."""
    place = home(run_key(inputs))
    return (
        f"{place}/progress.yaml",
        f"{place}/prompt.yaml",
        f"{place}/log.jsonl",
        f"{place}/iteration_*/tasks.yaml",
        f"{place}/tmp/**",
    )


def successor(inputs: TicketInputs, options: Mapping[str, Any]) -> TicketInputs:
    """A stopped ticket goes on from its documents; `--retry` gives paused tasks new attempts."""
    fresh = inputs.fresh or inputs.still_fresh
    return replace(inputs, fresh=False, still_fresh=fresh, retry=bool(options.get("retry")))


def afresh(inputs: TicketInputs) -> TicketInputs:
    return replace(inputs, fresh=False, still_fresh=False, retry=False)


def edited(inputs: TicketInputs, past: Past, files: Documents) -> str | None:
    """The state document that a person changed since the run wrote it, if any."""
    place = home(run_key(inputs))
    for path in (*past.last_written, *past.begun):
        if not path.startswith(f"{place}/") or not path.endswith(("/progress.yaml", "/tasks.yaml")) or "/tmp/" in path:
            continue
        if files.facts(path).digest not in (past.last_written.get(path), past.begun.get(path)):
            return path
    return None


async def on_resume(run: Run, number: int) -> None:
    """Each resume scans for a second truth, goes back to the ticket's branch and says so in the log."""
    ticket, inputs = run.identity.key, run.playbook.parse_inputs(run.identity.inputs)
    document = await run.read(f"{home(ticket)}/progress.yaml")
    if document.state is not DocumentState.OK or starts_over(inputs, document, run.identity.run_id):
        return
    ledger = Ledger(run, ticket, document)
    await refuse_legacy(run, ticket)
    branch, repository = ledger.data["branch"], Repository(run)
    if ledger.data["git_gate_completed"] and await repository.branch() != branch:
        if not await repository.commit_of(branch):
            raise problems.branch_gone(branch)
        done = await Branch(run, branch).checkout()
        if not done.ok:
            raise problems.branch_gone(branch, f"cannot be checked out: {shown(done)}")
    await obey(run, ledger, inputs)
    ledger.log("resume", phase=ledger.phase.value, status=ledger.status.value, resume=number)
    await ledger.publish()


@playbook(
    "ticket",
    inputs=TicketInputs,
    settings=TicketSettings,
    flags=TicketFlags,
    understand=lambda given, flags, _asking: Asked(TicketInputs(**given), flags, afresh=bool(given.get("fresh"))),
    first='"ABC-12 fix the login error so that users can sign in"',
    key=run_key,
    steps={
        "I0": "start",
        "I1": "analysis",
        "O3": "plan",
        "O4": "tasks",
        "O4.5": "git gate",
        "O5": "work",
        "O6": "review",
        "commit": "commit",
        "O7": "docs",
    },
    agents=AGENTS,
    documents=documents,
    state=state,
    caps={"iterations": ITERATIONS, "attempts": ATTEMPTS},
    max_parallel=MOST_PARALLEL,
    retries=RETRIES,
    after_complete=AfterComplete.ALWAYS_NEW,  # the documents say whether it is done, and for which request
    successor=successor,
    afresh=afresh,
    on_resume=on_resume,
    edited=edited,
)
async def ticket(run: Run, inputs: TicketInputs) -> Ending:
    """Plan, build, test, review and commit the work of one ticket on a branch of its own."""
    name = find_ticket(inputs.request, inputs.jira)
    if run.parent is not None:
        raise problems.started_by_agent()
    repository = Repository(run)
    ledger = await prepare(run, name, inputs, repository)
    if isinstance(ledger, Ending):
        return ledger
    try:
        return await iterate(ledger, repository, inputs)
    except Stop as stop:
        with run.step("stop"):
            return await with_reminder(await ledger.stop(stop), ledger, repository)


async def prepare(run: Run, name: str, inputs: TicketInputs, repository: Repository) -> Ledger | Ending:
    """I0 to I2: go on with what is there, or analyse the project and begin."""
    with run.step("I0"):
        known = await resume_detection(run, name, inputs, repository)
    if known is not None:
        return known
    with run.step("I1"):
        analysis = await startup_analysis(run, name, inputs, repository)
    with run.step("I2"):
        ledger = await initialize(run, name, inputs, repository, analysis)
        await obey(run, ledger, inputs)
    return ledger


async def iterate(ledger: Ledger, repository: Repository, inputs: TicketInputs) -> Ending:
    """The outer loop: iterations until one is accepted; each rejection is the next plan's input."""
    run = ledger.run
    hooks = await repository.hooks()
    begin_at = ledger.phase
    if begin_at is Phase.DOC_REFRESH:
        return await finish(ledger, repository, Branch(run, ledger.data["branch"]), ledger.head)
    for number in range(ledger.iteration, ITERATIONS):
        with run.step(f"iteration-{number}"):
            branch, verdict = await one_iteration(ledger, repository, inputs, number, begin_at)
            if verdict is Said.ACCEPTED:
                with run.step("commit"):
                    before = await repository.head()
                    await commit(ledger, repository, branch, hooks)
                return await finish(ledger, repository, branch, before)
            await reject(ledger)
        begin_at = Phase.PLANNING
    raise Stop(Ending.stopped(problems.MOST_ITERATIONS))


async def one_iteration(
    ledger: Ledger, repository: Repository, inputs: TicketInputs, number: int, begin_at: Phase
) -> tuple[Branch, Said]:
    """O1 to O6, from the phase where the ticket stands."""
    run = ledger.run
    start = ORDER.index(begin_at)
    if start <= ORDER.index(Phase.PLANNING):
        with run.step("O1"):
            await begin_iteration(ledger, repository, number)
        with run.step("O3"):
            await plan(ledger, repository)
    if start <= ORDER.index(Phase.SPLITTING):
        with run.step("O4"):
            await settle_tasks(ledger, repository)
    if start <= ORDER.index(Phase.GIT_GATE):
        with run.step("O4.5"):
            branch = await git_gate(ledger, repository)
            if begin_at is Phase.GIT_GATE:
                await take_stock(ledger, repository, inputs.retry)
    else:
        branch = Branch(run, ledger.data["branch"])
    if ledger.awaits_commit:
        await accept(ledger)
        return branch, Said.ACCEPTED
    with run.step("O5"):
        execution = Execution(ledger, repository, branch)
        cut_short = start <= ORDER.index(Phase.TASK_EXECUTION) and await execution.all_groups()
    with run.step("O6"):
        verdict = await settle(ledger, Said.ACCEPTED if cut_short else await review(ledger))
        if verdict is Said.ACCEPTED:
            await accept(ledger)
    return branch, verdict


async def finish(ledger: Ledger, repository: Repository, branch: Branch, before: str) -> Ending:
    """O7, and the last words."""
    with ledger.run.step("O7"):
        await refresh_docs(ledger, repository, branch, before)
        return await with_reminder(Ending.complete(final_output(ledger)), ledger, repository)
