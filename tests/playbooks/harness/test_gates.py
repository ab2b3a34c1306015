"""Gates: nothing passes them without a person's recorded word, and both documents say so at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import Status
from interlock.playbooks.harness import HarnessInputs
from interlock.playbooks.harness.run_report import Log
from interlock.testing import Act, best
from tests.playbooks.harness.conftest import (
    ARTIFACTS,
    NEGATIVE,
    QA_REPORT,
    RUN_STATE,
    TASK,
    TASK_FILE,
    Bench,
    agents,
    qa,
    writing,
)

BUILD_GATE = "Approval required before Build"
COMPLETE_GATE = "Approval required before Complete"


@pytest.mark.req("HN-07", "HN-65", "HN-88", "HN-94", "HN-97", "HN-108")
def test_the_run_waits_before_build(bench: Bench) -> None:
    """Stage and run id are those of Build already; status and stop reason say what is waited for; exit 4."""
    close = bench.play(attended=False)
    assert close.status is Status.WAITING
    assert close.exit_code == 4
    assert close.gate is not None
    assert list(close.gate["digests"]) == [f"{ARTIFACTS}/plan.md"]
    assert (bench.state.stage, bench.state.status) == ("Build", "Awaiting Approval")
    assert bench.state.run_id == "RUN-2026-01-04-TASK-001-BUILD"
    assert bench.state.stop_reason == bench.report.fields["Stop Reason"] == BUILD_GATE
    assert bench.rows(Log.STOPS)[-1][1:] == ("Build", BUILD_GATE)
    assert "build" not in bench.called


@pytest.mark.req("HN-07", "HN-08", "HN-95", "HN-88", "HN-97")
def test_the_run_waits_before_complete(bench: Bench) -> None:
    """A positive QA is not an approval: stage and status are Awaiting Approval until a person decides."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    simulation.decide("approve")
    close = simulation.go()
    assert close.exit_code == 4
    assert close.gate is not None
    assert list(close.gate["digests"]) == [QA_REPORT, f"{ARTIFACTS}/build-report.md"]
    assert (bench.state.stage, bench.state.status) == ("Awaiting Approval", "Awaiting Approval")
    assert bench.state.run_id == "RUN-2026-01-04-TASK-001-APPROVAL"
    assert bench.rows(Log.STOPS)[-1][1:] == ("Awaiting Approval", COMPLETE_GATE)
    simulation.decide("approve", who="Ben Ott")
    assert simulation.go().exit_code == 0
    assert [(approval.gate, approval.who) for approval in bench.state.approvals] == [
        ("Build", "somebody"),
        ("Complete", "Ben Ott"),
    ]
    assert bench.history[-1] == ("Awaiting Approval", "Approved")


@pytest.mark.req("HN-07")
def test_no_dispatch_lies_between_a_gate_and_its_decision(bench: Bench) -> None:
    """In the journal each opened gate is followed by its decision before any agent starts."""
    bench.play()
    order = [line.event for line in bench.lines if line.event in ("gate.opened", "gate.decided", "dispatch.start")]
    for number, event in enumerate(order):
        if event == "gate.opened":
            assert order[number + 1] == "gate.decided"


