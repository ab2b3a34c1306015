"""When each agent worked, as a picture: rows are agents, waits are hatched, retries marked, the critical path drawn.

Places along the time are shares of the whole, in percent; rows have a fixed height.  The template draws it as SVG.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from interlock.telemetry import Tone, complaint, in_words, is_good, printable, verdict_word
from interlock.telemetry.facts import LineLike
from interlock.telemetry.schedule import Scheduled

ROW = 22
"""Pixels."""
LEAST = 0.4
"""Percent that the shortest stretch of time takes, so that it can be seen."""
LEAST_WAIT = 1.5
"""The same for a wait, whose hatching is else not seen."""
MOST_ROWS = 400
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200)
"""Seconds between two ticks, as people count them; then days."""
MOST_TICKS = 7


@dataclass(frozen=True)
class Stretch:
    """Somebody's work or wait, from when to when."""

    tone: Tone
    title: str
    start: float
    end: float
    key: str = ""
    """Of the dispatch that it shows; empty for a wait."""
    retries: tuple[float, ...] = ()
    """When it was done again."""
    waits: tuple[tuple[float, float], ...] = ()
    """Parts of it in which it waited: for the limit of its service."""
    critical: bool = False


@dataclass(frozen=True)
class TimelineRow:
    name: str
    stretches: tuple[Stretch, ...]
    y: int


