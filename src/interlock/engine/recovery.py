"""The layer in which a dispatch works: a new one, or the one that a process which is gone left with all its work.

What was cut off is not started over where that can be helped (LY-15, LY-38).  Did its program end, the launcher has
left how, and the call is examined as if the engine had seen it.  Was it cut off in the middle and can it go on with a
session of its own, it does so in the same layer, with the time that it had left.  Otherwise what it did is kept as a
patch and it starts anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interlock.agents.runner import AgentExit
from interlock.engine.folder import HOME
from interlock.engine.journal import Line
from interlock.engine.plan import Baseline, DispatchPlan
from interlock.engine.world import Layer, redacted
from interlock.workspace import Exit

if TYPE_CHECKING:
    from interlock.engine.recording import Recording

SHORTEST_S = 60.0
"""What a call that goes on gets at least, if its time limit was that long at all."""


@dataclass(frozen=True)
class Cut:
    """A call that an engine left without a recorded end."""

    attempt: int
    marker: str
    started: datetime
    ended: AgentExit | None
    """What it came to, where its program had ended; None when it was ended with its engine."""
    at: datetime
    """When it was last heard of."""
    session: str
    """The agent's own session, to go on with; empty when it cannot."""
    left_s: float


@dataclass
class Ground:
    """What the tries of a dispatch stand on."""

    layer: Layer
    baseline: Baseline
    cut: Cut | None = None

    def taken_cut(self) -> Cut | None:
        cut, self.cut = self.cut, None
        return cut


Recall = Callable[[Layer, Line, Exit], Awaitable[AgentExit | None]]
"""What a call came to, from its start, its layer and the exit of its program."""


async def open_ground(run: Recording, plan: DispatchPlan, recall: Recall) -> Ground:
    """The dispatch's layer, with what there is to know of an unfinished try in it."""
    slot = plan.slot
    starts = slot.intents("dispatch.start")
    if not starts:
        return await fresh_ground(run, plan)
    baseline, start = Baseline.from_json(starts[0].data["baseline"]), starts[-1]
    if "layer" not in start.data:
        text = (
            f"{plan.spec.name} was cut off under a version of interlock that let agents write into the tree: what it "
            "had changed is still there. Look at it with: git diff. The agent starts anew."
        )
        slot.append("warning", {"text": text}, agent=plan.spec.agent)
        return await fresh_ground(run, plan)
    layer = await run.world.kept_layer(plan.layer, plan.bound, outer=outer_facts(plan))
    if (closing := later(plan, start, "dispatch.try")) is not None:
        if layer is None:
            return await fresh_ground(run, plan)
        return Ground(layer, baseline, cut_short(run, plan, start) if closing.data.get("exhausted") else None)
    running = later(plan, start, "dispatch.running")
    process = running.data if running is not None else {}
    ended = run.world.end_leftovers(plan.marker, process.get("pgid"), process.get("started"))
    facts: dict[str, Any] = {"try": start.data["try"], "ended": ended}
    ground = await _taken_up(run, plan, start, layer, baseline, recall, facts)
    slot.append("dispatch.recovered", facts, agent=plan.spec.agent)
    return ground


async def _taken_up(
    run: Recording,
    plan: DispatchPlan,
    start: Line,
    layer: Layer | None,
    baseline: Baseline,
    recall: Recall,
    facts: dict[str, Any],
) -> Ground:
    if layer is None:
        facts["how"] = "nothing was left of it: it starts anew"
        return await fresh_ground(run, plan)
    exit_ = layer.exit()
    if exit_ is not None and (ended := await recall(layer, start, exit_)) is not None:
        facts["how"] = "it had ended: its answer is examined"
        cut = _cut(run, plan, start, session="")
        return Ground(layer, baseline, replace(cut, ended=ended, at=datetime.fromisoformat(exit_.at)))
    if session := _session(run, plan, start):
        facts["how"] = "its session goes on in its layer"
        return Ground(layer, baseline, _cut(run, plan, start, session=session))
    facts |= await _kept(run, plan, start, layer)
    await layer.close()
    return await fresh_ground(run, plan)


def _cut(run: Recording, plan: DispatchPlan, start: Line, *, session: str) -> Cut:
    started, limit = datetime.fromisoformat(start.ts), float(start.data["timeout_s"])
    heard = max(started, run.world.records.last_sign(plan.slot.key) or started)
    return Cut(
        attempt=start.attempt or plan.spec.attempt,
        marker=start.data["marker"],
        started=started,
        ended=None,
        at=heard,
        session=session,
        left_s=max(limit - (heard - started).total_seconds(), min(SHORTEST_S, limit)),
    )


async def fresh_ground(run: Recording, plan: DispatchPlan) -> Ground:
    layer = await run.world.layer(plan.layer, plan.bound, outer=outer_facts(plan))
    for path in plan.spec.inputs:
        if path.startswith(f"{HOME}/") and (content := run.world.documents.facts(path).content) is not None:
            layer.show(path, content)
    if plan.spec.starts_from is not None:
        await layer.start_from(plan.spec.starts_from)
    return Ground(layer, Baseline.of(layer, plan.spec.contract))


async def _kept(run: Recording, plan: DispatchPlan, start: Line, layer: Layer) -> dict[str, Any]:
    """What an unfinished try did, as a patch among the dispatch's records."""
    found = await layer.found()
    paths = [change.path for change in found.changes if change.path not in found.refused]
    if not paths:
        return {"how": "it starts anew"}
    patch = redacted(run.world, await run.world.patch_of(await layer.work(paths)))
    kept = run.world.records.keep(plan.slot.key, f"interrupted-{start.seq}.patch", patch)
    return {"how": "it starts anew; what it had done is kept as a patch", "paths": paths[:200], "patch": kept}


def outer_facts(plan: DispatchPlan) -> dict[str, Any]:
    """What a run that the agent starts inside its layer is told of where it is (EN-39)."""
    return {
        "run": plan.identity.run_id,
        "playbook": plan.identity.playbook,
        "key": plan.identity.key,
        "dispatch": plan.slot.key,
        "depth": plan.delegation.depth,
        "path": list(plan.delegation.path),
        "writes": list(plan.scope.patterns),
    }


def cut_short(run: Recording, plan: DispatchPlan, start: Line) -> Cut | None:
    """A call that was ended because its share of the budget was used up: it goes on with its session, if it can."""
    session = _session(run, plan, start)
    return _cut(run, plan, start, session=session) if session else None


def _session(run: Recording, plan: DispatchPlan, start: Line) -> str:
    """The agent's own session of this call, if the agent can go on with one."""
    told = later(plan, start, "dispatch.session")
    return str(told.data["session"]) if told is not None and run.world.can_go_on(plan.bound) else ""


def later(plan: DispatchPlan, start: Line, event: str) -> Line | None:
    line = plan.slot.intent(event)
    return line if line is not None and line.seq > start.seq else None
