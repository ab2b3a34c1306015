"""The prompt that is adopted: its words, where a quote of them stands, and the parts in which it is read.  Pure.

What counts as text: every word, that is every run of letters and digits, wherever it stands: in paragraphs, headings,
tables, tags, comments, frontmatter and code.  What does not: blank lines, lines without any word (rules, frontmatter
marks, frames of tables), the lines that open and close fenced code, and the mark before an item of a list, its number
included.  Quotes are compared word for word and sign for sign; only white space does not count, so that a quote may go
over lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

PART_LINES = 120
PART_CHARACTERS = 10_000
"""The most that one reader is given; a single longer line is a part of its own."""
MOST_PARTS = 40
"""Longer sources are refused."""

_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})\s*[\w+#.-]*\s*")
"""Only one word, the language, may follow the mark: a sentence there would be text."""
_MARK = re.compile(r"[-*+>#|\u2022]+|\d+[.)]")
_WORD = re.compile(r"\w+")
_HEADING = re.compile(r"#{1,6}\s|<\w")


@dataclass(frozen=True)
class Passage:
    """Where a quote stands: its lines, from 1, and its place among the characters that count."""

    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True)
class Part:
    """Lines that one reader reads."""

    number: int
    first: int
    last: int

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(frozen=True)
class SourceText:
    """A prompt by its path and text."""

    path: str
    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.text.removesuffix("\n").split("\n"))

    @cached_property
    def _pieces(self) -> list[tuple[int, str]]:
        """What stands between white space, each with its line."""
        return [(number, piece) for number, line in enumerate(self.lines, 1) for piece in line.split()]

    @cached_property
    def _flat(self) -> str:
        return " ".join(piece for _line, piece in self._pieces)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each piece begins in the flat text."""
        starts, at = [], 0
        for _line, piece in self._pieces:
            starts.append(at)
            at += len(piece) + 1
        return starts

    def _line_at(self, place: int) -> int:
        return self._pieces[bisect_right(self._starts, place) - 1][0]

    def find(self, quote: str, first: int, last: int) -> Passage | None:
        """Where the quote stands if it begins on line `first` and ends on line `last`."""
        return next(
            (span for span in self._found(quote, first, last) if (span.first, span.last) == (first, last)), None
        )

    def find_anywhere(self, quote: str) -> Passage | None:
        """Where the quote stands first."""
        return next(self._found(quote, 1, len(self.lines)), None)

    def _found(self, quote: str, first: int, last: int) -> Iterator[Passage]:
        wanted = " ".join(quote.split())
        begin = bisect_left(self._pieces, (first, ""))
        end = bisect_left(self._pieces, (last + 1, ""))
        if not wanted or begin == end:
            return
        at, stop = self._starts[begin], self._starts[end - 1] + len(self._pieces[end - 1][1])
        while (at := self._flat.find(wanted, at, stop)) >= 0:
            over = at + len(wanted)
            yield Passage(self._line_at(at), self._line_at(over - 1), at, over)
            at += 1

    def left_out(self, spans: Iterable[Passage], part: Part) -> dict[int, str]:
        """The lines of a part with a word that stands in no span, each with what is left out of it."""
        covered = bytearray(len(self._flat))
        for span in spans:
            covered[span.start : span.end] = b"\1" * (span.end - span.start)
        missing: dict[int, tuple[int, int]] = {}
        for line, start, end in self._words:
            if line in part and not all(covered[start:end]):
                missing[line] = (missing.get(line, (start, end))[0], end)
        return {line: self._flat[start:end] for line, (start, end) in missing.items()}

    @cached_property
    def _words(self) -> list[tuple[int, int, int]]:
        """Line, begin and end of every word that counts."""
        fences = {number for number, line in enumerate(self.lines, 1) if _FENCE.fullmatch(line)}
        found, before, marks = [], 0, False
        for (line, piece), at in zip(self._pieces, self._starts, strict=True):
            marks = (marks or line != before) and bool(_MARK.fullmatch(piece))
            before = line
            if not marks and line not in fences:
                found += [(line, at + word.start(), at + word.end()) for word in _WORD.finditer(piece)]
        return found

    @property
    def words(self) -> int:
        """How many words count."""
        return len(self._words)

    def texts(self, part: Part) -> list[int]:
        """The lines of a part that have text."""
        return sorted({line for line, _start, _end in self._words if line in part})

    def numbered(self, part: Part) -> str:
        """The lines of a part, each behind its number."""
        width = len(str(part.last))
        return "\n".join(f"{number:>{width}}| {self.lines[number - 1]}" for number in range(part.first, part.last + 1))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What readers are given, in order: all text, cut before headings and at blank lines where that is possible."""
        found: list[Part] = []
        first = 1
        while first <= len(self.lines):
            last = self._end_of_part(first)
            part = Part(len(found) + 1, first, last)
            if self.texts(part):
                found.append(part)
            first = last + 1
        return tuple(found)

    def _end_of_part(self, first: int) -> int:
        last, characters = first, len(self.lines[first - 1])
        while last < len(self.lines) and last - first + 1 < PART_LINES:
            characters += len(self.lines[last]) + 1
            if characters > PART_CHARACTERS:
                break
            last += 1
        if last == len(self.lines):
            return last
        later = range(last, first + (last - first) // 2, -1)
        before_headings = (line for line in later if _HEADING.match(self.lines[line]))
        blank = (line for line in later if not self.lines[line - 1].strip())
        return next(before_headings, None) or next(blank, None) or last
