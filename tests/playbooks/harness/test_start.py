"""Starts: from nothing, from every state of a task, and from what cannot be started from."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from interlock.documents import Document
from interlock.engine import Status
from interlock.errors import InterlockError
from interlock.playbooks.harness import HarnessInputs
from interlock.playbooks.harness.run_report import Log, archive_path
from interlock.testing import best
from tests.playbooks.harness.conftest import (
    ARTIFACTS,
    REPORT,
    RUN_STATE,
    TASK,
    TASK_FILE,
    Bench,
    agents,
    instead,
    working,
)


def initialised(bench: Bench) -> Bench:
    """Run-state and report as they are before the first agent is called."""
    simulation = bench.simulate(agents(po_spec=instead(spawn_error="x")))
    simulation.go()
    return bench


@pytest.mark.req(
    "HN-27", "HN-28", "HN-29", "HN-30", "HN-31", "HN-32", "HN-33", "HN-34", "HN-35", "HN-36", "HN-37", "HN-39"
)
def test_both_documents_are_made_before_the_first_agent_is_called(bench: Bench) -> None:
    """By the engine, from the templates and the task; proven by four checks; initial values as the standard says."""
    seen: list[Any] = []

    def look(_request: Any, act: Any) -> Any:
        seen.append((bench.text(RUN_STATE), bench.report, bench.state))
        return act

    bench.play(agents(po_spec=look))
    text, report, state = seen[0]
    assert (state.status, state.stage, state.completed) == ("Active", "Specification", ())
    assert re.search(rf"^- Current Run ID: RUN-\d{{4}}-\d{{2}}-\d{{2}}-{TASK}-SPEC$", text, re.MULTILINE)
    assert "## Completed Stages\n\n- None\n" in text
    assert "- Require Approval Before Build: Yes\n- Require Approval Before Complete: Yes\n" in text
    assert (state.task_id, state.task_file) == (TASK, TASK_FILE)
    assert state.artifacts["Design"] == f"{ARTIFACTS}/design.md"
    assert report.fields["Task ID"] == TASK
    assert REPORT.startswith("harness/runs/")
    events = [line.event for line in bench.lines]
    assert events.index("initialisation.verified") < events.index("dispatch.start")
    (checks,) = bench.events("initialisation.verified")
    names = ("run_state_exists", "run_report_exists", "non_empty", "reopened")
    assert [checks[name] for name in names] == [True] * 4


@pytest.mark.req("HN-35")
def test_the_first_notes_say_who_began(bench: Bench) -> None:
    """Before anything else happened, the notes tell of the initialisation."""
    texts: list[str] = []
    simulation = bench.simulate()
    write = simulation.world.documents.write

    def spy(path: str, content: Any, **how: Any) -> Any:
        if path == RUN_STATE:
            texts.append(content if isinstance(content, str) else content.decode())
        return write(path, content, **how)

    simulation.world.documents.write = spy
    simulation.go()
    notes = [text.split("## Notes\n\n")[1] for text in texts]
    assert notes[0] == "- Last Event: Orchestration initialised the run. Current position: Specification (Active).\n"
    assert notes[2] == "- Last Event: Specification was completed by po-spec. Current position: Design (Active).\n"


@pytest.mark.req("HN-83", "HN-110")
def test_without_a_task_and_without_run_state_there_is_nothing_to_run(bench: Bench) -> None:
    """The exact words; the task in run-state is taken where none is named."""
    assert bench.refuse(inputs=HarnessInputs("")).what == f"No task to run: name a task or provide {RUN_STATE}"
    bench.play(attended=False)
    assert bench.again(attended=False, inputs=HarnessInputs("")).exit_code == 4


@pytest.mark.req("HN-84", "HN-45")
def test_what_run_state_says_is_where_a_new_run_begins(bench: Bench) -> None:
    """All six facts are in the event; a stage that a person set is the one that runs."""
    bench.play()
    bench.files = {path: text for path, text in bench.tree.items() if not path.startswith(ARTIFACTS)}
    bench.files |= {path: text for path, text in bench.tree.items() if path.endswith("/spec.md")}
    bench.set(RUN_STATE, "Current Status: Complete", "Current Status: Active")
    bench.set(RUN_STATE, "Current Stage: Complete", "Current Stage: Design")
    text = str(bench.files[RUN_STATE])
    bench.files[RUN_STATE] = re.sub(
        r"## Completed Stages\n\n.*?\n\n", "## Completed Stages\n\n- Specification\n\n", text, flags=re.DOTALL
    )
    bench.play(attended=False)
    (loaded,) = bench.events("state.loaded")
    assert (loaded["task"], loaded["stage"], loaded["status"]) == (TASK, "Design", "Active")
    assert loaded["completed"] == ["Specification"]
    assert loaded["approvals"] == {"Build": True, "Complete": True}
    assert loaded["stop_reason"] == ""
    assert bench.called[0] == "feature-design"
    assert bench.called == ["feature-design", "tech-lead", "build", "qa"]


def test_a_run_id_of_another_stage_is_brought_up_to_date(bench: Bench) -> None:
    """A person who sets another stage need not make up its id."""
    initialised(bench)
    bench.files = dict(bench.tree)
    bench.set(RUN_STATE, "Current Status: Blocked", "Current Status: Active")
    bench.set(RUN_STATE, f"RUN-2026-01-04-{TASK}-SPEC", "my own words")
    bench.play(attended=False)
    assert bench.rows(Log.HISTORY)[1][0] == f"RUN-2026-01-04-{TASK}-SPEC"


@pytest.mark.req("HN-85", "HN-103", "HN-110", "HN-111")
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("Current Stage: Build", "Current Stage: Design", 'Current Stage "Design" does not follow Completed Stages'),
        (
            "Current Status: Awaiting Approval",
            "Current Status: Active",
            "Require Approval Before Build is Yes and not recorded, but the task is Active there",
        ),
        (
            "Current Status: Awaiting Approval",
            "Current Status: Complete",
            'Current Status "Complete" does not go with Current Stage "Build"',
        ),
        (
            f"- Design: {ARTIFACTS}/design.md",
            "- Design: docs/design.md",
            f"Artifact path for Design differs: {RUN_STATE} has docs/design.md, {TASK_FILE} has {ARTIFACTS}/design.md",
        ),
        ("- Current Stage: Build", "- Stage: Build", f"{RUN_STATE}: malformed: field Current Stage not found"),
        (
            "Require Approval Before Build: Yes",
            "Require Approval Before Build: No",
            "is not required, or recorded already",
        ),
    ],
)
def test_a_state_that_makes_no_sense_is_escalated(bench: Bench, old: str, new: str, what: str) -> None:
    """Cause and cure, exit 2, every file as it was."""
    bench.play(attended=False)
    bench.files = dict(bench.tree)
    bench.set(RUN_STATE, old, new)
    error = bench.refuse()
    assert what in error.what
    assert error.remedy
    assert error.exit_code == 2
    assert RUN_STATE in (error.where or "")


@pytest.mark.req("HN-105", "EN-18")
def test_a_complete_task_says_so(bench: Bench) -> None:
    """Exit 0, nothing changed, no run comes into being."""
    bench.play()
    close = bench.again()
    assert close.status is Status.COMPLETE
    assert "already Complete" in str(close.output)
    assert bench.tree == bench.files
    assert bench.simulation.world.records.identity is None


@pytest.mark.req("HN-109")
def test_a_blocked_task_waits_for_a_person(bench: Bench) -> None:
    """`run` says why it is blocked and how it goes on, exit 3, and changes nothing; `resume` goes on from there."""
    bench.play(agents(tech_lead=instead(files={}, message="Status: error")))
    reason = bench.blocked()
    close = bench.again()
    assert close.exit_code == 3
    assert reason in close.reason
    assert f"interlock run harness {TASK} --note " in close.reason
    assert bench.tree == bench.files
    assert bench.called == []
    assert bench.resume(flags={"note": "the disk was full"}).exit_code == 0
    assert bench.called[0] == "tech-lead"
    resumed = next(row for row in bench.rows(Log.EVIDENCE) if row[2] == "Resumed")
    assert resumed[3] == "the disk was full"


@pytest.mark.req("HN-109")
@pytest.mark.parametrize("agent", ["po_spec", "feature_design", "tech_lead", "build", "qa"])
@pytest.mark.parametrize("fault", [instead(spawn_error="x"), instead(files={}), instead(message="Status: blocked")])
def test_every_stop_can_be_resumed(bench: Bench, agent: str, fault: Any) -> None:
    """Whatever stopped the run: a successor starts at the stage where it stood, and ends the task."""
    bench.play(agents(**{agent: fault}))
    stage = bench.state.stage
    assert bench.state.status == "Blocked"
    assert bench.resume().exit_code == 0
    assert bench.simulation.world.calls[0].step == stage


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({"from": "QA"}, "Stage QA cannot be resumed from: the task stands at Implementation Planning"),
        ({"from": "Testing"}, "--from 'Testing' is no stage that an agent carries out"),
    ],
)
def test_no_stage_is_skipped_by_a_resume(bench: Bench, flags: dict[str, str], what: str) -> None:
    """A later stage, or none that there is, is refused with exit 2."""
    bench.play(agents(tech_lead=instead(spawn_error="x")))
    bench.files = dict(bench.tree)
    error = bench.refuse(inputs=HarnessInputs(TASK, resumed=True, from_stage=flags["from"]))
    assert what in error.what
    assert error.exit_code == 2


def test_another_active_task_is_a_conflict(bench: Bench) -> None:
    """Exit 2 with both names; nothing of the live task is touched."""
    bench.play(attended=False)
    bench.files = dict(bench.tree)
    bench.files["harness/tasks/TASK-002.md"] = bench.text(TASK_FILE).replace(TASK, "TASK-002")
    error = bench.refuse(inputs=HarnessInputs("TASK-002"))
    assert error.what == ("Active task conflict: run-state is for TASK-001 (Awaiting Approval); requested TASK-002")


def test_a_complete_task_makes_room_for_the_next(bench: Bench) -> None:
    """Its run-state is kept byte for byte beside its report; asked for again, it is still complete."""
    bench.play()
    done = bench.tree[RUN_STATE]
    bench.files = dict(bench.tree)
    bench.files["harness/tasks/TASK-002.md"] = bench.text(TASK_FILE).replace(TASK, "TASK-002")
    bench.files[archive_path(TASK)] = "an older one"
    assert bench.play(inputs=HarnessInputs("TASK-002"), attended=False).exit_code == 4
    assert bench.tree[archive_path(TASK)] == done
    assert b"an older one" in bench.tree.values()
    assert bench.state.task_id == "TASK-002"
    close = bench.again()
    assert close.exit_code == 0
    assert "already Complete" in str(close.output)
    assert bench.state.task_id == "TASK-002"
    bench.files[archive_path(TASK)] = "nothing that can be read"
    assert "Active task conflict" in bench.refuse().what


@pytest.mark.req("HN-110")
def test_a_symlinked_run_state_is_refused(bench: Bench) -> None:
    """Nothing is written through a link."""
    simulation = bench.simulate()
    read = simulation.world.documents.read

    def linked(path: str) -> Document:
        document = read(path)
        return Document(path, document.state, document.text, link=True) if path == RUN_STATE else document

    simulation.world.documents.read = linked
    with pytest.raises(InterlockError) as caught:
        simulation.go()
    assert caught.value.what == f"{RUN_STATE} is a symlink; refusing to write"


@pytest.mark.parametrize("option", ["fallback", "from_stage"])
def test_a_stage_that_a_person_misspells_is_refused(bench: Bench, option: str) -> None:
    """The known ones are listed."""
    error = bench.refuse(inputs=HarnessInputs(TASK, resumed=True, **{option: "Deploy"}))
    assert "'Deploy' is no stage that an agent carries out" in error.what
    assert "Implementation Planning" in (error.remedy or "")


def test_a_report_that_was_lost_is_begun_anew(bench: Bench) -> None:
    """A clone without `harness/runs` goes on: the report is made again from its template before anything else."""
    bench.play(attended=False)
    bench.files = {path: text for path, text in bench.tree.items() if path != REPORT}
    assert bench.play().exit_code == 0
    assert [row[1] for row in bench.rows(Log.HISTORY)] == ["Build", "Build", "QA", "Awaiting Approval"]


# -- bounded runs


@pytest.mark.req("HN-65", "HN-66", "EN-21")
@pytest.mark.parametrize(
    ("flags", "called", "stage"),
    [
        ({"until": "Specification"}, ["po-spec"], "Specification"),
        ({"until": "Design"}, ["po-spec", "feature-design"], "Design"),
        ({"max_stages": 1}, ["po-spec"], "Specification"),
        ({"max_stages": 2}, ["po-spec", "feature-design"], "Design"),
        ({"max_stages": 4}, ["po-spec", "feature-design", "tech-lead", "build"], "Build"),
        ({"until": "QA"}, ["po-spec", "feature-design", "tech-lead", "build", "qa"], "QA"),
    ],
)
def test_a_bounded_run_stops_cleanly_and_goes_on_later(
    bench: Bench, flags: dict[str, Any], called: list[str], stage: str
) -> None:
    """Status stays Active, the reason stands in both documents, exit 4; without the bound the same run goes on."""
    simulation = bench.autonomous().simulate(flags=flags, attended=False)
    close = simulation.go()
    reason = f"Bounded orchestration test: stopped after {stage}"
    assert (close.exit_code, close.reason, bench.called) == (4, reason, called)
    assert bench.state.status == "Active"
    assert bench.state.stop_reason == bench.report.fields["Stop Reason"] == reason
    assert bench.rows(Log.STOPS)[-1][2] == reason
    again = simulation.go()
    if "until" in flags:
        assert (again.exit_code, bench.called) == (4, called)
    seen: list[str] = []

    def agent(request: Any) -> Any:
        seen.append(bench.state.stop_reason)
        return best(request)

    simulation.options = replace(simulation.options, flags={})
    simulation.world.agent = working(agent)
    assert simulation.go().exit_code == 0
    assert set(seen) <= {""}
    assert bench.called == ["po-spec", "feature-design", "tech-lead", "build", "qa"]


def test_a_gate_comes_before_a_bound(bench: Bench) -> None:
    """At a gate the run waits for a person, bounded or not: the state is one that a new clone can go on from."""
    close = bench.play(flags={"until": "Implementation Planning"}, attended=False)
    assert close.gate is not None
    assert bench.state.status == "Awaiting Approval"


def test_bounds_may_be_settings(bench: Bench) -> None:
    """`[harness] until` and `max_stages` do what the options do."""
    assert bench.play(attended=False, until="Specification").reason.endswith("stopped after Specification")
    assert bench.play(attended=False, max_stages=2).reason.endswith("stopped after Design")
    assert bench.play(attended=False, flags={"max_stages": 1}, max_stages=3).reason.endswith("Specification")


def test_a_bounded_state_can_be_gone_on_from_without_a_journal(bench: Bench) -> None:
    """A new clone starts where the bounded run stopped."""
    bench.autonomous().play(flags={"until": "Build"})
    assert bench.again().exit_code == 0
    assert bench.called == ["qa"]
