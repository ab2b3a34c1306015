"""What replay has to go by: what the journal of a run already says, by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from interlock.engine.journal import Line

RESUME = "resume-"
"""Scope of `on_resume`: happens at each resume, outside of replay (EN-09)."""


class Replay:
    """Outcomes that replay will consume, and the traces that unfinished verbs left."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._outcomes: dict[str, Line] = {}
        self._traces: dict[str, list[Line]] = {}
        for line in lines:
            self.add(line)

    def add(self, line: Line) -> None:
        if line.event == "run.reopened":
            self._forget(set(line.data["forgotten"]))
        elif line.key is None:
            return
        elif line.settles:
            if not line.key.startswith(RESUME):
                self._outcomes[line.key] = line
        else:
            self._traces.setdefault(line.key, []).append(line)

    def _forget(self, keys: set[str]) -> None:
        for key in keys:
            self._outcomes.pop(key, None)
            self._traces.pop(key, None)

    def holds(self, key: str) -> bool:
        """Whether the outcome of this verb is recorded and not asked for yet."""
        return key in self._outcomes

    def consume(self, key: str) -> Line | None:
        return self._outcomes.pop(key, None)

    def first_unconsumed(self, excused: Callable[[str], bool]) -> str | None:
        return next((key for key in self._outcomes if not excused(key)), None)

    def last(self, key: str, event: str) -> Line | None:
        return next((line for line in reversed(self._traces.get(key, ())) if line.event == event), None)

    def all(self, key: str, event: str) -> list[Line]:
        return [line for line in self._traces.get(key, ()) if line.event == event]

    @property
    def replayed(self) -> bool:
        return not self._outcomes
