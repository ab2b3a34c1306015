"""The shared `memory.md`: one writer, whose every edit is a pure function of the text as it stands.

Entries are bullets `- [agent, step-N] ...` below `Recent Decisions`, `Lessons Learned` and `Recent Updates`, and rows
of the index.  All else in the file is a person's, and stays; so does an entry of ours that they changed or took away,
since nothing is ever added but what is new.  An edit that was made already changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from interlock.documents.markdown import cells, markdown
from interlock.playbooks.feature.answers import listed
from interlock.playbooks.feature.members import EVERYBODY

INDEX, DECISIONS = "## Artifact Index", "## Recent Decisions"
LESSONS, UPDATES = "## Lessons Learned", "## Recent Updates"
SECTIONS = {
    INDEX: "| Artifact | Key Sections | Last Updated By |",
    DECISIONS: "<!-- Format: - [agent-name, step-N] Decision summary. Rationale: ... -->",
    LESSONS: "<!-- Never pruned. Format: - [agent-name, step-N] Issue → Resolution. -->",
    UPDATES: "<!-- Format: - [agent-name, step-N] Updated `artifact-path` — summary. -->",
}
PASSING = (DECISIONS, UPDATES)
"""Whose entries grow old; index and lessons stay (FT-115)."""
_NAMES = "|".join(["orchestrator", *(one.row.agent for one in EVERYBODY)])
_ENTRY = re.compile(
    r"- (?P<mark>\[INVALIDATED — [^\]\n]*\] )?"
    rf"\[(?P<agent>(?:{_NAMES})(?:-[^\],\n]+)?), step-(?P<phase>\d+)[^\]\n]*\] .*"
)
"""An entry of ours; a person's in the same form has another name, and does not grow old."""


class Shared:
    """The shared memory by lines; a section that is gone is put back (FT-10)."""

    def __init__(self, text: str) -> None:
        self.lines = (text if text.strip() else "# Operational Memory").rstrip("\n").split("\n")
        for title, body in SECTIONS.items():
            if title not in map(str.rstrip, self.lines):
                self.lines += ["", title, "", body]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n") + "\n"

    def span(self, title: str) -> tuple[int, int]:
        """Of a section's own lines: the first, and that behind the last one with words."""
        begin = end = [line.rstrip() for line in self.lines].index(title) + 1
        for at in range(begin, len(self.lines)):
            if self.lines[at].startswith("#"):
                break
            end = at + 1 if self.lines[at].strip() else end
        return begin, end

    def passing(self) -> list[tuple[int, re.Match[str]]]:
        """The entries that grow old, each with its place."""
        places = [at for title in PASSING for at in range(*self.span(title))]
        return [(at, found) for at in places if (found := _ENTRY.fullmatch(self.lines[at]))]

    def add(self, title: str, agent: str, step: str, words: str) -> None:
        """One entry more, in one line, if it is not there."""
        begin, end = self.span(title)
        entry = f"- [{agent}, step-{step}] {' '.join(words.split())}"
        if entry in self.lines[begin:end]:
            return
        if self.lines[end : end + 2] == ["", ""]:  # where others stood that were dropped
            end += 1
        joins = not self.lines[end - 1] or self.lines[end - 1].startswith("- ")
        self.lines[end:end] = [entry] if joins else ["", entry]

    def index(self, artifact: str, parts: str, agent: str) -> None:
        """The row of an artifact (FT-09): in place of the one that it has."""
        row = f"| {' | '.join(' '.join(one.split()).replace('|', chr(92) + '|') for one in (artifact, parts, agent))} |"
        begin, end = self.span(INDEX)
        at = next((at for at in range(begin, end) if cells(self.lines[at])[:1] == (artifact,)), None)
        self.lines[end if at is None else at : end if at is None else at + 1] = [row]

    def drop(self, goes: Callable[[re.Match[str]], bool]) -> None:
        """Without the entries that go."""
        gone = {at for at, found in self.passing() if goes(found)}
        self.lines = [line for at, line in enumerate(self.lines) if at not in gone]

    # --- edits

    def merge(self, agent: str, step: str, memory: str, *, lessons: bool = False) -> None:
        """With an agent's private memory: findings as updates, decisions, index rows, lessons of task agents (FT-09,
        FT-116). What of it was marked is replaced by this."""
        page = markdown(memory)
        self.drop(lambda found: bool(found["mark"]) and found["agent"] == agent)
        own = {"Key Findings": UPDATES, "Decisions": DECISIONS, **({"Lessons Learned": LESSONS} if lessons else {})}
        for title, section in own.items():
            for words in listed(page, title):
                self.add(section, agent, step, words)
        for row in page.rows("Artifact Index")[1:]:
            path, parts = (*row.cells, "")[:2]
            self.index(path.strip("`"), parts, agent)

    def log(self, step: str, words: str) -> None:
        """With an update of the orchestrator's own."""
        self.add(UPDATES, "orchestrator", step, words)

    def prune(self, phase: int, old: Collection[str] = ()) -> None:
        """Without decisions and updates older than the phase before this one, and those of an earlier run (FT-113)."""
        self.drop(lambda found: int(found["phase"]) < phase - 1 or found[0] in old)

    def invalidate(self, agents: Collection[str], reason: str) -> None:
        """With the entries of these agents marked, behind `- ` (FT-117)."""
        for at, found in self.passing():
            if not found["mark"] and found["agent"] in agents:
                why = " ".join(reason.split()).replace("]", ")")
                self.lines[at] = f"- [INVALIDATED — {why}] {self.lines[at][2:]}"

    def clean(self) -> None:
        """Without what was marked and not replaced."""
        self.drop(lambda found: bool(found["mark"]))


Edit = Callable[[Shared], None]


def edited(text: str, edits: Sequence[Edit]) -> str:
    shared = Shared(text)
    for edit in edits:
        edit(shared)
    return shared.text


def known_entries(text: str) -> list[str]:
    """The entries that grow old, as they stand: of an earlier run, where this one only begins."""
    return sorted(found[0] for _, found in Shared(text).passing())
