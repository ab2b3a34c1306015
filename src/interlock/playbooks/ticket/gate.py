"""Where the work begins, and O4.5: it gets a branch of its own before any code is written.

Nothing of the user's is lost on the way. Before the first agent nothing is stashed, and nothing is changed but what a
person asked for: a checkout of the base (EV-43).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from interlock.contracts import is_documentation
from interlock.documents import Document, DocumentState, few
from interlock.engine import Choice, Done, Edit, Ending, RepositoryStanding, Run, Scope, Status, Stop
from interlock.playbooks.ticket.documents import IGNORE, IGNORED, Phase, with_ignored
from interlock.playbooks.ticket.graph import Graph
from interlock.playbooks.ticket.ledger import Ledger, stopped
from interlock.playbooks.ticket.request import TicketError

_TICKETS = re.compile(r"(?<![A-Za-z0-9])[A-Z]+-\d+(?!\d)")
"""In the name of a branch, where a ticket may stand before an underscore."""
OWN = ("prompts/", ".interlock/", "interlock.toml")
"""What is interlock's, and never a change of the user's."""
STASH = Choice("stash", "the changes are put into a stash with the run's name, which stays until you take it out")
CARRY = Choice("carry", "the changes come along to the ticket's branch, uncommitted")
SWITCH = Choice("switch", "the work goes on top of that branch as it is")
ABORT = Choice("abort", "the run stops; nothing is changed")
BASE = Choice("base", "the base is checked out, and the work begins from there")
HERE = Choice("here", "the work goes on top of what is checked out")
UNSTASHABLE = "the changes could not be stashed"
SHOWN = 20
"""Of the user's files so many are named."""
ROUNDS = 20
"""How often the gate asks anew because somebody works on."""


@dataclass(frozen=True)
class GitGround:
    """Where the repository stands, and what of it is the user's."""

    standing: RepositoryStanding
    ignore_is_ours: bool
    """The .gitignore differs from the committed one by our two lines and nothing else."""

    @property
    def dirty(self) -> tuple[str, ...]:
        """The user's uncommitted files."""
        return tuple(path for path in self.standing.changed if path != IGNORE or not self.ignore_is_ours)

    def refuse_unusable(self, dirty: Sequence[str]) -> None:
        """Stop where a branch cannot be made without touching what somebody is in the middle of."""
        standing = self.standing
        if standing.busy:
            what = ", ".join(standing.busy)
            raise stopped(f"the repository is in the middle of something ({what}); finish or abort it")
        if not standing.branch and standing.head and dirty:
            raise stopped("HEAD is detached and there are local changes; commit them or check out a branch")


async def look(run: Run) -> GitGround:
    standing, ours = await run.repository.standing(OWN), False
    if IGNORE in standing.changed:
        ours = with_ignored(await run.repository.committed(IGNORE)) == (await run.read(IGNORE)).text
    return GitGround(standing, ours)


async def asked(run: Run, name: str, question: str, *choices: Choice, answered: str | None = None) -> str:
    """A person's word; an abort stops the ticket."""
    decision = await run.gate(name, question, choices=choices, answered=answered)
    if decision.choice == ABORT.name:
        raise stopped("aborted at the git gate; nothing was changed")
    return decision.choice


def require(done: Done, what: str) -> None:
    """Stop where git refuses."""
    if not done.ok:
        raise stopped(f"{what}: {done.problem}")


# -- before the first agent


@asynccontextmanager
async def on_ground(run: Run, ticket: str, base: str | None) -> AsyncIterator[None]:
    """Begin from the base; where a start is refused, what was checked out before it is checked out again."""
    left = await find_ground(run, ticket, base)
    try:
        yield
    except (Stop, TicketError):
        if left:
            await run.repository.checkout(left)
        raise


async def find_ground(run: Run, ticket: str, base: str | None) -> str:
    """The base is checked out, or a person says that what is checked out will do. What was left for it; else empty."""
    ground = await look(run)
    ground.refuse_unusable(ground.dirty)
    standing = ground.standing
    said = run.settle_once("base", {"base": base or run.settings.base})["base"]
    wanted = said or await run.repository.default_branch()
    if not wanted or wanted == standing.branch or not standing.head:
        return ""
    commit = await run.repository.commit_of(wanted)
    if not commit:
        raise TicketError(
            f"ERROR: there is no branch or commit {wanted!r} to begin from. STOPPING.",
            where="--base",
            remedy="Name one that git knows: git branch --all",
        )
    if commit == standing.head or ticket in _TICKETS.findall(standing.branch):
        return ""
    if not said and await stays_here(run, standing, wanted):
        return ""
    if ground.dirty:
        files = few(ground.dirty, SHOWN)
        raise stopped(f"{wanted} cannot be checked out with uncommitted changes ({files}); commit or stash them")
    require(await run.repository.checkout(wanted), f"{wanted} cannot be checked out")
    return standing.branch or standing.head


