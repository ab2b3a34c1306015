"""A playbook that calls another: how deep, within which caps, and how the called one ends for its caller (OW-06).

Both write one journal.  The keys of the called one stand below the scope in which it was called, under its name; the
two lines around them say what was asked and how it ended.  A replay plays it again like everything else: what it
recorded it gets back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from interlock.engine.definition import Playbook
from interlock.engine.model import Ending, Stop, plain
from interlock.errors import AgentFailed, BadInput, ConfigInvalid, EngineFault

if TYPE_CHECKING:
    from interlock.engine.recording import Recording, Slot
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


async def call(
    run: Recording,
    other: Playbook,
    inputs: Any,
    caps: Mapping[str, int],
    writes: tuple[str, ...] | None,
    face: Callable[[Recording], Run],
) -> Ending:
    """Play it in this run: how it ended.

    Args:
        face: what the called one sees of the run.
    """
    chain = deeper(run.chain, other, inputs)
    asked = {"playbook": other.name, "inputs": plain(chain[-1][1]), "caps": dict(caps), "writes": plain(writes)}
    slot = run.recall("call", asked)
    began, over = slot.recorded, run.is_recorded("called")
    if not began:
        slot.settle("call", None, facts={"playbook": other.name, "key": other.key(inputs)})
    inner = face(run.for_called(other, inputs, chain, caps, writes))
    if run.resumed and began and not over and other.on_resume is not None:
        with run.step(other.name, replayed=False):
            await other.on_resume(inner, inputs, run.resumed)
    with run.step(other.name):
        ending = await _played(run, other, inner, inputs)
    slot = run.recall("called", {"playbook": other.name})
    if slot.recorded:
        return _as_recorded(run, slot, ending)
    facts = {"playbook": other.name, "status": ending.status.value, "reason": ending.reason[:400]}
    slot.settle("called", ending.to_json(), facts=facts)
    return ending


async def _played(run: Recording, other: Playbook, inner: Run, inputs: Any) -> Ending:
    """How the called one ends; what it could not do is an ending too.

    What people can mend in the settings is not for a caller to go on with: that ends the whole run, as does every fault
    of the engine.
    """
    try:
        return await other.function(inner, inputs)
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


def _as_recorded(run: Recording, slot: Slot, ending: Ending) -> Ending:
    recorded = Ending.from_json(slot.value())
    if recorded != ending and not run.options.accept_recorded:
        now = f"now ends {ending.status}; recorded is {recorded.status}"
        raise slot.diverged(f"the playbook called at {slot.key} {now}")
    return recorded
