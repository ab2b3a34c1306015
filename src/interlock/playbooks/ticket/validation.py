"""Whether the tree is green: by the user's own build and test, always; by what the graph proposes, in addition.

What an agent's document says never narrows what is checked (EV-04, EV-14).  The user's commands run at the root of the
workspace; a working directory or commands of a group are run after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.engine import APPROVE, NONE, REJECT, Checks, Command, NamedCommand, Proof, Run
from interlock.playbooks.ticket.graph import Graph
from interlock.playbooks.ticket.ledger import Ledger, digest_of

HERE = "."


@dataclass(frozen=True)
class Red:
    """Why the tree is not green."""

    output: str
    by_definition: bool = False
    """Only with the files that say what is checked as they were before."""


def named(run: Run, build: Command, test: Command, cwd: str = HERE) -> tuple[NamedCommand, ...]:
    """A build and a test to be run; what is `none` is not."""
    limit = run.settings.command_timeout_s
    wanted = (("build", build), ("test", test))
    return tuple(NamedCommand(name, one.text, one.origin, cwd, limit) for name, one in wanted if one.runs)


def users_commands(run: Run, progress: Mapping[str, Any]) -> tuple[NamedCommand, ...]:
    """The user's build and test, as the state document has them now."""
    origins = progress.get("command_origins") or {}
    build, test = (
        Command(progress[f"{name}_command"], str(origins.get(name) or "progress.yaml")) for name in ("build", "test")
    )
    return named(run, build, test)


def proposed_commands(
    run: Run, progress: Mapping[str, Any], graph: Graph, letter: str | None
) -> tuple[NamedCommand, ...]:
    """What the graph wants to have run for a group, beside that: in a folder of its own, the user's too."""
    own = graph.policy.groups.get(letter or "", {})
    place = own.get("working_directory") or graph.policy.working_directory
    users = [progress["build_command"], progress["test_command"]]
    origin = f"group {letter}" if letter else "validation_policy"
    proposed = [own.get("build_command") or users[0], own.get("test_command") or users[1]]
    build, test = (Command(NONE if place == HERE and one in users else one, origin) for one in proposed)
    return named(run, build, test, place)


async def validate(ledger: Ledger, graph: Graph, letter: str | None) -> Red | None:
    """The user's build and test on the tree as it is, then what the graph proposes; as the state document says now."""
    await ledger.read_again()
    run = ledger.run
    ledger.checks.commands = users_commands(run, ledger.data)
    proposed = Checks(run, proposed_commands(run, ledger.data, graph, letter))
    for checks in (ledger.checks, proposed):
        if red := tell(ledger, checks, await checks.prove(as_before=False), letter):
            return red
    return None


async def prove_for_good(ledger: Ledger) -> Red | None:
    """The user's build and test before something is accepted: with the files that say what they do as they were
    before, too, unless a person lets the new ones hold."""
    await ledger.read_again()
    ledger.checks.commands = users_commands(ledger.run, ledger.data)
    proofs = await ledger.checks.prove()
    red = tell(ledger, ledger.checks, proofs, None)
    if red is None or not proofs[-1].definitions:
        return red
    return None if await new_ones_hold(ledger, proofs[-1]) else replace(red, by_definition=True)


def tell(ledger: Ledger, checks: Checks, proofs: Sequence[Proof], letter: str | None) -> Red | None:
    """Log what was run, once; the first that is red."""
    places = {(one.name, one.command): one.cwd for one in checks.commands}
    for proof in proofs:
        if any(proof is known for known in ledger.told):
            continue
        ledger.told.append(proof)
        place = places[proof.name, proof.command]
        ledger.log("validation", what=proof.name, command=proof.command, cwd=place, exit=proof.exit, group=letter)
        if not proof.ok:
            return Red(f"ERROR: {headline(proof)}: {proof.command}\n{proof.tail}".rstrip())
    return None


def headline(proof: Proof) -> str:
    """Why a command counts as red, in a few words."""
    before = f" with {', '.join(proof.definitions)} as before" if proof.definitions else ""
    if proof.timed_out:
        return f"{proof.name}{before} timed out after {proof.seconds:.0f} s"
    if proof.exit is None:
        return f"{proof.name}{before} {proof.problem}"
    return f"{proof.name}{before} failed with exit status {proof.exit}"


async def new_ones_hold(ledger: Ledger, proof: Proof) -> bool:
    """A person's word on changed files that say how tests and checks are run; once for each content of them."""
    run = ledger.run
    now = {path: await run.read(path, digest_of) for path in proof.definitions}
    approved = ledger.data.get("definitions_approved") or {}
    if all(approved.get(path) == digest for path, digest in now.items()):
        return True
    paths = ", ".join(proof.definitions)
    decision = await run.gate(
        "definitions",
        f"The work changed {paths}, by which your tests and checks are run. As it was before: {headline(proof)}. "
        "Does the new one hold?",
        choices=(APPROVE, REJECT),
        shows=proof.definitions,
    )
    if decision.approved:
        await ledger.change({("definitions_approved",): {**approved, **now}})
    return decision.approved
