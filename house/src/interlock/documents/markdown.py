"""Markdown, read: front matter, what stands under headings, and what people write behind labels.

markdown-it finds the structure: a `##` inside fenced code, a comment or a quotation is no heading.  Headings are `#`
lines; the underlined form is not counted, since a `---` under a line is more often a rule.  Titles are given as
`## Overview` or, for any level, `Overview`; case and spacing do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.documents.reading import Source, read_yaml
from interlock.errors import DocumentInvalid

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)")
_LABEL = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?(?:\*\*|__)?(?P<name>[^\s:*_|`#][^:|`]{0,79}?)(?:\*\*|__)?[ \t]*"
    r":(?:\*\*|__)?(?:[ \t]+|$)(?P<value>.*)"
)
_RULE_ROW = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_PIPE = re.compile(r"(?<!\\)\|")


class Section(NamedTuple):
    """A heading and what stands under it; offsets are into the text, lines count from 1."""

    level: int
    title: str
    line: int
    body: int
    own_end: int
    """Up to the next heading of any level."""
    end: int
    """Up to the next heading of the same or a higher level."""


class Line(NamedTuple):
    """Something that stands on a line."""

    text: str
    line: int


class Fence(NamedTuple):
    info: str
    content: str
    line: int
    """Of the opening fence."""


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int


class Markdown:
    """A Markdown text; `first_line` is the line of the file on which it begins."""

    def __init__(self, text: str, path: str = "document", first_line: int = 1) -> None:
        self.text = text
        self.path = path
        self._first = first_line

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in the order of the text."""
        found: list[Section] = []
        end_of = [len(self.text)] * 7  # where the next heading of each level or a higher one begins
        own_end = len(self.text)
        for level, title, line in reversed(self._structure.headings):
            start = self._offset(line)
            found.append(Section(level, title, line + self._first, self._offset(line + 1), own_end, end_of[level]))
            own_end = start
            end_of[level:] = [start] * (7 - level)
        return tuple(reversed(found))

    def find(self, title: str) -> Section | None:
        """The first section with this title."""
        return next(iter(self.find_all(title)), None)

    def find_all(self, title: str) -> list[Section]:
        match = re.fullmatch(r"(#{1,6})(?:[ \t]+(.*))?", title, re.DOTALL)
        level, name = (len(match[1]), match[2] or "") if match else (None, title)
        return [each for each in self.sections if _folded(each.title) == _folded(name) and level in (None, each.level)]

    def section(self, title: str) -> Section:
        """The first section with this title; DocumentInvalid if there is none."""
        if (found := self.find(title)) is None:
            raise DocumentInvalid(f'section "{title}" not found', path=self.path, expected=title)
        return found

    def body(self, title: str) -> str:
        """What stands under the heading, subsections included."""
        section = self.section(title)
        return self.text[section.body : section.end]

    def own(self, title: str | None = None) -> str:
        """What stands under the heading up to the next one; without a title, before the first heading."""
        start, end = self._span(title)
        return self.text[start:end]

    def word(self, title: str) -> Line | None:
        """What stands under a heading as one line, without emphasis and back-quotes; None where it is not one line."""
        if self.find(title) is None:
            return None
        lines = [line for line in self._open_lines(title) if line.text.strip()]
        return Line(_bare(lines[0].text), lines[0].line) if len(lines) == 1 else None

    def items(self, title: str | None = None) -> list[Line]:
        """The bullets of a section's own text, without marks and boxes; further lines of one are joined to it."""
        found: list[Line] = []
        inside = -1  # the indent of the list that is being read
        for text, line in self._open_lines(title):
            indent = len(text) - len(text.lstrip())
            if (match := _BULLET.match(text.rstrip())) and not 0 <= inside < indent - 1:
                found.append(Line(match[1], line))
                inside = indent
            elif inside >= 0 and indent > inside and text.strip():
                found[-1] = Line(f"{found[-1].text}\n{text.strip()}", found[-1].line)
            elif text.strip():
                inside = -1
        return found

    def labels(self, title: str | None = None, *, whole: bool = False) -> dict[str, Line]:
        """What stands behind names, as people write them (PERSON-07): the first of each, by the name in small letters.

        `- Name: value`, `Name: value`, `**Name**: value`, `| Name | value |`; with `whole` in the whole text, and
        `## Name` with the first line below it.
        """
        found: dict[str, Line] = {}
        for text, line in self._open_lines(title, whole=whole):
            cells = _cells(text) if text.lstrip().startswith("|") else ()
            if len(cells) == 2 and not _RULE_ROW.fullmatch(text.strip()):
                found.setdefault(_folded(_bare(cells[0])).rstrip(":"), Line(cells[1], line))
            elif match := _LABEL.fullmatch(text.rstrip()):
                found.setdefault(_folded(match["name"]), Line(match["value"].strip(), line))
        for section in self.sections if whole else ():
            below = self.text[section.body : section.own_end].strip().partition("\n")[0]
            if below and _folded(section.title) not in found:
                match = _BULLET.match(below)
                found[_folded(section.title)] = Line(match[1] if match else below, section.line)
        return found

    def fences(self, info: str | None = None, title: str | None = None) -> list[Fence]:
        """The fenced blocks of the text or of one section, subsections included; all, or those of this language."""
        section = None if title is None else self.section(title)
        start, end = (0, len(self.text)) if section is None else (section.body, section.end)
        return [
            fence._replace(line=fence.line + self._first)
            for fence in self._structure.fences
            if start <= self._offset(fence.line) < end and (info is None or fence.info.split()[:1] == [info])
        ]

    def table(self, title: str | None = None) -> Table | None:
        """The first pipe table in a section's own text."""
        block: list[Line] = []
        for line in self._open_lines(title):
            if line.text.lstrip(" ").startswith("|") and (not block or line.line == block[-1].line + 1):
                block.append(line)
            elif block:
                break
        if not block:
            return None
        rows = block[2:] if len(block) > 1 and _RULE_ROW.fullmatch(block[1].text.strip()) else block[1:]
        return Table(_cells(block[0].text), tuple(_cells(row.text) for row in rows), block[0].line)

    def _span(self, title: str | None) -> tuple[int, int]:
        if title is None:
            first = self._structure.headings[:1]
            return 0, self._offset(first[0][2]) if first else len(self.text)
        section = self.section(title)
        return section.body, section.own_end

    def _open_lines(self, title: str | None = None, *, whole: bool = False) -> Iterator[Line]:
        """The lines of a section's own text, or of the whole, that are not code or comment."""
        start, end = (0, len(self.text)) if whole else self._span(title)
        for number, (offset, text) in enumerate(self._lines):
            if start <= offset < end and number not in self._structure.opaque:
                yield Line(text.rstrip("\r\n"), number + self._first)

    def _offset(self, line: int) -> int:
        return self._lines[line][0] if line < len(self._lines) else len(self.text)

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        """Offset and text of each line, split exactly as markdown-it does."""
        return [(found.start(), found[0]) for found in _LINE.finditer(self.text) if found[0]]

    @cached_property
    def _structure(self) -> _Structure:
        headings, fences, opaque = [], [], set[int]()
        tokens = _parser().parse(self.text)
        for at, token in enumerate(tokens):
            if token.map is None:
                continue
            if token.type == "heading_open" and token.level == 0:
                headings.append((int(token.tag[1:]), tokens[at + 1].content, token.map[0]))
            elif token.type in ("fence", "code_block", "html_block"):
                opaque.update(range(*token.map))
                if token.type == "fence":
                    fences.append(Fence(token.info.strip(), token.content, token.map[0]))
        return _Structure(tuple(headings), tuple(fences), frozenset(opaque))


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
        raise DocumentInvalid("the front matter is not closed", path=path, line=1, expected="a second line ---")
    source = read_yaml("".join(f"{line}\n" for line in lines[1:end]), path, first_line=2)
    data: Any = {} if source.data is None else source.data
    if not isinstance(data, dict):
        raise DocumentInvalid("the front matter is no mapping", path=path, line=2, expected="key: value lines")
    return FrontMatter(Source(path, data, source.find), Markdown("\n".join(lines[end + 1 :]), path, end + 2))


class _Structure(NamedTuple):
    headings: tuple[tuple[int, str, int], ...]
    """Level, title and line (from 0) of each heading at the top level of the text."""
    fences: tuple[Fence, ...]
    opaque: frozenset[int]
    """Lines (from 0) of code and comments, which are never read as anything else."""


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


def _cells(line: str) -> tuple[str, ...]:
    parts = _PIPE.split(line.strip().removeprefix("|"))
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return tuple(part.strip().replace("\\|", "|") for part in parts)
