"""`harness`, whole, by the real world: by the command line, in a team's own files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock.app import playbook_named
from tests.whole.bench import Bench

ID = "TASK-001"
TASK = f"""\
# Make add right

- Task ID: {ID}

## Objective

`add` subtracts. It should add.

## Acceptance Criteria

- add(1, 2) is 3
"""
AUTONOMOUS = TASK.replace("- Task ID", "- Workflow Mode: autonomous\n- Task ID")
SCENARIO = """\
reactions:
  - agent: build
    files:
      lib.py: "def add(a, b):\\n    return a + b\\n"
      harness/artifacts/TASK-001/build.md: "# Built\\n\\n## Changes\\n\\n- lib.py\\n\\n## Verification\\n"
"""
SETTINGS = """\
runner = "played"
[runners.played]
type = "scripted"
scenario = "scenario.yaml"
[commands]
test = "sh check.sh"
"""
ORDER = ["po-spec", "feature-design", "tech-lead", "build", "qa"]
STATE, REPORT = "harness/run-state.md", f"harness/runs/{ID}-run-report.md"


class Town(Bench):
    """The small project of `task`, with a governed task and agents that play."""

    playbook, asked = "harness", {"task": ID}

    def __init__(self, top: Path, task: str = TASK, **bench: Any) -> None:
        super().__init__(top, **bench)
        self.write("interlock.toml", SETTINGS)
        self.write("scenario.yaml", SCENARIO)
        for path, text in playbook_named("harness").brings.items():
            self.write(path, text)
        self.write(f"harness/tasks/{ID}.md", task)
        if self.git:
            self.commit("a task")


@pytest.mark.req("HN-23", "HN-07", "HN-80", "HN-88", "HN-97", "RUN-08", "CLI-04", "TREE-14", "PERSON-05")
def test_from_init_to_complete_by_the_command_line(tmp_path: Path) -> None:
    """Two gates, answered by commands that are printed; the code is in the tree behind the last one alone."""
    town = Town.there(Bench(tmp_path / "p").top)
    town.write("interlock.toml", SETTINGS)
    town.write("scenario.yaml", SCENARIO)
    said = town.types("run", "harness")
    assert (said.code, "No task to run: name a task or provide" in said.err) == (2, True), said.err
    said = town.types("run", "harness", ID)
    assert said.code == 2 and "Task file not found: harness/tasks/TASK-001.md" in said.err
    assert said.err.count("Missing required file") == 7 and "interlock init harness" in said.err
    made = town.types("init", "harness")
    assert made.out.count("written: harness/") == 7 and "kept as it is: interlock.toml" in made.out
    assert town.types("init", "harness").out.count("kept as it is") == 8
    town.write(f"harness/tasks/{ID}.md", TASK)
    town.commit("a task")
    before = town.read("lib.py")
    said = town.types("run", "harness", ID)
    assert (said.code, said.out) == (4, ""), said.err
    assert "Approve the plan of TASK-001, Make add right, before Build?" in said.err
    run = re.findall(r"interlock approve (\S+)", said.err)[-1]
    refused = town.types("resume", run, "--from", "Design")
    assert refused.code == 2 and "waits for a decision" in refused.err
    again = town.types("run", "harness")
    assert again.code == 4 and "interlock approve" in again.err, "the task of run-state"
    said = town.types("approve", run)
    assert said.code == 4 and "for Complete?" in said.err and town.read("lib.py") == before
    assert "return a + b" in town.types("diff", run).out
    said = town.types("approve", run)
    assert said.code == 0 and "return a + b" in town.read("lib.py"), said.err
    assert "red -> green, mended" in said.err
    assert town.types("run", "harness", ID).code == 0
    assert town.run_git("status", "--porcelain").split() == [
        *("M", "lib.py", "??", "harness/artifacts/", "??", STATE, "??", "harness/runs/")
    ]  # fmt: skip
    undone = town.types("undo", run)
    assert undone.code == 0 and town.read("lib.py") == before


@pytest.mark.long
@pytest.mark.req("HN-116", "HN-02", "CLI-01")
def test_options_of_one_process_reach_it_from_resume(tmp_path: Path) -> None:
    town = Town(tmp_path / "p", AUTONOMOUS)
    town.write("scenario.yaml", f"{SCENARIO}  - agent: qa\n    misbehave: lie\n")
    said = town.types("run", "harness", ID)
    assert said.code == 5 and "qa.md: missing" in said.err, said.err
    assert town.types("run", "harness", ID).code == 3, "Blocked, and nobody resumed"
    qa = "# QA\n\nValidation Result: Passed\nApproval Readiness: Ready\n\n## Blocking Issues\n\n- None\n\n"
    town.write(f"harness/artifacts/{ID}/qa.md", f"{qa}## Acceptance Criteria\n\n- [x] AC1: seen by me\n")
    said = town.types("resume", "--fallback", "QA")
    assert said.code == 0, said.err
    assert "a person (fallback)" in town.read(REPORT) and "return a + b" in town.read("lib.py")
    wrong = town.types("resume", "--from", "Nowhere")
    assert wrong.code == 2 and "Implementation Planning" in wrong.err


AGENT = """\
# each writes its artifact
cat > brief.txt
out=$(sed -n 's/^The stage is finished when `\\([^`]*\\)`.*/\\1/p' brief.txt)
rm brief.txt
case "$INTERLOCK_AGENT" in
  build) sed -i 's/a - b/a + b/' lib.py ;;