@dataclass(frozen=True)
class Link:
    """From the end of one stretch on the critical path to the beginning of the next."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class Timeline:
    rows: tuple[TimelineRow, ...] = ()
    links: tuple[Link, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    left_out: int = 0
    critical: tuple[str, ...] = ()
    """The critical path in words, one for each work side by side."""

    @property
    def shows(self) -> frozenset[str]:
        """What occurs in the picture, of what a legend explains."""
        found = [one for row in self.rows for one in row.stretches]
        waits = {"waits"} if any(one.waits for one in found) else set()
        retries = {"retry"} if any(one.retries for one in found) else set()
        return frozenset({str(one.tone) for one in found} | waits | retries)

    @property
    def height(self) -> int:
        return ROW * len(self.rows)


@dataclass
class _Open:
    """A dispatch or a gate that is under way while the journal is read."""

    name: str
    start: float
    retries: list[float] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)


def timeline(lines: Sequence[LineLike], schedules: Iterable[Scheduled], until: str) -> Timeline:
    """The picture of a journal, up to a moment."""
    if not lines:
        return Timeline()
    begin, end = min(_seconds(line.ts) for line in lines), max(_seconds(until), _seconds(lines[-1].ts))
    whole = max(end - begin, 0.001)
    known = list(schedules)
    chains = [(one.name, one.critical.members) for one in known if len(one.critical.members) > 1]
    rows: dict[str, list[Stretch]] = {}
    for name, stretch in sorted(_stretches(lines, end), key=lambda found: found[1].start):
        rows.setdefault(name, []).append(stretch)
    on_path = {(place, member) for place, members in chains for member in members}

    def placed(one: Stretch) -> Stretch:
        def share(moment: float) -> float:
            return round((moment - begin) / whole * 100, 2)

        least = LEAST if one.key else LEAST_WAIT
        width = max(share(one.end) - share(one.start), least)
        start = min(share(one.start), 100 - least)
        return replace(
            one,
            start=start,
            end=min(100.0, start + width),
            retries=tuple(map(share, one.retries)),
            waits=tuple((share(a), share(b)) for a, b in one.waits),
            critical=any(member == _member(one.key) and _is_in(place, one.key) for place, member in on_path),
        )

    shown = [
        TimelineRow(name, tuple(map(placed, found)), number * ROW)
        for number, (name, found) in enumerate(list(rows.items())[:MOST_ROWS])
    ]
    return Timeline(
        tuple(shown),
        tuple(_links(shown, chains)),
        tuple(_ticks(whole)),
        max(0, len(rows) - MOST_ROWS),
        tuple(" → ".join(printable(member, 60) for member in members) for _, members in chains),
    )


def _ticks(whole: float) -> Iterator[tuple[float, str]]:
    """Round moments along the time, a few of them: where each is, and what it is called."""
    days = (86_400 * 2**power for power in range(20))
    step = next((one for one in (*STEPS, *days) if whole / one < MOST_TICKS), whole)
    for number in range(int(whole / step) + 1):
        yield round(number * step / whole * 100, 2), _moment(number * step)


def _moment(seconds: float) -> str:
    """A round time without the parts that are nothing."""
    for size, word in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            rest = f" {_moment(seconds % size)}" if seconds % size else ""
            return f"{int(seconds // size)} {word}{rest}"
    return "0"


def _stretches(lines: Sequence[LineLike], end: float) -> Iterator[tuple[str, Stretch]]:
    """Each dispatch and each wait of a gate with the row that it belongs to, in seconds."""
    open_: dict[str, _Open] = {}
    gates: dict[str, tuple[str, float]] = {}
    for line in lines:
        key, now, data = str(line.key), _seconds(line.ts), line.data
        match line.event:
            case "dispatch.start":
                name = printable(str(data.get("member") or line.agent or "?"), 60)
                known = open_.setdefault(key, _Open(name, now))
                if data.get("try", 1) != 1:
                    known.retries.append(now)
            case "dispatch.try" if key in open_ and data.get("move") == "wait" and data.get("delay_s"):
                open_[key].waits.append((now, min(end, now + float(data["delay_s"]))))
            case "dispatch.recovered":
                open_.pop(key, None)
            case "dispatch.end":
                name = printable(str(data.get("member") or line.agent or "?"), 60)
                yield _done(open_.pop(key, _Open(name, now - float(data["seconds"]))), key, now, data)
            case "gate.opened":
                gates.setdefault(key, (printable(str(data.get("gate", "?")), 60), now))
            case "gate.decided" if key in gates:
                yield _waited(gates.pop(key), now)
            case "run.interrupted" | "run.fault" | "run.end":
                for other in list(open_):
                    yield _cut_off(open_.pop(other), other, now, Tone.FAILED, "was cut off")
    for key, known in open_.items():
        yield _cut_off(known, key, end, Tone.WORKS, "at work")
    for gate in gates.values():
        yield _waited(gate, end)


def _done(known: _Open, key: str, now: float, data: Mapping[str, Any]) -> tuple[str, Stretch]:
    tone = Tone.DONE if is_good(data) else Tone.FAILED
    why = "" if is_good(data) else complaint(data)
    again = f", {len(known.retries)} more tries" if known.retries else ""
    said = f"{known.name}: {verdict_word(data)} in {in_words(data['seconds'])}{again}{f': {why}' if why else ''}"
    return known.name, Stretch(tone, said, known.start, now, key, tuple(known.retries), tuple(known.waits))


def _cut_off(known: _Open, key: str, now: float, tone: Tone, word: str) -> tuple[str, Stretch]:
    said = f"{known.name}: {word} for {in_words(now - known.start)}"
    return known.name, Stretch(tone, said, known.start, now, key, tuple(known.retries), tuple(known.waits))


def _waited(gate: tuple[str, float], now: float) -> tuple[str, Stretch]:
    name, opened = gate
    return f"gate {name}", Stretch(
        Tone.WAITS, f"gate {name}: waited {in_words(now - opened)} for a decision", opened, now
    )


def _links(rows: Sequence[TimelineRow], chains: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Link]:
    found = {
        (place, member): (row, one)
        for place, members in chains
        for member in members
        for row in rows
        for one in row.stretches
        if one.key and _member(one.key) == member and _is_in(place, one.key)
    }
    for place, members in chains:
        for before, after in pairwise(members):
            if (place, before) in found and (place, after) in found:
                (upper, first), (lower, second) = found[place, before], found[place, after]
                yield Link(first.end, upper.y + ROW / 2, second.start, lower.y + ROW / 2)


def _is_in(place: str, key: str) -> bool:
    return not place or key.startswith(f"{place}/")


def _member(key: str) -> str:
    return key.rpartition("/")[2].partition("#")[0]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


__all__ = ["ROW", "Link", "Stretch", "Timeline", "TimelineRow", "timeline"]
