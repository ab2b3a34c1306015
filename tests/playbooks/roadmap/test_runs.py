"""Whole runs in memory: pipelines, retries, blocking, the ends, the reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import CommandResult, Status
from interlock.engine.checks import UNCOMPARED
from interlock.engine.playing import Finished
from interlock.engine.simulation import Crash
from interlock.engine.world import CommandCall
from interlock.errors import WorkspaceFailed
from interlock.playbooks.roadmap.decisions import AGENTS
from interlock.testing import Act

from .conftest import DRIFT, FILE, REVIEW_FAILS, TESTS_FAIL, Bench, good, item, spelled, with_data

TOKEN = "<promise>COMPLETE</promise>"
DONE = {"status": "done", "passes": True}


# -- pipelines


@pytest.mark.req("RM-22", "RM-29", "RM-30", "RM-37")
@pytest.mark.parametrize("planning", [None, "known", {"findings": ["known"], "scope": {"title": "old"}}])
def test_a_simple_item_is_implemented_tested_and_reviewed(bench: Bench, planning: Any) -> None:
    """Nobody researches or designs it, whatever was planned."""
    bench.data = [item(7, planningResearch=planning)]
    assert bench.play().exit_code == 0
    assert [request.agent for request in bench.calls] == ["Implement", "Testing", "Review"]


@pytest.mark.req("RM-23", "RM-26", "RM-37")
@pytest.mark.parametrize("planning", [..., None, "", "  ", [], {}])
def test_a_medium_item_without_findings_is_researched_first(bench: Bench, planning: Any) -> None:
    """Every form of nothing leads to Research."""
    bench.data = [item(7, complexity="medium", planningResearch=planning)]
    assert bench.play().exit_code == 0
    assert [request.agent for request in bench.calls] == ["Research", "Architect", "Implement", "Testing", "Review"]


@pytest.mark.req("RM-24", "RM-28", "RM-33", "RM-34", "RM-36", "RM-40", "RM-31")
@pytest.mark.parametrize("planning", [None, "known"])
def test_a_complex_item_takes_six_steps(bench: Bench, planning: Any) -> None:
    """Researched in all cases; validated in validation mode after the implementation; then tested, then reviewed."""
    bench.data = [item(7, complexity="complex", planningResearch=planning)]
    assert bench.play().exit_code == 0
    assert bench.steps == ["research", "design", "implement", "validation", "testing", "review"]
    assert [request.agent for request in bench.calls].count("Architect") == 2
    assert "mode=validation" in bench.brief("validation")
    assert "mode=design" in bench.brief("design")
    assert {request.agent for request in bench.calls} <= set(AGENTS)


@pytest.mark.req("RM-90", "RM-06")
def test_the_selection_comes_first_and_every_dispatch_follows_a_decision(bench: Bench) -> None:
    """Load, selection; before each start of an agent stands a decision of the engine."""
    bench.data = [item(7, complexity="complex")]
    bench.play()
    names = [name for name in bench.event_names if name not in ("loop", "decide")]
    assert names[:4] == ["run.start", "read", "roadmap.loaded", "item.selected"]
    for number, name in enumerate(bench.event_names):
        if name == "dispatch.start":
            assert bench.event_names[number - 1] == "step"


# -- state


@pytest.mark.req("RM-17", "RM-60", "RM-75", "RM-87", "RM-05")
def test_the_file_says_in_progress_while_agents_work_and_done_afterwards(bench: Bench) -> None:
    """Marked before the first dispatch; done and passes come in one write; nothing else differs."""
    before = spelled(bench.data)
    seen: list[Any] = []

    def look(request: Any) -> Act:
        seen.append(bench.items[0]["status"])
        return good(request)

    bench.reactions = {"implement": look, "testing": look, "review": look}
    bench.play()
    assert seen == ["in_progress"] * 3
    expected = before.replace('"status": "ready"', '"status": "done"').replace('"passes": false', '"passes": true')
    assert bench.written == expected
    written = [line for line in bench.lines if line.event == "write" and "out" in line.data]
    assert len(written) == 2


@pytest.mark.req("RM-62", "RM-63", "RM-64", "RM-65", "RM-72", "RM-73", "RM-74", "RM-21", "RM-41")
def test_three_failed_attempts_block_the_item_and_stop_the_run(bench: Bench) -> None:
    """retryCount is on disk before each retry; the reasons of all attempts are kept, reported and exit 3."""
    counts: list[Any] = []

    def look(request: Any) -> Act:
        counts.append(bench.items[0].get("retryCount", 0))
        return good(request)

    bench.data = [item(7, complexity="complex"), item(8, priority=2)]
    bench.reactions = {"implement": look, "testing": TESTS_FAIL, ("review", 2): REVIEW_FAILS, ("validation", 3): DRIFT}
    close = bench.play()
    assert counts == [0, 1, 2]
    assert bench.steps == [
        *("research", "design", "implement", "validation", "testing", "review"),
        *("implement", "validation", "testing", "review"),
        *("implement", "validation"),
    ]
    blocked = bench.items[0]
    assert (blocked["status"], blocked["passes"], blocked["retryCount"]) == ("blocked", False, 2)
    assert [(one["attempt"], one["source"]) for one in blocked["blockedReasons"]] == [
        (1, "Testing"),
        (1, "Testing"),
        (2, "Testing"),
        (2, "Testing"),
        (2, "Review"),
        (2, "Review"),
        (3, "Architect validation"),
    ]
    assert (close.status, close.exit_code) == (Status.STOPPED, 3)
    assert close.reason == "item 7 is blocked: src/a.ts departs from the design"
    assert [event["item"] for event in bench.events("item.selected")] == ["7"]
    for attempt in (1, 2, 3):
        assert f"- attempt {attempt}, " in bench.output
    assert "reset retryCount to 0 to allow retries" in bench.output
    assert {reason["attempt"] for reason in bench.events("item.blocked")[0]["reasons"]} == {1, 2, 3}
    assert TOKEN not in bench.output + str(close.output)


@pytest.mark.req("RM-63", "RM-41")
@pytest.mark.parametrize("step", ["testing", "review", "validation"])
def test_a_negative_verdict_is_cured_by_a_retry(bench: Bench, step: str) -> None:
    """One more attempt, and the item is done with retryCount 1; drift spares Testing and Review of that attempt."""
    verdict = {"testing": TESTS_FAIL, "review": REVIEW_FAILS, "validation": DRIFT}[step]
    bench.data = [item(7, complexity="complex")]
    bench.reactions = {(step, 1): verdict}
    assert bench.play().exit_code == 0
    done = bench.items[0]
    assert (done["status"], done["passes"], done["retryCount"]) == ("done", True, 1)
    first = {"validation": ["validation"]}.get(step, ["validation", "testing", "review"])
    assert bench.steps == ["research", "design", "implement", *first, "implement", "validation", "testing", "review"]


@pytest.mark.req("RM-62")
def test_an_item_that_was_unblocked_with_its_retries_used_has_one_attempt(bench: Bench) -> None:
    """The rule is applied literally; the report says how to allow retries."""
    bench.data = [item(7, retryCount=2)]
    bench.reactions = {"testing": TESTS_FAIL}
    assert bench.play().exit_code == 3
    assert bench.steps == ["implement", "testing", "review"]
    assert "This is retry 2/2 (final attempt)" in bench.brief("implement")
    assert "not available" in bench.brief("implement")
    assert "reset retryCount to 0 to allow retries" in bench.output


def test_fail_fast_spares_the_review_of_a_failed_test(bench: Bench) -> None:
    """By setting or by option; without it Review is asked all the same, so that one retry can cure both."""
    bench.reactions = {("testing", 1): TESTS_FAIL}
    bench.play()
    assert bench.steps == ["implement", "testing", "review"] * 2
    for setting, flag in (({"fail_fast": True}, {}), ({}, {"fail_fast": True})):
        fast = Bench(reactions=bench.reactions, settings=setting, flags=flag)
        fast.play()
        assert fast.steps == ["implement", "testing", "implement", "testing", "review"]


SKIPS = {
    "evidence": {
        "checks": {"lint": "pass", "typecheck": "skipped", "build": "pass", "quality": "pass"},
        "verification": [{"command": "npm run lint", "exit": 0}],
    }
}


@pytest.mark.req("EV-03")
def test_a_check_that_the_project_does_not_have_may_be_skipped(bench: Bench) -> None:
    """By declaration only, which the brief states; otherwise Review itself is asked again, and no one builds."""
    bench.reactions = {("review", 1): SKIPS}
    assert bench.play().exit_code == 0
    assert bench.steps == ["implement", "testing", "review", "review"]
    assert bench.items[0].get("retryCount", 0) == 0
    assert "No check may be `skipped`." in bench.brief("review")
    complaint = "evidence.checks.typecheck is skipped, but it is not declared absent; expected pass | fail"
    assert complaint in bench.brief("review", 1).split("## Failure context")[1]
    declared = Bench(reactions={"review": SKIPS}, settings={"absent_checks": ("typecheck",)})
    assert declared.play().exit_code == 0
    assert declared.steps == ["implement", "testing", "review"]
    assert "Only these checks may be `skipped`: `typecheck`." in declared.brief("review")


def test_a_setting_that_changes_after_a_crash_does_not_disturb_the_replay(bench: Bench) -> None:
    """What an attempt began with is recorded; the new value counts from the next attempt on."""
    bench.data = [item(7), item(8)]
    bench.reactions = {("testing", 1): TESTS_FAIL, ("review", 1): lambda request: replace(good(request), crash=True)}
    simulation = bench.simulate()
    with pytest.raises(Crash):
        simulation.go()
    bench.reactions = {("testing", 1): TESTS_FAIL}
    changed = Bench(settings={"fail_fast": True, "skills_line": "New."}).simulate().options
    assert simulation.go(options=changed).exit_code == 0
    assert bench.steps == ["implement", "testing", "review", "review", "implement", "testing", "review",
                           "implement", "testing", "implement", "testing", "review"]  # fmt: skip
    assert ["- New.\n" in request.brief for request in bench.calls] == [False] * 4 + [True] * 8


# -- verdicts and evidence


@pytest.mark.req("RM-61", "EV-02", "EV-03")
@pytest.mark.parametrize("step", ["testing", "review"])
def test_a_judge_that_shows_no_command_is_asked_again_itself(bench: Bench, step: str) -> None:
    """With what is missing; the builder is not called, no retry is spent."""
    checks = {"checks": dict.fromkeys(["lint", "typecheck", "build", "quality"], "pass")}
    bench.reactions = {(step, 1): {"verdict": "pass", "evidence": {"tests": {"passed": 9}, **checks}}}
    assert bench.play().exit_code == 0
    assert bench.steps == [one for name in ("implement", "testing", "review") for one in [name] * (1 + (name == step))]
    assert bench.items[0].get("retryCount", 0) == 0
    assert "a pass needs at least one command that was run" in bench.brief(step, 1).split("## Failure context")[1]


RED = [{"command": "npm test", "exit": 1, "summary": "2 failed"}]


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("step", ["testing", "review"])
def test_a_pass_against_its_own_evidence_sends_the_item_back_to_implement(bench: Bench, step: str) -> None:
    """It is the negative verdict, and the next attempt is told what contradicts it."""
    checks = {"checks": dict.fromkeys(["lint", "typecheck", "build", "quality"], "pass")}
    bench.reactions = {(step, 1): {"verdict": "pass", "evidence": {"verification": RED, **checks}}}
    assert bench.play().exit_code == 0
    assert bench.steps == ["implement", "testing", "review"] * 2
    assert bench.items[0]["retryCount"] == 1
    said = f"- {step.capitalize()}: says pass, but: `npm test` ended with exit status 1: 2 failed\n"
    assert said in bench.brief("implement", 1)


@pytest.mark.req("EV-03", "RM-59")
def test_a_missing_verdict_is_named_to_the_judge(bench: Bench) -> None:
    """Which ones, to Review itself; still missing, the run stays open and nobody has built anything again."""
    few = {"evidence": {"checks": {"lint": "pass", "quality": "pass"}, "verification": RED}}
    bench.reactions = {"review": few}
    close = bench.play()
    assert bench.steps == ["implement", "testing", "review", "review"]
    said = bench.brief("review", 1).split("## Failure context")[1]
    assert "evidence.checks.typecheck is missing" in said
    assert "evidence.checks.build is missing" in said
    assert (close.status, close.exit_code, bench.items[0]["status"]) == (Status.FAILED, 5, "in_progress")


@pytest.mark.req("EV-06")
def test_an_implementation_that_changes_nothing_is_none(bench: Bench) -> None:
    """Asked again, then the run stays open; with a reason it goes on, and the judges are told that reason."""
    bench.reactions = {"implement": lambda request: replace(good(request), files={})}
    close = bench.play()
    assert (close.exit_code, bench.steps) == (5, ["implement", "implement"])
    assert "nothing was changed" in close.reason
    bench.reactions = {
        "implement": lambda request: replace(with_data(request, noChange="it is there already"), files={})
    }
    assert bench.play().exit_code == 0
    for step in ("testing", "review"):
        assert "Implement changed nothing, because: it is there already" in bench.brief(step)


@pytest.mark.req("EV-08")
def test_tests_that_testing_adds_are_kept_and_listed(bench: Bench) -> None:
    """They come into the tree, Review is told of them, and nothing else of what it wrote counts."""
    bench.reactions = {"testing": lambda request: replace(good(request), files={"tests/login.test.ts": "it()"})}
    assert bench.play().exit_code == 0
    assert bench.steps == ["implement", "testing", "review"]
    assert bench.simulation is not None
    assert bench.simulation.world.tree.files["tests/login.test.ts"] == b"it()"
    assert [event["paths"] for event in bench.events("tests.added")] == [["tests/login.test.ts"]]
    assert "- `tests/login.test.ts` (by Testing)" in bench.brief("review")
    meddling = Bench(files={"src/a.ts": "good\n"})
    meddling.reactions = {"testing": lambda request: replace(good(request), files={"src/a.ts": "evil\n"})}
    assert meddling.play().exit_code == 5
    assert meddling.simulation is not None
    assert meddling.simulation.world.tree.files["src/a.ts"] == b"good\n"


@pytest.mark.req("EV-08")
def test_what_testing_does_to_tests_is_told_to_review(bench: Bench) -> None:
    """It may write tests, so that it could weaken some: who judges next knows."""
    bench.files = {"tests/test_a.py": "def test_a():\n    assert f() == 1\n"}
    weak = "import pytest\n@pytest.mark.skip\ndef test_a():\n    assert f() == 1\n"
    bench.reactions = {"testing": lambda request: replace(good(request), files={"tests/test_a.py": weak})}
    bench.play()
    assert bench.events("work.noticed")[0]["by"] == "Testing"
    assert "switches a check off in tests/test_a.py" in bench.brief("review")


@pytest.mark.req("RM-82", "RM-81", "RM-79")
def test_next_steps_are_stored_and_decide_nothing(bench: Bench) -> None:
    """Whatever an agent proposes, the pipeline goes its way; the whole answer is in the journal and the record."""
    wish = ["Skip Testing and Review.", "Call the Planner."]
    bench.reactions = {"implement": {"nextSteps": wish, "learnings": ["errors are values"]}}
    bench.play()
    assert bench.steps == ["implement", "testing", "review"]
    assert bench.simulation is not None
    kept = bench.simulation.world.records.kept["item-1/attempt-1/implement/Implement#1", "result.json"]
    assert (kept["data"]["nextSteps"], kept["data"]["learnings"]) == (wish, ["errors are values"])
    ends = [line.data["out"] for line in bench.lines if line.event == "dispatch.end"]
    assert ends[0]["data"]["nextSteps"] == wish
    assert "Skip Testing" not in "".join(request.brief for request in bench.calls)


@pytest.mark.req("RM-58")
def test_the_engine_runs_no_command_itself() -> None:
    """Neither verification nor anything else: agents are all that is started."""
    bench = Bench([item(7, complexity="complex")])
    bench.reactions = {("testing", 1): TESTS_FAIL}
    bench.play()
    assert bench.simulation is not None
    assert bench.simulation.world.commands == []
    assert "command.intent" not in bench.event_names


@pytest.mark.req("RM-39", "EV-03")
def test_a_validation_without_usable_verdict_is_asked_again_and_nobody_else(bench: Bench) -> None:
    """One re-ask with the complaint; then the run stays open: it is no drift that anybody could mend."""
    bench.data = [item(7, complexity="complex")]
    bench.reactions = {"validation": {"verdict": "ok"}}
    close = bench.play()
    assert bench.steps[3:] == ["validation", "validation"]
    again = bench.brief("validation", 1)
    assert 'verdict "ok"; expected aligned | drift_detected' in again.split("## Failure context")[1]
    assert (close.exit_code, bench.items[0].get("retryCount", 0)) == (5, 0)
    warning = 'Architect validation (item 7, attempt 1): verdict "ok"; expected aligned | drift_detected'
    assert warning in [event["text"] for event in bench.events("warning")]


def resumed(bench: Bench) -> Finished:
    assert bench.simulation is not None
    return bench.simulation.go()


@pytest.mark.req("RM-78", "EN-41", "EN-42", "EV-25")
def test_an_answer_without_status_is_asked_again_once_and_then_leaves_the_run_open(bench: Bench) -> None:
    """No verdict is never a pass: two calls, then exit 5, without a retry being used; resume asks Testing again."""
    bench.reactions = {"testing": lambda _request: Act(message="All is well.")}
    close = bench.play()
    assert bench.steps == ["implement", "testing", "testing"]
    assert (close.status, close.exit_code) == (Status.FAILED, 5)
    left = bench.items[0]
    assert (left["status"], left.get("retryCount", 0), "blockedReasons" in left) == ("in_progress", 0, False)
    reason = "answer has no Status; expected success | blocked | needs_revision"
    assert f"Testing (item 7, attempt 1): {reason}" in [event["text"] for event in bench.events("warning")]
    assert f"item 7: Testing: {reason}. The item stays in progress." in close.reason
    assert resumed(bench).exit_code == 5
    assert bench.steps == ["implement", *["testing"] * 4]
    bench.reactions = {}
    assert resumed(bench).exit_code == 0
    assert bench.steps == ["implement", *["testing"] * 5, "review"]


@pytest.mark.req("EN-41", "EN-25", "EV-25")
@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (Act(code=-9), "dispatch failed: crashed"),
        (Act(seconds=1e6), "dispatch failed: timeout"),
        (Act(spawn_error="no such program"), "dispatch failed: spawn_failed"),
    ],
)
@pytest.mark.parametrize("step", ["implement", "review"])
def test_weather_is_repeated_once_and_then_leaves_the_run_open(bench: Bench, act: Act, reason: str, step: str) -> None:
    """Transient failures have one repeat of their own; the item is not blocked, and resume repeats that call alone."""
    bench.reactions = {step: lambda _request: act}
    close = bench.play()
    assert bench.steps.count(step) == 2
    assert close.exit_code == 5
    assert reason in close.reason
    assert (bench.items[0]["status"], bench.items[0].get("retryCount", 0)) == ("in_progress", 0)
    assert "run.end" not in bench.event_names
    bench.reactions = {}
    before = bench.steps
    assert resumed(bench).exit_code == 0
    assert bench.steps == [*before, *{"implement": ["implement", "testing", "review"], "review": ["review"]}[step]]
    calm = Bench(reactions={(step, 1): lambda _request: act})
    assert calm.play().exit_code == 0


@pytest.mark.req("EV-23", "EV-25")
def test_settings_that_a_person_mended_count_for_the_call_that_resume_repeats(bench: Bench) -> None:
    """Review skips what is not declared absent; declared meanwhile, the same answer counts, and the brief says so."""
    bench.reactions = {"review": SKIPS}
    assert bench.play().exit_code == 5
    assert bench.simulation is not None
    mended = Bench(settings={"absent_checks": ("typecheck",), "verify": "engine"}).simulate().options
    assert bench.simulation.go(options=mended).exit_code == 0
    assert bench.steps == ["implement", "testing", "review", "review", "review"]
    assert "Only these checks may be `skipped`: `typecheck`." in bench.brief("review", 2)
    assert bench.commands == ["npm test", "npm run lint"]


@pytest.mark.req("EV-25")
def test_the_reasons_of_a_block_are_evidence_for_the_next_attempt(bench: Bench) -> None:
    """A person sets the item to ready again: Implement is told why it was blocked, and done clears it."""
    bench.reactions = {"testing": TESTS_FAIL}
    assert bench.play().exit_code == 3
    again = Bench([{**bench.items[0], "status": "ready", "retryCount": 0}])
    assert again.play().exit_code == 0
    brief = again.brief("implement")
    assert "This item was blocked before." in brief
    assert "- Testing: login: expected 401, got 200\n" in brief.split("## Failure context")[1]
    assert "not available" not in brief
    assert (again.items[0]["status"], again.items[0]["blockedReasons"]) == ("done", [])


# -- commands that the engine runs

ENGINE = {"verify": "engine"}


def played(bench: Bench, exits: Callable[[int, str], int] = lambda _number, _command: 0) -> Finished:
    """The run, in which the engine's commands end so: by how many ran before, and what the command is."""

    def command(call: CommandCall) -> CommandResult:
        code = exits(len(bench.commands) - 1, call.argv[-1])
        return CommandResult(code, "FAILED tests/a.ts::login\n" if code else "")

    bench.command = command
    return bench.play()


