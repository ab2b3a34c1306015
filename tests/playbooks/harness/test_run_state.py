"""Run-state: what it says, that it survives writing and reading, and which states make sense."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Document, DocumentState, one_line
from interlock.playbooks.harness import run_state, templates
from interlock.playbooks.harness.escalation import Escalation
from interlock.playbooks.harness.run_state import Approval, RunState, inconsistency, rewritten
from interlock.playbooks.harness.stages import LIFECYCLE, TaskStatus
from tests.playbooks.harness.conftest import RUN_STATE

SEQUENCE = LIFECYCLE.names
PATHS = {stage.name: f"docs/{stage.slug}.md" for stage in LIFECYCLE.working}
ASKED = {"Build": True, "Complete": True}
PLAIN = RunState(
    LIFECYCLE,
    "TASK-1",
    "harness/tasks/TASK-1.md",
    PATHS,
    "RUN-2026-01-04-TASK-1-SPEC",
    "Specification",
    ASKED,
    notes="Begun.",
)
TEMPLATE = templates.built_in(templates.RUN_STATE)


def parse_text(text: str) -> RunState:
    return run_state.parse_text(text, LIFECYCLE)


lines = st.text().map(one_line)
words = lines.filter(bool)
reasons = lines.filter(lambda text: text != run_state.NONE)
approvals = st.builds(
    Approval,
    st.sampled_from(("Build", "Complete")),
    words,
    st.just("2026-01-04T12:00:00.000+00:00"),
)
states = st.builds(
    RunState,
    lifecycle=st.just(LIFECYCLE),
    task_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,20}", fullmatch=True),
    task_file=st.just("harness/tasks/x.md"),
    artifacts=st.just(PATHS),
    run_id=st.just("RUN-2026-01-04-X-SPEC"),
    status=st.sampled_from(TaskStatus),
    stage=st.sampled_from(SEQUENCE),
    completed=st.integers(0, 7).map(lambda count: SEQUENCE[:count]),
    asks=st.fixed_dictionaries({"Build": st.booleans(), "Complete": st.booleans()}),
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
        run_state.parse(document, LIFECYCLE)


def at(stage: str, status: TaskStatus = TaskStatus.ACTIVE, **changes: Any) -> RunState:
    completed = changes.pop("completed", SEQUENCE[: SEQUENCE.index(stage)])
    return replace(PLAIN, stage=stage, status=status, completed=completed, **changes)


BUILT = (Approval("Build", "ann", "now"),)
BOTH = (*BUILT, Approval("Complete", "ann", "now"))
FREE = {"asks": {"Build": False, "Complete": False}}


@pytest.mark.req("HN-06", "HN-85", "HN-109", "HN-110")
@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (at("Specification"), None),
        (at("Design"), None),
        (at("Implementation Planning"), None),
        (at("Build", TaskStatus.AWAITING_APPROVAL), None),
        (at("Build", approvals=BUILT), None),
        (at("Build", **FREE), None),
        (at("Build"), "Require Approval Before Build is Yes and not recorded"),
        (at("Build", remediations=1, completed=SEQUENCE[:4]), None),
        (at("Build", remediations=0, completed=SEQUENCE[:4], approvals=BUILT), "does not follow"),
        (at("QA"), None),
        (at("QA", TaskStatus.BLOCKED), None),
        (at("QA", TaskStatus.AWAITING_APPROVAL), "does not go with"),
        (at("Design", TaskStatus.AWAITING_APPROVAL), "does not go with"),
        (at("Design", completed=()), 'does not follow Completed Stages [None]; expected "Specification"'),
        (at("Design", completed=SEQUENCE[:3]), 'expected "Build"'),
        (at("QA", completed=SEQUENCE[:3], remediations=2), "does not follow"),
        (at("Awaiting Approval", TaskStatus.AWAITING_APPROVAL), None),
        (at("Awaiting Approval"), "Require Approval Before Complete is Yes and not recorded"),
        (at("Awaiting Approval", **FREE), None),
        (at("Awaiting Approval", TaskStatus.AWAITING_APPROVAL, **FREE), "is not required, or recorded already"),
        (at("Build", TaskStatus.AWAITING_APPROVAL, approvals=BUILT), "is not required, or recorded already"),
        (at("Complete", TaskStatus.COMPLETE, approvals=BOTH), None),
        (at("Complete", TaskStatus.COMPLETE, **FREE), None),
        (at("Complete", TaskStatus.COMPLETE), "no approval is recorded, but the task is Complete"),
        (at("Complete", TaskStatus.BLOCKED), "does not go with"),
        (at("QA", TaskStatus.COMPLETE), "does not go with"),
        (at("Complete", TaskStatus.COMPLETE, completed=SEQUENCE, **FREE), "does not follow"),
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


@pytest.mark.req("HN-44", "HN-51", "HN-06")
def test_stages_follow_each_other() -> None:
    """Each is followed by the next, none is skipped; the last two have no agent."""
    assert [*SEQUENCE] == [
        "Specification", "Design", "Implementation Planning", "Build", "QA", "Awaiting Approval", "Complete",
    ]  # fmt: skip
    state = replace(PLAIN, **FREE)
    for number, stage in enumerate(SEQUENCE[1:], start=1):
        state = state.advanced("2026-01-04", "Done.")
        assert (state.stage, state.completed) == (stage, SEQUENCE[:number])
        assert inconsistency(state) is None
    assert state.status is TaskStatus.COMPLETE
    assert [stage.name for stage in LIFECYCLE.stages if not stage.agent] == ["Awaiting Approval", "Complete"]


@pytest.mark.req("HN-32", "HN-61")
def test_run_ids() -> None:
    """Day, task, stage; the number of the remediation only for Build and QA."""
    run_id, belongs = LIFECYCLE.run_id, LIFECYCLE.is_run_id
    assert run_id("2026-01-04", "TASK-012", "Specification", 0) == "RUN-2026-01-04-TASK-012-SPEC"
    assert run_id("2026-01-04", "T", "Build", 1) == "RUN-2026-01-04-T-BUILD-R1"
    assert run_id("2026-01-04", "T", "QA", 2) == "RUN-2026-01-04-T-QA-R2"
    assert run_id("2026-01-04", "T", "Awaiting Approval", 2) == "RUN-2026-01-04-T-APPROVAL"
    for stage in SEQUENCE:
        assert re.fullmatch(r"RUN-\d{4}-\d{2}-\d{2}-T-[A-Z]+", run_id("2026-01-04", "T", stage, 0))
        assert belongs(run_id("2027-12-31", "T", stage, 0), "T", stage, 0)
    assert not belongs("RUN-2026-01-04-T-BUILD", "T", "Build", 1)
    assert not belongs("RUN-2026-01-04-T-DESIGN", "T", "Build", 0)


@given(states, st.sampled_from([stage.name for stage in LIFECYCLE.working]), st.booleans())
def test_going_back_gives_a_state_that_makes_sense(state: RunState, stage: str, reset: bool) -> None:
    """From any consistent state a person can go back to any earlier stage, and the result can be gone on from."""
    if inconsistency(state) or state.status is TaskStatus.COMPLETE or LIFECYCLE.before(state.stage, stage):
        return
    for target in (stage, None):
        going = state.resumed(target, "2026-01-05", "Resumed.", reset=reset)
        assert inconsistency(going) is None
        assert going.status is not TaskStatus.BLOCKED
        assert going.remediations == (0 if reset else state.remediations)
