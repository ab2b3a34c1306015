"""`runs`, `show`, `watch`, `diff`, `playbooks`: how runs stand, what they did and changed. Looking changes nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from interlock.cli import failures, live, screens, text
from interlock.cli.output import coloured, complain, print_json, print_lines, print_patch, tell
from interlock.cli.telling import Narrator
from interlock.cli.working import deciding, usual, watching
from interlock.engine.view import View
from interlock.errors import BadInput, Refused, Status, nearest

if TYPE_CHECKING:
    from interlock.cli.door import Door
    from interlock.engine.runs import Entry, Head
    from interlock.workspace.values import Change, Tree

LISTED = 20
POLL_S = 0.2
_TONES = {"complete": "good", "failed": "bad", "waiting": "note", "interrupted": "note", "working": "head"}


# --- runs


def list_runs(
    door: Door,
    *,
    every: bool,
    status: str | None,
    playbook: str | None,
    clean: bool,
    older: int | None,
    dry: bool,
) -> int:
    if clean:
        from interlock.cli.cleaning import clean_up

        return clean_up(door, 30 if older is None else older, dry=dry)
    if older is not None or dry:
        raise BadInput("--older and --dry-run go with --clean", where="runs")
    if status is not None and status not in [one.value for one in Status]:
        near = nearest(status, [one.value for one in Status])
        known = ", ".join(one.value for one in Status if one.is_open or one.has_ended)
        raise BadInput(
            "that is no status", where="--status", expected=known, found=status, remedy=near and f"Did you mean {near}?"
        )
    heads: list[Head] = []
    damaged: list[Entry] = []
    for entry in door.place.runs.all():
        head = entry.head()
        if head is None:
            damaged.append(entry)
        elif status in (None, head.status.value) and playbook in (None, head.playbook):
            heads.append(head)
        if len(heads) == LISTED and not every:
            break
    if door.json:
        print_json({"runs": [_head_json(head) for head in heads]})
    elif heads:
        wide = max(len(head.id) for head in heads)
        print_lines(_listed(head, wide) for head in reversed(heads))
    else:
        asked = status or playbook
        tell("No run is like that." if asked else 'There are no runs here yet. Begin one: interlock "REQUEST"')
    for entry in damaged:
        tell(f"{entry.id} cannot be read: interlock doctor --mend {entry.id}")
    return 0


def _listed(head: Head, wide: int) -> str:
    status = coloured(text.padded(head.status.value, 11), _TONES.get(head.status.value, ""), sys.stdout)
    room = max(text.LEAST, text.WIDTH - wide - 11 - 4)
    return f"{text.padded(head.id, wide)}  {status}  {text.line(head.headline, room)}"


def _head_json(head: Head) -> dict[str, object]:
    return {
        "run_id": head.id,
        "playbook": head.playbook,
        "key": head.key,
        "status": head.status.value,
        "reason": head.why,
        "headline": head.headline,
        "started_at": head.started.isoformat(),
        "changed_at": head.changed.isoformat(),
    }


# --- show


def show(door: Door, words: Sequence[str], *, log: bool, markdown: bool) -> int:
    entry, name = _meant(door, words)
    if log:
        return _log(door, entry)
    view, held = entry.view(), entry.holder() is not None
    status = view.status_now(held)
    if markdown:
        from interlock.engine.receipt import markdown as receipt

        print_lines([receipt(view).rstrip("\n")])
    elif door.json:
        print_json(view.to_json(worked_on=held, output=_output(entry, view)) | {"exit_code": 0})
    elif name:
        lines = screens.step(view, name, Narrator(entry.folder.get))
        if not lines:
            known = list(dict.fromkeys(screens.title(step.name) for step in view.steps))
            raise Refused(
                f"run {entry.id} has no step {name!r}", expected=f"one of {', '.join(known)}, an agent, or a key"
            )
        print_lines(lines)
        keys = [line for line in lines if line in view.calls]
        complain(*(f"  records: {entry.path / 'dispatches' / key}" for key in keys))
    else:
        seconds = view.seconds
        lines = [screens.head(view, text.WIDTH, screens.facts(view, seconds)), screens.stages(view, text.WIDTH), ""]
        lines += [*screens.steps(view, Narrator(entry.folder.get)), ""]
        lines += screens.ending(view, door.work(view), status=status, commands=deciding(view))
        print_lines(failures.here(line, door.dir) for line in lines)
    return 0


def _meant(door: Door, words: Sequence[str]) -> tuple[Entry, str]:
    """Which run, and what of it: both may be left out."""
    if len(words) > 2:
        raise BadInput("too many words", found=" ".join(words), expected="[RUN], and what of it")
    if not words:
        return door.find(""), ""
    try:
        return door.find(words[0]), words[1] if len(words) > 1 else ""
    except Refused:
        if len(words) == 1 and (runs := door.place.runs.all()):
            last = door.find("") if runs else runs[0]
            if screens.step(last.view(), words[0], Narrator()):
                return last, words[0]
        raise


def _output(entry: Entry, view: View) -> str:
    raw = entry.folder.get(view.ended.output) if view.ended and view.ended.output else b""
    return raw.decode("utf-8", "replace")


def _log(door: Door, entry: Entry) -> int:
    from interlock.engine.journal import read_lines

    view, narrator = View(), Narrator(entry.folder.get)
    rows = []
    for line in read_lines(entry.journal):
        view.take(line)
        rows += narrator.take(view, line.key)
    print_lines(row.laid() for row in rows if door.verbose or row.tone != "detail")
    return 0


# --- watch


def watch(door: Door, run: str) -> int:
    """Follow a run that another process works on; how it stands when nobody does any more."""
    entry = _at_work(door) if not run else door.place.runs.find(run)
    playbook = str(entry.first.get("playbook", ""))
    how = watching(door)
    drawn = live.can_draw()
    with live.LiveView(usual_s=usual(door, playbook), **how) if drawn else live.PlainView(**how) as seen:
        view = asyncio.run(_followed(entry, seen))
    lines = screens.ending(view, door.work(view), status=entry.status(view), commands=deciding(view))
    tell("", *(failures.here(line, door.dir) for line in lines))
    return int(view.ended.exit if view.ended else entry.status(view).exit)


def _at_work(door: Door) -> Entry:
    every = door.place.runs.all()
    working = [entry for entry in every if entry.holder() is not None]
    if not working and not every:
        return door.place.runs.find("latest")  # says that there is none
    return (working or every)[0]


async def _followed(entry: Entry, seen: live.PlainView) -> View:
    """Who works on it is asked before the lines are read: whoever left has written them all."""
    from interlock.engine.journal import read_lines

    view, known, size = View(), 0, -1
    while True:
        held = entry.holder() is not None
        if (grown := entry.journal.stat().st_size) != size:
            lines, size = read_lines(entry.journal), grown
            for line in lines[known:]:
                view.take(line)
                (seen.told if known else seen.passed)(view, line.key)
            known = len(lines)
            seen.joined()
        if not held:
            return view
        await asyncio.sleep(POLL_S)


# --- diff


def diff(door: Door, words: Sequence[str], *, stat: bool) -> int:
    """What is delivered and pending; with an agent, what each of its dispatches changed."""
    entry, agent = _changed(door, words)
    view, trees = entry.view(), door.place.trees
    pairs = list(_by_agent(view, agent) if agent else _of_run(view))
    if not pairs:
        tell(f"Run {entry.id} has changed nothing{f' by {agent}' if agent else ''}.")
    several = len(pairs) > 1 or agent
    for title, old, new in pairs:
        if stat:
            print_lines([title, *(f"  {line}" for line in _stat(trees.between(old, new)))])
            continue
        if several or not title.startswith("delivered"):
            complain(f"--- {title}")
        print_patch(trees.patch(old, new))
    return 0


def _changed(door: Door, words: Sequence[str]) -> tuple[Entry, str]:
    def has_work(view: View) -> bool:
        return any(True for _ in _of_run(view))

    if not words:
        return door.first(has_work, "work to show"), ""
    try:
        return door.place.runs.find(words[0]), words[1] if len(words) > 1 else ""
    except Refused:
        if len(words) == 1:
            last = door.first(has_work, "work to show")
            if any(words[0] in (call.agent, call.member) for call in last.view().calls.values()):
                return last, words[0]
        raise


def _of_run(view: View) -> Iterator[tuple[str, Tree, Tree]]:
    for one in view.delivered:
        if one.state == "done" and one.before and one.merged:
            yield "delivered", one.before, one.merged
    if view.pending is not None and view.pending.base != view.pending.work:
        yield "pending: not delivered", view.pending.base, view.pending.work
    for pair in view.held:
        yield "held back: guarded paths", pair.base, pair.work


def _by_agent(view: View, agent: str) -> Iterator[tuple[str, Tree, Tree]]:
    calls = [call for call in view.calls.values() if agent in (call.agent, call.member)]
    if not calls:
        known = sorted({call.member or call.agent for call in view.calls.values()})
        raise Refused(f"no agent {agent!r} worked in run {view.run}", expected=f"one of {', '.join(known)}")
    for call in calls:
        if call.report is not None and call.report.did is not None:
            yield f"{call.member or call.agent}, attempt {call.attempt}", call.report.did.base, call.report.did.work


def _stat(changes: Sequence[Change]) -> list[str]:
    wide = max((text.columns(change.path) for change in changes), default=0)
    return [
        text.padded(text.line(change.path), wide) + screens.in_lines(change).removeprefix(change.path)
        for change in changes
    ]


# --- playbooks


def list_playbooks(door: Door) -> int:
    from interlock.app import SHIPPED, playbook_named

    known = [playbook_named(name) for name in sorted(SHIPPED)]
    if door.json:
        print_json({"playbooks": [{"name": one.name, "summary": one.summary, "origin": "shipped"} for one in known]})
    else:
        print_lines(text.table([(one.name, one.summary) for one in known]))
    return 0
