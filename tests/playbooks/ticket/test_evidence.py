"""Evidence decides: what agents say against it, without it, or in its place does not end in a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.agents.runner import AgentRequest
from interlock.contracts import Evidence
from interlock.documents import load_yaml, render_yaml
from interlock.engine import CommandResult, Options, Status
from interlock.engine.simulated_disk import MemoryLayer
from interlock.engine.simulation import Crash
from interlock.engine.world import CommandCall
from interlock.playbooks.ticket.artifacts import review_claim
from interlock.playbooks.ticket.finishing import AGAINST_ITSELF
from interlock.playbooks.ticket.rehearsing import ACCEPTS, BRANCH, HOME, Files, graph, task
from interlock.playbooks.ticket.settings import TicketSettings
from interlock.telemetry import Narrator, Weight, tell
from interlock.testing import Act
from tests.playbooks.ticket.conftest import (
    Bench,
    Change,
    answers,
    at_attempts,
    in_order,
    nothing,
    only,
    writes,
)
from tests.playbooks.ticket.place import Place

REPORT = f"{HOME}/iteration_0/review_report.yaml"
GREEN = {"command": "make test", "exit": 0, "summary": "12 passed"}


def reports(*said: dict[str, Any]) -> Change:
    """A Reviewer whose reports differ from an acceptance in these fields, one after the other."""
    left = list(said)

    def act(_request: AgentRequest, act: Act) -> Act:
        data = {**load_yaml(ACCEPTS, "report"), **left.pop(0)} if left else load_yaml(ACCEPTS, "report")
        kept = {name: value for name, value in data.items() if value is not None}
        return replace(act, files=dict.fromkeys(act.files, render_yaml(kept)))

    return act


def commands(bench: Bench, *, preflight: bool = False) -> list[str]:
    """The commands that were run for the user or the graph, in order, by default without those of the preflight."""
    lines = [line for line in bench.lines if line.event == "command.intent" and "/check-" in str(line.key)]
    return [line.data["argv"][-1] for line in lines if preflight or "/preflight/" not in str(line.key)]


# -- the Reviewer


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("field", "quoted"),
    [
        ({"build": "FAILED"}, "build: fail"),
        ({"tests": "FAILED"}, "tests: fail"),
        ({"files_verified": False}, "files_verified: fail"),
        ({"issues": [{"severity": "Major", "problem": "It loses data."}]}, "blocking issue: It loses data."),
        ({"checks": [GREEN, {"command": "npm test", "exit": 1, "summary": "2 failed"}]}, "`npm test` ended with exit"),
    ],
)
def test_an_acceptance_against_its_own_evidence_is_a_rejection(
    bench: Bench, field: dict[str, Any], quoted: str
) -> None:
    """Nobody is asked again; the report says so and quotes it, and the next iteration plans from that."""
    bench.changes["Reviewer"] = reports(field)
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("Reviewer") == 2
    assert bench.called.count("Planner") == 2
    report = load_yaml(bench.text(REPORT), "report")
    assert report["status"] == "REJECTED"
    assert quoted in report["issues"][-1]["evidence"]
    assert quoted in bench.brief("Planner", 1)


@pytest.mark.req("EV-01", "EV-27")
def test_a_contradicted_acceptance_is_told_as_one_thing(bench: Bench) -> None:
    """One issue with all that speaks against it, and a decision that says what the Reviewer said: not a rejection."""
    red = {"command": "npm test", "exit": 1, "summary": "2 failed"}
    bench.changes["Reviewer"] = reports({"tests": "FAILED", "files_verified": False, "checks": [red]})
    assert bench.play().status is Status.COMPLETE
    (issue,) = load_yaml(bench.text(REPORT), "report")["issues"]
    assert issue["problem"] == AGAINST_ITSELF
    assert [part in issue["evidence"] for part in ("`npm test`", "tests: fail", "files_verified: fail")] == [True] * 3
    told = [tell(line).text for line in bench.lines if line.event == "decide" and "verdict" in str(line.data["out"])]
    assert "decision verdict: reviewer said ACCEPTED against its evidence, build and tests green -> REJECTED" in told


@pytest.mark.req("EV-01")
def test_small_issues_do_not_speak_against_an_acceptance(bench: Bench) -> None:
    bench.changes["Reviewer"] = reports({"issues": [{"severity": "Minor", "problem": "A name."}]})
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("Reviewer") == 1


@pytest.mark.req("EV-02", "EV-03")
@pytest.mark.parametrize("checks", [None, [], "trust me", [{"command": "make test"}], ["all fine"]])
def test_an_acceptance_without_a_command_is_asked_for_again(bench: Bench, checks: Any) -> None:
    """Of the Reviewer itself, once, with the complaint; no executor is called for it."""
    bench.changes["Reviewer"] = reports({"nothing_to_run": None, "checks": checks})
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("Reviewer") == 2
    assert bench.called.count("task-executor-T1") == 1
    assert "with its exit status" in bench.brief("Reviewer", 1)


@pytest.mark.req("EV-02")
def test_twice_without_a_command_is_no_review(bench: Bench) -> None:
    """The run fails; nothing is committed."""
    bare = {"nothing_to_run": None}
    bench.changes["Reviewer"] = reports(bare, bare)
    close = bench.play()
    assert (close.exit_code, bench.git.messages) == (5, ["first"])
    assert "a pass needs at least one command" in close.reason


@pytest.mark.req("EV-02")
@pytest.mark.parametrize("shown", [{"nothing_to_run": "only documents"}, {"nothing_to_run": None, "checks": [GREEN]}])
def test_a_command_or_the_reason_why_there_is_none_is_enough(bench: Bench, shown: dict[str, Any]) -> None:
    bench.changes["Reviewer"] = reports(shown)
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("Reviewer") == 1


def test_a_rejection_needs_no_command() -> None:
    """Whatever stands in it."""
    text = render_yaml({"status": "REJECTED", "build": "FAILED", "tests": "PASSED", "issues": [{"problem": "no"}]})
    claim = review_claim({}, {"report": text})
    assert (claim.passes, claim.evidence) == (False, Evidence(marks={"build": "fail", "tests": "pass"}))


# -- the user's own commands


def tool(red: Any) -> Any:
    """Commands that are red where this says so."""

    def run(call: CommandCall, files: Files) -> CommandResult:
        return CommandResult(1, stdout="red\n") if red(call, files) else CommandResult(0)

    return run


@pytest.mark.req("EV-04", "EV-14")
def test_a_graph_cannot_put_its_own_commands_in_place_of_the_users(bench: Bench) -> None:
    """The Planner sets `true`; the user's red test is run all the same, and no success comes of it."""
    bench.tasks = graph(task("T1"), task("T2"), groups={"A": {"build_command": "true", "test_command": "true"}})
    bench.tool = tool(lambda call, files: call.argv[-1] == "make test" and b"done" in files["src/t1.txt"])
    close = bench.play()
    assert close.reason.startswith("PAUSED")
    assert bench.git.messages == ["first"]
    assert "ERROR: test failed with exit status 1: make test\nred" in bench.brief("task-executor-T1", 1)


