"""Stage artifacts: what each must contain, what was found when it was opened, and what a judge's says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from interlock.contracts import (
    AllOf,
    ArtifactCheck,
    ArtifactClass,
    Claim,
    Custom,
    Evidence,
    Headings,
    Lines,
    Structure,
    checks_in_text,
    labelled,
    nothing_to_run,
)
from interlock.documents import Document, DocumentState, Sections, one_line
from interlock.playbooks.harness.stages import Judging, Stage, StageContract


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
        reached = _FAILS.index(self.cls) if self.cls in _FAILS else len(QUESTIONS)
        return {question: number < reached for number, question in enumerate(QUESTIONS)}


QUESTIONS = ("exists", "readable", "non_empty", "structured")
_FAILS = (ArtifactClass.MISSING, ArtifactClass.UNREADABLE, ArtifactClass.EMPTY, ArtifactClass.MALFORMED)
"""By what each of them is answered with No."""


def as_left(inspection: Inspection, flaws: Sequence[ArtifactCheck]) -> Inspection:
    """The inspection of what a dispatch left: an artifact that does not count stays out of the tree, and its place says
    nothing of it."""
    flaw = next((one for one in flaws if one.path == inspection.path), None)
    if flaw is None:
        return inspection
    digest = inspection.digest if flaw.cls is ArtifactClass.STALE else ""
    return Inspection(flaw.path, flaw.cls, one_line(flaw.detail), digest)


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


def structure_of(stage: Stage, contract: StageContract, criteria: tuple[str, ...]) -> Structure:
    """The least structure of a stage's artifact; a judge's must always say its result, and all of it."""
    headings = further_headings(stage, contract)
    if stage.judging is None:
        return Headings(headings)
    marks = Custom(partial(judge_problem, stage.judging, criteria=criteria), good_judgement(stage.judging, criteria))
    return AllOf(marks, Headings(headings, title=False)) if headings else marks


def further_headings(stage: Stage, contract: StageContract) -> tuple[str, ...]:
    """What a contract asks for beside the marks of a judge."""
    return tuple(one for one in contract.headings if stage.judging is None or one not in stage.judging.headings)


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


# -- judges


def good_judgement(judging: Judging, criteria: tuple[str, ...]) -> str:
    """A judge's artifact on a task with these criteria that has nothing to complain of."""
    lines = "\n".join(f"{mark.label}: {mark.positive}" for mark in judging.marks)
    boxes = "\n".join(f"- [x] {one.shown}" for one in marked(criteria)) or "- [x] As the task asks."
    met = f"{judging.criteria}\n\n{boxes}\n\n" if judging.criteria else ""
    return f"# Judgement\n\n{lines}\n\n{judging.issues}\n\n- None\n\n{met}## Evidence\n\n- `make test`: exit 0\n"


@dataclass(frozen=True)
class Findings:
    """What a well-formed judge's artifact says."""

    words: tuple[str, ...]
    """The word of each mark; where it says two things, the worse."""
    negative: tuple[str, ...]
    """The marks that are negative, as sentences."""
    issues: tuple[str, ...]
    unmet: tuple[str, ...]

    @property
    def against(self) -> Iterator[str]:
        """All that speaks against a pass, as sentences."""
        yield from self.negative
        if self.issues:
            yield f"blocking issues: {len(self.issues)}"
        if self.unmet:
            yield f"acceptance criteria not met: {len(self.unmet)}"


_BOX = re.compile(r"^[ \t]*[-*+][ \t]+\[(.)\][ \t]*(.*)$", re.MULTILINE)
_BULLET = re.compile(r"^[-*+][ \t]+(.*)$", re.MULTILINE)
_LIKE_TICKS = "\u2713\u2714\u2611\u2705\u00d7\u2715\u2716\u0445\u0425\u03c7\u03a7vVyY"
"""Check marks, and letters that look like an x: what they say is asked for, not guessed."""
_NO_ISSUE = re.compile(
    r"(?:|-|none|nothing|nil|n/?a|not applicable"
    r"|(?:there (?:are|were) )?no(?:ne)?(?: (?:blocking|known|open|remaining|further|outstanding))*"
    r"(?: (?:issues?|problems?|blockers?|findings?))?)"
    r"(?: (?:were |was )?(?:found|identified|known|remain|remaining|noted|detected|observed|open|to report))?"
    r"(?: (?:at this time|so far))?"
)
"""The ways to say that there is no blocking issue; whoever says more has one (EV-09)."""


