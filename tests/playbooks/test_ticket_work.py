"""O1 to O5: planned, put on a branch, done task by task."""

from __future__ import annotations

from datetime import timedelta
from shlex import quote
from typing import Any

import pytest

from interlock.engine.simulation import SKIPPED, TEST
from interlock.errors import Status
from interlock.playbooks.ticket.playbook import INVARIANTS
from interlock.workspace.values import BranchFacts
from tests.engine.bench import GREEN, CommandExit, said
from tests.playbooks.tickets import BAD, BRANCH, GOOD, Desk, P, graph, leaves, plans, reviews, task

I0 = f"{P}iteration_0/"
FAILS = said({"status": "ERROR", "notes": "it does not parse"})
RED = CommandExit(exit=1, out="1 failed")


UNCLEAR = "ABC-12 look at the sum, MUST use `pytest`"
J, C = ("JIRA: ABC-12", "Iteration: 0"), ("Build command: make", "Test command: make test")
TASKS, ENTRY = f"Tasks file: {I0}tasks.yaml", "EMBEDDED TASK ENTRY:"
PARTS: dict[str, tuple[str, ...]] = {
    "Interpreter": (
        *("User request:", UNCLEAR, "JIRA: ABC-12", f"Create {P}prompt.yaml with ALL required fields:"),
        *("IMPORTANT: Preserve tool", "MUST use `pytest`"),
    ),
    "Initializer": (*C, "JIRA: ABC-12", "Mode: REFRESH_IF_REQUIRED", "Update docs/docs_cache_state.yaml"),
    "Planner": (
        *(*J, f"Primary Input: {P}prompt.yaml", f"Planning State: {P}progress.yaml"),
        *("Docs Cache: docs/docs_cache_state.yaml", *C, f"Create plan at: {I0}plan.md"),
        *(f"Create tasks at: {I0}tasks.yaml", "CONTEXT SNAPSHOT (avoids redundant file reads):"),
        *("--- startup.impact_scan ---", "--- ARCHITECTURE.md summary ---", "ARCHITECTURE 80\n"),
        *("--- CODE_STYLE.md summary ---", "CODE_STYLE 40\n", "--- FINDINGS.md ---", "not available"),
        *("--- PRIMARY INPUT ---", UNCLEAR, "--- progress.yaml ---", "current_step: O3"),
    ),
    "Splitter": (*J, f"Input: {I0}plan.md", f"Create tasks at: {I0}tasks.yaml"),
    "task-executor": (*J, "Task: T1", "Attempt: 1", "Execution Mode: PARALLEL", *C, TASKS, ENTRY, "id: T1"),
    "Reviewer": ("Mode: prompt-review", *J, *C, TASKS, "C1: ", "T1.1: it is there", "T3.1: it is there"),
    "Developer": (
        *("EXECUTION MODE: SEQUENTIAL", *J, "Task: T1", "Attempt: 1", TASKS, *C, "TOOL MANDATES: use pydantic"),
        *(ENTRY, "id: T1", "description: Do T1"),
    ),
}


@pytest.mark.req("TK-14", "TK-52", "TK-78", "TK-81", "TK-66", "TK-158", "AGENT-03")
def test_each_brief_has_its_parts_in_the_seeds_words_and_order() -> None:
    docs = {name: "\n".join(f"{name} {n}" for n in range(1, 101)) for name in ("ARCHITECTURE", "CODE_STYLE")}
    long = Desk({f"docs/{name}.md": text.encode() for name, text in docs.items()}).acts("Planner", plans())
    long.run(UNCLEAR)
    short = Desk().acts("Planner", plans(task("T1", tool_mandates=["use pydantic"])))
    short.run()
    for name, parts in PARTS.items():
        text = (short if name == "Developer" else long).briefs(name)[0].partition("## Task")[2]
        block = (f"ROLE ENFORCEMENT: You are {name}.", "VIOLATION PENALTY:", "SCOPE REMINDER:")
        at = 0
        for one in parts if name == "task-executor" else (*block, *parts):
            at = text.find(one, at)
            assert at >= 0, (name, one)
        assert name != "task-executor" or "ROLE ENFORCEMENT" not in text
        assert not {"ARCHITECTURE 81", "CODE_STYLE 41"} & {*text.splitlines()}
    assert "Mode: INCREMENTAL" in long.briefs("Initializer")[1]


