"""A stage more is one row and one role file; workspaces of before run as they did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import Options
from interlock.engine.playing import Finished
from interlock.engine.runs import Call
from interlock.errors import ConfigInvalid, InterlockError
from interlock.playbooks.harness import STAGES, HarnessInputs, example_files, harness_of
from interlock.playbooks.harness.rehearsing import rehearsal
from interlock.playbooks.harness.run_report import Log
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import (
    APPROVAL,
    BUILD,
    QA,
    SPECIFICATION,
    Judging,
    Lifecycle,
    Stage,
    StageContract,
    VerdictMark,
)
from interlock.playbooks.harness.standards import CONTRACTS, LIFECYCLE, WORKFLOW
from tests.playbooks.harness.conftest import ARTIFACTS, GOOD, NEGATIVE, TASK, TASK_FILE, Bench, agents, qa, writing
from tests.playbooks.harness.place import AGENT, Place

# -- what is to be written for another stage: one row ...

SECURITY = Stage(
    name="Security Review",
    suffix="SECURITY",
    agent="security",
    duty="Judge whether what was built can be attacked. Change nothing; find out.",
    reach=QA.reach,
    contract=StageContract(required=("task_file", "artifact:Design", "artifact:Build")),
    artifact="security-review.md",
    judging=Judging(marks=(VerdictMark("Security Result", "Clear", "Findings"),), returns_to="Build"),
    optional=True,
)

# -- ... and one role file

ROLE = """---
name: security
description: Finds out whether what was built can be attacked.
---

# Security review