@pytest.mark.req("EV-04", "TK-132")
def test_what_a_graph_proposes_runs_in_addition(bench: Bench) -> None:
    """After the user's own, in its own folder; red there is red."""
    bench.tasks = graph(task("T1"), task("T2"), groups={"A": {"test_command": "t", "working_directory": "src"}})
    bench.tool = tool(lambda call, _files: call.argv[-1] == "t" and bench.called.count("task-executor-T1") == 1)
    assert bench.play().status is Status.COMPLETE
    assert commands(bench)[:4] == ["make build", "make test", "make build", "t"]
    assert bench.called.count("task-executor-T1") == 2


@pytest.mark.req("EV-04")
def test_a_tree_that_changed_after_the_review_is_proven_again(bench: Bench) -> None:
    """A person breaks it while the Reviewer looks: exit 3, nothing is accepted or committed."""
    bench.changes["Reviewer"] = lambda _request, act: replace(act, people={"src/other.txt": "broken\n"})
    close = bench.play()
    assert close.exit_code == 3
    assert in_order(close.reason, "the tree changed since", "src/other.txt: broken")
    assert (bench.git.messages, bench.progress["status"]) == (["first"], "FAILED")


@pytest.mark.req("EV-04")
def test_an_unchanged_tree_is_not_built_again(bench: Bench) -> None:
    """Once before the first agent, once for the group; review and commit rest on that."""
    assert bench.play().status is Status.COMPLETE
    assert commands(bench, preflight=True) == ["make build", "make test"] * 2


