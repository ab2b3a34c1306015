"""`plan` and `rehearse`: what a run would take, and every way it can go (PROOF-01, PROOF-02). Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from interlock.cli import screens, text
from interlock.cli.output import print_json, print_lines, tell
from interlock.cli.telling import laid
from interlock.cli.working import earlier
from interlock.errors import Exit

if TYPE_CHECKING:
    from interlock.cli.door import Door
    from interlock.documents.model import Model
    from interlock.engine.playbook import Playbook

ENDLESS = ("limit", "dies", "budget")
"""Deviations that say nothing about how many calls a run takes: limits are waited for, a death repeats one."""
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
    print_lines([text.cut(f"{playbook.name}  {text.line(playbook.headline(inputs))}", text.WIDTH)])
    before = ""
    for label, what, rest in rows:
        print_lines([laid("  ", "" if label == before else label, what, rest, text.WIDTH)])
        before = label
    return 0


def _rows(door: Door, playbook: Playbook, inputs: Model) -> Iterator[tuple[str, str, str]]:
    place = door.place
    for stage, most in place.caps(playbook, inputs).items():
        yield "stages", screens.title(stage), f"at most {most}"
    for role in place.roles(playbook, door.runner):
        yield "agents", role.name, "  ".join(filter(None, (role.runner, role.model, role.source)))
    fewest, most = _calls(playbook, inputs)
    yield "calls", f"{fewest} at least", f"{most} with one thing going wrong"
    commands = list(_commands(door, inputs))
    yield from (("checks", line, f"from {origin}") for line, origin in commands)
    if not commands:
        yield "checks", "none", "a reviewer alone would judge it"
    if runs := earlier(door, playbook.name):
        paid = [view.usage.cost_usd for view in runs if view.usage.cost_usd is not None]
        took = f"about {text.running(screens.middle([view.seconds for view in runs]) or 0)}"
        yield "earlier", took, text.money(screens.middle(paid))
    last = place.runs.of_key(playbook.name, playbook.key(inputs, place.trees.where()))
    if last is not None and (head := last.head()) is not None and head.status.is_open:
        yield "run", last.id, "is open: it goes on"


def _calls(playbook: Playbook, inputs: Model) -> tuple[int, int]:
    """Of agents: as it should go, and with any one thing going wrong."""
    from interlock.engine.rehearsal import explore

    calls = [
        path.calls for path in explore(playbook, inputs, only=lambda name: not any(one in name for one in ENDLESS))
    ]
    return calls[0], max(calls)


def _commands(door: Door, inputs: Model) -> Iterator[tuple[str, str]]:
    """The commands that would decide, and where they come from."""
    from interlock.engine import toolchains
    from interlock.engine.real import Folder

    place = door.place
    named = getattr(inputs, "check", ())
    if named:
        yield from ((line, "--check") for line in named if line != "none")
    elif place.settings.commands:
        yield from ((line, place.settings.file) for name, line in place.settings.commands.items() if name != "setup")
    else:
        where = place.workspace.place
        found = toolchains.find(Folder(place.workspace.top), where)
        yield from ((tool.line_from(where), tool.source) for tool in found)


def rehearse(door: Door, *, playbook: str, deviations: int) -> int:
    """Every combination of verdicts, decisions, red commands and faults; what must hold on each path."""
    from interlock.app import playbook_named
    from interlock.engine.holds import HOLDS, broken
    from interlock.engine.rehearsal import explore, variants

    process = playbook_named(playbook)
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
