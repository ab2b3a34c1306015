"""Run-state: what it says, that it survives writing and reading, and which states make sense."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Document, DocumentState
from interlock.errors import EngineFault
from interlock.playbooks.harness import run_state, templates
from interlock.playbooks.harness.escalation import Escalation, one_line
from interlock.playbooks.harness.lifecycle import (
    AGENTS,
    MOVES,
    SEQUENCE,
    WORKING,
    Finding,
    Stage,
    TaskStatus,
    belongs,
    next_stage,
    run_id,
)
from interlock.playbooks.harness.run_state import Approval, RunState, inconsistency, parse_text, rewritten
from tests.playbooks.harness.conftest import RUN_STATE

PATHS = {stage: f"docs/{stage.slug}.md" for stage in WORKING}
PLAIN = RunState("TASK-1", "harness/tasks/TASK-1.md", PATHS, "RUN-2026-01-04-TASK-1-SPEC", notes="Begun.")
TEMPLATE = templates.built_in(templates.RUN_STATE)

lines = st.text().map(one_line)
words = lines.filter(bool)
reasons = lines.filter(lambda text: text != run_state.NONE)
approvals = st.builds(
    Approval,
    st.sampled_from((Stage.BUILD, Stage.COMPLETE)),
    words,
    st.just("2026-01-04T12:00:00.000+00:00"),
)
states = st.builds(
    RunState,
    task_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,20}", fullmatch=True),
    task_file=st.just("harness/tasks/x.md"),
    artifacts=st.just(PATHS),
    run_id=st.just("RUN-2026-01-04-X-SPEC"),
    status=st.sampled_from(TaskStatus),
    stage=st.sampled_from(Stage),
    completed=st.integers(0, 7).map(lambda count: SEQUENCE[:count]),
    approve_build=st.booleans(),
    approve_complete=st.booleans(),
    stop_reason=reasons.map(lambda text: f"Stop: {text}".strip() if text else ""),
    notes=words,
    remediations=st.integers(0, 2),
    approvals=st.lists(approvals, max_size=3).map(tuple),
)


@given(states)
def test_what_is_written_is_what_is_read(state: RunState) -> None:
    """Every state survives its document, in the first text and in a rewritten one."""
    text = templates.first_state(TEMPLATE, state)
    assert parse_text(text) == state
    assert parse_text(rewritten(templates.first_state(TEMPLATE, PLAIN), state)) == state


@given(states, states)
def test_a_rewrite_keeps_what_a_person_wrote(first: RunState, second: RunState) -> None:
    """Only values are replaced: a remark between title and fields stays, and going back gives the same bytes again."""
    remark = "# Run State\n\nOurs. Hands off.\n"
    text = templates.first_state(TEMPLATE, first).replace("# Run State\n", remark)
    changed = rewritten(text, second)
    assert changed.startswith(remark)
    assert parse_text(changed) == second
    assert rewritten(changed, first) == text


@pytest.mark.req("LY-05")
@given(states, states, st.sampled_from(("Notes", "Completed Stages", "Approvals", "Artifact Paths")))
def test_a_remark_beside_the_values_of_a_list_stays(first: RunState, second: RunState, section: str) -> None:
    """What a person wrote under a heading of ours is there after any rewrite, and means nothing to the engine."""
    before, heading, after = templates.first_state(TEMPLATE, first).partition(f"\n## {section}\n")
    own, following, rest = after.partition("\n\n## ")
    text = f"{before}{heading}{own.rstrip()}\n\nAsk Bo before you go on.{following}{rest}".rstrip() + "\n"
    assert parse_text(text) == first
    changed = rewritten(text, second)
    assert parse_text(changed) == second
    assert "\nAsk Bo before you go on.\n" in changed
    assert rewritten(changed, first) == text


@pytest.mark.req("LY-05", "HN-63")
@given(states, states, words)
def test_no_sentence_of_a_person_is_taken_for_the_engines(first: RunState, second: RunState, said: str) -> None:
    """The engine knows its own line by its field: one that only sounds like it stays, wherever it stands."""
    theirs = f"{said} {PLAIN.told('QA was completed by qa.').notes}"
    before, heading, _ = templates.first_state(TEMPLATE, first).partition("\n## Notes\n")
    text = f"{before}{heading}\n{theirs}\n"
    changed = rewritten(text, second)
    assert parse_text(changed) == second
    assert changed.endswith(f"\n{theirs}\n")
    assert parse_text(text).notes == ""


@pytest.mark.req("HN-89")
@pytest.mark.parametrize("field", run_state.FIELDS)
def test_every_field_is_needed(field: str) -> None:
    """A document that lacks one of the fields is malformed, and the message names it."""
    text = templates.first_state(TEMPLATE, PLAIN).replace(f"- {field}:", "- Gone:").replace(f"## {field}", "## Gone")
    with pytest.raises(Escalation) as caught:
        parse_text(text)
    assert caught.value.what == f"{RUN_STATE}: malformed: field {field} not found"
    assert caught.value.remedy
    assert caught.value.exit_code == 2


@pytest.mark.req("HN-110", "HN-85")
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            "Current Stage: Specification",
            "Current Stage: Testing",
            'Current Stage "Testing" is invalid; expected one of Specification, Design, Implementation Planning, '
            "Build, QA, Awaiting Approval, Complete",
        ),
        (
            "Current Status: Active",
            "Current Status: Done",
            'Current Status "Done" is invalid; expected Active, Awaiting Approval, Blocked, Complete',
        ),
        (
            "## Completed Stages\n\n- None",
            "## Completed Stages\n\n- Specification\n- Build",
            "Completed Stages [Specification, Build] is not a prefix of the lifecycle",
        ),
        (
            "Require Approval Before Build: Yes",
            "Require Approval Before Build: maybe",
            'Require Approval Before Build: "maybe"; expected Yes or No',
        ),
        (
            "Remediation Count: 0",
            "Remediation Count: 3",
            f'{RUN_STATE}: malformed: Remediation Count "3"; expected 0 to 2',
        ),
        ("Task ID: TASK-1", "Task ID:", f"{RUN_STATE}: malformed: field Task ID is empty"),
        (
            "## Approvals\n\n- None",
            "## Approvals\n\n- Design: ann now",
            f'{RUN_STATE}: malformed: Approvals: "Design: ann now"; expected Build or Complete, a colon, who and when',
        ),
        (
            "Design: docs/design.md",
            "Design: docs/spec.md",
            "Artifact paths for Specification and Design are the same: docs/spec.md",
        ),
    ],
)
def test_values_that_mean_nothing_are_refused(old: str, new: str, what: str) -> None:
    """The exact words of the table of bad inputs, with a cure."""
    text = templates.first_state(TEMPLATE, PLAIN)
    assert old in text
    with pytest.raises(Escalation) as caught:
        parse_text(text.replace(old, new))
    assert caught.value.what == what
    assert caught.value.remedy


def test_a_document_that_cannot_be_read_says_so() -> None:
    """Not UTF-8, a folder: unreadable."""
    document = Document(RUN_STATE, DocumentState.UNREADABLE, problem="is a directory")
    with pytest.raises(Escalation, match="unreadable: is a directory"):
        run_state.parse(document)


def at(stage: Stage, status: TaskStatus = TaskStatus.ACTIVE, **changes: Any) -> RunState:
    completed = changes.pop("completed", SEQUENCE[: SEQUENCE.index(stage)])
    return replace(PLAIN, stage=stage, status=status, completed=completed, **changes)


BUILT = (Approval(Stage.BUILD, "ann", "now"),)
BOTH = (*BUILT, Approval(Stage.COMPLETE, "ann", "now"))
FREE = {"approve_build": False, "approve_complete": False}


@pytest.mark.req("HN-06", "HN-85", "HN-109", "HN-110")
@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (at(Stage.SPECIFICATION), None),
        (at(Stage.DESIGN), None),
        (at(Stage.PLANNING), None),
        (at(Stage.BUILD, TaskStatus.AWAITING_APPROVAL), None),
        (at(Stage.BUILD, approvals=BUILT), None),
        (at(Stage.BUILD, **FREE), None),
        (at(Stage.BUILD), "Require Approval Before Build is Yes and not recorded"),
        (at(Stage.BUILD, remediations=1, completed=SEQUENCE[:4]), None),
        (at(Stage.BUILD, remediations=0, completed=SEQUENCE[:4], approvals=BUILT), "does not follow"),
        (at(Stage.QA), None),
        (at(Stage.QA, TaskStatus.BLOCKED), None),
        (at(Stage.QA, TaskStatus.AWAITING_APPROVAL), "does not go with"),
        (at(Stage.DESIGN, TaskStatus.AWAITING_APPROVAL), "does not go with"),
        (at(Stage.DESIGN, completed=()), 'does not follow Completed Stages [None]; expected "Specification"'),
        (at(Stage.DESIGN, completed=SEQUENCE[:3]), 'expected "Build"'),
        (at(Stage.QA, completed=SEQUENCE[:3], remediations=2), "does not follow"),
        (at(Stage.APPROVAL, TaskStatus.AWAITING_APPROVAL), None),
        (at(Stage.APPROVAL), "Require Approval Before Complete is Yes and not recorded"),
        (at(Stage.APPROVAL, **FREE), None),
        (at(Stage.APPROVAL, TaskStatus.AWAITING_APPROVAL, **FREE), "is not required, or recorded already"),
        (at(Stage.BUILD, TaskStatus.AWAITING_APPROVAL, approvals=BUILT), "is not required, or recorded already"),
        (at(Stage.COMPLETE, TaskStatus.COMPLETE, approvals=BOTH), None),
        (at(Stage.COMPLETE, TaskStatus.COMPLETE, **FREE), None),
        (at(Stage.COMPLETE, TaskStatus.COMPLETE), "no approval is recorded, but the task is Complete"),
        (at(Stage.COMPLETE, TaskStatus.BLOCKED), "does not go with"),
        (at(Stage.QA, TaskStatus.COMPLETE), "does not go with"),
        (at(Stage.COMPLETE, TaskStatus.COMPLETE, completed=SEQUENCE, **FREE), "does not follow"),
    ],
)
def test_which_states_make_sense(state: RunState, problem: str | None) -> None:
    """The stage follows the completed ones, and status and approvals do not contradict it."""
    found = inconsistency(state)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert problem in found


@pytest.mark.req("HN-44", "HN-51")
def test_the_moves_follow_the_sequence() -> None:
    """Every move leads to the next stage, but for the ways back; the last two stages have no agent."""
    assert [stage.value for stage in SEQUENCE] == [
        "Specification", "Design", "Implementation Planning", "Build", "QA", "Awaiting Approval", "Complete",
    ]  # fmt: skip
    for (source, finding), target in MOVES.items():
        forward = SEQUENCE.index(target) - SEQUENCE.index(source)
        assert forward == {Finding.QA_NEGATIVE: -1, Finding.REJECTED: -1 if source is Stage.BUILD else -2}.get(
            finding, 1
        )
    assert set(SEQUENCE) - set(AGENTS) == {Stage.APPROVAL, Stage.COMPLETE}


@pytest.mark.req("HN-06")
def test_a_move_that_is_not_in_the_table_changes_nothing() -> None:
    """No finding skips a stage: what the table does not have is a fault."""
    possible = set(MOVES)
    for stage in Stage:
        for finding in Finding:
            if (stage, finding) not in possible:
                with pytest.raises(EngineFault):
                    next_stage(stage, finding)


@pytest.mark.req("HN-32", "HN-61")
def test_run_ids() -> None:
    """Day, task, stage; the number of the remediation only for Build and QA."""
    assert run_id("2026-01-04", "TASK-012", Stage.SPECIFICATION, 0) == "RUN-2026-01-04-TASK-012-SPEC"
    assert run_id("2026-01-04", "T", Stage.BUILD, 1) == "RUN-2026-01-04-T-BUILD-R1"
    assert run_id("2026-01-04", "T", Stage.QA, 2) == "RUN-2026-01-04-T-QA-R2"
    assert run_id("2026-01-04", "T", Stage.APPROVAL, 2) == "RUN-2026-01-04-T-APPROVAL"
    for stage in Stage:
        assert re.fullmatch(r"RUN-\d{4}-\d{2}-\d{2}-T-[A-Z]+", run_id("2026-01-04", "T", stage, 0))
        assert belongs(run_id("2027-12-31", "T", stage, 0), "T", stage, 0)
    assert not belongs("RUN-2026-01-04-T-BUILD", "T", Stage.BUILD, 1)
    assert not belongs("RUN-2026-01-04-T-DESIGN", "T", Stage.BUILD, 0)


@given(states, st.sampled_from(WORKING), st.booleans())
def test_going_back_gives_a_state_that_makes_sense(state: RunState, stage: Stage, reset: bool) -> None:
    """From any consistent state a person can go back to any earlier stage, and the result can be gone on from."""
    if inconsistency(state) or state.status is TaskStatus.COMPLETE or state.stage.before(stage):
        return
    for target in (stage, None):
        going = run_state.resumed_at(state, target, "2026-01-05", "Resumed.", reset=reset)
        assert inconsistency(going) is None
        assert going.status is not TaskStatus.BLOCKED
        assert going.remediations == (0 if reset else state.remediations)
