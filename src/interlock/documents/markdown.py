"""Markdown in parts that can be read and replaced, everything else staying as it was.

markdown-it finds the structure (a ``##`` inside fenced code, a comment or a quotation is no heading); edits are
splices of the text, so what a person wrote beside them survives byte for byte.  Headings are ``#`` lines: the
underlined form is not counted, since a ``---`` under a line is more often a rule or a frontmatter's end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from interlock.errors import DocumentInvalid

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_BULLET = re.compile(r"[-*+][ \t]+(.*)")
_FIELD = re.compile(
    r"(?:[-*+][ \t]+(?:\*\*)?|\*\*)(?P<name>[^\s:*|][^:*|]*?)(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*(?P<value>.*?)[ \t]*\r?\n?"
)
_RULE_ROW = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_PIPE = re.compile(r"(?<!\\)\|")
SHORT = 4_000
"""Characters of a document whose structure is remembered: the same few are read again and again."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; offsets are into the document's text."""

    level: int
    title: str
    line: int
    start: int
    body_start: int
    own_end: int
    """Up to the next heading of any level."""
    end: int
    """Up to the next heading of the same or a higher level."""

    @property
    def heading(self) -> str:
        return f"{'#' * self.level} {self.title}".rstrip()


@dataclass(frozen=True)
class Field:
    """A ``- Name: value`` line; the offsets are those of the value."""

    name: str
    value: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Bullet:
    """A bullet: its text without the mark, further lines of it dedented."""

    text: str
    line: int


@dataclass(frozen=True)
class Fence:
    info: str
    content: str
    line: int
    """Line of the opening fence; the content begins on the next one."""
    quoted: bool = False
    """It stands in a block quote."""


@dataclass(frozen=True)
class TableRow:
    cells: tuple[str, ...]
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class MarkdownTable:
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    end: int
    """Behind its last line, before the line break."""


