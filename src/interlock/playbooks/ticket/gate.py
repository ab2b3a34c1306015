"""O4.5: the work gets a branch of its own before any code is written; nothing of the person's is lost on the way."""

from __future__ import annotations

from interlock.playbooks.ticket.documents import CACHE
from interlock.playbooks.ticket.graph import DOCUMENTATION, may_meet
from interlock.playbooks.ticket.request import tickets
from interlock.playbooks.ticket.state import OWN, Ticket
from interlock.workspace.scope import within

SHOWN = 20
"""Of the person's files so many are named."""


async def dirty(t: Ticket) -> list[str]:
    """What the person has not committed."""
    return [change.path for change in await t.run.unsaved() if not change.path.startswith(OWN)]


async def settle_dirt(t: Ticket, left: list[str]) -> None:
    """The person says what becomes of uncommitted code of which they have not said it yet (TK-103)."""
    code = [path for path in left if not within(path, DOCUMENTATION) and path not in t.choices]
    if code:
        files = f"{', '.join(code[:SHOWN])}{' ...' if len(code) > SHOWN else ''}"
        told = f"Working tree has uncommitted code changes: {files}."
        command = f"Run: interlock run ticket {t.jira} ... --dirty stash|carry|abort (or interlock answer)"
        t.choices |= dict.fromkeys(code, await ask(t, "dirty", f"{told} {command}", "stash", "carry", "abort"))


async def ask(t: Ticket, name: str, question: str, *choices: str) -> str:
    """A person's word; `abort` stops the ticket."""
    given = t.run.flags.get("dirty") or t.run.settings.dirty if name == "dirty" else ""
    decided = await t.run.gate(name, question, choices=choices, given=given if given in choices else "")
    if decided.choice == "abort":
        docs = (*filter(t.docs_left.get, t.docs_left), CACHE) if t.docs_left else ()
        left = ", ".join((t.at(""), ".gitignore", *docs)) if t.begun else "nothing"
        raise await t.stop(f"aborted at the git gate; changed so far: {left}")
    return decided.choice


async def git_gate(t: Ticket) -> None:
    """Only whoever comes through may write code."""
    run, branch = t.run, t.data.branch
    with run.step("O4.5"):
        await t.set("GIT_GATE", "O4.5")
        await t.log("git.gate.start", "O4.5", branch=branch)
        facts = await run.branch(branch)
        if not t.data.git_gate_completed:
            await put_away(t)
            if facts.current != branch:
                await cross(t, branch)
            facts = await run.branch(branch)
        elif facts.current != branch:
            run.warn(f"{facts.current} is checked out, and not {branch}: the work goes on, on {branch}")
        await t.set("GIT_GATE", "O4.5", head=facts.head, git_gate_completed=True)
        await t.log("git.gate.complete", "O4.5", branch=branch, git_head=facts.head)


async def put_away(t: Ticket) -> None:
    """The person's uncommitted code, as they chose; what the tasks themselves work on cannot be carried along."""
    left = await dirty(t)
    await settle_dirt(t, left)
    files = [path for task in (await t.graph()).tasks for path in task.files]
    carried = [path for path in left if t.choices.get(path) == "carry"]
    if mixed := [path for path in carried if any(may_meet(path, file) for file in files)]:
        question = f"Tasks of this ticket work on {', '.join(mixed)}: your changes there cannot be carried along."
        t.choices |= dict.fromkeys(mixed, await ask(t, "mixed", question, "stash", "abort"))
    await stash(t, [path for path in left if t.choices.get(path) == "stash"])


async def stash(t: Ticket, paths: list[str]) -> None:
    if not paths:
        return
    note = f"interlock {t.run.id}"
    done = await t.run.stash(paths, note)
    if done.problem:
        raise await t.stop(f"your changes could not be stashed: {done.problem}")
    t.stash = note
    t.run.warn(f"your changes of {', '.join(paths[:SHOWN])} are kept in the stash {note!r}")


async def cross(t: Ticket, branch: str) -> None:
    """To the ticket's branch: a new one begins where the person stands, so that HEAD alone moves (TK-104)."""
    run, facts = t.run, await t.run.branch(branch)
    others = [one for one in tickets(facts.current.replace("_", " ")) if one != t.jira]
    began = run.view.where.branch.removeprefix("refs/heads/")
    if facts.elsewhere:
        raise await t.stop(f"{branch} is checked out in {facts.elsewhere}")
    if facts.at and not facts.holds_head:
        await ask(t, "branch", f"Branch {branch} exists and lacks the present state. Work on it?", "use", "abort")
    elif others or facts.current != began:
        whose = f", of ticket {', '.join(others)}" if others else f", and the ticket began on {began}"
        await ask(t, "branch", f"You are on {facts.current}{whose}. Begin {branch} there?", "here", "abort")
    problem = await run.switch(branch, new=not facts.at or facts.at == facts.head)
    if problem and (left := await dirty(t)) and facts.at:
        await stash(t, left)
        if not await run.switch(branch):
            where = "it is kept as stash@{0}"
            raise await t.stop(f"ERROR: stash could not be applied on {branch}; {where}")
    if problem:
        raise await t.stop(f"{branch} cannot be checked out: {problem}")
