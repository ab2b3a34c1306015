"""O5 in the simulated twin: groups, batches, builds, blame, retries, the short cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from interlock.documents import load_yaml
from interlock.engine import CommandResult, Options, Status
from interlock.engine.simulation import Crash
from interlock.errors import EngineFault
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, breaks, graph, task
from interlock.playbooks.ticket.settings import TicketSettings
from tests.playbooks.ticket.conftest import Bench, answers, at_attempts, in_order, writes

TASKS = f"{HOME}/iteration_0/tasks.yaml"


def commands(bench: Bench) -> list[str]:
    """The build and test commands that were run after the preflight, in order."""
    lines = [line for line in bench.lines if line.event == "command.intent" and "/check-" in str(line.key)]
    return [line.data["argv"][-1] for line in lines if "/preflight/" not in str(line.key)]


def overlaps(bench: Bench) -> int:
    """The most executors that worked at the same time."""
    now = most = 0
    for line in bench.lines:
        if line.agent in ("task-executor", "Developer"):
            now += {"dispatch.start": 1, "dispatch.end": -1}.get(line.event, 0)
            most = max(most, now)
    return most


# -- groups


@pytest.mark.req("TK-118", "TK-119", "TK-120", "TK-127", "TK-128", "TK-139")
def test_groups_run_in_their_order_and_all_of_them(bench: Bench) -> None:
    """Group B starts after A was accepted; the review comes after the last one; the position is shown."""
    bench.tasks = graph(task("T1"), task("T2"), task("T3", "B", needs=("T1",)), task("T4", "C"))
    seen: list[tuple[Any, ...]] = []

    def look(request, act):  # type: ignore[no-untyped-def]
        progress = bench.progress
        place = (progress["current_task_id"], progress["current_task_attempt"])
        seen.append((request.member[-2:], progress["current_phase"], *place))
        if request.member.endswith("T3"):
            assert bench.task("T1")["status"] == "ACCEPTED"
        return act

    bench.changes["task-executor"] = look
    bench.play()
    names = [f"task-executor-{name}" for name in ("T1", "T2", "T3", "T4")]
    assert bench.called[:6] == ["Planner", *names, "Reviewer"]
    assert seen == [
        ("T1", "TASK_EXECUTION", "T1", 1),
        ("T2", "TASK_EXECUTION", "T1", 1),
        ("T3", "TASK_EXECUTION", "T3", 1),
        ("T4", "TASK_EXECUTION", "T4", 1),
    ]
    started = [data["group"] for data in bench.events("orchestrator.group.start")]
    ended = [data["group"] for data in bench.events("orchestrator.group.end")]
    assert started == ended == ["A", "B", "C"]
    assert (bench.progress["current_task_id"], bench.progress["current_task_attempt"]) == (None, 0)


@pytest.mark.req("TK-121", "TK-14")
def test_the_executors_brief(bench: Bench) -> None:
    """Labels in order, the whole entry embedded, no role block."""
    bench.play()
    brief = bench.brief("task-executor-T1")
    assert in_order(
        brief, "JIRA: ABC-12", "Iteration: 0", "Task: T1", "Attempt: 1", "Execution Mode: PARALLEL",
        "Build command: make build", "Test command: make test", f"Tasks file: {TASKS}", "EMBEDDED TASK ENTRY:",
        "id: T1", "success_criteria:",
    )  # fmt: skip
    assert "ROLE ENFORCEMENT" not in brief
    assert "LAST ERROR:" not in brief


@pytest.mark.req("TK-122", "TK-123", "TK-124")
def test_a_parallel_group_runs_in_batches(bench: Bench) -> None:
    """All at once up to the limit; tasks with the same file never together."""
    bench.cores = "3"
    bench.tasks = graph(
        task("T1"), task("T2", files=("src/t1.txt", "src/x.txt")), task("T3"), task("T4"), task("T5"), task("T6")
    )
    bench.changes["task-executor-T2"] = writes("src/t1.txt", "T1 and T2\n")
    assert bench.play().status is Status.COMPLETE
    assert overlaps(bench) == 3
    batches = [
        line.data["members"] for line in bench.lines if line.event == "cluster.end" and "/tasks/" in str(line.key)
    ]
    assert batches == [["T1", "T3", "T4"], ["T2", "T5", "T6"]]


@pytest.mark.req("TK-125", "TK-134")
def test_a_sequential_group_runs_one_after_the_other(bench: Bench) -> None:
    """No overlap, and the engine builds and tests after each task."""
    bench.tasks = graph(task("T1"), task("T2"), strategies={"A": "sequential"})
    bench.play()
    assert overlaps(bench) == 1
    assert commands(bench) == ["make build", "make test"] * 2
    assert "Execution Mode: SEQUENTIAL" in bench.brief("task-executor-T2")
    assert bench.task("T1")["status"] == bench.task("T2")["status"] == "ACCEPTED"


# -- judging


@pytest.mark.req("TK-129", "TK-131", "TK-133")
def test_a_green_group_is_built_once_and_accepted(bench: Bench) -> None:
    """One build and one test for both; both accepted; the graph is read again before judging."""
    bench.play()
    assert commands(bench) == ["make build", "make test"]
    assert {bench.task(name)["status"] for name in ("T1", "T2")} == {"ACCEPTED"}
    build = next(
        line.seq for line in bench.lines if str(line.key).endswith("/check-build#1") and "/group-A/" in str(line.key)
    )
    reads = [line.seq for line in bench.lines if line.event == "read" and line.data["out"].get("path") == TASKS]
    ends = [line.seq for line in bench.lines if line.event == "dispatch.end" and line.agent == "task-executor"]
    assert any(max(ends) < seq < build for seq in reads)


@pytest.mark.req("TK-130", "TK-135", "TK-136")
@pytest.mark.parametrize("status", ["SYNTAX_ERROR", "ERROR"])
def test_a_failed_executor_skips_the_build_and_is_tried_again_alone(bench: Bench, status: str) -> None:
    """No build in that round; only the failed task runs again."""
    bench.changes["task-executor-T2"] = at_attempts({1}, answers(status, notes="does not parse"))
    seen: list[str] = []
    inner = bench.changes["task-executor-T2"]

    def look(request, act):  # type: ignore[no-untyped-def]
        if request.attempt == 2:
            seen.extend((bench.task("T1")["status"], *commands(bench)))
        return inner(request, act)

    bench.changes["task-executor-T2"] = look
    assert bench.play().status is Status.COMPLETE
    assert seen == ["SYNTAX_VALID"]
    assert bench.called.count("task-executor-T1") == 1
    assert bench.called.count("task-executor-T2") == 2
    assert ["T2"] in [data.get("rejected_tasks") for data in bench.events("progress")]
    brief = bench.brief("task-executor-T2", 1)
    assert in_order(brief, "Attempt: 2", "EMBEDDED TASK ENTRY:", "LAST ERROR:", "does not parse")


@pytest.mark.req("TK-95", "TK-132")
def test_the_policy_says_where_and_how_a_group_is_built(bench: Bench) -> None:
    """After the user's own at the root, with the commands and the folder of the group, or the common folder; no other
    file says anything."""
    bench.files["prompts/ABC-12/validation_policy.yaml"] = "working_directory: elsewhere\n"
    bench.tasks = graph(
        task("T1"),
        task("T2", "B"),
        working_directory="src",
        groups={"B": {"build_command": "b", "test_command": "t", "working_directory": "src/b"}},
    )
    bench.play()
    own = [("make build", "."), ("make test", ".")]
    common = [("make build", "src"), ("make test", "src")]
    events = [(data["command"], data["cwd"]) for data in bench.events("orchestrator.validation")]
    assert events[:8] == [*own, *common, *own, ("b", "src/b"), ("t", "src/b")]
    assert commands(bench)[:8] == [command for command, _place in events[:8]]


def test_a_red_build_rejects_those_whose_files_it_names(bench: Bench) -> None:
    """T2 broke it: T2 runs again with the output, T1 does not."""
    bench.changes["task-executor-T2"] = at_attempts({1, 2}, breaks)
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == 1
    assert bench.called.count("task-executor-T2") == 3
    assert "src/t2.txt: broken" in bench.brief("task-executor-T2", 1)
    assert bench.task("T2")["attempt"] == 3


def test_a_red_build_that_names_nobody_rejects_all(bench: Bench) -> None:
    """Without a name in the output everybody who worked tries again."""
    bench.changes["task-executor"] = lambda request, act: replace(
        act, files={f"src/{request.member[-2:].lower()}.txt": f"attempt {request.attempt}\n"}
    )

    def tool(call, files):  # type: ignore[no-untyped-def]
        return CommandResult(1, stderr="linker error") if b"attempt 1\n" in files.values() else CommandResult(0)

    bench.tool = tool
    assert bench.play().status is Status.COMPLETE
    assert [bench.task(name)["attempt"] for name in ("T1", "T2")] == [2, 2]


def test_a_hanging_build_counts_as_red(bench: Bench) -> None:
    """The text says after which time it was ended."""
    hang_once(bench)
    assert bench.play().status is Status.COMPLETE
    assert "ERROR: build timed out after 1800 s" in bench.brief("task-executor-T1", 1)


@pytest.mark.req("EN-07")
def test_a_time_limit_that_was_raised_after_a_crash_does_not_diverge(bench: Bench) -> None:
    """What was recorded of the command that hung is told again, not today's limit."""
    hang_once(bench)
    simulation = bench.simulate()

    def wire(_point: str) -> None:
        if bench.called.count("task-executor-T1") == 2:
            raise Crash

    with pytest.raises(Crash):
        simulation.go(tripwire=wire)
    options = Options(settings=TicketSettings(command_timeout_s=7200), max_parallel=8)
    assert simulation.go(options=options).status is Status.COMPLETE
    assert "build timed out after 1800 s" in bench.brief("task-executor-T1", 1)


