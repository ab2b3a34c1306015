"""People work on while agents do: state documents, code, commits. Nothing is lost, and the ticket's commit is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from interlock.agents.runner import AgentRequest
from interlock.documents import load_yaml
from interlock.engine import Status
from interlock.engine.model import CommandResult
from interlock.engine.simulated_disk import MemoryLayer
from interlock.engine.world import CommandCall
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, PROJECT, Files, checks, graph, task
from interlock.testing import Act
from tests.playbooks.person import person
from tests.playbooks.ticket.conftest import Bench, Change, in_order
from tests.playbooks.ticket.place import Place, events
from tests.playbooks.ticket.test_real_runs import MAKE, ONE, WORK

TASKS = f"{HOME}/iteration_0/tasks.yaml"
PROGRESS = f"{HOME}/progress.yaml"


def while_at_work(act: Callable[[AgentRequest], None]) -> Change:
    """Somebody does this while the agent works."""

    def change(request: AgentRequest, best: Act) -> Act:
        act(request)
        return best

    return change


def seen(request: AgentRequest, path: str) -> str:
    """A file as the agent finds it."""
    assert isinstance(request.within, MemoryLayer)
    return (request.within.facts(path).content or b"").decode()


def committed(bench: Bench) -> dict[str, bytes]:
    return bench.git.files


def warned(bench: Bench) -> str:
    return "\n".join(event["text"] for event in bench.events("warning"))


# -- commits of people


@pytest.mark.req("LY-05", "LY-30")
@pytest.mark.parametrize("agent", ["Planner", "task-executor-T2", "Reviewer"])
def test_a_commit_of_a_person_does_not_stop_the_ticket(bench: Bench, agent: str) -> None:
    """Before the gate and after it: theirs stays, the ticket's is on top of it, and the run says what it saw."""

    def commits(_request: AgentRequest) -> None:
        bench.put("mine.txt", "mine\n")
        bench.git.record({**bench.git.files, "mine.txt": b"mine\n"}, "theirs")

    bench.changes[agent] = while_at_work(commits)
    close = bench.play()
    assert close.status is Status.COMPLETE, close
    assert [message.split(":")[0] for message in bench.git.messages] == ["fix(ABC-12)", "theirs", "first"]
    assert (committed(bench)["mine.txt"], committed(bench)["src/t1.txt"]) == (b"mine\n", b"T1 done\n")
    if agent == "task-executor-T2":
        assert f"HEAD moved from {1:040x} to {2:040x} while" in warned(bench)


@pytest.mark.req("LY-05")
def test_all_of_the_work_committed_by_a_person_is_no_failure(bench: Bench) -> None:
    """`git commit -a` in the middle of it: nothing is left to commit, and nothing is lost."""

    def commits(_request: AgentRequest) -> None:
        assert bench.world is not None
        tracked = {path: bench.world.tree.files[path] for path in bench.git.files}
        bench.git.record(tracked, "all of it")

    bench.changes["Reviewer"] = while_at_work(commits)
    assert bench.play().status is Status.COMPLETE
    assert [message.split(":")[0] for message in bench.git.messages] == ["all of it", "first"]
    assert committed(bench)["src/t2.txt"] == b"T2 done\n"
    assert "there is nothing to commit" in warned(bench)


@pytest.mark.req("LY-05")
@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("another branch", f"{BRANCH} is not checked out any more"),
        ("another history", f"{BRANCH} does not contain that commit any more"),
    ],
)
def test_where_going_on_would_be_wrong_the_ticket_stops(bench: Bench, what: str, why: str) -> None:
    """Its commit would come to lie elsewhere: exit 3 with both ids and the reason; nothing is reset."""

    def moves(_request: AgentRequest) -> None:
        if what == "another branch":
            bench.git.branch = "other"
            bench.git.record(dict(bench.git.commits[bench.git.branches["main"]].files), "theirs")
        else:
            name = f"{9:040x}"
            bench.git.commits[name] = replace(bench.git.commits[bench.git.head], message="amended")
            bench.git.branches[bench.git.branch] = name

    bench.changes["task-executor-T2"] = while_at_work(moves)
    close = bench.play()
    assert close.exit_code == 3
    assert close.reason.startswith(f"ERROR: HEAD moved from {1:040x} to ")
    assert f"while T1, T2 worked: {why}. Nothing was reset." in close.reason
    assert bench.progress["status"] == "FAILED"
    assert bench.text("src/t1.txt") == "T1 done\n"


