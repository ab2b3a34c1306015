"""Commits of a run's work: hooks first, in a layer and as a check; then the object; then one compare-and-swap (TREES).

The id is known and noted before the ref moves, so that it happens once; nothing of the person's is run for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from interlock.documents.model import plain
from interlock.engine import events as ev
from interlock.engine.keys import sha256
from interlock.engine.world import CommitOrder
from interlock.workspace.values import Change, Tree

if TYPE_CHECKING:
    from interlock.engine.run import Run


def _order(run: Run, message: str, branch: str, at: datetime) -> CommitOrder:
    """What was delivered last, for a commit on the run's own branch; what is pending, for another one."""
    last = next((one for one in reversed(run.full.delivered) if one.state == "done" and one.before), None)
    pair = run.pending
    if not branch and last is not None and last.before and last.merged and pair.base == pair.work:
        return CommitOrder(last.before, last.merged, message, at, branch)
    return CommitOrder(pair.base, pair.work, message, at, branch)


async def hooks(run: Run, message: str) -> ev.Committed | None:
    """The person's commit hooks on what would be committed; None: there are none, or they agree."""
    slot = run.slot("hooks", {"message": sha256(message.encode())}, ev.Committed)
    if slot.outcome is None:
        run.recorder.sync()
        came = await run.world.hooks(run.where, _order(run, message, "", run.world.now()))
        problem = "" if came is None or came.exit == 0 else came.error or f"it ended with {came.exit}"
        out = run.world.redact(came.out).encode("utf-8", "backslashreplace") if came and came.out else b""
        slot.settle(ev.Committed(what="hooks", problem=problem, out=run.world.folder.put(out) if out else None))
    return slot.outcome if slot.outcome and slot.outcome.problem else None


async def commit(run: Run, message: str, *, branch: str = "") -> ev.Committed:
    """One commit; `problem` says why there is none."""
    slot = run.slot("commit", {"branch": branch}, ev.Committed)
    if slot.outcome is not None:
        return slot.outcome
    what: Literal["branch", "commit"] = "branch" if branch else "commit"
    intent = next((one for one in slot.traces if isinstance(one, ev.Intended)), None)
    if intent is None:
        at = run.world.now()
        planned = await run.world.plan_commit(run.where, _order(run, message, branch, at))
        if planned.problem:
            return slot.settle(ev.Committed(what=what, problem=planned.problem, remarks=planned.remarks))
        intent = ev.Intended(what=what, facts={"commit": planned.commit, "branch": branch})
        slot.add(intent, sync=True)
    done = await run.world.publish(run.where, intent.facts["commit"], branch)
    ref = f"refs/heads/{branch}" if branch else run.where.branch
    settled = slot.settle(
        ev.Committed(
            what=what,
            ref=ref,
            commit="" if done.problem else intent.facts["commit"],
            problem=done.problem,
            remarks=done.remarks,
        )
    )
    run.recorder.sync()
    return settled


async def unsaved(run: Run) -> list[Change]:
    """What the person has not committed."""
    slot = run.slot("unsaved", {}, ev.Got)
    if slot.outcome is None:
        slot.settle(ev.Got(verb="unsaved", value=plain(await run.world.unsaved(await run.standing()))))
    return [Change.model_validate(one) for one in slot.settled.value]


async def switch(run: Run, branch: str, *, new: bool = False) -> str:
    """The run belongs to that branch from here on, which is checked out; why not, or nothing.

    Args:
        new: make it where the person stands: HEAD alone moves.
    """
    slot = run.slot("switch", {"branch": branch}, ev.Switched)
    if slot.outcome is None:
        slot.add(ev.Intended(what="switch", facts={"branch": branch}), sync=True)
        problem = await run.world.switch(branch, new=new)
        slot.settle(ev.Switched(branch=f"refs/heads/{branch}", problem=problem))
        run.recorder.sync()
    return slot.settled.problem


async def stash(run: Run, paths: Sequence[str], note: str) -> ev.Committed:
    """What of these paths is not committed, put away under a note; never brought back by a run."""
    slot = run.slot("stash", {"note": note}, ev.Committed)
    if slot.outcome is None:
        slot.add(ev.Intended(what="stash", facts={"note": note}), sync=True)
        done = await run.world.stash(paths, note)
        slot.settle(ev.Committed(what="stash", ref=note, commit=done.commit, problem=done.problem))
        run.recorder.sync()
    return slot.settled


async def tree_of_commit(run: Run, message: str, branch: str) -> Tree | None:
    """The tree that would be committed, where it is another than the judged one: checks run on it first."""
    return await run.world.commit_tree(run.where, _order(run, message, branch, run.world.now()))


async def pull_request(run: Run, branch: str, title: str, body: str) -> ev.Committed:
    """The branch pushed and a pull request opened, with the person's own program; else what to type."""
    slot = run.slot("pull-request", {"branch": branch}, ev.Committed)
    if slot.outcome is not None:
        return slot.outcome
    slot.add(ev.Intended(what="push", facts={"branch": branch}), sync=True)
    done = await run.world.pull_request(branch, title, body)
    settled = slot.settle(ev.Committed(what="pr", ref=branch, problem=done.problem, url=done.commit))
    run.recorder.sync()
    return settled
