"""What the harness decides: the sequence, who works in it, how a stage counts and where a verdict leads. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from interlock.errors import Exit

RUN_STATE, TASKS = "harness/run-state.md", "harness/tasks"
STATE_TEMPLATE, REPORT_TEMPLATE = "harness/templates/run-state-template.md", "harness/templates/run_report_template.md"
CONTRACTS = "harness/standards/stage-input-contracts.md"
REQUIRED = (
    *(STATE_TEMPLATE, REPORT_TEMPLATE, "harness/standards/run-state-standard.md"),
    *("harness/standards/task-lifecycle.md", "harness/standards/feature-workflow.md"),
    *("harness/standards/run-id-standard.md", CONTRACTS),
)
GOVERNED = (
    *(RUN_STATE, "harness/runs/**", "harness/tasks/**", "harness/standards/**", "harness/templates/**"),
    *("harness/roles/**", ".github/agents/**"),
)
"""What no agent makes or changes (HN-05)."""
KEPT_OUT = ("!harness/**", "!.github/agents/**")
"""Of a scope: all that is governed, and other stages' artifacts."""
REMEDIATIONS = 2
"""After the first negative QA."""
REJECTIONS = 5
"""That are revised; the next one blocks."""


class Stage(StrEnum):
    """The sequence; none is skipped (HN-06)."""

    SPECIFICATION = "Specification"
    DESIGN = "Design"
    PLANNING = "Implementation Planning"
    BUILD = "Build"
    QA = "QA"
    APPROVAL = "Awaiting Approval"
    COMPLETE = "Complete"

    @property
    def next(self) -> Stage:
        return ORDER[ORDER.index(self) + 1]

    @property
    def before(self) -> tuple[Stage, ...]:
        return ORDER[: ORDER.index(self)]


class Status(StrEnum):
    ACTIVE = "Active"
    AWAITING = "Awaiting Approval"
    BLOCKED = "Blocked"
    COMPLETE = "Complete"


class Came(StrEnum):
    """What became of a stage, in the history."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    RETURNED = "Returned to Build"
    APPROVED = "Approved"
    REJECTED = "Rejected"
    NOT_REQUIRED = "Not required"


ORDER = tuple(Stage)
AGENTS = dict(zip(ORDER, ("po-spec", "feature-design", "tech-lead", "build", "qa"), strict=False))
WORKED = tuple(AGENTS)
"""The stages that an agent carries out."""
GATES = (Stage.BUILD, Stage.APPROVAL)
"""Where a task can wait for a person's approval (5.1)."""
SUFFIXES = dict(zip(ORDER, ("SPEC", "DESIGN", "PLAN", "BUILD", "QA", "APPROVAL", "COMPLETE"), strict=True))
_SAID = dict(zip(ORDER, ("spec(ification)?", "design", "plan(ning)?", "build", "qa|quality assurance"), strict=False))


def called(text: str) -> Stage | None:
    """The one stage that a text names, by its name or a shorter one; None: it names none, or several."""
    found = named(text)
    return found[0] if len(found) == 1 else None


def named(text: str) -> list[Stage]:
    """All stages that a text names."""
    words = " ".join(re.findall(r"[a-z0-9]+", text.casefold()))
    return [
        one for one in ORDER if one.casefold() == words or (one in _SAID and re.search(rf"\b({_SAID[one]})\b", words))
    ]


def _working(name: str) -> str:
    if name and called(name) not in WORKED:
        raise ValueError(f"it is no stage that an agent carries out; expected one of {', '.join(WORKED)}")
    return called(name) or ""


StageName = Annotated[str, AfterValidator(_working)]
"""Of a stage that an agent carries out, as people call it."""


def counts(
    stage: Stage,
    *,
    governed: Sequence[str],
    strays: Sequence[str],
    conflicts: Sequence[str],
    status: str,
    reason: str,
    trouble: str,
    flaw: str,
) -> tuple[Came, Exit, str]:
    """How a stage counts, and why it does not: what is worst with it is said (HN-98). Its word is enough for a failure,
    and never for success."""
    agent, stopped, failed = AGENTS[stage], (Came.BLOCKED, Exit.STOPPED), (Came.FAILED, Exit.FAILED)
    wrong = (
        (governed, stopped, f"Scope violation by {agent}: {', '.join(governed)}"),
        (strays, stopped, f"Scope violation by {agent}: {', '.join(strays)}"),
        (conflicts, stopped, f"Stage {stage}: a person changed the same lines meanwhile: {', '.join(conflicts)}"),
        (status == "blocked", stopped, f"Stage {stage}: agent {agent} is blocked: {reason}"),
        (status == "error", (Came.FAILED, Exit.STOPPED), f"Stage {stage}: agent {agent} failed: {reason}"),
        (trouble, failed, f"Stage {stage}: agent {agent} {trouble}"),
        (flaw, failed, flaw),
        (True, (Came.COMPLETED, Exit.DONE), ""),
    )
    return next((*ends, why) for applies, ends, why in wrong if applies)


def after_negative(remediations: int) -> Came:
    """Where QA, red commands and a conflict at the delivery lead (HN-76, HN-79, HN-80, HN-114)."""
    return Came.RETURNED if remediations < REMEDIATIONS else Came.BLOCKED
