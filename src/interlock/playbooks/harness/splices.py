"""Several edits of one Markdown text, made at once: its structure is found once and not once per edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from interlock.documents import Sections


@lru_cache(maxsize=1024)
def sections_of(text: str, path: str) -> Sections:
    """The structure of a text: what was read is edited next, and read back after that."""
    return Sections(text, path)


def is_bullet(line: str) -> bool:
    """Whether the line is one of the bullets of which our own lists consist."""
    return line.startswith("- ")


def row_text(cells: Sequence[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class Splices:
    """Edits of a text; everything beside them stays as it was. What is put in is plain lines, no fence or heading."""

    def __init__(self, document: Sections) -> None:
        self._document = document
        self._edits: list[tuple[int, int, str]] = []
        self._fields = cache(document.fields)

    def field(self, name: str, value: str, title: str | None) -> None:
        """Another value for a ``- Name: value`` line."""
        old = self._fields(title)[name]
        if value != old.value:
            gap = " " if self._document.text[old.start - 1] == ":" else ""
            self._edits.append((old.start, old.end, gap + value))

    def lines(self, title: str, lines: str, is_own: Callable[[str], bool]) -> None:
        """Other lines under a heading in the place of our own; what a person wrote beside them stays below."""
        section = self._document.section(title)
        there = self._document.text[section.body_start : section.own_end].splitlines()
        theirs = "\n".join(line for line in there if not is_own(line)).strip("\n")
        new = f"{lines}\n\n{theirs}" if theirs.strip() else lines
        self._edits.append((section.body_start, section.own_end, f"\n{new}\n\n"))

    def rows(self, title: str, rows: Sequence[Sequence[str]]) -> None:
        """Rows added at the end of the table under a heading."""
        table = self._document.table(title)
        assert table is not None
        added = "".join(f"\n{row_text(row)}" for row in rows)
        self._edits.append((table.end, table.end, added))

    def made(self) -> str:
        """The text with all edits, ended by one line break; without any it is as it was."""
        text = self._document.text
        if not self._edits:
            return text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text.rstrip("\n") + "\n"