class Sections:
    """A Markdown text.  Titles are given as ``## Overview`` or, for any level, ``Overview``; case and spacing
    do not matter.  Edits return a new object; they raise DocumentInvalid where they would change which
    headings stand outside the edited section (an unclosed fence in the new text, for example)."""

    def __init__(self, text: str, path: str = "document") -> None:
        self.text = text
        self.path = path

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in the order of the text."""
        found: list[Section] = []
        end_of = [len(self.text)] * 7  # where the next heading of each level or a higher one begins
        own_end = len(self.text)
        for level, title, line in reversed(self._structure.headings):
            start = self._offset(line)
            found.append(Section(level, title, line + 1, start, self._offset(line + 1), own_end, end_of[level]))
            own_end = start
            end_of[level:] = [start] * (7 - level)
        return tuple(reversed(found))

    def find(self, title: str) -> Section | None:
        """The first section with this title."""
        return next(self._matching(title), None)

    def find_all(self, title: str) -> tuple[Section, ...]:
        return tuple(self._matching(title))

    def section(self, title: str) -> Section:
        """The first section with this title; DocumentInvalid if there is none."""
        if found := self.find(title):
            return found
        raise DocumentInvalid(f'{self.path}: section "{title}" not found', path=self.path)

    def body(self, title: str) -> str:
        """What stands under the heading, subsections included."""
        section = self.section(title)
        return self.text[section.body_start : section.end]

    def own_text(self, title: str | None = None) -> str:
        """What stands under the heading up to the next one; without a title, before the first heading."""
        start, end = self._own(title)
        return self.text[start:end]

    def replace(self, title: str, body: str) -> Sections:
        """With another body for the section, subsections included."""
        section = self.section(title)
        if section.end < len(self.text) and body and not body.endswith(("\n", "\r")):
            body += "\n"
        return self._spliced(section.body_start, section.end, self._below(section.body_start, body))

    def append(self, title: str, text: str) -> Sections:
        """With lines added at the end of the section's own text, before the blank lines that close it."""
        section = self.section(title)
        own = self.text[section.body_start : section.own_end]
        text = text.rstrip("\n")
        if not own.strip():
            return self._spliced(section.body_start, section.body_start, self._below(section.body_start, f"{text}\n"))
        last_line = own.find("\n", len(own.rstrip()))
        place = section.body_start + (len(own) if last_line < 0 else last_line)
        return self._spliced(place, place, f"\n{text}")

    def insert(self, heading: str, body: str, *, before: str | None = None, after: str | None = None) -> Sections:
        """With a new section before or after another one, or at the end."""
        place = len(self.text)
        if before is not None:
            place = self.section(before).start
        elif after is not None:
            place = self.section(after).end
        lead = self.text[:place]
        gap = "" if not lead or lead.endswith("\n\n") else "\n" if lead.endswith("\n") else "\n\n"
        new = "\n".join([heading, *([body.rstrip("\n")] if body.strip("\n") else []), ""])
        return self._spliced(place, place, gap + new + ("\n" if place < len(self.text) else ""))

    def fields(self, title: str | None = None) -> dict[str, Field]:
        """The ``- Name: value`` (or ``**Name**: value``) lines of a section's own text, by name; the first counts."""
        found: dict[str, Field] = {}
        for line, start, text in self._open_lines(title):
            if match := _FIELD.fullmatch(text):
                span = (start + match.start("value"), start + match.end("value"))
                found.setdefault(match["name"], Field(match["name"], match["value"], line, *span))
        return found

    def set_field(self, name: str, value: str, title: str | None = None) -> Sections:
        """With the value of one field replaced; a field is one line, so line breaks become spaces."""
        known = self.fields(title)
        if name not in known:
            raise DocumentInvalid(f"{self.path}: field {name} not found", path=self.path, expected=f"- {name}: value")
        old, new = known[name], " ".join(value.split())
        if new and not old.value and self.text[old.start - 1] in ":*":
            new = " " + new
        return Sections(self.text[: old.start] + new + self.text[old.end :], self.path)

    def items(self, title: str | None = None) -> tuple[Bullet, ...]:
        """The bullets of a section's own text."""
        found: list[Bullet] = []
        inside = False
        for line, _, text in self._open_lines(title):
            stripped = text.rstrip()
            if match := _BULLET.match(stripped):
                found.append(Bullet(match[1], line))
                inside = True
            elif inside and stripped and text[0] in " \t":
                found[-1] = Bullet(f"{found[-1].text}\n{stripped.strip()}", found[-1].line)
            else:
                inside = False
        return tuple(found)

    def fences(self, info: str | None = None, title: str | None = None) -> tuple[Fence, ...]:
        """The fenced blocks of the document or of one section, all or those whose info begins with this word."""
        start, end = (0, len(self.text)) if title is None else self._span(title)
        return tuple(
            fence
            for fence in self._structure.fences
            if start <= self._offset(fence.line - 1) < end
            and (info is None or fence.info.split(maxsplit=1)[:1] == [info])
        )

    def prose(self) -> str:
        """What the author says in their own words: lines of code, comments and quotes are blank."""
        foreign = self._structure.opaque | self._structure.quoted
        return "".join("\n" if number in foreign else text for number, (_, text) in enumerate(self._lines))

    def table(self, title: str | None = None) -> MarkdownTable | None:
        """The first pipe table in a section's own text."""
        block: list[tuple[int, int, str]] = []
        for line, start, text in self._open_lines(title):
            if text.lstrip(" ").startswith("|") and (not block or line == block[-1][0] + 1):
                block.append((line, start, text.rstrip("\r\n")))
            elif block:
                break
        if not block:
            return None
        head, *rows = block
        if rows and _RULE_ROW.fullmatch(rows[0][2].strip()):
            rows = rows[1:]
        last = block[-1]
        return MarkdownTable(
            _cells(head[2]),
            tuple(TableRow(_cells(text), line, start, start + len(text)) for line, start, text in rows),
            last[1] + len(last[2]),
        )

    def append_row(self, cells: Sequence[str], title: str | None = None) -> Sections:
        """With a row added at the end of the section's table."""
        table = self._table(cells, title)
        return Sections(f"{self.text[: table.end]}\n{_row(cells)}{self.text[table.end :]}", self.path)

    def put_row(self, cells: Sequence[str], title: str | None = None) -> Sections:
        """With the row that has the same first cell replaced, or a row added: one row per key, newest wins."""
        new = _row(cells)
        key = _cells(new)[:1]
        for row in self._table(cells, title).rows:
            if row.cells[:1] == key:
                return Sections(self.text[: row.start] + new + self.text[row.end :], self.path)
        return self.append_row(cells, title)

    def _table(self, cells: Sequence[str], title: str | None) -> MarkdownTable:
        table = self.table(title)
        if table is None:
            raise DocumentInvalid(f"{self.path}: no table in {title or 'the text'}", path=self.path)
        if len(cells) != len(table.columns):
            raise DocumentInvalid(
                f"{self.path}: the row does not fit the table in {title or 'the text'}",
                path=self.path,
                expected=f"{len(table.columns)} cells",
                found=f"{len(cells)} cells",
            )
        return table

    def _matching(self, title: str) -> Iterator[Section]:
        level, name = _heading(title)
        for section in self.sections:
            if _folded(section.title) == _folded(name) and level in (None, section.level):
                yield section

    def _span(self, title: str) -> tuple[int, int]:
        section = self.section(title)
        return section.body_start, section.end

    def _own(self, title: str | None) -> tuple[int, int]:
        if title is None:
            return 0, self.sections[0].start if self.sections else len(self.text)
        section = self.section(title)
        return section.body_start, section.own_end

    def _open_lines(self, title: str | None) -> Iterator[tuple[int, int, str]]:
        """Number, offset and text of the lines of a section's own text that are not code or comment."""
        start, end = self._own(title)
        for number, (offset, text) in enumerate(self._lines):
            if start <= offset < end and number not in self._structure.opaque:
                yield number + 1, offset, text

    def _below(self, place: int, text: str) -> str:
        """Text that goes below a line, which may be the last one and lack its line break."""
        return (
            "\n" + text if text and place and self.text[place - 1] not in "\r\n" and not text.startswith("\n") else text
        )

    def _spliced(self, start: int, end: int, new: str) -> Sections:
        result = Sections(self.text[:start] + new + self.text[end:], self.path)
        grown = len(result.text) - len(self.text)
        before = [it.heading for it in self.sections if it.start < start]
        behind = [(it.heading, it.start + grown) for it in self.sections if it.start >= end]
        new_before = [it.heading for it in result.sections if it.start < start]
        new_behind = [(it.heading, it.start) for it in result.sections if it.start >= end + grown]
        if before != new_before or behind != new_behind:
            raise DocumentInvalid(
                f"{self.path}: the new text would change the sections around it",
                path=self.path,
                expected="text in which every code fence and comment is closed",
            )
        return result

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        """Offset and text of each line, split exactly as markdown-it does."""
        return [(found.start(), found[0]) for found in _LINE.finditer(self.text) if found[0]]

    @cached_property
    def _structure(self) -> _Structure:
        return _known_structure(self.text) if len(self.text) <= SHORT else _structure(self.text)

    def _offset(self, line: int) -> int:
        return self._lines[line][0] if line < len(self._lines) else len(self.text)