@pytest.mark.req("EV-04")
def test_with_verify_engine_the_items_commands_are_run_on_the_final_tree(bench: Bench) -> None:
    """These and nothing else, behind Review; the proof is recorded. By default agents alone run them (RM-58)."""
    bench.settings = ENGINE
    bench.data = [item(7), item(8, priority=2, verification=["make all"])]
    assert played(bench).exit_code == 0
    before, after = ["npm test", "npm run lint"], ["npm test", "npm run lint", "make all"]
    assert bench.commands == before + after
    proofs = bench.events("proof")
    assert [(proof["command"], proof["exit"]) for proof in proofs] == [(one, 0) for one in bench.commands]
    assert proofs[0]["tree"] != proofs[2]["tree"]
    last_judge = max(n for n, name in enumerate(bench.event_names[: bench.event_names.index("item.done")])
                     if name == "dispatch.end")  # fmt: skip
    assert bench.event_names[last_judge:].index("proof") < bench.event_names[last_judge:].index("item.done")
    assert "verification=pass" in bench.output
    trusting = Bench(bench.data)
    assert (played(trusting).exit_code, trusting.commands) == (0, [])


@pytest.mark.req("EV-04")
def test_a_red_command_fails_the_attempt_with_the_proof_as_evidence(bench: Bench) -> None:
    """Whatever the agents said; the next attempt has how it ended, and after its change the command runs again."""
    bench.settings = ENGINE
    assert played(bench, lambda number, command: int(number == 2 and command == "npm test")).exit_code == 0
    assert bench.steps == ["implement", "testing", "review"] * 2
    assert bench.commands == ["npm test", "npm run lint", "npm test", "npm test", "npm run lint"]
    assert bench.items[0]["retryCount"] == 1
    evidence = bench.brief("implement", 1).split("## Failure context")[1]
    said = "- Engine: verification-1: npm test: ended with exit status 1\n  FAILED tests/a.ts::login\n"
    assert said in evidence
    stubborn = Bench(settings=ENGINE)
    assert played(stubborn, lambda number, _command: int(number > 1)).exit_code == 3
    assert {one["source"] for one in stubborn.items[0]["blockedReasons"]} == {"Engine"}


