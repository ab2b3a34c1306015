"""One call of one agent, always in the same order (DESIGN 2).

Brief, layer, synced start, agent in its layer with a deadline and its share of the budget, end of its whole process
tree, then what the layer holds: scope check, artifact contracts, verdict; import of what is in scope and counts, synced
end.  Nothing reaches the user's tree before the verdict is known, so that whoever finds a start without an end has
nothing to put back: the layer is still there, and the work goes on in it (`recovery`).

A dispatch is one verb with one outcome; the tries inside it (transient repeats, one repair, retries) have lines of
their own, so that a crash in the second try does not pay for the first one again.  All of them work in one layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Limited, Observer, Usage
from interlock.contracts import Outcome, Reason
from interlock.documents import stamp
from interlock.engine import brief
from interlock.engine.budget import Budget, usage_in
from interlock.engine.clusters import Seated, at_once, given_up, in_turn, through
from interlock.engine.examination import SHOWN_OF_PATCH, Examiner
from interlock.engine.handing_on import handed_on
from interlock.engine.journal import Line
from interlock.engine.keys import sha256
from interlock.engine.model import Dispatch, Kind, Quoted, Report
from interlock.engine.plan import DispatchPlan, Preview, Try, make_plan
from interlock.engine.prompts import worded
from interlock.engine.recording import Recording, Slot
from interlock.engine.recovery import Cut, Ground, cut_short, open_ground
from interlock.engine.retry import AfterTry, Used, delay_s, next_move, wait_s
from interlock.engine.words import Words, read_words, rendered, unheard
from interlock.engine.world import Imported, Layer, redacted
from interlock.workspace import Exit

NOTICED = "Noticed about the work: weigh it"
MOST_NOTICED = 20
"""Of one piece of work; the rest is counted."""
JOURNALED_NEWS = {
    "started": "dispatch.running",
    "session": "dispatch.session",
    "partial.requested": "partial.requested",
    "waiting": "agent.waiting",
    "network.refused": "network.refused",
}


@dataclass(frozen=True)
class Tried:
    """One call of the agent and what it came to."""

    trial: Try
    report: Report
    answer_bytes: int
    limited: Limited | None = None
    exhausted: bool = False
    """It was ended because its share of the budget was used up."""


class Dispatcher:
    def __init__(self, run: Recording) -> None:
        self._run = run
        self._seats: tuple[asyncio.Semaphore, ...] = (asyncio.Semaphore(run.at_once),)
        self._world = run.world
        self.examiner = Examiner(run)
        self._budget = Budget(run.journal.lines, usd=run.options.budget_usd, tokens=run.options.budget_tokens)
        self._unfinished = dict[str, str]()
        """By member: what its last attempt did that did not come into the tree (LY-04)."""
        earlier = tuple(
            f"{text} (in the run before this one)" for text in handed_on(run.journal.lines).get("noticed", ())
        )
        self._findings: dict[str, tuple[str, ...]] = {"": earlier} if earlier else {}
        """By key: what was noticed about accepted work that its judges are to know."""

    def for_called(self, run: Recording) -> Dispatcher:
        """That of a playbook which is called: one budget, and judges of either are told what was noticed in both."""
        inner = copy(self)
        inner._run, inner._world, inner.examiner = run, run.world, Examiner(run)
        inner._unfinished = {}
        if run.at_once < self._run.at_once:  # first a seat among its own, so that none of the others is kept idle
            inner._seats = (asyncio.Semaphore(run.at_once), *self._seats)
        return inner

    def recalled(self, slot: Slot) -> Report:
        """What was recorded of a call."""
        report = slot.meaning(lambda value: Report.from_json(value, self._world.records.objects.get))
        self._remember(report)
        through()
        return report

    async def perform(self, spec: Dispatch, slot: Slot) -> Report:
        """Call the agent, with the repeats that the playbook allows, and record the one outcome."""
        run = self._run
        async with Seated(*self._seats):
            await self._goes_on()
            run.stop_here(slot.key, "dispatch", lambda: Preview.of(self._plan(spec, slot, "(at the start)")))
            self._world.bind(spec.agent)
            self._check_budget()
            run.materialize()
            plan = self._plan(spec, slot, self._session(slot))
            if (known := self._importing(plan)) is not None:
                return await self._import_and_settle(plan, *known)
            ground = await open_ground(run, plan, partial(self._recall, plan))
            try:
                return await self._until_end(plan, ground)
            except BaseException:
                await ground.layer.rest()
                raise

    async def _goes_on(self) -> None:
        """Unless nothing more may begin: then the run is cancelled when those at work have come to their ends, and they
        may need the seat for that."""
        if not await self._run.may_begin():
            async with given_up():
                await asyncio.Event().wait()

    def _remember(self, report: Report) -> None:
        """A later attempt of the same agent is told what this one did in vain, and judges what was noticed about it."""
        self._unfinished[report.member] = report.unfinished
        if report.accepted and (noticed := report.noticed):
            self._findings[report.key] = noticed

    async def _until_end(self, plan: DispatchPlan, ground: Ground) -> Report:
        """Call until the table of repeats says that it is the end."""
        allowed = plan.spec.retries or self._run.playbook.retries
        past = plan.slot.intents("dispatch.try")
        used = Used(**past[-1].data["used"]) if past else Used()
        failure = str(past[-1].data["failure"]) if past else ""
        usage = usage_of(past)
        waited = list[float]()
        while True:
            tried = await self._one_try(plan, ground, used, failure)
            report = tried.report
            cost = self._budget.settle(plan.slot.key, report.usage, exhausted=tried.exhausted)
            report = replace(report, usage=cost) if tried.exhausted else report
            waits = tried.limited is not None or tried.exhausted
            move = AfterTry.WAIT if waits else next_move(report.outcome, report.reason, used, allowed)
            if move is AfterTry.END:
                if past or used.total or waited:
                    report = replace(report, usage=usage.plus(report.usage or Usage()))
                facts = self._end_facts(tried.trial, report, tried.answer_bytes)
                return await self._import_and_settle(plan, report, facts)
            usage = usage.plus(report.usage or Usage())
            delay: float | None = 0.0
            if tried.limited:
                delay = wait_s(tried.limited.reset_s, len(waited), sum(waited), self._run.options.rate_limit_wait_s)
                # An agent that waits for its service itself does so until the deadline.
                waited.append((delay or 0.0) + (report.seconds if report.reason is Reason.TIMEOUT else 0.0))
            elif not tried.exhausted:  # else it goes on with its session, as soon as there is a new share for it
                failure = failure_context(report)
                delay = delay_s(used) if move is AfterTry.REPEAT else 0.0
            used = used.after(move)
            self._record_try(plan, replace(tried, report=report), move, used, failure, delay or 0.0)
            if tried.exhausted and (start := plan.slot.intent("dispatch.start")) is not None:
                ground.cut = cut_short(self._run, plan, start)
            if delay is None:
                self._run.park(f"{plan.bound.runner}: {report.detail}; resume goes on when its limit has passed")
            self._check_budget()
            if delay:
                async with given_up():  # the seat is free for others meanwhile
                    await self._world.sleep(delay)

    def _record_try(
        self, plan: DispatchPlan, tried: Tried, move: AfterTry, used: Used, failure: str, delay: float
    ) -> None:
        report = tried.report
        plan.slot.append(
            "dispatch.try",
            {
                "move": move.value,
                "outcome": report.outcome.value,
                "reason": report.reason.value if report.reason else None,
                "detail": report.detail,
                "complaints": list(report.complaints[:3]),
                "failure": failure,
                "used": asdict(used),
                "delay_s": delay,
                "seconds": report.seconds,
                "exhausted": tried.exhausted,
                **usage_facts(report.usage),
            },
            agent=plan.spec.agent,
            attempt=report.attempt,
        )

    def _importing(self, plan: DispatchPlan) -> tuple[Report, dict[str, Any]] | None:
        """What a process that died while importing had found: the agent's work is done and judged."""
        if (line := plan.slot.intent("dispatch.importing")) is None:
            return None
        if (start := plan.slot.intent("dispatch.start")) is None or line.seq < start.seq:
            return None
        return Report.from_json(line.data["report"], self._world.records.objects.get), line.data["facts"]

    async def _import_and_settle(self, plan: DispatchPlan, report: Report, facts: dict[str, Any]) -> Report:
        """Bring in what counts, after the members declared before this one, and record the end."""
        paths = to_import(report)
        if paths or report.ignored:
            if self._importing(plan) is None:
                found = {"report": report.to_json(), "facts": facts}
                plan.slot.append("dispatch.importing", found, agent=plan.spec.agent)
            async with in_turn():
                self._run.effect()
                report = await self._bring_in(plan, report, paths)
        self._remember(report)
        if report.accepted and (noticed := report.noticed):
            plan.slot.append("work.noticed", {"what": list(noticed), "by": report.member}, agent=report.agent)
        value = report.to_json()
        self._world.records.keep_json(plan.slot.key, "result.json", value)
        facts = {**facts, **outcome_facts(report)}
        plan.slot.settle("dispatch.end", value, facts=facts, agent=report.agent, attempt=report.attempt)
        if (layer := await self._world.kept_layer(plan.layer, plan.bound)) is not None:
            await layer.close()
        through()  # whoever has to hear of it first keeps none of the others waiting
        await self._run.on_recorded()
        await self._goes_on()
        return report

    async def _bring_in(self, plan: DispatchPlan, report: Report, paths: tuple[str, ...]) -> Report:
        world = self._world
        imported = await world.bring_in(only(report.work, paths), plan.spec.name) if paths else Imported()
        if not imported.ok:
            difference = redacted(world, await world.patch_of(report.work))
            plan.slot.append("dispatch.conflict", {"paths": list(imported.conflicts), "patch": report.patch})
            said = tuple(f"conflict with an edit made meanwhile: {path}" for path in imported.conflicts)
            return replace(
                report,
                outcome=Outcome.FAIL,
                reason=Reason.CONTRACT_VIOLATION,
                complaints=(*report.complaints, *said),
                conflicts=dict(imported.conflicts),
                outside_patch="\n".join(imported.conflicts.values())[:SHOWN_OF_PATCH],
                ignored={},
                accepted=False,
                passed=None,
                unfinished=difference[:SHOWN_OF_PATCH].decode("utf-8", "replace"),
            )
        if report.ignored and (layer := await world.kept_layer(plan.layer, plan.bound)) is not None:
            await layer.take_ignored(list(report.ignored))
            plan.slot.append("dispatch.came_along", {"ignored": dict(report.ignored)}, agent=plan.spec.agent)
        return report

    async def _one_try(self, plan: DispatchPlan, ground: Ground, used: Used, failure: str) -> Tried:
        if (cut := ground.taken_cut()) is not None and cut.ended is not None:
            plan.slot.append("dispatch.recalled", {"code": cut.ended.code, "ended": stamp(cut.at)})
            request = self._request(plan, ground.layer, "", cut.attempt, cut.marker, "")
            trial = Try(plan, used, ground.layer, ground.baseline, request, cut.started)
            return await self._examined(trial, cut.ended, cut.at)
        await self._budget.something_free()
        self._check_budget()
        trial = self._start(plan, ground, used, failure, cut)
        exit_ = await self._world.call(plan.bound, trial.request, self._observer(plan))
        return await self._examined(trial, exit_)

    async def _recall(self, plan: DispatchPlan, layer: Layer, start: Line, ended: Exit) -> AgentExit | None:
        request = self._request(plan, layer, "", start.attempt or plan.spec.attempt, start.data["marker"], "")
        return await self._world.recall(plan.bound, request, ended)

    async def _examined(self, trial: Try, exit_: AgentExit, ended: datetime | None = None) -> Tried:
        report, size = await self.examiner.examine(trial, exit_, ended or self._world.now())
        # What was found is on disk, and so is how the call ended, before anything is concluded from it.
        await trial.layer.rest()
        limited = exit_.limited if not report.ok else None
        return Tried(trial, report, size, limited, exit_.exhausted and not report.ok)

    def _start(self, plan: DispatchPlan, ground: Ground, used: Used, failure: str, cut: Cut | None) -> Try:
        """Record the start; when this returns, the agent may be called."""
        run, world, slot, spec = self._run, self._world, plan.slot, plan.spec
        number = len(slot.intents("dispatch.try")) + 1
        attempt = spec.attempt + used.total
        session = cut.session if cut is not None else ""
        timeout_s = cut.left_s if cut is not None and session else plan.timeout_s
        started = world.now()
        deadline = stamp(started + timedelta(seconds=timeout_s))
        token = world.draw(16)
        marker = f"{plan.marker}{number}"
        earlier = earlier_work(self._unfinished.get(spec.name, "")) if spec.starts_from is None else ""
        failure = "\n\n".join(filter(None, (earlier, failure)))
        words = self._words(plan)
        told = self._told() if spec.kind is Kind.JUDGE else None
        given = plan.brief(attempt=attempt, deadline=deadline, failure=failure, words=rendered(words), told=told)
        text = world.redact(given)
        raw = text.encode("utf-8", "surrogateescape")
        world.records.begin_try(slot.key, number)
        world.records.keep(slot.key, "brief.md", raw)
        ground.layer.forget_exit()
        slot.append(
            "dispatch.start",
            {
                "member": spec.name,
                "step": plan.step,
                "try": number,
                "runner": plan.bound.runner,
                "role": plan.source,
                "session": plan.session,
                "depth": plan.delegation.depth,
                "path": list(plan.delegation.path),
                "token": sha256(token.encode()),
                "marker": marker,
                "timeout_s": timeout_s,
                "deadline": deadline,
                "brief": sha256(raw),
                "brief_bytes": len(raw),
                "baseline": ground.baseline.to_json(),
                "writes": list(plan.scope.patterns),
                "layer": plan.layer,
                "resumes": session,
                "heard": [one.to_json() for one in words],
            },
            agent=spec.agent,
            attempt=attempt,
        )
        run.journal.tripwire("effect")
        share = self._budget.reserve(slot.key, min(at_once(), run.at_once))
        mine = {"timeout_s": timeout_s, "allowance": share, "resume": session or None}
        request = self._request(plan, ground.layer, text, attempt, marker, token, **mine)
        return Try(plan, used, ground.layer, ground.baseline, request, started)

    def _words(self, plan: DispatchPlan) -> tuple[Words, ...]:
        """What people said that concerns this call: the same for all its tries."""
        if (first := next(iter(plan.slot.intents("dispatch.start")), None)) is not None:
            return read_words(first.data.get("heard", ()))
        lane = plan.slot.scope.member
        objects = self._world.records.objects
        return unheard(self._run.journal.lines, objects, lane=lane, cluster=lane.rpartition("/")[0])

    def _told(self) -> Quoted | None:
        """What judges are told of the work before them, beside what it says itself."""
        noticed = dict.fromkeys(text for key in sorted(self._findings) for text in shortened(self._findings[key]))
        return Quoted(NOTICED, "\n".join(noticed)) if noticed else None

    def _request(
        self, plan: DispatchPlan, layer: Layer, text: str, attempt: int, marker: str, token: str, **of_try: Any
    ) -> AgentRequest:
        world, spec = self._world, plan.spec
        return AgentRequest(
            run_id=plan.identity.run_id,
            playbook=plan.identity.playbook,
            step=plan.step,
            agent=spec.agent,
            member=spec.name,
            attempt=attempt,
            dispatch=plan.slot.key,
            session=plan.session,
            workspace=layer.enclosure.root,
            folder=world.records.folder(plan.slot.key),
            exchange=layer.exchange,
            within=layer.enclosure,
            brief=text,
            partial_grace_s=spec.partial_grace_s,
            depth=plan.delegation.depth,
            path=plan.delegation.path,
            marker=marker,
            token=token,
            model=plan.bound.model,
            role=plan.bound.role,
            instructions=world.redact(plan.instructions.strip()),
            contract=spec.contract,
            **{"timeout_s": plan.timeout_s, **of_try},
        )

    def _observer(self, plan: DispatchPlan) -> Observer:
        def observe(news: AgentNews) -> None:
            if event := JOURNALED_NEWS.get(news.kind):
                plan.slot.append(event, dict(news.data), agent=plan.spec.agent)
            elif news.kind == "usage" and self._budget.is_news(plan.slot.key, usage_in(news.data)):
                plan.slot.append("dispatch.spent", dict(news.data), agent=plan.spec.agent)
            self._run.on_news(plan.slot.key, news)

        return observe

    def _end_facts(self, trial: Try, report: Report, answer_bytes: int) -> dict[str, Any]:
        """What the end of a dispatch says at a glance; the report has the rest."""
        return {
            "member": report.member,
            "step": trial.plan.step,
            "session": report.session,
            **outcome_facts(report),
            "token": report.token,
            "detail": report.detail[:400],
            "tries": report.tries,
            "started_at": stamp(trial.started),
            "seconds": report.seconds,
            "exit_code": report.exit_code,
            "agent_session": report.agent_session,
            "brief_bytes": len(trial.request.brief),
            "answer_bytes": answer_bytes,
            "changes": len(report.changes),
            "accepted": report.accepted,
            **usage_facts(report.usage),
        }

    def _plan(self, spec: Dispatch, slot: Slot, session: str) -> DispatchPlan:
        run = self._run
        if not isinstance(spec.task, str):
            spec = replace(spec, task=worded(run.playbook, spec.task, self._world.documents))
        return make_plan(spec, slot, self._world.bind(spec.agent), run.identity, run.options, session=session)

    def _session(self, slot: Slot) -> str:
        """One session id per dispatch, kept over crashes and tries."""
        if start := slot.intent("dispatch.start"):
            return str(start.data["session"])
        day = stamp(self._world.now())[:10].replace("-", "")
        while True:
            session = f"sess_{day}_{self._world.draw(6)}"
            if self._world.claim_session(session, self._run.identity.run_id):
                return session

    def _check_budget(self) -> None:
        """Park the run when its money is used up (EN-45)."""
        if not self._budget.reached:
            return
        run, usd = self._run, self._run.options.budget_usd
        more = f" --budget {2 * usd:g}" if usd is not None else ""
        advice = f"; go on with: interlock resume {run.identity.run_id}{more}"
        run.park(self._budget.reached, facts=self._budget.facts(), advice=advice)