# --- O1 to O4


@pytest.mark.req("TK-15", "TK-83")
@pytest.mark.parametrize("act", [said("Nothing."), leaves({f"{I0}plan.md": "## No title\n"})])
def test_without_a_plan_it_stops_and_the_planner_is_called_again(act: Any) -> None:
    desk = Desk().acts("Planner", act, act)
    view = desk.run()
    assert view.ended is not None and (view.ended.exit, desk.progress["status"]) == (5, "FAILED")
    assert desk.called.count("Planner") == 2
    assert "plan.md" in view.why
    assert desk.resume().status is Status.COMPLETE


@pytest.mark.req("TK-83")
def test_a_plan_that_defers_research_stops_it() -> None:
    desk = Desk().acts("Planner", plans(task("T1"), plan="# Plan\n\nTBD: which sum\n"))
    view = desk.run()
    told = "ERROR: Planner deferred research — violates NO RESEARCH DEFERRAL rule. STOPPING."
    assert view.why == f"{told}\nTBD: which sum"
    assert (view.status, desk.progress["status"]) == (Status.STOPPED, "FAILED")
    assert not {"Splitter", "T1"} & {*desk.called}
    assert desk.resume().status is Status.COMPLETE
    assert desk.called.count("Planner") == 2 and "TBD: which sum" in desk.briefs("Planner")[1]


LIST = {**graph(task("T1")), "parallel_groups": [["T1"]]}


@pytest.mark.req("TK-86", "TK-14")
@pytest.mark.parametrize(
    ("planner", "splitter", "calls", "why"),
    [
        ({"tasks.yaml": graph(task("T1"))}, [], 0, ""),
        ({}, [None], 1, ""),
        ({"tasks.yaml": LIST}, [None], 1, "parallel_groups"),
        ({"tasks.yaml": b"\0{"}, [None], 1, "tasks.yaml"),
        ({"tasks.yaml": graph(task("T1", files_to_modify=[".github/x.yml"]))}, [None], 1, "guarded"),
        ({}, [leaves({f"{I0}tasks.yaml": LIST}), None], 2, ""),
        ({}, [leaves({f"{I0}tasks.yaml": LIST})] * 2, 2, "STOP"),
    ],
)
def test_a_graph_is_the_planners_or_the_splitters(
    planner: dict[str, Any], splitter: list[Any], calls: int, why: str
) -> None:
    plan = leaves({f"{I0}{name}": one for name, one in {"plan.md": "# Plan\n", **planner}.items()})
    desk = Desk().acts("Planner", plan).acts("Splitter", *splitter)
    view = desk.run()
    assert desk.called.count("Splitter") == calls
    assert ("splitter.skipped_planner_provided" in desk.events) == (calls == 0)
    assert ("tasks.yaml.invalid" in desk.events) == (bool(why) and why != "STOP")
    if why == "STOP":
        assert view.ended is not None and (view.ended.exit, desk.progress["status"]) == (3, "FAILED")
        assert "parallel_groups" in view.why
        return
    assert view.status is Status.COMPLETE, view.why
    if why:
        assert any(path.endswith("tasks.yaml") for path in desk.world.attic)
        assert why in desk.text(f"{P}log.jsonl")


@pytest.mark.req("TK-97", "TK-108", "TK-74")
@pytest.mark.parametrize(
    ("more", "fast", "mode"),
    [({}, True, "trivial_graph"), ({}, False, "standard"), ({"tool_mandates": ["run it"]}, True, "standard")],
)
def test_which_way_a_graph_goes(more: dict[str, Any], fast: bool, mode: str) -> None:
    desk = Desk().acts("Planner", plans(task("T1", **more)))
    desk.run(fast_path=fast)
    assert desk.progress["cycle_acceleration_mode"] == mode
    roles = [ask.role.name for ask in desk.cast.asks][2:-1]
    assert roles == (["Developer"] if mode == "trivial_graph" else ["task-executor", "Reviewer"])