@pytest.mark.req("EV-05")
def test_preflight_stops_before_the_first_agent(bench: Bench) -> None:
    """A red command of the first item is exit 3 with nobody called and the file as it was; the flags change that."""
    bench.settings = ENGINE
    before = spelled(bench.data)
    close = played(bench, lambda _number, _command: 1)
    assert (close.status, close.exit_code, bench.calls) == (Status.STOPPED, 3, [])
    assert "verification-1: npm test, from item 7 of roadmap.json" in str(bench.events("preflight")[0]["commands"])
    assert "No agent was called." in close.reason
    assert bench.written == before
    known = Bench(settings=ENGINE, flags={"accept_baseline": True})
    assert played(known, lambda _number, _command: 1).exit_code == 0
    unasked = Bench(settings=ENGINE, flags={"no_preflight": True})
    assert played(unasked).exit_code == 0
    assert unasked.commands == ["npm test", "npm run lint"]


def rewriting(number: int) -> Callable[[Any], Act]:
    """The Implement of one item changes what says how tests are run, too."""

    def implement(request: Any) -> Act:
        act = good(request)
        mine = f'"id": {number}' in request.brief
        return replace(act, files={**act.files, "setup.cfg": request.dispatch}) if mine else act

    return implement


@pytest.mark.req("EV-04")
@pytest.mark.parametrize("flags", [{}, {"no_preflight": True}])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_definitions_are_compared_for_every_item_with_those_at_its_own_start(
    number: int, flags: dict[str, Any]
) -> None:
    """The item that changes them must pass with the old ones too; for those after it, the new ones are the old ones."""
    data = [item(one, priority=one, verification=["pytest"]) for one in (1, 2, 3)]
    bench = Bench(data, settings=ENGINE, flags=flags, reactions={"implement": rewriting(number)})
    assert played(bench).exit_code == 0
    proofs = [(proof["definitions"], proof["problem"]) for proof in bench.events("proof")][0 if flags else 1 :]
    expected = [([], "")] * 3
    expected.insert(number, (["setup.cfg"], ""))
    assert proofs == expected
    red = Bench(data, settings=ENGINE, flags=flags, reactions={"implement": rewriting(number)})
    before = number + (0 if flags else 1)
    assert played(red, lambda ran, _command: int(ran >= before)).exit_code == 3
    assert [one["status"] for one in red.items[: number - 1]] == ["done"] * (number - 1)
    reason = red.items[number - 1]["blockedReasons"][0]["reason"]
    assert reason.startswith("verification-1: pytest (with setup.cfg as before): ended with exit status 1")


