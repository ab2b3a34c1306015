"""What counts of a dispatch beside its files: its own evidence, whether it changed anything, what it did to tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.contracts import (
    PLAIN,
    AnswerFormat,
    Artifact,
    Check,
    Claim,
    Contract,
    Evidence,
    Outcome,
    checks_in_data,
)
from interlock.engine import Dispatch, Ending, Kind, Retries, Run, Status
from tests.conformance.harness import Engine, also, in_turn, instead, reacting
from tests.engine.toys import Work, single, toy

Start = Callable[..., Engine]
FILES = {"README.md": "hello\n", "app.py": "x = 1\n", "tests/test_app.py": "def test_x():\n    assert True\n"}
REPAIRED = Retries(contract=1)


def said(data: Mapping[str, Any], _texts: Mapping[str, str]) -> Claim:
    return Claim(data.get("verdict") == "pass", Evidence(checks_in_data(data.get("ran"))))


ANSWER = AnswerFormat({"DONE": Outcome.OK, "ERROR": Outcome.FAIL}, "DONE", completion="text")
JUDGE = Dispatch("judge", "Judge it.", Contract(answer=ANSWER, claim=said), kind=Kind.JUDGE)
MAKER = Dispatch("maker", "Mend it.", Contract(answer=PLAIN, must_change=True), writes=("**",))


def judged(verdict: str, *exits: int) -> dict[str, Any]:
    ran = [{"command": "make test", "exit": code} for code in exits]
    return {"message": f"```json\n{json.dumps({'status': 'DONE', 'verdict': verdict, 'ran': ran})}\n```\n"}


async def made_and_judged(run: Run, _work: Work) -> Ending:
    await run.dispatch(MAKER)
    await run.dispatch(JUDGE)
    return Ending.complete()


def reports(played: Engine) -> list[dict[str, Any]]:
    return [line.data["out"] for line in played.events("dispatch.end")]


@pytest.mark.req("EV-01")
def test_a_pass_against_its_own_evidence_counts_as_the_negative_verdict(engine: Start) -> None:
    """It is not repeated, the reason quotes the command, and the evidence is in the report."""
    played = engine(single(JUDGE, retries=REPAIRED), Work(), FILES, reacting(judge=instead(**judged("pass", 0, 2))))
    assert played.go().reason == "contradicted"
    (report,) = reports(played)
    assert (report["outcome"], report["tries"]) == ("REVISE", 1)
    assert report["complaints"] == ["says pass, but: `make test` ended with exit status 2"]
    assert report["evidence"]["checks"][1] == {"command": "make test", "exit": 2, "summary": ""}


@pytest.mark.req("EV-02", "EV-03")
def test_a_judge_without_evidence_is_asked_again_itself(engine: Start) -> None:
    """Once, with the complaint; the second answer counts."""
    agent = reacting(judge=in_turn(instead(**judged("pass")), instead(**judged("pass", 0))))
    played = engine(single(JUDGE, retries=REPAIRED), Work(), FILES, agent)
    assert played.go().status is Status.COMPLETE
    first, second = (call.brief for call in played.calls)
    assert "at least one command" not in first
    assert "at least one command that was run, with its exit status" in second


@pytest.mark.req("EV-06")
def test_no_change_is_no_success(engine: Start) -> None:
    """Asked again once; who still changes nothing, and says nothing, has failed with `no_change`."""
    played = engine(single(MAKER, retries=REPAIRED), Work(), FILES)
    assert played.go().reason == "no_change"
    (report,) = reports(played)
    assert (report["outcome"], report["tries"], report["accepted"]) == ("FAIL", 2, False)
    assert "No change: the reason" in played.calls[1].brief
    working = engine(
        single(MAKER, retries=REPAIRED), Work(), FILES, reacting(maker=in_turn(None, also({"app.py": "x = 2\n"})))
    )
    assert working.go().status is Status.COMPLETE


@pytest.mark.req("EV-06")
def test_a_claim_that_nothing_needs_changing_goes_to_the_judges(engine: Start) -> None:
    """It counts, is an event, and stands in the judge's brief."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(MAKER)
        report = await run.dispatch(JUDGE)
        return Ending.complete() if report.ok else Ending.stopped(str(report.reason))

    agent = reacting(
        maker=instead(message="No change: it is done already\n\nDONE: nothing to do"),
        judge=instead(**judged("pass", 0)),
    )
    played = engine(toy(body), Work(), FILES, agent)
    assert played.go().status is Status.COMPLETE
    (noticed,) = played.events("work.noticed")
    assert noticed.data["what"] == ["maker changed nothing, because: it is done already"]
    assert "maker changed nothing, because: it is done already" in played.calls[1].brief


@pytest.mark.req("EV-08")
def test_a_pass_counts_only_for_the_tree_that_is_accepted(engine: Start) -> None:
    """A judge that wrote is asked once more, without what it wrote; who does so again has not passed anything."""
    helped = also({"conftest.py": "collect_ignore = ['tests']\n"}, **judged("pass", 0))
    clean = instead(**judged("pass", 0))
    played = engine(single(JUDGE, retries=REPAIRED), Work(), FILES, reacting(judge=in_turn(helped, clean)))
    assert played.go().status is Status.COMPLETE
    assert "conftest.py" in played.calls[1].brief
    assert played.files == FILES
    stubborn = engine(single(JUDGE, retries=REPAIRED), Work(), FILES, reacting(judge=helped))
    assert stubborn.go().reason == "contract_violation"
    assert stubborn.files == FILES


