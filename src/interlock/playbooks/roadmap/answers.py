"""What an agent of the roadmap answers: one JSON object, or the same in labelled lines of text.

`complaint` is the contract: what it says goes back to the agent, once.  `claim` hands a judge's verdict and evidence to
the engine, which weighs them.  `read_answer` is for what came through: it takes whatever shape the rest has and keeps
what it can use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

from interlock.contracts import AnswerFormat, Claim, Contract, Evidence, Outcome, checks_in_data, quoted, says_none
from interlock.playbooks.roadmap.forwarding import essence, short_line
from interlock.playbooks.roadmap.labelled import CHECKS, data_of_text
from interlock.playbooks.roadmap.schema import is_whole

WORDS = AnswerFormat(
    {"success": Outcome.OK, "needs_revision": Outcome.REVISE, "blocked": Outcome.BLOCKED}, "success", completion="text"
)
"""How a call of an agent ended, in the agents' words (spec: common.md 3.1)."""


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    SKIPPED = "skipped"
    ALIGNED = "aligned"
    DRIFT = "drift_detected"


CHECK_VALUES: Final = (Verdict.PASS, Verdict.FAIL, Verdict.SKIPPED)
JUDGEMENTS: Final[Mapping[str, tuple[Verdict, ...]]] = {
    "testing": (Verdict.PASS, Verdict.FAIL),
    "review": (Verdict.PASS, Verdict.FAIL),
    "validation": (Verdict.ALIGNED, Verdict.DRIFT),
}
"""The verdicts of each step that judges, the good one first."""


@dataclass(frozen=True)
class FileNote:
    """A file that an agent says it created or changed."""

    path: str
    change: str = "modified"
    note: str = ""


@dataclass(frozen=True)
class ArchitectsDecision:
    """What the Architect decided."""

    adr: str = ""
    interfaces: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepAnswer:
    """An answer in the only form in which anything else sees it. What is to be dropped has no field here (RM-54)."""

    verdict: Verdict | None = None
    files: tuple[FileNote, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    """Commands, numbers of tests, failures cut to their first lines, and the words on lint, types, build, quality."""
    issues: tuple[str, ...] = ()
    decision: ArchitectsDecision | None = None
    findings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    summary: str = ""

    @property
    def errors(self) -> tuple[str, ...]:
        """The exact errors that it reports: failing tests, issues, commands that failed."""
        broken = tuple(check.shown for check in self.evidence.checks if check.red)
        return tuple(dict.fromkeys((*self.evidence.failures, *self.issues, *broken)))

    @property
    def reason(self) -> str:
        """Why an agent could not go on, in its own words."""
        return "; ".join(self.issues or ((self.summary,) if self.summary else self.findings)) or "no reason given"


# -- the contract


def contract_of(step: str, absent: Sequence[str] = (), commands: Sequence[str] = ()) -> Contract:
    """What the dispatch of this step is held to.

    Args:
        absent: checks that the project declares not to have.
        commands: those that the item names; Testing cannot say that there is nothing to run.
    """
    judges = step in JUDGEMENTS
    named = tuple(commands) if step == "testing" else ()
    return Contract(
        answer=answer_format(step, absent),
        claim=partial(claim, step, named=named) if judges else None,
        must_change=step == "implement",
    )


def complaint(step: str, data: Mapping[str, Any], absent: Sequence[str] = ()) -> str | None:
    """What an answer that claims success must be told, or None."""
    if data.get("status") != "success":
        return None
    return "; ".join(_complaints(step, data, absent)) or None


def _complaints(step: str, data: Mapping[str, Any], absent: Sequence[str]) -> Iterator[str]:
    if (allowed := JUDGEMENTS.get(step)) is None:
        return
    verdict, expected = data.get("verdict"), " | ".join(allowed)
    if verdict is None:
        yield f"verdict missing; expected {expected}"
    elif verdict not in allowed:
        yield f"verdict {quoted(verdict)}; expected {expected}"
    if verdict == Verdict.DRIFT and not _texts(data.get("issues")):
        yield "verdict drift_detected without an issue; expected issues: at least one concrete issue"
    if step == "review":
        evidence = data.get("evidence")
        checks = evidence.get("checks") if isinstance(evidence, Mapping) else None
        yield from _about_checks(checks if isinstance(checks, Mapping) else {}, verdict == Verdict.PASS, absent)


def _about_checks(checks: Mapping[str, Any], passes: bool, absent: Sequence[str]) -> Iterator[str]:
    """What is wrong with Review's words; behind a pass stands one for each check, and only absent ones are skipped."""
    for name in CHECKS:
        value = checks.get(name)
        if name not in checks:
            if passes:
                yield f"evidence.checks.{name} is missing; expected {' | '.join(CHECK_VALUES)}"
        elif value not in CHECK_VALUES:
            yield f"evidence.checks.{name} is {quoted(value)}; expected {' | '.join(CHECK_VALUES)}"
        elif passes and value == Verdict.SKIPPED and name not in absent:
            yield f"evidence.checks.{name} is skipped, but it is not declared absent; expected pass | fail"


def claim(
    step: str, data: Mapping[str, Any], _texts_of_artifacts: Mapping[str, str], *, named: tuple[str, ...] = ()
) -> Claim:
    """What a judge says, and what it puts behind it; a criterion that Testing finds unproven speaks against a pass."""
    answer = read_answer(data)
    unmet = answer.issues if step == "testing" else ()
    return Claim(
        passes=answer.verdict is JUDGEMENTS[step][0],
        evidence=replace(answer.evidence, unmet=unmet),
        shows=step != "validation",  # the Architect compares, and runs nothing
        data={"evidence": data.get("evidence")},
        named=named,
    )


EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "research": {"evidence": {"files": []}, "findings": ["What was asked for is known."], "learnings": []},
    "design": {
        "evidence": {"files": []},
        "decision": {"adr": "", "interfaces": ["as they are"], "boundaries": ["none are crossed"]},
    },
    "implement": {"evidence": {"files": [], "verification": []}, "learnings": []},
    "validation": {"verdict": "aligned", "issues": [], "evidence": {"files": []}},
    "testing": {
        "verdict": "pass",
        "evidence": {
            "tests": {"passed": 1, "failed": 0, "failures": []},
            "verification": [{"command": "make test", "exit": 0, "summary": "1 passed"}],
        },
        "issues": [],
    },
    "review": {
        "verdict": "pass",
        "evidence": {
            "checks": dict.fromkeys(CHECKS, "pass"),
            "verification": [{"command": "make lint", "exit": 0, "summary": "no findings"}],
        },
        "issues": [],
    },
}
"""The least that a good answer holds beside its status."""


