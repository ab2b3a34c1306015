"""The stages of a task, one row each, and what follows from the rows.

Theory of operation.  A row says all that is particular about a stage: who carries it out, what it reads and writes,
what its artifact must have, by which words it judges and where a negative one leads, which gate stands before it.
Nothing else in this folder knows a stage by its name.  Briefs, run-state, standards, run ids, gates, the rehearsal and
the files that `init` writes are made from the rows of a `Lifecycle`; rows that are incomplete or contradict each other
fail when they are put together, which is at import.

An optional stage takes part in a task whose file names an artifact path for it.  So a workspace of before the stage
runs as it did, and a task asks for it by one line.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from interlock.errors import ConfigInvalid

REMEDIATIONS = 2
"""How often negative verdicts send the task back."""
REJECTIONS = 5
"""How often people send it back in one run; the one after that blocks it, for them to look at it otherwise."""
TASK_FILE = "task_file"
ARTIFACT = "artifact:"
PATH = "path:"
NO_SEARCH = "Do not search the repository for more context."
NAMED_FILES = f"Beyond them, open only source files that they name. {NO_SEARCH}"


class TaskStatus(StrEnum):
    ACTIVE = "Active"
    AWAITING_APPROVAL = "Awaiting Approval"
    BLOCKED = "Blocked"
    COMPLETE = "Complete"


class VerdictMark(NamedTuple):
    """A line of a judge's artifact, and its two words."""

    label: str
    positive: str
    negative: str


@dataclass(frozen=True)
class Judging:
    """How a stage judges: in marks that a program reads, of which one negative is enough."""

    marks: tuple[VerdictMark, ...]
    returns_to: str
    """The stage that mends what was found."""
    issues: str = "## Blocking Issues"
    """The heading of what blocks."""
    criteria: str = ""
    """The heading under which each criterion of the task has a box; empty: they are not its to judge."""

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.issues, self.criteria)))


@dataclass(frozen=True)
class StageGate:
    """Where people have to decide, before the work of a stage or in its place."""

    opens: str
    """The stage that an approval opens."""
    shows: tuple[str, ...]
    """The stages whose artifacts are shown, the one that is decided on first."""
    back_to: str
    """The stage that a rejection calls again."""
    choice: str
    """What a rejection leads to, for whoever decides."""
    told: str
    """What the agent that is called again is told, before what the person said."""

    @property
    def setting(self) -> str:
        return f"Require Approval Before {self.opens}"


