"""What every verb of a run stands on: its key, what is recorded there, and leave to really happen.

Theory of operation.  Each verb computes its key and the digest of its inputs.  If the journal has the outcome for
that key, the verb returns it at once (*replay*); a different digest stops the run as diverged.  If not, the verb
really happens: whatever has an effect outside the run folder journals its intent first, then acts, then journals
the outcome, and only then does the playbook see it.  A verb may really happen only when every recorded outcome
has been consumed, those of open sibling members excepted (EN-06).

A playbook sees none of this: it has a `Run`, and the parts of the engine behind that have a `Recording`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from interlock.agents.runner import AgentNews
from interlock.engine import scopes
from interlock.engine.calling import Chain, lowered
from interlock.engine.definition import Playbook
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, Line
from interlock.engine.keys import Keys, checked_name, difference, digest_of, shown
from interlock.engine.lifecycle import resumes
from interlock.engine.model import Status, plain
from interlock.engine.objects import pack, pack_texts, unpack
from interlock.engine.options import Before, Halted, Options
from interlock.engine.scopes import OpenScope, under
from interlock.engine.world import World
from interlock.errors import Diverged
from interlock.workspace import Scope

T = TypeVar("T")
CODE_CHANGED = "The playbook's code changed since this run was recorded: install the version that run.json names."
RESUME = "resume-"
"""Scope of what happens outside of replay: `on_resume` at each resume (EN-09), and what an option asks for (EN-21)."""


class Replay:
    """Outcomes that replay will consume, and the traces that unfinished verbs left, by key."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._outcomes: dict[str, Line] = {}
        self._traces: dict[str, tuple[Line, ...]] = {}
        self._asked: dict[str, Mapping[str, Any]] | None = None
        self._meant: dict[str, Any] | None = None
        for line in lines:
            self.add(line)

    def shared(self) -> Replay:
        """The same for one of many processes that go on from here: what one of them worked out, the next ones know."""
        if self._asked is None:
            self._asked, self._meant = {}, {}
        other = copy(self)
        other._outcomes, other._traces = self._outcomes.copy(), self._traces.copy()
        return other

    def add(self, line: Line) -> None:
        if line.event == "run.reopened":
            self._forget(set(line.data["forgotten"]))
        elif line.key is None:
            return
        elif line.settles:
            if not line.key.startswith(RESUME):
                self._outcomes[line.key] = line
        else:
            self._traces[line.key] = (*self._traces.get(line.key, ()), line)

    def _forget(self, keys: set[str]) -> None:
        for key in keys:
            self._outcomes.pop(key, None)
            self._traces.pop(key, None)

    def holds(self, key: str) -> bool:
        """Whether the outcome of this verb is recorded and not asked for yet."""
        return key in self._outcomes

    def consume(self, key: str) -> Line | None:
        return self._outcomes.pop(key, None)

    def is_answer_to(self, parts: Mapping[str, Any], line: Line, key: str) -> bool:
        """Whether this line was recorded for a verb that was asked this."""
        if self._asked is not None and self._asked.get(key) == parts:
            return True
        if line.digest != digest_of(parts):
            return False
        if self._asked is not None:
            self._asked[key] = parts
        return True

    def meaning(self, key: str, made: Callable[[], T]) -> T:
        """What the outcome of a verb is made into, which nobody changes: once for all that go on from here."""
        if self._meant is None:
            return made()
        if key not in self._meant:
            self._meant[key] = made()
        known: T = self._meant[key]
        return known

    def first_unconsumed(self, excused: Callable[[str], bool]) -> str | None:
        return next((key for key in self._outcomes if not excused(key)), None) if self._outcomes else None

    def traces(self, key: str) -> Sequence[Line]:
        """What verbs left there on their way, in order."""
        return self._traces.get(key, ())

    @property
    def replayed(self) -> bool:
        return not self._outcomes


