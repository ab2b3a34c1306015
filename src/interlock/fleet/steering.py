"""What people say to a run of the fleet, from any clone.

It is checked against what the remote has of the run, and goes into the queue; the worker that gets it takes the run and
hands it over.  There it counts or not by the rules of any message: what was checked here may be overtaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interlock.engine.journal import stamp_now
from interlock.engine.lifecycle import ended_as
from interlock.engine.openings import document
from interlock.engine.people import check_decision, person
from interlock.errors import Refused
from interlock.fleet.orders import CancelOutcome, Order, Queued, QueuedJob, order_of
from interlock.fleet.queue import Queue
from interlock.telemetry import State, is_cancelled, printable, standing, waiting_gate

if TYPE_CHECKING:
    from interlock.engine.folder import KnownRun
    from interlock.fleet.freight import Possession
    from interlock.telemetry import WaitingGate


@dataclass(frozen=True)
class FarRun:
    """A run of the fleet, for somebody who speaks to it and does not have it."""

    known: KnownRun
    possession: Possession
    database: str

    @property
    def run_id(self) -> str:
        return self.known.identity.run_id

    async def decide(self, choice: str, note: str, who: str | None, shown: str | None) -> WaitingGate:
        """Queue a decision; the gate that it is about. `Refused` where it decides nothing, or somebody was first."""
        lines = self.known.folder.lines()
        try:
            waiting = check_decision(lines, choice, self._digest, run_id=self.run_id, shown=shown)
        except Refused as refusal:
            made = next((line for line in reversed(lines) if line.event == "gate.decided"), None)
            asked = waiting_gate(lines)
            if made is not None and asked is None and standing(lines).state is not State.ENDED:
                refusal.found = _decided(made.data)
            elif asked is not None and self._is_stale(asked):
                refusal.remedy = f"A worker opens the gate anew: interlock resume {self.run_id} - decide then."
            raise
        message = {
            "kind": "decision",
            "gate": waiting.key,
            "shown": waiting.shown,
            "choice": choice,
            "who": who or person(),
            "at": stamp_now(),
            "note": note,
        }
        await self._decided_once(waiting, message)
        return waiting

    def _digest(self, path: str) -> str:
        """What a document is where the run is; empty when there is none."""
        return document(self.known.folder, path).digest or ""

    def _is_stale(self, gate: WaitingGate) -> bool:
        """Whether a document is not any more what the gate showed."""
        return any(self._digest(path) != seen for path, seen in gate.digests.items())

    async def _decided_once(self, waiting: WaitingGate, message: Mapping[str, Any]) -> None:
        def is_same(job: QueuedJob) -> bool:
            said = job.order.message or {}
            return all(said.get(name) == message[name] for name in ("kind", "gate", "shown"))

        async with Queue.of(self.database) as queue:
            first = next(filter(is_same, await queue.jobs(self.run_id)), None)
            if first is None and await queue.put(self._order(message)) is Queued.NEW:
                return
            first = first or next(filter(is_same, await queue.jobs(self.run_id)), None)
        raise Refused(
            f"somebody else decided at gate {waiting.gate} of run {self.run_id} a moment before",
            found=_decided(first.order.message or {}) if first is not None else None,
            remedy=f"See what comes of it: interlock watch {self.run_id}",
        )

    async def cancel(self) -> bool:
        """See that the run ends for good; whether somebody worked on it, who was told."""
        if (status := ended_as(self.known.folder.lines())) is not None:
            raise Refused(f"run {self.run_id} has already ended ({status})")
        async with Queue.of(self.database) as queue:
            outcome = await queue.cancel(self.run_id)
            if outcome is not CancelOutcome.TOLD:
                await queue.put(self._order({"kind": "cancel"}))
        return outcome is CancelOutcome.TOLD

    async def resume(self, message: Mapping[str, Any]) -> None:
        """Queue the run again, with what is said to whoever works next."""
        lines = self.known.folder.lines()
        now, run_id = standing(lines), self.run_id
        if is_cancelled(lines):
            raise Refused(f"run {run_id} was cancelled, and that is final")
        if now.state is State.ENDED and now.status in ("complete", "degraded") and not message.get("retry"):
            raise Refused(f"run {run_id} is {now.status}", remedy=f"See what it made: interlock fetch {run_id}")
        self._check_decided()
        # A job may come twice. What an ended run is asked for counts only where it has ended as it was seen.
        said = {"kind": "resume", "lines": len(lines), **message}
        async with Queue.of(self.database) as queue:
            jobs = await queue.jobs(run_id)
            if not jobs and await queue.put(self._order(said)) is Queued.NEW:
                return
        worker = next((job.worker for job in jobs if job.worker), "")
        raise Refused(
            f"run {run_id} {f'is worked on by {worker}' if worker else 'is queued'} already",
            remedy=f"See what comes of it: interlock watch {run_id}",
        )

    def _check_decided(self) -> None:
        """`Refused` while a person is asked who can still be answered."""
        lines = self.known.folder.lines()
        now = standing(lines)
        asked = waiting_gate(lines) if now.state is State.ASKING else None
        if asked is not None and not self._is_stale(asked):
            raise Refused(
                f"run {self.run_id} waits for a decision",
                found=printable(now.why),
                remedy=f"See what it asks, and how to decide: interlock show {self.run_id}",
            )

    async def see_queued(self, queue: Queue, at: datetime | None = None) -> Queued:
        """Whoever submitted the run was cut off, and asks again: it is queued, as it was submitted."""
        if await queue.jobs(self.run_id):
            return Queued.ALREADY
        self._check_decided()
        if self.possession.held:
            raise Refused(
                f"run {self.run_id} is not free: {self.possession} since {self.possession.since}",
                remedy=f"See how it stands: interlock show {self.run_id}",
            )
        return await queue.put(self._order(None), at=at)

    def _order(self, message: Mapping[str, Any] | None) -> Order:
        try:
            return order_of(self.possession, by=person(), message=message)
        except (ValueError, TypeError, AttributeError) as error:
            raise Refused(f"what was asked for run {self.run_id} cannot be read", found=str(error)) from error


def _decided(said: Mapping[str, Any]) -> str:
    return f"{printable(str(said.get('who')), 200)} chose {printable(str(said.get('choice')), 60)}"