esac
mkdir -p "$(dirname "$out")"
{
  echo "# $INTERLOCK_AGENT"
  for title in Requirements "Acceptance Criteria" Overview Decisions Steps Changes Verification; do
    [ "$INTERLOCK_AGENT" = qa ] || printf '\\n## %s\\n\\n- one\\n' "$title"
  done
  [ "$INTERLOCK_AGENT" = qa ] && cat <<'END'

Validation Result: Passed
Approval Readiness: Ready

## Blocking Issues

- None

## Acceptance Criteria

1. add(1, 2) is 3: met, see check.sh
END
} > "$out"
echo "I did it."
"""


# --- in a team's own files, from the seed's text alone

ROLE = """\
---
name: {name}
description: Our {name} agent
tools: ["edit", "search"]
---

# {name}

You are the {name} agent of the harbour team. Stay within your stage.
"""
STANDARDS = {
    "run-state-standard": "Run-state is the live state of the active task. Its fields are always accurate.",
    "task-lifecycle": "Specification, Design, Implementation Planning, Build, QA, Awaiting Approval, Complete",
    "feature-workflow": "One stage agent at a time.",
    "run-id-standard": "RUN-YYYY-MM-DD-TASKID-STAGE",
    "stage-input-contracts": "",
}
CONTRACT = """
## {stage}

Purpose: our own.

Required inputs:

- the task file, `harness/tasks/TASK-ID.md`
{more}
Do not read anything else. If something is missing, escalate.
"""
TEMPLATES = {
    "run-state-template.md": "# Run State\n\n## Task ID\n\n## Task File\n\n## Current Status\n\n## Current Stage\n\n"
    "## Current Run ID\n\n## Completed Stages\n\n## Artifact Paths\n\n## Approval Mode\n\n## Stop Reason\n\n"
    "## Notes\n\nOwner: Ann\n",
    "run_report_template.md": "# Run Report\n\n| Item | Value |\n| --- | --- |\n| Task ID | |\n| Task Title | |\n"
    "| Current Stage | |\n| Current Run ID | |\n| Stop Reason | |\n\n## Stage Outcomes\n\n## Validation Evidence\n\n"
    "Kept for the auditors.\n",
}
OWN_TASK = f"""\
# Task: Make add right

Task ID: {ID}
Status: Ready

## Objective
`add` subtracts.

## Acceptance Criteria
1. add(1, 2) is 3

## Artifact Paths
- Specification: docs/specs/{ID}-spec.md
- Design: docs/specs/{ID}-design.md
- Implementation Plan: docs/specs/{ID}-plan.md
- Build Report: docs/specs/{ID}-build.md
- QA Report: docs/specs/{ID}-qa.md

## Approval
- Require Approval Before Build: No
- Require Approval Before Complete: Yes
"""


@pytest.mark.req("AGENT-07", "AGENT-02", "PERSON-07", "HN-12", "HN-53", "HN-89", "HN-91")
def test_a_teams_own_harness_works_as_it_is(tmp_path: Path) -> None:
    """Agents for another client, standards, contracts, templates and a task in the layout that the seed leads to."""
    town = Town.there(Bench(tmp_path / "p").top)
    for name in ORDER:
        town.write(f".github/agents/{name}.agent.md", ROLE.format(name=name))
    town.write(".github/agents/orchestrator.agent.md", ROLE.format(name="orchestrator"))
    for name, text in STANDARDS.items():
        town.write(f"harness/standards/{name}.md", f"# {name}\n\n{text}\n")
    stages = ("Specification", "Design", "Implementation Planning", "Build", "QA")
    more = (
        "",
        f"- `docs/specs/{ID}-spec.md`\n",
        f"- `docs/specs/{ID}-design.md`\n",
        "- the plan\n",
        "- the build report\n",
    )
    sections = [CONTRACT.format(stage=stage, more=one) for stage, one in zip(stages, more, strict=True)]
    town.write("harness/standards/stage-input-contracts.md", "# Stage Input Contracts\n" + "".join(sections))
    for name, text in TEMPLATES.items():
        town.write(f"harness/templates/{name}", text)
    town.write("harness/roles/orchestrator.md", "# The orchestrator\n")
    town.write(f"harness/tasks/{ID}.md", OWN_TASK)
    town.write("agent.sh", AGENT)
    town.commit("as the team has it")
    town.trust()
    shown = town.types("plan", "harness", ID)
    assert all(f".github/agents/{name}.agent.md" in shown.out for name in ORDER), shown.out + shown.err
    said = town.types("run", "harness", ID)
    assert said.code == 4 and "for Complete?" in said.err, said.err
    assert "requires, as it is written: Specification: harness/tasks/TASK-ID.md" in " ".join(said.err.split())
    said = town.types("approve")
    assert said.code == 0, said.err
    assert "return a + b" in town.read("lib.py")
    state, report = town.read(STATE), town.read(REPORT)
    assert state.startswith("# Run State\n\n## Task ID\n\nTASK-001\n") and "Owner: Ann" in state
    assert "## Current Status\n\nComplete\n" in state and "- Require Approval Before Build: No" in state
    assert f"- QA: docs/specs/{ID}-qa.md" in state and "Last Event: TASK-001 is Complete." in state
    assert "Kept for the auditors." in report and "| Task Title | Task: Make add right |" in report
    outcomes = report.partition("## Stage Outcomes")[2]
    assert re.findall(r"\| (\S+) \| (?:Completed|Not required) ", outcomes) == [
        *ORDER[:3],
        "-",
        *ORDER[3:],
        "interlock",
    ]
    view = town.place().runs.find("latest").view()
    assert [call.calls for call in view.calls.values()] == [1] * 5
    briefs = [file.read_text() for file in (town.place().runs.find("latest").path / "dispatches").rglob("brief.md")]
    assert sum("of the harbour team" in text for text in briefs) == 5
    assert sum("Purpose: our own." in text and "Do not read anything else." in text for text in briefs) == 5
    assert any(f"`docs/specs/{ID}-spec.md`" in text for text in briefs)
