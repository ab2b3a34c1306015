"""One run at one worker: claimed, carried on, checkpointed after each dispatch, and given back.

Nothing here believes the queue.  The claim is pushed before anything is done, each checkpoint is a compare-and-swap,
and a refusal means that somebody else has the run: then this process ends at once and writes nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from interlock.agents import AgentNews, process_table
from interlock.engine.folder import KnownRun, RunFolder
from interlock.engine.identity import Identity
from interlock.engine.journal import Line
from interlock.engine.lifecycle import ended_as, resumes
from interlock.engine.objects import Objects, unpack
from interlock.engine.playing import Finished
from interlock.engine.runs import Call, Follower, Runs, View
from interlock.errors import InterlockError, WorkspaceFailed
from interlock.fleet.carriage import Carriage, Fenced, Gone, KeyTaken, status_of
from interlock.fleet.clones import REMOTE, Clones
from interlock.fleet.depot import Depot, Moved
from interlock.fleet.orders import Order, Served
from interlock.fleet.remote import RemoteAway
from interlock.telemetry import is_cancelled
from interlock.workspace.git import seen_through

T = TypeVar("T")
FIRST_AWAY_S = 0.5
LONGEST_AWAY_S = 10.0
SAID = ("choice", "who", "at", "note")
"""What tells one decision at a gate from another."""


class WorkPlace(Protocol):
    """Opens a workspace for a run, as the settings in it and those of this worker say."""

    def __call__(
        self, root: Path, orders: Mapping[str, Any], view: View | None, follower: Follower | None
    ) -> tuple[Runs, Depot]: ...


@dataclass
class WorkerTold:
    """What has been said to a worker while it works."""

    leave: asyncio.Event = field(default_factory=asyncio.Event)
    """Finish the dispatches that are under way, then hand the run over."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Hand it over at once."""