@pytest.mark.req("TK-74", "TK-119", "TK-29", "TK-73")
def test_each_step_is_told_before_its_work() -> None:
    desk = Desk().acts("Planner", plans(task("T1"), task("T2", "B")))
    desk.run()
    stood = [(who, one["current_phase"], one["current_step"], one["current_task_id"]) for who, one, _ in desk.stood]
    assert stood == [
        ("Planner", "PLANNING", "O3", None),
        ("Initializer", "PLANNING", "O3", None),
        ("T1", "TASK_EXECUTION", "O5", "T1"),
        ("T2", "TASK_EXECUTION", "O5", "T2"),
        ("Reviewer", "REVIEW", "O6", None),
        ("Initializer", "DOC_REFRESH", "O7", None),
    ]
    for _, one, _ in desk.stood:
        assert (one["last_checkpoint"]["phase"], one["last_checkpoint"]["step"]) == (
            one["current_phase"],
            one["current_step"],
        )
    assert desk.stood[2][1]["current_task_attempt"] == 1 and desk.progress["current_task_attempt"] == 0


# --- O4.5


@pytest.mark.req("TK-100", "TK-102", "TK-104")
def test_the_branch_is_made_where_the_person_stands_before_any_code() -> None:
    """Uncommitted documentation comes along by itself, and is in no commit."""
    desk = Desk({"README.md": b"mine\n", "docs/a.md": b"mine\n"})
    desk.run()
    stood = {who: one["git_gate_completed"] for who, one, _ in desk.stood}
    assert stood == {"Planner": False, "Initializer": True, "T1": True}
    assert desk.intended("switch")[0].facts == {"branch": BRANCH}
    assert not desk.world.stashes and desk.world.files["README.md"] == b"mine\n"
    commits = [desk.world.trees[tree] for _, tree, _ in desk.world.commits.values()]
    assert commits and all("README.md" not in tree for tree in commits)


def _stands(desk: Desk, **more: Any) -> None:
    usual = desk.world.branch

    async def branch(name: str) -> BranchFacts:
        found = await usual(name)
        return found.model_copy(update=more) if found.current != BRANCH else found

    desk.world.branch = branch  # type: ignore[method-assign]


@pytest.mark.req("TK-104")
@pytest.mark.parametrize(
    ("facts", "question", "choice"),
    [
        ({"current": "feature/XYZ-7_other"}, "You are on feature/XYZ-7_other, of ticket XYZ-7.", "here"),
        ({"at": "2" * 40, "holds_head": False}, f"Branch {BRANCH} exists and lacks the present state.", "use"),
    ],
)
def test_another_state_than_the_present_one_is_asked_about(facts: dict[str, Any], question: str, choice: str) -> None:
    for says in (choice, "abort"):
        desk = Desk()
        _stands(desk, **facts)
        desk.world.branches.add(f"refs/heads/{BRANCH}")
        view = desk.run()
        assert view.status is Status.WAITING and view.gate is not None
        assert view.gate.question.startswith(question)
        assert "T1" not in desk.called
        desk.says("answer", gate="branch", choice=says)
        view = desk.resume()
        assert view.status is (Status.STOPPED if says == "abort" else Status.COMPLETE), view.why
        if says == "abort":
            assert desk.progress["status"] == "FAILED" and "T1" not in desk.called


@pytest.mark.req("TK-103")
def test_what_tasks_work_on_cannot_be_carried_along() -> None:
    desk = Desk({"src/t1.py": b"mine\n"})
    view = desk.run(dirty="carry")
    assert view.status is Status.WAITING and view.gate is not None
    assert "Tasks of this ticket work on src/t1.py" in view.gate.question
    desk.says("answer", gate="mixed", choice="stash")
    view = desk.resume()
    assert view.status is Status.COMPLETE
    assert list(desk.world.stashes.values()) == [{"src/t1.py": b"mine\n"}]
    assert all(note in view.why for note in desk.world.stashes)