@dataclass(frozen=True)
class StageContract:
    """What a stage may read and write, and what its artifact must have: by its row, or as a workspace has it."""

    required: tuple[str, ...]
    """`task_file`, `artifact:<Stage>`, `path:<file, folder or pattern>`."""
    optional: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Patterns of files beside its artifact."""
    headings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """One row."""

    name: str
    suffix: str
    """Of its run ids."""
    agent: str = ""
    """The one agent that carries it out, there is no stand-in; empty: it belongs to people and to the engine."""
    duty: str = ""
    """What its agent is to do, in a sentence or two."""
    reach: str = ""
    """What its agent may open beside its inputs; its role says the same."""
    contract: StageContract | None = None
    """What holds where the workspace says nothing else."""
    artifact: str = ""
    """The name of its artifact, where nobody chose another."""
    judging: Judging | None = None
    gate: StageGate | None = None
    optional: bool = False
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        needed: dict[str, object] = {"name": self.name, "suffix": self.suffix}
        work = {"duty": self.duty, "reach": self.reach, "contract": self.contract, "artifact": self.artifact}
        if self.agent:
            needed |= work
        elif self.judging or self.optional or any(work.values()):
            raise _incomplete(self.name, "it has no agent, so it can have no work of its own")
        if self.contract is not None:
            needed["inputs"] = self.contract.required
            needed["headings or marks"] = self.judging.marks if self.judging else self.contract.headings
        if lacking := [what for what, value in needed.items() if not value]:
            raise _incomplete(self.name, f"{', '.join(lacking)} missing")
        if not re.fullmatch(r"[A-Z]+", self.suffix):
            raise _incomplete(self.name, f"suffix {self.suffix!r}; expected capital letters")

    @property
    def slug(self) -> str:
        return self.suffix.lower()

    @property
    def builds(self) -> bool:
        """Whether it is there to change files beside its artifact."""
        return self.contract is not None and bool(self.contract.writes)


def _incomplete(name: str, what: str) -> ConfigInvalid:
    return ConfigInvalid(f"stage {name!r}: {what}", where="the rows of the harness")


class Lifecycle:
    """Rows in their order."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self.stages = tuple(stages)
        self.names = tuple(stage.name for stage in self.stages)
        self.working = tuple(stage for stage in self.stages if stage.agent)
        self.judges = tuple((stage, stage.judging) for stage in self.stages if stage.judging is not None)
        self.gates = tuple((stage, stage.gate) for stage in self.stages if stage.gate is not None)
        self.builders = tuple(stage.name for stage in self.stages if stage.builds)
        self.menders = frozenset(judging.returns_to for _, judging in self.judges)
        self._by_name = {stage.name: stage for stage in self.stages}
        for stage, what in self._problems():
            raise _incomplete(stage, what)

    def _problems(self) -> Iterator[tuple[str, str]]:
        for kind in ("name", "suffix", "agent", "artifact"):
            said = [value for stage in self.stages if (value := getattr(stage, kind))]
            yield from ((one, f"another stage has this {kind} too") for one in said if said.count(one) > 1)
        if not self.working or self.stages[0].optional or self.stages[-1].agent:
            yield self.names[0] if self.names else "", "a lifecycle begins with work and ends without any"
        for number, stage in enumerate(self.stages):
            needs = [name.removeprefix(ARTIFACT) for name in self._inputs(stage) if name.startswith(ARTIFACT)]
            needs += [stage.judging.returns_to] if stage.judging else []
            needs += [*stage.gate.shows, stage.gate.back_to] if stage.gate else []
            before = {one.name for one in self.stages[:number] if one.agent}
            for name in needs:
                if name not in before:
                    yield stage.name, f"{name} is no stage before it that an agent carries out"
                elif self._by_name[name].optional:
                    yield stage.name, f"it needs {name}, which is optional"
            if stage.gate and stage.gate.opens not in self.names[number : number + 2]:
                yield stage.name, f"its gate opens {stage.gate.opens}, which does not come next"

    @staticmethod
    def _inputs(stage: Stage) -> tuple[str, ...]:
        return (*stage.contract.required, *stage.contract.optional) if stage.contract else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lifecycle) and self.stages == other.stages

    def __hash__(self) -> int:
        return hash(self.stages)

    def __getitem__(self, name: str) -> Stage:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def before(self, one: str, other: str) -> bool:
        return self.names.index(one) < self.names.index(other)

    def taken(self, named: Container[str]) -> Lifecycle:
        """The stages of a task or standard that names these: the others are left out where they are optional."""
        return Lifecycle(stage for stage in self.stages if not stage.optional or stage.name in named)

    def after(self, name: str, named: Container[str]) -> str | None:
        """The stage that follows in a task that names these; None after the last."""
        later = self.stages[self.names.index(name) + 1 :]
        return next((stage.name for stage in later if not stage.optional or stage.name in named), None)

    def are_done(self, names: tuple[str, ...]) -> bool:
        """Whether these can be all the stages that are finished: in their order, none left out but optional ones."""
        if not set(names) <= set(self.names):
            return False
        reached = self.names[: self.names.index(names[-1]) + 1] if names else ()
        return names == tuple(name for name in reached if name in names or not self[name].optional)

    def repeated(self, stage: Stage) -> bool:
        """Whether it is carried out again when a judge sends the task back."""
        place = self.names.index(stage.name)
        return any(
            self.names.index(judging.returns_to) <= place <= self.names.index(judge.name)
            for judge, judging in self.judges
        )

    @property
    def way_back(self) -> int:
        """Stages that a task passes once more when it is sent back."""
        return sum(map(self.repeated, self.stages))

    @property
    def most_steps(self) -> int:
        """Steps that one run can take: all stages and gates, each way back, a little air; for each rejection the work
        again, and a way back before the gate is asked again."""
        once = len(self.stages) + len(self.gates) + REMEDIATIONS * self.way_back + 3
        return once + REJECTIONS * (2 * self.way_back + 1)

    def named(self, text: str) -> str | None:
        """The working stage that a person means by a word on the command line."""
        wanted = " ".join(text.replace("-", " ").replace("_", " ").split()).casefold()
        return next((stage.name for stage in self.working if wanted in (stage.name.casefold(), stage.slug)), None)

    def run_id(self, day: str, task_id: str, name: str, remediations: int) -> str:
        """``RUN-2026-01-04-TASK-012-BUILD-R1``: the UTC day on which the stage was entered, and what it is."""
        repeat = f"-R{remediations}" if remediations and self.repeated(self[name]) else ""
        return f"RUN-{day}-{task_id}-{self[name].suffix}{repeat}"

    def is_run_id(self, identifier: str, task_id: str, name: str, remediations: int) -> bool:
        """Whether a run id is one of this stage and task, of any day."""
        pattern = re.escape(self.run_id("DAY", task_id, name, remediations)).replace("DAY", r"\d{4}-\d{2}-\d{2}", 1)
        return re.fullmatch(pattern, identifier) is not None


