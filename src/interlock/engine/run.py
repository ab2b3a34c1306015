"""A run, as the function of its playbook sees it: the verbs, and nothing of what stands behind them.

Every verb is recorded before its playbook sees what it came to, and replayed without happening again; `recording` has
the theory.  What is short is done here; the rest is done by parts with one job each: documents, commands, clusters,
dispatches, the user's repository.  What only few playbooks need is no verb, but a function to which they hand their
run: here, in `facts` and in `checks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn, TypeVar, overload

from interlock.documents import Document, Written
from interlock.engine import calling, scopes
from interlock.engine.clusters import side_by_side
from interlock.engine.commands import AsOf, carry_out
from interlock.engine.definition import Playbook
from interlock.engine.dispatch import Dispatcher
from interlock.engine.document_verbs import DocumentVerbs, Edit
from interlock.engine.identity import Identity
from interlock.engine.keys import checked_name
from interlock.engine.model import (
    APPROVE,
    REJECT,
    Choice,
    CommandResult,
    Delegation,
    Dispatch,
    Ending,
    GateDecision,
    Report,
    Status,
    plain,
)
from interlock.engine.options import Halted
from interlock.engine.recording import Recording
from interlock.engine.repository_verbs import RepositoryVerbs
from interlock.engine.scopes import Turns
from interlock.engine.tables import Table, name_of, names_of, row_name
from interlock.engine.world import CommandCall
from interlock.errors import AgentFailed, EngineFault

T = TypeVar("T")


class Run:
    """One execution of a playbook."""

    def __init__(self, recording: Recording, dispatcher: Dispatcher | None = None) -> None:
        self._recording = recording
        self._documents = DocumentVerbs(recording)
        self._dispatcher = dispatcher or Dispatcher(recording)
        self.repository = RepositoryVerbs(recording)
        """The user's own git: what can be asked of it, and branches, stashes and commits that happen once."""

    # -- what a playbook knows of itself

    @property
    def identity(self) -> Identity:
        """What is fixed for the whole run: its id and key, its inputs, its caps."""
        return self._recording.identity

    @property
    def settings(self) -> Any:
        """The playbook's own table, as people have it now."""
        given = self._recording.options.settings
        return self._recording.playbook.settings() if given is None else given

    @property
    def flags(self) -> Mapping[str, Any]:
        """Options of this process, such as a bounded stop; never part of a digest."""
        return self._recording.options.flags

    @property
    def parent(self) -> Delegation | None:
        """The dispatch that started this run; None for one that a person started."""
        return self._recording.options.parent

    @property
    def live(self) -> bool:
        """Whether all that is recorded has been replayed: the next verb will really happen. For bounded stops only
        (EN-21); nothing that is recorded may depend on it."""
        return self._recording.live

    # -- scopes

    def step(self, name: str, *, replayed: bool = True) -> AbstractContextManager[None]:
        """A named part of the process; the verbs inside have its name in their keys.

        Args:
            replayed: False for what an option of this process asks for: it is recorded and never replayed (EN-21).
        """
        return self._recording.step(name, replayed=replayed)

    def loop(self, name: str, cap: int | None = None) -> Turns:
        """Turns 1, 2, ... up to the cap; `break` leaves early. Settings may lower a cap, never raise it."""
        declared = self._recording.playbook.caps.get(name) if cap is None else cap
        if declared is None:
            raise EngineFault(f"loop {name!r} has no cap", where=scopes.here().path)
        return Turns(self._recording, checked_name(name), self._recording.cap_of(name, declared))

    # -- agents

    async def dispatch(self, spec: Dispatch) -> Report:
        """Call one agent and come back with what is proven about it."""
        slot = self._recording.recall(spec.name, spec.parts())
        agents = self._dispatcher
        return agents.recalled(slot) if slot.recorded else await agents.perform(spec, slot)

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
        bounds = None if writes is None else tuple(writes)
        return await calling.call(self._recording, other, inputs, caps or {}, bounds, self._for_called)

    def _for_called(self, recording: Recording) -> Run:
        return Run(recording, self._dispatcher.for_called(recording))

    async def cluster(
        self, name: str, members: Mapping[str, Callable[[], Awaitable[T]]], *, cap: int | None = None
    ) -> dict[str, T]:
        """Members side by side, at most `cap` at a time; results come, and work is imported, in declared order."""
        for member in members:
            checked_name(member)
        with self.step(name) if name else nullcontext():
            results = await side_by_side(self._recording, members, cap=cap or self._recording.at_once)
            slot = self._recording.recall("cluster", {"members": list(members)})
            if not slot.recorded:
                slot.settle("cluster.end", None, facts={"members": list(members)})
        return results

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
        run = self._recording
        names = [choice.name for choice in choices]
        asked = {"gate": name, "question": question, "choices": names, "shows": list(shows)}
        slot = run.recall(name, asked)
        if slot.recorded:
            return GateDecision(**slot.value())
        opening = slot.intent("gate.opened")
        digests = {path: run.world.documents.facts(path).digest or "" for path in shows}
        if opening is None or opening.data["digests"] != digests:
            if opening is None:
                run.stop_here(slot.key, "gate", lambda: asked)
            run.materialize()
            opened = {
                "gate": name,
                "question": question,
                "choices": [asdict(choice) for choice in choices],
                "digests": digests,
                "inputs": slot.digest,
                "opening": 1 if opening is None else opening.data["opening"] + 1,
            }
            opening = run.journal.append("gate.opened", key=slot.key, data=opened)
        if answered is None or (names and answered not in names):
            raise Halted(f"waiting for a decision: {question}", gate={"key": slot.key, **opening.data})
        decision = GateDecision(answered, "given beforehand", run.world.now().isoformat(), digests=digests)
        slot.settle("gate.decided", asdict(decision), facts=decision.facts(name, opening.data["opening"]))
        return decision

    # -- documents

    @overload
    async def read(self, path: str) -> Document: ...

    @overload
    async def read(self, path: str, view: Callable[[Document], T]) -> T: ...

    async def read(self, path: str, view: Callable[[Document], Any] | None = None) -> Any:
        """A document of the workspace as it is now; a missing one is a value, not an error.

        Args:
            view: a pure function; what it finds in the document, as JSON data, is returned in place of it, and only
                that is recorded. For documents that are large, or looked at often.
        """
        return await (self._documents.read(path) if view is None else self._documents.view(path, view))

    async def write(self, path: str, content: str | bytes, *, expect: str | None = None, anew: bool = False) -> Written:
        """Write a document whole, atomically.

        Args:
            expect: only over a file that still has this digest (EN-23); empty: only where there is none.
            anew: nothing remains as it was; what is there, or comes meanwhile, is set aside.
        """
        if anew:
            return await self._documents.write_anew(path, content)
        return await self._documents.write(path, content, expect=expect)

    @overload
    async def update(self, path: str, change: Callable[[Document], str]) -> Document: ...

    @overload
    async def update(self, path: str, change: Callable[[Document], Edit], *, what: Any) -> Any: ...

    async def update(self, path: str, change: Callable[[Document], Any], *, what: Any = None) -> Any:
        """Read, change, write: repeated when a person edited the file in between, so that no edit is lost. The
        document as it was before.

        Args:
            what: names the change, as JSON data. Then the document is not recorded: `change` gives an `Edit`, and what
                it told is returned.
        """
        return await (
            self._documents.update(path, change) if what is None else self._documents.edit(path, change, what)
        )

    async def list(self, folder: str, pattern: str = "*") -> list[str]:
        """The files of a folder, sorted, as workspace-relative paths."""
        return await self._documents.list(folder, pattern)

    async def set_aside(self, path: str) -> str:
        """Move a file to the attic; returns where it is now."""
        return await self._documents.set_aside(path)

    # -- commands

    async def command(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float = 1800.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        name: str = "",
        writes: bool = False,
        looks: bool = False,
        as_of: AsOf | None = None,
    ) -> CommandResult:
        """Run a build, test or check over the workspace, confined like an agent (LY-09).

        What the project ignores (caches, build outputs) is kept, so that the next build is incremental; other files
        that it changed are in the result, and dropped.

        Args:
            writes: it is made to change files (a formatter, a generator): they are brought into the tree.
            looks: it only looks (git plumbing, say), and is no effect: the run does not come into being by it, a dry
                run makes it too, and after a crash it is simply made again.
            as_of: a snapshot and files that are, for this command, as they were then.
        """
        call = CommandCall(tuple(argv), cwd, timeout_s, dict(env or {}), stdin)
        name = name or ("inspect" if looks else "command")
        return await carry_out(self._recording, call, name, looks=looks, writes=writes, as_of=as_of)

    # -- decisions, and what is settled once

    def decide(self, rule: Callable[..., T], *inputs: Any, named: Mapping[str, Any] | None = None) -> T:
        """Apply a table or pure function; what it was given and what it said are recorded.

        Args:
            named: the inputs as people know them (``{"security": "High"}``), where the rule's own words say less.
        """
        name = name_of(rule)
        slot = self._recording.recall(name, {"rule": name, "inputs": plain(inputs)})
        result = rule(*inputs)
        value = plain(result)
        if slot.recorded:
            recorded = slot.value()["result"]
            if recorded == value:
                return result
            if self._recording.options.accept_recorded and isinstance(result, StrEnum):
                return type(result)(recorded)
            raise slot.diverged(f"{name} at {slot.key} now says {value!r}; recorded is {recorded!r}")
        out = {"rule": name, "row": row_name(inputs)[:400], "result": value}
        told = dict(named) if named is not None else dict(zip(names_of(rule, inputs), inputs, strict=False))
        facts = {"inputs": plain(inputs), "named": plain(told), "table": isinstance(rule, Table)}
        slot.settle("decide", out, facts=facts)
        return result

    def settle_once(self, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the first process that came here was told by its options or settings; later ones keep to it."""
        slot = self._recording.recall(name, {})
        if not slot.recorded:
            slot.settle("option", dict(value), facts=value)
        return dict(slot.value())

    # -- events, output, clock, ids

    def note(self, event: str, **facts: Any) -> None:
        """Record an event of the playbook."""
        self._recording.note(event, **facts)

    def warn(self, text: str, **facts: Any) -> None:
        """Record something a person should know that does not stop the run."""
        self.note("warning", text=text, **facts)

    def say(self, text: str | bytes) -> None:
        """The playbook's own output: shown once, silent when it is replayed."""
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        slot = self._recording.recall("say", {"text": shown})
        if not slot.recorded:
            slot.settle("say", text)
            self._recording.say(text)

    def now(self) -> datetime:
        """The clock."""
        slot = self._recording.recall("now", {})
        if not slot.recorded:
            slot.settle("now", self._recording.world.now().isoformat())
        return datetime.fromisoformat(slot.value())

    def new_id(self, prefix: str, length: int = 6) -> str:
        """A name that nobody else has: the prefix and so many letters and digits."""
        slot = self._recording.recall("new_id", {"prefix": prefix, "length": length})
        if not slot.recorded:
            slot.settle("new_id", f"{prefix}{self._recording.world.draw(length)}")
        return str(slot.value())


def behind(run: Run) -> Recording:
    """What a run's verbs stand on: for parts of the engine to which a playbook hands its run."""
    return run._recording


def pause(run: Run, reason: str, *, status: Status = Status.WAITING) -> NoReturn:
    """A bounded stop: the run stays open and goes on with the next resume (EN-21).

    Args:
        status: how this process ends; `FAILED` where an agent did not do its part, and may at the next resume.
    """
    behind(run).park(reason, status=status)


async def wait(run: Run, seconds: float) -> None:
    """Let time pass, once: a replay does not wait again."""
    slot = behind(run).recall("wait", {"seconds": seconds})
    if not slot.recorded:
        await behind(run).world.sleep(seconds)
        slot.settle("wait", seconds)


@asynccontextmanager
async def within_time(seconds: float, message: str) -> AsyncIterator[None]:
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