class Recording:
    """A run as the parts of the engine see it: what it is, what is recorded, what may happen."""

    def __init__(
        self,
        playbook: Playbook,
        identity: Identity,
        journal: Journal,
        world: World,
        *,
        options: Options | None = None,
        say: Callable[[str | bytes], None] = lambda _text: None,
        replay: Replay | None = None,
    ) -> None:
        self.identity = self._begun_as = identity
        self.playbook = playbook
        self.options = options = options or Options()
        self.world = world
        self.journal = journal
        self.replay = Replay(journal.lines) if replay is None else replay
        self.resumed = 0
        """Which resume this process is, 0 for a first start."""
        self.say = say
        """Shows what the playbook itself says."""
        self.open_members: set[str] = set()
        """The members of clusters that are at work, by their paths."""
        self.state_scope = Scope(playbook.state(playbook.parse_inputs(identity.inputs)))
        self.on_live: Callable[[], None] = lambda: None
        """Called before a verb really happens; delivers what people sent meanwhile."""
        self.on_news: Callable[[str, AgentNews], None] = lambda _key, _news: None
        """Called with what a running agent does; for live views, not recorded."""
        self.on_recorded: Callable[[], Awaitable[None]] = _goes_on
        """Waited for when a dispatch has ended and the journal has it, before the playbook sees its outcome."""
        self.may_begin: Callable[[], Awaitable[bool]] = _yes
        """Whether another dispatch may begin; if not, those under way come to their ends, and the run is cancelled."""
        self._keys = Keys()
        self.chain: Chain = ((playbook.name, dict(identity.inputs)),)
        """The playbooks that called each other, down to the one that is played."""
        self._unguarded = Scope(("**",), protected=options.protected)

    @property
    def live(self) -> bool:
        """Whether all that is recorded has been replayed: the next verb will really happen."""
        return self.replay.replayed

    @property
    def at_once(self) -> int:
        """How many agents may work side by side."""
        return self.options.max_parallel or self.playbook.max_parallel

    def cap_of(self, loop: str, declared: int) -> int:
        """The cap of a loop: as it was when the run began, and never more than declared."""
        return min(declared, self.identity.caps.get(loop, declared))

    def guarded(self, path: str) -> bool:
        """Whether a path is one that no program may change unless its scope names it (LY-33)."""
        return not self._unguarded.covers(path.rstrip("/"))

    # -- where it is

    def step(self, name: str, *, replayed: bool = True) -> AbstractContextManager[None]:
        outer, checked = scopes.here(), checked_name(name)
        if replayed:
            return scopes.Within(outer.child(checked, step=name))
        return scopes.Within(
            OpenScope(f"{RESUME}{resumes(self.journal.lines)}/{checked}", outer, outer.task, step=name)
        )

    def for_called(
        self, other: Playbook, inputs: Any, chain: Chain, caps: Mapping[str, int], writes: tuple[str, ...] | None
    ) -> Recording:
        """The same run for a playbook that is called: one journal, and its own name and rules, which are no wider."""
        inner = copy(self)
        inner.chain = chain
        inner.playbook = other
        inner.identity = replace(
            self.identity,
            playbook=other.name,
            key=other.key(inputs),
            inputs=chain[-1][1],
            caps=lowered(other.caps, self.identity.caps, self.playbook.caps, caps),
        )
        at_once = min(self.at_once, other.max_parallel)
        inner.options = self.options.for_called(other, at_once=at_once, writes=writes)
        inner.world = self.world.for_called(other, inputs)
        inner.state_scope = Scope((*self.state_scope.patterns, *other.state(inputs)))
        return inner

    # -- what is recorded

    def is_recorded(self, name: str) -> bool:
        """Whether the next use of this verb here has its outcome in the journal."""
        return self.replay.holds(self._keys.coming(scopes.here().path, name))

    def recall(self, name: str, parts: Mapping[str, Any]) -> Slot:
        """The key of the verb that is being used, with its recorded outcome or leave to really happen."""
        scope = scopes.here()
        key = self._keys.next(scope.path, name)
        line = self.replay.consume(key)
        if line is None:
            self._may_happen(key)
        elif not self.replay.is_answer_to(parts, line, key):
            self._check_difference(key, line, parts)
        return Slot(self, key, parts, line, scope)

    def _check_difference(self, key: str, line: Line, parts: Mapping[str, Any]) -> None:
        if self.options.accept_recorded:
            return
        what = difference(line.data.get("in", {}), shown(parts, self.world.redact))
        raise Diverged(
            f"the playbook asks at {key} for something else than what is recorded there ({what})",
            key=key,
            remedy=(
                f"The code or the inputs changed since run {self.identity.run_id} was recorded. Go on with what was "
                f"recorded: interlock resume {self.identity.run_id} --accept-recorded. Or end it: "
                f"interlock cancel {self.identity.run_id}, and start a new one."
            ),
        )

    def _may_happen(self, key: str) -> None:
        if key.startswith(RESUME):
            return
        other = self.replay.first_unconsumed(lambda recorded: self._excused(recorded, key))
        if other is not None:
            raise Diverged(
                f"the playbook wants to do {key}, but {other} was already recorded and has not been asked for",
                key=key,
                other=other,
                remedy=CODE_CHANGED,
            )
        self.on_live()

    def _excused(self, recorded: str, key: str) -> bool:
        return any(under(recorded, member) and not under(key, member) for member in self.open_members)

    def check_consumed(self) -> None:
        """At the playbook's end: nothing recorded may be left over."""
        other = self.replay.first_unconsumed(lambda _key: False)
        if other is not None:
            raise Diverged(
                f"the playbook ended, but {other} was recorded and has not been asked for",
                key="end",
                other=other,
                remedy=CODE_CHANGED,
            )

    def note(self, event: str, **facts: Any) -> None:
        """Record an event of the playbook."""
        told = plain(facts)
        slot = self.recall("note", {"event": event, "facts": told})
        if not slot.recorded:
            slot.settle(event, None, facts=told)

    # -- what happens

    def materialize(self) -> None:
        """The run comes into being with its first effect (EN-24)."""
        if self.journal.held:
            self.world.records.create(identity_bytes(self._begun_as))
            self.journal.release()

    def effect(self) -> None:
        self.journal.tripwire("effect")

    def stop_here(self, key: str, verb: str, detail: Callable[[], Any]) -> None:
        """Where this process was to stop before the first piece of work, it does."""
        if self.options.stop_before_work:
            raise Halted(f"stopped before {key}", before=Before(key, verb, detail()))

    def park(
        self,
        reason: str,
        *,
        facts: Mapping[str, Any] | None = None,
        advice: str = "",
        status: Status = Status.WAITING,
    ) -> NoReturn:
        """This process ends here; the run stays open and goes on with the next resume."""
        self.materialize()
        self.journal.append("run.paused", data={"reason": reason, **(facts or {})})
        raise Halted(reason + advice, status=status)


