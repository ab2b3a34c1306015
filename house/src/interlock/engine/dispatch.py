"""One dispatch: an agent is asked, what it left is looked at, and counts or not.

Whoever reads this knows what happens between a playbook's `run.dispatch` and its `Report`:

1. The layer shows the person's tree of this moment with what the run has done so far (`shown`).
2. The call is noted (`Started`), synced, made (`world.call`).
3. What the layer holds is a tree (`Found`).  Scope, guarded paths, what was set back, outputs, form and, of a judge,
   the claim are looked at on it (`examine`): one report, with everything that is wrong at once.
4. A table says what follows: wait for a limit, repeat after weather, ask once more with the complaint, or end.
5. What counts moves the run's pending pair on, and only then is it recorded (`Done`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from interlock.agents.values import Ask, Exit, News, NewsKind, Role, TroubleKind
from interlock.documents.model import plain
from interlock.engine import brief, delivery, evidence
from interlock.engine import events as ev
from interlock.engine.forms import Unusable, fingerprint, read_form, schema
from interlock.engine.halts import Parked
from interlock.engine.keys import here
from interlock.engine.prompts import fence
from interlock.engine.replay import Slot
from interlock.engine.world import Seat
from interlock.workspace import scope
from interlock.workspace.values import Found, Pending, Remark, RemarkKind, Standing, Tree

if TYPE_CHECKING:
    from interlock.engine.run import Call, Run

Move = Literal["end", "wait", "repeat", "repair"]
WEATHER = frozenset({"no start", "crash", "timeout", "busy", "session"})
DELAYS_S = (1.0, 5.0)


@dataclass(frozen=True)
class Used:
    """What of its repeats a dispatch has used up."""

    repeats: int = 0
    repairs: int = 0
    waits: int = 0

    @classmethod
    def of(cls, traces: Sequence[ev.Event]) -> Used:
        """As recorded, since the run was last parked."""
        used = cls()
        for trace in traces:
            if isinstance(trace, ev.Tried):
                used = cls() if trace.move == "gave up" else used.after(trace.move)
        return used

    def after(self, move: str) -> Used:
        match move:
            case "repeat":
                return replace(self, repeats=self.repeats + 1)
            case "repair":
                return replace(self, repairs=self.repairs + 1)
            case _:
                return replace(self, waits=self.waits + 1)


def after_try(reason: str, complaint: str, used: Used, repeats: int, repairs: int) -> Move:
    """What follows a call that ended so (RUN-13)."""
    if reason == "limit":
        return "wait"
    if reason in WEATHER:
        return "repeat" if used.repeats < repeats else "end"
    if reason in ("login", "model", "refused", "over", "conflict"):
        return "end"
    return "repair" if complaint and used.repairs < repairs else "end"


def asked(call: Call) -> dict[str, Any]:
    """What a dispatch is asked: role, member, inputs and form, never the wording of a brief (RUN-21)."""
    form = call.row.form
    return {
        "role": call.row.agent,
        "member": call.member,
        "attempt": call.attempt,
        "inputs": {name: plain(value) for name, value in call.inputs.items()},
        "form": fingerprint(form) if form else None,
    }


async def perform(run: Run, call: Call, slot: Slot[ev.Done]) -> None:
    """Make the dispatch happen, until its slot is settled; or the run is parked."""
    role = run.world.role(call.row.agent, judges=call.row.judges)
    ground = await _ground(run, call, slot, role)
    if ground is None:
        return
    used, failure, session = Used.of(slot.traces), ground.failure, ground.session
    exit_ = await _ended_unseen(run, call, slot, role, ground) if ground.goes_on else None
    while True:
        if exit_ is None:
            exit_ = await _call(run, call, slot, role, ground, used, session, failure)
        report = await examine(run, call, ground, exit_, slot, told=used.repairs > 0)
        move = after_try(report.reason, report.complaint, used, call.row.repeats, call.row.repairs)
        if exit_.exhausted:
            _give_up(slot, report)
            raise _no_budget(run)
        if move == "end":
            break
        used = used.after(move)
        session = exit_.session if move != "repeat" else ""
        failure = _complaint(report) if move == "repair" else failure
        await _between(run, slot, report, move, used, exit_, role)
        exit_ = None
    if not report.ok and report.reason != "conflict" and not call.row.lost:
        _give_up(slot, report)
        raise Parked("failed", f"{call.row.agent}: {report.complaint or report.reason}", _go_on(run))
    await _settle(run, slot, ground, report)
    await ground.seat.drop(keep_ignored=not call.row.judges)


async def _call(
    run: Run, call: Call, slot: Slot[ev.Done], role: Role, ground: Ground, used: Used, session: str, failure: str
) -> Exit:
    """One start of the client: noted, synced, made."""
    await _wait_for_service(run, slot, role, used)
    share, heard = _share(run), run.full.unheard
    text = brief.render(
        run,
        call,
        role,
        slot.key,
        step=here().step,
        session=session,
        heard=heard,
        failure=failure,
        unsaved=ground.unsaved,
        pending=ground.shown != ground.standing.tree,
        remarks=_known(run, call),
    )
    text = run.world.redact(text)
    run.world.folder.keep(slot.key, "brief.md", text.encode("utf-8", "backslashreplace"))
    n = 1 + sum(isinstance(trace, ev.Started) for trace in slot.traces)
    slot.add(_started(run, call, slot, role, ground, text, session, heard, n), sync=True)
    ask = _ask(run, call, slot, role, text, session, share)
    return await run.world.call(ask, ground.seat, _hear(run, slot))


async def _ended_unseen(run: Run, call: Call, slot: Slot[ev.Done], role: Role, ground: Ground) -> Exit | None:
    """How the call of a dead process ended, where its turn had ended: no agent that ended is called again."""
    last = _cut_off(slot.traces)
    assert last is not None
    ask = _ask(run, call, slot, role, run.text(last.brief), last.session, (None, None))
    return await run.world.recover(ask, ground.seat)


# --- where it works


@dataclass(frozen=True)
class Ground:
    """The layer of one dispatch, and the trees that it begins with."""

    seat: Seat
    standing: Standing
    pair: Pending
    shown: Tree
    unsaved: bool
    lost: tuple[str, ...] = ()
    """Paths on which the run's work could not be shown beside what the person wrote: theirs stands."""
    session: str = ""
    failure: str = ""
    goes_on: bool = False
    """It is the layer of a process that died while the agent worked, as it lies."""