SPECIFICATION = Stage(
    name="Specification",
    suffix="SPEC",
    agent="po-spec",
    duty="Write the specification of the task: what is required, and how one can tell that it is met.",
    reach=f"Open nothing besides. What they do not say, you do not know. {NO_SEARCH}",
    contract=StageContract(required=(TASK_FILE,), headings=("## Requirements", "## Acceptance Criteria")),
    artifact="spec.md",
)
DESIGN = Stage(
    name="Design",
    suffix="DESIGN",
    agent="feature-design",
    duty="Design a solution for what the specification asks, and record the decisions with their reasons.",
    reach=NAMED_FILES,
    contract=StageContract(
        required=(TASK_FILE, "artifact:Specification"),
        optional=("path:docs/architecture.md",),
        headings=("## Overview", "## Decisions"),
    ),
    artifact="design.md",
)
PLANNING = Stage(
    name="Implementation Planning",
    suffix="PLAN",
    agent="tech-lead",
    duty="Plan the implementation of the design in small steps, each with the check that shows it is done.",
    reach=NAMED_FILES,
    contract=StageContract(required=(TASK_FILE, "artifact:Specification", "artifact:Design"), headings=("## Steps",)),
    artifact="plan.md",
)
BUILD = Stage(
    name="Build",
    suffix="BUILD",
    agent="build",
    duty="Carry out the plan in code and tests, and report what was changed and how it was verified.",
    reach="Beyond them, open only what the plan needs: files that they name, files that these depend on, and what says "
    f"how the project is built and tested. {NO_SEARCH}",
    contract=StageContract(
        required=(TASK_FILE, "artifact:Specification", "artifact:Design", "artifact:Implementation Planning"),
        writes=("**", "!harness/**", "!.github/agents/**"),
        headings=("## Changes", "## Verification"),
    ),
    artifact="build-report.md",
    gate=StageGate(
        opens="Build",
        shows=("Implementation Planning",),
        back_to="Implementation Planning",
        choice="the plan is revised by what you say",
        told="A person rejected the plan that lies there now. Revise it by what they said, and write it anew:",
    ),
    timeout_s=7200,
)
QA = Stage(
    name="QA",
    suffix="QA",
    agent="qa",
    duty="Judge whether what was built meets every acceptance criterion. Change nothing; find out.",
    reach="Beyond them, open only what you need in order to judge: files that they name, files that were changed, and "
    f"what says how the project is built and tested. {NO_SEARCH}",
    contract=StageContract(
        required=(TASK_FILE, "artifact:Specification", "artifact:Implementation Planning", "artifact:Build")
    ),
    artifact="qa-report.md",
    judging=Judging(
        marks=(
            VerdictMark("Validation Result", "Passed", "Issues Found"),
            VerdictMark("Approval Readiness", "Ready", "Back to Build"),
        ),
        criteria="## Acceptance Criteria",
        returns_to="Build",
    ),
    timeout_s=3600,
)
APPROVAL = Stage(
    name="Awaiting Approval",
    suffix="APPROVAL",
    gate=StageGate(
        opens="Complete",
        shows=("QA", "Build"),
        back_to="Build",
        choice="Build revises the work by what you say and by the QA report",
        told="A person rejected the result. Settle what they said, and what the QA report leaves open:",
    ),
)
COMPLETE = Stage(name="Complete", suffix="COMPLETE")

STAGES = (SPECIFICATION, DESIGN, PLANNING, BUILD, QA, APPROVAL, COMPLETE)
LIFECYCLE = Lifecycle(STAGES)
