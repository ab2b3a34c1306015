"""O6 and O7: the review, the commit, the documentation, and the last words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import Reason
from interlock.documents import Changes, Document, DocumentState, edited_yaml, read_yaml
from interlock.engine import BYPRODUCTS, Command, Ending, Scope, Stop, Table
from interlock.errors import EngineFault
from interlock.playbooks.ticket import briefs
from interlock.playbooks.ticket.analysis import DOCS, architecture_relevant
from interlock.playbooks.ticket.documents import (
    IGNORE,
    ITERATIONS,
    Phase,
    RunStatus,
    commit_message,
    docs_message,
    iteration_home,
    prompt_of,
    with_ignored,
)
from interlock.playbooks.ticket.gate import OWN, shown_paths
from interlock.playbooks.ticket.graph import TaskStatus, changed_files, read_graph
from interlock.playbooks.ticket.ledger import Ledger, digest_of, failure, stopped
from interlock.playbooks.ticket.planning import refresh_brief, take_docs
from interlock.playbooks.ticket.request import WorkKind
from interlock.playbooks.ticket.resuming import MOST_ITERATIONS, is_as_it_was, names, put_down_files
from interlock.playbooks.ticket.validation import prove_for_good, validate


class ReviewerSaid(StrEnum):
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"


class BuildAndTests(StrEnum):
    """What the engine's own build and tests come to."""

    GREEN = "green"
    RED = "red"


