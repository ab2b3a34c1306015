"""From a stage's contract to the one call of its agent. Nothing reaches a brief that the contract does not name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from interlock.contracts import AnswerFormat, Artifact, Contract, Outcome, Structure
from interlock.engine import Dispatch, Kind, Proof, Quoted, Retries
from interlock.engine.brief import named
from interlock.engine.checks import UNCOMPARED
from interlock.playbooks.harness.artifacts import LEAST_HEADINGS, READINESS, RESULT, marked, qa_claim, structure_of
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
REJECTED: Mapping[Stage, str] = {
    Stage.PLANNING: "A person rejected the plan that lies there now. Revise it by what they said, and write it anew:",
    Stage.BUILD: "A person rejected the result. Settle what they said, and what the QA report leaves open:",
}
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
    "each command that you ran, as code, with how it ended (``- `make test`: exit 0``); or, where the project has none "
    "to run, a line `Nothing to run:` with the reason",
)
NO_SEARCH = "Do not search the repository for more context."
_NAMED = f"Beyond them, open only source files that they name. {NO_SEARCH}"
REACH: Mapping[Stage, str] = {
    Stage.SPECIFICATION: f"Open nothing besides. What they do not say, you do not know. {NO_SEARCH}",
    Stage.DESIGN: _NAMED,
    Stage.PLANNING: _NAMED,
    Stage.BUILD: "Beyond them, open only what the plan needs: files that they name, files that these depend on, and "
    f"what says how the project is built and tested. {NO_SEARCH}",
    Stage.QA: "Beyond them, open only what you need in order to judge: files that they name, files that were changed, "
    f"and what says how the project is built and tested. {NO_SEARCH}",
}
"""What an agent may open beside its inputs; its role says the same."""
ANSWER = AnswerFormat(
    {"completed": Outcome.OK, "error": Outcome.FAIL, "failed": Outcome.FAIL, "blocked": Outcome.BLOCKED},
    "completed",
    completion="text",
    artifact_is_verdict=True,
    unsaid=("failed",),
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


@dataclass(frozen=True)
class Told:
    """What the engine knows and the agent of a stage is told, beside the files that its contract names."""

    earlier: tuple[Quoted, ...] = ()
    """What an attempt before this one left."""
    changed: tuple[str, ...] = ()
    """Files that Build changed so far."""
    proofs: tuple[Proof, ...] = ()
    """How the commands ended that people named, on the tree as it is."""
    rejected: str = ""
    """What the person said who rejected the task at its gate."""
    uncompared: bool = False
    """Nobody knows what these commands did before Build."""


def stage_dispatch(
    task: Task, state: RunState, contract: StageContract, inputs: tuple[str, ...], told: Told
) -> Dispatch:
    """The call of the current stage's own agent, bounded by the contract."""
    stage, artifact = state.stage, state.artifact
    filled = {
        "duty": "\n\n".join(duties(state, told)),
        "task_id": task.task_id,
        "title": task.title,
        "stage": stage.value,
        "run_id": state.run_id,
        "inputs": "\n".join(f"- `{path}`" for path in inputs),
        "reach": REACH[stage],
        "more": "".join(f"### {title}\n\n{text}\n\n" for title, text in sections(task, stage, told)),
        "artifact": artifact,
        "structure": "\n".join(f"- {line}" for line in structure_lines(contract)),
    }
    text = re.sub(r"\{(\w+)\}", lambda match: filled[match[1]], TEXT)
    writes = tuple(name.removeprefix(PATH) for name in contract.writes if name.startswith(PATH))
    return Dispatch(
        agent=AGENTS[stage],
        task=text,
        contract=owed(task, state, contract),
        inputs=inputs,
        context=told.earlier,
        failure=red_words(told.proofs) if stage is Stage.BUILD else "",
        writes=writes,
        step=stage.value,
        kind=Kind.JUDGE if stage is Stage.QA else Kind.PRODUCER,
        attempt=1 + state.remediations,
        timeout_s=TIMEOUTS_S[stage],
        retries=RETRIES,
    )


def owed(task: Task, state: RunState, contract: StageContract) -> Contract:
    """What the stage's artifact, and what is claimed in it, is held to, whoever made it."""
    stage, artifact = state.stage, Artifact(state.artifact, structure=structure(contract, task))
    changes = stage is Stage.BUILD and any(name.startswith(PATH) for name in contract.writes)
    claim = qa_claim(state.artifact) if stage is Stage.QA else None
    return Contract((artifact,), ANSWER, claim=claim, must_change=changes)


def duties(state: RunState, told: Told) -> Iterator[str]:
    yield DUTIES[state.stage]
    if told.rejected and state.stage in REJECTED:
        yield f"{REJECTED[state.stage]} {told.rejected}"
    elif state.remediating:
        yield REMEDIATION


def sections(task: Task, stage: Stage, told: Told) -> Iterator[tuple[str, str]]:
    """Parts of a brief that some stages have."""
    if stage is Stage.QA:
        listed = "\n".join(f"- {one.shown}" for one in marked(task.criteria))
        yield "The criteria of the task", f"Each gets a box of its own, which begins with its mark:\n\n{listed}"
    if told.changed and stage in (Stage.BUILD, Stage.QA):
        listed = "\n".join(f"- {named(path)}" for path in told.changed)
        yield "What was changed so far", f"Files that Build changed, by interlock's own record:\n\n{listed}"
    if told.proofs and stage is Stage.QA:
        listed = "\n".join(f"- {proof.shown}" for proof in told.proofs)
        said = f"On the tree that you judge:\n\n{listed}\n\nA pass does not count while one of these is red."
        more = f"\n\n{UNCOMPARED} Look for that too." if told.uncompared else ""
        yield "What interlock ran itself", said + more


def red_words(proofs: tuple[Proof, ...]) -> str:
    """What a Build is told of commands that are red: they must pass, whatever else is done."""
    red = [f"{proof.shown}\n\n{indented(proof.tail)}".rstrip() for proof in proofs if not proof.ok]
    return "\n\n".join(["interlock ran commands that must pass, and they do not:", *red]) if red else ""


def indented(text: str, most: int = 40) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-most:])


def structure(contract: StageContract, task: Task) -> Structure:
    return structure_of(contract.stage, contract.headings, task.criteria)


def structure_lines(contract: StageContract) -> list[str]:
    """The least structure as an agent is told it."""
    headings = LEAST_HEADINGS[contract.stage] if contract.headings is None else contract.headings
    said = ["a title, `# ...`"]
    if contract.stage is Stage.QA:
        said += QA_LINES
        headings = tuple(heading for heading in headings if heading not in LEAST_HEADINGS[Stage.QA])
    return said + [f"the heading `{heading}`" for heading in headings]
