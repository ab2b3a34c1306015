"""Several edits of one Markdown text, made at once: its structure is found once and not once per edit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from interlock.documents import Sections


@lru_cache(maxsize=1024)
def sections_of(text: str, path: str) -> Sections:
    """The structure of a text: what was read is edited next, and read back after that."""
    return Sections(text, path)


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

    def body(self, title: str, lines: str) -> None:
        """Other lines under a heading, unless they are there already."""
        section = self._document.section(title)
        if self._document.text[section.body_start : section.end].strip() != lines:
            self._edits.append((section.body_start, section.end, f"\n{lines}\n\n"))

    def rows(self, title: str, rows: Sequence[Sequence[str]]) -> None:
        """Rows added at the end of the table under a heading."""
        table = self._document.table(title)
        assert table is not None
        added = "".join("\n| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
        self._edits.append((table.end, table.end, added))

    def made(self) -> str:
        """The text with all edits, ended by one line break."""
        text = self._document.text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text.rstrip("\n") + "\n"