@pytest.mark.req("HN-96")
def test_time_does_not_approve(bench: Bench) -> None:
    """Asked again a day later, and again: still waiting, nothing changed, no further stop recorded."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    before = dict(simulation.world.tree.files)
    for _ in range(3):
        simulation.clock += 86_400
        assert simulation.go().exit_code == 4
        assert simulation.world.tree.files == before
    assert "build" not in bench.called


@pytest.mark.req("HN-93")
def test_settings_of_run_state_decide(bench: Bench) -> None:
    """What the task file says later has no effect; what a person writes into run-state has."""
    bench.play(attended=False)
    bench.files = dict(bench.tree)
    bench.set(TASK_FILE, "Workflow Mode: standard", "Workflow Mode: autonomous")
    assert bench.play(attended=False).exit_code == 4
    bench.set(RUN_STATE, "Require Approval Before Build: Yes", "Require Approval Before Build: No")
    bench.set(RUN_STATE, "Current Status: Awaiting Approval", "Current Status: Active")
    assert bench.play(attended=False).exit_code == 4
    assert (bench.state.stage, bench.called) == ("Awaiting Approval", ["build", "qa"])


@pytest.mark.req("HN-08")
@pytest.mark.parametrize(
    ("build", "complete", "gates"),
    [("Yes", "No", ["approve-build"]), ("No", "Yes", ["approve-complete"]), ("No", "No", [])],
)
def test_each_gate_can_be_switched_off(bench: Bench, build: str, complete: str, gates: list[str]) -> None:
    """A gate that is off is not asked; that it was not required is recorded."""
    lines = f"- Require Approval Before Build: {build}\n- Require Approval Before Complete: {complete}"
    bench.set(TASK_FILE, "- Workflow Mode: standard", lines)
    assert bench.play().exit_code == 0
    assert [line.data["gate"] for line in bench.lines if line.event == "gate.decided"] == gates
    assert (("Awaiting Approval", "Not required") in bench.history) is (complete == "No")


SAID = "the plan forgets\nthe tests"


@pytest.mark.req("EV-20", "EV-21")
def test_a_rejected_plan_is_revised_by_its_author(bench: Bench) -> None:
    """The same run goes on: the planner hears what was said, and the gate is asked again about the new plan."""
    simulation = bench.simulate(attended=False)
    close = simulation.go()
    assert close.gate is not None
    leads = {choice["name"]: choice["leads_to"] for choice in close.gate["choices"]}
    assert leads["reject"] == "the plan is revised by what you say"
    simulation.decide("reject", note=SAID)
    assert simulation.go().exit_code == 4
    assert bench.called == ["po-spec", "feature-design", "tech-lead", "tech-lead"]
    brief = simulation.world.calls[-1].brief
    assert SAID in brief.split("## Said by people")[1].split("## Inputs")[0]
    assert "A person rejected the plan that lies there now." in brief
    assert (bench.state.stage, bench.state.status) == ("Build", "Awaiting Approval")
    assert bench.history[-2:] == [("Build", "Rejected"), ("Implementation Planning", "Completed")]
    simulation.decide("approve")
    simulation.go()
    simulation.decide("approve")
    assert simulation.go().exit_code == 0


@pytest.mark.req("EV-20", "EV-21", "HN-76")
@pytest.mark.parametrize("remediations", [0, 2])
def test_a_rejected_result_goes_to_build_with_the_qa_report_and_the_note(bench: Bench, remediations: int) -> None:
    """However often QA sent it back before; then QA judges again, and the gate is asked anew. No stage before is paid
    for again."""
    texts = [NEGATIVE + "\n" * number for number in range(remediations)]
    simulation = bench.simulate(agents(qa=writing(*texts, qa(), qa() + "\n")), attended=False)
    simulation.go()
    simulation.decide("approve")
    simulation.go()
    before = len(bench.called)
    simulation.decide("reject", note="Greet in Latin, too.")
    assert simulation.go().exit_code == 4
    assert bench.called[before:] == ["build", "qa"]
    build = simulation.world.calls[before].brief
    assert f"- `{QA_REPORT}`" in build.split("### Allowed inputs")[1].split("###")[0]
    assert "Greet in Latin, too." in build.split("## Said by people")[1].split("## Inputs")[0]
    assert "A person rejected the result." in build
    assert "- `src/built.py`" in build.split("### What was changed so far")[1]
    assert (bench.state.stage, bench.state.remediations) == ("Awaiting Approval", 1)
    assert [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == "Rejected"] == ["Greet in Latin, too."]
    simulation.decide("approve")
    assert simulation.go().exit_code == 0


@pytest.mark.req("EV-21", "EV-29")
def test_a_rejection_is_known_from_the_documents_alone(bench: Bench) -> None:
    """Run-state says Build, and a run without any journal tells Build what the person said."""
    simulation = bench.simulate(attended=False)
    for decision in ("approve", "reject"):
        simulation.go()
        simulation.decide(decision, note="Greet in Latin, too." if decision == "reject" else "")
    simulation.options = replace(simulation.options, stop_before_work=True)
    simulation.go()
    assert (bench.state.stage, bench.state.status) == ("Build", "Active")
    assert bench.again(attended=False).exit_code == 4
    assert bench.called == ["build", "qa"]
    assert "Settle what they said, and what the QA report leaves open: Greet in Latin, too." in (
        bench.simulation.world.calls[0].brief
    )


@pytest.mark.req("EV-21")
def test_people_who_reject_again_and_again_are_asked_to_look_otherwise(bench: Bench) -> None:
    """Five times in one run; the sixth blocks, and a person goes on from there as from any other stop."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    for number in range(1, 7):
        simulation.decide("reject", note=f"no, {number}")
        close = simulation.go()
    assert close.exit_code == 3
    assert bench.blocked() == "Approval rejected: no, 6"
    assert bench.called.count("tech-lead") == 6
    assert bench.resume(attended=False).exit_code == 4
    assert (bench.state.status, bench.called) == ("Awaiting Approval", [])


