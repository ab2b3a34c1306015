"""What a person asks for when they start a task or let it go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from interlock.engine import CHECK, Option

STAGE = "STAGE"


@dataclass(frozen=True)
class HarnessInputs:
    """Which task, and how."""

    task: Annotated[
        str,
        Option(
            "The task: its id, or its file in harness/tasks. Default: the one in harness/run-state.md.",
            metavar="[TASK]",
            argument=True,
        ),
    ] = ""
    fallback: Annotated[
        str, Option("A person supplies the artifact of this stage; it is checked like any other.", metavar=STAGE)
    ] = ""
    fallback_by: str = ""
    check: Annotated[list[str], CHECK] = field(default_factory=list)
    resumed: bool = False
    """A person explicitly lets a stopped task go on."""
    note: Annotated[
        str, Option("Let a blocked task go on, with these words for whoever works next.", metavar="TEXT")
    ] = ""
    from_stage: Annotated[str, Option("Let the task go on from an earlier stage.", metavar=STAGE, name="from")] = ""
    reset_remediation: Annotated[bool, Option("Let the task go on with its remediations counted anew.")] = False
    start_over: Annotated[bool, Option("Begin the task anew; its run-state is set aside.")] = False
    mend_report: Annotated[bool, Option("Make broken chains of the run report anew from its rows.")] = False

    def __post_init__(self) -> None:
        if isinstance(self.check, str):  # as it was recorded once: one on each line
            object.__setattr__(self, "check", self.check.splitlines())


@dataclass(frozen=True)
class HarnessFlags:
    """How far this call goes."""

    until: Annotated[str | None, Option("Stop after this stage.", metavar=STAGE)] = None
    max_stages: Annotated[int | None, Option("Stop after so many stages.", metavar="N", at_least=1)] = None
    park: Annotated[bool, Option("Put the task in harness/run-state.md aside, to go on with it later.")] = False


@dataclass(frozen=True)
class HarnessMoves:
    """How a stopped task goes on."""

    from_stage: Annotated[
        str | None, Option("Let a stopped task go on from an earlier stage.", metavar=STAGE, name="from")
    ] = None
    reset_remediation: Annotated[bool, Option("Count the remediations of a stopped task anew.")] = False
