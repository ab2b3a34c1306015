"""Markdown, read: front matter, what stands under headings, and what people write behind labels.

markdown-it finds the structure: a `##` inside fenced code, a comment or a quotation is no heading.  Headings are `#`
lines; the underlined form is not counted, since a `---` under a line is more often a rule.  Titles are given as
`## Overview` or, for any level, `Overview`; case and spacing do not matter.  Lines are counted from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
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
PIPE = re.compile(r"(?<!\\)\|")
REMARK = re.compile(r"(?:\s+#\s|\s*<!--).*$")
"""Behind a value: `# ...`, or a comment."""


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


class Field(NamedTuple):
    """What has a name, as people spell it (PERSON-07)."""

    spelling: str
    """`row` of a table, `label` or `section`."""
    line: int
    """On which the name stands."""
    value: str
    """Beside the name; in a section its first line."""
    items: tuple[int, int]
    """The lines that stand below it as its list, or of the first line of a section."""


class Fence(NamedTuple):
    info: str
    content: str
    line: int
    """Of the opening fence."""


class Markdown:
    """A Markdown text.

    All is asked by the title of a section, the first that has it; of one that is not there everything is empty.  No
    title stands for the lines before the first heading, with `deep` for the whole text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = ["", *_END.split(text.removesuffix("\n"))]  # counted from 1
        self._fences: list[Fence] = []
        self._opaque = set[int]()
        """Lines of code and comments, which are never read as anything else."""
        headings, tokens = list[tuple[int, str, int]](), _parser().parse(text)
        for at, token in enumerate(tokens):
            if token.map is None:
                continue
            line, end = token.map[0] + 1, token.map[1] + 1
            if token.type == "heading_open" and token.level == 0:
                headings.append((int(token.tag[1:]), tokens[at + 1].content, line))
            elif token.type in ("fence", "code_block", "html_block"):
                self._opaque.update(range(line, end))
            if token.type == "fence":
                self._fences.append(Fence(token.info.strip(), token.content, line))
        self.sections: list[Section] = []
        """All of them, in the order of the text."""
        ends, own_end = [len(self._lines)] * 7, len(self._lines)  # where the next heading of each level or above stands
        for level, title, line in reversed(headings):
            self.sections.append(Section(level, title, line, own_end, ends[level]))
            own_end = line
            ends[level:] = [line] * (7 - level)
        self.sections.reverse()

    def find(self, title: str) -> list[Section]:
        """The sections with this title."""
        match = re.fullmatch(r"(#{1,6})(?:[ \t]+(.*))?", title, re.DOTALL)
        level, name = (len(match[1]), match[2] or "") if match else (None, title)
        return [each for each in self.sections if _folded(each.title) == _folded(name) and level in (None, each.level)]

    def under(self, title: str | None = None, *, deep: bool = False) -> str:
        """What stands under a heading up to the next one, with `deep` its subsections included."""
        return "".join(f"{self._lines[line]}\n" for line in self._span(title, deep))

    def open_lines(self, title: str | None = None, deep: bool = False) -> Iterator[Line]:
        """The lines that are not code or comment."""
        return (Line(self._lines[line], line) for line in self._span(title, deep) if line not in self._opaque)

    def _span(self, title: str | None, deep: bool) -> range:
        if title is None:
            return range(1, self.sections[0].line if self.sections and not deep else len(self._lines))
        for section in self.find(title):
            return range(section.line + 1, section.end if deep else section.own_end)
        return range(0)

    def items(self, title: str | None = None) -> list[Line]:
        """The bullets of a section's own text, without marks and boxes; further lines of one are joined to it."""
        found: list[Line] = []
        inside = -1  # the indent of the list that is being read
        for text, line in self.open_lines(title):
            indent = _indent(text)
            if (match := bullet(text)) and not 0 <= inside < indent - 1:
                found.append(Line(match[1], line))
                inside = indent
            elif inside >= 0 and indent > inside and text.strip():
                found[-1] = Line(f"{found[-1].text}\n{text.strip()}", found[-1].line)
            elif text.strip():
                inside = -1
        return found

    def rows(self, title: str | None = None) -> list[Row]:
        """The first pipe table in a section's own text, its head first; empty where there is none."""
        found: list[Row] = []
        for text, line in self.open_lines(title):
            if found and (not cells(text) or line != found[-1].line + 1):
                break
            if cells(text):
                found.append(Row(cells(text), line))
        return [row for row in found if not _RULE_ROW.fullmatch(self._lines[row.line])]

    def fences(self, info: str) -> list[Fence]:
        """The fenced blocks of this language."""
        return [fence for fence in self._fences if fence.info.split()[:1] == [info]]

    def field(self, name: str) -> Field | None:
        """The field of that name, in any case: `- Name: value`, `Name: value`, `**Name:** value`, a row of a table, or
        a heading with the value below it; a list stands as bullets below the name."""
        return next(iter(self._named.get(_folded(name), ())), None)

    def every(self, name: str) -> list[str]:
        """What stands behind each field of that name, in the order of the text."""
        return [field.value for field in self._named.get(_folded(name), ())]

    def value(self, name: str) -> str | None:
        """What stands behind a name, without emphasis, back-quotes and remarks; None where there is no such name."""
        field = self.field(name)
        return None if field is None else plain_value(field.value)

    def values(self, name: str, *, ticked: bool = True) -> list[str] | None:
        """What stands as a list behind a name, as bullets or with commas; `None` is an empty one.

        Args:
            ticked: a box that is not ticked stands for nothing.
        """
        field = self.field(name)
        if field is None:
            return None
        bullets = [match for line in self._lines[slice(*field.items)] if (match := bullet(line))]
        counted = [match[1] for match in bullets if not (ticked and "[ ]" in match[0][: match.start(1)])]
        plain = [plain_value(one) for one in (counted if bullets else field.value.split(","))]
        return [one for one in plain if one.casefold().rstrip(".") not in ("", "-", "none")]

    @cached_property
    def _named(self) -> dict[str, list[Field]]:
        """The fields by their names: labels and rows in the order of the text, then sections."""
        found: dict[str, list[Field]] = {}

        def add(name: str, spelling: str, line: int, value: str, items: tuple[int, int] = (0, 0)) -> None:
            below = items if items[0] < items[1] else (line + 1, line + 1)
            found.setdefault(_folded(name.strip(" *_`:")), []).append(Field(spelling, line, value, below))

        for text, line in self.open_lines(deep=True):
            row = cells(text)
            if len(row) == 2 or (len(row) > 2 and not self._is_head(line)):
                add(row[0], "row", line, row[1])
            elif not row and (match := label(text)):
                value = match["value"].strip()
                add(match["name"], "label", line, value, (0, 0) if value else self._bullets_below(line))
        for section in self.sections:
            body = (line for line in range(section.line + 1, section.own_end) if line not in self._opaque)
            at = next((line for line in body if self._lines[line].strip()), None)
            if at is None or cells(self._lines[at]):
                add(section.title, "section", section.line, "")
            elif match := bullet(self._lines[at]):
                add(section.title, "section", section.line, match[1], (at, self._end_of_list(at, -1)))
            else:
                add(section.title, "section", section.line, self._lines[at].strip(), (at, at + 1))
        return found

    def _is_head(self, line: int) -> bool:
        return any(_RULE_ROW.fullmatch(text) for text in self._lines[line : line + 2])

    def _bullets_below(self, line: int) -> tuple[int, int]:
        """Of a label without a value: those that are indented deeper, below a line without a bullet all that follow."""
        deeper = _indent(self._lines[line]) if bullet(self._lines[line]) else -1
        below = range(line + 1, len(self._lines))
        begin = next((at for at in below if deeper >= 0 or self._lines[at].strip()), len(self._lines))
        return begin, self._end_of_list(begin, deeper)

    def _end_of_list(self, first: int, deeper: int) -> int:
        """The end of the bullets from this line on that are indented deeper than that, with what they go on with."""
        end = first
        for line, text in enumerate(self._lines[first:], first):
            belongs = _indent(text) > deeper if bullet(text) else line > first and _indent(text) > max(deeper, 0)
            if text.strip() and (not belongs or line in self._opaque):
                break
            end = line + 1 if text.strip() else end
        return end


