"""Markdown, read: front matter, what stands under headings, and what people write behind labels.

markdown-it finds the structure: a `##` inside fenced code, a comment or a quotation is no heading.  Headings are `#`
lines; the underlined form is not counted, since a `---` under a line is more often a rule.  Titles are given as
`## Overview` or, for any level, `Overview`; case and spacing do not matter.  Lines are numbered as in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from interlock.documents.reading import Source, read_yaml
from interlock.errors import DocumentInvalid, place

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_END = re.compile(r"\r\n?|\n")
_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)")
_LABEL = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?(?:\*\*|__)?(?P<name>[^\s:*_|`#][^:|`]{0,79}?)(?:\*\*|__)?[ \t]*"
    r":(?:\*\*|__)?(?:[ \t]+|$)(?P<value>.*)"
)
_RULE_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_PIPE = re.compile(r"(?<!\\)\|")


class Section(NamedTuple):
    """A heading and what stands under it."""

    level: int
    title: str
    line: int
    own_end: int
    """The line of the next heading of any level."""
    end: int
    """The line of the next heading of the same or a higher level."""


class Line(NamedTuple):
    """Something that stands on a line."""

    text: str
    line: int


class Row(NamedTuple):
    cells: tuple[str, ...]
    line: int


class Fence(NamedTuple):
    info: str
    content: str
    line: int
    """Of the opening fence."""


class Markdown:
    """A Markdown text; `first_line` is the line of the file on which it begins.

    All is asked by the title of a section, the first that has it; of one that is not there everything is empty.  No
    title stands for the lines before the first heading, with `deep` for the whole text.
    """

    def __init__(self, text: str, path: str = "document", first_line: int = 1) -> None:
        self.text = text
        self.path = path
        self._first = first_line
        self._lines = _END.split(text.removesuffix("\n"))
        self._end = first_line + len(self._lines)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in the order of the text."""
        found: list[Section] = []
        end_of = [self._end] * 7  # where the next heading of each level or a higher one stands
        own_end = self._end
        for level, title, line in reversed(self._structure.headings):
            found.append(Section(level, title, line, own_end, end_of[level]))
            own_end = line
            end_of[level:] = [line] * (7 - level)
        return tuple(reversed(found))

    def find(self, title: str) -> list[Section]:
        """The sections with this title."""
        match = re.fullmatch(r"(#{1,6})(?:[ \t]+(.*))?", title, re.DOTALL)
        level, name = (len(match[1]), match[2] or "") if match else (None, title)
        return [each for each in self.sections if _folded(each.title) == _folded(name) and level in (None, each.level)]

    def under(self, title: str | None = None, *, deep: bool = False) -> str:
        """What stands under a heading up to the next one, with `deep` its subsections included."""
        return self._between(*self._span(title, deep))

    def word(self, title: str) -> Line | None:
        """What stands under a heading as one line, without emphasis and back-quotes; None where it is not one line."""
        lines = [line for line in self.open_lines(title) if line.text.strip()]
        return Line(_bare(lines[0].text), lines[0].line) if len(lines) == 1 else None

    def items(self, title: str | None = None) -> list[Line]:
        """The bullets of a section's own text, without marks and boxes; further lines of one are joined to it."""
        found: list[Line] = []
        inside = -1  # the indent of the list that is being read
        for text, line in self.open_lines(title):
            indent = len(text) - len(text.lstrip())
            if (match := _BULLET.match(text.rstrip())) and not 0 <= inside < indent - 1:
                found.append(Line(match[1], line))
                inside = indent
            elif inside >= 0 and indent > inside and text.strip():
                found[-1] = Line(f"{found[-1].text}\n{text.strip()}", found[-1].line)
            elif text.strip():
                inside = -1
        return found

    def labels(self, title: str | None = None, *, deep: bool = False) -> dict[str, Line]:
        """What stands behind names, as people write them (PERSON-07): the first of each, by the name in small letters.

        `- Name: value`, `Name: value`, `**Name**: value`, `| Name | value |`; with `deep` also `## Name` and the first
        line below it.
        """
        found: dict[str, Line] = {}
        for text, line in self.open_lines(title, deep):
            row = cells(text)
            if len(row) == 2 and not _RULE_ROW.fullmatch(text):
                found.setdefault(_folded(_bare(row[0])).rstrip(":"), Line(row[1], line))
            elif match := label(text):
                found.setdefault(_folded(match["name"]), Line(match["value"].strip(), line))
        start, end = self._span(title, deep)
        for section in self.sections:
            below = self._between(section.line + 1, section.own_end).strip().partition("\n")[0]
            if below and start <= section.line < end:
                match = _BULLET.match(below)
                found.setdefault(_folded(section.title), Line(match[1] if match else below, section.line))
        return found

    def rows(self, title: str | None = None) -> list[Row]:
        """The first pipe table in a section's own text, its head first; empty where there is none."""
        found: list[Row] = []
        for text, line in self.open_lines(title):
            if found and (not cells(text) or line != found[-1].line + 1):
                break
            if cells(text):
                found.append(Row(cells(text), line))
        return [row for row in found if not _RULE_ROW.fullmatch(self._lines[row.line - self._first])]

    def fences(self, info: str, title: str | None = None) -> list[Fence]:
        """The fenced blocks of this language, subsections included."""
        start, end = self._span(title, True)
        here = [fence for fence in self._structure.fences if start <= fence.line < end]
        return [fence for fence in here if fence.info.split()[:1] == [info]]

    def _span(self, title: str | None, deep: bool) -> tuple[int, int]:
        if title is None:
            return self._first, self.sections[0].line if self.sections and not deep else self._end
        for section in self.find(title):
            return section.line + 1, section.end if deep else section.own_end
        return self._end, self._end

    def _between(self, start: int, end: int) -> str:
        return "".join(f"{line}\n" for line in self._lines[start - self._first : end - self._first])

    def open_lines(self, title: str | None = None, deep: bool = False) -> Iterator[Line]:
        """The lines that are not code or comment."""
        for line in range(*self._span(title, deep)):
            if line not in self._structure.opaque:
                yield Line(self._lines[line - self._first], line)

    @cached_property
    def _structure(self) -> _Structure:
        headings, fences, opaque = [], [], set[int]()
        tokens = _parser().parse(self.text)
        for at, token in enumerate(tokens):
            if token.map is None:
                continue
            start, end = (self._first + line for line in token.map)
            if token.type == "heading_open" and token.level == 0:
                headings.append((int(token.tag[1:]), tokens[at + 1].content, start))
            elif token.type in ("fence", "code_block", "html_block"):
                opaque.update(range(start, end))
            if token.type == "fence":
                fences.append(Fence(token.info.strip(), token.content, start))
        return _Structure(headings, fences, opaque)


