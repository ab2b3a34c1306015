"""After a run's end: where its work is, and how a person takes it out of their tree or brings it in (TREE-06).

That is one more merge, hunk by hunk, noted before so that it happens once, and recorded in the run's own journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from interlock.engine import events as ev
from interlock.engine.delivery import merged
from interlock.engine.journal import Journal
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


def work(view: View, changes: Callable[[Pending], Sequence[Change]]) -> Work:
    """What of a run's work is in the person's tree, and what is not: the last word about a path counts."""

    def all_of(pairs: Iterable[Pending]) -> list[Change]:
        return [change for pair in pairs for change in changes(pair)]

    last = view.moved
    landed = {one.path: one for one in all_of(view.came)}.values()
    pending = all_of(left(view).values())
    held = {one.path: one for one in all_of(view.held)}.values()  # the last of each path
    return Work(
        delivered=[one for one in landed if last.get(one.path) != "undo"],
        pending=[one for one in pending if last.get(one.path) != "apply"],
        held=[one for one in held if last.get(one.path) != "apply"],
        undone=[one for one in landed if last.get(one.path) == "undo"],
    )


async def move(world: World, how: How, asked: Sequence[str], who: str, *, dry: bool) -> Moved:
    """Take what a run delivered out of the tree, or bring what is not in it; of these files and folders, or all."""
    recorder = Recorder(Journal(world.folder.medium), world.folder, world.now)
    view = recorder.view
    if view.start is None:
        raise Refused("this run never began", remedy="Remove it: interlock runs --clean")
    if view.status.is_open:
        raise Refused(f"run {view.run} is open", remedy=f"Cancel it first: interlock cancel {view.run}")
    standing = await world.standing(view.where, view.standing)
    if standing.away and (how == "apply" or view.intends):
        name = view.where.branch.removeprefix("refs/heads/")
        remedy = f"Check it out first{'' if name == DETACHED else f': git switch {name}'}"
        raise Refused(f"another branch than {name} is checked out", remedy=remedy)
    if not dry and (finished := await _finished(recorder, world)) is not None:
        if finished.how == how:
            return Moved(finished.paths, finished.kept)
        standing = await world.standing(view.where, view.standing)
    known = {one: await world.between(one.base, one.work) for one in (*view.came, *left(view).values(), *view.held)}
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
    for pair in view.came[::-1] if how == "undo" else await _into(world, view, known):
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
    rest = await _rest(world, view, [path for path in changed if path not in kept]) if how == "apply" else {}
    brought = Pending(base=standing.tree, work=after)
    undone = ev.Undone(how=how, who=who, pair=brought, paths=changed, kept=tuple(kept), left=rest)
    recorder.add("", ev.Intended(what="undo", facts=undone.model_dump(mode="json")), sync=True)
    landed = [one.landing for one in reversed(view.delivered) if one.landing and how == "undo"]
    modes = {path: mode for landing in landed for path, mode in landing.modes.items()}  # git knows one bit
    landing = await world.deliver(standing.tree, after, modes=modes)
    if landing.state != "done":
        recorder.add("", _nothing(undone), sync=True)
        raise Refused("the tree changed while it was written: nothing was changed", remedy="Try again.")
    recorder.add("", undone, sync=True)
    return moved


async def _rest(world: World, view: View, came: Sequence[str]) -> dict[str, Pending]:
    """What is pending still, by unit, once these paths of it came into the tree."""
    rest = {
        unit: Pending(base=await world.graft(pair.base, pair.work, came), work=pair.work)
        for unit, pair in left(view).items()
    }
    await world.keep([pair.base for pair in rest.values()])
    return rest


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
    return undone.model_copy(update={"pair": still, "paths": (), "kept": (), "left": {}})


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
