"""What judges find, and what they claim of it.

Findings are `### <severity>: <title>` in their documents, with the files and tasks they concern.  A verdict counts as
far as its own evidence goes: those who run things show commands with their exit status, or say why there is nothing to
run; of those who read, a clean verdict over a grave finding of their own is what speaks against them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from interlock.contracts import Claim, Evidence, checks_in_text, nothing_to_run, says_none
from interlock.documents import Sections
from interlock.playbooks.feature.members import PROOF, Member
from interlock.playbooks.feature.memory_file import MemoryFile, parse_memory

_TITLE = re.compile(r"(?P<severity>[A-Za-z]+)\s*:\s*(?P<title>.*)")
RED_BEFORE = "## Red before this feature"
"""What a verifier lists here failed before the feature too, and speaks for nothing."""
RESULTS = ("## Tasks", "## Criteria")
"""Tables in the reports of verifiers, one row for each point that was checked."""
_FIELD = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[*_]{0,2}(Files|Tasks)[*_]{0,2}[ \t]*:[*_]{0,2}(.*)$", re.IGNORECASE | re.MULTILINE
)
_LEADING = re.compile(r"(?:security\s*:\s*)?([A-Za-z]+)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    severity: str
    title: str
    text: str
    """The whole finding, heading included, as it was written."""
    files: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()


@lru_cache(maxsize=512)
def findings(text: str) -> tuple[Finding, ...]:
    """All findings of a document; a heading without a severity is none."""
    found = []
    for section in Sections(text).sections:
        if section.level == 3 and (match := _TITLE.fullmatch(section.title)):
            body = text[section.body_start : section.own_end]
            named = {"files": (), "tasks": ()} | {
                name.lower(): tuple(
                    one.strip("`*_ ") for one in re.split(r"[,\s]+", value.strip()) if one.strip("`*_- ")
                )
                for name, value in _FIELD.findall(body)
            }
            whole = text[section.start : section.own_end].strip()
            found.append(Finding(match["severity"], match["title"], whole, named["files"], named["tasks"]))
    return tuple(found)


def of_severity(text: str, severities: Collection[str]) -> str:
    """The findings of these severities, as they were written."""
    wanted = {one.casefold() for one in severities}
    return joined(one for one in findings(text) if one.severity.casefold() in wanted)


def joined(some: Iterable[Finding]) -> str:
    return "\n\n".join(one.text for one in some)


# -- claims


def claim_of(row: Member, report: str, memory: str) -> Callable[[Mapping[str, Any], Mapping[str, str]], Claim]:
    """How the claim of this judge is read from its report and its private memory, at these paths."""
    words = row.words

    def read(_data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
        said, private = texts.get(report, ""), parse_memory(texts.get(memory, ""))
        content = private.status in ("", "DONE") and not private.medium
        content = content and words.known(private.severity) in words.content
        if row.proves:
            now = _without(said, RED_BEFORE)
            return Claim(content, _shown_in(now, texts.get(memory, "")), text=now)
        return Claim(content, Evidence(blocking=_blocking(words.grave, said, private)), shows=False)

    return read


def _without(report: str, title: str) -> str:
    document = Sections(report)
    found = document.find(title)
    return report if found is None else report[: found.start] + report[found.end :]


def _shown_in(report: str, private: str) -> Evidence:
    return Evidence(
        checks=tuple(dict.fromkeys((*checks_in_text(report), *checks_in_text(private)))),
        failures=tuple(one.title for one in findings(report) if one.severity.upper() == PROOF.worst),
        unmet=_unmet(Sections(report)),
        nothing_to_run=nothing_to_run(report) or nothing_to_run(private),
    )


def _unmet(report: Sections) -> tuple[str, ...]:
    """The rows of its tables of results that say FAIL."""
    tables = [report.table(title) for title in RESULTS if report.find(title) is not None]
    rows = [row.cells for table in tables if table is not None for row in table.rows]
    failed = [cells for cells in rows if any(cell.strip("*_` ").upper() == PROOF.worst for cell in cells)]
    return tuple(", ".join(filter(None, cells)) for cells in failed)


def _blocking(grave: Collection[str], report: str, memory: MemoryFile) -> tuple[str, ...]:
    """Findings that do not go with a clean verdict: in the report by their headings, by the first word of a line or in
    a column of severities; in the memory by their first word."""
    words = {one.casefold() for one in grave}
    written = [f"{severity}: {title}" for severity, title in _graded(report) if severity.casefold() in words]
    led = ((text, _LEADING.match(text)) for text in memory.findings)
    remembered = [text for text, found in led if found and found[1].casefold() in words]
    return tuple(dict.fromkeys(written or remembered))


_LED = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]+|[-*+][ \t]+|\d+[.)][ \t]+)?[*_`\[(]{0,3}([A-Za-z]+)[*_`\])]{0,3}[ \t]*:[*_` \t]*(\S.*)"
)
_NUMBER = re.compile(r"\d+|0[,;].*")
_NO_FINDINGS = re.compile(r"\b(?:severity (?:scale|levels?)|legend|rubric)\b|^resolved\b", re.IGNORECASE)
"""In a heading: below it are words that are explained, or findings that were mended."""


def _graded(report: str) -> Iterator[tuple[str, str]]:
    """Everything in a report that has a word before it, or in a column of severities beside it; numbers are none."""
    severities: list[int] = []
    for row in _about_now(report).splitlines():
        if row.lstrip()[:1] != "|":
            severities = []
            if (found := _LED.fullmatch(row)) and not _counts(found[2]):
                yield found[1], found[2].strip("*_` ")
            continue
        cells = [cell.strip("*_` ") for cell in row.strip().strip("|").split("|")]
        for place in severities:
            rest = [cell for at, cell in enumerate(cells) if at != place]
            if place < len(cells) and not all(map(_counts, rest)):
                yield cells[place], ", ".join(filter(None, rest))
        names = [cell.casefold() for cell in cells]
        if not severities and "meaning" not in names:
            severities = [at for at, name in enumerate(names) if name == "severity"]


def _about_now(report: str) -> str:
    """The report's own words, without the sections that list no findings of it."""
    prose = Sections(report).prose()
    sections = [one for one in Sections(prose).sections if _NO_FINDINGS.search(one.title)]
    for section in reversed(sections):
        prose = prose[: section.start] + prose[max(section.end, section.start) :]
    return prose


def _counts(text: str) -> bool:
    """Whether it says how many there are, or that there are none."""
    return says_none(text) or _NUMBER.fullmatch(text.strip()) is not None