class _Structure(NamedTuple):
    headings: list[tuple[int, str, int]]
    """Level, title and line of each heading at the top level of the text."""
    fences: list[Fence]
    opaque: set[int]
    """Lines of code and comments, which are never read as anything else."""


class FrontMatter(NamedTuple):
    """The YAML between two `---` lines at the very top of a file, and what stands below it."""

    source: Source
    """Its data is a mapping, empty where there is none."""
    body: Markdown


def front_matter(text: str, path: str) -> FrontMatter:
    """Front matter and body; DocumentInvalid with the line in the file where it cannot be read."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter(Source(path, {}, lambda keys: None), Markdown(text, path))
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        raise DocumentInvalid("the front matter is not closed", where=place(path, 1), expected="a second line ---")
    source = read_yaml("".join(f"{line}\n" for line in lines[1:end]), path, first_line=2)
    data = {} if source.data is None else source.data
    if not isinstance(data, dict):
        raise DocumentInvalid("the front matter is no mapping", where=place(path, 2), expected="key: value lines")
    return FrontMatter(Source(path, data, source.find), Markdown("\n".join(lines[end + 1 :]), path, end + 2))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["lheading", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])  # what is inside a line does not matter here
    return parser


def _bare(text: str) -> str:
    return text.strip().strip("*_`").strip()


def _folded(title: str) -> str:
    return " ".join(title.split()).casefold()


def bullet(line: str) -> re.Match[str] | None:
    return _BULLET.match(line.rstrip())


def label(line: str) -> re.Match[str] | None:
    """A line `Name: value`, with or without bullet and emphasis."""
    return _LABEL.fullmatch(line.rstrip())


def cells(line: str) -> tuple[str, ...]:
    """Of a table's row; empty where it is none."""
    if not line.lstrip().startswith("|"):
        return ()
    parts = _PIPE.split(line.strip().removeprefix("|"))
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return tuple(part.strip().replace("\\|", "|") for part in parts)
