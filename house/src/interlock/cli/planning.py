"""`plan` and `rehearse`: what a run would take, and every way it can go (PROOF-01, PROOF-02). Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from interlock.cli import screens, text
from interlock.cli.door import Door
from interlock.cli.output import print_json, print_lines, tell
from interlock.cli.screens import Told
from interlock.cli.trusting import playbook_for
from interlock.cli.working import earlier
from interlock.documents.model import Model
from interlock.engine import toolchains
from interlock.engine.holds import HOLDS, broken
from interlock.engine.outlook import outlook
from interlock.engine.playbook import Playbook
from interlock.engine.real import Folder
from interlock.engine.rehearsal import explore, variants
from interlock.engine.world import Command
from interlock.errors import Exit

SHOWN = 20


def plan(door: Door, playbook: Playbook, inputs: Model) -> int:
    """Stages, agents, calls, commands, what earlier runs took."""
    if playbook.check is not None:
        playbook.check(inputs, door.place.refuses_commits)
    rows = list(_rows(door, playbook, inputs))
    if door.json:
        told: dict[str, Any] = {}
        for label, what, rest in rows:
            told.setdefault(label, []).append([what, rest])
        print_json({"playbook": playbook.name, **told})
        return 0
    head = text.cut(f"{playbook.name}  {text.line(playbook.headline(inputs))}", text.WIDTH)
    print_lines([head, *screens.block(rows)])
    return 0


def compare(door: Door, playbook: Playbook, runs: Sequence[str]) -> int:
    """Recorded runs with the playbook as it is now: what would keep each from going on."""
    rows, found = [], []
    for entry in map(door.place.runs.find, runs):
        came = door.place.against(playbook, entry)
        same = f"all {text.count(came.kept, 'key')} as recorded"
        rows.append((entry.id, f"{came.key}: {came.what}" if came.key else same, ""))
        found.append({"run_id": entry.id, "kept": came.kept, "key": came.key, "what": came.what})
    if door.json:
        print_json({"playbook": playbook.name, "against": found})
    else:
        print_lines(screens.block(rows))
    return int(Exit.FINDINGS if any(one["key"] for one in found) else Exit.DONE)


def _rows(door: Door, playbook: Playbook, inputs: Model) -> Iterator[Told]:
    place = door.place
    commands = list(_commands(door, inputs))
    known = outlook(playbook, inputs, caps=place.caps(playbook, inputs), commands=commands)
    yield "stages", "  ".join(name + (f" (at most {most})" if most else "") for name, most in known.stages.items()), ""
    for role in place.roles(playbook, door.runner):
        if role.name in known.agents:
            yield "agents", role.name, "  ".join(filter(None, (role.runner, role.model, role.source)))
    yield "calls", f"{known.fewest} to {known.most}", ""
    origins = {one.line: one.origin for one in commands}
    yield from (("checks", line, f"from {origins.get(line, playbook.name)}") for line in known.commands or origins)
    if not (known.commands or origins):
        yield "checks", "none", "a reviewer alone would judge it"
    yield from (("asks", gate, "where it comes to that") for gate in known.gates)
    yield from (("docs", path, "") for path in known.documents)
    if runs := earlier(door, playbook.name):
        paid = [view.usage.cost_usd for view in runs if view.usage.cost_usd is not None]
        took = f"about {text.running(screens.middle([view.seconds for view in runs]) or 0)}"
        yield "earlier", took, text.money(screens.middle(paid))
    last = place.runs.of_key(playbook.name, playbook.key(inputs, place.trees.where()))
    if last is not None and (head := last.head()) is not None and head.status.is_open:
        yield "run", last.id, "is open: it goes on"


def _commands(door: Door, inputs: Model) -> Iterator[Command]:
    """The commands that would decide, and where they come from."""
    place = door.place
    where, named = place.workspace.place, getattr(inputs, "check", ())
    if named:
        yield from (Command(f"check-{n}", line, "--check") for n, line in enumerate(named, 1) if line != "none")
    elif commands := {name: line for name, line in place.settings.commands.items() if name != "setup"}:
        yield from (Command(name, line, place.settings.file) for name, line in commands.items())
    else:
        found = toolchains.find(Folder(place.workspace.top), where)
        yield from (Command(tool.name, tool.line_from(where), tool.source) for tool in found)


def rehearse(door: Door, *, playbook: str, deviations: int) -> int:
    """Every combination of verdicts, decisions, red commands and faults; what must hold on each path."""
    process = playbook_for(door, playbook)
    paths, wrong = 0, []
    for inputs in variants(process):
        for path in explore(process, inputs, deviations=deviations):
            paths += 1
            wrong += [(why, dict(path.schedule)) for why in broken(path)]
    if door.json:
        print_json({"playbook": playbook, "paths": paths, "broken": [{"what": why, "path": way} for why, way in wrong]})
    else:
        for why, way in wrong[:SHOWN]:
            tell(f"broken: {why}", *(f"  {occasion}: {what}" for occasion, what in way.items()))
        held = "all of it holds" if not wrong else f"{text.count(len(wrong), 'time')} it does not hold"
        print_lines([f"{playbook}: {paths} paths, {len(HOLDS) + len(process.invariants)} things must hold: {held}"])
    return int(Exit.FINDINGS if wrong else Exit.DONE)
