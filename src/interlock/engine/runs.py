"""The runs of one workspace: a process starts one or goes on with it, and leaves it with its records in order."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from interlock import __version__
from interlock.agents import AgentNews, end_leftovers, kill_everything
from interlock.documents import Store
from interlock.engine.definition import Playbook
from interlock.engine.folder import HOME, KnownRun, RunFolder, find_run, last_run, next_order
from interlock.engine.handing_on import HANDED, to_hand_on
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, Line, Tripwire, no_tripwire, stamp_now
from interlock.engine.keys import sha256
from interlock.engine.lifecycle import (
    START,
    Start,
    ended_as,
    ending_of,
    forgotten,
    last_of,
    overtaken,
    past_of,
    resumes,
)
from interlock.engine.locks import run_lock
from interlock.engine.model import Ending, Status
from interlock.engine.nesting import Parent, starting_parent
from interlock.engine.options import Options
from interlock.engine.people import CANCELLED, POLL_S, take_messages
from interlock.engine.playing import Finished, play
from interlock.engine.recording import Recording
from interlock.engine.world import World
from interlock.errors import BadInput, ConfigInvalid, InterlockError, Locked, Refused
from interlock.telemetry import decided_gates, is_cancelled, write_report
from interlock.workspace import Workspace, open_layers

Again = Callable[[Playbook, Mapping[str, Any]], str]
"""The command that asks for a playbook with these inputs, as a person types it at the door they came through."""


class Follower(Protocol):
    """Who goes along with a run, and has a say in how far this process takes it."""

    async def may_begin(self, identity: Identity) -> bool:
        """Whether another dispatch may; if not, those under way come to their ends, and the run is cancelled then."""
        ...

    async def recorded(self, identity: Identity) -> None:
        """Hears that a dispatch has ended and the journal has it; the playbook sees its outcome afterwards."""
        ...


INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def plainly_again(playbook: Playbook, _inputs: Mapping[str, Any]) -> str:
    return f"interlock run {playbook.name}"


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


class Setup(ABC):
    """Makes what runs need; `ConfigInvalid` when something is not bound."""

    @abstractmethod
    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> World: ...

    @abstractmethod
    def options(self, playbook: Playbook) -> Options: ...

    def playbook(self, identity: Identity) -> Playbook:
        """The playbook of a run."""
        raise ConfigInvalid(f"there is no playbook {identity.playbook!r} here")

    def remarks(self) -> Iterable[str]:
        """What people should know before agents are called."""
        return ()

    def caution(self) -> str:
        """What people should know before they decide at a gate; empty when there is nothing."""
        return ""

    def leniently(self) -> Setup:
        """The same, where agents that cannot be called are no error before one of them is."""
        return self


@dataclass(frozen=True)
class Call:
    """What this process was asked for, beyond playbook and inputs."""

    new_run: bool = False
    retry: bool = False
    accept_recorded: bool = False
    take_over: bool = False
    only_begin: bool = False
    """Bring the run into being, and leave its work to whoever resumes it."""
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


class Runs:
    """Starts runs, goes on with them and finds them, in one workspace; what people say to them: see `people`.

    Args:
        follower: goes along with what is worked on.
        interrupts: signals that end this process's part of a run.
    """

    def __init__(
        self,
        root: Path,
        setup: Setup,
        view: View,
        *,
        environ: Mapping[str, str],
        tripwire: Tripwire = no_tripwire,
        again: Again = plainly_again,
        follower: Follower | None = None,
        interrupts: Sequence[signal.Signals] = INTERRUPTS,
    ) -> None:
        self.root = root
        self._follower = follower
        self._interrupts = interrupts
        self.setup = setup
        self.view = view
        self.environ = environ
        self._again = again
        self._tripwire = tripwire
        self._cancelled = False

    def find(self, name: str) -> KnownRun:
        """The run that a person means."""
        return find_run(self.root, name)

    def playbook_of(self, known: KnownRun) -> Playbook:
        return self.setup.playbook(known.identity)

    @cached_property
    def documents(self) -> Store:
        """The documents of the workspace, as people left them."""
        return Store(self.root, self.root / HOME / "attic")

    def digest(self, path: str) -> str:
        """What a document is right now; empty when there is none."""
        return self.documents.facts(path).digest or ""

    # -- starting and resuming

    async def run(self, playbook: Playbook, inputs: Any, call: Call = NOTHING_SPECIAL) -> Finished:
        """Start the playbook for these inputs, or go on with the run that is open for their key."""
        for remark in () if call.only_begin else self.setup.remarks():
            self.view.remark(remark)
        try:
            parent = self._parent(playbook, inputs)
            last = last_run(self.root, playbook.name, playbook.key(inputs))
            match start_of(playbook, inputs, last, new_run=call.new_run):
                case Start.NEW:
                    return await self._begin(playbook, inputs, call, parent)
                case Start.SUCCESSOR if last:
                    return await self._begin(playbook, inputs, call, parent, continues=last.identity)
                case Start.RESUME if last:
                    how = "it is taken" if call.only_begin else "it goes on"
                    self.view.remark(f"Run {last.identity.run_id} is open with these inputs: {how}.")
                    return await self._continue(last, playbook, call, parent)
                case Start.SAY_COMPLETE if last:
                    return self._already_ended(last)
                case refused:
                    raise self._refusal(refused, playbook, inputs, last)
        except ConfigInvalid as problem:
            problem.also += tuple(await self._others(playbook, inputs))
            raise

    def _refusal(self, start: Start, playbook: Playbook, inputs: Any, last: KnownRun | None) -> Refused:
        """Why nothing is started for a key whose last run this is."""
        assert last is not None
        said, run_id = playbook.inputs_json(inputs), last.identity.run_id
        if start is Start.REFUSE_COMPLETE:
            plainly = f"{playbook.name} {playbook.key(inputs)} is complete (run {run_id})"
            return Refused(
                playbook.complete(inputs) if playbook.complete else plainly,
                remedy=f"To run it again: {self._again(playbook, said)} --new-run",
            )
        return Refused(
            f"run {run_id} is open for {playbook.name} {playbook.key(inputs)}, with other inputs",
            **differing(last.identity.inputs, said),
            remedy=f"Go on with it: interlock resume {run_id}. Or end it first: interlock cancel {run_id}.",
        )

    async def resume(self, name: str, call: Call = NOTHING_SPECIAL) -> Finished:
        """Go on with a run; an ended one gets a successor, or is reopened where its journal is its state."""
        known = self.find(name)
        playbook = self.playbook_of(known)
        inputs = playbook.parse_inputs(known.identity.inputs)
        parent = self._parent(playbook, inputs)
        lines = known.folder.lines()
        status = ended_as(lines)
        over = status in (Status.COMPLETE, Status.DEGRADED) and not call.retry
        if is_cancelled(lines) or (over and call.note):
            how = "was cancelled, and that is final"
            if not is_cancelled(lines):
                how = f"is {status}: nobody works on it any more who could hear the note"
            anew = self._again(playbook, known.identity.inputs)
            raise Refused(f"run {known.identity.run_id} {how}", remedy=f"Start anew: {anew} --new-run")
        if over:
            return self._already_ended(known)
        for remark in self.setup.remarks():
            self.view.remark(remark)
        if status is None or (playbook.reopens and call.retry):
            return await self._continue(known, playbook, call, parent, reopen=status is not None)
        inputs = playbook.successor(inputs, {**call.flags, "retry": call.retry, "note": call.note})
        return await self._begin(playbook, inputs, call, parent, continues=known.identity)

    async def begin(self, playbook: Playbook, inputs: Any, call: Call = NOTHING_SPECIAL) -> Finished:
        """Bring a run into being, or find the one that is open for its key, and leave its work to whoever resumes it.

        What would keep the playbook from starting is said here; agents are looked for where it is worked on.
        """
        coming = await self.plan(playbook, inputs, self.setup.leniently())
        if coming.before is None and coming.gate is None:
            return coming  # there is no work in it
        return await self.run(playbook, inputs, replace(call, only_begin=True))

    async def plan(self, playbook: Playbook, inputs: Any, setup: Setup | None = None) -> Finished:
        """What would happen next, without doing it."""
        from interlock.engine.dry_run import dry_run

        return await dry_run(self.root, setup or self.setup, playbook, inputs)

    async def _others(self, playbook: Playbook, inputs: Any) -> list[InterlockError]:
        """What else would keep the playbook from starting, once its agents can be called (EV-27)."""
        try:
            await self.plan(playbook, inputs, self.setup.leniently())
        except ConfigInvalid:  # the same once more, where the first agent would have been called
            pass
        except BadInput as other:
            return [other, *other.also]
        except InterlockError:
            pass
        return []

    async def _begin(
        self, playbook: Playbook, inputs: Any, call: Call, parent: Parent | None, *, continues: Identity | None = None
    ) -> Finished:
        now = datetime.now(UTC)
        identity = Identity.of(
            playbook,
            inputs,
            run_id=f"{playbook.name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            version=__version__,
            started_at=now.isoformat(timespec="milliseconds"),
            continues=continues.run_id if continues else None,
            parent={"run": parent.run_id, "depth": parent.delegation.depth} if parent else None,
            order=next_order(self.root),
            before=(continues.run_id, *continues.before) if continues else (),
        )
        known = KnownRun(RunFolder(self.root, identity.run_id), identity)
        lock = run_lock(self.root / HOME, identity.playbook, identity.key)

        def take_lock() -> None:
            holder = lock.acquire(identity.run_id, take_over=call.take_over)
            other = last_run(self.root, identity.playbook, identity.key)
            if other and (other.identity.order >= identity.order or ended_as(other.folder.lines()) is None):
                lock.release()
                raise Locked(f"run {other.identity.run_id} for {identity.key} was started meanwhile")
            if holder is not None:
                journal.append("lock.taken_over", data={"from": str(holder)})

        known.folder.before_create = take_lock
        journal = Journal(
            known.folder.medium(),
            run_id=identity.run_id,
            genesis=sha256(identity_bytes(identity)),
            clock=stamp_now,
            held=True,
            tripwire=self._tripwire,
        )
        journal.append("run.start", data={**identity.first_facts, **call.said, **self._handed(continues)})
        try:
            if call.only_begin:
                known.folder.create(identity_bytes(identity))
                journal.release()
                leave(known.folder, journal)
                return begun(identity, journal.lines)
            return await self._process(known, journal, playbook, call, parent, resume=0)
        finally:
            lock.release()

    def _handed(self, earlier: Identity | None) -> dict[str, Any]:
        """What the run before tells this one; one that ended well has nothing to tell."""
        lines = self.find(earlier.run_id).folder.lines() if earlier is not None else ()
        if ended_as(lines) not in (Status.STOPPED, Status.FAILED):
            return {}
        told = to_hand_on(lines)
        return {HANDED: told} if any(told.values()) else {}

    async def _continue(
        self, known: KnownRun, playbook: Playbook, call: Call, parent: Parent | None, *, reopen: bool = False
    ) -> Finished:
        identity = known.identity
        if call.only_begin:
            return begun(identity, known.folder.lines())
        with self._locked(identity, take_over=call.take_over) as holder:
            journal = known.folder.journal(stamp_now, tripwire=self._tripwire)
            if not reopen:
                check_options(identity.run_id, call, journal.lines)
            if not journal.lines:  # the process died between run.json and its first line
                journal.append("run.start", data=identity.first_facts)
            if reopen:
                journal.append("run.reopened", data={"forgotten": forgotten(journal.lines)})
            elif why := self._edited(playbook, identity, journal):
                await self.clear_up(identity.run_id)
                journal.append("run.end", data=Ending.stopped(f"state document edited: {why}").to_json())
                self.view.remark(f"Run {identity.run_id} ends: {why} was edited. A new run starts from the document.")
            if holder is not None:
                journal.append("lock.taken_over", data={"from": holder})
            if ended_as(journal.lines) is None and (stale := overtaken(journal.lines, self.digest)) is not None:
                why = f"{stale.path} changed after it was decided about"
                journal.append("run.reopened", data={"forgotten": list(stale.keys), "because": why})
                self.view.remark(f"{why}: the gate is opened anew.")
            if ended_as(journal.lines) is None:
                return await self._process(known, journal, playbook, call, parent, resume=1 + resumes(journal.lines))
            leave(known.folder, journal)
        inputs = playbook.afresh(playbook.parse_inputs(identity.inputs))
        return await self._begin(playbook, inputs, call, parent, continues=identity)

    def _edited(self, playbook: Playbook, identity: Identity, journal: Journal) -> str | None:
        if playbook.edited is None:
            return None
        return playbook.edited(playbook.parse_inputs(identity.inputs), past_of(journal.lines), self.documents)

    def _already_ended(self, known: KnownRun) -> Finished:
        identity, lines = known.identity, known.folder.lines()
        ending = ending_of(lines, known.folder.objects)
        assert ending is not None
        self.view.remark(f"Run {identity.run_id} has already ended: {ending.status}. Nothing was changed.")
        told = {"output": ending.output, "finished_at": lines[-1].ts}
        return Finished.of(identity, lines, ending.status, ending.reason, **told)

    # -- the process

    async def _process(
        self,
        known: KnownRun,
        journal: Journal,
        playbook: Playbook,
        call: Call,
        parent: Parent | None,
        *,
        resume: int,
    ) -> Finished:
        identity, folder = known.identity, known.folder
        nested = parent is not None and parent.is_around(self.root)
        world = self.setup.world(folder, playbook, playbook.parse_inputs(identity.inputs))
        options = replace(
            self.setup.options(playbook),
            accept_recorded=call.accept_recorded,
            parent=parent.delegation if parent else None,
            bounds=(parent.writes,) if nested and parent else (),
            flags=call.flags,
        )
        if call.budget_usd is not None:
            options = replace(options, budget_usd=call.budget_usd)
        self.view.begin(identity, journal.lines, resumed=resume > 0)
        journal.listen(self.view.line)
        if resume:
            changed = playbook.source.changes(identity.source) if playbook.source and identity.source else ()
            facts = {"playbook_changed": list(changed)} if changed else {}
            journal.append("run.resumed", data={"n": resume, "version": __version__, **facts, **call.said})
            if call.accept_recorded:
                journal.append("divergence.accepted", data={})
        try:
            while True:
                run = Recording(playbook, identity, journal, world, options=options, say=self.view.say)
                run.on_news = self.view.news
                if (follower := self._follower) is not None:
                    run.on_recorded = partial(follower.recorded, identity)
                    run.may_begin = partial(follower.may_begin, identity)
                finished = await self._watched(run, folder, resume)
                if finished.status is Status.WAITING and finished.gate is not None:
                    self._hear(folder, journal)
                if finished.status is not Status.WAITING or not is_decided(finished.gate, journal.lines):
                    if finished.gate is not None and (caution := self.setup.caution()):
                        self.view.remark(caution)
                    return finished
                resume = 0  # the playbook is called again, but this is still the same resume
        finally:
            if not journal.held:
                leave(folder, journal)
                if ended_as(journal.lines) is not None:
                    await self.clear_up(identity.run_id)

    async def _watched(self, run: Recording, folder: RunFolder, resume: int) -> Finished:
        """Play the run, and meanwhile listen to signals and to the inbox."""
        work = asyncio.ensure_future(play(run, resume=resume))
        run.on_live = lambda: None if run.journal.held else self._hear(folder, run.journal)
        watcher = asyncio.ensure_future(self._listen(folder, run, work))
        with interruptible(work, self._interrupts):
            try:
                finished = await work
            finally:
                watcher.cancel()
                await asyncio.wait([watcher])
        if not watcher.cancelled() and (damage := watcher.exception()) is not None:
            raise damage
        if self._cancelled and ended_as(run.journal.lines) is None:
            run.journal.append("run.end", data=CANCELLED)
            return replace(finished, status=Status.STOPPED, reason="cancelled", gate=None)
        return finished

    async def _listen(self, folder: RunFolder, run: Recording, work: asyncio.Task[Finished]) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if run.journal.held:
                continue
            try:
                run.journal.check()
                self._hear(folder, run.journal)
            except (InterlockError, OSError):
                work.cancel()  # what was damaged is said when the agents have ended
                raise
            if self._cancelled:
                work.cancel()

    def _hear(self, folder: RunFolder, journal: Journal) -> None:
        self._cancelled |= take_messages(folder, journal, self.digest)

    async def bring_up_to_date(self, known: KnownRun, playbook: Playbook, journal: Journal) -> None:
        """Play a run up to its next piece of work, so that its state documents say what was just decided."""
        world = self.setup.world(known.folder, playbook, playbook.parse_inputs(known.identity.inputs))
        options = replace(self.setup.options(playbook), stop_before_work=True)
        await play(Recording(playbook, known.identity, journal, world, options=options, say=self.view.say))

    async def clear_up(self, run_id: str) -> None:
        """End what a process that died left running, and drop its layers: nobody will take this run up again."""
        end_leftovers(f"{run_id}:")
        await open_layers(Workspace(self.root, self.root / HOME), environ=self.environ).sweep(run_id)

    # -- the lock

    @contextmanager
    def holding(self, known: KnownRun) -> Iterator[Journal]:
        """The journal of a run on which nobody works, for one who has something to say to it; else `Locked`."""
        with self._locked(known.identity):
            journal = known.folder.journal(stamp_now, tripwire=self._tripwire)
            try:
                yield journal
            finally:
                leave(known.folder, journal)

    @contextmanager
    def _locked(self, identity: Identity, *, take_over: bool = False) -> Iterator[str | None]:
        lock = run_lock(self.root / HOME, identity.playbook, identity.key)
        holder = lock.acquire(identity.run_id, take_over=take_over)
        try:
            if holder is not None:
                self.view.remark(f"The lock of a dead process is taken over: {holder}")
            yield str(holder) if holder is not None else None
        finally:
            lock.release()

    def _parent(self, playbook: Playbook, inputs: Any) -> Parent | None:
        return starting_parent(self.environ, self.root, playbook.name, playbook.key(inputs))


def begun(identity: Identity, lines: Sequence[Line]) -> Finished:
    """A run that is there, and that nobody works on."""
    return Finished.of(identity, lines, Status.WAITING, "begun; its work is left to whoever resumes it")


def start_of(playbook: Playbook, inputs: Any, last: KnownRun | None, *, new_run: bool) -> Start:
    """What a start means, given the last run of its key."""
    lines, recorded = (last.folder.lines(), last.identity.inputs) if last else (None, {})
    start = START(last_of(lines, playbook.inputs_json(inputs), recorded), playbook.after_complete)
    return Start.NEW if new_run and start in (Start.REFUSE_COMPLETE, Start.SAY_COMPLETE) else start


def leave(folder: RunFolder, journal: Journal) -> None:
    """What whoever leaves a run does, however it stands: note how far the journal went, write the report."""
    journal.close()
    with contextlib.suppress(InterlockError, OSError):  # the run is what counts; `report` says what is wrong with it
        write_report(folder)


def differing(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, str]:
    """The inputs that are not what they were, as the parts of a refusal."""
    names = [name for name in {**recorded, **asked} if recorded.get(name) != asked.get(name)]
    sides = {"found": recorded, "expected": asked}
    return {part: ", ".join(f"{name} = {side.get(name)!r}" for name in names) for part, side in sides.items()}


def check_options(run_id: str, call: Call, lines: list[Line]) -> None:
    """`Refused` for an option that comes too late: what was settled at the start is not settled anew (EV-23)."""
    if call.flags.get("accept_baseline") and any(line.event == "preflight" for line in lines):
        raise Refused(
            f"run {run_id} has looked at its commands already: what fails is not recorded as known any more",
            where="option --accept-baseline",
            remedy=f"Go on without it: interlock resume {run_id}. Or end it first: interlock cancel {run_id}.",
        )


def is_decided(gate: Mapping[str, Any] | None, lines: Sequence[Line]) -> bool:
    """Whether the gate at which a process came to wait got its answer meanwhile."""
    return gate is not None and gate["key"] in decided_gates(lines)


@contextmanager
def interruptible(work: asyncio.Task[Any], signals: Sequence[signal.Signals]) -> Iterator[None]:
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

    with contextlib.ExitStack() as stack:
        for number in signals:
            with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, interrupt)
                stack.callback(loop.remove_signal_handler, number)
        yield