def hang_once(bench: Bench) -> None:
    """The first command after an attempt at T1 is ended at its limit."""
    bench.changes["task-executor-T1"] = lambda request, act: replace(
        act, files={"src/t1.txt": f"attempt {request.attempt}\n"}
    )

    def tool(call, files):  # type: ignore[no-untyped-def]
        hangs = files["src/t1.txt"] == b"attempt 1\n"
        return CommandResult(None, timed_out=True, seconds=1800.04) if hangs else CommandResult(0)

    bench.tool = tool


def test_a_conflict_is_the_later_tasks_failure(bench: Bench) -> None:
    """What was merged before stays; the conflict is the evidence of the next attempt."""
    bench.files["README.md"] = "one\n"
    for name in ("T1", "T2"):
        bench.changes[f"task-executor-{name}"] = at_attempts({1}, writes("README.md", f"{name}\n"))
    assert bench.play().status is Status.COMPLETE
    assert bench.text("README.md") == "T1\n"
    assert bench.task("T2")["attempt"] == 2
    assert in_order(
        bench.brief("task-executor-T2", 1), "LAST ERROR:", "Somebody else changed the same places", "README.md"
    )


# -- scope


@pytest.mark.req("TK-111", "TK-140")
@pytest.mark.parametrize("strategy", ["parallel", "sequential"])
def test_a_change_outside_of_the_task_is_rejected(bench: Bench, strategy: str) -> None:
    """Not taken over, listed, and told to the next attempt with the patch; allowed drift is not a violation."""
    bench.tasks = graph(
        task("T1", allowlist=["gen/a.lock"]), task("T2"), strategies={"A": strategy}, baseline_allowlist=["cache/a/b"]
    )
    bench.changes["task-executor-T1"] = at_attempts({1}, writes("src/x.py", "mine\n"))
    bench.changes["task-executor-T2"] = writes("cache/a/b", "x")
    assert bench.play().status is Status.COMPLETE
    assert not bench.has("src/x.py")
    brief = bench.brief("task-executor-T1", 1)
    assert in_order(brief, "LAST ERROR:", "Task T1 modified files outside its scope: src/x.py", "mine")
    assert [bench.task(name)["attempt"] for name in ("T1", "T2")] == [2, 1]
    assert {"src/t1.txt", "gen/a.lock", "cache/a/b"} <= bench.scope("task-executor-T1")


