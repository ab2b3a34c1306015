"""O6, O7 and the end: reviewed, delivered, committed."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.simulation import HOOKS
from interlock.errors import Status
from tests.engine.bench import GREEN, CommandExit, cut_off_anywhere, said
from tests.playbooks.tickets import BRANCH, GOOD, Desk, P, in_turn, leaves, plans, reviews, task

I0 = f"{P}iteration_0/"
TWO = (task("T1"), task("T2"))
OTHERS = {"commit_message": "{jira} {summary}", "branch": "{jira}-{slug}"}
REJECTS = [reviews(n, status="REJECTED", issues=[{"problem": "no"}]) for n in range(5)]


def two(**settings: Any) -> Desk:
    return Desk(**settings).acts("Planner", *[plans(*TWO, n=n) for n in range(5)])


def fails(desk: Desk, at: str, why: str) -> None:
    """Something of the world, once."""
    usual, once = desk.cast.moment, [why]
    desk.cast.moment = lambda what: once.pop() if what == at and once else usual(what)  # type: ignore[method-assign]


def commits(desk: Desk) -> list[set[str]]:
    """What each commit changed."""
    trees = [(desk.world.trees[tree], desk.world.trees[parent]) for _, tree, parent in desk.world.commits.values()]
    return [{path for path in {*now, *was} if now.get(path) != was.get(path)} for now, was in trees]


# --- O6


def met(but: str = "") -> dict[str, Any]:
    """Criteria of a report: all are met but one."""
    return {"criteria": [{"id": one, "met": one != but} for one in ("C1", "C2", "C3", "T1.1", "T2.1")]}


@pytest.mark.req("TK-150", "TK-78", "EVID-03", "AGENT-07")
@pytest.mark.parametrize(
    ("report", "accepted"),
    [
        ({}, True),
        ({"checks": [{"command": "make test", "exit": 0}], **met()}, True),
        ({"criteria": [{"id": "C1: fix the sum", "met": True}]}, False),
        ({"status": "REJECTED"}, False),
        ({"build": "FAILED"}, False),
        ({"files_verified": False}, False),
        (met(but="C1"), False),
        ({"checks": [{"command": "make never", "exit": 0}]}, False),
        ({"checks": [{"command": "make test", "exit": 1}]}, False),
        ({"checks": [{"command": "make never", "exit": 1, "expected": True}]}, True),
        ({"issues": [{"problem": "taste"}]}, True),
        ({"issues": [{"problem": "bad", "criterion": "C1"}]}, False),
    ],
)
def test_what_of_a_report_counts(report: dict[str, Any], accepted: bool) -> None:
    """Its seven fields are enough; what contradicts itself or does not run as told is asked about once, then it is
    rejected, and the report says so: the next plan's input."""
    desk = two()
    desk.cast.commands["make never"] = [CommandExit(exit=1)]
    desk.acts("Reviewer", reviews(**report), reviews(**report), *[reviews(n) for n in range(1, 5)])
    view = desk.run()
    assert view.status is Status.COMPLETE, view.why
    found = desk.yaml("iteration_0/review_report.yaml")
    assert found["status"] == ("ACCEPTED" if accepted else "REJECTED")
    assert (desk.progress["iteration_number"] == 0) is accepted
    if not accepted:
        assert f"Primary Input: {I0}review_report.yaml" in desk.briefs("Planner")[1]
        assert desk.stood[-1][1]["iteration_number"] == 1 and len(desk.progress["iterations"]) == 2
    if not accepted and report.get("status") != "REJECTED":
        assert found["issues"][-1]["severity"] == "engine" and found["issues"][-1]["problem"]
        assert found["issues"][-1]["problem"] in desk.briefs("Planner")[1]


@pytest.mark.req("TK-15", "TK-150")
@pytest.mark.parametrize("act", [said("ok"), leaves({f"{I0}review_report.yaml": "notes: x\n"}), reviews(status="GOOD")])
def test_an_unusable_report_is_asked_for_once_more(act: Any) -> None:
    desk = two().acts("Reviewer", act, act)
    view = desk.run()
    assert view.ended is not None and (view.ended.exit, desk.progress["status"]) == (5, "FAILED")
    assert desk.called.count("Reviewer") == 2 and "review_report.yaml" in view.why
    assert desk.resume().status is Status.COMPLETE
    assert desk.called.count("Reviewer") == 3 and desk.called.count("T1") == 1


@pytest.mark.req("TK-150", "EVID-05")
def test_no_reviewer_is_paid_for_red_work() -> None:
    """Red by who changed the tree with it: the engine's own report is the next plan's input."""
    desk = two()
    red = [False]
    desk.red_while(lambda files: red[0] and "src/t1.py" in files and b"twice" not in files["src/t1.py"])
    desk.cast.moments["wrote prompts/ABC-12/iteration_0/tasks.yaml"] = [
        *[lambda: None] * 2,
        lambda: red.append(red.pop() or True),
    ]
    desk.acts("T1", None, leaves({"src/t1.py": GOOD + b"twice\n"}))
    view = desk.run()
    assert view.status is Status.COMPLETE, view.why
    found = desk.yaml("iteration_0/review_report.yaml")
    assert (found["status"], found["tests"]) == ("REJECTED", "FAILED")
    assert desk.called.count("Reviewer") == 1


