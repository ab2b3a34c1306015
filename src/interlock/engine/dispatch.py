"""One dispatch: an agent is asked, what it left is looked at, and counts or not.

Whoever reads this knows what happens between a playbook's `run.dispatch` and its `Report`:

1. The layer shows the person's tree of this moment with what the run has done so far (`shown`).
2. The call is noted (`Called`), synced, made (`world.call`).
3. What the layer holds is looked at (`examine`): one report, with everything that is wrong at once.
4. A table says what follows: wait for a limit, repeat after weather, ask once more with the complaint, or end.
5. What counts is merged into the run's pending pair and recorded with it (`Done`); the fold moves the pair on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from interlock.agents import answers
from interlock.agents.values import Ask, Exit, News, NewsKind, Usage
from interlock.documents.model import plain
from interlock.engine import brief, delivery, documents
from interlock.engine import events as ev
from interlock.engine.examine import complaint, examine
from interlock.engine.forms import fingerprint, schema
from interlock.engine.halts import Parked
from interlock.engine.keys import here
from interlock.engine.prompts import fence, quoted
from interlock.engine.replay import Slot
from interlock.engine.world import Seat
from interlock.workspace import scope
from interlock.workspace.values import Pending, Standing, Tree

if TYPE_CHECKING:
    from interlock.engine.run import Call, Run

Move = Literal["end", "wait", "repeat", "repair"]
WEATHER = frozenset({"no start", "crash", "timeout", "busy", "session"})
DELAYS_S = (1.0, 5.0)
SPENT = ("budget", "limit")
"""The agent was at work when money or a service's limit ended it."""


def after_try(reason: str, complaint: str, used: Counter[str], repeats: int, repairs: int) -> Move:
    """What follows a call that ended so, given what of its repeats the dispatch has used up (RUN-13)."""
    if reason == "limit":
        return "wait"
    if reason in WEATHER:
        return "repeat" if used["repeat"] < repeats else "end"
    if reason in ("login", "model", "refused", "over", "conflict", "budget", "error"):
        return "end"
    return "repair" if complaint and used["repair"] < repairs else "end"


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
    at_work: bool = False
    """A process died while the agent worked here: it is its layer, as it lies."""


async def dispatch(run: Run, call: Call) -> ev.Report:
    """One agent does one thing; what it left is looked at, and counts or not."""
    row = call.row
    slot = run.slot(call.member or row.agent, asked(call), ev.Done)
    if slot.outcome is None:
        run.stop_if_cancelled()
        await Dispatch(run, call, slot).perform()
        await run.safe()
    report: ev.Report = slot.settled.report
    if row.outputs or row.may:
        delivered = await delivery.documents(run, list(filter(row.leaves, report.paths)))
        if delivered.landing and delivered.landing.state == "conflict":
            return report.model_copy(
                update={"outcome": "fault", "reason": "conflict", "conflicts": delivered.landing.conflicts}
            )
    return report


