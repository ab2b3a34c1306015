"""The place of one verb in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interlock.engine.journal import Line
from interlock.engine.keys import shown
from interlock.engine.objects import pack, pack_texts, unpack
from interlock.engine.scopes import Scope

if TYPE_CHECKING:
    from interlock.engine.recording import Recording


class Slot:
    """The place of one verb in the journal."""

    def __init__(
        self, run: Recording, key: str, digest: str, parts: Mapping[str, Any], line: Line | None, scope: Scope
    ) -> None:
        self.run = run
        self.key = key
        self.scope = scope
        self.digest = digest
        self._parts = parts
        self._line = line

    @property
    def recorded(self) -> bool:
        return self._line is not None

    def value(self) -> Any:
        assert self._line is not None
        return unpack(self._line.data["out"], self.run.world.records.objects)

    def intent(self, event: str) -> Line | None:
        """The last line of this kind that an earlier process left for this verb."""
        line = self.run.record.last(self.key, event)
        return self._whole(line) if line else None

    def intents(self, event: str) -> list[Line]:
        return [self._whole(line) for line in self.run.record.all(self.key, event)]

    def _whole(self, line: Line) -> Line:
        return line._replace(data=unpack(line.data, self.run.world.records.objects))

    def append(
        self, event: str, data: Mapping[str, Any], *, agent: str | None = None, attempt: int | None = None
    ) -> Line:
        line = self.run.journal.append(
            event,
            key=self.key,
            agent=agent,
            attempt=attempt,
            iteration=self.scope.iteration,
            data=data,
            shrink=self._shrink,
        )
        self.run.record.add(line)
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
        self.run.journal.append(
            event,
            key=self.key,
            agent=agent,
            attempt=attempt,
            iteration=self.scope.iteration,
            digest=self.digest,
            data={
                "in": shown(self._parts, self.run.world.redact),
                **(facts or {}),
                "out": pack_texts(value, self.run.world.records.objects),
            },
            shrink=self._shrink,
        )

    def _shrink(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: pack(value, self.run.world.records.objects) for name, value in data.items()}
