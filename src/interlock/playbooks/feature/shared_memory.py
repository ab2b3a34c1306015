"""The shared `memory.md`: one writer, whose every edit is a function from text to text.

Entries are bullets `- [agent, step-N] ...`; whatever else a person wrote into the file stays where it is.  An entry
is live, marked as invalidated, or gone; index rows and lessons are never pruned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

from interlock.documents import Sections
from interlock.playbooks.feature.memory_file import MemoryFile

INDEX = "## Artifact Index"
DECISIONS = "## Recent Decisions"
LESSONS = "## Lessons Learned"
UPDATES = "## Recent Updates"
SECTIONS = ("# Operational Memory", INDEX, DECISIONS, LESSONS, UPDATES)
PASSING = (DECISIONS, UPDATES)
"""Sections whose entries grow old; index and lessons stay."""
ORCHESTRATOR = "orchestrator"

TEMPLATE = """# Operational Memory

## Artifact Index

| Artifact | Key Sections | Last Updated By |
| --- | --- | --- |

## Recent Decisions

<!-- Form: - [agent-name, step-N] What was decided. Rationale: why. -->

## Lessons Learned

<!-- Kept for good. Form: - [agent-name, step-N] issue → resolution. -->

## Recent Updates

<!-- Form: - [agent-name, step-N] Updated `path` — summary. -->
"""
MARK = "[INVALIDATED — "
_ENTRY = re.compile(r"- (?P<mark>\[INVALIDATED — [^\]\n]*\] )?\[(?P<agent>[^\],\n]+), step-(?P<step>\d+)[^\]\n]*\]")
_CONFLICT = re.compile(r"^(<{7}|>{7}|={7})( |$)", re.MULTILINE)


def problem(text: str) -> str | None:
    """Why the text cannot be used as shared memory, or None."""
    document = _sections(text)
    for heading in SECTIONS:
        if document.find(heading) is None:
            return f'section "{heading}" missing'
    if document.table(INDEX) is None:
        return f'section "{INDEX}" has no table'
    return "it has conflict markers" if _CONFLICT.search(text) else None


@lru_cache(maxsize=2048)
def merged(text: str, member: str, step: str, memory: MemoryFile, documents: tuple[str, ...] = ()) -> str:
    """With an agent's private memory taken in: findings as updates, decisions, index rows (`documents` are those it
    was asked for). Its invalidated entries are replaced by this."""
    text = _without(text, lambda agent, _step, marked: marked and agent == member)
    text = _added(text, UPDATES, (f"- [{member}, step-{step}] {one}" for one in memory.findings))
    text = _added(text, DECISIONS, (f"- [{member}, step-{step}] {one}" for one in memory.decisions))
    document = _sections(text)
    known = {row.cells[0] for row in table.rows} if (table := document.table(INDEX)) else set()
    listed = dict(memory.index)
    for path in (*documents, *(path for path in listed if path not in documents)):
        if path in listed or path not in known:
            document = document.put_row((path, listed.get(path, "all"), member), INDEX)
    return document.text


def learned(text: str, member: str, step: str, memory: MemoryFile) -> str:
    """With the lessons of an agent appended."""
    return _added(text, LESSONS, (f"- [{member}, step-{step}] {one}" for one in memory.lessons))


@lru_cache(maxsize=2048)
def noted(text: str, step: str, what: str) -> str:
    """With an update of the orchestrator's own."""
    return _added(text, UPDATES, [f"- [{ORCHESTRATOR}, step-{step}] {what}"])


def pruned(text: str, phase: int) -> str:
    """Without decisions and updates older than the phase before this one."""
    return _without(text, lambda _agent, step, _marked: step < phase - 1)


def invalidated(text: str, members: Collection[str], reason: str) -> str:
    """With the entries of these agents marked."""
    mark = f"- {MARK}{' '.join(reason.split()).replace(']', ')')}] "

    def marking(line: str) -> str:
        found = _ENTRY.match(line)
        return mark + line[2:] if found and not found["mark"] and found["agent"] in members else line

    return _edited(text, marking)


def cleaned(text: str) -> str:
    """Without entries that were invalidated and not replaced."""
    return _without(text, lambda _agent, _step, marked: marked)


def marked_entries(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"- {MARK}")]


def rebuilt(memories: Iterable[tuple[str, str, MemoryFile]]) -> str:
    """A new shared memory from private ones, given as (agent, step, memory)."""
    text = TEMPLATE
    for member, step, memory in memories:
        text = learned(merged(text, member, step, memory), member, step, memory)
    return text


def _added(text: str, section: str, entries: Iterable[str]) -> str:
    """With the entries that are not there yet appended to a section, each in one line."""
    document = _sections(text)
    there = set(document.own_text(section).splitlines())
    new = [line for line in dict.fromkeys(" ".join(entry.split()) for entry in entries) if line not in there]
    return document.append(section, "\n".join(new)).text if new else text


def _without(text: str, goes: Callable[[str, int, bool], bool]) -> str:
    """Without the entries of the passing sections that go; asked with agent, phase and whether it is marked."""

    def keeping(line: str) -> str | None:
        found = _ENTRY.match(line)
        return None if found and goes(found["agent"], int(found["step"]), bool(found["mark"])) else line

    return _edited(text, keeping)


def _edited(text: str, change: Callable[[str], str | None]) -> str:
    """With each line of the passing sections changed, or left out where the change is None."""
    if not _ENTRY.search(text):
        return text
    document = _sections(text)
    spans = sorted((found.body_start, found.own_end) for title in PASSING if (found := document.find(title)))
    parts, at = [], 0
    for start, end in spans:
        lines = (change(line) for line in text[start:end].splitlines(keepends=True))
        parts += [text[at:start], *(line for line in lines if line is not None)]
        at = end
    return "".join([*parts, text[at:]])


@lru_cache(maxsize=512)
def _sections(text: str) -> Sections:
    return Sections(text, "memory.md")
