"""Begin, go on, decide, end, take back: what a person does to a run, in words (RUN-08, PERSON-02, TREE-06)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from interlock.cli import failures, text
from interlock.cli.door import Door
from interlock.cli.output import confirmed, print_json, tell
from interlock.cli.working import work
from interlock.errors import BadInput, Refused

if TYPE_CHECKING:
    from interlock.app import Place, Watcher
    from interlock.documents.model import Model
    from interlock.engine.playbook import Playbook
    from interlock.engine.runs import Entry
    from interlock.engine.view import View

MOST_COPIED = 5_000_000_000
Decision = Literal["approve", "reject", "answer"]


def options_of(inputs: type[Model]) -> list[click.Parameter]:
    """A playbook's inputs as arguments and options: by their types, with their descriptions."""
    found: list[click.Parameter] = []
    for name, field in inputs.model_fields.items():
        option, about = f"--{name.replace('_', '-')}", field.description or ""
        if field.is_required():
            found.append(click.Argument([name], nargs=-1, metavar=name.upper()))
        elif field.annotation is bool and field.default:
            off = f"--no-{name.replace('_', '-')}"
            found.append(
                click.Option(
                    [off, name],
                    is_flag=True,
                    flag_value=False,
                    default=None,
                    help=f"Without: {about[:1].lower()}{about[1:]}",
                )
            )
        elif field.annotation is bool:
            found.append(click.Option([option, name], is_flag=True, flag_value=True, default=None, help=about))
        else:
            several = "tuple" in str(field.annotation)
            word = "CMD" if several else "N" if field.annotation is int else "NAME"
            found.append(click.Option([option, name], multiple=several, metavar=word, help=about))
    return found


def run_playbook(door: Door, playbook: Playbook, given: dict[str, Any], *, dry: bool) -> int:
    """`run PLAYBOOK ...`, or what it would take."""
    words = {name: " ".join(value) for name, value in given.items() if playbook.inputs.model_fields[name].is_required()}
    said = {name: value for name, value in given.items() if value not in (None, ())}
    inputs = door.place.inputs(playbook, said | words)
    if dry:
        from interlock.cli.planning import plan

        return plan(door, playbook, inputs)
    _copies(door)
    return work(door, lambda place, watcher: place.run(playbook, inputs, watcher, runner=door.runner), playbook.name)


def _copies(door: Door) -> None:
    """Copies that would take much of the disk are asked for (TREE-11)."""
    made = door.place.layers.maker()
    if made.confined or made.shares_blocks or made.cost_bytes <= MOST_COPIED:
        return
    cost = text.size(made.cost_bytes)
    if not confirmed(f"Each agent gets a private copy of {cost}. Go on?"):
        raise BadInput(f"each agent would get a private copy of {cost}", where=made.why, remedy=made.remedy or None)


def resume(door: Door, run: str, *, note: str, check: Sequence[str], accepted: bool) -> int:
    entry = door.find(run)
    stands = entry.view()
    if stands.status.has_ended and stands.status.value in ("complete", "degraded") and not (note or check):
        return _again_said(door, entry, stands)
    options = {"check": list(check) or None, "budget": door.budget}
    return work(door, _going_on(entry, door, said=note, accepted=accepted, **options), entry.first.get("playbook", ""))


def _again_said(door: Door, entry: Entry, view: View) -> int:
    """One that has ended well says so again, with its output, and changes nothing."""
    from interlock.cli.working import finish

    tell(f"Run {entry.id} has ended; nothing was done.")
    return finish(door, entry, view)


def _going_on(entry: Entry, door: Door, **how: Any) -> Any:
    async def go_on(place: Place, watcher: Watcher) -> tuple[Entry, View]:
        return entry, await place.resume(entry, watcher, runner=door.runner, **how)

    return go_on