async def stays_here(run: Run, standing: RepositoryStanding, base: str) -> bool:
    """A person's word where something else than the base is checked out."""
    others = ", ".join(_TICKETS.findall(standing.branch))
    place = f"branch {standing.branch}" if standing.branch else f"commit {standing.head[:10]}"
    question = (
        f"You are on {place}{f', of ticket {others}' if others else ''}, and not on {base}. Where does the work begin? "
        "(The option --base says it beforehand.)"
    )
    return await asked(run, "base", question, BASE, HERE, ABORT) == HERE.name


async def may_use(run: Run, name: str) -> None:
    """A person's word on a branch that lacks the present state."""
    question = f"Branch {name} exists and does not contain the present state. Work on it all the same?"
    await asked(run, "branch", question, SWITCH, ABORT)


async def check_branch(run: Run, name: str) -> str:
    """The commit of a branch of this name that is used although it lacks the present state; else empty."""
    if not await run.repository.is_a_name(name):
        raise TicketError(
            f"ERROR: a branch cannot be called {name!r}. STOPPING.",
            where="interlock.toml, [ticket] branch",
            remedy="Change the template; {type}, {kind}, {ticket} and {slug} are filled in.",
        )
    there, now = await run.repository.commit_of(f"refs/heads/{name}"), await run.repository.where()
    if not there or not now.head or now.branch == name or await run.repository.contains(name, now.head):
        return ""
    await may_use(run, name)
    return there


# -- O4.5


async def git_gate(ledger: Ledger) -> None:
    """O4.5: resolve the state of the repository; only whoever comes through may write code."""
    await ledger.enter(Phase.GIT_GATE, "O4.5")
    ledger.log("git.gate.start", branch=ledger.branch)
    graph = await ledger.graph()
    if ledger.data["git_gate_completed"]:
        await stay_on_branch(ledger, graph)
    else:
        await cross(ledger, await settle(ledger, graph))
    ledger.head = (await ledger.run.repository.where()).head
    ledger.log("git.gate.complete", branch=ledger.branch, git_head=ledger.head)
    ledger.tell(f"the work is on branch {ledger.branch}")


def to_be_committed(graph: Graph, paths: Sequence[str]) -> list[str]:
    """Those of the user's files that the tasks would commit; a refresh leaves the user's documents out by itself."""
    scope = Scope(tuple(path for task in graph.tasks.values() for path in task.scope))
    return [path for path in paths if scope.covers(path)]


async def stay_on_branch(ledger: Ledger, graph: Graph) -> None:
    """The gate was passed before: the branch must be checked out, and carried files must not get into the work."""
    if await ledger.gone():
        require(await ledger.run.repository.checkout(ledger.branch), f"branch {ledger.branch} cannot be checked out")
    carried = ledger.listed("carried_files")
    if mixed := to_be_committed(graph, carried):
        await choose(ledger, mixed, carry=False, stash=True)
        await put_away(ledger, mixed)
        await ledger.change({("carried_files",): [path for path in carried if path not in mixed]})


@dataclass(frozen=True)
class Crossing:
    """How the repository comes to the ticket's branch, as settled with the user."""

    ground: GitGround
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


async def settle(ledger: Ledger, graph: Graph) -> Crossing:
    """What is to be done with the repository as it is now. An answer holds for what the person was shown: if somebody
    worked on while the gate waited, it is looked at and asked about anew (EN-29, EN-30)."""
    ground = await look(ledger.run)
    for _ in range(ROUNDS):
        crossing = await consider(ledger, graph, ground)
        if not crossing.asked:
            return crossing
        ground = await look(ledger.run)
        if ground == crossing.ground:
            return crossing
        ledger.run.warn("the repository changed while the git gate waited; it is looked at again")
    raise stopped(f"the repository changed each of the {ROUNDS} times that the git gate asked; nothing was changed")


async def consider(ledger: Ledger, graph: Graph, ground: GitGround) -> Crossing:
    """The same on this ground. A branch that lacks the present state is used only if a person says so."""
    written = [path for path in ground.dirty if path in ledger.docs_written]
    dirty = [path for path in ground.dirty if path not in written]
    ground.refuse_unusable(dirty)
    git, standing, branch = ledger.run.repository, ground.standing, ledger.branch
    create = was_asked = False
    if standing.branch != branch:
        there = await git.commit_of(f"refs/heads/{branch}")
        create = not there
        behind = bool(there and standing.head) and not await git.contains(branch, standing.head)
        if behind and there != ledger.data.get("existing_branch"):
            await may_use(ledger.run, branch)
            was_asked = True
    mixed = to_be_committed(graph, dirty)
    code = not all(map(is_documentation, dirty))
    stashed: list[str] = []
    if in_question := dirty if code else mixed:
        was_asked, stash = True, bool(standing.head)
        if await choose(ledger, in_question, carry=code and not mixed, stash=stash) == STASH.name:
            stashed = in_question
    carried = tuple(path for path in dirty if path not in stashed)
    along = (*written, *(() if code else carried))
    return Crossing(ground, create, tuple(stashed), carried, along, was_asked)


