"""What a report says in marks instead of sentences: a label with one word behind it, a cell of a column of results, a
box that is not ticked (EV-01).

Such a mark is about what its label names.  What stands under a heading about the time before, or about what is left for
later, speaks against nobody; nor does what is quoted or code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.contracts.meant import row_agrees, shows_behaviour
from interlock.contracts.structure import with_pipes
from interlock.contracts.words import FAILED, FAILED_ALONE, denies, is_open
from interlock.documents import Sections

_LABEL = (
    r"(?:overall )?(?:status|result|outcome|verdict|conclusion|state)|(?:(?:unit|integration|e2e|end-to-end|acceptance"
    r"|regression|smoke|all|the)[ -])?(?:tests?|suites?|test (?:suite|run|results?|status))|unit|integration|e2e|build"
    r"|lint|linter|typecheck|type check|types|ci|pipeline|coverage|checks?|quality|compile|compilation"
)
_QUESTION = r"(?:all )?(?:tests? |checks? |criteria )?(?:pass(?:ed|es|ing)?|met|ok|green|satisfied)"
_BEGINS, _SET = r"[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?", "[*_`]{0,3}"
_LABELLED = re.compile(rf"{_BEGINS}{_SET}({_LABEL}){_SET}[ \t]*(?::|=|->|\u2192|\u2014){_SET}[ \t]*(.+)", re.IGNORECASE)
_ASKED = re.compile(rf"{_BEGINS}{_SET}({_QUESTION}){_SET}[ \t]*[:?=]{_SET}[ \t]*(.+)", re.IGNORECASE)
_COLUMN = re.compile(r"status|results?|outcome|verdict|pass(?:ed|/fail)?\??|met\??|ok\??|state", re.IGNORECASE)
_BOX = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[ ?\][ \t]+(\S.*)")
_ELSEWHERE = re.compile(
    r"before|baseline|previous|earlier|history|follow|next|later|optional|out of scope|future|suggest|recommend|nice to"
    r"|remark|note|template|example|legend|expected|reproduc"
    r"|not (?:applicable|in scope)|ideas?\b|backlog|(?:possible|further) improvement"
    r"|known limit",
    re.IGNORECASE,
)
"""In a heading: what is below it is not about the work as it is now."""
_LATER = r"(?:optional|future(?: work)?|follow-?\s?up|out of scope|n/?a|not applicable|nice to have)"
_FOR_LATER = re.compile(
    rf"[*_]*(?:{_LATER}[*_]*:|[(\[]{_LATER}[)\]])"
    rf"|.*[(\[](?:{_LATER}[)\]]|(?:out of scope|not part of|not in scope)\b).*",
    re.IGNORECASE,
)
"""Of a box: by its own words it is not about this work."""
_POINTS = re.compile(r"criteri|acceptance|requirement|task|check", re.IGNORECASE)
"""In a heading: what is below it is judged point by point, and one that is open is not met."""
_TRIM = " \t*_`|.!"


def failed_marks(text: str) -> tuple[str, ...]:
    """The marks of a report that say that something failed, each as it stands there."""
    return tuple(dict.fromkeys(said for part in _parts(text) for said in _failed(part)))


def open_boxes(text: str) -> tuple[str, ...]:
    """What has a box in a report that is not ticked."""
    boxes = (_BOX.fullmatch(row) for part in _parts(text) for row in part.rows)
    return tuple(dict.fromkeys(" ".join(box[1].split()) for box in boxes if box and not _FOR_LATER.match(box[1])))


@dataclass(frozen=True)
class _Part:
    title: str
    rows: list[str]


def _parts(text: str) -> Iterator[_Part]:
    """The parts of a report that are about the work as it is now."""
    prose = with_pipes(Sections(text).prose())
    document = Sections(prose)
    starts = [section.start for section in document.sections]
    yield _Part("", prose[: starts[0] if starts else len(prose)].splitlines())
    again = 0
    for section in document.sections:
        if section.start >= again and _ELSEWHERE.search(section.title):
            again = section.end
        if section.start >= again:
            yield _Part(section.title, prose[section.body_start : section.own_end].splitlines())


def _failed(part: _Part) -> Iterator[str]:
    columns: list[str] = []
    points = _POINTS.search(part.title) is not None
    for row in part.rows:
        if row.lstrip()[:1] == "|":
            cells = [cell.strip(_TRIM) for cell in row.strip().strip("|").split("|")]
            yield from _in_row(columns, cells, points)
            columns = columns or cells
            continue
        columns = []
        if ((found := _LABELLED.fullmatch(row)) and _is_bad(found[2])) or (
            (found := _ASKED.fullmatch(row)) and denies(found[2].strip(_TRIM))
        ):
            yield f"{found[1]}: {found[2].strip(_TRIM)}"


def _in_row(columns: list[str], cells: list[str], points: bool) -> Iterator[str]:
    """The cells of a row that say so, in columns of results."""
    behaves = shows_behaviour(columns)
    later = any(_ELSEWHERE.search(name) for name in columns[:1])
    for at, (name, cell) in enumerate(zip(columns, cells, strict=False)):
        asked = name.casefold().startswith(("pass", "met", "ok"))
        bad = bool(FAILED_ALONE.fullmatch(cell)) if behaves else _is_bad(cell)
        bad = bad and not row_agrees(columns, cells, at)
        if _COLUMN.fullmatch(name) and (bad or (points and not later and is_open(cell)) or (asked and denies(cell))):
            yield ", ".join(filter(None, cells))


def _is_bad(word: str) -> bool:
    return bool(FAILED.fullmatch(word.strip(_TRIM)) or FAILED_ALONE.fullmatch(word.strip(_TRIM)))