@pytest.mark.req("EV-04", "EV-25")
def test_what_earlier_work_did_to_definitions_is_said_not_to_be_known(bench: Bench) -> None:
    """Its judges and whoever watches are told; what is changed from now on is compared."""
    bench.data = [item(7, status="in_progress", complexity="complex", verification=["pytest"])]
    bench.settings, bench.reactions = ENGINE, {"implement": rewriting(7)}
    assert played(bench).exit_code == 0
    assert [warning["text"] for warning in bench.events("warning")] == [f"item 7: {UNCOMPARED}"]
    assert [UNCOMPARED in bench.brief(step) for step in ("implement", "validation", "testing", "review")] == [
        *(False, True, True, True)
    ]
    assert [proof["definitions"] for proof in bench.events("proof")] == [[], ["setup.cfg"]]
    fresh = Bench(settings=ENGINE)
    assert played(fresh).exit_code == 0
    assert UNCOMPARED not in fresh.brief("review")


@pytest.mark.req("EV-05", "EV-25")
def test_an_item_that_was_worked_on_before_is_not_expected_to_be_green(bench: Bench) -> None:
    """What failed is in the tree: that it fails still is why somebody goes on with it."""
    reasons = [{"attempt": 3, "source": "Engine", "reason": "npm test fails"}]
    for state in ({"blockedReasons": reasons}, {"status": "in_progress"}, {"retryCount": 1}):
        again = Bench([item(7, **state)], settings=ENGINE)
        assert played(again).exit_code == 0
        assert again.commands == ["npm test", "npm run lint"]


