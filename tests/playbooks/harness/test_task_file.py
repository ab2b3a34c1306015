"""Task files: what they say, and every way in which they can be wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Document, DocumentState
from interlock.playbooks.harness import example_files
from interlock.playbooks.harness.escalation import Escalation
from interlock.playbooks.harness.stages import LIFECYCLE
from interlock.playbooks.harness.task_file import is_governed, leaves, named_task, parse_task, with_approval
from tests.playbooks.harness.conftest import ARTIFACTS, TASK, TASK_FILE

TEXT = example_files()[TASK_FILE]


def document(text: str, path: str = TASK_FILE) -> Document:
    return Document(path, DocumentState.OK, text)


@pytest.mark.req("HN-29")
def test_a_task_file_says_everything() -> None:
    """Title, id, objective, criteria and the five artifact paths are read as they stand."""
    task = parse_task(document(TEXT), LIFECYCLE)
    assert (task.task_id, task.title) == (TASK, "Greet by name")
    assert task.objective.startswith("`greet.py` prints")
    assert len(task.criteria) == 3
    assert list(task.artifacts) == [stage.name for stage in LIFECYCLE.working]
    assert task.artifacts["Implementation Planning"] == f"{ARTIFACTS}/plan.md"


@pytest.mark.req("HN-34")
@pytest.mark.parametrize(
    ("lines", "build", "complete"),
    [
        ("- Workflow Mode: standard", True, True),
        ("- Workflow Mode: supervised", True, True),
        ("- Workflow Mode: autonomous", False, False),
        ("- Workflow Mode: autonomous   # nobody watches", False, False),
        ("", True, True),
        ("- Workflow Mode: autonomous\n- Require Approval Before Complete: Yes", False, True),
        ("- Workflow Mode: standard\n- Require Approval Before Build: No", False, True),
    ],
)
def test_approval_settings_follow_the_mode(lines: str, build: bool, complete: bool) -> None:
    """The mode gives both settings; a setting of its own overrides it; without a mode people approve."""
    task = parse_task(document(TEXT.replace("- Workflow Mode: standard", lines)), LIFECYCLE)
    assert task.asks == {"Build": build, "Complete": complete}


@pytest.mark.req("HN-23", "HN-102", "HN-110", "HN-111")
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("# Greet by name\n", "", f"{TASK_FILE}: required metadata missing: Title"),
        ("- Task ID: TASK-001\n", "", f"{TASK_FILE}: required metadata missing: Task ID"),
        ("Task ID: TASK-001", "Task ID: TASK-1", "Task ID TASK-1 does not match file TASK-001.md"),
        ("Task ID: TASK-001", "Task ID: a b", f"{TASK_FILE}: Task ID 'a b' is malformed"),
        ("## Objective", "## Aim", f"{TASK_FILE}: required metadata missing: Objective"),
        ("## Acceptance Criteria", "## Wishes", f"{TASK_FILE}: required metadata missing: Acceptance Criteria"),
        (
            f"- Design: {ARTIFACTS}/design.md\n",
            "",
            f"{TASK_FILE}: required metadata missing: Artifact path for Design",
        ),
        (
            f"Design: {ARTIFACTS}/design.md",
            "Design: ../x.md",
            "Artifact path for Design leaves the repository: ../x.md",
        ),
        (f"Design: {ARTIFACTS}/design.md", "Design: /x.md", "Artifact path for Design leaves the repository: /x.md"),
        (f"Design: {ARTIFACTS}/design.md", "Design: docs/*.md", "Artifact path for Design is a pattern: docs/*.md"),
        (
            f"Build: {ARTIFACTS}/build-report.md",
            f"Build: {ARTIFACTS}/design.md",
            f"Artifact paths for Design and Build are the same: {ARTIFACTS}/design.md",
        ),
        (
            f"Design: {ARTIFACTS}/design.md",
            "Design: harness/standards/task-lifecycle.md",
            "Artifact path for Design is not an agent's to write: harness/standards/task-lifecycle.md",
        ),
        (
            "Workflow Mode: standard",
            "Workflow Mode: wild",
            'Workflow Mode: "wild"; expected standard, supervised, autonomous',
        ),
        (
            "- Workflow Mode: standard",
            "- Require Approval Before Build: maybe",
            'Require Approval Before Build: "maybe"; expected Yes or No',
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_cure(bench: Any, old: str, new: str, what: str) -> None:
    """Cause and cure, exit 2, and nothing is written: no run-state, no report, no run."""
    bench.set(TASK_FILE, old, new)
    error = bench.refuse()
    assert error.what == what
    assert error.remedy
    assert error.exit_code == 2
    assert TASK_FILE in (error.where or "")


@pytest.mark.req("HN-23", "HN-110")
def test_a_task_file_that_is_not_there(bench: Any) -> None:
    """Named as the table of bad inputs says."""
    del bench.files[TASK_FILE]
    assert bench.refuse().what == f"Task file not found: {TASK_FILE}"


def test_a_task_file_that_is_not_text(bench: Any) -> None:
    """Bytes that are no UTF-8 are unreadable."""
    bench.files[TASK_FILE] = b"\xff\xfe"
    assert "unreadable" in bench.refuse().what


@pytest.mark.parametrize(
    "named", ["TASK-001", "harness/tasks/TASK-001.md", "./harness/tasks/TASK-001.md", " TASK-001 "]
)
def test_a_task_is_named_by_id_or_file(named: str) -> None:
    """Both mean the same task."""
    assert named_task(named) == TASK


@pytest.mark.parametrize("named", ["../x", "a/b", "", "-x", "a b", "harness/tasks/"])
def test_what_can_be_no_task_is_refused(named: str) -> None:
    """A name that could lead elsewhere is no task."""
    with pytest.raises(Escalation, match="is not a Task ID"):
        named_task(named)


def test_an_approval_is_written_where_the_file_has_room_for_it() -> None:
    """One field changes; a file without the field is left alone."""
    text = with_approval(document(TEXT), "Build", "ann", "2026-01-04")
    assert text is not None
    assert text == TEXT.replace("- Build Approved By:", "- Build Approved By: ann 2026-01-04")
    assert with_approval(document("# T\n"), "Build", "ann", "now") is None


@given(st.text(max_size=40))
def test_paths_are_judged_without_failing(path: str) -> None:
    """Any text is a path or is not; a governed one is inside the repository."""
    if is_governed(path):
        assert not leaves(path)


@given(st.text(max_size=300))
def test_any_text_is_a_task_or_an_escalation(text: str) -> None:
    """The parser never fails otherwise."""
    try:
        parse_task(document(text), LIFECYCLE)
    except Escalation as error:
        assert error.remedy


@pytest.mark.req("EV-28")
def test_all_that_is_wrong_in_a_task_file_is_said_at_once() -> None:
    """One look is enough to mend it."""
    text = example_files()["harness/tasks/TASK-001.md"]
    for old, new in (
        ("- Task ID: TASK-001\n", ""),
        ("Workflow Mode: standard", "Workflow Mode: quick"),
        ("## Objective", "## Aim"),
        ("- Design: harness/artifacts/TASK-001/design.md\n", ""),
        ("harness/artifacts/TASK-001/plan.md", "../plan.md"),
    ):
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(Escalation) as caught:
        parse_task(Document("harness/tasks/TASK-001.md", DocumentState.OK, text), LIFECYCLE)
    assert [one.what.rpartition(": ")[2] for one in caught.value.several] == [
        *("Task ID", "Objective"),
        '"quick"; expected standard, supervised, autonomous',
        *("Artifact path for Design", "../plan.md"),
    ]