async def _ground(run: Run, call: Call, slot: Slot[ev.Done], role: Role) -> Ground | None:
    """A layer for it: that of a dead process as it lies, else a new one. None: a judge met a conflict."""
    world = run.world
    name = _layer_name(call, slot.key)
    last = _cut_off(slot.traces)
    if last is not None and (seat := await world.seat(name, role, last.standing, last.shown, goes_on=True)):
        return Ground(
            seat,
            last.standing,
            last.pair,
            last.shown,
            last.standing.unsaved,
            session=_session(slot.traces),
            failure=_failure(slot),
            goes_on=True,
        )
    standing = await world.standing(run.start.where, run.full.standing)
    pair = run.full.pending
    assert pair is not None
    shown, lost = await delivery.merged(run.world, pair, standing.tree)
    if lost and call.row.judges:
        report = ev.Report(
            agent=call.row.agent,
            member=call.member,
            attempt=call.attempt,
            outcome="fault",
            reason="conflict",
            conflicts=lost,
            calls=0,
        )
        slot.add(_unstarted(call, standing, pair, role))
        slot.settle(ev.Done(report=report, pair=pair, standing=standing))
        return None
    seat = await world.seat(name, role, standing, shown, goes_on=False)
    assert seat is not None
    failure = _failure(slot)
    if lost:
        kept = await world.patch(pair.base, pair.work, lost)
        text = run.world.redact(kept.decode("utf-8", "backslashreplace"))
        failure = "\n\n".join(
            one
            for one in (
                failure,
                "The person changed the same lines meanwhile: their version stands. This was the run's change of "
                f"{', '.join(map(brief.quoted, lost))}; make it again on what stands there now:\n\n"
                f"{fence(text, 'diff')}",
            )
            if one
        )
    return Ground(seat, standing, pair, shown, standing.unsaved, lost, failure=failure)