def test_going_back_before_build_asks_for_approval_again(bench: Bench) -> None:
    """An approval is for the plan that was shown; another plan is another question."""
    bench.play(agents(build=lambda _request, _act: Act(message="Status: error")))
    assert [approval.gate for approval in bench.state.approvals] == ["Build"]
    assert bench.resume(attended=False).exit_code == 4
    assert bench.called == ["build", "qa"]
    bench.files = dict(bench.tree)
    bench.set(RUN_STATE, "Current Status: Awaiting Approval", "Current Status: Blocked")
    assert bench.play(attended=False, inputs=HarnessInputs(TASK, resumed=True, from_stage="Design")).exit_code == 4
    assert bench.called == ["feature-design", "tech-lead"]
    assert not bench.state.approvals


@pytest.mark.req("EN-29", "EN-30")
def test_a_person_may_improve_the_plan_at_the_gate(bench: Bench) -> None:
    """What was shown last is what is approved, and the verbs behind the gate read it."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    plan = f"{ARTIFACTS}/plan.md"
    better = b"# Better plan\n\n## Steps\n\n1. Do it well.\n"
    simulation.world.tree.put(plan, better)
    assert simulation.go().exit_code == 4
    opened = [line.data for line in simulation.lines if line.event == "gate.opened"]
    assert [data["opening"] for data in opened] == [1, 2]
    simulation.decide("approve")
    read: list[bytes] = []

    def agent(request: Any) -> Act:
        read.append(simulation.world.tree.files[plan])
        return best(request)

    simulation.world.agent = agent
    simulation.go()
    assert read[0] == better
    approved = next(row for row in bench.rows(Log.HISTORY) if row[3] == "Approved")
    assert approved[6:] == (plan, opened[1]["digests"][plan])


@pytest.mark.req("EN-29")
def test_a_plan_that_was_emptied_at_the_gate_is_not_built(bench: Bench) -> None:
    """Improving it is a person's right; without it Build cannot proceed within its contract."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    simulation.world.tree.put(f"{ARTIFACTS}/plan.md", b"")
    simulation.go()
    simulation.decide("approve")
    assert simulation.go().exit_code == 3
    assert bench.blocked() == f"Input contract of Build not satisfiable: {ARTIFACTS}/plan.md missing"
    assert "build" not in bench.called


@pytest.mark.req("HN-11")
@pytest.mark.parametrize("choice", ["approve", "record"])
def test_the_task_file_changes_only_on_a_persons_word(bench: Bench, choice: str) -> None:
    """With `record` the approval field is filled in and nothing else changes; without it the file keeps its bytes."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    before = bench.text(TASK_FILE)
    simulation.decide(choice, who="Ann Lee")
    simulation.go()
    if choice == "approve":
        assert bench.text(TASK_FILE) == before
    else:
        at = bench.state.approvals[0].at
        assert bench.text(TASK_FILE) == before.replace("Build Approved By:", f"Build Approved By: Ann Lee {at}")
    assert bench.state.approvals[0].who == "Ann Lee"


def test_a_task_file_without_the_field_is_left_alone(bench: Bench) -> None:
    """The approval is in run-state; a warning says that the task has no room for it."""
    bench.set(TASK_FILE, "- Build Approved By:\n", "")
    simulation = bench.simulate(attended=False)
    simulation.go()
    before = bench.text(TASK_FILE)
    simulation.decide("record")
    simulation.go()
    assert bench.text(TASK_FILE) == before
    assert "has no field 'Build Approved By'" in bench.events("warning")[0]["text"]


@pytest.mark.req("HN-104", "EN-31")
@pytest.mark.parametrize("approvals", [0, 1])
def test_a_waiting_document_without_a_journal_gets_a_run_parked_at_its_gate(bench: Bench, approvals: int) -> None:
    """On a new clone: exit 4, the state unchanged, nobody called; a decision there goes on from it."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    for _ in range(approvals):
        simulation.decide("approve")
        simulation.go()
    before = bench.text(RUN_STATE)
    close = bench.again(attended=False)
    assert close.exit_code == 4
    assert close.gate is not None
    assert bench.text(RUN_STATE) == before
    assert bench.called == []
    bench.simulation.decide("approve")
    assert bench.simulation.go().exit_code == (0 if approvals else 4)
    assert bench.called == ([] if approvals else ["build", "qa"])


def test_the_gate_before_build_is_asked_once(bench: Bench) -> None:
    """An approval covers the remediation of the same plan."""
    bench.play(agents(qa=writing(NEGATIVE, NEGATIVE + "\n", qa())))
    gates = [line.data["gate"] for line in bench.lines if line.event == "gate.decided"]
    assert gates == ["approve-build", "approve-complete"]