# -- the state documents


@pytest.mark.req("LY-05", "EN-23")
def test_edits_of_the_state_documents_stay_and_count(bench: Bench) -> None:
    """A comment, another test command and a new criterion, written while an executor works: kept, and used."""

    def edits(request: AgentRequest, act: Act) -> Act:
        progress = seen(request, PROGRESS).replace("test_command: make test", "test_command: make check")
        tasks = seen(request, TASKS).replace("- tests pass", "- tests pass quickly", 1)
        return replace(act, people={PROGRESS: f"# mine\n{progress}", TASKS: f"# mine, too\n{tasks}"})

    bench.changes["task-executor-T1"] = edits
    assert bench.play().status is Status.COMPLETE
    assert bench.text(PROGRESS).startswith("# mine\n")
    assert bench.text(TASKS).startswith("# mine, too\n")
    assert bench.task("T1")["success_criteria"] == ["tests pass quickly"]
    assert bench.progress["status"] == "ACCEPTED"
    asked = [event["command"] for event in bench.events("orchestrator.validation")]
    assert asked == ["make build", "make check"]


@pytest.mark.req("LY-05")
def test_tasks_that_a_person_saves_half_stop_the_ticket(bench: Bench) -> None:
    """Exit 3 with the reason; the file is as the person left it, and what was done before is in the tree."""
    bench.changes["task-executor-T1"] = lambda _request, act: replace(act, people={TASKS: "tasks: [\n"})
    close = bench.play()
    assert close.exit_code == 3
    assert close.reason.startswith(f"{TASKS} is not valid YAML: line 2")
    assert bench.text(TASKS) == "tasks: [\n"
    assert bench.text("src/t1.txt") == "T1 done\n"


@pytest.mark.req("LY-05")
def test_a_state_document_that_a_person_saves_half_is_not_written_over(bench: Bench) -> None:
    """The ticket does not go on from memory; mended, the next start goes on from what it says, without a new plan."""
    kept = []

    def breaks(request: AgentRequest, act: Act) -> Act:
        kept.append(seen(request, PROGRESS))
        return replace(act, people={PROGRESS: "status: [\n"})

    bench.changes["task-executor-T1"] = breaks
    close = bench.play()
    assert close.exit_code == 3
    assert close.reason.startswith("ERROR: progress.yaml is not valid YAML: line 2")
    assert bench.text(PROGRESS) == "status: [\n"
    bench.put(PROGRESS, f"# mended\n{kept[0]}")
    del bench.changes["task-executor-T1"]
    assert bench.play().status is Status.COMPLETE
    assert bench.text(PROGRESS).startswith("# mended\n")
    assert (bench.called.count("Planner"), bench.called[-1]) == (1, "Reviewer")


@pytest.mark.req("LY-05")
@pytest.mark.parametrize("path", [PROGRESS, TASKS])
def test_a_state_document_that_a_person_removed_is_not_made_up(bench: Bench, path: str) -> None:
    """The ticket stops and names it."""
    bench.changes["task-executor-T1"] = lambda _request, act: replace(act, people={path: None})
    close = bench.play()
    assert close.exit_code == 3
    assert path in close.reason
    assert not bench.has(path)


@pytest.mark.req("LY-05")
def test_a_report_that_a_person_began_is_set_aside(bench: Bench) -> None:
    """The short cut writes its own one; theirs is in the attic."""
    bench.tasks = graph(task("T1"))
    path = f"{HOME}/iteration_0/review_report.yaml"
    bench.changes["Developer"] = lambda _request, act: replace(act, people={path: "mine\n"})
    assert bench.play().status is Status.COMPLETE
    assert "status: ACCEPTED" in bench.text(path)
    assert bench.world is not None
    assert [text for name, text in bench.world.tree.files.items() if "/attic/" in name] == [b"mine\n"]


