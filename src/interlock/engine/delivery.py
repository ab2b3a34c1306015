"""What a run has done comes into the person's tree when it is accepted.

Everything is one merge of trees, noted before (`Intended`) so that it happens once (TREE-14, RUN-05).  A conflict
delivers nothing: the person's version stands.

Four steps, each of which adds one thing: `checks.land` runs the commands anew where the tree has changed; `deliver`
here records the outcome of one attempt (`Delivered`); `_merge_in` merges, notes and merges again where the tree changes
under it; `workspace.delivery` exchanges the files, each still being what was decided about (`Landing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlock.engine import events as ev
from interlock.engine.halts import Parked
from interlock.workspace import scope
from interlock.workspace.values import Change, Landing, Pending, Standing, Tree

if TYPE_CHECKING:
    from interlock.engine.replay import Recorder, Slot
    from interlock.engine.run import Run
    from interlock.engine.world import World

LATE = 3
"""Times that a delivery is merged anew because the tree changed under it; then it is a conflict."""


def clash(paths: Sequence[str]) -> str:
    """What is said of work that a person's own change is in the way of."""
    return f"The person changed the same lines meanwhile ({', '.join(paths)}): their version stands; work on that."


async def merged(world: World, pair: Pending, now: Tree) -> tuple[Tree, tuple[str, ...]]:
    """The person's tree with the run's work in it, and the paths on which both changed the same lines: there it is the
    person's version."""
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


async def own_blobs(run: Run) -> dict[str, str]:
    """Path -> blob of what this run delivered: an agent that changes these again sets no person's work back."""
    found: dict[str, str] = {}
    for one in run.full.delivered:
        if one.state == "done" and one.before and one.merged and one.standing:
            found = await run.world.owned(found, one.standing, one.before, one.merged)
    return found


async def changed(run: Run) -> list[Change]:
    """What the run's pending work changes in the person's tree of this moment."""

    async def find() -> list[Change]:
        now = (await run.standing()).tree
        return await run.world.between(now, (await merged(run.world, run.pending, now))[0])

    return [Change.model_validate(one) for one in await run.found("changed", {}, find)]


async def unit(run: Run, name: str) -> None:
    """From here on pending work belongs to this unit; one that was begun before has its own back (RM-102)."""

    async def turn() -> ev.Turned:
        now = (await run.standing()).tree
        pair = run.pending if run.full.unit == name else run.full.units.get(name, Pending(base=now, work=now))
        return ev.Turned(unit=name, put_by=run.full.unit, pair=pair)

    await run.made("unit", {"unit": name}, ev.Turned, turn)


async def deliver(run: Run, label: str, judged: Tree | None = None, *, unjudged: bool = False) -> ev.Delivered:
    """One attempt to bring pending work into the tree; made only if the merge gives the tree that was judged.

    States: `done`; `nothing` (there is no work); `other` (undelivered: another tree than the judged one, `merged`, on
    which checks have to run first); `conflict`; `away` (another branch is checked out). With `unjudged` whatever
    comes of the merge is delivered.
    """
    slot = run.slot(f"deliver-{label}", {"label": label}, ev.Delivered)
    if slot.outcome is None:
        if not slot.traces:  # else a process died over it: it may lie in the tree, and is recorded before all else
            run.stop_if_cancelled()
        async with run.pair_lock:
            await _merge_in(run, slot, label, run.pending, None if unjudged else judged or run.pending.work)
    return slot.settled


async def documents(run: Run, paths: Sequence[str]) -> ev.Delivered:
    """The documents of a dispatch come into the tree at once: people read them at gates. All else stays pending."""
    slot = run.slot("documents", {"paths": sorted(paths)}, ev.Delivered)
    if slot.outcome is None:
        async with run.pair_lock:
            pair = run.pending
            part = Pending(base=pair.base, work=await run.world.graft(pair.base, pair.work, list(paths)))
            await _merge_in(run, slot, "documents", part, None)
    return slot.settled