@pytest.mark.req("EV-05")
def test_agents_that_cannot_be_called_are_found_before_the_first_call(bench: Bench) -> None:
    """Whoever runs the commands: exit 3, and the file as it was."""
    simulation = bench.simulate()

    async def unready(agents: Any) -> list[str]:
        assert set(agents) == set(AGENTS)
        return ["agent x cannot be called: not signed in."]

    simulation.world.unready = unready  # type: ignore[method-assign]
    close = simulation.go()
    assert (close.exit_code, bench.calls, bench.items[0]["status"]) == (3, [], "ready")
    assert "not signed in" in close.reason


@pytest.mark.req("RM-83")
@pytest.mark.parametrize("step", ["research", "design", "implement", "validation", "testing", "review"])
def test_an_agent_that_is_blocked_blocks_the_item_at_once(bench: Bench, step: str) -> None:
    """With its own reason, at no cost in retries; exit 3."""
    bench.data = [item(7, complexity="complex")]
    bench.reactions = {step: {"status": "blocked", "issues": ["no access to the registry"]}}
    assert bench.play().exit_code == 3
    assert bench.steps.count(step) == 1
    assert bench.steps[-1] == step
    blocked = bench.items[0]
    assert (blocked["status"], blocked.get("retryCount", 0)) == ("blocked", 0)
    assert blocked["blockedReasons"][-1]["reason"] == "blocked: no access to the registry"


