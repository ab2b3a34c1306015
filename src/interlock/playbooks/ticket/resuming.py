"""I0: is there something to go on with? A ticket goes on from its documents, here or in another clone.

The documents say what was accepted, not that the work is here.  Without a journal it is looked for: what is not there
is done again, in the iteration that it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.documents import Document, DocumentState, Key
from interlock.engine import Ending, Run, require_agents
from interlock.playbooks.ticket.analysis import parallel_tasks
from interlock.playbooks.ticket.documents import ITERATIONS, LEGACY, Phase, RunStatus, home, iteration_home
from interlock.playbooks.ticket.gate import with_reminder
from interlock.playbooks.ticket.graph import REJECTED, Graph, Task, TaskStatus, literal_files, share_files
from interlock.playbooks.ticket.ledger import Ledger, at, files_digest
from interlock.playbooks.ticket.request import TicketError
from interlock.playbooks.ticket.startup import (
    TicketInputs,
    count_cores,
    named_settings,
    require_repository,
    said_by_people,
)
from interlock.playbooks.ticket.validation import validate

MIXED = (
    "ERROR: Mixed artifact model detected. Migrate legacy task state into tasks.yaml and remove legacy derived "
    "artifacts before resume. STOPPING."
)
MOST_ITERATIONS = "MAXIMUM ITERATIONS REACHED (5/5). STOPPING."
WITH_TASKS = (Phase.GIT_GATE, Phase.TASK_EXECUTION, Phase.REVIEW)
"""The phases of an iteration whose task graph is settled."""
AT_GATE, AT_WORK = at(Phase.GIT_GATE, "O4.5"), at(Phase.TASK_EXECUTION, "O5")


async def resume_detection(run: Run, ticket: str, inputs: TicketInputs) -> Ledger | Ending | None:
    """I0: the ticket's state if it was begun, how it ended if it did, nothing if it is new."""
    document = await run.read(f"{home(ticket)}/progress.yaml")
    earlier = None if inputs.fresh else run.identity.continues
    if document.state is DocumentState.MISSING or starts_over(inputs, document, earlier):
        return None
    ledger = Ledger(run, ticket, document.require())
    await refuse_other_request(ledger, inputs)
    if (ended := settled(ledger, inputs)) is not None:
        return await with_reminder(ended, ledger)
    await refuse_legacy(run, ticket)
    await require_repository(run)
    await take_over_baseline(ledger)  # first of all that is written: the document names its last run
    await go_to_branch(ledger, open_run=False)
    ledger.head = (await run.repository.where()).head
    await obey(ledger, inputs)
    await require_agents(run)
    ledger.log("resume", phase=ledger.phase.value, status=ledger.status.value, retry=inputs.retry)
    await ledger.change({("status",): RunStatus.IN_PROGRESS.value})
    await go_back(ledger)
    if ledger.phase in WITH_TASKS and ledger.phase is not Phase.GIT_GATE:  # the gate may put files away: after it
        await take_stock(ledger, inputs.retry)
    return ledger


async def on_resume(run: Run, inputs: TicketInputs, number: int) -> None:
    """Each resume scans for a second truth, goes back to the ticket's branch and says so in the log."""
    ticket = run.identity.key
    document = await run.read(f"{home(ticket)}/progress.yaml")
    if document.state is not DocumentState.OK or starts_over(inputs, document, run.identity.run_id):
        return
    ledger = Ledger(run, ticket, document)
    await refuse_legacy(run, ticket)
    await go_to_branch(ledger, open_run=True)
    await obey(ledger, inputs)
    ledger.log("resume", phase=ledger.phase.value, status=ledger.status.value, resume=number)
    await ledger.publish()


def starts_over(inputs: TicketInputs, document: Document, begun_by: str | None) -> bool:
    """Whether the ticket is to begin anew, and this state document is not that beginning: another run's name is in it.
    It is set aside when nothing stands in the way of the beginning any more."""
    return (inputs.fresh or inputs.still_fresh) and (begun_by is None or begun_by not in document.text)


async def refuse_other_request(ledger: Ledger, inputs: TicketInputs) -> None:
    """A ticket is what it was begun with: another request is refused, never answered with the old result (EV-24)."""
    known = str((await ledger.prompt()).get("original_request") or "")
    if known and known.split() != inputs.request.split():
        state = "is accepted already" if ledger.status is RunStatus.ACCEPTED else "was begun"
        raise TicketError(
            f"ERROR: {ledger.ticket} {state}, with another request. STOPPING.",
            where="request",
            expected=known,
            remedy="For the new request: give it another ticket id, or start over with --fresh.",
        )


