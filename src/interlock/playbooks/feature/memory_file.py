"""An agent's private memory, `memory/<agent>.mem.md`: read leniently, since an agent wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from interlock.documents import Sections

LONG = 200
"""Lines beyond which a private memory is worth a warning; only its known sections are read anyway."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NOTHING = frozenset({"", "none", "n/a", "-", "none."})
SECURITY_MARK = re.compile(r"security\s*:", re.IGNORECASE)
"""Begins a finding by which any agent flags a security problem."""


@dataclass(frozen=True)
class MemoryFile:
    """What a private memory says; empty where it says nothing."""

    status: str = ""
    severity: str = ""
    """The word below `## Highest Severity`."""
    medium: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    index: tuple[tuple[str, str], ...] = ()
    """Path and key sections of each artifact it lists."""
    lessons: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    lines: int = 0

    @property
    def security_flags(self) -> tuple[str, ...]:
        return tuple(text for text in self.findings if SECURITY_MARK.match(text))


@lru_cache(maxsize=512)
def parse_memory(text: str) -> MemoryFile:
    """Total: whatever the text, something comes out; replay reads the same texts again and again."""
    document = Sections(text)
    return MemoryFile(
        status=_value(document, "## Status").upper(),
        severity=_value(document, "## Highest Severity"),
        medium=_listed(document, "## Medium Severity"),
        findings=_listed(document, "## Key Findings"),
        decisions=_listed(document, "## Decisions"),
        index=_index(document),
        lessons=_listed(document, "## Lessons Learned"),
        tasks=tuple(
            re.split(r"[\s:,]", one.strip("*`_ "), maxsplit=1)[0] for one in _listed(document, "## Affected Tasks")
        ),
        lines=text.count("\n") + 1,
    )


SECTIONS = ("## Key Findings", "## Decisions", "## Artifact Index", "## Lessons Learned")


def blank_memory(member: str, statuses: str, severities: str, more: Sequence[str] = ()) -> str:
    """The form of a private memory as the brief shows it: nothing in it is filled in.

    Args:
        statuses: the words among which the agent chooses; so with `severities`.
        more: headings of further sections.
    """
    return _form(member, f"<{statuses}>", f"<{severities}>", dict.fromkeys((*SECTIONS, *more), ""))


def sample_memory(
    member: str, severity: str, *, status: str = "DONE", finding: str = "Nothing to add.", more: str = ""
) -> str:
    """A complete private memory, for players; agents are shown a blank one."""
    return _form(member, status, severity, dict.fromkeys(SECTIONS, "") | {SECTIONS[0]: f"\n- {finding}\n{more}"})


def _form(member: str, status: str, severity: str, sections: Mapping[str, str]) -> str:
    head = f"# Memory: {member}\n\n## Status\n\n{status}\n\n## Highest Severity\n\n{severity}\n"
    return "\n".join([head, *(f"{title}\n{text}" for title, text in sections.items())])


def _value(document: Sections, title: str) -> str:
    """The first line below a heading, without comments and emphasis."""
    if document.find(title) is None:
        return ""
    text = _COMMENT.sub("", document.own_text(title)).strip()
    return text.partition("\n")[0].strip().removeprefix("- ").strip("*_` \t")


def _listed(document: Sections, title: str) -> tuple[str, ...]:
    """The bullets below a heading, each in one line; a text without bullets is one of them."""
    if document.find(title) is None:
        return ()
    bullets = [item.text for item in document.items(title)]
    if not bullets:
        bullets = [_COMMENT.sub("", document.own_text(title))]
    lines = (" ".join(_COMMENT.sub("", text).split()) for text in bullets)
    return tuple(line for line in lines if line.casefold() not in _NOTHING)


def _index(document: Sections) -> tuple[tuple[str, str], ...]:
    if document.find("## Artifact Index") is None or (table := document.table("## Artifact Index")) is None:
        return ()
    rows = ((row.cells[0].strip("`"), row.cells[1]) for row in table.rows if len(row.cells) > 1)
    return tuple((path, sections) for path, sections in rows if path and set(path) - set("-: "))
