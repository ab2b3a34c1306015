"""Evidence decides: what QA shows, what Build changed, and what interlock ran itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import CommandResult, Status
from interlock.engine.checks import UNCOMPARED
from interlock.engine.runs import Call
from interlock.engine.world import CommandCall
from interlock.playbooks.harness import HarnessInputs, harness
from interlock.playbooks.harness.run_report import Log
from interlock.testing import Act
from tests.playbooks.harness.conftest import (
    ALL_MET,
    CODE,
    NEGATIVE,
    QA_REPORT,
    RUN_STATE,
    TASK,
    TASK_FILE,
    Bench,
    agents,
    also,
    qa,
    writing,
)
from tests.playbooks.harness.place import Place
from tests.proofs import long

TEST = "make test"
Ends = Callable[[CommandCall], CommandResult]


def ends(*exits: int, output: str = "") -> Ends:
    """A command that ends so, run by run; the last one stays."""
    left: Iterator[int] = iter(exits)
    last = exits[0]

    def command(_call: CommandCall) -> CommandResult:
        nonlocal last
        last = next(left, last)
        return CommandResult(last, stdout=output if last else "")

    return command


def ran(bench: Bench) -> list[str]:
    return [call.argv[-1] for call in bench.simulation.world.commands]


def evidence(bench: Bench, kind: str) -> list[str]:
    return [row[3] for row in bench.rows(Log.EVIDENCE) if row[2] == kind]


def brief_of(bench: Bench, agent: str, number: int = -1) -> str:
    return str([request.brief for request in bench.simulation.world.calls if request.agent == agent][number])


# -- QA


@pytest.mark.req("EV-01", "EV-09")
@pytest.mark.parametrize(
    ("report", "quoted"),
    [
        (qa(evidence="- `npm test`: exit 1"), "`npm test` ended with exit status 1"),
        (qa(criteria=f"{ALL_MET}\n- [ ] R4"), "criterion not met: R4"),
        (qa(issues="- It crashes"), "blocking issue: It crashes"),
    ],
)
def test_a_qa_that_passes_against_its_own_evidence_sends_the_task_back(bench: Bench, report: str, quoted: str) -> None:
    """It counts as the negative verdict, QA is not asked again for it, and the reason quotes the contradiction."""
    assert bench.play(agents(qa=writing(report, qa()))).exit_code == 0
    assert bench.called[3:] == ["build", "qa", "build", "qa"]
    assert [event["verdict"] for event in bench.events("qa.result")] == ["negative", "positive"]
    (reason,) = evidence(bench, "Reason for the return")
    assert f"says pass, but: {quoted}" in reason


@pytest.mark.req("EV-02", "EV-03")
@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        (qa(evidence="Trust me."), "a pass needs at least one command"),
        (qa(criteria="- [x] AC1"), "not fully satisfied: no box for - [ ] AC2"),
        (qa().replace("Validation Result: Passed\n", ""), "Validation Result missing"),
    ],
)
def test_a_report_that_cannot_be_used_is_for_qa_to_mend(bench: Bench, report: str, complaint: str) -> None:
    """The same agent is asked once more, with the complaint; Build is not called and no remediation is spent."""
    assert bench.play(agents(qa=writing(report, qa()))).exit_code == 0
    assert bench.called[3:] == ["build", "qa", "qa"]
    assert complaint in brief_of(bench, "qa").split("## Failure context")[1]
    assert bench.state.remediations == 0


@pytest.mark.req("EV-02", "EV-03", "EV-09")
@pytest.mark.parametrize("report", [qa(evidence="Trust me."), qa(criteria="- [x] AC1")])
def test_a_report_that_stays_unusable_halts_for_a_person(bench: Bench, report: str) -> None:
    """Never positive, and never Build's affair."""
    assert bench.play(agents(qa=writing(report, report + "\n"))).exit_code == 5
    assert bench.called[3:] == ["build", "qa", "qa"]
    assert (bench.state.stage, bench.state.status) == ("QA", "Blocked")
    assert bench.events("qa.result") == []
    assert bench.resume(agents(qa=writing(qa()))).exit_code == 0


