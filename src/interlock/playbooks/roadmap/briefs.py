"""One function builds every brief: item context, what the step's row of the table names, the fixed lines (RM-42..51).

What a brief must hold is checked on the finished dispatch, not on the way there: one that lacks a part is never sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from interlock.contracts import Contract
from interlock.documents.paths import plain_parts
from interlock.engine import Dispatch, Kind, Quoted
from interlock.engine.brief import quoted
from interlock.errors import EngineFault, PathRefused
from interlock.playbooks.roadmap.answers import Answer, Decision, answer_format
from interlock.playbooks.roadmap.decisions import AGENT_OF, Failure, Step, is_empty
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.forwarding import indented
from interlock.playbooks.roadmap.schema import MOST_RETRIES

PROMPTS: Final[Mapping[Step, str]] = {
    step: resources.files(__package__).joinpath("prompts", f"{step}.md").read_text(encoding="utf-8").strip()
    for step in Step
}

ITEM = "Item"
PLANNING = "Known from planning"
NARROWED = "Investigate only"
FINDINGS = "Research findings"
DECISION = "Architect decision"
CHANGED = "Files created or modified"
EVIDENCE = "Implementation evidence"
SUMMARY = "Test summary"
COMMANDS = "Verification commands to run"

ROWS: Final[Mapping[Step, tuple[str, ...]]] = {
    Step.RESEARCH: (),
    Step.DESIGN: (),
    Step.IMPLEMENT: (),
    Step.VALIDATION: (DECISION, CHANGED),
    Step.TESTING: (CHANGED, EVIDENCE),
    Step.REVIEW: (CHANGED, SUMMARY, COMMANDS),
}
"""The parts, beside the item, without which a brief of this step is not sent."""

ALWAYS_BRIEFED: Final = ("id", "title", "complexity", "acceptanceCriteria", "verification")
WRITES: Final[Mapping[Step, tuple[str, ...]]] = {
    Step.DESIGN: ("docs/**", "**/adr/**", "**/*.md"),
    Step.IMPLEMENT: ("**",),
}
"""What each step may change; the others change nothing. The roadmap itself is nobody's."""
TIMEOUTS_S: Final[Mapping[Step, float]] = {
    Step.RESEARCH: 3600,
    Step.DESIGN: 1800,
    Step.IMPLEMENT: 7200,
    Step.VALIDATION: 1800,
    Step.TESTING: 3600,
    Step.REVIEW: 3600,
}

ONLY_THE_REST: Final = (
    f"Part of it is known already: see `{PLANNING}`. Do not investigate that again. Look into what stands under "
    f"`{NARROWED}` and nothing else. Your findings take the place of what is known: begin them with what still holds."
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
    findings: Answer | None = None
    """What Research answered, if it was asked."""
    design: Answer | None = None
    changed: Mapping[str, str] = field(default_factory=dict)
    """Path to its line, for all files that any attempt created or changed."""
    work: Answer = field(default_factory=Answer)
    """What Implement answered last."""
    tests: str = ""
    """The verdict of Testing in one line."""
    attempts: tuple[Attempt, ...] = ()
    """Failed attempts, the oldest first."""
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
    step: Step, known: Known, lines: FixedLines, *, attempt: int = 1, narrowed: Sequence[str] | None = None
) -> Dispatch:
    """The call of one step. `narrowed`: the fields that Research looks at again, where it is not to start anew."""
    task = [PROMPTS[step], *(() if narrowed is None else (ONLY_THE_REST,))]
    if step is Step.IMPLEMENT and attempt > 1:
        task.append(retry_line(attempt - 1))
        task += [lines.scope] if known.attempts else []
    if known.begun_before and not known.attempts:
        task.append(NO_EARLIER_EVIDENCE)
    spec = Dispatch(
        agent=AGENT_OF[step],
        task="\n\n".join(task),
        contract=Contract(answer=answer_format(step)),
        inputs=_inputs(step, known),
        context=(_data(ITEM, item_context(known.item)), *_parts(step, known, narrowed)),
        rules=(lines.skills, f"Leave `{known.file}` as it is: only the engine writes it."),
        failure=failure_evidence(known.attempts) if step is Step.IMPLEMENT else "",
        writes=WRITES.get(step, ()),
        step=step,
        kind=Kind.PRODUCER if step in WRITES else Kind.JUDGE,
        attempt=attempt,
        timeout_s=TIMEOUTS_S[step],
    )
    check_brief(step, spec, known, lines)
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
            return (_decision(known.design or Answer()), _changed(known))
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


