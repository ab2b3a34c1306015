"""The harness rehearsed: every combination of at most two faults, a sample of three, and invariants that notice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.contracts import Claim, Evidence
from interlock.engine import APPROVE, Dispatch, Ending, GateDecision, Options, Run, Status
from interlock.playbooks.harness import rehearsal, templates
from interlock.playbooks.harness.artifacts import claim_in
from interlock.playbooks.harness.briefs import stage_dispatch
from interlock.playbooks.harness.decisions import AFTER_FAILURE, AfterVerdict, StageFailure
from interlock.playbooks.harness.gates import record_approval
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import DESIGN, PLANNING, Judging, StageContract, TaskStatus
from interlock.playbooks.harness.stint import Stint
from interlock.playbooks.harness.task_file import Task
from interlock.playbooks.harness.work import StageExecution, dispatched, open_artifact
from tests.playbooks.broken import ALWAYS_FAULTS, Fault, expect_notice
from tests.playbooks.harness.conftest import GOOD

OPTIONS = Options(settings=HarnessSettings())
SAMPLED = 0.015
"""Share of the paths with three faults that are played, besides those on which QA is negative three times."""
PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "harness.md"


@pytest.mark.long
@pytest.mark.req("HN-06", "HN-07", "HN-08", "HN-90", "HN-108", "HN-109")
def test_every_invariant_holds_on_every_path() -> None:
    """All combinations of at most two deviations, crashes of the engine included, and a seeded sample of three."""
    setup, chance = rehearsal(), random.Random(7)
    endings, faults = Counter[str](), Counter[int]()

    def sampled(schedule: Mapping[int, str]) -> bool:
        return set(schedule.values()) == {"finds issues"} or chance.random() < SAMPLED

    for played in setup.paths(OPTIONS, most=setup.most + 1, sample_of=sampled):
        assert setup.broken(played) == []
        endings[played.finished.status.value] += 1
        faults[len(played.schedule)] += 1
    assert set(endings) == {Status.COMPLETE, Status.STOPPED, Status.FAILED}
    assert faults[0] == 1
    assert all(faults[number] for number in (1, 2, 3))


# -- deliberately broken copies


async def dispatches_for_ever(run: Run, ledger: Ledger, contract: StageContract, *given: Any) -> StageExecution:
    while True:
        await dispatched(run, ledger, contract, *given)


async def designs_alone(run: Run, ledger: Ledger, contract: StageContract, *given: Any) -> StageExecution:
    """Nobody is asked for the design: the engine writes one."""
    if ledger.state.row is not DESIGN:
        return await dispatched(run, ledger, contract, *given)
    await run.write(ledger.state.artifact, GOOD[DESIGN.agent])
    document, found = await open_artifact(run, ledger, contract)
    return StageExecution(DESIGN.agent, found, document.text)


def by_the_planner(task: Task, state: RunState, *given: Any) -> Dispatch:
    """The design is another agent's."""
    spec = stage_dispatch(task, state, *given)
    return replace(spec, agent=PLANNING.agent) if state.row is DESIGN else spec


async def keeps_no_report(*_given: Any) -> None:
    return None


def writes_run_state_anew(_text: str, state: RunState) -> str:
    return templates.first_state(templates.built_in(templates.RUN_STATE), state)


async def approves_itself(_run: Run, ledger: Ledger, _stint: Stint) -> Ending | None:
    """Writes down an approval that nobody gave."""
    gate = ledger.state.row.gate
    assert gate is not None
    decision = GateDecision(APPROVE.name, "ann", ledger.stamp(), "", {})
    await record_approval(ledger, gate, decision, ledger.state.artifacts["Build"])
    return None


def builds_unasked(state: RunState, event: str) -> RunState:
    """No gate before Build."""
    return state if state.row.builds else GATED(state, event)


class Overlooked(Evidence):
    """Evidence in which nothing is seen that speaks against a pass."""

    contradictions = ()


def believes_qa(judging: Judging, path: str) -> Any:
    """Reads a QA report, and looks away from what its own evidence says."""
    read = claim_in(judging, path)

    def claim(data: Any, texts: Any) -> Claim:
        found = read(data, texts)
        return replace(found, evidence=Overlooked(**vars(found.evidence)))

    return claim


