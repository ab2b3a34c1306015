"""The steps of a playbook as a row: what is behind a run, where it is, what lies before it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class StepStand(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"
    NOW = "now"
    AHEAD = "ahead"


@dataclass
class Pipeline:
    """Where a run is among the steps that its playbook declares, kept from the keys of its journal."""

    steps: Mapping[str, str] = field(default_factory=dict)
    """Name of a step in keys, to what people call it; in their order."""
    now: str | None = None
    _seen: set[str] = field(default_factory=set)

    def pass_by(self, key: str | None) -> None:
        """A line of the journal with this key; going back to an earlier step opens those after it again."""
        found = next((part for part in (key or "").split("/") if part in self.steps), None)
        if found is None or found == self.now:
            return
        names = list(self.steps)
        if self.now is not None and names.index(found) < names.index(self.now):
            self._seen -= set(names[names.index(found) :])
        self._seen.add(found)
        self.now = found

    def __iter__(self) -> Iterator[tuple[str, StepStand]]:
        """Each step's title, and how it stands."""
        behind = self.now is not None
        for name, title in self.steps.items():
            if name == self.now:
                behind = False
                yield title, StepStand.NOW
            elif behind:
                yield title, StepStand.DONE if name in self._seen else StepStand.SKIPPED
            else:
                yield title, StepStand.AHEAD

    @property
    def share(self) -> float:
        """How much of the way is behind it, from 0 to 1; every step that is not skipped counts the same."""
        stands = [stand for _, stand in self if stand is not StepStand.SKIPPED]
        return stands.count(StepStand.DONE) / len(stands) if stands else 0.0