@pytest.mark.req("TK-103")
@pytest.mark.parametrize("choice", ["carry", "abort"])
def test_code_that_came_since_is_asked_about_at_the_gate(choice: str) -> None:
    desk = Desk()
    desk.cast.moments["called"] = [lambda: desk.world.files.update({"src/new.py": b"mine\n"})]
    view = desk.run()
    assert view.status is Status.WAITING and view.gate is not None and "src/new.py" in view.gate.question
    desk.says("answer", gate="dirty", choice=choice)
    view = desk.resume()
    assert (view.status is Status.COMPLETE) == (choice == "carry")
    told = f"aborted at the git gate; changed so far: {P}, .gitignore, docs/ARCHITECTURE.md, "
    assert view.why.startswith(told) == (choice == "abort"), "what stands is said"
    assert desk.world.files["src/new.py"] == b"mine\n"


@pytest.mark.req("TK-102")
def test_documentation_in_conflict_is_kept_as_a_stash() -> None:
    desk = Desk({"README.md": b"mine\n"})
    _stands(desk, at="2" * 40, holds_head=True)
    desk.world.branches.add(f"refs/heads/{BRANCH}")
    usual = desk.cast.moment

    def moment(what: str) -> str:
        return "would be overwritten" if what == "switch" and "README.md" in desk.world.files else usual(what)

    desk.cast.moment = moment  # type: ignore[method-assign]
    view = desk.run()
    assert view.why.startswith(f"ERROR: stash could not be applied on {BRANCH}; it is kept as stash@{{0}}")
    assert [kept["README.md"] for kept in desk.world.stashes.values()] == [b"mine\n"]
    assert desk.world._branch == f"refs/heads/{BRANCH}"
    assert desk.resume().status is Status.COMPLETE


# --- O5.0


@pytest.mark.req("TK-108", "TK-114", "TK-14", "TK-161")
def test_the_short_cut_ends_without_a_review() -> None:
    desk = Desk().acts("Planner", plans(task("T1", tool_mandates=["use pydantic"])))
    view = desk.run()
    assert view.status is Status.COMPLETE
    assert desk.called == ["Planner", "Initializer", "T1", "Initializer"]
    report = desk.yaml("iteration_0/review_report.yaml")
    reviewed = report.pop("reviewed_at")
    assert reviewed and report == {
        **{"status": "ACCEPTED", "mode": "auto-accept-trivial", "build": "PASSED", "tests": "PASSED"},
        "files_verified": True,
        "notes": "Trivial-graph auto-accepted: 1 task, build green, tests green.",
    }
    (_, progress, _), now = desk.stood[-1], desk.progress
    assert [one["current_task_id"] for one in (progress, now)] == [None, None]


@pytest.mark.req("TK-27", "TK-108")
def test_a_short_cut_that_was_cut_off_is_taken_again_by_a_developer() -> None:
    desk = Desk().acts("Developer", *[said("", finished=False, exit=1)] * 2)
    assert desk.run().status is Status.STOPPED
    view = desk.again()
    assert view.status is Status.COMPLETE and all(holds(view) for holds in INVARIANTS.values())
    assert {ask.role.name for ask in desk.cast.asks[2:-1]} == {"Developer"}
    assert "Attempt: 1" in desk.briefs("Developer")[-1]


@pytest.mark.req("TK-114", "TK-150", "TK-161", "TK-166")
@pytest.mark.parametrize("count", [1, 2])
def test_what_may_stay_red_is_reviewed_and_told_as_it_is(count: int) -> None:
    """An honest Reviewer accepts, and no short cut calls it passed."""
    unmet = [{"id": "C3", "met": False}, {"id": "C1", "met": True}, {"id": "C2", "met": True}]
    unmet += [{"id": f"T{n}.1", "met": True} for n in range(1, count + 1)]
    checks = [{"command": "make test", "exit": 1, "expected": True}]
    desk = Desk().acts("Planner", plans(*[task(f"T{n}") for n in range(1, count + 1)]))
    desk.acts("Reviewer", reviews(tests="FAILED", criteria=unmet, checks=checks))
    desk.cast.commands["make test"] = lambda files: RED
    view = desk.run(accept_baseline=True)
    assert (view.status, desk.called.count("Reviewer")) == (Status.COMPLETE, 1), view.why
    assert desk.yaml("iteration_0/review_report.yaml")["tests"] == "FAILED"
    assert "may stay so: `make test`" in desk.briefs("Reviewer")[0] and "tests pass" not in desk.briefs("Reviewer")[0]
    assert {"Build: PASSED", "Tests: FAILED, as before"} <= {*desk.said}


