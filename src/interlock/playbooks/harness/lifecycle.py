"""The stages of a task, who carries each out, and the only moves between them.

Theory of operation.  Whatever a step of the playbook establishes is a `Finding`.  `MOVES` says which finding is
possible at which stage and to which stage it leads; any other combination is our bug and changes nothing.  The
standards of a workspace repeat these tables for people, and the diagram in the documentation is made from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from interlock.errors import EngineFault

REMEDIATIONS = 2
"""How often a negative QA sends the task back to Build."""
REJECTIONS = 5
"""How often people send it back in one run; the one after that blocks it, for them to look at it otherwise."""


class Stage(StrEnum):
    SPECIFICATION = "Specification"
    DESIGN = "Design"
    PLANNING = "Implementation Planning"
    BUILD = "Build"
    QA = "QA"
    APPROVAL = "Awaiting Approval"
    COMPLETE = "Complete"

    @property
    def works(self) -> bool:
        """Whether an agent carries it out."""
        return self in AGENTS

    @property
    def slug(self) -> str:
        return SUFFIXES[self].lower()

    def before(self, other: Stage) -> bool:
        return SEQUENCE.index(self) < SEQUENCE.index(other)


class TaskStatus(StrEnum):
    ACTIVE = "Active"
    AWAITING_APPROVAL = "Awaiting Approval"
    BLOCKED = "Blocked"
    COMPLETE = "Complete"


SEQUENCE: tuple[Stage, ...] = tuple(Stage)

AGENTS: Mapping[Stage, str] = {
    Stage.SPECIFICATION: "po-spec",
    Stage.DESIGN: "feature-design",
    Stage.PLANNING: "tech-lead",
    Stage.BUILD: "build",
    Stage.QA: "qa",
}
"""The one agent of each stage; there is no stand-in."""

WORKING: tuple[Stage, ...] = tuple(AGENTS)

SUFFIXES: Mapping[Stage, str] = {
    Stage.SPECIFICATION: "SPEC",
    Stage.DESIGN: "DESIGN",
    Stage.PLANNING: "PLAN",
    Stage.BUILD: "BUILD",
    Stage.QA: "QA",
    Stage.APPROVAL: "APPROVAL",
    Stage.COMPLETE: "COMPLETE",
}


class Finding(StrEnum):
    """What a step established, in the words of the diagram."""

    VERIFIED = "artifact verified"
    QA_NEGATIVE = "QA negative and remediations left"
    QA_POSITIVE = "QA positive"
    APPROVED = "approved by a person"
    NOT_REQUIRED = "approval not required"
    REJECTED = "rejected by a person"


MOVES: Mapping[tuple[Stage, Finding], Stage] = {
    (Stage.SPECIFICATION, Finding.VERIFIED): Stage.DESIGN,
    (Stage.DESIGN, Finding.VERIFIED): Stage.PLANNING,
    (Stage.PLANNING, Finding.VERIFIED): Stage.BUILD,
    (Stage.BUILD, Finding.VERIFIED): Stage.QA,
    (Stage.QA, Finding.QA_NEGATIVE): Stage.BUILD,
    (Stage.QA, Finding.QA_POSITIVE): Stage.APPROVAL,
    (Stage.APPROVAL, Finding.APPROVED): Stage.COMPLETE,
    (Stage.APPROVAL, Finding.NOT_REQUIRED): Stage.COMPLETE,
    (Stage.BUILD, Finding.REJECTED): Stage.PLANNING,
    (Stage.APPROVAL, Finding.REJECTED): Stage.BUILD,
}


def next_stage(stage: Stage, finding: Finding) -> Stage:
    """Where a finding leads; a move that is not in the table is a fault."""
    try:
        return MOVES[stage, finding]
    except KeyError:
        raise EngineFault(f"stage {stage} has no move for {finding.value!r}", where=stage) from None


def run_id(day: str, task_id: str, stage: Stage, remediations: int) -> str:
    """``RUN-2026-01-04-TASK-012-BUILD-R1``: the UTC day on which the stage was entered, and what it is."""
    repeat = f"-R{remediations}" if remediations and stage in (Stage.BUILD, Stage.QA) else ""
    return f"RUN-{day}-{task_id}-{SUFFIXES[stage]}{repeat}"


def belongs(identifier: str, task_id: str, stage: Stage, remediations: int) -> bool:
    """Whether a run id is one of this stage and task, of any day."""
    pattern = re.escape(run_id("DAY", task_id, stage, remediations)).replace("DAY", r"\d{4}-\d{2}-\d{2}", 1)
    return re.fullmatch(pattern, identifier) is not None


def diagram() -> str:
    """The moves as a Mermaid state diagram."""
    named = [stage for stage in SEQUENCE if " " in stage.value]
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{stage}" as {_identifier(stage)}' for stage in named]
    lines.append(f"    [*] --> {_identifier(SEQUENCE[0])}: run-state and run report initialised, both verified")
    for (source, finding), target in MOVES.items():
        who = f"{AGENTS[source]} " if finding is Finding.VERIFIED else ""
        gate = ", gate before Build open" if target is Stage.BUILD and source is Stage.PLANNING else ""
        lines.append(f"    {_identifier(source)} --> {_identifier(target)}: {who}{finding.value}{gate}")
    return "\n".join([*lines, f"    {_identifier(Stage.COMPLETE)} --> [*]"]) + "\n"


def _identifier(stage: Stage) -> str:
    return stage.value.replace(" ", "")
