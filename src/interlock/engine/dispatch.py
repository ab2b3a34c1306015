"""One call of one agent, always in the same order (DESIGN 2).

Brief, snapshot, synced start, agent with a deadline, end of its whole process tree, snapshot, attribution of the
changes, scope check with undo, artifact contracts, verdict, synced end.  The snapshot comes before the start line,
because the line names it: whoever finds a start without an end knows from what state to put things back.

A dispatch is one verb with one outcome; the tries inside it (transient repeats, one repair, retries) have lines of
their own, so that a crash in the second try does not pay for the first one again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from interlock.agents.book import Bound
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, FileOutput, Usage
from interlock.contracts import ArtifactCheck, Contract, Outcome, Reason, check, judge, parse_answer
from interlock.documents import FileFacts
from interlock.engine import brief
from interlock.engine.attribution import Attribution, attribute
from interlock.engine.keys import sha256
from interlock.engine.model import Delegation, Dispatch, Kind, Quoted, Report
from interlock.engine.retry import Move, Used, delay_s, next_move
from interlock.engine.world import Tree
from interlock.errors import ConfigInvalid
from interlock.workspace import Scope, overlap

if TYPE_CHECKING:
    from interlock.engine.run import Run, Slot

READ_OF_ANSWER = 1_000_000
"""Bytes at the end of an answer in which its verdict is looked for."""
SHOWN_OF_PATCH = 20_000
OUTBOX = ".interlock/outbox"
DEFAULT_TIMEOUT_S = 1800.0


@dataclass
class Area:
    """Dispatches that work side by side in the shared tree, and what they may change together."""

    scopes: dict[str, Scope] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    before: Any = None
    """The tree before the first of them started."""


_area: ContextVar[Area | None] = ContextVar("area", default=None)


@dataclass(frozen=True)
class Plan:
    """A dispatch with everything that its tries share."""

    spec: Dispatch
    slot: Slot
    binding: Bound
    scope: Scope
    session: str
    timeout_s: float
    isolated: bool
    instructions: str
    source: str


@dataclass(frozen=True)
class Preview:
    """What a dry run shows of a dispatch."""

    agent: str
    member: str
    step: str
    runner: str
    timeout_s: float
    writes: tuple[str, ...]
    brief: str


@dataclass(frozen=True)
class Baseline:
    """What an artifact was before the first try, for the question whether it is fresh (EN-40)."""

    facts: Mapping[str, FileFacts]

    def to_json(self) -> dict[str, Any]:
        return {path: facts.to_json() for path, facts in self.facts.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Mapping[str, Any]]) -> Baseline:
        return cls({path: FileFacts.from_json(facts) for path, facts in value.items()})


class Dispatcher:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._world = run.world
        self.spent_usd = sum(line.data.get("cost_usd") or 0.0 for line in run.journal.lines if "cost_usd" in line.data)

    # -- side by side

    @contextmanager
    def side_by_side(self, count: int) -> Iterator[Area | None]:
        """Dispatches inside share one area; None where an outer cluster has it already, or nothing is concurrent."""
        if _area.get() is not None or count < 2:
            yield None
            return
        area = Area()
        token = _area.set(area)
        try:
            yield area
        finally:
            _area.reset(token)

    async def clean_up(self, area: Area | None, slot: Slot) -> None:
        """Undo what the members of a cluster changed in nobody's scope; it fails none of them (EN-37)."""
        if area is None or area.before is None:
            return
        run, tree = self._run, self._world.tree
        async with self._world.working():
            after = await tree.snapshot()
            found = attribute(
                await tree.changes(area.before, after),
                covers=lambda path: any(scope.covers(path) for scope in area.scopes.values()),
                is_state=self._is_state,
                kind=Kind.PRODUCER,
                beside_others=False,
                own=run.own_writes,
                digest_now=lambda path: tree.facts(path).digest,
            )
            await self._undo(slot, tree, area.before, after, found, label="nobody", event="scope.cleaned")

    # -- the procedure

    async def perform(self, spec: Dispatch, slot: Slot) -> Report:
        run = self._run
        run.stop_here(slot.key, "dispatch", lambda: self._preview(self._plan(spec, slot, "(at the start)")))
        self._world.bind(spec.agent)
        self._check_budget()
        run.materialize()
        plan = self._plan(spec, slot, self._session(slot))
        with self._claim(plan):
            return await self._tries(plan)

    async def _tries(self, plan: Plan) -> Report:
        slot, spec = plan.slot, plan.spec
        allowed = spec.retries or self._run.playbook.retries
        past = slot.intents("dispatch.try")
        used = Used(**past[-1].data["used"]) if past else Used()
        failure = str(past[-1].data["failure"]) if past else ""
        while True:
            result = await self._one_try(plan, used, failure)
            report = result.report
            move = next_move(report.outcome, report.reason, used, allowed)
            if move is Move.END:
                if plan.isolated and not spec.isolate:
                    result = replace(result, report=await self._merge_at_once(plan, report))
                self._settle(plan, result, used)
                return result.report
            failure = failure_context(report)
            delay = delay_s(used) if move is Move.REPEAT else 0.0
            used = used.after(move)
            slot.append(
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
                agent=spec.agent,
                attempt=report.attempt,
            )
            if delay:
                await self._world.sleep(delay)

    async def _one_try(self, plan: Plan, used: Used, failure: str) -> Result:
        world = self._world
        if not plan.isolated:
            async with world.working():
                baseline, before = await self._prepare(plan)
                return await self._call(plan, used, failure, world.tree, before, baseline)
        async with world.working():
            baseline, before = await self._prepare(plan)
        tree = await world.isolated(before, worktree_name(self._run.identity.run_id, plan.slot.key))
        try:
            return await self._call(plan, used, failure, tree, before, baseline)
        finally:
            await tree.close()

    async def _prepare(self, plan: Plan) -> tuple[Baseline | None, Any]:
        baseline = await self._recover(plan)
        before = await self._world.tree.snapshot()
        if (area := _area.get()) is not None and area.before is None:
            area.before = before
        return baseline, before

    async def _call(
        self, plan: Plan, used: Used, failure: str, tree: Tree, before: Any, baseline: Baseline | None
    ) -> Result:
        artifacts = plan.spec.contract.artifacts
        baseline = baseline or Baseline({item.path: without_content(tree.facts(item.path)) for item in artifacts})
        request, started = self._start(plan, used, failure, tree, before, baseline)
        exit_ = await self._world.call(plan.binding, request, self._observer(plan))
        return await self._examine(plan, request, exit_, tree, before, baseline, started, used)

    def _start(
        self, plan: Plan, used: Used, failure: str, tree: Tree, before: Any, baseline: Baseline
    ) -> tuple[AgentRequest, datetime]:
        """Record the start; when this returns, the agent may be called."""
        run, world, slot, spec = self._run, self._world, plan.slot, plan.spec
        number = used.total + 1
        attempt = spec.attempt + used.total
        started = world.now()
        deadline = started + timedelta(seconds=plan.timeout_s)
        token = world.draw(16)
        marker = f"{run.identity.run_id}:{slot.key}:{number}"
        places = outbox_places(spec, marker) if run.options.outbox and spec.contract.artifacts else {}
        text = world.redact(
            brief.render(
                spec,
                self._heading(plan, attempt, stamp(deadline)),
                instructions=plan.instructions,
                places=places,
                failure=failure,
            )
        )
        world.records.begin_try(slot.key, number)
        world.records.keep(slot.key, "brief.md", text.encode("utf-8", "surrogateescape"))
        slot.append(
            "dispatch.start",
            {
                "member": spec.name,
                "step": self._step(plan),
                "try": number,
                "runner": plan.binding.runner,
                "role": plan.source,
                "session": plan.session,
                "depth": spec.delegation.depth,
                "path": list(spec.delegation.path),
                "token": sha256(token.encode()),
                "marker": marker,
                "timeout_s": plan.timeout_s,
                "deadline": stamp(deadline),
                "brief": sha256(text.encode("utf-8", "surrogateescape")),
                "brief_bytes": len(text),
                "snapshot": before,
                "baseline": baseline.to_json(),
                "writes": list(plan.scope.patterns),
                "isolated": plan.isolated,
            },
            agent=spec.agent,
            attempt=attempt,
        )
        run.journal.tripwire("effect")
        contract = relocated(spec.contract, places) if places else spec.contract
        return (
            AgentRequest(
                run_id=run.identity.run_id,
                playbook=run.identity.playbook,
                step=self._step(plan),
                agent=spec.agent,
                member=spec.name,
                attempt=attempt,
                dispatch=slot.key,
                session=plan.session,
                workspace=tree.root,
                folder=world.records.folder(slot.key),
                brief=text,
                timeout_s=plan.timeout_s,
                partial_grace_s=spec.partial_grace_s,
                depth=spec.delegation.depth,
                path=spec.delegation.path,
                marker=marker,
                token=token,
                model=plan.binding.model,
                writes=plan.scope.patterns,
                role=plan.binding.role,
                contract=contract,
            ),
            started,
        )

    def _observer(self, plan: Plan) -> Any:
        def observe(news: AgentNews) -> None:
            if news.kind == "started":
                plan.slot.append("dispatch.running", dict(news.data), agent=plan.spec.agent)
            elif news.kind in ("partial.requested", "waiting"):
                plan.slot.append(news.kind, dict(news.data), agent=plan.spec.agent)
            self._run.on_news(plan.slot.key, news)

        return observe

    # -- judging what came back

    async def _examine(
        self,
        plan: Plan,
        request: AgentRequest,
        exit_: AgentExit,
        tree: Tree,
        before: Any,
        baseline: Baseline,
        started: datetime,
        used: Used,
    ) -> Result:
        run, spec, slot = self._run, plan.spec, plan.slot
        refused = self._import_outbox(plan, tree, request) if request.contract is not spec.contract else ()
        after = await tree.snapshot()
        found = attribute(
            await tree.changes(before, after),
            covers=plan.scope.covers,
            is_state=self._is_state,
            kind=spec.kind,
            beside_others=_area.get() is not None and not plan.isolated,
            own=run.own_writes,
            digest_now=lambda path: tree.facts(path).digest,
        )
        patch = await self._undo(slot, tree, before, after, found, label=spec.name)
        if found.mine:
            self._world.records.keep(slot.key, "changes.patch", await tree.patch(before, after, found.mine))
        facts = {artifact.path: tree.facts(artifact.path) for artifact in spec.contract.artifacts}
        checks = [
            check(artifact, facts[artifact.path], baseline.facts.get(artifact.path))
            for artifact in spec.contract.artifacts
        ]
        answer = parse_answer(
            spec.contract.answer,
            code=exit_.code,
            result=exit_.result,
            message=exit_.output.tail(READ_OF_ANSWER).decode("utf-8", "replace"),
            session=plan.session,
            spawn_error=exit_.spawn_error,
            timed_out=exit_.timed_out,
            partial=exit_.partial,
        )
        verdict = judge(spec.contract, answer, checks)
        outcome, reason = verdict.outcome, verdict.reason
        complaints = tuple(verdict.complaints)
        violations = (*found.violations, *refused)
        if violations:
            complaints = (*complaints, *(f"changed outside its scope: {path}" for path in violations))
            if outcome is not Outcome.FAIL:
                outcome, reason = Outcome.FAIL, Reason.SCOPE_VIOLATION
        objects = self._world.records.objects
        artifacts = {
            path: objects.put(fact.content)
            for path, fact in facts.items()
            if fact.content is not None and sound(path, checks)
        }
        digest, place, size = self._keep_answer(slot.key, request, exit_)
        report = Report(
            key=slot.key,
            agent=spec.agent,
            member=spec.name,
            attempt=request.attempt,
            session=plan.session,
            outcome=outcome,
            reason=reason,
            token=answer.token,
            data=answer.data,
            detail=answer.detail,
            complaints=complaints,
            artifacts=artifacts,
            changes=found.mine,
            violations=violations,
            foreign=found.foreign,
            outside_patch=patch[:SHOWN_OF_PATCH].decode("utf-8", "replace"),
            partial=exit_.partial,
            tries=used.total + 1,
            exit_code=exit_.code,
            seconds=round((self._world.now() - started).total_seconds(), 3),
            usage=exit_.usage,
            answer_digest=digest,
            answer_path=place,
            base=before if plan.isolated else None,
            theirs=after if plan.isolated else None,
            load=objects.get,
        )
        return Result(report, started, len(request.brief), size)

    def _settle(self, plan: Plan, result: Result, used: Used) -> None:
        report = result.report
        value = report.to_json()
        self._world.records.keep_json(plan.slot.key, "result.json", value)
        self.spent_usd += (report.usage.cost_usd or 0.0) if report.usage else 0.0
        plan.slot.settle(
            "dispatch.end",
            value,
            facts={
                "member": report.member,
                "step": self._step(plan),
                "session": report.session,
                "outcome": report.outcome.value,
                "reason": report.reason.value if report.reason else None,
                "token": report.token,
                "detail": report.detail[:400],
                "complaints": list(report.complaints[:10]),
                "tries": used.total + 1,
                "started_at": stamp(result.started),
                "seconds": report.seconds,
                "exit_code": report.exit_code,
                "brief_bytes": result.brief_bytes,
                "answer_bytes": result.answer_bytes,
                "changes": len(report.changes),
                **usage_facts(report.usage),
            },
            agent=report.agent,
            attempt=report.attempt,
        )

    async def _merge_at_once(self, plan: Plan, report: Report) -> Report:
        """Bring over the work of a dispatch that settings, not the playbook, put into a worktree (EN-36)."""
        async with self._world.working():
            merged = await self._world.merge(report.base, report.theirs, report.changes, plan.spec.name)
        if merged.ok:
            return report
        conflicts = tuple(f"conflict with an edit made meanwhile: {path}" for path in merged.conflicts)
        return replace(
            report,
            outcome=Outcome.FAIL,
            reason=Reason.CONTRACT_VIOLATION,
            complaints=(*report.complaints, *conflicts),
            outside_patch="\n".join(merged.conflicts.values())[:SHOWN_OF_PATCH],
        )

    def _keep_answer(self, key: str, request: AgentRequest, exit_: AgentExit) -> tuple[str, str, int]:
        objects, records = self._world.records.objects, self._world.records
        if exit_.output.size == 0 and exit_.result is not None:
            return objects.put(exit_.result), records.shown(request.result_path), len(exit_.result)
        if isinstance(exit_.output, FileOutput):
            return objects.put_file(exit_.output.path), records.shown(request.output_path), exit_.output.size
        content = exit_.output.read()
        return objects.put(content), records.keep(key, "output.md", content), len(content)

    async def _undo(
        self,
        slot: Slot,
        tree: Tree,
        before: Any,
        after: Any,
        found: Attribution,
        *,
        label: str,
        event: str = "scope.violation",
    ) -> bytes:
        """Put back what was out of bounds; it is kept as a patch or in the attic, and said."""
        outside = (*found.violations, *found.foreign)
        patch = b""
        if outside:
            patch = await tree.patch(before, after, outside)
            kept = self._world.records.keep(slot.key, "outside.patch", patch)
            await tree.restore(before, outside)
            if found.violations:
                slot.append(event, {"paths": list(found.violations), "patch": kept, "by": label})
            if found.foreign:
                slot.append("foreign_write", {"paths": list(found.foreign), "patch": kept, "by": label})
        if found.byproducts:
            into = f"{self._run.identity.run_id}/{slot.key}"
            moved = await tree.move_to_attic(found.byproducts, into)
            slot.append("scope.cleaned", {"paths": list(found.byproducts), "attic": moved, "by": label})
        return patch

    def _import_outbox(self, plan: Plan, tree: Tree, request: AgentRequest) -> tuple[str, ...]:
        """Bring what the agent put into its outbox to its real places; returns what it may not write."""
        box = f"{OUTBOX}/{outbox_name(request.marker)}"
        refused = []
        for place in self._world.documents.list(box, "**/*"):
            path = place[len(box) + 1 :]
            if plan.scope.covers(path):
                content = tree.facts(place).content
                if content is not None:
                    self._world.documents.write(path, content)
            else:
                refused.append(path)
        if self._world.documents.list(box, "**/*"):
            kept = f".interlock/attic/{self._run.identity.run_id}/{plan.slot.key}/outbox-{request.attempt}"
            self._world.documents.set_aside_to(box, kept)
        return tuple(refused)

    # -- after a crash

    async def _recover(self, plan: Plan) -> Baseline | None:
        """Clear up behind a try that never ended: end its processes, keep its changes as a patch, put back its scope.

        A person may have edited other files since: those stay as they are and are listed (EN-13).
        """
        world, slot = self._world, plan.slot
        starts = slot.intents("dispatch.start")
        tries = slot.intents("dispatch.try")
        if not starts:
            return None
        baseline = Baseline.from_json(starts[0].data["baseline"])
        start = starts[-1]
        recovered = slot.intent("dispatch.recovered")
        if len(tries) >= start.data["try"] or (recovered is not None and recovered.seq > start.seq):
            return baseline
        running = slot.intent("dispatch.running")
        ours = running is not None and running.seq > start.seq
        ended = world.end_leftovers(
            f"{self._run.identity.run_id}:{slot.key}:",
            running.data.get("pgid") if ours and running else None,
            running.data.get("started") if ours and running else None,
        )
        facts: dict[str, Any] = {"try": start.data["try"], "ended": ended, "restored": [], "left": []}
        if not start.data["isolated"]:
            now = await world.tree.snapshot()
            changed = [change.path for change in await world.tree.changes(start.data["snapshot"], now)]
            own = {path for path in changed if world.tree.facts(path).digest == self._run.own_writes.get(path, "?")}
            mine = [path for path in changed if plan.scope.covers(path) and path not in own]
            facts["restored"], facts["left"] = mine, [p for p in changed if p not in mine and p not in own]
            if mine:
                patch = await world.tree.patch(start.data["snapshot"], now, mine)
                facts["patch"] = world.records.keep(slot.key, f"interrupted-{start.seq}.patch", patch)
                await world.tree.restore(start.data["snapshot"], mine)
            baseline = Baseline(
                {path: restored_facts(facts_, world.tree.facts(path)) for path, facts_ in baseline.facts.items()}
            )
        slot.append("dispatch.recovered", facts, agent=plan.spec.agent)
        return baseline

    # -- small decisions

    def _plan(self, spec: Dispatch, slot: Slot, session: str) -> Plan:
        run = self._run
        binding = self._world.bind(spec.agent)
        role = binding.role
        if binding.writes is not None:
            spec = replace(spec, writes=binding.writes)
        scope = Scope(spec.scope)
        if run.options.parent_scope is not None:
            scope = scope.within(Scope(run.options.parent_scope))
        if not spec.delegation.path:
            spec = replace(spec, delegation=delegation(run.parent, run.identity.playbook, spec.agent))
        limit = spec.timeout_s or DEFAULT_TIMEOUT_S
        if not spec.timeout_fixed:
            limit = binding.timeout_s or (role.timeout_s if role else None) or limit
        return Plan(
            spec=spec,
            slot=slot,
            binding=binding,
            scope=scope,
            session=session,
            timeout_s=limit,
            isolated=spec.isolate or (run.options.isolate and bool(spec.writes)),
            instructions=spec.instructions or (role.body if role else ""),
            source=spec.role_source or (role.source if role else "no role file"),
        )

    def _preview(self, plan: Plan) -> Preview:
        heading = self._heading(plan, plan.spec.attempt, "(at the start)")
        return Preview(
            agent=plan.spec.agent,
            member=plan.spec.name,
            step=self._step(plan),
            runner=plan.binding.runner,
            timeout_s=plan.timeout_s,
            writes=plan.scope.patterns,
            brief=brief.render(plan.spec, heading, instructions=plan.instructions),
        )

    def _heading(self, plan: Plan, attempt: int, deadline: str) -> brief.Heading:
        return brief.Heading(
            run_key=self._run.identity.key,
            playbook=self._run.identity.playbook,
            step=self._step(plan),
            attempt=attempt,
            session=plan.session,
            deadline=deadline,
            role=plan.source,
        )

    @staticmethod
    def _step(plan: Plan) -> str:
        return plan.spec.step or plan.slot.scope.step or plan.spec.agent

    def _session(self, slot: Slot) -> str:
        """One session id per dispatch, kept over crashes and tries."""
        if start := slot.intent("dispatch.start"):
            return str(start.data["session"])
        while True:
            session = f"sess_{stamp(self._world.now())[:10].replace('-', '')}_{self._world.draw(6)}"
            if self._world.claim_session(session, self._run.identity.run_id):
                return session

    @contextmanager
    def _claim(self, plan: Plan) -> Iterator[None]:
        """Hold the scope for this dispatch; overlapping ones side by side in one tree are refused (EN-37)."""
        area = _area.get()
        if area is None or plan.spec.isolate:
            yield
            return
        for key in area.live:
            if why := overlap(area.scopes[key], plan.scope):
                raise ConfigInvalid(
                    f"{plan.spec.name} and {key} would work side by side and may both write {why}",
                    where=plan.slot.key,
                    expected="disjoint write scopes of agents that run at the same time in one tree",
                )
        area.scopes[plan.slot.key] = plan.scope
        area.live.add(plan.slot.key)
        try:
            yield
        finally:
            area.live.discard(plan.slot.key)

    def _is_state(self, path: str) -> bool:
        return self._run.state_scope.covers(path)

    def _check_budget(self) -> None:
        budget = self._run.options.budget_usd
        if budget is not None and self.spent_usd >= budget:
            self._run.wait_for_budget(self.spent_usd, budget)


