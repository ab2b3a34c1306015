"""The shared `memory.md`: one writer, whose every edit is a function from memory to memory.

Entries are bullets `- [agent, step-N] ...`; whatever else a person wrote into the file stays where it is.  An entry
is live, marked as invalidated, or gone; index rows and lessons are never pruned.

The file is kept for good and grows.  So it is taken apart once for any number of edits, and put together once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

from interlock.documents import Document, DocumentState, EditedMeanwhile, Sections
from interlock.engine import Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import document_of, phase
from interlock.playbooks.feature.memory_file import LONG, MemoryFile, parse_memory

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
_CONFLICT = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
"""Not the line between the two sides: that may underline a person's heading."""
_COLUMNS = 3
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
SMALL = 50_000
P = ParamSpec("P")
T = TypeVar("T")


def remembered(function: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Results for many small texts, since a rehearsal sees the same ones again and again, but only for two large ones:
    the one that was read and the one that was written."""
    small, large = lru_cache(maxsize=1024)(function), lru_cache(maxsize=2)(function)

    @wraps(function)
    def found(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return (small if len(text) <= SMALL else large)(text, *args, **kwargs)  # type: ignore[arg-type]

    return found


@remembered
def problem(text: str) -> str | None:
    """Why the text cannot be used as shared memory, or None."""
    document = _sections(text)
    for heading in SECTIONS:
        if document.find(heading) is None:
            return f'section "{heading}" missing'
    table = Sections(document.own_text(INDEX)).table()
    if table is None:
        return f'section "{INDEX}" has no table'
    if len(table.columns) != _COLUMNS:
        return f'the table of section "{INDEX}" does not have {_COLUMNS} columns'
    return "it has conflict markers" if _CONFLICT.search(text) else None


@dataclass(frozen=True)
class Shared:
    """The shared memory taken apart: the lines of the sections in which entries live, and what stands around them."""

    own: dict[str, tuple[str, ...]]
    """The own lines of each section, in the order of the file."""
    around: tuple[str, ...]
    """What stands before each of them, and behind the last."""

    @classmethod
    def of(cls, text: str) -> Shared:
        document = _sections(text)
        found = {title: document.section(title) for title in SECTIONS[1:]}
        own: dict[str, tuple[str, ...]] = {}
        around, at = [], 0
        for title, section in sorted(found.items(), key=lambda item: item[1].start):
            start, end = section.body_start, section.own_end
            own[title] = tuple(_LINE.findall(text[start:end]))
            # A heading without a line break is the end of the file; what comes below it needs one.
            around.append(text[at:start] if text[start - 1] == "\n" else f"{text[at:start]}\n")
            at = end
        return cls(own, (*around, text[at:]))

    @property
    def text(self) -> str:
        own = ["".join(lines) for lines in self.own.values()]
        return "".join(part for pair in zip(self.around, [*own, ""], strict=True) for part in pair)

    def with_lines(self, section: str, lines: Iterable[str]) -> Shared:
        return replace(self, own={**self.own, section: tuple(lines)})


SharedEdit = Callable[[Shared], Shared]


def edited(text: str, *edits: SharedEdit) -> str:
    """The text after these edits; DocumentInvalid if they would change what its sections are."""
    shared = Shared.of(text)
    for edit in edits:
        shared = edit(shared)
    new = shared.text
    if [one.heading for one in _sections(new).sections] != [one.heading for one in _sections(text).sections]:
        raise DocumentInvalid("memory.md: the new text would change its sections", path="memory.md")
    return new


# -- edits


def merged(shared: Shared, member: str, step: str, memory: MemoryFile, documents: Collection[str] = ()) -> Shared:
    """With an agent's private memory taken in: findings as updates, decisions, index rows (`documents` are those it
    was asked for). Its invalidated entries are replaced by this."""
    shared = _without(shared, lambda agent, _step, marked: marked and agent == member)
    shared = _added(shared, UPDATES, (f"- [{member}, step-{step}] {one}" for one in memory.findings))
    shared = _added(shared, DECISIONS, (f"- [{member}, step-{step}] {one}" for one in memory.decisions))
    index = _indexed("".join(shared.own[INDEX]), member, memory.index, tuple(documents))
    return shared.with_lines(INDEX, _LINE.findall(index))


def learned(shared: Shared, member: str, step: str, memory: MemoryFile) -> Shared:
    """With the lessons of an agent appended."""
    return _added(shared, LESSONS, (f"- [{member}, step-{step}] {one}" for one in memory.lessons))


def noted(shared: Shared, step: str, what: str) -> Shared:
    """With an update of the orchestrator's own, also where one with the same words is there (EV-11)."""
    return _added(shared, UPDATES, [f"- [{ORCHESTRATOR}, step-{step}] {what}"], again=True)


