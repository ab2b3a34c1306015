"""From a stage's contract to the one call of its agent. Nothing reaches a brief that the contract does not name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from interlock.contracts import HARNESS, Artifact, Contract, Structure
from interlock.engine import Dispatch, Kind, Quoted, Retries
from interlock.playbooks.harness.artifacts import LEAST_HEADINGS, READINESS, RESULT, structure_of
from interlock.playbooks.harness.lifecycle import AGENTS, Stage
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.standards import ARTIFACT, PATH, TASK_FILE, StageContract
from interlock.playbooks.harness.task_file import Task

TEXT = resources.files(__package__).joinpath("prompts", "stage.md").read_text(encoding="utf-8")
RETRIES = Retries(transient=0, contract=1, error=0)

DUTIES: Mapping[Stage, str] = {
    Stage.SPECIFICATION: "Write the specification of the task: what is required, and how one can tell that it is met.",
    Stage.DESIGN: "Design a solution for what the specification asks, and record the decisions with their reasons.",
    Stage.PLANNING: "Plan the implementation of the design in small steps, each with the check that shows it is done.",
    Stage.BUILD: "Carry out the plan in code and tests, and report what was changed and how it was verified.",
    Stage.QA: "Judge whether what was built meets every acceptance criterion. Change nothing; find out.",
}
REMEDIATION = (
    "QA sent the task back. Settle every blocking issue and every unmet criterion of its report, and nothing besides."
)
TIMEOUTS_S: Mapping[Stage, int] = {
    Stage.SPECIFICATION: 1800,
    Stage.DESIGN: 1800,
    Stage.PLANNING: 1800,
    Stage.BUILD: 7200,
    Stage.QA: 3600,
}
QA_LINES = (
    f"a line `{RESULT}: Passed` or `{RESULT}: Issues Found`",
    f"a line `{READINESS}: Ready` or `{READINESS}: Back to Build`",
    "`## Blocking Issues`: one bullet each, or `- None`",
    "`## Acceptance Criteria`: one box each, `- [x]` when it is met and `- [ ]` when it is not",
)


@dataclass(frozen=True)
class Inputs:
    """The paths that a stage may read, resolved from its contract."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def inputs_of(contract: StageContract, state: RunState) -> Inputs:
    """What the contract names, as paths; Build after a negative QA gets its artifact too."""
    required = contract.required
    again = ARTIFACT + Stage.QA
    if state.remediating and again not in required:
        required = (*required, again)
    return Inputs(_paths(required, state), _paths(contract.optional, state))


def _paths(names: tuple[str, ...], state: RunState) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_path(name, state) for name in names))


def _path(name: str, state: RunState) -> str:
    if name == TASK_FILE:
        return state.task_file
    if name.startswith(ARTIFACT):
        return state.artifacts[Stage(name.removeprefix(ARTIFACT))]
    return name.removeprefix(PATH)


def stage_dispatch(
    task: Task, state: RunState, contract: StageContract, inputs: tuple[str, ...], earlier: tuple[Quoted, ...] = ()
) -> Dispatch:
    """The call of the current stage's own agent, bounded by the contract. `earlier`: what an attempt before left."""
    stage, artifact = state.stage, state.artifact
    duty = DUTIES[stage]
    if state.remediating:
        duty = f"{duty}\n\n{REMEDIATION}"
    filled = {
        "duty": duty,
        "task_id": task.task_id,
        "title": task.title,
        "stage": stage.value,
        "run_id": state.run_id,
        "inputs": "\n".join(f"- `{path}`" for path in inputs),
        "artifact": artifact,
        "structure": "\n".join(f"- {line}" for line in structure_lines(contract)),
    }
    text = re.sub(r"\{(\w+)\}", lambda match: filled[match[1]], TEXT)
    return Dispatch(
        agent=AGENTS[stage],
        task=text,
        contract=Contract((Artifact(artifact, structure=structure(contract)),), HARNESS),
        inputs=inputs,
        context=earlier,
        writes=tuple(name.removeprefix(PATH) for name in contract.writes if name.startswith(PATH)),
        step=stage.value,
        kind=Kind.JUDGE if stage is Stage.QA else Kind.PRODUCER,
        attempt=1 + state.remediations,
        timeout_s=TIMEOUTS_S[stage],
        retries=RETRIES,
    )


def structure(contract: StageContract) -> Structure:
    return structure_of(contract.stage, contract.headings)


def structure_lines(contract: StageContract) -> list[str]:
    """The least structure as an agent is told it."""
    headings = LEAST_HEADINGS[contract.stage] if contract.headings is None else contract.headings
    said = ["a title, `# ...`"]
    if contract.stage is Stage.QA:
        said += QA_LINES
        headings = tuple(heading for heading in headings if heading not in LEAST_HEADINGS[Stage.QA])
    return said + [f"the heading `{heading}`" for heading in headings]