@pytest.mark.req("TK-111", "TK-114")
@pytest.mark.parametrize(
    ("act", "attempts"),
    [
        (leaves({"src/t1.py": BAD}), 2),
        (leaves({"src/t1.py": GOOD, "lib.py": GOOD}), 2),
        (said({"already_so": ["make"]}), 1),
        (leaves({"src/t1.py": BAD, TEST: SKIPPED}), 1),
    ],
)
def test_a_short_cut_that_does_not_hold_needs_a_review(act: Any, attempts: int) -> None:
    """Red, out of scope: an executor's second attempt; idle or with weakened checks: the review alone."""
    desk = Desk({TEST: b"assert x\n", "done.py": GOOD} if attempts == 1 and not act.files else {TEST: b"assert x\n"})
    desk.world.head = dict(desk.world.files)
    desk.acts("Planner", plans(task("T1", test_files=[TEST]))).acts("T1", act, act, leaves({"src/t1.py": GOOD}))
    view = desk.run()
    assert "Reviewer" in desk.called and "trivial.auto_accept" not in desk.events
    done = [ask.role.name for ask in desk.cast.asks if ask.role.name in ("Developer", "task-executor")]
    if attempts == 2:
        assert done[-1] == "task-executor" and desk.progress["cycle_acceleration_mode"] == "standard"
        assert "Attempt: 2" in desk.briefs("task-executor")[0] and "LAST ERROR:" in desk.briefs("task-executor")[0]
        assert view.status is Status.COMPLETE, view.why
    else:
        assert done[0] == "Developer" and desk.called[3] == "Reviewer"


# --- O5.1 to O5.3


@pytest.mark.req("TK-14", "TK-122", "TK-125", "TK-130")
def test_a_group_is_worked_on_side_by_side_and_counted_before() -> None:
    desk = Desk().acts("Planner", plans(task("T1"), task("T2"), task("T3", "B"), sequential="B"))
    desk.run()
    assert desk.called[2:6] == ["T1", "T2", "T3", "Reviewer"]
    for who, _, tasks in desk.stood[2:5]:
        assert (tasks[who]["status"], tasks[who]["attempt"]) == ("IN_PROGRESS", 1)
    assert [tasks["T2"]["status"] for who, _, tasks in desk.stood if who == "T1"] == ["IN_PROGRESS"]
    assert [tasks["T1"]["status"] for who, _, tasks in desk.stood if who == "T3"] == ["ACCEPTED"]
    assert "Execution Mode: SEQUENTIAL" in desk.briefs("task-executor")[2]
    entry = desk.briefs("task-executor")[0].partition(ENTRY)[2]
    assert "attempt: 1" in entry and "started_at" in entry, "the full entry"


