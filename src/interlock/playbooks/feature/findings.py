"""Findings in the documents of judges: `### <severity>: <title>`, with the files and tasks they concern."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from interlock.documents import Sections

_TITLE = re.compile(r"(?P<severity>[A-Za-z]+)\s*:\s*(?P<title>.*)")
_FIELD = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[*_]{0,2}(Files|Tasks)[*_]{0,2}[ \t]*:[*_]{0,2}(.*)$", re.IGNORECASE | re.MULTILINE
)


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
