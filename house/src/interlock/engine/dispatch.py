"""One dispatch: an agent is asked, what it left is looked at, and counts or not.

Whoever reads this knows what happens between a playbook's `run.dispatch` and its `Report`:

1. The layer shows the person's tree of this moment with what the run has done so far (`shown`).
2. The call is noted (`Started`), synced, made (`world.call`).
3. What the layer holds is looked at (`examine`): one report, with everything that is wrong at once.
4. A table says what follows: wait for a limit, repeat after weather, ask once more with the complaint, or end.
5. What counts moves the run's pending pair on, and only then is it recorded (`Done`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from interlock.agents.values import Ask, Exit, News, NewsKind, Role, Usage
from interlock.documents.model import plain
from interlock.engine import brief, delivery
from interlock.engine import events as ev
from interlock.engine.examine import complaint, examine
from interlock.engine.forms import fingerprint, schema
from interlock.engine.halts import Parked
from interlock.engine.keys import here
from interlock.engine.prompts import fence, quoted
from interlock.engine.replay import Slot
from interlock.engine.world import Seat
from interlock.workspace import scope
from interlock.workspace.values import Pending, RemarkKind, Standing, Tree

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
        for trace in _since_parked(traces):
            used = used.after(trace.move)
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
    if reason in ("login", "model", "refused", "over", "conflict", "budget"):
        return "end"
    return "repair" if complaint and used.repairs < repairs else "end"


def asked(call: Call) -> dict[str, Any]:
    """What a dispatch is asked: role, member, inputs and form, never the wording of a brief (RUN-21)."""
    form = call.row.form
    return {
        "role": call.row.agent,
        "member": call.member,
        "attempt": call.attempt,
        "inputs": plain(dict(call.inputs)),
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
            exit_ = await _call(run, call, slot, role, ground, session, failure)
        report = await examine(run, call, role, ground, exit_, slot, told=used.repairs > 0)
        move = after_try(report.reason, report.complaint, used, call.row.repeats, call.row.repairs)
        if report.reason == "budget":  # of its share; where nothing is left the next call is not made
            _give_up(slot, report)
            if not exit_.usage.tokens and not exit_.usage.cost_usd:
                raise _no_budget(run)
            session, exit_ = exit_.session, None
            continue
        if move == "end":
            break
        used = used.after(move)
        session = exit_.session if move != "repeat" else ""
        failure = complaint(report) if move == "repair" else failure
        await _between(run, slot, report, move, used, exit_, role)
        exit_ = None
    if not report.ok and report.reason != "conflict" and not call.row.lost:
        _give_up(slot, report)
        why = "; ".join(report.complaint.splitlines()) or report.reason
        raise Parked("failed", f"{call.row.agent}: {why}", _go_on(run))
    await _settle(run, slot, ground, report)
    await ground.seat.drop(keep_ignored=not call.row.judges)


# --- where it works


@dataclass(frozen=True)
class Ground:
    """The layer of one dispatch, and the trees that it begins with."""

    seat: Seat
    standing: Standing
    pair: Pending
    shown: Tree
    lost: tuple[str, ...] = ()
    """Paths on which the run's work could not be shown beside what the person wrote: theirs stands."""
    session: str = ""
    failure: str = ""
    goes_on: bool = False
    """It is the layer of a process that died while the agent worked, as it lies."""


async def _ground(run: Run, call: Call, slot: Slot[ev.Done], role: Role) -> Ground | None:
    """A layer for it: that of the call that was cut off as it lies, else a new one. None: a judge met a conflict."""
    world = run.world
    name = _layer_name(call, slot.key)
    last = _cut_off(slot.traces)
    seat = await world.seat(name, role, last.standing, last.shown, goes_on=True) if last else None
    if last is not None and seat is not None:
        standing, pair = last.standing, last.pair
    else:
        standing, pair = await world.standing(run.start.where, run.full.standing), run.pending
    shown, lost = await delivery.merged(world, pair, standing.tree)
    if lost and call.row.judges:
        report = ev.Report(
            agent=call.row.agent, member=call.member, attempt=call.attempt, outcome="fault", reason="conflict"
        )
        report = report.model_copy(update={"conflicts": lost, "calls": 0})
        slot.settle(ev.Done(report=report, pair=pair, standing=standing))
        return None
    why = [f"The run had stopped here: {' '.join(run.full.stopped.split())}"] if run.full.stopped else []
    why += [_lost(lost, await world.patch(pair.base, pair.work, lost))] if lost else []
    if last is not None and seat is not None:
        session, complained, at_work = _went_on(slot.traces, same=last.runner == role.runner)
        return Ground(
            seat, standing, pair, shown, lost, session, "\n\n".join(filter(None, [*why, complained])), at_work
        )
    seat = await world.seat(name, role, standing, shown, goes_on=False)
    assert seat is not None
    return Ground(seat, standing, pair, shown, lost, failure="\n\n".join(why))


