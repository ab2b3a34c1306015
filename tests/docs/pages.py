"""The pages a person reads, cut into fenced blocks with the marks that stand above them.

A mark is an HTML comment on the line above a fence: ``<!-- test: exit 2 -->`` executes it, ``<!-- shows -->`` compares
it with what the block before it printed, ``<!-- file: agent.py -->`` writes it, ``<!-- install -->`` is not executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = (
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")),
    *sorted(path for path in DOCS.rglob("*.md")),
)
"""Every page, also the generated ones."""

_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<language>\w*)\s*")
_MARK = re.compile(r"<!-- (?P<word>\w+)(?:: (?P<rest>.*?))? -->")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in their order."""
    marks: dict[str, str] = {}
    lines = iter(enumerate(page.read_text("utf-8").splitlines(), start=1))
    for number, line in lines:
        if fence := _FENCE.fullmatch(line):
            inside = []
            for _, text in lines:
                if text == fence["ticks"]:
                    break
                inside.append(text)
            yield Block(page, number, fence["language"], "\n".join(inside) + "\n", marks)
            marks = {}
        elif mark := _MARK.fullmatch(line):
            marks[mark["word"]] = mark["rest"] or ""
        elif line.strip():
            marks = {}


def prose(page: Path) -> str:
    """The page without its fenced blocks and comments."""
    text = re.sub(r"^(`{3,})\w*\s*\n.*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page make, as code hosts do."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def files_of(page: Path) -> dict[str, str]:
    """The files that a page tells its reader to write."""
    return {block.marks["file"]: block.text for block in blocks(page) if "file" in block.marks}