@pytest.mark.req("TK-141")
@pytest.mark.parametrize(("scope", "attempts"), [("code_and_tests_only", 1), ("all", 2)])
def test_documentation_counts_only_where_the_policy_says_so(bench: Bench, scope: str, attempts: int) -> None:
    """By default changes of documents are no violation."""
    bench.tasks = graph(task("T1"), task("T2"), baseline_scope=scope)
    bench.changes["task-executor-T1"] = at_attempts({1}, writes("docs/notes.md", "x\n"))
    bench.play()
    assert bench.task("T1")["attempt"] == attempts


def test_a_meddled_task_graph_is_put_back(bench: Bench) -> None:
    """An executor's edit of tasks.yaml changes nothing; only its answer counts."""
    bench.tasks = graph(task("T1"), task("T2"), strategies={"A": "sequential"})
    bench.changes["task-executor-T1"] = lambda request, act: replace(
        answers("REJECTED")(request, act) if request.attempt == 1 else act,
        files={
            "src/t1.txt": f"attempt {request.attempt}\n",
            TASKS: bench.text(TASKS).replace("PENDING", "ACCEPTED"),
        },
    )
    assert bench.play().status is Status.COMPLETE
    assert bench.events("foreign_write")
    assert [bench.task(name)["attempt"] for name in ("T1", "T2")] == [2, 1]