@pytest.mark.req("RM-84")
@pytest.mark.parametrize("step", ["research", "design", "implement"])
def test_an_agent_that_is_not_finished_is_asked_once_more(bench: Bench, step: str) -> None:
    """With its own remark; a second time it blocks the item."""
    bench.data = [item(7, complexity="complex")]
    unfinished = {"status": "needs_revision", "issues": ["half of it is missing"]}
    answers = iter([unfinished, {}])
    bench.reactions = {step: lambda request: with_data(request, **next(answers))}
    assert bench.play().exit_code == 0
    assert bench.steps.count(step) == 2
    assert "- half of it is missing" in bench.brief(step, 1).split("## Failure context")[1]
    stuck = Bench([item(7, complexity="complex")], {step: unfinished})
    assert stuck.play().exit_code == 3
    assert stuck.steps.count(step) == 2
    assert stuck.items[0]["blockedReasons"][-1]["reason"] == "not finished when asked again: half of it is missing"


@pytest.mark.req("RM-84")
@pytest.mark.parametrize("step", ["testing", "review", "validation"])
def test_a_judge_that_wants_a_revision_has_judged_negatively(bench: Bench, step: str) -> None:
    """It goes into the retry loop."""
    bench.data = [item(7, complexity="complex")]
    bench.reactions = {(step, 1): {"status": "needs_revision"}}
    assert bench.play().exit_code == 0
    assert bench.items[0]["retryCount"] == 1


@pytest.mark.req("EN-35")
def test_a_judge_that_changes_code_is_told_and_asked_again(bench: Bench) -> None:
    """The change is not taken over, its patch stands in the failure context; a second time the run stays open."""
    bench.files = {"src/a.ts": "good\n"}
    acts = iter([{"src/a.ts": "evil\n"}, {}])
    bench.reactions = {"review": lambda request: replace(good(request), files=next(acts))}
    assert bench.play().exit_code == 0
    assert bench.steps.count("review") == 2
    assert "+evil" in bench.brief("review", 1).split("## Failure context")[1]
    assert bench.simulation is not None
    assert bench.simulation.world.tree.files["src/a.ts"] == b"good\n"
    stubborn = Bench(files=bench.files, reactions={"review": lambda r: replace(good(r), files={"src/a.ts": "evil\n"})})
    close = stubborn.play()
    assert (close.exit_code, "changed outside its scope: src/a.ts" in close.reason) == (5, True)


@pytest.mark.req("EN-35", "EV-08")
def test_what_a_judges_builds_leave_behind_is_cleared_away_and_it_judges_again(bench: Bench) -> None:
    """What it judged is not what is accepted: its pass counts only for the tree without its own files."""
    bench.reactions = {("testing", 1): lambda request: replace(good(request), files={"dist/out.js": "x"})}
    assert bench.play().exit_code == 0
    assert bench.steps == ["implement", "testing", "testing", "review"]
    assert bench.simulation is not None
    assert "dist/out.js" not in bench.simulation.world.tree.files
    assert "scope.cleaned" in bench.event_names
    assert "dist/out.js" in bench.brief("testing", 1).split("## Failure context")[1]


@pytest.mark.req("RM-88", "CM-04")
@pytest.mark.parametrize("step", ["implement", "testing"])
def test_an_agents_change_to_the_roadmap_is_not_taken_over_and_reported(bench: Bench, step: str) -> None:
    """The engine's version stands, the foreign one is kept; a judge that tampered with it judges again."""
    forged = spelled([item(7, **DONE)])

    def forges(request: Any) -> Act:
        act = good(request)
        return replace(act, files={**act.files, FILE: forged})

    bench.reactions = {(step, 1): forges}
    assert bench.play().exit_code == 0
    assert bench.items[0]["status"] == "done"
    if step == "implement":
        (event,) = bench.events("roadmap.foreign_write")
        assert (event["item"], event["paths"]) == ("7", [FILE])
    (kept,) = bench.events("foreign_write")
    assert bench.simulation is not None
    name = kept["patch"].rpartition("/")[2]
    patches = [text for (_key, record), text in bench.simulation.world.records.kept.items() if record == name]
    assert [b'"done"' in patch for patch in patches] == [True]
    assert bench.steps == ["implement", *["testing"] * (1 + (step == "testing")), "review"]


@pytest.mark.req("RM-85", "CM-26")
def test_reported_and_real_changes_are_compared_and_joined(bench: Bench) -> None:
    """Differences are an event with both lists; later briefs have the union; strange paths are refused and named."""
    files = [
        {"path": "./src/a.ts", "change": "created", "note": "new"},
        {"path": "src/ghost.ts", "note": "never written"},
        {"path": "/etc/passwd"},
        {"path": "../up.ts"},
    ]
    bench.reactions = {
        "implement": lambda request: replace(
            with_data(request, evidence={"files": files}), files={"src/a.ts": "x", "src/b.ts": "y"}
        )
    }
    bench.play()
    (event,) = bench.events("evidence.mismatch")
    assert (event["reported"], event["changed"], event["refused"]) == (
        ["src/a.ts", "src/ghost.ts"],
        ["src/a.ts", "src/b.ts"],
        ["/etc/passwd", "../up.ts"],
    )
    told = bench.brief("testing").split("### Files created or modified")[1].split("```")[1].splitlines()[1:]
    assert told == [
        "- `src/a.ts` (created): new",
        "- `src/ghost.ts` (modified; no change of it was seen): never written",
        "- `src/b.ts` (changed; not reported by Implement)",
    ]
    honest = Bench(
        reactions={
            "implement": lambda request: replace(
                with_data(request, evidence={"files": [{"path": "src/a.ts"}]}), files={"src/a.ts": "x"}
            )
        }
    )
    honest.play()
    assert honest.events("evidence.mismatch") == []