@pytest.mark.req("EV-04", "EV-14")
def test_a_changed_definition_of_the_checks_needs_a_persons_word(bench: Bench) -> None:
    """Green with the new Makefile, red with the old one: nobody passes by changing the question."""
    bench.tasks = graph(task("T1", files=("src/t1.txt", "Makefile")), task("T2"))
    bench.changes["task-executor-T1"] = writes("Makefile", "build:\n\t@true\ntest:\n\t@true # nothing\n")
    bench.tool = tool(
        lambda call, files: (
            call.argv[-1] == "make test" and b"done" in files["src/t2.txt"] and b"nothing" not in files["Makefile"]
        )
    )
    close = bench.play()
    assert close.exit_code == 4
    assert "The work changed Makefile, by which your tests and checks are run." in close.reason
    bench.simulation.decide("reject")
    bench.changes.clear()
    again = bench.simulation.go()
    assert again.status is not Status.COMPLETE
    assert bench.git.messages == ["first"]
    issue = load_yaml(bench.text(REPORT), "report")["issues"][-1]
    assert issue["evidence"].startswith("ERROR: test with Makefile as before failed with exit status 1")


@pytest.mark.req("EV-04")
def test_a_person_can_let_the_new_definition_hold(bench: Bench) -> None:
    """Asked once; the commit has it."""
    bench.tasks = graph(task("T1", files=("src/t1.txt", "Makefile")), task("T2"))
    bench.changes["task-executor-T1"] = writes("Makefile", "build:\n\t@true\ntest: extra\n\t@true\n")
    bench.tool = tool(lambda _call, files: b"done" in files["src/t2.txt"] and b"extra" not in files["Makefile"])
    assert bench.play().exit_code == 4
    bench.simulation.decide("approve")
    assert bench.simulation.go().status is Status.COMPLETE
    assert b"extra" in bench.git.files["Makefile"]


# -- preflight


@pytest.mark.req("EV-05")
@pytest.mark.parametrize(
    "result", [CommandResult(2, stdout="no\n"), CommandResult(None, timed_out=True, seconds=1800.0)]
)
def test_a_red_or_hanging_baseline_stops_before_the_first_agent(bench: Bench, result: CommandResult) -> None:
    """Exit 3, the command with its origin, no agent called, nothing begun."""
    bench.tool = lambda call, _files: result if call.argv[-1] == "make test" else CommandResult(0)
    close = bench.play()
    assert (close.exit_code, bench.called) == (3, [])
    assert "test: make test" in close.reason
    assert not bench.has(f"{HOME}/progress.yaml")
    told = [data["text"] for data in bench.events("progress")]
    assert told == ["build: make build, from Makefile", "test: make test, from Makefile"]
    bench.tool = tool(lambda _call, _files: False)
    assert bench.play().status is Status.COMPLETE


@pytest.mark.req("EV-05")
def test_with_an_accepted_baseline_only_new_failures_count(bench: Bench) -> None:
    """What was red before is named as known at the end; a new failure is red."""
    failing = ["tests/test_a.py::test_old"]

    def run(call: CommandCall, _files: Files) -> CommandResult:
        said = "".join(f"FAILED {name}\n" for name in failing)
        return CommandResult(1, stdout=said) if call.argv[-1] == "make test" else CommandResult(0)

    def worse(request: AgentRequest, act: Act) -> Act:
        failing[1:] = ["tests/test_a.py::test_new"] if request.attempt == 1 else []
        return replace(act, files={"src/t1.txt": f"attempt {request.attempt}\n"})

    bench.tool = run
    bench.changes["task-executor-T1"] = worse
    close = bench.play(flags={"accept_baseline": True})
    assert close.status is Status.COMPLETE, close
    assert bench.task("T1")["attempt"] == 2
    assert "Tests: PASSED, but for 1 failures that were known" in str(close.output)


@pytest.mark.req("EV-05")
def test_without_preflight_the_first_thing_is_an_agent(bench: Bench) -> None:
    assert bench.play(flags={"no_preflight": True}).status is Status.COMPLETE
    assert commands(bench, preflight=True) == ["make build", "make test"]