@pytest.mark.req("TK-71", "TK-154")
def test_five_rejections_end_it() -> None:
    desk = two().acts("Reviewer", *REJECTS, *REJECTS[:1])
    view = desk.run()
    assert view.why == "MAXIMUM ITERATIONS REACHED (5/5). STOPPING."
    assert view.ended is not None and (view.ended.exit, desk.progress["status"]) == (3, "REJECTED")
    assert desk.called.count("Planner") == desk.called.count("Reviewer") == 5
    assert [one["status"] for one in desk.progress["iterations"]] == ["REJECTED"] * 5
    assert desk.progress["iteration_number"] == 4 and commits(desk) == []
    for goes_on in (desk.resume, desk.again):
        view = goes_on()
        assert (view.why, desk.progress["status"]) == ("MAXIMUM ITERATIONS REACHED (5/5). STOPPING.", "REJECTED")
    assert desk.called.count("Planner") == desk.called.count("Reviewer") == 5


# --- the commit


@pytest.mark.req("TK-153", "TK-156", "TK-161", "TK-29")
def test_one_commit_holds_the_work_of_all_iterations_and_nothing_else() -> None:
    desk = Desk({"README.md": b"mine\n", "src/mine.py": b"mine\n"})
    desk.acts("Planner", plans(*TWO), plans(task("T3"), task("T4"), n=1)).acts("Reviewer", REJECTS[0], reviews(1))
    view = desk.run(dirty="carry")
    assert view.status is Status.COMPLETE, view.why
    work, docs = commits(desk)
    assert work == {"src/t1.py", "src/t2.py", "src/t3.py", "src/t4.py", ".gitignore"}
    assert docs == {"docs/ARCHITECTURE.md", "docs/CODE_STYLE.md", "docs/FINDINGS.md"}
    assert [*desk.world.refs] == [f"refs/heads/{BRANCH}"]
    assert desk.world.files["README.md"] == desk.world.files["src/mine.py"] == b"mine\n"
    assert desk.progress["metrics"]["percent_complete"] == 100
    assert desk.said[-6:] == [
        "SUCCESS: Development complete in 2 iteration(s)",
        "Tasks: 2 completed",
        "Build: PASSED",
        "Tests: PASSED",
        f"Branch: {BRANCH}",
        "Report: prompts/ABC-12/iteration_1/review_report.yaml",
    ]


@pytest.mark.req("TK-156", "TK-104")
@pytest.mark.parametrize(
    ("request_", "settings", "message"),
    [
        ("ABC-12 add a page with a title", {}, "feat(ABC-12): add a page with a title\n\nTasks: T1, T2\n"),
        ("ABC-12 improve the page title", {}, "chore(ABC-12): improve the page title\n\nTasks: T1, T2\n"),
        (f"ABC-12 fix the page {'title ' * 30}", OTHERS, f"ABC-12 fix the page {'title ' * 10}".strip() + "\n"),
    ],
)
def test_its_message_and_branch(request_: str, settings: Any, message: str) -> None:
    desk, seen = two(**settings), list[str]()
    usual = desk.world.plan_commit

    async def plan(where: Any, order: Any) -> Any:
        seen.append(order.message)
        return await usual(where, order)

    desk.world.plan_commit = plan  # type: ignore[method-assign]
    desk.run(request_)
    assert seen == [message, "docs(ABC-12): refresh documentation\n"]
    assert not settings or desk.progress["branch"] == "ABC-12-fix_page_title"


@pytest.mark.req("TK-156", "TREE-12")
@pytest.mark.parametrize("anew", [False, True])
def test_hooks_that_refuse_stop_it_and_a_resume_builds_tests_and_commits_only(anew: bool) -> None:
    """The same run, or a new one on its documents."""
    desk = two()
    desk.cast.commands[HOOKS] = [CommandExit(exit=1, out="no ticket"), GREEN]
    view = desk.run()
    assert view.status is Status.STOPPED and "the commit hooks refuse it" in view.why and "no ticket" in view.why
    assert (desk.progress["status"], commits(desk)) == ("FAILED", [])
    asked = len(desk.called)
    desk.cast.ran.clear()
    desk.world.files["src/mine.py"] = b"mine\n"
    assert (desk.again() if anew else desk.resume()).status is Status.COMPLETE
    assert desk.called[asked:] == ["Initializer"] and desk.progress["status"] == "ACCEPTED"
    assert {line for line, _, _ in desk.cast.ran} >= {HOOKS}
    assert "src/t1.py" in commits(desk)[0] and "src/mine.py" not in commits(desk)[0]


@pytest.mark.req("TK-156")
def test_a_commit_that_cannot_be_made_stops_it() -> None:
    fails(desk := two(), "plan commit", "it is locked")
    view = desk.run()
    assert view.why.startswith("the work is accepted, but not committed: it is locked")
    assert desk.progress["status"] == "FAILED"
    assert desk.resume().status is Status.COMPLETE
    assert len(commits(desk)) == 2 and desk.called.count("Reviewer") == 1