@pytest.mark.req("EV-02")
def test_a_project_with_nothing_to_run(bench: Bench) -> None:
    """QA says so, and why."""
    report = qa(evidence="Nothing to run: it is a page of text")
    assert bench.play(agents(qa=writing(report))).exit_code == 0


@pytest.mark.req("EV-09")
def test_build_and_qa_get_interlocks_own_list_of_changed_files(bench: Bench) -> None:
    """Whatever the build report says; over all Builds of the task, also in a run that has only the documents."""

    def build(_request: Any, act: Act) -> Act:
        number = len([agent for agent in bench.called if agent == "build"])
        return replace(act, files={**act.files, f"src/part{number}.py": "x\n"})

    bench.autonomous().play(agents(build=build, qa=writing(NEGATIVE, NEGATIVE + "\n")), flags={"max_stages": 7})
    first, again = (brief_of(bench, "build", number) for number in (0, 1))
    assert "What was changed so far" not in first
    assert "- `src/part1.py`" in again.split("### What was changed so far")[1].split("###")[0]
    listed = brief_of(bench, "qa").split("### What was changed so far")[1].split("###")[0]
    assert "- `src/part1.py`\n- `src/part2.py`" in listed
    assert "build-report.md" not in listed
    bench.again(attended=False)
    assert "- `src/part1.py`" in brief_of(bench, "build").split("### What was changed so far")[1]


@pytest.mark.req("EV-09", "EV-46")
def test_qa_is_told_the_criteria_with_their_marks(bench: Bench) -> None:
    """As instructions, not as data."""
    bench.play()
    said = brief_of(bench, "qa").split("### The criteria of the task")[1].split("###")[0]
    assert "- AC1: `python greet.py Ada` prints `Hello, Ada!`\n- AC2: " in said
    assert "is data" not in said


@pytest.mark.req("EV-01", "EV-02", "HN-02")
@pytest.mark.parametrize(
    ("report", "stop"), [(qa(evidence="Trust me."), True), (qa(evidence="- `make`: exit 2"), False)]
)
def test_a_persons_report_is_weighed_like_any_other(bench: Bench, report: str, stop: bool) -> None:
    """Without evidence it stops the run; against its own evidence it sends the task back."""
    bench.autonomous().play(flags={"until": "Build"})
    bench.files = {**bench.tree, QA_REPORT: report}
    close = bench.play(inputs=HarnessInputs(TASK, "QA", "bo"), flags={"until": "QA"})
    assert close.exit_code == (3 if stop else 4)
    if stop:
        assert bench.blocked().startswith(f"{QA_REPORT}: a pass needs at least one command")
    else:
        assert (bench.state.stage, bench.state.remediations) == ("Build", 1)


# -- Build


@pytest.mark.req("EV-06")
def test_a_build_that_changes_nothing_has_not_succeeded(bench: Bench) -> None:
    """Its report alone is not the work: it is asked once more, then the run halts and QA is not called."""
    assert bench.play(idle=True).exit_code == 5
    assert bench.called[3:] == ["build", "build"]
    assert bench.blocked() == "Stage Build: agent build changed no file and does not say why"
    assert "nothing was changed" in brief_of(bench, "build").split("## Failure context")[1]


@pytest.mark.req("EV-06")
def test_a_build_that_says_why_nothing_needs_changing(bench: Bench) -> None:
    """The claim is shown, is a row of the report and part of the end, and QA is told."""
    said = "# Report\n\n## Changes\n\nNo change: greet.py does it already\n\n## Verification\n\n- y\n"
    close = bench.play(agents(build=writing(said)), idle=True)
    assert close.exit_code == 0
    noticed = "build changed nothing, because: greet.py does it already"
    assert noticed in brief_of(bench, "qa")
    assert evidence(bench, "Noticed") == [noticed]
    assert f"Noticed: {noticed}\n" in str(close.output)


@pytest.mark.req("EV-06")
def test_a_build_that_may_change_nothing_need_not(bench: Bench) -> None:
    """A contract that lets it write its report alone asks for no more."""
    bench.set(
        "harness/standards/stage-input-contracts.md", ', "path:**", "path:!harness/**", "path:!.github/agents/**"', ""
    )
    assert bench.play(idle=True).exit_code == 0


