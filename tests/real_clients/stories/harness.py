"""A task of the harness: specified, designed, planned, approved, built, judged, approved."""

from __future__ import annotations

from interlock.playbooks.harness import HarnessInputs, example_files, run_state
from interlock.playbooks.harness.run_report import report_path
from interlock.playbooks.harness.stages import LIFECYCLE
from tests.real_clients.house import CHANGED, LOGIN, MISCHIEF, SESSION, TEST, House, Story, by
from tests.real_clients.person import CODES, REMARKS, Remark
from tools.model_server import Rule, Say, Shell, Write
from tools.model_server.steps import Step

TASK = "TASK-001"
OBJECTIVE = """\
## Objective

A name is typed in any way, and its owner is let in and greeted.

## Acceptance Criteria

- Case and blanks around a name do not matter.

## Artifact Paths
"""
QA = """\
# QA

Validation Result: Passed
Approval Readiness: Ready

## Blocking Issues

- None

## Acceptance Criteria

- [x] Case and blanks around a name do not matter.

## Commands

- `pytest -q`: exit 0
"""


def task_file() -> str:
    """The example task with another objective."""
    text = example_files()[f"harness/tasks/{TASK}.md"]
    return text.partition("## Objective")[0] + OBJECTIVE + text.partition("## Artifact Paths\n")[2]


def stage(agent: str, artifact: str, *before: Step) -> Rule:
    """An agent that does this, and then writes the artifact that its brief names."""
    outputs = r"^## Outputs\n\n- `(?P<artifact>[^`\n]+)`$"
    return by(agent, *before, Write("{artifact}", artifact), Say("It is written.\n\nStatus: done"), matches=(outputs,))


def check(house: House) -> None:
    state = run_state.parse_text(house.text(run_state.PATH), LIFECYCLE)
    assert (state.stage, state.status) == ("Complete", "Complete")
    assert len(house.events("gate.decided")) == 2
    assert set(house.git("diff", "--name-only").splitlines()) == {"README.md", *CHANGED}


HARNESS = Story(
    "harness",
    HarnessInputs(TASK),
    (
        stage("po-spec", "# Spec\n\n## Requirements\n\n- Any case.\n\n## Acceptance Criteria\n\n- Any case.\n"),
        stage("feature-design", "# Design\n\n## Overview\n\nWhere it is used.\n\n## Decisions\n\n- No new part.\n"),
        stage("tech-lead", "# Plan\n\n## Steps\n\n1. Sign-in.\n2. Greeting.\n"),
        stage(
            "build",
            "# Report\n\n## Changes\n\n- Sign-in and greeting.\n\n## Verification\n\n- 2 passed\n",
            LOGIN,
            SESSION,
            MISCHIEF,
            CODES,
            Shell(TEST),
        ),
        stage("qa", QA, Shell(TEST), REMARKS),
    ),
    calls=dict.fromkeys(("po-spec", "feature-design", "tech-lead", "build", "qa"), 1),
    meddler="build",
    check=check,
    files={**example_files(), f"harness/tasks/{TASK}.md": task_file()},
    remarks=tuple(Remark(path, "\nA person was here.\n") for path in (run_state.PATH, report_path(TASK))),
)
