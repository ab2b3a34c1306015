"""Begin, go on, decide, end, take back: what a person does to a run, in words (RUN-08, PERSON-02, TREE-06)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Literal

from interlock.app import Watcher, said_as
from interlock.cli import text
from interlock.cli.away import Away
from interlock.cli.door import Door
from interlock.cli.output import confirmed, tell
from interlock.cli.trusting import may_work
from interlock.cli.working import finish, work
from interlock.engine.runs import Entry
from interlock.engine.view import View
from interlock.errors import BadInput, Refused, Status

FEW = 12
"""Files that are named of those taken out or brought."""


def resume(door: Door, run: str, *, note: str, check: Sequence[str], accepted: bool, **own: Any) -> int:
    """Go on with a run; one that has ended well says so again, with its output, and changes nothing.

    Args:
        own: what a playbook may take of one process, beside the note.
    """
    entry = door.find(run)
    if entry.is_far and door.place.settings.fleet.database:
        from interlock.fleet.far import wake

        options = {"note": note, **own, "budget": door.budget, "runner": door.runner}
        words = [f"--{name.strip('_')}={one}" for name, one in options.items() if one not in (None, "")]
        words += [f"--check={one}" for one in check] + ["--accept-recorded"] * accepted
        return door.done(entry, f"Queued; {wake(door.place, entry, words)} takes it up", worked_on=True)
    view = entry.view()
    known, flags = {name: one for name, one in own.items() if one}, None
    if known:
        playbook = door.place.playbook_of(view)
        if playbook.flags is None or known.keys() - playbook.flags.model_fields.keys():
            said = ", ".join(f"--{name.strip('_')}" for name in known)
            raise BadInput(
                f"{playbook.name} takes no {said}", remedy=f"See what it takes: interlock run {playbook.name} -h"
            )
        flags = said_as(playbook.flags, known)
    if view.status in (Status.COMPLETE, Status.DEGRADED) and not (note or check or known):
        tell(f"Run {entry.id} has ended; nothing was done.")
        return finish(door, entry, view)
    options = {"check": list(check) or None, "budget": door.budget}
    return _go_on(door, entry, said=note, accepted=accepted, flags=flags, **options)


def _go_on(door: Door, entry: Entry, **how: Any) -> int:
    may_work(door)
    door.runner = door.runner or entry.view().options.get("runner", "")

    async def begin(watcher: Watcher) -> tuple[Entry, View]:
        return entry, await door.place.resume(entry, watcher, runner=door.runner, **how)

    return work(door, begin, entry.first.get("playbook", ""), entry.first.get("source", ""))


def decide(
    door: Door, run: str, what: Literal["approve", "reject", "answer"], *, note: str, only: bool, choice: str = ""
) -> int:
    """Record what a person decided, and go on with the run, unless somebody else works on it."""
    door.people_only(f"{what} anything")
    entry = door.waiting(run)
    if changed := door.place.decide(entry, what, note=note, choice=choice):
        tell(f"Changed since it was asked, and decided as it is now: {text.few(changed)}")
    if entry.is_far:
        return door.done(entry, f"Said; {door.heard} takes it up", worked_on=True)
    holder = entry.holder()
    if holder is None and not only:
        return _go_on(door, entry)
    who = f"process {holder.get('pid', '?')} takes it up" if holder else f"go on with: interlock resume {entry.id}"
    return door.done(entry, f"Recorded; {who}", worked_on=holder is not None)


def answer(door: Door, words: Sequence[str], *, note: str, only: bool) -> int:
    if len(words) > 2:
        raise BadInput("too many words", found=" ".join(words), expected="one word, or one text in quotes")
    return decide(door, "".join(words[:-1]), "answer", note=note, only=only, choice=words[-1])


def cancel(door: Door, run: str) -> int:
    door.people_only("cancel runs")
    entry = door.place.runs.find(run)
    done = door.place.cancel(entry)
    if done:
        tell(*Away(door).hears(entry, entry.view()))
    said = "cancelled." if done else f"told to end; watch it: interlock watch {entry.id}"
    return door.done(entry, f"Run {entry.id} is {said}", worked_on=not done)


def again(door: Door, run: str, paths: Sequence[str], how: Literal["undo", "apply"], *, dry: bool) -> int:
    """Take out what a run delivered, or bring what it could not deliver."""
    door.people_only(f"{how} the work of runs")
    place, paths, undoes = door.place, [door.inside(path) for path in paths], how == "undo"
    if run:
        entry = place.runs.find(run)
    elif undoes:
        entry = door.first(lambda view: door.work(view).delivered, "delivered anything")
    else:
        entry = door.first(lambda view: not view.status.is_open and door.work(view).refused, "work that was refused")
    if undoes and not run and not dry:
        files = text.few(place.move(entry, how, paths, dry=True).paths)
        if not confirmed(f"Take {files} of run {entry.id} out again?"):
            raise Refused(
                "nothing was undone: it was not said which run",
                found=f"the latest that delivered: {entry.id} ({files})",
                remedy=f"interlock undo {entry.id}",
            )
    done = place.move(entry, how, paths, dry=dry)
    word = f"{'would be ' if dry else ''}{'taken out' if undoes else 'brought'}"
    whose = "" if run else f" of run {entry.id}"
    rows = [f"{text.count(len(done.paths), 'file')}{whose} {word}: {text.few(done.paths, FEW)}".rstrip(": ")]
    if done.kept:
        rows.append(f"Kept as it is, since both changed it: {text.few(done.kept, FEW)}")
    if done.held:
        rows.append(f"Still held back: {text.few(done.held, FEW)}")
        rows.append(f"  bring that, too: interlock apply {entry.id} {shlex.join(done.held)}")
    if undoes:
        commits = [one.commit for one in reversed(entry.view().committed) if one.commit]
        if commits:
            rows.append(
                "A commit stays in history, and what was taken out is not committed. Committed or stashed, then:"
            )
        rows += [f"  git revert {commit}" for commit in commits]
        rows += [f"  bring it again: interlock apply {entry.id}"] if done.paths and not dry else []
    return door.done(entry, *rows, paths=list(done.paths), kept=list(done.kept))