def _layer_name(call: Call, key: str) -> str:
    """A writer's layer is its own for the whole run, for the sake of its caches; a judge's is new each time."""
    who = call.member or call.row.agent
    return who if not call.row.judges else f"{who}-{key.replace('/', '-').replace('#', '-')}"[-150:]


def _cut_off(traces: Sequence[ev.Event]) -> ev.Started | None:
    """The call that a dead process was making, if it was."""
    for trace in reversed(traces):
        if isinstance(trace, ev.Started):
            return trace
        if isinstance(trace, ev.Tried):
            return None
    return None


def _session(traces: Sequence[ev.Event]) -> str:
    for trace in reversed(traces):
        if isinstance(trace, ev.Heard) and trace.news.kind is NewsKind.SESSION:
            return str(trace.news.facts.get("session") or "")
    return ""


def _failure(slot: Slot[ev.Done]) -> str:
    last = next((trace for trace in reversed(slot.traces) if isinstance(trace, ev.Tried)), None)
    return _complaint(last.report) if last and last.move == "repair" else ""


# --- the call


def _started(
    run: Run,
    call: Call,
    slot: Slot[ev.Done],
    role: Role,
    ground: Ground,
    text: str,
    session: str,
    heard: tuple[ev.Words, ...],
    n: int,
) -> ev.Started:
    return ev.Started(
        agent=call.row.agent,
        member=call.member,
        step=here().step or here().path.split("/", 1)[0],
        attempt=call.attempt,
        n=n,
        runner=role.runner,
        model=role.model,
        role=role.source,
        session=session,
        standing=ground.standing,
        pair=ground.pair,
        shown=ground.shown,
        layer=ground.seat.name,
        confined=ground.seat.confined,
        brief=run.world.folder.put(text.encode("utf-8", "backslashreplace")),
        heard=heard,
        timeout_s=role.timeout_s or call.row.timeout_s,
    )


def _unstarted(call: Call, standing: Standing, pair: Pending, role: Role) -> ev.Started:
    """A dispatch that is not paid for still has a line of who it was."""
    return ev.Started(
        agent=call.row.agent,
        member=call.member,
        step=here().step,
        attempt=call.attempt,
        n=0,
        runner=role.runner,
        standing=standing,
        pair=pair,
        shown=standing.tree,
        layer="",
        brief=ev.Digest(""),
    )


def _ask(
    run: Run,
    call: Call,
    slot: Slot[ev.Done],
    role: Role,
    text: str,
    session: str,
    share: tuple[float | None, int | None],
) -> Ask:
    return Ask(
        role=role,
        brief=text,
        form=schema(call.row.form) if call.row.form else None,
        known=call.row.form.known(call.criteria, bool(call.proved)) if call.row.form else {},
        samples=_samples(call),
        session=session,
        marker=f"{run.id}/{slot.key}",
        env={
            "INTERLOCK_RUN_ID": run.id,
            "INTERLOCK_PLAYBOOK": run.start.playbook,
            "INTERLOCK_STEP": here().step or here().path.split("/", 1)[0],
            "INTERLOCK_AGENT": call.row.agent,
            "INTERLOCK_MEMBER": call.member or call.row.agent,
            "INTERLOCK_ATTEMPT": str(call.attempt),
            "INTERLOCK_DISPATCH": slot.key,
            "INTERLOCK_SESSION": session,
        },
        timeout_s=role.timeout_s or call.row.timeout_s,
        budget_usd=share[0],
        budget_tokens=share[1],
        transcript=run.world.folder.transcript(slot.key),
    )


def _samples(call: Call) -> dict[str, str]:
    """What who plays by script leaves: the outputs, and a file in its scope."""
    inside = scope.example(call.row.writes, call.member or call.row.agent)
    return dict.fromkeys((*call.row.outputs, *([inside] if inside else [])), "")


def _hear(run: Run, slot: Slot[ev.Done]) -> Any:
    """News as they come: all of them to who watches, into the journal what outlives the call."""
    told = 0

    def hear(news: News) -> None:
        nonlocal told
        if news.kind is NewsKind.SESSION:
            slot.add(ev.Heard(news=news))
        elif news.kind is NewsKind.USAGE:
            tokens = (news.facts.get("input_tokens") or 0) + (news.facts.get("output_tokens") or 0)
            if tokens > told * 1.2:  # a cut-off call's cost counts, but not every message is a line
                told = tokens
                slot.add(ev.Heard(news=news))
        run.hear(slot.key, news)

    return hear


