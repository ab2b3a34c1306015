"""How a run stands, from its journal alone. Pure, and light: a list of runs asks it of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.telemetry.facts import LineLike


class State(StrEnum):
    """How a run stands while nobody works on it."""

    UNBORN = "not started"
    ENDED = "ended"
    ASKING = "waits for a decision"
    DECIDED = "has its decision"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    FAULT = "stopped by a fault"
    CUT_OFF = "open"


@dataclass(frozen=True)
class Standing:
    """How a run stands, with the words for it: the reason of an end or a pause, a question, a fault."""

    state: State
    status: str = "interrupted"
    """An ending, ``waiting`` or ``interrupted``."""
    why: str = ""

    def __str__(self) -> str:
        match self.state:
            case State.ENDED:
                return f"ended: {self.status}"
            case State.PAUSED | State.FAULT:
                return f"{self.state}: {self.why}"
            case State.ASKING | State.DECIDED:
                return State.CUT_OFF.value
        return self.state.value


def standing(lines: Sequence[LineLike]) -> Standing:
    """How a run stands; only lines of runs and gates tell it.

    What stopped it need not be its last line: members of a cluster that work beside a stop still come to their ends.
    """
    decided = decided_gates(lines)
    for line in reversed(lines):
        match line.event:
            case "run.end":
                reason = line.data.get("reason")
                return Standing(State.ENDED, str(line.data["status"]), reason if isinstance(reason, str) else "")
            case "gate.opened":
                state = State.DECIDED if line.key in decided else State.ASKING
                return Standing(state, "waiting", line.data["question"])
            case "run.paused":
                return Standing(State.PAUSED, "waiting", line.data["reason"])
            case "run.interrupted":
                return Standing(State.INTERRUPTED)
            case "run.fault":
                return Standing(State.FAULT, why=line.data["what"])
            case "run.start" | "run.resumed" | "run.reopened":
                return Standing(State.CUT_OFF)
    return Standing(State.CUT_OFF if lines else State.UNBORN)


@dataclass(frozen=True)
class WaitingGate:
    """A gate that waits for its answer, as last opened."""

    key: str
    gate: str
    question: str
    choices: tuple[Mapping[str, str], ...]
    digests: Mapping[str, str]
    opening: int
    handed_over: bool = False
    """Whether another process, which works on the run, got the answer and is to record it."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(choice["name"] for choice in self.choices)

    @property
    def shown(self) -> str:
        """What this opening is known by to somebody who saw it."""
        return shown_as(self.key, self.opening, self.digests)


def shown_as(key: str, opening: int, digests: Mapping[str, str]) -> str:
    """One digest of a gate as it was shown: which one, which opening of it, and each document."""
    facts = json.dumps([key, opening, dict(sorted(digests.items()))]).encode()
    return hashlib.sha256(facts).hexdigest()[:16]


def decided_gates(lines: Sequence[LineLike]) -> set[str | None]:
    """The keys of gates that have their answer; a run that was opened again may have forgotten some (EN-20)."""
    decided: set[str | None] = set()
    for line in lines:
        if line.event == "gate.decided":
            decided.add(line.key)
        elif line.event == "run.reopened":
            decided -= set(line.data["forgotten"])
    return decided


def waiting_gate(lines: Sequence[LineLike]) -> WaitingGate | None:
    """The gate at which a run is parked."""
    decided = decided_gates(lines)
    for line in reversed(lines):
        if line.event == "run.end":
            return None
        if line.event == "gate.opened" and line.key not in decided:
            data = line.data
            return WaitingGate(
                str(line.key),
                data["gate"],
                data["question"],
                tuple(data["choices"]),
                data["digests"],
                data["opening"],
            )
    return None


def is_cancelled(lines: Sequence[LineLike]) -> bool:
    """Whether a person ended the run for good (EV-24)."""
    return bool(lines) and lines[-1].event == "run.end" and bool(lines[-1].data.get("cancelled"))