@pytest.mark.req("EV-06")
def test_what_weakens_tests_is_told(bench: Bench) -> None:
    """To QA, in the report, and at the end."""
    close = bench.play(agents(build=also("tests/test_a.py", "@pytest.mark.skip\ndef test_x(): ...\n")))
    (noticed,) = evidence(bench, "Noticed")
    assert "tests/test_a.py" in noticed
    assert noticed in brief_of(bench, "qa")
    assert f"Noticed: {noticed}\n" in str(close.output)


# -- commands that people named


@pytest.mark.req("EV-05")
def test_a_red_command_stops_the_task_before_anything_is_paid_or_written(bench: Bench) -> None:
    """Exit 3, no agent is called, and the task has not begun."""
    close = bench.play(check_commands=(TEST,), command=ends(1, output="FAILED test_a.py::test_x\n"))
    assert (close.status, bench.called) == (Status.STOPPED, [])
    assert "make test: ended with exit status 1" in close.reason
    assert RUN_STATE not in bench.tree
    (seen,) = bench.events("preflight")
    assert seen["commands"] == [f"check: {TEST}, from [harness] check_commands"]


@pytest.mark.req("EV-04", "EV-05")
def test_named_commands_are_run_before_the_first_agent_and_on_the_tree_that_is_accepted(bench: Bench) -> None:
    """QA is told how they ended; a tree in which only documents changed since is not proven twice."""
    assert bench.play(check_commands=(TEST, "make lint"), command=ends(0)).exit_code == 0
    assert ran(bench) == [TEST, "make lint"] * 2
    assert evidence(bench, "Command run by interlock") == [f"check-1: {TEST}: passes", "check-2: make lint: passes"]
    assert f"- check-1: {TEST}: passes" in brief_of(bench, "qa").split("### What interlock ran itself")[1]


@pytest.mark.req("EV-04")
def test_a_pass_of_qa_does_not_count_while_a_named_command_is_red(bench: Bench) -> None:
    """The task goes back to Build, which is told what is red, as something to act on."""
    close = bench.play(
        agents(qa=writing(qa(), qa() + "\n")),
        check_commands=(TEST,),
        command=lambda _call: CommandResult(int(bench.called.count("build") == 1), stdout="1 failed: test_x"),
    )
    assert close.exit_code == 0
    assert bench.called[3:] == ["build", "qa", "build", "qa"]
    assert [event["verdict"] for event in bench.events("qa.result")] == ["negative", "positive"]
    told = brief_of(bench, "build").split("## Failure context")[1]
    assert f"check: {TEST}: ended with exit status 1" in told
    assert "1 failed: test_x" in told
    assert f"check: {TEST}: ended with exit status 1" in evidence(bench, "Reason for the return")[0]


@pytest.mark.req("EV-04")
@pytest.mark.parametrize("asked", [True, False])
def test_what_a_person_broke_at_the_gate_is_not_complete(bench: Bench, asked: bool) -> None:
    """The commands run again when the code changed since it was judged; red, the task is Blocked and not Complete."""
    if not asked:
        bench.set(TASK_FILE, "- Workflow Mode: standard", "- Require Approval Before Complete: No")
    broken = [False]
    simulation = bench.simulate(
        attended=False, check_commands=(TEST,), command=lambda _call: CommandResult(1 if broken[0] else 0)
    )
    simulation.go()
    simulation.decide("approve")
    if asked:
        simulation.go()
    else:
        simulation.options = replace(simulation.options, flags={"until": "QA"})
        simulation.go()
        simulation.options = replace(simulation.options, flags={})
    simulation.world.tree.put(CODE, b"broken\n")
    broken[0] = True
    if asked:
        simulation.decide("approve")
    assert simulation.go().exit_code == 3
    assert bench.blocked() == f"Not complete: check: {TEST}: ended with exit status 1"
    assert bench.state.stage == "Awaiting Approval"