async def _wait_for_service(run: Run, slot: Slot[ev.Done], role: Role, used: Used) -> None:
    until = run.limited.get(role.runner)
    last = slot.traces[-1] if slot.traces else None
    if isinstance(last, ev.Tried) and last.move == "wait" and last.until:
        until = max(last.until, until) if until else last.until
    if until is not None and until > run.world.now():
        await run.world.sleep_until(until)


async def _between(
    run: Run, slot: Slot[ev.Done], report: ev.Report, move: Move, used: Used, exit_: Exit, role: Role
) -> None:
    """What is noted and waited for before the next call of the same dispatch."""
    assert move != "end"
    now, until, delay = run.world.now(), None, 0.0
    if move == "wait":
        until = _limit_ends(now, exit_, used.waits)
        waited = sum(trace.delay_s for trace in slot.traces if isinstance(trace, ev.Tried) and trace.move == "wait")
        delay = (until - now).total_seconds()
        if waited + delay > run.limits.rate_limit_wait_s:
            _give_up(slot, report)
            raise Parked("waiting", f"{role.runner}: {report.complaint}", _go_on(run), until)
        run.limited[role.runner] = until
        run.hear(slot.key, News(kind=NewsKind.WAITING, facts={"why": report.complaint, "until": until.isoformat()}))
    elif move == "repeat":
        delay = DELAYS_S[min(used.repeats - 1, len(DELAYS_S) - 1)]
        until = now + timedelta(seconds=delay)
    slot.add(ev.Tried(report=report, move=move, delay_s=delay, until=until), sync=True)
    if until is not None:
        await run.world.sleep_until(until)


def _limit_ends(now: datetime, exit_: Exit, waits: int) -> datetime:
    """When a service takes requests again: as it says, a little later; else in steps that grow to an hour (RUN-15)."""
    told = exit_.trouble.until if exit_.trouble else None
    if told is not None and told > now:
        return told + timedelta(seconds=5)
    return now + timedelta(seconds=min(60.0 * 2 ** min(waits - 1, 10), 3600.0))


def _give_up(slot: Slot[ev.Done], report: ev.Report) -> None:
    slot.add(ev.Tried(report=report, move="gave up"))


def _go_on(run: Run) -> str:
    return f"interlock resume {run.id}"


def _share(run: Run) -> tuple[float | None, int | None]:
    """What is left of the run's budget; parks it where nothing is (RUN-14)."""
    spent, dollars, tokens = run.full.usage, run.options("budget", run.limits.budget_usd), run.limits.budget_tokens
    left_usd = None if dollars is None else dollars - (spent.cost_usd or 0.0)
    left_tokens = None if tokens is None else tokens - (spent.tokens or 0)
    if (left_usd is not None and left_usd <= 0) or (left_tokens is not None and left_tokens <= 0):
        raise _no_budget(run)
    return left_usd, left_tokens


def _no_budget(run: Run) -> Parked:
    spent = run.full.usage
    cost = f"{spent.cost_usd:.2f} USD" if spent.cost_usd is not None else f"{spent.tokens or 0} tokens"
    return Parked("waiting", f"the budget is used up: {cost}", f"interlock resume {run.id} --budget USD")


# --- what came of it


