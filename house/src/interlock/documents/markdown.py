"""Markdown, read: front matter, what stands under headings, and what people write behind labels.

markdown-it finds the structure: a `##` inside fenced code, a comment or a quotation is no heading.  Headings are `#`
lines; the underlined form is not counted, since a `---` under a line is more often a rule.  Titles are given as
`## Overview` or, for any level, `Overview`; case and spacing do not matter.  Lines are numbered as in the file.
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
        start, end = self._span(title, deep)
        for field in self._fields:
            if start <= field.line < end and (field.value or field.spelling != "section"):
                found.setdefault(_called(self._name_at(field)), Line(field.value, field.line))
        return found

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
        below = self._lines[field.items[0] - self._first : field.items[1] - self._first]
        bullets = [match for line in below if (match := bullet(line))]
        counted = [match[1] for match in bullets if not (ticked and "[ ]" in match[0][: match.start(1)])]
        listed = counted if bullets else field.value.split(",")
        plain = [plain_value(one) for one in listed]
        return [one for one in plain if one.casefold().rstrip(".") not in ("", "-", "none")]

    @cached_property
    def _fields(self) -> list[Field]:
        """Labels and rows in the order of the text, then sections."""
        found = []
        for text, line in self.open_lines(deep=True):
            row = cells(text)
            if len(row) == 2 or (len(row) > 2 and not self._is_head(line)):
                found.append(Field("row", line, row[1], (line + 1, line + 1)))
            elif not row and (match := label(text)):
                value = match["value"].strip()
                found.append(Field("label", line, value, (line + 1, line + 1) if value else self._bullets_below(line)))
        for section in self.sections:
            body = [line for line in range(section.line + 1, section.own_end) if line not in self._structure.opaque]
            at = next((line for line in body if self._text(line).strip()), section.own_end)
            if at == section.own_end or cells(self._text(at)):
                found.append(Field("section", section.line, "", (section.line + 1, section.line + 1)))
            elif match := bullet(self._text(at)):
                found.append(Field("section", section.line, match[1], (at, self._end_of_list(at, -1))))
            else:
                found.append(Field("section", section.line, self._text(at).strip(), (at, at + 1)))
        return found

    @cached_property
    def _named(self) -> dict[str, list[Field]]:
        found: dict[str, list[Field]] = {}
        for field in self._fields:
            found.setdefault(_called(self._name_at(field)), []).append(field)
        return found

    def _name_at(self, field: Field) -> str:
        text = self._text(field.line)
        if field.spelling == "row":
            return cells(text)[0]
        match = label(text) if field.spelling == "label" else None
        return match["name"] if match else text.lstrip(" #").rstrip(" #")

    def _text(self, line: int) -> str:
        return self._lines[line - self._first] if line < self._end else ""

    def _is_head(self, line: int) -> bool:
        return (
            _RULE_ROW.fullmatch(self._text(line + 1)) is not None or _RULE_ROW.fullmatch(self._text(line)) is not None
        )

    def _bullets_below(self, line: int) -> tuple[int, int]:
        """Of a label without a value: those that are indented deeper, below a line without a bullet all that follow."""
        text = self._text(line)
        deeper = len(text) - len(text.lstrip()) if bullet(text) else -1
        begin = next((at for at in range(line + 1, self._end) if deeper >= 0 or self._text(at).strip()), self._end)
        end = self._end_of_list(begin, deeper)
        return (begin, end) if end > begin else (line + 1, line + 1)

    def _end_of_list(self, first: int, deeper: int) -> int:
        """The end of the bullets from this line on that are indented deeper than that, with what they go on with."""
        end = first
        for line in range(first, self._end):
            text = self._text(line)
            indent = len(text) - len(text.lstrip())
            belongs = indent > deeper if bullet(text) else line > first and indent > max(deeper, 0)
            if text.strip() and (not belongs or line in self._structure.opaque):
                break
            end = line + 1 if text.strip() else end
        return end

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


@lru_cache(maxsize=256)
def markdown(text: str, path: str = "document") -> Markdown:
    """The text, read; the same document is asked many times."""
    return Markdown(text, path)


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
    return text.strip(" \t\r\n*_`")


def _called(name: str) -> str:
    return _folded(name.strip(" *_`:"))


def plain_value(text: str) -> str:
    """A value without the remark behind it, emphasis and back-quotes."""
    return _bare(REMARK.sub("", f" {text}"))


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
