"""One call of one agent, always in the same order (DESIGN 2).

Brief, snapshot, synced start, agent with a deadline, end of its whole process tree, snapshot, attribution of the
changes, scope check with undo, artifact contracts, verdict, synced end.  The snapshot comes before the start line,
because the line names it: whoever finds a start without an end knows from what state to put things back.

A dispatch is one verb with one outcome; the tries inside it (transient repeats, one repair, retries) have lines of
their own, so that a crash in the second try does not pay for the first one again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from interlock.agents.runner import AgentNews, AgentRequest, Limited, Observer, Usage
from interlock.contracts import Reason
from interlock.engine import brief
from interlock.engine.examination import Examiner
from interlock.engine.journal import Line
from interlock.engine.keys import sha256
from interlock.engine.model import Dispatch, Kind, Quoted, Report
from interlock.engine.places import given_up
from interlock.engine.plan import Baseline, Plan, Preview, Try, make_plan, outbox_of, outbox_places, relocated, stamp
from interlock.engine.recovery import recover
from interlock.engine.retry import Move, Used, delay_s, next_move, wait_s
from interlock.engine.sharing import at_work, between_calls, holding_scope, shared_area
from interlock.engine.slot import Slot
from interlock.engine.world import Tree
from interlock.workspace import Scope

if TYPE_CHECKING:
    from interlock.engine.run import Run

JOURNALED_NEWS = {"started": "dispatch.running", "partial.requested": "partial.requested", "waiting": "agent.waiting"}


@dataclass(frozen=True)
class Tried:
    """One call of the agent and what it came to."""

    trial: Try
    report: Report
    answer_bytes: int
    limited: Limited | None = None


class Dispatcher:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._world = run.world
        self.examiner = Examiner(run)
        self._spent_usd = spent_usd(run.journal.lines)

    async def perform(self, spec: Dispatch, slot: Slot) -> Report:
        """Call the agent, with the repeats that the playbook allows, and record the one outcome."""
        run = self._run
        run.stop_here(slot.key, "dispatch", lambda: Preview.of(self._plan(spec, slot, "(at the start)")))
        self._world.bind(spec.agent)
        self._check_budget()
        run.materialize()
        plan = self._plan(spec, slot, self._session(slot))
        with holding_scope(plan):
            return await self._tries(plan)

    async def _tries(self, plan: Plan) -> Report:
        if (merging := self._merging(plan)) is not None:
            return await self._merge_and_settle(plan, *merging)
        allowed = plan.spec.retries or self._run.playbook.retries
        past = plan.slot.intents("dispatch.try")
        used = Used(**past[-1].data["used"]) if past else Used()
        failure = str(past[-1].data["failure"]) if past else ""
        usage = usage_of(past)
        waited = list[float]()
        while True:
            tried = await self._one_try(plan, used, failure)
            report = tried.report
            self._spent_usd += (report.usage.cost_usd or 0.0) if report.usage else 0.0
            move = Move.WAIT if tried.limited else next_move(report.outcome, report.reason, used, allowed)
            if move is Move.END:
                if past or used.total or waited:
                    report = replace(report, usage=usage.plus(report.usage or Usage()))
                facts = self._end_facts(tried.trial, report, tried.answer_bytes)
                if plan.isolated and not plan.spec.isolate:
                    return await self._merge_and_settle(plan, report, facts)
                self._settle(plan, report, facts)
                return report
            usage = usage.plus(report.usage or Usage())
            if tried.limited:
                delay = self._wait_for(tried.limited, waited)
                # An agent that waits for its service itself does so until the deadline.
                waited.append((delay or 0.0) + (report.seconds if report.reason is Reason.TIMEOUT else 0.0))
            else:
                failure = failure_context(report)
                delay = delay_s(used) if move is Move.REPEAT else 0.0
            used = used.after(move)
            self._record_try(plan, report, move, used, failure, delay or 0.0)
            if delay is None:
                self._run.pause(f"{plan.bound.runner}: {report.detail}; resume goes on when its limit has passed")
            self._check_budget()
            if delay:
                await self._rest(delay)

    async def _rest(self, seconds: float) -> None:
        """Wait between two calls: the place for an agent and the tree are free for others meanwhile."""
        with between_calls():
            await self._mark_idle()
            async with given_up():
                await self._world.sleep(seconds)

    async def _mark_idle(self) -> None:
        area = shared_area()
        if area is not None and area.rests:
            async with self._world.working():
                area.idle = await self._world.tree.snapshot()

    def _wait_for(self, limited: Limited, waited: list[float]) -> float | None:
        return wait_s(limited.reset_s, len(waited), sum(waited), self._run.options.rate_limit_wait_s)

    def _record_try(self, plan: Plan, report: Report, move: Move, used: Used, failure: str, delay: float) -> None:
        plan.slot.append(
            "dispatch.try",
            {
                "move": move.value,
                "outcome": report.outcome.value,
                "reason": report.reason.value if report.reason else None,
                "detail": report.detail,
                "failure": failure,
                "used": asdict(used),
                "delay_s": delay,
                "seconds": report.seconds,
                **usage_facts(report.usage),
            },
            agent=plan.spec.agent,
            attempt=report.attempt,
        )

    def _merging(self, plan: Plan) -> tuple[Report, dict[str, Any]] | None:
        """What a process that died while merging had found: the agent's work is done, only the merge may be missing."""
        line, start = plan.slot.intent("dispatch.merging"), plan.slot.intent("dispatch.start")
        if line is None or start is None or line.seq < start.seq:
            return None
        return Report.from_json(line.data["report"], self._world.records.objects.get), line.data["facts"]

    async def _merge_and_settle(self, plan: Plan, report: Report, facts: dict[str, Any]) -> Report:
        if self._merging(plan) is None:
            plan.slot.append("dispatch.merging", {"report": report.to_json(), "facts": facts}, agent=plan.spec.agent)
            self._run.journal.tripwire("effect")
        report = await self.examiner.merge_at_once(plan, report)
        self._settle(plan, report, facts | outcome_facts(report))
        return report

    async def _one_try(self, plan: Plan, used: Used, failure: str) -> Tried:
        world = self._world
        async with world.working():
            baseline, before = await self._prepare(plan)
            if not plan.isolated:
                with at_work():
                    tried = await self._call(plan, used, failure, world.tree, before, baseline)
                await self._mark_idle()
                return tried
        tree = await world.isolated(before, plan.worktree)
        try:
            return await self._call(plan, used, failure, tree, before, baseline)
        finally:
            await tree.close()

    async def _prepare(self, plan: Plan) -> tuple[Baseline | None, Any]:
        baseline = await recover(self._run, plan)
        before = await self._world.tree.snapshot()
        if (area := shared_area()) is not None:
            if area.before is None:
                area.before = before
            if area.idle is not None:
                changed = await self._world.tree.changes(area.idle, before)
                area.spared |= {one.path: self._world.tree.facts(one.path).digest for one in changed}
                area.idle = None
        return baseline, before

    async def _call(
        self, plan: Plan, used: Used, failure: str, tree: Tree, before: Any, baseline: Baseline | None
    ) -> Tried:
        baseline = baseline or Baseline.of(tree, plan.spec.contract)
        trial = self._start(plan, used, failure, tree, before, baseline)
        exit_ = await self._world.call(plan.bound, trial.request, self._observer(plan))
        report, size = await self.examiner.examine(trial, exit_)
        return Tried(trial, report, size, exit_.limited if not report.ok else None)

    def _start(self, plan: Plan, used: Used, failure: str, tree: Tree, before: Any, baseline: Baseline) -> Try:
        """Record the start; when this returns, the agent may be called."""
        run, world, slot, spec = self._run, self._world, plan.slot, plan.spec
        number = len(slot.intents("dispatch.try")) + 1
        attempt = spec.attempt + used.total
        started = world.now()
        deadline = stamp(started + timedelta(seconds=plan.timeout_s))
        token = world.draw(16)
        marker = f"{plan.marker}{number}"
        # A worktree is a place of its own already.
        places = outbox_places(spec.contract, marker) if run.options.outbox and not plan.isolated else {}
        text = world.redact(plan.brief(attempt=attempt, deadline=deadline, places=places, failure=failure))
        raw = text.encode("utf-8", "surrogateescape")
        world.records.begin_try(slot.key, number)
        world.records.keep(slot.key, "brief.md", raw)
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
                "timeout_s": plan.timeout_s,
                "deadline": deadline,
                "brief": sha256(raw),
                "brief_bytes": len(raw),
                "snapshot": before,
                "baseline": baseline.to_json(),
                "writes": list(plan.scope.patterns),
                "isolated": plan.isolated,
            },
            agent=spec.agent,
            attempt=attempt,
        )
        run.journal.tripwire("effect")
        request = self._request(plan, tree, text, attempt=attempt, marker=marker, token=token, places=places)
        return Try(plan, used, tree, before, baseline, request, started)

    def _request(
        self, plan: Plan, tree: Tree, text: str, *, attempt: int, marker: str, token: str, places: Mapping[str, str]
    ) -> AgentRequest:
        """What the runner gets; where agents write to an outbox, that is theirs to write too."""
        world, spec = self._world, plan.spec
        box = Scope((f"{outbox_of(marker)}/",) if places else ())
        return AgentRequest(
            run_id=plan.identity.run_id,
            playbook=plan.identity.playbook,
            step=plan.step,
            agent=spec.agent,
            member=spec.name,
            attempt=attempt,
            dispatch=plan.slot.key,
            session=plan.session,
            workspace=tree.root,
            folder=world.records.folder(plan.slot.key),
            brief=text,
            timeout_s=plan.timeout_s,
            partial_grace_s=spec.partial_grace_s,
            depth=plan.delegation.depth,
            path=plan.delegation.path,
            marker=marker,
            token=token,
            model=plan.bound.model,
            writes=(*plan.scope.patterns, *box.patterns),
            covers=lambda path: plan.scope.covers(path) or box.covers(path),
            role=plan.bound.role,
            instructions=world.redact(plan.instructions.strip()),
            shell_writes=spec.kind is not Kind.PRODUCER or bool(spec.writes),
            contract=relocated(spec.contract, places) if places else spec.contract,
        )

    def _observer(self, plan: Plan) -> Observer:
        def observe(news: AgentNews) -> None:
            if event := JOURNALED_NEWS.get(news.kind):
                plan.slot.append(event, dict(news.data), agent=plan.spec.agent)
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
            **usage_facts(report.usage),
        }

    def _settle(self, plan: Plan, report: Report, facts: dict[str, Any]) -> None:
        value = report.to_json()
        self._world.records.keep_json(plan.slot.key, "result.json", value)
        plan.slot.settle("dispatch.end", value, facts=facts, agent=report.agent, attempt=report.attempt)

    def _plan(self, spec: Dispatch, slot: Slot, session: str) -> Plan:
        run = self._run
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
        budget = self._run.options.budget_usd
        if budget is not None and self._spent_usd >= budget:
            self._run.wait_for_budget(self._spent_usd, budget)