async def examine(run: Run, call: Call, ground: Ground, exit_: Exit, slot: Slot[ev.Done], *, told: bool) -> ev.Report:
    """One report of a call: what of its work counts, and everything that is wrong with it, at once.

    Args:
        told: it was asked once more already; what was set back is mended without another word.
    """
    row, world = call.row, run.world
    found = await ground.seat.found(await delivery.own(run))
    text = world.redact(exit_.text)
    world.folder.keep(slot.key, "answer.md", text.encode("utf-8", "backslashreplace"))
    report = ev.Report(
        agent=row.agent,
        member=call.member,
        attempt=call.attempt,
        outcome="fault",
        text=world.folder.put(text.encode("utf-8", "backslashreplace")),
        shown=ground.shown,
        calls=sum(isinstance(trace, ev.Started) for trace in slot.traces),
        usage=exit_.usage,
        seconds=exit_.seconds,
        session=exit_.session,
        model=exit_.model,
        remarks=tuple(Remark(kind=RemarkKind.CLIENT, text=line) for line in exit_.refused[:5]),
    )
    if (trouble := _trouble(exit_)) is not None:
        reason, words = trouble
        kept = found.mended if found.mended != ground.shown else None
        return report.model_copy(update={"reason": reason, "complaint": world.redact(words), "kept": kept})

    form = read_form(row.form, exit_.form, text) if row.form is not None else None
    complaints: list[str] = []
    if isinstance(form, Unusable) and (row.judges or row.answers):
        complaints += form.problems
    if isinstance(form, Unusable):
        form = None
    sorted_ = await _sort(run, call, ground, found, form)
    missing = [path for path in row.outputs if path not in sorted_.paths and await ground.seat.read(path) is None]
    complaints += [f"the output {brief.quoted(path)} is missing" for path in missing]
    complaints += [f"you may not write {brief.quoted(path)}" for path in sorted_.outside]
    hard = bool(complaints)
    if not told:
        complaints += sorted_.asks
    report = report.model_copy(
        update={
            "outcome": "fault" if hard else "done",
            "reason": ("scope" if sorted_.outside else "unusable") if hard else "",
            "complaint": "; ".join(complaints),
            "form": form.model_dump(mode="json") if form is not None else None,
            "did": Pending(base=ground.shown, work=sorted_.work) if sorted_.work != ground.shown else None,
            "paths": tuple(sorted_.paths),
            "held": sorted_.held,
            "conflicts": (*ground.lost, *found.clashes) if not row.judges else (),
            "remarks": (*report.remarks, *sorted_.remarks),
        }
    )
    if found.clashes and not hard:
        report = report.model_copy(update={"outcome": "fault", "reason": "conflict"})
    if report.ok and row.judges and form is not None:
        report = await evidence.rule(run, call, report, form, ground, last=told)
    return report


def _trouble(exit_: Exit) -> tuple[str, str] | None:
    """Why a call does not count at all: reason and words. A turn that did not end proves nothing (EVID-10)."""
    trouble = exit_.trouble
    words = trouble.text if trouble else exit_.stderr.strip()
    if exit_.over:
        return "over", f"it grew beyond its bounds: {exit_.over}"
    if trouble is not None and trouble.kind is TroubleKind.LIMIT:
        return "limit", words
    if exit_.finished:
        return None
    if trouble is not None and trouble.kind in (TroubleKind.LOGIN, TroubleKind.MODEL, TroubleKind.REFUSED):
        return trouble.kind.value, words
    if trouble is not None and trouble.kind is TroubleKind.SESSION:
        return "session", words
    if not exit_.started:
        return "no start", words or "it could not be started"
    if exit_.timed_out:
        return "timeout", f"it was not done within its time ({exit_.seconds:.0f} s)"
    if trouble is not None:
        return "busy", words
    return "crash", words or f"it ended with {exit_.exit}, and its turn did not end"


@dataclass(frozen=True)
class Sorted:
    """What of a layer's result counts, and what does not."""

    work: Tree
    paths: list[str]
    outside: list[str]
    held: Pending | None
    remarks: list[Remark]
    asks: list[str]
    """What is asked for once, and mended or told afterwards."""


