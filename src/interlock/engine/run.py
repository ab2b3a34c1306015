"""What a playbook sees: a `Run` and its verbs.

Each verb has a key and one outcome.  Recorded, it returns at once; else it happens, is recorded, and only then seen.
A playbook touches the world through these alone, so that the same function runs for real and in simulation.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

from interlock.documents.model import Model, canonical, plain
from interlock.engine import checks, commits, delivery, dispatch, documents, keys, people, receipt
from interlock.engine import events as ev
from interlock.engine.delivery import clash
from interlock.engine.documents import difference
from interlock.engine.events import Based, Committed, Delivered, GateDecided, Proved, Report
from interlock.engine.forms import Form, Given, Unusable
from interlock.engine.people import MOOT
from interlock.engine.prompts import Prompts
from interlock.engine.replay import Recorder, Slot
from interlock.engine.toolchains import Look
from interlock.engine.view import View
from interlock.engine.world import Command, World
from interlock.errors import EngineFault
from interlock.workspace import scope
from interlock.workspace.values import Pending, Standing, Tree, Where

T = TypeVar("T")
O = TypeVar("O", bound=ev.Outcome)  # noqa: E741 - an outcome
__all__ = ["Based", "Call", "Command", "Committed", "Delivered", "GateDecided", "Outcome", "Proved", "Report", "Row"]
__all__ += ["MOOT", "Limits", "Look", "Run", "Stop", "clash", "difference"]
"""What a playbook knows: the verbs, what is asked of them, and the values that they give."""


@dataclass(frozen=True)
class Row:
    """A role of a playbook: who is asked, for what form, with which scope."""

    agent: str
    prompt: str
    """The template of its task, in the playbook's `prompts/`."""
    form: type[Form] | None = None
    judges: bool = False
    """It works on nothing but its outputs; its form is a claim that is looked into."""
    writes: tuple[str, ...] = ()
    """Globs; empty: nothing but its outputs."""
    outputs: tuple[str, ...] = ()
    """Documents that it has to leave: delivered with its dispatch."""
    may: tuple[str, ...] = ()
    """Globs of documents that it may leave beside them, delivered likewise."""
    read: Callable[[Given], Form | Unusable | None] | None = None
    """Its answer in a layout of its own, instead of the form in its last message; None: it gave none, and need not."""
    spell: Callable[[Mapping[str, Any], Sequence[str]], Mapping[str, str]] | None = None
    """The documents in which a form stands, given the form's values and the paths that are left (outputs, samples): the
    inverse of `read`, for who plays by script. With it the documents are the answer; no form is asked for beside."""
    says: type[Form] | None = None
    """The form of its last message beside such documents, given to clients that can hold their model to one; the brief
    does not show it, the prompt says it in its own words."""
    timeout_s: float = 3600
    overall: bool = False
    """That is the time of all its calls together, waiting for a service apart; else of each."""
    answers: bool = False
    """A form is asked for: without a valid one its answer is unusable. Judges always answer (EVID-00, EVID-01)."""
    repeats: int = 2
    """After weather."""
    repairs: int = 1
    """Of an unusable answer."""
    stays: bool = False
    """What of its work lies in its scope counts, although it wrote outside, too: the next attempt begins with it."""
    lost: bool = False
    """A dispatch that came to nothing is a value for the playbook, not the run's halt."""
    title: str = ""
    role: str = ""
    """Its role file, in place of what is looked up by its name."""
    grace_s: float = 0
    """At its deadline partial results are asked for, and this long waited for."""

    def leaves(self, path: str) -> bool:
        """Whether it is a document of its own, which comes into the tree with its dispatch."""
        return path in self.outputs or scope.within(path, self.may)


@dataclass(frozen=True)
class Call:
    """One dispatch that a playbook asks for."""

    row: Row
    member: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What its prompt is filled with, and what it is asked: values, names of trees and documents."""
    texts: Mapping[str, Any] = field(default_factory=dict)
    """What its prompt is filled with beside them: texts that a program made, and may make otherwise (RUN-21)."""
    reads: tuple[str, ...] = ()
    """Paths that its brief names as inputs."""
    criteria: tuple[str, ...] = ()
    """What a judge judges by."""
    request: str = ""
    """A person's words that may name guarded paths (TREE-08)."""
    samples: Mapping[str, str] = field(default_factory=dict)
    """Documents that would do, by path: for who plays by script."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the best answer that follow from what is asked: likewise."""
    attempt: int = 1
    proved: tuple[ev.Proved, ...] = ()
    """What the engine ran on that very tree."""
    hands: Mapping[str, Any] = field(default_factory=dict)
    """What a run that its agent starts within its layer finds of this one (`RunStarted.outer`)."""