async def obey(ledger: Ledger, inputs: TicketInputs) -> None:
    """Take over what a person named anew, in the settings or with this start (EV-23). What is named as it was before
    does not undo what somebody wrote into the state document."""
    run, people = ledger.run, said_by_people(ledger.run, inputs)
    found = {"build": people.build, "test": people.test}
    commands = {name: [one.text, one.origin] for name, one in found.items() if one}
    said = dict(run.settle_once("commands", {**commands, "settings": named_settings(run, inputs)}))
    changes = await settings_anew(ledger, said.pop("settings"))
    before = ledger.data.get("named_commands") or {}
    for name, (command, origin) in said.items():
        if command == before.get(name):
            continue
        changes[("named_commands", name)] = command
        if command != ledger.data[f"{name}_command"]:
            run.warn(f"the {name} command is now: {command}, from {origin}")
            changes |= {(f"{name}_command",): command, ("command_origins", name): origin}
    if changes:
        await ledger.change(changes)


async def settings_anew(ledger: Ledger, said: Mapping[str, Any]) -> dict[tuple[Key, ...], object]:
    """The changes by settings and options that are others than before; what cannot be changed any more is said."""
    run, known = ledger.run, ledger.data.get("named_settings")
    before = known if isinstance(known, dict) else {name: said[name] for name in said if not name.startswith("--")}
    news = {name for name, value in said.items() if value != before.get(name)}
    changes: dict[tuple[Key, ...], object] = {("named_settings",): dict(said)} if said != known else {}
    if news & {"max_parallel_tasks", "--max-parallel-tasks"}:
        asked = said.get("--max-parallel-tasks") or said["max_parallel_tasks"]
        most = parallel_tasks(await count_cores(run), asked)
        if most != ledger.data["max_parallel_tasks"]:
            run.warn(f"tasks side by side, from now on: at most {most}")
            changes[("max_parallel_tasks",)] = most
    if news & {"fast_path", "--no-fast-path"}:
        allowed = "--no-fast-path" not in said and bool(said["fast_path"])
        if allowed is not ledger.fast_path:
            run.warn(f"the short cut for a single simple task, from now on: {'allowed' if allowed else 'not taken'}")
            changes[("fast_path",)] = allowed
    if fixed := {name.removeprefix("--") for name in news} & {"base", "branch"}:
        run.warn(f"another {' or '.join(sorted(fixed))} is for new tickets; this one stays on {ledger.branch}")
    return changes


async def take_over_baseline(ledger: Ledger) -> None:
    """What an earlier run found on the untouched tree holds, if it was in this workspace."""
    baseline = ledger.data.get("baseline")
    if isinstance(baseline, dict) and baseline.get("run") in ledger.run.identity.before:
        ledger.checks.go_on_from(baseline)
        await ledger.change({("baseline", "run"): ledger.run.identity.run_id})


def settled(ledger: Ledger, inputs: TicketInputs) -> Ending | None:
    """How a ticket ended that needs nothing more, or waits for a person's word."""
    match ledger.status:
        case RunStatus.ACCEPTED if ledger.phase is Phase.DOC_REFRESH:
            return Ending.complete(f"{ledger.ticket} is already done: it was accepted on branch {ledger.branch}.\n")
        case RunStatus.PAUSED if not inputs.retry:
            task, known = ledger.data["current_task_id"], ledger.run.identity.continues
            retry = f"interlock resume {known} --retry" if known else "the same start with --retry"
            return Ending.stopped(
                f"PAUSED: task {task} failed 5 attempts. See {ledger.tasks_path} for its last error; "
                f"as many again with: {retry}"
            )
        case _ if ledger.status is RunStatus.REJECTED or ledger.iteration >= ITERATIONS:
            return Ending.stopped(MOST_ITERATIONS)
    return None


async def refuse_legacy(run: Run, ticket: str) -> None:
    """Files of an older way of working beside tasks.yaml would be a second truth."""
    place = home(ticket)
    found = [path for folder, pattern in LEGACY for path in await run.list(place + folder, pattern)]
    run.note("legacy.scan", found=found)
    if not found:
        return
    paths = ", ".join(found)
    if [path for path in await run.list(place, "**/tasks.yaml") if "/iteration_" in path]:
        todo = "Nothing was deleted. Bring the state over into tasks.yaml, move these files away, and start again."
        raise TicketError(MIXED, where=paths, found=paths, remedy=todo)
    run.warn(f"{place} holds files of an older way of working, which are not read: {paths}")


async def go_to_branch(ledger: Ledger, *, open_run: bool) -> None:
    """Go on where the work is. Without its branch the ticket comes to the git gate again; an open run, whose journal
    says that it has passed there, cannot."""
    git, branch = ledger.run.repository, ledger.branch
    if not ledger.data["git_gate_completed"] or not await ledger.gone():
        return
    why = "does not exist"
    if await git.commit_of(f"refs/heads/{branch}") or (not open_run and await git.is_on_a_remote(branch)):
        done = await git.checkout(branch)
        if done.ok:
            return
        why = f"cannot be checked out: {done.problem}"
    elif not open_run:
        ledger.run.warn(f"branch {branch} does not exist any more; the git gate is passed again")
        back = AT_GATE if ledger.phase in (Phase.TASK_EXECUTION, Phase.REVIEW) else {}
        await ledger.change({("git_gate_completed",): False, **back})
        return
    raise TicketError(
        f"ERROR: branch {branch} {why}; cannot resume",
        where=branch,
        remedy=f"Make the branch available again (git branch {branch} COMMIT), or start over with --fresh.",
    )