def decide(door: Door, run: str, what: Decision, *, note: str, only: bool, choice: str = "") -> int:
    """Record what a person decided, and go on with the run, unless somebody else works on it."""
    door.people_only(f"{what} anything")
    entry = door.waiting(run)
    if what == "reject" and not note.strip():
        remedy = f'interlock reject {entry.id} --note "what is to be changed"'
        raise BadInput("a rejection needs words", expected="--note TEXT", remedy=remedy)
    gate = entry.view().gate
    changed = [path for path in (gate.shown if gate else ()) if gate and _digest(door, path) != gate.shown[path]]
    if changed:
        tell(f"Changed since it was asked, and decided as it is now: {text.few(changed)}")
    door.place.decide(entry, what, note=note, choice=choice)
    if (holder := entry.holder()) is not None or only:
        who = f"process {holder.get('pid', '?')} takes it up" if holder else f"go on with: interlock resume {entry.id}"
        tell(f"Recorded; {who}")
        return _stands(door, entry, worked_on=holder is not None)
    return work(door, _going_on(entry, door), entry.first.get("playbook", ""))


def _digest(door: Door, path: str) -> str:
    from interlock.engine.keys import sha256

    place = door.place.workspace.top / path
    return sha256(place.read_bytes()) if place.is_file() else ""


def answer(door: Door, words: Sequence[str], *, note: str, only: bool) -> int:
    if len(words) > 2:
        raise BadInput("too many words", found=" ".join(words), expected="one word, or one text in quotes")
    return decide(door, "".join(words[:-1]), "answer", note=note, only=only, choice=words[-1])


def _stands(door: Door, entry: Entry, *, worked_on: bool = False) -> int:
    if door.json:
        print_json(entry.view().to_json(worked_on=worked_on) | {"exit_code": 0})
    return 0


def cancel(door: Door, run: str) -> int:
    door.people_only("cancel runs")
    entry = door.place.runs.find(run)
    done = door.place.cancel(entry)
    tell(f"Run {entry.id} is {'cancelled.' if done else f'told to end; watch it: interlock watch {entry.id}'}")
    return _stands(door, entry, worked_on=not done)


def again(door: Door, run: str, paths: Sequence[str], how: Literal["undo", "apply"], *, dry: bool) -> int:
    """Take out what a run delivered, or bring what it could not deliver."""
    door.people_only(f"{how} the work of runs")
    place = door.place
    paths = [door.inside(path) for path in paths]
    if run:
        entry = place.runs.find(run)
    elif how == "undo":
        entry = door.first(lambda view: bool(door.work(view).delivered), "delivered anything")
    else:
        entry = door.first(lambda view: not view.status.is_open and _refused(door, view), "work that was refused")
    act = place.undo if how == "undo" else place.apply
    if not run and how == "undo" and not dry:
        would = asyncio.run(place.undo(entry, paths, dry=True))
        files = text.few(would.paths)
        if not confirmed(f"Take {files} of run {entry.id} out again?"):
            raise Refused(
                "nothing was undone: it was not said which run",
                found=f"the latest that delivered: {entry.id} ({files})",
                remedy=f"interlock undo {entry.id}",
            )
    done = asyncio.run(act(entry, paths, dry=dry))
    word = f"{'would be ' if dry else ''}{'taken out' if how == 'undo' else 'brought'}"
    rows = [f"{text.count(len(done.paths), 'file')} {word}: {text.few(done.paths, 12)}".rstrip(": ")]
    if done.kept:
        rows.append(f"Kept as it is, since both changed it: {text.few(done.kept, 12)}")
    view = entry.view()
    rows += [f"  git revert {one.commit}" for one in view.committed if one.commit and how == "undo"]
    if how == "undo" and done.paths and not dry:
        rows.append(f"  bring it again: interlock apply {entry.id}")
    tell(*(failures.here(row, door.dir) for row in rows))
    if door.json:
        print_json(view.to_json() | {"paths": list(done.paths), "kept": list(done.kept)})
    return 0


def _refused(door: Door, view: View) -> bool:
    if view.undone:
        return view.undone[-1].how == "undo"
    work = door.work(view)
    return bool(work.pending or work.held)