def findings_text(answer: Answer) -> str:
    """Findings and the paths they rest on."""
    lines = [f"- {indented(finding)}" for finding in answer.findings] or ["(Research reported no findings.)"]
    paths = [f"- `{file.path}`" + (f": {file.note}" if file.note else "") for file in answer.files]
    return "\n".join([*lines, *(["", "Files:", *paths] if paths else [])])


def _decision(answer: Answer) -> Quoted:
    return Quoted(DECISION, decision_text(answer.decision or Decision(), answer.findings))


def decision_text(decision: Decision, learned: Sequence[str] = ()) -> str:
    """ADR path, interfaces, boundaries: always all three, said to be none where there is none."""
    lines = [f"ADR: {decision.adr or '(none)'}"]
    for title, entries in (("Interfaces", decision.interfaces), ("Boundaries", decision.boundaries)):
        lines += [f"{title}:", *(f"- {indented(entry)}" for entry in entries or ("(none named)",))]
    return "\n".join([*lines, *(["Key findings:", *(f"- {indented(one)}" for one in learned)] if learned else [])])


def _changed(known: Known) -> Quoted:
    return Quoted(CHANGED, "\n".join(known.changed.values()) or "(none)")


def implementation_evidence(answer: Answer) -> str:
    """Which checks Implement says it ran, and how they ended; no output of theirs."""
    lines = [
        f"- `{one.command}`: " + ("exit status not reported" if one.exit is None else f"exit status {one.exit}")
        for one in answer.verification
    ]
    if answer.passed + answer.failed:
        lines.append(f"- tests: {answer.passed} passed, {answer.failed} failed")
    return "\n".join(lines) or "(Implement reported no checks of its own.)"


def failure_evidence(attempts: Sequence[Attempt]) -> str:
    """What went wrong in every attempt so far, each failure with its source, and which files were touched."""
    parts = []
    for attempt in attempts:
        failures = "\n".join(f"- {failure.source}: {indented(failure.reason)}" for failure in attempt.failures)
        parts.append(quoted(Quoted(f"Failure evidence: attempt {attempt.number}", failures)))
        files = "\n".join(attempt.files) or "(none)"
        parts.append(quoted(Quoted(f"Files modified in attempt {attempt.number}", files)))
    return "\n\n".join(parts)


def _inputs(step: Step, known: Known) -> tuple[str, ...]:
    adr = known.design.decision.adr if known.design and known.design.decision else ""
    if step not in (Step.IMPLEMENT, Step.VALIDATION) or not adr:
        return ()
    try:
        return ("/".join(plain_parts(adr)),)
    except PathRefused:  # what the Architect calls a path is still in the context, as text
        return ()


def check_brief(step: Step, spec: Dispatch, known: Known, lines: FixedLines) -> None:
    """Raise unless the brief has everything that it must have (CM-07)."""
    parts = {part.title: part.text for part in spec.context if isinstance(part, Quoted)}
    lacking = [title for title in (ITEM, *ROWS[step]) if not parts.get(title, "").strip()]
    told = json.loads(parts.get(ITEM) or "{}")
    lacking += [name for name, value in item_context(known.item).items() if told.get(name) != value]
    lacking += [] if lines.skills in spec.rules else ["the skills reminder"]
    sources = {FINDINGS, PLANNING} & parts.keys()
    if step is Step.DESIGN and len(sources) != 1:
        lacking.append("exactly one source of research")
    if step is Step.IMPLEMENT and known.item.complexity != "simple" and (len(sources) != 1 or DECISION not in parts):
        lacking.append("research and the Architect's decision")
    if step is Step.IMPLEMENT and known.attempts:
        lacking += [] if lines.scope in spec.task else ["the scope sentence"]
        lacking += [
            f"the evidence of attempt {attempt.number}"
            for attempt in known.attempts
            if f"Failure evidence: attempt {attempt.number}" not in spec.failure
        ]
    if lacking:
        raise EngineFault(f"the brief for {spec.agent} ({step}) lacks {', '.join(lacking)}", where=step)
