"""Keys, scopes and replay: what every verb of a run stands on.

Theory of operation.  Each verb computes its key and the digest of its inputs.  If the journal has the outcome for
that key, the verb returns it at once (*replay*); a different digest stops the run as diverged.  If not, the verb
really happens: whatever has an effect outside the run folder journals its intent first, then acts, then journals
the outcome, and only then does the playbook see it.  A verb may really happen only when every recorded outcome
has been consumed, those of open sibling members excepted (EN-06).

Scopes (`step`, `loop`, cluster members) live in a context variable, so that concurrent members each see their
own.  A scope belongs to one task: verbs used concurrently outside of a cluster are a fault, because their keys
would depend on time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from interlock.agents.runner import AgentNews
from interlock.engine.definition import Playbook
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, Line
from interlock.engine.keys import Keys, checked_name, difference, digest_of, shown
from interlock.engine.model import Delegation
from interlock.engine.options import Before, Halted, Options
from interlock.engine.replay import RESUME, Replay
from interlock.engine.scopes import Scope, current
from interlock.engine.slot import Slot
from interlock.engine.world import World
from interlock.errors import Diverged, EngineFault
from interlock.workspace import Scope as PathScope

CODE_CHANGED = "The playbook's code changed since this run was recorded: install the version that run.json names."


class Recording:
    """A run as its verbs see it: where the playbook is, what is recorded, what may happen."""

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
        self.identity = self._begun_as = identity
        self.playbook = playbook
        self.options = options = options or Options()
        self.world = world
        self.journal = journal
        self.record = Replay(journal.lines)
        self._keys = Keys()
        self._say = say
        self._open_members: set[str] = set()
        self.state_scope = PathScope(playbook.state(playbook.parse_inputs(identity.inputs)))
        self._unguarded = PathScope(("**",), protected=options.protected)
        self.on_live: Callable[[], None] = lambda: None
        """Called before a verb really happens; delivers what people sent meanwhile."""
        self.on_news: Callable[[str, AgentNews], None] = lambda _key, _news: None
        """Called with what a running agent does; for live views, not recorded."""

    # -- what a playbook knows of itself

    @property
    def settings(self) -> Any:
        """The playbook's own table, as people have it now."""
        return self.playbook.settings() if self.options.settings is None else self.options.settings

    def place(self, path: str) -> str:
        """The absolute path of a file of the workspace: for messages to people, never for a digest."""
        return str(self.world.tree.root / path)

    @property
    def flags(self) -> Mapping[str, Any]:
        """Options of this process, such as a bounded stop; never part of a digest."""
        return self.options.flags

    @property
    def live(self) -> bool:
        """Whether all that is recorded has been replayed: the next verb will really happen. For bounded stops only
        (EN-21); nothing that is recorded may depend on it."""
        return self.record.replayed

    def guarded(self, path: str) -> bool:
        """Whether a path is one that no program may change unless its scope names it (LY-33)."""
        return not self._unguarded.covers(path.rstrip("/"))

    @property
    def parent(self) -> Delegation | None:
        return self.options.parent

    # -- scopes

    def adopt(self) -> None:
        """Make the current task the one that runs the playbook."""
        current.set(Scope("", None, asyncio.current_task()))

    @property
    def scope(self) -> Scope:
        scope = current.get()
        if scope.task is not asyncio.current_task():
            raise EngineFault(
                f"a verb was used in {scope.path or 'the playbook'!r} from a task that is not its own",
                where=scope.path,
                remedy="Run things side by side as named members of run.cluster(...).",
            )
        return scope

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A named part of the process; the verbs inside have its name in their keys."""
        outer = self.scope
        current.set(outer.child(checked_name(name), step=name))
        try:
            yield
        finally:
            current.set(outer)

    @contextmanager
    def outside_replay(self, name: str) -> Iterator[None]:
        """Verbs in here are recorded and never replayed: for what an option of this process asks for (EN-21)."""
        outer = self.scope
        processes = sum(line.event == "run.resumed" for line in self.journal.lines)
        current.set(Scope(f"{RESUME}{processes}/{checked_name(name)}", outer, outer.task, step=name))
        try:
            yield
        finally:
            current.set(outer)

    def loop(self, name: str, cap: int | None = None) -> Turns:
        """Turns 1, 2, ... up to the cap; `break` leaves early. Settings may lower a cap, never raise it."""
        declared = self.playbook.caps.get(name) if cap is None else cap
        if declared is None:
            raise EngineFault(f"loop {name!r} has no cap", where=self.scope.path)
        return Turns(self, checked_name(name), min(declared, self.identity.caps.get(name, declared)))

    # -- the record

    def recall(self, name: str, parts: Mapping[str, Any]) -> Slot:
        """The key of the verb that is being used, with its recorded outcome or leave to really happen."""
        scope = self.scope
        key = self._keys.next(scope.path, name)
        digest = digest_of(parts)
        line = self.record.consume(key)
        if line is None:
            self._may_happen(key)
            return Slot(self, key, digest, parts, None, scope)
        if line.digest != digest:
            self._check_difference(key, line, parts)
        return Slot(self, key, digest, parts, line, scope)

    def _check_difference(self, key: str, line: Line, parts: Mapping[str, Any]) -> None:
        if self.options.accept_recorded:
            return
        what = difference(line.data.get("in", {}), shown(parts, self.world.redact))
        raise Diverged(
            f"the playbook asks at {key} for something else than what is recorded there ({what})",
            key=key,
            remedy=(
                f"The code or the inputs changed since run {self.identity.run_id} was recorded. Go on with what was "
                f"recorded: interlock resume {self.identity.run_id} --accept-recorded. Or start a new run."
            ),
        )

    def _may_happen(self, key: str) -> None:
        if key.startswith(RESUME):
            return
        other = self.record.first_unconsumed(lambda recorded: self._excused(recorded, key))
        if other is not None:
            raise Diverged(
                f"the playbook wants to do {key}, but {other} was already recorded and has not been asked for",
                key=key,
                other=other,
                remedy=CODE_CHANGED,
            )
        self.on_live()

    def _excused(self, recorded: str, key: str) -> bool:
        return any(under(recorded, member) and not under(key, member) for member in self._open_members)

    def check_consumed(self) -> None:
        """At the playbook's end: nothing recorded may be left over."""
        other = self.record.first_unconsumed(lambda _key: False)
        if other is not None:
            raise Diverged(
                f"the playbook ended, but {other} was recorded and has not been asked for",
                key="end",
                other=other,
                remedy=CODE_CHANGED,
            )

    def materialize(self) -> None:
        """The run comes into being with its first effect (EN-24)."""
        if self.journal.held:
            self.world.records.create(identity_bytes(self._begun_as))
            self.journal.release()

    def effect(self) -> None:
        self.journal.tripwire("effect")

    def stop_here(self, key: str, verb: str, detail: Callable[[], Any]) -> None:
        if self.options.stop_before_work:
            raise Halted(f"stopped before {key}", before=Before(key, verb, detail()))