Look at what was changed as somebody who wants to break in. Write your report: what you found, and what you ran.
"""

WITH_SECURITY = Lifecycle(row for stage in STAGES for row in ((stage, SECURITY) if stage is BUILD else (stage,)))
REPORT = f"{ARTIFACTS}/security-review.md"
CLEAR = "# Review\n\nSecurity Result: Clear\n\n## Blocking Issues\n\n- None\n\n## Evidence\n\n- `audit`: exit 0\n"
FINDINGS = CLEAR.replace("Clear", "Findings").replace("- None", "- The name is passed to a shell")
ONCE = ["po-spec", "feature-design", "tech-lead", "build", "security", "qa"]


def new(files: Mapping[str, str | bytes] | None = None) -> Bench:
    """A workspace of the process with the new stage, as `init` makes it, or with files of before."""
    bench = Bench(files=dict(example_files(WITH_SECURITY) if files is None else files), lifecycle=WITH_SECURITY)
    return bench.autonomous()


@pytest.mark.req("OW-10", "OW-11")
def test_the_new_stage_is_carried_out_between_build_and_qa() -> None:
    """Called with what its contract names, judged by its own words, recorded under its own name and run id."""
    bench = new()
    assert bench.play().exit_code == 0
    assert bench.called == ONCE
    assert bench.state.completed == WITH_SECURITY.names[:-1]
    assert ("Security Review", "Completed") in bench.history
    (row,) = [row for row in bench.rows(Log.HISTORY) if row[1] == "Security Review"]
    assert (row[0], row[2], row[6]) == ("RUN-2026-01-04-TASK-001-SECURITY", "security", REPORT)
    assert [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == "Security Review result"] == ["positive: Clear"]
    brief = bench.simulation.world.calls[4].brief
    assert "a line `Security Result: Clear` or `Security Result: Findings`" in brief
    assert f"- `{ARTIFACTS}/design.md`" in brief.split("### Allowed inputs")[1].split("###")[0]
    assert "- `src/built.py`" in brief.split("### What was changed so far")[1]


@pytest.mark.req("OW-11")
def test_its_negative_verdict_returns_the_task_to_build() -> None:
    """With its report, before QA is called at all; when it is clear, the task goes on."""
    bench = new()
    assert bench.play(agents(security=writing(FINDINGS, CLEAR))).exit_code == 0
    assert bench.called == [*ONCE[:5], "build", "security", "qa"]
    assert bench.history[4] == ("Security Review", "Returned to Build")
    again = bench.simulation.world.calls[5].brief
    assert "Security Review sent the task back." in again
    assert f"- `{REPORT}`" in again.split("### Allowed inputs")[1].split("###")[0]
    assert "qa-report.md" not in again
    assert [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == "Blocking issue"] == [
        "The name is passed to a shell"
    ]
    assert bench.rows(Log.HISTORY)[6][0].endswith("-SECURITY-R1")


@pytest.mark.req("OW-11")
def test_its_negative_verdict_blocks_when_the_ways_back_are_used_up() -> None:
    """All judges share them."""
    bench = new()
    texts = [CLEAR, FINDINGS, FINDINGS + "\n"]
    assert bench.play(agents(qa=writing(NEGATIVE, qa()), security=writing(*texts))).exit_code == 3
    assert bench.called == [*ONCE, "build", "security", "build", "security"]
    assert bench.blocked() == "Security Review remediation retry limit reached"
    assert (bench.state.stage, bench.state.completed) == ("Security Review", WITH_SECURITY.names[:4])


@pytest.mark.req("OW-11")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"files": {}, "message": "No design.\n\nStatus: blocked"}, "Stage Security Review: agent security is blocked"),
        ({"files": {REPORT: "# Review\n\nFine.\n"}}, f"{REPORT}: malformed: Security Result missing"),
        ({"files": {REPORT: CLEAR, "harness/run-state.md": "mine\n"}}, "Scope violation by security"),
    ],
)
def test_what_keeps_it_from_judging_blocks(change: dict[str, Any], reason: str) -> None:
    """As with every other stage."""
    bench = new()
    bench.play(agents(security=lambda _request, act: replace(act, **change)))
    assert bench.blocked().startswith(reason)
    assert "qa" not in bench.called


# -- workspaces of before


@pytest.mark.req("OW-11")
@pytest.mark.parametrize("until", [stage.name for stage in STAGES if stage.agent])
def test_a_workspace_of_before_runs_as_it_did(bench: Bench, until: str) -> None:
    """With its standards and contracts, from wherever its run-state stands; nobody reviews what no task asks for."""
    bench.autonomous().play(flags={"until": until})
    before = bench.called
    later = Bench(files=dict(bench.tree), lifecycle=WITH_SECURITY)
    assert later.play().exit_code == 0
    assert [*before, *later.called] == [stage.agent for stage in STAGES if stage.agent]
    assert later.state.completed == Lifecycle(STAGES).names[:-1]


@pytest.mark.req("OW-11")
def test_a_task_of_before_asks_for_it_by_one_line(bench: Bench) -> None:
    """The contract is that of the row, where the workspace's file has none; one that it has counts."""
    bench.set(TASK_FILE, "- QA:", f"- Security Review: {REPORT}\n- QA:")
    later = new(bench.files)
    assert later.play().exit_code == 0
    assert later.called == ONCE
    own = 'stage: Security Review\nrequired: [task_file]\nmin_structure: {headings: ["## Attacks"]}'
    later = new({**bench.files, CONTRACTS: f"{bench.files[CONTRACTS]!s}\n```yaml\n{own}\n```\n"})
    assert later.play().exit_code == 0
    brief = later.simulation.world.calls[4].brief
    assert "design.md" not in brief
    assert "the heading `## Attacks`" in brief


@pytest.mark.req("OW-11")
def test_a_task_that_asks_for_it_on_the_way_is_not_overheard(bench: Bench) -> None:
    """Run-state has to say it too; then it comes next, if its turn is still to come."""
    bench.autonomous().play(flags={"until": "Build"})
    later = Bench(files=dict(bench.tree), lifecycle=WITH_SECURITY)
    line = f"- Security Review: {REPORT}\n- QA:"
    later.set(TASK_FILE, "- QA:", line)
    assert later.refuse().what.startswith("Artifact path for Security Review differs: harness/run-state.md has none")
    later.set("harness/run-state.md", "- QA:", line)
    assert later.refuse().what.endswith('expected "Security Review"')
    later.set("harness/run-state.md", "Current Stage: QA", "Current Stage: Security Review")
    assert later.play().exit_code == 0
    assert later.called == ["security", "qa"]


@pytest.mark.req("OW-11")
@pytest.mark.parametrize(
    ("path", "old", "new_text", "what"),
    [
        (LIFECYCLE, "  - Build\n", "  - Build\n  - Security Review\n", None),
        (LIFECYCLE, "  - Build\n", "  - Security Review\n  - Build\n", "stages"),
        (LIFECYCLE, "  - Build\n", "  - Security Review\n", "stages"),
        (LIFECYCLE, "  - Design\n", "", "stages"),
        (WORKFLOW, "  Build: build\n", "  Build: build\n  Security Review: security\n", "transitions"),
        (WORKFLOW, "  Build: build\n", "  Build: build\n  Security Review: guard\n", "agents"),
    ],
)
def test_what_a_standard_lists_must_agree(bench: Bench, path: str, old: str, new_text: str, what: str | None) -> None:
    """An optional stage may be left out; one that is named is held to its row, and a required one must be there."""
    bench.set(path, old, new_text)
    later = Bench(files=bench.files, lifecycle=WITH_SECURITY)
    if what is None:
        assert later.autonomous().play().exit_code == 0
    else:
        assert f"standard disagrees with engine: {what}" in later.refuse().what


