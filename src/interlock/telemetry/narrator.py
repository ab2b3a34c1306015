"""A journal told from its beginning: each line with what only the lines before it say.

What a part of the run is about (an item, a task), why a turn of a loop is another one, which decisions are news: none
of that stands in the line itself.  The facts come from the playbook's own events: one with a `title` says what its
surroundings in the journal work on, and `item`, `task` or `ticket` is the name of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from interlock.telemetry.facts import LineLike, is_good
from interlock.telemetry.lines import (
    Telling,
    Weight,
    clock,
    complaint,
    decision,
    indented,
    lined,
    named_as,
    preflight,
    printable,
    proof,
    started,
    tell,
    verdict_word,
)

SUBJECT = ("item", "task", "ticket")
COUNTED = 10
"""Turns up to which it helps to know how many there can be."""
BRIEF = 90
"""Characters of a reason that is told a second time."""
ABOUT_ONE = ("dispatch.start", "dispatch.end", "dispatch.try", "decide", "proof", "work.noticed", "gate.opened")
"""Events that are told with what they are about."""
INDENT = " " * 10
"""As wide as the time before a line."""


class Narrator:
    """Tells the lines of one journal in their order."""

    def __init__(self) -> None:
        self._about: dict[str, str] = {}
        self._bad: dict[str, str] = {}
        self._runner = ""
        self._decided: dict[str, tuple[str, int]] = {}
        self._ends = 0
        self._commands: set[str] = set()
        self._progress: dict[tuple[str, str], str] = {}

    def tell(self, line: LineLike) -> Telling:
        """What happened, with what it is about and, where something is done again, why."""
        told = tell(line)
        match line.event:
            case "dispatch.start":
                told = self._start(line, told)
            case "dispatch.end":
                told = self._ended(line, told)
            case "decide":
                told = self._decide(line, told)
            case "loop":
                told = self._turn(line, told)
            case "proof":
                told = self._proof(line, told)
            case "preflight":
                return self._preflight(line, told)
            case "progress":
                return self._progressed(line, told)
            case _ if self._is_own(line):
                return self._own(line, told)
        about = self.about(line)
        if about and line.event in ABOUT_ONE and about not in str(line.data.get("member")):
            return replace(told, text=f"{about}, {told.text}")
        return told

    def about(self, line: LineLike) -> str:
        """What the line's part of the run works on, as people call it; empty where nobody said."""
        return next((self._about[scope] for scope in _scopes(line.key) if scope in self._about), "")

    def _is_own(self, line: LineLike) -> bool:
        """Whether a playbook recorded it of its own accord."""
        given = line.data.get("in")
        return isinstance(given, Mapping) and "event" in given

    def _own(self, line: LineLike, told: Telling) -> Telling:
        """An event of the playbook: it may say what its surroundings are about, and how that ended."""
        data, scope = line.data, next(_scopes(line.key), "")
        subject = next((str(data[name]) for name in SUBJECT if isinstance(data.get(name), str)), "")
        if not subject:
            return told
        if isinstance(title := data.get("title"), str):
            self._about[scope] = printable(subject, 40)
            return Telling(f"{printable(subject)}: {printable(title)}")
        if line.event.endswith(".blocked"):
            return Telling(f"{printable(subject)} is blocked{_because(data)}", Weight.BAD)
        if line.event.endswith(".done"):
            return Telling(f"{printable(subject)} is done", Weight.GOOD)
        return told

    def _start(self, line: LineLike, told: Telling) -> Telling:
        runner, self._runner = self._runner, str(line.data.get("runner", ""))
        # Whoever is called all the time is named once.
        return told if runner != self._runner or "try" not in line.data else started(line, runner=False)

    def _ended(self, line: LineLike, told: Telling) -> Telling:
        data = line.data
        self._ends += 1
        for scope in _scopes(line.key):
            if "outcome" in data and not is_good(data):
                why = f": {said}" if (said := complaint(data)) else ""
                self._bad[scope] = f"{data.get('member')} {verdict_word(data)}{why}"
        return told

    def _decide(self, line: LineLike, told: Telling) -> Telling:
        """A function's word is told when it is another one than the last time; a table's after every dispatch."""
        if "out" not in line.data or told.weight is Weight.DETAIL:
            return told
        made = decision(line.data)
        news = (made.result, self._ends if line.data.get("table") else 0)
        last, self._decided[made.rule] = self._decided.get(made.rule), news
        return told if last != news else replace(told, weight=Weight.DETAIL)

    def _proof(self, line: LineLike, told: Telling) -> Telling:
        """A command is told in full once."""
        if told.weight is Weight.DETAIL:  # somebody else's event of this name
            return told
        name = named_as(line.data)
        if name in self._commands:
            return replace(told, text=lined(proof(line.data, known=True).text))
        self._commands.add(name)
        return told

    def _preflight(self, line: LineLike, told: Telling) -> Telling:
        return preflight(line.data, self._commands) if told.weight is Weight.GOOD else told

    def _progressed(self, line: LineLike, told: Telling) -> Telling:
        """What is the same as before in its part of the run is no progress. A command may be told here, with where it
        is from."""
        subject = (str(line.key).partition("/")[0], told.text.partition(":")[0])
        last, self._progress[subject] = self._progress.get(subject), told.text
        if isinstance(command := line.data.get("command"), str):
            self._commands |= {command, told.text}
        return told if told.text != last else replace(told, weight=Weight.DETAIL)

    def _turn(self, line: LineLike, told: Telling) -> Telling:
        """Another turn of a loop, where the one before it went wrong: why it is done again."""
        data = line.data
        name, turn, cap = data.get("loop"), data.get("turn"), data.get("cap")
        if not isinstance(turn, int) or turn < 2:
            return told
        place = next(_scopes(line.key), "").rpartition("/")[0]
        before = f"{place}/{name}-{turn - 1}" if place else f"{name}-{turn - 1}"
        if (why := self._bad.get(before)) is None:
            return told
        about = f"{subject}, " if (subject := self.about(line)) else ""
        return Telling(f"{about}{name} {turn}{_cap(cap)}, because {_briefly(why)}", Weight.ATTENTION)


def dated(line: LineLike, told: Telling) -> str:
    """The line as it stands in a log: time, then what happened; its further lines below that."""
    return f"{clock(line.ts)}  {indented(told.text, INDENT)}"


def _cap(cap: object) -> str:
    """How often at most, where somebody counts that."""
    return f" of at most {cap}" if isinstance(cap, int) and cap <= COUNTED else ""


def _briefly(why: str) -> str:
    """What was told in full a few lines before."""
    first = why.split("\n", 1)[0]
    return first if len(first) <= BRIEF else f"{first[:BRIEF].rpartition(' ')[0].rstrip(' :;,')} …"


def _because(data: Mapping[str, Any]) -> str:
    reasons = data.get("reasons")
    said = [lined(one) for one in reasons if isinstance(one, str)] if isinstance(reasons, list) else []
    return ": " + "\n".join(said[:3]) if said else ""


def _scopes(key: str | None) -> Iterator[str]:
    """The places in the run that a key lies in, the innermost first."""
    place = (key or "").rpartition("/")[0]
    while place:
        yield place
        place = place.rpartition("/")[0]
