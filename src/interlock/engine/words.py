"""What people said to a run, and which agent hears it (EV-20). From the journal alone.

A note at a gate or with a resume is meant for whoever works next.  It stands in the brief of every dispatch that starts
before one that heard it has ended; of members side by side each one's first dispatch hears it, whenever it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interlock.engine.journal import Line
from interlock.engine.objects import Objects, unpack
from interlock.engine.scopes import under


@dataclass(frozen=True)
class Words:
    """What one person said, and when."""

    who: str
    at: str
    about: str
    """The question that they answered and how, or what else they did."""
    text: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def unheard(lines: Sequence[Line], objects: Objects, *, lane: str = "", cluster: str = "") -> tuple[Words, ...]:
    """What no agent has worked with yet, for a dispatch that starts now.

    Args:
        lane: the key of the cluster member in which it starts; empty outside of clusters.
        cluster: the key of that cluster.
    """
    said: list[Words] = []
    for line in reversed(lines):
        if line.event == "dispatch.end" and (
            not lane or under(str(line.key), lane) or not under(str(line.key), cluster)
        ):
            break
        if (words := _words(line, objects)) is not None:
            said.insert(0, words)
    return tuple(said)


def read_words(value: Iterable[Mapping[str, Any]]) -> tuple[Words, ...]:
    return tuple(Words(**one) for one in value)


def rendered(words: Sequence[Words]) -> str:
    """The section of a brief that holds them; instructions, unlike everything that is quoted."""
    return "\n\n".join(f"{one.who} ({one.at[:19]}, {one.about}):\n\n{one.text.strip()}" for one in words)


def _words(line: Line, objects: Objects) -> Words | None:
    data = line.data
    match line.event:
        case "gate.decided" if data.get("note"):
            decided = unpack(data["out"], objects)
            return Words(data["who"], decided["at"], f"{data['gate']}: {data['choice']}", data["note"])
        case "run.resumed" | "run.start" if data.get("note"):
            return Words(data["who"], line.ts, "resumed the run", data["note"])
        case _:
            return None
