"""What stands behind a verdict: read from every shape, and weighed by one rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.contracts import (
    Answer,
    Check,
    Claim,
    Contract,
    Evidence,
    Judgement,
    Outcome,
    Reason,
    judge,
)
from interlock.contracts.evidence import NO_COMMAND
from tests.playbooks.answer_words import PLAIN

GREEN = Evidence((Check("make test", 0),))


def weighed(claim: Claim, outcome: Outcome = Outcome.OK) -> Judgement:
    contract = Contract(answer=PLAIN, claim=lambda _data, _texts: claim)
    return judge(contract, Answer(outcome), ())


AGAINST = {
    "`npm test` ended with exit status 1: 3 failing": Evidence((Check("npm test", 1, "3 failing"),)),
    "`npm test` ended with exit status 0: 1 failed, 3 passed": Evidence((Check("npm test", 0, "1 failed, 3 passed"),)),
    "`npm test` ended with non-zero": Evidence((*GREEN.checks, Check("npm test", said="non-zero"))),
    "2 tests failed": Evidence(GREEN.checks, failed=2),
    "failure listed: test_login: 401": Evidence(GREEN.checks, failures=("test_login: 401",)),
    "build: fail": Evidence(GREEN.checks, marks={"lint": "pass", "build": "fail"}),
    "criterion not met: names are trimmed": Evidence(GREEN.checks, unmet=("names are trimmed",)),
    "blocking issue: data is lost": Evidence(GREEN.checks, blocking=("data is lost",)),
}


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("said", AGAINST)
def test_a_pass_against_its_own_evidence_is_the_negative_verdict(said: str) -> None:
    """Whatever kind of evidence it is; the reason quotes it."""
    judgement = weighed(Claim(True, AGAINST[said]))
    assert (judgement.outcome, judgement.reason) == (Outcome.REVISE, Reason.CONTRADICTED)
    assert judgement.complaints == (f"says pass, but: {said}",)
    assert judgement.evidence == AGAINST[said]
    assert judgement.passed is False


@pytest.mark.req("EV-01")
def test_a_fail_needs_no_contradiction() -> None:
    """Who says fail, and shows why, is believed."""
    assert weighed(Claim(False, AGAINST["2 tests failed"])).outcome is Outcome.OK
    assert weighed(Claim(True, AGAINST["2 tests failed"]), Outcome.REVISE).reason is None


@pytest.mark.req("EV-02")
@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(),
        Evidence(marks={"lint": "pass", "typecheck": "pass", "build": "pass", "quality": "pass"}),
        Evidence((Check("npm test"),)),
        Evidence((Check("npm test", said="as it should"),)),
        Evidence((*GREEN.checks, Check("npm test", said="as it should"))),
        *(Evidence((Check(idle, 0),)) for idle in ("true", "echo ok", ":", "npm test || true", "npm test; echo $?")),
        Evidence(passed=12),
    ],
)
def test_words_alone_are_no_evidence(evidence: Evidence) -> None:
    """A pass without a command and its exit status cannot be used: the judge is asked again."""
    judgement = weighed(Claim(True, evidence))
    assert (judgement.outcome, judgement.reason) == (Outcome.FAIL, Reason.CONTRACT_VIOLATION)
    assert "exit status" in judgement.complaints[0]


@pytest.mark.req("EV-02")
def test_nobody_says_that_there_is_nothing_to_run_where_there_is() -> None:
    """What is named is to be run; whoever ran something has no need to say it."""
    judgement = weighed(Claim(True, Evidence(nothing_to_run="I trust it"), named=("make test", "make lint")))
    assert (judgement.outcome, judgement.reason) == (Outcome.FAIL, Reason.CONTRACT_VIOLATION)
    assert judgement.complaints == ("there is something to run: `make test`; run it, and show how it ended",)
    both = Evidence(GREEN.checks, nothing_to_run="beside it")
    assert weighed(Claim(True, both, named=("make test",))).passed is True
    assert weighed(Claim(False, Evidence(nothing_to_run="why"), named=("make test",))).passed is False


@pytest.mark.req("EV-02")
def test_a_command_or_a_reason_is_evidence() -> None:
    """What passes is worth what it claims, and what a judge says against the work too."""
    assert weighed(Claim(True, GREEN)) == Judgement(Outcome.OK, evidence=GREEN, passed=True)
    assert weighed(Claim(False, Evidence())) == Judgement(Outcome.OK, passed=False)
    assert Evidence(nothing_to_run="it is prose only").lack == GREEN.lack == ""
    assert weighed(Claim(True, Evidence(nothing_to_run="it is prose only"))).outcome is Outcome.OK
    assert weighed(Claim(True, Evidence(), shows=False)).outcome is Outcome.OK


def test_many_contradictions_are_counted() -> None:
    """Three of a kind are quoted."""
    many = Evidence(GREEN.checks, failures=tuple(f"t{number}" for number in range(9)))
    assert many.contradictions[-1] == "failure listed: and 6 more"
    assert len(many.contradictions) == 4
    three = Evidence(GREEN.checks, failures=("t1", "t2", "t3"))
    assert three.contradictions == ("failure listed: t1", "failure listed: t2", "failure listed: t3")
    assert Check("make", 2).shown == "`make` ended with exit status 2"


@pytest.mark.parametrize("evidence", [Evidence(), GREEN, *AGAINST.values(), Evidence(passed=3, nothing_to_run="why")])
def test_evidence_is_kept_as_plain_data(evidence: Evidence) -> None:
    """Only what is there, and the same when it is read again."""
    data = json.loads(json.dumps(evidence.to_json()))
    assert Evidence.from_json(data) == evidence
    assert all(data.values())
    assert Evidence().to_json() == {}


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"tests": {"unit": {"failed": "3"}}}, "tests.unit.failed: 3"),
        ({"criteria": [{"id": "AC1", "met": False}]}, "criteria.met: False"),
        ({"checks": {"e2e": "FAILED"}}, "checks.e2e: FAILED"),
        ({"suites": [{"runs": {"a": {"cmd": ["npm", "t"], "rc": 1}}}]}, "`npm t` ended with exit status 1"),
        ({"failures": "login broke"}, "failures: login broke"),
    ],
)
def test_what_nobody_asked_for_speaks_against_a_pass_too(data: dict[str, Any], said: str) -> None:
    """Whatever in the data of an answer says that something failed, however deep it stands."""
    assert weighed(Claim(True, GREEN, data=data)).complaints == (f"says pass, but: {said}",)
    assert weighed(Claim(False, GREEN, data=data)).outcome is Outcome.OK


def test_what_says_that_nothing_failed_speaks_against_nobody() -> None:
    """Numbers that are 0, empty lists, words for none, and words that are about something else."""
    data = {"failed": 0, "errors": [], "failures": "none", "unmet": "0", "breaking": "no", "colour": "red", "ok": True}
    assert weighed(Claim(True, GREEN, data={"tests": data, "n": [1, "x", None]})).passed is True


@pytest.mark.req("EV-02")
@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ((Check("true", 0),), f"`true` ends well whatever happens, and shows nothing; {NO_COMMAND}"),
        ((Check("true"), Check("make")), NO_COMMAND),
        (
            (Check("make"), Check("pytest", 0, "0 tests ran")),
            f"`pytest` ran nothing (0 tests ran), and shows nothing; {NO_COMMAND}",
        ),
        ((Check("true", 0), Check("make", 0)), ""),
    ],
)
def test_whoever_is_asked_again_is_told_why(checks: tuple[Check, ...], said: str) -> None:
    """By the command that shows nothing, if there is one that ended."""
    assert Evidence(checks).lack == said


@pytest.mark.req("EV-01")
def test_marks_of_a_report_speak_against_a_pass() -> None:
    """Where nothing that was asked for does; a claim that was read from nothing has none."""
    report = "- `make test`: exit 0\n\nBuild: red\n\n- [ ] names are trimmed\n"
    said = weighed(Claim(True, GREEN, text=report)).complaints
    assert said == ("says pass, but: criterion not met: names are trimmed", "says pass, but: Build: red")
    failed = Evidence(GREEN.checks, failed=1)
    assert weighed(Claim(True, failed, text=report)).complaints == ("says pass, but: 1 test failed",)
    assert (Claim(True).text, Claim(True).data) == ("", {})


def test_how_a_command_ended_is_kept_once() -> None:
    assert Evidence((Check("make", 0),)).to_json()["checks"] == [{"command": "make", "exit": 0, "summary": ""}]
    assert Evidence((Check("make", said="red"),)).to_json()["checks"][0]["said"] == "red"


def test_the_evidence_of_a_fail_is_what_was_asked_for() -> None:
    """Nothing else is looked for that could speak against it."""
    assert weighed(Claim(False, GREEN, data={"failed": 1}, text="Build: red")).evidence == GREEN
