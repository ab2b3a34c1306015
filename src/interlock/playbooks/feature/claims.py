"""What the judges of a feature claim, and the evidence for it in their report and private memory.

Verifiers run things: a pass shows commands with their exit status, or says why there is nothing to run.  Critics and
reviewers read: a clean verdict over a grave finding of their own is what speaks against them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from interlock.contracts import Claim, Evidence, checks_in_text, nothing_to_run
from interlock.documents import Sections
from interlock.playbooks.feature.decisions import Grade, Said, Severity, Verdict, word
from interlock.playbooks.feature.findings import findings
from interlock.playbooks.feature.layout import CRITICS, REVIEWERS, VERIFIERS, Layout
from interlock.playbooks.feature.memory_file import MemoryFile, parse_memory

Reader = Callable[[Mapping[str, Any], Mapping[str, str]], Claim]
GRAVE: Mapping[str, tuple[StrEnum, ...]] = {
    **dict.fromkeys(CRITICS, (Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM)),
    **dict.fromkeys(REVIEWERS, (Grade.BLOCKER, Grade.MAJOR)),
}
"""The words with which a judge that reads cannot be content."""
CONTENT: Mapping[str, tuple[StrEnum, ...]] = {
    **dict.fromkeys(CRITICS, (Severity.LOW,)),
    **dict.fromkeys(VERIFIERS, (Verdict.PASS,)),
    **dict.fromkeys(REVIEWERS, (Grade.MINOR, Grade.NONE)),
}
RED_BEFORE = "## Red before this feature"
"""What a verifier lists here failed before the feature too, and speaks for nothing."""
RESULTS = ("## Tasks", "## Criteria")
"""Tables in the reports of verifiers, one row for each point that was checked."""
_RUN = re.compile(r"`[^`\n]+`.*?\b([1-9]\d*)\s+(?:tests?\s+)?failed\b", re.IGNORECASE)
_LEADING = re.compile(r"(?:security\s*:\s*)?([A-Za-z]+)\s*:", re.IGNORECASE)


def reader(at: Layout, member: str) -> Reader:
    """How the claim of this judge is read."""

    def read(_data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
        report, private = texts.get(at.output(member), ""), texts.get(at.mem(member), "")
        memory = parse_memory(private)
        if member in VERIFIERS:
            return Claim(_content(member, memory), _shown_in(report, private))
        return Claim(_content(member, memory), Evidence(blocking=_grave(member, report, memory)), shows=False)

    return read


def _content(member: str, memory: MemoryFile) -> bool:
    contented = memory.status in ("", Said.DONE) and not memory.medium
    return contented and any(word(memory.severity, type(one)) == one for one in CONTENT[member])


def _shown_in(report: str, private: str) -> Evidence:
    document = Sections(report)
    if document.find(RED_BEFORE) is not None:
        old = document.section(RED_BEFORE)
        report = report[: old.start] + report[old.end :]
    prose = Sections(report).prose()
    return Evidence(
        checks=tuple(dict.fromkeys((*checks_in_text(report), *checks_in_text(private)))),
        failed=max((int(found[1]) for line in prose.splitlines() if (found := _RUN.search(line))), default=0),
        failures=tuple(one.title for one in findings(report) if one.severity.upper() == Verdict.FAIL),
        unmet=_unmet(Sections(report)),
        nothing_to_run=nothing_to_run(report) or nothing_to_run(private),
    )


def _unmet(report: Sections) -> tuple[str, ...]:
    """The rows of its tables of results that say FAIL."""
    tables = [report.table(title) for title in RESULTS if report.find(title) is not None]
    rows = [row.cells for table in tables if table is not None for row in table.rows]
    return tuple(_spoken(cells) for cells in rows if any(cell.strip("*_` ").upper() == Verdict.FAIL for cell in cells))


def _spoken(cells: Sequence[str]) -> str:
    return ", ".join(filter(None, cells))


def _grave(member: str, report: str, memory: MemoryFile) -> tuple[str, ...]:
    """Findings that do not go with a clean verdict: in the report by their headings, in the memory by their first
    word."""
    words = {one.casefold() for one in GRAVE[member]}
    written = [f"{one.severity}: {one.title}" for one in findings(report) if one.severity.casefold() in words]
    led = ((text, _LEADING.match(text)) for text in memory.findings)
    remembered = [text for text, found in led if found and found[1].casefold() in words]
    return tuple(dict.fromkeys(written or remembered))
