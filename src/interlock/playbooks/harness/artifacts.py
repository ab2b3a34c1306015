"""Stage artifacts: what each must contain, what was found when it was opened, and what a QA artifact says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any

from interlock.contracts import (
    AllOf,
    ArtifactClass,
    Claim,
    Custom,
    Evidence,
    Headings,
    Lines,
    Structure,
    checks_in_text,
    nothing_to_run,
)
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


def structure_of(stage: Stage, headings: tuple[str, ...] | None, criteria: tuple[str, ...]) -> Structure:
    """The least structure of a stage's artifact; a QA artifact must always say its result, and all of it."""
    required = LEAST_HEADINGS[stage] if headings is None else headings
    if stage is not Stage.QA:
        return Headings(required)
    extra = tuple(heading for heading in required if heading not in LEAST_HEADINGS[Stage.QA])
    qa = Custom(partial(qa_problem, criteria=criteria), good_qa(criteria))
    return AllOf(qa, Headings(extra, title=False)) if extra else qa


# -- criteria


@dataclass(frozen=True)
class Criterion:
    """An acceptance criterion of the task, and the mark by which a box in the QA report is known to be its own."""

    mark: str
    text: str

    @property
    def shown(self) -> str:
        return self.text if self.text.startswith(self.mark) else f"{self.mark}: {self.text}"


_OWN_MARK = re.compile(r"(?:AC|C|R|FR|NFR|REQ)-?\d+(?:\.\d+)*(?=[\s:.)])|[A-Z]{1,4}-?\d+(?:\.\d+)*(?=[:)])")
_MARKUP = str.maketrans("", "", "*_`\"'")


def marked(criteria: tuple[str, ...]) -> tuple[Criterion, ...]:
    """The criteria with their own marks, if all of them have one, or else numbered AC1, AC2, ..."""
    own = [found[0] for text in criteria if (found := _OWN_MARK.match(text))]
    marks = own if len(set(own)) == len(criteria) else [f"AC{number}" for number in range(1, len(criteria) + 1)]
    return tuple(Criterion(mark, text) for mark, text in zip(marks, criteria, strict=True))


def _is_about(box: str, criterion: Criterion) -> bool:
    said, wanted = _words(box), _words(criterion.text)
    return re.match(rf"{re.escape(criterion.mark.casefold())}(?![\w-])", said) is not None or wanted in said


def _words(text: str) -> str:
    """A text as it is compared: without marks of emphasis and code, case and full stop."""
    return " ".join(text.translate(_MARKUP).casefold().split()).rstrip(".")


# -- QA


def good_qa(criteria: tuple[str, ...]) -> str:
    """A QA report on a task with these criteria that has nothing to complain of."""
    boxes = "\n".join(f"- [x] {one.shown}" for one in marked(criteria)) or "- [x] As the task asks."
    return f"""\
# QA

{RESULT}: {Validation.PASSED}
{READINESS}: {Readiness.READY}

{ISSUES}

- None

{CRITERIA}

{boxes}

## Evidence

- `make test`: exit 0
"""


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
_NO_ISSUE = re.compile(
    r"(?:|-|none|nothing|nil|n/?a|not applicable"
    r"|(?:there (?:are|were) )?no(?:ne)?(?: (?:blocking|known|open|remaining|further|outstanding))*"
    r"(?: (?:issues?|problems?|blockers?|findings?))?)"
    r"(?: (?:were |was )?(?:found|identified|known|remain|remaining|noted|detected|observed|open|to report))?"
    r"(?: (?:at this time|so far))?"
)
"""The ways to say that there is no blocking issue; whoever says more has one (EV-09)."""


@lru_cache(maxsize=64)
def qa_problem(text: str, criteria: tuple[str, ...] = ()) -> str | None:
    """Why a QA artifact cannot be judged: it gives no result, or is positive without a box for each of the criteria."""
    prose = Sections(text).prose()
    if problem := _LINES.problem(prose) or Headings((ISSUES, CRITERIA)).problem(prose):
        return problem
    issues, boxes = _sections(prose, ISSUES), _sections(prose, CRITERIA)
    if not _BULLET.search(issues) and (not issues.strip() or not _is_none(issues)):
        return f"{ISSUES} has neither bullets nor - None"
    if not _BOX.search(boxes):
        return f"{CRITERIA} has no checklist (- [x] or - [ ])"
    loose = next((bullet for bullet in _BULLET.findall(boxes) if not re.match(r"\[.\]", bullet)), None)
    if loose is not None:
        return f"{CRITERIA}: {one_line(loose)[:60]!r} has no box"
    if not _says_pass(prose):
        return None
    named = [name for _box, name in _BOX.findall(boxes)]
    lacking = [one for one in marked(criteria) if not any(_is_about(name, one) for name in named)]
    if not lacking:
        return None
    listed = "; ".join(f"- [ ] {one.shown}" for one in lacking)
    return f"{CRITERIA}: criteria of the task not fully satisfied: no box for {listed}"


@lru_cache(maxsize=64)
def qa_findings(text: str) -> QaFindings:
    """The findings of a QA artifact in which `qa_problem` finds no problem; where it says two things, the worse."""
    prose = Sections(text).prose()
    criteria = _sections(prose, CRITERIA)
    return QaFindings(
        Validation.ISSUES if Validation.ISSUES in labelled(prose, RESULT) else Validation.PASSED,
        Readiness.BACK if Readiness.BACK in labelled(prose, READINESS) else Readiness.READY,
        tuple(one_line(issue) for issue in _BULLET.findall(_sections(prose, ISSUES)) if not _is_none(issue)),
        tuple(one_line(name) or "(unnamed)" for box, name in _BOX.findall(criteria) if box not in "xX"),
    )


def qa_claim(path: str) -> Callable[[Mapping[str, Any], Mapping[str, str]], Claim]:
    """Reads what the QA artifact at this path claims, and what it puts behind that (EV-01, EV-02)."""

    def claim(_data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
        text = texts[path]
        found = qa_findings(text)
        evidence = Evidence(
            checks_in_text(text), unmet=found.unmet, blocking=found.issues, nothing_to_run=nothing_to_run(text)
        )
        return Claim(_says_pass(Sections(text).prose()), evidence)

    return claim


def _says_pass(prose: str) -> bool:
    """Whether both lines of the result are positive, wherever they stand."""
    return set(labelled(prose, RESULT)) == {Validation.PASSED} and set(labelled(prose, READINESS)) == {Readiness.READY}


def _is_none(bullet: str) -> bool:
    return _NO_ISSUE.fullmatch(_words(bullet).strip("()[]- ").rstrip(".!")) is not None


def _sections(text: str, title: str) -> str:
    document = Sections(text)
    return "\n".join(text[section.body_start : section.end] for section in document.find_all(title))


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
