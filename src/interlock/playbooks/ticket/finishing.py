"""O6 and O7: the review, the commit, the documentation, and the last words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts import Reason
from interlock.documents import Document, DocumentState
from interlock.engine import BYPRODUCTS, Ending, Scope
from interlock.engine.tables import Table
from interlock.errors import EngineFault
from interlock.playbooks.ticket import briefs, problems
from interlock.playbooks.ticket.documents import (
    commit_message,
    docs_message,
    edited,
    home,
    iteration_home,
    read_yaml,
    with_ignored,
)
from interlock.playbooks.ticket.git import IGNORE, OWN, Branch, Repository, shown
from interlock.playbooks.ticket.graph import TaskStatus, changed_files, literal_files, read_graph
from interlock.playbooks.ticket.ledger import Ledger, Stop
from interlock.playbooks.ticket.planning import refresh_brief, take_docs
from interlock.playbooks.ticket.process import again, ask, digest_of, failure, files_digest, gone_from
from interlock.playbooks.ticket.progress import ITERATIONS, Phase, RunStatus, minutes_between, moment_of, stamp
from interlock.playbooks.ticket.project import DOCS, architecture_relevant
from interlock.playbooks.ticket.request import Work
from interlock.playbooks.ticket.resuming import is_as_it_was, names
from interlock.playbooks.ticket.toolchains import Command
from interlock.playbooks.ticket.validation import prove_for_good, validate


class Said(StrEnum):
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"


class Evidence(StrEnum):
    """What the engine's own build and tests come to."""

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


async def review(ledger: Ledger) -> Said:
    """O6: the Reviewer's word on the whole iteration, held against the engine's own build and tests."""
    if ledger.phase is not Phase.REVIEW:
        await ledger.enter(Phase.REVIEW, "O6", {("current_task_id",): None, ("current_task_attempt",): 0})
    graph = await ledger.graph()
    if len(graph.accepted) != len(graph.tasks):
        raise EngineFault("a review was asked for before all tasks were accepted", where="O6")
    check = await validate(ledger, graph, None)
    spec = briefs.reviewer(ledger.ticket, ledger.iteration, ledger.data, ledger.tasks_path, ledger.report_path)
    report = await ask(ledger, spec)
    if report.passed is None:
        raise Stop(Ending.failed(failure("Reviewer", report, ledger.report_path)))
    said = Said.ACCEPTED if report.passed else Said.REJECTED
    verdict = ledger.run.decide(VERDICT, said, Evidence.GREEN if check.green else Evidence.RED)
    if report.reason is Reason.CONTRADICTED:
        await put_down(ledger, "The acceptance contradicts its own evidence.", "\n".join(report.complaints))
    if verdict is not said:
        await put_down(ledger, "Build or tests are red.", check.output)
    return verdict


async def settle(ledger: Ledger, verdict: Said) -> Said:
    """An acceptance holds if the user's own build and test are green on the tree that is going to be committed, also
    with the files that say what they do as they were. What people broke meanwhile stops the commit instead."""
    if verdict is Said.REJECTED:
        return verdict
    check = await prove_for_good(ledger)
    settled = ledger.run.decide(VERDICT, verdict, Evidence.RED if check.by_definition else Evidence.GREEN)
    if settled is Said.REJECTED:
        await put_down(ledger, "Files that say how tests and checks are run were changed.", check.output)
    return settled


async def put_down(ledger: Ledger, problem: str, evidence: str) -> None:
    """The report says REJECTED and why: it is what the next plan is made from."""
    path = ledger.report_path
    issue = {"severity": "Blocker", "task": "none", "files": [], "problem": problem, "evidence": evidence}

    def change(document: Document) -> str:
        known = read_yaml(document.text, path).get("issues")
        issues = [*(known if isinstance(known, list) else ()), issue]
        return edited(document.text, path, {("status",): Said.REJECTED.value, ("issues",): issues})

    await ledger.run.update(path, change)


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
    """One commit of what agents changed for accepted tasks, with our lines of .gitignore; the user's hooks run."""
    if why := await gone_from(branch.name, "", repository):
        raise Stop(Ending.stopped(f"ERROR: {why}. Check it out and go on with: {again(ledger)}. STOPPING."))
    await check_hooks(ledger, repository, hooks)
    await prove_edits(ledger)
    tasks, ours = await accepted_work(ledger)
    changed = dict.fromkeys(path for _, path in await repository.status())
    carried = set(ledger.data.get("carried_files") or ())
    mixed = [path for path in changed if ours.covers(path) and path in carried]
    paths = [
        path for path in changed if ours.covers(path) and not BYPRODUCTS.covers(path) and path not in {IGNORE, *mixed}
    ]
    ignore = await our_ignore(ledger, repository) if IGNORE in changed and not ours.covers(IGNORE) else ""
    if ours.covers(IGNORE) and IGNORE in changed:
        paths.append(IGNORE)
    if not paths:
        ledger.run.warn("there is nothing to commit: the accepted tasks left no file that differs from the last commit")
    else:
        await make_commit(ledger, branch, paths, ignore, tasks)
        ledger.head = await repository.head()
        ledger.tell(f"committed {ledger.head[:10]} on {branch.name}")
    await say_what_is_left(ledger, repository, mixed)
    ledger.log("iteration.accepted", files=paths, git_head=ledger.head)