class Watching:
    """A view that knows which dispatches are under way."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._under_way: set[str | None] = set()
        self.idle = asyncio.Event()
        self.idle.set()

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        self._view.begin(identity, lines, resumed=resumed)

    def line(self, line: Line) -> None:
        if line.event == "dispatch.start":
            self._under_way.add(line.key)
            self.idle.clear()
        elif line.event == "dispatch.end":
            self._under_way.discard(line.key)
            if not self._under_way:
                self.idle.set()
        self._view.line(line)

    def news(self, key: str, news: AgentNews) -> None:
        self._view.news(key, news)

    def say(self, text: str | bytes) -> None:
        self._view.say(text)

    def remark(self, text: str) -> None:
        self._view.remark(text)


class Working:
    """One job of a worker.

    Args:
        put: queues another order.
        reached: hears that the remote answered.
        fenced: ends this process and its agents, at once.
        unreachable: the same, for one that can save nothing and may wait no longer.
        sure_s: so long after a push this worker is sure that nobody took its run over.
    """

    def __init__(
        self,
        place: WorkPlace,
        clones: Clones,
        view: View,
        *,
        told: WorkerTold,
        put: Callable[[Order], Awaitable[Any]],
        reached: Callable[[], None],
        fenced: Callable[[str], NoReturn],
        unreachable: Callable[[str], NoReturn],
        sure_s: float,
    ) -> None:
        self._place = place
        self._clones = clones
        self._watching = Watching(view)
        self._told = told
        self._put = put
        self._reached = reached
        self._fenced = fenced
        self._unreachable = unreachable
        self._claimed = False
        self._sure_s = sure_s
        self._sure = process_table.now()
        """Since then nobody else can have taken the run over, but for one who believes that this worker is dead."""
        self._saving = asyncio.Lock()
        self._wanted = self._saved = 0
        self._carriages: dict[str, Carriage] = {}

    async def work(self, order: Order, address: str, cancelled: asyncio.Event) -> Served:
        """Work on the run of an order until it ends, waits for somebody, or is to be handed over."""
        try:
            root = await self._patiently(lambda: self._clones.workspace(address, order.run))
            served = await self._work_in(root, order, cancelled)
        except _Leaving:
            return Served.AGAIN
        except WorkspaceFailed:
            if not self._claimed:  # what is here of the repository may be the cause: it is made anew for the next job
                self._clones.forget(address)
            raise
        self._clones.clear(root)  # only now: what went wrong can be looked at until the next job
        return served

    async def _work_in(self, root: Path, order: Order, cancelled: asyncio.Event) -> Served:
        _, depot = self._place(root, {}, self._watching, None)
        try:
            moved = await self._patiently(lambda: depot.take(order.run, REMOTE, take_over=True))
        except (Fenced, Gone) as refusal:
            self._watching.remark(refusal.what)
            return Served.LOST if isinstance(refusal, Fenced) else Served.DONE
        self._claimed = True
        runs, self._depot = self._place(root, moved.orders, self._watching, self)
        known = runs.find(order.run)
        call = self._heard(runs, known, order.message or {}, moved.orders)
        if call is None:
            await self._give_back(order.run)
            return Served.DONE
        try:
            finished = await self._carried_on(runs, order.run, call, cancelled)
        except InterlockError:
            await self._give_back(order.run)
            raise
        return await self._left(runs, order, finished, moved)

    def _heard(self, runs: Runs, known: KnownRun, message: Mapping[str, Any], orders: Mapping[str, Any]) -> Call | None:
        """What this process is asked to do; None: nothing. A job may come twice: what it says is done once."""
        lines = known.folder.lines()
        call = _call(message, orders, first=not resumes(lines))
        if ended_as(lines) is None:
            said = is_said(message, lines, known.folder.objects)
            if message.get("kind") in ("decision", "cancel") and not said:
                known.folder.send(message)  # where the engine finds what people say, and judges it
            return replace(call, note="") if said else call
        if message.get("kind") != "resume" or is_cancelled(lines) or message.get("lines") not in (None, len(lines)):
            return None
        reopens = call.retry and runs.playbook_of(known).reopens
        return call if reopens else replace(call, only_begin=True)

    # -- while it is worked on

    async def _carried_on(self, runs: Runs, run_id: str, call: Call, cancelled: asyncio.Event) -> Finished | None:
        """How the run came out; None: this worker was to leave before it began."""
        work = asyncio.ensure_future(runs.resume(run_id, call))
        beside = [
            asyncio.ensure_future(self._hand_over(work)),
            asyncio.ensure_future(_passed_on(cancelled, runs.find(run_id).folder)),
        ]
        try:
            return await work
        except asyncio.CancelledError:
            if not (work.cancelled() and self._told.leave.is_set()):
                raise
            return None
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def _hand_over(self, work: asyncio.Future[Finished]) -> None:
        """Who is to leave lets the dispatches under way come to their ends, and begins none."""
        await self._told.leave.wait()
        either = [asyncio.ensure_future(one.wait()) for one in (self._watching.idle, self._told.now)]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in either:
                one.cancel()
        work.cancel()

    async def may_begin(self, identity: Identity) -> bool:
        """Not when this worker is to leave. One that was paused looks first whether the run is still its own."""
        if process_table.now() - self._sure > self._sure_s:
            began, carriage = process_table.now(), await self._carriage(identity.run_id)
            try:
                await self._patiently(carriage.check_ours)
            except Fenced as fence:
                self._fenced(fence.what)
            self._sure = began
        return not self._told.leave.is_set()

    async def recorded(self, identity: Identity) -> None:
        """The ref has it, by a checkpoint that was begun after this call; calls that come while one is under way share
        the next."""
        self._wanted += 1
        mine = self._wanted
        async with self._saving:
            if self._saved >= mine:
                return
            upto, began = self._wanted, process_table.now()
            carriage = await self._carriage(identity.run_id)
            # A push that was broken off could have been carried out, and nobody would know whose the run is.
            push = asyncio.ensure_future(self._patiently(carriage.checkpoint))
            try:
                await seen_through(push)
            finally:
                if isinstance(fence := push.exception(), Fenced):
                    self._fenced(fence.what)
            push.result()
            self._saved, self._sure = upto, began

    async def _carriage(self, run_id: str) -> Carriage:
        if run_id not in self._carriages:
            known = self._depot.runs.find(run_id)
            self._carriages[run_id] = await self._depot.open_carriage(known, REMOTE)
        return self._carriages[run_id]

    # -- leaving

    async def _left(self, runs: Runs, order: Order, finished: Finished | None, moved: Moved) -> Served:
        """Give the run back, and queue what follows from how it stands."""
        run_id = (finished.run_id if finished else None) or order.run
        if run_id != order.run:  # a successor begun here: it is a run of its own, with a job of its own
            await self._give_back(order.run)
            try:
                await self._patiently(lambda: self._depot.send(run_id, REMOTE, moved.orders))
            except KeyTaken as taken:  # one was begun already, by a worker that was lost before it could queue it
                self._watching.remark(taken.what)
                run_id = taken.run
            await self._put(replace(order, run=run_id, message=None))
            return Served.DONE
        await self._give_back(run_id)
        lines = runs.find(run_id).folder.lines()
        self._watching.remark(f"{run_id}: {status_of(lines)}")
        if self._told.leave.is_set() and ended_as(lines) is None and (finished is None or finished.gate is None):
            return Served.AGAIN
        return Served.DONE

    async def _give_back(self, run_id: str) -> None:
        try:
            await self._patiently(lambda: self._depot.send(run_id, REMOTE))
        except Fenced as fence:
            self._fenced(fence.what)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """What comes of it, however long the remote is away.

        Whoever is to leave waits no longer for a run that is not claimed; and with one that is, not when told twice.
        """
        delay, enough = FIRST_AWAY_S, self._told.now if self._claimed else self._told.leave
        while True:
            try:
                done = await act()
            except RemoteAway as error:
                if delay == FIRST_AWAY_S:
                    self._watching.remark(f"{error.what} ({error.found}); it is tried again")
                delay = min(delay * 2, LONGEST_AWAY_S)
                with suppress(TimeoutError):
                    await asyncio.wait_for(enough.wait(), delay)
                if enough.is_set() and self._claimed:
                    self._unreachable(f"{error.what}: what was not saved is lost, others go on from what was")
                if enough.is_set():
                    raise _Leaving from error
            else:
                self._reached()
                return done


class _Leaving(Exception):
    """This worker was told to leave, and has nothing to give back but its job."""


def _call(message: Mapping[str, Any], orders: Mapping[str, Any], *, first: bool) -> Call:
    """What is asked of this process: by whoever submitted the run, and by whoever resumes it from elsewhere.

    Args:
        first: whether nobody worked on it yet: what the look before the first agent was asked holds for that look.
    """
    said: dict[str, Any] = {}
    if message.get("kind") == "resume":
        said = {name: message[name] for name in ("retry", "accept_recorded", "note", "who") if message.get(name)}
    flags = {**(orders.get("flags") or {} if first else {}), **(message.get("flags") or {})}
    budget = message.get("budget")
    return Call(**said, budget_usd=orders.get("budget") if budget is None else budget, flags=flags)


def is_said(message: Mapping[str, Any], lines: Sequence[Line], objects: Objects) -> bool:
    """Whether an open run has heard a message before: whoever handed it over may have died before its job ended."""
    match message:
        case {"kind": "decision", "gate": key}:
            made = (line for line in lines if line.event == "gate.decided" and line.key == key)
            decisions = (unpack(line.data, objects)["out"] for line in made)
            return any(all(made[name] == message.get(name) for name in SAID) for made in decisions)
        case {"kind": "resume", "note": str(note), "lines": int(seen)} if note:
            later = (line.data for line in lines[seen:] if line.event == "run.resumed")
            return any((data.get("note"), data.get("who")) == (note, message.get("who")) for data in later)
    return False


async def _passed_on(cancelled: asyncio.Event, folder: RunFolder) -> None:
    """Who cancels a run says it to the queue; the engine hears it in its inbox."""
    await cancelled.wait()
    with suppress(InterlockError):
        folder.send({"kind": "cancel"})
