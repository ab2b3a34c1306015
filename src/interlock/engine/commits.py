"""Commits of a run's work: hooks first, in a layer and as a check; then the object; then one compare-and-swap.

The id is known and noted before the ref moves, so that it happens once; nothing of the person's is run for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from interlock.documents.files import sha256
from interlock.documents.reading import Text
from interlock.engine import delivery
from interlock.engine import events as ev
from interlock.engine.world import CommitOrder
from interlock.workspace.values import BranchFacts, Change, Tree

if TYPE_CHECKING:
    from interlock.engine.replay import Slot
    from interlock.engine.run import Run

Edit = Callable[[str], str]
Kind = Literal["branch", "commit", "documents"]


def _order(run: Run, message: str, branch: str) -> CommitOrder:
    """What a commit would hold: on the run's own branch what was delivered last, on another one what is pending."""
    at = run.world.now()
    works = [one for one in run.full.delivered if one.state == "done" and one.label != "documents"]
    last, pair = next(reversed(works), None), run.pending
    if not branch and last is not None and last.before and last.merged and pair.base == pair.work:
        return CommitOrder(last.before, last.merged, message, at, branch)
    return CommitOrder(pair.base, pair.work, message, at, branch)


async def hooks(run: Run, message: str, also: Mapping[str, Edit | None] | None = None) -> ev.Committed | None:
    """The person's commit hooks on what `commit` would hold; None: there are none, or they agree."""

    async def ask() -> ev.Committed:
        run.recorder.sync()
        order = await _with(run, _order(run, message, ""), also or {})
        came = await run.world.hooks(run.where, order)
        problem = "" if came is None or came.exit == 0 else came.error or f"it ended with {came.exit}"
        out = run.world.redact(came.out).encode("utf-8", "backslashreplace") if came and came.out else b""
        return ev.Committed(what="hooks", problem=problem, out=run.world.folder.put(out) if out else None)

    said = await run.made("hooks", {"message": sha256(message.encode())}, ev.Committed, ask)
    return said if said.problem else None


async def _with(run: Run, order: CommitOrder, also: Mapping[str, Edit | None]) -> CommitOrder:
    """The order with documents of the process added, as far as they hold nothing of a person's: nothing but what the
    run delivered, or with an `edit` what that makes of the branch's version."""
    if not also:
        return order
    world, standing, ours = run.world, await run.standing(), await delivery.own_blobs(run)
    head = await world.committed(standing)
    for change in await world.between(head, standing.tree, list(also)):
        path, edit = change.path, also[change.path]
        now = await world.read(standing.tree, path)
        if edit is not None:
            old = Text.of(await world.read(head, path) or b"", path)
            mine = old.encode(edit(old.text)) == now
        else:
            landed = [one for one in run.full.delivered if one.landing and path in one.landing.paths and one.merged]
            mine = path in ours and bool(landed) and await world.read(landed[-1].merged or head, path) == now
        if mine:
            base = await world.graft(order.base, head, [path])
            order = replace(order, base=base, work=await world.graft(order.work, standing.tree, [path]))
    return order


async def commit(
    run: Run, message: str, *, branch: str = "", also: Mapping[str, Edit | None] | None = None
) -> ev.Committed:
    """One commit; `problem` says why there is none. It holds documents of the process, `also`, where nobody else has
    changed them since the branch's head."""
    slot = run.slot("commit", {"branch": branch}, ev.Committed)
    if slot.outcome is None:
        order = _order(run, message, branch)
        await _publish(run, slot, order if slot.traces else await _with(run, order, also or {}))
    return slot.settled


async def commit_documents(run: Run, message: str, paths: Sequence[str]) -> ev.Committed:
    """One commit of documents that hold nothing but what the run delivered, and of nothing else."""
    slot = run.slot("commit-documents", {"paths": list(paths)}, ev.Committed)
    if slot.outcome is None:
        now = (await run.standing()).tree
        order = CommitOrder(now, now, message, run.world.now())
        order = order if slot.traces else await _with(run, order, dict.fromkeys(paths))
        await _publish(run, slot, order, "documents")
    return slot.settled


async def _publish(run: Run, slot: Slot[ev.Committed], order: CommitOrder, kind: Kind = "commit") -> None:
    """Plan the commit, note it, move the branch to it; after a crash the commit that was noted, not a new one."""
    what: Kind = "branch" if order.branch else kind
    if not slot.traces:
        planned = await run.world.plan_commit(run.where, order)
        if planned.problem:
            slot.settle(ev.Committed(what=what, problem=planned.problem, remarks=planned.remarks))
            return
        facts = {"commit": planned.commit, "branch": order.branch}
        slot.add(ev.Intended(what="branch" if order.branch else "commit", facts=facts), sync=True)
    noted: str = next(one.facts["commit"] for one in slot.traces if isinstance(one, ev.Intended))
    done = await run.world.publish(run.where, noted, order.branch)
    ref = f"refs/heads/{order.branch}" if order.branch else run.where.branch
    commit = "" if done.problem else noted
    slot.settle(ev.Committed(what=what, ref=ref, commit=commit, problem=done.problem, remarks=done.remarks))


async def branch(run: Run, name: str) -> BranchFacts:
    """What is checked out, and how a branch stands to it."""
    return BranchFacts.model_validate(await run.found("branch", {"name": name}, lambda: run.world.branch(name)))


async def unsaved(run: Run) -> list[Change]:
    """What the person has not committed."""

    async def find() -> list[Change]:
        return await run.world.unsaved(await run.standing())

    return [Change.model_validate(one) for one in await run.found("unsaved", {}, find)]


async def switch(run: Run, branch: str, *, new: bool = False, anyway: bool = False) -> str:
    """Check a branch out; the run belongs to it from here on. Why that was not possible, else empty.

    Args:
        new: it is made where the person stands, so that HEAD alone moves.
        anyway: the run belongs to it also where it could not be checked out.
    """
    slot = run.slot("switch", {"branch": branch}, ev.Switched)
    if slot.outcome is None:
        slot.add(ev.Intended(what="switch", facts={"branch": branch}), sync=True)
        problem = await run.world.switch(branch, new=new)
        slot.settle(ev.Switched(branch=f"refs/heads/{branch}", problem=problem, moved=anyway or not problem))
    return slot.settled.problem


async def stash(run: Run, paths: Sequence[str], note: str) -> ev.Committed:
    """Put what is not committed of these paths into a stash under that note; no run ever takes it out again."""
    slot = run.slot("stash", {"note": note}, ev.Committed)
    if slot.outcome is None:
        slot.add(ev.Intended(what="stash", facts={"note": note}), sync=True)
        done = await run.world.stash(paths, note)
        slot.settle(ev.Committed(what="stash", ref=note, commit=done.commit, problem=done.problem))
    return slot.settled


async def tree_of_commit(run: Run, message: str, branch: str) -> Tree | None:
    """The tree that a commit would hold; None where that is the judged one, on which checks ran already."""
    run.recorder.sync()
    return await run.world.commit_tree(run.where, _order(run, message, branch))


async def pull_request(run: Run, branch: str, title: str, body: str) -> ev.Committed:
    """The branch pushed and a pull request opened, with the person's own program; else what to type."""
    slot = run.slot("pull-request", {"branch": branch}, ev.Committed)
    if slot.outcome is None:
        slot.add(ev.Intended(what="push", facts={"branch": branch}), sync=True)
        done = await run.world.pull_request(branch, title, body)
        slot.settle(ev.Committed(what="pr", ref=branch, problem=done.problem, url=done.commit))
    return slot.settled
