"""After a run's end: where its work is, and how a person takes it out of their tree or brings it in (TREE-06).

That is one more merge, hunk by hunk, noted before so that it happens once, and recorded in the run's own journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from interlock.engine import events as ev
from interlock.engine.delivery import merged
from interlock.engine.replay import Recorder
from interlock.engine.view import View
from interlock.engine.world import World
from interlock.errors import Refused
from interlock.workspace.repository import DETACHED
from interlock.workspace.values import Change, Pending

How = Literal["undo", "apply"]


@dataclass(frozen=True)
class Work:
    """What became of a run's work, by the lines."""

    delivered: Sequence[Change] = ()
    pending: Sequence[Change] = ()
    """Not delivered, for want of an acceptance."""
    held: Sequence[Change] = ()
    """Guarded: a person's word delivers it."""
    undone: Sequence[Change] = ()
    """Delivered, and taken out again."""
    problem: str = ""
    """Why it cannot be told."""

    @property
    def refused(self) -> Sequence[Change]:
        """What `apply` brings."""
        return (*self.pending, *self.held, *self.undone)


@dataclass(frozen=True)
class Moved:
    """What went out of the person's tree or came into it, and what only a conflict kept."""

    paths: tuple[str, ...]
    kept: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Guarded, and not brought with the rest."""


def left(view: View) -> dict[str, Pending]:
    """What a run had pending when it ended, by unit, for the one that continues it."""
    pending = {view.unit: view.pending} if view.pending else {}
    return {unit: pair for unit, pair in {**view.units, **pending}.items() if pair.base != pair.work}


def delivered(view: View) -> list[Pending]:
    """What a run delivered, in order."""
    done = [one for one in view.delivered if one.state == "done"]
    return [Pending(base=one.before, work=one.merged) for one in done if one.before and one.merged]


def work(view: View, changes: Callable[[Pending], Sequence[Change]]) -> Work:
    """What of a run's work is in the person's tree, and what is not: the last word about a path counts."""

    def all_of(pairs: Iterable[Pending]) -> list[Change]:
        return [change for pair in pairs for change in changes(pair)]

    last = {path: one.how for one in view.undone for path in one.paths if path not in one.kept}
    landed = all_of(delivered(view))
    pending = all_of(left(view).values())
    held = {one.path: one for one in all_of(view.held)}.values()  # the last of each path
    return Work(
        delivered=[one for one in landed if last.get(one.path) != "undo"]
        + [one for one in (*pending, *held) if last.get(one.path) == "apply"],
        pending=[one for one in pending if last.get(one.path) != "apply"],
        held=[one for one in held if last.get(one.path) != "apply"],
        undone=[one for one in landed if last.get(one.path) == "undo"],
    )


async def move(recorder: Recorder, world: World, how: How, asked: Sequence[str], who: str, *, dry: bool) -> Moved:
    """Take what a run delivered out of the tree, or bring what is not in it; of these files and folders, or all."""
    view = recorder.view
    assert view.start is not None
    if view.status.is_open:
        raise Refused(f"run {view.run} is open", remedy=f"Cancel it first: interlock cancel {view.run}")
    standing = await world.standing(view.where, view.standing)
    if standing.away:
        name = view.where.branch.removeprefix("refs/heads/")
        remedy = f"Check it out first{'' if name == DETACHED else f': git switch {name}'}"
        raise Refused(f"another branch than {name} is checked out", remedy=remedy)
    if not dry and (finished := await _finished(recorder, world)) is not None:
        if finished.how == how:
            return Moved(finished.paths, finished.kept)
        standing = await world.standing(view.where, view.standing)
    pairs = (*delivered(view), *left(view).values(), *view.held)
    known = {pair: await world.between(pair.base, pair.work) for pair in pairs}
    there = work(view, known.__getitem__)
    paths = _below(asked, [one.path for one in (there.delivered if how == "undo" else there.refused)])
    held = set[str]()
    if how == "apply" and not asked:  # what steers agents comes with nothing else: by name, or when it is all there is
        held = paths & ({one.path for one in there.held} - {path for one in view.undone for path in one.paths})
        paths, held = (paths - held, held) if paths - held else (paths, set())
    if not paths:
        what = "has nothing in your tree" if how == "undo" else "has no work that was refused or taken out"
        others = [one.path for one in (there.delivered if how == "undo" else there.refused)]
        again = f"Bring it again: interlock apply {view.run}" if how == "undo" and there.undone else None
        expected = f"of {', '.join(others[:5])}" if others else None
        raise Refused(f"run {view.run} {what}", where=", ".join(asked) or None, expected=expected, remedy=again)
    after, kept = standing.tree, list[str]()
    brought = [one.pair for one in view.undone if one.how == "apply"]
    for pair in [*delivered(view), *brought][::-1] if how == "undo" else await _into(world, view, known):
        if how == "undo":
            after, stays = await world.without(pair.base, pair.work, after)
        else:
            after, stays = await merged(world, pair, after)
        kept += [path for path in stays if path in paths and path not in kept]
    after = await world.graft(standing.tree, after, sorted(paths))
    changed = tuple(change.path for change in await world.between(standing.tree, after))
    moved = Moved(changed, tuple(kept), tuple(sorted(held)))
    if dry or not changed:
        return moved
    await world.keep([standing.tree, after])
    undone = ev.Undone(how=how, who=who, pair=Pending(base=standing.tree, work=after), paths=changed, kept=tuple(kept))
    recorder.add("", ev.Intended(what="undo", facts=undone.model_dump(mode="json")), sync=True)
    landed = [one.landing for one in reversed(view.delivered) if one.landing and how == "undo"]
    modes = {path: mode for landing in landed for path, mode in landing.modes.items()}  # git knows one bit
    landing = await world.deliver(standing.tree, after, modes=modes)
    if landing.state != "done":
        recorder.add("", _nothing(undone), sync=True)
        raise Refused("the tree changed while it was written: nothing was changed", remedy="Try again.")
    recorder.add("", undone, sync=True)
    return moved


async def _finished(recorder: Recorder, world: World) -> ev.Undone | None:
    """Finish and record an undo or apply during which a process died; None: there is none."""
    for event in (line.event for line in reversed(recorder.journal.lines)):
        if isinstance(event, ev.Undone):
            break
        if isinstance(event, ev.Intended) and event.what == "undo":
            undone = ev.Undone.model_validate(event.facts)
            landing = await world.finish(undone.pair.base, undone.pair.work)
            undone = undone if landing.state == "done" else _nothing(undone)
            recorder.add("", undone, sync=True)
            return undone if undone.paths else None
    return None


def _nothing(undone: ev.Undone) -> ev.Undone:
    """The same, where nothing came of it."""
    still = Pending(base=undone.pair.base, work=undone.pair.base)
    return undone.model_copy(update={"pair": still, "paths": (), "kept": ()})


async def _into(world: World, view: View, known: Mapping[Pending, Sequence[Change]]) -> list[Pending]:
    """The changes that bring all of a run's work: what it had left, what was held back, what was taken out again.

    Where a path was held back several times, the last version counts.
    """
    found, later = list(left(view).values()), set[str]()
    for pair in reversed(view.held):
        paths = [one.path for one in known[pair] if one.path not in later]
        found.append(Pending(base=pair.base, work=await world.graft(pair.base, pair.work, paths)))
        later |= set(paths)
    return found + [Pending(base=one.pair.work, work=one.pair.base) for one in view.undone[::-1] if one.how == "undo"]


def _below(asked: Sequence[str], paths: Iterable[str]) -> set[str]:
    """Those of the paths that were asked for, as files or by their folders; nothing asked: all."""
    return {path for path in paths if not asked or any(path == one or path.startswith(f"{one}/") for one in asked)}