@pytest.mark.req("EV-05", "EV-42")
def test_none_is_a_valid_answer(bench: Bench) -> None:
    """Nothing is run, and nothing is said to have passed."""
    close = bench.play(build="none", test="none")
    assert close.status is Status.COMPLETE
    assert commands(bench, preflight=True) == []
    assert "Build: none\nTests: none\n" in str(close.output)


# -- work that changes nothing


@pytest.mark.req("EV-06")
@pytest.mark.parametrize("member", ["task-executor-T1", "Developer-T1"])
def test_an_attempt_without_a_change_has_failed(bench: Bench, member: str) -> None:
    """Asked again at once, then it is an attempt that failed; nothing is committed for it."""
    if member.startswith("Developer"):
        bench.tasks = graph(task("T1"))
    bench.changes[member] = nothing
    close = bench.play()
    if member.startswith("Developer"):
        assert close.status is Status.COMPLETE
        assert bench.called == ["Planner", "Developer-T1", "Developer-T1", "task-executor-T1", "Reviewer"]
        return
    assert close.reason.splitlines()[0] == "PAUSED: task T1 failed 5 attempts"
    assert bench.called.count(member) == 10
    assert bench.git.messages == ["first"]


@pytest.mark.req("EV-06")
def test_a_claim_that_nothing_needs_changing_goes_to_the_judge(bench: Bench) -> None:
    """On the short cut too: the Reviewer looks after all, is told, and no commit without work is made."""
    bench.tasks = graph(task("T1"))
    bench.files.pop(".gitignore")

    def idle(request: AgentRequest, act: Act) -> Act:
        return nothing(request, answers("ACCEPTED", noChange="src/t1.txt has it in line 1")(request, act))

    bench.changes["Developer"] = idle
    close = bench.play()
    assert close.status is Status.COMPLETE
    assert bench.called == ["Planner", "Developer-T1", "Reviewer"]
    assert "changed nothing, because: src/t1.txt has it in line 1" in bench.brief("Reviewer")
    assert bench.git.messages == ["first"]
    assert any("nothing to commit" in data["text"] for data in bench.events("warning"))


@pytest.mark.req("EV-06")
def test_weakened_tests_on_the_short_cut_need_a_judge(bench: Bench) -> None:
    bench.tasks = graph(task("T1", test_files=["tests/test_a.py"]))
    bench.changes["Developer"] = writes("tests/test_a.py", "@pytest.mark.skip\ndef test_a(): ...\n")
    assert bench.play().status is Status.COMPLETE
    assert bench.called == ["Planner", "Developer-T1", "Reviewer"]
    assert "switches a check off in tests/test_a.py" in bench.brief("Reviewer")


# -- what a graph may open up


@pytest.mark.req("EV-14")
@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        (graph(task("T1"), baseline_allowlist=["**"]), 'baseline_allowlist "**": an allow-list names files one by one'),
        (graph(task("T1", allowlist=["src/*.py"])), 'allowlist "src/*.py": an allow-list names files one by one'),
        (graph(task("T1"), baseline_allowlist=["interlock.toml"]), "interlock.toml is the user's own"),
        (graph(task("T1", files=("interlock.toml",))), "interlock.toml is the user's own"),
        (graph(task("T1", files=("**",))), 'files_to_modify "**" stands for files anywhere'),
        (graph(task("T1", files=("*/x.py",))), "stands for files anywhere"),
        (graph(task("T1", files=(".github/workflows/ci.yml",))), "is protected, and the request does not name it"),
        (graph(task("T1", files=("docs/AGENTS.md",))), "is protected, and the request does not name it"),
    ],
)
def test_a_graph_that_widens_what_agents_may_do_is_refused(bench: Bench, spoiled: str, why: str) -> None:
    """The Planner's goes to the Splitter, whose own may not do it either; no executor is called."""
    bench.tasks = spoiled
    close = bench.play()
    assert close.exit_code == 3
    assert bench.called == ["Planner", "Splitter", "Splitter"]
    assert why in close.reason
    assert all(why in data["reason"] for data in bench.events("orchestrator.tasks.yaml.invalid"))


