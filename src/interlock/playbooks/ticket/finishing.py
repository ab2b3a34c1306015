"""O6: the review, the acceptance, the commit, and the last words."""

from __future__ import annotations

from enum import StrEnum

from interlock.contracts import Reason
from interlock.documents import Document, FieldChanges, edited_yaml, few, read_yaml
from interlock.engine import BYPRODUCTS, Command, Ending, Scope, Stop, Table
from interlock.errors import EngineFault
from interlock.playbooks.ticket.documentation import refreshed_docs
from interlock.playbooks.ticket.documents import (
    IGNORE,
    ITERATIONS,
    Phase,
    RunStatus,
    commit_message,
    with_ignored,
)
from interlock.playbooks.ticket.gate import OWN, SHOWN
from interlock.playbooks.ticket.graph import TaskStatus, changed_files
from interlock.playbooks.ticket.ledger import Ledger, failure, stopped
from interlock.playbooks.ticket.request import WorkKind
from interlock.playbooks.ticket.resuming import MOST_ITERATIONS, altered, put_down_files, task_ids
from interlock.playbooks.ticket.validation import prove_for_good, validate


class ReviewerSaid(StrEnum):
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    CONTRADICTED = "ACCEPTED against its evidence"


class BuildAndTests(StrEnum):
    """What the engine's own build and tests come to."""

    GREEN = "green"
    RED = "red"


AGAINST_ITSELF = "The acceptance contradicts its own evidence."
VERDICT: Table[ReviewerSaid] = Table(
    "verdict",
    {
        (ReviewerSaid.ACCEPTED, BuildAndTests.GREEN): ReviewerSaid.ACCEPTED,
        (ReviewerSaid.ACCEPTED, BuildAndTests.RED): ReviewerSaid.REJECTED,  # evidence over claim
        (ReviewerSaid.REJECTED, BuildAndTests.GREEN): ReviewerSaid.REJECTED,
        (ReviewerSaid.REJECTED, BuildAndTests.RED): ReviewerSaid.REJECTED,
        (ReviewerSaid.CONTRADICTED, BuildAndTests.GREEN): ReviewerSaid.REJECTED,
        (ReviewerSaid.CONTRADICTED, BuildAndTests.RED): ReviewerSaid.REJECTED,
    },
)


# -- O6


async def review(ledger: Ledger) -> ReviewerSaid:
    """O6: the Reviewer's word on the whole iteration, held against the engine's own build and tests."""
    if ledger.phase is not Phase.REVIEW:
        await ledger.enter(Phase.REVIEW, "O6", {("current_task_id",): None, ("current_task_attempt",): 0})
    graph = await ledger.graph()
    if len(graph.accepted) != len(graph.tasks):
        raise EngineFault("a review was asked for before all tasks were accepted", where="O6")
    red = await validate(ledger, graph, None)
    report = await ledger.ask(ledger.briefs.reviewer())
    if report.passed is None:
        raise Stop(Ending.failed(failure("Reviewer", report, ledger.report_path)))
    said = ReviewerSaid.ACCEPTED if report.passed else ReviewerSaid.REJECTED
    if report.reason is Reason.CONTRADICTED:
        said = ReviewerSaid.CONTRADICTED
    verdict = ledger.run.decide(VERDICT, said, BuildAndTests.RED if red else BuildAndTests.GREEN)
    if said is not ReviewerSaid.REJECTED and verdict is ReviewerSaid.REJECTED:
        problem = AGAINST_ITSELF if said is ReviewerSaid.CONTRADICTED else "Build or tests are red."
        await put_down(ledger, problem, "\n".join((*report.complaints, *([red.output] if red else ()))))
    return verdict


async def settle(ledger: Ledger, verdict: ReviewerSaid) -> ReviewerSaid:
    """An acceptance holds if the user's own build and test are green on the tree that is going to be committed, also
    with the files that say what they do as they were. What people broke meanwhile stops the commit instead."""
    if verdict is ReviewerSaid.REJECTED:
        return verdict
    red = await prove_for_good(ledger)
    by_definition = red is not None and red.by_definition
    settled = ledger.run.decide(VERDICT, verdict, BuildAndTests.RED if by_definition else BuildAndTests.GREEN)
    if red and settled is ReviewerSaid.REJECTED:
        await put_down(ledger, "Files that say how tests and checks are run were changed.", red.output)
    return settled


async def put_down(ledger: Ledger, problem: str, evidence: str) -> None:
    """The report says REJECTED and why: it is what the next plan is made from."""
    path = ledger.report_path
    issue = {"severity": "Blocker", "task": "none", "files": [], "problem": problem, "evidence": evidence}

    def change(document: Document) -> str:
        known = read_yaml(document.text, path).get("issues")
        issues = [*(known if isinstance(known, list) else ()), issue]
        return edited_yaml(document.text, path, {("status",): ReviewerSaid.REJECTED.value, ("issues",): issues})

    await ledger.run.update(path, change)


async def accept(ledger: Ledger) -> None:
    """The iteration is accepted: the state document says so before the commit."""
    graph, now = await ledger.graph(), ledger.run.now()
    status: FieldChanges = {("status",): RunStatus.ACCEPTED.value, **ledger.ended("ACCEPTED", now)}
    await ledger.count({**ledger.counted(graph, accepted=True), **status}, now=now)


