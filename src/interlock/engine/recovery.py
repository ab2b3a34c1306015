"""What a dispatch that never ended left behind, and how it is cleared up before the next try (EN-13, EN-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.engine.journal import Line
from interlock.engine.plan import Baseline, Plan, outbox_of

if TYPE_CHECKING:
    from interlock.engine.run import Run


async def recover(run: Run, plan: Plan) -> Baseline | None:
    """End the processes of an unfinished try, keep its changes as a patch and put back its scope.

    A person may have edited other files since: those stay as they are and are listed. Returns what the artifacts were
    before the first try; None when this dispatch never started before.
    """
    slot = plan.slot
    starts = slot.intents("dispatch.start")
    if not starts:
        return None
    baseline, start = Baseline.from_json(starts[0].data["baseline"]), starts[-1]
    if is_closed(plan, start):
        return baseline
    running = slot.intent("dispatch.running")
    process = running.data if running is not None and running.seq > start.seq else {}
    facts: dict[str, Any] = {
        "try": start.data["try"],
        "ended": run.world.end_leftovers(plan.marker, process.get("pgid"), process.get("started")),
    }
    if not start.data["isolated"]:
        facts |= await put_back(run, plan, start)
        clear_outbox(run, plan, start)
        baseline = baseline.after_restoring(run.world.tree)
    slot.append("dispatch.recovered", facts, agent=plan.spec.agent)
    return baseline


def is_closed(plan: Plan, start: Line) -> bool:
    """Whether something after this start says how it went."""
    later = (plan.slot.intent("dispatch.try"), plan.slot.intent("dispatch.recovered"))
    return any(line is not None and line.seq > start.seq for line in later)


def clear_outbox(run: Run, plan: Plan, start: Line) -> None:
    """What the unfinished try had put there would pass for the work of the next one."""
    documents, box = run.world.documents, outbox_of(start.data["marker"])
    if documents.list(box, "**/*"):
        place = f".interlock/attic/{plan.identity.run_id}/{plan.slot.key}/interrupted-{start.seq}"
        documents.set_aside_to(box, place)


async def put_back(run: Run, plan: Plan, start: Line) -> dict[str, Any]:
    tree, before = run.world.tree, start.data["snapshot"]
    now = await tree.snapshot()
    changed = [change.path for change in await tree.changes(before, now)]
    by_engine = {path for path in changed if path in run.own_writes and tree.facts(path).digest == run.own_writes[path]}
    mine = [path for path in changed if path not in by_engine and plan.scope.covers(path)]
    facts: dict[str, Any] = {"restored": mine, "left": [p for p in changed if p not in mine and p not in by_engine]}
    if mine:
        patch = await tree.patch(before, now, mine)
        facts["patch"] = run.world.records.keep(plan.slot.key, f"interrupted-{start.seq}.patch", patch)
        await tree.restore(before, mine)
    return facts
