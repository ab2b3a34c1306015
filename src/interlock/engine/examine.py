"""What came of a call: what its layer holds is sorted into what counts and what does not, and told at once.

Scope, guarded paths, what was set back, outputs, form and, of a judge, the claim: one report for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.agents.values import Exit, Role, TroubleKind
from interlock.engine import delivery, evidence
from interlock.engine import events as ev
from interlock.engine.forms import Form, Given, Unusable, read_form
from interlock.engine.prompts import quoted
from interlock.workspace import scope
from interlock.workspace.values import Found, Pending, Remark, RemarkKind, Tree

if TYPE_CHECKING:
    from interlock.engine.dispatch import Dispatch, Ground
    from interlock.engine.run import Call, Run


async def examine(dispatch: Dispatch, ground: Ground, exit_: Exit, *, told: bool) -> ev.Report:
    """One report of a call.

    Args:
        told: it was asked once more already, so that what it set back is given back without asking again.
    """
    run, call, slot = dispatch.run, dispatch.call, dispatch.slot
    row, world = call.row, run.world
    found = await ground.seat.found(await delivery.own_blobs(run))
    text = world.redact(exit_.text)
    content = text.encode("utf-8", "backslashreplace")
    world.folder.keep(slot.key, "answer.md", content)
    report = ev.Report(
        agent=row.agent,
        member=call.member,
        attempt=call.attempt,
        outcome="fault",
        text=world.folder.put(content),
        shown=ground.shown,
        calls=sum(isinstance(trace, ev.Called) for trace in slot.traces),
        usage=exit_.usage,
        seconds=exit_.seconds,
        session=exit_.session,
        model=exit_.model,
        remarks=tuple(Remark(kind=RemarkKind.CLIENT, text=line) for line in exit_.refused[:5]),
    )
    kept = found.mended if found.mended != ground.shown else None
    if (trouble := _trouble(exit_)) is not None:
        reason, words = trouble
        return report.model_copy(update={"reason": reason, "complaint": world.redact(words), "kept": kept})

    read = await _read(run, call, ground, found, exit_, text, told)
    form = None if isinstance(read, Unusable) else read
    work = await _sort(run, call, dispatch.role, ground, found, form)
    owed = () if isinstance(form, Form) and form.gives_up() else row.outputs
    missing = [path for path in owed if path not in work.paths and await ground.seat.read(path) is None]
    hard = [
        *(read.problems if isinstance(read, Unusable) and (row.judges or row.answers or row.read) else ()),
        *(f"the output {quoted(path)} is missing" for path in missing),
        *(f"you may not write {quoted(world.redact(path))}" for path in work.outside),
    ]
    report = report.model_copy(
        update={
            "complaint": "\n".join([*hard, *([] if told else work.asks)]),
            "form": form.model_dump(mode="json") if form is not None else None,
            "conflicts": (*ground.lost, *work.clashes) if not row.judges else work.clashes,
            "remarks": (*report.remarks, *work.remarks),
        }
    )
    did = Pending(base=ground.shown, work=work.tree) if work.tree != ground.shown else None
    counts = {"did": did, "paths": tuple(work.paths), "held": work.held}
    if hard:
        failed = isinstance(read, Unusable) and read.final
        reason = "scope" if work.outside else "error" if failed else "unusable"
        stays = counts if row.stays else {}
        return report.model_copy(update={"reason": reason, "kept": kept, **stays})
    if work.clashes:
        return report.model_copy(update={**counts, "reason": "conflict", "complaint": ""})
    report = report.model_copy(update={**counts, "outcome": "done"})
    if row.judges and form is not None:
        report = await evidence.rule(run, call, report, form, ground, last=told)
    return report


async def _read(run: Run, call: Call, ground: Ground, found: Found, exit_: Exit, text: str, told: bool) -> Any:
    """The form of an answer, why it cannot be used, or None where none is asked for."""
    row = call.row
    if row.read is None:
        return read_form(row.form, exit_.form, text) if row.form is not None else None
    changed = [change.path for change in await run.world.between(ground.shown, found.result)] if row.may else []
    outputs, gone = {}, []
    for path in (*row.outputs, *(path for path in changed if scope.within(path, row.may))):
        content = await ground.seat.read(path)
        if content is not None:
            outputs[path] = run.world.redact(content.decode("utf-8", "replace"))
        else:
            gone.append(path)
    return row.read(Given(exit_.form, text, outputs, tuple(gone), told, exit_.late))


def _trouble(exit_: Exit) -> tuple[str, str] | None:
    """Why a call does not count at all: reason and words. A turn that did not end proves nothing (EVID-10)."""
    trouble = exit_.trouble
    kind, words = (trouble.kind, trouble.text) if trouble else (None, exit_.stderr.strip())
    if exit_.over:
        return "over", f"it grew beyond its bounds: {exit_.over}"
    if exit_.exhausted:
        return "budget", "its share of the budget is used up"
    if exit_.finished and kind is not TroubleKind.LIMIT:
        return None
    if kind in (TroubleKind.LIMIT, TroubleKind.LOGIN, TroubleKind.MODEL, TroubleKind.REFUSED, TroubleKind.SESSION):
        return kind.value, words
    if not exit_.started:
        return "no start", words or "it could not be started"
    if exit_.timed_out:
        return "timeout", f"it was not done within its time ({exit_.seconds:.0f} s)"
    return "busy" if trouble else "crash", words or f"it ended with {exit_.exit}, and its turn did not end"


@dataclass(frozen=True)
class Work:
    """What of a layer's result counts, and what does not."""

    tree: Tree
    paths: list[str]
    outside: list[str]
    clashes: tuple[str, ...]
    held: Pending | None
    remarks: list[Remark]
    asks: list[str]
    """What is asked for once, and mended or told afterwards."""


