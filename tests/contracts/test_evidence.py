"""What stands behind a verdict: read from every shape, and weighed by one rule."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import (
    Answer,
    Check,
    Claim,
    Contract,
    Evidence,
    Judgement,
    Outcome,
    Reason,
    checks_in_data,
    checks_in_text,
    judge,
    nothing_to_run,
)
from tests.playbooks.answer_words import PLAIN

GREEN = Evidence((Check("make test", 0),))


def weighed(claim: Claim, outcome: Outcome = Outcome.OK) -> Judgement:
    contract = Contract(answer=PLAIN, claim=lambda _data, _texts: claim)
    return judge(contract, Answer(outcome), ())


AGAINST = {
    "`npm test` ended with exit status 1: 3 failing": Evidence((Check("npm test", 1, "3 failing"),)),
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
        Evidence(passed=12),
    ],
)
def test_words_alone_are_no_evidence(evidence: Evidence) -> None:
    """A pass without a command and its exit status cannot be used: the judge is asked again."""
    judgement = weighed(Claim(True, evidence))
    assert (judgement.outcome, judgement.reason) == (Outcome.FAIL, Reason.CONTRACT_VIOLATION)
    assert "exit status" in judgement.complaints[0]


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


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ("- `npm test`: exit 0", [Check("npm test", 0)]),
        ("| `make all` | exit status 2 |", [Check("make all", 2)]),
        ("Ran ``echo `id` `` and it exited with 1.", [Check("echo `id`", 1)]),
        ("- `pytest -q` → exit code: **5**", [Check("pytest -q", 5)]),
        ("`a` exit 0\n\n> `b`: exit 1\n\n```\n`c`: exit 1\n```\n", [Check("a", 0)]),
        ("`npm test` passed", []),
        ("exit 0", []),
    ],
)
def test_commands_are_read_from_text(text: str, checks: list[Check]) -> None:
    """A command as code and its status on one line; what is quoted or code is nobody's word."""
    assert list(checks_in_text(text)) == checks


def test_commands_are_read_from_data() -> None:
    """Objects and lines, however the status is spelled."""
    given = [
        {"command": "make", "exit": 0, "summary": "ok"},
        {"command": "a\n b", "exitCode": "3"},
        {"command": "c", "exit": True},
        "`npm test`: exit 1",
        "make lint",
        7,
        "  ",
        {"cmd": "x"},
    ]
    assert checks_in_data(given) == (
        Check("make", 0, "ok"),
        Check("a b", 3),
        Check("c"),
        Check("npm test", 1),
        Check("make lint"),
    )
    assert checks_in_data("make") == checks_in_data(None) == ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["command", "exit", "summary"]), x),
    )
)
def test_reading_is_total(value: object) -> None:
    """Whatever an agent hands over."""
    assert all(isinstance(check, Check) for check in checks_in_data(value))
    assert isinstance(checks_in_text(str(value)), tuple)


def test_a_reason_for_running_nothing() -> None:
    assert nothing_to_run("- **Nothing to run**: documentation only\n") == "documentation only"
    assert nothing_to_run("> Nothing to run: so they say\n") == ""