# -- on disk


def on_disk(place: Place, **call: Any) -> Finished:
    """A run of the process with the new stage, by the agents of the workspace."""
    return asyncio.run(place.app().run(harness_of(WITH_SECURITY.stages), HarnessInputs(TASK), Call(**call)))


@pytest.mark.req("OW-11")
def test_a_real_run_with_the_new_stage(place: Place) -> None:
    """A run that was begun before goes on with it; a new task has it reviewed, by a role that is one file."""
    place.write(TASK_FILE, place.read(TASK_FILE).replace("standard", "autonomous"))
    place.write("agent.py", AGENT.format(good={**GOOD, "security": CLEAR}, body="write(output, good)"))
    assert place.run(flags={"until": "Build"}).exit_code == 4
    with pytest.raises(InterlockError, match="security"):
        on_disk(place)
    place.write(".interlock/agents/security.md", ROLE)
    assert on_disk(place).exit_code == 0
    assert place.calls == ["po-spec", "feature-design", "tech-lead", "build", "qa"]

    asks = place.read(TASK_FILE).replace(TASK, "TASK-002").replace("- QA:", "- Security Review: docs/review.md\n- QA:")
    place.write("harness/tasks/TASK-002.md", asks)
    process = harness_of(WITH_SECURITY.stages)
    assert asyncio.run(place.app().run(process, HarnessInputs("TASK-002"), Call())).exit_code == 0
    assert "security" in place.calls
    assert place.read("docs/review.md") == CLEAR
    assert "Security Review" in place.read("harness/run-state.md")


# -- rows


@pytest.mark.req("OW-10")
@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (lambda: [replace(QA, agent="")], "stage 'QA': it has no agent, so it can have no work of its own"),
        (lambda: [replace(QA, duty="", artifact="")], "stage 'QA': duty, artifact missing"),
        (lambda: [replace(QA, contract=None)], "stage 'QA': contract missing"),
        (lambda: [replace(QA, contract=StageContract(()))], "stage 'QA': inputs missing"),
        (lambda: [replace(BUILD, contract=StageContract(("task_file",)))], "stage 'Build': headings or marks missing"),
        (lambda: [replace(QA, suffix="qa 1")], "suffix 'qa 1'; expected capital letters"),
        (lambda: (SPECIFICATION, replace(SPECIFICATION, name="Draft")), "another stage has this suffix too"),
        (lambda: (BUILD, QA, *STAGES[-2:]), "Specification is no stage before it that an agent carries out"),
        (lambda: [stage for stage in STAGES if stage is not QA], "QA is no stage before it that an agent carries out"),
        (lambda: STAGES[:-1], "its gate opens Complete, which does not come next"),
        (lambda: STAGES[-1:], "a lifecycle begins with work and ends without any"),
        (lambda: [replace(row, optional=row.name == "Design") for row in STAGES], "it needs Design, which is optional"),
        (lambda: [replace(APPROVAL, optional=True)], "it has no agent"),
    ],
)
def test_rows_that_are_incomplete_are_refused(rows: Any, what: str) -> None:
    """When they are put together, which is at import, with the stage and what it lacks."""
    with pytest.raises(ConfigInvalid) as caught:
        harness_of(rows())
    assert what in caught.value.what


@pytest.mark.long
@pytest.mark.req("OW-10", "OW-11")
def test_the_rehearsal_follows_from_the_rows() -> None:
    """Every invariant holds on every path with one fault; the new judge's faults are among them."""
    setup, seen = rehearsal(WITH_SECURITY), set()
    for played in setup.paths(Options(settings=HarnessSettings()), most=1):
        assert setup.broken(played) == []
        seen |= {(played.simulation.world.calls[call].agent, name) for call, name in played.schedule.items()}
    assert ("security", "finds issues") in seen
    assert ("security", "gives half a result") in seen
