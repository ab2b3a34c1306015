"""The process around a run: lock, journal, messages from people, and what is left behind when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from interlock.agents import AgentNews, end_leftovers, kill_everything
from interlock.documents import Store
from interlock.engine.definition import Playbook
from interlock.engine.drive import Close, drive
from interlock.engine.folder import HOME, Known, RunFolder, known_runs, next_order
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, Line, Tripwire, no_tripwire
from interlock.engine.keys import sha256
from interlock.engine.lifecycle import START, Start, ended_as, forgotten, past_of, standing
from interlock.engine.locks import Lock
from interlock.engine.model import Ending, GateDecision, Status
from interlock.engine.nesting import Parent, engines_above, find_parent, is_nested
from interlock.engine.objects import unpack
from interlock.engine.options import Options
from interlock.engine.people import (
    Waiting,
    check_decision,
    decided_gates,
    how_it_stands,
    is_cancelled,
    overtaken,
    record_decision,
    waiting_gate,
)
from interlock.engine.run import Run
from interlock.engine.world import World
from interlock.errors import InterlockError, Locked, Refused
from interlock.workspace import Workspace, open_layers

DEEPEST = 3
POLL_S = 0.3


Again = Callable[[str, Mapping[str, Any]], str]
"""The command that asks for a playbook with these inputs, as a person types it at the door they came through."""


def plainly_again(playbook: str, _inputs: Mapping[str, Any]) -> str:
    return f"interlock run {playbook}"


class View(Protocol):
    """Who watches: a terminal, a log, a test."""

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None: ...

    def line(self, line: Line) -> None: ...

    def news(self, key: str, news: AgentNews) -> None: ...

    def say(self, text: str | bytes) -> None: ...

    def remark(self, text: str) -> None: ...


class Quiet:
    """A view that shows nothing and keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str | bytes] = []
        self.remarks: list[str] = []

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        return None

    def line(self, line: Line) -> None:
        return None

    def news(self, key: str, news: AgentNews) -> None:
        return None

    def say(self, text: str | bytes) -> None:
        self.said.append(text)

    def remark(self, text: str) -> None:
        self.remarks.append(text)


@dataclass(frozen=True)
class Finished:
    """How a process ended, for people and for ``--json``."""

    playbook: str
    key: str
    close: Close
    run_id: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    lines: list[Line] = field(default_factory=list)


class Setup(Protocol):
    """Makes what a run needs, from settings; raises ConfigInvalid when something is not bound."""

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> World: ...

    def options(self, playbook: Playbook) -> Options: ...


@dataclass(frozen=True)
class Call:
    """What this process was asked for, beyond playbook and inputs."""

    new_run: bool = False
    retry: bool = False
    accept_recorded: bool = False
    take_over: bool = False
    budget_usd: float | None = None
    note: str = ""
    """What the person who resumes has to say to whoever works next."""
    who: str = ""
    flags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, str]:
        """The note as the journal holds it, on the line with which this process begins its part of the run."""
        return {"who": self.who or "a person", "note": self.note} if self.note else {}


NOTHING_SPECIAL = Call()


