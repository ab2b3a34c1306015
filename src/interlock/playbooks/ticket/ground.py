"""Before the first agent: where the repository stands, and whether a ticket can begin from there (EV-43).

Nothing is stashed here, and nothing is changed but what a person asked for: a checkout of the base, which is taken
back where the ticket cannot begin.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from interlock import engine
from interlock.engine import Choice, Ending, Run
from interlock.playbooks.ticket import problems
from interlock.playbooks.ticket.git import Branch, Repository, Standing, shown
from interlock.playbooks.ticket.ledger import Stop

_TICKETS = re.compile(r"(?<![A-Za-z0-9])[A-Z]+-\d+(?!\d)")
"""In the name of a branch, where a ticket may stand before an underscore."""
SWITCH = Choice("switch", "the work goes on top of that branch as it is")
ABORT = Choice("abort", "the run stops; nothing is changed")
BASE = Choice("base", "the base is checked out, and the work begins from there")
HERE = Choice("here", "the work goes on top of what is checked out")


def stopped(text: str) -> Stop:
    return Stop(Ending.stopped(f"ERROR: {text}. STOPPING."))


def aborted() -> Stop:
    return stopped("aborted at the git gate; nothing was changed")


def refuse_unusable(standing: Standing, dirty: tuple[str, ...]) -> None:
    """Stop where a branch cannot be made without touching what somebody is in the middle of."""
    if standing.busy:
        raise stopped(f"the repository is in the middle of something ({', '.join(standing.busy)}); finish or abort it")
    if not standing.branch and standing.head and dirty:
        raise stopped("HEAD is detached and there are local changes; commit them or check out a branch")


@asynccontextmanager
async def ground(run: Run, ticket: str, base: str | None, repository: Repository) -> AsyncIterator[None]:
    """Begin from the base; where a start is refused, what was checked out before it is checked out again."""
    left = await find_ground(run, ticket, base, repository)
    try:
        yield
    except (engine.Stop, problems.TicketError):
        if left:
            await Branch(run, left).checkout()
        raise


async def find_ground(run: Run, ticket: str, base: str | None, repository: Repository) -> str:
    """The base is checked out, or a person says that what is checked out will do. What was left for it; else empty."""
    standing = await repository.standing()
    refuse_unusable(standing, standing.dirty)
    said = run.settle_once("base", {"base": base or run.settings.base})["base"]
    wanted = said or await repository.default_branch()
    if not wanted or wanted == standing.branch or not standing.head:
        return ""
    commit = await repository.commit_named(wanted)
    if not commit:
        raise problems.no_base(wanted)
    if commit == standing.head or ticket in _TICKETS.findall(standing.branch):
        return ""
    if not said and await stays_here(run, standing, wanted):
        return ""
    if standing.dirty:
        files = ", ".join(standing.dirty[:20])
        raise stopped(f"{wanted} cannot be checked out with uncommitted changes ({files}); commit or stash them")
    done = await Branch(run, wanted).checkout()
    if not done.ok:
        raise stopped(f"{wanted} cannot be checked out: {shown(done)}")
    return standing.branch or standing.head


async def stays_here(run: Run, standing: Standing, base: str) -> bool:
    """A person's word where something else than the base is checked out."""
    others = ", ".join(_TICKETS.findall(standing.branch))
    place = f"branch {standing.branch}" if standing.branch else f"commit {standing.head[:10]}"
    decision = await run.gate(
        "base",
        f"You are on {place}{f', of ticket {others}' if others else ''}, and not on {base}. Where does the work begin? "
        "Said beforehand with: interlock run ticket ... --base NAME",
        choices=(BASE, HERE, ABORT),
    )
    if decision.choice == ABORT.name:
        raise aborted()
    return decision.choice == HERE.name


async def check_branch(run: Run, repository: Repository, name: str) -> str:
    """The commit of a branch of this name that is used although it lacks the present state; else empty."""
    if not await repository.is_a_name(name):
        raise problems.bad_branch(name)
    there, head = await repository.commit_of(name), await repository.head()
    if not there or not head or await repository.branch() == name or await repository.contains(name, head):
        return ""
    decision = await run.gate(
        "branch",
        f"Branch {name} exists and does not contain the present state. Work on it all the same?",
        choices=(SWITCH, ABORT),
    )
    if decision.choice == ABORT.name:
        raise aborted()
    return there