def shortened(noticed: Sequence[str]) -> Sequence[str]:
    """So much of it that nothing drowns: what is left out is counted, so that a judge knows to look."""
    if len(noticed) <= MOST_NOTICED:
        return noticed
    return [*noticed[:MOST_NOTICED], f"and {len(noticed) - MOST_NOTICED} more of the kind: see its difference"]


def failure_context(report: Report) -> str:
    """What the next try is told: the exact complaint."""
    said = [f"The attempt before this one did not count: {report.reason or report.outcome}."]
    said += [f"- {text}" for text in dict.fromkeys((*([report.detail] if report.detail else []), *report.complaints))]
    if report.conflicts:
        quoted = brief.quoted(Quoted("Conflicts", report.outside_patch, "diff"))
        said += [
            "",
            "Somebody else changed the same places meanwhile. Work from the files as they are now.",
            "",
            quoted,
        ]
    elif report.outside_patch:
        quoted = brief.quoted(Quoted("Refused changes", report.outside_patch, "diff"))
        said += ["", "These changes were outside of what may be written. They are not in your tree.", "", quoted]
    return "\n".join(said)


def earlier_work(patch: str) -> str:
    """What an attempt is told of the work of the one before it, which is not in its tree."""
    if not patch:
        return ""
    quoted = brief.quoted(Quoted("Work of an earlier attempt", patch, "diff"))
    said = "An earlier attempt did not count. What it had changed is not in your tree; use of it what is good."
    return f"{said}\n\n{quoted}"


def to_import(report: Report) -> tuple[str, ...]:
    """What of a dispatch's changes comes into the tree: all of them, or of a failed one the documents that hold.

    A document that satisfies its contract is evidence, also when its author failed; the rest of a failed attempt is
    kept in `Report.work`.
    """
    return tuple(path for path in report.changes if report.accepted or path in report.artifacts)


def only(work: Any, paths: Iterable[str]) -> Any:
    """The part of changed files that concerns these paths."""
    wanted = set(paths)
    return {**work, "entries": [entry for entry in work["entries"] if entry[0] in wanted]}


def outcome_facts(report: Report) -> dict[str, Any]:
    return {
        "outcome": report.outcome.value,
        "reason": report.reason.value if report.reason else None,
        "complaints": list(report.complaints[:10]),
        "passed": report.passed,
        "against": list(report.evidence.contradictions[:10]),
    }


def usage_of(tries: Iterable[Line]) -> Usage:
    """What the tries before this one cost together."""
    total = Usage()
    for line in tries:
        total = total.plus(usage_in(line.data))
    return total


def usage_facts(usage: Usage | None) -> dict[str, Any]:
    said = usage or Usage()
    return {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens, "cost_usd": said.cost_usd}