class Host:
    def __init__(
        self,
        root: Path,
        setup: Setup,
        view: View,
        *,
        environ: Mapping[str, str],
        version: str,
        tripwire: Tripwire = no_tripwire,
        again: Again | None = None,
    ) -> None:
        self.root = root
        self._again = again or plainly_again
        self._setup = setup
        self._view = view
        self._environ = environ
        self._version = version
        self._tripwire = tripwire
        self._cancelled = False

    # -- starting and resuming

    async def run(self, playbook: Playbook, inputs: Any, call: Call = NOTHING_SPECIAL) -> Finished:
        """Start the playbook for these inputs, or go on with the run that is open for their key."""
        parent = self._parent(playbook, inputs)
        key = playbook.key(inputs)
        last = self.last_run(playbook.name, key)
        lines = last.folder.lines() if last else None
        recorded = last.identity.inputs if last else {}
        move = START(standing(lines, playbook.inputs_json(inputs), recorded), playbook.after_complete)
        if move in (Start.REFUSE_COMPLETE, Start.SAY_COMPLETE) and call.new_run:
            move = Start.NEW
        match move:
            case Start.NEW:
                return await self._begin(playbook, inputs, call, parent)
            case Start.SUCCESSOR if last:
                return await self._begin(playbook, inputs, call, parent, continues=last.identity)
            case Start.RESUME if last:
                self._view.remark(f"Run {last.identity.run_id} is open with these inputs: it goes on.")
                return await self._continue(last, playbook, call, parent)
            case Start.SAY_COMPLETE if last:
                return self._already_ended(last, playbook)
            case Start.REFUSE_COMPLETE if last:
                raise Refused(
                    playbook.complete(inputs)
                    if playbook.complete
                    else f"{playbook.name} {key} is complete (run {last.identity.run_id})",
                    remedy=f"To run it again: {self._again(playbook.name, playbook.inputs_json(inputs))} --new-run",
                )
            case _ if last:
                raise Refused(
                    f"run {last.identity.run_id} is open for {playbook.name} {key}, with other inputs",
                    **differing(recorded, playbook.inputs_json(inputs)),
                    remedy=(
                        f"Go on with it: interlock resume {last.identity.run_id}. "
                        f"Or end it first: interlock cancel {last.identity.run_id}."
                    ),
                )
        raise AssertionError(move)

    async def resume(self, known: Known, playbook: Playbook, call: Call = NOTHING_SPECIAL) -> Finished:
        """Go on with a run; an ended one gets a successor, or is reopened where its journal is its state."""
        inputs = playbook.parse_inputs(known.identity.inputs)
        parent = self._parent(playbook, inputs)
        lines = known.folder.lines()
        status = ended_as(lines)
        if is_cancelled(lines):
            raise Refused(
                f"run {known.identity.run_id} was cancelled, and that is final",
                remedy=f"Start anew: {self._again(playbook.name, known.identity.inputs)} --new-run",
            )
        if status in (Status.COMPLETE, Status.DEGRADED) and not call.retry:
            if call.note:
                raise Refused(
                    f"run {known.identity.run_id} is {status}: nobody works on it any more who could hear the note",
                    remedy=f"Start anew: {self._again(playbook.name, known.identity.inputs)} --new-run",
                )
            return self._already_ended(known, playbook)
        if status is None or (playbook.reopens and call.retry):
            return await self._continue(known, playbook, call, parent, reopen=status is not None)
        inputs = playbook.successor(inputs, {**call.flags, "retry": call.retry, "note": call.note})
        return await self._begin(playbook, inputs, call, parent, continues=known.identity)

    async def _begin(
        self, playbook: Playbook, inputs: Any, call: Call, parent: Parent | None, *, continues: Identity | None = None
    ) -> Finished:
        now = datetime.now(UTC)
        identity = Identity(
            run_id=f"{playbook.name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            playbook=playbook.name,
            key=playbook.key(inputs),
            inputs=playbook.inputs_json(inputs),
            caps=dict(playbook.caps),
            version=self._version,
            started_at=now.isoformat(timespec="milliseconds"),
            continues=continues.run_id if continues else None,
            parent={"run": parent.run_id, "depth": parent.delegation.depth} if parent else None,
            order=next_order(self.root),
            before=(continues.run_id, *continues.before) if continues else (),
        )
        folder = RunFolder(self.root, identity.run_id)
        lock = self._lock(playbook.name, identity.key)

        def take_lock() -> None:
            holder = lock.acquire(identity.run_id, take_over=call.take_over)
            other = self.last_run(playbook.name, identity.key)
            if other and (other.identity.order >= identity.order or ended_as(other.folder.lines()) is None):
                lock.release()
                raise Locked(f"run {other.identity.run_id} for {identity.key} was started meanwhile")
            if holder is not None:
                journal.append("lock.taken_over", data={"from": str(holder)})

        folder.before_create = take_lock
        genesis = sha256(identity_bytes(identity))
        journal = Journal(
            folder.medium(),
            run_id=identity.run_id,
            genesis=genesis,
            clock=stamp_now,
            held=True,
            tripwire=self._tripwire,
        )
        journal.append("run.start", data={**first_facts(identity), **call.said})
        try:
            return await self._process(folder, identity, journal, playbook, call, parent, resume=0)
        finally:
            lock.release()

    async def _continue(
        self, known: Known, playbook: Playbook, call: Call, parent: Parent | None, *, reopen: bool = False
    ) -> Finished:
        identity, folder = known.identity, known.folder
        with self._locked(playbook.name, identity.key, identity.run_id, take_over=call.take_over) as holder:
            journal = folder.journal(stamp_now, tripwire=self._tripwire)
            if not reopen:
                check_options(identity.run_id, call, journal.lines)
            if not journal.lines:  # the process died between run.json and its first line
                journal.append("run.start", data=first_facts(identity))
            if reopen:
                journal.append("run.reopened", data={"forgotten": forgotten(journal.lines)})
            elif why := self._edited(playbook, identity, journal):
                await self._clear_up(identity.run_id)
                journal.append("run.end", data=Ending.stopped(f"state document edited: {why}").to_json())
                self._view.remark(f"Run {identity.run_id} ends: {why} was edited. A new run starts from the document.")
            if holder is not None:
                journal.append("lock.taken_over", data={"from": holder})
            if ended_as(journal.lines) is None and (stale := overtaken(journal.lines, self._digest)) is not None:
                why = f"{stale.path} changed after it was decided about"
                journal.append("run.reopened", data={"forgotten": list(stale.keys), "because": why})
                self._view.remark(f"{why}: the gate is opened anew.")
            if ended_as(journal.lines) is None:
                return await self._process(
                    folder, identity, journal, playbook, call, parent, resume=1 + resumes(journal.lines)
                )
        inputs = playbook.afresh(playbook.parse_inputs(identity.inputs))
        return await self._begin(playbook, inputs, call, parent, continues=identity)

    def _edited(self, playbook: Playbook, identity: Identity, journal: Journal) -> str | None:
        if playbook.edited is None:
            return None
        documents = Store(self.root, self.root / HOME / "attic")
        return playbook.edited(playbook.parse_inputs(identity.inputs), past_of(journal.lines), documents)

    async def _process(
        self,
        folder: RunFolder,
        identity: Identity,
        journal: Journal,
        playbook: Playbook,
        call: Call,
        parent: Parent | None,
        *,
        resume: int,
    ) -> Finished:
        inputs = playbook.parse_inputs(identity.inputs)
        nested = parent is not None and parent.is_around(self.root)
        world = self._setup.world(folder, playbook, inputs)
        options = replace(
            self._setup.options(playbook),
            accept_recorded=call.accept_recorded,
            parent=parent.delegation if parent else None,
            parent_scope=parent.writes if nested and parent else None,
            flags=call.flags,
        )
        if call.budget_usd is not None:
            options = replace(options, budget_usd=call.budget_usd)
        self._view.begin(identity, journal.lines, resumed=resume > 0)
        journal.listen(self._view.line)
        if resume:
            journal.append("run.resumed", data={"n": resume, "version": self._version, **call.said})
            if call.accept_recorded:
                journal.append("divergence.accepted", data={})
        try:
            while True:
                run = Run(playbook, identity, journal, world, options=options, say=self._view.say)
                run.on_news = self._view.news
                close = await self._watched(run, folder, resume)
                if close.status is Status.WAITING and close.gate is not None:
                    self._take_messages(folder, journal)
                if close.status is not Status.WAITING or not is_decided(close.gate, journal.lines):
                    return finished(identity, close, journal.lines, exists=not journal.held)
                resume = 0  # the playbook is called again, but this is still the same resume
        finally:
            if not journal.held:
                folder.remember_head(journal)
                if ended_as(journal.lines) is not None:
                    await self._clear_up(identity.run_id)

    async def _watched(self, run: Run, folder: RunFolder, resume: int) -> Close:
        """Drive the run, and meanwhile listen to signals and to the inbox."""
        work = asyncio.ensure_future(drive(run, resume=resume))
        run.on_live = lambda: None if run.journal.held else self._take_messages(folder, run.journal)
        watcher = asyncio.ensure_future(self._listen(folder, run, work))
        with interruptible(work):
            try:
                close = await work
            finally:
                watcher.cancel()
                await asyncio.wait([watcher])
        if not watcher.cancelled() and (damage := watcher.exception()) is not None:
            raise damage
        if self._cancelled and ended_as(run.journal.lines) is None:
            ending = Ending.stopped("cancelled")
            run.journal.append("run.end", data={**ending.to_json(), "cancelled": True})
            return Close(ending.status, ending.reason)
        return close

    async def _listen(self, folder: RunFolder, run: Run, work: asyncio.Task[Close]) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if run.journal.held:
                continue
            try:
                run.journal.check()
                self._take_messages(folder, run.journal)
            except (InterlockError, OSError):
                work.cancel()  # what was damaged is said when the agents have ended
                raise
            if self._cancelled:
                work.cancel()

    # -- people

    async def decide(self, known: Known, playbook: Playbook, choice: str, *, who: str, note: str = "") -> Waiting:
        """Record a person's decision where the run waits, or hand it to the process that works on the run.

        The state documents are brought up to date at once: the playbook is played up to its next piece of work.
        """
        self._only_people("decide at a gate")
        identity, folder = known.identity, known.folder
        lines = folder.lines()
        if playbook.standing is not None and waiting_gate(lines) is None:
            documents = Store(self.root, self.root / HOME / "attic")
            said = playbook.standing(playbook.parse_inputs(identity.inputs), documents)
            remedy = f"See how it stands with: interlock show {identity.run_id}"
            raise Refused(f"No approval is pending ({said})", found=how_it_stands(lines), remedy=remedy)
        waiting = check_decision(lines, choice, self._digest, run_id=identity.run_id)
        decision = GateDecision(choice, who, stamp_now(), note, waiting.digests)
        message = {"kind": "decision", "gate": waiting.key, **asdict(decision)}
        try:
            with self._locked(playbook.name, identity.key, identity.run_id):
                journal = folder.journal(stamp_now, tripwire=self._tripwire)
                waiting = check_decision(journal.lines, choice, self._digest, run_id=identity.run_id, gate=waiting.key)
                journal.listen(self._view.line)
                record_decision(journal, waiting, decision, folder.objects)
                self._take_messages(folder, journal)
                folder.remember_head(journal)
                await self._bring_up_to_date(known, playbook, journal)
        except Locked:
            folder.send(message)
            return replace(waiting, handed_over=True)
        return waiting

    async def _bring_up_to_date(self, known: Known, playbook: Playbook, journal: Journal) -> None:
        identity, folder = known.identity, known.folder
        inputs = playbook.parse_inputs(identity.inputs)
        world = self._setup.world(folder, playbook, inputs)
        options = replace(self._setup.options(playbook), stop_before_work=True)
        run = Run(playbook, identity, journal, world, options=options, say=self._view.say)
        await drive(run)
        folder.remember_head(journal)

    async def cancel(self, known: Known, playbook: Playbook, *, patience_s: float = 30.0) -> None:
        """End a run for good: interrupt whoever works on it, then write its end (EN-26)."""
        self._only_people("cancel a run")
        identity, folder = known.identity, known.folder
        if (status := ended_as(folder.lines())) is not None:
            raise Refused(f"run {identity.run_id} has already ended ({status})")
        asked = False
        for _ in range(max(1, int(patience_s / POLL_S))):
            try:
                with self._locked(playbook.name, identity.key, identity.run_id):
                    journal = folder.journal(stamp_now, tripwire=self._tripwire)
                    if ended_as(journal.lines) is None:
                        self._take_messages(folder, journal)
                        await self._clear_up(identity.run_id)
                        end = {**Ending.stopped("cancelled").to_json(), "cancelled": True}
                        journal.append("run.end", data=end)
                    folder.remember_head(journal)
                    return
            except Locked:
                if not asked:
                    folder.send({"kind": "cancel"})
                    asked = True
                await asyncio.sleep(POLL_S)
        raise Locked(f"run {identity.run_id} was asked to stop, but its process still works on it")

    async def _clear_up(self, run_id: str) -> None:
        """End what a process that died left running, and drop its layers: nobody will take this run up again."""
        end_leftovers(f"{run_id}:")
        await open_layers(Workspace(self.root, self.root / HOME), environ=self._environ).sweep(run_id)

    def reopen_gate(self, known: Known, playbook: Playbook) -> Waiting | None:
        """The gate at which the run waits; opened anew when what it shows has changed (EN-29)."""
        identity, folder = known.identity, known.folder
        waiting = waiting_gate(folder.lines())
        if waiting is None or all(self._digest(path) == seen for path, seen in waiting.digests.items()):
            return waiting
        if is_nested(self._environ, self.root):
            return waiting
        try:
            with self._locked(playbook.name, identity.key, identity.run_id):
                journal = folder.journal(stamp_now, tripwire=self._tripwire)
                opened = next(line for line in reversed(journal.lines) if line.event == "gate.opened")
                digests = {path: self._digest(path) for path in waiting.digests}
                data = {**opened.data, "digests": digests, "opening": waiting.opening + 1}
                journal.append("gate.opened", key=opened.key, data=data)
                folder.remember_head(journal)
                return waiting_gate(journal.lines)
        except Locked:
            return waiting

    def _take_messages(self, folder: RunFolder, journal: Journal) -> None:
        """Journal what people left in the inbox."""
        for path, message in folder.messages():
            match message:
                case {"kind": "cancel"}:
                    self._cancelled = True
                case {
                    "kind": "decision",
                    "gate": str(gate),
                    "choice": str(choice),
                    "who": str(who),
                    "at": str(at),
                    "note": str(note),
                }:
                    try:
                        waiting = check_decision(journal.lines, choice, self._digest, gate=gate, run_id=folder.run_id)
                    except Refused as refusal:
                        journal.append("gate.refused", data={"gate": gate, "choice": choice, "why": refusal.what})
                    else:
                        decision = GateDecision(choice, who, at, note, waiting.digests)
                        record_decision(journal, waiting, decision, folder.objects)
                case _:
                    journal.append("message.refused", data={"file": path.name})
            archive = folder.inbox / "taken"
            archive.mkdir(exist_ok=True)
            path.rename(archive / path.name)

    # -- small things

    def last_run(self, playbook: str, key: str) -> Known | None:
        runs = [k for k in known_runs(self.root) if k.identity.playbook == playbook and k.identity.key == key]
        return runs[-1] if runs else None

    def is_live(self, identity: Identity) -> bool:
        return not self._lock(identity.playbook, identity.key).is_free()

    def _lock(self, playbook: str, key: str) -> Lock:
        return Lock(self.root / HOME / "locks", lock_name(playbook, key))

    @contextmanager
    def _locked(self, playbook: str, key: str, run_id: str, *, take_over: bool = False) -> Iterator[str | None]:
        lock = self._lock(playbook, key)
        holder = lock.acquire(run_id, take_over=take_over)
        try:
            if holder is not None:
                self._view.remark(f"The lock of a dead process is taken over: {holder}")
            yield str(holder) if holder is not None else None
        finally:
            lock.release()

    def _parent(self, playbook: Playbook, inputs: Any) -> Parent | None:
        parent = find_parent(self._environ, self.root)
        if parent is None:
            return None
        key = playbook.key(inputs)
        same = parent.is_around(self.root) and (parent.playbook, parent.run_key) == (playbook.name, key)
        last = self.last_run(playbook.name, key)
        if same or (last is not None and last.identity.run_id in engines_above(self.root)):
            trail = " -> ".join((*parent.delegation.path, f"{playbook.name} {key}"))
            raise Refused(
                f"delegation cycle: {trail}; an agent of run {parent.run_id} may not start a run of the same key"
            )
        depth = parent.delegation.depth + 1
        if depth > DEEPEST:
            path = " -> ".join(parent.delegation.path)
            raise Refused(f"delegation depth {depth} exceeds the maximum of {DEEPEST} (path: {path})")
        return parent

    def _only_people(self, what: str) -> None:
        if is_nested(self._environ, self.root):
            raise Refused(f"only a person may {what}: this program was started inside a dispatch")

    def _digest(self, path: str) -> str:
        return Store(self.root, self.root / HOME / "attic").facts(path).digest or ""

    def _already_ended(self, known: Known, playbook: Playbook) -> Finished:
        lines = known.folder.lines()
        last = next(line for line in reversed(lines) if line.event == "run.end")
        ending = Ending.from_json(unpack(last.data, known.folder.objects))
        self._view.remark(f"Run {known.identity.run_id} has already ended: {ending.status}. Nothing was changed.")
        return finished(known.identity, Close(ending.status, ending.reason, ending.output), lines, at=last.ts)


