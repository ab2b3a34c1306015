"""A run, as the function of its playbook sees it: the verbs, and above all agents, clusters and people.

`Recording` is the ground (keys, scopes, replay); documents, decisions and commands are verbs of their own modules.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from copy import copy
from dataclasses import asdict, replace
from typing import Any, NoReturn, TypeVar

from interlock.engine.calling import Chain, deeper, lowered, played
from interlock.engine.definition import Playbook
from interlock.engine.dispatch import Dispatcher
from interlock.engine.identity import Identity
from interlock.engine.journal import Journal
from interlock.engine.keys import checked_name
from interlock.engine.model import APPROVE, REJECT, Choice, Dispatch, Ending, GateDecision, Report, Status, plain
from interlock.engine.options import Halted, Options
from interlock.engine.places import start_without, taking
from interlock.engine.plain_verbs import PlainVerbs
from interlock.engine.recording import CODE_CHANGED
from interlock.engine.repository_verb import RepositoryVerb
from interlock.engine.scopes import current
from interlock.engine.slot import Slot
from interlock.engine.turns import Lane, take_place, through
from interlock.engine.world import World
from interlock.errors import AgentFailed, Diverged, EngineFault
from interlock.workspace import Scope as PathScope

T = TypeVar("T")


class Run(PlainVerbs):
    """One execution of a playbook."""

    def __init__(
        self,
        playbook: Playbook,
        identity: Identity,
        journal: Journal,
        world: World,
        *,
        options: Options | None = None,
        say: Callable[[str | bytes], None] = lambda _text: None,
    ) -> None:
        super().__init__(playbook, identity, journal, world, options=options, say=say)
        self.at_once = self.options.max_parallel or playbook.max_parallel
        """How many agents may work side by side."""
        self.resumed = 0
        """Which resume this process is, 0 for a first start."""
        self._chain: Chain = ((playbook.name, dict(identity.inputs)),)
        self._serial: tuple[asyncio.Semaphore, ...] = (asyncio.Semaphore(self.at_once),)
        self._dispatcher = Dispatcher(self)

    @property
    def repository(self) -> RepositoryVerb:
        """The user's own git: what can be asked of it, and branches, stashes and commits that happen once."""
        return RepositoryVerb(self)

    # -- people

    async def gate(
        self,
        name: str,
        question: str,
        *,
        choices: Sequence[Choice] = (APPROVE, REJECT),
        shows: Sequence[str] = (),
        answered: str | None = None,
    ) -> GateDecision:
        """Ask a person. The run is parked until there is a recorded answer, bound to what the gate showed.

        Args:
            answered: the choice that the person who started this process, or wrote its settings, made beforehand;
                it is recorded like any other decision, and the run is not parked.
        """
        parts = {
            "gate": name,
            "question": question,
            "choices": [choice.name for choice in choices],
            "shows": list(shows),
        }
        slot = self.recall(name, parts)
        if slot.recorded:
            return GateDecision(**slot.value())
        opening = slot.intent("gate.opened")
        digests = {path: self.world.documents.facts(path).digest or "" for path in shows}
        if opening is None or opening.data["digests"] != digests:
            if opening is None:
                self.stop_here(slot.key, "gate", lambda: parts)
            self.materialize()
            opening = self.journal.append(
                "gate.opened",
                key=slot.key,
                data={
                    "gate": name,
                    "question": question,
                    "choices": [asdict(choice) for choice in choices],
                    "digests": digests,
                    "inputs": slot.digest,
                    "opening": 1 if opening is None else opening.data["opening"] + 1,
                },
            )
        if answered is not None and (not choices or answered in {choice.name for choice in choices}):
            decision = GateDecision(answered, "given beforehand", self.world.now().isoformat(), digests=digests)
            slot.settle(
                "gate.decided",
                asdict(decision),
                facts={
                    "gate": name,
                    "opening": opening.data["opening"],
                    "choice": decision.choice,
                    "who": decision.who,
                    "note": "",
                },
            )
            return decision
        raise Halted(f"waiting for a decision: {question}", gate={"key": slot.key, **opening.data})

    def wait_for_budget(self, reason: str, facts: Mapping[str, Any]) -> None:
        """Park the run because its money is used up (EN-45)."""
        self.materialize()
        self.journal.append("run.paused", data={"reason": reason, **facts})
        more = f" --budget {2 * self.options.budget_usd:g}" if self.options.budget_usd is not None else ""
        raise Halted(f"{reason}; go on with: interlock resume {self.identity.run_id}{more}")

    def pause(self, reason: str, *, status: Status = Status.WAITING) -> NoReturn:
        """A bounded stop: the run stays open and goes on with the next resume (EN-21).

        Args:
            status: how this process ends; `FAILED` where an agent did not do its part, and may at the next resume.
        """
        self.materialize()
        self.journal.append("run.paused", data={"reason": reason})
        raise Halted(reason, status=status)

    # -- agents

    async def dispatch(self, spec: Dispatch) -> Report:
        """Call one agent and come back with what is proven about it."""
        slot = self.recall(spec.name, spec.parts())
        if slot.recorded:
            report = Report.from_json(slot.value(), self.world.records.objects.get)
            self._dispatcher.remember(report)
        else:
            async with AsyncExitStack() as places:
                for limit in self._serial:
                    await places.enter_async_context(taking(limit))
                report = await self._dispatcher.perform(spec, slot)
        through()
        return report

    # -- other playbooks

    async def call(
        self,
        other: Playbook,
        inputs: Any,
        *,
        caps: Mapping[str, int] | None = None,
        writes: Sequence[str] | None = None,
    ) -> Ending:
        """Play another playbook here, in this run, and come back with how it ended: a value, whatever it is.

        It has its own agents, prompts and table of settings, and nothing more than its caller: caps of the same name,
        agents side by side, budget and bounds of what may be written hold in it too.

        Args:
            caps: of its loops, lower than its own.
            writes: paths and globs beyond which none of its agents may write.
        """
        chain = deeper(self._chain, other, inputs)
        asked = {
            "playbook": other.name,
            "inputs": plain(chain[-1][1]),
            "caps": dict(caps or {}),
            "writes": plain(writes),
        }
        slot = self.recall("call", asked)
        began, over = slot.recorded, self.record.holds(self._keys.coming(self.scope.path, "called"))
        if not began:
            slot.settle("call", None, facts={"playbook": other.name, "key": other.key(inputs)})
        inner = self._called(other, inputs, chain, caps or {}, None if writes is None else tuple(writes))
        if self.resumed and began and not over and other.on_resume is not None:
            with self.outside_replay(other.name):
                await other.on_resume(inner, self.resumed)
        with self.step(other.name):
            ending = await played(inner, inputs)
        slot = self.recall("called", {"playbook": other.name})
        if slot.recorded:
            return self._as_recorded(slot, ending)
        facts = {"playbook": other.name, "status": ending.status.value, "reason": ending.reason[:400]}
        slot.settle("called", ending.to_json(), facts=facts)
        return ending

    def _as_recorded(self, slot: Slot, ending: Ending) -> Ending:
        recorded = Ending.from_json(slot.value())
        if recorded != ending and not self.options.accept_recorded:
            raise Diverged(
                f"the playbook called at {slot.key} now ends {ending.status}; recorded is {recorded.status}",
                key=slot.key,
                remedy=CODE_CHANGED,
            )
        return recorded

    def _called(
        self, other: Playbook, inputs: Any, chain: Chain, caps: Mapping[str, int], writes: tuple[str, ...] | None
    ) -> Run:
        """This run as a playbook sees it that is called: the same journal, keys and budget; its own name and rules."""
        inner = copy(self)
        inner._chain = chain
        inner.playbook = other
        inner.identity = replace(
            self.identity,
            playbook=other.name,
            key=other.key(inputs),
            inputs=chain[-1][1],
            caps=lowered(other.caps, self.identity.caps, self.playbook.caps, caps),
        )
        inner.at_once = min(self.at_once, other.max_parallel)
        inner.options = self.options.for_called(other, at_once=inner.at_once, writes=writes)
        inner.world = self.world.for_called(other, inputs)
        inner.state_scope = PathScope((*self.state_scope.patterns, *other.state(inputs)))
        if inner.at_once < self.at_once:  # first a place among its own, so that none of the others is kept idle
            inner._serial = (asyncio.Semaphore(inner.at_once), *self._serial)
        inner._dispatcher = self._dispatcher.for_called(inner)
        return inner

    # -- side by side

    async def cluster(
        self, name: str, members: Mapping[str, Callable[[], Awaitable[T]]], *, cap: int | None = None
    ) -> dict[str, T]:
        """Members side by side, at most `cap` at a time; results come, and work is imported, in declared order."""
        for member in members:
            checked_name(member)
        limit = cap or self.at_once
        with self.step(name) if name else nullcontext():
            results = await self._run_members(members, limit)
            slot = self.recall("cluster", {"members": list(members)})
            if not slot.recorded:
                slot.settle("cluster.end", None, facts={"members": list(members)})
        return results

    async def _run_members(self, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int) -> dict[str, T]:
        base = self.scope
        places = {member: f"{base.path}/{member}" if base.path else member for member in members}
        if taken := self._open_members & set(places.values()):
            raise EngineFault(f"two members would have the same keys: {sorted(taken)[0]}", where=base.path)
        self._open_members |= set(places.values())
        slots = asyncio.Semaphore(cap)
        lanes = {member: Lane() for member in members}

        async def work(member: str, body: Callable[[], Awaitable[T]]) -> T:
            current.set(base.child(member, member=True))
            start_without()
            before = [lanes[other] for other in itertools.takewhile(member.__ne__, lanes)]
            take_place(lanes[member], before, min(cap, len(lanes)))
            try:
                async with taking(slots):
                    try:
                        return await body()
                    finally:
                        self._open_members.discard(places[member])
            finally:
                lanes[member].end()

        tasks = {member: asyncio.ensure_future(work(member, body)) for member, body in members.items()}
        try:
            await settle_all(tasks.values())
        finally:
            self._open_members -= set(places.values())
        return {member: task.result() for member, task in tasks.items()}

    @asynccontextmanager
    async def time_limit(self, seconds: float, message: str) -> AsyncIterator[None]:
        """Bound the engine's own work, whether it waits or blocks; the clock decides nothing else here."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise AgentFailed(message) from None
        if loop.time() - started > seconds:
            raise AgentFailed(message)


async def settle_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait for all members. One that halts lets the others finish (their work is paid for); an error ends them.

    None is at work any more when this returns or raises, however often it is cancelled: an error of a member may be
    followed by one of a cluster around it.
    """
    members = list(tasks)
    pending = set(members)
    failure: BaseException | None = None
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError as again:
            cancelled = again
            for task in pending:
                task.cancel()
            continue
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, Halted) and failure is None:
                failure = error
                for other in pending:
                    other.cancel()
    if cancelled is not None:
        raise cancelled
    if failure is not None:
        raise failure
    for task in members:  # of several that halt, the first in declared order
        if not task.cancelled() and isinstance(halt := task.exception(), Halted):
            raise halt