# -- attempts


@pytest.mark.req("TK-137", "TK-138")
def test_a_task_has_five_attempts(bench: Bench) -> None:
    """Then the run pauses: status, event, text, exit 3; a plain start only explains; --retry gives five more."""
    bench.changes["task-executor-T2"] = breaks
    close = bench.play()
    assert close.exit_code == 3
    assert close.reason.splitlines()[0] == "PAUSED: task T2 failed 5 attempts"
    assert bench.called.count("task-executor-T2") == 5
    assert bench.called.count("task-executor-T1") == 1
    assert (bench.progress["status"], bench.progress["current_task_id"]) == ("PAUSED", "T2")
    (event,) = bench.events("orchestrator.task.max_attempts")
    assert (event["task"], event["attempt"]) == ("T2", 5)
    assert "Reviewer" not in bench.called
    before = dict(bench.world.tree.files)  # type: ignore[union-attr]
    again = bench.play()
    assert again.exit_code == 3
    assert again.reason.startswith("PAUSED: task T2 failed 5 attempts.")
    assert "--retry" in again.reason
    assert bench.world.tree.files == before  # type: ignore[union-attr]
    bench.changes.clear()
    assert bench.play(retry=True).status is Status.COMPLETE
    assert bench.called.count("task-executor-T2") == 6
    assert bench.called.count("task-executor-T1") == 1
    (event,) = bench.events("orchestrator.retry")
    assert event["tasks"] == ["T2"]
    assert bench.task("T2")["attempt"] == 1


@pytest.mark.req("CM-03", "TK-147")
def test_attempts_are_on_disk_before_they_start(bench: Bench) -> None:
    """Count and mark are written first; times are kept per task."""
    seen: list[tuple[str, int]] = []

    def look(request, act):  # type: ignore[no-untyped-def]
        entry = bench.task("T1")
        seen.append((entry["status"], entry["attempt"]))
        return act

    bench.changes["task-executor-T1"] = look
    bench.play()
    assert seen == [("IN_PROGRESS", 1)]
    entry = bench.task("T1")
    assert entry["started_at"] <= entry["first_code_change_at"] <= entry["completed_at"]
    assert len(entry["files_sha256"]) == 64


def test_an_agent_that_dies_is_an_error_of_its_attempt(bench: Bench) -> None:
    """One transient repeat by the engine, then the attempt has failed and the next one starts."""
    bench.changes["task-executor-T1"] = at_attempts(
        {1, 2}, lambda _request, act: replace(act, code=-9, message="", files={})
    )
    bench.tasks = graph(task("T1", attempt=0), task("T2"))
    assert bench.play().status is Status.COMPLETE
    assert bench.task("T1")["attempt"] == 2


# -- metrics


@pytest.mark.req("TK-126", "TK-142", "TK-143", "TK-144", "TK-145", "TK-146")
def test_progress_is_counted_and_told(bench: Bench) -> None:
    """After each group and round: percent at most 95, the line in its form, cycle and lead times."""
    bench.tasks = graph(task("T1"), task("T2", "B"))
    at_review: dict[str, Any] = {}

    def look(request, act):  # type: ignore[no-untyped-def]
        at_review.update(bench.progress["metrics"])
        return act

    bench.changes["Reviewer"] = look
    bench.play()
    told = [data["text"] for data in bench.events("progress")]
    assert told[2:6] == [
        f"iteration 1 of 5, from {HOME}/prompt.yaml",
        "tasks: T1, T2",
        f"the work is on branch {BRANCH}",
        "Progress: 0% | Completed: 0/2 tasks | ETA: ~? min remaining",
    ]
    assert told[-1].startswith("committed ")
    texts = [text for text in told if text.startswith("Progress: ")]
    assert texts[0] == "Progress: 0% | Completed: 0/2 tasks | ETA: ~? min remaining"
    assert "Progress: 47% | Completed: 1/2 tasks | ETA: ~1 min remaining" in texts
    assert "Progress: 95% | Completed: 2/2 tasks | ETA: ~0 min remaining" in texts
    assert texts[-1].startswith("Progress: 100%")
    assert (at_review["percent_complete"], at_review["groups_completed"], at_review["eta_confidence"]) == (
        95,
        2,
        "high",
    )
    metrics = bench.progress["metrics"]
    assert metrics["latest_group_cycle_minutes_estimate"] > 0
    assert metrics["first_code_change_at"] == min(bench.task(name)["first_code_change_at"] for name in ("T1", "T2"))
    assert metrics["lead_time_to_first_code_change_minutes"] > 0
    assert metrics["percent_complete"] == 100
    assert bench.progress["iterations"][0]["tasks_accepted"] == 2


