"""O4.5: the work gets a branch of its own before any code is written, and nothing of the user's is lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from interlock.documents import Document
from interlock.engine import Edit, Scope
from interlock.engine.model import Choice, Ending, Status
from interlock.playbooks.ticket.documents import with_ignored
from interlock.playbooks.ticket.git import IGNORE, Branch, Dirt, Repository, Standing, dirt, shown
from interlock.playbooks.ticket.graph import Graph
from interlock.playbooks.ticket.ground import ABORT, SWITCH, aborted, refuse_unusable, stopped
from interlock.playbooks.ticket.ledger import Ledger, Stop
from interlock.playbooks.ticket.progress import Phase
from interlock.playbooks.ticket.startup import hide_prompts

STASH = Choice("stash", "the changes are put into a stash with the run's name, which stays until you take it out")
CARRY = Choice("carry", "the changes come along to the ticket's branch, uncommitted")
ROUNDS = 20
"""How often the gate asks anew because somebody works on."""


async def git_gate(ledger: Ledger, repository: Repository) -> Branch:
    """O4.5: resolve the state of the repository; only whoever comes through may write code."""
    branch = Branch(ledger.run, ledger.data["branch"])
    await ledger.enter(Phase.GIT_GATE, "O4.5")
    ledger.log("git.gate.start", branch=branch.name)
    graph = await ledger.graph()
    if ledger.data["git_gate_completed"]:
        await stay_on(ledger, repository, branch, graph)
    else:
        await pass_gate(ledger, repository, branch, graph)
    ledger.head = await repository.head()
    ledger.log("git.gate.complete", branch=branch.name, git_head=ledger.head)
    ledger.tell(f"the work is on branch {branch.name}")
    return branch


def to_be_committed(graph: Graph, paths: Sequence[str]) -> list[str]:
    """Those of the user's files that the tasks would commit; a refresh leaves the user's documents out by itself."""
    scope = Scope(tuple(path for task in graph.tasks.values() for path in task.scope))
    return [path for path in paths if scope.covers(path)]


async def stay_on(ledger: Ledger, repository: Repository, branch: Branch, graph: Graph) -> None:
    """The gate was passed before: the branch must be checked out, and carried files must not get into the work."""
    if await repository.branch() != branch.name:
        done = await branch.checkout()
        if not done.ok:
            raise stopped(f"branch {branch.name} cannot be checked out: {shown(done)}")
    carried = [str(path) for path in ledger.data.get("carried_files") or ()]
    if mixed := to_be_committed(graph, carried):
        await choose(ledger, mixed, carry=False, stash=True)
        await put_away(ledger, repository, branch, mixed)
        await ledger.change({("carried_files",): [path for path in carried if path not in mixed]})


@dataclass(frozen=True)
class Crossing:
    """How the repository comes to the ticket's branch, as settled with the user."""

    standing: Standing
    create: bool
    """The branch has to be made."""
    stashed: tuple[str, ...]
    """What the user wants to have put away."""
    carried: tuple[str, ...]
    """The user's files that come along and stay uncommitted."""
    along: tuple[str, ...]
    """Documentation that comes along through a stash."""
    asked: bool
    """A person was asked, so that time may have passed since the look."""


async def pass_gate(ledger: Ledger, repository: Repository, branch: Branch, graph: Graph) -> None:
    crossing = await settle(ledger, repository, branch, graph)
    standing = crossing.standing
    if crossing.stashed:
        await put_away(ledger, repository, branch, crossing.stashed)
    if crossing.along and standing.head and standing.branch != branch.name:
        await take_along(ledger, repository, branch, standing, crossing.along, create=crossing.create)
    else:
        await switch(ledger, repository, branch, standing, create=crossing.create)
    await ledger.change({("git_gate_completed",): True, ("carried_files",): list(crossing.carried)})


async def settle(ledger: Ledger, repository: Repository, branch: Branch, graph: Graph) -> Crossing:
    """What is to be done with the repository as it is now. An answer holds for what the person was shown: if somebody
    worked on while the gate waited, it is looked at and asked about anew (EN-29, EN-30)."""
    standing = await repository.standing()
    for _ in range(ROUNDS):
        crossing = await consider(ledger, repository, branch, graph, standing)
        if not crossing.asked:
            return crossing
        standing = await repository.standing()
        if standing == crossing.standing:
            return crossing
        ledger.run.warn("the repository changed while the git gate waited; it is looked at again")
    raise stopped(f"the repository changed each of the {ROUNDS} times that the git gate asked; nothing was changed")


async def consider(
    ledger: Ledger, repository: Repository, branch: Branch, graph: Graph, standing: Standing
) -> Crossing:
    written = [path for path in standing.dirty if path in (ledger.data.get("docs_written") or ())]
    dirty = [path for path in standing.dirty if path not in written]
    refuse_unusable(standing, tuple(dirty))
    create, asked = await is_new(ledger, repository, branch, standing)
    mixed = to_be_committed(graph, dirty)
    code = dirt(dirty) is Dirt.CODE
    stashed: list[str] = []
    if in_question := dirty if code else mixed:
        asked = True
        if await choose(ledger, in_question, carry=code and not mixed, stash=bool(standing.head)) == STASH.name:
            stashed = in_question
    carried = tuple(path for path in dirty if path not in stashed)
    along = (*written, *(() if code else carried))
    return Crossing(standing, create, tuple(stashed), carried, along, asked)


