"""From a stage's row and contract to the one call of its agent. Nothing reaches a brief that they do not name."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.contracts import AnswerFormat, Artifact, Contract, Outcome
from interlock.engine import UNCOMPARED, Dispatch, Kind, Prompt, Proof, Quoted, Retries, named
from interlock.playbooks.harness.artifacts import claim_in, further_headings, marked, structure_of
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.stages import ARTIFACT, PATH, TASK_FILE, StageContract
from interlock.playbooks.harness.task_file import Task

RETRIES = Retries(transient=0, contract=1, error=0)
ANSWER = AnswerFormat(
    {"completed": Outcome.OK, "error": Outcome.FAIL, "failed": Outcome.FAIL, "blocked": Outcome.BLOCKED},
    "completed",
    completion="text",
    artifact_is_verdict=True,
    unsaid=("failed",),
)


def paths_of(names: tuple[str, ...], state: RunState) -> tuple[str, ...]:
    """What a contract names, as paths; artifacts of stages that take no part are left out."""
    return tuple(dict.fromkeys(path for name in names if (path := _path(name, state)) is not None))


def _path(name: str, state: RunState) -> str | None:
    if name == TASK_FILE:
        return state.task_file
    if name.startswith(ARTIFACT):
        return state.artifacts.get(name.removeprefix(ARTIFACT))
    return name.removeprefix(PATH)


@dataclass(frozen=True)
class Told:
    """What the engine knows and the agent of a stage is told, beside the files that its contract names."""

    earlier: tuple[Quoted, ...] = ()
    """What an attempt before this one left."""
    changed: tuple[str, ...] = ()
    """Files that were changed so far."""
    proofs: tuple[Proof, ...] = ()
    """How the commands ended that people named, on the tree as it is."""
    judge: str = ""
    """The stage that sent the task back."""
    rejected: str = ""
    """What the person said who rejected the task at its gate."""
    uncompared: bool = False
    """Nobody knows what these commands did before the work."""


def stage_dispatch(
    task: Task, state: RunState, contract: StageContract, inputs: tuple[str, ...], told: Told
) -> Dispatch:
    """The call of the current stage's own agent, bounded by the contract."""
    row, judging = state.row, state.row.judging
    gate = next((gate for _, gate in state.lifecycle.gates if gate.back_to == row.name), None)
    text = Prompt.of(
        "stage",
        duty=row.duty,
        rejected=f"{gate.told} {told.rejected}" if gate is not None and told.rejected else "",
        sent_back_by=told.judge,
        task=task.task_id,
        title=task.title,
        stage=row.name,
        run_id=state.run_id,
        inputs=inputs,
        reach=row.reach,
        criteria=[one.shown for one in marked(task.criteria)] if judging and judging.criteria else [],
        changed=[named(path) for path in told.changed] if judging or row.builds else [],
        builder=" and ".join(state.lifecycle.builders),
        proofs=[proof.shown for proof in told.proofs] if judging else [],
        uncompared=UNCOMPARED if told.uncompared else "",
        artifact=state.artifact,
        marks=judging.marks if judging else (),
        issues=judging.issues if judging else "",
        boxes=judging.criteria if judging else "",
        headings=further_headings(row, contract),
    )
    return Dispatch(
        agent=row.agent,
        task=text,
        contract=owed(task, state, contract),
        inputs=inputs,
        context=told.earlier,
        failure=red_words(told.proofs) if row.builds else "",
        writes=contract.writes,
        step=row.name,
        kind=Kind.JUDGE if judging else Kind.PRODUCER,
        attempt=1 + state.remediations,
        timeout_s=row.timeout_s,
        retries=RETRIES,
    )


def owed(task: Task, state: RunState, contract: StageContract) -> Contract:
    """What the stage's artifact, and what is claimed in it, is held to, whoever made it."""
    row = state.row
    artifact = Artifact(state.artifact, structure=structure_of(row, contract, task.criteria))
    claim = claim_in(row.judging, state.artifact) if row.judging else None
    return Contract((artifact,), ANSWER, claim=claim, must_change=row.builds and bool(contract.writes))


def red_words(proofs: tuple[Proof, ...]) -> str:
    """What a Build is told of commands that are red: they must pass, whatever else is done."""
    red = [f"{proof.shown}\n\n{indented(proof.tail)}".rstrip() for proof in proofs if not proof.ok]
    return "\n\n".join(["interlock ran commands that must pass, and they do not:", *red]) if red else ""


def indented(text: str, most: int = 40) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-most:])