# -- the short cut


@pytest.mark.req("TK-108", "TK-109", "TK-110", "TK-112", "TK-113", "TK-114", "TK-115", "TK-116", "TK-162")
def test_one_simple_task_takes_the_short_cut(bench: Bench) -> None:
    """Developer, build, test, auto-accept, commit; neither task-executor nor Reviewer."""
    bench.tasks = graph(task("T1", tool_mandates=[{"text": "use Redis"}]))
    assert bench.play().status is Status.COMPLETE
    assert bench.called == ["Planner", "Developer-T1"]
    brief = bench.brief("Developer-T1")
    assert in_order(
        brief, "ROLE ENFORCEMENT: You are Developer.", "VIOLATION PENALTY:", "SCOPE REMINDER:", "FORBIDDEN",
        "EXECUTION MODE: SEQUENTIAL", "JIRA: ABC-12", "Iteration: 0", "Task: T1", "Attempt: 1", f"Tasks file: {TASKS}",
        "Build command: make build", "Test command: make test", "TOOL MANDATES: use Redis",
        "EMBEDDED TASK ENTRY:", "id: T1",
    )  # fmt: skip
    assert commands(bench) == ["make build", "make test"]
    report = load_yaml(bench.text(f"{HOME}/iteration_0/review_report.yaml"), "x")
    assert (report["status"], report["mode"]) == ("ACCEPTED", "auto-accept-trivial")
    assert "trivial.auto_accept" in bench.logged
    assert bench.task("T1")["status"] == "ACCEPTED"
    assert bench.git.messages[0].startswith("fix(ABC-12): ")
    assert bench.progress["status"] == "ACCEPTED"


@pytest.mark.req("TK-112", "TK-113", "TK-117")
@pytest.mark.parametrize("change", [breaks, answers("ERROR"), writes("src/other.py", "x")])
def test_a_short_cut_that_fails_becomes_the_long_way(bench: Bench, change: Any) -> None:
    """Attempt 2 is a task-executor's, and the Reviewer is needed."""
    bench.tasks = graph(task("T1"))
    bench.changes["Developer"] = change
    assert bench.play().status is Status.COMPLETE
    assert bench.called == ["Planner", "Developer-T1", "task-executor-T1", "Reviewer"]
    assert "Attempt: 2" in bench.brief("task-executor-T1")
    assert bench.progress["cycle_acceleration_mode"] == "standard"


@pytest.mark.req("TK-108", "TK-117")
def test_a_mandate_that_has_to_be_seen_running_prevents_the_short_cut(bench: Bench) -> None:
    """Task and request are both looked at."""
    bench.tasks = graph(task("T1"))
    bench.play("ABC-12 fix the login error. MUST use Playwright to verify the page.")
    assert bench.called == ["Planner", "task-executor-T1", "Reviewer"]


@pytest.mark.req("TK-101")
def test_nobody_writes_code_before_the_gate(bench: Bench) -> None:
    """The dispatcher itself refuses a code-writing agent without a branch."""
    from interlock.playbooks.ticket.briefs import AGENTS, CODE_WRITING
    from interlock.playbooks.ticket.ledger import Ledger

    assert set(AGENTS) > CODE_WRITING

    class Nobody:
        agent, name = "Developer", "Developer-T1"

    class Gateless:
        data: ClassVar = {"git_gate_completed": False}

    with pytest.raises(EngineFault, match="before the git gate"):
        Ledger.ask(Gateless(), Nobody()).send(None)  # type: ignore[arg-type]