def answer_format(step: str, absent: Sequence[str] = ()) -> AnswerFormat:
    """How an agent says its verdict at this step, and what the answer must hold."""
    return replace(
        WORDS,
        # A judge that says so has judged negatively; it is told to say `fail`, `drift_detected` or why not.
        unsaid=("needs_revision",) if step in JUDGEMENTS else (),
        check_data=partial(complaint, step, absent=absent),
        from_text=data_of_text,
        example={**EXAMPLES[step], "nextSteps": []},
    )


# -- reading


def read_answer(data: Mapping[str, Any] | None) -> StepAnswer:
    """The usable part of an answer's data; total, whatever it holds."""
    data = data or {}
    evidence = data.get("evidence")
    evidence = evidence if isinstance(evidence, Mapping) else {}
    verdict = data.get("verdict")
    return StepAnswer(
        verdict=Verdict(verdict) if isinstance(verdict, str) and verdict in [*Verdict] else None,
        files=tuple(_files(evidence.get("files"))),
        evidence=_evidence(evidence),
        issues=_texts(data.get("issues")),
        decision=_decision(data.get("decision")),
        findings=(*_texts(data.get("findings")), *_texts(data.get("learnings"))),
        next_steps=_texts(data.get("nextSteps")),
        summary=short_line(data["summary"]) if isinstance(data.get("summary"), str) else "",
    )


def _evidence(said: Mapping[str, Any]) -> Evidence:
    tests, checks, nothing = said.get("tests"), said.get("checks"), said.get("nothingToRun")
    tests = tests if isinstance(tests, Mapping) else {}
    checks = checks if isinstance(checks, Mapping) else {}
    return Evidence(
        checks=checks_in_data(said.get("verification")),
        passed=_count(tests.get("passed")),
        failed=_count(tests.get("failed")),
        failures=tuple(_failures(tests.get("failures"))),
        marks={name: str(checks[name]) for name in CHECKS if name in checks and checks[name] in CHECK_VALUES},
        nothing_to_run=short_line(nothing) if isinstance(nothing, str) else "",
    )


def _texts(value: Any) -> tuple[str, ...]:
    """A text, a list of texts, or a list of objects that carry one, each reduced to what matters."""
    entries = value if isinstance(value, list | tuple) else [value]
    spoken = (essence(_spoken(entry)) for entry in entries)
    return tuple(text for text in spoken if not says_none(text))


def _spoken(entry: Any) -> str:
    match entry:
        case str():
            return entry
        case Mapping():
            place = entry.get("file") or entry.get("path") or entry.get("name")
            text = next((entry[name] for name in _SAID if isinstance(entry.get(name), str)), "")
            return f"{place}: {text}" if place and text else str(place or text)
        case int() | float() if not isinstance(entry, bool):
            return str(entry)
        case _:
            return ""


_SAID: Final = ("message", "issue", "description", "text", "reason", "finding", "summary", "note", "title")


def _count(value: Any) -> int:
    return value if is_whole(value) and value > 0 else 0


def _files(value: Any) -> Iterator[FileNote]:
    for entry in value if isinstance(value, list) else ():
        match entry:
            case str() if entry.strip():
                yield FileNote(entry.strip())
            case {"path": str() as path} if path.strip():
                change, note = entry.get("change"), entry.get("note")
                yield FileNote(
                    path.strip(),
                    short_line(change) if isinstance(change, str) and change.strip() else "modified",
                    short_line(note) if isinstance(note, str) else "",
                )


def _failures(value: Any) -> Iterator[str]:
    for entry in value if isinstance(value, list) else ():
        match entry:
            case {"name": str() as name, "message": str() as message}:
                yield f"{short_line(name)}: {essence(message)}"
            case _:
                yield from _texts(entry)


def _decision(value: Any) -> ArchitectsDecision | None:
    if not isinstance(value, Mapping):
        return ArchitectsDecision(interfaces=texts) if (texts := _texts(value)) else None
    adr = value.get("adr")
    return ArchitectsDecision(
        adr=short_line(adr) if isinstance(adr, str) else "",
        interfaces=tuple(_verbatim(value.get("interfaces"))),
        boundaries=_texts(value.get("boundaries")),
    )


def _verbatim(value: Any) -> Iterator[str]:
    """Interface signatures: kept as they are, over several lines if they are so written."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, str) and entry.strip():
            yield entry.strip()