@pytest.mark.req("LY-05")
def test_a_plan_that_a_person_writes_meanwhile_is_theirs(bench: Bench) -> None:
    """The Planner's cannot be merged with it: the run fails, says why, and the person's plan stands."""
    path = f"{HOME}/iteration_0/plan.md"
    bench.changes["Planner"] = lambda _request, act: replace(act, people={path: "# My plan\n"})
    close = bench.play()
    assert close.exit_code == 5
    assert close.reason == f"ERROR: Planner failed: conflict with an edit made meanwhile: {path}. STOPPING."
    assert bench.text(path) == "# My plan\n"


@pytest.mark.req("LY-05")
def test_a_document_that_a_person_edits_while_it_is_refreshed_is_theirs(bench: Bench) -> None:
    """A warning, not a stop; it is neither overwritten nor committed."""
    bench.files = {**PROJECT, "docs/FINDINGS.md": "# Old\n"}
    bench.changes["Initializer"] = lambda _request, act: replace(act, people={"docs/FINDINGS.md": "# Mine\n"})
    assert bench.play().status is Status.COMPLETE
    assert "conflict with an edit made meanwhile: docs/FINDINGS.md" in warned(bench)
    assert bench.text("docs/FINDINGS.md") == "# Mine\n"
    assert committed(bench)["docs/FINDINGS.md"] == b"# Old\n"


# -- code


@pytest.mark.req("LY-04", "LY-05")
def test_a_conflict_with_a_person_is_worked_in_again(bench: Bench) -> None:
    """The attempt is rejected; the next one has the person's file, its own other work, and is shown the conflict."""
    bench.tasks = graph(task("T1", files=("src/t1.txt", "src/new.txt")), task("T2"))
    found = []

    def work(request: AgentRequest, act: Act) -> Act:
        if request.attempt == 1:
            mine = {"src/t1.txt": "agent's\n", "src/new.txt": "new\n"}
            return replace(act, files=mine, people={"src/t1.txt": "person's\n"})
        found.append({path: seen(request, path) for path in ("src/t1.txt", "src/new.txt")})
        return replace(act, files={"src/t1.txt": "both\n"})

    bench.changes["task-executor-T1"] = work
    assert bench.play().status is Status.COMPLETE
    assert found == [{"src/t1.txt": "person's\n", "src/new.txt": "new\n"}]
    brief = bench.brief("task-executor-T1", 1)
    assert in_order(brief, "LAST ERROR:", "Somebody else changed the same places", "src/t1.txt", "<<<<<<<")
    assert (committed(bench)["src/t1.txt"], committed(bench)["src/new.txt"]) == (b"both\n", b"new\n")
    assert [bench.task(name)["attempt"] for name in ("T1", "T2")] == [2, 1]


@pytest.mark.req("LY-04", "TK-130")
@pytest.mark.parametrize("strategy", ["parallel", "sequential"])
def test_the_next_attempt_goes_on_with_the_work_of_the_failed_one(bench: Bench, strategy: str) -> None:
    """In scope and not in the tree: it is laid into the next attempt's; what was out of scope is not."""
    bench.tasks = graph(task("T1", files=("src/t1.txt", "src/half.txt")), task("T2"), strategies={"A": strategy})
    found = []

    def work(request: AgentRequest, act: Act) -> Act:
        if request.attempt == 1:
            return replace(act, files={**act.files, "src/half.txt": "half\n", "src/stray.txt": "stray\n"})
        found.append([seen(request, f"src/{name}.txt") for name in ("t1", "half", "stray")])
        return replace(act, files={})

    bench.changes["task-executor-T1"] = work
    assert bench.play().status is Status.COMPLETE
    assert found == [["T1 done\n", "half\n", ""]]
    assert (committed(bench)["src/t1.txt"], committed(bench)["src/half.txt"]) == (b"T1 done\n", b"half\n")
    assert not bench.has("src/stray.txt")