@pytest.mark.req("EV-14")
def test_what_the_user_names_may_be_changed(bench: Bench) -> None:
    """A protected file that the request names, a pattern that the settings allow."""
    bench.tasks = graph(task("T1", files=("AGENTS.md",)), task("T2"), baseline_allowlist=["gen/*.json"])
    request = "ABC-12 fix the login error in AGENTS.md so that users can sign in"
    assert bench.play(request, settings={"drift": ["gen/*.json"]}).status is Status.COMPLETE
    assert {"AGENTS.md", "gen/*.json"} <= bench.scope("task-executor-T1")


# -- files in nobody's task


def locks(_request: AgentRequest, act: Act) -> Act:
    """The build tool renews the lock file, which the graph does not name."""
    return replace(act, files={**act.files, "Cargo.lock": "new\n"})


@pytest.mark.req("EV-44")
def test_a_forgotten_file_goes_back_to_the_planner_once(bench: Bench) -> None:
    """After the second refusal, with the evidence; then the task has it, the work of before goes on, and it is
    committed."""
    bench.changes["task-executor-T1"] = locks
    assert bench.play().status is Status.COMPLETE
    assert bench.called.count("task-executor-T1") == 3
    assert bench.called.count("Planner-amendment") == 1
    brief = bench.brief("Planner-amendment")
    assert "- T1: Cargo.lock" in brief
    assert "Task T1 modified files outside its scope: Cargo.lock" in brief
    assert bench.task("T1")["files_to_modify"] == ["src/t1.txt", "Cargo.lock"]
    assert bench.git.files["Cargo.lock"] == b"new\n"


@pytest.mark.req("EV-14", "EV-44")
@pytest.mark.parametrize("path", ["Makefile", "test.sh", "tests/conftest.py", "tests/.gitignore", "src/test_t1.py"])
def test_what_decides_the_checks_is_never_a_forgotten_file(bench: Bench, path: str) -> None:
    """However often an executor wants it: the Planner is not asked, the attempts are used up, and a person looks."""
    bench.changes["task-executor-T1"] = lambda _request, act: replace(act, files={**act.files, path: "true\n"})
    assert bench.play().reason.startswith("PAUSED")
    assert "Planner-amendment" not in bench.called
    assert bench.git.files.get(path) != b"true\n"


@pytest.mark.req("EV-44")
def test_a_planner_that_adds_nothing_is_not_asked_again(bench: Bench) -> None:
    """Nor can it add what nobody needed; the attempts are used up, and the run pauses."""
    bench.changes["task-executor-T1"] = locks
    seen: list[str] = []

    def stubborn(_request: AgentRequest, act: Act) -> Act:
        seen.append("asked")
        added = {"T1": ["src/t2.txt"]} if len(seen) == 1 else {}
        return replace(act, files=dict.fromkeys(act.files, render_yaml({"add": added, "reason": "not needed"})))

    bench.changes["Planner-amendment"] = stubborn
    assert bench.play().reason.startswith("PAUSED")
    assert (len(seen), bench.called.count("task-executor-T1")) == (2, 5)
    assert "'src/t2.txt' is none of Cargo.lock" in bench.brief("Planner-amendment", 1)


@pytest.mark.req("EV-44")
def test_the_work_of_a_refused_attempt_is_there_for_the_next_one(bench: Bench) -> None:
    """Also where the Developer began it and an executor goes on."""
    bench.tasks = graph(task("T1", files=("src/t1.txt", "src/long.txt")))
    found: list[bool] = []

    def begins(_request: AgentRequest, act: Act) -> Act:
        return replace(act, files={"src/long.txt": "500 good lines\n", "src/x.py": "outside\n"})

    def goes_on(request: AgentRequest, act: Act) -> Act:
        assert isinstance(request.within, MemoryLayer)
        found.append(request.within.facts("src/long.txt").content == b"500 good lines\n")
        return act

    bench.changes.update({"Developer": begins, "task-executor": goes_on})
    assert bench.play().status is Status.COMPLETE
    assert found == [True]
    assert bench.git.files["src/long.txt"] == b"500 good lines\n"


