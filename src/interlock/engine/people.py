"""What people say to a run: decisions at gates, and cancelling (EN-15, EN-29, CM-19, CM-20)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from interlock.engine.journal import Journal, Line
from interlock.engine.model import GateDecision
from interlock.engine.objects import Objects, pack
from interlock.errors import Refused


@dataclass(frozen=True)
class Waiting:
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


def decided_gates(lines: Sequence[Line]) -> set[str | None]:
    """The keys of gates that have their answer; a run that was opened again may have forgotten some (EN-20)."""
    decided: set[str | None] = set()
    for line in lines:
        if line.event == "gate.decided":
            decided.add(line.key)
        elif line.event == "run.reopened":
            decided -= set(line.data["forgotten"])
    return decided


def waiting_gate(lines: Sequence[Line]) -> Waiting | None:
    """The gate at which a run is parked."""
    decided = decided_gates(lines)
    for line in reversed(lines):
        if line.event == "run.end":
            return None
        if line.event == "gate.opened" and line.key not in decided:
            data = line.data
            return Waiting(
                str(line.key),
                data["gate"],
                data["question"],
                tuple(data["choices"]),
                data["digests"],
                data["opening"],
            )
    return None


def is_cancelled(lines: Sequence[Line]) -> bool:
    """Whether a person ended the run for good (EV-24)."""
    return bool(lines) and lines[-1].event == "run.end" and bool(lines[-1].data.get("cancelled"))


def check_decision(
    lines: Sequence[Line], choice: str, digest_now: Callable[[str], str], *, gate: str | None = None, run_id: str
) -> Waiting:
    """The gate that this choice decides; `Refused` when it decides nothing."""
    waiting = waiting_gate(lines)
    if waiting is None or (gate is not None and waiting.key != gate):
        raise Refused(
            f"nothing waits for a decision in run {run_id}",
            found=f"gate {waiting.key} is open" if waiting else how_it_stands(lines),
            remedy=f"See how it stands with: interlock show {run_id}",
        )
    if waiting.names and choice not in waiting.names:
        raise Refused(
            f"{choice!r} is no choice of gate {waiting.gate}",
            expected=" | ".join(waiting.names),
            remedy=f"interlock answer {run_id} {waiting.names[0]}",
        )
    now = {path: digest_now(path) for path in waiting.digests}
    changed = [path for path in now if now[path] != waiting.digests[path]]
    if changed:
        path = changed[0]
        raise Refused(
            f"{path} changed since the gate showed it",
            where=waiting.key,
            expected=f"digest {waiting.digests[path] or '(no file)'}",
            found=f"digest {now[path] or '(no file)'}",
            remedy=f"Look at it again with: interlock show {run_id} - that opens the gate anew - and decide then.",
        )
    return waiting


WORK = frozenset(("dispatch.start", "command.intent"))
"""With one of these a decision has begun to be carried out."""


@dataclass(frozen=True)
class Overtaken:
    """A decision that nothing has followed yet, and whose documents are not any more what was decided about."""

    path: str
    keys: tuple[str, ...]
    """What is to be forgotten: the decision, and what was recorded after it."""


def overtaken(lines: Sequence[Line], digest_now: Callable[[str], str]) -> Overtaken | None:
    """What was approved is what is carried out (LY-32): a document changed in between opens its gate anew."""
    at = next((number for number, line in reversed(list(enumerate(lines))) if line.event == "gate.decided"), None)
    if at is None or lines[at].key not in decided_gates(lines) or any(line.event in WORK for line in lines[at:]):
        return None
    opened = next(line for line in reversed(lines[:at]) if line.event == "gate.opened" and line.key == lines[at].key)
    ours = {line.data.get("path") for line in lines[at:] if line.event == "write.intent"}
    changed = [path for path, seen in opened.data["digests"].items() if path not in ours and digest_now(path) != seen]
    if not changed:
        return None
    return Overtaken(changed[0], tuple(dict.fromkeys(str(line.key) for line in lines[at:] if line.key is not None)))


def record_decision(journal: Journal, waiting: Waiting, decision: GateDecision, objects: Objects) -> Line:
    """The line that lets the run leave its gate."""
    opened = next(line for line in reversed(journal.lines) if line.event == "gate.opened" and line.key == waiting.key)
    return journal.append(
        "gate.decided",
        key=waiting.key,
        digest=opened.data["inputs"],
        data={
            "in": {},
            "gate": waiting.gate,
            "opening": waiting.opening,
            "choice": decision.choice,
            "who": decision.who,
            "note": decision.note,
            "out": pack(asdict(decision), objects),
        },
    )


def how_it_stands(lines: Sequence[Line]) -> str:
    """The state of a run in a few words, from its journal alone.

    What stopped it need not be its last line: members of a cluster that work beside a stop still come to their ends.
    """
    for line in reversed(lines):
        match line.event:
            case "run.end":
                return f"ended: {line.data.get('status', 'complete')}"
            case "run.paused":
                return f"paused: {line.data['reason']}"
            case "run.interrupted":
                return "interrupted"
            case "run.fault":
                return f"stopped by a fault: {line.data['what']}"
            case "run.start" | "run.resumed" | "run.reopened":
                return "open"
    return "open" if lines else "not started"