def under(key: str, member: str) -> bool:
    return key.startswith(member) and key[len(member) : len(member) + 1] in ("/", "#")


class Turns:
    """The turns of a loop, each in a scope of its own (``fix-1``, ``fix-2`` ...), counted in the journal."""

    def __init__(self, run: Recording, name: str, cap: int) -> None:
        self._run = run
        self._name = name
        self._cap = cap
        self._turn = 0
        self._outer = run.scope
        self._inner: Scope | None = None

    def __aiter__(self) -> Turns:
        return self

    async def __anext__(self) -> int:
        self._leave()
        if self._turn >= self._cap:
            raise StopAsyncIteration
        self._turn += 1
        self._inner = self._outer.child(f"{self._name}-{self._turn}", iteration=self._turn)
        current.set(self._inner)
        slot = self._run.recall("loop", {"loop": self._name, "turn": self._turn})
        if not slot.recorded:
            slot.settle("loop", self._turn, facts={"loop": self._name, "turn": self._turn, "cap": self._cap})
        return self._turn

    def _leave(self) -> None:
        if self._inner is not None and (now := current.get(None)) is not None and now.inside(self._inner):
            current.set(self._outer)
        self._inner = None

    def __del__(self) -> None:
        # `break` drops the iterator at once (CPython counts references): that is how a loop's scope ends early.
        self._leave()