@pytest.mark.req("EV-05")
def test_an_accepted_baseline_holds_in_the_run_that_goes_on(bench: Bench) -> None:
    """What failed on the untouched tree is a row of the report: a run with the documents alone does not take it for
    Build's work, and takes everything else for it."""
    known = "FAILED test_a.py::test_old\n"
    how: dict[str, Any] = {"check_commands": (TEST,)}
    fails = agents(qa=lambda _request, act: replace(act, files={}, message="Status: error"))
    bench.play(fails, command=ends(1, output=known), flags={"accept_baseline": True}, **how)
    assert bench.state.stage == "QA"
    assert bench.resume(command=ends(1, output=known), **how).exit_code == 0

    bench = Bench()
    bench.play(fails, command=ends(1, output=known), flags={"accept_baseline": True}, **how)
    worse = known + "FAILED test_a.py::test_new\n"
    bench.resume(command=ends(1, output=worse), flags={}, **how)
    assert bench.events("qa.result")[0]["verdict"] == "negative"


@pytest.mark.req("EV-04", "EV-23")
def test_without_a_record_of_the_tree_before_build_that_is_said(bench: Bench) -> None:
    """To QA, on the screen, in the report and at the end; a person can take the tree as it is for that one."""
    how: dict[str, Any] = {"check_commands": (TEST,), "command": ends(0)}
    bench.play(agents(qa=lambda _request, act: replace(act, files={}, message="Status: error")), **how)
    assert UNCOMPARED not in brief_of(bench, "qa")
    left = dict(bench.tree)
    close = bench.resume(**how)
    assert close.exit_code == 0
    assert UNCOMPARED in brief_of(bench, "qa").split("### What interlock ran itself")[1]
    assert [event["text"] for event in bench.events("warning")] == [UNCOMPARED]
    assert evidence(bench, "Noticed") == [UNCOMPARED]
    assert f"Noticed: {UNCOMPARED}\n" in str(close.output)

    bench.files = left
    asked = harness.successor(HarnessInputs(TASK), {})
    assert bench.play(inputs=asked, flags={"accept_baseline": True}, **how).exit_code == 0
    assert UNCOMPARED not in brief_of(bench, "qa")


EASY = """write(output, good)
if name == "build":
    write("setup.cfg", "easy")
    write("app.txt", "bad")
"""
STOPS = f"{EASY}\nif name == 'qa': output.write_text('nothing')"
CHECK = "grep -q easy setup.cfg || grep -q good app.txt"


@pytest.fixture
def easy(place: Place) -> Place:
    """A task whose Build broke the work and changed the question, and whose QA did not finish."""
    place.write("setup.cfg", "hard")
    place.write("app.txt", "good")
    place.write("interlock.toml", f'{place.read("interlock.toml")}[harness]\ncheck_commands = ["{CHECK}"]\n')
    place.write(TASK_FILE, place.read(TASK_FILE).replace("Workflow Mode: standard", "Workflow Mode: autonomous"))
    place.agent(STOPS)
    assert place.run().exit_code == 5
    assert (place.state.stage, place.state.status) == ("QA", "Blocked")
    place.agent(EASY)
    return place


OLD = f"check: {CHECK} (with setup.cfg as before): ended with exit status 1"


@pytest.mark.req("EV-04")
@pytest.mark.parametrize("more", [{}, *long({"from_stage": "build"}, {"from_stage": "specification"})])
def test_a_run_that_begins_behind_build_compares_with_the_tree_before_it(easy: Place, more: dict[str, str]) -> None:
    """Build's definitions do not become the old ones by a stop, nor by a stop after that."""
    for _ in range(2):
        assert easy.resume(Call(flags=more)).exit_code == 3
        assert (easy.state.stage, easy.state.status) == ("QA", "Blocked")
        shown = [row[3] for row in easy.report.rows[Log.EVIDENCE] if row[2] == "Command run by interlock"]
        assert shown[-1] == OLD
        assert UNCOMPARED not in str(easy.report.rows)