@pytest.mark.long
@pytest.mark.req("EV-44")
def test_the_work_of_the_last_attempt_outlives_the_run(place: Place) -> None:
    """A paused ticket that gets new attempts goes on with it."""
    place.begin({"Makefile": "build:\n\t@true\ntest:\n\t@true\n", "src/t1.txt": "one\n"})
    strays = {"files": {"src/t1.txt": "500 good lines\n", "src/x.py": "outside\n"}}
    work = {"T1": [strays], "T2": [{"files": {"src/t2.txt": "x\n"}}]}
    place.script = {"tasks": graph(task("T1"), task("T2")), "work": work, "amend": {}}
    assert place.run().reason.startswith("PAUSED")
    assert place.text("src/t1.txt") == "one\n"
    work["T1"] = [{"run": ["grep -q '500 good lines' src/t1.txt && echo more >> src/t1.txt"]}]
    finished = place.resume(retry=True)
    assert finished.status is Status.COMPLETE, finished
    assert place.text("src/t1.txt") == "500 good lines\nmore\n"


@pytest.mark.req("EV-44")
def test_documentation_that_an_agent_changed_is_committed_with_the_work(bench: Bench) -> None:
    """It is in nobody's task, and not left lying around."""
    bench.changes["task-executor-T1"] = writes("docs/usage.md", "How to.\n")
    assert bench.play().status is Status.COMPLETE
    assert bench.git.files["docs/usage.md"] == b"How to.\n"
    assert bench.git.uncommitted() == {}


@pytest.mark.req("EV-44")
def test_what_is_left_uncommitted_is_said(bench: Bench) -> None:
    """A file that is the user's and an agent's, and one that is the user's alone."""
    bench.simulate()
    bench.put("README.md", "mine\n")
    bench.put("notes.md", "mine\n")
    bench.changes["task-executor-T1"] = at_attempts({1}, writes("README.md", "mine\nand the agent's\n"))
    assert bench.simulation.go().status is Status.COMPLETE
    said = [data["text"] for data in bench.events("warning")]
    assert "not committed, since your own uncommitted changes are in them too: README.md" in said
    assert "not committed: notes.md" in said
    assert "README.md" not in bench.git.files


# -- what a person changes between stop and resume


def crash_after(bench: Bench, what: str) -> Callable[[str], None]:
    """Cut off when this agent was called, or this event happened."""

    def wire(_point: str) -> None:
        called = any(what in (request.agent, request.member) for request in bench.requests)
        if called or any(line.event == what for line in bench.lines):
            raise Crash

    return wire


@pytest.mark.req("EV-23")
@pytest.mark.parametrize("how", ["settings", "flag"])
def test_a_mended_test_command_is_obeyed(bench: Bench, how: str) -> None:
    """The paused ticket goes on with it, and says so; no attempt is wasted on the old one."""
    bench.tool = tool(lambda call, files: call.argv[-1] == "make test" and b"done" in files["src/t1.txt"])
    assert bench.play().reason.startswith("PAUSED")
    mended = {"settings": {"test_command": "make check"}} if how == "settings" else {"test": "make check"}
    assert bench.play(retry=True, **mended).status is Status.COMPLETE
    assert commands(bench)[-1] == "make check"
    origin = "the settings" if how == "settings" else "--test"
    warned = [data["text"] for data in bench.events("warning")]
    assert f"the test command is now: make check, from {origin}" in warned
    assert bench.progress["test_command"] == "make check"


@pytest.mark.req("EV-23")
def test_a_setting_that_stayed_does_not_undo_what_the_state_document_says(bench: Bench) -> None:
    """A person's edit of progress.yaml counts, as long as nobody named another command since."""
    settings = {"test_command": "make test"}
    bench.tool = tool(lambda call, files: call.argv[-1] == "make test" and b"done" in files["src/t1.txt"])
    assert bench.play(settings=settings).reason.startswith("PAUSED")
    path = f"{HOME}/progress.yaml"
    bench.put(path, bench.text(path).replace("test_command: make test", "test_command: make check"))
    assert bench.play(retry=True, settings=settings).status is Status.COMPLETE
    assert commands(bench)[-1] == "make check"


@pytest.mark.req("EV-23")
def test_a_command_mended_after_a_crash_is_obeyed_too(bench: Bench) -> None:
    """The open run goes on, and takes it over."""
    simulation = bench.simulate()
    with pytest.raises(Crash):
        simulation.go(tripwire=crash_after(bench, "task-executor-T1"))
    options = Options(settings=TicketSettings(test_command="make check"), max_parallel=8)
    assert simulation.go(options=options).status is Status.COMPLETE
    assert commands(bench)[-1] == "make check"