async def _sort(run: Run, call: Call, role: Role, ground: Ground, found: Found, form: Any) -> Work:
    """What a layer holds, path by path: taken back, written by the person too, out of scope, guarded, or work."""
    row, world, shown, result = call.row, run.world, ground.shown, found.mended
    remarks, asks = list(found.remarks), []

    def told(kind: RemarkKind, text: str, paths: list[str], new: Tree) -> None:
        if paths:
            remarks.append(Remark(kind=kind, text=text, paths=tuple(map(world.redact, paths)), old=shown, new=new))

    meant = [path for path in getattr(form, "takes_back", []) if path in found.set_back]
    if meant:
        result = await world.graft(result, found.result, meant)
        told(RemarkKind.TAKEN_BACK, "it says that it means to", meant, result)
    asked = [path for path in found.set_back if path not in meant and scope.named(path, call.request)]
    if gone := [path for path in asked if await world.read(found.result, path) is None]:
        result = await world.graft(result, found.result, gone)
        told(RemarkKind.TAKEN_BACK, "it is not there any more, and the request names it", gone, result)
    # An output that is written where none lies takes nothing back, though git had the same once.
    anew = [path for path in found.set_back if row.leaves(path) and await world.read(shown, path) is None]
    result = await world.graft(result, found.result, anew) if anew else result
    if back := [path for path in found.set_back if path not in (*meant, *gone, *anew)]:
        text = "older versions of what the person has not committed, or their absence: given back"
        told(RemarkKind.SET_BACK, text, back, found.result)
        asks.append(
            f"{', '.join(map(quoted, back))}: you set back what the person has not committed, which does not count "
            "as work. If the task means it, name the paths in `takes_back`"
        )
    clashes = [path for path in found.clashes if not row.judges or path in row.outputs]
    told(RemarkKind.CONFLICT, "you and the person changed it: the person's version stands", clashes, found.result)
    asks += [remark.text for remark in found.remarks if remark.kind is RemarkKind.GIT]

    changed = [change.path for change in await world.between(shown, result)]
    state = [path for path in changed if path in run.watched and not row.leaves(path)]
    names, outside, held = run.limits.guarded, list[str](), list[str]()
    for path in (path for path in changed if path not in state):
        in_scope = scope.within(path, row.writes) and (role.writes is None or scope.within(path, role.writes))
        # A name with a secret in it would stand in every record.
        if world.redact(path) != path or not (row.leaves(path) or in_scope):
            outside.append(path)
        elif scope.guarded(path, names) and not row.leaves(path):
            spelled = scope.spelled(path, row.writes, names) or scope.named(path, call.request)
            held += [] if spelled else [path]
    told(RemarkKind.STATE, "a document that interlock alone writes: dropped", state, result)
    told(RemarkKind.HELD_BACK, "steers agents or tools", held, result)
    by_product = (RemarkKind.BY_PRODUCT, "left beside its answer: dropped")
    told(*(by_product if row.judges else (RemarkKind.OUTSIDE, "outside of its scope: kept out")), outside, result)
    drop = [*state, *outside, *held]
    remarks = [  # what is dropped changes nothing of the person's
        one.model_copy(update={"paths": tuple(path for path in one.paths if path not in drop)})
        if one.kind is RemarkKind.CHANGED
        else one
        for one in remarks
        if one.kind is not RemarkKind.CHANGED or not set(one.paths) <= set(drop)
    ]
    return Work(
        tree=await world.graft(result, shown, drop) if drop else result,
        paths=[path for path in changed if path not in drop],
        outside=[] if row.judges else outside,
        clashes=tuple(clashes),
        held=Pending(base=shown, work=await world.graft(shown, result, held)) if held else None,
        remarks=remarks,
        asks=[] if row.judges else asks,
    )


def complaint(report: ev.Report) -> str:
    """What an agent is told that is asked once more."""
    refuted = [
        f"`{check.command}`: told {check.told}, {check.why or 'it does not run so'}"
        for check in report.checks
        if check.word == "refuted"
    ]
    lines = [*report.complaint.splitlines(), *refuted]
    return "Your answer cannot be used as it is:\n\n" + "\n".join(f"- {line}" for line in lines)
