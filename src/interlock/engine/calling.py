"""A playbook that calls another: how deep, within which caps, and how the called one ends for its caller (OW-06).

Both write one journal.  The keys of the called one stand below the scope in which it was called, under its name; the
two lines around them say what was asked and how it ended.  A replay plays it again like everything else: what it
recorded it gets back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interlock.engine.definition import Playbook
from interlock.engine.model import Ending, Stop
from interlock.errors import AgentFailed, BadInput, ConfigInvalid, EngineFault

if TYPE_CHECKING:
    from interlock.engine.run import Run

DEEPEST = 8
"""Playbooks that may stand in one chain of calls, the first one included."""

Chain = tuple[tuple[str, Any], ...]
"""The playbooks around a place, from the outermost, each with its inputs."""


def deeper(chain: Chain, other: Playbook, inputs: Any) -> Chain:
    """The chain with one more call; `EngineFault` where that would go on without end."""
    longer = (*chain, (other.name, other.inputs_json(inputs)))
    path = " -> ".join(name for name, _ in longer)
    if longer[-1] in chain:
        raise EngineFault(
            f"playbook {other.name} would call itself without end: {path}, with the same inputs",
            where=path,
            remedy="Call it with other inputs, or repeat the work in a loop: async for turn in run.loop(name, cap).",
        )
    if len(longer) > DEEPEST:
        raise EngineFault(
            f"playbooks call each other more than {DEEPEST} deep: {path}",
            where=path,
            expected=f"at most {DEEPEST}",
            remedy="Let the first one call the others one after the other.",
        )
    return longer


def lowered(caps: Mapping[str, int], *others: Mapping[str, int]) -> dict[str, int]:
    """The caps with those of the same name that are lower; none is ever raised."""
    return {name: min(cap, *(other.get(name, cap) for other in others), cap) for name, cap in caps.items()}


async def played(run: Run, inputs: Any) -> Ending:
    """How the run's playbook ends; what it could not do is an ending too.

    What people can mend in the settings is not for a caller to go on with: that ends the whole run, as does every fault
    of the engine.
    """
    try:
        return await run.playbook.function(run, inputs)
    except Stop as stop:
        return stop.ending
    except ConfigInvalid:
        raise
    except BadInput as error:
        if run.journal.held:
            raise
        return Ending.stopped(error.what)
    except AgentFailed as error:
        return Ending.failed(error.what)