async def choose(ledger: Ledger, paths: Sequence[str], *, carry: bool, stash: bool) -> str:
    """A person says what becomes of uncommitted code; without one the run waits."""
    choices = [*([STASH] if stash else []), *([CARRY] if carry else []), ABORT]
    why = "" if carry else " Some of them belong to the work of this ticket, so that they cannot be carried along."
    names = "|".join(choice.name for choice in choices)
    question = (
        f"Working tree has uncommitted code changes: {few(paths, SHOWN)}.{why} What becomes of them? "
        f"(The option --dirty {names} says it beforehand.)"
    )
    run = ledger.run
    return await asked(run, "dirty", question, *choices, answered=run.flags.get("dirty") or run.settings.dirty)


async def cross(ledger: Ledger, crossing: Crossing) -> None:
    standing = crossing.ground.standing
    if crossing.stashed:
        await put_away(ledger, crossing.stashed)
    if crossing.along and standing.head and standing.branch != ledger.branch:
        await take_along(ledger, crossing)
    else:
        await switch(ledger, crossing)
    await ledger.change({("git_gate_completed",): True, ("carried_files",): list(crossing.carried)})


async def put_away(ledger: Ledger, paths: Sequence[str]) -> None:
    """The user's files go where the user finds them again."""
    note = f"interlock {ledger.run.identity.run_id}"
    require(await ledger.run.repository.stash(paths, note), UNSTASHABLE)
    await ledger.change({("stashed",): [*ledger.listed("stashed"), note]})
    ledger.tell(f"stashed as {note!r}: {few(paths, SHOWN)}")


async def take_along(ledger: Ledger, crossing: Crossing) -> None:
    """Changed documentation comes along by itself: stashed, and taken out again on the branch."""
    git, note = ledger.run.repository, f"interlock documentation {ledger.run.identity.run_id}"
    known = ledger.listed("stashed")
    await ledger.change({("stashed",): [*known, note]})  # before it is there: whatever happens, the end tells of it
    require(await git.stash(crossing.along, note), UNSTASHABLE)
    try:
        await switch(ledger, crossing)
    except Stop:
        if (await git.unstash(note)).ok:
            await ledger.change({("stashed",): known})
        raise
    done = await git.unstash(note)
    if not done.ok:
        place = next(iter(await git.stashes(note)), note)
        said = f"ERROR: stash could not be applied on {ledger.branch}; it is kept as {place}\n{done.problem}"
        raise Stop(Ending.stopped(said))
    await ledger.change({("stashed",): known})


async def switch(ledger: Ledger, crossing: Crossing) -> None:
    """Make or check out the branch. Our own lines in .gitignore never stand in the way."""
    if crossing.ground.standing.branch == ledger.branch:
        return
    run, away = ledger.run, crossing.ground.ignore_is_ours and not crossing.create
    if away and (committed := await run.repository.committed(IGNORE)):

        def without_ours(document: Document) -> Edit:
            ours = document.text == with_ignored(committed)  # and nothing else is in its way
            return Edit(document.encode(committed) if ours else None, None)

        await run.update(IGNORE, without_ours, what={"as": "committed"})
    elif away:
        await run.set_aside(IGNORE)
    done = await run.repository.checkout(ledger.branch, create=crossing.create)
    if away:
        await hide_prompts(run)
    require(done, f"branch {ledger.branch} cannot be checked out")


async def hide_prompts(run: Run) -> None:
    """Both of our lines stand in .gitignore, each once."""

    def hide(document: Document) -> Edit:
        if document.state is DocumentState.UNREADABLE:
            document.require()
        wanted = with_ignored(document.text)
        return Edit(document.encode(wanted) if wanted != document.text else None, None)

    await run.update(IGNORE, hide, what={"lines": list(IGNORED)})


# -- the end


async def with_reminder(ending: Ending, ledger: Ledger) -> Ending:
    """The end, and where the user's changes are if they were put away: said every time, so that nobody looks for
    them."""
    said = [
        f"your uncommitted changes are kept; take them out with: git stash pop {place} ({note})"
        for note in dict.fromkeys(ledger.listed("stashed"))
        for place in await ledger.run.repository.stashes(note)
    ]
    for text in said:
        ledger.run.warn(text)
    if not said:
        return ending
    if ending.status is Status.COMPLETE:
        return replace(ending, output="".join((str(ending.output), *(f"{text}\n" for text in said))))
    return replace(ending, reason="\n".join((ending.reason, *said)))
