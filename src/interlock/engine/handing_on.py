"""What a run that did not end well tells the one that continues it, so that a stop in between changes nothing.

It stands in the first line of the later run: replays find it there, whatever became of the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.engine.journal import Line

HANDED = "handed"


def handed_on(lines: Sequence[Line]) -> Mapping[str, Any]:
    """What a run that continues another one was told of it when it was begun; empty where there was nothing."""
    start = next((line for line in lines if line.event == "run.start"), None)
    told = start.data.get(HANDED) if start is not None else None
    return told if isinstance(told, Mapping) else {}


def to_hand_on(lines: Sequence[Line]) -> dict[str, Any]:
    """What a run that did not end well tells the one that continues it: the tree before its work, and what was noticed
    of the work that it left."""
    earlier = handed_on(lines)
    looked = [line.data["before"] for line in lines if line.event == "preflight" and line.data.get("before")]
    noticed = [text for line in lines if line.event == "work.noticed" for text in line.data["what"]]
    before = looked[-1] if looked else earlier.get("before")
    return {"before": before, "noticed": list(dict.fromkeys((*earlier.get("noticed", ()), *noticed)))}