@pytest.mark.req("TK-122")
def test_a_batch_is_as_large_as_the_ticket_says(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, sizes = Desk().acts("Planner", plans(*[task(f"T{n}") for n in range(8)])), set()
    usual = desk.world.together

    async def together(members: Any, cap: int, begin: Any) -> Any:
        sizes.add(cap)
        return await usual(members, cap, begin)

    monkeypatch.setattr(desk.world, "cores", lambda: 8)
    monkeypatch.setattr(desk.world, "together", together)
    assert desk.run().status is Status.COMPLETE and 8 in sizes


@pytest.mark.req("TK-120", "TK-130", "TK-122")
def test_the_commands_run_once_for_a_parallel_group_and_after_each_task_of_a_sequential_one() -> None:
    groups = [task("T1"), task("T2"), task("T3", "B"), task("T4", "B", depends_on=["T3"])]
    desk = Desk().acts("Planner", plans(*groups, sequential="B"))
    desk.run()
    ran = [frozenset(path for path in files if path.startswith("src/")) for line, files, _ in desk.cast.ran]
    once = list(dict.fromkeys(ran))
    done = [{"src/t1.py", "src/t2.py"}, {"src/t1.py", "src/t2.py", "src/t3.py"}]
    assert once[:4] == [frozenset(), *map(frozenset, done), frozenset({*done[1], "src/t4.py"})]


@pytest.mark.req("TK-130", "TK-135")
@pytest.mark.parametrize("status", ["SYNTAX_ERROR", "ERROR", "REJECTED"])
def test_who_failed_works_again_and_nothing_is_run_before(status: str) -> None:
    desk = (
        Desk().acts("Planner", plans(task("T1"), task("T2"))).acts("T2", said({"status": status, "notes": "hm"}), None)
    )
    view = desk.run()
    assert view.status is Status.COMPLETE
    assert desk.called[2:6] == ["T1", "T2", "T2", "Reviewer"]
    assert desk.stood[4][2]["T2"]["attempt"] == 2 and desk.stood[4][2]["T1"]["status"] == "SYNTAX_VALID"
    assert "LAST ERROR:\n```\nhm" in desk.briefs("task-executor")[2]
    shown = [files for line, files, _ in desk.cast.ran if "src/t1.py" in files]
    assert all("src/t2.py" in files for files in shown)


@pytest.mark.req("TK-133", "TK-125")
def test_red_rejects_whose_files_it_names() -> None:
    """With the end of the output; an attempt begins with what the one before left."""
    desk = Desk().acts("Planner", plans(task("T1"), task("T2"))).acts("T2", leaves({"src/t2.py": BAD}), None)
    desk.red_while(lambda files: files.get("src/t2.py") == BAD, out="src/t2.py:1: wrong")
    seen: list[bytes] = []
    desk.cast.acts["T2"][1] = lambda ask, files: (seen.append(files["src/t2.py"]), leaves({"src/t2.py": GOOD}))[1]
    assert desk.run().status is Status.COMPLETE
    assert desk.called[2:6] == ["T1", "T2", "T2", "Reviewer"]
    assert seen == [BAD]
    assert "src/t2.py:1: wrong" in desk.briefs("task-executor")[2]


@pytest.mark.req("TK-133")
def test_an_accepted_task_is_set_back_once() -> None:
    both = [task("T1"), task("T2", depends_on=["T1"])]
    desk = Desk().acts("Planner", plans(*both, sequential="A"))
    desk.red_while(lambda files: "src/t2.py" in files and b"better" not in files["src/t1.py"], out="src/t1.py:1: wrong")
    desk.acts("T1", None, leaves({"src/t1.py": GOOD + b"better\n"}))
    assert desk.run().status is Status.COMPLETE
    assert desk.called[2:6] == ["T1", "T2", "T1", "Reviewer"]
    assert desk.tasks["T1"]["set_back"] is True


@pytest.mark.req("TK-135", "TK-05", "PERSON-05")
def test_five_attempts_pause_it_and_a_resume_gives_as_many_again() -> None:
    desk = Desk().acts("Planner", plans(task("T1"), task("T2"))).acts("T1", *[FAILS] * 9)
    view = desk.run()
    assert (view.why, desk.progress["status"]) == ("PAUSED: task T1 failed 5 attempts", "PAUSED")
    assert view.ended is not None and view.ended.exit == 3
    assert (desk.called.count("T1"), desk.called.count("T2")) == (5, 1)
    assert desk.events.count("task.max_attempts") == 1
    assert desk.tasks["T1"]["attempt"] == 5
    assert desk.resume().status is Status.COMPLETE
    assert (desk.called.count("T1"), desk.called.count("T2")) == (10, 1)
    assert desk.progress["status"] == "ACCEPTED"


@pytest.mark.req("TK-140")
@pytest.mark.parametrize(
    ("path", "policy", "fine"),
    [
        ("src/x.py", {}, False),
        ("tests/t.py", {}, True),
        ("src/own.py", {}, True),
        ("src/all.py", {"baseline_allowlist": ["src/all.py"]}, True),
        ("NEWS.md", {}, True),
        ("docs/a.md", {"baseline_scope": "all"}, False),
        ("requirements.txt", {}, False),
    ],
)
def test_a_file_outside_of_the_scope_rejects_a_task(path: str, policy: Any, fine: bool) -> None:
    one = task("T1", test_files=["tests/t.py"], allowlist=["src/own.py"])
    desk = Desk().acts("Planner", plans(one, task("T2"), validation_policy=policy))
    does = leaves({"src/t1.py": GOOD, path: b"x\n"})
    desk.acts("T1", does, does, leaves({"src/t1.py": GOOD}))
    assert desk.run().status is Status.COMPLETE
    assert desk.called.count("T1") == (1 if fine else 3), "asked once more, then a second attempt"
    told = f"Task T1 modified files outside its scope: {path}" in desk.briefs("task-executor")[-1]
    assert (path in desk.world.files, told) == (fine, not fine)


@pytest.mark.req("TK-132", "TK-95", "EVID-05")
def test_the_persons_commands_run_first_and_those_of_the_graph_beside_them() -> None:
    policy = {
        **{"test_command": "make all-tests", "working_directory": "it's"},
        "groups": {"B": {"test_command": "make b", "working_directory": "."}},
    }
    desk = Desk(commands=("build", "test", "lint")).acts(
        "Planner", plans(task("T1"), task("T2", "B"), validation_policy=policy)
    )
    there = " ".join(("cd", quote("it's"), "&&"))
    desk.cast.commands |= {"make b": [GREEN], f"{there} make all-tests": [GREEN], f"{there} make": [GREEN]}
    desk.run()
    order = list(dict.fromkeys(line for line, files, _ in desk.cast.ran if "src/t1.py" in files))
    assert order[:5] == ["make", "make test", "make lint", f"{there} make", f"{there} make all-tests"]
    assert "make b" in order


@pytest.mark.req("TK-132")
def test_a_graphs_own_command_can_reject_a_group() -> None:
    policy = {"groups": {"A": {"test_command": "make a"}}}
    desk = Desk().acts("Planner", plans(task("T1"), task("T2"), validation_policy=policy))
    desk.cast.commands["make a"] = lambda files: GREEN if files.get("src/t1.py", b"").count(b"worked") > 1 else RED
    desk.acts("T1", None, leaves({"src/t1.py": GOOD * 2}))
    assert desk.run().status is Status.COMPLETE
    assert desk.called[2:] == ["T1", "T2", "T1", "T2", "Reviewer", "Initializer"]


@pytest.mark.req("TK-166", "EVID-06")
@pytest.mark.parametrize(
    ("heals", "accepted", "status"),
    [("src/t1.py", False, 1), ("src/t2.py", False, 1), ("never", True, 1), ("never", False, 5)],
)
def test_what_was_red_before_may_stay_so_up_to_the_last_group(heals: str, accepted: bool, status: int) -> None:
    desk = Desk(commands=("build", "test", "lint"))
    desk.acts("Planner", plans(task("T1"), task("T2", "B")))
    desk.cast.commands["make lint"] = lambda files: GREEN if heals in files else RED
    view = desk.run(accept_baseline=accepted)
    assert (view.status is Status.COMPLETE) == (status == 1), view.why
    assert (desk.called.count("T1"), desk.called.count("T2")) == (1, status)


@pytest.mark.req("EVID-08", "TK-15")
@pytest.mark.parametrize(
    ("acts", "calls"),
    [
        ([said("I did it."), None], 2),
        ([said({"already_so": ["make never"]}), None], 2),
        ([said({"already_so": ["make it"]})], 1),
    ],
)
def test_who_changes_nothing_shows_that_nothing_has_to_be_done(acts: list[Any], calls: int) -> None:
    desk = Desk().acts("Planner", plans(task("T1"), task("T2"))).acts("T2", *acts)
    desk.cast.commands |= {"make it": [GREEN], "make never": [RED]}
    assert desk.run().status is Status.COMPLETE
    assert desk.called.count("T2") == calls
    assert "make it" in {line for line, _, _ in desk.cast.ran} or calls == 2


@pytest.mark.req("RUN-13", "TK-15")
def test_weather_is_repeated_once_then_it_stops_and_the_others_are_kept() -> None:
    crash = said("", finished=False, exit=-9)
    desk = Desk().acts("Planner", plans(task("T1"), task("T2"))).acts("T2", crash, crash)
    view = desk.run()
    assert view.ended is not None and (view.ended.exit, desk.progress["status"]) == (5, "FAILED")
    assert (desk.called.count("T1"), desk.called.count("T2")) == (1, 2)
    assert desk.tasks["T1"]["status"] == "SYNTAX_VALID"
    assert desk.resume().status is Status.COMPLETE
    assert (desk.called.count("T1"), desk.called.count("T2")) == (1, 3)
    assert desk.tasks["T2"]["attempt"] == 1


@pytest.mark.req("PERSON-04")
def test_a_person_says_what_becomes_of_a_task() -> None:
    """Accepted by hand: the group is validated all the same."""
    desk = Desk().acts("Planner", plans(task("T1"), task("T2", "B"))).acts("T1", *[FAILS] * 5)
    assert desk.run().status is Status.STOPPED
    desk.world.files["src/t1.py"] = GOOD
    desk.edit("iteration_0/tasks.yaml", {("tasks", 0, "status"): "ACCEPTED"})
    desk.cast.ran.clear()
    assert desk.resume().status is Status.COMPLETE
    assert desk.called.count("T1") == 5
    assert any("src/t1.py" in files and "src/t2.py" not in files for _, files, _ in desk.cast.ran)


@pytest.mark.req("TK-142", "TK-143", "TK-146")
def test_figures_are_kept_and_shown() -> None:
    desk = Desk().acts("Planner", plans(task("T1"), task("T2", "B")))

    def later(ask: Any, files: Any) -> Any:
        desk.world.clock = desk.world.clock.replace(minute=9)
        return leaves({"src/t1.py": GOOD})

    desk.acts("T1", later)
    desk.run()
    metrics = desk.progress["metrics"]
    assert metrics["percent_complete"] == 100
    assert (metrics["tasks_total"], metrics["tasks_completed"]) == (2, 2)
    assert (metrics["groups_total"], metrics["groups_completed"]) == (2, 2)
    assert metrics["lead_time_to_first_code_change_minutes"] == 9
    assert metrics["first_code_change_at"] == desk.tasks["T1"]["first_code_change_at"]
    assert metrics["latest_iteration_cycle_minutes_estimate"] == pytest.approx(9, abs=0.2)
    reviewing = next(one for who, one, _ in desk.stood if who == "Reviewer")
    assert reviewing["metrics"]["percent_complete"] == 95
    told = [line for line in desk.said if line.startswith("Progress:")]
    assert told[0] == "Progress: 0% | Completed: 0/2 tasks | ETA: ~? min remaining"
    assert told[-1] == "Progress: 95% | Completed: 2/2 tasks | ETA: ~0 min remaining"
    assert any(line.startswith("Progress: 50% | Completed: 1/2 tasks | ETA: ~") for line in told)


@pytest.mark.req("TK-142")
@pytest.mark.parametrize("anew", [False, True])
def test_the_outlook_goes_by_the_groups_of_this_iteration(anew: bool) -> None:
    """An iteration before, and a night before a new run, count for nothing."""
    desk, fails = Desk(), [FAILS] * 5 * anew
    desk.acts("Planner", *[plans(task("T1"), task("T2", "B"), n=n) for n in range(2)]).acts("T2", *fails)
    desk.acts(
        "Reviewer", *([] if anew else [reviews(status="REJECTED", issues=[{"problem": "no"}])]), reviews(1 - anew)
    )

    def later(ask: Any, files: Any) -> Any:
        desk.world.clock += timedelta(minutes=30)
        return leaves({"src/t1.py": GOOD + str(desk.world.clock).encode()})

    desk.acts("T1", later, later)
    view = desk.run()
    if anew:
        desk.world.clock += timedelta(hours=12)
        view = desk.again()
    assert view.status is Status.COMPLETE, view.why
    told = [line for line in desk.said if "Completed: 1/2" in line]
    assert told and {line.partition("ETA: ")[2] for line in told} == {"~31 min remaining"}


@pytest.mark.req("TREE-04")
def test_what_a_person_changed_meanwhile_is_evidence_of_the_next_attempt() -> None:
    desk = Desk({"src/t1.py": b"old\n"})
    desk.world.head = dict(desk.world.files)
    desk.acts("Planner", plans(task("T1"), task("T2")))
    mine = {"src/t1.py": b"mine\n"}
    edit: Any = lambda: [files.update(mine) for files in (desk.world.files, desk.world.head)]  # noqa: E731
    desk.cast.moments["called"] = [lambda: None, lambda: None, edit]
    assert desk.run().status is Status.COMPLETE
    assert desk.called.count("T1") == 2
    assert b"mine" in desk.world.files["src/t1.py"]
