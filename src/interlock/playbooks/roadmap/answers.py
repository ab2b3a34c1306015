"""What an agent of the roadmap answers: one JSON object, or the same in labelled lines of text.

`complaint` is the contract: what it says goes back to the agent, once.  `read_answer` is for what came through: it
takes whatever shape the rest has and keeps what it can use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

from interlock.contracts import ROADMAP, AnswerFormat
from interlock.playbooks.roadmap.forwarding import essence, one_line
from interlock.playbooks.roadmap.labelled import CHECKS, data_of_text
from interlock.playbooks.roadmap.schema import is_whole, shown


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
"""The verdicts of each step that judges."""


@dataclass(frozen=True)
class FileNote:
    """A file that an agent says it created or changed."""

    path: str
    change: str = "modified"
    note: str = ""


@dataclass(frozen=True)
class Checked:
    """A verification command that an agent says it ran."""

    command: str
    exit: int | None = None
    summary: str = ""


@dataclass(frozen=True)
class Decision:
    """What the Architect decided."""

    adr: str = ""
    interfaces: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """An answer in the only form in which anything else sees it. What is to be dropped has no field here (RM-54)."""

    verdict: Verdict | None = None
    files: tuple[FileNote, ...] = ()
    passed: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()
    """Failing tests: name and message, the message cut to its first lines."""
    checks: Mapping[str, Verdict] = field(default_factory=dict)
    verification: tuple[Checked, ...] = ()
    remarks: tuple[str, ...] = ()
    """Evidence given in words."""
    issues: tuple[str, ...] = ()
    decision: Decision | None = None
    findings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    summary: str = ""

    @property
    def overall(self) -> Verdict | None:
        return self.verdict if self.verdict in (Verdict.PASS, Verdict.FAIL) else None

    @property
    def has_evidence(self) -> bool:
        """Whether anything stands behind the verdict."""
        return bool(self.passed + self.failed or self.checks or self.verification or self.remarks)

    @property
    def errors(self) -> tuple[str, ...]:
        """The exact errors that it reports: failing tests, issues, commands that failed."""
        broken = tuple(
            f"`{one.command}` ended with exit status {one.exit}" + (f": {one.summary}" if one.summary else "")
            for one in self.verification
            if one.exit
        )
        return tuple(dict.fromkeys((*self.failures, *self.issues, *broken)))

    @property
    def reason(self) -> str:
        """Why an agent could not go on, in its own words."""
        return "; ".join(self.issues or ((self.summary,) if self.summary else self.findings)) or "no reason given"


# -- the contract


def complaint(step: str, data: Mapping[str, Any]) -> str | None:
    """What an answer that claims success must be told, or None."""
    if data.get("status") != "success":
        return None
    return next(_complaints(step, data), None)


def _complaints(step: str, data: Mapping[str, Any]) -> Iterator[str]:
    if (allowed := JUDGEMENTS.get(step)) is not None:
        verdict = data.get("verdict")
        expected = " | ".join(allowed)
        if verdict is not None and verdict not in allowed:
            yield f"verdict {shown(verdict)}; expected {expected}"
        if step == "validation" and verdict is None:
            yield f"verdict missing; expected {expected}"
        if verdict == Verdict.DRIFT and not _texts(data.get("issues")):
            yield "verdict drift_detected without an issue; expected issues: at least one concrete issue"
    evidence = data.get("evidence")
    checks = evidence.get("checks") if isinstance(evidence, Mapping) else None
    for name, value in checks.items() if isinstance(checks, Mapping) else ():
        if name in CHECKS and value not in CHECK_VALUES:
            yield f"evidence.checks.{name} is {shown(value)}; expected {' | '.join(CHECK_VALUES)}"


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
        "evidence": {"tests": {"passed": 1, "failed": 0, "failures": []}},
        "issues": [],
    },
    "review": {
        "verdict": "pass",
        "evidence": {"checks": dict.fromkeys(CHECKS, "pass")},
        "issues": [],
    },
}
"""The least that a good answer holds beside its status."""


def answer_format(step: str) -> AnswerFormat:
    """How an agent says its verdict at this step, and what the answer must hold."""
    return replace(
        ROADMAP,
        check_data=partial(complaint, step),
        from_text=data_of_text,
        example={**EXAMPLES[step], "nextSteps": []},
    )


# -- reading


def read_answer(data: Mapping[str, Any] | None) -> Answer:
    """The usable part of an answer's data; total, whatever it holds."""
    data = data or {}
    evidence = data.get("evidence")
    remarks: tuple[str, ...] = ()
    if not isinstance(evidence, Mapping):
        remarks, evidence = _texts(evidence), {}
    tests = evidence.get("tests")
    tests = tests if isinstance(tests, Mapping) else {}
    checks = evidence.get("checks")
    verdict = data.get("verdict")
    return Answer(
        verdict=Verdict(verdict) if isinstance(verdict, str) and verdict in [*Verdict] else None,
        files=tuple(_files(evidence.get("files"))),
        passed=_count(tests.get("passed")),
        failed=_count(tests.get("failed")),
        failures=tuple(_failures(tests.get("failures"))),
        checks={name: Verdict(checks[name]) for name in CHECKS if name in checks and checks[name] in CHECK_VALUES}
        if isinstance(checks, Mapping)
        else {},
        verification=tuple(_checked(evidence.get("verification"))),
        remarks=remarks or _texts(evidence.get("notes")),
        issues=_texts(data.get("issues")),
        decision=_decision(data.get("decision")),
        findings=(*_texts(data.get("findings")), *_texts(data.get("learnings"))),
        next_steps=_texts(data.get("nextSteps")),
        summary=one_line(data["summary"]) if isinstance(data.get("summary"), str) else "",
    )


def _texts(value: Any) -> tuple[str, ...]:
    """A text, a list of texts, or a list of objects that carry one, each reduced to what matters."""
    entries = value if isinstance(value, list | tuple) else [value]
    spoken = (essence(_spoken(entry)) for entry in entries)
    return tuple(text for text in spoken if text)


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
                    one_line(change) if isinstance(change, str) and change.strip() else "modified",
                    one_line(note) if isinstance(note, str) else "",
                )


def _failures(value: Any) -> Iterator[str]:
    for entry in value if isinstance(value, list) else ():
        match entry:
            case {"name": str() as name, "message": str() as message}:
                yield f"{one_line(name)}: {essence(message)}"
            case _:
                yield from _texts(entry)


def _checked(value: Any) -> Iterator[Checked]:
    for entry in value if isinstance(value, list) else ():
        match entry:
            case {"command": str() as command}:
                code, summary = entry.get("exit"), entry.get("summary")
                said = essence(summary) if isinstance(summary, str) else ""
                yield Checked(one_line(command), code if is_whole(code) else None, said)
            case str() if entry.strip():
                yield Checked(one_line(entry))


def _decision(value: Any) -> Decision | None:
    if not isinstance(value, Mapping):
        return Decision(interfaces=texts) if (texts := _texts(value)) else None
    adr = value.get("adr")
    return Decision(
        adr=one_line(adr) if isinstance(adr, str) else "",
        interfaces=tuple(_verbatim(value.get("interfaces"))),
        boundaries=_texts(value.get("boundaries")),
    )


def _verbatim(value: Any) -> Iterator[str]:
    """Interface signatures: kept as they are, over several lines if they are so written."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, str) and entry.strip():
            yield entry.strip()