# -- is the work here


async def go_back(ledger: Ledger) -> None:
    """Return to the first iteration whose accepted work is gone; what was planned upon it is set aside."""
    run = ledger.run
    changed = set(await run.repository.changed()) if ledger.iteration else set()
    planned = ledger.iteration + (1 if ledger.phase in WITH_TASKS else 0)
    known = [await ledger.tasks_of(number) for number in range(planned)]
    for number in range(ledger.iteration):
        later = [task for tasks in known[number + 1 :] for task in tasks if task.attempt]
        if gone := await without_work(run, known[number], later, changed):
            run.warn(f"the accepted work of iteration {number} is not here: {task_ids(gone)}; it is done again")
            for upon_it in range(number + 1, ledger.iteration + 1):
                await run.set_aside(iteration_home(ledger.ticket, upon_it))
            back = AT_WORK if ledger.data["git_gate_completed"] else AT_GATE
            await ledger.change({("iteration_number",): number, **back})
            await ledger.change({("iterations", ledger.place, "status"): "PENDING"})
            return


async def without_work(run: Run, tasks: Sequence[Task], later: Sequence[Task], changed: set[str]) -> list[Task]:
    """The accepted tasks whose files are as committed and not as accepted.

    A file that was worked on later, or that has uncommitted changes, may well differ from what was accepted then.
    """
    accepted = [task for task in tasks if task.status is TaskStatus.ACCEPTED]
    untouched = [task for task in accepted if changed.isdisjoint(literal_files(task))]
    return await altered(run, [task for task in untouched if not any(share_files(task, other) for other in later)])


async def take_stock(ledger: Ledger, retry: bool) -> None:
    """Work that is not here any more is to be done again; with `retry`, failed tasks start anew."""
    run, graph = ledger.run, await ledger.graph()
    lost = await altered(run, graph.accepted)
    if ledger.awaits_commit:
        lost = await without_mended(ledger, graph, lost)
    valid = [task for task in graph.tasks.values() if task.status is TaskStatus.SYNTAX_VALID]
    unproven = await altered(run, valid)
    if lost:
        run.warn(f"the files of accepted tasks are not as they were accepted: {task_ids(lost)}")
    if ledger.phase is Phase.REVIEW and (lost or len(graph.accepted) < len(graph.tasks)):
        await ledger.change(AT_WORK)
    marks: dict[str, dict[str, object]] = {
        **{task.id: {"status": TaskStatus.PENDING.value, "attempt": 0} for task in lost},
        **{task.id: {"status": TaskStatus.REJECTED.value, "attempt": max(0, task.attempt - 1)} for task in unproven},
    }
    if retry:
        tired = [task for task in graph.tasks.values() if task.status in REJECTED]
        ledger.log("retry", tasks=[task.id for task in tired])
        marks |= {task.id: {"attempt": 0} for task in tired}
    await ledger.mark(marks)


async def without_mended(ledger: Ledger, graph: Graph, lost: Sequence[Task]) -> list[Task]:
    """Those of the lost tasks that are to be done again before the iteration can be committed.

    What a person or a hook changed since, or committed by hand, is the work now, if build and tests are green with it;
    else the iteration is not accepted any more.
    """
    git, since = ledger.run.repository, ledger.data["last_checkpoint"].get("git_head")
    by_hand = await git.changes_since(str(since)) if since else []
    changed = {*await git.changed(), *(path for _, path in by_hand)}
    gone = [task for task in lost if changed.isdisjoint(literal_files(task))]
    complete = len(graph.accepted) == len(graph.tasks) and not gone and ledger.phase is not Phase.GIT_GATE
    if complete and not await validate(ledger, graph, None):
        await put_down_files(ledger, lost)
        return []
    await ledger.change({("iterations", ledger.place, "status"): "PENDING"})
    return list(lost)


async def put_down_files(ledger: Ledger, tasks: Sequence[Task]) -> None:
    """What the files of these accepted tasks are now is what was accepted."""
    digests = {task.id: await files_digest(ledger.run, literal_files(task)) for task in tasks}
    await ledger.mark({name: {"files_sha256": digest} for name, digest in digests.items()})


def task_ids(tasks: Sequence[Task]) -> str:
    return ", ".join(task.id for task in tasks)


async def altered(run: Run, tasks: Sequence[Task]) -> list[Task]:
    """Those of the tasks whose files are not what they were when they were accepted, or found valid."""
    known = [task for task in tasks if task.entry.get("files_sha256") is not None]
    return [task for task in known if task.entry["files_sha256"] != await files_digest(run, literal_files(task))]
