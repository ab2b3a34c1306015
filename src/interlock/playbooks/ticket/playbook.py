"""`ABC-12 fix the login error`: plan, split, branch, build and test, review, commit; at most five times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.engine import AfterComplete, Asked, Documents, Ending, Past, Retries, Run, Stop, playbook
from interlock.playbooks.ticket.analysis import CACHE, MOST_PARALLEL
from interlock.playbooks.ticket.briefs import AGENTS
from interlock.playbooks.ticket.documentation import refresh_docs
from interlock.playbooks.ticket.documents import ATTEMPTS, ITERATIONS, Phase, home
from interlock.playbooks.ticket.execution import Execution
from interlock.playbooks.ticket.finishing import ReviewerSaid, accept, commit, final_output, reject, review, settle
from interlock.playbooks.ticket.gate import git_gate, with_reminder
from interlock.playbooks.ticket.ledger import Ledger
from interlock.playbooks.ticket.planning import begin_iteration, plan, settle_tasks
from interlock.playbooks.ticket.request import TicketError, find_ticket
from interlock.playbooks.ticket.resuming import MOST_ITERATIONS, obey, on_resume, resume_detection, take_stock
from interlock.playbooks.ticket.settings import TicketSettings
from interlock.playbooks.ticket.startup import TicketFlags, TicketInputs, initialize, startup_analysis

RETRIES = Retries(transient=1, contract=1, error=0)
ORDER = tuple(Phase)


def run_key(inputs: TicketInputs) -> str:
    """The ticket's id; a request without one stands for itself, so that it can be refused under its own name."""
    try:
        return find_ticket(inputs.request, inputs.jira)
    except TicketError:
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
        raise TicketError(
            "ERROR: the ticket playbook is started by a person, not by an agent. STOPPING.",
            where="INTERLOCK_DISPATCH",
            expected="a start from a terminal or a program of the user's",
            found="a start from within a dispatch",
        )
    ledger = await prepare(run, name, inputs)
    if isinstance(ledger, Ending):
        return ledger
    try:
        return await iterate(ledger, inputs)
    except Stop as stop:
        with run.step("stop"):
            return await with_reminder(await ledger.stop(stop.ending), ledger)


async def prepare(run: Run, name: str, inputs: TicketInputs) -> Ledger | Ending:
    """I0 to I2: go on with what is there, or analyse the project and begin."""
    with run.step("I0"):
        known = await resume_detection(run, name, inputs)
    if known is not None:
        return known
    with run.step("I1"):
        analysis = await startup_analysis(run, name, inputs)
    with run.step("I2"):
        ledger = await initialize(run, name, inputs, analysis)
        await obey(ledger, inputs)
    return ledger


async def iterate(ledger: Ledger, inputs: TicketInputs) -> Ending:
    """The outer loop: iterations until one is accepted; each rejection is the next plan's input."""
    run = ledger.run
    hooks = await run.repository.hooks()
    begin_at = ledger.phase
    if begin_at is Phase.DOC_REFRESH:
        return await finish(ledger, ledger.head)
    for number in range(ledger.iteration, ITERATIONS):
        with run.step(f"iteration-{number}"):
            if await one_iteration(ledger, inputs, number, begin_at) is ReviewerSaid.ACCEPTED:
                with run.step("commit"):
                    before = (await run.repository.where()).head
                    await commit(ledger, hooks)
                return await finish(ledger, before)
            await reject(ledger)
        begin_at = Phase.PLANNING
    raise Stop(Ending.stopped(MOST_ITERATIONS))


async def one_iteration(ledger: Ledger, inputs: TicketInputs, number: int, begin_at: Phase) -> ReviewerSaid:
    """O1 to O6, from the phase where the ticket stands."""
    run = ledger.run
    start = ORDER.index(begin_at)
    if start <= ORDER.index(Phase.PLANNING):
        with run.step("O1"):
            await begin_iteration(ledger, number)
        with run.step("O3"):
            await plan(ledger)
    if start <= ORDER.index(Phase.SPLITTING):
        with run.step("O4"):
            await settle_tasks(ledger)
    if start <= ORDER.index(Phase.GIT_GATE):
        with run.step("O4.5"):
            await git_gate(ledger)
            if begin_at is Phase.GIT_GATE:
                await take_stock(ledger, inputs.retry)
    if ledger.awaits_commit:
        await accept(ledger)
        return ReviewerSaid.ACCEPTED
    with run.step("O5"):
        cut_short = start <= ORDER.index(Phase.TASK_EXECUTION) and await Execution(ledger).all_groups()
    with run.step("O6"):
        verdict = await settle(ledger, ReviewerSaid.ACCEPTED if cut_short else await review(ledger))
        if verdict is ReviewerSaid.ACCEPTED:
            await accept(ledger)
    return verdict


async def finish(ledger: Ledger, before: str) -> Ending:
    """O7, and the last words."""
    with ledger.run.step("O7"):
        await refresh_docs(ledger, before)
        return await with_reminder(Ending.complete(final_output(ledger)), ledger)