async def is_new(ledger: Ledger, repository: Repository, branch: Branch, standing: Standing) -> tuple[bool, bool]:
    """Whether the branch has to be made, and whether a person was asked: one that lacks the present state is used
    only if a person says so."""
    if standing.branch == branch.name:
        return False, False
    there = await repository.commit_of(branch.name)
    behind = bool(there and standing.head) and not await repository.contains(branch.name, standing.head)
    if behind and there != ledger.data.get("existing_branch"):
        decision = await ledger.run.gate(
            "branch",
            f"Branch {branch.name} exists and does not contain the present state. Work on it all the same?",
            choices=(SWITCH, ABORT),
        )
        if decision.choice == ABORT.name:
            raise aborted()
        return not there, True
    return not there, False


def shown_paths(paths: Sequence[str]) -> str:
    return ", ".join(paths[:20]) + (f" and {len(paths) - 20} more" if len(paths) > 20 else "")


async def choose(ledger: Ledger, paths: Sequence[str], *, carry: bool, stash: bool) -> str:
    """A person says what becomes of uncommitted code; without one the run waits."""
    choices = [*([STASH] if stash else []), *([CARRY] if carry else []), ABORT]
    names = "|".join(choice.name for choice in choices)
    why = "" if carry else " Some of them belong to the work of this ticket, so that they cannot be carried along."
    run = ledger.run
    decision = await run.gate(
        "dirty",
        f"Working tree has uncommitted code changes: {shown_paths(paths)}.{why} "
        f"Run: interlock run ticket ... --dirty {names}",
        choices=choices,
        answered=run.flags.get("dirty") or run.settings.dirty,
    )
    if decision.choice == ABORT.name:
        raise aborted()
    return decision.choice


async def put_away(ledger: Ledger, repository: Repository, branch: Branch, paths: Sequence[str]) -> None:
    """The user's files go where the user finds them again."""
    note = f"interlock {ledger.run.identity.run_id}"
    await stash(repository, branch, paths, note)
    await ledger.change({("stashed",): [*(ledger.data.get("stashed") or ()), note]})
    ledger.tell(f"stashed as {note!r}: {shown_paths(paths)}")


async def with_reminder(ending: Ending, ledger: Ledger, repository: Repository) -> Ending:
    """The end, and where the user's changes are if they were put away: said every time, so that nobody looks for
    them."""
    said = [
        f"your uncommitted changes are kept; take them out with: git stash pop {place} ({note})"
        for note in dict.fromkeys(ledger.data.get("stashed") or ())
        for place in await repository.stashes(note)
    ]
    for text in said:
        ledger.run.warn(text)
    if not said:
        return ending
    if ending.status is Status.COMPLETE:
        return replace(ending, output="".join((str(ending.output), *(f"{text}\n" for text in said))))
    return replace(ending, reason="\n".join((ending.reason, *said)))


async def stash(repository: Repository, branch: Branch, paths: Sequence[str], note: str) -> None:
    done = await branch.stash(paths, note, await repository.prefix())
    if not done.ok:
        raise stopped(f"the changes could not be stashed: {shown(done)}")


async def take_along(
    ledger: Ledger, repository: Repository, branch: Branch, standing: Standing, paths: Sequence[str], *, create: bool
) -> None:
    """Changed documentation comes along by itself: stashed, and taken out again on the branch."""
    mark = f"interlock documentation {ledger.run.identity.run_id}"
    known = list(ledger.data.get("stashed") or ())
    await ledger.change({("stashed",): [*known, mark]})  # before it is there: whatever happens, the end tells of it
    await stash(repository, branch, paths, mark)
    try:
        await switch(ledger, repository, branch, standing, create=create)
    except Stop:
        if (await branch.pop(mark)).ok:
            await ledger.change({("stashed",): known})
        raise
    done = await branch.pop(mark)
    if not done.ok:
        place = next(iter(await repository.stashes(mark)), mark)
        raise Stop(
            Ending.stopped(f"ERROR: stash could not be applied on {branch.name}; it is kept as {place}\n{shown(done)}")
        )
    await ledger.change({("stashed",): known})


def without_lines(committed: str, document: Document) -> Edit:
    """The committed .gitignore, as long as nothing but our lines is in its way."""
    ours = document.text == with_ignored(committed)
    return Edit(document.encode(committed) if ours else None, None)


async def switch(ledger: Ledger, repository: Repository, branch: Branch, standing: Standing, *, create: bool) -> None:
    """Make or check out the branch. Our own lines in .gitignore never stand in the way."""
    if standing.branch == branch.name:
        return
    run = ledger.run
    away = not create and standing.ignore_is_ours
    if away:
        committed = await repository.committed(IGNORE)
        if committed:
            await run.edit(IGNORE, {"as": "committed"}, partial(without_lines, committed))
        else:
            await run.set_aside(IGNORE)
    done = await branch.checkout(create=create)
    if away:
        await hide_prompts(run)
    if not done.ok:
        raise stopped(f"branch {branch.name} cannot be checked out: {shown(done)}")
