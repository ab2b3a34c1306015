"""What people do on the page, as words of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.telemetry import shown_as


@dataclass(frozen=True)
class Decision:
    """What a person said at a gate, and what they saw there."""

    run_id: str
    gate: str
    opening: int
    seen: Mapping[str, str]
    choice: str
    note: str = ""
    by: str = ""
    """Who, if the proxy named somebody."""

    @property
    def words(self) -> tuple[str, ...]:
        verb = self.choice if self.choice in ("approve", "reject") else "answer"
        shown = f"--shown={shown_as(self.gate, self.opening, self.seen)}"
        note = (f"--note={self.note}",) if self.note.strip() else ()
        by = (f"--by={self.by}",) if self.by else ()
        choice = () if verb == self.choice else (self.choice,)
        return verb, shown, *note, *by, "--detach", "--json", "--", self.run_id, *choice