VERDICT: Table[ReviewerSaid] = Table(
    "verdict",
    {
        (ReviewerSaid.ACCEPTED, BuildAndTests.GREEN): ReviewerSaid.ACCEPTED,
        (ReviewerSaid.ACCEPTED, BuildAndTests.RED): ReviewerSaid.REJECTED,  # evidence over claim
        (ReviewerSaid.REJECTED, BuildAndTests.GREEN): ReviewerSaid.REJECTED,
        (ReviewerSaid.REJECTED, BuildAndTests.RED): ReviewerSaid.REJECTED,
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
    check = await validate(ledger, graph, None)
    report = await ledger.ask(ledger.briefs.reviewer())
    if report.passed is None:
        raise Stop(Ending.failed(failure("Reviewer", report, ledger.report_path)))
    said = ReviewerSaid.ACCEPTED if report.passed else ReviewerSaid.REJECTED
    verdict = ledger.run.decide(VERDICT, said, BuildAndTests.GREEN if check.green else BuildAndTests.RED)
    if report.reason is Reason.CONTRADICTED:
        await put_down(ledger, "The acceptance contradicts its own evidence.", "\n".join(report.complaints))
    if verdict is not said:
        await put_down(ledger, "Build or tests are red.", check.output)
    return verdict


async def settle(ledger: Ledger, verdict: ReviewerSaid) -> ReviewerSaid:
    """An acceptance holds if the user's own build and test are green on the tree that is going to be committed, also
    with the files that say what they do as they were. What people broke meanwhile stops the commit instead."""
    if verdict is ReviewerSaid.REJECTED:
        return verdict
    check = await prove_for_good(ledger)
    settled = ledger.run.decide(VERDICT, verdict, BuildAndTests.RED if check.by_definition else BuildAndTests.GREEN)
    if settled is ReviewerSaid.REJECTED:
        await put_down(ledger, "Files that say how tests and checks are run were changed.", check.output)
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
    metrics = ledger.metrics(graph, accepted=True)
    status: Changes = {("status",): RunStatus.ACCEPTED.value}
    await ledger.change({**ledger.counted(metrics), **status, **ledger.ended("ACCEPTED", now)}, now=now)
    ledger.tell(metrics.line(), rejected_tasks=[])


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
    git = ledger.run.repository
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
        ledger.run.warn("there is nothing to commit: the accepted tasks left no file that differs from the last commit")
    else:
        prompt = await prompt_of(ledger.run, ledger.ticket)
        slug, work_type = str(ledger.data["slug"]), WorkKind(ledger.data["type"])
        summary = str(prompt.get("refined_prompt") or slug)
        message = commit_message(template_of(ledger), ledger.ticket, work_type, slug, summary, tasks)
        done = await git.commit(paths, message, texts)
        if not done.ok:
            said = f"ERROR: the work is accepted, but the commit failed: {done.problem}. Mend it and go on with: "
            raise Stop(Ending.stopped(said + ledger.again))
        ledger.head = done.commit
        ledger.tell(f"committed {ledger.head[:10]} on {ledger.branch}")
    await say_what_is_left(ledger, mixed)
    ledger.log("iteration.accepted", files=paths, git_head=ledger.head)


async def say_what_is_left(ledger: Ledger, mixed: Sequence[str]) -> None:
    """No file is left changed without a word: neither the user's own nor those that agents changed as well."""
    if mixed:
        ledger.run.warn(f"not committed, since your own uncommitted changes are in them too: {', '.join(mixed)}")
    told = {*mixed, *await refreshed_docs(ledger)}
    changed = [path for path in await ledger.run.repository.changed() if not path.startswith(OWN)]
    if left := [path for path in changed if path not in told and not BYPRODUCTS.covers(path)]:
        ledger.run.warn(f"not committed: {shown_paths(left)}")


def template_of(ledger: Ledger) -> str:
    """The form of commit messages, as the settings had it when this commit was first tried."""
    return str(ledger.run.settle_once("message", {"template": ledger.run.settings.commit_message})["template"])


async def prove_edits(ledger: Ledger) -> None:
    """What people changed since the acceptance is on the tree that is committed: it is built and tested once more."""
    run, graph = ledger.run, await ledger.graph()
    touched = [task for task in graph.accepted if not await is_as_it_was(run, task)]
    if touched:
        run.warn(f"files of accepted tasks were changed since: {names(touched)}; they are built and tested again")
    check = await prove_for_good(ledger)
    if not check.green:
        what = f"files of accepted tasks were changed since: {names(touched)}" if touched else "the tree changed since"
        said = f"ERROR: {what}. With that:\n{check.output}\nMend it and go on with: {ledger.again}"
        raise Stop(Ending.stopped(said))
    await put_down_files(ledger, touched)


@dataclass(frozen=True)
class Content:
    """Which files a ticket's commit is made of."""

    paths: frozenset[str]
    """What agents changed for accepted tasks, in their scope or as accepted drift."""
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
                    paths.update(brought)
    return ids, Content(frozenset(paths), Scope(tuple(patterns)))


# -- O7


async def refresh_docs(ledger: Ledger, before: str) -> None:
    """O7: documentation that the work made out of date is renewed; whatever comes of it, the work stays accepted."""
    if ledger.phase is not Phase.DOC_REFRESH:
        await ledger.enter(Phase.DOC_REFRESH, "O7")
    changed = await ledger.run.repository.changes_since(before) if before and before != ledger.head else []
    relevant = architecture_relevant(changed) or (not before and bool(ledger.head))
    needed = relevant or not ledger.data["docs_trusted_for_planning"]
    if needed:
        await take_docs(ledger, await ledger.ask(await refresh_brief(ledger, briefs.INCREMENTAL)))
    ledger.log("docs.refresh", ran=needed, architecture_relevant=relevant)
    if paths := await refreshed_docs(ledger):
        message = docs_message(template_of(ledger), ledger.ticket, str(ledger.data["slug"]))
        done = await ledger.run.repository.commit(paths, message)
        if not done.ok:
            ledger.run.warn(f"the refreshed documentation was not committed: {done.problem}")
        ledger.head = done.commit or ledger.head
    await ledger.publish()


async def refreshed_docs(ledger: Ledger) -> list[str]:
    """The uncommitted documents that are as the Initializer left them; what the user changed is the user's."""
    if not ledger.data.get("docs_refreshed"):
        return []
    run, written = ledger.run, ledger.docs_written
    changed = set(await run.repository.changed()) - set(ledger.listed("carried_files"))
    return [path for path in DOCS if path in changed and written.get(path) == await run.read(path, digest_of)]


def final_output(ledger: Ledger) -> str:
    number = ledger.iteration
    return (
        f"SUCCESS: Development complete in {number + 1} iteration(s)\n"
        f"Tasks: {ledger.data['metrics']['tasks_total']} completed\n"
        f"Build: {ended(ledger, 'build')}\n"
        f"Tests: {ended(ledger, 'test')}\n"
        f"Branch: {ledger.branch}\n"
        f"Report: {iteration_home(ledger.ticket, number)}/review_report.yaml\n"
    )


def ended(ledger: Ledger, name: str) -> str:
    """How a command of the user's ended, as far as there is one."""
    if not Command(ledger.data[f"{name}_command"], "").runs:
        return "none"
    known = len((ledger.data.get("baseline") or {}).get("known", {}).get(ledger.data[f"{name}_command"], ()))
    return f"PASSED, but for {known} failures that were known" if known else "PASSED"
