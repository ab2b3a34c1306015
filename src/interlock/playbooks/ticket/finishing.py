"""O6 and O7: the review, the commit, the documentation, and the last words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import Outcome
from interlock.documents import DocumentState
from interlock.engine import BYPRODUCTS, Scope
from interlock.engine.model import Ending
from interlock.engine.run import KEY
from interlock.engine.tables import Table
from interlock.errors import EngineFault
from interlock.playbooks.ticket import briefs, problems
from interlock.playbooks.ticket.documents import (
    Changes,
    commit_message,
    docs_message,
    edited,
    home,
    iteration_home,
    read_yaml,
    with_ignored,
)
from interlock.playbooks.ticket.execution import Check, validate
from interlock.playbooks.ticket.git import IGNORE, Branch, Repository, shown
from interlock.playbooks.ticket.graph import TaskStatus, changed_files, literal_files, read_graph
from interlock.playbooks.ticket.ledger import Ledger, Stop
from interlock.playbooks.ticket.planning import refresh_brief, take_docs
from interlock.playbooks.ticket.process import ask, check_head, digest_of, failure, files_digest, gone_from
from interlock.playbooks.ticket.progress import ITERATIONS, Phase, RunStatus, minutes_between, moment_of, stamp
from interlock.playbooks.ticket.project import DOCS, architecture_relevant
from interlock.playbooks.ticket.request import Work
from interlock.playbooks.ticket.resuming import is_as_it_was, names


class Said(StrEnum):
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"


class Evidence(StrEnum):
    """What the engine's own build and tests, and those the Reviewer tells of, come to."""

    GREEN = "green"
    RED = "red"


VERDICT: Table[Said] = Table(
    "verdict",
    {
        (Said.ACCEPTED, Evidence.GREEN): Said.ACCEPTED,
        (Said.ACCEPTED, Evidence.RED): Said.REJECTED,  # evidence over claim
        (Said.REJECTED, Evidence.GREEN): Said.REJECTED,
        (Said.REJECTED, Evidence.RED): Said.REJECTED,
    },
)


# -- O6


async def review(ledger: Ledger, repository: Repository, last: Check | None) -> Said:
    """O6: the Reviewer's word on the whole iteration, held against the engine's own build and tests."""
    if ledger.phase is not Phase.REVIEW:
        await ledger.enter(Phase.REVIEW, "O6", {("current_task_id",): None, ("current_task_attempt",): 0})
    graph = await ledger.graph()
    if len(graph.accepted) != len(graph.tasks):
        raise EngineFault("a review was asked for before all tasks were accepted", where="O6")
    check = last or await validate(ledger, graph, None)
    spec = briefs.reviewer(ledger.ticket, ledger.iteration, ledger.data, ledger.tasks_path, ledger.report_path)
    report = await ask(ledger, spec)
    await check_head(ledger, repository, "Reviewer")
    if report.outcome is not Outcome.OK:
        raise Stop(Ending.failed(failure("Reviewer", report, ledger.report_path)))
    # As the Reviewer left it: a verdict is not read from a file that others can write.
    data = read_yaml(report.text(ledger.report_path), ledger.report_path)
    green = check.green and data["build"] == data["tests"] == "PASSED"
    said = Said(data["status"])
    verdict = ledger.run.decide(VERDICT, said, Evidence.GREEN if green else Evidence.RED)
    if verdict is not said:
        why = check.output or f"the report says build {data['build']}, tests {data['tests']}"
        issue = {
            "severity": "Blocker",
            "task": "none",
            "files": [],
            "problem": "Build or tests are red.",
            "evidence": why,
        }
        changes: Changes = {("status",): verdict.value, ("issues",): [*(data.get("issues") or []), issue]}
        await ledger.run.update(ledger.report_path, lambda document: edited(document.text, ledger.report_path, changes))
    return verdict