def differing(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, str]:
    """The inputs that are not what they were, as the parts of a refusal."""
    names = [name for name in {**recorded, **asked} if recorded.get(name) != asked.get(name)]
    sides = {"found": recorded, "expected": asked}
    return {part: ", ".join(f"{name} = {side.get(name)!r}" for name in names) for part, side in sides.items()}


def finished(
    identity: Identity, close: Close, lines: list[Line], *, exists: bool = True, at: str | None = None
) -> Finished:
    return Finished(
        playbook=identity.playbook,
        key=identity.key,
        close=close,
        run_id=identity.run_id if exists else None,
        started_at=identity.started_at,
        finished_at=at or stamp_now(),
        lines=lines,
    )


def check_options(run_id: str, call: Call, lines: list[Line]) -> None:
    """`Refused` for an option that comes too late: what was settled at the start is not settled anew (EV-23)."""
    if call.flags.get("accept_baseline") and any(line.event == "preflight" for line in lines):
        raise Refused(
            f"run {run_id} has looked at its commands already: what fails is not recorded as known any more",
            where="option --accept-baseline",
            remedy=f"Go on without it: interlock resume {run_id}. Or end it first: interlock cancel {run_id}.",
        )


def first_facts(identity: Identity) -> dict[str, Any]:
    return {"playbook": identity.playbook, "key": identity.key, "version": identity.version}


def is_decided(gate: Mapping[str, Any] | None, lines: list[Line]) -> bool:
    """Whether the gate at which a process came to wait got its answer meanwhile."""
    return gate is not None and gate["key"] in decided_gates(lines)


def resumes(lines: list[Line]) -> int:
    return sum(line.event == "run.resumed" for line in lines)


def lock_name(playbook: str, key: str) -> str:
    return f"{playbook}-{sha256(key.encode())[:16]}"


def stamp_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def interruptible(work: asyncio.Task[Any]) -> Iterator[None]:
    """The first interrupt ends the run's agents and saves its state; the second one ends everything at once."""
    loop = asyncio.get_running_loop()
    count = 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 1:
            work.cancel()
        else:
            kill_everything()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with contextlib.ExitStack() as stack:
        for number in signals:
            with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, interrupt)
                stack.callback(loop.remove_signal_handler, number)
        yield