@dataclass(frozen=True)
class Result:
    report: Report
    started: datetime
    brief_bytes: int
    answer_bytes: int


def delegation(parent: Delegation | None, playbook: str, agent: str) -> Delegation:
    """Where a dispatch stands whose playbook does not say: one below the dispatch that started this run."""
    return Delegation(parent.depth + 1, (*parent.path, agent)) if parent else Delegation(1, (playbook, agent))


def failure_context(report: Report) -> str:
    """What the next try is told: the exact complaint."""
    said = [f"The attempt before this one did not count: {report.reason or report.outcome}."]
    said += [f"- {text}" for text in dict.fromkeys((*([report.detail] if report.detail else []), *report.complaints))]
    if report.outside_patch:
        quoted = brief.quoted(Quoted("Undone changes", report.outside_patch, "diff"))
        said += ["", "These changes were outside of what may be written. They were undone.", "", quoted]
    return "\n".join(said)


def usage_facts(usage: Usage | None) -> dict[str, Any]:
    said = usage or Usage()
    return {
        "input_tokens": said.input_tokens,
        "output_tokens": said.output_tokens,
        "cost_usd": said.cost_usd,
    }


def sound(path: str, checks: Sequence[ArtifactCheck]) -> bool:
    return all(found.ok for found in checks if found.path == path)


def without_content(facts: FileFacts) -> FileFacts:
    return replace(facts, content=None)


def restored_facts(before: FileFacts, now: FileFacts) -> FileFacts:
    """Putting a file back gives it a new time: with the old bytes it still counts as not rewritten."""
    return replace(before, mtime_ns=now.mtime_ns) if before.digest == now.digest else before


def outbox_name(marker: str) -> str:
    return sha256(marker.encode())[:12]


def outbox_places(spec: Dispatch, marker: str) -> dict[str, str]:
    return {a.path: f"{OUTBOX}/{outbox_name(marker)}/{a.path}" for a in spec.contract.artifacts}


def relocated(contract: Contract, places: Mapping[str, str]) -> Contract:
    """The contract as the agent sees it: its artifacts where it is told to write them."""
    return replace(contract, artifacts=tuple(replace(a, path=places[a.path]) for a in contract.artifacts))


def worktree_name(run_id: str, key: str) -> str:
    return f"{run_id}-{sha256(key.encode())[:8]}"


def stamp(moment: datetime) -> str:
    """UTC, ISO 8601, whole seconds."""
    return moment.isoformat()[:19] + "Z"