def _lost(paths: Sequence[str], patch: bytes) -> str:
    return (
        "The person changed the same lines meanwhile: their version stands. This was the run's change of "
        f"{', '.join(map(quoted, paths))}; make it again on what stands there now:\n\n"
        f"{fence(patch.decode('utf-8', 'backslashreplace'), 'diff')}"
    )


def _layer_name(call: Call, key: str) -> str:
    """A writer's layer is its own for the whole run, for the sake of its caches; a judge's is new each time."""
    who = call.member or call.row.agent
    return who if not call.row.judges else f"{who}-{key.replace('/', '-').replace('#', '-')}"[-150:]


def _cut_off(traces: Sequence[ev.Event]) -> ev.Started | None:
    """The call to go on from: a dead process made it, waited behind it, or the money ended; None: it is done anew."""
    for trace in reversed(traces):
        if isinstance(trace, ev.Started):
            return trace
        if isinstance(trace, ev.Tried) and trace.move == "gave up" and trace.report.reason not in ("budget", "limit"):
            return None
    return None


def _went_on(traces: Sequence[ev.Event], *, same: bool) -> tuple[str, str, bool]:
    """Session and complaint of a dispatch that goes on, and whether its agent was at work; `same`: with its client."""
    last = next(trace for trace in reversed(traces) if isinstance(trace, ev.Started | ev.Tried))
    repairs = [trace for trace in _since_parked(traces) if trace.move == "repair"]
    failure = complaint(repairs[-1].report) if repairs else ""
    if not same or (isinstance(last, ev.Tried) and last.move == "repeat"):
        return "", failure, False
    heard = [trace.news.facts.get("session") for trace in traces if isinstance(trace, ev.Heard)]
    session = next((one for one in reversed(heard) if one), "")
    return str(session), failure, isinstance(last, ev.Started)


# --- the call


async def _call(
    run: Run, call: Call, slot: Slot[ev.Done], role: Role, ground: Ground, session: str, failure: str
) -> Exit:
    """One start of the client: noted, synced, made."""
    await _wait_for_service(run, slot, role)
    share, heard = _share(run), run.full.unheard
    text = brief.render(
        run,
        call,
        role,
        session=session,
        heard=heard,
        failure=failure,
        standing=ground.standing,
        shown=ground.shown,
        remarks=[one for one in run.full.remarks if one.kind is not RemarkKind.CLIENT][-10:],
        held=await _held(run, call),
    )
    content = (text := run.world.redact(text)).encode("utf-8", "backslashreplace")
    n = 1 + sum(isinstance(trace, ev.Started) for trace in slot.traces)
    ask = _ask(run, call, slot, role, text, session, share, n)
    started = ev.Started(
        agent=call.row.agent,
        member=call.member,
        step=ask.env["INTERLOCK_STEP"],
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
        brief=run.world.folder.put(content),
        heard=heard,
        timeout_s=ask.timeout_s,
    )
    slot.add(started, sync=True)
    run.world.folder.keep(slot.key, "brief.md", content)
    return await run.world.call(ask, ground.seat, _hear(run, slot))


async def _ended_unseen(run: Run, call: Call, slot: Slot[ev.Done], role: Role, ground: Ground) -> Exit | None:
    """How the call of a dead process ended, where its turn had ended: no agent that ended is called again."""
    last = _cut_off(slot.traces)
    assert last is not None
    ask = _ask(run, call, slot, role, run.text(last.brief), last.session, (None, None), last.n)
    return await run.world.recover(ask, ground.seat)


async def _held(run: Run, call: Call) -> str:
    """What is held back of the run's work, for who judges it (TREE-08)."""
    patches = [await run.world.patch(one.base, one.work) for one in run.full.held] if call.row.judges else []
    return b"".join(patches).decode("utf-8", "backslashreplace")