async def _sort(run: Run, call: Call, ground: Ground, found: Found, form: Any) -> Sorted:
    row, world, shown = call.row, run.world, ground.shown
    result = found.mended
    remarks, asks = list(found.remarks), []
    meant = [path for path in getattr(form, "takes_back", []) if path in found.set_back]
    if meant:
        result = await world.graft(result, found.result, meant)
        remarks.append(Remark(kind=RemarkKind.TAKEN_BACK, text="it says that it means to", paths=tuple(meant)))
    if back := [path for path in found.set_back if path not in meant]:
        text = "older versions of what the person has not committed, or their absence: given back"
        remarks.append(Remark(kind=RemarkKind.SET_BACK, text=text, paths=tuple(back), old=shown, new=found.result))
        if not row.judges:
            asks.append(
                f"{', '.join(map(brief.quoted, back))}: you set back what the person has not committed; it was given "
                "back. If the task means that, name the paths in `takes_back`"
            )
    if found.clashes:
        text = "you and the person changed the same lines: the person's version stands"
        remarks.append(Remark(kind=RemarkKind.CONFLICT, text=text, paths=found.clashes, old=shown, new=found.result))
    asks += [remark.text for remark in found.remarks if remark.kind is RemarkKind.GIT and not row.judges]
    changed = [change.path for change in await world.between(shown, result)]
    state = [path for path in changed if path in run.state_documents and path not in row.outputs]
    allowed = [path for path in changed if path in row.outputs or scope.within(path, row.writes)]
    outside = [path for path in changed if path not in allowed and path not in state]
    held = [
        path
        for path in allowed
        if scope.guarded(path) and path not in (*row.outputs, *row.writes) and not scope.named(path, call.request)
    ]
    kinds = {
        RemarkKind.STATE: (state, "a document that interlock alone writes: dropped"),
        RemarkKind.HELD_BACK: (held, "steers agents or tools: held back until you say so"),
        RemarkKind.BY_PRODUCT if row.judges else RemarkKind.OUTSIDE: (
            outside,
            "left beside its answer: dropped" if row.judges else "outside of its scope: kept out",
        ),
    }
    remarks += [
        Remark(kind=kind, text=text, paths=tuple(paths), old=shown, new=result)
        for kind, (paths, text) in kinds.items()
        if paths
    ]
    work = await world.graft(result, shown, [*state, *outside, *held]) if state or outside or held else result
    kept = Pending(base=shown, work=await world.graft(shown, result, held)) if held else None
    drop = {*state, *outside, *held}
    paths = [path for path in changed if path not in drop]
    return Sorted(work, paths, [] if row.judges else outside, kept, remarks, asks)


def _complaint(report: ev.Report) -> str:
    """What a repair is told."""
    asked_about = report.ruling.contradictions if report.ruling else ()
    lines = [*(report.complaint.split("; ") if report.complaint else []), *asked_about]
    checks = [
        f"`{check.command}`: told {check.told}, {check.why or 'it does not run so'}"
        for check in report.checks
        if check.word == "refuted"
    ]
    return "Your answer cannot be used as it is:\n\n" + "\n".join(
        f"- {line}" for line in dict.fromkeys([*lines, *checks])
    )


def _known(run: Run, call: Call) -> list[Remark]:
    """What is known of the work so far, told to who goes on with it: the last ten."""
    return [one for one in run.full.remarks if one.kind is not RemarkKind.CLIENT][-10:] if not call.row.judges else []


async def _settle(run: Run, slot: Slot[ev.Done], ground: Ground, report: ev.Report) -> None:
    """The pending pair moves on with what counts, and the dispatch is recorded: one after the other."""
    async with run.pair_lock:
        pair = run.full.pending
        assert pair is not None
        now = ground.standing.tree
        if report.did is not None or ground.lost:
            moved, conflicts = await _moved(run, pair, now, ground, report)
            if conflicts:
                report = report.model_copy(
                    update={
                        "outcome": "fault",
                        "reason": "conflict",
                        "conflicts": (*report.conflicts, *conflicts),
                        "kept": report.did.work if report.did else None,
                        "did": None,
                    }
                )
            else:
                pair = moved
        await run.world.keep([pair.base, pair.work, ground.shown, *([report.did.work] if report.did else [])])
        slot.settle(ev.Done(report=report, pair=pair, standing=ground.standing))
        run.recorder.sync()


async def _moved(
    run: Run, pair: Pending, now: Tree, ground: Ground, report: ev.Report
) -> tuple[Pending, Sequence[str]]:
    """`work' = merge(shown, merge(B, now, W), result)`: with what others of the run did meanwhile."""
    theirs, _ = await delivery.merged(run.world, pair, now)
    result = report.did.work if report.did else ground.shown
    merged = await run.world.merge(ground.shown, theirs, result)
    if merged.tree is None:
        return pair, merged.conflicts
    return Pending(base=now, work=merged.tree), ()