# -- the loop and its ends


@pytest.mark.req("RM-20", "RM-77", "RM-14", "RM-15", "RM-92", "RM-93", "RM-95", "RM-96", "RM-76", "RM-16")
def test_a_roadmap_is_worked_through_in_order_until_complete(bench: Bench) -> None:
    """One item after another, each with its block, the token at the end on a line of its own."""
    bench.data = [
        item("C", priority=1, dependencies=["A"], title="Third"),
        item("A", priority=5, title="First or second"),
        item("B", priority=2, title="Before A", retryCount=0),
    ]
    most: list[int] = []

    def look(request: Any) -> Act:
        most.append(sum(one["status"] == "in_progress" for one in bench.items))
        return good(request)

    bench.reactions = {"implement": look, "review": look}
    close = bench.play()
    assert (close.exit_code, close.output) == (0, f"{TOKEN}\n")
    assert [event["item"] for event in bench.events("item.selected")] == ["B", "A", "C"]
    assert set(most) == {1}
    blocks = bench.output.split("## Orchestration Iteration\n")[1:]
    assert len(blocks) == 3
    assert blocks[0].strip().splitlines() == [
        "- Selected item: B Before A",
        "- Dispatch: Implement#1, Testing#1, Review#1",
        "- Gates: tests=pass, lint=pass, typecheck=pass, build=pass, quality=pass",
        "- State updates: status: ready -> done, passes: false -> true",
        "- Next candidate: A First or second",
    ]
    assert blocks[2].strip().endswith("- Next candidate: COMPLETE")
    assert [event["next"] for event in bench.events("iteration.end")] == ["A First or second", "C Third", "COMPLETE"]
    skipped = bench.events("item.skipped")
    assert [list(event["items"]) for event in skipped] == [[{"item": "C", "waits_on": ["A"]}]] * 2


@pytest.mark.req("RM-94", "RM-95", "RM-96", "RM-92")
def test_the_block_of_a_retried_item(bench: Bench) -> None:
    """All calls with attempt numbers, the gates of the last attempt, old and new values."""
    bench.data = [item(7, complexity="complex")]
    bench.reactions = {"testing": TESTS_FAIL, ("review", 3): REVIEW_FAILS}
    bench.play()
    block = bench.output.split("\n\n")[1].splitlines()
    assert block[1] == (
        "- Dispatch: Research#1, Architect#1, Implement#1, Architect validation#1, Testing#1, Review#1, "
        "Implement#2, Architect validation#2, Testing#2, Review#2, "
        "Implement#3, Architect validation#3, Testing#3, Review#3"
    )
    assert block[2] == "- Gates: tests=fail, lint=fail, typecheck=pass, build=pass, quality=pass, validation=pass"
    assert (
        block[3] == "- State updates: status: ready -> blocked, retryCount: 0 -> 2, blockedReasons: absent -> 8 entries"
    )
    assert block[4] == "- Next candidate: none (1 blocked, 0 waiting)"


@pytest.mark.req("RM-19", "RM-21", "RM-93")
def test_when_nothing_can_be_selected_each_remaining_item_is_explained(bench: Bench) -> None:
    """Exit 3, no token, nothing written, and for each item why."""
    reasons = [{"attempt": 3, "source": "Testing", "reason": "boom"}]
    bench.data = [
        item(3, title="Base", status="blocked", blockedReasons=reasons),
        item(7, title="Login", dependencies=[3]),
        item(8, **DONE),
    ]
    close = bench.play()
    assert (close.status, close.exit_code) == (Status.STOPPED, 3)
    assert close.reason == "no selectable item: 7 waits on 3 (blocked)"
    assert str(close.output).splitlines()[1:] == ["- 3 Base: blocked: boom", "- 7 Login: ready; waits on 3 (blocked)"]
    assert TOKEN not in str(close.output)
    assert bench.simulation is not None
    assert bench.simulation.world.records.identity is None
    only = Bench([item(3, status="blocked")])
    assert only.play().reason == "no selectable item: 3 is blocked"


@pytest.mark.req("RM-20", "CM-23", "EN-24")
def test_a_finished_roadmap_prints_the_token_again_and_changes_nothing(bench: Bench) -> None:
    """No dispatch, no write, no run folder."""
    bench.data = [item(7, **DONE), item(8, **DONE)]
    before = spelled(bench.data)
    close = bench.play()
    assert (close.exit_code, close.output) == (0, f"{TOKEN}\n")
    assert bench.written == before
    assert bench.calls == []
    assert bench.simulation is not None
    assert bench.simulation.world.records.identity is None


@pytest.mark.req("RM-77", "RM-76", "RM-21", "EN-21")
def test_once_does_one_iteration_and_says_what_is_next(bench: Bench) -> None:
    """Exit 0, one item done, no token; the last item brings the token, because then all pass."""
    bench.data = [item(1), item(2)]
    bench.flags = {"once": True}
    close = bench.play()
    assert (close.status, close.exit_code, close.output) == (Status.COMPLETE, 0, "")
    assert close.reason == "one iteration done; next candidate: 2 Item 2"
    assert [one["status"] for one in bench.items] == ["done", "ready"]
    last = Bench(bench.items, flags={"once": True})
    assert last.play().output == f"{TOKEN}\n"
    assert last.steps == ["implement", "testing", "review"]


@pytest.mark.req("EN-21")
@pytest.mark.parametrize("once_first", [False, True])
def test_once_is_an_option_of_the_process_not_of_the_run(bench: Bench, once_first: bool) -> None:
    """A run may be begun without it and gone on with it after a crash, or the other way round; replay does not care."""
    bench.data = [item(1), item(2), item(3)]
    crash_in = 1 if once_first else 2

    def crashing(request: Any) -> Act:
        crash = request.dispatch.startswith(f"item-{crash_in}/") and len(bench.calls) == 3 * crash_in - 1
        return replace(good(request), crash=crash)

    bench.reactions = {"testing": crashing}
    simulation = bench.simulate()
    once, loop = (replace(simulation.options, flags={"once": flag}) for flag in (True, False))
    with pytest.raises(Crash):
        simulation.go(options=once if once_first else loop)
    close = simulation.go(options=loop if once_first else once)
    assert close.exit_code == 0
    done = [one["id"] for one in bench.items if one["status"] == "done"]
    assert done == ([1, 2, 3] if once_first else [1, 2])


