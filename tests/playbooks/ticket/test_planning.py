"""O1 to O4 in the simulated twin: iterations, plans, task graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.documents import load_yaml, render_yaml
from interlock.engine import Status
from interlock.playbooks.ticket.planning import DEFERRED
from interlock.playbooks.ticket.rehearsing import HOME, PROJECT, TWO, defers, graph, rejects, task
from tests.playbooks.ticket.conftest import Bench, in_order, nothing, only

I0 = f"{HOME}/iteration_0"


@pytest.mark.req("TK-73", "TK-74", "TK-75", "TK-76", "TK-77", "TK-78", "TK-79", "TK-84", "TK-85", "TK-98", "TK-107")
def test_an_iteration_begins_and_is_planned(bench: Bench) -> None:
    """Folder, state, checkpoint with HEAD, start time; every event in its place; the Planner before the gate."""
    seen: dict[str, object] = {}

    def look(request, act):  # type: ignore[no-untyped-def]
        seen.update(bench.progress)
        return act

    bench.changes["Planner"] = look
    bench.play()
    assert bench.has(f"{I0}/.gitkeep")
    assert (seen["current_phase"], seen["current_step"], seen["iteration_number"]) == ("PLANNING", "O3", 0)
    checkpoint = seen["last_checkpoint"]
    assert isinstance(checkpoint, dict)
    assert checkpoint["git_head"] == "1".zfill(40)
    assert (checkpoint["phase"], checkpoint["step"]) == ("PLANNING", "O3")
    iterations = seen["iterations"]
    assert isinstance(iterations, list)
    assert iterations[0]["started_at"]
    assert seen["status"] == "IN_PROGRESS"
    wanted = [
        "startup.analysis.start", "startup.analysis.complete", "start", "iteration.start",
        "planner.pre_git_gate.start", "planner.complete", "splitter.skipped_planner_provided", "tasks.ready",
        "git.gate.start", "git.gate.complete", "iteration.accepted", "docs.refresh",
    ]  # fmt: skip
    assert [event for event in bench.logged if event in wanted] == wanted


@pytest.mark.req("TK-80", "TK-81", "TK-162", "TK-14", "TK-13")
def test_the_planner_gets_everything_in_its_brief(bench: Bench) -> None:
    """All labels in order, the snapshot with exact headings, absent documents as not available."""
    bench.files = dict(PROJECT)
    bench.files["docs/ARCHITECTURE.md"] = "".join(f"line {number}\n" for number in range(1, 101))
    bench.files["docs/CODE_STYLE.md"] = "".join(f"style {number}\n" for number in range(1, 61))
    bench.play()
    brief = bench.brief("Planner")
    assert in_order(
        brief,
        "ROLE ENFORCEMENT: You are Planner.", "VIOLATION PENALTY:", "SCOPE REMINDER:", "FORBIDDEN",
        "JIRA: ABC-12", "Iteration: 0", f"Primary Input: {HOME}/prompt.yaml", f"Planning State: {HOME}/progress.yaml",
        "Docs Cache: docs/docs_cache_state.yaml", "Build command: make build", "Test command: make test",
        f"Create plan at: {I0}/plan.md", f"Create tasks at: {I0}/tasks.yaml", "CONTEXT SNAPSHOT",
        "--- startup.impact_scan ---", "affected_areas", "--- ARCHITECTURE.md summary ---", "line 80\n```",
        "--- CODE_STYLE.md summary ---", "style 40\n```", "--- FINDINGS.md ---", "not available",
        "--- PRIMARY INPUT ---", "original_request", "--- progress.yaml ---", "current_phase: PLANNING",
    )  # fmt: skip
    assert "/simulated" not in brief


@pytest.mark.req("TK-78", "TK-154", "TK-26")
def test_a_rejected_iteration_is_planned_anew_from_its_review(bench: Bench) -> None:
    """The next iteration has a folder of its own, and the review report as its primary input."""
    first = [True]

    def reject_once(request, act):  # type: ignore[no-untyped-def]
        if not first[0]:
            return act
        first[0] = False
        return rejects(request, act)

    bench.changes["Reviewer"] = reject_once
    close = bench.play()
    assert close.status is Status.COMPLETE
    assert isinstance(close.output, str)
    assert close.output.startswith("SUCCESS: Development complete in 2 iteration(s)\n")
    assert close.output.endswith(f"Report: {HOME}/iteration_1/review_report.yaml\n")
    brief = bench.brief("Planner", 1)
    assert in_order(brief, "Iteration: 1", f"Primary Input: {I0}/review_report.yaml", "problem: wrong")
    assert [entry["status"] for entry in bench.progress["iterations"]] == ["REJECTED", "ACCEPTED"]
    assert "iteration.rejected" in bench.logged
    assert len([event for event in bench.logged if event == "git.gate.complete"]) == 2
    assert [message.split(":")[0] for message in bench.git.messages] == ["fix(ABC-12)", "first"]


@pytest.mark.req("TK-71", "TK-72", "TK-155")
def test_five_iterations_are_the_most(bench: Bench) -> None:
    """Five rejections: the exact text, exit 3, no sixth folder, and starting again changes nothing."""
    bench.changes["Reviewer"] = rejects
    close = bench.play()
    assert (close.exit_code, close.reason) == (3, "MAXIMUM ITERATIONS REACHED (5/5). STOPPING.")
    assert bench.called.count("Planner") == 5
    assert bench.has(f"{HOME}/iteration_4/plan.md")
    assert not [path for path in bench.world.tree.files if "iteration_5" in path]  # type: ignore[union-attr]
    assert bench.progress["status"] == "REJECTED"
    assert bench.git.messages == ["first"]
    before = bench.text(f"{HOME}/progress.yaml")
    again = bench.play()
    assert (again.exit_code, again.reason) == (3, "MAXIMUM ITERATIONS REACHED (5/5). STOPPING.")
    assert bench.text(f"{HOME}/progress.yaml") == before
    changed = before.replace("status: REJECTED\nc", "status: IN_PROGRESS\nc")
    bench.put(f"{HOME}/progress.yaml", changed.replace("iteration_number: 4", "iteration_number: 5"))
    assert bench.play().reason == "MAXIMUM ITERATIONS REACHED (5/5). STOPPING."


@pytest.mark.req("TK-82", "TK-15")
@pytest.mark.parametrize("change", [nothing, only(" \n")])
def test_a_missing_or_empty_plan_stops_after_one_repeat(bench: Bench, change) -> None:  # type: ignore[no-untyped-def]
    """Asked again once, then exit 5 with the path."""
    bench.changes["Planner"] = change
    close = bench.play()
    assert close.exit_code == 5
    assert close.reason == f"ERROR: Planner produced no plan at {I0}/plan.md. STOPPING."
    assert bench.called == ["Planner", "Planner"]
    assert bench.progress["status"] == "FAILED"
    (checked,) = bench.events("artifact.check")
    assert checked["outcome"] == "FAIL"


@pytest.mark.req("TK-83")
def test_deferred_research_stops_the_run_and_can_be_resumed(bench: Bench) -> None:
    """The exact text with the lines, exit 3; the next start plans again."""
    bench.changes["Planner"] = defers
    close = bench.play()
    assert close.exit_code == 3
    assert close.reason == f"{DEFERRED}\n{I0}/plan.md:3: TBD"
    assert (bench.progress["status"], bench.progress["current_phase"]) == ("FAILED", "PLANNING")
    assert "task-executor-T1" not in bench.called
    bench.changes.clear()
    assert bench.play().status is Status.COMPLETE
    assert bench.called[:2] == ["Planner", "Planner"]


@pytest.mark.req("TK-90", "TK-96")
def test_a_valid_graph_of_the_planner_skips_the_splitter(bench: Bench) -> None:
    """The event says so; tasks and groups are counted at once."""
    bench.tasks = graph(task("T1"), task("T2"), task("T3", "B"))
    bench.play()
    assert "Splitter" not in bench.called
    assert "splitter.skipped_planner_provided" in bench.logged
    metrics = bench.progress["metrics"]
    assert (metrics["tasks_total"], metrics["groups_total"]) == (3, 2)
    (ready,) = bench.events("orchestrator.tasks.ready")
    assert (ready["tasks"], ready["groups"], ready["mode"]) == (3, 2, "standard")


def planner_brings(text: str | None):  # type: ignore[no-untyped-def]
    def act(request, best):  # type: ignore[no-untyped-def]
        files = {path: content for path, content in best.files.items() if path.endswith(".md")}
        return replace(best, files=files if text is None else {**files, f"{I0}/tasks.yaml": text})

    return act


def without_criteria(data: dict[str, Any]) -> None:
    del data["tasks"][1]["success_criteria"]


def with_groups_as_list(data: dict[str, Any]) -> None:
    data["parallel_groups"] = [["T1", "T2"]]


def leaving_the_repository(data: dict[str, Any]) -> None:
    data["tasks"][0]["files_to_modify"] = ["../../etc/passwd"]


@pytest.mark.req("TK-91", "TK-93")
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (with_groups_as_list, "parallel_groups is a list; expected mapping"),
        (without_criteria, "task T2: success_criteria missing"),
        (
            leaving_the_repository,
            'task T1: files_to_modify "../../etc/passwd": path leaves the repository',
        ),
    ],
)
def test_an_invalid_graph_goes_to_the_splitter(
    bench: Bench, spoil: Callable[[dict[str, Any]], None], reason: str
) -> None:
    """The failed check is logged, a copy is kept, the file is set aside, and the Splitter takes over."""
    data = load_yaml(TWO, "x")
    spoil(data)
    spoiled = render_yaml(data)
    bench.changes["Planner"] = planner_brings(spoiled)
    assert bench.play().status is Status.COMPLETE
    (event,) = bench.events("orchestrator.tasks.yaml.invalid")
    assert event["reason"] == reason
    assert bench.text(f"{HOME}/tmp/tasks.invalid.0.Planner.yaml") == spoiled
    assert [
        path for path in bench.world.tree.files if path.startswith(".interlock/attic/") and path.endswith("tasks.yaml")
    ]  # type: ignore[union-attr]
    brief = bench.brief("Splitter")
    assert in_order(
        brief,
        "ROLE ENFORCEMENT: You are Splitter.",
        "JIRA: ABC-12",
        "Iteration: 0",
        f"Input: {I0}/plan.md",
        f"Create tasks at: {I0}/tasks.yaml",
        reason,
    )
    assert bench.scope("Splitter") == {f"{I0}/tasks.yaml"}


@pytest.mark.req("TK-92")
def test_without_a_graph_the_splitter_makes_one(bench: Bench) -> None:
    """No invalid event, just the dispatch."""
    bench.changes["Planner"] = planner_brings(None)
    assert bench.play().status is Status.COMPLETE
    assert bench.called[:2] == ["Planner", "Splitter"]
    assert bench.events("orchestrator.tasks.yaml.invalid") == []


@pytest.mark.req("TK-94")
def test_a_second_invalid_graph_stops_the_run(bench: Bench) -> None:
    """The Splitter is held to the same checks: one repeat, then exit 3 with the check."""
    data = load_yaml(TWO, "x")
    data["tasks"][0]["depends_on"], data["tasks"][1]["depends_on"] = ["T2"], ["T1"]
    bad = render_yaml(data)
    bench.changes["Planner"] = planner_brings(bad)
    bench.changes["Splitter"] = only(bad)
    close = bench.play()
    assert close.exit_code == 3
    assert close.reason == "ERROR: tasks.yaml: depends_on cycle: T1 -> T2 -> T1. STOPPING."
    assert bench.called == ["Planner", "Splitter", "Splitter"]
    reasons = [event["reason"] for event in bench.events("orchestrator.tasks.yaml.invalid")]
    assert reasons == ["depends_on cycle: T1 -> T2 -> T1"] * 2
    assert (bench.progress["status"], bench.progress["current_phase"]) == ("FAILED", "SPLITTING")


def test_a_graph_that_claims_work_is_invalid(bench: Bench) -> None:
    """A planner cannot declare its tasks done."""
    bench.changes["Planner"] = planner_brings(TWO.replace("PENDING", "ACCEPTED", 1))
    bench.play()
    assert "Splitter" in bench.called


@pytest.mark.req("TK-97")
@pytest.mark.parametrize(("inputs", "mode"), [({}, "trivial_graph"), ({"fast_path": False}, "standard")])
def test_a_trivial_graph_sets_the_mode(bench: Bench, inputs: dict[str, bool], mode: str) -> None:
    """One simple task is trivial, unless the fast path is switched off."""
    bench.tasks = graph(task("T1"))
    bench.play(**inputs)
    (ready,) = bench.events("orchestrator.tasks.ready")
    assert ready["mode"] == mode


@pytest.mark.req("TK-16", "TK-29")
def test_each_step_leaves_its_checkpoint(bench: Bench) -> None:
    """The journal has a scope per step, and the last checkpoint follows each transition."""
    bench.play()
    steps = {part for line in bench.lines for part in (line.key or "").split("/")}
    assert {"I0", "I1", "I2", "O1", "O3", "O4", "O4.5", "O5", "O6", "O7"} <= steps
    assert bench.progress["last_checkpoint"]["phase"] == "DOC_REFRESH"
    assert bench.progress["last_checkpoint"]["git_head"] == bench.git.head
