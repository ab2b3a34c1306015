"""How a command is carried out: in a layer of its own, or, if it only looks, beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from interlock.engine.examination import BYPRODUCTS
from interlock.engine.model import CommandResult
from interlock.engine.plan import layer_name
from interlock.engine.recording import Recording, Slot
from interlock.engine.world import CommandCall, Layer

LISTED = 200
"""Changed files that an event names."""
AsOf = tuple[Any, Sequence[str]]
"""A snapshot, and files that are to be as they were then."""


async def carry_out(
    run: Recording, call: CommandCall, name: str, *, looks: bool, writes: bool, as_of: AsOf | None
) -> CommandResult:
    """How a command ended, recorded or made now.

    One that only looks is no effect: the run does not come into being by it, a dry run makes it too, and after a crash
    it is simply made again.
    """
    shown = [run.world.redact(word) for word in call.argv]
    asked: dict[str, Any] = {"argv": shown, "cwd": call.cwd, "stdin": call.stdin}
    if not looks:
        # The names of the variables say what was asked; their values may be secrets and stay out of the journal.
        asked["env"] = sorted(call.env)
        if as_of is not None:
            asked["as_of"] = [as_of[0], list(as_of[1])]
    slot = run.recall(name, asked)
    if slot.recorded:
        return slot.meaning(CommandResult.from_json)
    if looks:
        result = await run.world.inspect(call, marker=f"{run.identity.run_id}:{slot.key}:inspect")
    else:
        result = await _in_a_layer(run, slot, call, shown, writes=writes, as_of=as_of)
    slot.settle("inspect" if looks else "command", dict(vars(result)), facts={"argv": shown[:20]})
    return result


async def _in_a_layer(
    run: Recording, slot: Slot, call: CommandCall, shown: Sequence[str], *, writes: bool, as_of: AsOf | None
) -> CommandResult:
    """A command over the workspace, announced before it begins. It can be made again after a crash: nothing but its
    import touches the tree."""
    world = run.world
    run.stop_here(slot.key, "command", lambda: call)
    run.materialize()
    if slot.intent("command.intent"):
        world.end_leftovers(f"{run.identity.run_id}:{slot.key}:", None, None)
    else:
        slot.append("command.intent", {"argv": list(shown), "cwd": call.cwd})
    layer = await world.layer(layer_name(run.identity, slot), None)
    try:
        if as_of is not None:
            await layer.start_from(await world.tree.past(*as_of))
        run.effect()
        marker = f"{run.identity.run_id}:{slot.key}:1"
        result = await world.command(call, key=slot.key, marker=marker, within=layer)
        return result if as_of is not None else await _taken_over(run, slot, layer, result, writes=writes)
    finally:
        await layer.close()


async def _taken_over(
    run: Recording, slot: Slot, layer: Layer, result: CommandResult, *, writes: bool
) -> CommandResult:
    """Keep what the project ignores; bring in, or report and drop, what else changed."""
    found = await layer.found()
    if found.over:
        slot.append("command.dropped", {"why": found.over, "paths": []})
        return replace(result, exit=result.exit or 1, stderr=f"{result.stderr}\n{found.over}\n".lstrip())
    guarded = run.guarded
    await layer.take_ignored([path for path in found.ignored if not guarded(path)])
    paths = tuple(change.path for change in found.changes if change.path not in found.refused)
    if not paths:
        return result
    if not writes or result.timed_out:
        caches = all(BYPRODUCTS.covers(path) for path in paths)
        facts = {"why": "it is not declared to write", "paths": list(paths[:LISTED]), "byproducts": caches}
        slot.append("command.dropped", facts)
        return replace(result, changed=paths[:LISTED])
    allowed = [path for path in paths if not guarded(path) and run.options.covers(path)]
    imported = await run.world.bring_in(await layer.work(allowed), slot.key)
    if imported.ok:
        return replace(result, changed=tuple(allowed))
    said = "conflict with an edit made meanwhile: " + ", ".join(imported.conflicts)
    return replace(result, exit=result.exit or 1, stderr=f"{result.stderr}\n{said}\n".lstrip())
