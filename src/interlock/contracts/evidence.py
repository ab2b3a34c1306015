"""What stands behind a verdict, in one form for all playbooks, and what in it speaks against a pass (EV-01, EV-02).

Agents give evidence in many shapes: fields of a JSON answer, lines of a report, a checklist.  A playbook reads its own
shape into `Evidence` once, with what `reading` offers; whether a claim holds is then decided here, for all of them
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from interlock.contracts.ended import Check
from interlock.contracts.marks import failed_marks, open_boxes
from interlock.contracts.reading import checks_in_data, failures_in_data

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"
QUOTED_MOST = 3
"""Of one kind of contradiction, so many are quoted; the rest is counted."""


@dataclass(frozen=True)
class Evidence:
    """What an agent put behind its verdict."""

    checks: tuple[Check, ...] = ()
    passed: int = 0
    failed: int = 0
    """Numbers of tests."""
    failures: tuple[str, ...] = ()
    """Failures that it lists by name."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """Kinds of checks (lint, build) with the word for each: pass, fail, skipped."""
    unmet: tuple[str, ...] = ()
    """Acceptance criteria that it leaves open."""
    blocking: tuple[str, ...] = ()
    """Issues that it calls blocking."""
    besides: tuple[str, ...] = ()
    """Whatever else says that something failed."""
    nothing_to_run: str = ""
    """Why there was no command to run."""

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What speaks against a pass, each in a sentence that quotes it."""
        said = _quoted("", [check.shown for check in self.checks if check.red])
        if self.failed:
            said.append(f"{self.failed} {'test' if self.failed == 1 else 'tests'} failed")
        said += _quoted("failure listed: ", self.failures)
        said += [f"{name}: {FAIL}" for name, word in self.marks.items() if word == FAIL]
        said += _quoted("criterion not met: ", self.unmet)
        said += _quoted("blocking issue: ", self.blocking)
        said += _quoted("", self.besides)
        return tuple(said)

    def to_json(self) -> dict[str, Any]:
        """What is there, as JSON data."""
        said = {name: value for name, value in vars(self).items() if value}
        if self.checks:
            said["checks"] = [
                {name: value for name, value in asdict(check).items() if name not in ("said", "meant") or value}
                for check in self.checks
            ]
        return said

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        fields: dict[str, Any] = {name: tuple(said) if isinstance(said, list) else said for name, said in value.items()}
        fields["checks"] = tuple(Check(**one) for one in value.get("checks", ()))
        return cls(**fields)

    @property
    def doubt(self) -> str:
        """What may speak against a pass, and has to be said again; empty where nothing does."""
        check = next((check for check in self.checks if check.doubtful), None)
        return f"{check.shown}, and is said to be meant: show what holds by a command that ends with 0" if check else ""

    @property
    def lack(self) -> str:
        """What a pass needs and this has not; empty when it is enough."""
        if unclear := [check for check in self.checks if check.unclear]:
            return f"{unclear[0].shown}: say how it ended by its exit status"
        if self.nothing_to_run or any(check.shows for check in self.checks):
            return ""
        idle = next((check for check in self.checks if check.idle and check.exit is not None), None)
        return f"`{idle.command}` {idle.idle}, and shows nothing; {NO_COMMAND}" if idle else NO_COMMAND


NO_COMMAND = (
    "a pass needs at least one command that was run, with its exit status; where there is nothing to run, "
    "say so and why"
)


@dataclass(frozen=True)
class Claim:
    """Whether an agent says that all is well, and what it puts behind that."""

    passes: bool
    evidence: Evidence = field(default_factory=Evidence)
    shows: bool = True
    """A pass must show a command (EV-02); not so where a judge reads and runs nothing."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Where it was read from, if that was data: what nobody asked for speaks against a pass too."""
    text: str = ""
    """The same, if it was a report."""
    named: tuple[str, ...] = ()
    """Commands that there are to run: then nobody says that there is nothing."""

    @property
    def lack(self) -> str:
        """What a pass needs and this has not; empty when it is enough."""
        shown = any(check.shows for check in self.evidence.checks)
        if self.named and self.evidence.nothing_to_run and not shown:
            return f"there is something to run: `{self.named[0]}`; run it, and show how it ended"
        everywhere = replace(self.evidence, checks=(*self.evidence.checks, *checks_in_data([self.data])))
        return everywhere.doubt or (self.evidence.lack if self.shows else "")

    @property
    def shown(self) -> Evidence:
        """All that it puts behind it; where nothing that was asked for speaks against it, whatever else does."""
        if self.evidence.contradictions:
            return self.evidence
        besides = (*failures_in_data(self.data), *failed_marks(self.text))
        return replace(self.evidence, besides=besides, unmet=open_boxes(self.text))


def _quoted(lead: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    said = [f"{lead}{' '.join(text.split())}" for text in texts[:QUOTED_MOST]]
    return [*said, f"{lead}and {len(texts) - QUOTED_MOST} more"] if len(texts) > QUOTED_MOST else said