@lru_cache(maxsize=64)
def judge_problem(judging: Judging, text: str, criteria: tuple[str, ...] = ()) -> str | None:
    """Why a judge's artifact cannot be used: it gives no result, or is positive without a box for each of the
    criteria."""
    prose = Sections(text).prose()
    lines = Lines({mark.label: (mark.positive, mark.negative) for mark in judging.marks})
    if problem := AllOf(lines, Headings(judging.headings)).problem(prose):
        return problem
    issues = _sections(prose, judging.issues)
    if not _BULLET.search(issues) and (not issues.strip() or not _is_none(issues)):
        return f"{judging.issues} has neither bullets nor - None"
    if not judging.criteria:
        return None
    boxes = _sections(prose, judging.criteria)
    if not _BOX.search(boxes):
        return f"{judging.criteria} has no checklist (- [x] or - [ ])"
    loose = next((bullet for bullet in _BULLET.findall(boxes) if not re.match(r"\[.\]", bullet)), None)
    if loose is not None:
        return f"{judging.criteria}: {one_line(loose)[:60]!r} has no box"
    odd = next((f"[{box}] {name}" for box, name in _BOX.findall(boxes) if box in _LIKE_TICKS), None)
    if odd is not None:
        return f"{judging.criteria}: {one_line(odd)[:60]!r} is neither [x] nor [ ]"
    if not _says_pass(judging, prose):
        return None
    named = [name for _box, name in _BOX.findall(boxes)]
    lacking = [one for one in marked(criteria) if not any(_is_about(name, one) for name in named)]
    if not lacking:
        return None
    listed = "; ".join(f"- [ ] {one.shown}" for one in lacking)
    return f"{judging.criteria}: criteria of the task not fully satisfied: no box for {listed}"


@lru_cache(maxsize=64)
def findings_of(judging: Judging, text: str) -> Findings:
    """The findings of a judge's artifact in which `judge_problem` finds no problem."""
    prose = Sections(text).prose()
    boxes = _sections(prose, judging.criteria) if judging.criteria else ""
    bad = {mark.label: mark.negative for mark in judging.marks if mark.negative in labelled(prose, mark.label)}
    return Findings(
        tuple(bad.get(mark.label, mark.positive) for mark in judging.marks),
        tuple(f"{label} is {word}" for label, word in bad.items()),
        tuple(one_line(issue) for issue in _BULLET.findall(_sections(prose, judging.issues)) if not _is_none(issue)),
        tuple(one_line(name) or "(unnamed)" for box, name in _BOX.findall(boxes) if box not in "xX"),
    )


def claim_in(judging: Judging, path: str) -> Callable[[Mapping[str, Any], Mapping[str, str]], Claim]:
    """Reads what the judge's artifact at this path claims, and what it puts behind that (EV-01, EV-02)."""

    def claim(_data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
        text = texts[path]
        found = findings_of(judging, text)
        evidence = Evidence(
            checks_in_text(text), unmet=found.unmet, blocking=found.issues, nothing_to_run=nothing_to_run(text)
        )
        return Claim(_says_pass(judging, Sections(text).prose()), evidence, text=text)

    return claim


def _says_pass(judging: Judging, prose: str) -> bool:
    """Whether all marks are positive, wherever they stand."""
    return all(set(labelled(prose, mark.label)) == {mark.positive} for mark in judging.marks)


def _is_none(bullet: str) -> bool:
    return _NO_ISSUE.fullmatch(_words(bullet).strip("()[]- ").rstrip(".!")) is not None


def _sections(text: str, title: str) -> str:
    document = Sections(text)
    return "\n".join(text[section.body_start : section.end] for section in document.find_all(title))