@pytest.mark.req("EV-08")
def test_what_a_judge_wrote_about_another_tree_is_not_its_answer(engine: Start) -> None:
    """Asked again and doing nothing more, it has left no report: that of the first time does not count."""
    spec = replace(JUDGE, contract=Contract((Artifact("report.md"),), PLAIN))
    helped = also({"conftest.py": "x = 1\n"})
    idle = instead(files={})
    played = engine(single(spec, retries=REPAIRED), Work(), FILES, reacting(judge=in_turn(helped, idle)))
    assert played.go().reason == "contract_violation"
    assert reports(played)[0]["complaints"] == ["report.md: missing"]
    diligent = engine(single(spec, retries=REPAIRED), Work(), FILES, reacting(judge=in_turn(helped, None)))
    assert diligent.go().status is Status.COMPLETE


@pytest.mark.req("EV-08", "LY-05")
def test_a_verdict_whose_report_could_not_be_taken_over_is_none(engine: Start) -> None:
    """A person wrote to the same document meanwhile: the dispatch failed, and so its pass does not count."""
    spec = replace(JUDGE, contract=Contract((Artifact("report.md"),), ANSWER, claim=said))
    agent = reacting(
        judge=instead(files={"report.md": "mine\n"}, people={"report.md": "theirs\n"}, **judged("pass", 0))
    )
    played = engine(single(spec), Work(), FILES, agent)
    played.go()
    (report,) = reports(played)
    assert (report["outcome"], report["passed"]) == ("FAIL", None)


@pytest.mark.req("EV-08", "LY-33")
def test_a_judge_that_may_add_tests_may_not_change_the_question(engine: Start) -> None:
    """Its test is kept; what says which tests there are, and how they are run, is not its to write."""
    spec = replace(JUDGE, writes=("tests/**",))
    tests = {"tests/test_more.py": "def test_more():\n    assert True\n"}
    planted = {"tests/conftest.py": "collect_ignore = ['test_app.py']\n", "tests/.gitignore": "*\n"}
    steps = in_turn(also({**tests, **planted}, **judged("pass", 0)), also(tests, **judged("pass", 0)))
    played = engine(single(spec, retries=REPAIRED), Work(), FILES, reacting(judge=steps))
    assert played.go().status is Status.COMPLETE
    assert "tests/conftest.py" in played.calls[1].brief
    assert played.files == {**FILES, **tests}


WEAKER: dict[str, dict[str, str | None]] = {
    "maker deletes tests/test_app.py": {"app.py": "x = 2\n", "tests/test_app.py": None},
    "maker removes 1 test from tests/test_app.py": {"tests/test_app.py": "\n"},
    "maker switches a check off in tests/test_app.py: @pytest.mark.skip": {
        "tests/test_app.py": "@pytest.mark.skip\ndef test_x():\n    assert True\n"
    },
    "maker adds conftest.py, which says how tests and checks are run": {"conftest.py": "x = 1\n"},
}


@pytest.mark.parametrize("what", WEAKER)
def test_what_was_done_to_tests_is_told_to_the_next_judge(engine: Start, what: str) -> None:
    """And to whoever watches; the work itself counts."""

    played = engine(
        toy(made_and_judged), Work(), FILES, reacting(maker=also(WEAKER[what]), judge=instead(**judged("pass", 0)))
    )
    assert played.go().status is Status.COMPLETE
    assert what in played.calls[1].brief
    assert what in played.events("work.noticed")[0].data["what"]
    assert Check("make test", 0) == Evidence.from_json(reports(played)[1]["evidence"]).checks[0]


@pytest.mark.req("EV-14")
def test_what_decides_the_checks_is_told_also_where_git_ignores_it(engine: Start) -> None:
    """It comes along with the work, and no later comparison would show it."""
    agent = reacting(maker=instead(files={"app.py": "x = 2\n", "conftest.py": "collect_ignore = ['tests']\n"}))
    played = engine(single(MAKER), Work(), {**FILES, ".gitignore": "conftest.py\n"}, agent)
    assert played.go().status is Status.COMPLETE
    (noticed,) = played.events("work.noticed")
    assert "conftest.py, which says how tests and checks are run" in str(noticed.data)
    assert played.kind == "simulated" or "where git ignores it" in str(noticed.data)  # nothing is ignored in memory


@pytest.mark.req("EV-14", "LY-08")
def test_programs_that_run_tests_are_told_where_git_ignores_them(engine: Start) -> None:
    """They come along with the work, and every later check would run them."""
    agent = reacting(
        maker=also({"app.py": "x = 2\n", ".venv/bin/pytest": "exit 0\n", "out/x.log": "1\n"}),
        judge=instead(**judged("pass", 0)),
    )
    played = engine(toy(made_and_judged), Work(), {**FILES, ".gitignore": ".venv/\nout/\n"}, agent)
    assert played.go().status is Status.COMPLETE
    if played.kind == "real":  # nothing is ignored in memory
        said = "wrote 1 file in .venv/, where the programs are that run tests"
        assert said in played.calls[1].brief and "out/" not in str(played.events("work.noticed")[0].data)


@pytest.mark.req("EV-04", "EV-14")
def test_much_that_is_noticed_hides_nothing(engine: Start) -> None:
    """What is left out of a judge's brief is counted there."""
    many = {f"tests/test_{number:02}.py": "@pytest.mark.skip\ndef test_x(): ...\n" for number in range(25)}
    played = engine(toy(made_and_judged), Work(), FILES, reacting(maker=also(many), judge=instead(**judged("pass", 0))))
    assert played.go().status is Status.COMPLETE
    assert "and 5 more of the kind: see its difference" in played.calls[1].brief
