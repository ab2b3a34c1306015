"""`runs`, `show`, `watch`, `diff`, `playbooks`: how runs stand, what they did and changed. Looking changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from interlock.app import SHIPPED, playbook_named
from interlock.cli import screens, text
from interlock.cli.door import Door
from interlock.cli.live import PlainView
from interlock.cli.output import complain, print_json, print_lines, print_patch, tell
from interlock.cli.telling import Narrator
from interlock.cli.working import ending, output_of, view_of
from interlock.engine.afterwards import delivered, left
from interlock.engine.journal import read_lines
from interlock.engine.receipt import markdown as receipt
from interlock.engine.runs import Entry, Head
from interlock.engine.view import View
from interlock.errors import BadInput, Status, unknown
from interlock.workspace.values import Pending

LISTED = 20
POLL_S = 0.2


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
    known = [one.value for one in Status if one.is_open or one.has_ended]
    if status not in (None, *known):
        raise unknown("no such status", str(status), known, where="--status")
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
        names = {"id": "run_id", "why": "reason", "started": "started_at", "changed": "changed_at"}
        print_json({"runs": [{names.get(name, name): one for name, one in vars(head).items()} for head in heads]})
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
    row = f"{text.padded(head.id, wide)}  {text.padded(head.status.value, 11)}  "
    return row + text.line(head.headline, max(text.LEAST, text.WIDTH - len(row)))


# --- show


def show(door: Door, words: Sequence[str], *, log: bool, markdown: bool) -> int:
    entry, name = door.meant(words, lambda: door.find(""), lambda view, one: bool(screens.step(view, one, Narrator())))
    narrator = Narrator(door.place.runs.path)
    if log:
        _log(door, entry, narrator)
        return 0
    view, held = entry.view(), entry.holder() is not None
    if markdown:
        print_lines([receipt(view).rstrip("\n")])
    elif door.json:
        output = output_of(entry, view).decode("utf-8", "replace")
        print_json(view.to_json(worked_on=held, output=output) | {"exit_code": 0})
    elif name:
        lines = screens.step(view, name, narrator)
        if not lines:
            known = dict.fromkeys(screens.title(step.name) for step in view.steps)
            raise unknown(f"run {entry.id} has no step {name!r}", name, known, remedy="Or name an agent, or a key.")
        print_lines(lines)
        complain(*(f"  records: {entry.path / 'dispatches' / key}" for key in lines if key in view.calls))
    else:
        stands = view.status_now(held)
        head = screens.head(view, text.WIDTH, screens.facts(view, stands))
        print_lines([head, screens.stages(view, text.WIDTH), "", *screens.steps(view, narrator), ""])
        print_lines(ending(door, view, stands))
    return 0


def _log(door: Door, entry: Entry, narrator: Narrator) -> None:
    view = View()
    for line in read_lines(entry.journal):
        view.take(line)
        print_lines(row.laid() for row in narrator.take(view, line.key) if door.verbose or row.tone != "detail")


# --- watch


def watch(door: Door, run: str) -> int:
    """Follow a run that another process works on; how it stands when nobody does any more."""
    working = [] if run else [entry for entry in door.place.runs.all() if entry.holder() is not None]
    entry = working[0] if working else door.place.runs.find(run or "latest")
    with view_of(door, str(entry.first.get("playbook", ""))) as seen:
        view = asyncio.run(_followed(entry, seen))
    tell("", *ending(door, view, entry.status(view)))
    return int(view.ended.exit if view.ended else entry.status(view).exit)


async def _followed(entry: Entry, seen: PlainView) -> View:
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
        if not held:
            return view
        await asyncio.sleep(POLL_S)


# --- diff


def diff(door: Door, words: Sequence[str], *, stat: bool) -> int:
    """What is delivered and pending; with an agent, what each of its dispatches changed."""
    entry, agent = door.meant(
        words,
        lambda: door.first(lambda view: list(_of_run(view)), "work to show"),
        lambda view, name: any(name in (call.agent, call.member) for call in view.calls.values()),
    )
    view, trees = entry.view(), door.place.trees
    pairs = list(_by_agent(view, agent) if agent else _of_run(view))
    if not pairs:
        tell(f"Run {entry.id} has changed nothing{f' by {agent}' if agent else ''}.")
    for title, pair in pairs:
        if stat:
            print_lines([title, *(f"  {screens.in_lines(change)}" for change in trees.between(pair.base, pair.work))])
            continue
        if len(pairs) > 1 or title != "delivered":
            complain(f"--- {title}")
        print_patch(trees.patch(pair.base, pair.work))
    return 0


def _of_run(view: View) -> Iterator[tuple[str, Pending]]:
    yield from (("delivered", pair) for pair in delivered(view))
    yield from (("pending: not delivered", pair) for pair in left(view).values())
    yield from (("held back: guarded paths", pair) for pair in view.held)


def _by_agent(view: View, agent: str) -> Iterator[tuple[str, Pending]]:
    calls = [call for call in view.calls.values() if agent in (call.agent, call.member)]
    if not calls:
        known = sorted({call.member or call.agent for call in view.calls.values()})
        raise unknown(f"no agent {agent!r} worked in run {view.run}", agent, known)
    for call in calls:
        if call.report is not None and call.report.did is not None:
            yield f"{call.member or call.agent}, attempt {call.attempt}", call.report.did


# --- playbooks


def list_playbooks(door: Door) -> int:
    print_lines(text.table([(name, playbook_named(name).summary) for name in sorted(SHIPPED)]))
    return 0
