"""How work side by side went, against what its dependencies alone would have taken.

A playbook says with events `schedule` what is to be done below their common place in the run; one for each part of the
work, with four facts:

- `part`: what people call it (`wave 1`);
- `policy`: how the work is scheduled, in a word;
- `at_once`: how many at a time, at most;
- `needs`: for each member, the members that must have ended before it starts.

Everything else is measured, from the lines at which dispatches start and end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Any

from interlock.telemetry.facts import LineLike


@dataclass(frozen=True)
class Period:
    """From one moment to another, in seconds since the epoch."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Path:
    """A chain of dependent work."""

    members: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Scheduled:
    """Work that was scheduled together, as far as it was done."""

    name: str
    policy: str
    at_once: int
    spans: Mapping[str, Period]
    """When each member was at work, in the order in which they started."""
    critical: Path
    """The chain of dependencies that took longest: with any number of places the work takes at least as long."""
    parts: tuple[Scheduled, ...] = ()
    """The same for each part of it, where it has several."""

    @property
    def took(self) -> float:
        """From the first start to the last end."""
        return max(span.end for span in self.spans.values()) - min(span.start for span in self.spans.values())

    @property
    def least(self) -> float:
        """What no schedule with so many places can beat: the critical path, or all work spread evenly."""
        return max(self.critical.seconds, sum(span.seconds for span in self.spans.values()) / self.at_once)

    @property
    def ratio(self) -> float | None:
        """Time taken against the critical path; None where that took no time."""
        return self.took / self.critical.seconds if self.critical.seconds else None

    @property
    def most(self) -> int:
        return most_at_once(self.spans.values())


def schedules(lines: Sequence[LineLike]) -> tuple[Scheduled, ...]:
    """What the playbook scheduled, in the order in which it said so; work of which nothing was done is left out."""
    said: dict[str, dict[str, Mapping[str, Any]]] = {}
    for line in lines:
        if line.event == "schedule" and _is_whole(line.data):
            said.setdefault(_place(line), {})[str(line.key)] = line.data
    spans = dispatch_spans(lines)
    found = (_scheduled(place, list(parts.values()), spans) for place, parts in said.items())
    return tuple(one for one in found if one is not None)


def _scheduled(place: str, parts: Sequence[Mapping[str, Any]], spans: Mapping[str, Period]) -> Scheduled | None:
    prefix = f"{place}/" if place else ""
    mine = {_member(key): span for key, span in spans.items() if key.startswith(prefix)}
    named: dict[str, list[Mapping[str, Any]]] = {}  # a part with much work is told in several lines
    for part in parts:
        named.setdefault(str(part["part"]), []).append(part)
    each = [one for name, told in named.items() if (one := _part(name, told, mine)) is not None]
    whole = _part(place, parts, mine)
    if whole is None or len(each) < 2:
        return whole
    return Scheduled(whole.name, whole.policy, whole.at_once, whole.spans, whole.critical, tuple(each))


def _part(name: str, parts: Sequence[Mapping[str, Any]], spans: Mapping[str, Period]) -> Scheduled | None:
    needs: dict[str, Collection[str]] = {}
    for part in parts:
        needs |= part["needs"]
    done = {member: span for member, span in spans.items() if member in needs}
    if not done:
        return None
    try:
        critical = critical_path({member: span.seconds for member, span in done.items()}, needs)
    except CycleError:  # the journal of a playbook that contradicts itself still has a report
        return None
    return Scheduled(name, str(parts[0]["policy"]), int(parts[0]["at_once"]), done, critical)


def critical_path(seconds: Mapping[str, float], needs: Mapping[str, Collection[str]]) -> Path:
    """The chain that takes longest; dependencies on what has no duration do not count. A cycle is a CycleError."""
    edges = {member: [one for one in needs.get(member, ()) if one in seconds] for member in seconds}
    longest: dict[str, Path] = {}
    for member in TopologicalSorter(edges).static_order():
        before = max((longest[one] for one in edges[member]), key=lambda path: path.seconds, default=Path())
        longest[member] = Path((*before.members, member), before.seconds + seconds[member])
    return max(longest.values(), key=lambda path: path.seconds, default=Path())


def dispatch_spans(lines: Iterable[LineLike]) -> dict[str, Period]:
    """When each finished dispatch was under way, by its key: from the start of its first try to the agent's end.

    A dispatch that a person had done again counts as it was done last, and one whose process died from its recovery
    on: the time in which nobody worked is not work.
    """
    started: dict[str, float] = {}
    judged: dict[str, float] = {}
    spans: dict[str, Period] = {}
    for line in lines:
        key = str(line.key)
        if line.event == "dispatch.start":
            started.setdefault(key, _seconds(line.ts))
        elif line.event == "dispatch.recovered":
            started.pop(key, None)
        elif line.event == "dispatch.importing":  # in the turn of its member, which may come much later
            judged[key] = _seconds(line.ts)
        elif line.event == "dispatch.end" and key in started:
            spans.pop(key, None)
            spans[key] = Period(started.pop(key), judged.pop(key, _seconds(line.ts)))
    return dict(sorted(spans.items(), key=lambda item: item[1].start))


def most_at_once(spans: Iterable[Period]) -> int:
    """The greatest number of spans that overlap; one that ends when another starts does not overlap it."""
    changes = sorted(change for span in spans for change in ((span.end, -1), (span.start, 1)))
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _is_whole(data: Mapping[str, Any]) -> bool:
    """Whether the line says what it should; a very long one has its facts stored elsewhere."""
    needs, at_once = data.get("needs"), data.get("at_once")
    if not isinstance(needs, Mapping) or not isinstance(at_once, int) or at_once < 1:
        return False
    return all(isinstance(one, (list, tuple)) for one in needs.values()) and {"part", "policy"} <= set(data)


def _place(line: LineLike) -> str:
    return str(line.key).rpartition("/")[0]


def _member(key: str) -> str:
    return key.rpartition("/")[2].partition("#")[0]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
