"""Stage artifacts: what each must contain, what was found when it was opened, and what a QA artifact says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from interlock.contracts import AllOf, ArtifactClass, Custom, Headings, Lines, Structure
from interlock.contracts.structure import labelled
from interlock.documents import Document, DocumentState, Sections
from interlock.playbooks.harness.escalation import one_line
from interlock.playbooks.harness.lifecycle import Stage


class Validation(StrEnum):
    PASSED = "Passed"
    ISSUES = "Issues Found"


class Readiness(StrEnum):
    READY = "Ready"
    BACK = "Back to Build"


RESULT = "Validation Result"
READINESS = "Approval Readiness"
ISSUES = "## Blocking Issues"
CRITERIA = "## Acceptance Criteria"

LEAST_HEADINGS: Mapping[Stage, tuple[str, ...]] = {
    Stage.SPECIFICATION: ("## Requirements", "## Acceptance Criteria"),
    Stage.DESIGN: ("## Overview", "## Decisions"),
    Stage.PLANNING: ("## Steps",),
    Stage.BUILD: ("## Changes", "## Verification"),
    Stage.QA: (ISSUES, CRITERIA),
}
"""What an artifact has when the contract of its stage says nothing else."""

GOOD_QA = f"""\
# QA

{RESULT}: {Validation.PASSED}
{READINESS}: {Readiness.READY}

{ISSUES}

- None

{CRITERIA}

- [x] As the task asks.
"""


@dataclass(frozen=True)
class Inspection:
    """What was found when an artifact was opened at its canonical path. Only this moves a task on."""

    path: str
    cls: ArtifactClass
    detail: str = ""
    digest: str = ""

    @property
    def ok(self) -> bool:
        return self.cls is ArtifactClass.OK

    @property
    def complaint(self) -> str:
        return ": ".join(filter(None, (self.path, self.cls.value, self.detail)))

    def answers(self) -> dict[str, bool]:
        """The four questions in their order; behind the first No everything is No."""
        reached = _REACHED[self.cls]
        return {question: number < reached for number, question in enumerate(QUESTIONS)}


QUESTIONS = ("exists", "readable", "non_empty", "structured")
_REACHED: Mapping[ArtifactClass, int] = {
    ArtifactClass.MISSING: 0,
    ArtifactClass.UNREADABLE: 1,
    ArtifactClass.EMPTY: 2,
    ArtifactClass.MALFORMED: 3,
    ArtifactClass.STALE: 4,
    ArtifactClass.OK: 4,
}


def inspect(document: Document, structure: Structure | None) -> Inspection:
    """The four checks, in order, on a file that was just opened."""
    if document.state is DocumentState.MISSING:
        return Inspection(document.path, ArtifactClass.MISSING)
    if document.state is not DocumentState.OK:
        return Inspection(document.path, ArtifactClass.UNREADABLE, one_line(document.problem or ""))
    if not document.text.strip():
        return Inspection(document.path, ArtifactClass.EMPTY, digest=document.digest)
    if structure is not None and (problem := structure.problem(document.text)) is not None:
        return Inspection(document.path, ArtifactClass.MALFORMED, problem, document.digest)
    return Inspection(document.path, ArtifactClass.OK, digest=document.digest)


def structure_of(stage: Stage, headings: tuple[str, ...] | None) -> Structure:
    """The least structure of a stage's artifact; a QA artifact must always say its result."""
    required = LEAST_HEADINGS[stage] if headings is None else headings
    if stage is not Stage.QA:
        return Headings(required)
    extra = tuple(heading for heading in required if heading not in LEAST_HEADINGS[Stage.QA])
    qa = Custom(qa_problem, GOOD_QA)
    return AllOf(qa, Headings(extra, title=False)) if extra else qa


# -- QA


@dataclass(frozen=True)
class QaFindings:
    """What a well-formed QA artifact says."""

    validation: Validation
    readiness: Readiness
    issues: tuple[str, ...]
    unmet: tuple[str, ...]


_LINES = Lines({RESULT: tuple(Validation), READINESS: tuple(Readiness)})
_BOX = re.compile(r"^[ \t]*[-*+][ \t]+\[(.)\][ \t]*(.*)$", re.MULTILINE)
_BULLET = re.compile(r"^[-*+][ \t]+(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@lru_cache(maxsize=64)
def qa_problem(text: str) -> str | None:
    """Why a QA artifact cannot be judged; without a result it is never a positive one."""
    prose = _prose(text)
    if problem := _LINES.problem(prose) or Headings((ISSUES, CRITERIA)).problem(prose):
        return problem
    issues, criteria = _sections(prose, ISSUES), _sections(prose, CRITERIA)
    if not _BULLET.search(issues):
        return f"{ISSUES} has neither bullets nor - None"
    if not _BOX.search(criteria):
        return f"{CRITERIA} has no checklist (- [x] or - [ ])"
    loose = next((bullet for bullet in _BULLET.findall(criteria) if not re.match(r"\[.\]", bullet)), None)
    return None if loose is None else f"{CRITERIA}: {one_line(loose)[:60]!r} has no box"


@lru_cache(maxsize=64)
def qa_findings(text: str) -> QaFindings:
    """The findings of a QA artifact in which `qa_problem` finds no problem; where it says two things, the worse."""
    prose = _prose(text)
    negative = Validation.ISSUES in labelled(prose, RESULT)
    back = Readiness.BACK in labelled(prose, READINESS)
    criteria = _sections(prose, CRITERIA)
    return QaFindings(
        Validation.ISSUES if negative else Validation.PASSED,
        Readiness.BACK if back else Readiness.READY,
        tuple(one_line(issue) for issue in _BULLET.findall(_sections(prose, ISSUES)) if not _is_none(issue)),
        tuple(one_line(name) or "(unnamed)" for box, name in _BOX.findall(criteria) if box not in "xX"),
    )


def _is_none(bullet: str) -> bool:
    return bullet.strip().rstrip(".").casefold() in ("none", "")


def _sections(text: str, title: str) -> str:
    document = Sections(text)
    return "\n".join(text[section.body_start : section.end] for section in document.find_all(title))


def _prose(text: str) -> str:
    """The text without code and comments: what an example in a fence says is not the result."""
    lines = text.split("\n")
    for fence in Sections(text).fences():
        end = fence.line + fence.content.count("\n") + 1
        lines[fence.line - 1 : end] = [""] * len(lines[fence.line - 1 : end])
    return _COMMENT.sub("", "\n".join(lines))


def qa_lines(found: QaFindings) -> Iterator[str]:
    """The marks of a QA artifact that are negative, as sentences."""
    if found.validation is Validation.ISSUES:
        yield f"{RESULT} is {found.validation}"
    if found.readiness is Readiness.BACK:
        yield f"{READINESS} is {found.readiness}"
    if found.issues:
        yield f"blocking issues: {len(found.issues)}"
    if found.unmet:
        yield f"acceptance criteria not met: {len(found.unmet)}"