class Limits(Model):
    """What of the settings bounds a run; obeyed anew on each resume."""

    max_parallel: int = 8
    budget_usd: float | None = None
    budget_tokens: int | None = None
    rate_limit_wait_s: float = 8 * 86_400
    replay: str = "all"
    replay_s: float = 600
    weakened: str = "tell"
    guarded: tuple[str, ...] = scope.GUARDED


@dataclass(frozen=True)
class Outcome:
    """How a playbook ends."""

    status: str
    reason: str
    output: str = ""
    exit: int | None = None
    next: str = ""
    again: str = ""
    """Of one that stopped: the scope (`run.scope`) from which a resume begins again."""

    @classmethod
    def complete(cls, reason: str, output: str = "", **more: Any) -> Outcome:
        return cls("complete", reason, output, **more)

    @classmethod
    def degraded(cls, reason: str, output: str = "", **more: Any) -> Outcome:
        return cls("degraded", reason, output, **more)

    @classmethod
    def stopped(cls, reason: str, output: str = "", **more: Any) -> Outcome:
        return cls("stopped", reason, output, **more)


class Stop(Exception):
    """Raised anywhere in a playbook: it ends so."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Run:
    """One run of one playbook."""

    def __init__(
        self,
        recorder: Recorder,
        world: World,
        prompts: Prompts,
        *,
        settings: Any = None,
        limits: Limits | None = None,
        flags: Mapping[str, Any] | None = None,
        hear: Callable[[str, Any], None] | None = None,
        saved: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.recorder = recorder
        self.world = world
        self.prompts = prompts
        self.settings = settings
        self.limits = limits or Limits()
        self.flags = flags or {}
        """Options of this process, not of the run: never recorded."""
        self.hear = hear or (lambda key, news: None)
        self._saved = saved
        self._keys = keys.Keys()
        self.pair_lock = asyncio.Lock()
        """Members side by side move the pending pair on one after the other."""
        self.ran: dict[tuple[str, Tree], ev.Run1] = {}
        """Command line and tree -> how it ran, in this process; of earlier processes only where it was green."""
        for pair in self.full.ran.values():
            for one in (pair.before, pair.proved.after if pair.proved else None):
                if one is not None and one.green:
                    self.ran[pair.command, one.tree] = one
        self.setup: Command | None = None
        """Prepares what commands need; known when `commands` were asked for."""
        self.limited: dict[str, datetime] = {}
        """Runner -> when its service takes requests again: members of a group wait as one."""
        self.watched: dict[str, documents.Fields | None] = {}
        """Document that the engine alone writes -> what of it nobody else may change."""
        assert recorder.view.start is not None
        self.start = recorder.view.start

    # --- what is known

    @property
    def view(self) -> View:
        """The fold of what this playbook has asked for so far."""
        return self.recorder.seen

    @property
    def full(self) -> View:
        """The fold of everything: for the engine's own live decisions alone."""
        return self.recorder.view

    @property
    def id(self) -> str:
        return self.start.run

    @property
    def where(self) -> Where:
        """The place and the branch that the run belongs to now."""
        return self.full.where

    @property
    def scope(self) -> str:
        """Where in the playbook this is."""
        return keys.here().path

    async def standing(self) -> Standing:
        """The person's workspace of this moment."""
        return await self.world.standing(self.where, self.full.standing)

    @property
    def stopped(self) -> str:
        """Why it had stopped before it was resumed, until a dispatch has ended since; not recorded: for texts alone."""
        return self.full.stopped

    @property
    def pending(self) -> Pending:
        """What was done and nobody has accepted, as it stands now."""
        assert self.full.pending is not None
        return self.full.pending

    @property
    def has_work(self) -> bool:
        """Whether the playbook has done anything that is not in the person's tree."""
        pair = self.view.pending
        return pair is not None and pair.base != pair.work

    def options(self, name: str, default: Any = None) -> Any:
        """What a person said with `resume`, else at the start."""
        return self.full.options.get(name, default)

    def fill(self, prompt: str, **values: Any) -> str:
        """One of the playbook's texts with its values."""
        return self.prompts.fill(prompt, values)

    def text(self, digest: str | None) -> str:
        """A recorded text."""
        return "" if digest is None else self.world.folder.get(digest).decode("utf-8", "replace")

    async def safe(self) -> None:
        """Waits until the journal is safe on the remote that carries the run, if one does; raises where it was lost."""
        if self._saved is not None:
            await self._saved()

    # --- keys

    def slot(self, name: str, asked: Mapping[str, Any], kind: type[O]) -> Slot[O]:
        return self.recorder.recall(self._keys.next(keys.here().path, name), asked, kind)

    def outcome(self, name: str, asked: Mapping[str, Any], kind: type[O], make: Callable[[], O]) -> O:
        """What is recorded at the next key of that name, else what is made now."""
        slot = self.slot(name, asked, kind)
        return slot.settle(make()) if slot.outcome is None else slot.outcome

    async def made(self, name: str, asked: Mapping[str, Any], kind: type[O], make: Callable[[], Awaitable[O]]) -> O:
        """The same, awaited."""
        slot = self.slot(name, asked, kind)
        return slot.settle(await make()) if slot.outcome is None else slot.outcome

    async def found(self, name: str, asked: Mapping[str, Any], find: Callable[[], Awaitable[Any]]) -> Any:
        """What the world says, asked once: plain data, recorded, and the same ever after."""

        async def make() -> ev.Got:
            return ev.Got(verb=name, value=plain(await find()))

        return (await self.made(name, asked, ev.Got, make)).value

    @contextmanager
    def step(self, name: str) -> Any:
        """Verbs used inside have their keys below the step's name."""
        outer = keys.here()
        keys.enter(outer.child(name, step=name))
        try:
            yield
        finally:
            keys.enter(outer)

    def loop(self, name: str, cap: int | None = None) -> AsyncIterator[int]:
        """Turns from 1 to the cap, each in a scope of its own; the cap was fixed when the run began (RUN-10)."""
        allowed = self.start.caps.get(name)
        if cap is None and allowed is None:
            raise EngineFault(f"the loop {name!r} has no cap", where=name, remedy="Give the playbook's caps its name.")
        return _Turns(self, name, min(number for number in (cap, allowed) if number is not None))

    # --- verbs

    async def together(
        self, name: str, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int | None = None
    ) -> dict[str, T]:
        """Named members side by side; each has keys of its own below the group's."""
        outer = keys.here().child(name)
        paths = {member: f"{outer.path}/{keys.checked_name(member)}" for member in members}
        self.recorder.members += paths.values()
        try:
            slot = self.slot(name, {"members": sorted(members)}, ev.Joined)
            parallel = max(1, min(cap or len(members), self.limits.max_parallel))
            came = await self.world.together(members, parallel, lambda member: keys.enter_member(outer, member))
        finally:
            for path in paths.values():
                self.recorder.members.remove(path)
        if slot.outcome is None:
            slot.settle(ev.Joined(members=tuple(members)))
        return came

    def decide(self, rule: Callable[..., T], /, *positional: Any, **named: Any) -> T:
        """Apply a rule to named inputs; computed again on replay, it has to agree."""
        try:
            known = [name.replace("_", " ") for name in inspect.signature(rule).parameters]
        except ValueError:  # some built-in functions do not say
            known = [f"input {number}" for number in range(1, len(positional) + 1)]
        inputs = {**dict(zip(known, map(_word, positional), strict=False)), **{k: _word(v) for k, v in named.items()}}
        result, name = rule(*positional, **named), rule.__name__
        told = {"inputs": inputs, "result": _word(result)}
        self.outcome(name, told, ev.Decided, lambda: ev.Decided(rule=name, **told))
        return result

    def note(self, name: str, /, **facts: Any) -> None:
        """A fact of the playbook's own, for its documents and for people."""
        facts = plain(facts)
        self.outcome(name, {"facts": facts}, ev.Noted, lambda: ev.Noted(name=name, facts=facts))

    def say(self, text: str) -> None:
        """Output of the playbook itself: standard output, and nothing else is there."""
        content = text.encode("utf-8", "backslashreplace")
        self.outcome("say", {}, ev.Said, lambda: ev.Said(text=self.world.folder.put(content)))

    def warn(self, text: str) -> None:
        """Tell people something beside the process; once."""
        self.outcome("warn", {}, ev.Warned, lambda: ev.Warned(text=text))

    def once(self, verb: str, asked: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """A value that is asked of the world once and is the same ever after: a time, an id, an option."""
        return self.outcome(verb, asked, ev.Got, lambda: ev.Got(verb=verb, value=plain(make()))).value

    def now(self) -> datetime:
        return datetime.fromisoformat(self.once("now", {}, lambda: self.world.now().isoformat()))

    def cores(self) -> int:
        """Processors that programs may use here; 0: nobody knows."""
        return int(self.once("cores", {}, self.world.cores))

    def new_id(self, length: int = 6) -> str:
        return str(self.once("id", {"length": length}, lambda: self.world.draw(length)))

    async def wait(self, seconds: float) -> None:
        """Let that much time pass, once."""
        await self.found(
            "wait", {"seconds": seconds}, lambda: self.world.sleep_until(self.world.now() + timedelta(seconds=seconds))
        )

    async def left(self, report: ev.Report) -> str:
        """The changes of an agent whose work did not count, as a patch; not recorded: for texts alone."""
        if report.kept is None or report.shown is None:
            return ""
        return (await self.world.patch(report.shown, report.kept)).decode("utf-8", "backslashreplace")

    commands = checks.commands
    baseline = checks.baseline
    dispatch = dispatch.dispatch
    prove = checks.prove
    prove_commit = checks.prove_commit
    against = checks.against
    idle = checks.idle
    land = checks.land
    rest = checks.rest
    tell = checks.tell
    tail = checks.tail
    changed = delivery.changed
    deliver = delivery.deliver
    unit = delivery.unit
    hooks = commits.hooks
    commit = commits.commit
    commit_documents = commits.commit_documents
    pull_request = commits.pull_request
    unsaved = commits.unsaved
    branch = commits.branch
    switch = commits.switch
    stash = commits.stash
    gate = people.gate
    approve = people.approve
    look = documents.look
    read = documents.read
    names = documents.names
    watch = documents.watch
    change = documents.change
    set_aside = documents.set_aside
    stop_if_cancelled = people.stop_if_cancelled

    def receipt(self) -> str:
        """What was reached and on what evidence, as Markdown."""
        return receipt.markdown(self.full)


def _word(value: Any) -> Any:
    """A decision's input or result as people read it."""
    if isinstance(value, Enum):
        return value.name.lower().replace("_", " ")
    if value is None or isinstance(value, str | int | float | bool):
        return str(value) if not isinstance(value, str) else value
    spelled = canonical(plain(value)).decode()
    return spelled if len(spelled) <= 200 else f"{spelled[:197]}..."


class _Turns:
    """The turns of a loop, each in a scope of its own (``round-1``, ``round-2`` ...)."""

    def __init__(self, run: Run, name: str, cap: int) -> None:
        self._run, self._name, self._cap, self._turn = run, keys.checked_name(name), cap, 0
        self._outer = keys.here()
        self._inner: keys.Scope | None = None

    def __aiter__(self) -> _Turns:
        return self

    async def __anext__(self) -> int:
        keys.leave(self._inner, self._outer)
        self._inner = None
        if self._turn >= self._cap:
            raise StopAsyncIteration
        self._turn += 1
        turn = ev.Turn(loop=self._name, n=self._turn, cap=self._cap)
        self._run.outcome(f"{self._name}-turn", {"turn": self._turn}, ev.Turn, lambda: turn)
        self._inner = self._outer.child(f"{self._name}-{self._turn}")
        keys.enter(self._inner)
        return self._turn

    def __del__(self) -> None:
        # `break` drops the iterator at once (CPython counts references): that is how a loop's scope ends early.
        keys.leave(self._inner, self._outer)