@pytest.mark.req("LY-05", "TK-153")
def test_only_what_agents_changed_is_committed(bench: Bench) -> None:
    """A file that a person begins in the scope of a task, or changes there, stays uncommitted."""
    bench.tasks = graph(task("T1", files=("src/**",)), task("T2", "B", needs=("T1",)))
    bench.changes["task-executor-T1"] = lambda _request, act: replace(
        act, files={"src/made.txt": "made\n"}, people={"src/mine.txt": "mine\n", "src/t1.txt": "mine, too\n"}
    )
    assert bench.play().status is Status.COMPLETE
    assert bench.task("T1")["changed_files"] == ["src/made.txt"]
    assert (bench.text("src/mine.txt"), bench.text("src/t1.txt")) == ("mine\n", "mine, too\n")
    assert committed(bench)["src/made.txt"] == b"made\n"
    assert committed(bench)["src/t1.txt"] == b"one\n"
    assert "src/mine.txt" not in committed(bench)


@pytest.mark.req("LY-05", "TK-153")
def test_what_a_person_changes_in_accepted_files_is_built_and_tested_before_the_commit(bench: Bench) -> None:
    """Green: it is in the commit, and the run says so."""
    bench.changes["Reviewer"] = lambda _request, act: replace(act, people={"src/t1.txt": "better\n"})
    assert bench.play().status is Status.COMPLETE
    assert committed(bench)["src/t1.txt"] == b"better\n"
    assert "files of accepted tasks were changed since: T1; they are built and tested again" in warned(bench)
    assert [event["what"] for event in bench.events("orchestrator.validation")] == ["build", "test"] * 2


@pytest.mark.req("LY-05", "TK-153")
def test_what_a_person_broke_in_accepted_files_is_not_committed(bench: Bench) -> None:
    """Red: exit 3 with the output, and the file as it is; mended, the next start makes the commit."""
    bench.changes["Reviewer"] = lambda _request, act: replace(act, people={"src/t1.txt": "broken\n"})
    close = bench.play()
    assert close.exit_code == 3
    assert in_order(
        close.reason, "ERROR: files of accepted tasks were changed since: T1.", "src/t1.txt: broken", "resume"
    )
    assert bench.git.messages == ["first"]
    assert bench.text("src/t1.txt") == "broken\n"
    bench.put("src/t1.txt", "mended\n")
    bench.changes.clear()
    calls = len(bench.called)
    assert bench.play().status is Status.COMPLETE
    assert committed(bench)["src/t1.txt"] == b"mended\n"
    assert len(bench.called) == calls


# -- commands


@pytest.mark.req("LY-09")
def test_a_build_whose_outputs_are_dropped_is_made_again_for_the_tests() -> None:
    """The tests run in one go with it; otherwise each command runs once, by itself."""
    bench = Bench(tasks=graph(task("T1")))

    def leaves_something(call: CommandCall, files: Files) -> CommandResult:
        result = checks(call, files)
        return replace(result, changed=("app",)) if call.argv[-1] == "make build" else result

    bench.tool = leaves_something
    assert bench.play().status is Status.COMPLETE
    assert bench.world is not None
    asked = [call.argv[2:] for call in bench.world.commands if "make test" in call.argv]
    assert asked == [('sh -c "$1" && exec sh -c "$2"', "sh", "make build", "make test")] * 2


# -- for real


@pytest.mark.long
@pytest.mark.req("LY-09")
def test_a_project_that_does_not_ignore_what_it_builds(place: Place) -> None:
    """The tests find what the build made; neither of them leaves anything in the tree or in the commit."""
    place.begin(
        {
            "Makefile": "build:\n\tcp src/t1.txt app\ntest:\n\tgrep -q ok app\n",
            "src/t1.txt": "ok at first\n",
            "src/t2.txt": "ok\n",
        }
    )
    place.script = ONE
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert not (place.root / "app").exists()
    assert ["app"] in [event["paths"] for event in events(finished.lines, "command.dropped")]
    assert place.git("status", "--porcelain") == ""