def _ask(
    run: Run,
    call: Call,
    slot: Slot[ev.Done],
    role: Role,
    text: str,
    session: str,
    share: tuple[float | None, int | None],
    n: int,
) -> Ask:
    green = any(one.after and one.after.green for one in call.proved)
    return Ask(
        role=role,
        brief=text,
        form=schema(call.row.form) if call.row.form else None,
        known=call.row.form.known(call.criteria, green) if call.row.form else {},
        samples=_samples(call),
        session=session,
        spent=run.full.calls[slot.key].earlier if session else Usage(),
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
        transcript=run.world.folder.transcript(slot.key, n),
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


# --- between two calls


def _since_parked(traces: Sequence[ev.Event]) -> list[ev.Tried]:
    """The tries that count: a person who has a parked run go on gives it all of them again."""
    tried = [trace for trace in traces if isinstance(trace, ev.Tried)]
    last = max((n for n, trace in enumerate(tried, 1) if trace.move == "gave up"), default=0)
    return tried[last:]


async def _wait_for_service(run: Run, slot: Slot[ev.Done], role: Role) -> None:
    """Until its service takes requests again, as this dispatch or another one was told; another client's is its own."""
    last, made = slot.traces[-1] if slot.traces else None, _cut_off(slot.traces)
    until = run.limited.get(role.runner, run.start.at)
    if isinstance(last, ev.Tried) and last.move == "wait" and last.until and made and made.runner == role.runner:
        until = max(until, last.until)
    if until > run.world.now():
        await run.world.sleep_until(until)


async def _between(
    run: Run, slot: Slot[ev.Done], report: ev.Report, move: Move, used: Used, exit_: Exit, role: Role
) -> None:
    """What is noted and waited for before the next call of the same dispatch."""
    assert move != "end"
    now, until, delay = run.world.now(), None, 0.0
    if move == "wait":
        until = _limit_ends(now, exit_, used.waits)
        waited = sum(trace.delay_s for trace in _since_parked(slot.traces) if trace.move == "wait")
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
    """What is left of the budget, in equal parts for members side by side; parks the run where nothing is (RUN-14)."""
    spent, dollars, tokens = run.full.usage, run.options("budget", run.limits.budget_usd), run.limits.budget_tokens
    left_usd = None if dollars is None else dollars - (spent.cost_usd or 0.0)
    left_tokens = None if tokens is None else tokens - (spent.tokens or 0)
    if (left_usd is not None and left_usd <= 0) or (left_tokens is not None and left_tokens <= 0):
        raise _no_budget(run)
    beside = max(1, min(len(run.recorder.members), run.limits.max_parallel))
    return left_usd and left_usd / beside, left_tokens and math.ceil(left_tokens / beside)


def _no_budget(run: Run) -> Parked:
    spent = run.full.usage
    cost = f"{spent.cost_usd:.2f} USD" if spent.cost_usd is not None else f"{spent.tokens or 0} tokens"
    return Parked("waiting", f"the budget is used up: {cost}", f"interlock resume {run.id} --budget USD")


# --- what came of it


async def _settle(run: Run, slot: Slot[ev.Done], ground: Ground, report: ev.Report) -> None:
    """The pending pair moves on with what counts, and the dispatch is recorded: one after the other.

    `work' = merge(shown, merge(B, now, W), result)`: with what others of the run did meanwhile; a conflict there is
    between members, and the later one has failed.
    """
    async with run.pair_lock:
        pair = run.pending
        if report.did is not None or ground.lost:
            now, result = ground.standing.tree, report.did.work if report.did else ground.shown
            theirs, _ = await delivery.merged(run.world, pair, now)
            merge = await run.world.merge(ground.shown, theirs, result)
            if merge.tree is None:
                clash = {"outcome": "fault", "reason": "conflict", "conflicts": (*report.conflicts, *merge.conflicts)}
                report = report.model_copy(update={**clash, "kept": result, "did": None, "paths": ()})
            else:
                pair = Pending(base=now, work=merge.tree)
        await run.world.keep([pair.base, pair.work, ground.shown, *([report.did.work] if report.did else [])])
        slot.settle(ev.Done(report=report, pair=pair, standing=ground.standing))
        run.recorder.sync()