def pruned(shared: Shared, phase: int) -> Shared:
    """Without decisions and updates older than the phase before this one."""
    return _without(shared, lambda _agent, step, _marked: step < phase - 1)


def invalidated(shared: Shared, members: Collection[str], reason: str) -> Shared:
    """With the entries of these agents marked."""
    mark = f"- {MARK}{' '.join(reason.split()).replace(']', ')')}] "

    def marking(line: str) -> str:
        found = _ENTRY.match(line)
        return mark + line[2:] if found and not found["mark"] and found["agent"] in members else line

    for section in PASSING:
        shared = shared.with_lines(section, map(marking, shared.own[section]))
    return shared


def cleaned(shared: Shared) -> Shared:
    """Without entries that were invalidated and not replaced."""
    return _without(shared, lambda _agent, _step, marked: marked)


def marked_entries(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"- {MARK}")]


def rebuilt(memories: Iterable[tuple[str, str, MemoryFile]]) -> str:
    """A new shared memory from private ones, given as (agent, step, memory)."""
    shared = Shared.of(TEMPLATE)
    for member, step, memory in memories:
        shared = learned(merged(shared, member, step, memory), member, step, memory)
    return shared.text


def _added(shared: Shared, section: str, entries: Iterable[str], *, again: bool = False) -> Shared:
    """With the entries that are not there yet (`again`: all of them) added below the section's last line, each in one
    line."""
    lines = shared.own[section]
    there = set() if again else {line.rstrip("\r\n") for line in lines}
    new = [f"{line}\n" for line in dict.fromkeys(" ".join(entry.split()) for entry in entries) if line not in there]
    if not new:
        return shared
    last = next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip()), 0)
    before = [*lines[:last]]
    if before and not before[-1].endswith("\n"):
        before[-1] += "\n"
    return shared.with_lines(section, [*before, *new, *lines[last:]])


def _without(shared: Shared, goes: Callable[[str, int, bool], bool]) -> Shared:
    """Without the entries of the passing sections that go; asked with agent, phase and whether it is marked."""

    def stays(line: str) -> bool:
        found = _ENTRY.match(line)
        return not (found and goes(found["agent"], int(found["step"]), bool(found["mark"])))

    for section in PASSING:
        shared = shared.with_lines(section, filter(stays, shared.own[section]))
    return shared


# -- structure


@remembered
def _sections(text: str) -> Sections:
    return Sections(text, "memory.md")


@remembered
def _indexed(index: str, member: str, listed: tuple[tuple[str, str], ...], documents: tuple[str, ...]) -> str:
    """The own text of the index with rows for what an agent lists, and for documents that have none yet."""
    document, said = Sections(index), dict(listed)
    known = {row.cells[0] for row in table.rows} if (table := document.table()) else set()
    for path in (*documents, *(path for path in said if path not in documents)):
        if path in said or path not in known:
            document = document.put_row((path, said.get(path, "all"), member))
    return document.text


# -- in a run

EDITS = 10
"""Times that the shared memory is read again because a person edited it in between."""
Memories = Mapping[str, MemoryFile | None]


async def private_memories(run: Run, at: Layout, members: Iterable[str]) -> dict[str, MemoryFile | None]:
    """The private memories as they are on disk now; None where there is none that can be read."""
    found: dict[str, MemoryFile | None] = {}
    for member in members:
        document = await run.read(at.mem(member))
        memory = parse_memory(document.text) if document.state is DocumentState.OK else None
        if memory is not None and memory.lines > LONG:
            run.warn(f"{at.short(document.path)} has {memory.lines} lines; only its sections are read")
        found[member] = memory
    return found


