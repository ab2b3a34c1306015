"""Replay: what is recorded returns at once, what is not happens (RUN-03, RUN-04).

Two folds read a journal: this one, outcomes by key, and the `View`.  A playbook sees the view of what it has asked for
so far (`seen`): each recalled key's lines are folded as it is recalled, so that nothing it decides can depend on lines
that it has not come to yet.  The engine's own live decisions use the fold of everything (`view`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from interlock.engine import events as ev
from interlock.engine.folder import Folder
from interlock.engine.journal import Journal, Line, Unknown
from interlock.engine.keys import difference, shortly
from interlock.engine.view import View
from interlock.errors import Diverged

O = TypeVar("O", bound=ev.Outcome)  # noqa: E741 - an outcome
Told = Callable[[ev.Event, str], None]
"""Hears of each line as it is added, with its key."""
_THOUGHTS = (
    *(ev.Decided, ev.Turn, ev.Noted, ev.Joined, ev.Got, ev.Warned, ev.Refused),
    *(ev.Resumed, ev.Reopened, ev.Paused, ev.Left),
)
"""Lines that nothing in the world stands behind."""


class Recorder:
    """The journal of a run that is being played: what stands in it, and what is added."""

    def __init__(
        self, journal: Journal, folder: Folder, clock: Callable[[], datetime], told: Told = lambda event, key: None
    ) -> None:
        self.journal, self.folder, self._clock, self._told = journal, folder, clock, told
        self.view, self.seen = View(), View()
        self._accepted = 0
        """`--accept-recorded`: up to this line what is asked may differ from what is recorded, by a person's word."""
        self._outcomes: dict[str, Line] = {}
        self._traces: dict[str, list[Line]] = {}
        self._asked: set[str] = set()
        self._unasked: dict[str, Line] = {}
        """Outcomes that nobody has asked for yet: what a dead process left."""
        self.members: list[str] = []
        """Scopes of open members: what is recorded below them may still be asked for."""
        for line in journal.lines:
            self._file(line)
            if isinstance(line.event, ev.RunStarted):
                self.seen.take(line)

    def _file(self, line: Line) -> None:
        self.view.take(line)
        if isinstance(line.event, ev.Reopened):
            for key in line.event.forgotten:
                for known in (self._outcomes, self._unasked, self._traces):
                    known.pop(key, None)
        elif isinstance(line.event, ev.Resumed) and line.event.accepted:
            self._accepted = line.seq
        elif line.key and isinstance(line.event, ev.Outcome | Unknown):
            self._outcomes[line.key] = line
            if line.key not in self._asked:
                self._unasked[line.key] = line
        elif line.key:
            self._traces.setdefault(line.key, []).append(line)

    def add(self, key: str, event: ev.Event, *, sync: bool = False) -> Line:
        """Append a line; both folds have it when this returns."""
        line = self.journal.append(self._clock(), key, event)
        self._file(line)
        self.seen.take(line)
        if sync:
            self.sync()
        self._told(event, key)
        return line

    def sync(self) -> None:
        """All that was recorded is safe: before every effect."""
        self.folder.settle()
        self.journal.sync()

    def recall(self, key: str, asked: Mapping[str, Any], kind: type[O]) -> Slot[O]:
        """The verb's place in the journal: with its recorded outcome, or without one and with what was traced so far.

        Raises:
            Diverged: it was asked something else, or something recorded was never asked for.
        """
        short = shortly(asked)
        self._asked.add(key)
        self._unasked.pop(key, None)
        line, traces = self._outcomes.get(key), self._traces.get(key, [])
        outcome = line.event if line and isinstance(line.event, kind) else None
        if line and not outcome:
            now = kind.model_fields["e"].default
            self._require_accepted(line, f"recorded is `{line.event.e}`, now asked is `{now}`", instead=True)
        if not outcome:
            self.require_all_asked(key)
        elif line and (what := difference(outcome.asked, short)):
            self._require_accepted(line, what)
        for one in (*traces, line) if line and outcome else traces:
            self.seen.take(one)
        return Slot(self, key, short, outcome, [] if outcome else [one.event for one in traces])

    def require_all_asked(self, key: str) -> None:
        """Raises Diverged where something recorded was not asked for before this key (or the end, without a key); what
        is recorded below other open members may still be asked for."""
        others = (scope for scope in self.members if not key.startswith((f"{scope}/", f"{scope}#")))
        beside = tuple(f"{scope}{mark}" for scope in others for mark in "/#")
        for other, line in [*self._unasked.items()]:
            if not other.startswith(beside):
                self._require_accepted(
                    line, f"it is recorded, and not asked for before {key or 'the end'}", instead=True
                )

    def _require_accepted(self, line: Line, what: str, *, instead: bool = False) -> None:
        """Raises Diverged, unless a person has said to go on with this line although the playbook differs.

        Args:
            instead: what is recorded is forgotten then; else it is returned as it is.
        """
        if line.seq > self._accepted:
            raise self.diverged(line.key, what)
        if instead:
            self._outcomes.pop(line.key)
            self._unasked.pop(line.key, None)

    @property
    def kept(self) -> int:
        """How many recorded keys were asked for."""
        return len(self._asked & self._outcomes.keys())

    def diverged(self, key: str, what: str) -> Diverged:
        start = self.view.start
        version = f" It was recorded by version {self.view.version}, which goes on with it." if start else ""
        run = start.run if start else "RUN"
        return Diverged(
            f"the playbook no longer asks what is recorded: {what}",
            key=key,
            remedy=f"Go on with what is recorded: interlock resume {run} --accept-recorded.{version}",
        )

    def again(self, scope: str = "") -> tuple[str, ...]:
        """The keys that are forgotten so that a stopped run does them again.

        With a scope: all that was recorded since the run first came there, except below other members of its group.
        Without one: all since its last dispatch, that included; if that was in a turn of a loop, since the turn began.
        """
        outcomes = sorted(self._outcomes.values(), key=lambda line: line.seq)
        if scope:
            first = next((line.seq for line in outcomes if line.key.startswith((f"{scope}/", f"{scope}#"))), 0)
            group, _, name = scope.rpartition("/")
            joined = [line for line in outcomes if line.key.rpartition("#")[0] == group]
            members = {one for line in joined if isinstance(line.event, ev.Joined) for one in line.event.members}
            beside = tuple(f"{group}/{member}{mark}" for member in members - {name} for mark in "/#")
            return tuple(line.key for line in outcomes if 0 < first <= line.seq and not line.key.startswith(beside))
        last = next((line for line in reversed(outcomes) if isinstance(line.event, ev.Done)), None)
        since = last.seq if last else 0
        for line in outcomes:
            if last and isinstance(line.event, ev.Turn):
                folder = line.key.rpartition("/")[0]
                scope = f"{folder}/{line.event.loop}-{line.event.n}/".lstrip("/")
                since = line.seq + 1 if last.key.startswith(scope) else since
        return tuple(line.key for line in outcomes if line.seq >= since)

    def reopen(self, slot: Slot[Any], why: str) -> bool:
        """Forget an outcome and what was decided since; False, and nothing done, where more was done since."""
        seq = self._outcomes[slot.key].seq
        if any(line.seq > seq and not isinstance(line.event, _THOUGHTS) for line in self.journal.lines):
            return False
        forgotten = tuple(key for key, line in self._outcomes.items() if line.seq >= seq)
        self.add("", ev.Reopened(forgotten=forgotten, why=why))
        slot.outcome = None
        return True


@dataclass
class Slot(Generic[O]):
    """The place of one verb in the journal: its outcome, once there is one, and what was traced on the way there."""

    recorder: Recorder
    key: str
    asked: dict[str, Any]
    outcome: O | None
    traces: list[ev.Event]

    def add(self, event: ev.Event, *, sync: bool = False) -> None:
        self.traces.append(event)
        self.recorder.add(self.key, event, sync=sync)

    @property
    def settled(self) -> O:
        """The outcome, once it is there."""
        assert self.outcome is not None
        return self.outcome

    def settle(self, outcome: O) -> O:
        """Record the outcome; only now does the playbook see it."""
        self.outcome = outcome.model_copy(update={"asked": self.asked})
        self.recorder.add(self.key, self.outcome)
        return self.outcome