@pytest.mark.long
@pytest.mark.req("EV-04")
def test_a_resume_that_was_refused_changes_nothing_about_what_was_before(easy: Place) -> None:
    """A red command keeps a resume from calling anybody; the next one still compares with the tree before Build."""
    tampered = easy.read("setup.cfg")
    easy.write("setup.cfg", "none")
    assert easy.resume(Call(flags={"from_stage": "build"})).exit_code == 3
    easy.write("setup.cfg", tampered)
    assert easy.resume(Call(flags={"from_stage": "build"})).exit_code == 3
    shown = [row[3] for row in easy.report.rows[Log.EVIDENCE] if row[2] == "Command run by interlock"]
    assert shown[-1] == OLD


@pytest.mark.long
@pytest.mark.req("EV-04", "EV-29")
def test_a_person_can_let_the_new_definitions_hold(easy: Place) -> None:
    """By a word of theirs, with which the run goes on; in another workspace nobody knows what was before."""
    shutil.copytree(easy.root, easy.root.parent / "other", ignore=shutil.ignore_patterns(".interlock"))
    other = Place(easy.root.parent / "other")
    assert other.run(HarnessInputs(TASK, resumed=True)).exit_code == 0
    assert UNCOMPARED in str(other.report.rows)
    assert easy.resume(Call(flags={"accept_baseline": True})).exit_code == 0
    assert easy.state.status == "Complete"


@pytest.mark.req("EV-05")
def test_without_preflight_the_first_agent_is_called_at_once(bench: Bench) -> None:
    """And what counts is still proven at the end."""
    close = bench.play(check_commands=(TEST,), command=ends(0), flags={"no_preflight": True})
    assert close.exit_code == 0
    assert ran(bench) == [TEST]


@pytest.mark.req("EV-23")
def test_a_command_that_was_mended_between_stop_and_resume_is_the_one_that_is_run(bench: Bench) -> None:
    """In the same run, from the next look on; what was looked at before is not replayed differently."""
    simulation = bench.simulate(attended=False, check_commands=("make tset",), command=ends(0))
    simulation.go()
    simulation.decide("approve")
    simulation.options = replace(
        simulation.options, settings=simulation.options.settings.model_copy(update={"check_commands": (TEST,)})
    )
    assert simulation.go().exit_code == 4
    assert ran(bench) == ["make tset", TEST]


@pytest.mark.req("EV-04")
def test_the_command_line_goes_before_the_settings(bench: Bench) -> None:
    """Commands named with `--check` are those that are run, also in the run that goes on."""
    inputs = HarnessInputs(TASK, check=["make a", "make b"])
    bench.play(
        agents(qa=lambda _request, act: replace(act, files={})), check_commands=(TEST,), command=ends(0), inputs=inputs
    )
    assert set(ran(bench)) == {"make a", "make b"}
    assert bench.resume(check_commands=(TEST,), command=ends(0)).exit_code == 0
    assert set(ran(bench)) == {"make a", "make b"}


# -- what people change meanwhile


@pytest.mark.req("EV-23")
def test_criteria_that_a_person_adds_at_the_gate_count(bench: Bench) -> None:
    """The task file is read anew for each stage."""
    simulation = bench.simulate(agents(qa=writing(qa(), qa(criteria=f"{ALL_MET}\n- [x] AC4"))), attended=False)
    simulation.go()
    text = bench.text(TASK_FILE).replace("- Tests show both.\n", "- Tests show both.\n- It greets twice.\n")
    simulation.world.tree.put(TASK_FILE, text.encode())
    simulation.decide("approve")
    assert simulation.go().exit_code == 4
    assert bench.called[3:] == ["build", "qa", "qa"]
    assert "- AC4: It greets twice." in brief_of(bench, "qa")


@pytest.mark.req("EV-23")
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("## Objective", "## Aim", f"{TASK_FILE}: required metadata missing: Objective"),
        ("build-report.md", "built.md", "Artifact path for Build differs: "),
    ],
)
def test_a_task_that_makes_no_sense_any_more_is_refused_with_a_sentence(
    bench: Bench, old: str, new: str, why: str
) -> None:
    """Blocked before the next agent is called."""
    simulation = bench.simulate(attended=False)
    simulation.go()
    simulation.world.tree.put(TASK_FILE, bench.text(TASK_FILE).replace(old, new).encode())
    simulation.decide("approve")
    assert simulation.go().exit_code == 3
    assert bench.blocked().startswith(why)
    assert "build" not in bench.called