def blocks_without_a_word(state: RunState, _reason: str) -> RunState:
    return state.told("The run stopped.", status=TaskStatus.BLOCKED)


GATED = RunState.gated
ERROR_IS_SUCCESS = {
    **AFTER_FAILURE,
    StageFailure.ERROR: replace(AFTER_FAILURE[StageFailure.ERROR], status=Status.COMPLETE),
}


def negative_goes_on(passes: bool, red: bool, left: bool) -> AfterVerdict:
    return AfterVerdict.ADVANCE if left else AfterVerdict.BLOCK


ENDS = "every path comes to an end"
AGREE = "run-state and report can be read and agree"
SEQUENCE = "no stage is skipped, and only its own agent carries it out"
ASKED = "nothing is built or complete without a person's word"
EVIDENCE = "nothing is accepted against evidence"
PROVEN = "no stage is passed without an artifact that is good"
EARNED = "complete means that the last QA was positive"
TWICE = "QA sends a task back at most twice"
GOVERNED = "what governs the workflow stays as it was"
WHY = "whoever stops says why"
THEIRS = "what people write meanwhile is theirs"
MOVED = "where a person moves the task, there it stands"

BROKEN: Mapping[str, tuple[str, Fault]] = {
    **{name: (name, fault) for name, fault in ALWAYS_FAULTS.items()},
    "a stage is dispatched again and again": (ENDS, Fault({"work.dispatched": dispatches_for_ever})),
    "the report does not grow": (AGREE, Fault({"ledger.Ledger._grow": keeps_no_report})),
    "nobody is asked for the design": (SEQUENCE, Fault({"work.dispatched": designs_alone})),
    "another agent designs": (SEQUENCE, Fault({"briefs.stage_dispatch": by_the_planner})),
    "there is no gate before Build": (ASKED, Fault({"run_state.RunState.gated": builds_unasked})),
    "the engine approves": (ASKED, Fault({"gates.ask": approves_itself})),
    "every dispatch is a success": (
        PROVEN,
        Fault({"decisions.failure_of": lambda *_facts: StageFailure.NONE}, most=1, by=("says error",)),
    ),
    "QA is believed against its own evidence": (
        EVIDENCE,
        Fault({"artifacts.claim_in": believes_qa}, most=1, by=("passes against its own evidence",)),
    ),
    "a negative QA goes on": (
        EARNED,
        Fault({"decisions.after_verdict": negative_goes_on}, most=1, by=("finds issues",)),
    ),
    "a run whose agent failed is complete": (
        EARNED,
        Fault({"decisions.AFTER_FAILURE": ERROR_IS_SUCCESS}, most=1, by=("says error",)),
    ),
    "three ways back": (TWICE, Fault({"stages.REMEDIATIONS": 3}, most=3, by=("finds issues",))),
    "every approval goes into the task file": (GOVERNED, Fault({"gates.RECORD": APPROVE})),
    "run-state is written anew each time": (
        THEIRS,
        Fault({"run_state.rewritten": writes_run_state_anew}, most=1, by=("a person makes remarks",)),
    ),
    "an edit of run-state is not looked at": (
        MOVED,
        Fault({"ledger.Ledger._must_be_ours": lambda *_given: None}, most=1, by=("a person moves the task",)),
    ),
    "a stop has no reason": (WHY, Fault({"run_state.RunState.blocked": blocks_without_a_word}, most=1, by=("dies",))),
}
"""What is broken in a copy: the invariant that notices, and the fault."""


@pytest.mark.parametrize("what", BROKEN)
def test_each_invariant_notices_a_broken_copy_of_the_playbook(what: str) -> None:
    """The real process with one fault has a path about which that invariant complains, and no other."""
    name, fault = BROKEN[what]
    expect_notice(rehearsal(), OPTIONS, name, fault)


def test_every_invariant_has_a_broken_copy_and_a_line_on_the_page() -> None:
    """An invariant that cannot fail proves nothing, and one that nobody knows of promises nothing."""
    names = [one.name for one in rehearsal().invariants]
    assert {name for name, _fault in BROKEN.values()} == set(names)
    assert "".join(f"- {name}\n" for name in names) in PAGE.read_text("utf-8")