@dataclass(frozen=True)
class Frontmatter:
    """The YAML at the top of a file, if there is one, and the rest."""

    yaml_text: str | None
    body: str
    start_line: int
    """Line of the file on which the YAML begins."""
    body_line: int
    path: str = field(default="document", compare=False)

    def data(self) -> dict[str, object]:
        """The YAML as a mapping, empty if there is none; DocumentInvalid with the line in the file."""
        from interlock.documents.yaml import load

        if self.yaml_text is None:
            return {}
        found = load(self.yaml_text, self.path, first_line=self.start_line, what=f"{self.path}: frontmatter")
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise DocumentInvalid(
                f"{self.path}: frontmatter is not valid YAML: line {self.start_line}: not a mapping",
                path=self.path,
                line=self.start_line,
                expected="key: value lines",
            )
        return found


def split_frontmatter(text: str, path: str = "document") -> Frontmatter:
    """The frontmatter between two ``---`` lines at the very top, checked to be YAML, and the body below it."""
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Frontmatter(None, text, start_line=1, body_line=1, path=path)
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        raise DocumentInvalid(
            f"{path}: frontmatter is not closed", path=path, line=1, expected="a second line ---", found="none"
        )
    split = Frontmatter(
        "".join(f"{line}\n" for line in lines[1:end]), "\n".join(lines[end + 1 :]), 2, end + 2, path=path
    )
    split.data()
    return split


@dataclass(frozen=True)
class _Structure:
    headings: tuple[tuple[int, str, int], ...]
    """Level, title and line (from 0) of each heading at the top level of the document."""
    fences: tuple[Fence, ...]
    opaque: frozenset[int]
    """Lines (from 0) of code and comments, which are never read as anything else."""
    quoted: frozenset[int]
    """Lines (from 0) of block quotes."""


@lru_cache(maxsize=1024)
def _known_structure(text: str) -> _Structure:
    return _structure(text)


def _structure(text: str) -> _Structure:
    tokens = _parser().parse(text)
    headings, fences, opaque, quoted = [], [], set[int](), set[int]()
    for at, token in enumerate(tokens):
        if token.map is None:
            continue
        first, last = token.map
        if token.type == "heading_open" and token.level == 0:
            headings.append((int(token.tag[1:]), tokens[at + 1].content, first))
        elif token.type == "blockquote_open":
            quoted.update(range(first, last))
        elif token.type in ("fence", "code_block", "html_block"):
            opaque.update(range(first, last))
            if token.type == "fence":
                fences.append(Fence(token.info.strip(), token.content, first + 1, quoted=first in quoted))
    return _Structure(tuple(headings), tuple(fences), frozenset(opaque), frozenset(quoted))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable("lheading")
    parser.core.ruler.enableOnly(["normalize", "block"])  # what is inside a line does not matter here
    return parser


def _heading(title: str) -> tuple[int | None, str]:
    match = re.fullmatch(r"(#{1,6})(?:[ \t]+(.*))?", title, re.DOTALL)
    return (len(match[1]), match[2] or "") if match else (None, title)


def _folded(title: str) -> str:
    return " ".join(title.split()).casefold()


def _cells(line: str) -> tuple[str, ...]:
    line = line.strip().removeprefix("|")
    parts = _PIPE.split(line)
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return tuple(part.strip().replace("\\|", "|") for part in parts)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