def cut_off(recorder: Recorder) -> tuple[str, Pending] | None:
    """A delivery that was begun and is not recorded: its key, and the trees before and after it."""
    found: dict[str, Pending] = {}
    for line in recorder.journal.lines:
        if isinstance(line.event, ev.Intended) and line.event.what == "deliver":
            found[line.key] = Pending(base=line.event.facts["before"], work=line.event.facts["after"])
        elif isinstance(line.event, ev.Delivered):
            found.pop(line.key, None)
    return next(iter(found.items()), None)


def finished(recorder: Recorder, key: str, pair: Pending, landing: Landing) -> None:
    """Record a delivery that was finished after a crash, so that the run can be undone like any other."""
    if landing.state == "done":
        label = key.rpartition("/")[2].partition("#")[0].removeprefix("deliver-")
        left = recorder.view.pending if label == "documents" else None  # code beside them is pending as it was
        recorder.add(
            key,
            ev.Delivered(
                label=label,
                state="done",
                judged=pair.work,
                merged=pair.work,
                before=pair.base,
                landing=landing,
                pair=left or Pending(base=pair.work, work=pair.work),
                standing=recorder.view.standing,
            ),
        )


async def _is_other(run: Run, judged: Tree, tree: Tree) -> bool:
    """Whether it is another tree than the judged one, the process's own documents aside."""
    changes = await run.world.between(judged, tree) if judged != tree else []
    return any(not scope.within(change.path, run.start.documents) for change in changes)


async def _merge_in(run: Run, slot: Slot[ev.Delivered], label: str, part: Pending, judged: Tree | None) -> ev.Delivered:
    """Merge a part of what is pending into the person's tree, note it, deliver it; again where the tree has changed.

    Args:
        judged: the merge is delivered only if it gives this tree; None: whatever it gives.
    """
    world, pair = run.world, run.pending

    def settle(state: Any, standing: Standing, left: Pending = pair, **more: Any) -> ev.Delivered:
        told = judged or part.work
        return slot.settle(ev.Delivered(label=label, state=state, judged=told, pair=left, standing=standing, **more))

    intent = next((one for one in reversed(slot.traces) if isinstance(one, ev.Intended)), None)
    for _ in range(LATE):
        standing = await run.standing()
        if intent is not None and standing.away:
            why = f"a delivery was cut off, and another branch than {run.where.branch} is checked out"
            raise Parked("waiting", why, f"interlock resume {run.id}")
        if intent is None:
            if part.base == part.work:
                return settle("nothing", standing)
            merge = await world.merge(part.base, part.work, standing.tree)
            if merge.tree is None:
                return settle("conflict", standing, landing=Landing(state="conflict", conflicts=merge.conflicts))
            if judged is not None and await _is_other(run, judged, merge.tree):
                return settle("other", standing, merged=merge.tree, before=standing.tree)
            if standing.away and judged is None:
                why = f"documents are to come into the tree, and another branch than {run.where.branch} is checked out"
                raise Parked("waiting", why, f"interlock resume {run.id}")
            if standing.away:
                return settle("away", standing)
            before, after = standing.tree, merge.tree
            await world.keep([before, after])
            slot.add(ev.Intended(what="deliver", facts={"before": before, "after": after}), sync=True)
            landing = await world.deliver(before, after)
        else:  # a process died between intent and record
            before, after = Tree(intent.facts["before"]), Tree(intent.facts["after"])
            landing = await world.finish(before, after)
            intent = None
        if landing.state == "done":
            now, left = standing.model_copy(update={"tree": after}), Pending(base=after, work=after)
            if part != pair:  # the rest is pending as it was, also where it conflicts with the tree of this moment
                left = Pending(base=part.work, work=pair.work)
            return settle("done", now, left, merged=after, before=before, landing=landing)
        if landing.state == "conflict":
            return settle("conflict", standing, landing=landing)
    return settle("conflict", standing, landing=Landing(state="conflict"))