def failure_context(report: Report) -> str:
    """What the next try is told: the exact complaint."""
    said = [f"The attempt before this one did not count: {report.reason or report.outcome}."]
    said += [f"- {text}" for text in dict.fromkeys((*([report.detail] if report.detail else []), *report.complaints))]
    if report.outside_patch:
        quoted = brief.quoted(Quoted("Undone changes", report.outside_patch, "diff"))
        said += ["", "These changes were outside of what may be written. They were undone.", "", quoted]
    return "\n".join(said)


def outcome_facts(report: Report) -> dict[str, Any]:
    return {
        "outcome": report.outcome.value,
        "reason": report.reason.value if report.reason else None,
        "complaints": list(report.complaints[:10]),
    }


def usage_of(tries: Iterable[Line]) -> Usage:
    """What the tries before this one cost together."""
    total = Usage()
    for line in tries:
        total = total.plus(Usage(line.data["input_tokens"], line.data["output_tokens"], line.data["cost_usd"]))
    return total


def spent_usd(lines: Iterable[Line]) -> float:
    """What a run has cost so far: ended dispatches with all their tries, and the tries of those that go on."""
    ended: dict[str | None, float] = {}
    open_: dict[str | None, float] = {}
    for line in lines:
        if line.event == "dispatch.end":
            ended[line.key] = line.data["cost_usd"] or 0.0
        elif line.event == "dispatch.try":
            open_[line.key] = open_.get(line.key, 0.0) + (line.data["cost_usd"] or 0.0)
    return sum(ended.values()) + sum(cost for key, cost in open_.items() if key not in ended)


def usage_facts(usage: Usage | None) -> dict[str, Any]:
    said = usage or Usage()
    return {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens, "cost_usd": said.cost_usd}
