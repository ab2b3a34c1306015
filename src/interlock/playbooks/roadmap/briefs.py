"""One function builds every brief: item context, what the step's row of the table names, the fixed lines (RM-42..51).

What a brief must hold is checked on the finished dispatch, not on the way there: one that lacks a part is never sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from interlock.documents import plain_parts
from interlock.engine import UNCOMPARED, Dispatch, Kind, Prompt, Quoted, fenced
from interlock.errors import EngineFault, PathRefused
from interlock.playbooks.roadmap.answers import ArchitectsDecision, StepAnswer, contract_of
from interlock.playbooks.roadmap.decisions import AGENT_OF, JUDGES, Failure, Step, is_empty
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.forwarding import indented
from interlock.playbooks.roadmap.schema import MOST_RETRIES

ITEM = "Item"
PLANNING = "Known from planning"
NARROWED = "Investigate only"
FINDINGS = "Research findings"
DECISION = "Architect decision"
CHANGED = "Files created or modified"
EVIDENCE = "Implementation evidence"
SUMMARY = "Test summary"
COMMANDS = "Verification commands to run"

BINDING: Final[Mapping[str, str]] = {
    ITEM: "This is what is to be done: the criteria and commands are those that your work is measured by.",
    NARROWED: "This is all that you are to look into.",
    DECISION: "This is decided, and binding.",
    COMMANDS: "Run these.",
}
"""Parts that are to be acted on, with what is said of them; all others are quoted as data."""
BLOCKED_BEFORE: Final = "Failure evidence: before the item was made ready again"

ALWAYS_BRIEFED: Final = ("id", "title", "complexity", "acceptanceCriteria", "verification")
TESTS: Final = (
    *("**/test/**", "**/tests/**", "**/__tests__/**", "**/spec/**", "**/specs/**"),
    *("**/test_*.py", "**/*_test.*", "**/*.test.*", "**/*.spec.*", "**/*_spec.rb", "**/*Test.*", "**/*Tests.*"),
)
"""Where projects keep their tests."""


@dataclass(frozen=True)
class BriefRow:
    """What a step has of its own. The roadmap itself is nobody's to change."""

    needs: tuple[str, ...] = ()
    """The parts, beside the item, without which its brief is not sent."""
    writes: tuple[str, ...] = ()
    timeout_s: float = 3600


ROWS: Final[Mapping[Step, BriefRow]] = {
    Step.RESEARCH: BriefRow(),
    Step.DESIGN: BriefRow(writes=("docs/**", "**/adr/**", "**/*.md"), timeout_s=1800),
    Step.IMPLEMENT: BriefRow(writes=("**",), timeout_s=7200),
    Step.VALIDATION: BriefRow((DECISION, CHANGED), timeout_s=1800),
    Step.TESTING: BriefRow((CHANGED, EVIDENCE), writes=TESTS),
    Step.REVIEW: BriefRow((CHANGED, SUMMARY, COMMANDS)),
}
ONLY_THE_REST: Final = (
    f"Part of it is known already: see `{PLANNING}`. Do not investigate that again. Look into what stands under "
    f"`{NARROWED}` and nothing else. Your findings take the place of what is known: begin them with what still holds."
)
WAS_BLOCKED: Final = (
    f"This item was blocked before. Why stands under `{BLOCKED_BEFORE}`: look at the state of the files first, keep "
    "what is good, and mend what is named there."
)
NO_EARLIER_EVIDENCE: Final = (
    "Work on this item began before this run. The evidence of that work is not available: look at the state of the "
    "files first, keep what is good, and do not rely on anything that is not in this brief."
)


@dataclass(frozen=True)
class FixedLines:
    """The sentences that every brief, or every retry, carries (spec 4.5)."""

    skills: str = (
        "Before you start, look in `.github/skills/` for skill files (javascript, typescript, testing) that fit the "
        "files you will touch, and read those."
    )
    scope: str = "Repair what is listed under Failure evidence and leave all other code as it is."


def skipping(absent: Sequence[str]) -> str:
    """The policy on checks that a project does not have, as Review is told it."""
    allowed = f"Only these checks may be `skipped`: {', '.join(f'`{name}`' for name in absent)}."
    return (
        f"{allowed if absent else 'No check may be `skipped`.'} If the project lacks another one, answer with the "
        "status `blocked` and say which: a person can declare it in the setting `absent_checks`."
    )


