"""`task "REQUEST"`: one agent does it, checks run, a reviewer judges; what fails goes back, three rounds at most."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from interlock.engine import (
    NONE,
    AfterComplete,
    Checks,
    Ending,
    NamedCommand,
    Option,
    Proof,
    Report,
    Retries,
    Run,
    find_commands,
    named_commands,
    playbook,
)
from interlock.errors import ConfigInvalid
from interlock.playbooks.task.briefs import (
    AGENTS,
    UNDONE,
    Against,
    builder,
    by_checks,
    by_its_contract,
    by_review,
    by_what_was_noticed,
    reviewer,
    words_of,
)
from interlock.playbooks.task.closing import Accepted, Footing, accept, ground_for_a_commit, not_accepted
from interlock.playbooks.task.decisions import AFTER_ROUND, Checked, Next, Worked, after_work, checked, reviewed
from interlock.playbooks.task.settings import TaskSettings
from interlock.playbooks.task.standing import standing_files, unweighed, weakened_still

ROUNDS = 3
NAME_LENGTH = 60


@dataclass(frozen=True)
class TaskInputs:
    """What is to be done, and what it takes to be believed."""

    request: Annotated[str, Option("What is to be done.", metavar="REQUEST", argument=True)]
    check: Annotated[
        list[str],
        Option(
            "A command that must pass, run by interlock itself; may be given several times. Default: check_commands "
            "of the settings, else what the project's files say. 'none' if there is nothing to run.",
            metavar="COMMAND",
        ),
    ] = field(default_factory=list)
    rounds: Annotated[
        int, Option("Rounds of work, at most.", metavar="N", setting="rounds", at_least=1, at_most=ROUNDS)
    ] = ROUNDS
    review: Annotated[bool, Option("Whether a reviewer judges the change.", setting="review")] = True
    commit: Annotated[bool, Option("Whether the accepted change is committed.", setting="commit")] = False


def run_key(inputs: TaskInputs) -> str:
    """The request itself; a long one by its beginning and a digest."""
    words = " ".join(inputs.request.split())
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return words if len(words) <= NAME_LENGTH else f"{words[: NAME_LENGTH - 10].rstrip()}... {digest}"


@playbook(
    "task",
    inputs=TaskInputs,
    settings=TaskSettings,
    first='"mend the typo in README.md"',
    key=run_key,
    steps={"work": "work", "check": "checks", "review": "review", "commit": "commit"},
    agents=AGENTS,
    caps={"round": ROUNDS},
    retries=Retries(transient=1, contract=1, error=0),
    after_complete=AfterComplete.ALWAYS_NEW,
    reopens=True,
)
async def task(run: Run, inputs: TaskInputs) -> Ending:
    """Do what is asked, run the checks, let a reviewer judge; what fails goes back, three rounds at most."""
    checks, found, ground = await look_first(run, inputs)
    against, short, unfinished = Against(), Against(), None
    works: list[Report] = []
    async for turn in run.loop("round", min(inputs.rounds, ROUNDS)):
        with run.step("work"):
            told = against.then(short)
            built = await run.dispatch(builder(inputs.request, checks.commands, turn, told, unfinished))
        match run.decide(after_work, built.outcome, built.reason):
            case Worked.FAILED:
                return Ending.failed(f"the builder failed: {words_of(built)}", because=(built.key,))
            case Worked.BLOCKED:
                return Ending.stopped(f"the builder cannot go on: {words_of(built)}")
            case Worked.FELL_SHORT:
                short, unfinished = by_its_contract(built), built.work
                continue
        works.append(built)
        ground = ground and await ground.worked(run)
        with run.step("check"):
            files = await standing_files(run, checks, works)
            if not files and not built.no_change:
                against, short, unfinished = UNDONE, Against(), None
                continue
            checks.commands = named(run, inputs, found)
            proofs = await checks.prove()
            unseen = [] if inputs.review else unweighed(works, files)
        review = None
        if inputs.review and checked(proofs) is not Checked.RED:
            with run.step("review"):
                review = await run.dispatch(reviewer(inputs.request, proofs, files, turn))
        match run.decide(AFTER_ROUND, checked(proofs), reviewed(review, unseen)):
            case Next.ACCEPT:
                noticed = (*weakened_still(works, files), *built.noticed)
                accepted = Accepted(inputs.request, turn, proofs, review, files, tuple(dict.fromkeys(noticed)))
                return await accept(run, accepted, checks, ground)
            case Next.STOP:
                if review is None:
                    return Ending.stopped("nothing bears the change out: no check is left, and nobody reviews")
                return Ending.failed(f"the reviewer gave no verdict: {words_of(review)}", because=(review.key,))
            case Next.AGAIN:
                against, short, unfinished = objection(proofs, review, unseen), Against(), None
                ground = ground and await ground.edited(run)
    left = await standing_files(run, checks, works)
    return not_accepted(run.identity.run_id, min(inputs.rounds, ROUNDS), against.then(short), left)


async def look_first(run: Run, inputs: TaskInputs) -> tuple[Checks, tuple[NamedCommand, ...], Footing | None]:
    """What the change will be held to, looked at before anything is paid: its checks, those that were found, and the
    repository if it is to be committed."""
    if not inputs.request.strip():
        raise ConfigInvalid("there is nothing to do: the request is empty", where="command line")
    project = await find_commands(run)
    pairs = (("build", project.build), ("test", project.test))
    found = tuple(NamedCommand(name, one.text, one.origin) for name, one in pairs if one is not None and one.runs)
    agents = AGENTS if inputs.review else AGENTS[:1]
    checks = Checks(run, named(run, inputs, found), agents=agents, goes_on=True)
    if not checks.commands and not inputs.review:
        raise ConfigInvalid(
            "nothing would show whether the change is right: there is no check, and nobody reviews",
            where="command line",
            expected="a command that must pass, or a reviewer",
            found="no check named, no file of the project that says how to build or test, and --no-review",
            remedy="Name one with --check COMMAND, or leave out --no-review.",
        )
    ground = await ground_for_a_commit(run) if inputs.commit else None
    if not checks.commands:
        run.warn("there is nothing to run: only the reviewer judges this change (--check COMMAND names a check)")
    await checks.preflight()
    await checks.start()
    return checks, found, ground


def named(run: Run, inputs: TaskInputs, found: tuple[NamedCommand, ...]) -> tuple[NamedCommand, ...]:
    """The commands that people name now; where they name none, what was found before the work."""
    given = named_commands(run, inputs.check, run.settings.check_commands, "task")
    return tuple(one for one in given if one.command != NONE) if given else found


def objection(proofs: Sequence[Proof], review: Report | None, unseen: Sequence[str]) -> Against:
    """What speaks against a round, for the next one."""
    if checked(proofs) is Checked.RED:
        return by_checks(proofs)
    return by_what_was_noticed(unseen) if review is None else by_review(review)