markdown = lru_cache(maxsize=256)(Markdown)
"""The same; one document is asked many times."""


class FrontMatter(NamedTuple):
    """The YAML between two `---` lines at the very top of a file, and what stands below it."""

    source: Source
    """Its data is a mapping, empty where there is none."""
    body: Markdown


def front_matter(text: str, path: str) -> FrontMatter:
    """Front matter and body; DocumentInvalid with the line in the file where it cannot be read."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter(Source(path, {}, lambda keys: None), markdown(text))
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        raise DocumentInvalid("the front matter is not closed", where=place(path, 1), expected="a second line ---")
    source = read_yaml("".join(f"{line}\n" for line in lines[1:end]), path, first_line=2)
    data = {} if source.data is None else source.data
    if not isinstance(data, dict):
        raise DocumentInvalid("the front matter is no mapping", where=place(path, 2), expected="key: value lines")
    return FrontMatter(Source(path, data, source.find), markdown("\n".join(lines[end + 1 :])))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["lheading", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])  # what is inside a line does not matter here
    return parser


def plain_value(text: str) -> str:
    """A value without the remark behind it, emphasis and back-quotes."""
    return REMARK.sub("", f" {text}").strip(" \t\r\n*_`")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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
    parts = PIPE.split(line.strip().removeprefix("|"))
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return tuple(part.strip().replace("\\|", "|") for part in parts)