@dataclass(frozen=True)
class Rules:
    """What settings and options say, as they stood when they were last asked: at the start of an item and of each
    attempt, and when a call that failed is made again."""

    fail_fast: bool = False
    absent_checks: tuple[str, ...] = ()
    verify: str = "agents"
    """Who runs the item's commands before it is done; the engine only where it is named (EV-04)."""
    lines: FixedLines = field(default_factory=FixedLines)

    @classmethod
    def of(cls, settings: Any, flags: Mapping[str, Any]) -> Rules:
        spoken = {"skills": settings.skills_line, "scope": settings.scope_line}
        return cls(
            bool(flags.get("fail_fast")) or settings.fail_fast,
            tuple(settings.absent_checks),
            settings.verify,
            FixedLines(**{name: text for name, text in spoken.items() if text is not None}),
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "absent_checks": list(self.absent_checks)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Rules:
        known = {**value, "absent_checks": tuple(value["absent_checks"]), "lines": FixedLines(**value["lines"])}
        return cls(**known)


@dataclass(frozen=True)
class Attempt:
    """What is passed on of one attempt."""

    number: int
    files: tuple[str, ...] = ()
    """One line per file that it created or changed."""
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Known:
    """Everything that the pipeline has brought about so far; later steps lose nothing of it (RM-51)."""

    item: Item
    file: str
    """The roadmap, which no agent may touch."""
    findings: StepAnswer | None = None
    """What Research answered, if it was asked."""
    design: StepAnswer | None = None
    changed: Mapping[str, str] = field(default_factory=dict)
    """Path to its line, for all files that any attempt created or changed."""
    work: StepAnswer = field(default_factory=StepAnswer)
    """What Implement answered last."""
    tests: str = ""
    """The verdict of Testing in one line."""
    attempts: tuple[Attempt, ...] = ()
    """Failed attempts, the oldest first."""
    blocked_by: tuple[Failure, ...] = ()
    """Why an earlier run left the item blocked, as the file says."""
    begun_before: bool = False
    """Somebody worked on the item before this run, and nothing of that is known."""


def item_context(item: Item) -> dict[str, Any]:
    """What every agent is told of the item, complete."""
    names = (*ALWAYS_BRIEFED, *(("dependencies",) if item.dependencies else ()))
    return {name: item.raw[name] for name in names}


def retry_line(retries: int) -> str:
    final = " (final attempt)" if retries == MOST_RETRIES else ""
    return f"This is retry {retries}/{MOST_RETRIES}{final}"


def dispatch_of(
    step: Step, known: Known, rules: Rules, *, attempt: int = 1, narrowed: Sequence[str] | None = None
) -> Dispatch:
    """The call of one step. `narrowed`: the fields that Research looks at again, where it is not to start anew."""
    lines = rules.lines
    task = [] if narrowed is None else [ONLY_THE_REST]
    if step is Step.REVIEW:
        task.append(skipping(rules.absent_checks))
    if step is Step.IMPLEMENT and attempt > 1:
        task.append(retry_line(attempt - 1))
        task += [lines.scope] if known.attempts else []
    if known.blocked_by and step is Step.IMPLEMENT:
        task.append(WAS_BLOCKED)
    elif known.begun_before and not known.attempts and not known.blocked_by:
        task.append(NO_EARLIER_EVIDENCE)
    if known.begun_before and step in JUDGES:
        task.append(f"{UNCOMPARED} Look for that too.")
    parts = (_data(ITEM, item_context(known.item)), *_parts(step, known, narrowed))
    spec = Dispatch(
        agent=AGENT_OF[step],
        task=Prompt.of(step, then=task),
        contract=contract_of(step, rules.absent_checks, known.item.verification),
        inputs=_inputs(step, known),
        context=tuple(fenced(part, BINDING[part.title]) if part.title in BINDING else part for part in parts),
        rules=(lines.skills, f"Leave `{known.file}` as it is: only the engine writes it."),
        failure=failure_evidence(known) if step is Step.IMPLEMENT else "",
        writes=ROWS[step].writes,
        step=step,
        kind=Kind.JUDGE if step in JUDGES or step is Step.RESEARCH else Kind.PRODUCER,
        attempt=attempt,
        timeout_s=ROWS[step].timeout_s,
    )
    check_brief(step, spec, parts, known, lines)
    return spec


def _parts(step: Step, known: Known, narrowed: Sequence[str] | None) -> tuple[Quoted, ...]:
    match step:
        case Step.RESEARCH:
            return _planning(known.item) + (() if narrowed is None else (_narrowed(narrowed),))
        case Step.DESIGN:
            return _research(known)
        case Step.IMPLEMENT:
            return (*_research(known), *((_decision(known.design),) if known.design else ()))
        case Step.VALIDATION:
            return (_decision(known.design or StepAnswer()), _changed(known))
        case Step.TESTING:
            return (_changed(known), Quoted(EVIDENCE, implementation_evidence(known.work)))
        case Step.REVIEW:
            commands = "\n".join(known.item.verification)
            return (_changed(known), Quoted(SUMMARY, known.tests), Quoted(COMMANDS, commands))


def _data(title: str, value: Any) -> Quoted:
    return Quoted(title, json.dumps(value, ensure_ascii=False, indent=2), "json")


def _planning(item: Item) -> tuple[Quoted, ...]:
    if is_empty(item.planning):
        return ()
    planning = item.planning
    return (Quoted(PLANNING, planning) if isinstance(planning, str) else _data(PLANNING, planning),)


def _narrowed(fields: Sequence[str]) -> Quoted:
    changed = "\n".join(f"- changed since planning: {name}" for name in fields)
    return Quoted(NARROWED, "\n".join(filter(None, ["- gaps in what is known from planning", changed])))


def _research(known: Known) -> tuple[Quoted, ...]:
    """Exactly one source: what Research found, or else what the planner found; nothing for a simple item."""
    if known.findings is not None:
        return (Quoted(FINDINGS, findings_text(known.findings)),)
    return _planning(known.item) if known.item.complexity != "simple" else ()


def findings_text(answer: StepAnswer) -> str:
    """Findings and the paths they rest on."""
    lines = [f"- {indented(finding)}" for finding in answer.findings] or ["(Research reported no findings.)"]
    paths = [f"- `{file.path}`" + (f": {file.note}" if file.note else "") for file in answer.files]
    return "\n".join([*lines, *(["", "Files:", *paths] if paths else [])])


def _decision(answer: StepAnswer) -> Quoted:
    return Quoted(DECISION, decision_text(answer.decision or ArchitectsDecision(), answer.findings))


def decision_text(decision: ArchitectsDecision, learned: Sequence[str] = ()) -> str:
    """ADR path, interfaces, boundaries: always all three, said to be none where there is none."""
    lines = [f"ADR: {decision.adr or '(none)'}"]
    for title, entries in (("Interfaces", decision.interfaces), ("Boundaries", decision.boundaries)):
        lines += [f"{title}:", *(f"- {indented(entry)}" for entry in entries or ("(none named)",))]
    return "\n".join([*lines, *(["Key findings:", *(f"- {indented(one)}" for one in learned)] if learned else [])])


def _changed(known: Known) -> Quoted:
    return Quoted(CHANGED, "\n".join(known.changed.values()) or "(none)")


def implementation_evidence(answer: StepAnswer) -> str:
    """Which checks Implement says it ran, and how they ended; no output of theirs."""
    lines = [f"- `{one.command}`: " + (one.ending or "exit status not reported") for one in answer.evidence.checks]
    if counted := tests_counted(answer):
        lines.append(f"- tests: {counted}")
    return "\n".join(lines) or "(Implement reported no checks of its own.)"


def tests_counted(answer: StepAnswer) -> str:
    passed, failed = answer.evidence.passed, answer.evidence.failed
    return f"{passed} passed, {failed} failed" if passed + failed else ""


def failure_evidence(known: Known) -> str:
    """What went wrong so far, each failure with its source, and which files every attempt touched."""
    parts = [_failures(BLOCKED_BEFORE, known.blocked_by)] if known.blocked_by else []
    for attempt in known.attempts:
        parts.append(_failures(f"Failure evidence: attempt {attempt.number}", attempt.failures))
        files = Quoted(f"Files modified in attempt {attempt.number}", "\n".join(attempt.files) or "(none)")
        parts.append(fenced(files, "What that attempt touched."))
    return "\n\n".join(parts)


def _failures(title: str, failures: Sequence[Failure]) -> str:
    listed = "\n".join(f"- {failure.source}: {indented(failure.reason)}" for failure in failures)
    return fenced(Quoted(title, listed), "Mend this; each entry says who found it.")


def _inputs(step: Step, known: Known) -> tuple[str, ...]:
    adr = known.design.decision.adr if known.design and known.design.decision else ""
    if step not in (Step.IMPLEMENT, Step.VALIDATION) or not adr:
        return ()
    try:
        return ("/".join(plain_parts(adr)),)
    except PathRefused:  # what the Architect calls a path is still in the context, as text
        return ()


def check_brief(step: Step, spec: Dispatch, parts: Sequence[Quoted], known: Known, lines: FixedLines) -> None:
    """Raise unless the brief, made of these parts, has everything that it must have (CM-07)."""
    texts = {part.title: part.text for part in parts}
    lacking = [title for title in (ITEM, *ROWS[step].needs) if not texts.get(title, "").strip()]
    told = json.loads(texts.get(ITEM) or "{}")
    lacking += [name for name, value in item_context(known.item).items() if told.get(name) != value]
    lacking += [] if lines.skills in spec.rules else ["the skills reminder"]
    sources = {FINDINGS, PLANNING} & texts.keys()
    if step is Step.DESIGN and len(sources) != 1:
        lacking.append("exactly one source of research")
    if step is Step.IMPLEMENT and known.item.complexity != "simple" and (len(sources) != 1 or DECISION not in texts):
        lacking.append("research and the Architect's decision")
    if step is Step.IMPLEMENT and known.attempts:
        said = spec.task.then if isinstance(spec.task, Prompt) else (spec.task,)
        lacking += [] if lines.scope in said else ["the scope sentence"]
        lacking += [
            f"the evidence of attempt {attempt.number}"
            for attempt in known.attempts
            if f"Failure evidence: attempt {attempt.number}" not in spec.failure
        ]
    if lacking:
        raise EngineFault(f"the brief for {spec.agent} ({step}) lacks {', '.join(lacking)}", where=step)