async def accept(ledger: Ledger) -> None:
    """The iteration is accepted: the state document says so before the commit."""
    graph = await ledger.graph()
    now = ledger.run.now()
    await ledger.change(
        {
            **ledger.counted(ledger.metrics(graph, accepted=True)),
            ("status",): RunStatus.ACCEPTED.value,
            ("iterations", ledger.place, "status"): "ACCEPTED",
            ("iterations", ledger.place, "completed_at"): stamp(now),
            ("metrics", "latest_iteration_cycle_minutes_estimate"): minutes_between(
                moment_of(ledger.entry.get("started_at")), now
            ),
        },
        now=now,
    )
    ledger.tell(ledger.metrics(graph, accepted=True).line(), rejected_tasks=[])


async def reject(ledger: Ledger) -> None:
    """The iteration is rejected; the fifth one ends the ticket."""
    now = ledger.run.now()
    await ledger.change(
        {
            ("iterations", ledger.place, "status"): "REJECTED",
            ("iterations", ledger.place, "completed_at"): stamp(now),
            ("metrics", "latest_iteration_cycle_minutes_estimate"): minutes_between(
                moment_of(ledger.entry.get("started_at")), now
            ),
        },
        now=now,
    )
    ledger.log("iteration.rejected", report=ledger.report_path)
    if ledger.iteration + 1 >= ITERATIONS:
        raise Stop(Ending.stopped(problems.MOST_ITERATIONS), RunStatus.REJECTED)


# -- the commit


async def commit(ledger: Ledger, repository: Repository, branch: Branch, hooks: str) -> None:
    """One commit of the files in the scope of accepted tasks, with our lines of .gitignore; the user's hooks run."""
    if why := await gone_from(branch.name, "", repository):
        raise Stop(Ending.stopped(f"ERROR: {why}. Check it out and go on with: interlock resume RUN. STOPPING."))
    await check_hooks(repository, hooks)
    await prove_edits(ledger)
    tasks, ours = await accepted_work(ledger)
    changed = dict.fromkeys(path for _, path in await repository.status())
    paths = [path for path in changed if ours.covers(path) and not BYPRODUCTS.covers(path) and path != IGNORE]
    ignore = await our_ignore(ledger, repository) if IGNORE in changed and not ours.covers(IGNORE) else ""
    if ours.covers(IGNORE) and IGNORE in changed:
        paths.append(IGNORE)
    if not paths and not ignore:
        ledger.run.warn("there is nothing to commit: the accepted tasks changed no file")
    else:
        await make_commit(ledger, branch, paths, ignore, tasks)
        ledger.head = await repository.head()
        ledger.tell(f"committed {ledger.head[:10]} on {branch.name}")
    ledger.log("iteration.accepted", files=paths, git_head=ledger.head)


async def make_commit(ledger: Ledger, branch: Branch, paths: Sequence[str], ignore: str, tasks: Sequence[str]) -> None:
    path = f"{home(ledger.ticket)}/prompt.yaml"
    prompt = read_yaml((await ledger.run.read(path)).text, path)
    summary = str(prompt.get("refined_prompt") or ledger.data["slug"])
    message = commit_message(ledger.ticket, Work(ledger.data["type"]), summary, tasks, KEY)
    done = await branch.commit(paths, message, ignore)
    if not done.ok:
        raise Stop(
            Ending.stopped(
                f"ERROR: the work is accepted, but the commit failed: {shown(done)}. Mend it and go on with: "
                "interlock resume RUN"
            )
        )


async def check_hooks(repository: Repository, before: str) -> None:
    """A hook that came up while agents worked is not run before a person has looked at it: where agents could not be
    confined, it may be theirs."""
    if await repository.hooks() != before:
        raise Stop(
            Ending.stopped(
                "ERROR: the git hooks of this repository changed while agents worked. Look at them, and go on with: "
                "interlock resume RUN. STOPPING."
            )
        )


async def prove_edits(ledger: Ledger) -> None:
    """What a person changed in accepted files since is a part of the work, if build and tests are green with it."""
    run, graph = ledger.run, await ledger.graph()
    touched = [task for task in graph.accepted if not await is_as_it_was(run, task)]
    if not touched:
        return
    run.warn(f"files of accepted tasks were changed since: {names(touched)}; they are built and tested again")
    check = await validate(ledger, graph, None)
    if not check.green:
        raise Stop(
            Ending.stopped(
                f"ERROR: files of accepted tasks were changed since: {names(touched)}. With that:\n{check.output}\n"
                "Mend it and go on with: interlock resume RUN"
            )
        )
    files = {task.id: await files_digest(run, literal_files(task)) for task in touched}
    await ledger.mark({name: {"files_sha256": digest} for name, digest in files.items()})


