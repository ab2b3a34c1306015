"""What a prompt states, one thing at a time: the document that the reader writes, and what is wrong with it.  Pure.

A statement is a literal quote with its lines and its kind.  Readers are believed in nothing but the kind: each quote
must stand in the source at its lines, and every word of the source in some quote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.playbooks.adopt.listing import listed, read_list, shown, told
from interlock.playbooks.adopt.source import Part, SourceText


class StatementKind(StrEnum):
    """What a statement is about."""

    ORDER = "order"
    """What comes after what."""
    BRANCH = "branch"
    """What depends on how something went."""
    LIMIT = "limit"
    """How often, how long, how many at most."""
    GATE = "gate"
    """Where a person decides."""
    SCOPE = "scope"
    """What may be changed, and by whom."""
    OUTPUT = "output"
    """What has to be there afterwards, and in which form."""
    ROLE = "role"
    """Who somebody is and how they work."""
    ADVICE = "advice"
    """What is good to do."""
    CONTEXT = "context"
    """What explains: headings, reasons, examples."""


RULES = frozenset(set(StatementKind) - {StatementKind.ROLE, StatementKind.ADVICE, StatementKind.CONTEXT})
"""Kinds that code can keep: in the YAML, or not enforced for a reason that people are told."""


@dataclass(frozen=True)
class Statement:
    """One thing that the source says."""

    id: str
    quote: str
    first: int
    last: int
    kind: StatementKind

    @property
    def is_rule(self) -> bool:
        return self.kind in RULES

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "kind": self.kind.value, "lines": [self.first, self.last], "quote": self.quote}


@dataclass(frozen=True)
class StatementsOf:
    """What the reader of one part has to write; the `Structure` of its document."""

    source: SourceText
    part: Part

    def problem(self, text: str) -> str | None:
        return told(self.problems(text))

    def problems(self, text: str) -> list[str]:
        """Everything that is wrong with a document, in words for its author."""
        found, complaints = read_list(text, "statements", self._statement)
        passages = {one: self.source.find(one.quote, one.first, one.last) for one in found}
        complaints += [self._misplaced(one) for one, passage in passages.items() if passage is None]
        complaints += [f"{name}: used {count} times; an id names one statement" for name, count in _twice(found)]
        if found or not complaints:
            quoted = [passage for passage in passages.values() if passage is not None]
            left_out = self.source.left_out(quoted, self.part)
            complaints += [f"line {line}: no statement quotes {shown(words)}" for line, words in left_out.items()]
        return complaints

    def statements(self, text: str) -> tuple[Statement, ...]:
        """The statements of a document that has no problem."""
        return tuple(read_list(text, "statements", self._statement)[0])

    def sample(self) -> str:
        """One statement for each line of text."""
        listed = [
            Statement(f"{self.prefix}{number}", " ".join(self.source.lines[line - 1].split()), line, line, kind)
            for number, line in enumerate(self.source.texts(self.part), 1)
            for kind in [StatementKind.ORDER if _ITEM.match(self.source.lines[line - 1]) else StatementKind.CONTEXT]
        ]
        return rendered(listed)

    @property
    def prefix(self) -> str:
        """How the ids of this part begin, so that they are no other's."""
        return f"S{self.part.number}."

    def _statement(self, entry: Any, number: int) -> Statement | str:
        where = f"statement {number}"
        match entry:
            case {"id": str(name), "kind": str(kind), "lines": [int(first), int(last)], "quote": str(quote)}:
                pass
            case _:
                return f"{where}: needs id, kind and quote (texts) and lines (two line numbers, from and to)"
        if not re.fullmatch(re.escape(self.prefix) + r"[1-9]\d{0,4}", name):
            return f"{where}: id {shown(name)}; expected {self.prefix}{number}"
        if kind not in list(StatementKind):
            return f"{name}: kind {shown(kind)}; expected one of {', '.join(StatementKind)}"
        if not first <= last or first not in self.part or last not in self.part:
            return f"{name}: lines {first} to {last}; expected lines from {self.part.first} to {self.part.last}"
        if not quote.split():
            return f"{name}: the quote is empty"
        return Statement(name, quote, first, last, StatementKind(kind))

    def _misplaced(self, one: Statement) -> str:
        """Why a quote cannot be found where it is said to be, with what stands there."""
        if (elsewhere := self.source.find_anywhere(one.quote)) is not None:
            return f"{one.id}: the quote stands at {_lines(elsewhere.first, elsewhere.last)}, not at " + _lines(
                one.first, one.last
            )
        there = " ".join(" ".join(self.source.lines[one.first - 1 : one.last]).split())
        return (
            f"{one.id}: {shown(one.quote)} stands nowhere in the source; {_lines(one.first, one.last)}: {shown(there)}"
        )


_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")


def rendered(statements: Iterable[Statement]) -> str:
    """A document of statements."""
    return listed("statements", (one.to_json() for one in statements))


def _twice(found: Sequence[Statement]) -> Iterator[tuple[str, int]]:
    return ((name, count) for name, count in Counter(one.id for one in found).items() if count > 1)


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"