class Dispatch:
    """One dispatch that is not recorded yet."""

    def __init__(self, run: Run, call: Call, slot: Slot[ev.Done]) -> None:
        self.run = run
        self.call = call
        self.slot = slot
        self.role = run.world.role(call.row.agent, judges=call.row.judges, file=call.row.role)
        self._told = 0
        """Tokens of the present call that the journal has."""

    async def perform(self) -> None:
        """Make it happen, until its slot is settled; or the run is parked."""
        row = self.call.row
        ground = await self._ground()
        if ground is None:
            return
        failure, session = ground.failure, ground.session
        exit_ = await self._ended_unseen(ground) if ground.at_work else None
        while True:
            if exit_ is None:
                if why := await documents.overtaken(self.run):
                    self._uncalled(ground.standing, reason="edited", complaint=why)
                    await ground.seat.drop(keep_ignored=not row.judges)
                    return
                exit_ = await self._call(ground, session, failure)
            used = Counter[str](trace.move for trace in self._tries)
            report = await examine(self, ground, exit_, told=used["repair"] > 0)
            if report.reason == "no start":  # its program may be what was removed there
                await ground.seat.drop(keep_ignored=False)
            move = after_try(report.reason, report.complaint, used, row.repeats, row.repairs)
            if report.reason == "budget":  # of its share; where nothing is left the next call is not made
                self._tried(report, "gave up")
                if not exit_.usage.tokens and not exit_.usage.cost_usd:
                    raise self._no_budget()
                session, exit_ = exit_.session, None
                continue
            if move == "end":
                break
            session = exit_.session if move != "repeat" else ""
            failure = complaint(report) if move == "repair" else failure
            await self._between(report, move, exit_, used)
            exit_ = None
            if report.reason == "no start":
                ground = await self._ground()
                if ground is None:
                    return
        if not report.ok and report.reason != "conflict" and not row.lost:
            why = "; ".join(report.complaint.splitlines()) or report.reason
            raise self._given_up(report, f"{row.agent}: {why}", "failed")
        await self._settle(ground, report)
        await ground.seat.drop(keep_ignored=not row.judges)

    def _uncalled(self, standing: Standing | None, **why: Any) -> None:
        """Settle it with a fault, without a call: nothing is paid."""
        call, run = self.call, self.run
        report = ev.Report(
            agent=call.row.agent, member=call.member, attempt=call.attempt, outcome="fault", calls=0, **why
        )
        now = standing or run.full.standing or run.start.standing
        self.slot.settle(ev.Done(report=report, pair=run.pending, standing=now))

    @property
    def _tries(self) -> list[ev.Tried]:
        """The tries that count: a person who has a parked run go on gives it all of them again."""
        tried = [trace for trace in self.slot.traces if isinstance(trace, ev.Tried)]
        last = max((n for n, trace in enumerate(tried, 1) if trace.move == "gave up"), default=0)
        return tried[last:]

    @property
    def timeout_s(self) -> float:
        """Of the call that comes."""
        row = self.call.row
        spent = sum(trace.report.seconds for trace in self._tries) if row.overall else 0
        return max((self.role.timeout_s or row.timeout_s) - spent, 1)

    # --- where it works

    async def _ground(self) -> Ground | None:
        """A layer for it: that of the call that was cut off, as it lies, else a new one. None: it is settled, since a
        judge cannot be shown work in conflict."""
        run, call, world = self.run, self.call, self.run.world
        name, last = self._layer_name, self._cut_off
        seat = await world.seat(name, self.role, last.standing, last.shown, goes_on=True) if last else None
        if last is not None and seat is not None:
            standing, pair = last.standing, last.pair
        else:
            standing, pair = await run.standing(), run.pending
        shown, lost = await delivery.merged(world, pair, standing.tree)
        if lost and call.row.judges:
            self._uncalled(standing, reason="conflict", conflicts=lost)
            return None
        why = [f"The run had stopped here: {' '.join(run.full.stopped.split())}"] if run.full.stopped else []
        why += [_lost(lost, await world.patch(pair.base, pair.work, lost))] if lost else []
        if last is None or seat is None:
            seat = await world.seat(name, self.role, standing, shown, goes_on=False)
            assert seat is not None
            return Ground(seat, standing, pair, shown, lost, failure="\n\n".join(why))
        session, complained, at_work = self._went_on(same=last.runner == self.role.runner)
        why += [complained] if complained else []
        return Ground(seat, standing, pair, shown, lost, session, "\n\n".join(why), at_work)

    @property
    def _layer_name(self) -> str:
        """A writer's layer is its own for the whole run, for the sake of its caches; a judge's is new each time."""
        who = self.call.member or self.call.row.agent
        return who if not self.call.row.judges else f"{who}-{self.slot.key.replace('/', '-').replace('#', '-')}"[-150:]

    @property
    def _cut_off(self) -> ev.Called | None:
        """The call to go on from: the process died during or after it, or money or a limit ended it; None: there is
        none, so the dispatch begins anew."""
        for trace in reversed(self.slot.traces):
            if isinstance(trace, ev.Called):
                return trace
            if isinstance(trace, ev.Tried) and trace.move == "gave up" and trace.report.reason not in SPENT:
                return None
        return None

    def _went_on(self, *, same: bool) -> tuple[str, str, bool]:
        """Of a dispatch that goes on: the session, the last complaint, and whether its agent was at work.

        Args:
            same: it goes on with the same client; another one knows no session.
        """
        traces = self.slot.traces
        last = next(trace for trace in reversed(traces) if isinstance(trace, ev.Called | ev.Tried))
        repairs = [trace for trace in self._tries if trace.move == "repair"]
        failure = complaint(repairs[-1].report) if repairs else ""
        if not same or (isinstance(last, ev.Tried) and last.move == "repeat"):
            return "", failure, False
        heard = [trace.news.facts.get("session") for trace in traces if isinstance(trace, ev.Heard)]
        session = next((one for one in reversed(heard) if one), "")
        return str(session), failure, isinstance(last, ev.Called)

    # --- the call

    async def _call(self, ground: Ground, session: str, failure: str) -> Exit:
        """One start of the client: noted, synced, made."""
        run, call, slot, role = self.run, self.call, self.slot, self.role
        await self._wait_for_service()
        share, heard = self._share(), run.full.unheard
        text = run.world.redact(
            brief.render(self, ground, session=session, heard=heard, failure=failure, held=await self._held())
        )
        content = text.encode("utf-8", "backslashreplace")
        n = 1 + run.full.made.get(slot.key, 0)
        before = run.full.calls[slot.key].spent if session else Usage()
        ask = self._ask(text, session, share, n, before)
        started = ev.Called(
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
        await run.safe()  # a machine that slept may have lost the run meanwhile: no agent is called for it any more
        slot.add(started, sync=True)
        run.world.folder.keep(slot.key, "brief.md", content)
        self._told = 0
        return await run.world.call(ask, ground.seat, self._hear)

    async def _ended_unseen(self, ground: Ground) -> Exit | None:
        """How the call of a process that died had ended; None where its turn had not. Who had ended is not called
        again."""
        last = self._cut_off
        assert last is not None
        before = self.run.full.calls[self.slot.key].earlier
        return await self.run.world.recover(
            self._ask(self.run.text(last.brief), last.session, (None, None), last.n, before), ground.seat
        )

    async def _held(self) -> str:
        """What is held back of the run's work, for who judges it (TREE-08)."""
        held = self.run.full.held if self.call.row.judges else []
        patches = [await self.run.world.patch(one.base, one.work) for one in held]
        return b"".join(patches).decode("utf-8", "backslashreplace")

    def _ask(self, text: str, session: str, share: tuple[float | None, int | None], n: int, before: Usage) -> Ask:
        run, call, key = self.run, self.call, self.slot.key
        row, who = call.row, call.member or call.row.agent
        green = any(one.after and one.after.green for one in call.proved)
        inside = scope.example(row.writes, who)
        known = {**row.form.known(call.criteria, green), **call.known} if row.form else {}
        # What who plays by script leaves: the outputs, and a file in its scope.
        samples = {**dict.fromkeys((*row.outputs, *([inside] if inside else [])), ""), **call.samples}
        if row.form and row.spell:
            best = answers.best(schema(row.form), known)
            spelled = row.spell(best, tuple(samples))
            samples |= {path: text for path, text in spelled.items() if not samples.get(path)}
        return Ask(
            role=self.role,
            brief=text,
            form=schema(row.says or row.form) if row.form and (row.says or not row.spell) else None,
            known=known,
            samples=samples,
            outputs=row.outputs,
            session=session,
            spent=before,
            marker=f"{run.id}/{key}",
            env={
                "INTERLOCK_RUN_ID": run.id,
                "INTERLOCK_PLAYBOOK": run.start.playbook,
                "INTERLOCK_STEP": here().step or here().path.split("/", 1)[0],
                "INTERLOCK_AGENT": row.agent,
                "INTERLOCK_MEMBER": who,
                "INTERLOCK_ATTEMPT": str(call.attempt),
                "INTERLOCK_DISPATCH": key,
                "INTERLOCK_SESSION": session,
            },
            timeout_s=self.timeout_s,
            grace_s=row.grace_s,
            hands=dict(call.hands),
            budget_usd=share[0],
            budget_tokens=share[1],
            transcript=run.world.folder.transcript(key, n),
        )

    def _hear(self, news: News) -> None:
        """Pass news on to who watches; into the journal goes what a later process has to know."""
        tokens = (news.facts.get("input_tokens") or 0) + (news.facts.get("output_tokens") or 0)
        # A cut-off call's cost counts, but not every message is a line.
        if news.kind is NewsKind.SESSION or (news.kind is NewsKind.USAGE and tokens > self._told * 1.2):
            self._told = max(self._told, tokens)
            self.slot.add(ev.Heard(news=news))
        self.run.hear(self.slot.key, news)

    # --- between two calls

    async def _wait_for_service(self) -> None:
        """Wait until the client's service takes requests again, as this or another dispatch with that client was
        told."""
        run, role, traces = self.run, self.role, self.slot.traces
        last, made = traces[-1] if traces else None, self._cut_off
        until = [run.limited[role.runner]] if role.runner in run.limited else []
        if isinstance(last, ev.Tried) and last.move == "wait" and last.until and made and made.runner == role.runner:
            until.append(last.until)
        if until and max(until) > run.world.now():
            await run.world.sleep_until(max(until))

    async def _between(self, report: ev.Report, move: Move, exit_: Exit, used: Counter[str]) -> None:
        """What is noted and waited for before the next call of the same dispatch."""
        assert move != "end"
        run, runner = self.run, self.role.runner
        now, until, delay = run.world.now(), None, 0.0
        if move == "wait":
            until = _limit_ends(now, exit_, used["wait"])
            waited = sum(trace.delay_s for trace in self._tries if trace.move == "wait")
            delay = (until - now).total_seconds()
            if waited + delay > run.limits.rate_limit_wait_s:
                raise self._given_up(report, f"{runner}: {report.complaint}", "waiting", until)
            run.limited[runner] = until
            told = {"why": report.complaint, "until": until.isoformat()}
            run.hear(self.slot.key, News(kind=NewsKind.WAITING, facts=told))
        elif move == "repeat":
            delay = DELAYS_S[min(used["repeat"], len(DELAYS_S) - 1)]
            until = now + timedelta(seconds=delay)
        self._tried(report, move, sync=True, delay_s=delay, until=until)
        if until is not None:
            await run.world.sleep_until(until)

    def _tried(self, report: ev.Report, move: Any, *, sync: bool = False, **more: Any) -> None:
        self.slot.add(ev.Tried(report=report, move=move, **more), sync=sync)

    def _given_up(self, report: ev.Report, why: str, status: Any, until: datetime | None = None) -> Parked:
        self._tried(report, "gave up")
        return Parked(status, why, f"interlock resume {self.run.id}", until)

    def _share(self) -> tuple[float | None, int | None]:
        """What this call may spend, in dollars and tokens: what is left of the budget, in equal parts for members side
        by side. Raises Parked where nothing is left (RUN-14)."""
        run, limits = self.run, self.run.limits
        spent, dollars, tokens = run.full.usage, run.options("budget", limits.budget_usd), limits.budget_tokens
        left_usd = None if dollars is None else dollars - (spent.cost_usd or 0.0)
        left_tokens = None if tokens is None else tokens - (spent.tokens or 0)
        if any(left is not None and left <= 0 for left in (left_usd, left_tokens)):
            raise self._no_budget()
        beside = max(1, min(len(run.recorder.members), limits.max_parallel))
        return left_usd and left_usd / beside, left_tokens and math.ceil(left_tokens / beside)

    def _no_budget(self) -> Parked:
        spent = self.run.full.usage
        cost = f"{spent.cost_usd:.2f} USD" if spent.cost_usd is not None else f"{spent.tokens or 0} tokens"
        return Parked("waiting", f"the budget is used up: {cost}", f"interlock resume {self.run.id} --budget USD")

    # --- what came of it

    async def _settle(self, ground: Ground, report: ev.Report) -> None:
        """Merge what counts into the pending pair and record the dispatch with it, one dispatch after the other.

        `work' = merge(shown, merge(B, began, W), result)`, where W has what other members did meanwhile; in a conflict
        between members the later one has failed.
        """
        run = self.run
        async with run.pair_lock:
            pair = run.pending
            if report.did is not None or ground.lost:
                began, result = ground.standing.tree, report.did.work if report.did else ground.shown
                theirs, _ = await delivery.merged(run.world, pair, began)
                merge = await run.world.merge(ground.shown, theirs, result)
                if merge.tree is None:
                    clash = {"outcome": "fault", "reason": "conflict", "did": None, "paths": (), "kept": result}
                    conflicts = (*report.conflicts, *merge.conflicts)
                    report = report.model_copy(update={**clash, "conflicts": conflicts})
                else:
                    pair = Pending(base=began, work=merge.tree)
            left = [report.did.work] if report.did else [report.kept] if report.kept else []
            await run.world.keep([pair.base, pair.work, ground.shown, *left])
            self.slot.settle(ev.Done(report=report, pair=pair, standing=ground.standing))
            run.recorder.sync()


def _lost(paths: Sequence[str], patch: bytes) -> str:
    return (
        "The person changed the same lines meanwhile: their version stands. This was the run's change of "
        f"{', '.join(map(quoted, paths))}; make it again on what stands there now:\n\n"
        f"{fence(patch.decode('utf-8', 'backslashreplace'), 'diff')}"
    )


def _limit_ends(now: datetime, exit_: Exit, waits: int) -> datetime:
    """When a service takes requests again: as it says, a little later; else in steps that grow to an hour (RUN-15)."""
    told = exit_.trouble.until if exit_.trouble else None
    if told is not None and told > now:
        return told + timedelta(seconds=5)
    return now + timedelta(seconds=min(60.0 * 2 ** min(waits, 10), 3600.0))
