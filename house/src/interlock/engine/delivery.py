"""What a run has done comes into the person's tree when it is accepted, and out again when they say so.

Everything is one merge of trees, delivered file by file, noted before (`Intended`) so that it happens once (TREE-14,
RUN-05).  A conflict delivers nothing: the person's version stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.engine import events as ev
from interlock.workspace.values import Change, Landing, Pending, Standing, Tree

if TYPE_CHECKING:
    from interlock.engine.replay import Slot
    from interlock.engine.run import Run
    from interlock.engine.world import World

LATE = 3
"""Times that a delivery is merged anew because the tree changed under it; then it is a conflict."""


async def shown(run: Run, pair: Pending, now: Tree) -> tuple[Tree, tuple[str, ...]]:
    """The person's tree with the run's work; on paths where both changed the same lines the person's version, named."""
    return await merged(run.world, pair, now)


async def merged(world: World, pair: Pending, now: Tree) -> tuple[Tree, tuple[str, ...]]:
    if pair.base == pair.work:
        return now, ()
    first = await world.merge(pair.base, pair.work, now)
    if first.tree is not None:
        return first.tree, ()
    work = await world.graft(pair.work, pair.base, first.conflicts)
    second = await world.merge(pair.base, work, now)
    if second.tree is None:  # a file in a folder's place: nothing of the run's can be told apart from it
        return now, (*first.conflicts, *second.conflicts)
    return second.tree, first.conflicts


async def own(run: Run) -> dict[str, str]:
    """Path -> blob of what this run delivered: setting that back is its own affair."""
    found: dict[str, str] = {}
    for one in run.full.delivered:
        if one.landing and one.merged and one.landing.paths:
            found |= await run.world.list(one.merged, one.landing.paths)
    return found


async def changed(run: Run) -> list[Change]:
    """What the run's pending work changes in the person's tree of this moment."""
    pair, standing = run.full.pending, await run.world.standing(run.start.where, run.full.standing)
    assert pair is not None
    tree, _ = await shown(run, pair, standing.tree)
    return await run.world.between(standing.tree, tree)


async def deliver(run: Run, label: str, judged: Tree | None) -> ev.Delivered:
    """Pending work into the tree, if what comes of the merge is the tree that was judged.

    States: `done`; `nothing` (there is no work); `other` (undelivered: another tree than the judged one, `merged`, on
    which checks have to run first); `conflict`; `away` (another branch is checked out).
    """
    slot: Slot[ev.Delivered] = run.slot(f"deliver-{label}", {"label": label}, ev.Delivered)
    if slot.outcome is not None:
        return slot.outcome
    await run.listen()
    pair = run.full.pending
    assert pair is not None
    judged = judged or pair.work
    intent = next((one for one in reversed(slot.traces) if isinstance(one, ev.Intended)), None)
    if intent is not None:  # a process died between intent and record
        before, after = Tree(intent.facts["before"]), Tree(intent.facts["after"])
        landing = await run.world.finish(before, after)
        standing = await run.world.standing(run.start.where, run.full.standing)
        if landing.state == "done":
            return _done(run, slot, label, judged, before, after, landing, standing)
        return slot.settle(
            ev.Delivered(label=label, state="conflict", judged=judged, landing=landing, pair=pair, standing=standing)
        )
    for _ in range(LATE):
        standing = await run.world.standing(run.start.where, run.full.standing)
        outcome = await _once(run, slot, label, pair, judged, standing)
        if outcome is not None:
            return outcome
    conflict = Landing(state="conflict")
    return slot.settle(
        ev.Delivered(label=label, state="conflict", judged=judged, landing=conflict, pair=pair, standing=standing)
    )


async def _once(
    run: Run, slot: Slot[ev.Delivered], label: str, pair: Pending, judged: Tree, standing: Standing
) -> ev.Delivered | None:
    """One try; None: the tree changed under it."""
    now = standing.tree
    if pair.base == pair.work:
        return slot.settle(ev.Delivered(label=label, state="nothing", judged=judged, pair=pair, standing=standing))
    first = await run.world.merge(pair.base, pair.work, now)
    if first.tree is None:
        landing = Landing(state="conflict", conflicts=first.conflicts)
        return slot.settle(
            ev.Delivered(label=label, state="conflict", judged=judged, landing=landing, pair=pair, standing=standing)
        )
    if first.tree != judged:
        return slot.settle(
            ev.Delivered(
                label=label, state="other", judged=judged, merged=first.tree, before=now, pair=pair, standing=standing
            )
        )
    if standing.away:
        return slot.settle(ev.Delivered(label=label, state="away", judged=judged, pair=pair, standing=standing))
    await run.world.keep([now, first.tree])
    slot.add(ev.Intended(what="deliver", facts={"before": now, "after": first.tree}), sync=True)
    landing = await run.world.deliver(now, first.tree)
    if landing.state == "late":
        return None
    if landing.state == "conflict":
        return slot.settle(
            ev.Delivered(label=label, state="conflict", judged=judged, landing=landing, pair=pair, standing=standing)
        )
    return _done(run, slot, label, judged, now, first.tree, landing, standing)


def _done(
    run: Run,
    slot: Slot[ev.Delivered],
    label: str,
    judged: Tree,
    before: Tree,
    after: Tree,
    landing: Landing,
    standing: Standing,
) -> ev.Delivered:
    outcome = slot.settle(
        ev.Delivered(
            label=label,
            state="done",
            judged=judged,
            merged=after,
            before=before,
            landing=landing,
            pair=Pending(base=after, work=after),
            standing=standing.model_copy(update={"tree": after}),
        )
    )
    run.recorder.sync()
    return outcome


async def documents(run: Run, paths: Sequence[str]) -> ev.Delivered | None:
    """The documents of a dispatch come into the tree at once, since people read them at gates (TREE-14)."""
    pair = run.full.pending
    if not paths or pair is None or pair.base == pair.work:
        return None
    slot: Slot[ev.Delivered] = run.slot("documents", {"paths": sorted(paths)}, ev.Delivered)
    if slot.outcome is not None:
        return slot.outcome
    standing = await run.world.standing(run.start.where, run.full.standing)
    part = Pending(base=pair.base, work=await run.world.graft(pair.base, pair.work, list(paths)))
    outcome = await _once(run, slot, "documents", part, (await shown(run, part, standing.tree))[0], standing)
    if outcome is None:
        outcome = slot.settle(ev.Delivered(label="documents", state="conflict", judged=part.work, standing=standing))
    return outcome