@pytest.mark.long
@pytest.mark.req("LY-04")
def test_a_real_attempt_goes_on_with_the_work_of_the_failed_one(place: Place) -> None:
    """The first one strays and is rejected; the second finds its file, and not the stray one."""
    place.begin(MAKE)
    first = {"files": {"src/t1.txt": "ok, half\n", "stray.c": "x\n"}}
    second = {"run": ["grep -q half src/t1.txt && ! test -e stray.c && echo ok, whole > src/t1.txt"]}
    place.script = {
        "tasks": graph(task("T1"), task("T2")),
        "work": {"T1": [first, second], "T2": [{"files": {"src/t2.txt": "ok, T2\n"}}]},
    }
    finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert place.git("show", f"{BRANCH}~1:src/t1.txt") == "ok, whole"
    assert not (place.root / "stray.c").exists()
    (violation,) = events(finished.lines, "scope.violation")
    assert "+x" in place.text(violation["patch"])


@pytest.mark.long
@pytest.mark.req("LY-05", "LY-07", "EN-36", "EN-23")
def test_a_person_edits_and_commits_while_a_real_agent_works(place: Place) -> None:
    """Another place of the same file, a file of their own with a commit, both state documents: all of it stays."""
    text = "ok\n" + "".join(f"line {number}\n" for number in range(9))
    place.begin({**MAKE, "src/t1.txt": text})
    place.script = {
        "waits": ["task-executor-T1", "0"],
        "tasks": graph(task("T1"), task("T2")),
        "work": {
            "T1": [{"files": {"src/t1.txt": text.replace("line 8", "by the agent")}}],
            "T2": [{"files": {"src/t2.txt": "ok, T2\n"}}],
        },
    }

    def work_on(_name: str) -> None:
        (place.root / "src/t1.txt").write_text(text.replace("ok\n", "ok, by a person\n"))
        (place.root / "mine.txt").write_text("mine\n")
        place.git("add", "mine.txt")
        place.git("commit", "-q", "-m", "theirs", "mine.txt")
        for path in (PROGRESS, TASKS):
            document = place.root / path
            document.write_text(f"# by a person\n{document.read_text()}")

    with person(place.root, work_on) as waited:
        finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert waited == ["task-executor-T1"]
    assert place.git("log", "--format=%s").splitlines() == [
        "docs(ABC-12): refresh documentation", WORK, "theirs", "first",
    ]  # fmt: skip
    assert place.text("src/t1.txt") == text.replace("ok\n", "ok, by a person\n").replace("line 8", "by the agent")
    assert place.git("status", "--porcelain") == ""
    for path in (PROGRESS, TASKS):
        assert place.text(path).startswith("# by a person\n")
    assert load_yaml(place.text(PROGRESS), PROGRESS)["status"] == "ACCEPTED"
    assert "somebody committed" in json.dumps(events(finished.lines, "warning"))


@pytest.mark.long
@pytest.mark.req("LY-05", "LY-37")
def test_a_real_conflict_is_kept_and_worked_in_again(place: Place) -> None:
    """The same line: the person's stays, the agent's is a patch, and the next attempt sees both in its brief."""
    place.begin({**MAKE, "src/t1.txt": "ok\n"})
    place.script = {
        "waits": ["task-executor-T1", "0"],
        "tasks": graph(task("T1"), task("T2")),
        "work": {
            "T1": [
                {"files": {"src/t1.txt": "ok, the agent's\n"}},
                {"run": ["grep -q person src/t1.txt && echo ok, the agent\\'s >> src/t1.txt"]},
            ],
            "T2": [{"files": {"src/t2.txt": "ok, the second\n"}}],
        },
    }
    edits = iter(["ok, the person's\n"])

    def work_on(_name: str) -> None:
        for text in edits:
            (place.root / "src/t1.txt").write_text(text)

    with person(place.root, work_on):
        finished = place.run()
    assert finished.status is Status.COMPLETE, finished
    assert place.git("show", f"{BRANCH}~1:src/t1.txt") == "ok, the person's\nok, the agent's"
    (conflict,) = events(finished.lines, "dispatch.conflict")
    assert "+ok, the agent's" in place.text(conflict["patch"])
    (brief,) = (place.root / ".interlock/runs").glob("*/dispatches/**/round-2/**/task-executor-T1#1/brief.md")
    assert in_order(brief.read_text(), "LAST ERROR:", "<<<<<<<", "ok, the person's", "=======", "ok, the agent's")