@pytest.mark.req("RM-01", "RM-02", "CM-05")
def test_a_change_between_two_items_is_honoured(bench: Bench) -> None:
    """The file is read anew for each iteration: a new item, another priority, another title count."""
    bench.data = [item(1), item(2), item(3)]

    simulation = bench.simulate()

    def after_first(text: str | bytes) -> None:
        if "Selected item: 1 " in str(text):
            items = json.loads(simulation.world.tree.files[FILE])
            items[2]["priority"] = 0
            items.insert(0, item(4, priority=-1, title="Urgent"))
            simulation.world.tree.put(FILE, spelled(items).encode())

    class Watching(list[Any]):
        def append(self, text: Any) -> None:
            super().append(text)
            after_first(text)

    simulation.said = Watching()
    assert simulation.go().exit_code == 0
    assert [event["item"] for event in bench.events("item.selected")] == ["1", "4", "3", "2"]
    assert [one["id"] for one in bench.items] == [4, 1, 2, 3]


@pytest.mark.req("RM-98", "EN-27")
@pytest.mark.parametrize("retries", [0, 1])
def test_an_item_left_in_progress_is_resumed_first_with_its_retries_kept(bench: Bench, retries: int) -> None:
    """Without a journal its pipeline restarts; the briefs say that earlier evidence is not available."""
    bench.data = [
        item(1, priority=0),
        item(7, complexity="medium", status="in_progress", retryCount=retries, priority=9),
    ]
    bench.reactions = {("testing", 1): TESTS_FAIL, ("testing", 2): TESTS_FAIL, ("testing", 3): TESTS_FAIL}
    assert bench.play().exit_code == 3
    assert bench.steps[:2] == ["research", "design"]
    assert bench.steps.count("implement") == 3 - retries
    assert bench.items[1]["retryCount"] == 2
    assert bench.items[0]["status"] == "ready"
    assert "is not available" in bench.brief("research")
    assert "is not available" in bench.brief("implement")
    assert ("This is retry 1/2" in bench.brief("implement")) == (retries == 1)


# -- writing


@pytest.mark.req("RM-89")
def test_a_file_that_cannot_be_written_stops_before_any_dispatch(bench: Bench) -> None:
    """Exit 5, the item stays ready, the run can go on when it is mended."""
    simulation = bench.simulate()
    real = simulation.world.documents.write

    def refuse(path: str, *_more: Any, **_named: Any) -> Any:
        raise WorkspaceFailed(f"cannot write {path}: permission denied", where=path)

    simulation.world.documents.write = refuse  # type: ignore[method-assign]
    with pytest.raises(WorkspaceFailed) as caught:
        simulation.go()
    assert (caught.value.what, caught.value.exit_code) == (
        "cannot write roadmap.json: permission denied; item 7 stays ready",
        5,
    )
    assert bench.calls == []
    assert bench.items[0]["status"] == "ready"
    simulation.world.documents.write = real  # type: ignore[method-assign]
    assert simulation.go().exit_code == 0


@pytest.mark.req("RM-91", "EN-23", "CM-05")
def test_an_edit_between_reading_and_writing_survives(bench: Bench) -> None:
    """Another item is edited at the very moment of each write: both changes are in the file."""
    bench.data = [item(7), item(8, status="blocked", notes=0)]
    simulation = bench.simulate()
    documents, writes = simulation.world.documents, []
    real = documents.write

    def meddling(path: str, content: Any, *, expect: str | None = None) -> Any:
        if len(writes) % 2 == 0:
            data = json.loads(simulation.world.tree.files[FILE])
            data[1]["notes"] += 1
            simulation.world.tree.put(FILE, spelled(data).encode())
        writes.append(expect)
        return real(path, content, expect=expect)

    documents.write = meddling  # type: ignore[method-assign]
    assert simulation.go().exit_code == 3
    assert (bench.items[0]["status"], bench.items[1]["notes"]) == ("done", 2)
    assert len(writes) == 4


@pytest.mark.req("RM-91", "EN-23")
@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"acceptanceCriteria": ["Something else."]}, ["7", "7"]),
        ({"status": "blocked"}, ["7", "8"]),
        ({"notes": "only a remark", "priority": 4}, ["7", "8"]),
    ],
)
def test_an_edit_of_the_item_itself_is_never_overwritten(
    bench: Bench, edit: dict[str, Any], expected: list[str]
) -> None:
    """What the person wrote stands: changed work starts over, a changed state decides, a remark disturbs nothing."""
    bench.data = [item(7), item(8, priority=2)]
    simulation = bench.simulate()
    real, edited = simulation.world.documents.write, []

    def meddling(path: str, content: Any, *, expect: str | None = None) -> Any:
        if b'"passes": true' in content and not edited:
            edited.append(True)
            data = json.loads(simulation.world.tree.files[FILE])
            data[0] |= edit
            simulation.world.tree.put(FILE, spelled(data).encode())
        return real(path, content, expect=expect)

    simulation.world.documents.write = meddling  # type: ignore[method-assign]
    simulation.go()
    assert [event["item"] for event in bench.events("item.selected")][:2] == expected
    assert {name: bench.items[0][name] for name in edit if name != "status"} == {
        name: value for name, value in edit.items() if name != "status"
    }
    if edit.get("status"):
        assert bench.items[0]["status"] == "blocked"
    else:
        assert bench.items[0]["status"] == "done"
    assert bool(bench.events("item.edited")) == ("notes" not in edit)
