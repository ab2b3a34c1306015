"""O6 and O7 in the simulated twin: review, commit, documentation, last words."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from interlock.documents import render_yaml
from interlock.engine import CommandResult, Status
from interlock.playbooks.ticket.finishing import VERDICT, BuildAndTests, ReviewerSaid
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, PROJECT, graph, task
from interlock.testing import Trouble
from tests.playbooks.ticket.conftest import Bench, answers, at_attempts, in_order, nothing, only, writes

REPORT = f"{HOME}/iteration_0/review_report.yaml"


def test_the_verdict_is_decided_for_every_case() -> None:
    """Only a word of acceptance with green evidence is an acceptance."""
    assert not list(VERDICT.missing())
    for said, evidence in itertools.product(ReviewerSaid, BuildAndTests):
        accepted = said is ReviewerSaid.ACCEPTED and evidence is BuildAndTests.GREEN
        assert VERDICT(said, evidence) is (ReviewerSaid.ACCEPTED if accepted else ReviewerSaid.REJECTED)


@pytest.mark.req("TK-148", "TK-149", "TK-150", "TK-151", "TK-152", "TK-117", "TK-162")
def test_the_review(bench: Bench) -> None:
    """All tasks are accepted, the position is O6, the brief has its labels, the time is kept."""
    seen: dict[str, object] = {}

    def look(request, act):  # type: ignore[no-untyped-def]
        seen.update(bench.progress, tasks=[bench.task(name)["status"] for name in ("T1", "T2")])
        return act

    bench.changes["Reviewer"] = look
    bench.play()
    assert (seen["current_phase"], seen["current_step"], seen["current_task_id"]) == ("REVIEW", "O6", None)
    assert seen["tasks"] == ["ACCEPTED", "ACCEPTED"]
    assert in_order(
        bench.brief("Reviewer"), "ROLE ENFORCEMENT: You are Reviewer.", "VIOLATION PENALTY:", "SCOPE REMINDER:",
        "FORBIDDEN", "Mode: prompt-review", "JIRA: ABC-12", "Iteration: 0", "Build command: make build",
        "Test command: make test", f"Tasks file: {HOME}/iteration_0/tasks.yaml",
    )  # fmt: skip
    assert bench.called.count("Reviewer") == 1
    assert bench.scope("Reviewer") == {REPORT}
    assert bench.progress["metrics"]["latest_iteration_cycle_minutes_estimate"] > 0
    assert bench.progress["iterations"][0]["completed_at"]


@pytest.mark.req("TK-150")
def test_a_report_without_a_status_is_asked_for_again(bench: Bench) -> None:
    """One repeat, then exit 5 with the text."""
    bench.changes["Reviewer"] = only("notes: fine\n")
    close = bench.play()
    assert close.exit_code == 5
    assert close.reason == "ERROR: review_report.yaml: status missing; expected ACCEPTED or REJECTED"
    assert bench.called.count("Reviewer") == 2
    assert bench.git.messages == ["first"]


@pytest.mark.req("EV-08")
def test_a_reviewers_by_products_are_cleared_away(bench: Bench) -> None:
    """What it judged is not what is there: it is asked once more, on the tree without them."""
    bench.changes["Reviewer"] = at_attempts({1}, writes("build/out.o", "x"))
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("Reviewer") == 2
    assert not bench.has("build/out.o")
    assert bench.events("scope.cleaned")


@pytest.mark.req("TK-153", "TK-156", "TK-161", "TK-01", "TK-07")
def test_accepted_work_is_committed_once(bench: Bench) -> None:
    """One conventional commit with the files of the tasks; the six last lines; every event of the log."""
    bench.simulate()
    bench.put("src/other.txt", "not of this ticket\n")
    close = bench.play(flags={"dirty": "carry"})
    assert close.output == (
        "SUCCESS: Development complete in 1 iteration(s)\n"
        "Tasks: 2 completed\n"
        "Build: PASSED\n"
        "Tests: PASSED\n"
        f"Branch: {BRANCH}\n"
        f"Report: {REPORT}\n"
    )
    message, first = bench.git.messages
    assert message.startswith("fix(ABC-12): fix the login error so that users can sign in\n\nTasks:\n- T1\n- T2\n")
    assert "Interlock-Key: ticket-20260104-120000-0000/iteration-0/commit" in message
    assert first == "first"
    assert bench.git.uncommitted() == {"src/other.txt": "??"}
    assert bench.logged[-2:] == ["iteration.accepted", "docs.refresh"]
    order = bench.order
    assert order.index("orchestrator.iteration.accepted") < order.index("orchestrator.docs.refresh")


def test_an_accepted_change_of_nothing_makes_no_commit(bench: Bench) -> None:
    """Said as a warning; the ticket is done, since every task says why, and the Reviewer agrees."""
    for name in ("T1", "T2"):
        bench.changes[f"task-executor-{name}"] = lambda request, act: nothing(
            request, answers("SYNTAX_VALID", noChange="it is there")(request, act)
        )
    assert bench.play().status is Status.COMPLETE
    assert bench.git.messages == ["first"]
    assert any("nothing to commit" in data["text"] for data in bench.events("warning"))


def test_a_hook_that_refuses_stops_the_run_and_the_next_start_only_commits(bench: Bench) -> None:
    """Accepted work is not lost: exit 3 with the hook's words; the next start makes the commit and nothing else."""
    bench.git.befall(Trouble.HOOK)
    close = bench.play()
    assert close.exit_code == 3
    assert "the commit failed: hook: a blank at the end" in close.reason
    assert (bench.progress["status"], bench.progress["metrics"]["percent_complete"]) == ("FAILED", 95)
    bench.git.troubles.clear()
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert len(bench.called) == calls
    assert (bench.progress["status"], bench.progress["metrics"]["percent_complete"]) == ("ACCEPTED", 100)
    assert bench.git.messages[0].startswith("fix(ABC-12)")