@pytest.mark.req("EV-23")
@pytest.mark.parametrize("how", ["settings", "flag"])
def test_other_limits_are_obeyed_and_said(bench: Bench, how: str) -> None:
    """Fewer tasks side by side, and no short cut: from the next group, for a graph that is made later."""
    bench.changes["Planner"] = lambda _request, act: replace(act, files={})
    bench.changes["Splitter"] = lambda _request, act: replace(act, files={})
    bench.tasks = graph(task("T1"))
    assert bench.play(settings={"max_parallel_tasks": 2}).exit_code == 5
    assert bench.progress["max_parallel_tasks"] == 2
    bench.changes.clear()
    now = {"max_parallel_tasks": 1, "fast_path": False}
    mended = {"settings": now} if how == "settings" else {"max_parallel": 1, "fast_path": False}
    assert bench.play(**mended).status is Status.COMPLETE
    warned = [data["text"] for data in bench.events("warning")]
    assert "tasks side by side, from now on: at most 1" in warned
    assert "the short cut for a single simple task, from now on: not taken" in warned
    assert (bench.progress["max_parallel_tasks"], bench.progress["fast_path"]) == (1, False)
    assert bench.called[-2:] == ["task-executor-T1", "Reviewer"]


@pytest.mark.req("EV-23")
@pytest.mark.parametrize("after", ["Planner", "Splitter", "orchestrator.tasks.ready", "Developer"])
def test_limits_changed_after_a_crash_are_obeyed_too(bench: Bench, after: str) -> None:
    """The open run takes them over: no short cut if it was not begun yet, and the documents say what holds."""
    bench.tasks = graph(task("T1"))
    bench.changes["Planner"] = lambda _request, act: replace(
        act, files={path: text for path, text in act.files.items() if path.endswith("plan.md")}
    )
    simulation = bench.simulate()
    with pytest.raises(Crash):
        simulation.go(tripwire=crash_after(bench, after))
    options = Options(settings=TicketSettings(fast_path=False, max_parallel_tasks=1), max_parallel=8)
    assert simulation.go(options=options).status is Status.COMPLETE
    assert (bench.progress["max_parallel_tasks"], bench.progress["fast_path"]) == (1, False)
    assert any("Developer" in name for name in bench.called) is (after == "Developer")


@pytest.mark.req("EV-23")
def test_limits_that_nobody_changed_stay_as_the_state_document_has_them(bench: Bench) -> None:
    """An edit of progress.yaml counts; an option of an earlier start holds where a later one does not name it."""
    bench.changes["Reviewer"] = only("status: [\n")
    assert bench.play(fast_path=False, settings={"max_parallel_tasks": 2}).exit_code == 5
    path = f"{HOME}/progress.yaml"
    bench.put(path, bench.text(path).replace("max_parallel_tasks: 2\ndocs", "max_parallel_tasks: 1\ndocs"))
    bench.changes.clear()
    assert bench.play(settings={"max_parallel_tasks": 2}).status is Status.COMPLETE
    assert (bench.progress["max_parallel_tasks"], bench.progress["fast_path"]) == (1, False)
    assert not [data["text"] for data in bench.events("warning") if "from now on" in data["text"]]


@pytest.mark.req("EV-23")
@pytest.mark.parametrize("how", [{"base": "develop"}, {"settings": {"branch": "t/{ticket}", "base": "develop"}}])
def test_what_cannot_be_changed_any_more_is_said(bench: Bench, how: dict[str, Any]) -> None:
    """The branch is there: another form of its name, or another base, is for the next ticket."""
    bench.changes["Reviewer"] = only("status: [\n")
    assert bench.play().exit_code == 5
    bench.changes.clear()
    assert bench.play(**how).status is Status.COMPLETE
    (said,) = [data["text"] for data in bench.events("warning") if "for new tickets" in data["text"]]
    assert said.endswith(f"this one stays on {BRANCH}")
    assert bench.git.branch == BRANCH