async def reject(ledger: Ledger) -> None:
    """The iteration is rejected; the fifth one ends the ticket."""
    now = ledger.run.now()
    await ledger.change(ledger.ended("REJECTED", now), now=now)
    ledger.log("iteration.rejected", report=ledger.report_path)
    if ledger.iteration + 1 >= ITERATIONS:
        ledger.stops_as = RunStatus.REJECTED
        raise Stop(Ending.stopped(MOST_ITERATIONS))


# -- the commit


async def commit(ledger: Ledger, hooks: str) -> None:
    """One commit of what agents changed for accepted tasks, with our lines of .gitignore; the user's hooks run."""
    run, git = ledger.run, ledger.run.repository
    if why := await ledger.gone():
        raise stopped(f"{why}. Check it out and go on with: {ledger.again}")
    if await git.hooks() != hooks:  # where agents could not be confined, they may be theirs
        what = "the git hooks of this repository changed while agents worked"
        raise stopped(f"{what}. Look at them, and go on with: {ledger.again}")
    await prove_edits(ledger)
    tasks, ours = await accepted_work(ledger)
    changed, carried = await git.changed(), ledger.listed("carried_files")
    work = [path for path in changed if ours.covers(path)]
    mixed = [path for path in work if path in carried]
    paths = [path for path in work if not BYPRODUCTS.covers(path) and (path == IGNORE or path not in mixed)]
    texts = {}
    if IGNORE in changed and IGNORE not in work:  # our two lines, whatever else the user has changed in it
        committed = await git.committed(IGNORE)
        texts = {IGNORE: wanted} if (wanted := with_ignored(committed)) != committed else {}
    if not paths:
        run.warn("there is nothing to commit: the accepted tasks left no file that differs from the last commit")
    else:
        prompt, slug = await ledger.prompt(), str(ledger.data["slug"])
        summary, work_type = str(prompt.get("refined_prompt") or slug), WorkKind(ledger.data["type"])
        message = commit_message(ledger.message_template(), ledger.ticket, work_type, slug, summary, tasks)
        done = await git.commit(paths, message, texts)
        if not done.ok:
            said = f"ERROR: the work is accepted, but the commit failed: {done.problem}. Mend it and go on with: "
            raise Stop(Ending.stopped(said + ledger.again))
        ledger.head = done.commit
        ledger.tell(f"committed {ledger.head[:10]} on {ledger.branch}")
    if mixed:
        run.warn(f"not committed, since your own uncommitted changes are in them too: {', '.join(mixed)}")
    told = {*mixed, *await refreshed_docs(ledger)}
    left = [path for path in await git.changed() if not path.startswith(OWN) and path not in told]
    if left := [path for path in left if not BYPRODUCTS.covers(path)]:
        run.warn(f"not committed: {few(left, SHOWN)}")
    ledger.log("iteration.accepted", files=paths, git_head=ledger.head)


async def prove_edits(ledger: Ledger) -> None:
    """What people changed since the acceptance is on the tree that is committed: it is built and tested once more."""
    run, graph = ledger.run, await ledger.graph()
    touched = await altered(run, graph.accepted)
    what = f"files of accepted tasks were changed since: {task_ids(touched)}" if touched else "the tree changed since"
    if touched:
        run.warn(f"{what}; they are built and tested again")
    if red := await prove_for_good(ledger):
        raise Stop(Ending.stopped(f"ERROR: {what}. With that:\n{red.output}\nMend it and go on with: {ledger.again}"))
    await put_down_files(ledger, touched)


async def accepted_work(ledger: Ledger) -> tuple[list[str], Scope]:
    """Ids and files of the accepted tasks of all iterations: rejected ones left their work in the tree too.

    The files are what agents changed for these tasks, in their scope or as accepted drift; where nobody has put that
    down, the scope of the task.
    """
    ids: list[str] = []
    files: list[str] = []
    patterns: list[str] = []
    for number in range(ledger.iteration + 1):
        for task in await ledger.tasks_of(number):
            if task.status is TaskStatus.ACCEPTED:
                ids.append(task.id if number == ledger.iteration else f"{task.id} (iteration {number})")
                brought = changed_files(task)
                files += brought or ()
                patterns += task.scope if brought is None else ()
    return ids, Scope(tuple(patterns), named=tuple(files))


# -- the last words


def final_output(ledger: Ledger) -> str:
    return (
        f"SUCCESS: Development complete in {ledger.iteration + 1} iteration(s)\n"
        f"Tasks: {ledger.data['metrics']['tasks_total']} completed\n"
        f"Build: {ended(ledger, 'build')}\n"
        f"Tests: {ended(ledger, 'test')}\n"
        f"Branch: {ledger.branch}\n"
        f"Report: {ledger.report_path}\n"
    )


def ended(ledger: Ledger, name: str) -> str:
    """How a command of the user's ended, as far as there is one."""
    command = ledger.data[f"{name}_command"]
    if not Command(command, "").runs:
        return "none"
    known = len((ledger.data.get("baseline") or {}).get("known", {}).get(command, ()))
    return f"PASSED, but for {known} failures that were known" if known else "PASSED"
