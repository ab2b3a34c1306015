"""What a run would take, before it is begun (PROOF-02): every way it can go by itself is played in simulation.

Nothing is called, run or written for it.  Deaths, weather and what people do meanwhile are left out, and so are entries
of lists in answers: they repeat what there is, and say nothing about the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.documents.model import Model
from interlock.engine import events as ev
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import FILES, Path, explore
from interlock.engine.simulation import Simulated
from interlock.engine.stage import EACH, WEATHER
from interlock.engine.world import Command, Toolbox
from interlock.errors import Status


@dataclass(frozen=True)
class Outlook:
    stages: Mapping[str, int | None]
    """In the order in which they come; of a loop, its most turns."""
    agents: tuple[str, ...]
    fewest: int
    """Calls of agents with which it can be complete."""
    most: int
    """Calls where one agent, check or decision is against it each time."""
    gates: tuple[str, ...]
    """Where a person can be asked."""
    commands: tuple[str, ...]
    documents: tuple[str, ...]
    told: tuple[str, ...]
    """What a person is told at the start: what of their files is used, and what keeps the run from beginning."""


def outlook(
    playbook: Playbook, inputs: Model, *, caps: Mapping[str, int] | None = None, commands: Sequence[Command] = ()
) -> Outlook:
    """What this playbook would take with these inputs.

    Args:
        commands: what is found or set to run in the workspace; the inputs may name others.
    """
    caps = caps or playbook.caps
    toolbox = Toolbox(list(commands))
    paths = list(
        explore(
            playbook,
            inputs,
            caps=caps,
            make=lambda stage: Simulated(FILES, cast=stage, toolbox=toolbox, branch="main"),
            only=lambda name: name.endswith(EACH) and name.removesuffix(EACH) not in WEATHER and ": " not in name,
        )
    )
    complete = [path.calls for path in paths if path.view.status is Status.COMPLETE]
    called = {call.agent for path in paths for call in path.view.calls.values()}
    steps = dict.fromkeys(step.name for path in paths for step in path.view.steps if step.name)
    stages = dict.fromkeys(loop if (loop := re.sub(r"-\d+$", "", name)) in caps else name for name in steps)
    rows = [row for row in playbook.rows if row.agent in called]
    return Outlook(
        stages={name: caps.get(name) for name in stages},
        agents=tuple(row.agent for row in rows),
        fewest=min(complete, default=paths[0].calls),
        most=max(path.calls for path in paths if not _failed(path)),
        gates=tuple(dict.fromkeys(gate.gate for path in paths for gate in path.view.gates.values())),
        commands=tuple(dict.fromkeys(pair.command for pair in paths[0].view.pairs.values())),
        documents=tuple(dict.fromkeys([*playbook.documents(inputs), *(path for row in rows for path in row.outputs)])),
        told=tuple(filter(None, (*paths[0].view.warnings, paths[0].refused, paths[0].fault))),
    )


def _failed(path: Path) -> bool:
    """An agent did not do its part, and a person had it go on."""
    return any(isinstance(event, ev.Paused) and event.status == "failed" for _, event in path.lines)