@pytest.mark.req("EV-24")
def test_an_accepted_ticket_is_not_the_answer_to_another_request(bench: Bench) -> None:
    """Refused with a sentence that names the way; the same request, however it is spaced, is simply done."""
    assert bench.play().status is Status.COMPLETE
    calls = len(bench.called)
    with pytest.raises(Exception, match="ABC-12 is accepted already, with another request") as caught:
        bench.play("ABC-12 add a logout page so that users can sign out")
    assert "--fresh" in str(caught.value.remedy)  # type: ignore[attr-defined]
    same = bench.play("ABC-12  fix the login error so that users can sign in")
    assert (same.status, len(bench.called)) == (Status.COMPLETE, calls)
    assert BRANCH in str(same.output)


@pytest.mark.req("EV-04", "EV-14")
def test_a_check_script_that_the_work_changed_is_tried_as_it_was(bench: Bench) -> None:
    """Its name says nothing; that the user's command starts it does."""
    bench.files["check.sh"] = "grep -q one src/t1.txt\n"
    bench.tasks = graph(task("T1", files=("src/t1.txt", "check.sh")), task("T2"))
    bench.changes["task-executor-T1"] = writes("check.sh", "true\n")
    bench.tool = tool(lambda _call, files: b"grep" in files["check.sh"] and b"done" in files["src/t1.txt"])
    close = bench.play(build="none", test="sh check.sh")
    assert close.exit_code == 4
    assert "The work changed check.sh, by which your tests and checks are run." in close.reason


@pytest.mark.req("EV-04", "EV-05")
def test_what_is_known_of_the_untouched_tree_outlives_the_run(place: Place) -> None:
    """A resumed ticket measures against the tree as it was before the first agent: an agent's Makefile does not become
    the old one by a stop in between."""
    place.begin({"Makefile": "build:\n\t@true\ntest:\n\tgrep -q ok src/t1.txt\n", "src/t1.txt": "ok\n"})
    easy = {"files": {"Makefile": "build:\n\t@true\ntest:\n\t@true\n", "src/t1.txt": "no\n"}}
    place.script = {
        "tasks": graph(task("T1", files=("src/t1.txt", "Makefile")), task("T2")),
        "work": {"T1": [easy], "T2": [{"status": "ERROR"}]},
    }
    assert place.run().reason.startswith("PAUSED")
    place.script["work"]["T2"] = [{"files": {"src/t2.txt": "x\n"}}]
    close = place.resume(retry=True)
    assert close.exit_code == 4
    assert "The work changed Makefile, by which your tests and checks are run." in close.reason


# -- what is said of it


@pytest.mark.req("EV-27", "EV-30")
def test_a_ticket_says_each_thing_once(bench: Bench) -> None:
    """Read aloud: the short cut fails once, an executor mends it, a review accepts."""
    bench.tasks = graph(task("T1"))
    bench.tool = tool(lambda call, files: call.argv[-1] == "make test" and b"T1 done" in files["src/t1.txt"])
    bench.changes["task-executor-T1"] = writes("src/t1.txt", "mended\n")
    assert bench.play().status is Status.COMPLETE
    narrator = Narrator()
    told = [narrator.tell(line) for line in bench.lines]
    said = [one.text for one in told if one.weight is not Weight.DETAIL and "  " not in one.text]  # agents apart
    assert said == [
        "run started: ticket ABC-12",
        "build: make build, from Makefile",
        "test: make test, from Makefile",
        "build passes in 0.0 s",
        "test passes in 0.0 s",
        "iteration 1 of 5, from prompts/ABC-12/prompt.yaml",
        "tasks: T1 (by the short cut)",
        f"the work is on branch {BRANCH}",
        "Progress: 0% | Completed: 0/1 tasks | ETA: ~? min remaining",
        "build passes in 0.0 s",
        "test ended with exit status 1, in 0.0 s\nred",
        "failed: T1 (attempt 1 of 5); no short cut any more",
        "build passes in 0.0 s",
        "test passes in 0.0 s",
        "Progress: 95% | Completed: 1/1 tasks | ETA: ~0 min remaining",
        "decision verdict: reviewer said ACCEPTED, build and tests green -> ACCEPTED",
        "Progress: 100% | Completed: 1/1 tasks | ETA: ~0 min remaining",
        f"committed 0000000000 on {BRANCH}",
        "run complete",
    ]
