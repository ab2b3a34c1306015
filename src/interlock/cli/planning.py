"""`plan` and `rehearse`: what a run would take, and every way it can go (PROOF-01, PROOF-02). Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from interlock.cli import screens, text
from interlock.cli.door import Door
from interlock.cli.output import tell
from interlock.cli.screens import Told
from interlock.cli.trusting import asked
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
    rows = list(_rows(door, playbook, inputs))
    told: dict[str, Any] = {}
    for label, what, rest in rows:
        told.setdefault(label, []).append([what, rest])
    head = text.cut(f"{playbook.name}  {text.line(playbook.headline(inputs))}".rstrip(), text.WIDTH)
    door.says({"playbook": playbook.name, **told}, [head, *screens.block(rows)])
    return 0


def compare(door: Door, playbook: Playbook, runs: Sequence[str]) -> int:
    """Recorded runs with the playbook as it is now: what would keep each from going on."""
    rows, found = [], []
    for entry in map(door.place.runs.find, runs):
        came = door.place.against(playbook, entry)
        same = f"all {text.count(came.kept, 'key')} as recorded"
        rows.append((entry.id, f"{came.key}: {came.what}" if came.key else same, ""))
        found.append({"run_id": entry.id, "kept": came.kept, "key": came.key, "what": came.what})
    door.says({"playbook": playbook.name, "against": found}, screens.block(rows))
    return int(Exit.FINDINGS if any(one["key"] for one in found) else Exit.DONE)


def _rows(door: Door, playbook: Playbook, inputs: Model) -> Iterator[Told]:
    place, tools = door.place, list(_tools(door))
    if theirs := dict(_documents(door, playbook, inputs)):
        playbook = replace(playbook, files=theirs)
    known = outlook(playbook, inputs, caps=place.caps(playbook, inputs), commands=tools)
    yield from (("told", said, "") for said in known.told)
    if not known.stages:  # it would not begin
        return
    yield "stages", "  ".join(name + (f" (at most {most})" if most else "") for name, most in known.stages.items()), ""
    for role in place.roles(playbook, door.runner):
        if role.name in known.agents:
            yield "agents", role.name, "  ".join(filter(None, (role.runner, role.model, role.source)))
    yield "calls", f"{known.fewest} to {known.most}", ""
    origins = {one.line: one.origin for one in tools}
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


def _tools(door: Door) -> Iterator[Command]:
    """The commands that count where nobody names any, and where they come from."""
    place, where = door.place, door.place.workspace.place
    named = {name: line for name, line in place.settings.commands.items() if name != "setup"}
    yield from (Command(name, line, place.settings.file) for name, line in named.items())
    for tool in () if named else toolchains.find(Folder(place.workspace.top), where):
        yield Command(tool.name, tool.line_from(where), tool.source)


def _documents(door: Door, playbook: Playbook, inputs: Model) -> Iterator[tuple[str, str]]:
    """What there is of the process's own documents: they say much of what it will do (PERSON-07)."""
    top = door.place.workspace.top
    for pattern in (*playbook.documents(inputs), *filter(None, [getattr(inputs, "file", None)])):
        every = top.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)  # `**` is folders alone
        for path in sorted(str(file.relative_to(top)) for file in every if file.is_file()):
            if (said := door.place.text(path)) is not None:
                yield path, said


def rehearse(door: Door, *, playbook: str, deviations: int) -> int:
    """Every combination of verdicts, decisions, red commands and faults; what must hold on each path."""
    process = door.place.playbook(playbook, asked)
    paths, wrong = 0, []
    for inputs in variants(process):
        for path in explore(process, inputs, deviations=deviations):
            paths += 1
            wrong += [(why, dict(path.schedule)) for why in broken(path)]
    for why, way in wrong[:SHOWN]:
        tell(f"broken: {why}", *(f"  {occasion}: {what}" for occasion, what in way.items()))
    held = "all of it holds" if not wrong else f"{text.count(len(wrong), 'time')} it does not hold"
    said = f"{playbook}: {paths} paths, {len(HOLDS) + len(process.invariants)} things must hold: {held}"
    found = [{"what": why, "path": way} for why, way in wrong]
    door.says({"playbook": playbook, "paths": paths, "broken": found}, [said])
    return int(Exit.FINDINGS if wrong else Exit.DONE)
