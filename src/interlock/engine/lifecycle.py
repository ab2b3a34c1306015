"""What a start means for a key that may have runs already (EN-16..20). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from interlock.engine.definition import AfterComplete, Past
from interlock.engine.journal import Line
from interlock.engine.model import Status
from interlock.engine.tables import Table


class Standing(StrEnum):
    """The last run of a key."""

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
    Standing.NONE: Start.NEW,
    Standing.OPEN_SAME: Start.RESUME,
    Standing.OPEN_OTHER: Start.REFUSE_INPUTS,
    Standing.ENDED: Start.SUCCESSOR,
}
_complete = {
    AfterComplete.SAY_SO: Start.SAY_COMPLETE,
    AfterComplete.NEW_ON_REQUEST: Start.REFUSE_COMPLETE,
    AfterComplete.ALWAYS_NEW: Start.NEW,
}
START: Table[Start] = Table(
    "start",
    {
        (standing, after): _complete[after] if standing is Standing.COMPLETE else _always[standing]
        for standing in Standing
        for after in AfterComplete
    },
)


def ended_as(lines: Sequence[Line]) -> Status | None:
    """How a run ended; None while it is open. `run.reopened` opens it again."""
    for line in reversed(lines):
        if line.event == "run.end":
            return Status(line.data["status"])
        if line.event == "run.reopened":
            return None
    return None


def standing(lines: Sequence[Line] | None, inputs: Mapping[str, Any], recorded: Mapping[str, Any]) -> Standing:
    """How the last run of a key stands, seen from the inputs that are asked for now."""
    if lines is None:
        return Standing.NONE
    status = ended_as(lines)
    if status is None:
        return Standing.OPEN_SAME if dict(inputs) == dict(recorded) else Standing.OPEN_OTHER
    return Standing.COMPLETE if status in (Status.COMPLETE, Status.DEGRADED) else Standing.ENDED


def past_of(lines: Sequence[Line]) -> Past:
    """What an open run last wrote and read, and its own events."""
    written = {line.data["out"]["path"]: line.data["out"]["digest"] for line in lines if wrote(line)}
    read = {line.data["out"]["path"]: line.data["out"]["digest"] for line in lines if was_read(line)}
    notes = tuple((line.event, line.data) for line in lines if line.settles and line.data["in"].get("event"))
    begun = {line.data["path"]: line.data["digest"] for line in lines if line.event == "write.intent"}
    return Past(written, read, notes, begun)


def wrote(line: Line) -> bool:
    return line.event == "write" and "digest" in (line.data.get("out") or ())


def was_read(line: Line) -> bool:
    return line.event == "read" and "digest" in (line.data.get("out") or ())


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