@pytest.mark.req("EN-46")
def test_hooks_that_came_up_during_the_work_are_not_run(bench: Bench) -> None:
    """A planted hook stops the run before the commit."""

    def plant(request, act):  # type: ignore[no-untyped-def]
        bench.git.hooked = "pre-commit 1234\n"
        return act

    bench.changes["task-executor-T1"] = plant
    close = bench.play()
    assert close.exit_code == 3
    assert "git hooks of this repository changed" in close.reason
    assert bench.git.messages == ["first"]


def test_work_of_a_rejected_iteration_is_in_the_commit(bench: Bench) -> None:
    """Files of tasks that earlier iterations accepted are part of it."""
    graphs = iter([graph(task("T1")), graph(task("T2"), task("T9"))])
    verdicts = iter(["REJECTED", "ACCEPTED"])

    def plan(request, act):  # type: ignore[no-untyped-def]
        bench.tasks = next(graphs)
        return replace(act, files={p: bench.tasks if p.endswith(".yaml") else t for p, t in act.files.items()})

    def judge(request, act):  # type: ignore[no-untyped-def]
        issue = {"severity": "Major", "task": "T1", "files": [], "problem": "x", "evidence": "y"}
        verdict = next(verdicts)
        report = {"status": verdict, "build": "PASSED", "tests": "PASSED", "nothing_to_run": "a simulation"}
        report |= {"issues": [issue]} if verdict == "REJECTED" else {}
        return replace(act, files=dict.fromkeys(act.files, render_yaml(report)))

    bench.changes |= {"Planner": plan, "Reviewer": judge}
    assert bench.play(fast_path=False).status is Status.COMPLETE
    committed = bench.git.commits[next(iter(reversed(bench.git.commits)))].files
    assert {committed[f"src/{name}.txt"] for name in ("t1", "t2", "t9")} == {b"T1 done\n", b"T2 done\n", b"T9 done\n"}
    work = next(message for message in bench.git.messages if message.startswith("fix("))
    assert "- T1 (iteration 0)\n- T2\n- T9\n" in work


# -- O7


@pytest.mark.req("TK-157", "TK-158", "TK-159")
def test_documentation_is_refreshed_when_the_work_makes_it_out_of_date(bench: Bench) -> None:
    """A new file outside of tests: the Initializer runs incrementally, and its documents get a commit of their own."""
    bench.tasks = graph(task("T1"), task("T3"))
    assert bench.play().status is Status.COMPLETE
    assert bench.called[-1] == "Initializer"
    assert in_order(bench.brief("Initializer"), "Mode: INCREMENTAL", "- docs/ARCHITECTURE.md")
    (event,) = bench.events("orchestrator.docs.refresh")
    assert (event["ran"], event["architecture_relevant"]) == (True, True)
    assert bench.progress["current_phase"] == "DOC_REFRESH"
    assert [message.split("\n")[0] for message in bench.git.messages[:2]] == [
        "docs(ABC-12): refresh documentation",
        "fix(ABC-12): fix the login error so that users can sign in",
    ]
    assert bench.git.uncommitted() == {}


@pytest.mark.req("TK-158")
def test_untrusted_documentation_is_refreshed_in_the_end(bench: Bench) -> None:
    """Where no refresh could prove itself before, another one follows the commit."""
    bench.files = dict(PROJECT)
    bench.play()
    assert bench.called[-1] == "Initializer"


def test_trusted_documentation_is_left_alone(bench: Bench) -> None:
    """Nothing relevant changed: the event says that nothing ran."""
    bench.play()
    (event,) = bench.events("orchestrator.docs.refresh")
    assert (event["ran"], event["architecture_relevant"]) == (False, False)


@pytest.mark.req("TK-160")
def test_a_failed_refresh_does_not_undo_the_acceptance(bench: Bench) -> None:
    """A warning, exit 0, the commit stays."""
    bench.tasks = graph(task("T1"), task("T3"))
    bench.changes["Initializer"] = nothing
    close = bench.play()
    assert close.exit_code == 0
    assert any("not refreshed" in data["text"] for data in bench.events("warning"))
    assert bench.progress["status"] == "ACCEPTED"
    assert len(bench.git.messages) == 2


def test_a_build_is_asked_for_again_when_the_run_comes_to_the_review_anew(bench: Bench) -> None:
    """Without a build of its own in this run, the engine makes one before it believes a review."""
    bench.changes["Reviewer"] = lambda _request, act: replace(act, code=-9, message="", files={})
    assert bench.play().exit_code == 5
    bench.changes.clear()
    bench.tool = lambda call, files: CommandResult(1, stderr="red now")
    close = bench.play()
    assert bench.decisions("verdict")[0] == "REJECTED"
    assert close.exit_code == 3