async def _goes_on() -> None:
    """Nobody has to hear of it first."""


async def _yes() -> bool:
    return True


class Slot:
    """The place of one verb in the journal."""

    def __init__(
        self,
        recording: Recording,
        key: str,
        parts: Mapping[str, Any],
        line: Line | None,
        scope: OpenScope,
    ) -> None:
        self.key = key
        self.scope = scope
        self._recording = recording
        self._objects = recording.world.records.objects
        self._parts = parts
        self._line = line
        self._settled: Any = None

    @property
    def digest(self) -> str:
        """What it was asked."""
        return digest_of(self._parts)

    @property
    def recorded(self) -> bool:
        return self._line is not None

    def value(self) -> Any:
        """The outcome: the recorded one, or the one that has just been settled."""
        return self._settled if self._line is None else unpack(self._line.data["out"], self._objects)

    def meaning(self, make: Callable[[Any], T]) -> T:
        """What the recorded outcome is made into; nobody may change that."""
        return self._recording.replay.meaning(self.key, lambda: make(self.value()))

    def diverged(self, what: str) -> Diverged:
        """The error of a verb that now comes to something else than what is recorded."""
        return Diverged(what, key=self.key, remedy=CODE_CHANGED)

    def intent(self, event: str) -> Line | None:
        """The last line of this kind that an earlier process left for this verb."""
        for line in reversed(self._recording.replay.traces(self.key)):
            if line.event == event:
                return self._whole(line)
        return None

    def intents(self, event: str) -> list[Line]:
        left = self._recording.replay.traces(self.key)
        return [self._whole(line) for line in left if line.event == event] if left else []

    def _whole(self, line: Line) -> Line:
        return line._replace(data=unpack(line.data, self._objects))

    def append(
        self, event: str, data: Mapping[str, Any], *, agent: str | None = None, attempt: int | None = None
    ) -> Line:
        """Leave a trace on the way."""
        line = self._write(event, data, agent, attempt)
        self._recording.replay.add(line)
        return line

    def settle(
        self,
        event: str,
        value: Any,
        *,
        facts: Mapping[str, Any] | None = None,
        agent: str | None = None,
        attempt: int | None = None,
    ) -> None:
        """Record the outcome; only then may the playbook see it."""
        asked = shown(self._parts, self._recording.world.redact)
        data = {"in": asked, **(facts or {}), "out": pack_texts(value, self._objects)}
        self._write(event, data, agent, attempt, digest=self.digest)
        self._settled = value

    def _write(
        self, event: str, data: Mapping[str, Any], agent: str | None, attempt: int | None, *, digest: str | None = None
    ) -> Line:
        return self._recording.journal.append(
            event,
            key=self.key,
            agent=agent,
            attempt=attempt,
            iteration=self.scope.iteration,
            digest=digest,
            data=data,
            shrink=self._shrink,
        )

    def _shrink(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: pack(value, self._objects) for name, value in data.items()}
