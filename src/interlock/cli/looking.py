"""`runs`, `show`, `watch`, `diff`, `playbooks`: how runs stand, what they did and changed. Looking changes nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from interlock.cli import screens, text
from interlock.cli.door import Door
from interlock.cli.live import POLL_S, PlainView
from interlock.cli.output import columns, complain, print_json, print_lines, print_patch, tell, write_output
from interlock.cli.telling import Narrator
from interlock.engine.afterwards import Work, left
from interlock.engine.journal import read_lines
from interlock.engine.receipt import markdown as receipt
from interlock.engine.runs import Entry, Head, Runs
from interlock.engine.view import View
from interlock.errors import BadInput, Exit, InterlockError, Status, unknown
from interlock.workspace.values import Change, Pending

LISTED = 20
FAR_S = 3.0
"""Between two looks at a run of elsewhere."""


# --- runs


def list_runs(
    door: Door, *, every: bool, status: str | None, playbook: str | None, clean: bool, older: int | None, dry: bool
) -> int:
    if clean:
        return clean_up(door, 30 if older is None else older, dry=dry)
    if older is not None or dry:
        raise BadInput("--older and --dry-run go with --clean", where="runs")
    known = [one.value for one in Status if one.is_open or one.has_ended]
    if status not in (None, *known):
        raise unknown("no such status", str(status), known, where="--status")
    every_head = _heads(door, status, playbook)
    heads = list(every_head if every else islice(every_head, LISTED))
    if door.json:
        names = {"id": "run_id", "why": "reason", "started": "started_at", "changed": "changed_at"}
        print_json({"runs": [{names.get(name, name): one for name, one in vars(head).items()} for head in heads]})
    elif heads:
        wide = max(len(head.id) for head in heads)
        print_lines(_listed(head, wide) for head in reversed(heads))
    elif status or playbook:
        tell("No run is like that.")
    else:
        tell('There are no runs here yet. Begin one: interlock "what is to be done"')
    if before := door.runs.of_before():
        tell(f"Of interlock 0.1, and left alone: {text.few(before)}")
    return 0


def _heads(door: Door, status: str | None, playbook: str | None) -> Iterator[Head]:
    for entry in door.runs.all():
        head = entry.head()
        if head is None:
            tell(f"{entry.id} cannot be read: interlock doctor --mend {entry.id}")
        elif status in (None, head.status.value) and playbook in (None, head.playbook):
            yield head


def _listed(head: Head, wide: int) -> str:
    row = f"{text.padded(head.id, wide)}  {text.padded(head.status.value, 11)}  "
    return row + text.line(head.headline, max(text.LEAST, text.WIDTH - len(row)))


def clean_up(door: Door, days: int, *, dry: bool) -> int:
    """Layers of runs that have ended; and whole runs that ended so many days ago."""
    door.people_only("clean up")
    limit = datetime.now(UTC) - timedelta(days=days)
    kept, removed = 0, list[tuple[str, str, int]]()
    for entry in door.runs.all():
        head = entry.head()
        if head is None or not head.status.has_ended or entry.holder() is not None:
            continue
        old = head.changed < limit
        if old and _has_work(door, entry):
            old, kept = False, kept + 1
        freed = _size(door.place.workspace.own / "layers" / entry.id) + (_size(entry.path) if old else 0)
        if old or freed:
            removed.append((entry.id, "run" if old else "layers", freed))
            if not dry:
                with entry.lock():
                    door.place.forget(entry) if old else door.place.layers.clean(entry.id)
    total = sum(freed for _, _, freed in removed)
    named = [dict(zip(("run_id", "what", "bytes"), one, strict=True)) for one in removed]
    lines = (f"{run}  {text.padded(what, 6)}  {text.size(freed)}" for run, what, freed in removed)
    door.says({"removed": named, "bytes": total, "kept": kept, "dry_run": dry}, lines)
    tell(f"{'Would free' if dry else 'Freed'} {text.size(total)} of {text.count(len(removed), 'run')}.")
    if kept:
        tell(f"{text.count(kept, 'old run')} kept: there is work that nobody took over (interlock diff RUN)")
    return 0


def _has_work(door: Door, entry: Entry) -> bool:
    try:
        work = door.work(entry.view())
    except InterlockError:
        return True
    return bool(work.pending or work.held or work.problem)


def _size(folder: Path) -> int:
    return sum((Path(parent) / name).lstat().st_blocks * 512 for parent, _, names in os.walk(folder) for name in names)


# --- show


def show(door: Door, words: Sequence[str], *, log: bool, markdown: bool, html: str) -> int:
    entry, name = door.meant(words, lambda: door.find(""), lambda view, one: bool(screens.step(view, one, Narrator())))
    narrator = Narrator(door.runs.path)
    if html:
        from interlock.web.run import write

        write(door, entry, Path(html))
        return 0
    if log:
        _log(door, entry, narrator)
        return 0
    view, held = entry.view(), entry.holder() is not None
    if markdown:
        write_output(receipt(view).encode("utf-8", "backslashreplace"))
    elif door.json:
        print_json(door.facts(entry, view, worked_on=held))
    elif name:
        lines = screens.step(view, name, narrator)
        if not lines:
            steps = [screens.title(step.name) for step in view.steps]
            known = dict.fromkeys((*steps, *(call.name for call in view.calls.values())))
            raise unknown(f"run {entry.id} has no step or agent {name!r}", name, known)
        print_lines(lines)
        if any(key in lines for key in view.calls):
            complain(f"  records: {os.path.relpath(entry.path / 'dispatches')}")
    else:
        stands = view.status_now(held)
        width = min(text.WIDTH, columns(sys.stdout) or text.WIDTH)
        head = screens.head(view, width, screens.facts(view, stands))
        print_lines([head, screens.stages(view, width), "", *screens.steps(view, narrator), ""])
        print_lines(door.ending(view, stands))
        if entry.is_far:
            has = entry.held.get("holder") or "nobody: it can be taken"
            print_lines([f"  who has it on {entry.held.get('remote')}: {has}"])
    return 0


def _log(door: Door, entry: Entry, narrator: Narrator) -> None:
    view, width = View(), columns(sys.stdout)
    for line in read_lines(entry.journal):
        view.take(line)
        rows = (row for row in narrator.take(view, line.key) if door.verbose or row.tone != "detail")
        print_lines(row.laid(width) for row in rows)


# --- watch


def watch(door: Door, run: str) -> int:
    """Follow a run that another process works on; how it stands when nobody does any more."""
    from interlock.cli.working import view_of

    working = [] if run else [entry for entry in door.runs.all() if entry.holder() is not None]
    entry = working[0] if working else door.runs.find(run or "latest")
    try:
        with view_of(door, str(entry.first.get("playbook", ""))) as seen:
            view = asyncio.run(_followed(entry, seen, door.runs))
    except KeyboardInterrupt:
        tell(
            f"Run {entry.id} goes on.",
            f"  watch it: interlock watch {entry.id}",
            f"  end it: interlock cancel {entry.id}",
        )
        return int(Exit.INTERRUPTED)
    tell("", *door.ending(view, entry.status(view)))
    return int(view.ended.exit if view.ended else entry.status(view).exit)


async def _followed(entry: Entry, seen: PlainView, runs: Runs) -> View:
    """Who works on it is asked before the lines are read: whoever left has written them all."""
    view, known, size = View(), 0, -1
    while True:
        held = entry.holder() is not None
        if (grown := entry.journal.stat().st_size) != size:
            lines, size = read_lines(entry.journal), grown
            for line in lines[known:]:
                view.take(line)
                seen.told(view, line.key)
            known = len(lines)
        queued = entry.is_far and view.status_now(held) is Status.INTERRUPTED
        if not (held or queued):
            return view
        await asyncio.sleep(FAR_S if entry.is_far else POLL_S)
        if entry.is_far:
            await asyncio.to_thread(runs.look, entry.id)


# --- diff


def diff(door: Door, words: Sequence[str], *, stat: bool) -> int:
    """What is delivered and pending; with an agent, what each of its dispatches changed."""
    entry, agent = door.meant(
        words,
        lambda: door.first(lambda view: list(of_run(view)), "work to show"),
        lambda view, name: any(name in (call.agent, call.member) for call in view.calls.values()),
    )
    view, trees, work = entry.view(), door.trees, door.work(entry.view())
    shown = [
        (name, pair, changes)
        for title, pair in (_by_agent(view, agent) if agent else of_run(view))
        for name, changes in as_it_is_now(title, trees.between(pair.base, pair.work), work)
    ]
    if not shown:
        tell(f"Run {entry.id} has changed nothing{f' by {agent}' if agent else ''}.")
    for name, pair, changes in shown:
        if stat:
            print_lines([name, *(f"  {screens.in_lines(change)}" for change in changes)])
            continue
        if len(shown) > 1 or name != DELIVERED or not door.is_latest(entry.id):
            complain(f"--- {entry.id}: {name}")
        patch = trees.patch(pair.base, pair.work, [change.path for change in changes])
        print_patch(door.place.redaction.raw(patch))
    return 0


DELIVERED, PENDING, HELD = "delivered", "pending: not delivered", "held back: guarded paths"


def of_run(view: View) -> Iterator[tuple[str, Pending]]:
    yield from ((DELIVERED, pair) for pair in view.came)
    yield from ((PENDING, pair) for pair in left(view).values())
    yield from ((HELD, pair) for pair in view.held)


def as_it_is_now(title: str, changes: Sequence[Change], work: Work) -> Iterator[tuple[str, list[Change]]]:
    """What a person took out again since, or brought, under a name of its own."""
    out = {one.path for one in work.undone}
    waits = {one.path for one in (*work.pending, *work.held)}

    def name_of(path: str) -> str:
        if title == DELIVERED and path in out:
            return "taken out again"
        return "brought by apply" if title in (PENDING, HELD) and path not in waits else title

    for name in dict.fromkeys(name_of(one.path) for one in changes):
        yield name, [one for one in changes if name_of(one.path) == name]


def _by_agent(view: View, agent: str) -> Iterator[tuple[str, Pending]]:
    calls = [call for call in view.calls.values() if agent in (call.agent, call.member)]
    if not calls:
        known = sorted({call.name for call in view.calls.values()})
        raise unknown(f"no agent {agent!r} worked in run {view.run}", agent, known)
    for call in calls:
        if call.report is not None and call.report.did is not None:
            yield f"{call.name}, attempt {call.attempt}", call.report.did