@dataclass(frozen=True)
class Content:
    """Which files a ticket's commit is made of."""

    paths: frozenset[str]
    """What agents changed in the scope of accepted tasks."""
    patterns: Scope
    """The scope of accepted tasks of which nobody has put down what they changed."""

    def covers(self, path: str) -> bool:
        return path in self.paths or self.patterns.covers(path)


async def accepted_work(ledger: Ledger) -> tuple[list[str], Content]:
    """Ids and files of the accepted tasks of all iterations: rejected ones left their work in the tree too."""
    ids: list[str] = []
    patterns: list[str] = []
    paths: set[str] = set()
    for number in range(ledger.iteration + 1):
        path = f"{iteration_home(ledger.ticket, number)}/tasks.yaml"
        document = await ledger.run.read(path)
        if document.state is not DocumentState.OK:
            continue
        for task in read_graph(read_yaml(document.text, path)).tasks.values():
            if task.status is TaskStatus.ACCEPTED:
                ids.append(task.id if number == ledger.iteration else f"{task.id} (iteration {number})")
                if (brought := changed_files(task)) is None:
                    patterns += task.scope
                else:
                    paths.update(filter(Scope(task.scope).covers, brought))
    return ids, Content(frozenset(paths), Scope(tuple(patterns)))


async def our_ignore(ledger: Ledger, repository: Repository) -> str:
    """The committed .gitignore with our two lines, whatever else the user has changed in it."""
    committed = await repository.committed(IGNORE)
    wanted = with_ignored(committed)
    return wanted if wanted != committed else ""


# -- O7


async def refresh_docs(ledger: Ledger, repository: Repository, branch: Branch, before: str) -> None:
    """O7: documentation that the work made out of date is renewed; whatever comes of it, the work stays accepted."""
    if ledger.phase is not Phase.DOC_REFRESH:
        await ledger.enter(Phase.DOC_REFRESH, "O7")
    changed = await repository.changes_since(before) if before and before != ledger.head else []
    relevant = architecture_relevant(changed) or (not before and bool(ledger.head))
    needed = relevant or not ledger.data["docs_trusted_for_planning"]
    if needed:
        report = await ask(ledger, await refresh_brief(ledger, repository, briefs.INCREMENTAL))
        await check_head(ledger, repository, "Initializer")
        await take_docs(ledger, repository, report)
    ledger.log("docs.refresh", ran=needed, architecture_relevant=relevant)
    if ledger.data.get("docs_refreshed"):
        await commit_docs(ledger, repository, branch)
    await ledger.publish()


async def commit_docs(ledger: Ledger, repository: Repository, branch: Branch) -> None:
    """A commit of the documents that are as the Initializer left them; what the user changed is the user's."""
    carried, written = set(ledger.data.get("carried_files") or ()), ledger.docs_written
    changed = {path for _, path in await repository.status()} - carried
    paths = [path for path in DOCS if path in changed and written.get(path) == await ledger.run.look(path, digest_of)]
    if paths:
        done = await branch.commit(paths, docs_message(ledger.ticket, KEY))
        if not done.ok:
            ledger.run.warn(f"the refreshed documentation was not committed: {shown(done)}")
        ledger.head = await repository.head()


def final_output(ledger: Ledger) -> str:
    number = ledger.iteration
    return (
        f"SUCCESS: Development complete in {number + 1} iteration(s)\n"
        f"Tasks: {ledger.data['metrics']['tasks_total']} completed\n"
        "Build: PASSED\n"
        "Tests: PASSED\n"
        f"Branch: {ledger.data['branch']}\n"
        f"Report: {iteration_home(ledger.ticket, number)}/review_report.yaml\n"
    )