async def say_what_is_left(ledger: Ledger, repository: Repository, mixed: Sequence[str]) -> None:
    """No file is left changed without a word: neither the user's own nor those that agents changed as well."""
    if mixed:
        ledger.run.warn(f"not committed, since your own uncommitted changes are in them too: {', '.join(mixed)}")
    later = await refreshed_docs(ledger, repository)
    left = [
        path
        for path in dict.fromkeys(path for _, path in await repository.status())
        if not path.startswith(OWN) and path not in {*mixed, *later} and not BYPRODUCTS.covers(path)
    ]
    if left:
        ledger.run.warn(
            f"not committed: {', '.join(left[:20])}{f' and {len(left) - 20} more' if len(left) > 20 else ''}"
        )


def template_of(ledger: Ledger) -> str:
    """The form of commit messages, as the settings had it when this commit was first tried."""
    return str(ledger.run.settle_once("message", {"template": ledger.run.settings.commit_message})["template"])


async def make_commit(ledger: Ledger, branch: Branch, paths: Sequence[str], ignore: str, tasks: Sequence[str]) -> None:
    path = f"{home(ledger.ticket)}/prompt.yaml"
    prompt = read_yaml((await ledger.run.read(path)).text, path)
    slug = str(ledger.data["slug"])
    summary = str(prompt.get("refined_prompt") or slug)
    message = commit_message(template_of(ledger), ledger.ticket, Work(ledger.data["type"]), slug, summary, tasks)
    done = await branch.commit(paths, message, ignore)
    if not done.ok:
        raise Stop(
            Ending.stopped(
                f"ERROR: the work is accepted, but the commit failed: {shown(done)}. Mend it and go on with: "
                f"{again(ledger)}"
            )
        )


async def check_hooks(ledger: Ledger, repository: Repository, before: str) -> None:
    """A hook that came up while agents worked is not run before a person has looked at it: where agents could not be
    confined, it may be theirs."""
    if await repository.hooks() != before:
        raise Stop(
            Ending.stopped(
                "ERROR: the git hooks of this repository changed while agents worked. Look at them, and go on with: "
                f"{again(ledger)}. STOPPING."
            )
        )


async def prove_edits(ledger: Ledger) -> None:
    """What people changed since the acceptance is on the tree that is committed: it is built and tested once more."""
    run, graph = ledger.run, await ledger.graph()
    touched = [task for task in graph.accepted if not await is_as_it_was(run, task)]
    if touched:
        run.warn(f"files of accepted tasks were changed since: {names(touched)}; they are built and tested again")
    check = await prove_for_good(ledger)
    if not check.green:
        what = f"files of accepted tasks were changed since: {names(touched)}" if touched else "the tree changed since"
        raise Stop(
            Ending.stopped(f"ERROR: {what}. With that:\n{check.output}\nMend it and go on with: {again(ledger)}")
        )
    files = {task.id: await files_digest(run, literal_files(task)) for task in touched}
    await ledger.mark({name: {"files_sha256": digest} for name, digest in files.items()})


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
        await take_docs(ledger, repository, report)
    ledger.log("docs.refresh", ran=needed, architecture_relevant=relevant)
    await commit_docs(ledger, repository, branch)
    await ledger.publish()


async def refreshed_docs(ledger: Ledger, repository: Repository) -> list[str]:
    """The uncommitted documents that are as the Initializer left them; what the user changed is the user's."""
    if not ledger.data.get("docs_refreshed"):
        return []
    carried, written = set(ledger.data.get("carried_files") or ()), ledger.docs_written
    changed = {path for _, path in await repository.status()} - carried
    return [path for path in DOCS if path in changed and written.get(path) == await ledger.run.look(path, digest_of)]


async def commit_docs(ledger: Ledger, repository: Repository, branch: Branch) -> None:
    """A commit of their own for the refreshed documents."""
    if paths := await refreshed_docs(ledger, repository):
        message = docs_message(template_of(ledger), ledger.ticket, str(ledger.data["slug"]))
        done = await branch.commit(paths, message)
        if not done.ok:
            ledger.run.warn(f"the refreshed documentation was not committed: {shown(done)}")
        ledger.head = await repository.head()


def final_output(ledger: Ledger) -> str:
    number = ledger.iteration
    return (
        f"SUCCESS: Development complete in {number + 1} iteration(s)\n"
        f"Tasks: {ledger.data['metrics']['tasks_total']} completed\n"
        f"Build: {ended(ledger, 'build')}\n"
        f"Tests: {ended(ledger, 'test')}\n"
        f"Branch: {ledger.data['branch']}\n"
        f"Report: {iteration_home(ledger.ticket, number)}/review_report.yaml\n"
    )


def ended(ledger: Ledger, name: str) -> str:
    """How a command of the user's ended, as far as there is one."""
    if not Command(ledger.data[f"{name}_command"], "").runs:
        return "none"
    known = len((ledger.data.get("baseline") or {}).get("known", {}).get(ledger.data[f"{name}_command"], ()))
    return f"PASSED, but for {known} failures that were known" if known else "PASSED"