@pytest.mark.req("TK-156", "EVID-06")
def test_what_is_red_without_the_persons_work_is_not_committed() -> None:
    desk = Desk({"src/mine.py": b"helps\n"}).acts("Planner", plans(*TWO))
    desk.red_while(lambda files: "src/t1.py" in files and "src/mine.py" not in files)
    view = desk.run(dirty="carry")
    assert view.status is Status.STOPPED
    assert "the accepted work is red without what you have not committed" in view.why
    assert commits(desk) == [] and "src/t1.py" not in desk.world.files


@pytest.mark.req("TK-156", "EVID-08")
def test_nothing_to_commit_is_said_and_no_failure() -> None:
    desk = Desk({"done.py": GOOD, ".gitignore": b"prompts/\ndocs/docs_cache_state.yaml\n"})
    desk.world.head = dict(desk.world.files)
    act = said({"already_so": ["make test"]})
    desk.acts("Planner", plans(*TWO)).acts("T1", act).acts("T2", act)
    view = desk.run()
    assert view.status is Status.COMPLETE, view.why
    assert any("there is nothing to commit" in one for one in view.warnings)
    assert "Reviewer" in desk.called


@pytest.mark.req("TREE-04", "TK-154")
def test_a_conflict_at_the_delivery_is_the_next_plans_input() -> None:
    desk = Desk({"src/t1.py": b"old\n"}).acts("Planner", plans(*TWO), plans(*TWO, n=1))
    desk.world.head = dict(desk.world.files)
    mine = {"src/t1.py": b"mine\n"}
    edit: Any = lambda: [files.update(mine) for files in (desk.world.files, desk.world.head)]  # noqa: E731
    desk.cast.moments["called iteration-1/O6"] = [edit]
    view = desk.run()
    assert view.status is Status.COMPLETE, view.why
    assert b"mine" in desk.world.files["src/t1.py"] and b"worked" in desk.world.files["src/t1.py"]


# --- O7 and the end


@pytest.mark.req("TK-158")
def test_documents_with_a_persons_changes_are_left_alone() -> None:
    path, kept = "docs/FINDINGS.md", b"mine\n"
    desk = Desk({path: kept}).acts("Planner", plans(*TWO))
    assert desk.run().status is Status.COMPLETE
    assert desk.world.files[path] == kept
    assert path not in commits(desk)[1] and len(commits(desk)[1]) == 2
    assert path not in desk.briefs("Initializer")[1].partition("## Outputs")[2].partition("##")[0]


@pytest.mark.req("TK-158", "TK-05")
def test_a_refresh_that_fails_is_a_warning() -> None:
    desk = two().acts("Initializer", None, *[said("", finished=False)] * 3)
    view = desk.run()
    assert view.status is Status.COMPLETE
    assert any("the documentation was not refreshed" in one for one in view.warnings)
    assert desk.events[-1] == "docs.refresh" and desk.said[-1].startswith("Report: ")


@pytest.mark.req("TK-168")
def test_a_pull_request_is_opened_where_it_was_asked_for() -> None:
    desk, seen = two(), list[tuple[str, str, str]]()
    usual = desk.world.pull_request

    async def opens(branch: str, title: str, body: str) -> Any:
        seen.append((branch, title, body))
        return await usual(branch, title, body)

    desk.world.pull_request = opens  # type: ignore[method-assign]
    view = desk.run(pr=True)
    ((branch, title, body),) = seen
    assert (branch, title) == (BRANCH, "fix(ABC-12): fix the sum of the lib: it should add")
    assert "ABC-12 fix the sum" in body and "make test" in body
    assert view.status is Status.COMPLETE and view.why.endswith("https://example.org/fix/ABC-12_fix_sum_lib")
    fails(desk := two(), "push", "no program gh")
    view = desk.run(pr=True)
    assert view.ended is not None and (view.status, view.ended.exit) == (Status.DEGRADED, 1)


@pytest.mark.req("TK-05")
def test_every_event_is_told_each_time() -> None:
    desk = two().acts("Reviewer", REJECTS[0], reviews(1))
    desk.run()
    again = ["iteration.start", "planner.pre_git_gate.start", "planner.complete", "splitter.skipped_planner_provided"]
    again += ["tasks.ready", "git.gate.start", "git.gate.complete"]
    first = ["startup.analysis.start", "startup.analysis.complete", "start"]
    assert desk.events == [*first, *again, *again, "iteration.accepted", "docs.refresh"]


# --- deaths, liars, two at once


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05")
def test_a_death_behind_any_line_changes_nothing() -> None:
    def make() -> Desk:
        desk = Desk().acts("Planner", *in_turn(lambda n: plans(*TWO, n=n)))
        return desk.acts("Reviewer", *in_turn(lambda n: reviews(n, status="ACCEPTED" if n else "REJECTED")))

    usual = None
    for _, usual, desk in cut_off_anywhere(make):
        assert isinstance(desk, Desk) and isinstance(usual, Desk)
        assert desk.last.view.why == usual.last.view.why
        assert commits(desk) == commits(usual)
        assert desk.events == usual.events
    assert usual is not None
