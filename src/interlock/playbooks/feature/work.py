"""A feature under way: what was asked for, and what is known so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from interlock.engine import CHECK, Checks, Ending, Option, Proof, Run, Stop, named_commands, snapshot
from interlock.playbooks.feature.briefs import Briefs, JudgesFacts
from interlock.playbooks.feature.calls import Calls
from interlock.playbooks.feature.decisions import Decided, slug_of, valid_slug
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import MEMBERS, Members
from interlock.playbooks.feature.plan import Tasks
from interlock.playbooks.feature.shared_memory import SharedMemory

BARRIER: Final = "barrier"
EAGER: Final = "eager"
"""Whether a sub-wave is awaited before the next one starts."""


@dataclass(frozen=True)
class FeatureInputs:
    """A request and how it is to be handled; fixed for the whole run."""

    request: Annotated[str, Option("What the feature should be.", metavar="REQUEST", argument=True)]
    slug: Annotated[str, Option("Name of its folder. Default: from the request.", metavar="SLUG")] = ""
    approval: Annotated[
        bool,
        Option("Wait for a person after research and after planning.", setting="approval", variable="APPROVAL_MODE"),
    ] = False
    approval_fallback: Annotated[
        Literal["wait", "proceed"], Option("What to do instead of waiting.", setting="approval_fallback")
    ] = "wait"
    approve_replans: Annotated[bool, Option("Wait for approval of replans too.", setting="approve_replans")] = False
    strict: Annotated[bool, Option("A verifier without a verdict is a reason to replan.", setting="strict")] = False
    post_mortem_on_halt: Annotated[
        bool, Option("A post-mortem also after an early end.", setting="post_mortem_on_halt")
    ] = False
    scheduling: Annotated[
        Literal["barrier", "eager"], Option("Whether sub-waves wait for each other.", setting="scheduling")
    ] = BARRIER
    git: Annotated[bool, Option("Whether a missing git repository is worth a warning.", setting="git")] = True
    check_commands: Annotated[list[str], CHECK] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.slug or slug_of(self.request)

    @property
    def at(self) -> Layout:
        return Layout(self.name if valid_slug(self.name) else "invalid")


@dataclass(frozen=True)
class Verification:
    """What the last round of verifiers came to."""

    verified: Decided
    against: tuple[str, ...]
    """What the engine itself knew that speaks against the work."""
    disproved: tuple[str, ...]
    """Verdicts that their own evidence contradicts."""
    lacking: tuple[str, ...]
    """Verifiers without a verdict."""


class Work:
    """Everything here is made anew by replay: the journal is the state."""

    def __init__(self, run: Run, inputs: FeatureInputs, members: Members = MEMBERS) -> None:
        self.run, self.inputs, self.members, self.at = run, inputs, members, inputs.at
        self.calls = Calls(run, self.at, members)
        self.memory = SharedMemory(run, self.at, self.calls.available)
        self.tasks = Tasks()
        self.checks = Checks(run, (), goes_on=True)
        self.name_commands()
        self.proofs: tuple[Proof, ...] = ()
        """How the commands that a person named end on the tree that was verified last."""
        self.proven_at: Any = None
        """That tree."""
        self.constraints = ""
        """Findings of the critics that the revised design left open."""
        self.verification: Verification | None = None
        self.flaws: list[str] = []
        """What makes a finished run a degraded one."""
        self.replans = 0
        self.confirmations = 1
        """Left of those that a run has; so with the fix passes."""
        self.fixes = 1

    @property
    def briefs(self) -> Briefs:
        return Briefs(self.at, frozenset(self.calls.available), self.memory.works)

    @property
    def known(self) -> JudgesFacts:
        """What judges are told of the work."""
        return JudgesFacts(tuple(self.tasks.listed), self.tasks.shown, self.proofs)

    def name_commands(self) -> None:
        """The commands that a person names: what they mend in the settings counts from then on."""
        run = self.run
        commands = named_commands(run, self.inputs.check_commands, run.settings.check_commands, "feature")
        self.checks.commands = commands

    async def prove(self) -> None:
        """Run the commands that a person named on the tree as it is."""
        self.name_commands()
        self.proofs = await self.checks.prove()
        self.proven_at = await snapshot(self.run)

    @property
    def against(self) -> tuple[str, ...]:
        """What the engine itself knows against the work: tasks that are not done, commands that are red."""
        return (*self.tasks.unfinished, *(one.shown for one in self.proofs if not one.ok))


def halt(reason: str, because: Iterable[str] = ()) -> Stop:
    """The pipeline cannot go on. `because`: the dispatches that decided it."""
    return Stop(Ending.failed(reason, because=tuple(because)))
