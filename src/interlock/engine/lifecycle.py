"""What a start means for a key that may have runs already, and what going on with one means (EN-16..20). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.engine.definition import AfterComplete, Past
from interlock.engine.journal import Line
from interlock.engine.model import Ending, Status
from interlock.engine.objects import Objects, unpack
from interlock.engine.tables import Table
from interlock.telemetry import State, decided_gates, standing


class Last(StrEnum):
    """The last run of a key, seen from the inputs that are asked for now."""

    NONE = "none"
    OPEN_SAME = "open, with the same inputs"
    OPEN_OTHER = "open, with other inputs"
    COMPLETE = "complete"
    ENDED = "ended otherwise"


class Start(StrEnum):
    NEW = "a new run"
    SUCCESSOR = "a new run that continues the last one"
    RESUME = "the open run goes on"
    REFUSE_INPUTS = "refused: the open run has other inputs"
    REFUSE_COMPLETE = "refused: complete, and a new run was not asked for"
    SAY_COMPLETE = "nothing to do: complete"


_always = {
    Last.NONE: Start.NEW,
    Last.OPEN_SAME: Start.RESUME,
    Last.OPEN_OTHER: Start.REFUSE_INPUTS,
    Last.ENDED: Start.SUCCESSOR,
}
_complete = {
    AfterComplete.SAY_SO: Start.SAY_COMPLETE,
    AfterComplete.NEW_ON_REQUEST: Start.REFUSE_COMPLETE,
    AfterComplete.ALWAYS_NEW: Start.NEW,
}
START: Table[Start] = Table(
    "start",
    {
        (last, after): _complete[after] if last is Last.COMPLETE else _always[last]
        for last in Last
        for after in AfterComplete
    },
)


def last_of(lines: Sequence[Line] | None, inputs: Mapping[str, Any], recorded: Mapping[str, Any]) -> Last:
    """What the last run of a key is to somebody who asks for these inputs."""
    if lines is None:
        return Last.NONE
    status = ended_as(lines)
    if status is None:
        return Last.OPEN_SAME if dict(inputs) == dict(recorded) else Last.OPEN_OTHER
    return Last.COMPLETE if status in (Status.COMPLETE, Status.DEGRADED) else Last.ENDED


def ended_as(lines: Sequence[Line]) -> Status | None:
    """How a run ended; None while it is open. `run.reopened` opens it again."""
    now = standing(lines)
    return Status(now.status) if now.state is State.ENDED else None


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


def ending_of(lines: Sequence[Line], objects: Objects) -> Ending | None:
    """The end of a run, whole; None while it is open."""
    if ended_as(lines) is None:
        return None
    last = next(line for line in reversed(lines) if line.event == "run.end")
    return Ending.from_json(unpack(last.data, objects))


def resumes(lines: Iterable[Line]) -> int:
    """How often a run was taken up again."""
    return sum(line.event == "run.resumed" for line in lines)


def past_of(lines: Sequence[Line]) -> Past:
    """What an open run last wrote and read, and its own events."""
    notes = tuple((line.event, line.data) for line in lines if line.settles and line.data["in"].get("event"))
    begun = {line.data["path"]: line.data["digest"] for line in lines if line.event == "write.intent"}
    return Past(_digests(lines, "write"), _digests(lines, "read"), notes, begun)


def _digests(lines: Iterable[Line], event: str) -> dict[str, str]:
    """Path to digest of what was last read or written."""
    told = (line.data.get("out") or {} for line in lines if line.event == event)
    return {out["path"]: out["digest"] for out in told if "digest" in out}


def forgotten(lines: Sequence[Line]) -> list[str]:
    """The keys that a retry of an ended run does again: the failed dispatches that decided the end, and all that was
    recorded after them (EN-20)."""
    end = next(line for line in reversed(lines) if line.event == "run.end")
    named = set(end.data.get("because") or ())
    ends = [line for line in lines if line.event == "dispatch.end"]
    failed = [line.key for line in ends if line.data["outcome"] == "FAIL"]
    deciding = {line.key for line in ends if line.key in named} or set(failed[-1:])
    if not deciding:
        return []
    first = next(line.seq for line in lines if line.key in deciding)
    settled_before = {line.key for line in lines if line.settles and line.seq < first}
    later = {line.key for line in lines if line.key and line.seq >= first}
    return sorted(key for key in later if key and key not in settled_before)