class SharedMemory:
    """The shared memory of a run, which nobody else writes. Trouble with it never stops the run.

    Args:
        available: the documents that agents have produced so far.
    """

    def __init__(self, run: Run, at: Layout, available: Collection[str]) -> None:
        self._run, self._at, self._available = run, at, available
        self.works = True

    async def begin(self) -> None:
        """One to begin with; one that is there, or that somebody makes meanwhile, is gone on with."""
        if (await self._run.read(self._at.memory)).state is DocumentState.MISSING:
            try:
                await self._run.write(self._at.memory, TEMPLATE, expect="")
                return
            except EditedMeanwhile:
                pass
        await self._usable()

    async def merge(
        self, memories: Memories, *notes: str, step: str = "", prune: int | None = None, lessons: bool = False
    ) -> None:
        """Take private memories in, in declared order, behind the orchestrator's own `notes` of a step."""
        edits: list[SharedEdit] = [partial(noted, step=step, what=what) for what in notes]
        for member, memory in memories.items():
            if memory is None:
                self._run.warn(f"memory/{member}.mem.md is missing")
                continue
            of, document = phase(member), document_of(member)
            paths = (document,) if document and self._at.at(document) in self._available else ()
            edits.append(partial(merged, member=member, step=of, memory=memory, documents=paths))
            if lessons:
                edits.append(partial(learned, member=member, step=of, memory=memory))
        if prune is not None:
            edits.append(partial(pruned, phase=prune))
        await self._edit(*edits)
        self._run.note("memory.merged", members=[name for name, memory in memories.items() if memory], pruned=prune)

    async def invalidate(self, members: Collection[str], reason: str) -> None:
        await self._edit(partial(invalidated, members=frozenset(members), reason=reason))
        self._run.note("memory.invalidated", members=list(members), reason=reason)

    async def clean(self) -> None:
        """Remove what stayed invalidated; no mark is left behind."""
        await self._edit(cleaned)
        self._run.note("memory.cleaned")

    async def _edit(self, *edits: SharedEdit) -> None:
        for _ in range(EDITS):
            document = await self._usable()
            if document is None or (text := self._edited(document.text, edits)) == document.text:
                return
            try:
                await self._run.write(self._at.memory, document.encode(text), expect=document.digest)
                return
            except EditedMeanwhile:
                continue
        self._run.note("memory.warning", text="memory.md is being edited all the time; this update is left out")

    def _edited(self, text: str, edits: Iterable[SharedEdit]) -> str:
        """The text with all edits that it can take; what a person wrote may leave no place for one."""
        try:
            return edited(text, *edits)
        except DocumentInvalid:
            pass
        for edit in edits:
            try:
                text = edited(text, edit)
            except DocumentInvalid as trouble:
                self._warn(f"memory.md cannot take an update, which is left out: {trouble.what}")
        return text

    async def _usable(self) -> Document | None:
        """The document, rebuilt if it is damaged; None where the run has to do without."""
        for _ in range(EDITS if self.works else 0):
            document = await self._run.read(self._at.memory)
            if document.state is DocumentState.UNREADABLE and document.position is None:
                self.works = False
                self._warn(f"{document.problem}; going on without shared memory")
                return None
            if document.state is DocumentState.MISSING:
                trouble = "it is missing"
            else:
                trouble = document.problem or problem(document.text) or ""
            if not trouble:
                return document
            await self._rebuild(document, trouble)
        return None

    async def _rebuild(self, document: Document, trouble: str) -> None:
        """Make it anew from private memories, unless somebody did so meanwhile."""
        run, at, kept = self._run, self._at, ""
        if document.state is not DocumentState.MISSING:
            kept = f", old copy kept at {await run.set_aside(at.memory)}"
        names = [path.rsplit("/", 1)[-1].removesuffix(".mem.md") for path in await run.list(at.memories, "*.mem.md")]
        memories = await private_memories(run, at, names)
        text = rebuilt((name, phase(name), memory) for name, memory in memories.items() if memory is not None)
        told = f"rebuilt{kept}"
        try:
            await run.write(at.memory, text, expect="")
        except EditedMeanwhile:
            told = f"written anew by somebody else{kept}"
        self._warn(f"memory.md unreadable: {trouble}; {told}")

    def _warn(self, text: str) -> None:
        self._run.note("memory.warning", text=text)
        self._run.warn(text)
