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
    facts = _facts(door, playbook, inputs)
    if door.json:
        print_json(facts)
        return 0
    rows: list[tuple[str, str, str]] = [("stages", facts["stages"], "")]
    for agent in facts["agents"]:
        runner = "  ".join(filter(None, (agent["runner"], agent["model"], agent["role"])))
        rows.append(("agents" if agent is facts["agents"][0] else "", agent["name"], runner))
    rows.append(
        ("calls", f"{facts['calls']['fewest']} at least", f"{facts['calls']['most']} with one thing going wrong")
    )
    for one in facts["checks"] or [{"command": "none", "from": "found; a reviewer alone would judge it"}]:
        rows.append(
            (
                "" if rows[-1][0] in ("checks", "") and rows[-1][2].startswith("from") else "checks",
                one["command"],
                f"from {one['from']}",
            )
        )
    if facts["earlier"]:
        took = f"about {text.running(facts['earlier']['seconds'])}"
        rows.append(("earlier", took, text.money(facts["earlier"]["cost_usd"])))
    if facts["goes_on"]:
        rows.append(("run", f"{facts['goes_on']} is open", "it goes on"))
    head = text.cut(f"{playbook.name}  {text.line(playbook.headline(inputs), 200)}", text.WIDTH)
    print_lines([head, *(laid("  ", *row, text.WIDTH) for row in rows)])
    return 0


def _facts(door: Door, playbook: Playbook, inputs: Model) -> dict[str, Any]:
    place = door.place
    if playbook.check is not None:
        playbook.check(inputs, None)
    key = playbook.key(inputs, place.trees.where())
    last = place.runs.of_key(playbook.name, key)
    head = last.head() if last else None
    runs = earlier(door, playbook.name)
    paid = [view.usage.cost_usd for view in runs if view.usage.cost_usd is not None]
    caps = place.caps(playbook, inputs)
    fewest, most = _calls(playbook, inputs)
    return {
        "playbook": playbook.name,
        "key": key,
        "goes_on": last.id if last and head and head.status.is_open else None,
        "stages": ", ".join(f"{screens.title(name)} (at most {most})" for name, most in caps.items()),
        "agents": [
            {"name": role.name, "runner": role.runner, "model": role.model, "role": role.source}
            for role in place.roles(playbook, door.runner)
        ],
        "calls": {"fewest": fewest, "most": most},
        "checks": [{"command": line, "from": origin} for line, origin in _commands(door, inputs)],
        "earlier": {"seconds": screens.middle([view.seconds for view in runs]), "cost_usd": screens.middle(paid)}
        if runs
        else None,
    }


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
